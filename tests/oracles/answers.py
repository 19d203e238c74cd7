"""Tables of answers to exercises: which a checker must accept, and which it must refuse."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lablib.classroom.checking import check

import pytest


class Answers:
    """Answers to the exercises of one lesson, written as a student might."""

    def __init__(self) -> None:
        self.rights: list[Any] = []
        self.wrongs: list[Any] = []

    def right(self, exercise: str) -> Callable[[Callable], Callable]:
        """Note the decorated function as an answer that must be accepted."""
        return self._note(self.rights, exercise)

    def wrong(self, exercise: str, like: str | None = None) -> Callable[[Callable], Callable]:
        """Note an answer that must be refused, and as which misconception if ``like`` is given."""
        return self._note(self.wrongs, exercise, like)

    def _note(self, table: list[Any], exercise: str, *more: Any) -> Callable[[Callable], Callable]:
        def note(function: Callable) -> Callable:
            name = f"{exercise}-{function.__name__}"
            table.append(pytest.param(exercise, function, *more, id=name))
            return function

        return note


def assert_accepted(exercise: str, answer: Callable) -> None:
    """Fail if a right answer is refused."""
    outcome = check(exercise, answer)
    assert outcome.correct, repr(outcome)


def assert_refused(exercise: str, answer: Callable, like: str | None) -> None:
    """Fail if a wrong answer is accepted, or not recognised."""
    outcome = check(exercise, answer)
    assert outcome.mark == "✗", repr(outcome)
    if like is not None:
        assert outcome.misconception == like, repr(outcome)


def assert_same_with_hash_seeds(file: str) -> None:
    """Fail unless the tables of a test file hold with three orders of sets of strings."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", file]
    for seed in ("0", "1", "42"):
        run = subprocess.run(
            [*command, "-k", "accepted or refused"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, f"PYTHONHASHSEED={seed}:\n{run.stdout[-2000:]}"
