"""Brings products of a few rows with a weight matrix nearer to the speed of memory.

Decoding and verifying consist of these: 1 to 16 rows times every matrix of the model, which should
take as long as reading it. OpenBLAS copies the whole matrix into another order first, unless the
product is small and the processor has AVX-512. There, we cut the matrix into the largest blocks,
which are views, whose products are small. (``tests/benchmarks/bench_products.py`` compares them.)
The whole product, ``mlx.nn``'s, is the definition.
"""

from contextlib import ExitStack
from functools import lru_cache

from lablib.definitions import FastPath
from lablib.machine import backend
from lablib.validation import BadType, BadValue

import mlx.core as mx
import mlx.nn as nn

_CORES = {"SkylakeX", "Cooperlake", "SapphireRapids"}  # whose kernels for small products are quick
_ROWS = 16  # beyond, a product is worth the copy
# What OpenBLAS calls small (``sgemm_small_matrix_permit`` in its sources): numbers of the result,
_RESULT = 1200
_WORK = 1_000_000  # and multiply-adds.
_NARROWEST = 8  # columns of a block; a prime n has none
_BLOCKS = FastPath((nn.Linear, "__call__"), (nn.Embedding, "as_linear"))


def blocked(x: mx.array, weight: mx.array) -> mx.array | None:
    """Return ``x (..., k) @ weight (n, k)ᵀ`` by blocks; None where the whole product is as fast.

    The numbers differ from the whole product's by rounding (1e-6 of the largest).
    """
    n, k = weight.shape
    rows = x.size // k
    if rows > _ROWS or not _pays() or not _BLOCKS.is_open():
        return None
    width = _width(rows, k, n)
    if width == n or mx.default_device() == mx.gpu:
        return None
    if x.dtype != mx.float32 or weight.dtype != mx.float32:
        return None
    blocks = weight.reshape(n // width, width, k).swapaxes(1, 2)
    shape = *x.shape[:-1], n
    if rows == 1:  # the same with fewer operations, of which each takes 3 µs to start
        return (x @ blocks).reshape(shape)
    y = x.reshape(rows, k) @ blocks
    return y.swapaxes(0, 1).reshape(shape)


def product(x: mx.array, weight: mx.array) -> mx.array:
    """Return ``x (..., k) @ weight (n, k)ᵀ``, by blocks where that is faster."""
    y = blocked(x, weight)
    return x @ weight.T if y is None else y


@lru_cache
def _pays() -> bool:
    return backend.core() in _CORES


@lru_cache(maxsize=4096)
def _width(rows: int, k: int, n: int) -> int:
    """Return the columns of a block, a divisor of n; n where that is best."""
    most = min(n, _RESULT // rows, _WORK // (rows * k))
    return next((m for m in range(most, _NARROWEST - 1, -1) if n % m == 0), n)


class Linear(nn.Linear):
    """Multiplies by blocks where that is faster; elsewhere as ``mlx.nn``'s."""

    def __call__(self, x: mx.array) -> mx.array:
        """Return ``x Wᵀ + b``."""
        y = blocked(x, self["weight"])
        if y is None:
            return super().__call__(x)
        return y + self["bias"] if "bias" in self else y


class Embedding(nn.Embedding):
    """Multiplies by blocks where that is faster; elsewhere as ``mlx.nn``'s."""

    def as_linear(self, x: mx.array) -> mx.array:
        """Return ``x Wᵀ``: the output layer that shares the embedding's weights."""
        return product(x, self["weight"])


_QUICKER = {nn.Linear: Linear, nn.Embedding: Embedding}


def quicken(model: nn.Module) -> ExitStack:
    """Let any model's linear layers multiply by blocks, where that pays; elsewhere change nothing.

    ``with quicken(model): ...`` for a while, or ``close()`` the result: the layers, which
    keep their weights and names, get their classes back. Subclasses of ``nn.Linear`` stay.

    Raises:
        ValueError, TypeError: ``model`` is no ``mlx.nn.Module``, or has a layer that is quantised
            or not float32, whose products don't go through the BLAS; nothing has been changed.
    """
    if not isinstance(model, nn.Module):
        raise BadType(f"model must be an mlx.nn.Module, got {type(model).__name__}")
    undo = ExitStack()
    if not _pays() or mx.default_device() == mx.gpu:
        return undo
    plain = []
    for name, layer in model.named_modules():
        kind = type(layer)
        if issubclass(kind, nn.QuantizedLinear | nn.QuantizedEmbedding):
            raise BadValue(f"model must not be quantised, but {name} is a {kind.__name__}")
        if kind not in _QUICKER:
            continue
        if layer.weight.dtype != mx.float32:
            raise BadValue(f"model must be float32, but {name} is {layer.weight.dtype}")
        plain.append(layer)
    for layer in plain:
        kind = type(layer)
        undo.callback(setattr, layer, "__class__", kind)
        layer.__class__ = _QUICKER[kind]
    return undo
