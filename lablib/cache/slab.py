"""Keys and values of many prompts in one slab per layer; a token's place in it is a slot number.

Prompts that share a prefix share slots, whatever else they hold, and a batch of rows of any lengths
is put together by one ``take`` per layer. The idea is that of PagedAttention (Kwon et al. 2023,
2309.06180) with pages of a single token, so a prefix may end anywhere. Slot 0 is never given out:
its keys and values stay zero, and padding reads it.
"""

import math
from dataclasses import dataclass
from typing import Any

from lablib.cache.dense import ROOM, DenseRows
from lablib.cache.shared import pays
from lablib.models.kernels import shared_attention
from lablib.validation import integer

import mlx.core as mx
import numpy as np


class Slab:
    """A growable pool of slots, each the place of one token's keys and values in every layer.

    At rest it keeps ``max_tokens`` slots, and no more than weigh ``max_bytes``; None is no bound.
    The shapes of the ``n_layers`` layers show at the first write.
    """

    def __init__(self, n_layers: int, max_tokens: int, max_bytes: int | None = None):
        self.max_tokens = integer("max_tokens", max_tokens, 0)
        self.max_bytes = None if max_bytes is None else integer("max_bytes", max_bytes, 0)
        self.capacity = 0
        self.token_bytes = 0  # what one slot weighs in all layers that have been written
        self.dense, self.trunk = DenseRows(), DenseRows()  # of the last forward's rows
        self._free: list[int] = []
        self.n_layers = integer("n_layers", n_layers, 1)
        self._layers: list[list[mx.array]] = [[] for _ in range(n_layers)]

    @property
    def limit(self) -> int:
        """Return how many slots fit in the budget."""
        if self.max_bytes is None or self.token_bytes == 0:
            return self.max_tokens
        return min(self.max_tokens, max(self.max_bytes // self.token_bytes - 1, 0))

    @property
    def spare(self) -> float:
        """Return how many places the dense rows may take: what the slab leaves of the budget."""
        if self.max_bytes is None:
            return math.inf
        return self.max_bytes // max(self.token_bytes, 1) - self.capacity - 1

    @property
    def used(self) -> int:
        """Return how many slots are given out."""
        return self.capacity - len(self._free)

    @property
    def arrays(self) -> list[mx.array]:
        """Return keys and values of the layers written so far: all slots, and the dense rows."""
        rows = (*self.dense.layers.values(), *self.trunk.layers.values())
        return [a for layer in (*self._layers, *rows) for a in layer]

    def clear_rows(self) -> None:
        """Forget the dense rows: slots hold something else from now on."""
        self.dense.clear()
        self.trunk.clear()

    def allocate(self, count: int) -> np.ndarray:
        """Return ``count`` free slots, int32; beyond the budget too, if so many are wanted."""
        if (missing := count - len(self._free)) > 0:
            grown = max(self.capacity + missing, min(self.capacity * 9 // 8, self.limit))
            for places in self._layers:
                for side, array in enumerate(places):  # one by one: two of each would be too much
                    missing = max(grown + 1 - len(array), 0)
                    larger = mx.pad(array, [(0, missing), (0, 0), (0, 0)])
                    mx.eval(larger)
                    places[side] = larger
            self._free[:0] = range(grown, self.capacity, -1)
            self.capacity = grown
        return np.array([self._free.pop() for _ in range(count)], np.int32)

    def release(self, slots: np.ndarray) -> None:
        """Take slots back."""
        self._free.extend(slots[::-1].tolist())

    def write(self, layer: int, slots: mx.array | slice, keys: mx.array, values: mx.array) -> None:
        """Store ``keys`` and ``values``, each ``(n, heads, head size)``, at ``slots (n,)``.

        From anywhere but a :class:`SlabCache`, ``clear_rows``: they may show these slots.
        """
        places = self._layers[layer]
        if not places:
            size = self.capacity + 1
            places += [mx.zeros((size, *new.shape[1:]), new.dtype) for new in (keys, values)]
            self.token_bytes += sum(array.nbytes // size for array in places)
        for array, new in zip(places, (keys, values), strict=True):
            array[slots] = new  # in place: nothing else refers to the array

    def read(self, layer: int, slots: mx.array) -> tuple[mx.array, mx.array]:
        """Return keys and values ``(B, heads, W, head size)`` of ``slots (B, W)``."""
        # Attention wants a head's tokens side by side: taken so, they need not be copied again.
        keys, values = (
            a.flatten(0, 1)[slots[:, None] * a.shape[1] + mx.arange(a.shape[1])[:, None]]
            for a in self._layers[layer]
        )
        return keys, values

    def stacked(self, slots: np.ndarray) -> mx.array | list[tuple[mx.array, mx.array]]:
        """Return keys and values of ``slots (T,)``: ``(2, layers, heads, T, head size)``.

        If the layers' shapes differ, it is a pair for each instead.
        """
        index = mx.array(slots)[None]
        pairs = [self.read(layer, index) for layer in range(len(self._layers))]
        if len({array.shape for pair in pairs for array in pair}) == 1:
            return mx.stack([mx.concatenate(side) for side in zip(*pairs, strict=True)])
        return [(keys[0], values[0]) for keys, values in pairs]

    def compact(self, live: np.ndarray) -> np.ndarray:
        """Keep only the ``live`` slots, in front, within the budget; return old to new numbers."""
        self.capacity = max(len(live), min(self.capacity * 9 // 8, self.limit))
        self._free = list(range(self.capacity, len(live), -1))
        old = mx.array(np.concatenate([[0], live]).astype(np.int32))
        spare = self.capacity - len(live)
        for places in self._layers:
            places[:] = [mx.pad(a[old], [(0, spare), (0, 0), (0, 0)]) for a in places]
        mx.eval(self.arrays)
        self.clear_rows()
        new_slot = np.zeros(max(live, default=0) + 1, np.int32)
        new_slot[live] = np.arange(1, len(live) + 1)
        return new_slot


@dataclass(frozen=True, slots=True)
class RowSlots:
    """Where the rows of one forward of tokens ``(B, T)`` read and write, the same in every layer.

    Rows end together: shorter ones are padded in front, from a negative position where need be.
    """

    offset: int | mx.array  # position of the first column; (B,) unless the same in every row
    width: int  # W, the positions up to the last of the longest row; after a trunk, behind it
    written: mx.array | slice | None  # (n,) the slots of the new tokens that are to be kept
    source: mx.array | None  # (n,) where these stand in the flattened (B · T); None: they are all
    places: tuple[mx.array, slice, mx.array] | None  # their rows and positions; None: the last T


class SlabCache:
    """One layer's cache for one forward: what mlx-lm's models expect of a ``KVCache``."""

    def __init__(self, slab: Slab, layer: int, rows: RowSlots):
        self._slab, self._layer, self._rows = slab, layer, rows
        self.offset = rows.offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Keep the new keys and values ``(B, heads, T, head size)``; return all that rows see."""
        slab, layer, rows, new = self._slab, self._layer, self._rows, (keys, values)
        self.offset = self.offset + keys.shape[2]
        one = keys.shape[2] == 1  # then there is nothing to transpose, and to copy
        flat = [x.squeeze(2) if one else x.swapaxes(1, 2).flatten(0, 1) for x in new]
        if rows.source is not None:
            flat = [x[rows.source] for x in flat]
        if rows.written is not None:
            slab.write(layer, rows.written, *flat)
        if (places := rows.places) is None:
            places = (slice(None), slice(None), slice(rows.width - keys.shape[2], rows.width))
        else:
            new = flat
        return slab.dense.fetch(layer, slab.read, places, new)

    def make_mask(
        self, length: int, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """Return what each of ``length`` new tokens sees: ``(B, 1, length, W)``, or a short form.

        The short forms are mlx-lm's: None if all is seen, "causal" if all up to the token is.
        """
        if isinstance(self.offset, int) and window_size is None and not return_array:
            return None if length == 1 else "causal"
        offset = mx.array(self.offset).reshape(-1, 1)
        # Padding sees position 0, because a token that sees nothing becomes NaN.
        here = mx.maximum(offset + mx.arange(length), 0)[:, None, :, None]
        there = mx.arange(self._rows.width)
        seen = there <= here
        return seen if window_size is None else seen & (here < there + window_size)


class SharingCache(SlabCache):
    """The same for models whose attention lets the cache attend, and rows that share a trunk."""

    def attend(
        self, q: mx.array, k: mx.array, v: mx.array, scale: float, mask: mx.array | None
    ) -> mx.array:
        """Take in keys and values ``(B, KV, T, D)``; return what queries ``(B, H, T, D)`` read."""
        trunk = self._slab.trunk.fetch(self._layer, self._slab.read)
        return shared_attention(q * scale, trunk, self.update_and_fetch(k, v), mask)

    def make_mask(self, length: int, **_: Any) -> mx.array | None:
        """Return which positions behind the trunk each new token sees, ``(T, W)``; None: all."""
        width = self._rows.width
        there = mx.arange(width)
        return None if length == 1 else there <= there[width - length :, None]


def caches_of_rows(
    slab: Slab, seen: np.ndarray, held: np.ndarray, columns: int, attends: bool = False
) -> list[SlabCache]:
    """Return each layer's cache for a forward of ``columns`` tokens a row, the last of each row.

    ``seen (B, W)`` is the slot of each position up to the row's last, 0 beyond; the first ``held
    (B,)`` are in the slab, and the others of ``seen`` are written. ``attends`` says that the model
    lets a cache attend: then rows of one length read what they all begin with once.
    """
    lengths, width = (seen > 0).sum(1, dtype=np.int32), seen.shape[1]
    even = bool((lengths == width).all())
    new = np.nonzero((seen > 0) & (np.arange(width) >= held[:, None]))
    row, position = (places.astype(np.int32) for places in new)
    whole = len(row) == len(seen) * columns
    start = _trunk(slab, seen, held, columns) if attends and even else 0
    rows = RowSlots(
        offset=width - columns if even else mx.array(lengths - columns),
        width=width - start,
        written=_places(seen[row, position]),
        source=None if whole else mx.array(row * columns + position - (lengths - columns)[row]),
        places=None if whole and even else (mx.array(row), slice(None), mx.array(position - start)),
    )
    spare = slab.spare
    if start:
        slab.trunk.turn(seen[:1, :start], np.array([start]), spare)
        spare -= start + ROOM
    else:
        slab.trunk.clear()
    slab.dense.turn(seen[:, start:], held - start, spare)
    kind = SharingCache if start else SlabCache
    return [kind(slab, layer, rows) for layer in range(slab.n_layers)]


def _places(slots: np.ndarray) -> mx.array | slice | None:
    """Return where to write: where slots follow one another a slice, which takes a seventh."""
    if len(slots) and (np.diff(slots) == 1).all():
        return slice(int(slots[0]), int(slots[-1]) + 1)
    return mx.array(slots) if len(slots) else None


def _trunk(slab: Slab, seen: np.ndarray, held: np.ndarray, columns: int) -> int:
    """Return how many leading positions all rows share, and read once; 0 where it does not pay."""
    most = min(int(held.min()), seen.shape[1] - columns)
    same = (seen[:, :most] == seen[0, :most]).all(0)
    shared, last = (most if same.all() else int(same.argmin())), slab.trunk.width
    if last <= shared <= 2 * last:  # else the rows behind it would be gathered anew
        shared = last
    return shared if pays(len(seen), shared) else 0
