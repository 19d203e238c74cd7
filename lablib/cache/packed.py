"""Read different numbers of tokens in the rows of a batch, and compute nothing for the others.

Rows that read 1, 5 and 2 tokens are a rectangle of 3 × 5 to a model: seven of its 15 places are
padding, and cost as much as the rest. All of a block but attention treats each token alike, though,
whatever row it is of. So the tokens lie one after the other here, as one row of eight, and only
attention sees a rectangle (Yu et al., OSDI 2022, "Orca": selective batching).
"""

from collections.abc import Sequence
from typing import Any

from lablib.cache import kv
from lablib.models import kernels
from lablib.models.interface import position_table_of

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import BatchKVCache

_PAYS = 0.6  # the share of a rectangle's places up to which it does


class Packing:
    """The order of packed tokens: what all rows read comes first, then what some read beyond it.

    Of ``counts[row]`` tokens, at least 1, all rows read the first ``common``.

    Attributes:
        order: ``(N,)``, the place of each token in the flattened rectangle ``(B, T)``.
        back: ``(B, T)``, the token of each place; padding has its row's last.
        longer: the rows that read more, and ``beyond (L, T - common)`` is their part of ``back``.
        ends: ``(N - B · common,)``, the place in that part of each token beyond.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self.width, self.common = max(counts), min(counts)
        rows, n = len(counts), np.array(counts)[:, None]
        places = np.arange(rows * self.width).reshape(rows, self.width)
        is_beyond = (np.arange(self.width) < n) & (np.arange(self.width) >= self.common)
        longer = np.flatnonzero(is_beyond.any(axis=1))
        order = [*places[:, : self.common].ravel(), *places[is_beyond]]
        self.row_of, self.column_of = np.divmod(order, self.width)
        token = np.zeros(rows * self.width, np.int64)
        token[order] = np.arange(len(order))
        last = np.minimum(places, places[:, :1] + n - 1)
        back = token[last]
        self.order, self.back, self.longer = map(mx.array, (np.array(order), back, longer))
        self.beyond = self.back[self.longer, self.common :]
        self.ends = mx.array(np.flatnonzero(is_beyond[longer, self.common :]))


class Packed:
    """A layer of a batch for one forward over packed tokens; ``places (N,)`` are their positions.

    Each row gets as many entries as the longest: those of padding are to be taken back.
    """

    def __init__(self, layer: BatchKVCache, packing: Packing, places: np.ndarray) -> None:
        self._layer = layer
        self._packing = packing
        self.places = places

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def make_mask(self, length: int, **how: Any) -> mx.array:
        """Return which entries each place of the rectangle sees."""
        return self._layer.make_mask(self._packing.width, **how | {"return_array": True})

    def attend(
        self, q: mx.array, k: mx.array, v: mx.array, scale: float, mask: mx.array
    ) -> mx.array:
        """Take in keys and values ``(1, KV, N, D)``; return the answers to ``q (1, H, N, D)``."""
        packing, common = self._packing, self._packing.common
        q, k, v = (x[0].swapaxes(0, 1) for x in (q, k, v))  # (N, heads, D)
        new = (x[packing.back].swapaxes(1, 2) for x in (k, v))
        k, v = self._layer.update_and_fetch(*new)
        n = len(mask) * common
        first = q[:n].reshape(-1, common, *q.shape[1:]).swapaxes(1, 2)
        read = kernels.attention(first, k, v, scale, mask[:, :, :common])
        longer = packing.longer
        beyond = q[packing.beyond].swapaxes(1, 2)
        more = kernels.attention(beyond, k[longer], v[longer], scale, mask[longer, :, common:])
        parts = (x.swapaxes(1, 2).flatten(0, 1) for x in (read, more))
        out, beyond = parts
        return mx.concatenate([out, beyond[packing.ends]]).swapaxes(0, 1)[None]


def pays(model: Any, cache: kv.Cache, counts: Sequence[int]) -> bool:
    """Return whether rows had better be packed, and the model and its cache let them be."""
    return (
        sum(counts) <= _PAYS * len(counts) * max(counts)
        and getattr(model, "cache_attends", False)
        and getattr(model, "reads_trees", False)
        and position_table_of(model) is None
        and all(type(layer) is BatchKVCache for layer in cache)
    )


def forward(
    model: Any,
    tokens: mx.array,
    cache: kv.Cache,
    counts: Sequence[int],
    positions: Sequence[int],
) -> mx.array:
    """Return the logits ``(B, T, V)`` of ``tokens (B, T)``, of which ``counts[row]`` are read.

    Logits of padding are those of its row's last token. The rows begin at ``positions``.
    """
    packing = Packing(counts)
    places = np.array(positions)[packing.row_of] + packing.column_of
    layers = [Packed(layer, packing, places) for layer in cache]
    logits = model(tokens.flatten()[packing.order][None], cache=layers)
    return logits[0][packing.back]
