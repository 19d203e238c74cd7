"""When a vote may stop early: the leader cannot lose any more, or is unlikely to."""

from collections.abc import Sequence
from dataclasses import dataclass

from lablib.inference.voting import leads
from lablib.validation import BadValue, integer, number, one_of

STOP_RULES = ("overtake", "beta", "dirichlet")


@dataclass(frozen=True)
class StopRule:
    """When to stop asking.

    What is promised, whoever wins and however often the rule is asked: a vote of at most ``n``
    that stops as ``"confident"`` is wrong with probability 1 - ``confidence`` at most. Wrong is, by
    ``stop_rule``:

    - ``"overtake"``: after all ``n`` another answer would have strictly more votes than the leader;
    - ``"beta"``, ``"dirichlet"``: another answer is truly more probable than the leader.

    The probability is that of both, to stop and be wrong, where samples are independent; so it
    bounds the share of all votes, not of those that stop. It was computed exactly (by dynamic
    programming over ``reason``), for confidences from 0.6 on: with two answers for n up to 512,
    with three, or with samples without an answer, up to 64. It is nearly reached where two answers
    are equally probable. Bigger n and more answers are not proved.
    ``"certain"`` is right always: what it elects, the whole vote elects.

    Attributes:
        confidence: stop when the leader is safe with at least this probability, above 0.5; None
            stops only when it cannot lose.
        stop_rule: how the risk of a lead is measured: ``"overtake"``: the strongest rival overtakes
            the leader in the votes still to come (``leads.overtake_risk``); ``"beta"``: the
            runner-up is truly ahead (``leads.beta_confidence``); ``"dirichlet"``: any other is
            (``leads.dirichlet_confidence``).
        at_least: samples before ``confidence`` is asked for. The promise needs none of them.
    """

    confidence: float | None = None
    stop_rule: str = "overtake"
    at_least: int = 1

    def __post_init__(self) -> None:
        one_of("stop_rule", self.stop_rule, STOP_RULES)
        integer("at_least", self.at_least, 1)
        if self.confidence is not None and not 0.5 < number("confidence", self.confidence) < 1.0:
            bounds = "between 0.5 and 1, ends excluded"
            raise BadValue(f"confidence must lie {bounds}, got {self.confidence}")

    def reason(self, counts: Sequence[int], drawn: int, n: int) -> str | None:
        """Return why to stop, ``"certain"`` or ``"confident"``; None to go on.

        Of at most ``n`` samples ``drawn`` are there, those without an answer included.
        """
        if leads.cannot_lose(counts, n - drawn):
            return "certain"
        if self.confidence is None or not counts or drawn < self.at_least:
            return None
        if self.stop_rule == "overtake":
            risk = leads.overtake_risk(counts, n - drawn)
        elif self.stop_rule == "beta":
            risk = 1.0 - leads.beta_confidence(*sorted([*counts, 0], reverse=True)[:2])
        else:
            risk = 1.0 - leads.dirichlet_confidence(counts)
        return "confident" if risk <= self.allowed_risk(n) else None

    def allowed_risk(self, n: int) -> float:
        """Return the risk at which a vote of at most ``n`` may stop, below 1 - ``confidence``.

        A vote that asks after every sample has many chances to be wrong, so that each may be wrong
        less often than all together. By how much is fitted to what exact computation finds a vote
        to need: a smaller risk costs votes, a greater one breaks the promise for some n. (A floor
        under the first stop would cost more; so do certificates that hold for any n, as in
        2510.17472.)
        """
        if self.confidence is None:
            return 0.0
        n, promised = integer("n", n, 1), 1.0 - self.confidence
        more = promised**-0.05  # the smaller the promise, the more looks are close to it
        if self.stop_rule == "overtake":  # an even vote may end in a tie, which overtakes nobody
            looks = min((0.32 * n) ** 0.5 if n % 2 else 0.4 * n**0.52, more * n ** (1 / 3))
        else:
            looks = 0.77 * more * n**0.5
        looks = max(looks, 1.5, 12 / n)  # in a short vote each look is a great step
        return min(promised / looks, 0.39 * max(promised, 0.1))
