"""Measure the safety of a lead: can the votes to come, or will they, change who is ahead?

Every function looks at the votes so far, one count for each answer *in order of first appearance*,
as ties go to the answer that appeared first. The certain answer is what trials call curtailment.
The others put a probability on one of two events: that more votes, however many, *would* change the
leader (``beta``, ``dirichlet``), or that the votes still to come *will* (``overtake``).
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from lablib.validation import BadValue, integer

import numpy as np
from scipy.special import bdtr, gammainc, gammaln


def cannot_lose(counts: Sequence[int], remaining: int) -> bool:
    """Tell whether the leader wins whatever the ``remaining`` votes say.

    A rival that appeared before the leader needs only a tie, a later one (or an answer not seen
    yet) needs one vote more. Stopping here never changes the winner (Li et al. 2024, 2401.10480,
    stop on agreement within a window instead; this rule is the certain one).
    """
    remaining = integer("remaining", remaining, 0)
    if not counts:
        return remaining == 0
    _, _, behind = _strongest_rival(counts)
    return remaining <= behind


def _strongest_rival(counts: Sequence[int]) -> tuple[int, int, int]:
    """Return the leader's votes, the rival's, and by how many more votes the rival may not win.

    Among rivals with equally many votes it is one from before the leader.
    """
    lead = max(counts)
    leader = list(counts).index(lead)
    earlier, later = max(counts[:leader], default=-1), max([*counts[leader + 1 :], 0])
    rival = max(earlier, later)
    return lead, rival, lead - rival - (earlier == rival)


def beta_confidence(first: int, second: int) -> float:
    """Return the probability that the leader is truly ahead of the runner-up, by their votes alone.

    With a uniform prior the leader's share of the two is Beta(first + 1, second + 1), and the
    answer is the mass above one half (Aggarwal et al. 2023, 2305.11860). That is a binomial tail:
    ``P(Binomial(first + second + 1, 1/2) ≤ first)``. Without a runner-up ``second`` is 0.
    """
    first, second = integer("first", first, 0), integer("second", second, 0)
    return float(bdtr(first, first + second + 1, 0.5))


def dirichlet_confidence(counts: Sequence[int]) -> float:
    """Return the probability that the leader is the most probable of *all* answers.

    The posterior under a uniform prior over the answers seen and one not seen yet is
    Dirichlet(counts + 1, 1). Its parts are independent Gamma variables up to a common scale, so the
    leader is the largest with probability ``∫ f(x; leader) Π F(x; rival) dx`` (Aggarwal et al.
    2023, 2305.11860, without the unseen answer). Between two answers this is ``beta_confidence``.
    """
    counts = sorted((integer("counts", count, 0) for count in counts), reverse=True)
    return _dirichlet((*counts, 0))


@lru_cache(maxsize=65536)
def _dirichlet(counts: tuple[int, ...]) -> float:
    """Integrate over log x: there the integrand is a bell, and the trapezoid rule all but exact."""
    lead, *rivals = counts
    log_x = np.linspace(-30.0, math.log(lead + 12 * math.sqrt(lead + 1) + 40), 4001)
    x = np.exp(log_x)
    integrand = np.exp((lead + 1) * log_x - x - gammaln(lead + 1))  # f(x; leader) dx / d log x
    for rival in rivals:
        integrand *= gammainc(rival + 1, x)
    return min(1.0, float(np.trapezoid(integrand, log_x)))


def overtake_risk(counts: Sequence[int], remaining: int) -> float:
    """Return the probability that the leader's strongest rival overtakes in the votes to come.

    Votes to come are predicted from those that were cast: uniform prior over the answers seen and
    one not seen yet, so Dirichlet-multinomial ("stochastic curtailment": Lan, Simon & Halperin
    1982). It is 0 exactly when ``cannot_lose``. The other rivals are weaker but not nobody: all
    together they may add to the risk, which with many close answers is then understated.
    """
    if not counts:
        raise BadValue("counts must hold at least one answer, got none")
    lead, rival, behind = _strongest_rival(counts)
    rest = sum(counts) + len(counts) + 1 - (lead + 1) - (rival + 1)  # a pseudo-vote each
    return _overtakes(lead + 1, rival + 1, rest, behind, integer("remaining", remaining, 0))


@lru_cache(maxsize=65536)
def _overtakes(leader: int, rival: int, rest: int, behind: int, remaining: int) -> float:
    """Return P(the rival gets more than ``behind`` votes above the leader), by pseudo-counts."""
    if remaining <= behind:
        return 0.0

    def ways(pseudo: float, votes: np.ndarray | int) -> np.ndarray:
        """Return the logarithm of Γ(pseudo + votes) / (Γ(pseudo) · votes!)."""
        return gammaln(pseudo + votes) - gammaln(pseudo) - gammaln(votes + 1)

    for_leader, for_rival = np.indices((remaining + 1, remaining + 1))
    for_rest = remaining - for_leader - for_rival
    wanted = (for_rival - for_leader > behind) & (for_rest >= 0)
    x, y, z = for_leader[wanted], for_rival[wanted], for_rest[wanted]
    # Where there is no third answer, the rest is so unlikely that it gets no vote.
    logs = ways(leader, x) + ways(rival, y) + ways(rest or 1e-300, z)
    return float(np.exp(logs - ways(leader + rival + rest, remaining)).sum())
