"""The widget of lesson 05 computes what it says."""

from itertools import combinations

from lablib.course.lessons.lesson_05 import widgets
from lablib.course.theory.estimators import best_of_k
from lablib.inference import pass_at_k

import numpy as np
import pytest
from oracles.drawn import charted, curves, read
from oracles.refusals import refuses

RIGHT = np.random.default_rng(3).random((6, 16)) < 0.4


def test_weights_are_shares_of_subsets() -> None:
    subsets = list(combinations(range(6), 4))
    best = np.bincount([max(subset) for subset in subsets], minlength=6)
    assert widgets.best_of_weights([4], 6)[0] == pytest.approx(best / len(subsets), abs=1e-15)
    assert widgets.best_of_weights([1, 3, 6], 6).sum(axis=1) == pytest.approx(1, abs=1e-12)
    refuses(ValueError, "counts must be", widgets.best_of_weights, [7], 6)


def test_without_noise_the_best_is_right_if_any_is() -> None:
    data = widgets.OverOptimisation(RIGHT).compute(noise=0.0, errors=widgets.HEAVY)
    expected = [np.mean([pass_at_k(16, int(row.sum()), n) for row in RIGHT]) for n in data["n"]]
    assert data["n"] == [1, 2, 4, 8, 16]
    assert data["truth"] == pytest.approx(expected, abs=1e-12)
    assert data["score"] == pytest.approx(expected, abs=1e-12)


def test_score_and_truth_are_the_estimator_for_each_verifier() -> None:
    widget = widgets.OverOptimisation(RIGHT, seed=5)
    data = widget.compute(noise=0.3, errors=widgets.GAUSSIAN)
    rng = np.random.default_rng(5)
    scores = RIGHT + 0.3 * rng.normal(size=(widget.verifiers, *RIGHT.shape))
    for name, values in (("score", scores), ("truth", np.broadcast_to(RIGHT, scores.shape))):
        expected = np.mean(
            [
                best_of_k(s, v, 4)
                for of_one, value in zip(scores, values, strict=True)
                for s, v in zip(of_one, value, strict=True)
            ]
        )
        assert data[name][data["n"].index(4)] == pytest.approx(expected, abs=1e-12)


def test_only_the_heavy_tail_spoils_the_truth() -> None:
    widget = widgets.OverOptimisation(np.random.default_rng(0).random((40, 64)) < 0.5)
    heavy = widget.compute(noise=0.2, errors=widgets.HEAVY)
    gauss = widget.compute(noise=0.2, errors=widgets.GAUSSIAN)
    assert (np.diff(heavy["score"]) > 0).all()
    assert heavy["truth"].max() - heavy["truth"][-1] > 0.05
    assert gauss["truth"][-1] > 0.9
    assert read(widget.draw(heavy))


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2, 1.0])
@pytest.mark.parametrize("errors", [widgets.GAUSSIAN, widgets.HEAVY])
def test_the_scores_axis_is_marked_in_plain_numbers(noise: float, errors: str) -> None:
    widget = widgets.OverOptimisation(RIGHT)
    ticks = widget.constants["panels"][0]["y"]["ticks"]
    assert len(ticks) >= 3
    assert [float(label) for _, label in ticks] == pytest.approx([value for value, _ in ticks])
    score, truth = read(widget.draw(widget.compute(noise=noise, errors=errors)))
    assert [*curves(score), *curves(truth)] == ["score", "truth"]


def test_the_caption_follows_the_controls() -> None:
    widget = widgets.OverOptimisation(RIGHT)
    assert widget.set(errors=widgets.GAUSSIAN, noise=0.0).startswith("The score goes up to 1.0")
    assert "best at 16" in widget.view.caption
    refuses(ValueError, "right must have shape", widgets.OverOptimisation, [True, False])


def test_twelve_of_twelve_are_not_drawn_as_perfect() -> None:
    chart = widgets.chosen_right([1, 4], {"single": [0.5, 0.5], "exact": [0.5, 1.0]}, 12)
    *_, whisker, word = charted(chart)[0]
    ((n, share, low, high),) = whisker["line"]
    assert (n, share, high) == (4, 1, 1)
    assert low == pytest.approx(12 / (12 + 1.959964**2))  # Wilson's bound, if all are right
    assert word["text"] == "12 of 12 (95 %: 76% to 100%)"
    assert "12 problems" in chart.panels[0]["title"]


@pytest.mark.parametrize("slip", [1, 2])
def test_a_token_that_speaks_against_hangs_below_the_line(slip: int) -> None:
    chart = widgets.spoken({"a": (["4", "5", ";"], [2.0, -3.0, 0.5]), "b": (["7"], [5])}, slip)
    *bars, word = chart.marks[0]
    assert "adds -0.5 to" in chart.panels[0]["title"]
    assert [bar["bar"] for bar in chart.marks[1]] == [[-0.4, 0.4, 0, 5]]
    assert [bar["bar"][2:] for bar in bars] == [[0, 2.0], [-3.0, 0], [0, 0.5]]
    assert [bar["fill"] for bar in bars] == [chart.keys[i][0] for i in (0, 1, 0)]
    assert word["at"][0] == pytest.approx(slip + {"start": -0.4, "end": 0.4}[word["anchor"]])
