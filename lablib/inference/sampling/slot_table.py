"""The sampler's memory of its sequences: arrays with one row for each slot."""

import secrets
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from lablib.inference.sampling import random_numbers, transforms
from lablib.inference.sampling.groups import Groups
from lablib.inference.sampling.options import TABLE, SamplerOptions
from lablib.inference.sampling.transforms import Parameters
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np

Ids = tuple[Hashable, ...]

_ARRAYS = (
    "options",
    "keys",
    "position",
    "window",
    "length",
    "highest",
    "history",
)


@dataclass(frozen=True)
class BatchPlan:
    """The options of some slots; read once for as long as the same slots come back.

    Its N = B * R rows are R positions of each of B sequences.
    """

    ids: Ids
    slots: np.ndarray  # (B,), where they are in the table
    penalized: np.ndarray  # (P,), the rows that are penalised for a history
    penalties: Parameters  # of these rows
    keys: np.ndarray  # (N,) uint64, of the random numbers
    steps: np.ndarray  # (R,), 0 to R - 1
    groups: Groups  # of all rows
    wants_logprob: np.ndarray  # (B, 1), of the token drawn
    n_top: np.ndarray  # (B, 1), of how many of the best tokens
    reports: bool  # whether any row wants a log-probability


class Slots:
    """A table of slots; arrays, so that a batch is read and written without a loop over its rows.

    A history counts only in slots with penalties: the latest tokens, as many as the penalties look
    at. Rows of removed slots are used again, and ``add`` overwrites all of a row.
    """

    def __init__(self) -> None:
        self.index: dict[Hashable, int] = {}
        self._unused: list[int] = []
        self.options = np.zeros(0, TABLE)
        self.keys = np.zeros(0, np.uint64)  # of the random numbers
        self.position = np.zeros(0, np.int64)  # tokens sampled or committed since ``add``
        self.window = np.zeros(0, np.int64)  # how many tokens the penalties see, 0 without any
        self.length = np.zeros(0, np.int64)  # how many of these there are so far
        self.highest = np.zeros(0, np.int64)  # largest token id that the slot was given, -1: none
        self.history = np.zeros((0, 0), np.int32)  # the newest in the last column
        self.ceiling = -1  # no slot was given a larger id than this

    def add(
        self,
        seq_id: Hashable,
        options: SamplerOptions,
        num_ctx: int,
        prior: list[int],
        stream: int,
    ) -> None:
        """Fill a slot; all arguments have been checked."""
        if not self._unused:
            self._grow()
        slot = self._unused.pop()
        self.index[seq_id] = slot
        seed = options.seed
        if seed is None or seed < 0:
            seed = secrets.randbits(64)
        window = options.repeat_last_n
        if window < 0:
            window = num_ctx
        self.options[slot] = options.row()
        self.keys[slot] = random_numbers.key(seed, stream)
        self.position[slot] = 0
        self.window[slot] = window if options.penalizes else 0
        self.length[slot] = 0
        self.highest[slot] = -1
        self.remember(np.array([slot]), np.array([prior], np.int64))

    def remove(self, seq_id: Hashable) -> bool:
        """Empty a slot; return False if there is none of that name."""
        slot = self.index.pop(seq_id, None)
        if slot is None:
            return False
        self._unused.append(slot)
        return True

    def find(self, seq_ids: Sequence[Hashable]) -> np.ndarray:
        """Return the slots of different ids, ``(B,)``."""
        try:
            slots = [self.index[seq_id] for seq_id in seq_ids]
        except KeyError as error:
            raise BadValue(f"seq_id {error.args[0]!r} is not registered") from None
        if len(set(slots)) < len(slots):
            twice = max(seq_ids, key=list(seq_ids).count)
            raise BadValue(f"seq_ids must not repeat an id, got {twice!r} more than once")
        return np.array(slots, np.int64)

    def check_history(self, ids: Ids, slots: np.ndarray, vocab_size: int) -> None:
        """Refuse slots ``(B,)`` that were given a token beyond ``vocab_size``."""
        highest = self.highest[slots]
        token = highest.max()
        if token >= vocab_size:
            seq_id = ids[highest.argmax()]
            raise BadValue(
                f"slot {seq_id!r} was given token {token} "
                f"(prior_tokens or commit), but logits have V = {vocab_size}"
            )

    def append(self, seq_id: Hashable, tokens: list[int]) -> None:
        """Append tokens to one sequence; without a history that takes no arrays."""
        if seq_id not in self.index:
            raise BadValue(f"seq_id {seq_id!r} is not registered")
        slot = self.index[seq_id]
        self.position[slot] += len(tokens)
        if self.window[slot]:
            self.remember(np.array([slot]), np.array([tokens], np.int64))
            return
        largest = max(tokens, default=-1)
        self.highest[slot] = max(self.highest[slot], largest)
        self.ceiling = max(self.ceiling, largest)

    def remember(self, slots: np.ndarray, tokens: np.ndarray) -> None:
        """Put tokens ``(B, A)`` into the histories of slots ``(B,)``."""
        n_new = tokens.shape[1]
        largest = tokens.max(axis=1, initial=-1)
        self.highest[slots] = np.maximum(self.highest[slots], largest)
        self.ceiling = max(self.ceiling, int(largest.max(initial=-1)))
        window = self.window[slots]
        if not window.any():
            return
        length = np.minimum(self.length[slots] + n_new, window)
        self.length[slots] = length
        self._widen(int(length.max(initial=0)))
        histories = np.concatenate([self.history[slots], tokens], axis=1)
        self.history[slots] = histories[:, n_new:]

    def recent(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens that the penalties see, oldest first: ``(B, W)`` int32.

        And which of these are real: shorter windows are padded on the left.
        """
        length = self.length[slots]
        width = int(length.max(initial=0))
        first = self.history.shape[1] - width
        tokens = self.history[slots, first:]
        is_real = np.arange(width) >= width - length[:, None]
        return tokens, is_real

    def windows(
        self,
        plan: BatchPlan,
        unseen: mx.array | None,
        vocab_size: int,
    ) -> tuple[mx.array, mx.array | None]:
        """Return the tokens that the penalties see ``(N, W)``, and which are real (None: all).

        Of the ``unseen`` tokens ``(B, A)`` after the history, row i of R sees all but the last
        R - 1 - i.
        """
        history, is_real = self.recent(plan.slots)
        tokens = mx.array(history)
        n_unseen = 0 if unseen is None else unseen.shape[1]
        if n_unseen:
            # An id beyond V is flagged elsewhere, but must not write beyond the array here.
            unseen = mx.clip(unseen, 0, vocab_size - 1).astype(mx.int32)
            tokens = mx.concatenate([tokens, unseen], axis=1)
            tokens = mx.repeat(tokens, len(plan.steps), axis=0)
            is_real = np.pad(is_real, ((0, 0), (0, n_unseen)), constant_values=True)
            is_real = is_real[:, None] & self._is_seen(plan, tokens.shape[1])
            is_real = is_real.reshape(tokens.shape)
        return tokens, None if is_real.all() else mx.array(is_real)

    def _is_seen(self, plan: BatchPlan, width: int) -> np.ndarray:
        """Return which of the ``width`` latest tokens each row sees: ``(B, R, width)``.

        Row i of R sees none of the last R - 1 - i, and no more than its window.
        """
        ages = np.arange(width)[::-1] - plan.steps[::-1, None]  # (R, width); 0 is the newest
        windows = self.window[plan.slots]
        return (ages >= 0) & (ages < windows[:, None, None])

    def plan(self, ids: Ids, n_rows: int, vocab_size: int) -> BatchPlan:
        """Read the slots of different ids, for ``n_rows`` positions of each."""
        slots = self.find(ids)
        options = self.options[slots]
        table = np.repeat(options, n_rows)
        wants_logprob = options["logprobs"][:, None] > 0
        n_top = np.minimum(options["top_logprobs"][:, None], vocab_size)
        penalized = np.flatnonzero(np.repeat(self.window[slots], n_rows))
        return BatchPlan(
            ids=ids,
            slots=slots,
            penalized=penalized,
            penalties=transforms.read_parameters(table[penalized]),
            keys=np.repeat(self.keys[slots], n_rows),
            steps=np.arange(n_rows),
            groups=Groups(table, vocab_size),
            wants_logprob=wants_logprob,
            n_top=n_top,
            reports=bool(wants_logprob.any() or n_top.any()),
        )

    def _widen(self, width: int) -> None:
        missing = width - self.history.shape[1]
        if missing > 0:
            n_new = max(missing, width // 2)
            self.history = np.pad(self.history, ((0, 0), (n_new, 0)))

    def _grow(self) -> None:
        n_old = len(self.keys)
        n_new = max(8, 2 * n_old)
        for name in _ARRAYS:
            array = getattr(self, name)
            setattr(self, name, np.resize(array, (n_new, *array.shape[1:])))
        self._unused += range(n_new - 1, n_old - 1, -1)
