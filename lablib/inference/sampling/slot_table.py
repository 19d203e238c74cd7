"""What the sampler remembers of its sequences, as arrays with one row for each slot."""

import secrets
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from lablib.inference.sampling import fast_paths, random_numbers
from lablib.inference.sampling.options import TABLE, SamplerOptions
from lablib.inference.sampling.transforms import Parameter, columns
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np

_ARRAYS = ("options", "keys", "position", "window", "held", "highest", "history")


@dataclass(frozen=True)
class Asked:
    """What some slots ask for; read once for as long as the same slots come back.

    Its N = B * R rows are R positions of each of B sequences; P of these keep a history.
    """

    ids: tuple[Hashable, ...]
    slots: np.ndarray  # (B,), where they are in the table
    penalized: np.ndarray  # (P,), which of the sequences keep a history
    rows: mx.array | None  # (P * R,), the rows of these; None: they are all rows
    penalties: dict[str, Parameter]  # of those rows
    keys: np.ndarray  # (N,) uint64, of the random numbers
    steps: np.ndarray  # (R,), 0 to R - 1
    columns: dict[str, Parameter]  # of all rows
    plan: fast_paths.Plan | None  # None: the definition does it all
    chosen: np.ndarray | None  # (B, 1), who wants the log-probability of the token drawn
    top: np.ndarray | None  # (B, 1), and of how many of the best; None: nobody does


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
        self.held = np.zeros(0, np.int64)  # how many of these there are yet
        self.highest = np.zeros(0, np.int64)  # largest token id that the slot was given, -1: none
        self.history = np.zeros((0, 0), np.int32)  # the newest in the last column
        self.ceiling = -1  # no slot was given a larger id than this

    def add(
        self, seq_id: Hashable, options: SamplerOptions, num_ctx: int, prior: list[int], stream: int
    ) -> None:
        """Fill a slot; all arguments have been checked."""
        if not self._unused:
            self._grow()
        slot = self._unused.pop()
        self.index[seq_id] = slot
        self.options[slot] = options.row()
        seeded = options.seed is not None and options.seed >= 0
        seed = options.seed if seeded else secrets.randbits(64)
        self.keys[slot] = random_numbers.key(seed, stream)
        self.position[slot] = self.held[slot] = 0
        self.highest[slot] = -1
        window = num_ctx if options.repeat_last_n < 0 else options.repeat_last_n
        self.window[slot] = window if options.penalizes else 0
        self.remember(np.array([slot]), np.array([prior], np.int64))

    def remove(self, seq_id: Hashable) -> bool:
        """Empty a slot; False if there is none of that name."""
        slot = self.index.pop(seq_id, None)
        if slot is not None:
            self._unused.append(slot)
        return slot is not None

    def find(self, seq_ids: Sequence[Hashable]) -> np.ndarray:
        """Return the slots of different ids, ``(B,)``."""
        try:
            found = list(map(self.index.__getitem__, seq_ids))
        except KeyError as error:
            raise BadValue(f"seq_id {error.args[0]!r} is not registered") from None
        if len(set(found)) < len(found):
            twice = max(seq_ids, key=list(seq_ids).count)
            raise BadValue(f"seq_ids must not repeat an id, got {twice!r} more than once")
        return np.array(found, np.int64)

    def check_history(self, ids: Sequence[Hashable], slots: np.ndarray, vocab_size: int) -> None:
        """Refuse slots ``(B,)`` that were given a token beyond ``vocab_size``."""
        highest = self.highest[slots]
        if highest.max() >= vocab_size:
            raise BadValue(
                f"slot {ids[highest.argmax()]!r} was given token {highest.max()} "
                f"(prior_tokens or commit), but logits have V = {vocab_size}"
            )

    def see(self, slot: int, token: int) -> None:
        """Note a token that a slot without a history was given."""
        self.highest[slot] = max(self.highest[slot], token)
        self.ceiling = max(self.ceiling, token)

    def remember(self, slots: np.ndarray, tokens: np.ndarray) -> None:
        """Put tokens ``(B, A)`` into the histories of slots ``(B,)``."""
        n_new, largest = tokens.shape[1], tokens.max(axis=1, initial=-1)
        self.highest[slots] = np.maximum(self.highest[slots], largest)
        self.ceiling = max(self.ceiling, int(largest.max(initial=-1)))
        self.held[slots] = held = np.minimum(self.held[slots] + n_new, self.window[slots])
        self._widen(int(held.max(initial=0)))
        self.history[slots] = np.concatenate([self.history[slots], tokens], axis=1)[:, n_new:]

    def recent(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what the penalties see of each history, oldest token first: ``(B, W)`` int32.

        And which of these are real: shorter windows are padded on the left.
        """
        held = self.held[slots]
        width = int(held.max(initial=0))
        first = self.history.shape[1] - width
        return self.history[slots, first:], np.arange(width) >= width - held[:, None]

    def windows(
        self, asked: Asked, unseen: mx.array | None, vocab_size: int
    ) -> tuple[mx.array, mx.array | None]:
        """Return what the penalties see: tokens ``(P * R, W)``, and which are real (None: all).

        Of the ``unseen`` tokens ``(B, A)`` after the history, row i of R sees all but the last
        R - 1 - i.
        """
        slots = asked.slots[asked.penalized]
        tokens, real = self.recent(slots)
        tokens = mx.array(tokens)
        if unseen is not None and unseen.shape[1]:
            if len(slots) < len(asked.slots):
                unseen = mx.take(unseen, mx.array(asked.penalized.astype(np.int32)), axis=0)
            # An id beyond V is flagged elsewhere, but must not write beyond the array here.
            unseen = mx.clip(unseen, 0, vocab_size - 1).astype(mx.int32)
            tokens = mx.concatenate([tokens, unseen], axis=1)
            width, n_rows = tokens.shape[1], len(asked.steps)
            real = np.pad(real, ((0, 0), (0, unseen.shape[1])), constant_values=True)
            ages = np.arange(width)[::-1] - asked.steps[::-1, None]  # (R, W); 0 is the newest
            inside = (ages >= 0) & (ages < self.window[slots][:, None, None])
            real = (real[:, None] & inside).reshape(-1, width)
            tokens = mx.repeat(tokens, n_rows, axis=0) if n_rows > 1 else tokens
        return tokens, None if real.all() else mx.array(real)

    def ask(self, ids: tuple[Hashable, ...], n_rows: int, vocab_size: int, fast: bool) -> Asked:
        """Read the slots of different ids, for ``n_rows`` positions of each."""
        slots = self.find(ids)
        options = self.options[slots]
        rows = np.repeat(options, n_rows)
        penalized = np.flatnonzero(self.window[slots])
        kept = (penalized[:, None] * n_rows + np.arange(n_rows)).ravel()
        chosen, top = options["logprobs"] > 0, np.minimum(options["top_logprobs"], vocab_size)
        # What else may cut has no fast path to plan.
        cuts = (options["greedy"] > 0) | (options["top_k"] < vocab_size) | (options["top_p"] < 1)
        return Asked(
            ids=ids,
            slots=slots,
            penalized=penalized,
            rows=None if len(kept) == len(rows) else mx.array(kept.astype(np.int32)),
            penalties=columns(rows[kept]) if len(kept) else {},
            keys=np.repeat(self.keys[slots], n_rows),
            steps=np.arange(n_rows),
            columns=columns(rows),
            plan=fast_paths.plan(rows, vocab_size) if fast and cuts.any() else None,
            chosen=chosen[:, None] if chosen.any() else None,
            top=top.astype(int)[:, None] if top.any() else None,
        )

    def _widen(self, width: int) -> None:
        if (missing := width - self.history.shape[1]) > 0:
            self.history = np.pad(self.history, ((0, 0), (max(missing, width // 2), 0)))

    def _grow(self) -> None:
        old, new = len(self.keys), max(8, 2 * len(self.keys))
        for name in _ARRAYS:
            array = getattr(self, name)
            setattr(self, name, np.resize(array, (new, *array.shape[1:])))
        self._unused += range(new - 1, old - 1, -1)
