"""What a capstone's score is: a number with its interval, and what it was made of."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lablib.course.theory.estimators import bootstrap_interval
from lablib.validation import BadValue

import numpy as np


class Foul(BadValue):
    """What a function returned is against the rules of its capstone; the message says what."""


@dataclass(frozen=True)
class Score:
    """How well a function played a capstone.

    Attributes:
        capstone: its name.
        value: the score; more is better.
        low: lower end of its 95 % interval, over problems.
        high: upper end.
        parts: what it was made of: name -> number.
    """

    capstone: str
    value: float
    low: float
    high: float
    parts: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, capstone: str, values: Sequence[float], **parts: float) -> "Score":
        """Return the average of one value for each problem, with a bootstrap's interval."""
        values = np.asarray(values, dtype=float)
        low, high = bootstrap_interval(values, seed=0)
        return cls(capstone, float(values.mean()), float(low), float(high), parts)

    @property
    def made_of(self) -> str:
        """Return the parts on one line."""
        return ", ".join(f"{name} {_short(value)}" for name, value in self.parts.items())

    def __repr__(self) -> str:
        interval = f"95 %: {self.low:.3f} to {self.high:.3f}"
        return f"{self.capstone}: {self.value:.3f} ({interval}); {self.made_of}"


def _short(value: float) -> str:
    return f"{value:,d}" if isinstance(value, int) else f"{value:.3f}"
