"""After any history of reads and rewinds, the cache is as if only what stayed had been read."""

import copy

from lablib.cache import kv
from lablib.cache.rewind import Rewinder, restore, snapshot
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import (
    ArraysCache,
    BatchKVCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    RotatingKVCache,
)
from oracles.speculation import VOCAB, fresh_logits, make_cache, target

CASES = [  # model, cache, window, tolerance
    ("llama", "kv", 0, 1e-4),
    ("llama3", "kv", 0, 1e-4),
    ("gpt", "kv", 0, 1e-4),
    ("llama", "quantized", 0, 2e-2),
    ("llama", "window", 8, 1e-4),
    ("llama", "window", 13, 1e-4),
    ("llama", "window", 64, 1e-4),
    ("hybrid", "kv", 0, 1e-4),
    ("hybrid", "window", 8, 1e-4),
    ("recurrent", "kv", 0, 1e-4),
]


def read(rewinder, tokens):
    return rewinder.forward(mx.array([tokens]))


@pytest.mark.parametrize(("kind", "cache_kind", "window", "tolerance"), CASES)
def test_rewound_cache_gives_the_logits_of_a_fresh_one(kind, cache_kind, window, tolerance):
    rng = np.random.default_rng(len(kind) + window)
    model = target(kind, seed=1)
    history = rng.integers(0, VOCAB, 5).tolist()
    cache = make_cache(model, cache_kind, window)
    model(mx.array([history]), cache=cache)
    rewinder = Rewinder(model, cache)
    for step in range(24):
        rewinder.settle()
        drafted = rng.integers(0, VOCAB, rng.integers(1, 9)).tolist()
        if step % 3:  # the target reads a block, a draft model reads token by token
            read(rewinder, drafted)
        else:
            for token in drafted:
                read(rewinder, [token])
        rejected = int(rng.integers(0, len(drafted) + 1))
        rewinder.rewind(rejected)
        history += drafted[: len(drafted) - rejected]
        probe = int(rng.integers(0, VOCAB))
        got = np.array(read(rewinder, [probe])[0, -1])
        rewinder.rewind(1)
        wanted = fresh_logits(model, [*history, probe], make_cache(model, cache_kind, window))
        assert np.abs(got - wanted).max() < tolerance * max(1, np.abs(wanted).max()), step
    assert kv.offset(cache) in (len(history), None)


def test_the_wrapped_window_is_corrupted_without_this_module():
    """What the module is for: past the wrap, mlx-lm's own trim returns 0 and leaves them in."""
    from mlx_lm.models.cache import trim_prompt_cache

    model, history = target(seed=1), list(range(12))
    cache = make_cache(model, "window", 8)
    model(mx.array([history]), cache=cache)
    model(mx.array([[1, 2, 3]]), cache=cache)
    assert trim_prompt_cache(cache, 3) == 0
    got = np.array(model(mx.array([[5]]), cache=cache)[0, -1])
    wanted = fresh_logits(model, [*history, 5], make_cache(model, "window", 8))
    assert np.abs(got - wanted).max() > 0.1


def test_blocks_need_no_replay_in_a_window_and_one_in_a_recurrent_layer():
    for kind, replays in (("llama", 0), ("hybrid", 1)):
        model = target(kind)
        cache = make_cache(model, "window", 8)
        model(mx.array([list(range(12))]), cache=cache)
        rewinder = Rewinder(model, cache)
        read(rewinder, [1, 2, 3, 4, 5])
        rewinder.rewind(3)
        assert rewinder.replays == replays
        assert rewinder.calls == 1 + replays
        assert rewinder.tokens_read == 5 + 2 * replays


def test_rewinding_a_whole_read_restores_without_a_forward():
    model = target("hybrid")
    cache = make_cache(model)
    model(mx.array([[1, 2, 3]]), cache=cache)
    rewinder = Rewinder(model, cache)
    read(rewinder, [4, 5])
    read(rewinder, [6])
    rewinder.rewind(3)
    assert rewinder.replays == 0
    got = np.array(model(mx.array([[7]]), cache=cache)[0, -1])
    assert np.allclose(got, fresh_logits(model, [1, 2, 3, 7], make_cache(model)), atol=1e-4)


def test_a_snapshot_survives_being_used():
    model = target("hybrid")
    cache = make_cache(model, "window", 4)
    model(mx.array([[1, 2, 3, 4, 5, 6]]), cache=cache)
    taken = snapshot(cache)
    answers = []
    for _ in range(2):
        logits = [model(mx.array([[t]]), cache=cache) for t in (7, 8, 9)]
        answers.append(np.array(logits[-1]))
        restore(cache, taken)
    assert np.array_equal(*answers)


@pytest.mark.parametrize("kind", ["llama", "hybrid", "recurrent"])
def test_more_than_was_read_is_refused_and_changes_nothing(kind):
    model = target(kind)
    cache = make_cache(model, "window", 4)
    model(mx.array([[1, 2, 3, 4, 5, 6]]), cache=cache)
    rewinder = Rewinder(model, cache)
    read(rewinder, [7, 8])
    before = copy.deepcopy([layer.state for layer in cache])
    with pytest.raises(BadValue, match=r"target_cache can be rewound by at most 2 tokens, got n=4"):
        Rewinder.rewind(_named(rewinder, "target_cache"), 4)
    for old, layer in zip(before, cache, strict=True):
        assert _equal(old, layer.state)
    rewinder.rewind(2)
    got = np.array(model(mx.array([[7]]), cache=cache)[0, -1])
    wanted = fresh_logits(model, [1, 2, 3, 4, 5, 6, 7], make_cache(model, "window", 4))
    assert np.allclose(got, wanted, atol=1e-4)


def test_settle_ends_what_can_be_taken_back():
    model = target("recurrent")
    cache = make_cache(model)
    rewinder = Rewinder(model, cache)
    read(rewinder, [1, 2])
    rewinder.settle()
    read(rewinder, [3])
    with pytest.raises(BadValue, match="at most 1 tokens, got n=2"):
        rewinder.rewind(2)


def test_an_empty_plain_cache_cannot_go_back():
    with pytest.raises(BadValue, match="at most 0 tokens, got n=1"):
        Rewinder(target(), make_cache(target())).rewind(1)


def test_unknown_layers_are_refused_unless_they_trim():
    class Strange:
        offset = 0

        def is_trimmable(self):
            return False

    with pytest.raises(BadValue, match=r"draft_cache cannot be rewound: layer 1 is a Strange"):
        Rewinder(None, [KVCache(), Strange()], "draft_cache")
    with pytest.raises(BadValue, match="must hold one sequence"):
        Rewinder(None, [BatchKVCache([0, 1])])

    class Trimmable(Strange):
        def is_trimmable(self):
            return True

    Rewinder(None, [Trimmable()])


def test_sinks_leave_room_until_the_ring_is_full():
    model = target()
    cache = make_cache(model, "sinks", 8)
    rewinder = Rewinder(model, cache)
    assert rewinder.room() == 8
    model(mx.array([[1, 2, 3, 4, 5]]), cache=cache)
    assert rewinder.room() == 3
    model(mx.array([[1, 2, 3, 4, 5]]), cache=cache)
    assert rewinder.room() == 1
    assert Rewinder(model, make_cache(model, "window", 8)).room() is None


@pytest.mark.parametrize("make", [ConcatenateKVCache, lambda: ChunkedKVCache(64)])
def test_the_other_caches_of_mlx_lm(make):
    model = target()
    cache = [make() for _ in model.layers]
    model(mx.array([[1, 2, 3]]), cache=cache)
    rewinder = Rewinder(model, cache)
    read(rewinder, [4, 5, 6])
    rewinder.rewind(2)
    got = np.array(read(rewinder, [9])[0, -1])
    assert np.allclose(got, fresh_logits(model, [1, 2, 3, 4, 9], make_cache(model)), atol=1e-4)


def test_layers_inside_a_list_are_rewound_one_by_one():
    class Nested:
        """A model that keeps each layer's cache inside a CacheList."""

        def __init__(self):
            self.inner = target("hybrid")
            self.layers = self.inner.layers

        def __call__(self, tokens, cache):
            return self.inner(tokens, cache=[c[0] for c in cache])

    model = Nested()
    cache = [CacheList(c) for c in make_cache(model.inner, "window", 4)]
    assert isinstance(cache[0][0], ArraysCache)
    assert isinstance(cache[2][0], RotatingKVCache)
    model(mx.array([[1, 2, 3, 4, 5]]), cache=cache)
    rewinder = Rewinder(model, cache)
    read(rewinder, [6, 7, 8])
    rewinder.rewind(2)
    got = np.array(read(rewinder, [9])[0, -1])
    wanted = fresh_logits(model.inner, [1, 2, 3, 4, 5, 6, 9], make_cache(model.inner, "window", 4))
    assert np.allclose(got, wanted, atol=1e-4)


def _named(rewinder, name):
    rewinder._name = name
    return rewinder


def _equal(a, b):
    if isinstance(a, mx.array):
        return np.array_equal(np.array(a), np.array(b))
    if isinstance(a, list | tuple):
        return all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return a == b
