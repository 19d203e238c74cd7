"""The widgets of lesson 03 compute what they say."""

import itertools
import json

from lablib.course.lessons.lesson_03.own import in_place_of
from lablib.course.lessons.lesson_03.widgets import BeforeAfter, HeatCost, Penalties, StoryCounts
from lablib.course.theory.estimators import difference_interval, wilson_interval
from lablib.inference import SamplerOptions
from lablib.inference.sampling import transforms

import mlx.core as mx
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


@pytest.fixture
def heated() -> HeatCost:
    """Of each way three temperatures: right stories, and how unlike they are."""
    outcomes = {
        (cut, t): counts(valid, share)
        for cut, shift in (("none", 0), ("top-p", 2), ("min-p", 9))
        for t, valid, share in ((0.5, 29 + shift, 0.2), (1.0, 27 + shift, 0.6), (1.5, 8, 0.8))
    }
    return HeatCost(outcomes)


def test_heat_draws_a_path_for_each_way_and_both_intervals_where_it_is_asked_for(heated) -> None:
    data = heated.compute(temperature=0.99, cut="top-p")
    assert data["temperature"] == 1.0
    (marks,) = read(heated.draw(data))
    paths = {mark["label"]: mark for mark in marks if "label" in mark}
    assert paths["none"]["line"] == [[0.2, 29 / 40], [0.6, 27 / 40], [0.8, 8 / 40]]
    assert [paths[cut]["wide"] for cut in ("none", "top-p", "min-p")] == [1.5, 3, 1.5]
    assert np.argmax(paths["none"]["sizes"]) == 1
    assert "temperature 1: 68% of 40 stories are right" in paths["none"]["notes"][1]
    crosses = [mark["line"] for mark in marks if "line" in mark and "label" not in mark]
    for cut, across, up in zip(heated.cuts, crosses[::2], crosses[1::2], strict=True):
        (unlike, *apart), (valid, *right) = heated.outcomes[cut, 1.0].spans
        assert right == [*wilson_interval(heated.outcomes[cut, 1.0].valid, 40)]
        assert across == [[end, valid] for end in apart]
        assert up == [[unlike, end] for end in right]
    told = [mark["text"] for mark in marks if "text" in mark]
    assert told == ["T = 0.5", "T = 1"]  # the chosen path begins where it is cold


def test_heat_says_the_interval_of_a_difference_and_not_whether_two_overlap(heated) -> None:
    told = heated.set(temperature=1.0, cut="top-p")
    low, high = difference_interval(29, 40, 27, 40)
    assert low < 0 < high
    assert told.endswith(f"+5% (95 % interval {low:+.0%} to {high:+.0%}; 0 lies inside).")
    told = heated.set(cut="min-p")
    low, high = difference_interval(36, 40, 27, 40)
    assert wilson_interval(36, 40)[0] < wilson_interval(27, 40)[1]  # these overlap
    assert low > 0
    assert told.endswith(f"With none 68% are right: a difference of +22% (95 % interval "
                         f"{low:+.0%} to {high:+.0%}; 0 lies outside).")  # fmt: skip
    assert heated.set(cut="none") == f"Temperature 1, none: {heated.outcomes['none', 1.0]}"


def test_a_cut_of_ones_own_runs_where_the_librarys_would() -> None:
    scores = mx.array([LOGITS, LOGITS[::-1]])
    asked = []

    def only_the_best(probs: np.ndarray, p: float) -> np.ndarray:
        asked.append((probs.shape, p))
        return (probs == probs.max(axis=1, keepdims=True)).astype(float)

    options = SamplerOptions(top_p=0.75)
    with in_place_of("top_p", only_the_best):
        own = mx.softmax(transforms.apply(scores, options), axis=-1)
    assert np.array(own).tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert asked == [((2, 4), 0.75)]
    assert mx.isfinite(transforms.apply(scores, options)).sum().item() > 2  # and nowhere else


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
