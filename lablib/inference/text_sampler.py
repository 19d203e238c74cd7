"""What logits become while texts grow: tokens, drafts or probabilities, by the same options.

Target and draft are sampled through the same slots of one ``Sampler``, so that the same penalties
and cuts apply to both, and no random number is used twice. Plain decoding asks it for tokens,
drafters for drafts, the judge for what the rule compares.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from lablib.inference.arguments import LogitsProcessor
from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.sampler import Sampler
from lablib.validation import BadValue, returned

import mlx.core as mx

ACCEPT, FOLLOW, DRAFT = 0, 1, 2  # which of a round's random numbers is used for what
NOT_FINITE = "the model's logits must be finite, got NaN, +inf or a row of nothing but -inf"


class Drawn(NamedTuple):
    """The tokens of R positions of B texts, and what is known about them."""

    tokens: mx.array  # (B, R)
    logprobs: mx.array  # (B, R), of each of them under the raw logits
    finite: mx.array  # (B, R): where the logits could be drawn from
    best: tuple[mx.array, ...] = ()  # (B, R, K) each: the best ids, their log-probabilities

    def top(self, row: int) -> list[tuple[tuple[int, float], ...]]:
        """Pair the best ids with their log-probabilities, for each token of a text."""
        ids, values = (column[row].tolist() for column in self.best)
        return [tuple(zip(i, v, strict=True)) for i, v in zip(ids, values, strict=True)]


class TextSampler:
    """The sampler's slots of texts that grow side by side.

    Whoever owns the ``texts`` appends to them, at most ``max_tokens``. Each draws from its own of
    the seed's ``streams``. ``processors`` are for one text only. The judge tells whether its rule
    has both models draw with the same noise: ``coupled``.
    """

    coupled = False

    def __init__(
        self, options: SamplerOptions, texts: Sequence[list[int]], max_tokens: int,
        streams: Sequence[int], processors: Sequence[LogitsProcessor] = (),
    ) -> None:  # fmt: skip
        self.options, self.processors, self._texts = options, tuple(processors), texts
        self.greedy = options.temperature == 0  # the best token is always taken,
        self.bare = self.greedy and not options.penalizes and not processors  # of raw logits
        self.rows = tuple(range(len(texts)))  # the texts still alive, in the order of the batch
        self._round, self._numbers, self._noise = 0, None, {}
        self._sampler = Sampler(max(map(len, texts)) + max_tokens)
        for row, text in enumerate(texts):
            prior = text if options.penalizes else ()
            self._sampler.add(row, options, prior, stream=streams[row])

    def draft(
        self, logits: mx.array, before: Sequence[mx.array]
    ) -> tuple[mx.array, mx.array | None]:
        """Draw the next draft of each text from the draft model's ``logits (B, V)``, unevaluated.

        ``before`` are the drafts of this round so far, each ``(B,)``. Returns the tokens ``(B,)``
        int32, and what they were drawn from ``(B, V)``; None: certain.
        """
        if self.bare:
            return mx.argmax(logits, axis=-1).astype(mx.int32), None
        drafts = mx.stack(before, axis=1) if before else None
        if self.processors:
            logits = self.process(logits[:, None], drafts, len(before))[:, 0]
        if self.greedy:
            return self._sampler.draw(self.rows, logits, drafts)[0], None
        left, _ = self._sampler.cut(self.rows, logits, drafts)
        if self.coupled:
            q = mx.softmax(left, axis=-1)
            return self.race(q[:, None], len(before))[:, 0], q
        return _drawn(left, self.numbers(DRAFT + len(before)))

    def after(self, raw: mx.array, paths: Sequence[Sequence[int]]) -> mx.array:
        """Return what is sampled from after each of R paths of drafts, of ``raw (1, R, V)``.

        At temperature 0 it is what would be at temperature 1. It is NaN where nothing can be drawn.
        """
        options = replace(self.options, temperature=1.0) if self.greedy else self.options
        if not (self.processors or options.penalizes):  # nobody looks at the tokens before
            return mx.softmax(transforms.apply(raw, options), axis=-1)
        rows = []
        for i, path in enumerate(paths):
            row = self.process(raw[:, i : i + 1], mx.array([path], mx.int32), len(path))
            rows.append(transforms.apply(row, options, [*self._texts[0], *path]))
        return mx.softmax(mx.concatenate(rows, axis=1), axis=-1)

    def shuffled(self, q: mx.array, paths: Sequence[Sequence[int]], first: int) -> mx.array:
        """Order tokens as draws without replacement would, the largest first: ``(1, R, V)``.

        They are in a race (Kool et al. 2019, 1903.06059). R nodes of a tree share no noise, and are
        numbered from ``first`` on in this round; unless both models are to have that of a place.
        """
        size = q.shape[-1]
        if self.coupled:
            noise = mx.stack([self._noise_at(len(path), size) for path in paths], axis=1)
        else:
            nodes = range(first, first + len(paths))
            noise = self._sampler.noise(self.rows, nodes, size, 1 + self._round)
        return q / noise

    def draw(self, scores: mx.array, drafts: mx.array | None) -> tuple[mx.array, mx.array | None]:
        """Draw what plain sampling would, with the random numbers it would use there, or the noise.

        ``scores (B, R, V)`` are processed logits of R positions in a row; ``drafts (B, D)``,
        R <= D + 1, are the tokens before and between them, if any. Returns the tokens ``(B, R)``
        int32, and where the scores could be drawn from ``(B, R)``; None: where the raw logits can.
        """
        if self.bare:
            return mx.argmax(scores, axis=-1).astype(mx.int32), None
        if self.coupled:
            p, finite = self.probabilities(scores, drafts)
            known = 0 if drafts is None else drafts.shape[1]
            return self.race(p, known + 1 - p.shape[1]), finite
        return self._sampler.draw(self.rows, scores, drafts)

    def plain(self, logits: mx.array, pending: mx.array | None = None) -> Drawn:
        """Draw the token after each text, unevaluated, from the model's ``logits (B, 1, V)``.

        ``pending`` ``(B, A)`` are tokens that were drawn, but not committed yet.
        """
        raw, ahead = logits.astype(mx.float32), 0 if pending is None else pending.shape[1]
        return self.report(raw, *self.draw(self.process(raw, pending, ahead), pending))

    def report(self, raw: mx.array, tokens: mx.array, fit: mx.array | None) -> Drawn:
        """Add log-probabilities to tokens ``(B, R)``: theirs, and the best if asked for."""
        logprobs, best = transforms.log_softmax(raw), ()
        if most := min(self.options.top_logprobs, raw.shape[-1]):
            values, ids = transforms.best(logprobs, most)
            best = ids, values
        chosen = mx.take_along_axis(logprobs, tokens[..., None], axis=-1).squeeze(-1)
        if fit is None:  # of the best tokens: NaN or inf anywhere in a row shows in theirs
            fit = mx.abs(chosen) < mx.inf  # two operations; mx.isfinite is several
        elif self.processors:  # what they make of bad logits may look well
            fit = fit & mx.isfinite(mx.max(raw, axis=-1))
        return Drawn(tokens, chosen, fit, best)

    def probabilities(self, scores: mx.array, drafts: mx.array | None) -> tuple[mx.array, mx.array]:
        """Return what is sampled from at each position, and where it is finite.

        Scores are ``(B, R, V)`` of R positions as in :meth:`draw`, or ``(B, V)`` after all drafts.
        """
        left, finite = self._sampler.cut(self.rows, scores, drafts)
        return mx.softmax(left, axis=-1), finite

    def numbers(self, first: int, n: int = 1) -> mx.array:
        """Return ``n`` random numbers for uses of the round ``(B, n)``; each round has its lane."""
        if self._numbers is None or first + n > self._numbers.shape[1]:
            most = DRAFT + 16 if self._numbers is None else 2 * self._numbers.shape[1]
            self._numbers = self._sampler.uniforms(self.rows, most, 1 + self._round)
        return mx.array(self._numbers[:, first : first + n])

    def race(self, weights: mx.array, ahead: int) -> mx.array:
        """Draw tokens ``(B, R)`` from weights ``(B, R, V)``, after ``ahead`` tokens of the round.

        Token i arrives after ``E_i / weight_i``, and the first one wins: in proportion to its
        weight, as the E are exponential (the Gumbel-max trick without logarithms). They are the
        noise of a position, the same for all who draw there.
        """
        places = range(ahead, ahead + weights.shape[1])
        noise = mx.stack([self._noise_at(place, weights.shape[-1]) for place in places], axis=1)
        return mx.argmax(weights / noise, axis=-1).astype(mx.int32)

    def _noise_at(self, place: int, size: int) -> mx.array:
        """Return the noise ``(B, V)`` of the position after ``place`` tokens of the round."""
        if place not in self._noise:
            self._noise[place] = self._sampler.noise(self.rows, place, size)
        return self._noise[place]

    def process(self, raw: mx.array, drafts: mx.array | None, ahead: int = 0) -> mx.array:
        """Apply the processors; position i of ``(B, R, V)`` comes after ``ahead + i`` drafts."""
        if not self.processors:
            return raw
        rows = []
        for i in range(raw.shape[1]):
            so_far = mx.array(self._texts[0])
            if drafts is not None:
                so_far = mx.concatenate([so_far, drafts[0, : ahead + i]])
            row = raw[:, i]
            for processor in self.processors:
                row = returned("a logits processor", processor(so_far, row), row)
            rows.append(row)
        return mx.stack(rows, axis=1)

    def commit(self, decided: Iterable[Sequence[int]]) -> None:
        """End a round: what was ``decided`` for each text is in it now."""
        self._round, self._numbers, self._noise = self._round + 1, None, {}
        if self.bare:
            return
        for row, tokens in zip(self.rows, decided, strict=True):
            self._sampler.commit(row, tokens)

    def select(self, places: Sequence[int]) -> None:
        """Go on with the texts at these places of the batch only."""
        self.rows = tuple(self.rows[place] for place in places)


@mx.compile
def _drawn(scores: mx.array, u: mx.array) -> tuple[mx.array, mx.array]:
    """Return tokens ``(B,)``, and the probabilities that they were drawn from."""
    q = mx.softmax(scores, axis=-1)
    return transforms.draw(q, u)[:, 0], q


def check_finite(whose: str, finite: Sequence[bool]) -> None:
    """Refuse logits that could not be drawn from."""
    if not all(finite):
        raise BadValue(f"{whose}: {NOT_FINITE}")
