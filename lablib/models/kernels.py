"""Holds the small operations of a block, each in the form that is fastest on the device at hand.

On a GPU ``mx.fast`` runs each as one kernel. On a CPU it falls back to many small operations, and
an operation on one token costs more to start (2 to 5 µs) than to compute: two RoPEs took 120 µs and
two RMSNorms 50 µs of the 430 µs of a 128-wide layer. So on a CPU the angles are worked out once for
all layers and compiled elementwise functions do the rest, for 20 µs each. (``mx.compile`` calls the
machine's C++ compiler once for a function and keeps the result; without one it runs uncompiled.)
Both forms give the same numbers up to rounding.

On Linux MLX takes ``exp`` one number at a time, 14 ns each, and a power in 5, with half the error.
"""

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from lablib.machine import one_order

import mlx.core as mx
import numpy as np

_elementwise = partial(mx.compile, shapeless=True)
_custom: Any = mx.custom_function  # MLX's hints say that what it makes returns an object

_MANY = 16  # queries, from which on the time of a softmax is in its numbers
_SCORES = 2**14  # the same, counted in scores of all queries
_MOST = 2**19  # scores of a head, beyond which they are worked on in parts
_PART = 2**17  # scores of a head in a part: those of all heads stay in a processor's cache


def _is_ours(x: mx.array) -> bool:
    """Return whether the forms of this file are for ``x``: in float32, on a CPU."""
    return x.dtype == mx.float32 and mx.default_device() != mx.gpu


def exp(x: mx.array) -> mx.array:
    """Return ``e^x``: as a power, where that is faster (and e has more than three digits)."""
    return mx.power(math.e, x) if _is_ours(x) else mx.exp(x)


@_elementwise
def gated(gate: mx.array, up: mx.array) -> mx.array:
    """Return ``silu(gate) · up``, elementwise (Shazeer 2020, 2002.05202)."""
    opposite = exp(mx.minimum(-gate, 80))  # so that no gradient is ∞ / ∞
    return gate * up / (1 + opposite)


swiglu = _custom(gated)  # the same with quicker gradients, for two operations more


@swiglu.vjp
def _swiglu_vjp(
    inputs: tuple[mx.array, mx.array], d: mx.array, _: mx.array
) -> tuple[mx.array, mx.array]:
    return _swiglu_gradients(*inputs, d)


@_elementwise
def _swiglu_gradients(gate: mx.array, up: mx.array, d: mx.array) -> tuple[mx.array, mx.array]:
    sigmoid = 1 / (1 + exp(-gate))
    slope = sigmoid * (1 + gate * (1 - sigmoid))
    return d * up * slope, d * gate * sigmoid


def rms_norm(x: mx.array, weight: mx.array, eps: float) -> mx.array:
    """Return ``x / sqrt(mean(x²) + eps) · weight``, last axis (Zhang & Sennrich, 1910.07467)."""
    if not _is_ours(x):
        return mx.fast.rms_norm(x, weight, eps)
    square = mx.sum(mx.square(x), axis=-1, keepdims=True)
    return _scale(x, square, weight, x.shape[-1], eps)


@_elementwise
def _scale(x: mx.array, square: mx.array, weight: mx.array, width: int, eps: float) -> mx.array:
    return x * mx.rsqrt(square * (1 / width) + eps) * weight


def attention(
    q: mx.array, k: mx.array, v: mx.array, scale: float, mask: mx.array | str | None
) -> mx.array:
    """Return ``softmax(scale · q kᵀ + mask) v``: ``mx.fast``'s, or ours where that pays.

    ``q`` and the result are ``(B, H, T, D)``, ``k`` and ``v`` ``(B, KV, S, D)``, KV a divisor
    of H. ``mask`` is True where a query sees a key, "causal", or None. A query that sees nothing,
    as left padding does, gets finite numbers.
    """
    batch, heads, length, width = q.shape
    kv_heads, seen = k.shape[1:3]
    if length < _MANY or not _is_ours(q) or one_order.blocks:
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)
    if length * seen > _MOST:
        return _in_parts(q * scale, k, v, mask)
    groups = batch, kv_heads, heads // kv_heads, length
    queries = (q * scale).reshape(*groups, width)
    scores = queries @ k[:, :, None].swapaxes(-1, -2)
    if isinstance(mask, str):
        mask = _causal(length, seen)
    scores = _masked(scores, mask)
    out = _softmax(scores) @ v[:, :, None]
    return out.reshape(q.shape)


def _in_parts(q: mx.array, k: mx.array, v: mx.array, mask: mx.array | str | None) -> mx.array:
    """Return the same for long texts, some queries at a time; ``q`` is scaled.

    All scores of 512 queries and 4,096 keys are 75 MB with nine heads, and each of six operations
    would read and write them. A part's stay in the cache. Weights are divided by their sum after
    the product, D numbers a query in place of S; a column of ones beside the values adds them up.
    """
    batch, _, length, width = q.shape
    kv_heads, seen = k.shape[1:3]
    keys = k[:, :, None].swapaxes(-1, -2)
    values = mx.concatenate([v, mx.ones((*v.shape[:3], 1))], axis=-1)[:, :, None]
    see: mx.array | None
    step, read = max(_MANY, _PART // seen), []
    for first in range(0, length, step):
        part = q[:, :, first : first + step]
        rows = part.shape[2]
        if isinstance(mask, str):
            last = seen - length + first + rows  # no query of this part sees what is after it
            see = _causal(rows, last)
        else:
            last, see = seen, None if mask is None else mask[..., first : first + rows, :]
        scores = part.reshape(batch, kv_heads, -1, rows, width) @ keys[..., :last]
        scores = _masked(scores, see)
        largest = mx.maximum(mx.max(scores, axis=-1, keepdims=True), -1e30)  # as in _softmax
        out = exp(scores - largest) @ values[..., :last, :]
        read.append((out[..., :-1] / mx.maximum(out[..., -1:], 0.5)).reshape(part.shape))
    return mx.concatenate(read, axis=2)


def _causal(queries: int, keys: int) -> mx.array:
    """Return where the last queries of a text see its keys, ``(queries, keys)``."""
    return mx.arange(keys) <= mx.arange(keys - queries, keys)[:, None]


def _masked(scores: mx.array, mask: mx.array | None) -> mx.array:
    """Return scores ``(B, KV, H/KV, T, S)`` with -inf where a query doesn't see a key."""
    if mask is None:
        return scores
    if mask.ndim == 4:
        groups = (1, 1) if mask.shape[1] == 1 else scores.shape[1:3]
        mask = mask.reshape(mask.shape[0], *groups, *mask.shape[2:])
    return mx.where(mask, scores, -mx.inf)


@_custom
def _softmax(scores: mx.array) -> mx.array:
    # A query that sees nothing has -inf everywhere: its gaps must not be NaN, nor 0/0 its weights,
    # which the next layer's 0 · NaN would spread to those that do. All others' sum is 1 or more.
    largest = mx.max(scores, axis=-1, keepdims=True)
    weights = exp(scores - mx.maximum(largest, -1e30))
    total = mx.sum(weights, axis=-1, keepdims=True)
    return weights / mx.maximum(total, 0.5)


@_softmax.vjp
def _softmax_vjp(_: mx.array, d: mx.array, p: mx.array) -> mx.array:
    mean = mx.sum(d * p, axis=-1, keepdims=True)
    return p * (d - mean)


def shared_attention(
    q: mx.array, prefix: Sequence[mx.array], own: Sequence[mx.array], mask: mx.array | None = None
) -> mx.array:
    """Return ``softmax(q kᵀ) v`` of N rows over a prefix that they share and their own tokens.

    All rows' queries stand together before the prefix, which is read once and not N times (Juravsky
    et al. 2024, "Hydragen", 2402.05099). Of a key's D numbers a score is one: so one softmax over
    the scores of both parts costs less than a softmax of each and a merger of their results.

    ``q (N, H, T, D)`` has been scaled. Keys and values are ``(1, KV, P, D)`` of the ``prefix``,
    ``(N, KV, t, D)`` of the rows; ``mask (T, t)`` is True where a query sees an own key, None means
    everywhere. The numbers are those of ``attention`` over all P + t keys, up to rounding.
    """
    prefix_k, prefix_v = prefix
    k, v = own
    rows, kv_heads = k.shape[:2]
    alone = q.reshape(rows, kv_heads, -1, q.shape[-1])  # the queries that read the same keys
    scores = alone @ k.swapaxes(-1, -2)
    if mask is not None:
        seen = mx.tile(mask, (q.shape[1] // kv_heads, 1))
        scores = mx.where(seen, scores, -mx.inf)
    shared = _by_head(alone) @ prefix_k[0].swapaxes(-1, -2)  # one product for all rows
    scores = mx.concatenate([_by_row(shared, rows), scores], axis=-1)
    if scores.size >= _SCORES and _is_ours(scores) and not one_order.blocks:
        weights = _softmax(scores)
    else:
        weights = mx.softmax(scores, axis=-1, precise=True)
    shared, weights = mx.split(weights, [prefix_k.shape[2]], axis=-1)
    read = _by_head(shared) @ prefix_v[0]
    out = _by_row(read, rows)
    out = mx.addmm(out, weights, v) if one_order.blocks else out + weights @ v  # or sums go on
    return out.reshape(q.shape)


def _by_head(x: mx.array) -> mx.array:
    """Return ``(N, KV, R, ...)`` as ``(KV, N·R, ...)``."""
    return x.swapaxes(0, 1).flatten(1, 2)


def _by_row(x: mx.array, rows: int) -> mx.array:
    """Return ``(KV, N·R, ...)`` as ``(N, KV, R, ...)``."""
    return mx.unflatten(x, 1, (rows, -1)).swapaxes(0, 1)


def split_heads(x: mx.array, batch: int, length: int, n_heads: int) -> mx.array:
    """Return B · T rows of H·D as ``(B, H, T, D)``; for one token that needs no transposition."""
    if length == 1:
        return x.reshape(batch, n_heads, 1, -1)
    return x.reshape(batch, length, n_heads, -1).swapaxes(1, 2)


def join_heads(x: mx.array) -> mx.array:
    """Return ``(B, H, T, D)`` as ``(B, T, H·D)``."""
    batch, n_heads, length, head_dim = x.shape
    if length > 1:
        x = x.swapaxes(1, 2)
    return x.reshape(batch, length, n_heads * head_dim)


@lru_cache
def _speed(half: int, theta: float) -> np.ndarray:
    """Return the angles that the pairs of a head turn by for each token, to MLX's last digit."""
    slower = -math.log(theta) / half
    return np.array(mx.exp(mx.arange(half) * slower))


Table = tuple[mx.array, mx.array]  # the cosines and the sines of a rotation


class Rotation:
    """Turns queries and keys by their positions (RoPE, Su et al. 2021, 2104.09864).

    The layers of a forward share it. Entries i and i + D/2 of a head of width D are a pair, which
    turns by ``theta^(-2i/D)`` a token. ``offset`` is the position of the first of ``length``
    tokens, or one for each row, ``(B,)``; or a NumPy array ``(T,)``: the position of each token.
    """

    def __init__(
        self, offset: int | mx.array | np.ndarray, length: int, head_dim: int, theta: float
    ) -> None:
        self._first = 0 if isinstance(offset, np.ndarray) else offset
        self.head_dim = head_dim
        self.theta = theta
        self.table: Table | None = None
        self.per_row = isinstance(offset, np.ndarray)
        if mx.default_device() != mx.gpu or self.per_row:
            kept = length <= 16 and not one_order.blocks  # anew it takes 10 to 100 µs
            if isinstance(offset, int) and kept:
                self.table = _kept_table(offset, length, head_dim // 2, theta)
            else:
                self.table = _table(offset, length, head_dim // 2, theta)

    def __call__(self, x: mx.array) -> mx.array:
        """Return queries or keys ``(B, H, T, D)``, turned."""
        if self.table is None or (x.dtype != mx.float32 and not self.per_row):
            return mx.fast.rope(
                x,
                self.head_dim,
                traditional=False,
                base=self.theta,
                scale=1.0,
                offset=self._first,
            )
        return turned(x, *self.table).astype(x.dtype)


def _table(offset: int | mx.array | np.ndarray, length: int, half: int, theta: float) -> Table:
    """Return the cosines ``([B, 1,] T, 1, D/2)`` and the sines, with both signs, of the angles."""
    # Numbers are turned into angles where they are: NumPy's cosines may differ in the last bit.
    xp = mx if isinstance(offset, mx.array) or one_order.blocks else np
    if isinstance(offset, np.ndarray):
        positions = xp.array(offset)
    else:
        first = offset[:, None, None] if isinstance(offset, mx.array) else offset
        positions = first + xp.arange(length, dtype=xp.float32)
    angle = positions[..., None, None] * xp.array(_speed(half, theta))
    sin = xp.sin(angle)
    both = xp.concatenate([-sin, sin], axis=-2)
    return mx.array(xp.cos(angle)), mx.array(both)


_kept_table = lru_cache(maxsize=2048)(_table)  # all texts have the same positions


def turned(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Return queries or keys ``(B, H, T, D)``, turned by the angles of a ``Rotation``'s table."""
    halves = mx.unflatten(x, -1, (2, -1))
    swapped = halves[..., ::-1, :]
    return _turn(halves, swapped, cos, sin).reshape(x.shape)


@_elementwise
def _turn(x: mx.array, swapped: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    return x * cos + swapped * sin
