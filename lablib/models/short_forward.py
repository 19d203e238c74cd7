"""Runs a Llama's block over a few tokens in two compiled functions: the same numbers, sooner.

Python takes a quarter of a small model's step to write down the operations, 60 of each layer.
``mx.compile`` writes them down once for each shape and goes through them in C++ from then on.
The layers are arguments of both functions, so a weight that was replaced or edited in place is
seen.

``Block.__call__`` is the definition, and runs all that does not fit here, or has been replaced.
"""

from collections.abc import Mapping
from typing import Any

from lablib.models.kernels import Rotation, gated, join_heads, rms_norm, split_heads, turned
from lablib.models.stored import StoredLinear, is_open, multiplied

import mlx.core as mx
import mlx.nn as nn

MOST = 16  # tokens of all rows; beyond, the writing is a small part of the time
Layer = Mapping[str, Any]  # an ``nn.Module``, which is a dict of its weights and parts
_LAYERS = {
    "self_attn": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "mlp": ("gate_proj", "up_proj", "down_proj"),
}


def fits(x: mx.array, rotation: Rotation) -> bool:
    """Return whether ``x (B, T, hidden)`` is of few tokens, in float32, on a CPU."""
    is_short = x.size <= MOST * x.shape[-1]
    return is_short and x.dtype == mx.float32 and rotation.table is not None


def is_ours(block: Layer) -> bool:
    """Return whether all layers of a block are plain ones, or keep their weights as stored."""
    layers = [block[part].get(name) for part, names in _LAYERS.items() for name in names]
    others = [layer for layer in layers if type(layer) is not nn.Linear]
    if not all(type(layer) is StoredLinear and not layer.training for layer in others):
        return False
    return not others or is_open()


def _linear(x: mx.array, layer: Layer) -> mx.array:
    y = multiplied(x, layer) if "codes" in layer else x @ layer["weight"].T
    return y + layer["bias"] if "bias" in layer else y


@mx.compile
def before(
    x: mx.array,
    norm: Layer,
    mixer: Layer,
    eps: float,
    heads: tuple[int, int],
    table: tuple[mx.array, mx.array],
) -> tuple[mx.array, mx.array, mx.array]:
    """Return attention's input: q, k and v ``(B, H, T, D)``, q and k turned."""
    n_heads, n_kv_heads = heads
    batch, length, _ = x.shape
    flat = rms_norm(x.flatten(0, 1), norm["weight"], eps)  # two axes need fewer operations
    q = split_heads(_linear(flat, mixer["q_proj"]), batch, length, n_heads)
    k = split_heads(_linear(flat, mixer["k_proj"]), batch, length, n_kv_heads)
    v = split_heads(_linear(flat, mixer["v_proj"]), batch, length, n_kv_heads)
    return turned(q, *table), turned(k, *table), v


@mx.compile
def after(
    x: mx.array, read: mx.array, output: Layer, norm: Layer, mlp: Layer, eps: float
) -> mx.array:
    """Return ``x`` plus the values that attention ``read (B, H, T, D)``, plus the MLP of both."""
    flat = x.flatten(0, 1) + _linear(join_heads(read).flatten(0, 1), output)
    y = rms_norm(flat, norm["weight"], eps)
    inner = gated(_linear(y, mlp["gate_proj"]), _linear(y, mlp["up_proj"]))
    return (flat + _linear(inner, mlp["down_proj"])).reshape(x.shape)
