"""Defines retention, a token mixer whose memory has a fixed size, and its hybrid with attention.

A head keeps one matrix. Each token fades it, adds its own key-value product, and reads it with its
query (Sun et al. 2023, "Retentive Network", 2307.08621)::

    S_t = g · S_{t-1} + k_tᵀ v_t        o_t = q_t S_t

Unrolled, ``o_t = Σ_{s≤t} g^(t-s) (q_t·k_s) v_s``: attention with a fading mask in place of the
softmax. So a prompt is read in parallel, a chunk at a time, and a new token costs the same however
long the text is. The rotation of queries and keys in the paper is left out: the fading is itself a
position signal, and the attention layers of the hybrid carry the exact order.
"""

import inspect
import math
from dataclasses import dataclass, replace
from typing import Any

from lablib.models import kernels
from lablib.models.config import ATTENTION, RETENTION, ModelConfig
from lablib.models.llama import llama_config
from lablib.unknown_options import refuse
from lablib.validation import integer

import mlx.core as mx
import mlx.nn as nn

CHUNK = 128  # tokens read in parallel: each head has a fading mask of (CHUNK, CHUNK)


def hybrid_config(
    vocab_size: int,
    d_model: int,
    n_heads: int,
    n_layers: int,
    *,
    attention_every: int = 3,
    **llama_options: Any,
) -> ModelConfig:
    """Return the config of a Llama in which retention stands in for most attention layers.

    A layer whose number (from 1) ``attention_every`` divides is attention: 1 makes it all of them,
    a number above ``n_layers`` none. The other arguments are those of ``llama_config``.

    Args:
        vocab_size: V, the number of tokens.
        d_model: a multiple of ``n_heads``.
        n_heads: heads of a layer.
        n_layers: blocks.
        attention_every: at least 1.
        **llama_options: other keywords of ``llama_config``.

    Returns:
        The configuration, for ``LanguageModel(config, seed=0)``.

    Raises:
        ValueError, TypeError: a size is out of range, or does not fit another.

    Example:
        >>> lablib.hybrid_config(32, 16, 2, 2).vocab_size
        32
    """
    known = [*inspect.signature(llama_config).parameters]
    for name in llama_options:
        if name not in known:
            refuse("hybrid_config", name, [*known, "attention_every"])
    integer("attention_every", attention_every, minimum=1)
    numbers = range(1, integer("n_layers", n_layers, minimum=1) + 1)
    kinds = [RETENTION if number % attention_every else ATTENTION for number in numbers]
    config = llama_config(vocab_size, d_model, n_heads, n_layers, **llama_options)
    return replace(config, layer_types=tuple(kinds))


def log_decay(n_heads: int) -> mx.array:
    """Return ``log g`` of each head, ``(H,)``: the heads remember 8 up to 256 tokens."""
    last = max(n_heads - 1, 1)
    spans = [2 ** (3 + 5 * head / last) for head in range(n_heads)]
    return mx.array([math.log1p(-1 / span) for span in spans])


@dataclass(frozen=True)
class Fading:
    """Holds the shares that are left, in one chunk of C tokens; every share is ``g`` to a power.

    There is one row when no token is padding. Padding neither fades the state nor adds to it.
    """

    within: mx.array  # (B|1, H, C, C): of token s, where token t reads it; 0 for s > t
    carry: mx.array  # (B|1, H, C, 1): of the state before the chunk, where token t reads it
    rest: mx.array  # (B|1, H, C, 1): of token s, after the chunk
    keep: mx.array  # (B|1, H, 1, 1): of the state before the chunk, after it


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
        now = age[:, None, :, None]
        end = now[:, :, -1:, :]
        passed = mx.maximum(now - age[:, None, None, :], 0)
        seen = (real[:, None, None, :] > 0) & mx.tri(size, dtype=mx.bool_)
        chunk = Fading(
            within=mx.where(seen, mx.exp(log_g * passed), 0),
            carry=mx.exp(log_g * now),
            rest=mx.exp(log_g * (end - now)) * real[:, None, :, None],
            keep=mx.exp(log_g * end),
        )
        chunks.append(chunk)
    return chunks


def retain(
    q: mx.array, k: mx.array, v: mx.array, state: mx.array | None, chunks: list[Fading]
) -> tuple[mx.array, mx.array | None]:
    """Read T tokens, chunk by chunk; return outputs ``(B, H, T, D)`` and the state after the last.

    ``q``, ``k`` and ``v`` have the shape of the outputs. ``state (B, H, D, D)``, float32, is of the
    tokens before; None before the first one. ``chunks`` are those of :func:`fadings`.
    """
    dtype = q.dtype
    outputs = []
    start = 0
    for fading in chunks:
        part = slice(start, start + fading.carry.shape[2])
        start = part.stop
        q_c, k_c, v_c = q[:, :, part], k[:, :, part], v[:, :, part]
        scores = q_c @ k_c.swapaxes(-1, -2)
        out = (scores * fading.within.astype(dtype)) @ v_c
        left = k_c * fading.rest.astype(dtype)
        added = left.swapaxes(-1, -2) @ v_c
        if state is not None:
            earlier = q_c @ state.astype(dtype)
            out = out + fading.carry.astype(dtype) * earlier
            added = added + fading.keep * state
        state = added.astype(mx.float32)
        outputs.append(out)
    if len(outputs) == 1:
        return outputs[0], state
    return mx.concatenate(outputs, axis=2), state


def retain_one(
    q: mx.array, k: mx.array, v: mx.array, state: mx.array | None, decay: mx.array
) -> tuple[mx.array, mx.array]:
    """Take one step: :func:`retain` for T = 1 without padding; ``decay (H, 1, 1)`` is ``g``."""
    added = (k.swapaxes(-1, -2) * v).astype(mx.float32)
    if state is not None:
        added = decay * state + added
    return q @ added.astype(q.dtype), added


class Retention(nn.Module):
    """Retains at several scales, with an output gate; an ``ArraysCache`` holds the state."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.n_heads = config.num_attention_heads
        self.head_dim = config.head_dim
        self.eps = config.rms_norm_eps
        # Constants, evaluated here so that any thread may use them.
        self._ones = mx.ones((config.head_dim,))
        self._decay = mx.exp(log_decay(self.n_heads))[:, None, None]
        mx.eval(self._ones, self._decay)
        hidden, bias = config.hidden_size, config.attention_bias
        width = self.n_heads * self.head_dim
        self.q_proj = nn.Linear(hidden, width, bias=bias)
        self.k_proj = nn.Linear(hidden, width, bias=bias)
        self.v_proj = nn.Linear(hidden, width, bias=bias)
        self.g_proj = nn.Linear(hidden, width, bias=bias)
        self.o_proj = nn.Linear(width, hidden, bias=bias)

    def __call__(self, x: mx.array, chunks: list[Fading] | None, cache: Any = None) -> mx.array:
        """Mix ``x (B, T, hidden)``; ``chunks`` None takes the recurrent form, for T = 1."""
        batch, length, _ = x.shape
        q = kernels.split_heads(self.q_proj(x), batch, length, self.n_heads)
        k = kernels.split_heads(self.k_proj(x), batch, length, self.n_heads)
        v = kernels.split_heads(self.v_proj(x), batch, length, self.n_heads)
        q = q * self.head_dim**-0.5
        state = None if cache is None else cache[0]
        if chunks is None:
            out, state = retain_one(q, k, v, state, self._decay)
        else:
            out, state = retain(q, k, v, state, chunks)
        if cache is not None:
            cache[0] = state
            cache.advance(length)
        # A norm for each head keeps the heads on one scale, however much their memories hold.
        normed = kernels.rms_norm(out, self._ones.astype(out.dtype), self.eps)
        gate = self.g_proj(x)
        return self.o_proj(kernels.swiglu(gate, kernels.join_heads(normed)))
