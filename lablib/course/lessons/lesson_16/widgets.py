"""The widget of lesson 16: what a vote makes of the samples that were drawn."""

from typing import Any

from lablib.course.lessons.lesson_16.sums import World
from lablib.course.plots.charts import WARM, Chart, axis, curves, panel
from lablib.course.plots.explorer import slider
from lablib.course.plots.scene import ChartExplorer
from lablib.course.theory.estimators import wilson_interval

import numpy as np


class Voting(ChartExplorer):
    """Accuracy against samples a problem, counted and weighted by the model's own confidence.

    An answer's weight is the sum of e^(β · log-probability) over the samples that gave it: β = 0
    counts them. Each sample of a pool has its turn to be the first: averages over all turns.

    Args:
        world: the samples of a seed, equally many for each problem.
    """

    def __init__(self, world: World) -> None:
        answers = np.array([[int(a) if a else -1 for a, _ in pool] for pool in world.samples])
        sure = np.array([[sum(chances) for _, chances in pool] for pool in world.samples])
        self.sure = sure - sure.max()
        self.said = answers[..., None] == np.arange(10)  # (problems, samples, digits)
        self.truths = np.array([int(truth) for truth in world.truths])
        size = answers.shape[1]
        self.counts = np.arange(1, size + 1)
        super().__init__(
            samples=slider(min(5, size), 1, size, label="samples a problem"),
            beta=slider(1.0, 0.0, 2.0, 0.25, label="weight β"),
        )

    def accuracy(self, beta: float) -> np.ndarray:
        """Return the share of right answers with 1, 2, ... samples."""
        weights = self.said * np.exp(beta * self.sure)[..., None]
        earlier = 1 + 1e-9 * np.arange(len(self.counts), 0, -1)  # of equals the first one counts
        right = []
        for turn in range(len(self.counts)):
            turned = np.roll(weights, -turn, axis=1) * earlier[:, None]
            tallies = np.cumsum(turned, axis=1)
            right.append(tallies.argmax(axis=2) == self.truths[:, None])
        return np.mean(right, axis=(0, 1))

    def compute(self, samples: int, beta: float) -> dict[str, Any]:
        """Return both curves, and the number of problems."""
        return {
            "counted": self.accuracy(0.0), "weighted": self.accuracy(beta),
            "samples": samples, "beta": beta,
        }  # fmt: skip

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw both against the samples, with the interval of this many problems."""
        total, series = len(self.truths), {}
        for key, name in (("weighted", f"weighted, β = {data['beta']:g}"), ("counted", "counted")):
            ends = [wilson_interval(value * total, total) for value in data[key]]
            series[name] = (data[key], *np.transpose(ends))
        here = {"key": "here", "rule": {"x": data["samples"]}, "colour": WARM}
        x = axis(1, self.counts[-1], "samples a problem")
        view = panel("right answers (share)", x, axis(0, 1, "", (0, 0.5, 1)), series, high=240)
        return Chart([view], [[*curves(self.counts, series, (0, 5)), here]])

    def caption(self, data: dict[str, Any]) -> str:
        """Name both accuracies at the chosen number of samples."""
        at = data["samples"] - 1
        plural = "" if at == 0 else "s"
        return (
            f"{data['samples']} sample{plural} a problem: counted {data['counted'][at]:.0%} right, "
            f"weighted with β = {data['beta']:g}: {data['weighted'][at]:.0%}."
        )
