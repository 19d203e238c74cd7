"""What any model tells: the size of its vocabulary, its table of positions, its context."""

from types import SimpleNamespace

from lablib.models import LanguageModel, gpt_config, hybrid_config, llama_config
from lablib.models.interface import context_of, position_table_of, vocab_size_of

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models import gpt2, gpt_bigcode, gptj, llama, qwen3

V = 48
LLAMA = llama_config(V, 16, 4, 2, n_kv_heads=2, tie_word_embeddings=False)


class Bare(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


def mlx_lm_model(module, **keys):
    return module.Model(module.ModelArgs.from_dict({"model_type": "any", **keys}))


@pytest.mark.parametrize("module", [llama, qwen3])
def test_mlx_lm_models_say_their_vocabulary(module):
    assert vocab_size_of(mlx_lm_model(module, **LLAMA.to_dict())) == V


def test_ours_say_their_vocabulary():
    for make in (llama_config, gpt_config, hybrid_config):
        assert vocab_size_of(LanguageModel(make(V, 16, 2, 2), seed=0)) == V


def test_vocab_size_from_the_weights():
    assert vocab_size_of(Bare(wte=nn.Embedding(70, 64))) == 70
    both = Bare(embed_tokens=nn.Embedding(80, 64), lm_head=nn.Linear(64, 72))
    assert vocab_size_of(both) == 72
    nn.quantize(both, group_size=64, bits=4)
    assert vocab_size_of(both) == 72
    assert vocab_size_of(Bare(embeddings=Bare(wte=nn.Embedding(70, 64)))) == 70
    with pytest.raises(ValueError, match="give the Bare a vocab_size"):
        vocab_size_of(Bare(norm=nn.RMSNorm(3)))


def test_vocab_size_of_anything_that_says_it():
    class Scripted:
        vocab_size = 7

    class Nested:
        def __init__(self):
            self.args = SimpleNamespace(text_config={"vocab_size": 9})

    assert vocab_size_of(Scripted()) == 7
    assert vocab_size_of(Nested()) == 9
    with pytest.raises(ValueError, match="model must say how many token ids it has"):
        vocab_size_of(lambda tokens, cache=None: tokens)


GPT2 = {
    "n_ctx": 32, "n_positions": 32, "n_embd": 16, "n_head": 2, "n_layer": 1,
    "layer_norm_epsilon": 1e-5, "vocab_size": V,
}  # fmt: skip


def test_a_table_of_positions_is_a_context_and_rotation_is_none():
    bigcode = {**GPT2, "n_inner": 32, "attention_bias": True, "mlp_bias": True}
    for module, keys in ((gpt2, GPT2), (gpt_bigcode, bigcode)):
        model = mlx_lm_model(module, **keys)
        assert position_table_of(model) == context_of(model) == 32
        assert mx.isfinite(model(mx.zeros((1, 32), mx.int32))).all().item()
    rotated = {**GPT2, "rotary_dim": 4, "n_inner": 32}
    for model in (mlx_lm_model(gptj, **rotated), mlx_lm_model(llama, **LLAMA.to_dict())):
        assert position_table_of(model) is context_of(model) is None
    assert context_of(lambda tokens, cache=None: tokens) is None


def test_our_models_say_their_context():
    for make, table in ((llama_config, None), (gpt_config, 9), (hybrid_config, None)):
        model = LanguageModel(make(V, 16, 2, 2, max_positions=9), seed=0)
        assert (context_of(model), position_table_of(model)) == (9, table)
    nn.quantize(model := LanguageModel(gpt_config(V, 64, 2, 2, max_positions=9), seed=0))
    assert position_table_of(model) == 9
    assert context_of(SimpleNamespace(max_positions=20)) == 20
