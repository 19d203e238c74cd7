"""Cases at the edges, tried after the others: an exercise's mistake keeps its name.

A mistake is recognised by its answers to every case. Whoever makes a known one and also stumbles
over an empty list would answer as nobody else does, and be told nothing. So edges come second.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lablib.course.checks.comparing import compare
from lablib.course.checks.exercises import Cases, Wrong


def edges(cases: Cases) -> Callable[[Any], None]:
    """Return a checker that compares on further cases, and refuses changed arguments.

    Args:
        cases: as ``Exercise.cases``; tried once the exercise's own cases are right.
    """
    compare_further = further(cases)

    def checker(fn: Any) -> None:
        compare_further(fn)
        refuse_changes(fn)

    return checker


def further(*rounds: Cases) -> Callable[[Any], None]:
    """Return a checker that compares on further cases, one round after the other.

    Args:
        *rounds: as ``Exercise.cases``; each is tried behind the exercise's own cases.
    """

    @functools.lru_cache(maxsize=8)  # the same cases each time, or no answer to them is known
    def behind(own: Cases) -> list[Cases]:
        return [lambda rng, more=more: [*own(rng), *more(rng)] for more in rounds]

    def checker(fn: Any) -> None:
        for cases in behind(fn.exercise.cases):
            compare(replace(fn.exercise, cases=cases), fn)

    return checker


def refuse_changes(fn: Any) -> None:
    """Raise ``Wrong`` if a function whose answers are right has changed one of its arguments."""
    if fn.changed:
        name = fn.changed[0]
        raise Wrong(f"its answers are right, but it changes {name}, which its caller still needs.")
