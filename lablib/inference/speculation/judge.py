"""Keep the drafts that the rule keeps: from a round's logits to its verdicts, with a single fetch.

``rules`` says which drafts stay, in terms of probabilities. Here the probabilities come from the
logits of two models, and the rule's ``Outcome`` is drawn from. Everything is queued on the device;
the host looks once, in ``Judge._fetch``.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from lablib.definitions import FastPath, remember
from lablib.inference.decoding.rows import Verdict
from lablib.inference.sampling import transforms
from lablib.inference.sampling.noise import ACCEPT
from lablib.inference.sampling.sums import softmax
from lablib.inference.sampling.text_sampler import Drawn, TextSampler, check_finite
from lablib.inference.speculation import rules
from lablib.inference.speculation.proposal import Proposal, check_proposal
from lablib.machine.arrays import listed
from lablib.validation import BadValue

import mlx.core as mx


class Queued(NamedTuple):
    """A round's answer on its way; None where nobody asked."""

    drawn: Drawn  # (B, γ+1): the target's own tokens, or the drafts that stay and the one after
    drafts: mx.array  # (B, γ)
    kept: mx.array | None = None  # (B,) drafts that stay; None: those that equal the tokens
    seen: mx.array | None = None  # (B, 5, γ): p, q and ``rules.overlap`` of each draft
    draft_finite: mx.array | None = None  # (B · γ,): whether each draft could be drawn


class Judge:
    """Verifies the drafts of texts by a rule.

    Args:
        sampler: samples both models.
        rule: its name in ``rules.RULE``, or a function.
        vocab_size: the number of token ids.
        trace: whether verdicts hold ``p``, ``q`` and their overlaps.
    """

    trees = False

    def __init__(
        self,
        sampler: TextSampler,
        rule: str | rules.Rule,
        vocab_size: int,
        trace: bool = False,
    ) -> None:
        self.sampler = sampler
        self.rule = rule
        self.vocab_size = vocab_size
        self.trace = trace

    @property
    def plays_out(self) -> bool:
        """Return whether the target's own tokens decide, and no distribution is drawn from."""
        return plays_out(self.rule, self.sampler.greedy)

    def check(self, proposal: Any, limits: Sequence[int]) -> list[int] | None:
        """Refuse a bad proposal; return the ``n_drafts`` of :meth:`decide`."""
        return check_proposal(proposal, limits, self.vocab_size, self.trees)

    def decide(
        self, logits: mx.array, proposal: Proposal, n_drafts: list[int] | None = None
    ) -> list[Verdict]:
        """Decide a round; this is where the host waits.

        Args:
            logits: the target's ``(B, γ+1, V)``: after the last token, and after each draft.
            proposal: the γ drafts of each text.
            n_drafts: how many of them each text has; None: all.

        Raises:
            BadValue: logits that the decision needs are not finite.
        """
        return self._fetch(self._queue(logits, proposal, n_drafts), n_drafts)

    def _queue(self, logits: mx.array, proposal: Proposal, n_drafts: list[int] | None) -> Queued:
        sampler, drafts = self.sampler, proposal.tokens
        raw = sampler.raw(logits)
        scores = sampler.process(raw, drafts)
        plays_out = self.plays_out
        kept = seen = None
        if self.trace or not plays_out:
            p, finite = sampler.probabilities(scores, drafts)
            q = _drafted_from(proposal, raw.shape[-1], n_drafts)
            if self.trace:
                seen = self._evidence(raw[:, :-1], p[:, :-1], proposal, q)
        if plays_out:
            tokens, finite = sampler.draw(scores, drafts)
        else:
            u = sampler.numbers(ACCEPT, 2, raw.shape[-1])
            kept, tokens = _drawer(self.rule)(p, q, drafts, u)
            if n_drafts is not None and 0 in n_drafts:  # such a row gets plain sampling's token
                plain, _ = sampler.draw(scores[:, :1], None)
                tokens = mx.where(mx.array(n_drafts)[:, None] == 0, plain, tokens)
        report = sampler.report(raw, tokens, finite)
        return Queued(report, drafts, kept, seen, self._draft_finite(proposal))

    def _fetch(self, queued: Queued, n_drafts: Sequence[int] | None) -> list[Verdict]:
        """Wait for the queued arrays, and return a verdict for each text."""
        mx.eval(queued)
        drawn = queued.drawn
        tokens: list[list[int]] = listed(drawn.tokens)
        logprobs: list[list[float]] = listed(drawn.logprobs)
        finite: list[list[bool]] = listed(drawn.finite)
        kept = None if queued.kept is None else listed(queued.kept)
        seen = None if queued.seen is None else listed(queued.seen)
        verdicts = []
        needed: list[bool] = []  # of the positions that had a say
        for row, drafted in enumerate(listed(queued.drafts)):
            if n_drafts is not None:
                drafted = drafted[: n_drafts[row]]
            if kept is None:
                accepted = rules.count_matches(drafted, tokens[row])
                # Positions after the first refusal come after a rejected draft.
                needed += finite[row][: accepted + 1]
            else:
                accepted = kept[row]
                if accepted > len(drafted):
                    got = f"kept {accepted} of {len(drafted)}"
                    raise BadValue(f"rule {self.rule!r} must keep no draft where q is 0, {got}")
                needed += finite[row][: len(drafted) + 1]  # a neighbour's drafts are none of its
            end = accepted + 1
            saw = [] if seen is None else [tuple(x[: len(drafted)]) for x in seen[row]]
            verdict = Verdict(
                tuple(drafted),
                tokens[row][:end],
                accepted,
                min(end, len(drafted)),  # reached
                logprobs[row][:end],
                drawn.top(row)[:end] if drawn.best else (),
                *saw,
            )
            stops = self.sampler.rows[row].stops
            verdicts.append(verdict.until(stops) if stops else verdict)
        check_finite("target", needed)
        if queued.draft_finite is not None:
            check_finite("draft", listed(queued.draft_finite))
        return verdicts

    def _draft_finite(self, proposal: Proposal) -> mx.array | None:
        """Return whether each draft could be drawn, flattened; None without a draft model."""
        if proposal.logits is None:
            return None
        finite = transforms.is_finite(mx.max(self.sampler.raw(proposal.logits), axis=-1))
        if self.sampler.processors and proposal.q is not None:  # they may change finite logits
            finite = finite & mx.isfinite(mx.sum(proposal.q, axis=-1))
        return finite.flatten()

    def _evidence(self, raw: mx.array, p: mx.array, proposal: Proposal, q: mx.array) -> mx.array:
        """Return p and q of each draft, and the share that each rule keeps: ``(B, 5, γ)``.

        The target's logits ``raw`` and its ``p`` are ``(B, γ, V)``, before each draft.
        """
        overlaps = rules.overlap(p, q)
        if self.sampler.greedy:
            p = softmax(raw)
            if proposal.logits is not None:
                q = softmax(self.sampler.raw(proposal.logits))
        drafts = proposal.tokens[..., None]
        chosen = [mx.take_along_axis(x, drafts, axis=-1)[..., 0] for x in (p, q)]
        return mx.stack([*chosen, *overlaps], axis=1)


def _drafted_from(proposal: Proposal, size: int, n_drafts: list[int] | None) -> mx.array:
    """Return q ``(B, γ, V)``, 0 behind the drafts of each text."""
    q = rules.one_hot(proposal.tokens, size) if proposal.q is None else proposal.q
    if n_drafts is None:
        return q
    is_draft = mx.arange(q.shape[1]) < mx.array(n_drafts)[:, None]
    return mx.where(is_draft[..., None], q, 0)


def draw_outcome(
    rule: rules.Rule, p: mx.array, q: mx.array, drafts: mx.array, u: mx.array
) -> tuple[mx.array, mx.array]:
    """Draw from the rule's outcome: how many drafts stay ``(B,)``, and the tokens ``(B, γ+1)``.

    Of the random numbers ``u (B, 2)`` the first decides how many, the second the token after them.
    """
    outcome = rule(p, q, drafts)
    kept = transforms.draw(outcome.kept, u[:, :1])
    following = mx.take_along_axis(outcome.following, kept[..., None], axis=1)[:, 0]
    token = transforms.draw(following, u[:, 1:])
    tokens = mx.concatenate([drafts, token], axis=1)
    return kept[:, 0], mx.where(mx.arange(tokens.shape[1]) < kept, tokens, token)


# The library's rules compiled; one of your own is not, so that you can look into it.
_COMPILED = {
    name: mx.compile(partial(draw_outcome, rules.BUILT_IN[name])) for name in ("rejection", "block")
}
remember(__name__)
_COMPILED_RULES = FastPath("compiled rules")
_OWN_TOKENS = {rule: FastPath(f"own tokens under {rule}") for rule in rules.BUILT_IN}


def plays_out(rule: Any, greedy: bool) -> bool:
    """Return whether comparing the target's own tokens with the drafts gives the rule's outcome."""
    if not (greedy or rule in ("match", "coupled")):
        return False
    return rule in _OWN_TOKENS and _OWN_TOKENS[rule].is_open()


def _drawer(rule: Any) -> Any:
    """Return the function that draws from the outcome of a rule."""
    if rule in _COMPILED and _COMPILED_RULES.is_open():
        return _COMPILED[rule]
    return partial(draw_outcome, rules.chosen(rule))
