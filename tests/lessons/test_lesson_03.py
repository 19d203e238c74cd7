"""The widgets of lesson 03 compute what they say."""

import itertools
import json

from lablib.course.lessons.lesson_03.widgets import BeforeAfter, HeatCost, Penalties, StoryCounts
from lablib.course.theory.estimators import wilson_interval
from lablib.inference import SamplerOptions
from lablib.inference.sampling import transforms

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
    assert widget.view.caption.startswith("3 of 4 words stay")  # a first look shows a cut
    cuts = [mark for mark in marks_of(widget) if "rule" in mark]
    assert [(cut["rule"], cut["text"][:10]) for cut in cuts] == [({"y": 0.9}, "top-p 0.90")]
    data = widget.compute(temperature=2.0, top_k=2, top_p=1.0, min_p=0.0)
    assert data["warm"] == pytest.approx(softmax(np.array(LOGITS) / 2), abs=1e-6)
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
    before, after = (start[name][:2].sum() for name in ("before", "after"))
    assert f"had {before:.0%} of the mass and now have {after:.0%}." in widget.view.caption
    neutral = {"repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    data = widget.compute(**neutral | {"frequency_penalty": 0.5}, repeat_last_n=3)
    expected = softmax(np.array(LOGITS) - [1.0, 0.5, 0.0, 0.0])
    assert data["after"] == pytest.approx(expected, abs=1e-6)
    short = widget.compute(**neutral | {"presence_penalty": 1.0}, repeat_last_n=1)
    expected = softmax(np.array(LOGITS) - [0.0, 1.0, 0.0, 0.0])
    assert short["after"] == pytest.approx(expected, abs=1e-6)
    off = widget.compute(**neutral | {"presence_penalty": 1.0}, repeat_last_n=0)
    assert off["after"] == pytest.approx(off["before"], abs=1e-6)
    for settings in itertools.product((1.0, 1.7), (0.0, 0.6), (0.0, 1.1), range(4)):
        options = dict(zip(widget.controls, settings, strict=True))
        sampled = transforms.apply(widget.logits, SamplerOptions(**options), widget.said)
        found = widget.compute(**options)
        assert found["after"] == pytest.approx(softmax(np.array(sampled)), abs=1e-6)
        assert found["after"] == pytest.approx(softmax(found["scores"][-1]), abs=1e-6)


def test_penalties_take_pieces_off_the_scores() -> None:
    widget = Penalties(WORDS, LOGITS, said=["a", "a", "d"])
    for values in ({}, {"frequency_penalty": 2.0, "presence_penalty": 2.0}, {"repeat_last_n": 2}):
        data = widget.compute(**{**widget.values, **values})
        marks, _ = read(widget.draw(data))
        for i in range(len(WORDS)):
            parts = ("repeat", "presence", "frequency")
            bars = [(each.get("key", ""), each) for each in marks]
            pieces = {
                part: [each["bar"] for key, each in bars if key.startswith(f"{part}{i}.")]
                for part in parts
            }
            assert len(pieces["frequency"]) == data["counts"][i]  # one for each time it was said
            for part, high, low in zip(
                parts, data["scores"][:, i], data["scores"][1:, i], strict=False
            ):
                taken = sum(top - bottom for _, _, bottom, top in pieces[part])
                assert taken == pytest.approx(high - low, abs=1e-6)
        strip = widget.frame(**values)[0]["looks"]
        assert sum(look == 0 for look in strip) == data["counts"].sum()
    assert list(data["counts"]) == [1, 0, 0, 1]  # the oldest is forgotten first


def test_no_penalty_moves_a_word_beyond_the_axes() -> None:
    widget = Penalties(WORDS, LOGITS, said=["a", "a", "b"])
    (low, high), (bottom, top) = (panel["y"]["ends"] for panel in widget.constants["panels"])
    for settings in itertools.product((1.0, 2.0), (0.0, 2.0), (0.0, 2.0), range(4)):
        data = widget.compute(**dict(zip(widget.controls, settings, strict=True)))
        assert low < data["scores"].min() <= data["scores"].max() < high
        assert bottom < data["after"].max() < top
    assert top <= 1


def counts(valid: int, share: float) -> StoryCounts:
    """Return 40 stories that differ in about this share of their words."""
    return StoryCounts(40, valid, share + 0.1 * np.linspace(-1, 1, 40))


def test_heat_has_two_panels_and_shows_every_interval_where_it_is_asked_for() -> None:
    outcomes = {
        (cut, t): counts(valid, share)
        for cut, shift in (("none", 0), ("top-p", 2))
        for t, valid, share in ((0.5, 38 + shift, 0.2), (1.0, 30 + shift, 0.6), (1.5, 8, 0.8))
    }
    widget = HeatCost(outcomes)
    data = widget.compute(temperature=0.99, cut="top-p")
    assert data["temperature"] == 1.0
    assert data["every"]["top-p"][1].spans[1] == [32 / 40, *wilson_interval(32, 40)]
    assert list(data["every"]) == ["none", "top-p"]
    told = widget.set(temperature=1.5)
    assert "20% of 40 stories are right with none." in told
    ends = "({:.0%} to {:.0%})".format(*wilson_interval(8, 40))
    assert told.endswith(f"Its interval {ends} overlaps that of top-p {ends}.")
    right, unlike = read(widget.draw(data))
    both = right, unlike
    drawn = [{each["label"]: each for each in marks if "label" in each} for marks in both]
    wanted = [[0.5, 0.95], [1.0, 0.75], [1.5, 0.2]], [[0.5, 0.2], [1.0, 0.6], [1.5, 0.8]]
    assert [each["none"]["line"] for each in drawn] == [*wanted]
    for place, panel in ((1, drawn[0]), (0, drawn[1])):
        spans = [outcomes["top-p", t].spans[place] for t in (0.5, 1.0, 1.5)]
        band = [point[1:] for point in panel["top-p"]["line"]]
        assert np.array(band) == pytest.approx(np.array(spans), abs=1e-4)
        assert [mark["wide"] for mark in panel.values()] == [1.5, 3]
        assert "60% of their words" in panel["top-p"]["notes"][1]
        assert np.argmin(panel["none"]["sizes"]) == 1  # its dot stands beside the other one's
    for place, marks in ((1, right), (0, unlike)):
        _, *bars = (mark["line"] for mark in marks if "line" in mark and "label" not in mark)
        dots = [mark for mark in marks if "dot" in mark]
        for cut, bar, dot in zip(("none", "top-p"), bars, dots, strict=True):
            height, low, high = outcomes[cut, 1.0].spans[place]
            assert [*(y for _, y in bar), dot["dot"][1]] == pytest.approx([low, high, height])
            assert bar[0][0] == bar[1][0] == dot["dot"][0] == pytest.approx(1.0, abs=0.1)
            assert cut in dot["note"]
        assert dots[0]["dot"][0] < 1.0 < dots[1]["dot"][0]
        assert "T = 1" in [mark.get("text") for mark in marks]


def test_heat_says_whose_intervals_lie_apart() -> None:
    rights = {"none": 30, "top-p": 38, "min-p": 4}
    outcomes = {(cut, t): counts(n, 0.5) for cut, n in rights.items() for t in (0.5, 1.0, 1.5)}
    none, top, least = (wilson_interval(n, 40) for n in rights.values())
    assert least[1] < none[0] < top[0] < none[1] < top[1]
    own, near, far = ("({:.0%} to {:.0%})".format(*each) for each in (top, none, least))
    told = HeatCost(outcomes).set(cut="top-p")
    said = f"{own} overlaps that of none {near} and lies apart from that of min-p {far}."
    assert told.endswith(said)


def test_the_interval_of_a_mean_over_pairs_is_as_wide_as_it_varies() -> None:
    rng, n = np.random.default_rng(0), 48
    means, spans = [], []
    for _ in range(2000):
        x = rng.exponential(size=n)
        apart = np.abs(x[:, None] - x) / 20  # of each pair
        means.append(apart.sum() / n / (n - 1))
        spans.append(StoryCounts(n, 0, apart.sum(axis=1) / (n - 1)).spans[0])
    inside = np.mean([low <= 1 / 20 <= high for _, low, high in spans])
    assert np.mean(means) == pytest.approx(1 / 20, rel=0.02)
    assert 0.9 < inside < 0.97  # without the 2 it would be about 0.65
