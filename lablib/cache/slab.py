"""Keep the keys and values of many prompts in one slab per layer; a slot number is a token's place.

Prompts that share a prefix share slots, whatever else they hold, and a batch of rows of any lengths
is put together by one ``take`` per layer. The idea is that of PagedAttention (Kwon et al. 2023,
2309.06180) with pages of a single token, so a prefix may end anywhere. Slot 0 is never given out:
its keys and values stay zero, and padding reads it.
"""

import math
from collections.abc import Sequence
from typing import Any

from lablib.cache import shared
from lablib.cache.dense import ROOM, DenseRows, Pair
from lablib.models import kernels

import mlx.core as mx
import numpy as np


class Slab:
    """Give out slots, each the place of one token's keys and values in every layer.

    At rest it keeps ``max_tokens`` slots, and no more than weigh ``max_bytes``. The shapes of the
    ``n_layers`` layers show at the first write.
    """

    def __init__(self, n_layers: int, max_tokens: int, max_bytes: float = math.inf):
        self.n_layers = n_layers
        self.max_tokens = max_tokens
        self.max_bytes = max_bytes
        self.capacity = 0
        self.token_bytes = 0  # the weight of one slot in all layers that have been written
        self.dense = DenseRows()  # the last forward's rows
        self.trunk = DenseRows()  # what these rows have shared
        self._free: list[int] = []
        self._layers: list[list[mx.array]] = [[] for _ in range(n_layers)]

    @property
    def _most(self) -> float:
        """Return how many slots, beside slot 0, weigh ``max_bytes``."""
        return self.max_bytes / max(self.token_bytes, 1) - 1

    @property
    def limit(self) -> int:
        """Return how many slots fit in the budget."""
        return int(max(min(self.max_tokens, self._most), 0))

    @property
    def spare(self) -> float:
        """Return how many tokens of dense rows fit in the bytes that the slab leaves."""
        return self._most - self.capacity

    @property
    def used(self) -> int:
        """Return how many slots are given out."""
        return self.capacity - len(self._free)

    @property
    def arrays(self) -> list[mx.array]:
        """Return keys and values of the layers written so far: all slots, and the dense rows."""
        pairs = (*self._layers, *self.dense.layers.values(), *self.trunk.layers.values())
        return [array for pair in pairs for array in pair]

    def clear_rows(self) -> None:
        """Forget the dense rows: slots hold something else from now on."""
        self.dense.clear()
        self.trunk.clear()

    def allocate(self, count: int) -> np.ndarray:
        """Return ``count`` free slots, int32; beyond the budget too, if so many are wanted."""
        missing = count - len(self._free)
        if missing > 0:
            ahead = min(self.capacity * 9 // 8, self.limit)
            self._grow(max(self.capacity + missing, ahead))
        return np.array([self._free.pop() for _ in range(count)], np.int32)

    def _grow(self, capacity: int) -> None:
        for pair in self._layers:
            for side, array in enumerate(pair):  # one by one: two of each would be too much
                larger = _padded(array, max(capacity + 1 - len(array), 0))
                mx.eval(larger)
                pair[side] = larger
        self._free[:0] = range(capacity, self.capacity, -1)
        self.capacity = capacity

    def release(self, slots: np.ndarray) -> None:
        """Take slots back."""
        self._free.extend(slots[::-1].tolist())

    def write(self, layer: int, slots: mx.array | slice, keys: mx.array, values: mx.array) -> None:
        """Store ``keys`` and ``values``, each ``(n, heads, head size)``, at ``slots (n,)``.

        From anywhere but a :class:`SlabCache`, ``clear_rows``: they may show these slots.
        """
        pair = self._layers[layer]
        if not pair:
            for new in (keys, values):
                array = mx.zeros((self.capacity + 1, *new.shape[1:]), new.dtype)
                self.token_bytes += array.nbytes // len(array)
                pair.append(array)
        for array, new in zip(pair, (keys, values), strict=True):
            array[slots] = new  # in place: nothing else refers to the array

    def read(self, layer: int, slots: mx.array) -> Pair:
        """Return keys and values ``(B, heads, W, head size)`` of ``slots (B, W)``."""
        keys, values = self._layers[layer]
        return _by_heads(keys, slots), _by_heads(values, slots)

    def compact(self, live: np.ndarray) -> np.ndarray:
        """Keep only the ``live`` slots, in front, within the budget; return old to new numbers."""
        count = len(live)
        self.capacity = max(count, min(self.capacity * 9 // 8, self.limit))
        self._free = list(range(self.capacity, count, -1))
        old = mx.array(np.append(0, live).astype(np.int32))
        spare = self.capacity - count
        for pair in self._layers:
            pair[:] = [_padded(array[old], spare) for array in pair]
        mx.eval(self.arrays)
        self.clear_rows()
        new_slot = np.zeros(max(live, default=0) + 1, np.int32)
        new_slot[live] = np.arange(1, count + 1)
        return new_slot


def _padded(array: mx.array, more: int) -> mx.array:
    """Return an array ``(n, heads, head size)`` with ``more`` zeros at its end."""
    return mx.pad(array, [(0, more), (0, 0), (0, 0)])


def _by_heads(array: mx.array, slots: mx.array) -> mx.array:
    """Return the entries at ``slots (B, W)`` of an array as ``(B, heads, W, head size)``."""
    # Attention wants a head's tokens side by side: taken so, they need not be copied again.
    heads = array.shape[1]
    index = slots[:, None] * heads + mx.arange(heads)[:, None]
    return array.flatten(0, 1)[index]


class RowSlots:
    """Find where the rows of one forward of tokens ``(B, T)`` read and write, in every layer.

    Rows end together: shorter ones are padded in front, from a negative position where need be.

    Attributes:
        offset: the position of the first column; ``(B,)`` unless the same in every row.
        width: W, the positions up to the last of the longest row; after a trunk, behind it.
        slots: ``(n,)`` of the new tokens that are to be kept, or None.
        source: where these stand in the flattened ``(B · T)``; None: they are all.
        target: their rows and positions; None: the last T.
    """

    def __init__(self, seen: np.ndarray, stored: np.ndarray, columns: int, start: int):
        count, width = seen.shape
        filled = seen > 0
        even = filled.all()
        first = filled.sum(1, dtype=np.int32) - columns
        new = filled & (np.arange(width) >= stored[:, None])
        row, position = np.argwhere(new).astype(np.int32).T
        whole = len(row) == count * columns
        self.offset = width - columns if even else mx.array(first)
        self.width = width - start
        self.slots = _index(seen[row, position])
        self.source = None
        self.target = None
        if not whole:
            column = position - first[row]
            self.source = mx.array(row * columns + column)
        if not (whole and even):
            self.target = mx.array(row), slice(None), mx.array(position - start)


class SlabCache:
    """Cache one layer for one forward, as mlx-lm's models expect it of a ``KVCache``."""

    def __init__(self, slab: Slab, layer: int, rows: RowSlots):
        self._slab = slab
        self._layer = layer
        self._rows = rows
        self.offset = rows.offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, ...]:
        """Keep the new keys and values ``(B, heads, T, head size)``; return all that rows see."""
        slab = self._slab
        rows = self._rows
        length = keys.shape[2]
        self.offset = self.offset + length
        new: Sequence[mx.array] = [_by_tokens(keys), _by_tokens(values)]
        if rows.source is not None:
            new = [array[rows.source] for array in new]
        if rows.slots is not None:
            slab.write(self._layer, rows.slots, *new)
        target: tuple[Any, ...] | None = rows.target
        if target is None:
            target = slice(None), slice(None), slice(rows.width - length, rows.width)
            new = keys, values
        return slab.dense.fetch(self._layer, slab.read, target, new)

    def make_mask(
        self, length: int, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """Return which positions each of ``length`` new tokens sees, ``(B, 1, length, W)``.

        A short form is mlx-lm's: None if all is seen, "causal" if all up to the token is.
        """
        if isinstance(self.offset, int) and window_size is None and not return_array:
            return None if length == 1 else "causal"
        offset = mx.array(self.offset).reshape(-1, 1, 1, 1)
        # Padding sees position 0, because a token that sees nothing becomes NaN.
        here = mx.maximum(offset + mx.arange(length)[:, None], 0)
        there = mx.arange(self._rows.width)
        seen = there <= here
        if window_size is not None:
            seen = seen & (here < there + window_size)
        return seen


class SharingCache(SlabCache):
    """Do the same for models whose attention lets the cache attend, and rows that share a trunk."""

    def attend(
        self, q: mx.array, k: mx.array, v: mx.array, scale: float, mask: mx.array | None
    ) -> mx.array:
        """Take in keys and values ``(B, KV, T, D)``; return the answers to ``q (B, H, T, D)``."""
        trunk = self._slab.trunk.fetch(self._layer, self._slab.read)
        own = self.update_and_fetch(k, v)
        return kernels.shared_attention(q * scale, trunk, own, mask)

    def make_mask(
        self, length: int, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | None:
        """Return which positions behind the trunk each new token sees, ``(T, W)``; None: all."""
        if length == 1:
            return None
        there = mx.arange(self._rows.width)
        here = there[-length:, None]
        return there <= here


def _by_tokens(array: mx.array) -> mx.array:
    """Return ``(B, heads, T, head size)`` as ``(B · T, heads, head size)``."""
    if array.shape[2] == 1:
        return array.squeeze(2)  # nothing to transpose, and to copy
    return array.swapaxes(1, 2).flatten(0, 1)


def caches_of_rows(
    slab: Slab, seen: np.ndarray, stored: np.ndarray, columns: int, attends: bool = False
) -> list[SlabCache]:
    """Return each layer's cache for a forward of ``columns`` tokens a row, the last of each row.

    ``seen (B, W)`` is the slot of each position up to the row's last, 0 beyond; the first ``stored
    (B,)`` are in the slab, and the others are written. ``attends`` says that the model lets a cache
    attend: then rows of one length read their common beginning once.
    """
    start = 0
    if attends and seen.all():
        start = _trunk(slab, seen, stored, columns)
    rows = RowSlots(seen, stored, columns, start)
    spare = slab.spare
    kind = SlabCache
    if start:
        kind = SharingCache
        slab.trunk.turn(seen[:1, :start], np.array([start]), spare)
        spare -= start + ROOM
    else:
        slab.trunk.clear()
    slab.dense.turn(seen[:, start:], stored - start, spare)
    return [kind(slab, layer, rows) for layer in range(slab.n_layers)]


def _index(slots: np.ndarray) -> mx.array | slice | None:
    """Return slots as an index: where they follow one another a slice, which takes a seventh."""
    if len(slots) == 0:
        return None
    if (np.diff(slots) == 1).all():
        first = int(slots[0])
        return slice(first, first + len(slots))
    return mx.array(slots)


def _trunk(slab: Slab, seen: np.ndarray, stored: np.ndarray, columns: int) -> int:
    """Return how many leading positions all rows share, and read once; 0 where it does not pay."""
    most = min(int(stored.min()), seen.shape[1] - columns)
    front = seen[:, :most]
    same = (front == front[0]).all(0)
    common = int(np.append(same, False).argmin())
    last = slab.trunk.width
    if last <= common <= 2 * last:  # else the rows behind it would be gathered anew
        common = last
    return common if shared.pays(len(seen), common) else 0
