"""Directories made of GGUF files: a ``LanguageModel`` in half precision, for mlx-lm as well."""

import shutil
from pathlib import Path

import lablib
from lablib.machine import stored_weights
from lablib.models import LanguageModel, files
from lablib.models.stored import Stored
from lablib.tools.gguf import convert

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx.utils import tree_flatten
from oracles import bpe
from oracles import gguf as oracle

TOKENIZER = bpe.tokenizer_keys(size=320)
IDS = np.random.default_rng(5).integers(0, 320, 24)


def tiny(path, family="llama", kind="Q4_1", **changes):
    source = path / "tiny.gguf"
    return source, *oracle.tiny(source, family, kind, tokenizer=TOKENIZER, **changes)


def logits(model):
    model.set_dtype(mx.float32)
    return np.array(model(mx.array(IDS[None]))[0])


@pytest.mark.parametrize("kind", ["F32", "Q4_1", "Q5_0"])
def test_a_llama_becomes_a_directory(tmp_path, kind):
    source, keys, numbers = tiny(tmp_path, kind=kind)
    before = source.read_bytes()
    out = convert(str(source), str(tmp_path / "deep" / "model"))
    assert out == tmp_path / "deep" / "model"
    ours, tokenizer = lablib.load(out)
    theirs, _ = mlx_lm.load(str(out))
    assert isinstance(ours, LanguageModel)
    for name, weight in tree_flatten(ours.parameters()):
        stored = numbers[oracle.gguf_name(name)]
        heads = {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2])
        stored = oracle.halves(stored, heads) if heads else stored
        np.testing.assert_array_equal(np.array(weight), stored.astype(np.float16), name)
    # What is stored has half precision: a weight may be 2⁻¹¹ of itself away, 5e-4, and logits of
    # about 1, sums of dozens of products of such, 2e-3.
    for model in (ours, theirs):
        np.testing.assert_allclose(logits(model), oracle.logits(keys, numbers, IDS), atol=3e-3)
    assert tokenizer.eos_token_ids == {2}
    assert tokenizer.chat_template == TOKENIZER["tokenizer.chat_template"]
    assert tokenizer.encode(bpe.TEXT) == bpe.encode(bpe.TEXT, TOKENIZER)
    written = {"config.json", "model.safetensors", "origin.json"}
    written |= {"tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in out.iterdir()} == written
    assert '"general.name": "a tiny one"' in (out / "origin.json").read_text()
    assert source.read_bytes() == before


@pytest.mark.skipif(stored_weights.product() is None, reason=str(stored_weights.obstacle()))
def test_a_directory_that_has_its_file_opens_as_codes(tmp_path):
    source, keys, numbers = tiny(tmp_path)
    out = convert(source, tmp_path / "model")
    plain, _ = lablib.load(out)
    shutil.copy(source, out / files.CODES)
    coded, _ = lablib.load(out)
    assert isinstance(coded, LanguageModel)
    assert isinstance(coded.model.embed_tokens, Stored)
    # A head that was trained on one drafts for the other.
    assert files.fingerprint(coded) == files.fingerprint(plain)
    np.testing.assert_allclose(logits(coded), oracle.logits(keys, numbers, IDS), atol=1e-3)
    asked, _ = lablib.load(out, dtype=mx.float32)
    np.testing.assert_array_equal(logits(asked), logits(plain))


def refusal(source, out):
    """The one line with which ``convert`` refuses, having written nothing."""
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        convert(source, out)
    assert not out.exists()
    return str(caught.value)


def test_what_is_no_plain_llama_is_refused_and_nothing_is_written(tmp_path):
    for source in (tmp_path / "none.gguf", tmp_path):
        assert "source must be a GGUF file" in refusal(source, tmp_path / "model")
    source, *_ = tiny(tmp_path, "qwen3")
    assert "is no plain Llama" in refusal(source, tmp_path / "model")
    scaled = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
    source, *_ = tiny(tmp_path, keys=scaled)
    assert "is no plain Llama" in refusal(source, tmp_path / "model")
    large = "F32", (64,), np.full(64, 1e6, np.float32).tobytes()
    source, *_ = tiny(tmp_path, tensors={"output_norm.weight": large})
    assert "model.norm.weight holds numbers that are not finite in float16" in refusal(
        source, tmp_path / "model"
    )
    source.write_bytes(b"GGUF" + bytes(20))
    assert "its version must be 2 or 3, got 0" in refusal(source, tmp_path / "model")


def test_a_full_disk_is_an_os_error(tmp_path, monkeypatch):
    source, *_ = tiny(tmp_path)

    def full(*_):
        raise RuntimeError("[write] Unable to write 300092 bytes to file.")  # MLX's own

    monkeypatch.setattr(mx, "save_safetensors", full)
    with pytest.raises(OSError, match=r"could not be written: .*Unable to write"):
        convert(source, tmp_path / "model")
    assert not list(Path(tmp_path / "model").iterdir())
