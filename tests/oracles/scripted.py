"""A model whose every next-token distribution is known, and that writes down how it was called."""

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import ArraysCache, KVCache


class Recorder:
    """Logits are a row of ``table (R, V)``, picked by a hash of *all* tokens so far.

    The history is read back from the cache, and every position counts: a row that was lost,
    swapped or fed out of order changes what follows. ``calls`` records the tokens of each forward,
    a list of B lists of T ids; ``hook(call number)`` runs when one layer has read and one has not.
    """

    def __init__(self, table, max_positions=None):
        self.table = np.asarray(table, dtype=np.float64)
        self.rows = mx.array(self.table, dtype=mx.float32)
        self.vocab_size = self.table.shape[1]
        self.layers = [None, None]
        self.calls = []
        self.hook = lambda call: None
        if max_positions is not None:
            self.max_positions = max_positions

    def make_cache(self):
        return [KVCache(), KVCache()]

    def __call__(self, tokens, cache=None):
        cache = self.make_cache() if cache is None else cache
        self.calls.append(tokens.tolist())
        entry = tokens.astype(mx.float32)[:, None, :, None]
        history = self._history(cache[0], entry)
        self.hook(len(self.calls))
        self._history(cache[1], entry)
        places = mx.arange(1, history.shape[1] + 1)
        sums = mx.cumsum((history + 1) * places, axis=1)[:, -tokens.shape[1] :]
        return self.rows[sums.astype(mx.int32) % len(self.table)]

    def _history(self, layer, entry):
        return layer.update_and_fetch(entry, entry)[0][:, 0, :, 0]

    @property
    def shapes(self):
        return [(len(call), len(call[0])) for call in self.calls]

    @property
    def token_forwards(self):
        return sum(b * t for b, t in self.shapes)

    def logits(self, history):
        """Float64 logits after ``history``, computed apart from the cache."""
        total = sum((token + 1) * (place + 1) for place, token in enumerate(history))
        return self.table[total % len(self.table)]

    def log_probs(self, history):
        logits = self.logits(history)
        shifted = logits - logits.max()
        return shifted - np.log(np.exp(shifted).sum())


class Ragged(Recorder):
    """The same, whose rows may have padding on the left."""

    def __call__(self, tokens, cache=None):
        self.calls.append(tokens.tolist())
        cache = self.make_cache() if cache is None else cache
        starts = getattr(cache[0], "left_padding", mx.zeros(len(tokens), mx.int32))
        entry = tokens.astype(mx.float32)[:, None, :, None]
        history = self._history(cache[0], entry).astype(mx.int32)
        self.hook(len(self.calls))
        self._history(cache[1], entry)
        places = mx.maximum(mx.arange(1, history.shape[1] + 1) - starts[:, None], 0)
        sums = mx.cumsum((history + 1) * places, axis=1)[:, -tokens.shape[1] :]
        return self.rows[sums % len(self.table)]


class Recurrent(Recorder):
    """The same, with a state in place of a history: nothing of it can be trimmed."""

    def make_cache(self):
        return [ArraysCache(1), ArraysCache(1)]

    def _history(self, layer, entry):
        entry = entry[:, 0, :, 0]
        layer[0] = entry if layer[0] is None else mx.concatenate([layer[0], entry], axis=1)
        return layer[0]


def random_table(rows=97, vocab_size=11, seed=0, spread=2.0):
    return np.random.default_rng(seed).normal(size=(rows, vocab_size)) * spread


def scripted(tokenizer, script):
    """A model that says the tokens of ``script`` by position, whatever was drawn."""

    class Script(Recorder):
        def __call__(self, tokens, cache=None):
            super().__call__(tokens, cache)
            end = cache[0].offset
            chosen = [script[min(n, len(script) - 1)] for n in range(end - tokens.shape[1], end)]
            return self.rows[None, chosen]

    return Script(np.eye(len(tokenizer)) * 30)


def says(tokenizer, prompt, completion):
    """A model that continues ``prompt`` with the tokens of ``completion``."""
    return scripted(tokenizer, [0] * (len(prompt) - 1) + completion)
