"""Estimators and closed forms against complete enumeration; intervals against exact coverage."""

import itertools
import math

from lablib.course.theory.estimators import (
    any_right,
    best_of_k,
    best_of_n_distribution,
    best_of_n_kl_bound,
    bootstrap_interval,
    difference_interval,
    kl_divergence,
    majority_accuracy,
    wilson_interval,
)
from lablib.inference import pass_at_k
from lablib.validation import BadType, BadValue

import numpy as np
import pytest
from oracles import voting as oracle
from oracles.refusals import refuses
from scipy.stats import binom, binomtest


def textbook(n, c, k):
    """The biased formula: plug c/n into 1 − (1 − p)^k."""
    return 1 - (1 - c / n) ** k


def bias(estimator, p, n, k):
    mean = oracle.expectation([p], n, lambda seen: estimator(n, seen.count(0), k))
    return abs(mean - (1 - (1 - p) ** k))


@pytest.mark.parametrize("p", [0.0, 0.03, 0.3, 0.5, 0.9, 1.0])
def test_pass_at_k_has_no_bias(p):
    for n, k in [(1, 1), (4, 2), (7, 3), (7, 7)]:
        assert bias(pass_at_k, p, n, k) < 1e-12


def test_the_textbook_formula_fails_the_same_test():
    assert bias(textbook, 0.3, 7, 3) > 0.01


def test_pass_at_k_at_sizes_where_floats_would_overflow():
    assert pass_at_k(5000, 1, 1) == pytest.approx(1 / 5000, rel=1e-12)
    assert pass_at_k(5000, 2500, 3000) == 1.0
    assert pass_at_k(10, 0, 10) == 0.0


SCORES = [0.3, 0.9, 0.9, -1.0, 0.3, 2.0]
VALUES = [1.0, 0.0, 1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("k", range(1, 7))
def test_best_of_k_is_the_mean_over_all_subsets(k):
    expected = oracle.subsets_mean(6, k, lambda rows: oracle.best_value(SCORES, VALUES, rows))
    assert best_of_k(SCORES, VALUES, k) == pytest.approx(expected, abs=1e-12)


def test_best_of_k_has_no_bias_for_draws_of_a_known_distribution():
    probs, scores, values = [0.5, 0.3, 0.2], [0.0, 1.0, 2.0], [1.0, 0.0, 0.7]
    truth = float(best_of_n_distribution(probs, scores, 3) @ values)

    def estimate(drawn):
        return best_of_k([scores[i] for i in drawn], [values[i] for i in drawn], 3)

    assert abs(oracle.expectation(probs, 6, estimate) - truth) < 1e-12


def test_best_of_k_of_a_perfect_verifier_is_pass_at_k():
    right = [1, 0, 0, 1, 0, 0, 0]
    for k in range(1, 8):
        assert best_of_k(right, right, k) == pytest.approx(pass_at_k(7, 2, k), abs=1e-15)


@pytest.mark.parametrize("scores", [[0, 1, 2, 3], [1, 1, 0, 2], [0, 0, 0, 0], [-math.inf, 0, 0, 5]])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_best_of_n_distribution_by_enumeration(scores, n):
    probs = [0.1, 0.2, 0.3, 0.4]
    expected = np.zeros(4)
    for drawn, chance in oracle.outcomes(probs, n):
        top = max(scores[i] for i in drawn)
        best = [i for i in drawn if scores[i] == top]
        for i in best:
            expected[i] += chance / len(best)
    np.testing.assert_allclose(best_of_n_distribution(probs, scores, n), expected, atol=1e-12)


def test_the_kl_bound_is_a_bound_and_tight_only_for_many_distinct_scores():
    rng = np.random.default_rng(0)
    for n in (1, 2, 4, 16, 64):
        for size in (2, 5, 40):
            probs = rng.dirichlet(np.full(size, 0.5))
            scores = rng.integers(0, size, size)
            best = best_of_n_distribution(probs, scores, n)
            assert kl_divergence(best, probs) <= best_of_n_kl_bound(n) + 1e-9
    even = np.full(20000, 1 / 20000)
    gap = best_of_n_kl_bound(8) - kl_divergence(best_of_n_distribution(even, range(20000), 8), even)
    assert 0 <= gap < 1e-3
    sure = best_of_n_distribution([0.99, 0.01], [1, 0], 64)
    assert kl_divergence(sure, [0.99, 0.01]) < 0.02 < best_of_n_kl_bound(64)


def test_kl_divergence():
    found = kl_divergence([0.5, 0.5], [0.25, 0.75])
    assert found == pytest.approx(0.5 * math.log(4 / 3), abs=1e-15)
    assert kl_divergence([1, 0], [0, 1]) == math.inf


def test_any_right():
    for p, n in itertools.product([0.0, 0.2, 1.0], [1, 3]):
        truth = oracle.expectation([p], n, lambda seen: 0 in seen)
        assert any_right(p, n) == pytest.approx(truth, abs=1e-12)
    assert any_right(1e-18, 10) == pytest.approx(1e-17, rel=1e-9)


CASES = [([0.6, 0.4], 0), ([0.3, 0.4, 0.2], 0), ([0.3, 0.3, 0.3], 1), ([0.5], 0), ([1.0, 0.0], 1)]


@pytest.mark.parametrize(("probs", "right"), CASES)
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_majority_accuracy_by_enumeration(probs, right, n):
    truth = oracle.expectation(probs, n, lambda seen: oracle.winner(seen) == right)
    assert majority_accuracy(probs, n, right) == pytest.approx(truth, abs=1e-12)


def test_majority_accuracy_without_the_tie_rule_fails_the_same_test():
    def strictly(seen):
        return all(seen.count(0) > seen.count(other) for other in (1, 2))

    truth = oracle.expectation([0.3, 0.4, 0.2], 6, lambda seen: oracle.winner(seen) == 0)
    assert abs(oracle.expectation([0.3, 0.4, 0.2], 6, strictly) - truth) > 0.01


def test_majority_accuracy_of_many_votes():
    """Condorcet: the likelier answer wins in the end, and the binomial tail says how often."""
    n, p = 401, 0.53
    assert majority_accuracy([p, 1 - p], n) == pytest.approx(binom.sf(200, n, p), abs=1e-10)
    assert majority_accuracy([0.3, 0.25] + [0.045] * 10, 256) > 0.85
    assert majority_accuracy([0.25, 0.3] + [0.045] * 10, 256) < 0.15


def coverage(interval, n, p):
    """Probability that the interval for c successes of n holds p."""
    inside = [low <= p <= high for low, high in (interval(c, n) for c in range(n + 1))]
    return binom.pmf(np.arange(n + 1), n, p) @ inside


def test_wilson_covers_nearly_and_two_sigma_does_not():
    def two_sigma(c, n):
        p, half = c / n, 1.96 * math.sqrt(c / n * (1 - c / n) / n)
        return p - half, p + half

    places = np.linspace(0.02, 0.98, 49)
    assert np.mean([coverage(wilson_interval, 20, p) for p in places]) > 0.945
    assert min(coverage(wilson_interval, 20, p) for p in places) > 0.85
    assert min(coverage(two_sigma, 20, p) for p in places) < 0.5


def test_wilson_is_scipys_and_takes_fractions_too():
    for (c, n), level in itertools.product([(0, 10), (3, 10), (10, 10), (411, 600)], [0.5, 0.95]):
        exact = binomtest(c, n).proportion_ci(level, method="wilson")
        assert wilson_interval(c, n, level) == pytest.approx(tuple(exact), abs=1e-12)
    assert wilson_interval(3, 10) == pytest.approx((0.107791, 0.603222), abs=1e-6)
    assert wilson_interval(0, 10)[0] == 0.0
    assert wilson_interval(10, 10)[1] == 1.0
    assert wilson_interval(7.5, 10)[0] < 0.75 < wilson_interval(7.5, 10)[1]


def test_newcombes_interval_is_that_of_his_paper_and_covers_where_both_shares_are_near_one():
    assert difference_interval(56, 70, 48, 80) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert difference_interval(5, 56, 0, 29) == pytest.approx((-0.0381, 0.1926), abs=5e-5)
    n, counts = 48, range(49)
    every = [[difference_interval(k, n, m, n) for m in counts] for k in counts]
    for p, q in ((0.95, 0.9), (0.9, 0.9), (0.99, 0.6), (0.5, 0.2)):
        inside = [[low <= p - q <= high for low, high in row] for row in every]
        assert 0.94 < binom.pmf(counts, n, p) @ inside @ binom.pmf(counts, n, q) < 0.98


def test_bootstrap_interval():
    values = [0.0] * 40 + [1.0] * 60
    low, high = bootstrap_interval(values)
    assert (low, high) == bootstrap_interval(values)
    assert low == pytest.approx(0.6 - 1.96 * 0.049, abs=0.01)
    assert high == pytest.approx(0.6 + 1.96 * 0.049, abs=0.01)
    assert bootstrap_interval([0.25] * 9) == (0.25, 0.25)


def test_bootstrap_of_a_ratio_is_of_the_sums():
    assert bootstrap_interval([2, 6, 9], per=[1, 3, 4.5]) == (2.0, 2.0)
    plain = bootstrap_interval([3, 1, 4], seed=5)
    assert bootstrap_interval([3, 1, 4], per=[1] * 3, seed=5) == plain
    assert bootstrap_interval([0, 0], per=[0, 0]) == (0.0, 0.0)  # nothing was counted
    low, high = bootstrap_interval([10, 1], per=[1, 10], level=0.9)
    assert (low, high) == (0.1, 10.0)  # a resample of one unit only is one in four


BAD = [
    (pass_at_k, (0, 0, 1), "n must be at least 1"),
    (pass_at_k, (5, 6, 1), "c must be between 0 and 5"),
    (pass_at_k, (5, 2, 6), "k must be between 1 and 5"),
    (best_of_k, ([1.0], [1.0, 2.0], 1), "values must have one entry for each of 1"),
    (best_of_k, ([math.nan], [1.0], 1), "must not hold NaN"),
    (any_right, (1.5, 2), "p must be between 0.0 and 1.0"),
    (majority_accuracy, ([0.7, 0.7], 3), "probs must be probabilities .* sum to at most 1"),
    (majority_accuracy, ([0.5, 0.5], 3, 2), "right must be between 0 and 1"),
    (best_of_n_distribution, ([0.5, 0.4], [0, 1], 2), "probs must be probabilities .* sum to 1"),
    (best_of_n_distribution, ([0.5, 0.5], [0], 2), "scores must have one entry"),
    (best_of_n_kl_bound, (0,), "n must be at least 1"),
    (kl_divergence, ([1.0], [0.5, 0.5]), "must have the same shape"),
    (wilson_interval, (3, 2), "successes must be between 0.0 and 2"),
    (wilson_interval, (1, 2, 1.0), "level must lie strictly between"),
    (wilson_interval, (1, 2, 0.0), "level must lie strictly between"),
    (bootstrap_interval, ([],), "values must be a non-empty"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), BAD)
def test_bad_input(function, arguments, message):
    refuses(BadValue, message, function, *arguments)


@pytest.mark.parametrize("per", [[1.0], [1.0, -1.0], [1.0, math.nan]])
def test_a_ratio_needs_counts(per):
    with pytest.raises(BadValue, match="per must hold a count for each of 2 values"):
        bootstrap_interval([1.0, 2.0], per=per)


def test_bad_types():
    refuses(BadType, "n must be an int", pass_at_k, 5.0, 1, 1)
