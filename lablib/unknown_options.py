"""Refuses an option that a function doesn't know, in one line, and names the one that was meant.

What a function knows is said once, by its signature: ``**options: Unpack[T]`` takes what the table
``T`` of ``inference/keywords.py`` lists. Such a function begins with :func:`check_options`; one
without ``**options`` is marked ``@checks_options``, and so is a class, for its constructor.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache, wraps
from typing import Any, NoReturn, TypeVar, get_args

from lablib.validation import BadType

Entry = TypeVar("Entry", bound=Callable[..., Any])

_GRAMMAR = "logits_processors=[lablib.inference.steering.Grammar(...)]"

# Options of mlx-lm, Hugging Face, vLLM, llama.cpp and OpenAI's API -> their counterparts here.
_ELSEWHERE = {
    "draft": "draft_model=",
    "drafter": "draft_model=",
    "gamma": "draft_tokens=",
    "stop_words": "stop=",
    "reward_fn": "score_fn=",
    "temp": "temperature=",
    "max_new_tokens": "max_tokens=",
    "max_completion_tokens": "max_tokens=",
    "n_predict": "max_tokens=",
    "num_predict": "max_tokens=",
    "max_length": "max_tokens=, which counts new tokens only",
    "max_tokens": "max_tokens=, of what draws the text: generate, samples, votes",
    "streamer": "stream(), which gives the text as it comes",
    "prompts": "prompt=, which may be a list",
    "input_ids": "prompt=, which takes token ids, too",
    "inputs": "prompt=, which takes token ids, too",
    "prompt_token_ids": "prompt=, which takes token ids, too",
    "prompt_logprobs": "lablib.logprobs(model, ids)",
    "system": 'messages=[{"role": "system", "content": ...}, ...]',
    "n": "n=, of generate, or sample_n(model, prompt, n)",
    "num_return_sequences": "n=, of generate, or sample_n(model, prompt, n)",
    "best_of": "best_of_n(model, prompt, n)",
    "num_samples": "n=, of generate, or sample_n(model, prompt, n)",
    "use_beam_search": "lablib.inference.beam_search(lm, prompt, width)",
    "num_beams": "lablib.inference.beam_search(lm, prompt, width)",
    "beam_width": "lablib.inference.beam_search(lm, prompt, width)",
    "length_penalty": "length_power=, of lablib.inference.beam_search",
    "batch_size": "max_batch=, of several texts",
    "max_num_seqs": "max_batch=, of several texts",
    "options": "its fields, each a keyword: temperature=, top_p=, ...",
    "sampling_params": "its fields, each a keyword: temperature=, top_p=, ...",
    "generation_config": "its fields, each a keyword: temperature=, top_p=, ...",
    "logits_processor": "logits_processors=",
    "num_draft_tokens": "draft_tokens=",
    "num_speculative_tokens": "draft_tokens=",
    "n_draft": "draft_tokens=",
    "speculative_model": "draft_model=",
    "speculative_config": "draft_model= and draft_tokens=",
    "assistant_model": "draft_model=",
    "prompt_lookup_num_tokens": "draft_model=lablib.NGram()",
    "prompt_cache": "cache=",
    "past_key_values": "cache=",
    "use_cache": "cache=, to go on with one; one is always kept",
    "sampler": "its options, temperature=, top_p=, min_p=, top_k=; one of your own is "
    "logits_processors=[lablib.sampled_by(sampler)]",
    "do_sample": "temperature=: 0 takes the best token",
    "repetition_penalty": "repeat_penalty=",
    "repetition_context_size": "repeat_last_n=",
    "eos_token_id": "stop_tokens=",
    "stop_token_ids": "stop_tokens=",
    "min_tokens": "stop_tokens=(), by which no token ends a text, cut at max_tokens=",
    "ignore_eos": "stop_tokens=(), by which no token ends a text",
    "echo": "not offered: the prompt is the caller's, and completions leave it out",
    "response_format": _GRAMMAR,
    "json_schema": _GRAMMAR,
    "guided_json": _GRAMMAR,
    "guided_regex": _GRAMMAR,
    "guided_grammar": _GRAMMAR,
    "guided_choice": _GRAMMAR,
    "grammar": _GRAMMAR,
    "stop_strings": "stop=",
    "stop": "stop=, of generate, stream, samples and votes",
    "verbose": "stream(), which gives the text as it comes",
    "kv_bits": "cache=lablib.cache.kv.make(model, bits=...), of mlx-lm's QuantizedKVCache",
    "max_kv_size": "cache=lablib.cache.kv.make(model, max_kv_size=...), of RotatingKVCache",
    "chat_template_kwargs": 'template={"enable_thinking": False, ...}',
    "enable_thinking": 'template={"enable_thinking": ...}',
    "tools": 'template={"tools": [...]}',
    "add_generation_prompt": 'template={"add_generation_prompt": ...}',
    "bad_words_ids": "logits_processors=[lablib.menu.logit_bias(...)]",
    "no_repeat_ngram_size": "logits_processors=[lablib.menu.dry(...)]",
    "logit_bias": "logits_processors=[lablib.menu.logit_bias(...)]",
    "typical_p": "logits_processors=[lablib.menu.typical(...)]",
    "epsilon_cutoff": "logits_processors=[lablib.menu.epsilon(...)]",
    "eta_cutoff": "logits_processors=[lablib.menu.eta(...)]",
    "top_n_sigma": "logits_processors=[lablib.menu.top_n_sigma(...)]",
    "xtc_probability": "logits_processors=[lablib.menu.xtc(...)]",
    "xtc_threshold": "logits_processors=[lablib.menu.xtc(...)]",
    "dry_multiplier": "logits_processors=[lablib.menu.dry(...)]",
    "mirostat": "logits_processors=[lablib.menu.Mirostat(...)]",
    "path_or_hf_repo": "name=",
    "pretrained_model_name_or_path": "name=",
    "load_in_4bit": "bits=4",
    "load_in_8bit": "bits=8",
    "quantization": "bits=4 or bits=8",
    "torch_dtype": "dtype=, such as mx.float16",
    "trust_remote_code": "not offered: load runs no code of a model's",
}


def refuse(name: str, key: str, known: Sequence[str], hint: str = "") -> NoReturn:
    """Refuse the option ``key`` of the function ``name``, and list those that are ``known``.

    Said beside it: what stands here for another library's option, else the ``hint``, else which
    one is spelt most alike.
    """
    from difflib import get_close_matches  # which most programs never need

    near = get_close_matches(key, known, 1)
    if key in _ELSEWHERE:
        hint = f" (here it is {_ELSEWHERE[key]})"
    elif near and not hint:
        hint = f" (did you mean {near[0]}?)"
    raise BadType(f"unknown option {key!r}{hint}; {name} knows {', '.join(known)}")


@cache
def options_of(entry: Callable[..., Any], *, in_order: bool = False) -> tuple[str, ...]:
    """Return the names that a function, or a class, takes by name only; or ``in_order`` as well."""
    names: list[str] = []
    for each in inspect.signature(entry).parameters.values():
        named = in_order and each.kind is each.POSITIONAL_OR_KEYWORD and each.name != "self"
        if named or each.kind is each.KEYWORD_ONLY:
            names.append(each.name)
        elif each.kind is each.VAR_KEYWORD:
            for table in get_args(each.annotation):
                names += table.__annotations__
    return tuple(dict.fromkeys(names))


def check_options(
    entry: Callable[..., Any], given: Iterable[str], more: Iterable[str] = (), **hints: str
) -> None:
    """Refuse an option that ``entry`` doesn't know, beside ``more`` that it does."""
    known = options_of(entry)
    for key in given:
        if key not in known and key not in more:
            every = dict.fromkeys([*options_of(entry, in_order=True), *more])
            refuse(entry.__name__, key, [*every], hints.get(key, ""))


def checks_options(entry: Entry) -> Entry:
    """Have a function, or a class, refuse an option that it doesn't know; the rest is Python's."""
    made: Any = entry
    is_class = inspect.isclass(entry)
    function = made.__init__ if is_class else made
    known = inspect.signature(entry).parameters.keys()

    @wraps(function)
    def checked(*given: Any, **options: Any) -> Any:
        for key in options:
            if key not in known:
                refuse(made.__name__, key, [*known])
        return function(*given, **options)

    if is_class:
        made.__init__ = checked
        return entry
    checked_function: Any = checked
    return checked_function
