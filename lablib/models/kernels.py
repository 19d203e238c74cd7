"""The small operations of a block, each in the form that is fastest on the device at hand.

On a GPU ``mx.fast`` runs each as one kernel. On a CPU it falls back to many small operations, and
an operation on one token costs more to start (2 to 5 µs) than to compute: two RoPEs took 120 µs and
two RMSNorms 50 µs of the 430 µs of a 128-wide layer. So on a CPU the angles are worked out once for
all layers and compiled elementwise functions do the rest, for 20 µs each. (``mx.compile`` calls the
machine's C++ compiler once for a function and keeps the result; without one it runs uncompiled.)
Both forms give the same numbers up to rounding.
"""

import math
from functools import partial

import mlx.core as mx


def on_gpu() -> bool:
    """Whether arrays are computed on a GPU unless said otherwise."""
    return mx.default_device().type == mx.gpu


@partial(mx.compile, shapeless=True)
def swiglu(gate: mx.array, up: mx.array) -> mx.array:
    """``silu(gate) · up``, elementwise (Shazeer 2020, 2002.05202)."""
    return gate * mx.sigmoid(gate) * up


@partial(mx.compile, shapeless=True)
def _scale_rows(
    x: mx.array, square: mx.array, weight: mx.array, width: int, eps: float
) -> mx.array:
    return x * mx.rsqrt(square * (1 / width) + eps) * weight


@partial(mx.compile, shapeless=True)
def _turn(x: mx.array, swapped: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    return x * cos + swapped * sin


def rms_norm(x: mx.array, weight: mx.array, eps: float) -> mx.array:
    """``x / sqrt(mean(x²) + eps) · weight``, last axis (Zhang & Sennrich 2019, 1910.07467)."""
    if on_gpu() or x.dtype != mx.float32:
        return mx.fast.rms_norm(x, weight, eps)
    square = mx.sum(mx.square(x), axis=-1, keepdims=True)
    return _scale_rows(x, square, weight, x.shape[-1], eps)


def split_heads(x: mx.array, n_heads: int) -> mx.array:
    """``(B, T, H·D)`` to ``(B, H, T, D)``; for one token that needs no transposition."""
    batch, length, width = x.shape
    if length == 1:
        return x.reshape(batch, n_heads, 1, width // n_heads)
    return x.reshape(batch, length, n_heads, width // n_heads).swapaxes(1, 2)


def join_heads(x: mx.array) -> mx.array:
    """``(B, H, T, D)`` to ``(B, T, H·D)``."""
    batch, n_heads, length, head_dim = x.shape
    if length > 1:
        x = x.swapaxes(1, 2)
    return x.reshape(batch, length, n_heads * head_dim)


class Rotation:
    """Rotary positions of T tokens (Su et al. 2021, 2104.09864), shared by the layers of a forward.

    Args:
        offset: position of the first token, or one for each row, ``(B,)``.
        length: number of tokens T.
        head_dim: width of a head D; pair i is made of its entries i and i + D/2.
        theta: base of the angles; pair i turns by ``theta^(-2i/D)`` a token.
    """

    def __init__(self, offset: int | mx.array, length: int, head_dim: int, theta: float):
        self.offset, self.head_dim, self.theta = offset, head_dim, theta
        self.table: tuple[mx.array, mx.array] | None = None
        if on_gpu():
            return
        half = head_dim // 2
        speed = mx.exp(mx.arange(half) * (-math.log(theta) / half))
        steps = mx.arange(length)[:, None]
        positions = (
            offset + steps if isinstance(offset, int) else offset[:, None, None, None] + steps
        )
        angle = (positions * speed)[..., None, :]  # (T, 1, D/2) or (B, 1, T, 1, D/2)
        sin = mx.sin(angle)
        self.table = mx.cos(angle), mx.concatenate([-sin, sin], axis=-2)

    def __call__(self, x: mx.array) -> mx.array:
        """Turn queries or keys ``(B, H, T, D)``."""
        if self.table is None or x.dtype != mx.float32:
            return mx.fast.rope(
                x, self.head_dim, traditional=False, base=self.theta, scale=1.0, offset=self.offset
            )
        halves = x.reshape(*x.shape[:-1], 2, self.head_dim // 2)
        return _turn(halves, halves[..., ::-1, :], *self.table).reshape(x.shape)
