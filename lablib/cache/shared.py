"""Rows of one prompt that keep, and read, its keys and values once.

``kv.expand`` makes N equal rows of one. As soon as each has a token of its own, an ordinary cache
holds the prompt N times, and attention reads it N times for every token. Here the prompt stays one
row beside what each row has added: ``kernels.shared_attention`` reads them.
"""

from typing import Any

from lablib.cache import kv
from lablib.models.kernels import shared_attention

import mlx.core as mx

_STEP = 32  # tokens by which the rows' own part grows; 8 to 64 take as long
_PAYS = 8192  # (n - 1)² · P from which on it does: see ``bench_voting.py sharing``


class SharedPrefix:
    """The cache of one layer: P tokens of a prefix, and t further ones of each of N rows.

    It attends by itself, see ``Attention.__call__``. No token is taken back.
    """

    def __init__(self, prefix: kv.KVCache, rows: int):
        """Let ``rows`` rows begin after ``prefix``, which holds one."""
        keys, values, self.offset = prefix.state
        self._prefix = keys[..., : self.offset, :], values[..., : self.offset, :]  # (1, KV, P, D)
        shapes = [(rows, *part.shape[1:-2], _STEP, part.shape[-1]) for part in self._prefix]
        self._own = kv.KVCache()  # (N, KV, t, D)
        self._own.step, self._own.state = _STEP, (*(mx.zeros(s, keys.dtype) for s in shapes), 0)

    @property
    def state(self) -> tuple[Any, ...]:
        """The arrays: the rows' own, then those that they share."""
        return *self._own.state, *self._prefix

    def attend(
        self, q: mx.array, k: mx.array, v: mx.array, scale: float, mask: mx.array | None
    ) -> mx.array:
        """Take in keys and values ``(N, KV, T, D)``; return what queries ``(N, H, T, D)`` read.

        ``mask`` is from ``make_mask``.
        """
        self.offset += k.shape[2]
        return shared_attention(q * scale, self._prefix, self._own.update_and_fetch(k, v), mask)

    def make_mask(self, length: int, **_: Any) -> mx.array | None:
        """Return which of its row's own tokens each of T new ones sees, ``(T, t)``; None: all."""
        return self._own.make_mask(length, return_array=True, window_size=None)

    def filter(self, index: mx.array) -> None:
        """Keep the rows ``index``."""
        keys, values, length = self._own.state
        self._own.state = keys[index], values[index], length

    def empty(self) -> bool:
        """Return False: there is a prefix."""
        return False

    is_trimmable = empty


def pays(rows: int, length: int) -> bool:
    """Return whether attention is faster if ``rows`` rows share a prefix of ``length`` tokens."""
    return (rows - 1) ** 2 * length >= _PAYS


def fan_out(model: Any, cache: kv.Cache, n: int) -> kv.Cache:
    """Return ``n`` rows equal to the one of ``cache``, which share it where that pays.

    The model must say that its attention lets the cache attend (``cache_attends``), and a layer be
    a ``KVCache``; all others are expanded.
    """
    fanned_out = kv.expand(cache, n)
    if not getattr(model, "cache_attends", False):
        return fanned_out

    def shared(layer: Any) -> bool:
        return type(layer) is kv.KVCache and pays(n, layer.offset)

    pairs = zip(cache, fanned_out, strict=True)
    return [SharedPrefix(layer, n) if shared(layer) else row for layer, row in pairs]
