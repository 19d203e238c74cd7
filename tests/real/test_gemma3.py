"""Gemma 3 270M, fetched: its numbers as the file's, its window, and its tokenizer.

Skipped where it was not fetched.
"""

from pathlib import Path

import lablib
from lablib.inference import NGram
from lablib.models import zoo
from lablib.models.gguf import header

import mlx.core as mx
import numpy as np
import pytest
import sentencepiece
from oracles import bpe
from oracles import gguf as oracle
from sentencepiece import sentencepiece_model_pb2 as pieces

HERE = zoo.fetched("gemma3")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(HERE is None, reason="no gemma3: run python -m lablib fetch gemma3"),
]

TEXT = Path(__file__).with_name("text.txt").read_text(encoding="utf-8")
BEGIN = "Once upon a time, there was a"
WINDOW = 512
TIE = 1e-3  # two logits nearer than this may change places, as float32 sums in another order do


@pytest.fixture(scope="module")
def ours():
    return lablib.load("gemma3", dtype=mx.float32)


@pytest.fixture(scope="module")
def found():
    return header.read(HERE)


class Weights(dict):
    """A file's tensors, as the package ``gguf`` reads them, when they are asked for."""

    def __init__(self, found):
        super().__init__(found.tensors)
        self.read = {}

    def __getitem__(self, name):
        if name not in self.read:
            tensor = super().__getitem__(name)
            raw = np.fromfile(HERE, np.uint8, tensor.size, offset=tensor.begin)
            blocks = raw.reshape(-1, oracle.gguf.GGML_QUANT_SIZES[oracle.KINDS[tensor.kind]][1])
            some = np.array_split(blocks, max(1, tensor.size >> 20))  # as one it takes gigabytes
            read = [
                oracle.gguf.quants.dequantize(part.reshape(1, -1), oracle.KINDS[tensor.kind])[0]
                for part in some
            ]
            self.read[name] = np.concatenate(read).reshape(tensor.shape)
        return self.read[name]


def test_logits_are_what_the_file_means(ours, found):
    model, tokenizer = ours
    ids = tokenizer.encode(BEGIN)
    wanted = oracle.logits(found.keys, Weights(found), ids)
    assert np.abs(np.array(model(mx.array([ids]))[0]) - wanted).max() < 1e-3
    assert tokenizer.decode(int(wanted[-1].argmax())) == " little"


def test_its_greedy_text(ours):
    text = lablib.generate(*ours, BEGIN, temperature=0.0, max_tokens=12)
    assert text.startswith(" little girl named Lily. She was a very smart girl")


@pytest.mark.parametrize(
    ("begins", "n"), [(WINDOW - 12, 34), pytest.param(9, 620, marks=pytest.mark.slow)]
)
def test_greedy_drafts_stay_equal_where_the_window_wraps(ours, begins, n):
    model, tokenizer = ours
    ids = tokenizer.encode(BEGIN if begins == 9 else TEXT)[:begins]
    how = {"temperature": 0.0, "max_tokens": n, "stop_tokens": ()}
    plain = lablib.generate(*ours, ids, **how).tokens
    drafted = lablib.generate(*ours, ids, draft_model=NGram(), draft_tokens=4, **how)
    assert drafted.stats["total_drafted"] > drafted.stats["total_accepted"]  # some were taken back
    assert len(ids) + len(plain) > WINDOW + 20
    parted = [
        at for at, pair in enumerate(zip(plain, drafted.tokens, strict=True)) if len({*pair}) > 1
    ]
    if parted:  # only at a tie
        logits = np.array(model(mx.array([[*ids, *plain[: parted[0]]]]))[0, -1])
        best, other = logits[plain[parted[0]]], logits[drafted.tokens[parted[0]]]
        assert abs(best - other) < TIE, parted[0]


def test_ids_are_sentence_pieces(ours, found):
    _, tokenizer = ours
    keys, proto = found.keys, pieces.ModelProto()
    proto.trainer_spec.model_type, proto.trainer_spec.byte_fallback = 2, True
    spec = proto.normalizer_spec
    spec.name, spec.escape_whitespaces = "identity", True
    spec.add_dummy_prefix = spec.remove_extra_whitespaces = False
    named = (keys[f"tokenizer.ggml.{name}"] for name in ("tokens", "scores", "token_type"))
    for token, score, kind in zip(*named, strict=True):
        own = kind == bpe.USER
        text = token.replace(" ", "▁") if own else token
        proto.pieces.add(piece=text, score=score, type=2 if token == "<unk>" else kind)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
    tricky = "   a\t\tb\n\n\n\nc    <table><b>d</b> 日本語のテキスト と русский 🙂👩‍👩‍👧 naïve 3.14"
    for text in (TEXT, bpe.TEXT, tricky, *bpe.random_texts(500, seed=3)):
        text = text.replace("\0", "")
        assert tokenizer.encode(text) == [2, *theirs.encode(text)], repr(text)
        assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text


def test_its_terms_lie_beside_it():
    names = {path.name for path in HERE.parent.iterdir()}
    assert {"GEMMA_TERMS.html", "NOTICE.md", "SHA256SUMS"} < names
