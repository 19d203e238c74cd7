"""One small language model whose blocks are chosen by a config.

A block is ``x + mixer(norm(x))`` followed by ``x + mlp(norm(x))``. The config picks the norm
(RMSNorm or LayerNorm), the mixer of each layer (attention or retention), the MLP (SwiGLU or GELU)
and how positions enter (rotated queries and keys, or a learned table), so that GPT, Llama and a
recurrent hybrid are configs of one class: ``gpt_config``, ``llama_config``, ``hybrid_config``.

Parameters carry the names of mlx-lm's Llama: a Llama-shaped checkpoint opens in both. A position
lives in the cache and never on the model: rewinding a sequence is rewinding its cache.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from lablib.models import few
from lablib.models.config import ATTENTION, RETENTION, ModelConfig
from lablib.models.kernels import Rotation, attention, join_heads, rms_norm, split_heads, swiglu
from lablib.models.linear import Embedding, Linear
from lablib.models.retention import Fading, Retention, fadings
from lablib.validation import BadType, BadValue, integer

import mlx.core as mx
import mlx.nn as nn


class Past(NamedTuple):
    """What the attention layers of one forward share: who sees whom, and where the tokens stand."""

    mask: mx.array | str | None
    rotation: Rotation | None  # None with learned positions


class Attention(nn.Module):
    """Causal attention with grouped key/value heads (Vaswani et al. 2017, 1706.03762)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.n_heads, self.n_kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.scale = config.head_dim**-0.5
        width, kv_width = self.n_heads * config.head_dim, self.n_kv_heads * config.head_dim
        self.q_proj = Linear(config.hidden_size, width, bias=config.attention_bias)
        self.k_proj = Linear(config.hidden_size, kv_width, bias=config.attention_bias)
        self.v_proj = Linear(config.hidden_size, kv_width, bias=config.attention_bias)
        self.o_proj = Linear(width, config.hidden_size, bias=config.attention_bias)

    def __call__(self, x: mx.array, past: Past, cache: Any | None = None) -> mx.array:
        """Mix ``x (B, T, hidden)``; ``cache`` holds the earlier keys and values and takes these."""
        q = split_heads(self.q_proj(x), *x.shape[:2], self.n_heads)
        k = split_heads(self.k_proj(x), *x.shape[:2], self.n_kv_heads)
        v = split_heads(self.v_proj(x), *x.shape[:2], self.n_kv_heads)
        if past.rotation is not None:
            q, k = past.rotation(q), past.rotation(k)
        return self.o_proj(join_heads(self.read(q, k, v, past.mask, cache)))

    def read(
        self, q: mx.array, k: mx.array, v: mx.array, mask: mx.array | str | None, cache: Any | None
    ) -> mx.array:
        """Let ``cache`` take keys and values in; return what queries ``(B, H, T, D)`` read."""
        if hasattr(cache, "attend"):
            return cache.attend(q, k, v, self.scale, mask)
        if cache is not None:
            k, v = cache.update_and_fetch(k, v)
        if hasattr(cache, "bits"):  # quantised keys and values
            from mlx_lm.models.base import scaled_dot_product_attention

            return scaled_dot_product_attention(q, k, v, cache, self.scale, mask)
        return attention(q, k, v, self.scale, mask)


class MLP(nn.Module):
    """At each position ``down(silu(gate(x)) · up(x))``, SwiGLU, or ``down(gelu(up(x)))``, GELU.

    (Shazeer 2020, 2002.05202; Hendrycks & Gimpel 2016, 1606.08415.)
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        d, d_ff, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gated = config.mlp == "swiglu"
        if self.gated:
            self.gate_proj = Linear(d, d_ff, bias=bias)
        self.up_proj = Linear(d, d_ff, bias=bias)
        self.down_proj = Linear(d_ff, d, bias=bias)

    def __call__(self, x: mx.array) -> mx.array:
        """Return the MLP of ``x (B, T, hidden)``, of the same shape."""
        if self.gated:
            return self.down_proj(swiglu(self.gate_proj(x), self.up_proj(x)))
        return self.down_proj(nn.gelu(self.up_proj(x)))


class RMSNorm(nn.RMSNorm):
    """``mlx.nn``'s, with the faster form on a CPU."""

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise the last axis."""
        return rms_norm(x, self.weight, self.eps)


def _norm(config: ModelConfig) -> nn.Module:
    kind = RMSNorm if config.norm == "rms" else nn.LayerNorm
    return kind(config.hidden_size, eps=config.rms_norm_eps)


class Block(nn.Module):
    """A mixer over positions, then an MLP at each position, both added to the residual stream."""

    def __init__(self, config: ModelConfig, kind: str):
        super().__init__()
        self.kind = kind
        if kind == ATTENTION:
            self.self_attn = Attention(config)
        else:
            self.retention = Retention(config)
        self.mlp = MLP(config)
        self.input_layernorm = _norm(config)
        self.post_attention_layernorm = _norm(config)

    def __call__(self, x: mx.array, past: Any, cache: Any | None = None) -> mx.array:
        """Transform ``x (B, T, hidden)``; ``past`` tells how each token sees the ones before it."""
        mixer = self.self_attn if self.kind == ATTENTION else self.retention
        if few.fits(x, past) and (weights := self._weights()):
            first, second = self.input_layernorm.eps, self.post_attention_layernorm.eps
            heads = mixer.n_heads, mixer.n_kv_heads
            q, k, v = few.before(x, weights, first, heads, past.rotation.table)
            return few.after(x, mixer.read(q, k, v, past.mask, cache), weights, second)
        x = x + mixer(self.input_layernorm(x), past, cache)
        return x + self.mlp(self.post_attention_layernorm(x))

    def _weights(self) -> few.Weights | None:
        """Return the weights of a Llama's block; None where a part or layer is of another kind."""
        parts = list(map(type, self.values()))
        return few.weights(self) if parts == [Attention, MLP, RMSNorm, RMSNorm] else None


class Blocks(nn.Module):
    """Blocks and the last norm: what lies between embeddings and the output layer."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.layers = [Block(config, kind) for kind in config.layer_types]
        self.norm = _norm(config)

    def __call__(self, x: mx.array, cache: list[Any] | None = None) -> mx.array:
        """Transform embeddings ``(B, T, hidden)``; ``cache`` takes them in."""
        cache = [None] * len(self.layers) if cache is None else cache
        if len(cache) != len(self.layers):
            raise BadValue(f"cache must have {len(self.layers)} layers, got {len(cache)}")
        shared: dict[Any, Any] = {}  # layers with one kind of cache share one past
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            key = layer.kind, type(layer_cache)
            if key not in shared:
                shared[key] = self._past(layer.kind, x.shape[1], layer_cache)
            x = layer(x, shared[key], layer_cache)
        return self.norm(x)

    def _past(self, kind: str, length: int, cache: Any | None) -> Past | list[Fading] | None:
        """Return what the layers of one kind need to know of earlier tokens and of padding."""
        make_mask = getattr(cache, "make_mask", None)
        if kind == RETENTION:
            mask = make_mask(length) if make_mask else None
            one_step = length == 1 and mask is None
            return None if one_step else fadings(self.config.num_attention_heads, length, mask)
        mask = "causal" if length > 1 else None
        if make_mask:
            # On a CPU one array for all layers beats "causal", which each layer spells out.
            as_array = length > 1 and mx.default_device() != mx.gpu
            mask = make_mask(length, return_array=as_array, window_size=None)
        if self.config.positions == "learned":
            return Past(mask, None)
        offset = 0 if cache is None else getattr(cache, "places", cache.offset)
        return Past(mask, Rotation(offset, length, self.config.head_dim, self.config.rope_theta))


class Stack(Blocks):
    """Embeddings too: everything but the output layer."""

    def __init__(self, config: ModelConfig):
        nn.Module.__init__(self)  # embeddings first: the weights of a seed depend on the order
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        if config.positions == "learned":
            self.embed_positions = Embedding(config.max_position_embeddings, config.hidden_size)
        super().__init__(config)


class LanguageModel(nn.Module):
    """``model(tokens (B, T), cache=None) -> logits (B, T, V)``, for any :class:`ModelConfig`.

    Works with every cache of mlx-lm that fits its layers: ``KVCache``, ``RotatingKVCache``,
    ``QuantizedKVCache`` and their batched forms for attention, ``ArraysCache`` for retention.
    ``seed`` draws the initial weights; None draws them from the global state, as in ``mlx.nn``.
    """

    cache_attends = True  # the cache of an attention layer may bring an ``attend`` of its own,
    reads_trees = True  # or ``places`` of the tokens, which need not follow one another

    def __init__(self, config: ModelConfig, seed: int | None = None):
        super().__init__()
        if not isinstance(config, ModelConfig):
            raise BadType(f"config must be a ModelConfig, got {type(config).__name__}")
        self.config = config
        with seeded(seed):
            self.model = Stack(config)
            if not config.tie_word_embeddings:
                self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)

    @property
    def layers(self) -> list[Block]:
        """The blocks, in order."""
        return self.model.layers

    @property
    def vocab_size(self) -> int:
        """Number of token ids V."""
        return self.config.vocab_size

    @property
    def max_positions(self) -> int:
        """Context length in tokens: a hard limit with learned positions, else the trained one."""
        return self.config.max_position_embeddings

    def make_cache(self) -> list[Any]:
        """Return a fresh cache of mlx-lm for each layer, for a sequence or an unpadded batch."""
        from mlx_lm.models.cache import ArraysCache, KVCache

        kinds = self.config.layer_types
        return [KVCache() if kind == ATTENTION else ArraysCache(size=1) for kind in kinds]

    def __call__(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        """Return logits ``(B, T, V)`` of the token after each; ``cache`` takes the tokens in.

        Raises:
            BadValue: ``tokens`` has no (B, T) shape, the cache has another number of layers, or a
                learned position would lie beyond the table.
        """
        return self.output(self.hidden(tokens, cache))

    def hidden(self, tokens: mx.array, cache: list[Any] | None = None) -> mx.array:
        """Return what ``output`` reads, ``(B, T, hidden)``; arguments and errors as in the call."""
        if tokens.ndim != 2 or tokens.shape[1] == 0:
            raise BadValue(f"tokens must have shape (B, T) with T ≥ 1, got {tokens.shape}")
        x = self.model.embed_tokens(tokens)
        if self.config.positions == "learned":
            x = x + self._positions(tokens.shape[1], cache)
        return self.model(x, cache)

    def output(self, hidden: mx.array) -> mx.array:
        """Return the logits ``(B, T, V)`` of hidden states ``(B, T, hidden)``."""
        if self.config.tie_word_embeddings:
            return self.model.embed_tokens.as_linear(hidden)
        return self.lm_head(hidden)

    def _positions(self, length: int, cache: list[Any] | None) -> mx.array:
        """Return learned positions ``(1|B, T, hidden)``: each row of a ragged batch has its own."""
        place, limit = self.config.layer_types.index(ATTENTION), self.max_positions
        first = cache[place] if cache else None
        offset = held = 0 if first is None else first.offset
        if ragged := isinstance(offset, mx.array):
            from mlx_lm.models.cache import BatchKVCache

            # No row is longer than the batch is wide: one must look, and wait for what is being
            # computed, only near the end of the context.
            width = first.size() if isinstance(first, BatchKVCache) else limit
            held = width if width + length <= limit else mx.max(offset).item()
        if held + length > limit:
            got = f"{length} after {held}"
            raise BadValue(f"tokens must end within the context of {limit} positions, got {got}")
        if (places := getattr(first, "places", None)) is not None:
            return self.model.embed_positions(mx.array(places))
        positions = mx.arange(length)
        # Left padding has negative positions; whatever it reads there is masked in attention.
        positions = mx.maximum(offset[:, None] + positions, 0) if ragged else offset + positions
        return self.model.embed_positions(positions)

    def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        """Drop what other tools store twice: the output layer when it is the embedding."""
        tied = self.config.tie_word_embeddings
        return {name: w for name, w in weights.items() if not (tied and name == "lm_head.weight")}


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Draw from ``seed`` inside the block and leave the global random state as it was."""
    if seed is None:
        yield
        return
    high, low = mx.random.state[0].tolist()  # the state is a key, and a key is a 64-bit seed
    mx.random.seed(integer("seed", seed, 0, 2**64 - 1))
    try:
        yield
    finally:
        mx.random.seed(high << 32 | low)
