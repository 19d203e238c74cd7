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
    logs = log_factorials(first + second + 1)
    ways = logs + logs[::-1]  # minus the logarithms of the binomial coefficients, up to a constant
    chances = np.exp(ways.min() - ways)
    return float(chances[: first + 1].sum() / chances.sum())


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
    logs = log_factorials(lead)
    integrand = np.exp((lead + 1) * log_x - x - logs[lead])  # f(x; leader) dx / d log x
    # F(x; rival): a Gamma variable of k + 1 is below x if a Poisson one of mean x is above k.
    above = np.ones_like(x)
    for k in range(max(rivals) + 1):
        above = np.maximum(above - np.exp(k * log_x - x - logs[k]), 0)
        integrand *= above ** rivals.count(k)
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

    logs = log_factorials(leader + rival + rest + remaining)

    def ways(pseudo: int, votes: np.ndarray | int) -> np.ndarray:
        """Return the logarithm of Γ(pseudo + votes) / (Γ(pseudo) · votes!), pseudo > 0."""
        return logs[pseudo + votes - 1] - logs[pseudo - 1] - logs[votes]

    for_leader, for_rival = np.indices((remaining + 1, remaining + 1))
    for_rest = remaining - for_leader - for_rival
    # Where there is no third answer, the rest gets no vote.
    possible = for_rest >= 0 if rest else for_rest == 0
    wanted = (for_rival - for_leader > behind) & possible
    x, y, z = for_leader[wanted], for_rival[wanted], for_rest[wanted]
    chances = ways(leader, x) + ways(rival, y)
    if rest:
        chances += ways(rest, z)
    return float(np.exp(chances - ways(leader + rival + rest, remaining)).sum())


def log_factorials(n: int) -> np.ndarray:
    """Return the logarithms of 0!, 1!, ... n!, ``(n + 1,)``."""
    return np.concatenate([[0.0], np.log(np.arange(1, n + 1)).cumsum()])
