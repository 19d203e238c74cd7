"""Retention: a token mixer whose memory has a fixed size, and a hybrid of it with attention.

A head keeps one matrix. Each token fades it, adds its own key-value product, and reads it with its
query (Sun et al. 2023, "Retentive Network", 2307.08621)::

    S_t = g · S_{t-1} + k_tᵀ v_t        o_t = q_t S_t

Unrolled, ``o_t = Σ_{s≤t} g^(t-s) (q_t·k_s) v_s``: attention with a fading mask in place of the
softmax. So a prompt is read in parallel, a chunk at a time, and a new token costs the same however
long the text is. The rotation of queries and keys in the paper is left out: the fading is itself a
position signal, and the attention layers of the hybrid carry the exact order.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from lablib.models.config import ATTENTION, RETENTION, ModelConfig
from lablib.models.kernels import join_heads, rms_norm, split_heads, swiglu
from lablib.models.linear import Linear
from lablib.models.llama import llama_config
from lablib.validation import integer

import mlx.core as mx
import mlx.nn as nn

CHUNK = 128  # tokens read in parallel: each head has a fading mask of (CHUNK, CHUNK)


def hybrid_config(
    vocab_size: int, d_model: int, n_heads: int, n_layers: int, *,
    attention_every: int = 3, **llama_options: Any,
) -> ModelConfig:  # fmt: skip
    """Return the config of a Llama in which retention stands in for most attention layers.

    A layer whose number (from 1) ``attention_every`` divides is attention: 1 makes it all of them,
    a number above ``n_layers`` none. The other arguments are those of ``llama_config``.
    """
    integer("attention_every", attention_every, minimum=1)
    numbers = range(1, integer("n_layers", n_layers, minimum=1) + 1)
    kinds = [RETENTION if number % attention_every else ATTENTION for number in numbers]
    config = llama_config(vocab_size, d_model, n_heads, n_layers, **llama_options)
    return replace(config, layer_types=kinds)


def log_decay(n_heads: int) -> mx.array:
    """Return ``log g`` of each head, ``(H,)``: the heads remember 8 up to 256 tokens."""
    spans = [2 ** (3 + 5 * head / max(n_heads - 1, 1)) for head in range(n_heads)]
    return mx.array([math.log1p(-1 / span) for span in spans])


@dataclass(frozen=True)
class Fading:
    """Tell how much of what is left when, in one chunk of C tokens; every part is ``g`` to a power.

    There is one row when no token is padding. Padding neither fades the state nor adds to it.
    """

    within: mx.array  # (B|1, H, C, C): what token t still sees of token s; 0 for s > t
    carry: mx.array  # (B|1, H, C, 1): what token t still sees of the state before the chunk
    rest: mx.array  # (B|1, H, C, 1): what is left of token s after the chunk
    keep: mx.array  # (B|1, H, 1, 1): what is left of the state after the chunk


def fadings(n_heads: int, length: int, mask: mx.array | None = None) -> list[Fading]:
    """Return the :class:`Fading` of each chunk of T = ``length`` tokens; all layers share it.

    ``mask (B, T)`` is False for padding; None means no padding.
    """
    log_g = log_decay(n_heads)[:, None, None]
    chunks: list[Fading] = []
    for start in range(0, length, CHUNK):
        size = min(CHUNK, length - start)
        if mask is None and chunks and size == CHUNK:
            chunks.append(chunks[0])
            continue
        real = mx.ones((1, size)) if mask is None else mask[:, start : start + size]
        real = real.astype(mx.float32)
        age = mx.cumsum(real, axis=1)  # real tokens so far
        then, now = age[:, None, None, :], age[:, None, :, None]
        seen = (real[:, None, None, :] > 0) & mx.tri(size, dtype=mx.bool_)
        end = now[:, :, -1:, :]
        within = mx.where(seen, mx.exp(log_g * mx.maximum(now - then, 0)), 0)
        rest = mx.exp(log_g * (end - now)) * real[:, None, :, None]
        chunks.append(Fading(within, mx.exp(log_g * now), rest, mx.exp(log_g * end)))
    return chunks


def retain(
    q: mx.array, k: mx.array, v: mx.array, state: mx.array | None, chunks: list[Fading]
) -> tuple[mx.array, mx.array]:
    """Read T tokens, chunk by chunk; return outputs ``(B, H, T, D)`` and the state after the last.

    ``q``, ``k`` and ``v`` have the shape of the outputs. ``state (B, H, D, D)``, float32, is what
    the tokens before left; None before the first one. ``chunks`` are those of :func:`fadings`.
    """
    outputs, start = [], 0
    for fading in chunks:
        part = slice(start, start + fading.carry.shape[2])
        start = part.stop
        q_c, k_c, v_c = q[:, :, part], k[:, :, part], v[:, :, part]
        out = ((q_c @ k_c.swapaxes(-1, -2)) * fading.within.astype(q.dtype)) @ v_c
        added = (k_c * fading.rest.astype(k.dtype)).swapaxes(-1, -2) @ v_c
        if state is not None:
            out = out + fading.carry.astype(q.dtype) * (q_c @ state.astype(q.dtype))
            added = added + fading.keep * state
        state = added.astype(mx.float32)
        outputs.append(out)
    return (outputs[0] if len(outputs) == 1 else mx.concatenate(outputs, axis=2)), state


def retain_one(
    q: mx.array, k: mx.array, v: mx.array, state: mx.array | None, decay: mx.array
) -> tuple[mx.array, mx.array]:
    """Take one step: :func:`retain` for T = 1 without padding; ``decay (H, 1, 1)`` is ``g``."""
    added = (k.swapaxes(-1, -2) * v).astype(mx.float32)
    state = added if state is None else decay * state + added
    return q @ state.astype(q.dtype), state


class Retention(nn.Module):
    """Multi-scale retention with an output gate; its state is one entry of an ``ArraysCache``."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.n_heads, self.head_dim = config.num_attention_heads, config.head_dim
        self.eps, width = config.rms_norm_eps, self.n_heads * self.head_dim
        # Constants, evaluated here so that any thread may use them.
        self._ones = mx.array([1.0] * config.head_dim)
        self._decay = mx.exp(log_decay(self.n_heads))[:, None, None]
        mx.eval(self._ones, self._decay)
        self.q_proj = Linear(config.hidden_size, width, bias=config.attention_bias)
        self.k_proj = Linear(config.hidden_size, width, bias=config.attention_bias)
        self.v_proj = Linear(config.hidden_size, width, bias=config.attention_bias)
        self.g_proj = Linear(config.hidden_size, width, bias=config.attention_bias)
        self.o_proj = Linear(width, config.hidden_size, bias=config.attention_bias)

    def __call__(self, x: mx.array, chunks: list[Fading] | None, cache: Any = None) -> mx.array:
        """Mix ``x (B, T, hidden)``; ``chunks`` None takes the recurrent form, for T = 1."""
        q = split_heads(self.q_proj(x), *x.shape[:2], self.n_heads) * self.head_dim**-0.5
        k = split_heads(self.k_proj(x), *x.shape[:2], self.n_heads)
        v = split_heads(self.v_proj(x), *x.shape[:2], self.n_heads)
        state = None if cache is None else cache[0]
        if chunks is None:
            out, state = retain_one(q, k, v, state, self._decay)
        else:
            out, state = retain(q, k, v, state, chunks)
        if cache is not None:
            cache[0] = state
            cache.advance(x.shape[1])
        # A norm for each head keeps the heads on one scale, however much their memories hold.
        out = join_heads(rms_norm(out, self._ones.astype(out.dtype), self.eps))
        return self.o_proj(swiglu(self.g_proj(x), out))
