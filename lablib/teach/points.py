"""The points of exercises, and the optional ones: set in one small file.

    optional = ["07.4", "11.4"]  # points for who solves them, and none missing to who does not

    [points]
    "08.1" = 5

What the file does not name is worth its stars, and asked for.
"""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lablib.course.checks.exercises import exercises
from lablib.validation import BadValue

MOST = 1000  # points of an exercise


@dataclass(frozen=True)
class Scheme:
    """Points by exercise.

    Attributes:
        points: of exercises that are worth something else than their stars.
        optional: exercises that count when they are solved, and are not missing otherwise.
    """

    points: dict[str, float] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()

    def worth(self, exercise: str) -> float:
        """Return the points for solving an exercise; none for what is no exercise."""
        return self.points.get(exercise, _stars().get(exercise, 0))


@cache  # a report of a class asks thousands of times
def _stars() -> dict[str, int]:
    return {exercise.id: exercise.stars for exercise in exercises()}


def read_points(path: Path) -> Scheme:
    """Read a scheme from a file in TOML.

    Raises:
        BadValue: there is no such file, or it says something else.
    """
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadValue(f"points must be a file in TOML, got {str(path)!r}: {error}") from None
    unknown = sorted({*told} - {"points", "optional"})
    if unknown:
        raise BadValue(f"points must have the keys points and optional, got {unknown[0]!r}")
    optional, points = told.get("optional", []), told.get("points", {})
    if not isinstance(optional, list) or not isinstance(points, dict):
        raise BadValue(f"points must have a list optional and a table [points], got {told!r}")
    known = [each.id for each in exercises()]
    for exercise in (*optional, *points):
        if exercise not in known:
            raise BadValue(f"points must name exercises, 07.4 say, got {exercise!r}")
    return Scheme({id_: _number(id_, worth) for id_, worth in points.items()}, frozenset(optional))


def _number(exercise: str, worth: Any) -> float:
    if type(worth) not in (int, float) or not 0 <= worth <= MOST:
        raise BadValue(f"points of {exercise} must be from 0 to {MOST}, got {worth!r}")
    return worth
