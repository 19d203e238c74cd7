"""The rows of the last forward, laid out as attention reads them: the next adds its tokens only.

To gather all that rows see from the slab costs as much as attention, at every step anew. Particles
in step ask for the same rows, each a token longer; after a resampling, for some of them twice. Then
one ``take`` along the rows will do, or nothing. Slot numbers tell: where they agree, so do the keys
and values. A trunk that rows share and read once is laid out like that too, as a row of its own.
"""

from collections.abc import Callable

import mlx.core as mx
import numpy as np

ROOM = 32  # columns for tokens to come; when they are full, the rows are gathered anew
Pair = tuple[mx.array, mx.array]  # keys and values


class DenseRows:
    """What a slab holds at ``seen (B, W)``: keys and values ``(B, heads, W + room, head size)``.

    They are kept only while most rows continue rows of the forward before, each its own, so that
    strangers and copies take no memory.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the rows: their slots may hold something else from now on."""
        self.layers: dict[int, Pair] = {}
        self._seen, self._columns, self._keep = np.zeros((1, 0), np.int32), 0, False

    @property
    def width(self) -> int:
        """Return how many positions the rows of the last forward have."""
        return self._seen.shape[1]

    def turn(self, seen: np.ndarray, held: np.ndarray, most: float) -> None:
        """Turn to the rows ``seen (B, W)`` of the next forward; keep up to ``most`` places of them.

        That forward is to write what stands behind the first ``held (B,)`` of each row.
        """
        (count, width), before = seen.shape, len(self._seen)
        source, found = self._continued(seen, held)
        self._seen, self._take = seen, None
        if self.layers and found.all() and width <= self._columns <= most / count:
            if before != count or (source != np.arange(count)).any():
                self._take = mx.array(source.astype(np.int32))
            return
        self.layers = {}
        self._keep = 2 * len(set(source[found])) >= count and width + ROOM <= most / count
        self._columns = width + ROOM * self._keep
        self._slots = mx.array(np.pad(seen, [(0, 0), (0, self._columns - width)]))

    def _continued(self, seen: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of the last rows each new one continues ``(B,)``, and whether it does."""
        width, last = min(self.width, seen.shape[1]), held - 1
        found = (held > 0) & (held <= width)
        last[~found] = 0
        if not found.any():
            return last, found
        source = (self._seen[:, last] == seen[np.arange(len(seen)), last]).argmax(0)
        same = self._seen[source, :width] == seen[:, :width]
        return source, found & (same | (np.arange(width) >= held[:, None])).all(1)

    def fetch(
        self, layer: int, read: Callable[[int, mx.array], Pair], places: tuple = (), new: tuple = ()
    ) -> tuple[mx.array, ...]:
        """Return what the rows see, once ``new`` keys and values of a layer stand at ``places``.

        What is not at hand comes from ``read(layer, slots)``, which has the new tokens already.
        """
        if layer not in self.layers:
            pair = read(layer, self._slots)
            if self._keep:
                self.layers[layer] = pair
        else:
            pair = self.layers[layer]
            if self._take is not None:
                pair = self.layers[layer] = tuple(array[self._take] for array in pair)
            for array, tokens in zip(pair, new, strict=False):
                array[places] = tokens  # in place: nothing else refers to the array
        return tuple(array[:, :, : self.width] for array in pair)
