"""Small models for the speculation tests, and what speculation must agree with.

A random pair is useless here: its draft is right one time in V. ``near`` perturbs the target's
weights instead, so that one number moves the acceptance from nearly none to nearly all.
"""

from collections.abc import Sequence
from typing import Any

from lablib.cache import kv
from lablib.models import LanguageModel, gpt_config, hybrid_config, llama_config

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.cache import ArraysCache, KVCache, QuantizedKVCache, RotatingKVCache

VOCAB = 24
PROMPT = [3, 1, 4, 1, 5]
CACHES = [
    ("llama", "kv"),
    ("llama", "quantized"),
    ("llama", "window"),
    ("hybrid", "kv"),
    ("recurrent", "kv"),
]


def target(kind: str = "llama", seed: int = 0, vocab_size: int = VOCAB, peak: float = 4.0) -> Any:
    """A small model whose next-token distribution has some shape; ``peak`` scales its logits."""
    config = {
        "llama": lambda: llama_config(vocab_size, 64, 1, 2),
        "llama3": lambda: llama_config(vocab_size, 32, 2, 3, n_kv_heads=1),
        "gpt": lambda: gpt_config(vocab_size, 32, 2, 2, max_positions=256),
        "hybrid": lambda: hybrid_config(vocab_size, 32, 2, 3, attention_every=3),
        "recurrent": lambda: hybrid_config(vocab_size, 32, 2, 2, attention_every=9),
    }[kind]()
    model = LanguageModel(config, seed=seed)
    flat = dict(tree_flatten(model.parameters()))
    model.load_weights([("model.norm.weight", peak * flat["model.norm.weight"])], strict=False)
    mx.eval(model.parameters())
    return model


def near(model: Any, noise: float, seed: int = 0) -> Any:
    """A copy of ``model`` with every weight matrix moved by ``noise`` times its own spread."""
    twin = LanguageModel(model.config, seed=0)
    keys = iter(mx.random.split(mx.random.key(seed), 1000))

    def move(weight: mx.array) -> mx.array:
        if weight.ndim < 2:
            return weight
        spread = mx.sqrt(mx.var(weight))
        return weight + noise * spread * mx.random.normal(weight.shape, key=next(keys))

    twin.update(tree_map(move, model.parameters()))
    mx.eval(twin.parameters())
    return twin


def layer_cache(kind: str, window: int = 8) -> Any:
    """One fresh layer of cache."""
    return {
        "kv": KVCache,
        "quantized": lambda: QuantizedKVCache(group_size=64, bits=8),
        "window": lambda: RotatingKVCache(max_size=window),
        "sinks": lambda: RotatingKVCache(max_size=window, keep=2),
    }[kind]()


def make_cache(model: Any, kind: str = "kv", window: int = 8) -> list[Any]:
    """A fresh cache whose attention layers are of one kind; recurrent layers keep their state."""
    layers = model.make_cache()
    return [x if isinstance(x, ArraysCache) else layer_cache(kind, window) for x in layers]


def greedy(model: Any, prompt: Sequence[int], n: int, cache: list[Any] | None = None) -> list[int]:
    """Plain greedy decoding, one token at a time, written as plainly as possible."""
    cache = model.make_cache() if cache is None else cache
    tokens, unread = [], list(prompt)
    while len(tokens) < n:
        logits = model(mx.array([unread]), cache=cache)
        unread = [int(mx.argmax(logits[0, -1]).item())]
        tokens += unread
    return tokens


def fresh_logits(model: Any, tokens: Sequence[int], cache: list[Any]) -> np.ndarray:
    """Logits after ``tokens``, read one by one into an empty cache: ``(V,)``."""
    for token in tokens:
        logits = model(mx.array([[token]]), cache=cache)
    return np.array(logits[0, -1])


def both_caches(model: Any, kind: str) -> dict[str, list[Any]]:
    """Fresh ones for target and draft, as arguments."""
    return {"cache": make_cache(model, kind), "draft_cache": make_cache(model, kind)}


def assert_caches_stand_at(iterator: Any, model: Any, kind: str, text: Sequence[int]) -> None:
    """Both caches are as if exactly ``text`` without its last token had been read."""
    read = text[:-1]
    caches = (iterator.cache, model), (iterator.draft_cache, iterator._drafter.model)
    for cache, network in caches:
        assert kv.offset(cache) in (len(read), None)
        probe = np.array(network(mx.array([[7]]), cache=cache)[0, -1])
        wanted = fresh_logits(network, [*read, 7], make_cache(network, kind))
        assert np.abs(probe - wanted).max() < (5e-2 if kind == "quantized" else 1e-3)
