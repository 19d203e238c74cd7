"""Curves from stored samples against every subset and every order of them."""

import dataclasses
import itertools

from lablib.course.replay.curves import Sampled, vote_accuracy, vote_curves
from lablib.course.theory.estimators import majority_accuracy, wilson_interval
from lablib.inference.voting.stopping import StopRule
from lablib.inference.voting.votes import tally
from lablib.validation import BadValue

import numpy as np
import pytest
from oracles import voting as oracle
from oracles.refusals import refuses

ANSWERS = ["a", "b", None, "a", "c", "b"]
PROBLEM = Sampled(
    truth="b",
    answers=ANSWERS,
    scores={"noisy": [0.1, 0.4, 0.4, -2.0, 0.9, 0.2]},
    log_weights={"weight": [-900.0, -899.5, 0.0, -901.0, -899.9, -930.0]},
)
ORDERS = np.array(list(itertools.permutations(range(6))))
CODES = np.array([0, 1, -1, 0, 2, 1])


@pytest.mark.parametrize("n", range(1, 7))
def test_votes_over_every_order(n):
    won = [oracle.winner([ANSWERS[i] for i in order[:n]]) == "b" for order in ORDERS]
    assert vote_accuracy(CODES[ORDERS], 1, [n])[0] == pytest.approx(np.mean(won), abs=1e-12)


@pytest.mark.parametrize("n", range(1, 7))
def test_weighted_votes_over_every_order(n):
    logs = np.array(PROBLEM.log_weights["weight"])
    won = []
    for order in ORDERS:
        rows = list(order[:n])
        votes = tally([[i] for i in rows], [ANSWERS[i] for i in rows], logs[rows])
        won.append(votes.winner == "b")
    got = vote_accuracy(CODES[ORDERS], 1, [n], logs[ORDERS])[0]
    assert got == pytest.approx(np.mean(won), abs=1e-12)


def test_equal_weights_tie_in_whatever_order_they_are_added():
    """Two answers with the same five weights tie, though the sums round differently."""
    rng = np.random.default_rng(3)
    rows = np.array([rng.permutation(10) for _ in range(500)])
    codes, logs = np.repeat([0, 1], 5)[rows], np.tile(rng.normal(size=5), 2)[rows]
    won = vote_accuracy(codes, 1, [10], logs)[0]
    assert won == np.mean(codes[:, 0] == 1)


def test_pass_single_and_best_over_every_subset():
    curves = vote_curves([PROBLEM], range(1, 7))
    right = [float(answer == "b") for answer in ANSWERS]
    scores = PROBLEM.scores["noisy"]
    for place, n in enumerate(range(1, 7)):
        assert curves["single"].accuracy[place] == pytest.approx(2 / 6)
        expected = oracle.subsets_mean(6, n, lambda rows: any(right[i] for i in rows))
        assert curves["pass"].accuracy[place] == pytest.approx(expected, abs=1e-12)
        expected = oracle.subsets_mean(6, n, lambda rows: oracle.best_value(scores, right, rows))
        assert curves["best: noisy"].accuracy[place] == pytest.approx(expected, abs=1e-12)


def replay(answers, n, batch, stop):
    """What ``vote_until`` does, in its plainest form: (winner, samples used)."""
    for drawn in range(1, n + 1):
        counts = oracle.tally_counts(answers[:drawn])
        if (drawn % batch == 0 or drawn == n) and stop.reason(counts, drawn, n):
            return oracle.winner(answers[:drawn]), drawn
    return oracle.winner(answers[:n]), n


def many_problems(n_problems, size, seed=0):
    """Problems whose samples are independent draws from a known distribution."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet([2.0, 1.0, 0.6, 0.4], size=n_problems)
    drawn = [rng.choice(4, size=size, p=row) for row in probs]
    return probs, [Sampled(0, row.tolist()) for row in drawn]


@pytest.mark.parametrize("rule", ["overtake", "beta", "dirichlet"])
def test_adaptive_curves_replay_vote_until(rule):
    _, problems = many_problems(12, 20)
    options = {"batch": 3, "at_least": 6, "stop_rule": rule, "orders": 1, "seed": 5}
    curves = vote_curves(problems, (8, 20), confidence=0.9, **options)
    for name, stop in (("certain", StopRule()), ("confident", StopRule(0.9, rule, 6))):
        rng = np.random.default_rng(5)
        used = np.zeros((len(problems), 2))
        for i, problem in enumerate(problems):
            order = np.argsort(rng.random((1, 20)), axis=1)[0]
            for place, n in enumerate((8, 20)):
                answers = [problem.answers[j] for j in order]
                elected, used[i, place] = replay(answers, n, 3, stop)
                assert curves[name].per_problem[i, place] == (elected == 0)
        assert curves[name].used == pytest.approx(tuple(used.mean(axis=0)))


def test_the_certain_vote_is_the_majority_vote_for_less():
    _, problems = many_problems(60, 32)
    curves = vote_curves(problems, (1, 2, 8, 32), orders=4)
    np.testing.assert_array_equal(curves["certain"].per_problem, curves["majority"].per_problem)
    assert curves["certain"].used[-1] < 31
    assert curves["confident"].used[-1] < curves["certain"].used[-1]
    assert curves["majority"].used == (1, 2, 8, 32)


def test_majority_curve_of_independent_answers_is_the_closed_form():
    """Hoeffding: 600 problems' mean is off by more than 0.11 with probability below 1e-6."""
    probs, problems = many_problems(600, 16)
    curves = vote_curves(problems, (1, 4, 16), confidence=None, orders=2)
    for place, n in enumerate((1, 4, 16)):
        theory = np.mean([majority_accuracy(row, n) for row in probs])
        assert curves["majority"].accuracy[place] == pytest.approx(theory, abs=0.11)
    # A vote that only ever looks at its first sample would be refused by the same bound.
    assert curves["single"].accuracy[2] < theory - 0.11


def test_intervals_and_table():
    _, problems = many_problems(50, 8)
    curves = vote_curves(problems, (1, 8), confidence=None, level=0.9)
    assert "confident" not in curves
    curve = curves["majority"]
    total = float(curve.per_problem[:, 1].sum())
    assert (curve.low[1], curve.high[1]) == wilson_interval(total, 50, 0.9)
    last = curve.rows()[1]
    assert last == {
        "n": 8, "accuracy": curve.accuracy[1], "low": curve.low[1], "high": curve.high[1],
        "used": 8.0,
    }  # fmt: skip
    assert all(type(value) in (int, float) for value in last.values())


def test_same_seed_same_curves():
    _, problems = many_problems(10, 12)
    first, again = (vote_curves(problems, (5,), orders=2, seed=3) for _ in range(2))
    assert all(first[name].accuracy == again[name].accuracy for name in first)


def test_a_problem_nobody_answers():
    curves = vote_curves([Sampled("b", [None] * 6), Sampled("b", ["b"] * 6)], (1, 6))
    for name in ("majority", "certain", "confident", "pass"):
        assert curves[name].accuracy == (0.5, 0.5)


def test_bad_input():
    for change, message in [
        ({"scores": {"noisy": [1.0]}}, r"problems\[1\].scores\['noisy'\] must hold one number"),
        ({"scores": {"noisy": [np.nan] * 6}}, "one number for each of 6 samples"),
        ({"scores": {}}, r"problems\[1\].scores must have the names"),
        ({"log_weights": {"weight": [0.0] * 5}}, "log_weights"),
        ({"answers": ["a"] * 4}, "counts must be between 1 and 4, got 6"),
    ]:
        with pytest.raises(BadValue, match=message):
            vote_curves([PROBLEM, dataclasses.replace(PROBLEM, **change)], (6,))
    refuses(BadValue, "problems must hold at least one", vote_curves, [], (1,))
    refuses(BadValue, "counts must be between 1 and 6, got 0", vote_curves, [PROBLEM], (0,))
    refuses(BadValue, "confidence must lie between", vote_curves, [PROBLEM], (1,), confidence=1.0)
