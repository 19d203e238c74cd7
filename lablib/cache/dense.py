"""Lay the rows of the last forward out as attention reads them: the next adds its tokens only.

To gather all that rows see from the slab costs as much as attention, at every step anew. Particles
in step ask for the same rows, each a token longer; after a resampling, for some of them twice. Then
one ``take`` along the rows will do, or nothing. Slot numbers tell: where they agree, so do the keys
and values. A trunk that rows share and read once is laid out like that too, as a row of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

ROOM = 32  # columns for tokens to come; when they are full, the rows are gathered anew
Pair = tuple[mx.array, mx.array]  # keys and values


class DenseRows:
    """Hold a slab's keys and values of ``seen (B, W)``: ``(B, heads, W + room, head size)`` each.

    They are kept only while most rows continue rows of the forward before, each its own, so that
    strangers and copies take no memory.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the rows: their slots may hold something else from now on."""
        self.layers: dict[int, Pair] = {}
        self._seen = np.zeros((1, 0), np.int32)
        self._columns = 0
        self._keep = False

    @property
    def width(self) -> int:
        """Return how many positions the rows of the last forward have."""
        return self._seen.shape[1]

    def turn(self, seen: np.ndarray, stored: np.ndarray, most: float) -> None:
        """Turn to the rows ``seen (B, W)`` of the next forward; keep ``most`` tokens at most.

        The first ``stored (B,)`` tokens of each row are in the slab; the forward writes the others.
        """
        count, width = seen.shape
        source, continues = self._continued(seen, stored)
        in_order = np.array_equal(source, np.arange(len(self._seen)))
        self._seen = seen
        self._take = None
        if self.layers and continues.all() and width <= self._columns <= most / count:
            if not in_order:
                self._take = mx.array(source.astype(np.int32))
            return
        self.layers = {}
        going_on = len(set(source[continues]))
        fits = width + ROOM <= most / count
        self._keep = fits and 2 * going_on >= count
        self._columns = width + ROOM if self._keep else width
        padded = np.pad(seen, [(0, 0), (0, self._columns - width)])
        self._slots = mx.array(padded)

    def _continued(self, seen: np.ndarray, stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the last rows each new one continues ``(B,)``, and whether it does."""
        width = min(self.width, seen.shape[1])
        continues = (stored > 0) & (stored <= width)
        last = np.where(continues, stored - 1, 0)
        if not continues.any():
            return last, continues
        ends = np.take_along_axis(seen, last[:, None], 1)[:, 0]
        source = (self._seen[:, last] == ends).argmax(0)
        same = self._seen[source, :width] == seen[:, :width]
        new = np.arange(width) >= stored[:, None]
        continues &= (same | new).all(1)
        return source, continues

    def fetch(
        self,
        layer: int,
        read: Callable[[int, mx.array], Pair],
        target: tuple[Any, ...] = (),
        new: Sequence[mx.array] = (),
    ) -> tuple[mx.array, ...]:
        """Return all that the rows see, with a layer's ``new`` keys and values at ``target``.

        Rows that are not at hand come from ``read(layer, slots)``, which has the new tokens.
        """
        pair = self.layers.get(layer)
        if pair is None:
            pair = read(layer, self._slots)
        else:
            if self._take is not None:
                keys, values = pair
                pair = keys[self._take], values[self._take]
            for array, tokens in zip(pair, new, strict=False):
                array[target] = tokens  # in place: nothing else refers to the array
        if self._keep:
            self.layers[layer] = pair
        return tuple(array[:, :, : self.width] for array in pair)
