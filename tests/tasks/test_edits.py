"""Edits: a copy with one replacement, its checker and its classes."""

from lablib.course.tasks import edits
from lablib.course.tasks.problem import held_out

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

QUICK = settings(max_examples=100, derandomize=True)
PROBLEMS = edits.problems(0, 200)
EXAMPLE = PROBLEMS[0]
OLD, NEW = EXAMPLE.data[1:]


def test_prompts_and_answers_are_what_they_say():
    for problem in PROBLEMS:
        words, old, new = problem.data
        assert len(set(words)) == edits.LENGTH
        assert old in words
        assert new not in words
        assert problem.prompt == f"edit: {' '.join(words)} | {old} -> {new}:"
        assert problem.answer == " " + " ".join(words).replace(old, new)
        assert edits.explain(problem, problem.answer) is None
        assert edits.check(problem, problem.answer[1:])  # as a streaming detokenizer writes it


def test_no_word_is_part_of_another():
    # The test above replaces inside text, and so may a student.
    assert not [(a, b) for a in edits.WORDS for b in edits.WORDS if a != b and a in b]


@given(st.integers(0, 199), st.integers(0, edits.LENGTH - 1), st.sampled_from(edits.WORDS))
@QUICK
def test_any_other_word_is_refused(index, place, word):
    problem = PROBLEMS[index]
    words = problem.answer.split()
    if words[place] == word:
        return
    right, words[place] = words[place], word
    reason = edits.explain(problem, " " + " ".join(words))
    assert reason.startswith(f"word {place + 1}")
    assert f"'{problem.data[1] if 'not replaced' in reason else right}'" in reason
    assert ("not replaced" in reason) == (right == problem.data[2] and word == problem.data[1])
    assert f"'{word}'" in reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a: a.replace(NEW, OLD), f"'{OLD}', was not replaced by '{NEW}'"),
        (lambda a: a.replace(NEW, "zebra"), f"must be '{NEW}', the replacement of '{OLD}'"),
        (lambda a: a.rsplit(" ", 1)[0], "the list stops after 15 of 16 words"),
        (lambda a: a[:-1], "copied from the list"),
        (lambda a: a + " wolf", "there is text after the last of the 16 words: 'wolf'"),
        (lambda a: a + " ", "exactly one space"),
        (lambda a: a.replace(" ", "  "), "exactly one space"),
        (lambda a: " " + a, "exactly one space"),
        (lambda a: "", "the list stops after 0 of 16 words"),
    ],
)
def test_corruptions_fail_with_their_reason(change, reason):
    text = change(EXAMPLE.answer)
    assert reason in edits.explain(EXAMPLE, text)
    assert not edits.check(EXAMPLE, text)


def test_token_classes_of_an_answer():
    whole = EXAMPLE.prompt + EXAMPLE.answer
    spans = edits.token_classes(EXAMPLE, EXAMPLE.answer)
    named = [(whole[start:end], name) for start, end, name in spans]
    assert [text for text, name in named if name == "replacement"] == [f" {NEW}"]
    assert sum(name == "copy" for _, name in named) == 15
    assert [text for text, name in named if name == "boilerplate"] == ["edit:", " |", " ->", ":"]


def test_training_and_evaluation_do_not_meet():
    trained = {text.rpartition(":")[0] + ":" for text in edits.documents(1, 5_000)}
    tested = {problem.prompt for problem in edits.problems(1, 2_000)}
    assert not trained & tested
    # There are too many lists to meet one twice by chance, so look at the rule as well.
    assert not any(map(held_out, trained))
    assert all(map(held_out, tested))
