"""Checkers meet what students write: right answers are accepted, wrong ones refused and named.

The answers are in ``wrong_answers/``, a table for each lesson.
"""

from collections.abc import Callable
from importlib import import_module

from lablib.course.checks.exercises import lessons

import pytest
from oracles.answers import assert_accepted, assert_refused, name

TABLES = [import_module(f"wrong_answers.lesson_{lesson}").ANSWERS for lesson in lessons()]
RIGHTS = [pytest.param(*row, id=name(row)) for table in TABLES for row in table.rights]
WRONGS = [pytest.param(*row, id=name(row)) for table in TABLES for row in table.wrongs]


@pytest.mark.parametrize(("exercise", "answer"), RIGHTS)
def test_a_right_answer_is_accepted(exercise: str, answer: Callable) -> None:
    assert_accepted(exercise, answer)


@pytest.mark.parametrize(("exercise", "like", "answer"), WRONGS)
def test_a_wrong_answer_is_refused(exercise: str, like: str | None, answer: Callable) -> None:
    assert_refused(exercise, like, answer)
