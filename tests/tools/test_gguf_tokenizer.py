"""The tokenizer of a GGUF file, converted, against a byte-level BPE written by itself."""

import lablib
from lablib.models import llama_config
from lablib.tools.gguf import convert

import pytest
from oracles import bpe, gguf

TOKENIZER = bpe.tokenizer_keys(size=320)  # the last of them are in no merge
CONFIG = llama_config(len(TOKENIZER["tokenizer.ggml.tokens"]), 32, 2, 1)


def converted(path, keys):
    """Return the tokenizer of a file with these keys, as ``load`` gives it."""
    gguf.tiny(path / "tiny.gguf", CONFIG, keys)
    return lablib.load(convert(path / "tiny.gguf", path / "model"))[1]


@pytest.fixture(scope="module", params=["smollm", "gpt-2"])
def tokenizer(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    keys = TOKENIZER | {"tokenizer.ggml.pre": request.param}
    return converted(path, keys), keys


def test_words_of_the_text_are_cut_as_in_the_oracle(tokenizer):
    made, keys = tokenizer
    for text in (
        bpe.TEXT,
        " " + bpe.TEXT,
        bpe.TEXT.upper(),
        "1999",
        " 12 3",
        "a  1",
        "it's '5' o'clock's",
        "",
    ):
        assert made.encode(text) == bpe.encode(text, keys)
    digits = keys["tokenizer.ggml.pre"] == "smollm"
    assert (bpe.split("in 1984", digits) == ["in", " ", "1", "9", "8", "4"]) == digits


def test_random_text_has_the_oracles_ids(tokenizer):
    made, keys = tokenizer
    cache = {}
    for text in bpe.random_texts(1000, only_settled=True):
        ids = made.encode(text)
        assert ids == bpe.encode(text, keys, cache), repr(text)
        assert bpe.decode(ids, keys) == text


def test_random_text_comes_back(tokenizer):
    made, _ = tokenizer
    for text in bpe.random_texts(1000, seed=1):
        assert made.decode(made.encode(text)) == text


def test_control_tokens_and_the_users_are_never_cut(tmp_path):
    types = list(TOKENIZER["tokenizer.ggml.token_type"])
    tokens = list(TOKENIZER["tokenizer.ggml.tokens"])
    tokens[-1], types[-1] = "the reader", bpe.USER
    keys = {"tokens": tokens, "token_type": types}
    made = converted(tmp_path, TOKENIZER | {f"tokenizer.ggml.{k}": v for k, v in keys.items()})
    assert made.encode("<|im_start|>the reader<|im_end|>") == [1, len(tokens) - 1, 2]
    assert made.decode([1, len(tokens) - 1, 2]) == "<|im_start|>the reader<|im_end|>"
    assert made.decode([1, len(tokens) - 1, 2], skip_special_tokens=True) == "the reader"


def test_the_chat_template_is_the_files(tokenizer):
    made, keys = tokenizer
    assert made.chat_template == keys["tokenizer.chat_template"]
    messages = [{"role": "user", "content": "the reader"}]
    text = made.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\nthe reader<|im_end|>\n<|im_start|>assistant\n"
    ids = made.apply_chat_template(messages, add_generation_prompt=True)
    assert next(iter(ids)) == 1
    assert made.bos_token == bpe.START
    assert made.eos_token_id == 2
    assert made.model_max_length == CONFIG.max_position_embeddings
