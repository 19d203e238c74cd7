"""Reads texts in one way or another: what their logits owe to how many tokens are read at once."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import lablib
from lablib.cache import kv

import mlx.core as mx
import mlx.nn as nn
import numpy as np


class Half(nn.Linear):
    """Rounds its product to half precision, eight binary digits, as a GPU's is."""

    def __call__(self, x: mx.array) -> mx.array:
        """Return the product, as float32 again."""
        return super().__call__(x).astype(mx.bfloat16).astype(mx.float32)


def in_half(name: str) -> Any:
    """Return a model in which every layer's product is rounded to half precision."""
    model, _ = lablib.load(name, dtype=mx.float32)
    for _, layer in model.named_modules():
        if type(layer) is nn.Linear:
            layer.__class__ = Half
    return model


def read(model: Any, rows: np.ndarray, size: int) -> np.ndarray:
    """Return the logits ``(B, T, V)`` of rows ``(B, T)``, read together, ``size`` at a time."""
    cache, pieces = kv.make(model), range(0, rows.shape[1], size)
    logits = [model(mx.array(rows[:, i : i + size]), cache=cache) for i in pieces]
    return np.array(mx.concatenate(logits, axis=1))


def switches() -> dict[str, Callable[[], AbstractContextManager[None]]]:
    """Return the ways to compute that this machine has; print why one is missing."""
    try:
        with lablib.same_bits():
            return {"as it is": nullcontext, "same_bits": lablib.same_bits}
    except RuntimeError as error:
        print(f"without same_bits: {error}")
        return {"as it is": nullcontext}
