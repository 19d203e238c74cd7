"""Caches that are not mlx-lm's own: subclasses, and those of other libraries, which may refuse."""

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import EarlyExit
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import ArraysCache, KVCache, QuantizedKVCache, RotatingKVCache
from oracles.pairs import lively
from oracles.refusals import refuses
from oracles.speculation import PROMPT, fresh_logits

LENGTH = 40


def subclass(base):
    """The same cache under another name, as a user who counts or logs something would have it."""

    class Own(base):
        reads = 0

        def update_and_fetch(self, *new):
            self.reads += 1
            return super().update_and_fetch(*new)

    return Own


SUBCLASSES = {  # model, how a layer is made, and the class that it is made from
    "KVCache": ("llama", lambda kind: kind(), KVCache),
    "RotatingKVCache": ("llama", lambda kind: kind(max_size=8), RotatingKVCache),
    "with sinks": ("llama", lambda kind: kind(max_size=12, keep=2), RotatingKVCache),
    "QuantizedKVCache": ("llama", lambda kind: kind(group_size=32, bits=8), QuantizedKVCache),
    "ArraysCache": ("retention", lambda kind: kind(1), ArraysCache),
}


class Foreign:
    """A cache of another library, which keeps its arrays where nobody knows.

    It says that it can be trimmed before it holds ``until`` tokens, and gives back ``most``.
    """

    def __init__(self, until=10**6, most=10**6):
        self._hidden, self._until, self._most = KVCache(), until, most

    @property
    def offset(self):
        return self._hidden.offset

    @property
    def state(self):
        return self._hidden.state

    def empty(self):
        return self._hidden.empty()

    def update_and_fetch(self, keys, values):
        return self._hidden.update_and_fetch(keys, values)

    def make_mask(self, *args, **kwargs):
        return self._hidden.make_mask(*args, **kwargs)

    def is_trimmable(self):
        return self.offset < self._until

    def trim(self, n):
        return self._hidden.trim(min(n, self._most))


class Bounded(KVCache):
    """A subclass that says for itself when it can be trimmed."""

    def is_trimmable(self):
        return self.offset < 20


FOREIGN = {
    "trims": Foreign,
    "stops half-way": lambda: Foreign(until=20),
    "gives back less": lambda: Foreign(most=1),
    "gives back nothing": lambda: Foreign(most=0),
    "a subclass that stops": Bounded,
}


def plain_cache(model):
    return [KVCache() for _ in model.layers]


def assert_read(model, cache, empty, text, tolerance=1e-3):
    """The cache is as if just ``text`` had been read."""
    assert kv.offset(cache) in (len(text), None)
    got = np.array(model(mx.array([[7]]), cache=cache)[0, -1])
    assert np.abs(got - fresh_logits(model, [*text, 7], empty)).max() < tolerance


def speculate(model, draft, caches):
    """Speculate with these caches; returns the iterator, at its end."""
    options = {"max_tokens": LENGTH, "temperature": 0.0, "trace": True}
    iterator = SpeculativeTokenIterator(model, draft, PROMPT, **options, **caches)
    list(iterator)
    return iterator


def plain_text(model, cache):
    iterator = TokenIterator(model, PROMPT, max_tokens=LENGTH, temperature=0.0, cache=cache)
    return [token.id for token in iterator]


@pytest.mark.parametrize("name", SUBCLASSES)
def test_a_subclass_is_rewound_as_its_base_is(name):
    kind, make_layer, base = SUBCLASSES[name]
    # Rounded, a key that differs in its last bit may land one step away: see test_rewind.
    gain, tolerance = (1.0, 5e-2) if "Quant" in name else (2.0, 1e-3)
    model, draft = lively(kind, 1, gain=gain), lively(kind, 1, noise=0.1, gain=gain)
    own = subclass(base)
    caches = {name: [make_layer(own) for _ in model.layers] for name in ("cache", "draft_cache")}
    iterator = speculate(model, draft, caches)
    assert iterator.tokens == plain_text(model, [make_layer(base) for _ in model.layers])
    assert sum(0 < r.accepted < len(r.drafted) for r in iterator.rounds) >= 2
    # One forward a round, and one for the prompt: nothing was read again.
    assert name == "ArraysCache" or iterator.stats["target_calls"] <= len(iterator.rounds) + 1
    text = (PROMPT + iterator.tokens)[:-1]
    for cache, network in zip(caches.values(), (model, draft), strict=True):
        assert_read(network, cache, [make_layer(base) for _ in model.layers], text, tolerance)
    if base is not ArraysCache:
        assert all(layer.reads > 5 for layer in caches["cache"])


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("who", ["target", "draft", "both", "early exit"])
def test_a_foreign_cache_is_asked_each_time(name, who):
    """Where it refuses, what was read is put back whole, and plain decoding takes over."""
    model, small = lively("llama", 1), lively("llama", 1, noise=0.1)
    caches = {"cache": [FOREIGN[name]() if who != "draft" else KVCache() for _ in model.layers]}
    if who != "early exit":
        caches["draft_cache"] = [KVCache() if who == "target" else FOREIGN[name](), KVCache()]
    draft = EarlyExit(1) if who == "early exit" else small
    iterator = speculate(model, draft, caches)
    assert iterator.tokens == plain_text(model, plain_cache(model))
    text = (PROMPT + iterator.tokens)[:-1]
    for cache, network in zip(caches.values(), (model, small), strict=False):
        assert_read(network, cache, plain_cache(network), text)
    drafted = [len(r.drafted) for r in iterator.rounds]
    assert drafted[0] == 4
    if name == "trims" or who == "draft":
        assert min(drafted[:-1]) > 0
    else:
        assert not any(drafted[drafted.index(0) :]), "once it refuses, nothing more is drafted"


@pytest.mark.parametrize("name", FOREIGN)
def test_plain_decoding_never_reads_ahead_in_a_cache_that_may_refuse(name):
    model = lively("llama", 1)
    for n in (1, 10, 25):
        cache = [FOREIGN[name](), FOREIGN[name]()]
        with TokenIterator(model, PROMPT, cache=cache, temperature=0.0) as iterator:
            for _ in range(n):
                next(iterator)
        assert [layer.offset for layer in cache] == [len(PROMPT) + n - 1] * 2


def test_trim_puts_everything_back_when_a_layer_gives_back_less():
    model = lively("llama", 1)
    for layers in ((KVCache(), Foreign(most=1)), (Foreign(), Foreign(most=1))):
        model(mx.array([[1, 2, 3, 4]]), cache=list(layers))
        refuses(BadValue, "n=3 tokens: a Foreign gave back 1 of them", kv.trim, layers, 3)
        assert [layer.offset for layer in layers] == [4, 4]
        kv.trim(layers, 1)
        assert [layer.offset for layer in layers] == [3, 3]


def test_what_a_foreign_cache_will_say_later_is_not_promised():
    model, cache = lively("llama", 1), [Foreign(), Foreign()]
    model(mx.array([[1, 2, 3, 4]]), cache=cache)
    assert kv.trimmable(cache) == 4
    assert kv.trimmable(cache, after=1) == 0


def test_more_than_was_read_since_settle_is_refused_and_changes_nothing():
    model, cache = lively("llama", 1), [KVCache(), Foreign(most=1)]
    rewinder = Rewinder(model, cache)
    rewinder.forward(mx.array([[1, 2, 3, 4]]))
    rewinder.settle()
    rewinder.forward(mx.array([[5]]))
    assert rewinder.room() is None
    refuses(BadValue, "at most 1 tokens, got n=3", rewinder.rewind, 3)
    assert [layer.offset for layer in cache] == [5, 5]
    assert rewinder.room() == 1
    rewinder.rewind(1)
    assert [layer.offset for layer in cache] == [4, 4]
