"""Runs a Llama's block whose weights are stored ones in three operations of ours: sooner.

A token of SmolLM2 took as long for fifty small operations a block as for its products. Here all
before the cache is one, and all behind it another; between them few queries read their keys in a
third. ``machine/stored_block.c`` computes them, with a row's own numbers among any others, so that
any number of tokens goes this way, a prompt's, too.

``Block.__call__`` is the definition, and runs all that does not fit here, or has been replaced.
"""

from collections.abc import Mapping
from typing import Any

from lablib.machine import one_order, stored_weights
from lablib.models import kernels
from lablib.models.stored import StoredLinear

import mlx.core as mx

_HEAD = 16  # a head's width is a multiple: each half fills vectors
_QUERIES = 16  # of a row, from which on products of whole matrices read keys faster
Layer = Mapping[str, Any]  # an ``nn.Module``, which is a dict of its weights and parts


def fits(x: mx.array, rotation: kernels.Rotation) -> bool:
    """Return whether ``x (B, T, hidden)`` may go this way, if the weights do."""
    table = rotation.table
    is_ours = x.dtype == mx.float32 and table is not None and rotation.head_dim % _HEAD == 0
    return is_ours and x.size > 0 and stored_weights.block() is not None


def is_ours(block: Layer) -> bool:
    """Return whether all layers of a block keep their weights as stored, and have no bias."""
    mixer, mlp = block["self_attn"], block["mlp"]
    for part in (mixer, mlp):
        for layer in part.values():
            if type(layer) is not StoredLinear or layer.training or "bias" in layer:
                return False
    norms = block["input_layernorm"]["weight"], block["post_attention_layernorm"]["weight"]
    return all(weight.dtype == mx.float32 for weight in norms)


def run(block: Any, x: mx.array, table: kernels.Table, mask: Any, cache: Any) -> mx.array:
    """Return the block of ``x (B, T, hidden)``; ``table`` is the rotation's."""
    ours, mixer, mlp = stored_weights.block(), block["self_attn"], block["mlp"]
    first, last = block["input_layernorm"], block["post_attention_layernorm"]
    inner = mixer["q_proj"], mixer["k_proj"], mixer["v_proj"]
    q, k, v = ours.before(x, first["weight"], *table, *inner, first.eps)
    read = mixer.read(q, k, v, mask, cache, attention)
    outer = mixer["o_proj"], mlp["gate_proj"], mlp["up_proj"], mlp["down_proj"]
    return ours.after(x, read, last["weight"], *outer, last.eps)


def attention(q: mx.array, k: mx.array, v: mx.array, scale: float, mask: Any) -> mx.array:
    """Return what ``kernels.attention`` does, of few queries and keys in float32 in our way."""
    if not _is_few(q, mask) or not k.dtype == v.dtype == mx.float32 or k.shape != v.shape:
        return kernels.attention(q, k, v, scale, mask)
    return stored_weights.block().read(q, k, v, scale, *_masks(mask))


def _is_few(q: mx.array, mask: Any) -> bool:
    """Return whether we read for these queries: with a mask that is one for all heads."""
    if q.shape[2] >= _QUERIES or one_order.blocks:
        return False
    if mask is None or isinstance(mask, str):
        return True
    return mask.dtype == mx.bool_ and (mask.ndim != 4 or mask.shape[1] == 1)


def _masks(mask: Any) -> tuple[bool, mx.array | None]:
    """Return whether a query sees no later key, and which keys it sees otherwise."""
    return (True, None) if isinstance(mask, str) else (False, mask)
