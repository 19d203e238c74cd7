"""Holds one small language model, whose blocks a config chooses.

A block is ``x + mixer(norm(x))`` followed by ``x + mlp(norm(x))``. The config picks the norm
(RMSNorm or LayerNorm), the mixer of each layer (attention or retention), the MLP (SwiGLU or GELU)
and how positions enter (rotated queries and keys, or a learned table), so that GPT, Llama and a
recurrent hybrid are configs of one class: ``gpt_config``, ``llama_config``, ``hybrid_config``.

Parameters carry the names of mlx-lm's Llama: a Llama-shaped checkpoint opens in both. A position
lives in the cache and never on the model: rewinding a sequence is rewinding its cache.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from lablib.definitions import FastPath, remember
from lablib.machine import scheduling
from lablib.machine.arrays import listed
from lablib.machine.streams import clear_with_thread
from lablib.models import kernels, retention, short_forward, stored_block
from lablib.models.config import ATTENTION, RETENTION, ModelConfig
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, integer

import mlx.core as mx
import mlx.nn as nn


class Past(NamedTuple):
    """Tells the attention layers of one forward who sees whom, and where the tokens stand."""

    mask: mx.array | str | None
    rotation: kernels.Rotation | None = None  # None with learned positions
    quick: kernels.Table | None = None  # the rotation's, where ``short_forward`` may run
    stored: kernels.Table | None = None  # the same, for ``stored_block``


class Attention(nn.Module):
    """Attends causally, with grouped key/value heads (Vaswani et al. 2017, 1706.03762)."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.n_heads = config.num_attention_heads
        self.n_kv_heads = config.num_key_value_heads
        self.scale = config.head_dim**-0.5
        hidden, bias = config.hidden_size, config.attention_bias
        width = self.n_heads * config.head_dim
        kv_width = self.n_kv_heads * config.head_dim
        self.q_proj = nn.Linear(hidden, width, bias=bias)
        self.k_proj = nn.Linear(hidden, kv_width, bias=bias)
        self.v_proj = nn.Linear(hidden, kv_width, bias=bias)
        self.o_proj = nn.Linear(width, hidden, bias=bias)

    def __call__(self, x: mx.array, past: Past, cache: Any | None = None) -> mx.array:
        """Mix ``x (B, T, hidden)``; ``cache`` holds the earlier keys and values and takes these."""
        batch, length, _ = x.shape
        q = kernels.split_heads(self.q_proj(x), batch, length, self.n_heads)
        k = kernels.split_heads(self.k_proj(x), batch, length, self.n_kv_heads)
        v = kernels.split_heads(self.v_proj(x), batch, length, self.n_kv_heads)
        if past.rotation is not None:
            q = past.rotation(q)
            k = past.rotation(k)
        out = self.read(q, k, v, past.mask, cache)
        return self.o_proj(kernels.join_heads(out))

    def read(
        self,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        mask: mx.array | str | None,
        cache: Any,
        attend: Callable[..., mx.array] | None = None,
    ) -> mx.array:
        """Let ``cache`` take keys and values in; return all that queries ``(B, H, T, D)`` read.

        ``attend`` may stand in for ``kernels.attention``.
        """
        if hasattr(cache, "attend"):
            return cache.attend(q, k, v, self.scale, mask)
        if cache is not None:
            k, v = cache.update_and_fetch(k, v)
        if hasattr(cache, "bits"):  # quantised keys and values
            from mlx_lm.models.base import scaled_dot_product_attention

            named: Any = mask  # mlx-lm's hint forgets "causal"
            return scaled_dot_product_attention(q, k, v, cache, self.scale, named)
        return (attend or kernels.attention)(q, k, v, self.scale, mask)


class MLP(nn.Module):
    """Maps each position to ``down(silu(gate(x)) · up(x))``, or to ``down(gelu(up(x)))``.

    SwiGLU (Shazeer 2020, 2002.05202), and GELU (Hendrycks & Gimpel 2016, 1606.08415).
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.gated = config.mlp == "swiglu"
        if self.gated:
            self.gate_proj = nn.Linear(hidden, inner, bias=config.mlp_bias)
        self.up_proj = nn.Linear(hidden, inner, bias=config.mlp_bias)
        self.down_proj = nn.Linear(inner, hidden, bias=config.mlp_bias)

    def __call__(self, x: mx.array) -> mx.array:
        """Return the MLP of ``x (B, T, hidden)``, of the same shape."""
        if self.gated:
            return self.down_proj(kernels.swiglu(self.gate_proj(x), self.up_proj(x)))
        return self.down_proj(nn.gelu(self.up_proj(x)))


class RMSNorm(nn.RMSNorm):
    """Normalises as ``mlx.nn``'s, in the faster form on a CPU."""

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise the last axis."""
        return kernels.rms_norm(x, self.weight, self.eps)


for _module in (__name__, "lablib.models.kernels", "mlx.nn"):
    remember(_module)
_SHORT_FORWARD = FastPath("short forward")  # of attention's ``read`` it takes the block's own
_STORED_BLOCK = FastPath("stored block")


def _norm(config: ModelConfig) -> nn.Module:
    kind = RMSNorm if config.norm == "rms" else nn.LayerNorm
    return kind(config.hidden_size, eps=config.rms_norm_eps)


class Block(nn.Module):
    """Adds a mixer over positions, then an MLP at each position, to the residual stream."""

    def __init__(self, config: ModelConfig, kind: str):
        super().__init__()
        self.kind = kind
        if kind == ATTENTION:
            self.self_attn = Attention(config)
        else:
            self.retention = retention.Retention(config)
        self.mlp = MLP(config)
        self.input_layernorm = _norm(config)
        self.post_attention_layernorm = _norm(config)

    def __call__(self, x: mx.array, past: Any, cache: Any | None = None) -> mx.array:
        """Transform ``x (B, T, hidden)``; ``past`` tells how each token sees the ones before it."""
        if self.kind == ATTENTION and (past.quick or past.stored) and self._is_llama():
            if past.stored and stored_block.is_ours(self):
                return stored_block.run(self, x, past.stored, past.mask, cache)
            if past.quick and short_forward.is_ours(self):
                return self._short_forward(x, past.quick, past.mask, cache)
        mixer = self.self_attn if self.kind == ATTENTION else self.retention
        x = x + mixer(self.input_layernorm(x), past, cache)
        return x + self.mlp(self.post_attention_layernorm(x))

    def _is_llama(self) -> bool:
        """Return whether every part is of the kind that the faster ways stand for."""
        return list(map(type, self.values())) == [Attention, MLP, RMSNorm, RMSNorm]

    def _short_forward(
        self, x: mx.array, table: kernels.Table, mask: mx.array | str | None, cache: Any
    ) -> mx.array:
        mixer, norm, last = self.self_attn, self.input_layernorm, self.post_attention_layernorm
        heads = mixer.n_heads, mixer.n_kv_heads
        q, k, v = short_forward.before(x, norm, mixer, norm.eps, heads, table)
        read = mixer.read(q, k, v, mask, cache)
        return short_forward.after(x, read, mixer.o_proj, last, self.mlp, last.eps)


class Blocks(nn.Module):
    """Runs the blocks and the last norm: all between the embeddings and the output layer."""

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
        pasts: dict[Any, Any] = {}  # layers with one kind of cache share one
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            key = layer.kind, type(layer_cache)
            if key not in pasts:
                pasts[key] = self._past(layer.kind, x, layer_cache)
            x = layer(x, pasts[key], layer_cache)
        return self.norm(x)

    def _past(
        self, kind: str, x: mx.array, cache: Any | None
    ) -> Past | list[retention.Fading] | None:
        """Tell the layers of one kind about earlier tokens and about padding."""
        config, length = self.config, x.shape[1]
        make_mask = getattr(cache, "make_mask", None)
        if kind == RETENTION:
            mask = make_mask(length) if make_mask else None
            if length == 1 and mask is None:
                return None
            return retention.fadings(config.num_attention_heads, length, mask)
        mask = "causal" if length > 1 else None
        if make_mask:
            # On a CPU one array for all layers beats "causal", which each layer spells out, but
            # for many tokens: then half of the scores need not be computed.
            as_array = 1 < length < 1024 and mx.default_device() != mx.gpu
            mask = make_mask(length, return_array=as_array, window_size=None)
        if config.positions == "learned":
            return Past(mask)
        offset = 0 if cache is None else getattr(cache, "places", cache.offset)
        rotation = kernels.Rotation(offset, length, config.head_dim, config.rope_theta)
        quick = short_forward.fits(x, rotation) and _SHORT_FORWARD.is_open()
        # Asked first, as the other question builds what multiplies such weights: for ten seconds.
        is_stored = "codes" in self.layers[0].get("self_attn", {}).get("q_proj", {})
        stored = is_stored and stored_block.fits(x, rotation) and _STORED_BLOCK.is_open()
        table = rotation.table
        return Past(mask, rotation, table if quick else None, table if stored else None)


class Stack(Blocks):
    """Holds the embeddings too: everything but the output layer."""

    def __init__(self, config: ModelConfig):
        nn.Module.__init__(self)  # embeddings first: the weights of a seed depend on the order
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.positions == "learned":
            self.embed_positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        super().__init__(config)


@checks_options
class LanguageModel(nn.Module):
    """``model(tokens (B, T), cache=None) -> logits (B, T, V)``, for any :class:`ModelConfig`.

    Works with every cache of mlx-lm that fits its layers: ``KVCache``, ``RotatingKVCache``,
    ``QuantizedKVCache`` and their batched forms for attention, ``ArraysCache`` for retention.
    ``seed`` draws the initial weights; None draws them from the global state, as in ``mlx.nn``.

    Example:
        >>> tiny = lablib.LanguageModel(lablib.llama_config(32, 16, 1, 2), seed=0)
        >>> tiny(mx.array([[1, 2, 3]])).shape
        (1, 3, 32)
    """

    cache_attends = True  # the cache of an attention layer may bring an ``attend`` of its own,
    reads_trees = True  # or ``places`` of the tokens, which need not follow one another

    def __init__(self, config: ModelConfig, seed: int | None = None):
        super().__init__()
        if not isinstance(config, ModelConfig):
            raise BadType(f"config must be a ModelConfig, got {type(config).__name__}")
        self.config = config
        scheduling.gather_work()
        clear_with_thread()
        with seeded(seed):
            self.model = Stack(config)
            if not config.tie_word_embeddings:
                self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    @property
    def layers(self) -> list[Block]:
        """Return the blocks, in order."""
        return self.model.layers

    @property
    def vocab_size(self) -> int:
        """Return the number of token ids V."""
        return self.config.vocab_size

    @property
    def max_positions(self) -> int:
        """Return the context in tokens: the trained one, a hard limit with learned positions."""
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
        """Return the states ``(B, T, hidden)`` that ``output`` reads; the rest as in the call."""
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
        number = self.config.layer_types.index(ATTENTION)
        layer = cache[number] if cache else None
        offset: Any = 0 if layer is None else layer.offset
        ragged = isinstance(offset, mx.array)
        first = self._longest(layer, length) if ragged else offset
        if first + length > self.max_positions:
            allowed = f"within the context of {self.max_positions} positions"
            raise BadValue(f"tokens must end {allowed}, got {length} after {first}")
        table = self.model.embed_positions
        in_tree = getattr(layer, "places", None)
        if in_tree is not None:
            return table(mx.array(in_tree))
        positions = mx.arange(length)
        if not ragged:
            return table(offset + positions)
        # Left padding has negative positions; whatever it reads there is masked in attention.
        return table(mx.maximum(offset[:, None] + positions, 0))

    def _longest(self, layer: Any, length: int) -> int:
        """Return a bound of the tokens in any row: near the end of the context, their number."""
        from mlx_lm.models.cache import BatchKVCache

        # No row is longer than the batch is wide: only near the end of the context must one look,
        # and wait for the computation.
        if isinstance(layer, BatchKVCache) and layer.size() + length <= self.max_positions:
            return layer.size()
        return int(mx.max(layer.offset))

    def sanitize(self, weights: dict[str, mx.array]) -> dict[str, mx.array]:
        """Drop the weights that other tools store twice: an output layer that is the embedding."""
        kept = dict(weights)
        if self.config.tie_word_embeddings:
            kept.pop("lm_head.weight", None)
        return kept


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Draw from ``seed`` inside the block and leave the global random state as it was."""
    if seed is None:
        yield
        return
    state: Any = mx.random.state  # a list of one key, and a key is a 64-bit seed
    high, low = listed(state[0])
    mx.random.seed(integer("seed", seed, 0, 2**64 - 1))
    try:
        yield
    finally:
        mx.random.seed(high << 32 | low)
