"""``logprobs`` says of a text that is there what decoding said of one that was drawn."""

import lablib
from lablib.machine import backend

import mlx.core as mx
import numpy as np
import pytest
from oracles import architectures, models
from oracles.large import log_probabilities
from oracles.scripted import Recorder


@pytest.mark.parametrize(("size", "length"), [(5, 300), (512, 129), (262_144, 130)])
def test_each_token_is_judged_after_all_before_it(size, length):
    rng = np.random.default_rng(size)  # float32 counts the recorder's ids up to 2^24
    model = Recorder(rng.normal(scale=3, size=(3 if size < 1000 else 1, size)))
    ids = rng.integers(0, size, length).tolist()
    each = [log_probabilities(row) for row in model.table.astype(np.float32)]
    sums = np.cumsum((np.array(ids) + 1) * np.arange(1, length + 1)) % len(each)
    right = np.array([each[row][token] for row, token in zip(sums, ids[1:], strict=False)])
    found = lablib.logprobs(model, ids)
    assert found.dtype == np.float32
    assert (np.abs(found - right) <= 2e-6 + 2**-23 * np.abs(right)).all()
    assert max(len(call[0]) for call in model.calls) <= 128


@pytest.mark.parametrize("name", ["target", "gemma3_text"])
def test_a_drawn_text_is_as_likely_as_decoding_said(name):
    model = lablib.load(name)[0] if name == "target" else architectures.build(name)
    prompt = [5, 9, 11]
    drawn = lablib.sample_n(model, prompt, 2, seed=1, max_tokens=40, stop_tokens=())
    for tokens, own in zip(drawn.tokens, drawn.logprobs, strict=True):
        again = lablib.logprobs(model, [*prompt, *tokens])[len(prompt) - 1 :]
        assert again == pytest.approx(own, abs=1e-3)


def test_it_is_the_model_spelled_out():
    config = lablib.llama_config(32, 16, 2, 2)
    mx.random.seed(3)
    model, ids = lablib.LanguageModel(config), [*range(1, 30), 1, 1]
    rows = [log_probabilities(row) for row in models.logits(model, ids)]
    right = [rows[at][token] for at, token in enumerate(ids[1:])]
    assert lablib.logprobs(model, ids) == pytest.approx(right, abs=1e-4)


@pytest.mark.skipif(backend.blas().few_rows is None, reason="bits are promised with few_rows.c")
def test_pieces_change_no_bit_where_bits_are_promised(monkeypatch):
    model, _ = lablib.load("target")
    ids = np.random.default_rng(0).integers(0, 500, 300).tolist()
    with lablib.same_bits():
        found = lablib.logprobs(model, ids)
        monkeypatch.setattr("lablib.inference.likelihood._PIECE", 17)
        assert np.array_equal(found, lablib.logprobs(model, ids))


def test_a_text_is_its_ids_and_one_token_has_nothing_before_it():
    model, tokenizer = lablib.load("draft")
    text = "Mia finds a dog."
    ids = tokenizer.encode(text)
    read = lablib.logprobs(model, text, tokenizer=tokenizer)
    assert np.array_equal(read, lablib.logprobs(model, mx.array([ids])))
    assert lablib.logprobs(model, [1]).shape == (0,)


def test_a_nan_is_named_by_its_token():
    table = np.zeros((1, 4))
    model = Recorder(table)

    def breaks(call):
        if call == 2:
            model.rows = model.rows * np.nan

    model.hook = breaks
    with pytest.raises(ValueError, match="before token 129 must have no NaN"):
        lablib.logprobs(model, [1] * 300)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ([], "at least one token"), ("a", "give tokenizer="), ([[1], [2]], "prompt must be one"),
        ([1, 99], "99"), ([1.5], "1.5"), ([1] * 2000, "context of 1024"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_before_any_work(prompt, said):
    model = Recorder(np.zeros((1, 8)), max_positions=1024)
    with pytest.raises((ValueError, TypeError), match=said):
        lablib.logprobs(model, prompt)
    assert model.calls == []
