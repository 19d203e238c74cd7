"""Every check of an argument that several entry points share: each is written once, here."""

import inspect
from collections.abc import Callable, Sequence, Set
from typing import Any

from lablib.cache import kv
from lablib.inference.sampling.options import SamplerOptions
from lablib.models.interface import vocab_size_of
from lablib.validation import BadType, BadValue, token_ids

import mlx.core as mx

LogitsProcessor = Callable[[mx.array, mx.array], mx.array]


def read_options(given: dict[str, Any], entry: Callable[..., Any]) -> SamplerOptions:
    """Return sampler options from the keyword arguments that ``entry`` does not name itself."""
    for name in given:
        if name not in SamplerOptions.names():
            parameters = inspect.signature(entry).parameters.values()
            own = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
            known = ", ".join(dict.fromkeys([*own, *SamplerOptions.names()]))
            raise BadType(f"unknown option {name!r}; {entry.__name__} knows {known}")
    return SamplerOptions(**given)


def check_prompt(model: Any, prompt: Any, name: str = "model") -> list[int]:
    """Return the prompt as ids that the model knows; ``name`` is what the caller calls it."""
    if not callable(model):
        hint = ": unpack it, model, tokenizer = load(...)" if isinstance(model, tuple) else ""
        raise BadType(f"{name} must be callable, got {type(model).__name__}{hint}")
    return token_ids("prompt", prompt, vocab_size_of(model))


def check_stops(model: Any, stop_tokens: Any) -> frozenset[int]:
    """Return the stop tokens as a set of ids that the model knows."""
    if isinstance(stop_tokens, Set):
        stop_tokens = list(stop_tokens)
    return frozenset(token_ids("stop_tokens", stop_tokens, vocab_size_of(model), allow_empty=True))


def check_length(model: Any, prompt: list[int], max_tokens: int, held: int = 0) -> None:
    """Refuse a generation that could outgrow the model's context (``model.max_positions``)."""
    context = getattr(model, "max_positions", None)
    if context is not None and held + len(prompt) + max_tokens > context:
        before = f" after {held} tokens in the cache" if held else ""
        raise BadValue(
            f"prompt ({len(prompt)} tokens{before}) + max_tokens ({max_tokens}) must be at most "
            f"the model's context of {context} tokens"
        )


def check_own_cache(model: Any, cache: Any) -> int:
    """Return how many tokens the cache holds (0 if a recurrent cache does not say)."""
    if cache is None:
        return 0
    if not isinstance(cache, list):
        raise BadType(f"cache must be a list as kv.make returns it, got {type(cache).__name__}")
    wanted = len(kv.make(model))
    if len(cache) != wanted:
        raise BadValue(f"cache must have an entry for each of {wanted} layers, got {len(cache)}")
    if kv.rows(cache) not in (None, 1):
        raise BadValue(f"cache must hold one sequence, got {kv.rows(cache)}")
    held = kv.offset(cache)
    return max(held) if isinstance(held, list) else held or 0


def check_processors(processors: Any) -> tuple[LogitsProcessor, ...]:
    """Return the logits processors as a tuple of callables."""
    if not isinstance(processors, Sequence):
        raise BadType(f"logits_processors must be a list, got {type(processors).__name__}")
    for position, processor in enumerate(processors):
        if not callable(processor):
            raise BadType(f"logits_processors[{position}] must be callable, got {processor!r}")
    return tuple(processors)
