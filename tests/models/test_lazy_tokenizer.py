"""Tokenizers need no transformers for ids and texts, and say what mlx-lm's wrapper says."""

import json
import pickle
import random
import shutil
import subprocess
import sys
from threading import Barrier, Thread

import lablib
from lablib.models import zoo
from lablib.models.lazy_tokenizer import ROLES, LazyTokenizer

import mlx_lm
import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from models.test_gguf_tokenizer import LARGER, TOKENIZER, loaded, trained

TARGET = zoo.CHECKPOINTS / "target"
MARKS = ["<s>", "</s>", "<unk>", "<|im_end|>", "<|im_start|>", "<pad>"]


def run(*lines):
    """Run a program in a process of its own; return what it prints."""
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")  # nor does transformers say what it lacks
    return done.stdout


def texts(n):
    """Yield texts of letters of all alphabets, of spaces, and of what looks like control tokens."""
    dice = random.Random(63)
    for _ in range(n):
        letters = [chr(dice.choice((32, 97, 233, 0x4E00, 0x1F600)) + dice.randrange(26))
                   for _ in range(dice.randrange(30))]  # fmt: skip
        yield "".join(dice.choice((*letters, " ", "\n", *MARKS)) for _ in range(dice.randrange(60)))


@pytest.fixture(params=["target", "bytes", "pieces"])
def one(request, tmp_path):
    """A tokenizer that nobody has asked for anything yet."""
    if request.param == "target":
        return lablib.load("target")[1]
    if request.param == "bytes":
        return loaded(tmp_path, TOKENIZER)
    keys = {**trained(False)[1]}
    del keys["tokenizer.ggml.unknown_token_id"]  # transformers would find it in a text, by its name
    return loaded(tmp_path, keys, LARGER)


def test_a_text_from_a_text_imports_no_transformers():
    said = run(
        "import sys, lablib",
        "model, tokenizer = lablib.load('target')",
        "assert 'Mia' in tokenizer.decode(tokenizer.encode('Mia'))",
        "text = lablib.generate(model, tokenizer, 'Mia finds', max_tokens=8, seed=1)",
        "''.join(lablib.stream(model, tokenizer, 'Mia finds', max_tokens=8, stop='.'))",
        "how = {'max_tokens': 1, 'extract': str, 'tokenizer': tokenizer}",
        "lablib.majority_vote(model, 'Q: 2+2=', n=2, **how)",
        "print(*{'transformers', 'mlx_lm.utils'} & sys.modules.keys())",
    )
    assert said.split() == []


def test_what_is_below_mlx_lm_is_as_if_it_had_been_imported_first():
    said = run(
        "import lablib",
        "from mlx_lm.generate import stream_generate",
        "from mlx_lm.models.cache import KVCache",
        "import mlx_lm, mlx_lm.utils",
        "assert mlx_lm.generate.__name__ == 'generate' and callable(mlx_lm.generate)",
        "assert mlx_lm.models.cache.KVCache is KVCache and callable(mlx_lm.utils.load_model)",
        "print(type(mlx_lm).__name__, mlx_lm.__version__)",
    )
    assert said.split() == ["module", mlx_lm.__version__]


def test_threads_that_ask_for_mlx_lm_at_once_wait_for_it():
    said = run(
        "import lablib",
        "from concurrent.futures import ThreadPoolExecutor",
        "def ask(_):",
        "    from mlx_lm import load, generate",
        "    return load.__name__ + generate.__name__",
        "print(*{*ThreadPoolExecutor(8).map(ask, range(8))})",
    )
    assert said.split() == ["loadgenerate"]


def test_ids_and_texts_are_the_wrappers(one):
    whole = one._build()
    assert type(one) is LazyTokenizer
    assert type(whole) is TokenizerWrapper
    for text in texts(400):
        for special in (True, False):
            ids = whole.encode(text, add_special_tokens=special)
            assert one.encode(text, add_special_tokens=special) == ids
            assert one.decode(ids, special) == whole.decode(ids, special)
    assert one.get_vocab() == whole.get_vocab()
    assert len(one) == len(whole)
    for role in ROLES:
        assert (getattr(one, role), getattr(one, f"{role}_id")) == (
            getattr(whole, role),
            getattr(whole, f"{role}_id"),
        )
    tokens = [*one.get_vocab(), "no token", *MARKS]
    assert list(map(one.convert_tokens_to_ids, tokens)) == whole.convert_tokens_to_ids(tokens)
    ids = range(len(one))
    assert list(map(one.convert_ids_to_tokens, ids)) == whole.convert_ids_to_tokens([*ids])
    assert one.eos_token_ids == whole.eos_token_ids
    assert one.clean_up_tokenization_spaces == whole.clean_up_tokenization_spaces
    assert type(one) is LazyTokenizer


def test_it_is_a_wrapper_for_who_looks_and_becomes_one_for_who_asks(one):
    assert isinstance(one, TokenizerWrapper)
    assert type(one) is LazyTokenizer
    one.eos_token_ids.add(7)
    ids = one.encode("a b")
    assert one.encode(["a", "b"], is_split_into_words=True)
    assert type(one) is TokenizerWrapper
    assert 7 in one.eos_token_ids
    assert one.encode("a b") == ids
    assert one._tokenizer
    assert one.detokenizer.text == ""


@pytest.mark.parametrize(
    "ask",
    [
        lambda one: one.chat_template,
        lambda one: one.detokenizer,
        lambda one: one._tokenizer,
        lambda one: setattr(one, "eos_token_ids", {1}),
        lambda one: one.decode([[1], [2]]),
        lambda one: one.decode(1),
        lambda one: pickle.dumps(one),
    ],
)
def test_whatever_else_is_asked_the_wrapper_answers(ask):
    one = lablib.load("target")[1]
    ask(one)
    assert type(one) is TokenizerWrapper


def test_a_pickle_is_a_wrapper(one):
    other = pickle.loads(pickle.dumps(one))
    assert type(other) is TokenizerWrapper
    assert other.encode("a b") == one.encode("a b")


def test_threads_that_ask_at_once_get_the_same(one):
    begin, found = Barrier(8), []

    def ask(i):
        begin.wait()
        found.append((one.encode("a b"), one.decode([5, 6]), one.chat_template, i % 2 and len(one)))

    threads = [Thread(target=ask, args=[i]) for i in range(8)]
    for each in (Thread.start, Thread.join):
        list(map(each, threads))
    assert len({str(each[:3]) for each in found}) == 1
    assert len(found) == 8


@pytest.mark.parametrize(
    "change",
    [
        {"clean_up_tokenization_spaces": True},
        {"pad_token": "."},  # transformers adds it to the special ones
        {"add_bos_token": True},
        {"tokenizer_class": "LlamaTokenizer"},
    ],
)
def test_what_transformers_would_read_otherwise_is_whole_at_once(change, tmp_path):
    shutil.copytree(TARGET, tmp_path / "target")
    file = tmp_path / "target" / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert type(lablib.load(tmp_path / "target")[1]) is TokenizerWrapper


def test_the_whole_one_is_what_the_directory_was(tmp_path):
    shutil.copytree(TARGET, tmp_path / "target")
    one = lablib.load(tmp_path / "target")[1]
    shutil.rmtree(tmp_path / "target")
    assert one.chat_template is None
    assert type(one) is TokenizerWrapper
    assert one.name_or_path == str(tmp_path / "target")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_ids_and_texts_of_real_models_are_the_wrappers(name):
    if zoo.fetched(name) is None:
        pytest.skip(f"python -m lablib fetch {name}")
    test_ids_and_texts_are_the_wrappers(lablib.load(name)[1])
