"""Tokenizers of GGUF files: byte-level BPE against one written by itself, and SentencePiece's."""

import dataclasses
import io
import random
from functools import cache

import lablib
from lablib.models.gguf import tokenizer as tokenizers

import numpy as np
import pytest
import regex
import sentencepiece
from oracles import bpe
from oracles import gguf as oracle
from sentencepiece import sentencepiece_model_pb2 as pieces

TOKENIZER = bpe.tokenizer_keys(size=320)  # the last of them are in no merge
SHAPE = oracle.Shape(
    vocab=len(TOKENIZER["tokenizer.ggml.tokens"]), width=32, heads=2, shared=1, size=16, inner=32
)
LARGER = dataclasses.replace(SHAPE, vocab=460)
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CUTS = {
    "smollm": lambda text: bpe.split(text, digits=True),
    "gpt-2": bpe.cut,
    "llama-bpe": lambda text: regex.findall(PATTERN % 3, text),
    "qwen2": lambda text: regex.findall(PATTERN % 1, text),
}


def loaded(path, keys, shape=SHAPE):
    """Return the tokenizer of a file with these keys, as ``load`` gives it."""
    oracle.tiny(path / "tiny.gguf", shape=shape, tokenizer=keys)
    return lablib.load(path / "tiny.gguf")[1]


# --- bytes that are merged --------------------------------------------------------------------
@pytest.fixture(scope="module", params=CUTS)
def tokenizer(request, tmp_path_factory):
    keys = TOKENIZER | {"tokenizer.ggml.pre": request.param}
    return loaded(tmp_path_factory.mktemp("tokenizer"), keys), keys


def byte_level(text, keys, known={}):  # noqa: B006
    """Return the ids of a text, a piece at a time."""
    pre = keys["tokenizer.ggml.pre"]
    if not known:
        known["ids"] = {t: i for i, t in enumerate(keys["tokenizer.ggml.tokens"])}
        rules = (tuple(m.split(" ")) for m in keys["tokenizer.ggml.merges"])
        known["ranks"] = {pair: rank for rank, pair in enumerate(rules)}
    ids = []
    for piece in CUTS[pre](bpe.composed(text) if pre == "qwen2" else text):
        letters = [bpe.LETTERS[byte] for byte in piece.encode()]
        whole = pre == "llama-bpe" and "".join(letters) in known["ids"]
        parts = ["".join(letters)] if whole else bpe.merged(letters, known["ranks"])
        ids += [known["ids"][part] for part in parts]
    return ids


def test_words_of_the_text_are_cut_as_in_the_oracle(tokenizer):
    made, keys = tokenizer
    for text in (
        bpe.TEXT, f" {bpe.TEXT}", bpe.TEXT.upper(), "1999", " 12 3", "a  1", "12345678", "",
        "it's '5' o'clock's", "IT'S 'TIS", "a\n\n\nb", "a \n b", "(the)\n", "the\r\n\r\nreader",
    ):  # fmt: skip
        assert made.encode(text) == byte_level(text, keys), text


def test_random_text_has_the_oracles_ids_and_comes_back(tokenizer):
    made, keys = tokenizer
    for text in bpe.random_texts(600, only_settled=True):
        assert made.encode(text) == byte_level(text, keys), repr(text)
    normal = bpe.composed if keys["tokenizer.ggml.pre"] == "qwen2" else str
    for text in bpe.random_texts(600, seed=1):
        assert made.decode(made.encode(text), skip_special_tokens=True) == normal(text)


def test_a_piece_that_is_a_token_is_taken_whole_by_llama_3_alone(tmp_path):
    """Its vocabulary has tokens that its merges never reach."""
    tokens = list(TOKENIZER["tokenizer.ggml.tokens"])
    tokens[-1] = "Ġzq"
    for pre, wanted in (("llama-bpe", [1, len(tokens) - 1]), ("smollm", None)):
        keys = TOKENIZER | {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.pre": pre}
        del keys["tokenizer.ggml.add_bos_token"]  # Llama 3's texts begin, whoever says nothing
        found = loaded(tmp_path, keys).encode(" zq")
        assert found == wanted or (wanted is None and len(found) == 3)


def test_control_tokens_and_the_users_are_never_cut(tmp_path):
    types = list(TOKENIZER["tokenizer.ggml.token_type"])
    tokens = list(TOKENIZER["tokenizer.ggml.tokens"])
    tokens[-1], types[-1] = "the reader", bpe.USER
    keys = {"tokens": tokens, "token_type": types}
    made = loaded(tmp_path, TOKENIZER | {f"tokenizer.ggml.{k}": v for k, v in keys.items()})
    assert made.encode("<|im_start|>the reader<|im_end|>") == [1, len(tokens) - 1, 2]
    assert made.decode([1, len(tokens) - 1, 2]) == "<|im_start|>the reader<|im_end|>"
    assert made.decode([1, len(tokens) - 1, 2], skip_special_tokens=True) == "the reader"


def test_the_chat_template_is_the_files_and_its_turns_end_a_text(tokenizer, tmp_path):
    made, keys = tokenizer
    assert made.chat_template == keys["tokenizer.chat_template"]
    messages = [{"role": "user", "content": "the reader"}]
    text = made.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\nthe reader<|im_end|>\n<|im_start|>assistant\n"
    ids = made.apply_chat_template(messages, add_generation_prompt=True)
    assert ids[:2].count(1) == 1
    assert (made.bos_token, made.eos_token_id) == (bpe.START, 2)
    assert made.model_max_length == 1024
    assert made.eos_token_ids == {0, 2}  # "<|endoftext|>", too
    keys = dict(keys) | {"tokenizer.ggml.eot_token_id": 7}
    keys.pop("tokenizer.chat_template")
    assert loaded(tmp_path, keys).eos_token_ids == {2, 7}  # a base model: what the keys say


def test_a_text_begins_and_ends_where_the_file_says_so(tmp_path):
    for begins, ends in ((True, False), (False, True), (True, True)):
        keys = {"add_bos_token": begins, "add_eos_token": ends}
        made = loaded(tmp_path, TOKENIZER | {f"tokenizer.ggml.{k}": v for k, v in keys.items()})
        inside = made.encode("the", add_special_tokens=False)
        assert made.encode("the") == [1] * begins + inside + [2] * ends
    lacks = {k: v for k, v in TOKENIZER.items() if k != "tokenizer.ggml.bos_token_id"}
    with pytest.raises(ValueError, match=r"bos_token_id is missing, and .*add_bos_token"):
        loaded(tmp_path, lacks | {"tokenizer.ggml.add_bos_token": True})


def test_a_stream_has_the_text_piece_by_piece(tokenizer):
    made, _ = tokenizer
    for text in ("the reader's", "Ünïcödé 語", "a  two"):
        pieces = made.detokenizer
        for token in made.encode(text, add_special_tokens=False):
            pieces.add_token(token)
        pieces.finalize()
        assert pieces.text == bpe.composed(text)


# --- SentencePiece ----------------------------------------------------------------------------
@cache
def trained(prefix):
    """Train SentencePiece's own on a text; return it and the keys of a file with its pieces."""
    model = io.BytesIO()
    draw = random.Random(0)
    words = [*bpe.TEXT.split(), "naïve", "café", "12", "2024", "über", "aaaa", "abab"]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(draw.choices(words, k=8)) for _ in range(300)]),
        model_writer=model, model_type="bpe", vocab_size=460, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=prefix, split_by_whitespace=not prefix, minloglevel=2,
        user_defined_symbols=["<b>", "</b>"] + ["\n", "\n\n", "▁▁", "▁▁▁"] * (not prefix), pad_id=3,
        control_symbols=["<turn>"],
    )  # fmt: skip
    proto = pieces.ModelProto.FromString(model.getvalue())
    reader = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    user = [piece.type == bpe.USER for piece in proto.pieces]
    return reader, {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        # As converters write them: what a user defined has spaces.
        "tokenizer.ggml.tokens": [
            piece.piece.replace("▁", " ") if own else piece.piece
            for piece, own in zip(proto.pieces, user, strict=True)
        ],
        "tokenizer.ggml.scores": [
            -1000.0 if own else p.score for p, own in zip(proto.pieces, user, strict=True)
        ],
        "tokenizer.ggml.token_type": [piece.type for piece in proto.pieces],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": prefix,
    }


def plain_texts():
    yield from (
        bpe.TEXT, f" {bpe.TEXT}", "a", " ", "", "  ", "   two", "four    spaces", "aaaaaa",
        "ababab", "a\nb", "a\n\n\nb", "tab\there", "<b>bold</b> and <b >", "2024 in 12", "<0x41>",
        "▁", "▁▁▁a",
    )  # fmt: skip
    yield from bpe.random_texts(400, seed=2)


@pytest.mark.parametrize("prefix", [False, True])
def test_ids_are_sentence_pieces(tmp_path, prefix):
    theirs, keys = trained(prefix)
    made = loaded(tmp_path, keys, LARGER)
    # Behind a token of a user's a text begins anew, with its space: so llama.cpp has it.
    for text in plain_texts():
        if "\0" in text or (prefix and "b>" in text):
            continue
        assert made.encode(text) == [1, *theirs.encode(text)], repr(text)
        if "▁" not in text:
            assert made.decode(made.encode(text), skip_special_tokens=True) == text


def test_control_tokens_of_sentence_piece_are_found_and_bytes_are_not(tmp_path):
    theirs, keys = trained(False)
    made = loaded(tmp_path, keys, LARGER)
    turn = theirs.piece_to_id("<turn>")
    assert made.encode("a<turn>a", add_special_tokens=False) == [
        *theirs.encode("a"), turn, *theirs.encode("a"),
    ]  # fmt: skip
    assert theirs.piece_to_id("<0x41>") not in made.encode("<0x41>")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scores": [float("nan")] * 460}, "scores must be finite numbers, one for each token"),
        ({"scores": [0.0]}, "scores must be finite numbers, one for each token"),
        ({"scores": "high"}, "scores must be finite numbers, one for each token"),
        ({"remove_extra_whitespaces": True}, "remove_extra_whitespaces must be one of False"),
        (
            {"tokens": ["x" * 2000, *map(str, range(459))]},
            "must have at most 1000 letters, got 2000",
        ),
        ({"add_space_prefix": 2}, "add_space_prefix must be True or False, got 2"),
    ],
)
def test_what_no_sentence_piece_has_is_refused_by_name(changes, said):
    keys = trained(False)[1] | {f"tokenizer.ggml.{k}": v for k, v in changes.items()}
    keys["tokenizer.ggml.scores"] = np.array(keys["tokenizer.ggml.scores"])
    with pytest.raises((ValueError, TypeError), match=said):
        tokenizers.build(keys)
