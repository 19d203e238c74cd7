"""GGUF files of tiny Llamas, in every rounding, against what an oracle says that they mean."""

import dataclasses
import random
import re
from pathlib import Path

import lablib
from lablib.models import LanguageModel, llama_config
from lablib.tools.gguf import convert

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx.utils import tree_flatten
from oracles import bpe
from oracles import gguf as oracle

TOKENIZER = bpe.tokenizer_keys(size=320)
V = len(TOKENIZER["tokenizer.ggml.tokens"])
SHAPES = {
    "grouped heads": llama_config(V, 64, 4, 2, n_kv_heads=2, d_ff=192),
    "untied": llama_config(V, 32, 2, 1, d_ff=96, tie_word_embeddings=False),
    "heads of 6": llama_config(V, 96, 16, 2, n_kv_heads=4, d_ff=256, rope_theta=500.0),
    "one wide head": llama_config(V, 32, 1, 2, d_ff=96, max_positions=77),
}
TOKENS = mx.random.randint(0, V, (2, 24), key=mx.random.key(5))


def llama(path, shape="grouped heads", kind="F32", **changes):
    """Write a file, changed as asked; return it and the weights that it means."""
    source = path / "tiny.gguf"
    return source, oracle.tiny(source, SHAPES[shape], TOKENIZER, kind, **changes)


def logits(model):
    model.set_dtype(mx.float32)
    return np.array(model(TOKENS))


def expected(config, weights):
    model = LanguageModel(config, seed=0)
    model.load_weights([(name, mx.array(weight)) for name, weight in weights.items()])
    return logits(model)


def refusal(source, out):
    """The one line with which ``convert`` refuses, having written nothing."""
    with pytest.raises((ValueError, TypeError)) as caught:
        convert(source, out)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 250 + len(str(source))
    assert not out.exists()
    assert str(source) in message
    return message


# --- what a file means ------------------------------------------------------------------------
def test_rotating_pairs_of_interleaved_rows_is_rotating_halves():
    """Why the rows of queries and keys are reordered at all: their scores stay what they were."""
    numbers = np.random.default_rng(0)
    heads, size, width = 3, 8, 12
    q, k = numbers.normal(size=(2, heads * size, width))
    x, y = numbers.normal(size=(2, width))
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        scores = []
        for interleaved in (False, True):
            a, b = (oracle.side_by_side(w, heads) if interleaved else w for w in (q, k))
            a = oracle.rotated(a[own] @ x, 7, 100.0, interleaved)
            scores.append(a @ oracle.rotated(b[own] @ y, 3, 100.0, interleaved))
        np.testing.assert_allclose(*scores)


@pytest.mark.parametrize("kind", oracle.FILE_TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_llama_in_every_rounding(tmp_path, shape, kind):
    config = SHAPES[shape]
    source, meaning = llama(tmp_path, shape, kind)
    out = convert(source, tmp_path / "model")
    assert out == tmp_path / "model"
    ours, tokenizer = lablib.load(out)
    theirs, _ = mlx_lm.load(str(out))
    assert isinstance(ours, LanguageModel)
    assert ours.config.to_dict() | {"rms_norm_eps": 0} == config.to_dict() | {"rms_norm_eps": 0}
    assert ours.config.rms_norm_eps == pytest.approx(config.rms_norm_eps)  # a float32 in the file
    for name, weight in tree_flatten(ours.parameters()):
        np.testing.assert_array_equal(np.array(weight), meaning[name].astype(np.float16), name)
    # What is stored has half precision: a weight may be 2⁻¹¹ of itself away, 5e-4, and logits of
    # about 1, sums of dozens of products of such, 1e-3.
    exact = expected(config, meaning)
    for model in (ours, theirs):
        np.testing.assert_allclose(logits(model), exact, atol=1e-3)
    # From the same halves, all that is left is the order of float32 sums.
    halves = {name: weight.astype(np.float16).astype("f4") for name, weight in meaning.items()}
    np.testing.assert_allclose(logits(theirs), expected(config, halves), atol=1e-4)
    np.testing.assert_allclose(logits(ours), expected(config, halves), atol=1e-5)
    assert tokenizer.eos_token_ids == {2}
    assert exact.std() > 0.15  # the logits tell tokens apart


def test_the_rounding_is_the_files(tmp_path):
    """The oracle reads its own blocks, and the roundings differ: none is taken for another."""
    weights = oracle.random_weights(SHAPES["untied"])["lm_head.weight"]
    seen = {}
    for kind in oracle.FILE_TYPES:
        raw, seen[kind] = oracle.blocks(kind, weights)
        np.testing.assert_array_equal(oracle.plain(kind, raw, weights.shape), seen[kind])
        size = np.abs(weights).max()
        step = {"F32": 0, "F16": 2**-11, "Q8_0": 1 / 240, "Q4_0": 1 / 7, "Q4_1": 1 / 14}[kind]
        assert np.abs(seen[kind] - weights).max() <= step * size * 1.01, kind
    assert len({array.tobytes() for array in seen.values()}) == len(seen)


def test_blocks_of_zeros_and_of_one_number(tmp_path):
    config = SHAPES["grouped heads"]
    weights = oracle.random_weights(config)
    weights["model.layers.0.mlp.up_proj.weight"][:] = 0
    weights["model.layers.1.mlp.up_proj.weight"][:] = -0.25
    for kind in oracle.FILE_TYPES:
        tensors, meaning = oracle.llama(config, weights, kind)
        keys = oracle.llama_keys(config, TOKENIZER, kind)
        source = oracle.write(tmp_path / "t.gguf", keys, tensors)
        model, _ = lablib.load(convert(source, tmp_path / kind))
        for layer, value in enumerate((0, -0.25)):
            found = np.array(model.layers[layer].mlp.up_proj.weight)
            wanted = meaning[f"model.layers.{layer}.mlp.up_proj.weight"].astype(np.float16)
            np.testing.assert_array_equal(found, wanted)
            assert np.abs(found - value).max() < 1e-3


def test_an_output_layer_of_six_bits_in_a_file_of_four(tmp_path):
    """llama.cpp mixes roundings; MLX reads this one of the K-quants, into float16."""
    config = llama_config(V, 256, 4, 1, d_ff=96, tie_word_embeddings=False)
    rows = np.random.default_rng(0).integers(0, 256, (V, 210), np.uint8)
    rows[:, 208:] = np.full((V, 1), 2**-9, "<f2").view(np.uint8)
    source, tensors = tmp_path / "t.gguf", {"output.weight": ("Q6_K", (V, 256), rows.tobytes())}
    oracle.tiny(source, config, TOKENIZER, "Q4_0", tensors=tensors)
    model, _ = lablib.load(convert(source, tmp_path / "model"))
    wanted = oracle.plain("Q6_K", rows.tobytes(), (V, 256)).astype(np.float16)
    np.testing.assert_array_equal(np.array(model.lm_head.weight), wanted)


@pytest.mark.parametrize(
    "keys",
    [
        {"general.alignment": 64},
        {"general.alignment": 8},
        {name: oracle.As("uint64", n) for name, n in [("llama.block_count", 2)]},
        {"llama.rope.freq_base": 10000, "llama.context_length": oracle.As("int16", 1024)},
        {"llama.vocab_size": V, "general.type": "model", "general.tags": ["a", "b"]},
        {"general.unheard_of": oracle.As("int8", -3), "general.quantization_version": 2},
        {"tokenizer.ggml.padding_token_id": 0, "tokenizer.ggml.add_space_prefix": False},
    ],
)
def test_the_same_said_otherwise(tmp_path, keys):
    source, meaning = llama(tmp_path, keys=keys)
    model, _ = lablib.load(convert(source, tmp_path / "model"))
    for name, weight in tree_flatten(model.parameters()):
        np.testing.assert_array_equal(np.array(weight), meaning[name].astype(np.float16))


@pytest.mark.parametrize(
    ("shape", "absent", "default"),
    [
        ("heads of 6", "llama.attention.key_length", ("head_dim", 6)),
        ("grouped heads", "llama.attention.value_length", ("head_dim", 16)),
        ("grouped heads", "llama.rope.dimension_count", ("head_dim", 16)),
        ("untied", "llama.attention.head_count_kv", ("num_key_value_heads", 2)),
        ("untied", "llama.rope.freq_base", ("rope_theta", 10000.0)),
        ("untied", "general.file_type", ("head_dim", 16)),
        ("untied", "general.name", ("head_dim", 16)),
    ],
)
def test_what_may_be_left_out(tmp_path, shape, absent, default):
    source, _ = llama(tmp_path, shape, without=[absent])
    model, _ = lablib.load(convert(source, tmp_path / "model"))
    assert getattr(model.config, default[0]) == default[1]


def test_heads_wider_than_their_share(tmp_path):
    """A head's size is said apart, as in Mistral's Nemo; the width is no multiple of it."""
    config = dataclasses.replace(SHAPES["grouped heads"], head_dim=24)
    tensors, meaning = oracle.llama(config, oracle.random_weights(config))
    keys = oracle.llama_keys(config, TOKENIZER)
    keys.pop("llama.rope.dimension_count")
    source = oracle.write(tmp_path / "wide.gguf", keys, tensors)
    model, _ = lablib.load(convert(source, tmp_path / "model"))
    np.testing.assert_allclose(logits(model), expected(config, meaning), atol=1e-3)


def test_converting_leaves_the_source_and_the_global_random_state(tmp_path):
    source, _ = llama(tmp_path, kind="Q4_1")
    before = source.read_bytes()
    mx.random.seed(5)
    drawn = mx.random.uniform(shape=(4,)).tolist()
    mx.random.seed(5)
    out = convert(str(source), str(tmp_path / "deep" / "model"))
    assert mx.random.uniform(shape=(4,)).tolist() == drawn
    assert source.read_bytes() == before
    written = {"config.json", "model.safetensors", "origin.json"}
    written |= {"tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in out.iterdir()} == written
    assert '"general.name": "a tiny one"' in (out / "origin.json").read_text()


# --- what is refused --------------------------------------------------------------------------
# Which keys another file has, which tensors, or what it lacks; and what is said of that.
KEYS = [
    ({"general.architecture": "gemma"}, "general.architecture must be one of 'llama', got"),
    ({"general.file_type": 15}, "weights must be F32, F16, Q4_0, Q4_1, Q8_0, got file type 15"),
    ({"general.file_type": 18}, "got file type 18"),
    ({"llama.rope.scaling.type": "linear"}, "llama.rope.scaling.type is not known"),
    ({"llama.rope.scaling.factor": 4.0}, "llama.rope.scaling.factor is not known"),
    ({"llama.rope.scale_linear": 2.0}, "llama.rope.scale_linear is not known"),
    ({"llama.attention.sliding_window": 64}, "llama.attention.sliding_window is not known"),
    ({"llama.expert_count": 8}, "llama.expert_count is not known"),
    ({"llama.rope.dimension_count": 8}, "llama.rope.dimension_count must be one of 16, got 8"),
    ({"llama.attention.value_length": 8}, "llama.attention.value_length must be one of 16"),
    ({"llama.attention.head_count": 0}, "num_attention_heads must be at least 1, got 0"),
    ({"llama.attention.head_count": "four"}, "num_attention_heads must be an int"),
    ({"llama.attention.head_count_kv": [2, 2]}, "num_key_value_heads must be an int"),
    ({"llama.attention.head_count_kv": 3}, "num_key_value_heads must divide the 4"),
    ({"llama.attention.layer_norm_rms_epsilon": 0.0}, "rms_norm_eps must be positive"),
    ({"llama.rope.freq_base": float("nan")}, "rope_theta must be finite"),
    ({"llama.block_count": 1}, "llama.block_count must be one of 2, got 1"),
    ({"llama.block_count": 2**32 - 1}, "llama.block_count must be one of 2, got 4294967295"),
    ({"llama.feed_forward_length": 64}, r"Expected shape \(64, 64\) but received"),
    ({"llama.embedding_length": 32}, "Expected shape"),
    ({"llama.attention.head_count": 2, "llama.attention.head_count_kv": 1}, "Expected shape"),
    ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.model must be one of 'gpt2'"),
    ({"tokenizer.ggml.pre": "llama-bpe"}, "ggml.pre must be one of 'smollm', 'gpt-2'"),
    ({"tokenizer.ggml.pre": "default"}, "tokenizer.ggml.pre must be one of"),
    ({"tokenizer.ggml.add_bos_token": True}, "tokenizer.ggml.add_bos_token must be one of"),
    ({"tokenizer.ggml.add_space_prefix": True}, "tokenizer.ggml.add_space_prefix must be"),
    ({"tokenizer.ggml.eos_token_id": V}, "tokenizer.ggml.eos_token_id must be between 0 and"),
    ({"tokenizer.ggml.bos_token_id": oracle.As("int32", -1)}, "bos_token_id must be between"),
    ({"tokenizer.ggml.merges": ["t h e"]}, r"merges must join .*got \('t', 'h', 'e'\)"),
    ({"tokenizer.ggml.merges": ["the"]}, r"merges must join .*got \('the',\)"),
    ({"tokenizer.ggml.merges": ["z q"]}, r"merges must join .*got \('z', 'q'\)"),
    ({"tokenizer.ggml.merges": ["zq x"]}, "merges must join"),
    ({"tokenizer.ggml.token_type": [1, 1]}, "must differ, and have a token_type each"),
    ({"tokenizer.ggml.token_type": "text"}, "token_type must be a sequence of numbers, got s"),
    ({"tokenizer.ggml.token_type": 3}, "token_type must be a sequence of numbers, got int"),
    ({"tokenizer.chat_template": [1, 2]}, "tokenizer.chat_template must be a text"),
    ({"general.name": [0.5, 1.5]}, "general.name must be a text"),
    ({"tokenizer.ggml.tokens": ["same"] * V}, "must differ, and have a token_type each"),
]


def _tensor(*shape, fill=0.5):
    return "F32", shape, np.full(shape, fill, np.float32).tobytes()


TENSORS = [
    ({"rope_freqs.weight": _tensor(8)}, "rope_freqs.weight is no weight of a plain Llama"),
    ({"blk.0.attn_q.bias": _tensor(64)}, "blk.0.attn_q.bias is no weight"),
    ({"blk.0.attn_q_norm.weight": _tensor(16)}, "blk.0.attn_q_norm.weight is no weight"),
    ({"blk.0.ffn_gate_exps.weight": _tensor(2, 64, 64)}, "ffn_gate_exps.weight is no weight"),
    ({"dec.0.attn_q.weight": _tensor(64, 64)}, "dec.0.attn_q.weight is no weight"),
    ({"v.blk.0.attn_q.weight": _tensor(64, 64)}, "v.blk.0.attn_q.weight is no weight"),
    ({"attn_q.weight": _tensor(64, 64)}, "self_attn.q_proj.weight"),
    ({"blk.7.attn_q.weight": _tensor(64, 64)}, "llama.block_count must be one of 3, got 2"),
    ({"blk.0.attn_q.weight": _tensor(64, 60)}, "self_attn.q_proj.weight"),
    ({"blk.0.attn_k.weight": _tensor(64, 64)}, "self_attn.k_proj.weight"),
    ({"token_embd.weight": _tensor(V - 1, 64)}, "model.embed_tokens.weight"),
    ({"output_norm.weight": _tensor(64, fill=np.nan)}, "model.norm.weight .* not finite"),
    ({"output_norm.weight": _tensor(64, fill=1e6)}, "model.norm.weight .* not finite in fl"),
    ({"output_norm.weight": ("I8", (64,), bytes(64))}, "must be floating point or rounded"),
    ({"blk.0.ffn_up.weight": ("Q5_0", (192, 64), bytes(192 * 44))}, "rounded otherwise"),
]
LACKS = [
    "general.architecture", "llama.block_count", "llama.embedding_length",
    "llama.context_length", "llama.feed_forward_length", "llama.attention.head_count",
    "llama.attention.layer_norm_rms_epsilon", "tokenizer.ggml.model", "tokenizer.ggml.tokens",
    "tokenizer.ggml.merges", "tokenizer.ggml.token_type",
]  # fmt: skip
ABSENT = [(name, f"gguf lacks '{name}'$") for name in LACKS]
ABSENT += [("tokenizer.ggml.pre", "tokenizer.ggml.pre must be one of")]  # how text is cut
WEIGHTS = ("blk.1.attn_q.weight", "blk.0.ffn_norm.weight", "token_embd.weight")
ABSENT += [(name, "Missing 1 parameters") for name in WEIGHTS]
REFUSED = [({"keys": keys}, said) for keys, said in KEYS]
REFUSED += [({"tensors": tensors}, said) for tensors, said in TENSORS]
REFUSED += [({"without": [name]}, said) for name, said in ABSENT]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_is_not_known_does_not_fit_or_lacks_is_refused_by_name(tmp_path, changes, message):
    source, _ = llama(tmp_path, **changes)
    assert re.search(message, refusal(source, tmp_path / "model"))


def test_half_a_file(tmp_path):
    """Wherever it was cut: MLX maps the file, and a read beyond its end would end the process."""
    source, _ = llama(tmp_path, kind="Q4_0")
    whole = source.read_bytes()
    cuts = random.Random(0).sample(range(len(whole)), 60)
    for keep in (0, 3, 4, 8, 23, 24, len(whole) - 200, *cuts):
        source.write_bytes(whole[:keep])
        assert "is no GGUF file, or damaged" in refusal(source, tmp_path / "model"), keep


@pytest.mark.parametrize(
    "content", [b"", b"GGUF", b"GGUF" + bytes(20), b"PK\x03\x04" * 99, b"{}" * 99, b"\xff" * 999]
)
def test_not_a_gguf(tmp_path, content):
    source = tmp_path / "model.gguf"
    source.write_bytes(content)
    refusal(source, tmp_path / "model")


def test_no_such_file(tmp_path):
    for source in (tmp_path / "none.gguf", tmp_path):
        assert "source must be a GGUF file" in refusal(source, tmp_path / "model")


def test_a_full_disk_is_an_os_error(tmp_path, monkeypatch):
    source, _ = llama(tmp_path)

    def full(*_):
        raise RuntimeError("[write] Unable to write 300092 bytes to file.")  # MLX's own

    monkeypatch.setattr(mx, "save_safetensors", full)
    with pytest.raises(OSError, match=r"could not be written: .*Unable to write"):
        convert(source, tmp_path / "model")
    assert not list(Path(tmp_path / "model").iterdir())
