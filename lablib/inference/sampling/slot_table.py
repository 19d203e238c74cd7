"""What the sampler remembers of its sequences, as arrays with one row for each slot."""

import secrets
from collections.abc import Hashable, Sequence

from lablib.inference.sampling import fast_paths, random_numbers
from lablib.inference.sampling.options import SamplerOptions
from lablib.validation import BadValue

import numpy as np

_ARRAYS = ("options", "keys", "position", "window", "filled", "highest", "rings")


class Slots:
    """A table of slots; arrays, so that a batch is read and written without a loop over its rows.

    A history is kept only for slots with penalties: a ring of as many tokens as the penalties look
    at. Rows of removed slots are used again, and ``add`` overwrites all of a row.

    Attributes:
        options: ``(S, COLUMNS)``, as ``fast_paths.encode`` writes them.
        keys: ``(S,)`` uint64, of the random numbers.
        position: ``(S,)`` tokens sampled or committed since ``add``.
        window: ``(S,)`` size of the ring, 0 without penalties.
        filled: ``(S,)`` tokens that went through the ring.
        highest: ``(S,)`` largest token id that the slot was given, -1 for none.
        ceiling: no slot was given a larger id than this.
        rings: ``(S, W)`` int32, W as wide as the fullest ring has needed.
    """

    def __init__(self) -> None:
        self.index: dict[Hashable, int] = {}
        self._unused: list[int] = []
        self.options = np.zeros((0, fast_paths.COLUMNS))
        self.keys = np.zeros(0, np.uint64)
        self.position = np.zeros(0, np.int64)
        self.window = np.zeros(0, np.int64)
        self.filled = np.zeros(0, np.int64)
        self.highest = np.zeros(0, np.int64)
        self.rings = np.zeros((0, 0), np.int32)
        self.ceiling = -1

    def add(
        self, seq_id: Hashable, options: SamplerOptions, num_ctx: int, prior: list[int], stream: int
    ) -> None:
        """Fill a slot; all arguments have been checked."""
        if not self._unused:
            self._grow()
        slot = self._unused.pop()
        self.index[seq_id] = slot
        self.options[slot] = fast_paths.encode(options)
        unseeded = options.seed is None or options.seed < 0
        self.keys[slot] = random_numbers.key(
            secrets.randbits(64) if unseeded else options.seed, stream
        )
        self.position[slot] = self.filled[slot] = 0
        self.highest[slot] = -1
        window = num_ctx if options.repeat_last_n < 0 else options.repeat_last_n
        self.window[slot] = window if options.penalizes else 0
        self.remember(slot, prior)

    def remove(self, seq_id: Hashable) -> bool:
        """Empty a slot; False if there is none of that name."""
        slot = self.index.pop(seq_id, None)
        if slot is not None:
            self._unused.append(slot)
        return slot is not None

    def find(self, seq_ids: Sequence[Hashable]) -> np.ndarray:
        """The slots of different ids, ``(B,)``."""
        try:
            found = [self.index[seq_id] for seq_id in seq_ids]
        except KeyError as error:
            raise BadValue(f"seq_id {error.args[0]!r} is not registered") from None
        if len(set(found)) < len(found):
            twice = next(seq_id for seq_id in seq_ids if list(seq_ids).count(seq_id) > 1)
            raise BadValue(f"seq_ids must not repeat an id, got {twice!r} more than once")
        return np.array(found, np.int64)

    def remember(self, slot: int, tokens: Sequence[int]) -> None:
        """Put tokens into the history of one slot."""
        if not len(tokens):
            return
        self.highest[slot] = max(self.highest[slot], max(tokens))
        self.ceiling = max(self.ceiling, int(self.highest[slot]))
        window = int(self.window[slot])
        if window:
            self.filled[slot] += len(tokens)
            self._widen(min(window, int(self.filled[slot])))
            kept = tokens[-window:]
            places = self.filled[slot] - len(kept) + np.arange(len(kept))
            self.rings[slot, places % window] = kept

    def remember_each(self, slots: np.ndarray, tokens: np.ndarray) -> None:
        """Put one token into the history of each slot; all have a window."""
        self.highest[slots] = np.maximum(self.highest[slots], tokens)
        self.ceiling = max(self.ceiling, int(tokens.max(initial=-1)))
        places = self.filled[slots] % self.window[slots]
        self._widen(int(places.max(initial=-1)) + 1)
        self.rings[slots, places] = tokens
        self.filled[slots] += 1

    def recent(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the penalties see of each history, oldest token first: ``(P, W)`` int32.

        Returns:
            The tokens, and which are real: shorter windows are padded on the left.
        """
        filled, window = self.filled[slots][:, None], self.window[slots][:, None]
        held = np.minimum(filled, window)
        back = np.arange(-int(held.max(initial=0)), 0)
        places = np.maximum(filled + back, 0) % window
        tokens = self.rings[slots[:, None], places]
        return tokens, back >= -held

    def _widen(self, width: int) -> None:
        if width > self.rings.shape[1]:
            width = max(width, 2 * self.rings.shape[1])
            self.rings = np.pad(self.rings, ((0, 0), (0, width - self.rings.shape[1])))

    def _grow(self) -> None:
        old, new = len(self.keys), max(8, 2 * len(self.keys))
        for name in _ARRAYS:
            array = getattr(self, name)
            setattr(self, name, np.pad(array, [(0, new - old)] + [(0, 0)] * (array.ndim - 1)))
        self._unused += range(new - 1, old - 1, -1)
