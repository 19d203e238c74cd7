"""Rows that share a prefix: the same numbers as rows that each hold it, in a fraction of the room.

1e-5 is for float32: the same sums in another order. In half precision the scores are rounded in
both ways, 2^-8 of a number in bfloat16 and 2^-11 in float16; the bound is some of these.
"""

import math

from lablib.cache import kv, shared
from lablib.cache.shared import SharedPrefix, fan_out
from lablib.inference import majority_vote, sample_n
from lablib.models import LanguageModel, gpt_config, hybrid_config, llama_config
from lablib.models.kernels import attention, shared_attention

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import llama
from mlx_lm.models.cache import KVCache
from oracles.refusals import refuses

V = 40
CONFIGS = {
    "rotated": llama_config(V, 32, 2, 2),
    "grouped heads": llama_config(V, 48, 6, 2, n_kv_heads=2),
    "learned positions": gpt_config(V, 32, 2, 2, max_positions=600),
    "retention too": hybrid_config(V, 32, 2, 3),
}
BOUND = {mx.float32: 1e-5, mx.float16: 1e-2, mx.bfloat16: 6e-2}


@pytest.fixture
def always(monkeypatch):
    """Share where it does not pay either: for small tests."""
    monkeypatch.setattr(shared, "_PAYS", 0)


def model_and_prefix(kind, length):
    model = LanguageModel(CONFIGS[kind], seed=0)
    cache = kv.make(model)
    model(mx.array([[(7 * i + 3) % V for i in range(length)]]), cache=cache)
    return model, cache


def normal(*shape, seed, dtype=mx.float32):
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def difference(a, b):
    return mx.max(mx.abs(a.astype(mx.float32) - b.astype(mx.float32))).item()


def layers(cache):
    return [layer for layer in cache if isinstance(layer, SharedPrefix)]


# -- the function ----------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize(
    ("rows", "heads", "kv_heads", "prefix", "own", "length"),
    [(1, 1, 1, 1, 1, 1), (5, 4, 4, 9, 3, 1), (3, 6, 2, 17, 5, 1), (3, 6, 2, 7, 5, 4),
     (2, 4, 1, 1, 6, 6), (64, 3, 3, 300, 2, 1)],
)  # fmt: skip
def test_it_is_attention_over_both_parts(rows, heads, kv_heads, prefix, own, length, dtype):
    q = normal(rows, heads, length, 8, seed=0, dtype=dtype) * 3
    parts = [normal(1, kv_heads, prefix, 8, seed=seed, dtype=dtype) for seed in (1, 2)]
    tails = [normal(rows, kv_heads, own, 8, seed=seed, dtype=dtype) for seed in (3, 4)]
    pairs = zip(parts, tails, strict=True)
    spread = [(mx.broadcast_to(part, (rows, *part.shape[1:])), tail) for part, tail in pairs]
    whole = [mx.concatenate(pair, axis=2) for pair in spread]
    mask = own_mask = None
    if length > 1:
        mask = mx.arange(prefix + own) <= mx.arange(prefix + own - length, prefix + own)[:, None]
        own_mask = mask[:, prefix:]
    expected = attention(q, *whole, 0.3, mask)
    got = shared_attention(q * 0.3, parts, tails, own_mask)
    assert got.dtype == dtype
    assert got.shape == q.shape
    assert difference(got, expected) < BOUND[dtype]


# -- the cache, in a model -------------------------------------------------------------------
@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("prefix", [1, 7, 300])
@pytest.mark.parametrize("rows", [1, 2, 9])
def test_rows_read_what_they_would_with_a_prefix_each(always, kind, prefix, rows):
    model, cache = model_and_prefix(kind, prefix)
    plain, sharing = kv.expand(cache, rows), fan_out(model, cache, rows)
    assert len(layers(sharing)) == model.config.layer_types.count("full_attention") > 0
    alive = list(range(rows))
    steps = (
        [1] * 40 if prefix == 7 else [1, 3, 1]
    )  # beyond the first growth; several tokens at once
    for step, length in enumerate(steps):
        tokens = mx.array([[(11 * step + 5 * row + i) % V for i in range(length)] for row in alive])
        got, expected = model(tokens, cache=sharing), model(tokens, cache=plain)
        assert difference(got, expected) < 1e-5
        assert kv.offset(sharing) == kv.offset(plain) == prefix + sum(steps[: step + 1])
        if step in (1, 4) and len(alive) > 1:  # rows leave from the middle, and change places
            keep = [len(alive) - 1, *range(1, len(alive) - 2)]
            alive = [alive[place] for place in keep]
            for each in (plain, sharing):
                kv.select(each, keep)
    assert kv.rows(sharing) == len(alive)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_keeps_its_type(always, dtype):
    model = LanguageModel(CONFIGS["grouped heads"], seed=0)
    model.set_dtype(dtype)
    cache = kv.make(model)
    model(mx.array([[1, 2, 3, 4]]), cache=cache)
    plain, sharing = kv.expand(cache, 3), fan_out(model, cache, 3)
    tokens = mx.array([[5], [6], [7]])
    got, expected = model(tokens, cache=sharing), model(tokens, cache=plain)
    assert got.dtype == expected.dtype == dtype
    assert {array.dtype for layer in layers(sharing) for array in layer.state[:2]} == {dtype}
    spread = (mx.max(expected) - mx.min(expected)).item()
    assert difference(got, expected) < BOUND[dtype] * spread


def test_rows_may_leave_before_the_first_step(always):
    model, cache = model_and_prefix("rotated", 5)
    sharing = fan_out(model, cache, 4)
    assert kv.rows(sharing) == 4
    kv.select(sharing, [2])
    got = model(mx.array([[9]]), cache=sharing)
    assert difference(got, model(mx.array([[9]]), cache=cache)) < 1e-5


def test_the_prefix_stays_as_it_was_and_serves_again(always):
    model, cache = model_and_prefix("rotated", 5)
    before = [np.array(array) for array in kv._arrays(cache)]
    first = model(mx.array([[1], [2]]), cache=fan_out(model, cache, 2))
    again = model(mx.array([[1], [2]]), cache=fan_out(model, cache, 2))
    assert mx.array_equal(first, again)
    for old, new in zip(before, kv._arrays(cache), strict=True):
        assert np.array_equal(old, np.array(new))


def test_a_copy_is_independent_and_nothing_is_taken_back(always):
    model, cache = model_and_prefix("rotated", 5)
    sharing = fan_out(model, cache, 2)
    model(mx.array([[1], [2]]), cache=sharing)
    twin = kv.copy(sharing)
    one = model(mx.array([[3], [4]]), cache=twin)
    assert (kv.offset(sharing), kv.offset(twin)) == (6, 7)
    assert mx.array_equal(model(mx.array([[3], [4]]), cache=sharing), one)
    assert kv.trimmable(sharing) == kv.trimmable(sharing, 1) == 0
    refuses(ValueError, "cannot trim n=1 tokens: layer 0", kv.trim, sharing, 1)
    refuses(ValueError, "one row to expand, got 2", kv.expand, sharing, 2)


# -- room ------------------------------------------------------------------------------------
def test_a_prompt_of_2048_takes_the_room_of_one():
    model, cache = model_and_prefix("grouped heads", 2048)
    one_row = kv.nbytes(cache)
    per_token = one_row / 2048
    for rows in (16, 64):
        sharing = fan_out(model, cache, rows)
        model(mx.zeros((rows, 1), mx.int32), cache=sharing)
        own = rows * shared._STEP * per_token
        assert kv.nbytes(sharing) <= one_row + own
    plain = kv.expand(cache, 64)
    model(mx.zeros((64, 1), mx.int32), cache=plain)
    assert kv.nbytes(plain) > 10 * kv.nbytes(sharing)


# -- where it is used ------------------------------------------------------------------------
def test_it_is_taken_where_it_pays_and_where_the_model_can():
    model, cache = model_and_prefix("retention too", 300)
    assert len(layers(fan_out(model, cache, 64))) == 1
    assert not layers(fan_out(model, cache, 1))
    few = [len(layers(fan_out(model, cache, n))) for n in (1, 2, 3, 4, 8)]
    assert few == sorted(few)
    assert set(few) == {0, 1}
    recurrent = LanguageModel(hybrid_config(V, 32, 2, 2), seed=0)  # no layer counts its tokens
    cache = kv.make(recurrent)
    recurrent(mx.zeros((1, 300), mx.int32), cache=cache)
    assert not layers(fan_out(recurrent, cache, 64))
    long = kv.make(model, max_kv_size=32)
    model(mx.zeros((1, 40), mx.int32), cache=long)
    assert not layers(fan_out(model, long, 64))  # a window is no KVCache
    shape = llama.ModelArgs(
        model_type="llama", hidden_size=32, num_hidden_layers=1, intermediate_size=32,
        num_attention_heads=2, rms_norm_eps=1e-5, vocab_size=V,
    )  # fmt: skip
    other = llama.Model(shape)
    cache = kv.make(other)
    other(mx.zeros((1, 300), mx.int32), cache=cache)
    assert not layers(fan_out(other, cache, 64))


@pytest.mark.parametrize("kind", CONFIGS)
def test_samples_are_those_of_rows_with_a_prompt_each(kind, monkeypatch):
    model = LanguageModel(CONFIGS[kind], seed=0)
    prompt = [(5 * i + 2) % V for i in range(33)]
    taken, attend = [], SharedPrefix.attend
    monkeypatch.setattr(
        SharedPrefix, "attend", lambda self, *a: taken.append(len(a[0])) or attend(self, *a)
    )
    options = {"max_tokens": 12, "stop_tokens": [1, 3, 8], "seed": 4}
    sharing = sample_n(model, prompt, 40, **options)
    assert taken[0] > taken[-1]  # they were shared, and rows left
    votes = majority_vote(model, prompt, 40, **options)
    parts = sample_n(model, prompt, 40, max_batch=23, **options)
    monkeypatch.setattr(shared, "_PAYS", math.inf)
    taken.clear()
    plain = sample_n(model, prompt, 40, **options)
    assert not taken
    assert sharing.tokens == parts.tokens == plain.tokens
    for a, b in zip(sharing.logprobs, plain.logprobs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert votes == majority_vote(model, prompt, 40, **options)


def test_whoever_stops_asking_leaves_the_prompt_readable(always):
    model, cache = model_and_prefix("rotated", 5)
    sharing = fan_out(model, cache, 3)
    refuses(ValueError, "tokens must have shape", model, mx.zeros((3,), mx.int32), cache=sharing)
    assert kv.offset(sharing) == 5
    assert type(cache[0]) is KVCache
    alone, first = (
        model(mx.array([[2]]), cache=cache),
        model(mx.array([[2]] * 3), cache=sharing)[:1],
    )
    assert difference(alone, first) < 1e-5
