"""A batch of slots at work: from logits and histories to tokens, with no loop over the rows."""

from collections.abc import Hashable
from dataclasses import dataclass

from lablib.inference.sampling import fast_paths, random_numbers, transforms
from lablib.inference.sampling.slot_table import Slots

import mlx.core as mx
import numpy as np


@dataclass(frozen=True)
class SampleResult:
    """One token for each row, and log-probabilities for the slots that asked.

    Attributes:
        token: ``(B,)`` int32.
        logprob: ``(B, 1)`` float32, log-softmax of the raw logits at ``token``; NaN in rows that
            did not ask; None if none did.
        top_tokens: ``(B, K)`` int32, the best tokens of the raw logits, best first; K is the
            largest number asked for, at most V; -1 beyond what a row asked for; None if none did.
        top_logprobs: ``(B, K)`` float32, their log-probabilities; NaN beyond what a row asked for.
    """

    token: mx.array
    logprob: mx.array | None = None
    top_tokens: mx.array | None = None
    top_logprobs: mx.array | None = None


@dataclass(frozen=True)
class Batch:
    """What some slots ask for; made once for as long as the same batch comes back.

    Its N = B * R rows are R positions of each of B sequences.

    Attributes:
        ids: ``(B,)`` names.
        slots: ``(B,)`` where they are in the table.
        keys: ``(N,)`` uint64, of the random numbers.
        steps: ``(R,)``, 0 to R - 1.
        routing: how each row is drawn.
        penalized: ``(P,)``, which of the sequences have penalties.
        penalties: repeat, presence and frequency of their rows.
        starts: ``(P * R, 1)``, where those start in the flattened scores; None: they are all rows.
        asking: which rows want log-probabilities.
        chosen: of those, whether for the token drawn.
        top: of those, for how many of the best.
    """

    ids: tuple[Hashable, ...]
    slots: np.ndarray
    keys: np.ndarray
    steps: np.ndarray
    routing: fast_paths.Routing
    penalized: np.ndarray
    penalties: tuple[transforms.Parameter | None, ...]
    starts: mx.array | None
    asking: np.ndarray
    chosen: np.ndarray
    top: np.ndarray

    @classmethod
    def of(cls, table: Slots, ids: tuple[Hashable, ...], n_rows: int, vocab_size: int) -> "Batch":
        """Read the slots of different ids, for ``n_rows`` positions of each."""
        slots = table.find(ids)
        options = np.repeat(table.options[slots], n_rows, axis=0)
        penalized = np.flatnonzero(table.window[slots])
        rows = (penalized[:, None] * n_rows + np.arange(n_rows)).ravel()
        repeat, presence, frequency = options[rows, 4:7].T
        chosen, top = options[:, 7] > 0, np.minimum(options[:, 8], vocab_size).astype(int)
        asking = np.flatnonzero(chosen | (top > 0))
        return cls(
            ids=ids,
            slots=slots,
            keys=np.repeat(table.keys[slots], n_rows),
            steps=np.arange(n_rows),
            routing=fast_paths.plan(options, vocab_size),
            penalized=penalized,
            penalties=(
                fast_paths.column(repeat, 1.0),
                fast_paths.column(presence, 0.0),
                fast_paths.column(frequency, 0.0),
            ),
            starts=None
            if len(rows) == len(options)
            else fast_paths.indices(rows[:, None] * vocab_size),
            asking=asking,
            chosen=chosen[asking],
            top=top[asking],
        )

    def draw(
        self, table: Slots, scores: mx.array, unseen: mx.array | None = None, ahead: int = 0
    ) -> tuple[mx.array, mx.array]:
        """Draw from each row of ``(N, V)``; row i of a sequence is ``ahead + i`` positions ahead.

        Returns what ``fast_paths.draw`` does; ``unseen`` is explained at ``penalize``.
        """
        positions = table.position[self.slots]
        if ahead or len(self.steps) > 1:
            positions = (positions[:, None] + (self.steps + ahead)).ravel()
        scores = self.penalize(table, scores, unseen)
        return fast_paths.draw(self.routing, scores, random_numbers.uniforms(self.keys, positions))

    def penalize(self, table: Slots, scores: mx.array, unseen: mx.array | None) -> mx.array:
        """Apply the penalties of the rows that have any.

        Args:
            table: the histories.
            scores: ``(N, V)``.
            unseen: ``(B, A)``, tokens after the history; row i of R sees all but the last R - 1 - i
                of them.
        """
        if not len(self.penalized):
            return scores
        slots = self.slots[self.penalized]
        recent, real = table.recent(slots)
        tokens = mx.array(recent)
        if unseen is not None and unseen.shape[1]:
            if len(slots) < len(self.slots):
                unseen = mx.take(unseen, fast_paths.indices(self.penalized), axis=0)
            # An id beyond V is flagged elsewhere, but must not write beyond the array here.
            unseen = mx.clip(unseen, 0, scores.shape[-1] - 1).astype(mx.int32)
            tokens = mx.concatenate([tokens, unseen], axis=1)
            width, n_rows = tokens.shape[1], len(self.steps)
            real = np.pad(real, ((0, 0), (0, unseen.shape[1])), constant_values=True)
            ages = np.arange(width)[::-1] - self.steps[::-1, None]  # (R, width); 0 is the newest
            inside = (ages >= 0) & (ages < table.window[slots][:, None, None])
            real = (real[:, None] & inside).reshape(-1, width)
            tokens = mx.repeat(tokens, n_rows, axis=0) if n_rows > 1 else tokens
        if not tokens.shape[1]:
            return scores
        valid = None if real.all() else mx.array(real)
        return transforms.penalize(scores, tokens, *self.penalties, valid=valid, starts=self.starts)

    def report(self, logits: mx.array, token: mx.array) -> SampleResult:
        """Log-probabilities under the raw logits ``(N, V)``, for the rows that asked."""
        if not len(self.asking):
            return SampleResult(token)
        rows = None if len(self.asking) == len(token) else fast_paths.indices(self.asking)
        if rows is not None:
            logits = mx.take(logits, rows, axis=0)
        norm = mx.logsumexp(logits, axis=-1, keepdims=True)
        logprob = top_tokens = top_logprobs = None
        if self.chosen.any():
            drawn = (token if rows is None else token[rows])[:, None]
            logprob = mx.take_along_axis(logits, drawn, axis=-1) - norm
            logprob = _spread(len(token), rows, logprob, self.chosen[:, None], mx.nan)
        width = int(self.top.max())
        if width:
            scores, ids = transforms.best(logits, width)
            asked = np.arange(width) < self.top[:, None]
            top_tokens = _spread(len(token), rows, ids, asked, -1)
            top_logprobs = _spread(len(token), rows, scores - norm, asked, mx.nan)
        return SampleResult(token, logprob, top_tokens, top_logprobs)


def _spread(
    n: int, rows: mx.array | None, values: mx.array, asked: np.ndarray, blank: float
) -> mx.array:
    """Put the values of some of n rows where they belong, with a blank where nobody asked."""
    if not asked.all():
        values = mx.where(mx.array(asked), values, blank)
    if rows is None:
        return values
    spread = mx.full((n, values.shape[1]), blank, values.dtype)
    spread[rows] = values
    return spread
