"""Compare a student's function with the reference, and recognise misconceptions.

Nobody writes the diagnosis: a function that answers every case as a named wrong answer does has,
as far as anybody can tell, made the same mistake.
"""

import copy
from collections.abc import Callable
from typing import Any

from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.running import Watched
from lablib.course.checks.values import call_text, copied, difference, pair_text

import numpy as np

SEED = 20240  # every student gets the same cases
MOST = 4096  # functions whose answers are remembered: a whole course, and a bound

_known: dict[tuple[Any, ...], list[Any]] = {}


def compare(exercise: Exercise, watched: Watched) -> None:
    """Compare a function with the reference on every case.

    Raises:
        Wrong: about the smallest case that fails, and which wrong answer it looks like, if any.
    """
    returned: list[Any] = []
    answers = _answers(exercise, watched, returned=returned)
    right = _remembered(exercise, exercise.reference)
    cases = _cases(exercise)
    failing = [
        place
        for place, (expected, got) in enumerate(zip(right, answers, strict=True))
        if not _same(expected, got, exercise.tolerance)
    ]
    shown = min(failing, key=lambda place: len(call_text("", cases[place])), default=0)
    for place in sorted({0, shown}):  # what is shown must come again
        (again,) = _answers(exercise, watched, cases=[_cases(exercise)[place]])
        if _has_equals(answers[place]) and not _same(answers[place], again, exercise.tolerance):
            raise Wrong("it gives a different answer when called again with the same arguments")
    if not failing and not exercise.in_place:
        _refuse_what_changes_later(watched.function, answers, returned)
    if not failing:
        return
    case, expected, got = cases[shown], right[shown], answers[shown]
    lines = [f"{call_text(exercise.name, case)}"]
    if isinstance(got, Wrong):
        lines.append(got.message)
    else:
        pair = pair_text(expected, got)
        lines += [f"expected {pair[0]}", f"got      {pair[1]}"]
        problem = watched.none if got is None else difference(expected, got, exercise.tolerance)
        lines += [problem] if problem else []
    raise Wrong("\n".join(lines), like=_diagnose(exercise, answers))


def _cases(exercise: Exercise) -> list[tuple[Any, ...]]:
    """Return the cases, made anew for every function: what one changes no other one sees."""
    cases = exercise.cases(np.random.default_rng(SEED))
    return [copied(case, generators=True) for case in cases]


def _answers(
    exercise: Exercise,
    watched: Watched,
    cases: list[tuple[Any, ...]] | None = None,
    returned: list[Any] | None = None,
) -> list[Any]:
    """Return the answer to each case; a ``Wrong`` where there was an accident.

    The answer of a function that works in place is what it returns, and its lists and arrays. Into
    ``returned`` goes what a function returned, itself and no copy.
    """
    answers: list[Any] = []
    for case in _cases(exercise) if cases is None else cases:
        try:
            itself = watched(*case)
        except Wrong as wrong:
            itself = answer = None if wrong.error is type(None) else wrong
        else:
            answer = copied(itself)  # a list that is kept may be changed by the next call
            if exercise.in_place:
                answer = [answer, *(value for value in case if copied(value) is not value)]
        answers.append(answer)
        if returned is not None:
            returned.append(itself)
    return answers


def _remembered(exercise: Exercise, function: Callable[..., Any]) -> list[Any]:
    """Return the answers of one of the exercise's own functions, which are the same each time.

    They are known by the objects that make them: whoever reloads a lesson gets new ones. What has
    no equal, as a future, is asked for anew.
    """
    made_by = exercise.cases, exercise.reference, exercise.in_place, SEED
    key = function, *made_by
    answers = _known.get(key)
    if answers is None:
        answers = _answers(exercise, Watched(function, exercise))
        if not all(map(_has_equals, answers)):
            return answers
        answers = copy.deepcopy(answers)  # an exception without the frames that it came through
        while len(_known) >= MOST:
            _known.pop(next(iter(_known)), None)
        _known[key] = answers
    return copied(answers)


def _refuse_what_changes_later(
    function: Callable[..., Any], answers: list[Any], returned: list[Any]
) -> None:
    """Refuse answers that are not what they were; in another process the function looks itself."""
    changed = getattr(function, "changes_later", bool)() or any(
        _has_equals(answer) and not _same(answer, itself, 0.0)
        for answer, itself in zip(answers, returned, strict=True)
    )
    if changed:
        raise Wrong(
            "a later call changes what it returned before: make a new list, array or dict each "
            "time."
        )


def _same(expected: Any, got: Any, tolerance: float) -> bool:
    if isinstance(expected, Wrong) or isinstance(got, Wrong):
        accidents = isinstance(expected, Wrong) and isinstance(got, Wrong)
        return accidents and expected.error == got.error
    return difference(expected, got, tolerance) is None


def _has_equals(answer: Any) -> bool:
    """Tell whether two answers can be equal at all: a future is equal to itself alone."""
    try:
        return _same(copy.deepcopy(answer), answer, 0.0)
    except Exception:  # what can't be copied has no equal
        return False


def _diagnose(exercise: Exercise, answers: list[Any]) -> str | None:
    """Return the name of the wrong answer that answers every case as the student did."""
    for function in exercise.wrong:
        theirs = _remembered(exercise, function)
        if all(_same(a, b, exercise.tolerance) for a, b in zip(theirs, answers, strict=True)):
            return function.__name__
    return None
