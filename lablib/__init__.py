"""lablib: a lab about language-model inference on MLX.

Import it before ``mlx``: it puts the fast BLAS in place, and that cannot be changed afterwards. The
names below load what they need when they are first used, so that importing the package is quick.
"""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    del sys.path[0]  # where one stands, perhaps among students' modules; the command needs none

from lablib.installed import complaint

try:
    from lablib.lazy import exports
    from lablib.machine import backend, open_files
except Exception as error:
    why = complaint(error) if sys.argv[:1] == ["-m"] else ""
    if why:  # the command, before the install
        print(f"lablib: {why}", file=sys.stderr)
        sys.exit(2)
    raise

backend.configure()
open_files.ask_for_no_more()

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.definitions": "by_definition",
        "lablib.machine.backend": "set_threads",
        "lablib.course": "check hint progress solution",
        "lablib.inference": (
            "AdaptiveLength AsyncMlxLM Drafter EarlyExit Head NGram Proposal Sampler "
            "SamplerOptions SpeculativeTokenIterator TokenIterator Tree best_of_n "
            "majority_vote pass_at_k sample_many sample_n sampled_by samples speculative_batch "
            "speculative_decode speculative_sample_n vote_until"
        ),
        "lablib.machine.doctor": "doctor",
        "lablib.course.lessons.lesson_08.enumeration": "bias",
        "lablib.inference.sampling": "menu transforms",
        "lablib.inference.speculation": "rules",
        "lablib.models": ("LanguageModel gpt_config hybrid_config llama_config load load_head"),
        "lablib.course.plots.chat": "chat",
        "lablib.text": "Completion generate on_text stream",
        "lablib.tools.forecast": "forecast",
        "lablib.tools.saving": "save",
    },
)
