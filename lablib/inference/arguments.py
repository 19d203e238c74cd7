"""Every check of an argument that several entry points share: each is written once, here."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from lablib.cache import kv
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.processors import LogitsProcessor
from lablib.models.interface import context_of, vocab_size_of
from lablib.validation import BadType, BadValue, function, integer, sequence, shown, token_ids

# Options of mlx-lm and of Hugging Face's generate -> their counterparts here.
_ELSEWHERE = {
    "temp": "temperature=",
    "max_new_tokens": "max_tokens=",
    "max_length": "max_tokens=, which counts new tokens only",
    "num_return_sequences": "sample_n(model, prompt, n)",
    "num_draft_tokens": "draft_tokens=",
    "assistant_model": "draft_model=",
    "prompt_cache": "cache=",
    "past_key_values": "cache=",
    "sampler": "its options: temperature=, top_p=, min_p=, top_k=",
    "do_sample": "temperature=: 0 takes the best token",
    "repetition_penalty": "repeat_penalty=",
    "repetition_context_size": "repeat_last_n=",
    "eos_token_id": "stop_tokens=",
    "stop_strings": "stop=, of generate and stream",
    "verbose": "stream(), which gives the text as it comes",
    "kv_bits": "cache=, a list of mlx-lm's QuantizedKVCache",
    "max_kv_size": "cache=, a list of mlx-lm's RotatingKVCache",
}


@dataclass(frozen=True)
class Request:
    """The checked arguments of a generation.

    Attributes:
        prompts: token ids, one list for each prompt.
        stops: ids that end a completion.
        step_size: how many prompt tokens are read at once.
        cached: tokens in the cache that was given.
    """

    prompts: list[list[int]]
    max_tokens: int
    stops: frozenset[int]
    step_size: int
    options: SamplerOptions
    processors: tuple[LogitsProcessor, ...]
    cached: int

    @property
    def prompt(self) -> list[int]:
        """The only prompt, or the first."""
        return self.prompts[0]

    @property
    def num_ctx(self) -> int:
        """The most tokens that a text will have."""
        return max(map(len, self.prompts)) + self.max_tokens


def read_request(
    entry: Callable[..., Any],
    model: Any,
    prompt: Any,
    *,
    max_tokens: int,
    stop_tokens: Any,
    prefill_step_size: int,
    sampler_options: Mapping[str, Any],
    logits_processors: Any = (),
    cache: Any = None,
    name: str = "model",
    several: bool = False,
) -> Request:
    """Check the arguments that all entry points take.

    For the messages: ``entry`` was called, which calls its model ``name``. ``prompt`` is one, or a
    sequence of ``several``; ``sampler_options`` are the keywords that ``entry`` does not name
    itself.
    """
    _check_names(entry, sampler_options)
    if several:
        prompts = check_prompts(model, prompt, name)
        if not prompts:
            raise BadValue("prompts must hold at least one prompt, got none")
    else:
        prompts = [check_prompt(model, prompt, name)]
    request = Request(
        prompts,
        integer("max_tokens", max_tokens, 1),
        check_stops(model, stop_tokens),
        integer("prefill_step_size", prefill_step_size, 1),
        SamplerOptions(**sampler_options),
        check_processors(logits_processors),
        check_cache(model, cache),
    )
    check_lengths(model, prompts, max_tokens, request.cached)
    return request


def _check_names(entry: Callable[..., Any], sampler_options: Mapping[str, Any]) -> None:
    """Refuse a keyword that is no option of the sampler, and name those of ``entry``."""
    fields = SamplerOptions.names()
    for key in sampler_options:
        if key not in fields:
            parameters = inspect.signature(entry).parameters.values()
            own = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
            known = [*dict.fromkeys([*own, *fields])]
            told = f"unknown option {key!r}{_suggest(key, known)}"
            raise BadType(f"{told}; {entry.__name__} knows {', '.join(known)}")


def _suggest(key: str, known: Sequence[str]) -> str:
    """Return what to write instead of an option that another library has, or a misspelt one."""
    if key in _ELSEWHERE:
        return f" (here it is {_ELSEWHERE[key]})"
    near = get_close_matches(key, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def check_n(n: Any) -> int:
    """Return how many completions of a prompt are wanted: a row each is made before the first."""
    return integer("n", integer("n", n, 1), maximum=1_000_000)


def check_prompt(
    model: Any, prompt: Any, name: str = "model", argument: str = "prompt"
) -> list[int]:
    """Return the prompt as ids that the model knows; ``name`` is the caller's word for it."""
    if not callable(model):
        hint = ": unpack it, model, tokenizer = load(...)" if isinstance(model, tuple) else ""
        raise BadType(f"{name} must be callable, got {type(model).__name__}{hint}")
    return token_ids(argument, prompt, vocab_size_of(model, name))


def check_prompts(model: Any, prompts: Any, name: str = "model") -> list[list[int]]:
    """Return several prompts, or none, as :func:`check_prompt` returns one."""
    checked: dict[int, list[int]] = {}  # by identity: n rows of one prompt are checked once
    found = []
    for i, prompt in enumerate(sequence("prompts", prompts, "prompts")):
        if id(prompt) not in checked:
            checked[id(prompt)] = check_prompt(model, prompt, name, f"prompts[{i}]")
        found.append(checked[id(prompt)])
    return found


def check_stops(model: Any, stop_tokens: Any, name: str = "stop_tokens") -> frozenset[int]:
    """Return the stop tokens, anything iterable, as a set of ids that the model knows.

    None means the model's own, which ``lablib.load`` gives it; another model has none.
    """
    if stop_tokens is None:
        stop_tokens = getattr(model, "stop_tokens", ())
    if isinstance(stop_tokens, Iterable) and not isinstance(stop_tokens, Sequence):
        stop_tokens = stop_tokens.tolist() if hasattr(stop_tokens, "tolist") else [*stop_tokens]
    return frozenset(token_ids(name, stop_tokens, vocab_size_of(model), allow_empty=True))


def check_lengths(
    model: Any, prompts: Sequence[Sequence[int]], max_tokens: int, cached: int = 0
) -> None:
    """Refuse a generation that could outgrow the model's context; the last token is not read."""
    context = context_of(model)
    longest = max(map(len, prompts), default=0)
    if context is not None and cached + longest + max_tokens - 1 > context:
        before = f" after {cached} tokens in the cache" if cached else ""
        raise BadValue(
            f"prompt ({longest} tokens{before}) + max_tokens ({max_tokens}), of which the last "
            f"is not read, must fit the model's context of {context} tokens"
        )


def check_cache(model: Any, cache: Any, name: str = "cache") -> int:
    """Refuse anything but a cache of one sequence for ``model``; None stands for a fresh one.

    Returns:
        How many tokens it holds; 0 if a recurrent cache does not say.
    """
    if cache is None:
        return 0
    if not isinstance(cache, list):
        raise BadType(f"{name} must be a list as kv.make returns it, got {type(cache).__name__}")
    wanted = len(kv.make(model))
    if len(cache) != wanted:
        raise BadValue(f"{name} must have an entry for each of {wanted} layers, got {len(cache)}")
    for number, layer in enumerate(cache):
        if not hasattr(layer, "is_trimmable"):
            raise BadType(f"{name}[{number}] must be the cache of a layer, got {shown(layer)}")
    if kv.rows(cache) not in (None, 1):
        raise BadValue(f"{name} must hold one sequence, got {kv.rows(cache)}")
    offset = kv.offset(cache)
    return max(offset) if isinstance(offset, list) else offset or 0


def check_processors(processors: Any) -> tuple[LogitsProcessor, ...]:
    """Return the logits processors as a tuple of callables."""
    if not isinstance(processors, Sequence):
        raise BadType(f"logits_processors must be a list, got {type(processors).__name__}")
    for i, each in enumerate(processors):
        function(f"logits_processors[{i}]", each)
    return tuple(processors)
