"""The score of a capstone: a number with its interval, and its parts.

Two functions are compared where they played the same problems: problem by problem.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lablib.course.theory.estimators import bootstrap_interval
from lablib.validation import BadValue

import numpy as np


class Foul(BadValue):
    """A function's result breaks a rule of its capstone; the message says which."""


@dataclass(frozen=True)
class Score:
    """The score of a function at a capstone.

    Attributes:
        capstone: its name.
        value: the score; more is better.
        low: lower end of its 95 % interval, over problems.
        high: upper end.
        parts: what it was made of: name -> number.
        values: what each problem gave, in order.
    """

    capstone: str
    value: float
    low: float
    high: float
    parts: dict[str, float] = field(default_factory=dict)
    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, capstone: str, values: Sequence[float], **parts: float) -> "Score":
        """Return the average of one value for each problem, with a bootstrap's interval."""
        values = np.asarray(values, dtype=float)
        low, high = bootstrap_interval(values, seed=0)
        each = tuple(values.tolist())
        return cls(capstone, float(values.mean()), float(low), float(high), parts, each)

    @classmethod
    def together(cls, scores: Iterable["Score"]) -> "Score":
        """Return the score of several seeds: all their problems, and the parts' averages."""
        scores = list(scores)
        parts = {
            name: type(value)(round(mean) if isinstance(value, int) else mean)
            for name, value in scores[0].parts.items()
            for mean in [float(np.mean([score.parts[name] for score in scores]))]
        }
        values = [value for score in scores for value in score.values]
        return cls.of(scores[0].capstone, values, **parts)

    @property
    def made_of(self) -> str:
        """Return the parts on one line."""
        return ", ".join(f"{name} {_short(value)}" for name, value in self.parts.items())

    def __repr__(self) -> str:
        interval = f"95 %: {self.low:.3f} to {self.high:.3f}"
        return f"{self.capstone}: {self.value:.3f} ({interval}); {self.made_of}"


@dataclass(frozen=True)
class Difference:
    """The lead of one function over another, on the same problems.

    Attributes:
        value: the average difference of a problem; above 0 the first one is better.
        low: lower end of its 95 % interval, over problems.
        high: upper end.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, one: Score, other: Score) -> "Difference":
        """Compare two scores, problem by problem."""
        if one.capstone != other.capstone or len(one.values) != len(other.values):
            raise BadValue("other must have played the same problems")
        each = np.subtract(one.values, other.values)
        low, high = bootstrap_interval(each, seed=0)
        return cls(float(each.mean()), float(low), float(high))

    @property
    def sure(self) -> bool:
        """Return whether 0 lies outside of the interval."""
        return not self.low <= 0 <= self.high

    def __repr__(self) -> str:
        return f"{self.value:+.3f} (95 %: {self.low:+.3f} to {self.high:+.3f})"


def _short(value: float) -> str:
    return f"{value:,d}" if isinstance(value, int) else f"{value:.3f}"
