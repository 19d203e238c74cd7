"""One vocabulary for every mlx-lm cache: make, copy, expand, select, trim, measure.

A *cache* here is what a model's ``cache=`` argument takes: a list with one entry per layer. An
attention layer remembers a key and a value per token (``KVCache``), the last few of them
(``RotatingKVCache``) or rounded ones (``QuantizedKVCache``); a recurrent layer remembers only a
state (``ArraysCache``). They differ in what they can forget, and in nothing else that matters here:
each exposes its arrays, all with the row (batch) axis first, as ``state``.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy as shallow_copy
from typing import Any

from lablib.validation import BadType, BadValue, integer, one_of

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.cache import (
    ArraysCache,
    BatchRotatingKVCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)

Cache = list[Any]


def make(
    model: Any, max_kv_size: int | None = None, *, bits: int | None = None, group_size: int = 64
) -> Cache:
    """Return an empty cache for ``model``.

    Args:
        model: any mlx-lm model, or anything with ``.layers`` or ``.make_cache()``.
        max_kv_size: keep only the last ``max_kv_size`` tokens in each attention layer. Every token
            then sees exactly that many, however the prompt was cut into chunks (no attention
            sinks: mlx-lm keeps four but hides them inside a chunk).
        bits: store keys and values rounded to 2, 4 or 8 bits, in groups of ``group_size`` that
            must divide the head size.
        group_size: 32, 64 or 128 numbers share one scale.

    Raises:
        ValueError: for an option out of range, both options at once, or a model without a plain
            attention layer they could apply to.
    """
    if max_kv_size is None and bits is None:
        return make_prompt_cache(model)
    if max_kv_size is not None and bits is not None:
        raise BadValue("max_kv_size and bits exclude each other: a sliding window is not quantised")
    if bits is not None:
        one_of("bits", bits, (2, 4, 8))
        one_of("group_size", group_size, (32, 64, 128))
    else:
        max_kv_size = integer("max_kv_size", max_kv_size, 1)

    def bound(layer: Any) -> Any:
        if type(layer) is not KVCache:
            return layer
        if bits is not None:
            return layer.to_quantized(group_size=group_size, bits=bits)
        return RotatingKVCache(max_size=max_kv_size, keep=0)

    plain = make_prompt_cache(model)
    bounded = _map_layers(bound, plain)
    if all(a is b for a, b in zip(leaves(plain), leaves(bounded), strict=True)):
        option = "max_kv_size" if bits is None else "bits"
        raise BadValue(f"{option} has no plain KVCache layer to apply to in this model's cache")
    return bounded


def offset(cache: Sequence[Any]) -> int | list[int] | None:
    """Return how many tokens the cache has read.

    Returns:
        An int; one int per row for a ragged batch; None if no layer counts (a recurrent state does
        not know how long it has been fed).
    """
    counted = [layer.offset for layer in leaves(cache) if hasattr(layer, "offset")]
    if not counted:
        return None
    if isinstance(counted[0], mx.array):
        return counted[0].tolist()
    return max(counted)


def rows(cache: Sequence[Any]) -> int | None:
    """Return how many sequences the cache holds, or None while it is empty."""
    for layer in leaves(cache):
        for _, array in _arrays(layer):
            return array.shape[0]
    return None


def nbytes(cache: Sequence[Any]) -> int:
    """Return the bytes allocated for the cache, spare room for the next tokens included."""
    return sum(array.nbytes for layer in leaves(cache) for _, array in _arrays(layer))


def copy(cache: Sequence[Any]) -> Cache:
    """Return an independent copy; memory is shared until either side writes."""
    return _map_layers(lambda layer: _with_arrays(layer, shallow_copy), cache)


def expand(cache: Sequence[Any], n: int) -> Cache:
    """Fan one row out to ``n`` equal rows, in a new cache; ``cache`` stays as it is.

    The rows are a broadcast view: memory is taken when they first differ, not here.
    """
    n = integer("n", n, 1)
    if rows(cache) not in (None, 1):
        raise BadValue(f"cache must hold one row to expand, got {rows(cache)}")

    def repeat(array: mx.array) -> mx.array:
        return mx.broadcast_to(array, (n, *array.shape[1:]))

    return _map_layers(lambda layer: _with_arrays(layer, repeat), cache)


def select(cache: Sequence[Any], keep: Sequence[int]) -> None:
    """Keep only the rows ``keep``, in that order, in place; a row may be named more than once."""
    held = rows(cache)
    if not len(keep):
        raise BadValue("keep must name at least one row, got none")
    last = None if held is None else held - 1
    index = mx.array([integer(f"keep[{i}]", row, 0, last) for i, row in enumerate(keep)])
    for layer in leaves(cache):
        if hasattr(layer, "filter"):
            layer.filter(index)
        else:
            layer.state = _map_arrays(lambda array: array[index], layer.state)


def trim(cache: Sequence[Any], n: int) -> None:
    """Forget the last ``n`` tokens in every layer, or raise before any layer is touched.

    (``mlx_lm``'s ``trim_prompt_cache`` returns 0 instead of raising where it cannot.)

    Raises:
        ValueError: naming the layer that cannot forget ``n`` tokens, and why.
    """
    n = integer("n", n, 0)
    if n == 0:
        return
    if trimmable(cache) < n:
        raise BadValue(f"cannot trim n={n} tokens: {_obstacle(cache, n)}")
    for layer in _filled(cache):
        if isinstance(layer, ConcatenateKVCache):  # its own trim moves the offset, not the arrays
            end = layer.offset - n
            layer.state = _map_arrays(lambda array, end=end: array[..., :end, :], layer.state)
        else:
            layer.trim(n)


def trimmable(cache: Sequence[Any], after: int = 0) -> int:
    """Return how many tokens ``trim`` could take back once ``after`` more have been read, singly.

    Ask before reading tokens that may have to be taken back: a sliding window can be trimmed only
    until it is full, a chunk only while its first tokens are held, a recurrent state never.
    """
    layers = leaves(cache) if after else _filled(cache)
    return min((_trimmable(layer, after) for layer in layers), default=0)


def _trimmable(layer: Any, after: int = 0) -> int:
    if isinstance(layer, ChunkedKVCache):
        return _trimmable_in_chunks(layer, after)
    if isinstance(layer, RotatingKVCache | BatchRotatingKVCache):
        if layer.size() + after >= layer.max_size:
            return 0
    elif not layer.is_trimmable():
        return 0
    held = layer.offset
    return (min(held.tolist()) if isinstance(held, mx.array) else held) + after


def _trimmable_in_chunks(layer: ChunkedKVCache, after: int) -> int:
    """A token sees its chunk from the beginning; before a read the oldest tokens are dropped.

    So one may step back as far as the first chunk of which nothing was dropped.
    """
    size, end, start = layer.chunk_size, layer.offset + after, layer.start_position
    if after:
        start = max(start, end - 1 - size)
    whole = -(-start // size) * size
    return max(0, end - whole)


def _obstacle(cache: Sequence[Any], n: int) -> str:
    for number, layer in enumerate(_filled(cache)):
        room = _trimmable(layer)
        if room >= n:
            continue
        kind = type(layer).__name__
        if isinstance(layer, ArraysCache):
            return f"a recurrent layer cannot be trimmed (layer {number}, {kind})"
        if room == 0 and isinstance(layer, RotatingKVCache | BatchRotatingKVCache):
            return (
                f"layer {number}'s sliding window of {layer.max_size} is full, and what left it "
                "is gone"
            )
        return f"layer {number} ({kind}) can give back {room}"
    return "the cache is empty"


def leaves(cache: Sequence[Any]) -> Iterator[Any]:
    """Yield the layers of a cache, those inside a ``CacheList`` one by one."""
    if not isinstance(cache, Sequence):
        raise BadType(f"cache must be a list with one entry per layer, got {type(cache).__name__}")
    for layer in cache:
        if isinstance(layer, CacheList):
            yield from leaves(layer.caches)
        else:
            yield layer


def _filled(cache: Sequence[Any]) -> list[Any]:
    """The layers that hold something: a model may leave one unused."""
    return [layer for layer in leaves(cache) if not layer.empty()]


def _map_layers(make_leaf: Callable[[Any], Any], cache: Sequence[Any]) -> Cache:
    return [
        CacheList(*_map_layers(make_leaf, layer.caches))
        if isinstance(layer, CacheList)
        else make_leaf(layer)
        for layer in cache
    ]


def _with_arrays(layer: Any, change: Callable[[mx.array], mx.array]) -> Any:
    twin = shallow_copy(layer)
    if isinstance(layer, ConcatenateKVCache) and layer.empty():
        return twin  # mlx-lm cannot set its state to nothing
    twin.state = _map_arrays(change, layer.state)
    return twin


def _map_arrays(change: Callable[[mx.array], mx.array], state: Any) -> Any:
    return tree_map(lambda leaf: change(leaf) if isinstance(leaf, mx.array) else leaf, state)


def _arrays(layer: Any) -> list[tuple[str, mx.array]]:
    return [(n, leaf) for n, leaf in tree_flatten(layer.state) if isinstance(leaf, mx.array)]
