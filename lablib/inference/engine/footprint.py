"""Reckons the memory that the caches of a text take, by its tokens."""

from collections.abc import Sequence
from typing import Any

from lablib.cache import kv
from lablib.machine.arrays import flattened

import mlx.core as mx


class Footprint:
    """The bytes of the caches that some models keep of one text, and of their weights.

    Each reads a token to show it: layers with keys and values grow with a text, up to their window;
    others stay as they are.

    Attributes:
        weights: the bytes that a forward of each model reads; infinite if they say nothing.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self._fixed = 0.0
        self._growing: list[tuple[float, float]] = []  # bytes of a token, tokens at most
        weights = 0
        for model in models:
            cache = kv.make(model)
            mx.eval(model(mx.array([[0]]), cache=cache))
            for layer in kv.leaves(cache):
                entries = [getattr(layer, name, None) for name in ("keys", "values")]
                arrays = [each for _, each in flattened(entries) if each is not None]
                if arrays:
                    size = sum(each.nbytes / each.shape[2] for each in arrays)
                    self._growing.append((size, getattr(layer, "max_size", None) or float("inf")))
                else:
                    self._fixed += kv.nbytes([layer])
            if hasattr(model, "parameters"):
                weights += sum(each.nbytes for _, each in flattened(model.parameters()))
        self.weights = weights or float("inf")

    def of(self, tokens: int) -> float:
        """Return the bytes of a text of so many tokens."""
        return self._fixed + sum(size * min(tokens, most) for size, most in self._growing)
