"""Every check of an argument that several entry points share: each is written once, here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import add, eq
from typing import Any

from lablib.cache import kv
from lablib.cache.same_bits import check_model
from lablib.chat_messages import Message, encode, encode_messages
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.processors import LogitsProcessor
from lablib.inference.stop_strings import check_stop, check_tokenizer, wrapped
from lablib.machine import one_order
from lablib.machine.streams import clear_with_thread
from lablib.models.interface import context_of, count_known, instead_of_model, vocab_size_of
from lablib.validation import BadType, BadValue, function, integer, sequence, shown, token_ids

import mlx.core as mx

Prompt = str | Sequence[int] | Sequence[Message] | mx.array  # texts are for a tokenizer


@dataclass(frozen=True)
class Request:
    """The checked arguments of a generation.

    Attributes:
        prompts: token ids, one list for each prompt.
        lengths: the most tokens of each prompt's completion.
        options: of the sampler, for each prompt.
        streams: of each prompt's random numbers.
        stops: ids that end a completion.
        stop: strings that end a completion; ``tokenizer`` reads them.
        step_size: how many prompt tokens are read at once.
        cached: tokens in the cache that was given, before the prompt.
        n_known: how many of the model's ids the tokenizer knows, the first ones; None: all.
        read: the tokens in the cache where they are given: the prompt begins with the same ones.
        start: how many of the prompt's tokens the cache has read.
    """

    prompts: list[list[int]]
    lengths: list[int]
    options: list[SamplerOptions]
    streams: Sequence[int]
    stops: frozenset[int]
    stop: tuple[str, ...]
    tokenizer: Any
    step_size: int
    processors: tuple[LogitsProcessor, ...]
    cached: int
    n_known: int | None
    read: list[int] | None = None
    start: int = 0

    @property
    def num_ctx(self) -> int:
        """The most tokens that a text will have."""
        return max(map(add, map(len, self.prompts), self.lengths), default=0)


def read_request(
    model: Any,
    prompt: Any,
    *,
    max_tokens: Any = 100,
    stop_tokens: Any = None,
    prefill_step_size: int = 512,
    logits_processors: Any = (),
    stop: Any = (),
    tokenizer: Any = None,
    cache: Any = None,
    cached_tokens: Any = None,
    name: str = "model",
    several: bool = False,
    each: int = 1,
    n: int | None = None,
    **sampler_options: Any,
) -> Request:
    """Check the arguments that all entry points take; messages call the model ``name``.

    ``prompt`` is one, of which ``n`` completions are wanted or just one, or a sequence of
    ``several``, each of them ``each`` times; a ``tokenizer`` reads it where it is a text or
    messages. Where there may be more than one completion, ``sampler_options`` and ``max_tokens``
    may be lists, with a value for each.
    """
    clear_with_thread()
    if tokenizer is not None:
        check_tokenizer(tokenizer)
    if not several:
        _refuse_several(prompt)
    if tokenizer is not None:
        prompt, stop_tokens = _read_texts(prompt, stop_tokens, tokenizer, several)
    if several:
        prompts = [ids for ids in check_prompts(model, prompt, name) for _ in range(each)]
    else:
        prompts = [check_prompt(model, prompt, name)] * (n or 1)
    if several or n:
        lengths = for_each("max_tokens", max_tokens, len(prompts))
        options = _options_of_each(sampler_options, len(prompts))
    else:
        lengths = [max_tokens]
        options = [SamplerOptions(**sampler_options)]
    start = check_cached_tokens(model, cache, cached_tokens, prompts)
    own_seeds = isinstance(sampler_options.get("seed"), list | tuple)
    stop = check_stop(stop, tokenizer)
    request = Request(
        prompts,
        [integer("max_tokens", each, 1) for each in lengths],
        options,
        [0] * len(prompts) if own_seeds else range(len(prompts)),
        check_stops(model, stop_tokens),
        stop,
        tokenizer,
        integer("prefill_step_size", prefill_step_size, 1),
        check_processors(logits_processors),
        check_cache(model, cache) if cached_tokens is None else 0,
        known_ids(model, tokenizer),
        cached_tokens,
        start,
    )
    check_lengths(model, prompts, request.lengths, request.cached)
    return request


def _refuse_several(prompt: Any) -> None:
    """Refuse a list of prompts where one is wanted, and say what takes a list."""
    if not isinstance(prompt, list | tuple) or not prompt:
        return
    is_pair = isinstance(prompt[0], list | tuple) and len(prompt) > 1
    if isinstance(prompt[0], str) or is_pair:
        entries = "samples, sample_many, vote_many and best_of_n_many"
        raise BadType(f"prompt must be one, got {shown(prompt)}: several are for {entries}")


def _read_texts(given: Any, stop_tokens: Any, tokenizer: Any, several: bool) -> tuple[Any, Any]:
    """Return prompts with the ids of texts and of messages in their place, and the stop tokens.

    As in ``generate`` these are then the tokenizer's end tokens, if there are none.
    """
    prompts = sequence("prompts", given, "prompts") if several else [given]
    texts = {id(each): each for each in prompts if _is_text(each)}
    if not texts:
        return given, stop_tokens
    reader = wrapped(tokenizer)
    if stop_tokens is None:
        stop_tokens = reader.eos_token_ids
    ids = {
        key: encode(reader, each) if isinstance(each, str) else encode_messages(reader, each)
        for key, each in texts.items()
    }
    read = [ids.get(id(each), each) for each in prompts]
    return (read if several else read[0]), stop_tokens


def _is_text(prompt: Any) -> bool:
    """Return whether a prompt is a text, or messages."""
    is_list = isinstance(prompt, list | tuple) and len(prompt) > 0
    return isinstance(prompt, str) or (is_list and isinstance(prompt[0], dict))


def known_ids(model: Any, tokenizer: Any) -> int | None:
    """Return how many of the model's ids a text may have; None: all. A loaded model was told."""
    if tokenizer is None or tokenizer is getattr(model, "tokenizer", None):
        return getattr(model, "known_ids", None)
    return count_known(tokenizer, vocab_size_of(model))


def for_each(name: str, value: Any, count: int) -> list[Any]:
    """Return the value of an option for each of ``count`` texts: a list has one for each."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise BadValue(f"{name} must be one, or one for each of {count}, got {len(value)}")
    return list(value)


def _options_of_each(given: Mapping[str, Any], count: int) -> list[SamplerOptions]:
    if not any(isinstance(value, list | tuple) for value in given.values()):
        return [SamplerOptions(**given)] * count
    columns = [for_each(name, value, count) for name, value in given.items()]
    values = zip(*columns, strict=True)
    return [SamplerOptions(**dict(zip(given, own, strict=True))) for own in values]


def refuse_draft_options(options: Iterable[str]) -> None:
    """Refuse what is about drafts, as there is no draft model."""
    for name in ("rule", "draft_tokens", "draft_cache", "trace"):
        if name in options:
            raise BadType(f"{name} is about drafts: give draft_model=, a model or a drafter, too")


def refuse_top_logprobs(options: Mapping[str, Any], cure: str) -> None:
    """Refuse ``top_logprobs`` where nobody would see them."""
    if options.get("top_logprobs"):
        given = shown(options["top_logprobs"])
        raise BadValue(f"top_logprobs must be 0 here, got {given}: {cure} returns them")


def check_n(n: Any) -> int:
    """Return how many completions of a prompt are wanted: a row each is made before the first."""
    if isinstance(n, str):
        raise BadType(f"n must be an int, got {shown(n)}: a tokenizer goes into tokenizer=")
    return integer("n", integer("n", n, 1), maximum=1_000_000)


def check_prompt(
    model: Any, prompt: Any, name: str = "model", argument: str = "prompt"
) -> list[int]:
    """Return the prompt as ids that the model knows; ``name`` is the caller's word for it."""
    if not callable(model):
        raise BadType(f"{name} must be callable, got {instead_of_model(model)}")
    if one_order.blocks:
        check_model(name, model)
    return token_ids(argument, prompt, vocab_size_of(model, name))


def check_prompts(model: Any, prompts: Any, name: str = "model") -> list[list[int]]:
    """Return several prompts, or none, as :func:`check_prompt` returns one."""
    checked: dict[int, list[int]] = {}  # by identity: n rows of one prompt are checked once
    lists = []
    for i, prompt in enumerate(sequence("prompts", prompts, "prompts")):
        if id(prompt) not in checked:
            checked[id(prompt)] = check_prompt(model, prompt, name, f"prompts[{i}]")
        lists.append(checked[id(prompt)])
    return lists


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
    model: Any,
    prompts: Sequence[Sequence[int]],
    lengths: Sequence[int],
    cached: int = 0,
    name: str = "model",
) -> None:
    """Refuse a generation that could outgrow a model's context; the last token is not read."""
    context = context_of(model)
    pairs = [(len(prompt) + most, most) for prompt, most in zip(prompts, lengths, strict=True)]
    longest, most = max(pairs, default=(0, 0))
    if context is not None and cached + longest - 1 > context:
        before = f" after {cached} tokens in the cache" if cached else ""
        raise BadValue(
            f"prompt ({longest - most} tokens{before}) + max_tokens ({most}), of which the last "
            f"is not read, must fit the {name}'s context of {context} tokens"
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


def check_cached_tokens(model: Any, cache: Any, read: Any, prompts: list[list[int]]) -> int:
    """Refuse anything but the list of tokens in a cache; None: they are not known.

    Returns:
        How many tokens at the beginning of the only prompt they share with it; its last one must
        be read anew.
    """
    if read is None:
        return 0
    if cache is None:
        raise BadValue("cached_tokens must be those of a cache: give cache=, too")
    if not isinstance(read, list):
        kind = type(read).__name__
        raise BadType(f"cached_tokens must be a list, which is changed with the cache, got {kind}")
    token_ids("cached_tokens", read, vocab_size_of(model), allow_empty=True)
    held = check_cache(model, cache)
    if kv.offset(cache) is None:  # a recurrent state only says whether it has read anything
        held = 0 if kv.rows(cache) is None else max(1, len(read))
    if held != len(read):
        raise BadValue(f"cached_tokens must be the {held} tokens in cache, got {len(read)}")
    return shared_start(read, prompts[0][:-1])


def shared_start(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many tokens at their beginning two texts share."""
    return sum(takewhile(bool, map(eq, a, b)))


def check_processors(processors: Any) -> tuple[LogitsProcessor, ...]:
    """Return the logits processors as a tuple of callables."""
    if not isinstance(processors, Sequence):
        raise BadType(f"logits_processors must be a list, got {type(processors).__name__}")
    for i, each in enumerate(processors):
        function(f"logits_processors[{i}]", each)
    return tuple(processors)
