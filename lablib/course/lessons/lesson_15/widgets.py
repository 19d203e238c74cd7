"""The widget of lesson 15: what two ways of judging drafts keep."""

from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import WARM, axis, curves, panel
from lablib.course.plots.explorer import choice, slider
from lablib.validation import BadValue

import numpy as np
from scipy.special import softmax


def shares(p: Any, q: Any, temperature: float) -> tuple[float, float]:
    """Return what equal draws keep, Σ p·q, and the most that any judge can, Σ min(p, q).

    Args:
        p: the target's logits ``(N, V)``.
        q: the draft model's ``(N, V)``.
        temperature: of both; at 0 the best token is certain.

    Returns:
        Both as averages over the N positions.
    """
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    if temperature == 0:
        same = float((p.argmax(axis=1) == q.argmax(axis=1)).mean())
        return same, same
    p, q = (softmax(each / temperature, axis=1) for each in (p, q))
    return float((p * q).sum(axis=1).mean()), float(np.minimum(p, q).sum(axis=1).mean())


class Judged(ChartExplorer):
    """The drafts that two ways of judging keep, from temperature 0 on.

    Args:
        pairs: name -> the target's and the drafter's logits at N positions of a text, ``(N, V)``.
    """

    def __init__(self, pairs: dict[str, tuple[Any, Any]]) -> None:
        if not pairs:
            raise BadValue("pairs must hold the logits of at least one drafter, got none")
        self.grid = np.round(np.arange(0, 1.6, 0.1), 1)
        self.pairs = pairs
        self.kept = {
            name: np.array([shares(*pair, t) for t in self.grid]) for name, pair in pairs.items()
        }
        super().__init__(
            drafter=choice(next(iter(pairs)), [*pairs], label="drafter"),
            temperature=slider(0.7, 0.0, 1.5, 0.1, label="temperature"),
        )

    def compute(self, drafter: str, temperature: float) -> dict[str, Any]:
        """Return both curves ``(16, 2)``, and their values at the chosen temperature."""
        return {
            "curves": self.kept[drafter],
            "here": shares(*self.pairs[drafter], temperature),
            "drafter": drafter,
            "temperature": temperature,
        }

    def sums(self, drafter: str, start: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return both curves from a temperature on: name -> temperatures and shares."""
        on = self.grid >= start
        agree, most = self.kept[drafter][on].T
        return {"Σ p·q": (self.grid[on], agree), "Σ min(p, q)": (self.grid[on], most)}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw both curves against the temperature, and mark the chosen one."""
        names = ("two draws that agree, Σ p·q", "the most that can be kept, Σ min(p, q)")
        series = dict(zip(names, data["curves"].T, strict=True))
        here = {"rule": {"x": data["temperature"]}, "colour": WARM}
        x = axis(0, self.grid[-1], "temperature")
        view = panel("drafts kept (share)", x, axis(0, 1.03, "", (0, 0.5, 1)), names, high=240)
        return Chart([view], [[*curves(self.grid, series), here]])

    def caption(self, data: dict[str, Any]) -> str:
        """Name both shares at the chosen temperature."""
        agree, most = data["here"]
        return (
            f"At temperature {data['temperature']:.1f}, {data['drafter']}: two draws that agree "
            f"keep {agree:.0%} of the drafts; {most:.0%} can be kept."
        )
