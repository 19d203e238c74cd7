"""The widgets of lesson 02 compute what they say."""

import lablib
from lablib.cache import kv
from lablib.course.lessons.lesson_02.widgets import (
    COMPUTED,
    KEPT,
    Attending,
    CacheMemory,
    Shape,
    attention_weights,
    forward_cost,
    token_times,
)

import mlx.core as mx
import numpy as np
import pytest
from oracles.drawn import charted, curves, read

SHAPES = {"small": Shape(2, 4, 1, 8, 1000), "even": Shape(3, 2, 2, 4, 5e6)}


@pytest.fixture(scope="module")
def tiny() -> lablib.LanguageModel:
    config = lablib.llama_config(16, d_model=16, n_heads=4, n_layers=2, n_kv_heads=2)
    return lablib.LanguageModel(config, seed=3)


def test_weights_are_those_that_mix_the_values(tiny: lablib.LanguageModel) -> None:
    """A value that nobody else has tells who took how much of it."""
    tokens, layer = [3, 1, 4, 1, 5], tiny.layers[0].self_attn
    found, taken = attention_weights(tiny, tokens), []
    cache = kv.make(tiny)
    tiny(mx.array([tokens]), cache=cache)
    for place in range(len(tokens)):
        values = mx.zeros_like(cache[0].keys[:, :, : len(tokens)])
        values[:, :, place] = 1
        q = layer.q_proj(
            tiny.layers[0].input_layernorm(tiny.model.embed_tokens(mx.array([tokens])))
        )
        q = q.reshape(1, len(tokens), 4, -1).swapaxes(1, 2)
        q = mx.fast.rope(q, 4, traditional=False, base=tiny.config.rope_theta, scale=1, offset=0)
        keys = cache[0].keys[:, :, : len(tokens)]
        mixed = mx.fast.scaled_dot_product_attention(
            q, keys, values, scale=layer.scale, mask="causal"
        )
        taken.append(np.array(mixed[0, :, :, 0]).mean(axis=0))
    assert found.shape == (2, 5, 5)
    assert np.allclose(found[0], np.array(taken).T, atol=1e-5)
    assert "read" not in vars(layer)  # the model is as it was


def test_a_new_token_changes_no_row_of_the_others(tiny: lablib.LanguageModel) -> None:
    five, three = attention_weights(tiny, [3, 1, 4, 1, 5]), attention_weights(tiny, [3, 1, 4])
    assert np.allclose(five[:, :3, :3], three, atol=1e-6)
    assert not five[:, np.triu_indices(5, 1)[0], np.triu_indices(5, 1)[1]].any()


def test_with_a_cache_one_row_is_computed_and_the_keys_are_kept() -> None:
    weights = np.array([np.tri(3) / [[1], [2], [3]]] * 2)
    widget = Attending(["On", " a", " day"], weights)
    assert "2 keys and values are kept" in widget.view.caption  # it begins with the idea
    assert "3 queries, keys and values, all of them anew" in widget.set(way="recompute")
    (before,) = read(widget.draw(widget.compute(3, 1, "recompute")))
    assert sum(mark.get("fill") == widget.NOW for mark in before) == 6
    assert "2 keys and values are kept" in widget.set(way="keep")
    (after,) = read(widget.draw(widget.compute(3, 1, "keep")))
    assert [mark["text"] for mark in after if mark.get("fill") == widget.NOW] == ["k v", "q"]
    assert sum(mark.get("fill") == widget.KEPT for mark in after) == 2
    shares = ["100", "50", "50", "33", "33", "33"]  # the older rows', and the new one's
    for marks in (before, after):
        assert [mark["text"] for mark in marks if mark.get("text", "").isdigit()] == shares
    took = [mark.get("note", "") for mark in after if mark.get("fill") in widget.BEFORE]
    assert took == ["'On' took 100% from 'On'", "'a' took 50% from 'On'", "'a' took 50% from 'a'"]
    assert sum(mark.get("fill") == widget.FUTURE for mark in after) == 3
    assert "'a' arrives" in widget.set(tokens=2)


def test_token_times_draw_what_is_kept_and_what_is_computed_in_their_colours() -> None:
    chart = token_times([3.0, 1.0, 1.0], [3.0, 4.0, 5.0])
    assert curves(charted(chart)[0]) == {"with a cache": [3, 1, 1], "without": [3, 4, 5]}
    assert [mark["colour"] for mark in chart.marks[0]] == [KEPT, COMPUTED]


def test_cache_memory_is_the_formula() -> None:
    widget = CacheMemory(SHAPES)
    plain = widget.compute(thousands=3, bits=16)["models"]["small"]
    assert plain["layer"] == pytest.approx([2 * 1 * 8 * 2 / 2**10, 2 * 4 * 8 * 2 / 2**10])
    assert plain["mib"][0] == pytest.approx(2 * 2 * 1 * 8 * 3000 * 2 / 2**20)
    assert plain["mib"][1] == pytest.approx(4 * plain["mib"][0])
    rounded = widget.compute(thousands=3, bits=4)["models"]["small"]["mib"]
    assert rounded[0] == pytest.approx(plain["mib"][0] * (4 + 0.5) / 16)
    many = widget.compute(thousands=3, bits=16, texts=5)["models"]["small"]
    assert many["layer"] == plain["layer"]  # of one token
    assert many["mib"][0] == pytest.approx(5 * plain["mib"][0])
    even = widget.compute(thousands=1, bits=8)["models"]["even"]["mib"]
    assert even[0] == even[1]
    assert "3,000 tokens in each of 2 texts at 4 bits" in widget.set(thousands=3, bits=4, texts=2)


def test_cache_memory_is_drawn_as_a_block_for_a_token_and_a_share_for_all() -> None:
    widget = CacheMemory(SHAPES)
    corners = []
    for values in ({}, {"thousands": 128, "texts": 32}, {"bits": 4}):
        settings = {**widget.values, **values}
        data = widget.compute(**settings)
        left, right = read(widget.draw(data))
        blocks, bars = ([mark["bar"] for mark in marks if "bar" in mark] for marks in (left, right))
        corners.append([block[0] for block in blocks])
        for row, (name, shape) in enumerate(SHAPES.items()):
            now = data["models"][name]
            full, kept = blocks[2 * row : 2 * row + 2]  # the outline, and what lies in it
            tokens = 1000 * settings["thousands"] * settings["texts"]
            for (x0, x1, y0, y1), mib in zip((kept, full), now["mib"], strict=True):
                assert y1 - y0 == shape.layers
                assert (x1 - x0) * (y1 - y0) * tokens / 2**10 == pytest.approx(mib)
            cache, rest = bars[2 * row : 2 * row + 2]
            assert (cache[0], cache[1], rest[1]) == (0, rest[0], 1)
            assert cache[1] / (1 - cache[1]) == pytest.approx(now["mib"][0] / now["weights"])
    assert corners[0] == corners[1] == corners[2]  # blocks stay in their places
    assert f"{now['mib'][0] / now['weights']:.1%} in even" in widget.caption(data)
    assert "cache / weights is ×72.0 in small" in widget.caption(data)


def test_a_shape_is_read_off_a_model() -> None:
    config = lablib.llama_config(16, d_model=8, n_heads=2, n_layers=3, n_kv_heads=1)
    model = lablib.LanguageModel(config, seed=0)
    shape = Shape.of(model)
    assert (shape.layers, shape.heads, shape.kv_heads, shape.head_dim) == (3, 2, 1, 4)
    assert shape.weights > 16 * 8 + 3 * 8 * 8


def test_forward_cost_draws_the_line_of_theory() -> None:
    fig = forward_cost([1, 2, 4], [0.9, 1, 1.2], [1.0, 1.1, 1.4], [1.1, 1.2, 1.6])
    measured, theory = curves(charted(fig)[0]).values()
    assert theory == [1.0, 2.0, 4.0]
    assert measured == [1.0, 1.1, 1.4]
