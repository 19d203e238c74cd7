"""A block with stored weights in three operations: the plain block's numbers, a row's own bits."""

from collections.abc import Callable
from typing import Any

import lablib
from lablib.cache import kv
from lablib.definitions import FAST_PATHS
from lablib.machine import stored_weights
from lablib.models import LanguageModel, base, kernels, llama_config, stored, stored_block, zoo

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models.cache import BatchKVCache, KVCache, QuantizedKVCache, RotatingKVCache
from oracles import fresh

pytestmark = pytest.mark.skipif(
    stored_weights.block() is None, reason=str(stored_weights.obstacle())
)
V = 96
SHAPE = {"vocab_size": V, "d_model": 64, "n_heads": 4, "n_layers": 2, "d_ff": 160}


def llama(bits: int = 4, seed: int = 0, **options: Any) -> LanguageModel:
    model = LanguageModel(llama_config(**SHAPE | {"n_kv_heads": 2} | options), seed=seed).eval()
    zoo.quantise(model, bits)
    stored.keep_as_stored(model)
    return model


def tokens(*shape: int) -> mx.array:
    return mx.array(np.random.default_rng(sum(shape)).integers(0, V, shape))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of what went this way."""
    shapes, run = [], stored_block.run

    def spy(block: Any, x: mx.array, *others: Any) -> mx.array:
        shapes.append(x.shape)
        return run(block, x, *others)

    monkeypatch.setattr(stored_block, "run", spy)
    return shapes


def without_it(run: Callable[[], mx.array]) -> np.ndarray:
    """What MLX's small operations give around the same products."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_block, "is_ours", lambda block: False)
        return np.array(run())


def assert_same(run: Callable[[], mx.array], within: float = 3e-4) -> None:
    """A rounding of float32 may move a number's 16 bits by a step, 3e-5 of the largest."""
    plain = without_it(run)
    np.testing.assert_allclose(np.array(run()), plain, atol=within * np.abs(plain).max(), rtol=0)


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 15), (1, 16), (3, 5), (20, 1), (2, 300)])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("bits", [4, 8])
def test_logits_are_the_plain_blocks(shape, kv_heads, bits, taken) -> None:
    model = llama(bits, n_kv_heads=kv_heads)
    assert_same(lambda: model(tokens(*shape)))
    assert taken == [(*shape, 64)] * 2


CACHES = {
    "plain": lambda rows: KVCache(),
    "ring": lambda rows: RotatingKVCache(max_size=4),
    "quantised": lambda rows: QuantizedKVCache(group_size=32, bits=8),
    "ragged": lambda rows: BatchKVCache([i % 3 for i in range(rows)]),
}


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", CACHES)
def test_step_by_step_on_every_cache(name, rows, taken) -> None:
    model = llama(n_heads=2)

    def run() -> mx.array:
        cache = [CACHES[name](rows) for _ in model.layers]
        text, ends = tokens(rows, 12), [3, 4, 5, 9, 10, 12]
        pairs = zip([0, *ends], ends, strict=False)
        return mx.concatenate([model(text[:, a:b], cache)[:, -1:] for a, b in pairs], axis=1)

    assert_same(run, 3e-3 if name == "quantised" else 3e-4)  # a step of 8 bits
    assert taken


def test_a_token_has_its_own_bits_among_fewer_than_16_and_in_any_number_of_rows() -> None:
    model, text = llama(), tokens(1, 40)

    def read(size: int, rows: int = 1) -> mx.array:
        cache, parts = kv.make(model), []
        for at in range(0, 40, size):
            part = mx.broadcast_to(text[:, at : at + size], (rows, min(size, 40 - at)))
            parts.append(model(part, cache=cache))
        return mx.concatenate(parts, axis=1)

    alone = read(1)
    for size in (2, 3, 7, 8, 15):
        assert mx.array_equal(read(size), alone), size
    for rows in (2, 9, 17, 64):
        assert mx.array_equal(read(1, rows), mx.broadcast_to(alone, (rows, 40, V))), rows


THREADED = """
import hashlib, lablib, mlx.core as mx, numpy as np
from lablib.cache import kv
from lablib.models import LanguageModel, llama_config, stored, zoo
model = LanguageModel(llama_config(96, 64, 4, 2, 2, d_ff=160), seed=0).eval()
zoo.quantise(model, 4)
stored.keep_as_stored(model)
text, cache = mx.array(np.random.default_rng(0).integers(0, 96, (3, 60))), kv.make(model)
pieces = [(0, 15), (15, 30), (30, 45), (45, 46), (46, 60)]
found = np.array(mx.concatenate([model(text[:, a:b], cache) for a, b in pieces], axis=1))
print(hashlib.sha256(found.tobytes()).hexdigest())
"""


def test_several_threads_change_no_bit() -> None:
    alone, three = (fresh.run(THREADED, LABLIB_THREADS=threads) for threads in "13")
    assert alone.stdout == three.stdout != "", three.stderr


def test_a_row_has_its_own_bits_before_and_behind_the_cache_among_hundreds() -> None:
    block, ops = llama().layers[0], stored_weights.block()
    x = mx.random.normal((1, 300, 64), key=mx.random.key(1))
    table = kernels.Rotation(0, 300, 16, 1e4).table
    mixer, mlp, norm = block.self_attn, block.mlp, block.input_layernorm.weight
    layers = mixer.q_proj, mixer.k_proj, mixer.v_proj
    whole = ops.before(x, norm, *table, *layers, 1e-5)
    read = whole[0]
    layers_after = mixer.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj
    after = ops.after(x, read, norm, *layers_after, 1e-5)
    for a, b in ((0, 1), (3, 11), (120, 137), (127, 300)):
        part = [each[a:b] for each in table]
        for found, wanted in zip(
            ops.before(x[:, a:b], norm, *part, *layers, 1e-5), whole, strict=True
        ):
            assert mx.array_equal(found, wanted[:, :, a:b])
        found = ops.after(x[:, a:b], read[:, :, a:b], norm, *layers_after, 1e-5)
        assert mx.array_equal(found, after[:, a:b])


# --- attention ----------------------------------------------------------------------------------
def qkv(batch: int, heads: int, kv_heads: int, queries: int, keys: int, width: int = 24) -> list:
    shapes = (heads, queries), (kv_heads, keys), (kv_heads, keys)
    random = enumerate(shapes)
    return [mx.random.normal((batch, *s, width), key=mx.random.key(i)) for i, s in random]


@pytest.mark.parametrize("mask", [None, "causal", "some", "rows"])
@pytest.mark.parametrize(
    "sizes", [(1, 4, 2, 1, 1), (2, 6, 2, 5, 9), (3, 4, 4, 15, 33), (1, 9, 3, 1, 700)]
)
def test_queries_read_what_attentions_do(sizes, mask) -> None:
    q, k, v = qkv(*sizes)
    batch, _, _, queries, keys = sizes
    seen: Any = mask
    if mask in ("some", "rows"):
        shape = (queries, keys) if mask == "some" else (batch, 1, queries, keys)
        seen = mx.random.bernoulli(0.5, shape, key=mx.random.key(9))
        seen = seen | (mx.arange(keys) == 0)
    found = stored_block.attention(q, k, v, 0.3, seen)
    wanted = kernels.attention(q, k, v, 0.3, seen)
    np.testing.assert_allclose(np.array(found), np.array(wanted), atol=5e-6)
    assert not mx.array_equal(found, wanted) or keys == 1  # it is another way
    longer = mx.pad(k, [(0, 0), (0, 0), (0, 7), (0, 0)]), mx.pad(v, [(0, 0)] * 3 + [(8, 0)])
    slices = longer[0][:, :, :keys], longer[1][..., 8:]  # as caches have them
    assert mx.array_equal(stored_block.attention(q, *slices, 0.3, seen), found)


def test_keys_that_are_not_seen_change_no_bit_and_a_query_that_sees_none_reads_zeros() -> None:
    q, k, v = qkv(1, 4, 2, 2, 13)
    padded = [
        mx.pad(each, [(0, 0), (0, 0), (5, 3), (0, 0)], constant_values=mx.nan) for each in (k, v)
    ]
    at = mx.arange(21)
    seen = (at >= 5) & (at < 18)
    found = stored_block.attention(q, *padded, 0.3, mx.broadcast_to(seen, (2, 21)))
    assert mx.array_equal(found, stored_block.attention(q, k, v, 0.3, None))
    nothing = stored_block.attention(q, k, v, 0.3, mx.zeros((2, 13), mx.bool_))
    assert mx.array_equal(nothing, mx.zeros_like(q))


# --- the cache ----------------------------------------------------------------------------------
def test_a_token_is_written_into_its_cache_and_copies_nothing() -> None:
    """A copy of 4,096 places took 25 times as long as the token."""
    model, cache = llama(), [KVCache() for _ in range(2)]
    mx.eval(model(tokens(1, 20), cache=cache))

    def places() -> list[int]:
        arrays = [each for layer in cache for each in (layer.keys, layer.values)]
        return [np.asarray(memoryview(each)).ctypes.data for each in arrays]

    before = places()
    for n in (1, 1, 5):
        mx.eval(model(tokens(1, n), cache=cache))
        assert places() == before


def test_who_else_has_a_caches_arrays_keeps_them_as_they_were() -> None:
    model, text = llama(), tokens(1, 20)
    cache = kv.make(model)
    mx.eval(model(text, cache=cache))
    taken, views = kv.copy(cache), [layer.keys[:, :, :30] for layer in cache]
    before = [np.array(view) for view in views]
    wanted = model(text[:, :3], cache=kv.copy(cache))
    ahead = [model(text[:, n : n + 1], cache=cache) for n in range(5)]  # not waited for
    again = model(text[:, :3], cache=taken)
    mx.eval(ahead, again)
    assert mx.array_equal(again, wanted)
    for view, old in zip(views, before, strict=True):
        np.testing.assert_array_equal(np.array(view), old)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_is_no_number_is_not_hidden(which) -> None:
    parts = qkv(1, 2, 2, 1, 20)
    parts[which][0, 1, 0, 3] = mx.nan
    found = stored_block.attention(*parts, 0.3, None)
    assert not mx.isnan(found[0, 0]).any()
    assert mx.isnan(found[0, 1]).any()


# --- nothing is stale, nothing is passed over ---------------------------------------------------
def test_weights_that_are_edited_or_replaced_are_seen_in_the_middle_of_a_text(taken) -> None:
    model = llama()
    block = model.layers[1]
    parts = block.self_attn, block.mlp
    layers = [layer for part in parts for layer in part.values()]
    edits = [lambda layer=layer: layer.update({"scales": layer.scales * 1.5}) for layer in layers]
    edits += [lambda layer=layer: layer.codes.__setitem__(0, 0) for layer in layers]
    norms = block.input_layernorm, block.post_attention_layernorm
    edits += [lambda norm=norm: norm.update({"weight": norm.weight * 2}) for norm in norms]
    last = np.array(model(tokens(1, 5)))
    for edit in edits:
        edit()
        assert_same(lambda: model(tokens(1, 5)))
        now = np.array(model(tokens(1, 5)))
        assert np.abs(now - last).max() > 1e-4
        last = now
    assert taken


def test_what_does_not_fit_goes_the_plain_way(taken) -> None:
    narrow = llama(n_heads=8, n_kv_heads=8)  # heads of 8
    biased, mixed, training, half = llama(), llama(), llama(), llama()
    for block in biased.layers:
        block.mlp.up_proj.bias = mx.ones(160)
    for block in mixed.layers:
        block.mlp.up_proj = nn.Linear(64, 160)
    training.train()
    half.model.layers[0].input_layernorm.weight = mx.ones(64, mx.float16)
    half.model.layers[1].post_attention_layernorm.weight = mx.ones(64, mx.float16)
    for model in (narrow, biased, mixed, training, half):
        mx.eval(model(tokens(1, 2)))
    with lablib.by_definition():
        mx.eval(llama()(tokens(1, 2)))
    assert not taken


PLACES = [(m, place) for m, own in FAST_PATHS["stored block"].items() for place in own.split()]


@pytest.mark.parametrize(("module", "place"), PLACES)
def test_a_replaced_definition_closes_it(module, place, taken, monkeypatch) -> None:
    model = llama()
    *path, name = place.split(".")
    owner: Any = {each.__name__: each for each in (base, kernels, stored)}[module]
    for each in path:
        owner = getattr(owner, each)
    written = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **how: written(*args, **how))
    mx.eval(model(tokens(1, 3)))
    assert not taken


def test_layers_that_do_not_fit_each_other_are_refused() -> None:
    block, ops = llama().layers[0], stored_weights.block()
    x, norm = mx.zeros((1, 1, 64)), block.input_layernorm.weight
    table = kernels.Rotation(0, 1, 16, 1e4).table
    layers = [block.self_attn.q_proj] * 3
    with pytest.raises(ValueError, match="depth must be a multiple of group"):
        ops.before(x[..., :40], norm[:40], *table, *layers, 1e-5)
    with pytest.raises(ValueError, match="norm must be float32"):
        ops.before(x, norm[:40], *table, *layers, 1e-5)
    with pytest.raises(ValueError, match="the layers of a block must fit each other"):
        ops.after(x, mx.zeros((1, 4, 1, 16)), norm, *layers, block.mlp.up_proj, 1e-5)
    with pytest.raises(ValueError, match="a divisor of q's heads"):
        ops.read(*qkv(1, 4, 3, 1, 5), 1.0, False)
    with pytest.raises(RuntimeError, match="no gradient"):
        mx.grad(lambda x: ops.before(x, norm, *table, *layers, 1e-5)[0].sum())(x)


def test_a_model_of_floats_never_asks_for_the_module(monkeypatch) -> None:
    """Building it takes ten seconds, which nobody without stored weights shall wait."""
    monkeypatch.setattr(stored_weights, "block", lambda: pytest.fail("it was asked for"))
    model = LanguageModel(llama_config(**SHAPE), seed=1)
    mx.eval(model(mx.array([[1, 2, 3]])))
