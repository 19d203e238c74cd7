"""GGUF files of tiny models: four families, every type of block, against what the files mean."""

import random
import re

import lablib
from lablib import extras
from lablib.inference import NGram
from lablib.machine import stored_weights
from lablib.models import stored
from lablib.models.gguf import codes

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from oracles import bpe
from oracles import gguf as oracle

TOKENIZER = bpe.tokenizer_keys(size=320)
V = len(TOKENIZER["tokenizer.ggml.tokens"])
IDS = np.random.default_rng(5).integers(0, V, 24)  # three windows long
SHAPES = {
    "grouped heads": oracle.SMALL,
    "untied": oracle.Shape(
        vocab=V + 16, width=32, heads=2, shared=1, size=16, inner=96, layers=4, tied=False
    ),
    "heads of 6": oracle.Shape(width=96, heads=16, shared=4, size=6, inner=64),
}
# Float32 against float64 through a few layers; the logits are about 1.
CLOSE = {"rtol": 0, "atol": 1e-4}
ROUNDED = 1e-3  # where codes meet activations of 16 bits
needs_product = pytest.mark.skipif(
    stored_weights.product() is None, reason=str(stored_weights.obstacle())
)


def tiny(path, family="llama", kind="F32", shape=oracle.SMALL, **changes):
    """Write a file, changed as asked; return it, its keys and the numbers of its tensors."""
    source = path / "tiny.gguf"
    return source, *oracle.tiny(source, family, kind, shape, tokenizer=TOKENIZER, **changes)


def logits(model, ids=IDS):
    return np.array(model(mx.array(ids[None]))[0])


def refusal(source):
    """The one line with which ``load`` refuses a file."""
    with pytest.raises((ValueError, TypeError)) as caught:
        lablib.load(source)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 250 + len(str(source))
    assert str(source) in message
    return message


# --- what a file means ------------------------------------------------------------------------
def test_rotating_pairs_of_interleaved_rows_is_rotating_halves():
    """Why the rows of queries and keys are reordered at all: their scores stay what they were."""
    numbers = np.random.default_rng(0)
    heads, size, width = 3, 8, 12
    weights, x = numbers.normal(size=(2, heads * size, width)), numbers.normal(size=(9, width))
    scores = []
    for interleaved in (True, False):
        each = (w if interleaved else oracle.halves(w, heads) for w in weights)
        q, k = (oracle.rotated((x @ w.T).reshape(9, heads, size), 100.0, interleaved) for w in each)
        scores.append(np.einsum("thd,shd->hts", q, k))
    np.testing.assert_allclose(*scores)


@pytest.mark.parametrize("family", oracle.FAMILIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_family_computes_what_its_file_says(tmp_path, family, shape):
    if family == "qwen2" and shape == "heads of 6":
        shape = "untied"
    source, keys, numbers = tiny(tmp_path, family, shape=SHAPES[shape])
    model, tokenizer = lablib.load(source)
    wanted = oracle.logits(keys, numbers, IDS)
    np.testing.assert_allclose(logits(model), wanted, **CLOSE)
    assert wanted.std() > 0.15  # they tell tokens apart
    assert {array.dtype for _, array in tree_flatten(model.parameters())} == {mx.float32}
    assert model.stop_tokens == {0, 2} == tokenizer.eos_token_ids  # its template names turns
    assert model.known_ids == (V if shape == "untied" else None)


def test_beyond_its_window_it_writes_what_the_file_says(tmp_path):
    """Token by token through caches that wrap, and with drafts that are refused."""
    source, keys, numbers = tiny(tmp_path, "gemma3")
    model, tokenizer = lablib.load(source)
    text = [*IDS[:3].tolist()]
    while len(text) < 30:
        text.append(int(oracle.logits(keys, numbers, np.array(text))[-1].argmax()))
    wanted = text[3:]
    for more in ({}, {"draft_model": NGram()}):
        how = {"temperature": 0.0, "max_tokens": 27, "stop_tokens": ()}
        found = lablib.generate(model, tokenizer, text[:3], **how, **more)
        assert found.tokens == wanted


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [*oracle.ROUNDED, *oracle.MADE_UP])
@pytest.mark.parametrize("family", oracle.FAMILIES)
def test_every_type_in_every_family(tmp_path, family, kind):
    shape = oracle.Shape(layers=2 if family == "gemma3" else 1)  # one that slides, and one not
    source, keys, numbers = tiny(tmp_path, family, kind, shape)
    wanted = oracle.logits(keys, numbers, IDS)
    np.testing.assert_allclose(logits(lablib.load(source, dtype=mx.float32)[0]), wanted, **CLOSE)
    np.testing.assert_allclose(logits(lablib.load(source)[0]), wanted, rtol=0, atol=ROUNDED)
    assert wanted.std() > 0.15


@needs_product
@pytest.mark.parametrize("kind", codes.KINDS)
def test_weights_are_the_packages_to_the_last_bit(tmp_path, kind):
    shape = oracle.Shape(layers=1, tied=False)
    source, keys, numbers = tiny(tmp_path, "llama", kind, shape)
    model, _ = lablib.load(source)
    mlp, attention, embedded = model.layers[0].mlp, model.layers[0].self_attn, mx.array(IDS)
    assert all(isinstance(each, stored.Stored) for each in (mlp.up_proj, model.lm_head))
    np.testing.assert_array_equal(mlp.up_proj.weight, numbers["blk.0.ffn_up.weight"])
    np.testing.assert_array_equal(model.lm_head.weight, numbers["output.weight"])
    table = numbers["token_embd.weight"]
    np.testing.assert_array_equal(model.model.embed_tokens(embedded), table[IDS])
    rows = oracle.halves(numbers["blk.0.attn_k.weight"], 2)
    np.testing.assert_array_equal(attention.k_proj.weight, rows)
    if kind == "Q4_1":  # codes of 4 bits, and for each 32 two factors: a fifth of float32
        size = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
        assert size < 0.2 * sum(each.nbytes for each in numbers.values())
        wanted = oracle.logits(keys, numbers, IDS)
        np.testing.assert_allclose(logits(model), wanted, rtol=0, atol=ROUNDED)


def test_without_the_product_codes_become_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_weights, "_made", lambda: (None, "no C++ compiler"))
    source, _, numbers = tiny(tmp_path, kind="Q4_1")
    up = lablib.load(source)[0].layers[0].mlp.up_proj
    assert type(up) is nn.Linear
    np.testing.assert_array_equal(up.weight, numbers["blk.0.ffn_up.weight"])


def test_a_file_that_is_longer_than_what_is_read_at_once(tmp_path, monkeypatch):
    for part in ("weights", "codes"):
        monkeypatch.setattr(f"lablib.models.gguf.{part}._AT_ONCE", 96)
    source, keys, numbers = tiny(tmp_path, "qwen2", "Q5_1", SHAPES["untied"])
    for how, close in (({"dtype": mx.float32}, 1e-4), ({}, ROUNDED)):
        found = logits(lablib.load(source, **how)[0])
        np.testing.assert_allclose(found, oracle.logits(keys, numbers, IDS), rtol=0, atol=close)


def test_a_window_is_that_of_the_layers_that_the_file_names(tmp_path):
    every = {"gemma3.attention.sliding_window_pattern": [True, True, True, False]}
    shape = oracle.Shape(width=32, heads=2, shared=1, size=16, inner=96, layers=4, period=4)
    source, keys, numbers = tiny(tmp_path, "gemma3", shape=shape)
    wanted = oracle.logits(keys, numbers, IDS)
    source, *_ = tiny(tmp_path, "gemma3", shape=shape, keys=every)
    np.testing.assert_allclose(logits(lablib.load(source)[0]), wanted, **CLOSE)
    every["gemma3.attention.sliding_window_pattern"] = [True, False, True, True]
    source, *_ = tiny(tmp_path, "gemma3", shape=shape, keys=every)
    assert "sliding_window_pattern must repeat" in refusal(source)


def test_what_a_gemma_leaves_out(tmp_path):
    left_out = [f"gemma3.{n}" for n in ("attention.sliding_window_pattern", "rope.freq_base_swa")]
    shape = oracle.Shape(width=32, heads=2, shared=1, size=16, inner=32, layers=6)
    source, keys, numbers = tiny(tmp_path, "gemma3", shape=shape, without=left_out)
    model, _ = lablib.load(source)
    np.testing.assert_allclose(logits(model), oracle.logits(keys, numbers, IDS), **CLOSE)
    assert (model.args.sliding_window_pattern, model.args.rope_local_base_freq) == (6, 10_000.0)
    largest = oracle.Shape(width=32, heads=2, shared=1, size=32, inner=32, layers=62)
    source, *_ = tiny(tmp_path, "gemma3", shape=largest)
    assert lablib.load(source)[0].args.query_pre_attn_scalar == 16  # 27B's: its width, by heads


@pytest.mark.parametrize("family", oracle.FAMILIES)
def test_rotations_that_are_scaled(tmp_path, family):
    scaled = {f"{family}.rope.scaling.type": "linear", f"{family}.rope.scaling.factor": 4.0}
    source, keys, numbers = tiny(tmp_path, family, keys=scaled)
    found = logits(lablib.load(source)[0])
    np.testing.assert_allclose(found, oracle.logits(keys, numbers, IDS), **CLOSE)


def stretched(factor, base=500_000.0, size=64):
    """Llama 3's frequencies, as its authors compute them, one at a time."""
    factors = []
    for i in range(size // 2):
        length = 2 * np.pi * base ** (2 * i / size)
        if length < 8192 / 4:
            factors.append(1.0)
        elif length > 8192:
            factors.append(factor)
        else:
            smooth = (8192 / length - 1) / (4 - 1)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


def test_the_frequencies_of_llama_3(tmp_path):
    shape, base = oracle.Shape(layers=1), {"llama.rope.freq_base": 500_000.0}
    for factor in (8.0, 32.0):
        values = stretched(factor)
        changes = {"rope_freqs.weight": ("F32", (32,), values.tobytes())}
        source, keys, numbers = tiny(tmp_path, shape=shape, keys=base, tensors=changes)
        numbers["rope_freqs.weight"] = values
        found = logits(lablib.load(source)[0])
        np.testing.assert_allclose(found, oracle.logits(keys, numbers, IDS), **CLOSE)
    values[7] += 0.01
    changes = {"rope_freqs.weight": ("F32", (32,), values.tobytes())}
    source, *_ = tiny(tmp_path, shape=shape, keys=base, tensors=changes)
    assert "rope_freqs.weight stretches frequencies otherwise" in refusal(source)


@pytest.mark.parametrize(
    "keys",
    [
        {"general.alignment": 64},
        {"general.alignment": 8},
        {"llama.block_count": oracle.As("uint64", 2)},
        {"llama.rope.freq_base": 5000, "llama.context_length": oracle.As("int16", 1024)},
        {"llama.vocab_size": V, "general.type": "model", "general.tags": ["a", "b"]},
        {"general.unheard_of": oracle.As("int8", -3), "general.quantization_version": 2},
        {"tokenizer.ggml.padding_token_id": 0, "tokenizer.ggml.add_space_prefix": False},
        {"llama.rope.scaling.type": "none", "split.count": 1},
    ],
)
def test_the_same_said_otherwise(tmp_path, keys):
    source, found, numbers = tiny(tmp_path, keys=keys)
    model, _ = lablib.load(str(source))
    np.testing.assert_allclose(logits(model), oracle.logits(found, numbers, IDS), **CLOSE)


@pytest.mark.parametrize(
    ("shape", "absent", "default"),
    [
        ("heads of 6", "llama.attention.key_length", ("head_dim", 6)),
        ("grouped heads", "llama.attention.value_length", ("head_dim", 16)),
        ("grouped heads", "llama.rope.dimension_count", ("head_dim", 16)),
        ("untied", "llama.rope.freq_base", ("rope_theta", 10000.0)),
        ("untied", "general.name", ("head_dim", 16)),
    ],
)
def test_what_may_be_left_out(tmp_path, shape, absent, default):
    source, *_ = tiny(tmp_path, shape=SHAPES[shape], without=[absent])
    assert getattr(lablib.load(source)[0].args, default[0]) == default[1]


def test_a_key_head_for_each_query_is_what_no_word_means(tmp_path):
    every = oracle.Shape(width=32, heads=2, shared=2, size=16, inner=96)
    source, *_ = tiny(tmp_path, shape=every, without=["llama.attention.head_count_kv"])
    assert lablib.load(source)[0].args.num_key_value_heads == 2


def test_heads_wider_than_their_share(tmp_path):
    """A head's size is said apart, as in Mistral's Nemo; the width is no multiple of it."""
    source, keys, numbers = tiny(tmp_path, shape=oracle.Shape(width=64, size=24, inner=64))
    found = logits(lablib.load(source)[0])
    np.testing.assert_allclose(found, oracle.logits(keys, numbers, IDS), **CLOSE)


def test_blocks_of_zeros_and_of_one_number(tmp_path):
    for kind in oracle.ROUNDED:
        zeros, same = np.zeros((256, 256)), np.full((256, 256), -0.25)
        tensors = {
            f"blk.{i}.ffn_up.weight": (kind, (256, 256), oracle.blocks(kind, values)[0])
            for i, values in enumerate((zeros, same))
        }
        source, *_ = tiny(tmp_path, shape=oracle.Shape(), tensors=tensors)
        model, _ = lablib.load(source)
        for layer, value in enumerate((0, -0.25)):
            found = np.array(model.layers[layer].mlp.up_proj.weight)
            assert np.abs(found - value).max() < 2e-3, kind


def test_loading_leaves_the_source_and_the_global_random_state(tmp_path):
    source, *_ = tiny(tmp_path, kind="Q4_1")
    before = source.read_bytes()
    mx.random.seed(5)
    drawn = mx.random.uniform(shape=(4,)).tolist()
    mx.random.seed(5)
    lablib.load(source)
    assert mx.random.uniform(shape=(4,)).tolist() == drawn
    assert source.read_bytes() == before


# --- what is refused --------------------------------------------------------------------------
# Which keys another file has, which tensors, or what it lacks; and what is said of that.
KEYS = [
    ({"general.architecture": "gemma"}, "general.architecture must be one of 'llama', 'qwen2', "),
    ({"split.count": 3}, "split.count must be one of 0, 1, got 3"),
    ({"llama.rope.scaling.type": "yarn"}, "llama.rope.scaling.type must be one of 'none', 'lin"),
    ({"llama.rope.scaling.factor": 4.0}, "llama.rope.scaling.factor = 4.0 is not known here"),
    ({"llama.rope.scale_linear": 2.0}, "llama.rope.scale_linear = 2.0 is not known"),
    ({"llama.attention.sliding_window": 64}, "llama.attention.sliding_window = 64 is not known"),
    ({"llama.expert_count": 8}, "llama.expert_count = 8 is not known"),
    ({"llama.vocab_size": V + 1}, f"llama.vocab_size must be one of {V}, got"),
    ({"llama.rope.dimension_count": 8}, "llama.rope.dimension_count must be one of 16, got 8"),
    ({"llama.attention.value_length": 8}, "llama.attention.value_length must be one of 16"),
    ({"llama.attention.key_length": 15}, "key_length must be even to be rotated, got 15"),
    ({"llama.attention.head_count": 0}, "llama.attention.head_count must be between 1 and"),
    ({"llama.attention.head_count": 2**32 - 1}, "llama.attention.head_count must be between 1"),
    ({"llama.attention.head_count": "four"}, "llama.attention.head_count must be an int"),
    ({"llama.attention.head_count_kv": [2, 2]}, "head_count_kv must be an int"),
    ({"llama.attention.head_count_kv": 3}, "head_count_kv must divide the 4 heads, got 3"),
    ({"llama.attention.layer_norm_rms_epsilon": 0.0}, "layer_norm_rms_epsilon must be at least"),
    ({"llama.rope.freq_base": float("nan")}, "llama.rope.freq_base must be finite"),
    ({"llama.block_count": 1}, "blk.1.attn_q.weight' of type F32 is not known here in a llama"),
    ({"llama.block_count": 3}, "blk.2.attn_q.weight is missing"),
    ({"llama.block_count": 2**32 - 1}, "llama.block_count must be between 1 and 1000, got 4294"),
    ({"llama.feed_forward_length": 64}, r"blk.0.ffn_gate.weight .* \(192, 64\), its keys ask for"),
    ({"llama.embedding_length": 32}, r"token_embd.weight .* \(320, 64\), its keys ask for \(320, "),
    ({"llama.attention.head_count": 2, "llama.attention.head_count_kv": 1}, "attn_q.weight .*ask"),
    ({"tokenizer.ggml.model": "bert"}, "tokenizer.ggml.model must be one of 'gpt2', 'llama'"),
    ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.scores must be finite numbers, one for"),
    ({"tokenizer.ggml.pre": "tekken"}, "ggml.pre must be one of 'gpt-2', 'smollm', 'llama-bpe', "),
    ({"tokenizer.ggml.pre": "default"}, "tokenizer.ggml.pre must be one of"),
    ({"tokenizer.ggml.add_bos_token": 1}, "tokenizer.ggml.add_bos_token must be True or False"),
    ({"tokenizer.ggml.add_sep_token": True}, "tokenizer.ggml.add_sep_token must be one of False"),
    ({"tokenizer.ggml.add_space_prefix": True}, "tokenizer.ggml.add_space_prefix must be False"),
    ({"tokenizer.ggml.eos_token_id": V}, "tokenizer.ggml.eos_token_id must be between 0 and"),
    ({"tokenizer.ggml.bos_token_id": oracle.As("int32", -1)}, "bos_token_id must be between"),
    ({"tokenizer.ggml.merges": ["t h e"]}, r"merges must join .*got \('t', 'h', 'e'\)"),
    ({"tokenizer.ggml.merges": ["the"]}, r"merges must join .*got \('the',\)"),
    ({"tokenizer.ggml.merges": ["z q"]}, r"merges must join .*got \('z', 'q'\)"),
    ({"tokenizer.ggml.merges": ["zq x"]}, "merges must join"),
    ({"tokenizer.ggml.merges": 3}, "tokenizer.ggml.merges must be a list of texts"),
    ({"tokenizer.ggml.token_type": [1, 1]}, "must differ, and have a token_type each"),
    ({"tokenizer.ggml.token_type": "text"}, "token_type must be a sequence of numbers, got s"),
    ({"tokenizer.ggml.token_type": 3}, "token_type must be a sequence of numbers, got int"),
    ({"tokenizer.chat_template": [1, 2]}, "tokenizer.chat_template must be a text"),
    ({"tokenizer.ggml.tokens": ["same"] * V}, "must differ, and have a token_type each"),
]


def _tensor(*shape, fill=0.5):
    return "F32", shape, np.full(shape, fill, np.float32).tobytes()


TENSORS = [
    ({"blk.0.attn_q.bias": _tensor(64)}, "blk.0.attn_q.bias' of type F32 is not known here in a"),
    ({"blk.0.attn_q_norm.weight": _tensor(16)}, "blk.0.attn_q_norm.weight' of type F32 is not k"),
    ({"blk.0.ffn_gate_exps.weight": _tensor(2, 64, 64)}, "ffn_gate_exps.weight' of type F32 is n"),
    ({"v.blk.0.attn_q.weight": _tensor(64, 64)}, "v.blk.0.attn_q.weight' of type F32 is not kno"),
    ({"blk.7.attn_q.weight": _tensor(64, 64)}, "blk.7.attn_q.weight' of type F32 is not known"),
    ({"blk.0.attn_q.weight": _tensor(64, 60)}, r"attn_q.weight of type F32 .* \(64, 60\), its k"),
    ({"blk.0.attn_k.weight": _tensor(64, 64)}, r"attn_k.weight of type F32 .* ask for \(32, 64\)"),
    ({"token_embd.weight": _tensor(V - 1, 64)}, "tokens must be at most 319, as many as token_"),
    ({"output_norm.weight": _tensor(64, fill=np.nan)}, "'output_norm.weight' of type F32 holds wh"),
    ({"blk.1.ffn_up.weight": ("Q4_0", (192, 64), b"\0\x7c" * (192 * 18))}, "Q4_0 holds what is n"),
]
TENSORS += [
    ({"blk.0.ffn_up.weight": (kind, (256, 256), bytes(2**21))}, f"ffn_up.weight' is of type {kind}")
    for kind in oracle.UNREAD
]
LACKS = [
    "general.architecture", "llama.block_count", "llama.embedding_length",
    "llama.context_length", "llama.feed_forward_length", "llama.attention.head_count",
    "llama.attention.layer_norm_rms_epsilon", "tokenizer.ggml.model", "tokenizer.ggml.tokens",
    "tokenizer.ggml.merges", "tokenizer.ggml.token_type", "tokenizer.ggml.pre",
    "blk.1.attn_q.weight", "blk.0.ffn_norm.weight", "token_embd.weight",
]  # fmt: skip
REFUSED = [({"keys": keys}, said) for keys, said in KEYS]
REFUSED += [({"tensors": tensors}, said) for tensors, said in TENSORS]
REFUSED += [({"without": [name]}, name) for name in LACKS]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_is_not_known_does_not_fit_or_lacks_is_refused_by_name(tmp_path, changes, message):
    for name, (kind, shape, raw) in dict(changes.get("tensors", ())).items():
        block, size = oracle.gguf.GGML_QUANT_SIZES[oracle.KINDS[kind]]
        changes = {"tensors": {name: (kind, shape, raw[: np.prod(shape) // block * size])}}
    source, *_ = tiny(tmp_path, **changes)
    assert re.search(message, refusal(source))


def test_half_a_file(tmp_path):
    """Wherever it was cut: a mapped file that is read beyond its end would end the process."""
    source, *_ = tiny(tmp_path, kind="Q4_0")
    whole = source.read_bytes()
    cuts = random.Random(0).sample(range(len(whole)), 60)
    for keep in (0, 3, 4, 8, 23, 24, len(whole) - 200, *cuts):
        source.write_bytes(whole[:keep])
        refusal(source)


@pytest.mark.parametrize(
    "content", [b"", b"GGUF", b"GGUF" + bytes(20), b"PK\x03\x04" * 99, b"{}" * 99, b"\xff" * 999]
)
def test_not_a_gguf(tmp_path, content):
    source = tmp_path / "model.gguf"
    source.write_bytes(content)
    refusal(source)


def test_no_such_file_and_what_is_for_others(tmp_path):
    with pytest.raises(ValueError, match="and there is no such directory or file"):
        lablib.load(tmp_path / "none.gguf")
    source, *_ = tiny(tmp_path)
    for name, value in {"revision": "main", "tokenizer_config": {"a": 1}}.items():
        with pytest.raises(ValueError, match=f"^{name} is "):
            lablib.load(source, **{name: value})


def test_without_the_package_the_line_says_how_to_get_it(tmp_path, monkeypatch):
    source, *_ = tiny(tmp_path)
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    line = r"^GGUF files need gguf: pip install 'lablib\[gguf\]'$"
    with pytest.raises(ImportError, match=line):
        lablib.load(source)
