"""Models without a network: a table of scores for every context, with a cache that only counts.

They make the engine fast enough to be enumerated, and record every call.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache


class TextCache:
    """The tokens themselves: what any cache must be equivalent to."""

    state: tuple[()] = ()

    def __init__(self) -> None:
        self.tokens: list[int] = []

    @property
    def offset(self) -> int:
        return len(self.tokens)

    def empty(self) -> bool:
        return not self.tokens

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        n = min(n, len(self.tokens))
        del self.tokens[len(self.tokens) - n :]
        return n


class TableModel:
    """``scores(context) -> (V,)`` as a model; ``calls`` lists the tokens of every forward."""

    def __init__(self, vocab_size: int, scores: Callable[[Sequence[int]], Any]) -> None:
        self.vocab_size, self.scores = vocab_size, scores
        self.layers = [None]
        self.calls: list[list[int]] = []

    def make_cache(self) -> list[TextCache]:
        return [TextCache()]

    def __call__(self, tokens: mx.array, cache: list[TextCache]) -> mx.array:
        new = tokens[0].tolist()
        self.calls.append(new)
        rows = []
        for token in new:
            cache[0].tokens.append(token)
            rows.append(self.scores(tuple(cache[0].tokens)))
        return mx.array(np.array([rows], np.float32))


class WrittenModel:
    """The same with the caches of mlx-lm, whose keys are the tokens: rows can share a batch.

    Its layers are tables, and the last one speaks: with fewer of them it is another model.
    """

    def __init__(self, vocab_size: int, *scores: Callable[[Sequence[int]], Any]) -> None:
        self.vocab_size, self.model = vocab_size, SimpleNamespace(layers=list(scores))

    @property
    def layers(self) -> list[Any]:
        return self.model.layers

    def make_cache(self) -> list[KVCache]:
        return [KVCache() for _ in self.layers]

    def __call__(self, tokens: mx.array, cache: list[Any]) -> mx.array:
        new = tokens[:, None, :, None].astype(mx.float32)
        starts = getattr(cache[0], "left_padding", mx.zeros(len(tokens))).tolist()
        for layer in cache[: len(self.layers)]:
            keys, _ = layer.update_and_fetch(new, new)
        out = []
        for start, row in zip(starts, keys[:, 0, :, 0].tolist(), strict=True):
            text = tuple(map(int, row[int(start) :]))
            ends = range(len(text) - tokens.shape[1] + 1, len(text) + 1)
            out.append([self.layers[-1](text[:end]) for end in ends])
        return mx.array(np.array(out, np.float32))


class Exploration:
    """Runs a program again and again until every way its random choices can fall has been seen.

    The program asks ``choose(weights)`` for an index; the exploration answers with each index of
    positive weight in turn and multiplies the probabilities.
    """

    def __init__(self) -> None:
        self._script: list[int] = []

    def run(self, program: Callable[[], Any]) -> dict[Any, float]:
        """Return the distribution of the program's result."""
        results: dict[Any, float] = {}
        open_ends: list[list[int]] = [[]]
        while open_ends:
            self._script = open_ends.pop()
            self._at, self.weight, self._new = 0, 1.0, []
            result = program()
            results[result] = results.get(result, 0.0) + self.weight
            open_ends += self._new
        return results

    def choose(self, weights: Any) -> int:
        weights = np.asarray(weights, np.float64)
        weights = weights / weights.sum()
        if self._at < len(self._script):
            index = self._script[self._at]
        else:
            index, *others = np.flatnonzero(weights > 1e-12).tolist()
            self._new += [[*self._script, other] for other in others]
            self._script = [*self._script, index]
        self._at += 1
        self.weight *= weights[index]
        return index
