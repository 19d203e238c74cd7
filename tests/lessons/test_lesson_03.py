"""The widgets of lesson 03 compute what they say."""

import json

from lablib.course.lessons.lesson_03.widgets import BeforeAfter, Frontier, Penalties, StoryCounts
from lablib.course.theory.estimators import wilson_interval

import numpy as np
import pytest
from oracles.drawn import read

WORDS = ["a", "b", "c", "d"]
LOGITS = [2.0, 1.0, 0.0, -1.0]


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def marks_of(widget, **values) -> list[dict]:
    """Return all marks of a widget's panels."""
    panels = widget.frame(**values)[0]["panels"]
    json.dumps(panels)  # nothing that JSON can't hold
    return [mark for panel in panels for mark in panel["marks"]]


def test_before_after_follows_its_sliders() -> None:
    widget = BeforeAfter(WORDS, LOGITS)
    assert widget.picture.caption.startswith("3 of 4 words stay")  # a first look shows a cut
    cuts = [mark for mark in marks_of(widget) if "rule" in mark]
    assert [(cut["rule"], cut["text"][:10]) for cut in cuts] == [({"y": 0.9}, "top-p 0.90")]
    data = widget.compute(temperature=2.0, top_k=2, top_p=1.0, min_p=0.0)
    assert data["before"] == pytest.approx(softmax(np.array(LOGITS)), abs=1e-6)
    assert data["after"] == pytest.approx([*softmax(np.array([1.0, 0.5])), 0, 0], abs=1e-6)
    assert "1 of 4 words stay" in widget.set(temperature=0.0)
    widget.set(temperature=1.0, top_k=3, top_p=1.0, min_p=0.5)
    data = widget.compute(**widget.values)
    cuts = [mark["rule"] for mark in marks_of(widget) if "rule" in mark]
    assert cuts == [{"x": 2.5}, {"y": pytest.approx(0.5 * data["warm"].max())}, {"x": 2.5}]
    grown = [mark["bar"] for mark in marks_of(widget)[-4:]]
    assert [b[2] for b in grown[1:]] == pytest.approx(np.cumsum(data["warm"])[:-1])
    assert not [mark for mark in marks_of(widget, top_k=0, min_p=0.0) if "rule" in mark]


def test_penalties_see_the_window() -> None:
    widget = Penalties(WORDS, LOGITS, said=["a", "a", "b"])
    start = widget.compute(**widget.values)
    assert not np.allclose(start["before"], start["after"])  # a first look shows something
    for word, i in (("a", 0), ("b", 1)):
        text = f"'{word}' {start['before'][i]:.0%}, now {start['after'][i]:.0%}"
        assert text in widget.picture.caption
    neutral = {"repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    data = widget.compute(**neutral | {"frequency_penalty": 0.5}, repeat_last_n=3)
    expected = softmax(np.array(LOGITS) - [1.0, 0.5, 0.0, 0.0])
    assert data["after"] == pytest.approx(expected, abs=1e-6)
    short = widget.compute(**neutral | {"presence_penalty": 1.0}, repeat_last_n=1)
    expected = softmax(np.array(LOGITS) - [0.0, 1.0, 0.0, 0.0])
    assert short["after"] == pytest.approx(expected, abs=1e-6)
    off = widget.compute(**neutral | {"presence_penalty": 1.0}, repeat_last_n=0)
    assert off["after"] == pytest.approx(off["before"], abs=1e-6)


def test_frontier_shows_the_chosen_outcome_with_its_interval() -> None:
    outcomes = {
        (cut, t): StoryCounts(40, valid, distinct)
        for cut, shift in (("none", 0), ("top-p", 2))
        for t, valid, distinct in ((0.5, 38 + shift, 9), (1.0, 30 + shift, 25), (1.5, 8, 39))
    }
    widget = Frontier(outcomes)
    data = widget.compute(temperature=0.99, cut="top-p")
    assert (data["temperature"], data["valid"]) == (1.0, 32 / 40)
    assert data["interval"] == wilson_interval(32, 40)
    assert list(data["paths"]) == ["none", "top-p"]
    assert "20% valid" in widget.set(temperature=1.5)
    assert read(widget.draw(data))
