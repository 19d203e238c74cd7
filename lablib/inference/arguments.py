"""Every check of an argument that several entry points share: each is written once, here."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.cache import kv
from lablib.inference.sampling.options import SamplerOptions
from lablib.models.interface import context_of, vocab_size_of
from lablib.validation import BadType, BadValue, function, integer, sequence, shown, token_ids

import mlx.core as mx

LogitsProcessor = Callable[[mx.array, mx.array], mx.array]


@dataclass(frozen=True)
class Request:
    """What every way of generating is asked for, checked."""

    prompt: list[int]
    max_tokens: int
    stops: frozenset[int]  # ids that end a completion
    step_size: int  # how many prompt tokens are read at once
    options: SamplerOptions
    processors: tuple[LogitsProcessor, ...]
    held: int  # tokens in the cache that was given


def read_request(
    entry: Callable[..., Any], model: Any, prompt: Any, *, max_tokens: int, stop_tokens: Any,
    prefill_step_size: int, sampler_options: dict[str, Any], logits_processors: Any = (),
    cache: Any = None, name: str = "model", many: bool = False,
) -> Request:  # fmt: skip
    """Check what all entry points take.

    For the messages: ``entry`` was called, which calls its model ``name``; ``sampler_options`` are
    the keywords that it does not name itself. Of ``many`` samples nobody keeps ``top_logprobs``.
    """
    fields = SamplerOptions.names()
    if unknown := [key for key in sampler_options if key not in fields]:
        parameters = inspect.signature(entry).parameters.values()
        own = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        known = ", ".join(dict.fromkeys([*own, *fields]))
        raise BadType(f"unknown option {unknown[0]!r}; {entry.__name__} knows {known}")
    request = Request(
        check_prompt(model, prompt, name),
        integer("max_tokens", max_tokens, 1),
        check_stops(model, stop_tokens),
        integer("prefill_step_size", prefill_step_size, 1),
        SamplerOptions(**sampler_options),
        check_processors(logits_processors),
        check_cache(model, cache),
    )
    if many and request.options.top_logprobs:
        why = "of many samples only the chosen tokens' are kept; TokenIterator reports the others"
        raise BadValue(f"top_logprobs must be 0 here, got {request.options.top_logprobs}: {why}")
    check_length(model, request.prompt, max_tokens, request.held)
    return request


def check_prompt(
    model: Any, prompt: Any, name: str = "model", argument: str = "prompt"
) -> list[int]:
    """Return the prompt as ids that the model knows; ``name`` is what the caller calls it."""
    if not callable(model):
        hint = ": unpack it, model, tokenizer = load(...)" if isinstance(model, tuple) else ""
        raise BadType(f"{name} must be callable, got {type(model).__name__}{hint}")
    return token_ids(argument, prompt, vocab_size_of(model, name))


def check_prompts(model: Any, prompts: Any, name: str = "model") -> list[list[int]]:
    """Return several prompts, or none, as :func:`check_prompt` returns one."""
    given = enumerate(sequence("prompts", prompts, "prompts"))
    return [check_prompt(model, prompt, name, f"prompts[{i}]") for i, prompt in given]


def check_stops(model: Any, stop_tokens: Any, name: str = "stop_tokens") -> frozenset[int]:
    """Return the stop tokens, anything iterable, as a set of ids that the model knows."""
    if isinstance(stop_tokens, Iterable) and not isinstance(stop_tokens, Sequence):
        stop_tokens = stop_tokens.tolist() if hasattr(stop_tokens, "tolist") else [*stop_tokens]
    return frozenset(token_ids(name, stop_tokens, vocab_size_of(model), allow_empty=True))


def check_length(model: Any, prompt: list[int], max_tokens: int, held: int = 0) -> None:
    """Refuse a generation that could outgrow the model's context; the last token is not read."""
    context = context_of(model)
    if context is not None and held + len(prompt) + max_tokens - 1 > context:
        before = f" after {held} tokens in the cache" if held else ""
        raise BadValue(
            f"prompt ({len(prompt)} tokens{before}) + max_tokens ({max_tokens}), of which the last "
            f"is not read, must fit the model's context of {context} tokens"
        )


def check_cache(model: Any, cache: Any, name: str = "cache") -> int:
    """Refuse what is not a cache of one sequence for ``model``; None stands for a fresh one.

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
    held = kv.offset(cache)
    return max(held) if isinstance(held, list) else held or 0


def check_processors(processors: Any) -> tuple[LogitsProcessor, ...]:
    """Return the logits processors as a tuple of callables."""
    if not isinstance(processors, Sequence):
        raise BadType(f"logits_processors must be a list, got {type(processors).__name__}")
    for i, each in enumerate(processors):
        function(f"logits_processors[{i}]", each)
    return tuple(processors)
