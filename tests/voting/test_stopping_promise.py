"""What ``StopRule`` promises, held against exact computation for every n."""

import itertools
from functools import partial

from lablib.inference.voting import leads
from lablib.inference.voting.stopping import STOP_RULES, StopRule

import numpy as np
import pytest
from oracles import stopping as oracle
from oracles import voting

CHANCES = np.round(np.arange(0.5, 0.905, 0.01), 2)
GRID = [
    (i / 20, j / 20, (20 - i - j) / 20)
    for i, j in itertools.product(range(7, 20), range(1, 20))
    if 0 <= 20 - i - j <= j <= i
]
# Where it is worst: three alike, and two with a third that makes an even number of votes odd.
NEAR = [(1 / 3, 1 / 3, 1 / 3), (0.34, 0.33, 0.33), (0.34, 0.34, 0.32), (0.42, 0.42, 0.16)]
NEAR += [(0.47, 0.47, 0.06), (0.48, 0.48, 0.04), (0.49, 0.47, 0.04), (0.495, 0.495, 0.01)]
SILENT = [(0.25, 0.25, 0.5), (0.4, 0.4, 0.2), (0.45, 0.45, 0.1), (0.35, 0.15, 0.5), (0.1, 0.1, 0.8)]
CONFIDENCES = [0.6, 0.7, 0.75, 0.8, 0.83, 0.9, 0.92, 0.95, 0.96, 0.97, 0.99, 0.999]
thorough = pytest.mark.thorough
more = partial(pytest.param, marks=thorough)


def within(stop, found):
    """Whether the promise of a rule is kept, and by what it would be broken."""
    wrong = found.overtaken if stop.stop_rule == "overtake" else found.misled
    return wrong.max() <= 1 - stop.confidence, wrong.max()


def before(counts, drawn, n, confidence=0.95, floor=13):
    """The rule of before: the risk as it is, from the 13th sample on."""
    if leads.cannot_lose(counts, n - drawn):
        return "certain"
    safe = counts and drawn >= floor and leads.overtake_risk(counts, n - drawn) <= 1 - confidence
    return "confident" if safe else None


# --- the oracle ---------------------------------------------------------------------------------


def spelled_out(reason, n, probs, every=1):
    """(overtaken, misled, votes) by going through every vote of n samples."""
    best, sums = max(probs), np.zeros(3)
    for answers, chance in voting.outcomes(probs, n):
        for drawn in range(1, n + 1):
            counts = voting.tally_counts(answers[:drawn])
            why = reason(counts, drawn, n) if drawn % every == 0 and drawn < n else None
            if why or drawn == n:
                break
        elected, all_of_them = voting.winner(answers[:drawn]), [*answers]
        sums[2] += chance * drawn
        if why and elected is not None:
            ahead = max(all_of_them.count(answer) for answer in range(len(probs)))
            sums[0] += chance * (ahead > all_of_them.count(elected))
            sums[1] += chance * (why == "confident" and probs[elected] < best)
    return sums


RULES = [
    partial(before, floor=2, confidence=0.8),
    StopRule(0.7).reason,
    StopRule(0.6, "beta").reason,
    lambda counts, drawn, n: "confident" if sum(counts) > 1 else None,
]


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("reason", RULES)
def test_two_answers_by_dynamic_programming_are_all_votes_spelled_out(reason, every):
    chances = (0.5001, 0.6, 0.9)
    found = oracle.two(reason, 9, chances, every)
    for i, p in enumerate(chances):
        wanted = spelled_out(reason, 9, (p, 1 - p), every)
        assert [each[i] for each in found] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("nobody", [False, True])
@pytest.mark.parametrize("reason", RULES)
def test_three_answers_by_dynamic_programming_are_all_votes_spelled_out(reason, nobody):
    grid = [(0.5, 0.3, 0.2), (0.4, 0.35, 0.25), (0.1, 0.6, 0.3)]
    found = oracle.three(reason, 7, grid, nobody)
    for i, p in enumerate(grid):
        wanted = spelled_out(reason, 7, p[: 3 - nobody])
        assert [each[i] for each in found] == pytest.approx(wanted, abs=1e-12)


def test_a_third_answer_that_never_comes_is_none():
    reason = StopRule(0.9).reason
    (one,), (other,) = (
        oracle.two(reason, 20, [0.6]).overtaken,
        oracle.three(reason, 20, [(0.6, 0.4, 0.0)]).overtaken,
    )
    assert one == pytest.approx(other, abs=1e-12)


@pytest.mark.parametrize("rule", STOP_RULES)
def test_a_rule_that_stops_at_a_lead_stops_at_a_greater_one(rule):
    """So a lead may be found by halving."""
    for n, confidence in itertools.product((9, 16, 25), (0.7, 0.95)):
        stop = StopRule(confidence, rule)
        for drawn, second in itertools.product(range(1, n), (False, True)):
            votes = [
                oracle.counts_of(lead, drawn, second) for lead in range(drawn % 2, drawn + 1, 2)
            ]
            says = [stop.reason(counts, drawn, n) is not None for counts in votes if counts]
            assert says == sorted(says)


@pytest.mark.parametrize(("n", "wrong"), [(32, 0.0382), (64, 0.0766), more(128, 0.122)])
def test_a_floor_that_does_not_grow_breaks_the_promise(n, wrong):
    (found,) = oracle.two(before, n, [0.5]).overtaken
    assert found == pytest.approx(wrong, abs=5e-4)


def test_the_beta_rule_of_before_breaks_the_promise():
    def reason(counts, drawn, n):
        first, second = sorted([*counts, 0], reverse=True)[:2]
        safe = drawn >= 13 and leads.beta_confidence(first, second) >= 0.95
        return "certain" if leads.cannot_lose(counts, n - drawn) else "confident" * safe or None

    (found,) = oracle.two(reason, 64, [0.52]).misled
    assert found == pytest.approx(0.1231, abs=5e-4)


# --- the promise --------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", STOP_RULES)
@pytest.mark.parametrize(
    "n", [1, 2, 3, 5, 8, 9, 16, 17, 32, 33, 64, more(65), more(128), more(129)]
)
def test_two_answers_do_not_break_the_promise(rule, n):
    for confidence in CONFIDENCES if n < 30 else (0.9, 0.95):
        stop = StopRule(confidence, rule)
        assert within(stop, oracle.two(stop.reason, n, CHANCES))[0]


LONG = [*itertools.product(STOP_RULES, (255, 256)), *itertools.product(STOP_RULES[:2], (511, 512))]


@pytest.mark.grid(lambda rule, n: n == 255, rest="slow")
@thorough
@pytest.mark.parametrize(("rule", "n"), LONG)  # of two answers dirichlet is all but beta, and slow
def test_two_answers_do_not_break_the_promise_of_a_long_vote(rule, n):
    stop = StopRule(0.95, rule)
    assert within(stop, oracle.two(stop.reason, n, CHANCES))[0]


@pytest.mark.parametrize("rule", STOP_RULES)
@pytest.mark.parametrize("n", [4, 6, 8, 9, *map(more, [3, 5, 7, *range(10, 18)])])
def test_three_answers_do_not_break_the_promise(rule, n):
    for confidence in CONFIDENCES:
        stop = StopRule(confidence, rule)
        assert within(stop, oracle.three(stop.reason, n, GRID + NEAR if n < 10 else NEAR))[0]


@pytest.mark.grid(lambda rule, n: n in (24, 33, 64), rest="slow")
@thorough
@pytest.mark.parametrize("rule", STOP_RULES)
@pytest.mark.parametrize("n", [24, 28, 32, 33, 48, 63, 64])
def test_three_answers_do_not_break_the_promise_of_a_longer_vote(rule, n):
    for confidence in (0.8, 0.9, 0.915, 0.95) if n < 30 else (0.9, 0.95) if n < 40 else (0.95,):
        stop = StopRule(confidence, rule)
        assert within(stop, oracle.three(stop.reason, n, NEAR))[0]


@pytest.mark.parametrize("rule", STOP_RULES)
@pytest.mark.parametrize("n", [10, 16, more(32), more(33)])
def test_samples_without_an_answer_do_not_break_the_promise(rule, n):
    for confidence in (0.8, 0.95):
        stop = StopRule(confidence, rule)
        assert within(stop, oracle.three(stop.reason, n, SILENT, nobody=True))[0]


@pytest.mark.parametrize("rule", STOP_RULES)
@pytest.mark.parametrize("n", [16, 25, more(32), more(64)])
def test_neither_rounds_nor_a_floor_break_the_promise(rule, n):
    for every, floor in itertools.product((1, 2, 4, 8), (1, 5, 13)):
        stop = StopRule(0.95, rule, floor)
        assert within(stop, oracle.two(stop.reason, n, CHANCES, every))[0]


# --- and its price ------------------------------------------------------------------------------


def cheapest(rule, n, confidence):
    """The votes of the rule that allows the same risk throughout, the greatest that keeps it."""
    votes = None
    for risk in np.geomspace((1 - confidence) / 20, 0.3, 80):
        stop = StopRule(confidence, rule)
        object.__setattr__(stop, "allowed_risk", lambda n, risk=risk: risk)
        found = oracle.two(stop.reason, n, [0.5, 0.52, 0.7, 0.9])
        if not within(stop, found)[0]:
            return votes
        votes = found.votes[2:]
    raise AssertionError("no risk breaks the promise")


@pytest.mark.parametrize("rule", STOP_RULES)
@pytest.mark.parametrize("n", [16, 33, *map(more, [8, 9, 17, 25, 32, 64, 128])])
def test_the_votes_are_at_most_15_per_cent_above_the_cheapest_of_the_same_form(rule, n):
    stop = StopRule(0.95, rule)
    mine = oracle.two(stop.reason, n, [0.7, 0.9]).votes
    assert (mine <= 1.15 * cheapest(rule, n, 0.95)).all()


def test_the_votes_are_fewer_than_those_of_before_where_the_answer_is_clear():
    for n in (8, 16, 32):
        mine = oracle.two(StopRule(0.95).reason, n, [0.7, 0.9]).votes
        assert (mine < oracle.two(before, n, [0.7, 0.9]).votes).all()
