"""Every exercise of the course can be trusted, and the audit that says so is sharp."""

import dataclasses

from lablib.course.checks.comparing import _cases, _same
from lablib.course.checks.exercises import Wrong, exercises, lessons, number_of
from lablib.course.checks.values import call_text

import mlx.core as mx
import numpy as np
import pytest
from oracles.audit import audit
from oracles.fake_exercise import SOFTMAX, no_temperature, overflow, softmax


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.id)
def test_an_exercise_can_be_trusted(exercise):
    assert audit(exercise) == []


WITH_CASES = [exercise for exercise in exercises() if exercise.cases]


@pytest.mark.parametrize("exercise", WITH_CASES, ids=lambda exercise: exercise.id)
def test_a_case_that_is_shown_whole_can_be_pasted(exercise):
    whole = 0
    for case in _cases(exercise):
        call = call_text(exercise.name, case)
        if "…" in call:
            continue
        whole += 1
        pasted = eval(call, {"np": np, "mx": mx, exercise.name: exercise.reference})
        assert _same(exercise.reference(*case), pasted, exercise.tolerance), call
    assert whole > 1


@pytest.mark.parametrize("lesson", lessons())
def test_a_lesson_counts_its_exercises_from_one(lesson):
    ids = [exercise.id for exercise in exercises(lesson)]
    assert ids == [f"{lesson}.{i}" for i in range(1, len(ids) + 1)]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("00a_arrays.ipynb", "00a"),
        ("00a.1", "00a"),
        ("00b.q2", "00b"),
        ("00_start_here.ipynb", "00"),
        ("00.1", "00"),
        ("00abc", ""),
        ("notes.ipynb", ""),
    ],
)
def test_a_lesson_is_known_by_what_ids_and_files_begin_with(name, number):
    assert number_of(name) == number


def test_a_lesson_with_a_letter_stands_behind_its_number():
    assert lessons()[:4] == ("00", "00a", "00b", "01")


def refuse_everything(function):
    function([1.0], 1.0)
    raise Wrong("no")


def confuse(function):
    if function([0.0, 1.0], 0.5) != softmax([0.0, 1.0], 0.5):
        raise Wrong("not quite", like="overflow")


def half_cases(rng):
    yield [0.0, 1.0], 0.5  # never overflows


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, None),
        ({"cases": None, "checker": lambda function: None}, "accepts no_temperature"),
        ({"cases": None, "checker": lambda function: function([1.0], 1.0)}, "accepts overflow"),
        ({"cases": None, "checker": lambda function: None}, "does not refuse zero"),
        ({"cases": None, "checker": lambda function: None}, "starter is not neutral"),
        ({"cases": None, "checker": refuse_everything}, "refuses softmax"),
        ({"cases": None, "checker": refuse_everything}, "says the same about overflow"),
        ({"cases": None, "checker": confuse}, "takes no_temperature for overflow"),
        ({"cases": half_cases}, "accepts overflow"),
        ({"alternatives": [no_temperature]}, "refuses no_temperature"),
        ({"starter": "def softmax(scores, temperature):\n    return 3"}, "starter is not neutral"),
        ({"wrong": {overflow: "it overflows"}}, "two wrong answers"),
        ({"hints": [" "]}, "empty text"),
    ],
)
def test_the_audit_sees_what_is_wrong_with_an_exercise(change, complaint):
    complaints = audit(dataclasses.replace(SOFTMAX, **change))
    assert (complaints == []) if complaint is None else any(complaint in c for c in complaints)
