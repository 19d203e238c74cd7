"""Sums over a vocabulary: what is small and often there counts, whatever stands before it.

On a CPU MLX adds a row one after another, so that float32 loses each weight below half a digit of
the sum so far: at 262,144 tokens 5e-4 of a sum (mlx 0.32.4; ``mx.softmax`` and ``mx.logsumexp``,
too). Up to ``SMALL`` tokens that is what runs here as well, so that no seed's text changes: it
loses 1e-7 as a rule, and 2^-24 for each token of a flat tail behind a likely one. Beyond:

- ``total`` adds in fours, ⌈log4 V⌉ times over. So each number is rounded at most 27 times at
  262,144 tokens, a sum of positive numbers is within 27 · 2^-24 = 1.6e-6 of itself (seen: 1e-7),
  and it takes half the time.
- ``running``, ``before`` and ``grains`` make whole numbers of weights. *Their* sums are exact in
  any order, on any device, and the same with and without tokens of weight 0. A weight loses less
  than 2^-43, so V tokens together V · 2^-43, 3e-8 at 262,144; of ``grains`` see there.
"""

from functools import partial
from typing import Any

import mlx.core as mx

SMALL = 2048  # tokens
UNIT = 2.0**43  # with it 2^20 weights add up to 2^63

_four = partial(mx.sum, axis=-2)


def total(x: mx.array) -> mx.array:
    """Return the sum of each row ``(..., 1)``."""
    if x.shape[-1] <= SMALL:
        return mx.sum(x, axis=-1, keepdims=True)
    return in_fours(x)


def in_fours(x: mx.array) -> mx.array:
    """Return the sum of each row ``(..., 1)``, of rows of any length."""
    while x.shape[-1] > 1:
        x = filled(x, 4)
        x = _four(x.reshape(*x.shape[:-1], 4, x.shape[-1] // 4))
    return x


def filled(x: mx.array, n: int) -> mx.array:
    """Append zeros to rows ``(..., V)``, up to a multiple of ``n``."""
    missing = -x.shape[-1] % n
    return mx.pad(x, [*[(0, 0)] * (x.ndim - 1), (0, missing)]) if missing else x


def choose(weights: mx.array, u: mx.array) -> tuple[mx.array, mx.array]:
    """Choose one of the weights ``(N, K)`` by 64 bits ``(N, 1)``, in whole numbers.

    Where ``u`` is within the part that is chosen is as random as ``u`` was: that is returned, too.
    """
    own = grains(weights)
    ends = mx.cumsum(own, axis=-1)
    everything = ends[:, -1:]  # 2^31, nearly
    low, high = u & 0xFFFFFFFF, u >> 32
    point = high * everything + (low * everything >> 32)  # with 32 binary digits behind the point
    index = mx.argmax(ends > point >> 32, axis=-1, keepdims=True)
    own, end = (mx.take_along_axis(x, index, axis=-1) for x in (own, ends))
    left = point - (end - own << 32)
    return index, left // mx.maximum(own, 1) << 32


def grains(weights: mx.array) -> mx.array:
    """Return whole numbers that are proportional to weights ``(N, K)``, 2^31 in all, as uint64.

    They are the same with and without other weights of 0. Below half a grain it is none.
    """
    shares = weights / mx.max(weights, axis=-1, keepdims=True)
    mass = mx.sum(_counted(shares), axis=-1, keepdims=True).astype(mx.float32)
    return mx.maximum(mx.round(shares * (UNIT * 2.0**31 / mass)), 0).astype(mx.uint64)


def running(weights: mx.array, **how: Any) -> mx.array:
    """Return ``mx.cumsum`` of weights ``(..., V)`` whose sum is below 2^19."""
    sums = before(weights, weights.shape[-1], **{"inclusive": True, **how})
    return sums if sums.dtype == weights.dtype else sums.astype(mx.float32) / UNIT


def before(weights: mx.array, size: int, **how: Any) -> mx.array:
    """Return the sum before each of the weights ``(..., K)``, some of ``size``; see ``share``."""
    if size > SMALL:
        weights = _counted(weights)
    return mx.cumsum(weights, axis=-1, **{"inclusive": False, **how})


def share(weights: mx.array, p: float | mx.array) -> mx.array:
    """Return ``p`` of the sum of weights ``(..., V)``, as ``before`` counts; never nothing."""
    if weights.shape[-1] <= SMALL:
        return p * total(weights)
    units = mx.sum(_counted(weights), axis=-1, keepdims=True)
    part = (mx.array(p, mx.float32) * 2.0**24).astype(mx.int64)
    return mx.maximum((units >> 24) * part + ((units & 0xFFFFFF) * part >> 24), 1)


def _counted(weights: mx.array) -> mx.array:
    return (weights * UNIT).astype(mx.int64)


def softmax(scores: mx.array) -> mx.array:
    """Return the probabilities ``(..., V)``; of scores that are not finite NaN, as MLX does."""
    p = mx.softmax(scores, axis=-1)
    return p if p.shape[-1] <= SMALL else p / total(p)
