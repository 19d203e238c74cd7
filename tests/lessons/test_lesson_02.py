"""The widgets of lesson 02 compute what they say."""

import lablib
from lablib.course.lessons.lesson_02.widgets import CacheCost, CacheMemory, Shape, forward_cost

import numpy as np
import pytest
from oracles.drawn import charted, curves, read

SHAPES = {"small": Shape(2, 4, 1, 512, 1e6), "even": Shape(3, 2, 2, 256, 5e6)}


@pytest.mark.parametrize(("prompt", "new"), [(1, 2), (7, 5), (256, 256)])
def test_cache_cost_counts_every_forward(prompt: int, new: int) -> None:
    data = CacheCost().compute(prompt=prompt, new=new)
    assert data["without a cache"][-1] == sum(prompt + i for i in range(new))
    assert data["with a cache"][-1] == prompt + new - 1
    assert len(data["written"]) == new


def test_cache_cost_is_what_the_engine_does() -> None:
    model = lablib.LanguageModel(lablib.llama_config(16, d_model=8, n_heads=2, n_layers=1), seed=0)
    iterator = lablib.TokenIterator(model, [1, 2, 3], max_tokens=5, temperature=0.0)
    assert len(list(iterator)) == 5
    assert iterator.stats["token_forwards"] == CacheCost().compute(3, 5)["with a cache"][-1]


def test_cache_cost_moves_and_speaks() -> None:
    widget = CacheCost()
    assert "4,064 tokens without" in widget.picture.caption
    assert "95 with one" in widget.picture.caption
    assert "times fewer" in widget.set(new=128)
    assert read(widget.draw(widget.compute(4, 8)))


def test_cache_memory_is_the_formula() -> None:
    widget = CacheMemory(SHAPES)
    plain = widget.compute(thousands=3, model="small", bits=16)["mib"]
    assert plain["grouped"] == pytest.approx(2 * 2 * 1 * 512 * 3000 * 2 / 2**20)
    assert plain["ungrouped"] == pytest.approx(4 * plain["grouped"])
    rounded = widget.compute(thousands=3, model="small", bits=4)["mib"]
    assert rounded["grouped"] == pytest.approx(plain["grouped"] * (4 + 0.5) / 16)
    even = widget.compute(thousands=1, model="even", bits=8)["mib"]
    assert even["grouped"] == even["ungrouped"]
    assert "3,000 tokens at 4 bits" in widget.set(thousands=3, bits=4)


def test_cache_memory_is_drawn_over_the_length_on_one_axis_with_the_weights() -> None:
    widget = CacheMemory(SHAPES)
    for name, caches in (("even", ["grouped"]), ("small", ["grouped", "ungrouped"])):
        drawn = []
        for thousands in (1, 128):
            data = widget.compute(thousands, name, 16)
            (marks,) = read(widget.draw(data))
            drawn.append(np.array([*curves(marks).values()]))
            points = [mark["dot"] for mark in marks if "dot" in mark]
            assert points == [[thousands, data["mib"][each]] for each in caches]
            assert [mark["rule"]["y"] for mark in marks if "rule" in mark] == [data["weights"]]
            assert widget.constants["panels"][0]["y"]["ends"] == [*CacheMemory.RANGE]
        assert np.allclose(*drawn)  # only the points move
    assert "The weights take 9.5 MiB" in widget.caption(widget.compute(1, "even", 4))


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
