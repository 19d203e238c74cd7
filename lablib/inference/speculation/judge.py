"""A rule at work: from the logits of one round to the tokens that stay, with a single fetch.

``rules`` says what is right in terms of probabilities. Here the probabilities come from the logits
of two models, through the same sampler options on both sides, and the random numbers from the
sampler's slot. Everything is queued on the device; the host looks once, in ``Judge.judge``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lablib.inference.arguments import LogitsProcessor
from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.sampler import Sampler
from lablib.inference.speculation import rules
from lablib.inference.token_loop import NOT_FINITE
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np

_ACCEPT, _FOLLOW, _DRAFT = 0, 1, 2  # which of a round's random numbers is used for what


@dataclass(frozen=True)
class Proposal:
    """Drafted tokens, possibly not computed yet.

    Attributes:
        tokens: ``(B, γ)`` int32, γ ≥ 1.
        q: ``(B, γ, V)``, what each token was drawn from; None if the drafts were certain (looked
            up, or the draft model's best).
        logits: ``(B, γ, V)``, the raw scores behind them; None without a draft model.
    """

    tokens: mx.array
    q: mx.array | None = None
    logits: mx.array | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One verification, for plots and for statistics.

    At temperature 0 the sampler's distributions are certain of one token and say nothing: there
    ``p`` and ``q`` are the models' own (temperature 1), while the overlaps stay those of the rule.

    Attributes:
        drafted: the proposed ids.
        p: the target's probability of each of them, after the sampler's transforms.
        q: the draft's; 1 for drafts that were looked up.
        min_pq: ``Σ min(p, q)`` over the vocabulary at each drafted position.
        dot_pq: ``Σ p·q`` at each drafted position.
        accepted: how many stay.
        reached: how many were judged with everything before them accepted.
        token: the target's own token at the end; None after an accepted stop token.
        kind: what that is: "correction", "bonus", "plain" (nothing was drafted) or None.
    """

    drafted: tuple[int, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    min_pq: tuple[float, ...]
    dot_pq: tuple[float, ...]
    accepted: int
    reached: int
    token: int | None
    kind: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one round decided.

    Attributes:
        drafted: the proposed ids.
        tokens: the accepted drafts, and the target's token after them unless a stop token came
            first.
        logprobs: of each of them, under the target's raw logits.
        top: for each of them the target's best ``(id, logprob)`` pairs, if asked for.
        seen: ``p, q, min_pq, dot_pq`` of each drafted position, if traced.
        accepted: how many drafts stay.
        reached: how many drafts were judged with everything before them accepted.
    """

    drafted: list[int]
    tokens: list[int]
    logprobs: list[float]
    top: list[tuple[tuple[int, float], ...]]
    seen: list[list[float]] | None
    accepted: int
    reached: int

    def until(self, stops: frozenset[int]) -> "Verdict":
        """The same, ended by the first accepted stop token: what follows it was never reached."""
        for i, token in enumerate(self.tokens[: self.accepted]):
            if token in stops:
                end = i + 1
                tokens, logprobs = self.tokens[:end], self.logprobs[:end]
                return Verdict(self.drafted, tokens, logprobs, self.top[:end], self.seen, end, end)
        return self

    def round(self) -> Round:
        """The trace of it."""
        drafted, token, kind = tuple(self.drafted), None, None
        seen = [tuple(row) for row in self.seen] if self.seen else [()] * 4
        if len(self.tokens) > self.accepted:
            token = self.tokens[-1]
            kind = "bonus" if self.accepted == len(drafted) else "correction"
        return Round(
            drafted, *seen, self.accepted, self.reached, token, kind if drafted else "plain"
        )


class Judge:
    """The sampler's slots of some sequences, and the rule that verifies their drafts.

    Args:
        options: how logits become tokens; the same for target and draft.
        rule: "match", "rejection" or "block".
        prompts: what the penalties and the processors have seen before, one for each sequence.
        max_tokens: how many tokens may follow.
        streams: which stream of the seed's random numbers each sequence draws from.
        processors: applied to both models' logits, as in ``TokenIterator``; for one sequence only.
        trace: whether to gather what :class:`Round` shows.

    Attributes:
        rows: the numbers of the sequences still alive, in the order of the batch.
    """

    def __init__(
        self,
        options: SamplerOptions,
        rule: str,
        prompts: Sequence[Sequence[int]],
        max_tokens: int,
        streams: Sequence[int],
        *,
        processors: Sequence[LogitsProcessor] = (),
        trace: bool = False,
    ) -> None:
        self.options, self.trace = options, trace
        self._greedy = options.temperature == 0
        # At temperature 0 the rules agree, and comparing two best tokens is the cheapest of them.
        self._outcome = None if self._greedy or rule == "match" else rules.RULE[rule]
        self._bare = self._greedy and not options.penalizes and not processors
        self.processors, self._history = tuple(processors), list(prompts[0])
        self._rounds, self._numbers = 0, mx.zeros((0, 0))
        self.rows = list(range(len(prompts)))
        self._sampler = Sampler(max(map(len, prompts)) + max_tokens)
        for row, prompt in enumerate(prompts):
            prior = prompt if options.penalizes else ()
            self._sampler.add(row, options, prior, stream=streams[row])

    def choose(
        self, logits: mx.array, before: Sequence[mx.array]
    ) -> tuple[mx.array, mx.array | None]:
        """Draw the next draft of each sequence, unevaluated.

        Args:
            logits: the draft model's ``(B, V)``.
            before: the drafts of this round so far, each ``(B,)``.

        Returns:
            The tokens ``(B,)`` int32, and what they were drawn from ``(B, V)`` (None: certain).
        """
        if self._bare:
            return mx.argmax(logits, axis=-1).astype(mx.int32), None
        drafts = mx.stack(before, axis=1) if before else mx.zeros((len(self.rows), 0), mx.int32)
        scores = self._processed(logits[:, None], drafts, len(before))
        if self._greedy:
            return self._sampler.draw(self.rows, scores[:, 0], drafts)[0], None
        q = mx.exp(self._sampler.score_positions(self.rows, scores, drafts)[0][:, 0])
        return self._draw(q, _DRAFT + len(before)), q

    def judge(
        self, logits: mx.array, proposal: Proposal, limits: Sequence[int] | None = None
    ) -> list[Verdict]:
        """Decide a round; this is where the host waits.

        Args:
            logits: the target's ``(B, γ+1, V)``: after the last token, and after each draft.
            proposal: the γ drafts of each sequence.
            limits: how many of them are meant, for each sequence; None means all.

        Raises:
            BadValue: logits that the decision needs are not finite.
        """
        raw, drafts = logits.astype(mx.float32), proposal.tokens
        scores = self._processed(raw, drafts)
        q = self._drafted_from(proposal, raw.shape[-1], limits)
        kept, tokens, fit = self._decide(scores, drafts, q)
        if kept is not None and limits is not None and not min(limits):
            # A row that meant no drafts draws what it would draw alone.
            plain, _ = self._target_tokens(scores[:, :1], drafts[:, :0])
            tokens = mx.where(mx.array(limits)[:, None] == 0, plain, tokens)
        logprobs, fit, best = self._report(raw, tokens, fit)
        seen = self._seen(raw, scores, proposal, q) if self.trace else None
        health = self._health(proposal)
        mx.eval(drafts, kept, tokens, logprobs, fit, best, seen, health)
        drafts, tokens, logprobs, fit = (x.tolist() for x in (drafts, tokens, logprobs, fit))
        kept = None if kept is None else kept.tolist()
        seen = None if seen is None else seen.tolist()
        verdicts = []
        for row in range(len(self.rows)):
            drafted = drafts[row] if limits is None else drafts[row][: limits[row]]
            accepted = _agreement(drafted, tokens[row]) if kept is None else kept[row]
            # Rows after the first refusal follow a text that never was; under match they have no
            # say.
            _check("target", fit[row] if kept is not None else fit[row][: accepted + 1])
            verdicts.append(
                Verdict(
                    drafted,
                    tokens[row][: accepted + 1],
                    logprobs[row][: accepted + 1],
                    _pairs(best, row),
                    None if seen is None else [values[: len(drafted)] for values in seen[row]],
                    accepted,
                    min(accepted + 1, len(drafted)),
                )
            )
        _check("draft", [] if health is None else health.tolist())
        return verdicts

    def draw_plain(self, logits: mx.array, pending: mx.array | None = None) -> list[mx.array]:
        """Draw the target's own tokens without any drafts, unevaluated.

        Args:
            logits: ``(B, V)``.
            pending: ``(B, A)``, tokens drawn but not committed yet.

        Returns:
            tokens, logprobs and whether they could be drawn ``(B, 1)``, and the best ids and
            log-probabilities ``(B, 1, K)`` if asked for; for :meth:`read_plain`.
        """
        raw = logits[:, None].astype(mx.float32)
        drafts = mx.zeros((raw.shape[0], 0), mx.int32) if pending is None else pending
        _, tokens, fit = self._decide(self._processed(raw, drafts, drafts.shape[1]), drafts, None)
        logprobs, fit, best = self._report(raw, tokens, fit)
        return [tokens, logprobs, fit, *best]

    def read_plain(self, answer: Sequence[mx.array]) -> list[Verdict]:
        """Wait for what :meth:`draw_plain` queued."""
        mx.eval(answer)
        tokens, logprobs, fit = (part.tolist() for part in answer[:3])
        for row in fit:
            _check("target", row)
        return [
            Verdict([], tokens[row], logprobs[row], _pairs(answer[3:], row), None, 0, 0)
            for row in range(len(tokens))
        ]

    def commit(self, tokens: Sequence[list[int]]) -> None:
        """These tokens of each sequence are in the text now."""
        self._rounds, self._numbers = self._rounds + 1, mx.zeros((0, 0))
        if self._bare:
            return
        for row, new in zip(self.rows, tokens, strict=True):
            self._sampler.commit(row, new)
        if self.processors:
            self._history += tokens[0]

    def select(self, places: Sequence[int]) -> None:
        """Only the sequences at these places of the batch go on."""
        self.rows = [self.rows[place] for place in places]

    def _drafted_from(
        self, proposal: Proposal, size: int, limits: Sequence[int] | None
    ) -> mx.array | None:
        """The q ``(B, γ, V)``, zeros where no draft is meant; None if nobody needs it."""
        if self._outcome is None and not self.trace:
            return None
        q = rules.one_hot(proposal.tokens, size) if proposal.q is None else proposal.q
        if limits is None:
            return q
        meant = mx.arange(q.shape[1]) < mx.array(limits)[:, None]
        return mx.where(meant[..., None], q, 0)

    def _decide(
        self, scores: mx.array, drafts: mx.array, q: mx.array | None
    ) -> tuple[mx.array | None, mx.array, mx.array | None]:
        """How many drafts stay ``(B,)`` (None: those that equal the tokens), and the tokens.

        The last says where the scores could be drawn from ``(B, γ+1)``; None: where the raw logits
        can, as the best of them is all that was asked for.
        """
        if self._bare:
            return None, mx.argmax(scores, axis=-1).astype(mx.int32), None
        if self._outcome is None or q is None:
            return None, *self._target_tokens(scores, drafts)
        logs, fit = self._sampler.score_positions(self.rows, scores, drafts)
        p = mx.exp(logs)
        outcome = self._outcome(p, q, drafts)
        kept = self._draw(outcome.kept, _ACCEPT)
        token = self._draw(outcome.following[mx.arange(len(self.rows)), kept], _FOLLOW)[:, None]
        padded = mx.concatenate([drafts, token], axis=1)
        return kept, mx.where(mx.arange(padded.shape[1]) < kept[:, None], padded, token), fit

    def _target_tokens(self, scores: mx.array, drafts: mx.array) -> tuple[mx.array, mx.array]:
        """What plain sampling would draw at each position, with the numbers it would use there."""
        return self._sampler.draw_positions(self.rows, scores, drafts)

    def _draw(self, weights: mx.array, use: int) -> mx.array:
        """Draw from weights ``(B, N)``. Each round has a lane: no number is used twice."""
        while use >= self._numbers.shape[1]:
            n = 2 * self._numbers.shape[1] or _DRAFT + 16
            lane = 1 + self._rounds
            self._numbers = np.stack([self._sampler.uniforms(r, n, lane) for r in self.rows])
        return rules.pick(weights, mx.array(self._numbers[:, use]))

    def _processed(self, raw: mx.array, drafts: mx.array, ahead: int = 0) -> mx.array:
        """What is sampled from: position i comes after the history and ``ahead + i`` drafts."""
        if not self.processors:
            return raw
        rows = []
        for i in range(raw.shape[1]):
            so_far = mx.concatenate([mx.array(self._history), drafts[0, : ahead + i]])
            row = raw[:, i]
            for processor in self.processors:
                row = processor(so_far, row)
            rows.append(row)
        return mx.stack(rows, axis=1)

    def _report(
        self, raw: mx.array, tokens: mx.array, fit: mx.array | None
    ) -> tuple[mx.array, mx.array, tuple[mx.array, ...]]:
        """Log-probabilities of the tokens, where all was finite, the best ids and their own."""
        norm = mx.logsumexp(raw, axis=-1)
        finite = mx.isfinite(norm) if fit is None else mx.isfinite(norm) & fit
        logprobs = mx.take_along_axis(raw, tokens[..., None], axis=-1)[..., 0] - norm
        if not self.options.top_logprobs:
            return logprobs, finite, ()
        values, ids = transforms.best(raw, min(self.options.top_logprobs, raw.shape[-1]))
        return logprobs, finite, (ids, values - norm[..., None])

    def _health(self, proposal: Proposal) -> mx.array | None:
        """Whether each draft could be drawn, flattened; None without a draft model."""
        if proposal.logits is None:
            return None
        finite = mx.isfinite(mx.max(proposal.logits.astype(mx.float32), axis=-1))
        if self.processors and proposal.q is not None:  # what they made of finite logits
            finite = finite & mx.isfinite(mx.sum(proposal.q, axis=-1))
        return finite.flatten()

    def _seen(self, raw: mx.array, scores: mx.array, proposal: Proposal, q: mx.array) -> mx.array:
        """``p, q, Σ min(p, q), Σ p·q`` of each draft: ``(B, 4, γ)``."""
        drafts = proposal.tokens
        p = mx.exp(self._sampler.score_positions(self.rows, scores, drafts)[0])[:, :-1]
        overlaps = rules.overlap(p, q)
        if self._greedy:
            p = mx.softmax(raw[:, :-1], axis=-1)
            if proposal.logits is not None:
                q = mx.softmax(proposal.logits.astype(mx.float32), axis=-1)
        chosen = [mx.take_along_axis(x, drafts[..., None], axis=-1)[..., 0] for x in (p, q)]
        return mx.stack([*chosen, *overlaps], axis=1)


def _pairs(best: Sequence[mx.array], row: int) -> list[tuple[tuple[int, float], ...]]:
    """For each token of a sequence, the best ids with their log-probabilities."""
    if not best:
        return []
    ids, values = (column[row].tolist() for column in best)
    return [tuple(zip(i, v, strict=True)) for i, v in zip(ids, values, strict=True)]


def _check(model: str, finite: Sequence[bool]) -> None:
    if not all(finite):
        raise BadValue(f"{model}: {NOT_FINITE}")


def _agreement(drafted: Sequence[int], tokens: Sequence[int]) -> int:
    for n, (draft, token) in enumerate(zip(drafted, tokens, strict=False)):
        if draft != token:
            return n
    return len(drafted)
