"""Lesson 00b: the picture of the stream shows what a model would say behind each block."""

import lablib
from lablib.course.lessons.lesson_00b.widgets import Stream, plane
from lablib.course.plots.marks import DARK
from lablib.inference.speculation import first_layers

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import charted

IDS = [1, 5, 2]


def test_the_plane_shows_which_column_fits_the_last_word_and_the_mean_best():
    names, table = ["cat", "dog", "says"], np.array([[1, -1], [-1, -1], [0, 1]])
    fits = np.array([[1, -1, 0], [1, 1, 0]])
    fig = plane(names, table, fits, [[0, 2], [1, 2]], [("left", "right"), ("low", "high")])
    assert [each["title"] for each in fig.panels] == ["cat says", "dog says"]
    for marks, side, word in zip(charted(fig), (1, -1), ("cat", "dog"), strict=True):
        ends = {mark["colour"]: mark["line"][1] for mark in marks if "line" in mark}
        assert ends[DARK] == [side * 0.5, 1]  # (0, 1), and half of the sum of both words
        columns = [mark for mark in marks if "shape" in mark]
        assert [mark["dot"] for mark in columns] == [[1, 1], [-1, 1]]  # one is of zeros
        assert [mark["hollow"] for mark in columns] == [word != "cat", word != "dog"]
        assert [mark["text"] for mark in marks if mark.get("bold")] == [f"{word}?"]


@pytest.fixture(scope="module")
def model():
    return lablib.LanguageModel(lablib.llama_config(12, 16, 1, 3), seed=4)


@pytest.fixture
def widget(model):
    return Stream(model, IDS, [f" w{i}" for i in range(12)], {"begun": 1, "whole": 3})


def test_after_the_last_block_it_says_what_the_model_says(model, widget):
    for name, read in (("begun", 1), ("whole", 3)):
        p = np.array(mx.softmax(model(mx.array([IDS]))[0, read - 1]))
        data = widget.compute(name, 3)
        assert data["last"] == data["guesses"][-1] == p.argmax()
        assert data["last_chance"] == pytest.approx(p.max(), abs=1e-5)


def test_after_no_block_it_has_the_tokens_own_vector(model, widget):
    own = model.output(model.model.norm(model.model.embed_tokens(mx.array([IDS]))))[0, 2]
    assert widget.compute("whole", 0)["guesses"] == [int(mx.argmax(own))]


def test_what_is_not_passed_yet_is_not_said(widget):
    way, said = charted(widget.chart(widget.compute("whole", 2)))
    boxes = [mark for mark in way if "bar" in mark]
    assert [box["text"] for box in boxes] == [
        "the token's vector",
        *(f"+ block {n}" for n in (1, 2, 3)),
    ]
    assert boxes[3]["fill"] not in {box["fill"] for box in boxes[:3]}
    assert len([mark for mark in said if "text" in mark]) == 3


def test_a_thin_bar_follows_the_last_guess_where_another_one_is_better(model, widget):
    data = widget.compute("whole", 3)
    (_, said) = charted(widget.chart(data))
    bars = [mark for mark in said if "bar" in mark]
    other = [guess != data["last"] for guess in data["guesses"]]
    assert [mark["bar"][1] for mark in bars if mark["fill"] == DARK] == data["lasts"]
    assert len(bars) == 4 + sum(other)
    thin = data["lasts"]
    for n in range(4):
        p = np.array(mx.softmax(first_layers(model, n)(mx.array([IDS]))[0, 2]))
        assert thin[n] == pytest.approx(p[data["last"]], abs=1e-5)


def test_the_caption_names_the_guess_and_the_last_one(widget):
    assert "after 1 of 3 blocks" in widget.set(after="whole", blocks=1)
    assert "in the end" in widget.set(after="whole", blocks=1)
    assert "in the end" not in widget.set(after="whole", blocks=3)
