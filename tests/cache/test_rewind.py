"""After any history of reads and rewinds, the cache is as if only what stayed had been read."""

import copy
import inspect

from lablib.cache import kv
from lablib.cache.kv import leaves
from lablib.cache.rewind import Rewinder, check_rewindable, restore, snapshot
from lablib.inference.speculation import NGram
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models import cache as mlx_cache
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, CacheList, KVCache
from oracles.pairs import CHUNK, cache_for, lively
from oracles.refusals import refuses
from oracles.speculation import VOCAB, fresh_logits, make_cache, target

CASES = {  # model, cache, window
    "kv": ("llama", "kv", 0),
    "grouped heads": ("grouped", "kv", 0),
    "learned positions": ("gpt", "kv", 0),
    "concatenate": ("llama", "concatenate", 0),
    "8 bits": ("llama", "quantized", 0),
    "4 bits": ("llama", "4 bits", 0),
    "window 8": ("llama", "window", 8),
    "window 13": ("grouped", "window", 13),
    "window 64": ("shallow", "window", 64),
    "sinks": ("llama", "sinks", 12),
    "chunks": ("llama4", "kv", 0),
    "retention": ("retention", "kv", 0),
    "mamba": ("mamba", "kv", 0),
    "hybrid": ("hybrid", "kv", 0),
    "hybrid, window 8": ("hybrid", "window", 8),
    "hybrid, 8 bits": ("hybrid", "quantized", 0),
    "lists": ("hybrid", "window", 8),
}


class Nested:
    """A model that keeps each layer's cache inside a CacheList."""

    def __init__(self, inner):
        self.inner, self.layers, self.vocab_size = inner, inner.layers, VOCAB

    def __call__(self, tokens, cache):
        return self.inner(tokens, cache=[layer[0] for layer in cache])


def build(case):
    """The model of a case, and what makes its cache."""
    kind, cache_kind, window = CASES[case]
    # Rounded to 8 bits, a key that differs in its last bit may land one step away. With sharp
    # attention that alone moves a logit by up to 3e-2; with plainer weights by less than 2e-2.
    model = lively(kind, seed=1, gain=1.0 if "bits" in case else 2.0)
    if case == "lists":
        nested = Nested(model)
        nested.make_cache = lambda: [CacheList(c) for c in cache_for(model, cache_kind, window)]
        return nested, nested.make_cache
    return model, lambda: cache_for(model, cache_kind, window)


def read(rewinder, tokens):
    return rewinder.forward(mx.array([tokens]))


@pytest.mark.parametrize("case", CASES)
def test_rewound_cache_gives_the_logits_of_a_fresh_one(case):
    """A random history of blocks, single tokens and rewinds, far past the wrap of every ring."""
    model, make = build(case)
    rng, window = np.random.default_rng(7), CASES[case][2]
    history = rng.integers(0, VOCAB, 5 + 5 * window // 2).tolist()
    cache = make()
    model(mx.array([history[:5]]), cache=cache)
    for token in history[5:]:
        model(mx.array([[token]]), cache=cache)
    rewinder = Rewinder(model, cache)
    for step in range(18):
        rewinder.settle()
        drafted = rng.integers(0, VOCAB, rng.integers(1, 9)).tolist()
        if step % 3:  # the target reads a block, a draft model reads token by token
            drafted = drafted[: rewinder.room()]
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
        wanted = fresh_logits(model, [*history, probe], make())
        tolerance = 2e-2 if "bits" in case else 1e-4
        assert np.abs(got - wanted).max() < tolerance, step
    assert kv.offset(cache) in (len(history), None)
    assert len(history) > max(3 * window, 2 * CHUNK)


@pytest.mark.parametrize("rejected", [1, 4, 7])
@pytest.mark.parametrize("length", range(CHUNK - 5, CHUNK + 2))
def test_single_tokens_over_the_end_of_a_chunk(length, rejected):
    """A chunk's first keys are gone once a token of the next one has been read."""
    model, make = build("chunks")
    history, drafted = list(range(length)), [5, 3, 8, 1, 9, 2, 7]
    cache = make()
    model(mx.array([history]), cache=cache)
    rewinder = Rewinder(model, cache)
    for token in drafted:
        read(rewinder, [token])
    rewinder.rewind(rejected)
    got = np.array(read(rewinder, [4])[0, -1])
    wanted = fresh_logits(model, [*history, *drafted[:-rejected], 4], make())
    assert np.abs(got - wanted).max() < 1e-4


REFUSED = (BatchKVCache, BatchRotatingKVCache)


def test_every_cache_of_mlx_lm_is_rewound_above_or_refused_below():
    seen = set()
    for case in CASES:
        cache = build(case)[1]()
        seen |= {type(layer) for layer in [*cache, *leaves(cache)]}
    public = [c for name, c in vars(mlx_cache).items() if not name.startswith("_")]
    caches = {c for c in public if inspect.isclass(c) and hasattr(c, "is_trimmable")}
    assert caches == seen | set(REFUSED)


class Strange(KVCache):
    """A cache of another library, of which nothing is known but that it does not trim."""

    def is_trimmable(self):
        return False


@pytest.mark.parametrize(
    "layer",
    [
        lambda: BatchKVCache([0]),
        lambda: BatchRotatingKVCache(8, [0]),
        Strange,
        lambda: CacheList(KVCache(), Strange()),
    ],
    ids=["batch", "batch of rings", "unknown", "unknown in a list"],
)
@pytest.mark.parametrize("name", ["cache", "draft_cache"])
def test_what_cannot_be_rewound_raises_before_any_token(layer, name):
    model, calls = lively("llama", 0), []

    def watched(tokens, cache):
        calls.append(tokens)
        return model(tokens, cache=cache)

    watched.layers, watched.make_cache, watched.vocab_size = model.layers, model.make_cache, VOCAB
    cache = [KVCache(), layer()]
    with pytest.raises(BadValue, match=f"{name} (cannot be rewound|must hold one sequence)"):
        SpeculativeTokenIterator(watched, watched, [1, 2, 3], **{name: cache})
    assert not calls
    assert cache[0].empty()


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
    assert rewinder.calls == 2
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


@pytest.mark.parametrize("kind", ["llama", "hybrid", "recurrent"])
@pytest.mark.parametrize("window", [0, 4])
def test_a_processor_that_raises_in_the_first_round_leaves_no_draft_behind(kind, window):
    """What cannot give the prompt back keeps it, but for its last token, and nothing else."""
    model, prompt = target(kind), [1, 2, 1, 2, 1, 2, 1]

    def broken(tokens, logits):
        raise RuntimeError("a processor's own error")

    cache = make_cache(model, "window", window) if window else kv.make(model)
    more = {"logits_processors": [broken], "draft_tokens": 4}
    iterator = SpeculativeTokenIterator(model, NGram(), prompt, cache=cache, **more)
    refuses(RuntimeError, "own error", next, iterator)
    kept = [] if kv.offset(cache) == 0 else prompt[:-1]
    assert kept or (kind, window) == ("llama", 0)
    got = np.array(model(mx.array([[7]]), cache=cache)[0, -1])
    empty = make_cache(model, "window", window) if window else kv.make(model)
    assert np.allclose(got, fresh_logits(model, [*kept, 7], empty), atol=1e-4)


def test_settle_ends_what_can_be_taken_back():
    model = target("recurrent")
    cache = make_cache(model)
    rewinder = Rewinder(model, cache)
    read(rewinder, [1, 2])
    rewinder.settle()
    read(rewinder, [3])
    refuses(BadValue, "at most 1 tokens, got n=2", rewinder.rewind, 2)


def test_an_empty_plain_cache_cannot_go_back():
    with pytest.raises(BadValue, match="at most 0 tokens, got n=1"):
        Rewinder(target(), make_cache(target())).rewind(1)


def test_unknown_layers_are_refused_unless_they_trim():
    class Strange:
        offset = 0

        def is_trimmable(self):
            return False

    with pytest.raises(BadValue, match=r"draft_cache cannot be rewound: layer 1 is a Strange"):
        check_rewindable([KVCache(), Strange()], "draft_cache")
    refuses(BadValue, "must hold one sequence", check_rewindable, [BatchKVCache([0, 1])])

    class Trimmable(Strange):
        def is_trimmable(self):
            return True

    check_rewindable([Trimmable()])


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


def _named(rewinder, name):
    rewinder._name = name
    return rewinder


def _equal(a, b):
    if isinstance(a, mx.array):
        return np.array_equal(np.array(a), np.array(b))
    if isinstance(a, list | tuple):
        return all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return a == b
