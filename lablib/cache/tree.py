"""Read a tree of tokens in one forward: each token sees the text and its own ancestors, no sibling.

A tree has many paths, and their common beginnings are read once (SpecInfer, Miao et al. 2023,
2305.09781). Its tokens lie one after the other in the cache, and two things tell them from a text:
a mask, and positions, which count a token's ancestors and not the entries before it. Once one path
is chosen, its entries are moved together, and the cache is that of an ordinary text.
"""

from collections.abc import Sequence
from typing import Any

from lablib.cache import kv
from lablib.machine.arrays import flattened
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np


def ancestry(parents: Sequence[int]) -> np.ndarray:
    """Return which of N tokens each one sees, ``(N, N)``: itself, its parent, and so on.

    ``parents`` are places among the N, each before its child's; -1 has none.
    """
    seen = np.eye(len(parents), dtype=bool)
    for child, parent in enumerate(parents):
        if parent >= 0:
            seen[child] |= seen[parent]
    return seen


class Branching:
    """Take tokens of a tree into a layer of keys and values, for one forward.

    ``places (T,)`` are the positions of the new tokens, ``mask (T, S)`` the entries that each sees.
    """

    def __init__(self, layer: Any, mask: mx.array, places: np.ndarray) -> None:
        self._layer = layer
        self._mask = mask
        self.places = places

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def make_mask(self, length: int, **_: Any) -> mx.array:
        """Return which entries each of the new tokens sees, ``(T, S)``."""
        return self._mask


def branch(cache: kv.Cache, parents: Sequence[int], new: int) -> list[Branching]:
    """Return the cache for a forward over the last ``new`` tokens of a tree.

    ``parents`` are those of all its tokens: the first ones, all but ``new``, are the last that the
    cache has read. Every token sees all that was read before them.
    """
    seen = ancestry(parents)[-new:]
    before = kv.length(cache) + new - len(parents)
    text = np.ones((new, before), bool)
    mask = mx.array(np.concatenate([text, seen], axis=1))
    positions = before - 1 + seen.sum(axis=1)
    return [Branching(layer, mask, positions) for layer in cache]


def check(name: str, model: Any, cache: kv.Cache) -> None:
    """Refuse a model that cannot read trees, or a cache that cannot keep one path of several."""
    if not getattr(model, "reads_trees", False):
        kind = type(model).__name__
        raise BadValue(f"{name} must be a model of lablib.models to read trees, got a {kind}")
    for number, layer in enumerate(cache):
        if not (isinstance(layer, kv.PLAIN) and kv.known(layer)):
            kind = f"layer {number} is a {type(layer).__name__}"
            raise BadValue(f"{name} must keep an entry for each token to read trees: {kind}")


def follow(cache: kv.Cache, n: int, path: Sequence[int]) -> None:
    """Put the entries ``path`` of the last ``n``, in order, before all others of these."""
    path = list(path)
    if path == list(range(len(path))):
        return  # they lie there already
    start = kv.length(cache) - n
    stop = start + len(path)
    index = mx.array(path) + start
    for layer in cache:
        for _, array in flattened([layer.keys, layer.values]):  # a quantised one has several
            array[..., start:stop, :] = array[..., index, :]
