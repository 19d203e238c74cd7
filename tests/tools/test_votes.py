"""Votes on *sums*: closed forms against simulations of the annotator and of the verifiers."""

import math

from lablib.course import tasks
from lablib.course.theory.estimators import any_right
from lablib.tools import votes
from lablib.tools.completions import Plan
from lablib.tools.votes import exact_curves, noisy_best_of_n

import numpy as np
import pytest
from scipy.stats import binomtest


def test_the_exact_process_and_a_simulation_of_it_agree() -> None:
    """Votes over simulated answers meet the closed forms; also a test of ``curves``."""
    plan = Plan(problems=40, samples=16, orders=64)
    problems = tasks.sums.problems(8, plan.problems)
    rng = np.random.default_rng(0)
    records = []
    for problem in problems:
        texts = tasks.sums.simulate(problem, rng, 256)
        marks = [tasks.sums.verify(problem, text) for text in texts]
        records.append(
            {
                "digits": "".join(map(str, problem.data)),
                "truth": str(sum(problem.data) % 10),
                "answers": "".join(tasks.sums.extract(text) for text in texts),
                "verified": "".join(str(int(mark)) for mark in marks),
                "logprobs": [0.0] * 256,
                "scores": [8.0 if mark else -8.0 for mark in marks],
            }
        )
    curves = votes.curves(records, plan)
    exact = exact_curves(problems, plan.counts)
    assert exact.keys() == {"single", "majority", "pass", "best: gaussian", "best: heavy-tailed"}
    for name, values in exact.items():
        for row, value in zip(curves[name], values, strict=True):
            # 40 problems × 64 orders of 256 answers: five standard errors of 0.01 at most.
            assert row["accuracy"] == pytest.approx(value, abs=0.05), (name, row["n"])
    assert curves["weighted: learned"][-1]["accuracy"] > 0.97
    heavy = [row["accuracy"] for row in curves["best: heavy-tailed"]]
    assert max(heavy) > heavy[-1] + 0.02
    gaussian = [row["accuracy"] for row in curves["best: gaussian"]]
    assert gaussian == sorted(gaussian)


def test_the_annotators_answer_is_right_exactly_where_every_step_holds() -> None:
    """What makes best-of-N with the noisy verifiers a matter of the answer alone."""
    rng = np.random.default_rng(1)
    for problem in tasks.sums.problems(9, 30):
        for text in tasks.sums.simulate(problem, rng, 100):
            assert tasks.sums.check(problem, text) == tasks.sums.verify(problem, text)
    slips = (tasks.sums.WRONG - tasks.sums.RIGHT) % 10
    assert set(slips.flat) == {0, 1}
    assert tasks.sums.COUNT - 1 < 10


@pytest.mark.parametrize(("scale", "df"), [(0.4, math.inf), (0.2, 1.0), (2.0, 1.0), (0.5, 3.0)])
@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_noisy_best_of_n_is_what_a_simulation_finds(n: int, scale: float, df: float) -> None:
    """False alarms: at most 1e-6 over all 48 comparisons, as the intervals are exact ones."""
    rng = np.random.default_rng([n, int(10 * scale)])
    draws = 20_000
    chances = [0.05, 0.4, 0.9]
    for p, exact in zip(chances, noisy_best_of_n(chances, n, scale, df), strict=True):
        right = rng.random((draws, n)) < p
        normal = df == math.inf
        errors = rng.standard_normal((draws, n)) if normal else rng.standard_t(df, (draws, n))
        best = (right + scale * errors).argmax(axis=1)
        hits = int(right[np.arange(draws), best].sum())
        low, high = binomtest(hits, draws).proportion_ci(1 - 1e-6 / 48, "exact")
        assert low <= exact <= high


def test_noisy_best_of_n_between_its_limits() -> None:
    chances = [0.0, 0.3, 1.0]
    for df in (math.inf, 1.0):
        one = noisy_best_of_n(chances, 1, 0.5, df)
        assert one == pytest.approx(chances, abs=1e-9)
        exact = noisy_best_of_n(chances, 8, 1e-4, df)
        assert exact == pytest.approx([any_right(p, 8) for p in chances], abs=2e-3)
        blind = noisy_best_of_n(chances, 8, 1e4, df)
        assert blind == pytest.approx(chances, abs=2e-3)
    for df in (0.5, math.nan):
        with pytest.raises(ValueError, match="df must be at least 1"):
            noisy_best_of_n([0.5], 2, 1.0, df)
