"""The widget of lesson 05 computes what it says."""

from itertools import combinations

from lablib.course.lessons.lesson_05 import widgets
from lablib.course.lessons.lesson_05.judged import mended
from lablib.course.theory.estimators import best_of_k
from lablib.inference import pass_at_k

import numpy as np
import pytest
from oracles.drawn import curves, read
from oracles.refusals import refuses

RIGHT = np.random.default_rng(3).random((6, 16)) < 0.4


def test_weights_are_shares_of_subsets() -> None:
    subsets = list(combinations(range(6), 4))
    best = np.bincount([max(subset) for subset in subsets], minlength=6)
    assert widgets.best_of_weights([4], 6)[0] == pytest.approx(best / len(subsets), abs=1e-15)
    assert widgets.best_of_weights([1, 3, 6], 6).sum(axis=1) == pytest.approx(1, abs=1e-12)
    refuses(ValueError, "counts must be", widgets.best_of_weights, [7], 6)


def test_without_noise_the_best_is_right_if_any_is() -> None:
    data = widgets.OverOptimisation(RIGHT).compute(noise=0.0)
    each = np.array([[pass_at_k(16, int(row.sum()), n) for row in RIGHT] for n in data["n"]])
    assert data["n"] == [1, 2, 4, 8, 16]
    for kind in widgets.KINDS:
        assert data[kind]["truth"] == pytest.approx(each.mean(axis=1), abs=1e-12)
        assert data[kind]["score"] == pytest.approx(np.median(each, axis=1), abs=1e-12)


def test_score_and_truth_are_the_estimator_for_each_verifier() -> None:
    widget = widgets.OverOptimisation(RIGHT, seed=5)
    data = widget.compute(noise=0.3)
    rng = np.random.default_rng(5)
    scores = RIGHT + 0.3 * rng.normal(size=(widget.verifiers, *RIGHT.shape))
    truths, middle = np.broadcast_to(RIGHT, scores.shape), data["n"].index(4)
    for name, values, take in (("score", scores, np.median), ("truth", truths, np.mean)):
        each = [
            best_of_k(s, v, 4)
            for of_one, value in zip(scores, values, strict=True)
            for s, v in zip(of_one, value, strict=True)
        ]
        assert data[widgets.GAUSSIAN][name][middle] == pytest.approx(take(each), abs=1e-12)


def test_only_the_heavy_tail_spoils_the_truth() -> None:
    widget = widgets.OverOptimisation(np.random.default_rng(0).random((40, 64)) < 0.5)
    both = widget.compute(noise=0.2)
    heavy, gauss = both[widgets.HEAVY], both[widgets.GAUSSIAN]
    assert (np.diff(heavy["score"]) > 0).all()
    assert heavy["truth"].max() - heavy["truth"][-1] > 0.05
    assert gauss["truth"][-1] > 0.9
    assert heavy["lucky"] > 0.8 > 0.6 > gauss["lucky"] > 0.4  # half are right
    assert read(widget.draw(both))


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2, 1.0])
def test_the_scores_axis_is_marked_in_plain_numbers(noise: float) -> None:
    widget = widgets.OverOptimisation(RIGHT)
    ticks = widget.constants["panels"][0]["y"]["ticks"]
    assert len(ticks) >= 3
    assert [float(label) for _, label in ticks] == pytest.approx([value for value, _ in ticks])
    score, truth = read(widget.draw(widget.compute(noise=noise)))
    assert [*curves(score), *curves(truth)] == [*widgets.KINDS] * 2


def test_the_caption_follows_the_controls() -> None:
    widget = widgets.OverOptimisation(RIGHT)
    assert "Gaussian errors: the score ends at 1.0" in widget.set(noise=0.0)
    assert "Heavy-tailed" in widget.view.caption
    assert "samples" not in widget.view.caption  # both are best at the end
    assert "%, after " in widget.set(noise=1.0)
    refuses(ValueError, "right must have shape", widgets.OverOptimisation, [True, False])


def test_a_slip_is_drawn_beside_the_same_chain_without_it() -> None:
    chart = widgets.slipped((["4", "5", ";"], [2.0, -3.0, 0.5]), (["4", "6", ";"], [2, 1, 0.25]), 1)
    bars = [[mark["bar"][2:] for mark in marks if "bar" in mark] for marks in chart.marks]
    assert bars[:2] == [[[0, 2.0], [-3.0, 0], [0, 0.5]], [[0, 2], [0, 1], [0, 0.25]]]
    assert bars[2] == [[0, 0.0], [-4.0, 0], [0, 0.25]]
    fills = [mark["fill"] for mark in chart.marks[0] if "bar" in mark]
    assert fills == [chart.keys[i][0] for i in (0, 1, 0)]
    words = [mark for marks in chart.marks for mark in marks if "at" in mark]
    assert [word["text"] for word in words] == ["-3.0", "+1.0", "-4.0"]
    assert {word["at"][0] for word in words} == {1}


def test_a_chain_is_mended_in_its_own_order() -> None:
    assert mended("9+8=8;8+6=4;#4") == "9+8=7;7+6=3;#3"
    right = "1+2=3;3+0=3;3+9=2;#2"
    assert mended(right) == right
