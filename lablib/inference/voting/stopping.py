"""When a vote may stop early: the leader cannot lose any more, or is unlikely to.

Every rule looks at the votes so far, one count for each answer *in order of first appearance*, as
ties go to the answer that appeared first. The certain rule is what trials call curtailment; the
others put a probability on it, of one of two events: that more votes *would* change the leader
(``beta``, ``dirichlet``: however many were asked for), or that the votes still to come *will*
(``overtake``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from lablib.validation import BadValue, integer, number, one_of

import numpy as np

RULES = ("overtake", "beta", "dirichlet")


def cannot_lose(counts: Sequence[int], remaining: int) -> bool:
    """Tell whether the leader wins whatever the ``remaining`` votes say.

    A rival that appeared before the leader needs only a tie, a later one (or an answer not seen
    yet) needs one vote more. Stopping here never changes the winner (Li et al. 2024, 2401.10480,
    stop on agreement within a window instead; this rule is the certain one).

    Args:
        counts: votes of each answer, in order of first appearance.
        remaining: votes still to come.
    """
    remaining = integer("remaining", remaining, 0)
    if not counts:
        return remaining == 0
    lead = max(counts)
    leader = list(counts).index(lead)
    earlier = max(counts[:leader], default=-1)  # -1: nobody, who cannot even tie
    later = max(counts[leader + 1 :], default=0)
    return earlier + remaining < lead and later + remaining <= lead


@lru_cache(maxsize=65536)
def beta_confidence(first: int, second: int) -> float:
    """Probability that the leader is truly ahead of the runner-up, given their votes alone.

    With a uniform prior the leader's share of the two is Beta(first + 1, second + 1), and the
    answer is the mass above one half (Aggarwal et al. 2023, 2305.11860). That is a binomial tail:
    ``P(Binomial(first + second + 1, 1/2) ≤ first)``, summed here in exact integers.

    Args:
        first: the leader's votes.
        second: the runner-up's votes; 0 if there is none.
    """
    first, second = integer("first", first, 0), integer("second", second, 0)
    throws = first + second + 1
    return sum(math.comb(throws, heads) for heads in range(first + 1)) / 2**throws


def dirichlet_confidence(counts: Sequence[int]) -> float:
    """Probability that the leader is the most probable of *all* answers, given the votes.

    The posterior under a uniform prior over the answers seen and one not seen yet is
    Dirichlet(counts + 1, 1). Its parts are independent Gamma variables up to a common scale, so the
    leader is the largest with probability ``∫ f(x; leader) Π F(x; rival) dx`` (Aggarwal et al.
    2023, 2305.11860, without the unseen answer). Between two answers this is ``beta_confidence``.

    Args:
        counts: votes of each answer, in any order.
    """
    counts = sorted((integer("counts", count, 0) for count in counts), reverse=True)
    return _dirichlet((*counts, 0))


@lru_cache(maxsize=65536)
def _dirichlet(counts: tuple[int, ...]) -> float:
    lead = counts[0]
    spread = 12 * math.sqrt(lead + 1)
    x = np.linspace(max(0.0, lead - spread), lead + spread + 40, 4001)
    # Erlang densities x^a e^-x / a!; and F(x; a) = 1 − Σ_{i ≤ a} of them.
    log_x = np.log(np.maximum(x, 1e-300))
    density = {a: np.exp(a * log_x - x - math.lgamma(a + 1)) for a in range(lead + 1)}
    integrand = density[lead].copy()
    for rival in counts[1:]:
        integrand *= np.maximum(1.0 - sum(density[i] for i in range(rival + 1)), 0.0)
    simpson = np.where(np.arange(len(x)) % 2, 4.0, 2.0)
    simpson[[0, -1]] = 1.0
    return min(1.0, float(integrand @ simpson) * (x[1] - x[0]) / 3)


def overtake_risk(counts: Sequence[int], remaining: int) -> float:
    """Probability that the ``remaining`` votes put the leader's strongest rival before it.

    Votes to come are predicted from those that were cast: uniform prior over the answers seen and
    one not seen yet, so Dirichlet-multinomial ("stochastic curtailment": Lan, Simon & Halperin
    1982). It is 0 exactly when ``cannot_lose``. The other rivals are weaker but not nobody: all
    together they may add to the risk, which with many close answers is then understated.

    Args:
        counts: votes of each answer, in order of first appearance; at least one.
        remaining: votes still to come.
    """
    if not counts:
        raise BadValue("counts must hold at least one answer, got none")
    lead = max(counts)
    leader = list(counts).index(lead)
    # The most votes; among equals one that appeared before the leader, as it needs only a tie.
    earlier, later = max(counts[:leader], default=-1), max([*counts[leader + 1 :], 0])
    rival = max(earlier, later)
    behind = lead - rival - (earlier == rival)
    rest = sum(counts) + len(counts) + 1 - (lead + 1) - (rival + 1)  # a pseudo-vote each
    return _overtakes(lead + 1, rival + 1, rest, behind, integer("remaining", remaining, 0))


@lru_cache(maxsize=65536)
def _overtakes(leader: int, rival: int, rest: int, behind: int, remaining: int) -> float:
    """P(the rival gets more than ``behind`` votes more than the leader), by pseudo-counts."""
    if remaining <= behind:
        return 0.0
    log_factorial = log_factorials(leader + rival + rest + remaining)

    def ways(pseudo: int, votes: np.ndarray) -> np.ndarray:
        """Log of Γ(pseudo + votes) / (Γ(pseudo) · votes!)."""
        return log_factorial[pseudo - 1 + votes] - log_factorial[pseudo - 1] - log_factorial[votes]

    for_leader, for_rival = np.indices((remaining + 1, remaining + 1))
    for_rest = remaining - for_leader - for_rival
    wanted = (for_rival - for_leader > behind) & ((for_rest >= 0) if rest else (for_rest == 0))
    x, y, z = for_leader[wanted], for_rival[wanted], for_rest[wanted]
    logs = ways(leader, x) + ways(rival, y) + (ways(rest, z) if rest else 0.0)
    return float(np.exp(logs - ways(leader + rival + rest, np.array(remaining))).sum())


@dataclass(frozen=True)
class StopRule:
    """When to stop asking.

    Attributes:
        confidence: stop when the leader is safe with at least this probability, above 0.5; None
            stops only when it cannot lose.
        rule: what that is the probability of: ``"overtake"``: the strongest rival does not overtake
            the leader in the votes still to come; ``"beta"``: the leader is truly ahead of the
            runner-up; ``"dirichlet"``: it is truly the first of all.
        at_least: samples before ``confidence`` is asked for: the first few often agree by chance.
    """

    confidence: float | None = None
    rule: str = "overtake"
    at_least: int = 13

    def __post_init__(self) -> None:
        one_of("rule", self.rule, RULES)
        integer("at_least", self.at_least, 1)
        if self.confidence is not None and not 0.5 < number("confidence", self.confidence) < 1.0:
            raise BadValue(
                f"confidence must lie between 0.5 and 1, ends excluded, got {self.confidence}"
            )

    def reason(self, counts: Sequence[int], drawn: int, n: int) -> str | None:
        """Return why to stop, ``"certain"`` or ``"confident"``; None to go on.

        Args:
            counts: votes of each answer, in order of first appearance.
            drawn: samples so far, those without an answer included.
            n: the most samples there could be.
        """
        if cannot_lose(counts, n - drawn):
            return "certain"
        if self.confidence is None or not counts or drawn < self.at_least:
            return None
        return "confident" if self._safety(counts, n - drawn) >= self.confidence else None

    def _safety(self, counts: Sequence[int], remaining: int) -> float:
        if self.rule == "overtake":
            return 1.0 - overtake_risk(counts, remaining)
        if self.rule == "beta":
            return beta_confidence(*sorted([*counts, 0], reverse=True)[:2])
        return dirichlet_confidence(counts)


@cache
def log_factorials(n: int) -> np.ndarray:
    """``log 0! … log n!``; the factorials themselves overflow beyond 170."""
    return np.array([math.lgamma(count + 1.0) for count in range(n + 1)])
