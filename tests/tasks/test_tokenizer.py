"""The tokenizer: reproducible, lossless, and the same through transformers and mlx-lm."""

import json
from importlib.resources import files

from lablib.course.tasks import TASKS, load_tokenizer, prompt_of, save_pretrained
from lablib.course.tasks.edits import LENGTH, WORDS
from lablib.course.tasks.tokenizer import BOS, EOS, UNK, train_tokenizer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TOKENIZER = load_tokenizer()
PRINTABLE = "".join(map(chr, range(32, 127))) + "\n"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    save_pretrained(path)
    return path


def test_training_again_gives_the_packaged_file_byte_for_byte():
    packaged = files("lablib.course.tasks").joinpath("tokenizer.json").read_bytes()
    assert (train_tokenizer().to_str(pretty=True) + "\n").encode() == packaged


def test_vocabulary():
    assert TOKENIZER.get_vocab_size() <= 512
    assert [TOKENIZER.token_to_id(token) for token in (UNK, BOS, EOS)] == [0, 1, 2]
    for token in TOKENIZER.get_vocab():
        if any(c in "0123456789#" for c in token):
            assert len(token) == 1
    # The constant distance that a one-layer draft learns to copy over rests on this.
    for word in WORDS:
        assert len(TOKENIZER.encode(f" {word}", add_special_tokens=False).ids) == 1


def test_every_text_starts_with_the_begin_token():
    assert TOKENIZER.encode("a b").tokens[0] == BOS
    assert TOKENIZER.encode("").tokens == [BOS]
    assert EOS not in TOKENIZER.encode("a b").tokens


@given(st.text(alphabet=PRINTABLE, max_size=60))
@settings(max_examples=200, derandomize=True)
def test_printable_text_survives_the_round_trip(text):
    if not any(token in text for token in (UNK, BOS, EOS)):
        assert TOKENIZER.decode(TOKENIZER.encode(text).ids) == text


def test_what_is_not_ascii_becomes_unknown():
    assert set(TOKENIZER.encode("é\t", add_special_tokens=False).tokens) == {UNK}


@pytest.mark.parametrize("task", TASKS)
def test_task_texts_and_the_seam_between_prompt_and_answer(task):
    lengths = []
    for problem in TASKS[task].problems(8, 300):
        whole = TOKENIZER.encode(problem.prompt + problem.answer)
        prompt = TOKENIZER.encode(problem.prompt)
        assert UNK not in whole.tokens
        assert whole.ids[: len(prompt.ids)] == prompt.ids
        assert TOKENIZER.decode(whole.ids) == problem.prompt + problem.answer
        lengths.append(len(whole.ids) + 1)  # and the end token
    assert 30 <= min(lengths) <= max(lengths) <= 90
    expected = {"stories": 48, "sums": 48, "edits": 2 * LENGTH + 9}[task]
    assert abs(sum(lengths) / len(lengths) - expected) < 1.5


def test_the_first_token_tells_the_task():
    first = {
        task: {TOKENIZER.encode(text).ids[1] for text in module.documents(6, 300)}
        for task, module in TASKS.items()
    }
    assert not first["stories"] & first["sums"]
    assert not first["stories"] & first["edits"]
    assert not first["sums"] & first["edits"]


def lookup(context, count):
    """Propose what followed the last occurrence of the last two tokens, or of the last one."""
    for size in (2, 1):
        for start in range(len(context) - size - 1, -1, -1):
            if context[start : start + size] == context[-size:]:
                return context[start + size : start + size + count]
    return []


def tokens_per_call(task):
    calls = tokens = 0
    for problem in TASKS[task].problems(9, 100):
        context = TOKENIZER.encode(problem.prompt).ids
        rest = [*TOKENIZER.encode(problem.prompt + problem.answer).ids[len(context) :], 2]
        while rest:
            draft = lookup(context, min(4, len(rest) - 1))
            kept = 0
            while kept < len(draft) and draft[kept] == rest[kept]:
                kept += 1
            context, rest = context + rest[: kept + 1], rest[kept + 1 :]
            calls, tokens = calls + 1, tokens + kept + 1
    return tokens / calls


def test_looking_up_the_prompt_pays_on_edits_and_not_on_stories():
    assert tokens_per_call("edits") > 3
    assert tokens_per_call("stories") < 1.2


def test_transformers_loads_it(directory):
    transformers = pytest.importorskip("transformers")
    loaded = transformers.AutoTokenizer.from_pretrained(directory, local_files_only=True)
    assert (loaded.unk_token_id, loaded.bos_token_id, loaded.eos_token_id) == (0, 1, 2)
    for task in TASKS.values():
        for problem in task.problems(8, 20):
            text = problem.prompt + problem.answer
            assert loaded(text).input_ids == TOKENIZER.encode(text).ids
            assert loaded.decode(loaded(text).input_ids, skip_special_tokens=True) == text
    assert json.loads((directory / "tokenizer_config.json").read_text())["eos_token"] == EOS


def test_mlx_lm_streams_the_same_text(directory):
    from mlx_lm.tokenizer_utils import load

    wrapped = load(directory)
    assert wrapped.eos_token_ids == {2}
    for task in TASKS.values():
        for problem in task.problems(8, 20):
            for text in (problem.prompt + problem.answer, problem.answer):
                ids = TOKENIZER.encode(text, add_special_tokens=False).ids
                stream, pieces = wrapped.detokenizer, []
                stream.reset()
                for token in ids:
                    stream.add_token(token)
                    pieces.append(stream.last_segment)
                stream.finalize()
                pieces.append(stream.last_segment)
                # mlx-lm trims the first space of whatever it streams; the checkers know that.
                assert "".join(pieces) == text.removeprefix(" ")
                assert wrapped.decode(ids) == text
            assert task.check(problem, problem.answer.removeprefix(" "))


def test_a_document_begins_with_its_prompt() -> None:
    for module in TASKS.values():
        for problem in module.problems(3, 50):
            assert prompt_of(problem.prompt + problem.answer) == problem.prompt
    with pytest.raises(ValueError, match="document must begin with the prompt of a task"):
        prompt_of("no sentence at all")
