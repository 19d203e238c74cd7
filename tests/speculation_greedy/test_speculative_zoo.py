"""Architectures of mlx-lm: with a draft, one by one and in a batch, each writes its greedy text.

Small random models of every kind of cache and position that mlx-lm has, alone and mixed.
"""

from importlib import import_module

from lablib.cache import kv
from lablib.cache.rewind_batch import can_batch
from lablib.inference.completions import speculative_batch
from lablib.inference.decoding.token_iterator import TokenIterator
from lablib.inference.speculation import NGram
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_map

VOCAB, LENGTH = 24, 24
COMMON = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 1e-5,
    "rope_theta": 1e4, "max_position_embeddings": 256, "norm_eps": 1e-5, "sliding_window": 8,
}  # fmt: skip
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 256, "layer_norm_epsilon": 1e-5}
MODELS = {  # what it adds to the common arguments, whether its rows can share a batch
    "gpt2": ({**GPT2, "n_ctx": 256}, True),
    "gpt_bigcode": ({**GPT2, "n_inner": 64}, False),  # reads one position for all rows
    "gpt_neox": ({"layer_norm_eps": 1e-5, "rotary_emb_base": 10000, "rotary_pct": 0.5}, True),
    "gemma3_text": ({"num_hidden_layers": 3, "sliding_window_pattern": 2}, True),
    "gpt_oss": ({"num_local_experts": 2, "num_experts_per_tok": 1, "rope_scaling": None}, True),
    "cohere2": (
        {
            "sliding_window_pattern": 2, "logit_scale": 1.0, "attention_bias": False,
            "layer_norm_bias": False,
        },
        True,
    ),
    "recurrent_gemma": (
        {
            "attention_bias": False, "conv1d_width": 4, "logits_soft_cap": 30.0,
            "num_hidden_layers": 3, "attention_window_size": 8,
            "block_types": ["recurrent", "recurrent", "attention"],
        },
        False,
    ),
    "rwkv7": (
        {
            "a_low_rank_dim": 8, "v_low_rank_dim": 8, "gate_low_rank_dim": 8,
            "decay_low_rank_dim": 8,
        },
        False,  # reads padding as text
    ),
    "lfm2": (
        {
            "conv_bias": False, "conv_L_cache": 3, "block_dim": 32, "block_ff_dim": 64,
            "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0,
            "block_auto_adjust_ff_dim": False, "full_attn_idxs": [1],
        },
        True,
    ),
    "mamba2": (
        {
            "num_heads": 2, "head_dim": 32, "state_size": 8, "layer_norm_epsilon": 1e-5,
            "conv_kernel": 4, "n_groups": 1, "use_bias": False, "use_conv_bias": True,
            "tie_word_embeddings": False, "time_step_limit": (0.001, 100.0),
            "time_step_rank": "auto",
        },
        True,
    ),
    "jamba": (
        {
            "attn_layer_offset": 1, "attn_layer_period": 2, "expert_layer_offset": 1,
            "expert_layer_period": 2, "mamba_d_conv": 4, "mamba_d_state": 8, "mamba_expand": 2,
            "num_experts": 1, "num_experts_per_tok": 1,
        },
        False,  # its Mamba 1 layers do so too
    ),
    "falcon_h1": (
        {
            "mamba_d_head": 16, "mamba_d_ssm": 32, "mamba_d_state": 8, "mamba_n_heads": 2,
        },
        False,  # two caches in a layer
    ),
    "baichuan_m1": ({"sliding_window_layers": [1], "conv_window": 2}, False),  # the same
    "qwen3_next": (
        {
            "linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 16,
            "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, "num_experts": 0,
            "num_experts_per_tok": 1, "decoder_sparse_step": 1, "mlp_only_layers": [0, 1],
            "shared_expert_intermediate_size": 32, "moe_intermediate_size": 32,
            "partial_rotary_factor": 0.5, "full_attention_interval": 2,
        },
        True,
    ),
    "nanochat": ({"num_key_value_heads": 2}, True),
    "phi": ({"num_key_value_heads": 2}, True),
}  # fmt: skip


def build(name, noise=0.0):
    """A model whose weights are random, and with ``noise`` so much further from those."""
    module = import_module(f"mlx_lm.models.{name}")
    arguments = {"model_type": name, **COMMON, **MODELS[name][0]}
    model = module.Model(module.ModelArgs.from_dict(arguments))
    rng, other = np.random.default_rng(1), np.random.default_rng(77)

    def draw(weight):
        if weight.ndim < 2:
            return weight
        values = rng.standard_normal(weight.shape) + noise * other.standard_normal(weight.shape)
        return mx.array((1.3 * values / np.sqrt(max(weight.shape[1:]))).astype(np.float32))

    model.update(tree_map(draw, model.parameters()))
    mx.eval(model.parameters())
    return model


@pytest.mark.parametrize("name", MODELS)
def test_an_architecture_of_mlx_lm_writes_its_greedy_text(name):
    model, small = build(name), build(name, noise=0.2)
    prompts = [np.random.default_rng(n).integers(0, VOCAB, n).tolist() for n in (1, 4, 21, 12)]
    options = {"max_tokens": LENGTH, "temperature": 0.0}
    wanted = [[token.id for token in TokenIterator(model, p, **options)] for p in prompts]
    assert can_batch(model, kv.make(model)) == MODELS[name][1]
    verdicts = []
    for draft in (small, NGram()):
        together = speculative_batch(model, draft, prompts, **options)
        assert together.tokens == wanted
        alone = [SpeculativeTokenIterator(model, draft, prompt, **options) for prompt in prompts]
        assert [[token.id for token in iterator] for iterator in alone] == wanted
        verdicts.append([together.stats[f"total_{name}"] for name in ("accepted", "reached")])
    accepted, reached = map(sum, zip(*verdicts, strict=True))
    assert 0 < accepted < reached  # a verdict of each kind was seen
