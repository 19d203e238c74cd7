"""Configs: what they fill in, what they refuse, and how they travel through JSON."""

import dataclasses
import json

from lablib.models import LanguageModel, ModelConfig, gpt_config, hybrid_config, llama_config

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx.utils import tree_flatten
from oracles.refusals import refuses


@given(
    st.sampled_from([gpt_config, llama_config, hybrid_config]),
    st.integers(1, 600),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 5),
    st.booleans(),
)
def test_through_json_and_back(make, vocab_size, heads, pairs, layers, tied):
    config = make(vocab_size, heads * pairs * 2, heads, layers, tie_word_embeddings=tied)
    text = json.dumps(config.to_dict())
    assert ModelConfig.from_dict(json.loads(text)) == config


def test_the_three_shapes():
    llama = llama_config(100, 24, 4, 2, n_kv_heads=2)
    assert (llama.model_type, llama.head_dim, llama.intermediate_size) == ("llama", 6, 64)
    gpt = gpt_config(100, 24, 4, 2, max_positions=9)
    assert (gpt.model_type, gpt.intermediate_size, gpt.max_position_embeddings) == ("lablib", 96, 9)
    hybrid = hybrid_config(100, 24, 4, 5, attention_every=2)
    attention, retention = "full_attention", "linear_attention"
    assert hybrid.layer_types == (retention, attention, retention, attention, retention)
    assert hybrid.model_type == "lablib"
    assert set(hybrid_config(9, 4, 2, 3, attention_every=9).layer_types) == {retention}
    assert hybrid_config(9, 4, 2, 3, attention_every=1).model_type == "llama"


def test_parameter_counts():
    """Counted by hand: the embedding, then for each layer attention, MLP and two norms."""
    makes = (llama_config, gpt_config, hybrid_config)
    every = {make: LanguageModel(make(50, 8, 2, 3), seed=0).parameters() for make in makes}
    count = {make: sum(w.size for _, w in tree_flatten(each)) for make, each in every.items()}
    attention, swiglu = 4 * 8 * 8, 3 * 8 * 32
    assert count[llama_config] == 50 * 8 + 3 * (attention + swiglu + 2 * 8) + 8
    gelu = 2 * 8 * 32 + 32 + 8
    layer = attention + 4 * 8 + gelu + 2 * 2 * 8
    assert count[gpt_config] == 50 * 8 + 1024 * 8 + 3 * layer + 2 * 8
    assert count[hybrid_config] == count[llama_config] + 2 * 8 * 8  # a gate in two of three layers


def test_a_config_is_a_value():
    config = llama_config(10, 8, 2, 1)
    assert config == llama_config(10, 8, 2, 1)
    assert hash(config) == hash(llama_config(10, 8, 2, 1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.vocab_size = 3


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (llama_config, {"vocab_size": 0}, "vocab_size must be at least 1, got 0"),
        (llama_config, {"d_model": 7}, "hidden_size must be a multiple of the 2 heads, got 7"),
        (llama_config, {"d_model": 2.0}, "d_model must be an int, got 2.0"),
        (llama_config, {"d_model": 6}, "head_dim must be even to be rotated, got 3"),
        (llama_config, {"n_kv_heads": 3}, "num_key_value_heads must be between 1 and 2, got 3"),
        (llama_config, {"n_heads": 4, "n_kv_heads": 3}, "must divide the 4 attention heads, got 3"),
        (llama_config, {"rope_theta": 0}, "rope_theta must be positive, got 0"),
        (llama_config, {"norm_eps": float("nan")}, "rms_norm_eps must be finite"),
        (llama_config, {"tie_word_embeddings": 1}, "tie_word_embeddings must be true or false"),
        (gpt_config, {"max_positions": 0}, "max_position_embeddings must be at least 1, got 0"),
        (gpt_config, {"n_layers": True}, "num_hidden_layers must be an int, got True"),
        (hybrid_config, {"attention_every": 0}, "attention_every must be at least 1, got 0"),
        (hybrid_config, {"n_layers": 1.5}, "n_layers must be an int, got 1.5"),
    ],
)
def test_what_is_refused(make, changes, message):
    arguments = {"vocab_size": 10, "d_model": 8, "n_heads": 2, "n_layers": 2} | changes
    refuses((ValueError, TypeError), message, make, **arguments)


def test_a_whole_number_that_mlx_does_not_take_is_a_float():
    """A file may spell one of 71 bits."""
    config = llama_config(10, 8, 2, 2, norm_eps=2**70)
    assert mx.isfinite(LanguageModel(config)(mx.array([[1]]))).all()


def test_learned_positions_need_attention():
    keys = gpt_config(10, 8, 2, 1).to_dict() | {"layer_types": ["linear_attention"]}
    refuses(ValueError, "positions='learned' needs an attention layer", ModelConfig.from_dict, keys)


def test_a_model_needs_a_config():
    with pytest.raises(TypeError, match="config must be a ModelConfig, got dict"):
        LanguageModel(llama_config(10, 8, 2, 1).to_dict())
