"""Closed forms, against simulation by hand and against each other."""

from lablib.course.theory import closed_forms as theory
from lablib.inference.speculation.costs import Costs, best_draft_tokens, expected_tokens, speedup
from lablib.validation import BadType, BadValue

import numpy as np
import pytest
from oracles.refusals import refuses


def test_acceptance_is_one_minus_total_variation():
    p, q = [0.5, 0.3, 0.2, 0.0], [0.1, 0.3, 0.2, 0.4]
    assert theory.acceptance_rejection(p, q) == pytest.approx(0.6)
    assert np.abs(np.subtract(p, q)).sum() / 2 == pytest.approx(0.4)
    assert theory.acceptance_match(p, q) == pytest.approx(0.05 + 0.09 + 0.04)


@pytest.mark.parametrize("size", [1, 2, 5, 40])
@pytest.mark.parametrize("seed", range(8))
def test_shared_noise_agrees_between_its_bound_and_the_overlap(seed, size):
    rng = np.random.default_rng(seed)
    p, q = rng.gamma(0.3, size=(2, size)) + 1e-9
    if size > 2 and seed % 2:  # tokens that one of them, or both, never takes
        p[0] = q[1] = p[2] = q[2] = 0
    p, q = p / p.sum(), q / q.sum()
    kept, distance = theory.acceptance_coupled(p, q), np.abs(p - q).sum() / 2
    assert (1 - distance) / (1 + distance) - 1e-12 <= kept <= 1 - distance + 1e-12
    assert kept >= theory.acceptance_match(p, q) - 1e-12
    assert theory.acceptance_coupled(p, p) == pytest.approx(1)
    draft = np.eye(size)[-1]  # looked up: no noise was shared
    assert theory.acceptance_coupled(p, draft) == pytest.approx(p[-1], abs=1e-12)


def test_shared_noise_by_hand_and_by_a_million_draws():
    p, q = [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]
    assert theory.acceptance_coupled(p, q) == pytest.approx(1 / 3)  # the bound, at TV = 1/2
    assert theory.acceptance_coupled([0.5, 0.5], [0.5, 0.5]) == pytest.approx(1)
    p, q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.2, 0.1, 0.3, 0.4])
    noise = np.random.default_rng(0).exponential(size=(10**6, 4))
    agree = ((noise / p).argmin(axis=1) == (noise / q).argmin(axis=1)).mean()
    wanted = theory.acceptance_coupled(p, q)
    spread = np.sqrt(wanted * (1 - wanted) / 10**6)
    assert abs(agree - wanted) < 4.9 * spread  # chance exceeds this once in a million tests


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.85, 0.999999, 1.0])
@pytest.mark.parametrize("gamma", [0, 1, 4, 9])
def test_expected_tokens_counts_the_run_of_kept_drafts(alpha, gamma):
    # P(exactly n kept) written out; the target adds one token whatever n is.
    by_length = [alpha**n * (1 - alpha) for n in range(gamma)] + [alpha**gamma]
    wanted = sum((n + 1) * p for n, p in enumerate(by_length))
    assert expected_tokens(alpha, gamma) == pytest.approx(wanted, abs=1e-12)
    if alpha < 1:
        closed = (1 - alpha ** (gamma + 1)) / (1 - alpha)
        assert expected_tokens(alpha, gamma) == pytest.approx(closed, rel=1e-9)
    assert expected_tokens([alpha] * (gamma + 1), gamma) == pytest.approx(wanted)


def test_positions_of_their_own():
    assert expected_tokens([0.5, 1.0, 0.2], 3) == pytest.approx(1 + 0.5 + 0.5 + 0.1)
    assert expected_tokens([0.5, 1.0], 4) == pytest.approx(1 + 4 * 0.5)  # the last rate goes on


def test_speedup_is_leviathans_on_the_textbooks_machine():
    alpha, gamma, c = 0.8, 5, 0.05
    formula = (1 - alpha ** (gamma + 1)) / ((1 - alpha) * (gamma * c + 1))
    assert speedup(alpha, gamma, Costs.from_ratio(c)) == pytest.approx(formula)


def test_speedup_of_not_drafting_is_one():
    costs = Costs((2.0, 2.5, 3.0), 0.3)
    assert speedup(0.9, 0, costs) == 1.0
    assert costs.of_round(0) == 2.0
    assert costs.of_round(2) == pytest.approx(0.6 + 3.0)


def test_forwards_beyond_the_measured_ones_go_on_in_a_line():
    costs = Costs((2.0, 2.5, 3.0), 0.3)
    assert [costs.forward(k) for k in (1, 3, 4, 7)] == pytest.approx([2.0, 3.0, 3.5, 5.0])
    assert Costs((2.0,), 0.0).forward(3) == pytest.approx(6.0)
    assert Costs((2.0, 1.9), 0.0).forward(9) == pytest.approx(1.9)  # noise never pays for itself


def test_best_number_of_drafts():
    cheap, dear = Costs.from_ratio(0.01), Costs.from_ratio(0.9)
    assert best_draft_tokens(0.95, cheap) > best_draft_tokens(0.5, cheap) >= 1
    assert best_draft_tokens(0.3, dear) == 0
    assert best_draft_tokens(0.0, cheap) == 0
    linear = Costs((1.0, 2.0), 0.0)  # a machine on which nothing is free: the reference BLAS
    assert best_draft_tokens(0.99, linear) == 0
    for alpha in np.linspace(0, 1, 11):
        best = best_draft_tokens(alpha, cheap, 8)
        speeds = [speedup(alpha, g, cheap) for g in range(9)]
        assert speeds[best] == max(speeds)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_tokens(1.1, 3), "alpha must be between 0.0 and 1.0"),
        (lambda: expected_tokens(0.5, -1), "draft_tokens must be at least 0"),
        (lambda: theory.acceptance_match([0.5, 0.5], [1.0]), "same shape"),
        (lambda: theory.acceptance_match([0.5, 0.6], [0.5, 0.5]), "p must be probabilities"),
        (lambda: theory.acceptance_rejection([0.5, 0.5], [1.5, -0.5]), "q must be probabilities"),
        (lambda: Costs((), 0.1), "target must hold at least"),
        (lambda: Costs((1.0, 0.0), 0.1), r"target\[1\] must be positive"),
        (lambda: Costs((1.0,), -0.1), "draft must be at least 0"),
        (lambda: Costs((1.0,), 0.1).forward(0), "k must be at least 1"),
    ],
)
def test_bad_input(call, message):
    refuses(BadValue, message, call)


def test_bad_types():
    refuses(BadType, "alpha must be a number", expected_tokens, "0.5", 3)
    refuses(BadType, "draft_tokens must be an int", expected_tokens, 0.5, 2.0)
