"""A head's guess after a few tokens, in two compiled functions: the same numbers, sooner.

On few tokens the time goes into writing down and starting operations. ``models/few.py`` spares the
writing in a block that may stand anywhere; of a head we know more: it has one block, which a text
begins with and keeps. So matrices that read the same are put together into one product, and of
several tokens only the last goes on once the cache has their keys and values.

``DraftHead.__call__`` is the definition, and runs whatever does not fit here.
"""

from collections.abc import Callable
from typing import Any

from lablib.models import few
from lablib.models.base import RMSNorm
from lablib.models.head import DraftHead
from lablib.models.kernels import Rotation, gated, join_heads, rms_norm, split_heads, turned
from lablib.models.linear import Embedding, Linear, product

import mlx.core as mx

Step = Callable[[mx.array, mx.array], mx.array]


def steps(head: DraftHead, cache: list[Any]) -> Step:
    """Return ``(states (1, T, hidden), tokens (1, T)) -> head(states, tokens, cache)[:, -1:]``.

    Meant for one text: the weights are read here. ``cache`` is of ``head.make_cache()``.
    """

    def plain(states: mx.array, tokens: mx.array) -> mx.array:
        return head(states, tokens, cache)[:, -1:]

    weights = _weights(head)
    if weights is None or mx.default_device() == mx.gpu:
        return plain
    block, (layer,) = head.blocks.layers[0], cache
    turn, read = (head.shape.head_dim, head.shape.rope_theta), block.self_attn.read
    heads = block.self_attn.n_heads, block.self_attn.n_kv_heads
    first, *rest = (norm.eps for norm in _norms(head))

    def step(states: mx.array, tokens: mx.array) -> mx.array:
        n = tokens.size
        if n > few.MOST or states.dtype != mx.float32:
            return plain(states, tokens)
        angles = Rotation(layer.offset, n, *turn).table
        x, q, k, v = _before(states, tokens, weights[:4], first, heads, angles)
        return _after(x, read(q, k, v, None, layer), weights[4:], *rest)

    return step


def _norms(head: DraftHead) -> tuple[Any, Any, Any]:
    block = head.blocks.layers[0]
    return block.input_layernorm, block.post_attention_layernorm, head.blocks.norm


def _weights(head: DraftHead) -> list[mx.array] | None:
    """Return the weights in the order of their use; None if a part is not ours, or has a bias."""
    block, embedding = head.blocks.layers[0], head.target.model.embed_tokens
    ours = {type(norm) for norm in _norms(head)} == {RMSNorm} and type(embedding) is Embedding
    found = few.weights(block) if ours and type(head.join) is Linear else None
    if found is None or any(bias is not None for _, bias in found[2:]):
        return None
    before, after, (q, _), (k, _), (v, _), (o, _), (gate, _), (up, _), (down, _) = found
    inner = [before, mx.concatenate([q, k, v]), o, after, mx.concatenate([gate, up]), down]
    return [embedding["weight"], head.join["weight"], *inner, head.blocks.norm["weight"]]


@mx.compile
def _before(
    states: mx.array, tokens: mx.array, weights: list[mx.array], eps: float,
    heads: tuple[int, int], angles: tuple[mx.array, mx.array],
) -> tuple[mx.array, ...]:  # fmt: skip
    """Return what goes into the block, and what its attention takes: q, k, v ``(1, H, T, D)``.

    Of the input and of q only the last token's.
    """
    table, join, norm, qkv = weights
    x = product(mx.concatenate([states, table[tokens]], axis=-1), join)
    y = product(rms_norm(x.flatten(0, 1), norm, eps), qkv)
    turns = sum(heads)
    y = split_heads(y, *tokens.shape, turns + heads[1])
    qk = turned(y[:, :turns], *angles)
    return x[:, -1:], qk[:, : heads[0], -1:], qk[:, heads[0] :], y[:, turns:]


@mx.compile
def _after(
    x: mx.array, read: mx.array, weights: list[mx.array], eps: float, last: float
) -> mx.array:
    """Return the state ``(1, 1, hidden)``, from what attention ``read (1, H, 1, D)``."""
    o, norm, gate_up, down, final = weights
    flat = x.flatten(0, 1) + product(join_heads(read).flatten(0, 1), o)
    gate, up = mx.split(product(rms_norm(flat, norm, eps), gate_up), 2, axis=-1)
    flat = flat + product(gated(gate, up), down)
    return rms_norm(flat, final, last).reshape(x.shape)
