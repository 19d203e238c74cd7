"""lablib: a lab about language-model inference on MLX.

Import it before ``mlx``: it puts the fast BLAS in place, and that cannot be changed afterwards. The
names below load what they need when they are first used, so that importing the package is quick.

    ==========================  ================================================================
    load(name)                  a shipped model, a folder or a hub's model, with its tokenizer
    generate, stream            text from a text, a conversation, ids, or several; n= of each
    chat                        a conversation in a notebook
    samples, sample_n           many completions of prompts, of one prompt, with drafts or without
    sample_many                 a queue of prompts, by continuous batching
    best_of_n                   the completion with the best score
    majority_vote, vote_until   the answer that most completions give; until it is sure
    vote_many, best_of_n_many   the same of many problems, one result after the other
    speculative_decode          a text with the help of a draft model, and the statistics
    TokenIterator               token by token, with a promise about the cache
    SpeculativeTokenIterator    the same with drafts: look-up (NGram), models, heads, trees
    Engine                      a server's: requests join a running batch, and stream
    AsyncMlxLM                  many callers at once, who share what they have in common
    SamplerOptions, Sampler     how a token is drawn; slots for a loop of one's own
    same_bits                   a text's logits to the last bit, however it is read
    logprobs                    how likely a text is that is there already
    menu, rules, transforms     logits processors; how drafts are kept; penalties and cuts
    forecast, doctor            what drafts would bring here; whether this machine is set up well
    audit                       whether an engine, ours or another, is lossless
    lablib.inference            all of these, grammars, particles, beams and more
    ==========================  ================================================================
"""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    del sys.path[0]  # where one stands, perhaps among students' modules; the command needs none

from lablib.installed import complaint

try:
    from lablib.lazy import exports, package
    from lablib.machine import backend, open_files
except Exception as error:
    why = complaint(error) if sys.argv[:1] == ["-m"] else ""
    if why:  # the command, before the install
        print(f"lablib: {why}", file=sys.stderr)
        sys.exit(2)
    raise

backend.configure()
open_files.ask_for_no_more()
package("mlx_lm", TRANSFORMERS_NO_ADVISORY_WARNINGS="1")

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.cache.same_bits": "same_bits",
        "lablib.definitions": "by_definition",
        "lablib.machine.backend": "set_threads",
        "lablib.course": "check hint progress solution",
        "lablib.inference": (
            "AdaptiveLength AsyncMlxLM Block Drafter EarlyExit Head LookupFirst NGram NGramPool "
            "Proposal Sampler SamplerOptions SpeculativeTokenIterator Tempered TokenIterator Tree "
            "best_of_n best_of_n_many logprobs majority_vote pass_at_k sample_many sample_n "
            "sampled_by samples speculative_batch speculative_decode speculative_sample_n "
            "vote_many vote_until"
        ),
        "lablib.machine.doctor": "doctor",
        "lablib.course.lessons.lesson_08.enumeration": "bias",
        "lablib.inference.sampling": "menu transforms",
        "lablib.inference.speculation": "rules",
        "lablib.models": (
            "LanguageModel gpt_config hybrid_config llama_config load load_block load_head"
        ),
        "lablib.course.plots.chat": "chat",
        "lablib.tools.audit": "audit",
        "lablib.completion": "Completion",
        "lablib.text": "generate on_text",
        "lablib.text_stream": "stream",
        "lablib.engine": "Engine",
        "lablib.tools.forecast": "forecast",
        "lablib.tools.saving": "save",
        "lablib.version": "__version__",
    },
)
