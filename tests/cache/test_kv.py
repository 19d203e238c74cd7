"""The cache vocabulary against fresh forwards, on every kind of mlx-lm cache."""

import itertools

from lablib.cache import kv
from lablib.models import LanguageModel, hybrid_config, llama_config

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import (
    ArraysCache,
    BatchKVCache,
    BatchRotatingKVCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    trim_prompt_cache,
)
from oracles.refusals import refuses

VOCAB, WINDOW = 31, 6
LLAMA = LanguageModel(llama_config(VOCAB, 64, 2, 2), seed=0)
HYBRID = LanguageModel(hybrid_config(VOCAB, 32, 2, 3), seed=0)
# The tolerances: float32 rounding at another chunking; a quantised cache rounds twice.
KINDS = {
    "plain": (LLAMA, lambda: kv.make(LLAMA), 1e-4),
    "window": (LLAMA, lambda: kv.make(LLAMA, WINDOW), 1e-4),
    "quantized": (LLAMA, lambda: kv.make(LLAMA, bits=8, group_size=32), 2e-2),
    "recurrent": (HYBRID, lambda: kv.make(HYBRID), 1e-4),
}


def fresh_logits(kind, histories):
    """The logits (B, V) after each history, every one read alone and from the start."""
    model, empty, _ = KINDS[kind]
    return np.stack([np.array(model(mx.array([row]), cache=empty())[0, -1]) for row in histories])


def agree(kind, cache, histories, probe=5):
    """Whether the cache has read exactly ``histories``: one more token gives fresh logits."""
    model, _, tolerance = KINDS[kind]
    logits = model(mx.array([[probe]] * len(histories)), cache=kv.copy(cache))[:, -1]
    fresh = fresh_logits(kind, [[*row, probe] for row in histories])
    assert np.abs(np.array(logits) - fresh).max() < tolerance


@settings(max_examples=12, derandomize=True)
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_any_sequence_of_operations_equals_fresh_forwards(kind, data):
    model, empty, _ = KINDS[kind]
    cache, histories = empty(), [[]]
    for _ in range(data.draw(st.integers(2, 6), label="operations")):
        room = kv.trimmable(cache)
        choices = ["read", "copy"] + ["select", "trim"] * bool(histories[0])
        choices += ["expand"] * (len(histories) == 1 and bool(histories[0]))
        match data.draw(st.sampled_from(choices)):
            case "read":
                length = data.draw(st.integers(1, 5))
                ids = st.lists(st.integers(0, VOCAB - 1), min_size=length, max_size=length)
                tokens = [data.draw(ids) for _ in histories]
                model(mx.array(tokens), cache=cache)
                histories = [row + new for row, new in zip(histories, tokens, strict=True)]
            case "copy":
                original, cache = cache, kv.copy(cache)
                model(mx.array([[1, 2]] * len(histories)), cache=original)
            case "expand":
                n = data.draw(st.integers(1, 3))
                source, cache = cache, kv.expand(cache, n)
                model(mx.array([[3]]), cache=source)
                histories = histories * n
            case "select":
                every = st.integers(0, len(histories) - 1)
                rows = data.draw(st.lists(every, min_size=1, max_size=3))
                kv.select(cache, rows)
                histories = [histories[row] for row in rows]
            case "trim" if room:
                n = data.draw(st.integers(1, room))
                kv.trim(cache, n)
                histories = [row[: len(row) - n] for row in histories]
            case "trim":
                refuses(ValueError, "cannot trim n=1", kv.trim, cache, 1)
        assert kv.offset(cache) == len(histories[0])
        if histories[0]:
            assert kv.rows(cache) == len(histories)
            agree(kind, cache, histories)


def filled(make, length=5, heads=2, width=32):
    """A synthetic layer of ``length`` tokens whose entries are all different."""
    layer = make()
    entries = mx.arange(heads * length * width, dtype=mx.float32)
    entries = entries.reshape(1, heads, length, width) / 1000
    if isinstance(layer, ArraysCache):
        layer[0] = entries
    elif isinstance(layer, CacheList):
        return CacheList(*(filled(lambda c=child: c, length) for child in layer.caches))
    else:
        layer.update_and_fetch(entries, entries + 1)
    return layer


LAYERS = {
    "KVCache": KVCache,
    "RotatingKVCache": lambda: RotatingKVCache(8),
    "QuantizedKVCache": lambda: QuantizedKVCache(32, 8),
    "ConcatenateKVCache": ConcatenateKVCache,
    "ChunkedKVCache": lambda: ChunkedKVCache(8),
    "BatchKVCache": lambda: BatchKVCache([0]),
    "BatchRotatingKVCache": lambda: BatchRotatingKVCache(8, [0]),
    "ArraysCache": lambda: ArraysCache(2),
    "CacheList": lambda: CacheList(KVCache(), ArraysCache(1)),
}
CUTTABLE = [name for name in LAYERS if name not in ("ArraysCache", "CacheList")]


def held(layer):
    """What a layer remembers, as float arrays (rows first)."""
    if isinstance(layer, CacheList):
        return [array for child in layer.caches for array in held(child)]
    if isinstance(layer, ArraysCache):
        return [np.array(array) for array in layer.cache if array is not None]
    keys, values = layer.keys_and_values()
    if isinstance(layer, QuantizedKVCache):
        keys, values = (mx.dequantize(*part, group_size=32, bits=8) for part in (keys, values))
    return [np.array(keys), np.array(values)]


@pytest.mark.parametrize("name", LAYERS)
def test_rows_of_every_cache_class(name):
    layer = filled(LAYERS[name])
    before = held(layer)
    twin = kv.copy([layer])
    three = kv.expand([layer], 3)
    assert kv.rows(three) == 3
    assert kv.rows([layer]) == kv.rows(twin) == 1
    for array, repeated in zip(before, held(three[0]), strict=True):
        np.testing.assert_array_equal(np.concatenate([array] * 3), repeated)
    kv.select(three, [2, 0])
    for array, repeated in zip(before, held(three[0]), strict=True):
        np.testing.assert_array_equal(np.concatenate([array] * 2), repeated)
    if name in CUTTABLE:
        new = mx.ones((2, 2, 1, 32)) * mx.array([7.0, 8.0])[:, None, None, None]
        three[0].update_and_fetch(new, new)
        kv.select(three, [1, 0, 1])
        written = held(three[0])[0][:, 0, 5, 0]
        np.testing.assert_allclose(written, [8, 7, 8], rtol=1e-2)
        kv.trim(twin, 2)
        np.testing.assert_array_equal(held(twin[0])[0], before[0][:, :, :3])
        assert kv.offset(twin) in (3, [3])
    for array, unchanged in zip(before, held(layer), strict=True):
        np.testing.assert_array_equal(array, unchanged)


@pytest.mark.parametrize("name", LAYERS)
def test_an_empty_cache_of_every_class(name):
    cache = [LAYERS[name]()]
    # A batch cache knows its rows before it has read anything.
    assert kv.rows(cache) == (1 if name.startswith("Batch") else None)
    assert kv.trimmable(cache) == 0
    assert kv.nbytes(cache) <= 16
    assert kv.offset(kv.expand(kv.copy(cache), 2)) in (0, None, [0, 0])
    kv.trim(cache, 0)
    refuses(ValueError, r"cannot trim n=1 tokens: the cache is empty", kv.trim, cache, 1)


@pytest.mark.parametrize("name", CUTTABLE)
def test_trimmable_foretells_what_trim_accepts(name):
    for before, after in itertools.product((2, 5, 12), (1, 3, 6, 7, 12)):
        layer = filled(LAYERS[name], before)
        promised = kv.trimmable([layer], after=after)
        for _ in range(after):
            if isinstance(layer, ChunkedKVCache):
                layer.maybe_trim_front()  # llama4 calls it before every read
            new = mx.ones((1, 2, 1, 32))
            layer.update_and_fetch(new, new)
        assert kv.trimmable([layer]) == promised
        if promised:
            kv.trim([layer], promised)
            assert kv.trimmable([layer]) == 0


def test_trim_takes_all_layers_or_none():
    model = HYBRID
    cache = kv.make(model)
    model(mx.array([[1, 2, 3]]), cache=cache)
    assert trim_prompt_cache(cache, 1) == 0  # why lablib has its own: this is silent
    refuses(ValueError, "a recurrent layer cannot be trimmed", kv.trim, cache, 1)
    agree("recurrent", cache, [[1, 2, 3]])

    mixed = [filled(KVCache), filled(lambda: CacheList(KVCache(), ArraysCache(1)))]
    refuses(ValueError, r"cannot trim n=2 .*layer 2, ArraysCache", kv.trim, mixed, 2)
    short = [filled(KVCache, 5), filled(KVCache, 3)]
    refuses(ValueError, r"n=4 .*layer 1 \(KVCache\) can give back 3", kv.trim, short, 4)
    assert [layer.offset for layer in (mixed[0], mixed[1].caches[0], *short)] == [5, 5, 5, 3]


def test_a_full_window_is_refused_and_an_unused_layer_is_not_in_the_way():
    window = [filled(KVCache, 9), filled(lambda: RotatingKVCache(8), 9)]
    refuses(ValueError, "layer 1's sliding window of 8 is full", kv.trim, window, 1)
    assert window[0].offset == 9
    unused = [filled(KVCache), KVCache()]
    kv.trim(unused, 2)
    assert kv.offset(unused) == 3
    assert unused[1].offset == 0


def test_a_ragged_batch_keeps_its_own_offsets():
    batch = [BatchKVCache.merge([filled(KVCache, 3), filled(KVCache, 5)])]
    assert kv.offset(batch) == [3, 5]
    assert kv.rows(batch) == 2
    refuses(ValueError, "can give back 3", kv.trim, batch, 4)
    kv.trim(batch, 2)
    assert kv.offset(batch) == [1, 3]
    kv.select(batch, [0])
    np.testing.assert_array_equal(held(batch[0])[0], held(filled(KVCache, 3))[0][:, :, :1])


def test_memory_is_taken_when_rows_differ_and_given_back_with_them():
    cache = kv.make(LLAMA)
    LLAMA(mx.array([[1] * 200]), cache=cache)
    mx.eval([layer.state for layer in cache])
    one = kv.nbytes(cache)
    # 2 layers, keys and values, 2 heads of 32 float32, allocated in steps of 256 tokens.
    assert one == 2 * 2 * 2 * 32 * 4 * 256
    before = mx.get_active_memory()
    many = kv.expand(cache, 64)
    mx.eval([layer.state for layer in many])
    assert mx.get_active_memory() - before < one
    LLAMA(mx.array([[1]] * 64), cache=many)
    kv.select(many, range(4))
    mx.eval([layer.state for layer in many])
    assert kv.nbytes(many) == 4 * one
    assert kv.nbytes(kv.make(LLAMA, bits=8, group_size=32)) == 0


def test_make_honours_or_refuses():
    assert [type(layer) for layer in kv.make(LLAMA)] == [KVCache] * 2
    window = kv.make(LLAMA, 7)
    assert [(type(c), c.max_size, c.keep) for c in window] == [(RotatingKVCache, 7, 0)] * 2
    quantized = kv.make(LLAMA, bits=4, group_size=64)
    assert [(c.bits, c.group_size) for c in quantized] == [(4, 64)] * 2
    assert [type(layer) for layer in kv.make(HYBRID, 7)] == [
        ArraysCache, ArraysCache, RotatingKVCache,
    ]  # fmt: skip
    recurrent = LanguageModel(hybrid_config(VOCAB, 32, 2, 2, attention_every=9), seed=0)
    for options, message in (
        ({"max_kv_size": 0}, "max_kv_size must be at least 1, got 0"),
        ({"max_kv_size": 2.5}, "max_kv_size must be an int"),
        ({"bits": 3}, "bits must be one of 2, 4, 8, got 3"),
        ({"bits": 8, "group_size": 48}, "group_size must be one of 32, 64, 128, got 48"),
        ({"bits": 8, "max_kv_size": 4}, "exclude each other"),
    ):
        refuses((ValueError, TypeError), message, kv.make, LLAMA, **options)
    for options in ({"max_kv_size": 4}, {"bits": 8}):
        refuses(ValueError, "no plain KVCache layer", kv.make, recurrent, **options)


@pytest.mark.parametrize("sizes", [[1] * 30, [3] * 10, [7, 11, 1, 1, 10], [30]])
def test_a_window_is_the_same_however_the_text_is_cut(sizes):
    tokens = [(7 * i * i + 3) % VOCAB for i in range(30)]
    cache, start = kv.make(LLAMA, WINDOW), 0
    for size in sizes:
        logits = LLAMA(mx.array([tokens[start : start + size]]), cache=cache)[:, -1]
        start += size
    assert np.abs(np.array(logits) - fresh_logits("window", [tokens])).max() < 1e-4


def test_bad_arguments_change_nothing():
    cache = kv.expand([filled(KVCache)], 2)
    for call, message in (
        (lambda: kv.expand(cache, 3), "cache must hold one row to expand, got 2"),
        (lambda: kv.expand([filled(KVCache)], 0), "n must be at least 1, got 0"),
        (lambda: kv.select(cache, []), "keep must name at least one row"),
        (lambda: kv.select(cache, [0, 2]), r"keep\[1\] must be between 0 and 1, got 2"),
        (lambda: kv.select(cache, [-1]), r"keep\[0\] must be between 0 and 1, got -1"),
        (lambda: kv.trim(cache, -1), "n must be at least 0, got -1"),
        (lambda: kv.trim(cache, 1.0), "n must be an int"),
        (lambda: kv.offset(KVCache()), "cache must be a list"),
    ):
        refuses((ValueError, TypeError), message, call)
    assert kv.rows(cache) == 2
    assert kv.offset(cache) == 5


def test_the_length_is_that_of_one_text_which_counts() -> None:
    cache = kv.make(LLAMA)
    assert kv.length(cache) == 0
    LLAMA(mx.array([[1, 2, 3]]), cache=cache)
    assert kv.length(cache) == 3
    with pytest.raises(ValueError, match=r"cache must hold one text .* got the offset \[3, 3\]"):
        kv.length(kv.merge([cache, cache]))
    refuses(ValueError, "got the offset None", kv.length, [ArraysCache(size=1)])
