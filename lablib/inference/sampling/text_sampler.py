"""From the logits after texts to their next tokens: penalise, cut, draw; each text by its options.

A text's token depends on nothing but its own logits, text and key: not on the batch, its order or
its size. Rows that use the same options are cut and drawn together, in groups. Target and drafts
are sampled here alike, so that the same penalties and cuts apply to both, and no random number is
used twice: plain decoding asks for tokens, drafters for drafts, the judge for the distributions
that its rule compares.

Logits are of one position of each text, ``(B, V)``, or of R positions in a row, ``(B, R, V)``:
N = B or B · R rows. ``unseen`` ``(B, A)`` are tokens that the texts do not have yet, before and
between the positions, oldest first. Row i of R sees all of these but the last R - 1 - i.

Nothing waits for the device, except where top-p has more than 2,048 tokens before it (without
top-k, the vocabulary), as the host must see how many the nucleus takes, and after a transform of
your own, whose result is checked at once.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lablib.definitions import FastPath
from lablib.inference.sampling import random_numbers, transforms
from lablib.inference.sampling.grouping import Group, Plan, plan_of
from lablib.inference.sampling.noise import DRAFT, Noise, before_each
from lablib.inference.sampling.processors import LogitsProcessor, TextProcessors
from lablib.inference.sampling.row import Row
from lablib.inference.sampling.sums import softmax
from lablib.machine.arrays import listed
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np

NOT_FINITE = "the model's logits must be finite, got NaN, +inf or a row of nothing but -inf"

_BEST_LOGIT = FastPath("best logit")
_CANDIDATES = FastPath("candidates")


class Drawn(NamedTuple):
    """The tokens drawn at R positions of B texts, and their log-probabilities."""

    tokens: mx.array  # (B, R)
    logprobs: mx.array  # (B, R), of each of them under the raw logits
    finite: mx.array  # (B, R): whether the logits could be drawn from
    best: tuple[mx.array, ...] = ()  # (B, R, K) each: the best ids, their log-probabilities

    def top(self, row: int) -> list[tuple[tuple[int, float], ...]]:
        """Pair the best ids, if asked for, with their log-probabilities at each token of a text."""
        ids, values = (listed(column[row]) for column in self.best)
        return [tuple(zip(i, v, strict=True)) for i, v in zip(ids, values, strict=True)]


class TextSampler(Noise):
    """Draws the tokens of texts that grow side by side; their owner appends to the texts.

    Args:
        processors: of each text that brings none of its own, see ``TextProcessors``.
        coupled: whether target and draft draw with the same noise (``rules.coupled``).
        n_known: how many of a model's ids the tokenizer knows, the first ones; None: all.

    Attributes:
        rows: the texts that still grow.
        processors: whether any text has some.
        greedy: whether every text takes the best token always (temperature 0).
    """

    def __init__(
        self,
        processors: Sequence[LogitsProcessor] = (),
        coupled: bool = False,
        n_known: int | None = None,
    ) -> None:
        self._processors = tuple(processors)
        self._couples = coupled
        self._n_known = n_known
        self.begin()

    def begin(self) -> None:
        """Begin a batch; no text is in it yet."""
        self.use([])
        self.begin_round()

    def add(self, rows: Sequence[Row]) -> None:
        """Add texts."""
        for row in rows if self._processors else ():
            if row.processors is None:
                row.processors = TextProcessors(self._processors, row.text)
        self.use([*self.rows, *rows])

    def select(self, kept: Sequence[int]) -> None:
        """Go on with the texts at these places of the batch only."""
        self.use([self.rows[index] for index in kept])

    def use(self, rows: Sequence[Row]) -> None:
        """Go on with these texts."""
        self.rows = tuple(rows)
        self.processors = any(row.processors is not None for row in rows)
        self.greedy = bool(rows) and all(row.options.temperature == 0 for row in rows)
        self.coupled = self._couples and not self.greedy
        self._keys = np.array([row.key for row in rows], np.uint64)
        self._starts = np.array([row.start for row in rows], np.int64)
        self._texts = [row.text for row in rows]
        self._penalized = [i for i, row in enumerate(rows) if row.window]
        self._takes_best_logit = self.greedy and not (self._penalized or self.processors)
        self._n_top = max((row.options.top_logprobs for row in rows), default=0)
        self._plans: dict[tuple[int, int, tuple[str, ...]], Plan] = {}

    def states(self, row: int) -> Sequence[LogitsProcessor]:
        """Return the processors of a text, which have read it but for its last token; copy them."""
        processors = self.rows[row].processors
        return () if processors is None else processors.settled

    def end_round(self) -> None:
        """End a round: the texts have grown by what was decided, and random numbers are new."""
        for row in self.rows:
            row.rounds += 1
            if row.processors is not None:
                row.processors.end_round()
        self.begin_round()

    def raw(self, logits: mx.array) -> mx.array:
        """Return a model's logits as all here takes them: float32, -inf for ids without a text."""
        raw = logits.astype(mx.float32)
        return raw if self._n_known is None else only_known(raw, self._n_known)

    # Tokens of the target.

    def plain(self, logits: mx.array, unseen: mx.array | None = None) -> Drawn:
        """Draw the token after each text, unevaluated, from the model's ``logits (B, 1, V)``."""
        raw = logits.astype(mx.float32) if self._n_known is None else self.raw(logits)
        scores = self.process(raw, unseen) if self.processors else raw
        tokens, finite = self.draw(scores, unseen)
        return self.report(raw, tokens, finite)

    def draw(self, scores: mx.array, unseen: mx.array | None = None) -> tuple[mx.array, mx.array]:
        """Draw the tokens of plain sampling, each with the random number of its position.

        Args:
            scores: processed logits.
            unseen: the tokens before and between the positions, if any.

        Returns:
            Tokens int32, and ``finite``: False where a row has NaN, +inf or only -inf, and its
            token means nothing. Both ``(B,)`` or ``(B, R)``, unevaluated.
        """
        shape = scores.shape[:-1]
        if self._takes_best_logit and _BEST_LOGIT.is_open():
            best = mx.argmax(scores, axis=-1, keepdims=True)
            finite = transforms.is_finite(transforms.gather(scores, best))
            return best.astype(mx.int32).reshape(shape), finite.reshape(shape)
        if self.coupled:
            p, finite = self.probabilities(scores, unseen)
            return self.race(p, unseen), finite
        plan, rows, peak = self._penalized_scores(scores, unseen)
        n_positions = shape[1] if len(shape) == 2 else 1
        n_unseen = 0 if unseen is None else unseen.shape[1]
        positions = np.array([*map(len, self._texts)], np.int64) - self._starts
        if n_positions > 1:
            steps = np.arange(n_unseen + 1 - n_positions, n_unseen + 1)
            positions = (positions[:, None] + steps).ravel()
        else:
            positions += n_unseen
        keys = np.repeat(self._keys, n_positions)
        u = random_numbers.uniforms(keys, positions, scores.shape[-1])
        columns = rows, peak, mx.array(u[:, None])
        one = plan.groups[0] if len(plan.groups) == 1 else None
        tokens = _of_groups(plan, _draw, *columns) if one is None else _draw(one, *columns)
        return tokens.reshape(shape), transforms.is_finite(peak).reshape(shape)

    def cut(self, scores: mx.array, unseen: mx.array | None = None) -> tuple[mx.array, mx.array]:
        """Return the scores after all transforms: ``draw`` draws from their softmax.

        Returns:
            float32 of the shape of ``scores``, relative to the best; and ``finite`` as from
            ``draw``.
        """
        plan, rows, peak = self._penalized_scores(scores, unseen)
        one = plan.groups[0] if len(plan.groups) == 1 else None
        left = _of_groups(plan, _cut, rows, peak) if one is None else _cut(one, rows, peak)
        return left.reshape(scores.shape), transforms.is_finite(peak).reshape(scores.shape[:-1])

    def probabilities(
        self, scores: mx.array, unseen: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Return the distribution at each position, and where it is finite; as ``cut``."""
        left, finite = self.cut(scores, unseen)
        return softmax(left), finite

    def report(self, raw: mx.array, tokens: mx.array, finite: mx.array) -> Drawn:
        """Add log-probabilities to tokens ``(B, R)``: theirs, and the best if asked for."""
        logprobs = transforms.log_softmax(raw)
        best: tuple[mx.array, ...] = ()
        if self._n_top:
            n_known = raw.shape[-1] if self._n_known is None else self._n_known
            values, ids = transforms.best(logprobs, min(self._n_top, n_known))
            best = (ids, values)
        chosen = transforms.gather(logprobs, tokens[..., None]).squeeze(-1)
        if self.processors:  # a processor may turn bad logits into finite ones
            finite = finite & mx.isfinite(mx.max(raw, axis=-1))
        return Drawn(tokens, chosen, finite, best)

    def process(self, raw: mx.array, drafts: mx.array | None) -> mx.array:
        """Apply the processors to R positions ``(B, R, V)``, the last of them after all drafts."""
        if not self.processors:
            return raw
        rows = []
        for i, row in enumerate(self.rows):
            positions = []
            if row.processors is None:
                rows.append(raw[i : i + 1])
                continue
            for place, n in enumerate(before_each(raw, drafts)):
                before = drafts[i, :n] if drafts is not None and n else None
                positions.append(row.processors.apply(raw[i : i + 1, place], before))
            rows.append(mx.stack(positions, axis=1))
        return mx.concatenate(rows)

    # Drafts.

    def draft(
        self, logits: mx.array, before: Sequence[mx.array]
    ) -> tuple[mx.array, mx.array | None]:
        """Draw the next draft of each text from the draft model's ``logits (B, V)``, unevaluated.

        ``before`` are the drafts of this round so far, each ``(B,)``.

        Returns:
            The tokens ``(B,)`` int32, and the distributions that they were drawn from ``(B, V)``;
            None: certain.
        """
        drafts = mx.stack(list(before), axis=1) if before else None
        logits = only_known(logits, self._n_known)
        if self.processors:
            logits = self.process(logits[:, None], drafts)[:, 0]
        if self.greedy:
            return self.draw(logits, drafts)[0], None
        left, _ = self.cut(logits, drafts)
        q = softmax(left)
        if self.coupled:
            return self.race(q[:, None], drafts)[:, 0], q
        return transforms.draw(q, self.numbers(DRAFT + len(before), 1, q.shape[-1]))[:, 0], q

    def after(self, raw: mx.array, paths: Sequence[Sequence[int]]) -> mx.array:
        """Return the distribution after each of R paths of drafts, from ``raw (1, R, V)``.

        At temperature 0 it is that of temperature 1. It is NaN where nothing can be drawn.
        """
        (row,) = self.rows
        options = row.options
        if options.temperature == 0:
            options = replace(options, temperature=1.0)
        if not (self.processors or options.penalizes):  # the tokens before make no difference
            return softmax(transforms.apply(raw, options))
        rows = []
        for i, path in enumerate(paths):
            logits = self.process(raw[:, i : i + 1], mx.array([path], mx.int32))
            rows.append(transforms.apply(logits, options, [*row.text, *path]))
        return softmax(mx.concatenate(rows, axis=1))

    def _penalized_scores(
        self, logits: mx.array, unseen: mx.array | None
    ) -> tuple[Plan, mx.array, mx.array]:
        """Return the plan, penalised scores float32 ``(N, V)``, and the best of each row."""
        vocab_size = logits.shape[-1]
        n_positions = logits.shape[1] if logits.ndim == 3 else 1
        key = n_positions, vocab_size, tuple(transforms.ORDER)
        if key not in self._plans:
            self._plans[key] = plan_of(self.rows, n_positions, vocab_size)
        plan = self._plans[key]
        scores = logits.astype(mx.float32)
        if logits.ndim == 3:
            scores = scores.reshape(-1, vocab_size)
        if plan.penalized:
            scores = self._penalize(plan, scores, unseen, n_positions)
        return plan, scores, mx.max(scores, axis=-1, keepdims=True)

    # Penalties.

    def _penalize(
        self, plan: Plan, scores: mx.array, unseen: mx.array | None, n_positions: int
    ) -> mx.array:
        """Return scores ``(N, V)`` in which the texts are penalised for their latest tokens."""
        tokens, is_real = self._windows(unseen, n_positions, scores.shape[-1])
        if not tokens.shape[1]:
            return scores
        if len(plan.penalized) == len(scores):
            return transforms.penalize(scores, tokens, plan.penalties, is_real)
        rows = mx.array(plan.penalized)
        new = transforms.penalize(scores[rows], tokens, plan.penalties, is_real)
        scores = mx.array(scores)
        scores[rows] = new
        return scores

    def _windows(
        self, unseen: mx.array | None, n_positions: int, vocab_size: int
    ) -> tuple[mx.array, mx.array | None]:
        """Return the tokens that the penalties see, of each penalised row ``(P * R, W)``.

        And which of these are real (None: all): shorter windows are padded on the left.
        """
        latest, windows = [], []
        for i in self._penalized:
            row = self.rows[i]
            latest.append(row.text[-row.window :])
            windows.append(row.window)
        lengths = np.array([*map(len, latest)])[:, None]
        width = lengths.max()
        padded = np.zeros((len(latest), width), np.int32)
        is_real = np.arange(width) >= width - lengths
        padded[is_real] = np.concatenate(latest)
        tokens = mx.array(padded)
        n_unseen = 0 if unseen is None else unseen.shape[1]
        if unseen is not None and n_unseen:
            # An id beyond V is flagged elsewhere, but must not write beyond the array here.
            drawn = mx.clip(unseen, 0, vocab_size - 1).astype(mx.int32)
            tokens = mx.concatenate([tokens, drawn[mx.array(self._penalized)]], axis=1)
            tokens = mx.repeat(tokens, n_positions, axis=0)
            is_real = np.pad(is_real, ((0, 0), (0, n_unseen)), constant_values=True)
            later = np.arange(n_positions)[::-1, None]  # how many tokens come after each position
            ages = np.arange(width + n_unseen)[::-1] - later  # (R, W); 0 is the newest
            is_seen = ages < np.array(windows, np.int64)[:, None, None]
            is_real = is_real[:, None] & (ages >= 0) & is_seen
            is_real = is_real.reshape(tokens.shape)
        return tokens, None if is_real.all() else mx.array(is_real)


def only_known(logits: mx.array, n_known: int | None) -> mx.array:
    """Return logits with -inf for all ids but the first ``n_known``; None: as they are."""
    if n_known is None:
        return logits
    return mx.where(mx.arange(logits.shape[-1]) < n_known, logits, -mx.inf)


# --- groups ---


def _of_groups(plan: Plan, function: Any, *columns: mx.array) -> mx.array:
    """Call ``function`` for each group with its rows of the columns."""
    parts = []
    for group in plan.groups:
        own = [mx.take(column, group.rows, axis=0) for column in columns]
        parts.append(function(group, *own))
    return mx.take(mx.concatenate(parts), plan.back, axis=0)


def _draw(group: Group, scores: mx.array, peak: mx.array, u: mx.array) -> mx.array:
    """Draw a token from each row: ``(n, 1)`` int32."""
    if not len(scores):  # a ``Sampler`` may be asked for nothing
        return mx.zeros((0, 1), mx.int32)
    ids = _candidates(group, scores) if group.is_narrow else None
    among = scores if ids is None else transforms.gather(scores, ids)
    left = transforms.cut(among, group.parameters, peak)
    index = transforms.draw(transforms.exp(left), u)
    return index if ids is None else transforms.gather(ids, index)


def _cut(group: Group, scores: mx.array, peak: mx.array) -> mx.array:
    """Cut each row: ``(n, V)``, relative to the best."""
    ids = _candidates(group, scores) if group.is_narrow else None
    if ids is None:
        return transforms.cut(scores, group.parameters, peak)
    left = transforms.cut(transforms.gather(scores, ids), group.parameters, peak)
    return transforms.keep(scores, left, ids)


def _candidates(group: Group, scores: mx.array) -> mx.array | None:
    """Return the ids ``(n, K)`` of the tokens that top-k can leave, in order; None: all tokens.

    A fast path: the transforms, and the draw, give the same among these as among all tokens; of
    more than 2,048 unless a random number, or top-p's limit, is within 1e-6 of where it changes. It
    is closed where a transform is replaced or moved, and where the group uses one that was added.
    """
    return transforms.best_by_id(scores, group.width) if _CANDIDATES.is_open() else None


def check_finite(whose: str, finite: Sequence[bool]) -> None:
    """Refuse logits that could not be drawn from."""
    if not all(finite):
        raise BadValue(f"{whose}: {NOT_FINITE}")
