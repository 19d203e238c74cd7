"""Keep what the rule keeps: from a round's logits to its verdict, with a single fetch.

``rules`` says what is right in terms of probabilities. Here the probabilities come from the logits
of two models, and the rule's ``Outcome`` is drawn from. Everything is queued on the device; the
host looks once, in ``Judge.read``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from lablib.inference.sampling import transforms
from lablib.inference.speculation import rules
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.speculation.tree_rules import TREE_RULE, path_to
from lablib.inference.text_sampler import ACCEPT, FOLLOW, Drawn, TextSampler, check_finite

import mlx.core as mx
import numpy as np


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one round decided for one text; with ``trace=True`` also what it saw.

    ``tokens`` are the accepted drafts, and the target's token after them unless a stop token came
    first. ``p`` and ``q`` are the models' probabilities of each draft after the sampler's
    transforms; q is 1 for drafts that were looked up. At temperature 0 these are certain of one
    token and say nothing: there they are the models' own.
    """

    drafted: Sequence[int]
    tokens: Sequence[int]
    accepted: int  # how many drafts stay
    # How many drafts were judged with everything before them accepted. Siblings in a tree count as
    # one, as one of them can stay: the nodes with children that the text got to, the root included.
    reached: int
    logprobs: Sequence[float] = ()  # of each token, under the target's raw logits
    top: Sequence[tuple[tuple[int, float], ...]] = ()  # the best (id, logprob) pairs, if asked for
    p: Sequence[float] = ()
    q: Sequence[float] = ()
    min_pq: Sequence[float] = ()  # Σ min(p, q) over the vocabulary at each drafted position
    dot_pq: Sequence[float] = ()  # Σ p·q
    coupled: Sequence[float] = ()  # the chance that shared noise keeps a draft there
    path: Sequence[int] = ()  # of a tree: which of the drafts stay

    @property
    def token(self) -> int | None:
        """The target's own token at the end; None after an accepted stop token."""
        return self.tokens[-1] if len(self.tokens) > self.accepted else None

    @property
    def kind(self) -> str | None:
        """Tell what that token is: "correction", "bonus", "plain" (nothing drafted) or None."""
        if not self.drafted:
            return "plain"
        if self.token is None:
            return None
        return "bonus" if self.accepted == self.reached else "correction"  # nothing was refused

    def add_to(self, counts: dict[str, Any]) -> None:
        """Add this round to the counts of its text, but for the tokens and the calls."""
        counts["rounds"] += 1
        counts["total_drafted"] += len(self.drafted)
        counts["total_accepted"] += self.accepted
        counts["total_reached"] += self.reached

    def until(self, stops: frozenset[int]) -> "Verdict":
        """End at the first accepted stop token: what follows it was never reached."""
        for end, token in enumerate(self.tokens[: self.accepted], 1):
            if token in stops:
                cut = {name: getattr(self, name)[:end] for name in ("tokens", "logprobs", "top")}
                return replace(self, accepted=end, reached=end, **cut)
        return self


class Queued(NamedTuple):
    """A round's answer on its way; None or empty where nobody asked."""

    drawn: Drawn  # (B, γ+1): the target's own, or the drafts that stay and the one after them
    kept: mx.array | None = None  # (B,) drafts that stay; None: those that equal the tokens
    drafts: mx.array | None = None  # (B, γ)
    seen: mx.array | None = None  # (B, 5, γ): p, q and what ``rules.overlap`` says of each draft
    health: mx.array | None = None  # (B · γ,): whether each draft could be drawn


class Judge:
    """The ``rule`` that verifies drafts, by its name in ``rules.RULE``.

    The ``sampler`` samples both models, ``stops`` are ids that end a text, and with ``trace``
    verdicts hold ``p``, ``q`` and their overlaps.
    """

    def __init__(
        self, sampler: TextSampler, rule: str, stops: frozenset[int] = frozenset(),
        trace: bool = False,
    ) -> None:  # fmt: skip
        self.sampler, self.stops, self.trace = sampler, stops, trace
        # At temperature 0 the rules agree, and comparing two best tokens is the cheapest of them.
        sampler.coupled = rule == "coupled" and not sampler.greedy
        self._rule = rule
        played_out, law = sampler.greedy or rule in rules.PLAYED_OUT, rules.RULE[rule]
        self._draw = None if played_out else _COMPILED.get(law, partial(draw_outcome, law))

    def decide(
        self, logits: mx.array, proposal: Proposal | None = None,
        counts: Sequence[int] | None = None,
    ) -> list[Verdict]:  # fmt: skip
        """Decide a round; this is where the host waits.

        Args:
            logits: the target's ``(B, γ+1, V)``: after the last token, and after each draft.
            proposal: the γ drafts of each text; None if nothing was drafted.
            counts: how many of them are meant, for each text; None means all.

        Raises:
            BadValue: logits that the decision needs are not finite.
        """
        if proposal is None:
            return self._read(Queued(self.sampler.plain(logits)), counts)
        if proposal.parents is not None:
            return [self._climb(logits, proposal)]
        return self._read(self._queue(logits, proposal, counts), counts)

    def _climb(self, logits: mx.array, proposal: Proposal) -> Verdict:
        """Decide which path of a tree stays; the host waits for the tokens on it."""
        sampler, raw, parents = self.sampler, logits.astype(mx.float32), list(proposal.parents)
        drafts, size = proposal.tokens.tolist()[0], raw.shape[-1]
        paths = [path_to(node, parents) for node in range(-1, len(drafts))]
        texts = [[drafts[node] for node in path] for path in paths]
        q = self._drafted_from(proposal, size, None)
        p = None if q is None else sampler.after(raw, texts)
        if self._draw is None:
            end, token = self._follow(raw, texts)
        else:
            law = [np.array(rows[0], np.float64) for rows in (p, q)]
            check_finite("target", np.isfinite(law[0]).all(axis=1))
            outcome = TREE_RULE[self._rule](*law, drafts, parents)
            kept, following = (mx.array(x, mx.float32) for x in (outcome.kept, outcome.following))
            end = transforms.draw(kept[None], sampler.numbers(ACCEPT)).item()
            token = transforms.draw(following[end][None], sampler.numbers(FOLLOW)).item()
        rows = mx.array([0, *(node + 1 for node in paths[end])])
        fit = mx.isfinite(mx.max(raw[:, rows], axis=-1))
        report = sampler.report(raw[:, rows], mx.array([[*texts[end], token]]), fit)
        seen = None
        if self.trace:
            up = mx.array(parents) + 1
            p = rules.one_hot(mx.argmax(p, axis=-1), size) if sampler.greedy else p
            seen = self._look(raw[:, up], p[:, up], proposal, q)
        kept = mx.array([len(paths[end])])
        queued = Queued(report, kept, proposal.tokens, seen, self._health(proposal))
        verdict = self._read(queued, None)[0]
        reached = min(verdict.reached, len(paths[end]) + (end - 1 in parents))
        return replace(verdict, path=paths[end], reached=reached)

    def _follow(self, raw: mx.array, texts: Sequence[list[int]]) -> tuple[int, int]:
        """Draw the target's own tokens while a node has them; ``texts`` are the paths' tokens.

        Returns which path that was, and the token after it.
        """
        sampler, text = self.sampler, []
        while text in texts:
            end, before = texts.index(text), mx.array([text], mx.int32)
            scores = sampler.process(raw[:, end : end + 1], before, len(text))
            token, fit = sampler.draw(scores, before)
            check_finite("target", [] if fit is None else fit.tolist()[0])
            text = [*text, token := token.item()]
        return end, token

    def _queue(self, logits: mx.array, proposal: Proposal, counts: Sequence[int] | None) -> Queued:
        sampler, raw, drafts = self.sampler, logits.astype(mx.float32), proposal.tokens
        scores = sampler.process(raw, drafts)
        q = self._drafted_from(proposal, raw.shape[-1], counts)
        if self._draw is None:
            kept, (tokens, fit) = None, sampler.draw(scores, drafts)
        else:
            p, fit = sampler.probabilities(scores, drafts)
            kept, tokens = self._draw(p, q, drafts, sampler.numbers(ACCEPT, 2))
            if counts is not None and not min(counts):  # a row without drafts draws as if alone
                plain, _ = sampler.draw(scores[:, :1], None)
                tokens = mx.where(mx.array(counts)[:, None] == 0, plain, tokens)
        seen = None
        if self.trace:
            p = sampler.probabilities(scores, drafts)[0][:, :-1]
            seen = self._look(raw[:, :-1], p, proposal, q)
        report = sampler.report(raw, tokens, fit)
        return Queued(report, kept, drafts, seen, self._health(proposal))

    def _read(self, queued: Queued, counts: Sequence[int] | None) -> list[Verdict]:
        """Wait for what was queued, and return a verdict for each text."""
        mx.eval(queued)
        drawn = queued.drawn
        tokens, logprobs, finite = [column.tolist() for column in drawn[:3]]
        drafts = [[]] * len(tokens) if queued.drafts is None else queued.drafts.tolist()
        kept = None if queued.kept is None else queued.kept.tolist()
        seen = None if queued.seen is None else queued.seen.tolist()
        verdicts = []
        for row, drafted in enumerate(drafts):
            if counts is not None:
                drafted = drafted[: counts[row]]
            accepted = rules.count_matches(drafted, tokens[row]) if kept is None else kept[row]
            end = accepted + 1
            # Where tokens are compared, rows after the first refusal come after a rejected draft,
            # and have no say.
            check_finite("target", finite[row] if kept is not None else finite[row][:end])
            saw = [] if seen is None else [tuple(x[: len(drafted)]) for x in seen[row]]
            verdict = Verdict(
                tuple(drafted), tokens[row][:end], accepted, min(end, len(drafted)),
                logprobs[row][:end], drawn.top(row) if drawn.best else (), *saw,
            )  # fmt: skip
            verdicts.append(verdict.until(self.stops) if self.stops else verdict)
        if queued.health is not None:
            check_finite("draft", queued.health.tolist())
        return verdicts

    def _drafted_from(
        self, proposal: Proposal, size: int, counts: Sequence[int] | None
    ) -> mx.array | None:
        """Return q ``(B, γ, V)``, 0 where no draft is meant; None if nobody needs it."""
        if self._draw is None and not self.trace:
            return None
        q = rules.one_hot(proposal.tokens, size) if proposal.q is None else proposal.q
        if counts is None:
            return q
        meant = mx.arange(q.shape[1]) < mx.array(counts)[:, None]
        return mx.where(meant[..., None], q, 0)

    def _health(self, proposal: Proposal) -> mx.array | None:
        """Return whether each draft could be drawn, flattened; None without a draft model."""
        if proposal.logits is None:
            return None
        finite = mx.abs(mx.max(proposal.logits.astype(mx.float32), axis=-1)) < mx.inf
        if self.sampler.processors and proposal.q is not None:  # what they made of finite logits
            finite = finite & mx.isfinite(mx.sum(proposal.q, axis=-1))
        return finite.flatten()

    def _look(self, raw: mx.array, p: mx.array, proposal: Proposal, q: mx.array) -> mx.array:
        """Return p, q and what each rule keeps of each draft: ``(B, 5, γ)``.

        The target's logits ``raw`` and its ``p`` are ``(B, γ, V)``, before each draft.
        """
        drafts = proposal.tokens
        overlaps = rules.overlap(p, q)
        if self.sampler.greedy:
            p = mx.softmax(raw, axis=-1)
            if proposal.logits is not None:
                q = mx.softmax(proposal.logits.astype(mx.float32), axis=-1)
        chosen = [mx.take_along_axis(x, drafts[..., None], axis=-1)[..., 0] for x in (p, q)]
        return mx.stack([*chosen, *overlaps], axis=1)


def draw_outcome(
    rule: rules.Rule, p: mx.array, q: mx.array, drafts: mx.array, u: mx.array
) -> tuple[mx.array, mx.array]:
    """Draw from the rule's outcome: how many drafts stay ``(B,)``, and the tokens ``(B, γ+1)``.

    Of the random numbers ``u (B, 2)`` the first says how many, the second what follows them.
    """
    outcome = rule(p, q, drafts)
    kept = transforms.draw(outcome.kept, u[:, :1])
    following = mx.take_along_axis(outcome.following, kept[..., None], axis=1)[:, 0]
    token = transforms.draw(following, u[:, 1:])
    tokens = mx.concatenate([drafts, token], axis=1)
    return kept[:, 0], mx.where(mx.arange(tokens.shape[1]) < kept, tokens, token)


# A rule of your own is not compiled, so that you can look into it.
_COMPILED = {law: mx.compile(partial(draw_outcome, law)) for law in (rules.rejection, rules.block)}
