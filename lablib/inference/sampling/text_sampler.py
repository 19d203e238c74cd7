"""Sample target and draft logits of growing texts, each text with its own options.

Target and draft are sampled through the same slots, so that the same penalties and cuts apply to
both, and no random number is used twice. Plain decoding asks for tokens, drafters for drafts, the
judge for the distributions that its rule compares.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lablib.definitions import FastPath
from lablib.inference.sampling import transforms
from lablib.inference.sampling.batch import Batch, Slot, count_unseen
from lablib.inference.sampling.processors import LogitsProcessor, TextProcessors
from lablib.machine.arrays import listed
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np

ACCEPT, FOLLOW, DRAFT = 0, 1, 2  # the uses of a round's random numbers, in their order
NOT_FINITE = "the model's logits must be finite, got NaN, +inf or a row of nothing but -inf"

_ARGMAX = FastPath(
    (transforms.ORDER, "greedy"),
    *((transforms, name) for name in ("greedy", "cut", "draw")),
)
_COMPILED_DRAW = FastPath((transforms, "draw"))


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


class TextSampler:
    """The slots of texts that grow side by side; their owner appends to the texts.

    Args:
        num_ctx: the most tokens that a text will have.
        processors: of each text, see ``TextProcessors``.
        coupled: whether target and draft draw with the same noise (``rules.coupled``).

    Attributes:
        batch: the slots of the texts that still grow.
        greedy: whether every text takes the best token always (temperature 0).
    """

    _numbers: np.ndarray | None  # of the round, (B, uses), as far as they were asked for

    def __init__(
        self, num_ctx: int, processors: Sequence[LogitsProcessor] = (), coupled: bool = False
    ) -> None:
        self.processors = tuple(processors)
        self._num_ctx = num_ctx
        self._couples = coupled
        self.begin()

    def begin(self) -> None:
        """Begin a batch; no text is in it yet."""
        self._use([])
        self._begin_round(0)

    def add(self, rows: Sequence[Any]) -> None:
        """Add texts: each row has ``options``, a ``text`` and a random ``stream``."""
        new = [Slot(row.options, row.text, row.stream, self._num_ctx) for row in rows]
        for slot in new:
            slot.processors = TextProcessors(self.processors, slot.text)
        self._use([*self.batch.slots, *new])

    def select(self, kept: Sequence[int]) -> None:
        """Go on with the texts at these places of the batch only."""
        self._use([self.batch.slots[index] for index in kept])

    def _use(self, slots: Sequence[Slot]) -> None:
        self.batch = Batch(slots)
        self.greedy = all(slot.options.temperature == 0 for slot in slots)
        penalized = any(slot.window for slot in slots)
        self._takes_best_logit = self.greedy and not (penalized or self.processors)
        self._n_top = max((slot.options.top_logprobs for slot in slots), default=0)

    @property
    def coupled(self) -> bool:
        """Return whether target and draft draw with the same noise."""
        return self._couples and not self.greedy

    def _skips_sampler(self) -> bool:
        """Return whether each token is just the one with the best raw logit."""
        return self._takes_best_logit and _ARGMAX.is_open()

    def states(self, row: int) -> Sequence[LogitsProcessor]:
        """Return the processors of a text, which have read it but for its last token; copy them."""
        return self.batch.slots[row].processors.settled

    # Tokens of the target.

    def plain(self, logits: mx.array, unseen: mx.array | None = None) -> Drawn:
        """Draw the token after each text, unevaluated, from the model's ``logits (B, 1, V)``.

        ``unseen (B, A)`` are tokens that were drawn, but are not in the texts yet.
        """
        raw = logits.astype(mx.float32)
        scores = self.process(raw, unseen)
        tokens, finite = self.draw(scores, unseen)
        return self.report(raw, tokens, finite)

    def draw(self, scores: mx.array, unseen: mx.array | None) -> tuple[mx.array, mx.array | None]:
        """Draw the tokens of plain sampling, each with the random number of its position.

        Args:
            scores: ``(B, R, V)``, processed logits of R positions in a row.
            unseen: ``(B, A)``, R <= A + 1, the tokens before and between them, if any.

        Returns:
            Tokens ``(B, R)`` int32, and where the scores could be drawn from ``(B, R)``; None: as
            the raw logits tell.
        """
        if self._skips_sampler():
            return mx.argmax(scores, axis=-1).astype(mx.int32), None
        if not self.coupled:
            return self.batch.draw(scores, unseen)
        p, finite = self.probabilities(scores, unseen)
        return self.race(p, unseen), finite

    def report(self, raw: mx.array, tokens: mx.array, finite: mx.array | None) -> Drawn:
        """Add log-probabilities to tokens ``(B, R)``: theirs, and the best if asked for."""
        logprobs = transforms.log_softmax(raw)
        best: tuple[mx.array, ...] = ()
        if self._n_top:
            values, ids = transforms.best(logprobs, min(self._n_top, raw.shape[-1]))
            best = (ids, values)
        chosen = mx.take_along_axis(logprobs, tokens[..., None], axis=-1).squeeze(-1)
        if finite is None:  # NaN or inf anywhere in a row shows in its best token
            finite = transforms.is_finite(chosen)
        elif self.processors:  # a processor may turn bad logits into finite ones
            finite = finite & mx.isfinite(mx.max(raw, axis=-1))
        return Drawn(tokens, chosen, finite, best)

    def probabilities(
        self, scores: mx.array, drafts: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Return the distribution at each position, and where it is finite.

        Scores are ``(B, R, V)`` of R positions as in :meth:`draw`, or ``(B, V)`` after all drafts.
        """
        left, finite = self.batch.cut(scores, drafts)
        return mx.softmax(left, axis=-1), finite

    def process(self, raw: mx.array, drafts: mx.array | None) -> mx.array:
        """Apply the processors to R positions ``(B, R, V)``, the last of them after all drafts."""
        if not self.processors:
            return raw
        rows = []
        for row, slot in enumerate(self.batch.slots):
            positions = []
            for i, n in enumerate(_before_each(raw, drafts)):
                before = drafts[row, :n] if drafts is not None and n else None
                positions.append(slot.processors.apply(raw[row : row + 1, i], before))
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
        if self._skips_sampler():
            return mx.argmax(logits, axis=-1).astype(mx.int32), None
        drafts = mx.stack(list(before), axis=1) if before else None
        if self.processors:
            logits = self.process(logits[:, None], drafts)[:, 0]
        if self.greedy:
            tokens, _ = self.batch.draw(logits, drafts)
            return tokens, None
        left, _ = self.batch.cut(logits, drafts)
        if self.coupled:
            q = mx.softmax(left, axis=-1)
            return self.race(q[:, None], drafts)[:, 0], q
        drawn = _drawn_compiled if _COMPILED_DRAW.is_open() else _drawn
        return drawn(left, self.numbers(DRAFT + len(before)))

    def after(self, raw: mx.array, paths: Sequence[Sequence[int]]) -> mx.array:
        """Return the distribution after each of R paths of drafts, from ``raw (1, R, V)``.

        At temperature 0 it is that of temperature 1. It is NaN where nothing can be drawn.
        """
        (slot,) = self.batch.slots
        options = slot.options
        if options.temperature == 0:
            options = replace(options, temperature=1.0)
        if not (self.processors or options.penalizes):  # the tokens before make no difference
            return mx.softmax(transforms.apply(raw, options), axis=-1)
        rows = []
        for i, path in enumerate(paths):
            logits = self.process(raw[:, i : i + 1], mx.array([path], mx.int32))
            rows.append(transforms.apply(logits, options, [*slot.text, *path]))
        return mx.softmax(mx.concatenate(rows, axis=1), axis=-1)

    def shuffled(self, q: mx.array, paths: Sequence[Sequence[int]], first: int) -> mx.array:
        """Order tokens as draws without replacement would, the largest first: ``(1, R, V)``.

        They are in a race (Kool et al. 2019, 1903.06059). Each of the R nodes of a tree has its own
        noise, by its number in the round, from ``first`` on; coupled models share that of a
        position.
        """
        size = q.shape[-1]
        if self.coupled:
            noise = mx.stack([self._noise_after(len(path), size) for path in paths], axis=1)
        else:
            nodes = range(first, first + len(paths))
            noise = self.batch.noise(nodes, size, 1 + self._round)
        return q / noise

    # Random numbers of a round.

    def numbers(self, first: int, n: int = 1) -> mx.array:
        """Return ``n`` random numbers for uses of the round ``(B, n)``; each round has its lane."""
        if self._numbers is None or first + n > self._numbers.shape[1]:
            most = DRAFT + 16 if self._numbers is None else 2 * self._numbers.shape[1]
            self._numbers = self.batch.uniforms(most, 1 + self._round)
        return mx.array(self._numbers[:, first : first + n])

    def race(self, weights: mx.array, drafts: mx.array | None) -> mx.array:
        """Draw tokens ``(B, R)`` from weights ``(B, R, V)``, the last of them after all drafts.

        Token i arrives after ``E_i / weight_i``, and the first one wins: in proportion to its
        weight, as the E are exponential (the Gumbel-max trick without logarithms). They are the
        noise of a position, the same for all who draw there.
        """
        size = weights.shape[-1]
        noise = [self._noise_after(n, size) for n in _before_each(weights, drafts)]
        exponentials = mx.stack(noise, axis=1)
        return mx.argmax(weights / exponentials, axis=-1).astype(mx.int32)

    def _noise_after(self, ahead: int, size: int) -> mx.array:
        """Return the noise ``(B, V)`` of the position after ``ahead`` tokens of the round."""
        if ahead not in self._noise:
            self._noise[ahead] = self.batch.noise(ahead, size)
        return self._noise[ahead]

    def end_round(self) -> None:
        """End a round: the texts have grown by what was decided, and random numbers are new."""
        if self.processors:
            for slot in self.batch.slots:
                slot.processors.end_round()
        self._begin_round(self._round + 1)

    def _begin_round(self, number: int) -> None:
        self._round = number
        self._numbers = None
        self._noise: dict[int, mx.array] = {}


def _before_each(logits: mx.array, drafts: mx.array | None) -> range:
    """Return how many of the drafts ``(B, A)`` come before each of R positions ``(B, R, V)``."""
    n = count_unseen(drafts)
    return range(n + 1 - logits.shape[1], n + 1)


def _drawn(scores: mx.array, u: mx.array) -> tuple[mx.array, mx.array]:
    """Return tokens ``(B,)``, and the probabilities that they were drawn from."""
    q = mx.softmax(scores, axis=-1)
    return transforms.draw(q, u)[:, 0], q


_drawn_compiled = mx.compile(_drawn)


def check_finite(whose: str, finite: Sequence[bool]) -> None:
    """Refuse logits that could not be drawn from."""
    if not all(finite):
        raise BadValue(f"{whose}: {NOT_FINITE}")
