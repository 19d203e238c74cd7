"""Lesson 00b: the picture of the stream shows what a model would say behind each block."""

import lablib
from lablib.course.lessons.lesson_00b.widgets import Stream
from lablib.inference.speculation import first_layers

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import charted

IDS = [1, 5, 2]


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
    assert len([mark for mark in said if "bar" in mark]) == 2 * 3


def test_a_thin_bar_follows_the_last_guess_through_all_blocks(model, widget):
    data = widget.compute("whole", 3)
    (_, said) = charted(widget.chart(data))
    thin = [mark["bar"][1] for mark in said if "bar" in mark][1::2]
    assert thin == data["lasts"]
    for n in range(4):
        p = np.array(mx.softmax(first_layers(model, n)(mx.array([IDS]))[0, 2]))
        assert thin[n] == pytest.approx(p[data["last"]], abs=1e-5)


def test_the_caption_names_the_guess_and_the_last_one(widget):
    assert "after 1 of 3 blocks" in widget.set(after="whole", blocks=1)
    assert "in the end" in widget.set(after="whole", blocks=1)
    assert "in the end" not in widget.set(after="whole", blocks=3)
