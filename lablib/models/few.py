"""A Llama's block over a few tokens, in two compiled functions: the same numbers, sooner.

Python takes a quarter of a small model's step to write down the operations, 60 of each layer.
``mx.compile`` writes them down once for each shape and goes through them in C++ from then on.
The weights are arguments of both functions, so one that was replaced or edited in place is seen.

``Block.__call__`` is the definition, and runs whatever does not fit here. ``MOST = 0``: everything.
"""

from typing import Any

from lablib.models.kernels import gated, join_heads, rms_norm, split_heads, turned
from lablib.models.linear import Linear, product

import mlx.core as mx

MOST = 16  # tokens of all rows; beyond, the writing is a small part of the time
# Two norms, then of q, k, v, o, gate, up and down each the weight and the bias, if it has one.
Weights = list[Any]
_NORMS = "input_layernorm", "post_attention_layernorm"
_LAYERS = {
    "self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}


def fits(x: mx.array, past: Any) -> bool:
    """Return whether ``x (B, T, hidden)`` is of few tokens with rotated positions, on a CPU."""
    few = x.size <= MOST * x.shape[-1] and x.dtype == mx.float32
    return few and getattr(getattr(past, "rotation", None), "table", None) is not None


def weights(block: Any) -> Weights | None:
    """Return a block's weights; None if a layer is not ours."""
    layers = [block[part].get(name) for part, names in _LAYERS.items() for name in names]
    if any(type(layer) is not Linear for layer in layers):
        return None
    norms = [block[norm]["weight"] for norm in _NORMS]
    return norms + [(layer["weight"], layer.get("bias")) for layer in layers]


def _linear(x: mx.array, weight: mx.array, bias: mx.array | None) -> mx.array:
    y = product(x, weight)
    return y if bias is None else y + bias


@mx.compile
def before(
    x: mx.array, weights: Weights, eps: float, heads: tuple[int, int],
    table: tuple[mx.array, mx.array],
) -> tuple[mx.array, mx.array, mx.array]:  # fmt: skip
    """Return what attention takes: q, k, v ``(B, H, T, D)``, q and k turned."""
    norm, _, q, k, v, *_ = weights
    flat = rms_norm(x.flatten(0, 1), norm, eps)  # products of matrices need fewer operations
    q, k, v = (
        split_heads(_linear(flat, *layer), *x.shape[:2], n)
        for layer, n in zip((q, k, v), (*heads, heads[1]), strict=True)
    )
    return turned(q, *table), turned(k, *table), v


@mx.compile
def after(x: mx.array, read: mx.array, weights: Weights, eps: float) -> mx.array:
    """Return ``x`` plus what attention ``read (B, H, T, D)``, plus the MLP of that."""
    _, norm, *_, o, gate, up, down = weights
    flat = x.flatten(0, 1) + _linear(join_heads(read).flatten(0, 1), *o)
    y = rms_norm(flat, norm, eps)
    return (flat + _linear(gated(_linear(y, *gate), _linear(y, *up)), *down)).reshape(x.shape)
