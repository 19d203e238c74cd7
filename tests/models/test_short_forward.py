"""Runs a few tokens through the compiled functions: always the numbers of the plain block.

Equal but for rounding: MLX joins elementwise steps, which may round once where the plain ones round
twice. 1e-5 of the largest logit is some hundred roundings of float32.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import lablib
from lablib.cache import kv, shared
from lablib.models import (
    LanguageModel,
    base,
    gpt_config,
    hybrid_config,
    llama_config,
    short_forward,
)

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import BatchKVCache, KVCache, QuantizedKVCache, RotatingKVCache

pytestmark = pytest.mark.skipif(mx.default_device() == mx.gpu, reason="for a CPU only")

V = 40
SHAPE = {"vocab_size": V, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_positions": 64}
Taken = list[tuple[int, ...]]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    """The shapes of what went through the compiled functions."""
    shapes, after = [], short_forward.after

    def spy(x: mx.array, *others: Any) -> mx.array:
        shapes.append(x.shape)
        return after(x, *others)

    monkeypatch.setattr(short_forward, "after", spy)
    return shapes


def llama(seed: int = 0, **options: Any) -> LanguageModel:
    return LanguageModel(llama_config(**SHAPE | {"n_kv_heads": 2} | options), seed=seed)


def tokens(*shape: int) -> mx.array:
    return mx.array(np.random.default_rng(sum(shape)).integers(0, V, shape))


def both(run: Callable[[], mx.array]) -> Iterator[np.ndarray]:
    """Yield what ``run`` gives by the compiled functions, and by the plain block."""
    yield np.array(run())
    with lablib.by_definition():
        yield np.array(run())


def assert_same(run: Callable[[], mx.array]) -> None:
    quick, plain = both(run)
    np.testing.assert_allclose(quick, plain, atol=1e-5 * np.abs(plain).max(), rtol=0)


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 2), (1, short_forward.MOST), (3, 5), (short_forward.MOST, 1), (2, 1)]
)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_logits_without_a_cache(shape, kv_heads, taken) -> None:
    model = llama(n_kv_heads=kv_heads)
    assert_same(lambda: model(tokens(*shape)))
    assert taken == [(*shape, 32)] * 2


@pytest.mark.parametrize(
    "shape", [(1, short_forward.MOST + 1), (short_forward.MOST + 1, 1), (3, 6)]
)
def test_many_tokens_go_the_plain_way(shape, taken) -> None:
    llama()(tokens(*shape))
    assert not taken


CACHES = {
    "plain": lambda rows: KVCache(),
    "ring": lambda rows: RotatingKVCache(max_size=4),
    "quantised": lambda rows: QuantizedKVCache(group_size=32, bits=8),
    "ragged": lambda rows: BatchKVCache([i % 3 for i in range(rows)]),
}


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", CACHES)
def test_step_by_step_on_every_cache(name, rows, taken) -> None:
    model = llama(d_model=64, n_heads=2)  # heads of 32, as quantised ones must be

    def run() -> mx.array:
        cache = [CACHES[name](rows) for _ in model.layers]
        text = tokens(rows, 12)
        sizes = np.cumsum([0, 3, 1, 1, 4, 1, 2])
        spans = pairwise(sizes.tolist())
        return mx.concatenate([model(text[:, a:b], cache)[:, -1:] for a, b in spans], axis=1)

    assert_same(run)
    assert taken


def test_rows_that_share_a_prefix(monkeypatch, taken) -> None:
    model = llama()

    def run() -> mx.array:
        cache = kv.make(model)
        model(tokens(1, 20), cache)
        monkeypatch.setattr(shared, "_PAYS", 0)
        rows = shared.fan_out(model, cache, 3)
        assert isinstance(rows[0], shared.SharedPrefix)
        return mx.concatenate([model(tokens(3, n), rows)[:, -1:] for n in (1, 2)], axis=1)

    assert_same(run)
    assert taken


def test_a_text_that_takes_tokens_back_and_goes_on(taken) -> None:
    model = llama()

    def run() -> mx.array:
        cache = kv.make(model)
        model(tokens(1, 9), cache)
        kv.trim(cache, 4)
        return model(tokens(1, 2), cache)

    assert_same(run)
    assert taken


def test_weights_that_are_edited_or_replaced_are_seen_in_the_middle_of_a_text(taken) -> None:
    def after(change: Callable[[LanguageModel], None]) -> mx.array:
        model = llama()
        cache = kv.make(model)
        model(tokens(1, 1), cache)
        change(model)
        return model(tokens(1, 1), cache)

    def in_place(model: LanguageModel) -> None:
        for block in model.layers:
            for _, weight in tree_flatten(block.parameters()):
                weight[...] = weight * 0.5

    def replaced(model: LanguageModel) -> None:
        for block in model.layers:
            block.load_weights([(n, w * 0.5) for n, w in tree_flatten(block.parameters())])

    unchanged = after(lambda model: None)
    found = after(in_place)
    assert mx.array_equal(found, after(replaced))
    assert mx.abs(found - unchanged).max() > 1e-3
    with lablib.by_definition():
        np.testing.assert_allclose(np.array(after(in_place)), np.array(found), atol=1e-5)
    assert taken


BIASED = {"one": ["k_proj"], "attention": ["q_proj", "k_proj", "v_proj", "o_proj"]}
BIASED["all"] = [*BIASED["attention"], "gate_proj", "up_proj", "down_proj"]


@pytest.mark.parametrize("which", BIASED)
def test_biases_count_as_soon_as_they_are_there(which, taken) -> None:
    model, text = llama(), tokens(2, 3)
    without = model(text)
    for block in model.layers:
        for name in BIASED[which]:
            layer = getattr(block.self_attn if name in BIASED["attention"] else block.mlp, name)
            layer.bias = mx.random.normal(layer.weight.shape[:1], key=mx.random.key(len(name)))
    assert_same(lambda: model(text))
    assert mx.abs(model(text) - without).max() > 1e-3
    assert len(taken) == 6


def test_models_of_the_same_shapes_keep_their_own_heads_and_norms(taken) -> None:
    for options in ({}, {"n_heads": 2, "n_kv_heads": 1}, {"norm_eps": 0.1}, {"rope_theta": 7.0}):
        model = llama(**options)
        assert_same(lambda model=model: model(tokens(1, 3)))
    model.layers[0].post_attention_layernorm.eps = 1.0
    assert_same(lambda: model(tokens(1, 3)))
    assert len(taken) == 10


def test_gradients_are_those_of_the_plain_block_also_where_a_gate_is_shut(taken) -> None:
    model = llama()
    gate = model.layers[0].mlp.gate_proj
    gate.weight = gate.weight * 1e4  # e^-x overflows on one side of it

    def run() -> mx.array:
        def loss(model: LanguageModel) -> mx.array:
            return nn.losses.cross_entropy(model(tokens(1, 4)), tokens(1, 4)).sum()

        _, found = nn.value_and_grad(model, loss)(model)
        return mx.concatenate([array.flatten() for _, array in tree_flatten(found)])

    quick, plain = both(run)
    assert np.isfinite(quick).all()
    np.testing.assert_allclose(quick, plain, atol=1e-4 * np.abs(plain).max(), rtol=0)
    assert taken


def _quantised(model: LanguageModel) -> None:
    nn.quantize(model.layers[0], group_size=32, bits=8)


def _own_layer(model: LanguageModel) -> None:
    class Louder(nn.Linear):
        def __call__(self, x: mx.array) -> mx.array:
            return 2 * super().__call__(x)

    model.layers[0].mlp.up_proj.__class__ = Louder


def _own_mlp(model: LanguageModel) -> None:
    class Silent(base.MLP):
        def __call__(self, x: mx.array) -> mx.array:
            return mx.zeros_like(x)

    model.layers[0].mlp.__class__ = Silent


@pytest.mark.parametrize("change", [_quantised, _own_layer, _own_mlp])
def test_a_block_with_a_part_of_another_kind_goes_the_plain_way(change, taken) -> None:
    model = llama()
    before = np.array(model(tokens(1, 2)))
    change(model)
    del taken[:]
    assert_same(lambda: model(tokens(1, 2)))
    assert len(taken) == 1  # the other block
    assert np.abs(np.array(model(tokens(1, 2))) - before).max() > 1e-4


def test_other_shapes_of_model_go_the_plain_way(taken) -> None:
    gpt = LanguageModel(gpt_config(V, 32, 4, 2, max_positions=64), seed=0)
    hybrid = LanguageModel(hybrid_config(V, 32, 4, 4, attention_every=2, max_positions=64), seed=0)
    half = llama()
    half.set_dtype(mx.float16)
    gpt(tokens(1, 2))
    half(tokens(1, 2))
    assert not taken
    hybrid(tokens(1, 2))
    assert len(taken) == 2  # its attention


def test_an_iterator_that_fails_or_stops_in_the_middle_leaves_the_cache_as_it_would(taken) -> None:
    model, prompt = llama(), [1, 2, 3]
    whole = list(lablib.TokenIterator(model, prompt, max_tokens=6, temperature=0.0))
    with lablib.TokenIterator(model, prompt, max_tokens=6, temperature=0.0) as first:
        found = [next(first).id for _ in range(2)]
    more = {"cache": first.cache, "max_tokens": 4, "temperature": 0.0}
    again = lablib.TokenIterator(model, found[-1:], **more)
    assert found + [token.id for token in again] == [token.id for token in whole]
    assert taken
