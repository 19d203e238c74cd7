"""Speak of every mlx-lm cache in one vocabulary: make, copy, expand, merge, select, trim, measure.

A *cache* here is a model's ``cache=`` argument: a list with one entry per layer. An attention layer
remembers a key and a value per token (``KVCache``), the last few of them (``RotatingKVCache``) or
rounded ones (``QuantizedKVCache``); a recurrent layer remembers only a state (``ArraysCache``).
They differ in how they forget, and in nothing else that matters here: each exposes its arrays, all
with the row (batch) axis first, as ``state``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from lablib.machine.arrays import flattened, listed
from lablib.validation import BadType, BadValue, integer, one_of

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models.cache import (
    ArraysCache,
    BatchRotatingKVCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

Cache = list[Any]

PLAIN = KVCache, QuantizedKVCache  # an entry for each token, dropped by moving a number
RINGS = RotatingKVCache, BatchRotatingKVCache  # entries for the last tokens only
MERGED = KVCache, RotatingKVCache, ArraysCache  # have a form for rows of different length


def make(
    model: Any, max_kv_size: int | None = None, *, bits: int | None = None, group_size: int = 64
) -> Cache:
    """Return an empty cache for ``model``, anything with ``.layers`` or ``.make_cache()``.

    With ``max_kv_size`` each attention layer keeps only the last that many tokens. Every token then
    sees exactly that many, however the prompt was cut into chunks (no attention sinks: mlx-lm keeps
    four but hides them inside a chunk). With ``bits`` (2, 4 or 8) keys and values are rounded, and
    ``group_size`` of them (32, 64 or 128, a divisor of the head size) share one scale.

    Raises:
        ValueError: an option is out of range, or both are given, or no plain layer can take them.
    """
    cache = make_prompt_cache(model)
    if max_kv_size is None and bits is None:
        return cache
    if max_kv_size is not None and bits is not None:
        raise BadValue("max_kv_size and bits exclude each other: a sliding window is not quantised")
    bounded: RotatingKVCache | QuantizedKVCache
    if bits is None:
        option = "max_kv_size"
        bounded = RotatingKVCache(integer(option, max_kv_size, 1), keep=0)
    else:
        option = "bits"
        one_of(option, bits, (2, 4, 8))
        bounded = QuantizedKVCache(one_of("group_size", group_size, (32, 64, 128)), bits)
    if not any(type(layer) is KVCache for layer in leaves(cache)):
        raise BadValue(f"{option} has no plain KVCache layer to apply to in this model's cache")

    def bound(layer: Any) -> Any:
        if isinstance(layer, CacheList):
            return CacheList(*map(bound, layer.caches))
        return deepcopy(bounded) if type(layer) is KVCache else layer

    return list(map(bound, cache))


def offset(cache: Sequence[Any]) -> int | list[int] | None:
    """Return how many tokens the cache has read, in a ragged batch one number for each row.

    It is None if no layer counts: a recurrent state does not know how long it has been fed.
    """
    counts = [layer.offset for layer in leaves(cache) if hasattr(layer, "offset")]
    if counts and isinstance(counts[0], mx.array):
        return listed(counts[0])
    return max(counts, default=None)


def length(cache: Sequence[Any]) -> int:
    """Return the ``offset`` of a cache of one text, some layer of which counts."""
    at = offset(cache)
    if not isinstance(at, int):
        raise BadValue(f"cache must hold one text and count its tokens, got the offset {at}")
    return at


def rows(cache: Sequence[Any]) -> int | None:
    """Return how many sequences the cache holds, or None while it is empty."""
    return next((array.shape[0] for array in _arrays(cache)), None)


def nbytes(cache: Sequence[Any]) -> int:
    """Return the bytes allocated for the cache, spare room for the next tokens included."""
    return sum(array.nbytes for array in _arrays(cache))


def copy(cache: Sequence[Any]) -> Cache:
    """Return an independent copy; memory is shared until either side writes."""
    return deepcopy(list(cache))


def expand(cache: Sequence[Any], n: int) -> Cache:
    """Fan one row out to ``n`` equal rows, in a new cache; ``cache`` stays as it is.

    The rows are a broadcast view: memory is taken when they first differ, not here.
    """
    n = integer("n", n, 1)
    if rows(cache) not in (None, 1):
        raise BadValue(f"cache must hold one row to expand, got {rows(cache)}")
    fanned_out = copy(cache)
    for layer in leaves(fanned_out):
        _change(layer, lambda array: mx.broadcast_to(array, (n, *array.shape[1:])))
    return fanned_out


def merge(caches: Sequence[Cache]) -> Cache:
    """Return one batch of caches that hold one sequence each; the caches stay as they are."""
    return [layers[0].merge(list(layers)) for layers in zip(*caches, strict=True)]


def select(cache: Sequence[Any], keep: Sequence[int]) -> None:
    """Keep only the rows ``keep``, in that order, in place; a row may be named more than once."""
    if not len(keep):
        raise BadValue("keep must name at least one row, got none")
    count = rows(cache)
    last = None if count is None else count - 1
    index = mx.array([integer(f"keep[{i}]", row, 0, last) for i, row in enumerate(keep)])
    for layer in leaves(cache):
        if hasattr(layer, "filter"):
            layer.filter(index)
        else:
            _change(layer, lambda array: array[index])


def trim(cache: Sequence[Any], n: int) -> None:
    """Forget the last ``n`` tokens in every layer, or raise with all layers as they were.

    (``mlx_lm``'s ``trim_prompt_cache`` returns 0 instead of raising where it cannot.)

    Raises:
        ValueError: naming the layer that cannot forget ``n`` tokens, and why.
    """
    n = integer("n", n, 0)
    if n == 0:
        return
    layers = [layer for layer in leaves(cache) if not layer.empty()]  # a model may leave one unused
    if not layers:
        raise BadValue(f"cannot trim n={n} tokens: the cache is empty")
    for number, layer in enumerate(layers):
        room = _trimmable(layer)
        if room < n:
            why = _obstacle(layer, number, room)
            raise BadValue(f"cannot trim n={n} tokens: {why}")
    unsure = [layer for layer in layers if not known(layer)]
    before = copy(unsure)
    for layer in sorted(layers, key=known):  # the unsure ones first
        gone = _drop_last(layer, n)
        if gone != n:
            put_back(unsure, before)
            kind = type(layer).__name__
            raise BadValue(f"cannot trim n={n} tokens: a {kind} gave back {gone} of them")


def _drop_last(layer: Any, n: int) -> int:
    """Drop the last ``n`` tokens of a layer, and return how many it has dropped."""
    if not isinstance(layer, ConcatenateKVCache):
        return layer.trim(n)
    _change(layer, lambda array: array[..., :-n, :])  # its own trim leaves the arrays as they are
    return n


def put_back(layers: Sequence[Any], copies: Sequence[Any]) -> None:
    """Make layers what their ``copies`` are; these must not be used any more."""
    for layer, twin in zip(layers, copies, strict=True):
        vars(layer).update(vars(twin))


def known(layer: Any) -> bool:
    """Return whether a layer forgets as one of mlx-lm's does; any other is asked each time."""
    kind = type(layer)
    ways = kind.is_trimmable, getattr(kind, "trim", kind.is_trimmable)
    return all(way.__module__ == KVCache.__module__ for way in ways)


def trimmable(cache: Sequence[Any], after: int = 0) -> int:
    """Return how many tokens ``trim`` could take back once ``after`` more have been read, singly.

    Ask before reading tokens that may have to be taken back. A sliding window can be trimmed only
    until it is full, a chunk only while its first tokens are held, a recurrent state never. A cache
    of a class that is not mlx-lm's answers for now, not for later: then it is 0.
    """
    layers = (layer for layer in leaves(cache) if after or not layer.empty())
    return min((_trimmable(layer, after) for layer in layers), default=0)


def _trimmable(layer: Any, after: int = 0) -> int:
    if isinstance(layer, RINGS) and layer.size() + after >= layer.max_size:
        return 0
    if (after and not known(layer)) or not layer.is_trimmable():
        return 0
    count = layer.offset
    if isinstance(count, mx.array):
        count = min(listed(count))
    end = count + after
    if not isinstance(layer, ChunkedKVCache):
        return end
    # A token sees its chunk from the beginning; before a read the oldest tokens are dropped. So one
    # may step back as far as the first chunk of which nothing was dropped.
    size = layer.chunk_size
    start = layer.start_position
    if after:
        start = max(start, end - 1 - size)
    first_whole = math.ceil(start / size) * size
    return max(0, end - first_whole)


def _obstacle(layer: Any, number: int, room: int) -> str:
    kind = type(layer).__name__
    if isinstance(layer, ArraysCache):
        return f"a recurrent layer cannot be trimmed (layer {number}, {kind})"
    if room == 0 and isinstance(layer, RINGS):
        window = f"layer {number}'s sliding window of {layer.max_size}"
        return f"{window} is full, and what left it is gone"
    return f"layer {number} ({kind}) can give back {room}"


def leaves(cache: Sequence[Any]) -> Cache:
    """Return the layers of a cache, those inside a ``CacheList`` one by one."""
    if not isinstance(cache, Sequence):
        raise BadType(f"cache must be a list with one entry per layer, got {type(cache).__name__}")
    layers: Cache = []
    for layer in cache:
        layers += leaves(layer.caches) if isinstance(layer, CacheList) else [layer]
    return layers


def _change(layer: Any, change: Callable[[mx.array], mx.array]) -> None:
    """Change every array that a layer remembers."""

    def changed(part: Any) -> Any:
        return tree_map(lambda leaf: change(leaf) if _has_rows(leaf) else leaf, part)

    if getattr(type(layer).state, "fset", None) is None:  # DeepSeek V4.1's
        vars(layer).update(changed(vars(layer)))
    elif rows([layer]) is not None:  # not every empty state can be set
        layer.state = changed(layer.state)


def _arrays(cache: Sequence[Any]) -> Iterator[mx.array]:
    for layer in leaves(cache):
        for _, leaf in flattened(layer.state):
            if _has_rows(leaf):
                yield leaf


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, mx.array) and leaf.ndim > 0
