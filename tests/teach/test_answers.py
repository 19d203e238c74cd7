"""Checkers meet what students write: right answers are accepted, wrong ones refused and named.

The answers are in ``wrong_answers/``, a table for each lesson.
"""

from importlib import import_module

from lablib.course.checks.exercises import exercises, lessons

import pytest
from oracles.answers import Right, Wrong, faults

TABLES = [import_module(f"wrong_answers.lesson_{lesson}").ANSWERS for lesson in lessons()]
ROWS: list[Right | Wrong] = [row for table in TABLES for row in (*table.rights, *table.wrongs)]


@pytest.mark.parametrize("exercise", [exercise.id for exercise in exercises()])
def test_every_stored_answer_gets_its_due(exercise: str) -> None:
    asked = [row for row in ROWS if row[0] == exercise]
    assert {len(row) for row in asked} == {2, 3}  # some are right, and some are wrong
    found = faults(asked)
    assert not found, "\n\n".join(found)


def test_no_answer_is_of_an_exercise_that_is_not_there() -> None:
    assert {row[0] for row in ROWS} == {exercise.id for exercise in exercises()}


def test_a_wrong_verdict_is_listed_with_what_was_said() -> None:
    def best_token(p):
        return 0

    rows = [("00.1", best_token), ("00.1", None, best_token), ("00.1", "nonsense", best_token)]
    accepted, misnamed = faults(rows)
    assert accepted.startswith("00.1-best_token: ✗ 00.1")
    assert misnamed.startswith("00.1-nonsense-best_token: ✗ 00.1")
