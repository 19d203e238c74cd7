"""Stopping rules against complete enumeration of what could still happen."""

import itertools

from lablib.inference.voting import leads
from lablib.inference.voting.leads import (
    beta_confidence,
    cannot_lose,
    dirichlet_confidence,
    overtake_risk,
)
from lablib.inference.voting.stopping import STOP_RULES, StopRule
from lablib.validation import BadType, BadValue

import numpy as np
import pytest
from oracles import voting as oracle
from scipy.stats import beta

VOTES = [list(votes) for n in range(1, 6) for votes in itertools.product((0, 1, None), repeat=n)]


def too_early(counts, remaining):
    """The mutant: takes a possible tie for a win."""
    first, second = sorted([*counts, 0], reverse=True)[:2]
    return second + remaining <= first


def disagreements(rule):
    """(stops although the leader can lose, goes on although it cannot), over every short vote."""
    early = late = 0
    for votes, remaining in itertools.product(VOTES, range(5)):
        says = rule(oracle.tally_counts(votes), remaining)
        can_lose = oracle.leader_can_lose(votes, remaining)
        early += says and can_lose
        late += not says and not can_lose
    return early, late


def test_the_certain_rule_stops_exactly_when_it_may():
    assert disagreements(cannot_lose) == (0, 0)


def test_a_rule_that_takes_ties_for_wins_fails_the_same_test():
    assert disagreements(lambda counts, left: too_early(counts or [0], left))[0] > 0


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (4, 0), (5, 3), (9, 9), (20, 11)])
def test_beta_confidence_is_the_integral(first, second):
    above_half = beta(first + 1, second + 1).sf(0.5)
    assert beta_confidence(first, second) == pytest.approx(above_half, abs=1e-12)


def test_beta_confidence_of_a_first_few_votes():
    """What the paper's rule does at 0.95: four equal answers are enough, three are not."""
    assert beta_confidence(3, 0) == 0.9375
    assert beta_confidence(4, 0) == 0.96875


@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 0), (7, 5), (60, 48)])
def test_dirichlet_of_two_answers_is_beta(first, second):
    assert leads._dirichlet((first, second)) == pytest.approx(
        beta_confidence(first, second), abs=1e-7
    )


def test_dirichlet_confidence_by_sampling_the_posterior():
    """Hoeffding: 100,000 draws are off by more than 0.0086 with probability below 1e-6."""
    rng = np.random.default_rng(0)
    for counts in ([3, 1], [2, 5, 5], [9, 4, 4, 1], [1, 1, 1]):
        posterior = rng.dirichlet(np.array([*counts, 0]) + 1.0, size=100_000)
        share = np.mean(posterior.argmax(axis=1) == np.argmax(counts))
        # Ties in the counts: which of the leaders is called first does not matter.
        assert dirichlet_confidence(counts) == pytest.approx(share, abs=0.0086)
    two_only = beta_confidence(9, 4)
    assert dirichlet_confidence([9, 4, 4, 1]) < two_only - 0.0086


@pytest.mark.parametrize(
    "counts", [[1], [3], [2, 1], [1, 2], [2, 2], [1, 1, 1], [1, 3, 2], [2, 3, 2], [2, 1, 3, 2]]
)
@pytest.mark.parametrize("remaining", [0, 1, 3, 5])
def test_overtake_risk_by_polyas_urn(counts, remaining):
    """It is the risk of the rival that is the most dangerous of all, ties and order included."""
    everybody = oracle.overtaken(counts, remaining)
    assert overtake_risk(counts, remaining) == pytest.approx(max(everybody), abs=1e-12)


def test_the_risk_is_nothing_exactly_when_the_leader_cannot_lose():
    for counts in itertools.product(range(1, 6), repeat=3):
        for remaining in range(8):
            assert (overtake_risk(counts, remaining) == 0) == cannot_lose(counts, remaining)


def test_the_rules_in_one():
    assert StopRule().reason([5, 2], 7, 10) == "certain"
    assert StopRule().reason([5, 3], 8, 10) == "certain"  # a tie goes to the first
    assert StopRule().reason([3, 5], 8, 10) is None  # here it goes to the rival
    assert StopRule().reason([30, 1], 31, 64) is None
    for rule in STOP_RULES:
        assert StopRule(0.95, rule).reason([30, 1], 31, 64) == "confident"
        assert StopRule(0.95, rule).reason([8, 7], 15, 64) is None
        assert StopRule(0.95, rule).reason([12], 12, 64) == "confident"
        assert StopRule(0.95, rule, at_least=13).reason([12], 12, 64) is None
        assert StopRule(0.95, rule, at_least=13).reason([12], 13, 64) == "confident"
        assert StopRule(0.95, rule).reason([], 20, 64) is None
    assert StopRule(0.95).reason([], 64, 64) == "certain"  # nothing can change any more


def test_the_rules_differ():
    """A lead that may be luck, but that the few votes left will hardly turn."""
    counts, drawn = [13, 9], 22
    assert StopRule(0.95, "beta").reason(counts, drawn, 28) is None
    assert StopRule(0.95, "overtake").reason(counts, drawn, 28) == "confident"
    assert StopRule(0.95, "overtake").reason(counts, drawn, 200) is None


@pytest.mark.parametrize("confidence", [0.5, 1.0, 0.0, -1, 2, float("nan")])
def test_confidence_out_of_range(confidence):
    with pytest.raises(BadValue, match="confidence must"):
        StopRule(confidence)


def test_other_bad_input():
    with pytest.raises(BadValue, match="stop_rule must be one of 'overtake', 'beta', 'dirichlet'"):
        StopRule(0.9, "gamma")
    with pytest.raises(BadType, match="confidence must be a number"):
        StopRule("high")
    with pytest.raises(BadValue, match="at_least must be at least 1, got 0"):
        StopRule(0.9, at_least=0)
    with pytest.raises(BadValue, match="counts must hold at least one answer"):
        overtake_risk([], 3)
    with pytest.raises(BadValue, match="remaining must be at least 0, got -1"):
        cannot_lose([1], -1)
