"""Keep the keys and values of one prompt once for all its rows, and read them once.

``kv.expand`` makes N equal rows of one. As soon as each has a token of its own, an ordinary cache
holds the prompt N times, and attention reads it N times for every token. Here the prompt stays one
row beside each row's own tokens: ``kernels.shared_attention`` reads them.
"""

from typing import Any

from lablib.cache import kv
from lablib.models import kernels

import mlx.core as mx

_STEP = 32  # tokens by which the rows' own part grows; 8 to 64 take as long
_PAYS = 8192  # (n - 1)² · P from which on it does: see ``python -m lablib bench sharing``


class SharedPrefix:
    """Cache one layer: P tokens of a prefix, and t further ones of each of N rows.

    It attends by itself, see ``Attention.__call__``. No token is taken back.
    """

    def __init__(self, prefix: kv.KVCache, rows: int):
        """Let ``rows`` rows begin after ``prefix``, which holds one."""
        self.offset = prefix.offset
        self._prefix = [array[..., : self.offset, :] for array in prefix.state[:2]]  # (1, KV, P, D)
        self._own = kv.KVCache()  # (N, KV, t, D)
        self._own.step = _STEP
        self._own.keys, self._own.values = (
            mx.zeros((rows, part.shape[1], _STEP, part.shape[3]), part.dtype)
            for part in self._prefix
        )

    @property
    def state(self) -> tuple[Any, ...]:
        """Return the arrays: the rows' own, then those that they share."""
        return *self._own.state, *self._prefix

    def attend(
        self, q: mx.array, k: mx.array, v: mx.array, scale: float, mask: mx.array | None
    ) -> mx.array:
        """Take in keys and values ``(N, KV, T, D)``; return the answers to ``q (N, H, T, D)``.

        ``mask`` is from ``make_mask``.
        """
        self.offset += k.shape[2]
        own = self._own.update_and_fetch(k, v)
        return kernels.shared_attention(q * scale, self._prefix, own, mask)

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
    if getattr(model, "cache_attends", False):
        for number, layer in enumerate(cache):
            if type(layer) is kv.KVCache and pays(n, layer.offset):
                fanned_out[number] = SharedPrefix(layer, n)
    return fanned_out
