"""Keys and values of many prompts in one slab per layer; a token's place in it is a slot number.

Prompts that share a prefix share slots, whatever else they hold, and a batch of rows of any lengths
is put together by one ``take`` per layer. The idea is that of PagedAttention (Kwon et al. 2023,
2309.06180) with pages of a single token, so a prefix may end anywhere. Slot 0 is never given out:
its keys and values stay zero, and padding reads it.
"""

from dataclasses import dataclass

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
        self._free: list[int] = []
        self._layers: list[list[mx.array]] = [[] for _ in range(integer("n_layers", n_layers, 1))]

    @property
    def limit(self) -> int:
        """Return how many slots fit in the budget."""
        if self.max_bytes is None or self.token_bytes == 0:
            return self.max_tokens
        return min(self.max_tokens, max(self.max_bytes // self.token_bytes - 1, 0))

    @property
    def used(self) -> int:
        """Return how many slots are given out."""
        return self.capacity - len(self._free)

    @property
    def arrays(self) -> list[mx.array]:
        """Return keys and values ``(slots, heads, head size)`` of the layers written so far."""
        return [array for layer in self._layers for array in layer]

    def allocate(self, count: int) -> np.ndarray:
        """Return ``count`` free slots, int32; beyond the budget too, if so many are wanted."""
        if (missing := count - len(self._free)) > 0:  # double within the budget: growing is cheap
            grown = max(self.capacity + missing, min(2 * self.capacity, self.limit))
            self._free[:0] = range(grown, self.capacity, -1)
            self.capacity = grown
        return np.array([self._free.pop() for _ in range(count)], np.int32)

    def release(self, slots: np.ndarray) -> None:
        """Take slots back."""
        self._free.extend(slots[::-1].tolist())

    def write(self, layer: int, slots: mx.array, keys: mx.array, values: mx.array) -> None:
        """Store ``keys`` and ``values``, each ``(n, heads, head size)``, at ``slots (n,)``."""
        places = self._layers[layer]
        if not places:
            places += [mx.zeros((1, *new.shape[1:]), new.dtype) for new in (keys, values)]
            self.token_bytes += sum(array.nbytes for array in places)
        if (missing := self.capacity + 1 - places[0].shape[0]) > 0:
            places[:] = [mx.pad(array, [(0, missing), (0, 0), (0, 0)]) for array in places]
        for array, new in zip(places, (keys, values), strict=True):
            array[slots] = new  # in place: nothing else refers to the array

    def read(self, layer: int, slots: mx.array) -> tuple[mx.array, mx.array]:
        """Return keys and values ``(B, heads, W, head size)`` of ``slots (B, W)``."""
        # Attention wants a head's tokens side by side; a view would be copied at each product.
        keys, values = (mx.contiguous(a[slots].swapaxes(1, 2)) for a in self._layers[layer])
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
        self.capacity = max(len(live), min(self.capacity, self.limit))
        self._free = list(range(self.capacity, len(live), -1))
        old = mx.array(np.concatenate([[0], live]).astype(np.int32))
        spare = self.capacity - len(live)
        for places in self._layers:
            places[:] = [mx.pad(a[old], [(0, spare), (0, 0), (0, 0)]) for a in places]
        mx.eval(self.arrays)
        new_slot = np.zeros(max(live, default=0) + 1, np.int32)
        new_slot[live] = np.arange(1, len(live) + 1)
        return new_slot


@dataclass(frozen=True, slots=True)
class RowSlots:
    """Where the rows of one forward of tokens ``(B, T)`` read and write, the same in every layer.

    Rows end together: shorter ones are padded in front, from a negative position where need be.
    """

    offset: int | mx.array  # position of the first column; (B,) unless the same in every row
    seen: mx.array  # (B, W) the slot of each position up to the row's last, slot 0 beyond
    written: mx.array  # (n,) the slots of the new tokens that are to be kept
    source: mx.array  # (n,) where these stand in the flattened (B · T)


class SlabCache:
    """One layer's cache for one forward: what mlx-lm's models expect of a ``KVCache``."""

    def __init__(self, slab: Slab, layer: int, rows: RowSlots):
        self._slab, self._layer, self._rows = slab, layer, rows
        self.offset = rows.offset

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Keep the new keys and values ``(B, heads, T, head size)``; return all that rows see."""
        rows = self._rows
        if rows.written.size:
            new = (x.swapaxes(1, 2).flatten(0, 1)[rows.source] for x in (keys, values))
            self._slab.write(self._layer, rows.written, *new)
        self.offset = self.offset + keys.shape[2]
        return self._slab.read(self._layer, rows.seen)

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
        there = mx.arange(self._rows.seen.shape[1])
        seen = there <= here
        return seen if window_size is None else seen & (here < there + window_size)
