"""Rewinding a batch: every row stands where its own text ends, and the others do not notice."""

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.cache.rewind_batch import BatchRewinder, can_batch
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import BatchKVCache, CacheList
from oracles.pairs import cache_for, lively
from oracles.refusals import refuses
from oracles.speculation import VOCAB, fresh_logits, make_cache, target

CASES = [
    ("llama", "kv", 0),
    ("gpt", "kv", 0),
    ("llama", "window", 8),
    ("grouped", "window", 13),
    ("shallow", "window", 32),
    ("shallow", "window", 64),
    ("hybrid", "kv", 0),
    ("hybrid", "window", 8),
    ("retention", "kv", 0),
]


def batch(model, kind, window, texts):
    caches = []
    for text in texts:
        cache = cache_for(model, kind, window)
        model(mx.array([text]), cache=cache)
        caches.append(cache)
    return kv.merge(caches)


@pytest.mark.parametrize(("kind", "cache_kind", "window"), CASES)
def test_rewound_rows_give_the_logits_of_fresh_ones(kind, cache_kind, window):
    rng = np.random.default_rng(window + len(kind))
    model = lively(kind, seed=2)
    sizes = (3, 9 + window, 5 + window // 2, 1)  # before, at and past the wrap
    texts = [rng.integers(0, VOCAB, size).tolist() for size in sizes]
    rewinder = BatchRewinder(model, batch(model, cache_kind, window, texts), list(map(len, texts)))
    for step in range(14):
        rewinder.settle()
        drafted = rng.integers(0, VOCAB, (len(texts), rng.integers(2, 8))).tolist()
        if step % 3:  # a block, as the target reads, or token by token, as a draft model does
            rewinder.forward(mx.array(drafted))
        else:
            for column in zip(*drafted, strict=True):
                rewinder.forward(mx.array(column)[:, None])
        rejected = rng.integers(0, len(drafted[0]), len(texts)).tolist()
        rewinder.rewind(rejected)
        for text, new, n in zip(texts, drafted, rejected, strict=True):
            text += new[: len(new) - n]
        if step == 8:
            rewinder.select([2, 0])
            texts = [texts[2], texts[0]]
        rewinder.settle()
        probe = rng.integers(0, VOCAB, len(texts)).tolist()
        got = np.array(rewinder.forward(mx.array(probe)[:, None])[:, -1])
        for text, token in zip(texts, probe, strict=True):
            text.append(token)
        for row, text in enumerate(texts):
            wanted = fresh_logits(model, text, cache_for(model, cache_kind, window))
            assert np.abs(got[row] - wanted).max() < 1e-4, (step, row)


def test_blocks_need_a_replay_only_for_recurrent_layers():
    for kind, cache_kind, replays in (
        ("llama", "kv", 0),
        ("llama", "window", 0),
        ("hybrid", "kv", 1),
    ):
        model = target(kind)
        started = batch(model, cache_kind, 4, [[1, 2, 3, 4, 5, 6], [7, 8]])
        rewinder = BatchRewinder(model, started, [6, 2])
        rewinder.forward(mx.array([[1, 2, 3], [4, 5, 6]]))
        rewinder.rewind([2, 0])
        assert rewinder.calls == 1 + replays


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16])
@pytest.mark.parametrize("block", [3, 40])  # tokens that are read next, in the room and beyond it
def test_rows_move_as_mlx_lm_moves_them(dtype, block):
    def layer():  # keys and values may differ in width
        made = BatchKVCache([2, 0, 1])
        made.update_and_fetch(*(read(9, seed) for seed in (1, 2)))
        return made

    def read(length, seed):
        shape = (3, 2, length, 4 * seed)
        return mx.random.normal(shape, dtype, key=mx.random.key(seed))

    ours, theirs = layer(), layer()
    rewinder = BatchRewinder(None, [ours], [7, 9, 8])
    for back in ([1, 3, 2], [2, 2, 2], [0, 1, 0]):
        rewinder.rewind(back)
        theirs.trim(min(back))
        theirs.prepare(right_padding=[n - min(back) for n in back])
        theirs.finalize()
        for x, y in zip(ours.state[2:], theirs.state[2:], strict=True):
            assert np.array_equal(x, y)
        _, _, _, padding, end = ours.state
        for x, y in zip(ours.keys_and_values(), theirs.keys_and_values(), strict=True):
            assert x.dtype == dtype
            for row, first in enumerate(padding.tolist()):
                assert np.array_equal(x[row, :, first:end], y[row, :, first:end])
    for x, y in zip(
        *(each.update_and_fetch(read(block, 1), read(block, 2)) for each in (ours, theirs)),
        strict=True,
    ):
        for row, first in enumerate(padding.tolist()):
            assert np.array_equal(x[row, :, first:], y[row, :, first:])


def test_padding_that_all_rows_share_is_given_up():
    model = target()
    rewinder = BatchRewinder(model, batch(model, "kv", 0, [[1, 2], [3, 4]]), [2, 2])
    for step in range(64):
        rewinder.settle()
        rewinder.forward(mx.array([[1, 2], [1, 2]]))
        rewinder.rewind([step % 2, 1 - step % 2])
    assert min(rewinder.cache[0].left_padding.tolist()) == 0
    assert kv.offset(rewinder.cache) == [2 + 96, 2 + 96]


@pytest.mark.parametrize("kind", ["llama", "hybrid"])
def test_rows_that_part_keep_a_token_each_where_they_read_again(kind):
    model, texts = target(kind), [[1, 2], [3, 4]]
    rewinder = BatchRewinder(model, batch(model, "kv", 0, texts), [2, 2])
    rewinder.forward(mx.array([[5, 6], [7, 8]]))
    if kind == "hybrid":
        refuses(BadValue, "at most 1 tokens, got n=2", rewinder.rewind, [0, 2])
        assert rewinder.positions == [4, 4]
        rewinder.rewind([0, 1])
    else:
        rewinder.rewind([0, 2])
    got = np.array(rewinder.forward(mx.array([[9], [9]]))[:, -1])
    texts = [[1, 2, 5, 6, 9], [3, 4, 7, 9] if kind == "hybrid" else [3, 4, 9]]
    assert rewinder.positions == list(map(len, texts))
    for row, text in enumerate(texts):
        wanted = fresh_logits(model, text, make_cache(model))
        assert np.abs(got[row] - wanted).max() < 1e-4


@pytest.mark.parametrize(("kind", "cache_kind"), [("hybrid", "kv"), ("llama", "window")])
@pytest.mark.parametrize("rows", [1, 3])
def test_rows_that_lose_all_that_was_read_are_put_back_without_a_forward(kind, cache_kind, rows):
    model, texts = lively(kind, seed=3), [list(range(n, n + 9 - n)) for n in range(rows)]
    rewinder = BatchRewinder(model, batch(model, cache_kind, 4, texts), list(map(len, texts)))
    for _ in range(2):
        rewinder.forward(mx.array([[5]] * rows))
        rewinder.forward(mx.array([[6, 7]] * rows))
        rewinder.rewind([3] * rows)
    assert rewinder.calls == 4
    got = np.array(rewinder.forward(mx.array([[9]] * rows))[:, -1])
    for row, text in enumerate(texts):
        wanted = fresh_logits(model, [*text, 9], cache_for(model, cache_kind, 4))
        assert np.abs(got[row] - wanted).max() < 1e-4


@pytest.mark.parametrize(("kind", "cache_kind", "window"), CASES)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("lengths", [None, True], ids=["one text", "a batch"])
def test_rewinds_with_reads_in_between_and_none_settled(kind, cache_kind, window, rows, lengths):
    model, rng = lively(kind, seed=4), np.random.default_rng(5)
    rows = rows if lengths else 1
    texts = [rng.integers(0, VOCAB, 11 + 3 * row).tolist() for row in range(rows)]
    if lengths:
        cache = batch(model, cache_kind, window, texts)
        rewinder = BatchRewinder(model, cache, list(map(len, texts)))
    else:
        cache = cache_for(model, cache_kind, window)
        model(mx.array(texts), cache=cache)
        rewinder = Rewinder(model, cache)
    for n_read, n_back in ((4, 2), (1, 0), (1, 1), (3, 4), (2, 1)):
        tokens = rng.integers(0, VOCAB, (rows, n_read)).tolist()
        rewinder.forward(mx.array(tokens))
        rewinder.rewind(n_back if lengths is None else [n_back] * rows)
        for text, new in zip(texts, tokens, strict=True):
            text += new
            del text[len(text) - n_back :]
    last = rng.integers(0, VOCAB, (rows, 3)).tolist()
    rewinder.forward(mx.array(last))
    if lengths:  # of one text nothing
        rewinder.rewind(list(range(rows)))
    got = np.array(rewinder.forward(mx.array([[1]] * rows))[:, -1])
    for row, (text, new) in enumerate(zip(texts, last, strict=True)):
        text += [*new[: 3 - row], 1]
        wanted = fresh_logits(model, text, cache_for(model, cache_kind, window))
        assert np.abs(got[row] - wanted).max() < 1e-4


@pytest.mark.parametrize(("kind", "cache_kind"), [("hybrid", "window"), ("llama", "kv")])
def test_a_model_that_raises_leaves_a_batch_as_it_was(kind, cache_kind):
    model, texts = lively(kind, seed=3), [[1, 2, 3, 4, 5, 6], [7, 8]]

    def broken(tokens, cache):
        last = kv.copy(cache[-1:])
        model(tokens, cache=cache)
        kv.put_back(cache[-1:], last)  # as if the layer before it had raised
        raise RuntimeError("in the middle")

    rewinder = BatchRewinder(model, batch(model, cache_kind, 4, texts), [6, 2])
    rewinder.model = broken
    refuses(RuntimeError, "in the middle", rewinder.forward, mx.array([[5, 6], [7, 8]]))
    assert rewinder.positions == [6, 2]
    rewinder.model = model
    got = np.array(rewinder.forward(mx.array([[9], [9]]))[:, -1])
    for row, text in enumerate(texts):
        wanted = fresh_logits(model, [*text, 9], cache_for(model, cache_kind, 4))
        assert np.abs(got[row] - wanted).max() < 1e-4


def test_what_can_share_a_batch():
    llama, hybrid = target(), target("hybrid")
    assert can_batch(llama, make_cache(llama))
    assert can_batch(llama, make_cache(llama, "window"))
    assert can_batch(hybrid, make_cache(hybrid))
    assert not can_batch(llama, make_cache(llama, "quantized"))
    assert not can_batch(llama, make_cache(llama, "sinks"))


def test_several_caches_in_a_layer_are_not_stepped_back_in_a_batch():
    model = target()
    assert not can_batch(model, [CacheList(layer) for layer in make_cache(model, "window")])


def careless(model, offset_of_all):
    """A model that takes all rows to be as long as one of them."""

    def call(tokens, cache):
        for layer in cache:
            if isinstance(layer.offset, mx.array):
                layer.offset = mx.zeros_like(layer.offset) + offset_of_all(layer.offset)
        return model(tokens, cache=cache)

    return call


@pytest.mark.parametrize("kind", ["llama", "gpt"])
@pytest.mark.parametrize("offset_of_all", [mx.max, mx.min, lambda offset: offset.item()])
def test_a_model_that_cannot_read_rows_of_different_length_is_found_out(kind, offset_of_all):
    model = target(kind)
    assert can_batch(model, make_cache(model))
    assert not can_batch(careless(model, offset_of_all), make_cache(model))


def test_a_model_is_tried_out_once():
    model, calls = target(), []

    def watched(tokens, cache):
        calls.append(tokens.shape)
        return model(tokens, cache=cache)

    assert can_batch(watched, make_cache(model))
    tried = len(calls)
    assert tried
    assert can_batch(watched, make_cache(model))
    assert len(calls) == tried
    assert can_batch(watched, make_cache(model, "window"))
    assert len(calls) == 2 * tried  # with other caches it is another question
    refused = careless(watched, mx.max)
    assert not can_batch(refused, make_cache(model))
    tried = len(calls)
    assert not can_batch(refused, make_cache(model))
    assert len(calls) == tried


def test_a_recurrent_model_that_reads_padding_is_found_out():
    """Mamba 1 takes no notice of ``lengths``; mamba 2 does."""
    from mlx_lm.models import mamba, mamba2

    old = mamba.Model(
        mamba.ModelArgs(
            model_type="mamba", vocab_size=16, hidden_size=16, intermediate_size=32, state_size=4,
            num_hidden_layers=1, conv_kernel=4, use_bias=False, use_conv_bias=True,
            time_step_rank=4,
        )
    )  # fmt: skip
    assert not can_batch(old, kv.make(old))
    new = mamba2.Model(
        mamba2.ModelArgs(
            model_type="mamba2", vocab_size=16, hidden_size=16, intermediate_size=32, state_size=4,
            num_hidden_layers=1, conv_kernel=4, use_bias=False, use_conv_bias=True, n_groups=1,
            num_heads=4, head_dim=8, layer_norm_epsilon=1e-5, time_step_limit=(0.001, 10.0),
            time_step_rank="auto", tie_word_embeddings=True,
        )
    )  # fmt: skip
    assert can_batch(new, kv.make(new))
