"""The points of exercises, and the optional ones: set in one small file.

    optional = ["07.4", "11.4"]  # points for who solves them, and none missing to who does not

    [points]
    "08.1" = 5

What the file does not name is worth its stars, and asked for.
"""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lablib.course.checks.exercises import exercises
from lablib.validation import BadValue, number


@dataclass(frozen=True)
class Scheme:
    """Points of exercises that are worth something else than their stars; the optional ones."""

    points: Mapping[str, float] = field(default_factory=dict)
    optional: Collection[str] = frozenset()

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
    optional, points = told.get("optional", []), told.get("points", {})
    known = {*told} <= {"points", "optional"}
    if not known or not isinstance(optional, list) or not isinstance(points, dict):
        raise BadValue(f"points must have a list optional and a table [points], got {told!r}")
    for exercise in (*optional, *points):
        if not isinstance(exercise, str) or exercise not in _stars():
            raise BadValue(f"points must name exercises, 07.4 say, got {exercise!r}")
    worth = {id_: number(f"points of {id_}", each, 0, 1000) for id_, each in points.items()}
    return Scheme(worth, frozenset(optional))
