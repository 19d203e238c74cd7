"""The parts of an exercise, and the place of the course's exercises.

One ``Exercise`` is the single source of everything about it: the starter cell in the notebook, the
solved edition, the checker, the hints and the misconceptions it can recognise. The exercises of
lesson 03 are the module-level ``Exercise`` objects of
``lablib/course/lessons/lesson_03/exercises.py``.
"""

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lablib.course.lessons as course
from lablib.validation import BadValue

import numpy as np

Cases = Callable[[np.random.Generator], Iterable[tuple[Any, ...]]]
NUMBER = r"\d\d[a-z]?"  # of a lesson: 00a stands between 00 and 01, in a file browser, too


class Wrong(Exception):
    """A verdict: the answer is wrong, and here is what is wrong with it.

    Args:
        message: one or two sentences for the student.
        like: the name of the wrong answer in ``Exercise.wrong`` that this looks like, if known;
            its text is then shown below the message.
        error: the type of the exception that the student's function raised, if it raised one.
    """

    def __init__(self, message: str, *, like: str | None = None, error: type | None = None):
        super().__init__(message)
        self.message, self.like, self.error = message, like, error


@dataclass(frozen=True)
class Exercise:
    """One exercise. It needs ``cases``, a ``checker``, or both (cases are then tried first).

    Attributes:
        id: ``"03.2"``: lesson 03, second exercise.
        title: a few words.
        task: what to do, in Markdown; shown above the starter cell.
        stars: difficulty, 1 to 3.
        minutes: how long it takes.
        reference: a right answer. Its name, signature and docstring make the starter; its source is
            the solution, so it may use only names that the notebook has.
        alternatives: right answers written differently; all must be accepted.
        wrong: named wrong answers (the name is the function's) with what to tell somebody who made
            that mistake. A student whose answers equal one of them on every case is told its text.
        cases: ``cases(rng)`` yields argument tuples; the reference says what is expected of each.
        checker: ``checker(fn)`` raises ``Wrong`` when ``fn`` is wrong, for what cases can't say.
        hints: from a nudge to nearly the answer.
        next: what to try once it works.
        starter: overrides the starter made from the reference.
        tolerance: numbers closer than this (absolutely or relatively) are equal.
        in_place: the function changes its arguments on purpose and may return ``None``; what it
            leaves in lists and arrays is compared too.
        seconds: time limit of one check.
        further: it stands on a page beside the lesson, and is judged where that is handed in.
    """

    id: str
    title: str
    task: str
    stars: int
    minutes: int
    reference: Callable[..., Any]
    wrong: Mapping[Callable[..., Any], str]
    alternatives: Sequence[Callable[..., Any]]
    hints: Sequence[str]
    cases: Cases | None = None
    checker: Callable[[Callable[..., Any]], None] | None = None
    next: str = ""
    starter: str = ""
    tolerance: float = 1e-5
    in_place: bool = False
    seconds: float = 10.0
    further: bool = False
    misconceptions: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"{NUMBER}\.\d", self.id):
            raise BadValue(f"id must look like '03.2', got {self.id!r}")
        if self.stars not in (1, 2, 3):
            raise BadValue(f"stars must be 1, 2 or 3, got {self.stars!r}")
        if self.cases is None and self.checker is None:
            raise BadValue(f"exercise {self.id} needs cases or a checker, got neither")
        texts = {function.__name__: text for function, text in self.wrong.items()}
        object.__setattr__(self, "misconceptions", texts)
        if not self.starter:
            object.__setattr__(self, "starter", starter_of(self.reference))

    @property
    def name(self) -> str:
        """Return the name of the function that the student writes."""
        return self.reference.__name__

    @property
    def lesson(self) -> str:
        """Return the number of its lesson."""
        return number_of(self.id)

    @property
    def difficulty(self) -> str:
        """Return its stars as dots."""
        return "●" * self.stars + "○" * (3 - self.stars)

    @property
    def solution(self) -> str:
        """Return the reference's source text."""
        return textwrap.dedent(inspect.getsource(self.reference)).rstrip()


def starter_of(reference: Callable[..., Any]) -> str:
    """Return the function's signature and docstring with ``raise NotImplementedError`` as body."""
    source = textwrap.dedent(inspect.getsource(reference)).rstrip()
    function = ast.parse(source).body[0]
    if not isinstance(function, ast.FunctionDef) or ast.get_docstring(function) is None:
        raise BadValue(f"reference must be a def with a docstring, got {reference!r}")
    head = source.splitlines()[: function.body[0].end_lineno]
    return "\n".join([*head, "    raise NotImplementedError"])


def number_of(name: str) -> str:
    """Return a lesson's number, with which ids and its file's name begin; "" if it has none."""
    found = re.match(NUMBER + r"(?![^\W_])", name)
    return found[0] if found else ""


@functools.cache  # a report of a class asks thousands of times, and each time it is on the disk
def lessons() -> tuple[str, ...]:
    """Return the numbers of the lessons that have exercises, for example ``("00", "01")``."""
    names = (
        module.name.removeprefix("lesson_") for module in pkgutil.iter_modules(course.__path__)
    )
    return (*sorted(name for name in names if re.fullmatch(NUMBER, name)),)


def exercises(lesson: str | None = None) -> list[Exercise]:
    """Return the exercises of one lesson, or of the whole course, in order."""
    if lesson is None:
        return [exercise for number in lessons() for exercise in exercises(number)]
    if lesson not in lessons():
        raise BadValue(f"lesson must be one of {', '.join(lessons())}, got {lesson!r}")
    module = importlib.import_module(f"{course.__name__}.lesson_{lesson}.exercises")
    found = [value for value in vars(module).values() if isinstance(value, Exercise)]
    return sorted(found, key=lambda exercise: exercise.id)


def find(exercise: str | Exercise) -> Exercise:
    """Return the exercise with this id (an ``Exercise`` is returned as it is)."""
    if isinstance(exercise, Exercise):
        return exercise
    lesson = number_of(exercise) if isinstance(exercise, str) else None
    known = exercises(lesson if lesson in lessons() else None)
    for candidate in known:
        if candidate.id == exercise:
            return candidate
    ids = ", ".join(candidate.id for candidate in known) or "none yet"
    raise BadValue(f"there is no exercise {exercise!r}; there are: {ids}")
