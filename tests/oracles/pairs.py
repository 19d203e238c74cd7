"""Pairs of lively models: a greedy text that never settles, and a draft as near as one likes.

A model with its first weights, above all one with tied embeddings, soon says one token for ever.
Any cache would do for that text. Here the weights are so large that each token depends on all that
the cache holds, and its order.
"""

from collections.abc import Callable, Sequence
from typing import Any

from lablib.models import LanguageModel, gpt_config, hybrid_config, llama_config

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map_with_path
from mlx_lm.models import llama4, mamba
from mlx_lm.models.cache import ConcatenateKVCache, KVCache, QuantizedKVCache, RotatingKVCache
from oracles.speculation import VOCAB

CHUNK = 16  # tokens that a layer with chunked attention (llama4) sees at most
SINKS = 2


def lively(kind: str, seed: int, noise: float = 0.0, gain: float = 2.0) -> Any:
    """The model ``kind`` number ``seed``, or a draft near it.

    Args:
        kind: a key of ``KINDS``.
        seed: which random weights.
        noise: every weight matrix is moved by so many times its own spread: 0.003 keeps nearly
            every draft, 0.5 nearly none.
        gain: the spread of the weights is this over the root of the number of inputs.
    """
    model, rng, moves = KINDS[kind](), np.random.default_rng(seed), np.random.default_rng([seed, 1])

    def draw(name: str, weight: mx.array) -> mx.array:
        # mamba's A_log is how fast its states fade: drawn at random they forget at once.
        if "norm" in name or name.endswith((".D", "A_log")):
            return weight
        values = rng.standard_normal(weight.shape)
        if weight.ndim == 1:
            return mx.array(values.astype(np.float32) / 8)  # a bias
        table = "embed" in name or "position" in name
        inputs = max(weight.shape[1:]) if "conv" in name else weight.shape[-1]
        values += noise * moves.standard_normal(weight.shape)
        return mx.array((values if table else values * gain / np.sqrt(inputs)).astype(np.float32))

    model.update(tree_map_with_path(draw, model.parameters()))
    mx.eval(model.parameters())
    return model


def cache_for(model: Any, kind: str = "kv", window: int = 8) -> list[Any]:
    """A fresh cache whose attention layers are of one kind; all others stay as the model has them.

    Kinds: ``kv``, ``concatenate``, ``window``, ``sinks``, ``quantized`` (8 bits), ``4 bits``.
    """
    make = {
        "kv": KVCache,
        "concatenate": ConcatenateKVCache,
        "window": lambda: RotatingKVCache(max_size=window),
        "sinks": lambda: RotatingKVCache(max_size=window, keep=SINKS),
        "quantized": lambda: QuantizedKVCache(group_size=32, bits=8),
        "4 bits": lambda: QuantizedKVCache(group_size=32, bits=4),
    }[kind]
    return [make() if type(layer) is KVCache else layer for layer in model.make_cache()]


MAMBA = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 64, "state_size": 8}
MAMBA |= {"num_hidden_layers": 2, "conv_kernel": 4, "use_bias": False, "use_conv_bias": True}
LLAMA4 = {"model_type": "llama4_text", "vocab_size": VOCAB, "max_position_embeddings": 1024}
LLAMA4 |= {"hidden_size": 32, "intermediate_size": 32, "intermediate_size_mlp": 64}
LLAMA4 |= {"head_dim": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
LLAMA4 |= {"num_hidden_layers": 4, "interleave_moe_layer_step": 2, "num_local_experts": 2}
LLAMA4 |= {"num_experts_per_tok": 1, "attention_bias": False, "attention_chunk_size": CHUNK}
LLAMA4 |= {"use_qk_norm": False, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "rope_scaling": None}


def untied(config: Callable[..., Any], *sizes: int, **more: int) -> LanguageModel:
    return LanguageModel(config(VOCAB, *sizes, **more, tie_word_embeddings=False))


def mamba_model() -> Any:
    sizes = {**MAMBA, "time_step_rank": 4, "tie_word_embeddings": False}
    return mamba.Model(mamba.ModelArgs(model_type="mamba", **sizes))


KINDS = {
    # A head of 32 or 64, so that what it remembers can be quantised.
    "llama": lambda: untied(llama_config, 64, 1, 2),
    "grouped": lambda: untied(llama_config, 64, 2, 2, n_kv_heads=1),
    "shallow": lambda: untied(llama_config, 32, 2, 1),
    "gpt": lambda: untied(gpt_config, 32, 2, 2, max_positions=256),
    "retention": lambda: untied(hybrid_config, 32, 2, 2, attention_every=9),
    "hybrid": lambda: untied(hybrid_config, 32, 1, 2, attention_every=2),
    "mamba": mamba_model,
    "llama4": lambda: llama4.Model(llama4.ModelArgs(model_type="llama4", text_config={**LLAMA4})),
}


def rounding(
    model: Any,
    make_cache: Callable[[], list[Any]],
    prompt: Sequence[int],
    written: Sequence[int],
    after: Sequence[int],
    width: int,
    *,
    rows: int = 1,
    ring: int | None = None,
) -> tuple[np.ndarray, float]:
    """What plain decoding sees after ``prompt + written``, and how far blocks are from that.

    Args:
        model: its logits.
        make_cache: returns an empty cache.
        prompt: read at once by plain decoding.
        written: read one by one by plain decoding.
        after: how the text goes on.
        width: γ + 1, the tokens of a block.
        rows: so many equal rows read the blocks together.
        ring: the size of a ring with sinks, which takes one token at a time once it is full.

    Returns:
        The logits ``(V,)``, and the largest difference of one of them from those of the same place
        inside a block. All is read in whole blocks but for a shorter first one; the last one ends
        at the end of the text or runs into ``after``, and all places in it are tried.
    """
    cache = make_cache()
    for tokens in (prompt, *([token] for token in written)):
        logits = model(mx.array([tokens]), cache=cache)
    plain, text, worst = np.array(logits[0, -1]), [*prompt, *written, *after], 0.0
    last = len(prompt) + len(written) - 1
    for start in range(max(0, last - width + 1), last + 1):
        ends = [*range(start % width or width, start + width + 1, width)]
        if ring is not None:
            ends = [end for end in ends if end <= ring]
            ends += range(max([0, *ends]) + 1, last + 2)
        if ends[-1] > len(text):
            continue
        cache, begin = make_cache(), 0
        for end in ends:
            logits, read = model(mx.array([text[begin:end]] * rows), cache=cache), begin
            begin = end
        worst = max(worst, float(np.abs(np.array(logits[0, last - read]) - plain).max()))
    return plain, worst
