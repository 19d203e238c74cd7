"""Right answers are right whatever they are made of: lists, NumPy's arrays, MLX's; in any order."""

import json
import os
import subprocess
import sys
from pathlib import Path

import lablib  # noqa: F401 (before mlx)
from lablib.course.checks.checking import check
from lablib.course.checks.exercises import exercises

import mlx.core as mx
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def as_mlx(value):
    array = np.asarray(value)
    return mx.array(array, dtype=mx.int64 if array.dtype.kind in "iu" else None)


KINDS = {"list": lambda value: np.asarray(value).tolist(), "NumPy": np.asarray, "MLX": as_mlx}


def all_numbers(values):
    return len(values) > 0 and all(isinstance(x, int | float | np.number) for x in values)


def given(value, kind):
    """Return an argument with its arrays and its lists of floats made of another kind."""
    if isinstance(value, np.ndarray) or (
        type(value) is list and all_numbers(value) and isinstance(value[0], float)
    ):
        return kind(value)
    return [given(item, kind) for item in value] if type(value) is list else value


def returned(value, kind):
    """Return an answer with its numbers, and its rows of numbers, made of another kind."""
    if isinstance(value, int | float | np.number | np.ndarray | mx.array):
        return kind(value)
    if isinstance(value, list) and all_numbers(value):
        return kind(value)
    if isinstance(value, list | tuple):
        return type(value)(returned(item, kind) for item in value)
    if isinstance(value, dict):
        return {key: returned(item, kind) for key, item in value.items()}
    return value


# MLX computes in float32: too short for what the exercise makes of its arguments, or keeps in them.
NEEDS_FLOAT64 = {"08.4", "10.3"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.id)
def test_an_answer_may_be_made_of_anything(exercise, kind):
    def answer(*args):
        make = KINDS[kind]
        try:
            short = kind == "MLX" and exercise.id in NEEDS_FLOAT64
            result = exercise.reference(*(args if short else [given(x, make) for x in args]))
        except (TypeError, AttributeError, ValueError, IndexError):
            result = exercise.reference(*args)  # this reference needs what the task promises it
        return returned(result, make)

    outcome = check(exercise, answer)
    assert outcome.correct, repr(outcome)


JUDGE = """
import json
from lablib.course.checks.checking import check
from lablib.course.checks.exercises import exercises
print(json.dumps([
    [e.id, f.__name__, (outcome := check(e, f)).mark, outcome.misconception]
    for e in exercises() for f in {functions}
]))
"""
RIGHT = "(e.reference, *e.alternatives)"


@pytest.mark.parametrize(
    ("functions", "mark", "seeds"),
    [
        pytest.param(RIGHT, "✓", ["0", "1"], marks=pytest.mark.slow),
        pytest.param(RIGHT, "✓", ["0", "1", "42"], marks=pytest.mark.slow),
        pytest.param("e.wrong", "✗", ["0", "1", "42"], marks=pytest.mark.slow),
    ],
)
def test_verdicts_do_not_depend_on_the_order_of_sets(functions, mark, seeds):
    verdicts = []
    for seed in seeds:
        done = subprocess.run(
            [sys.executable, "-c", JUDGE.format(functions=functions)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        verdicts.append(json.loads(done.stdout))
    assert all(each == verdicts[0] for each in verdicts)
    assert len(verdicts[0]) >= len(exercises())
    assert [line for line in verdicts[0] if line[2] != mark] == []
