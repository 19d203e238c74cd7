"""When a vote may stop early: the leader cannot lose any more, or is unlikely to."""

from collections.abc import Sequence
from dataclasses import dataclass

from lablib.inference.voting import leads
from lablib.validation import BadValue, integer, number, one_of

STOP_RULES = ("overtake", "beta", "dirichlet")


@dataclass(frozen=True)
class StopRule:
    """When to stop asking.

    Attributes:
        confidence: stop when the leader is safe with at least this probability, above 0.5; None
            stops only when it cannot lose.
        stop_rule: what that is the probability of: ``"overtake"``: the strongest rival does not
            overtake the leader in the votes still to come; ``"beta"``: the leader is truly ahead of
            the runner-up; ``"dirichlet"``: it is truly the first of all.
        at_least: samples before ``confidence`` is asked for: the first few often agree by chance.
    """

    confidence: float | None = None
    stop_rule: str = "overtake"
    at_least: int = 13

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
            safe = 1.0 - leads.overtake_risk(counts, n - drawn)
        elif self.stop_rule == "beta":
            safe = leads.beta_confidence(*sorted([*counts, 0], reverse=True)[:2])
        else:
            safe = leads.dirichlet_confidence(counts)
        return "confident" if safe >= self.confidence else None
