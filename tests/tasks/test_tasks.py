"""What holds for every task: classes, seeds, and one line for what is wrong."""

from lablib.course.tasks import TASKS

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.refusals import refuses

QUICK = settings(max_examples=100, deadline=None, derandomize=True)
EXAMPLES = {name: task.problems(0, 1)[0] for name, task in TASKS.items()}
LETTERS = {"edits": "abc :|>", "stories": "He is sad.,é\n", "sums": "0123456789+=;# a"}


@pytest.mark.parametrize("name", TASKS)
@given(data=st.data())
@QUICK
def test_token_classes_partition_any_text(name, data):
    task, text = TASKS[name], data.draw(st.text(alphabet=LETTERS[name], max_size=80))
    whole, spans = EXAMPLES[name].prompt + text, task.token_classes(EXAMPLES[name], text)
    assert "".join(whole[start:end] for start, end, _ in spans) == whole
    assert {kind for _, _, kind in spans} <= set(task.CLASSES)


@pytest.mark.parametrize("name", TASKS)
def test_seeds_repeat(name):
    for make in (TASKS[name].documents, TASKS[name].problems):
        assert make(4, 50) == make(4, 50) != make(5, 50)
        assert make(4, 0) == []


@pytest.mark.parametrize("name", TASKS)
def test_bad_input_gets_one_line(name):
    task, example = TASKS[name], EXAMPLES[name]
    another = next(problem for other, problem in EXAMPLES.items() if other != name)
    for make in (task.problems, task.documents):
        for arguments, error, message in (
            ((0, -1), ValueError, "n must be at least 0, got -1"),
            ((0, 2.5), TypeError, "n must be an int"),
            ((-1, 1), ValueError, "seed must be at least 0"),
            ((0.5, 1), TypeError, "seed must be an int"),
        ):
            refuses(error, message, make, *arguments)
    for arguments, error, message in (
        ((another, ""), ValueError, "problem must be one of"),
        (("a prompt", ""), TypeError, "problem must be a Problem"),
        ((example, None), TypeError, "text must be"),
        ((example, [1, 2]), TypeError, "text must be"),
    ):
        refuses(error, message, task.check, *arguments)


def test_a_simulation_wants_a_generator():
    with pytest.raises(TypeError, match="rng must be a numpy Generator"):
        TASKS["sums"].simulate(EXAMPLES["sums"], 0, 3)
