"""The widget of lesson 16: what a vote makes of the samples that were drawn."""

from typing import Any

from lablib.course.lessons.lesson_16.sums import World
from lablib.course.plots.charts import COLOURS, DASHES, MARKERS, style
from lablib.course.plots.explorer import Explorer, slider
from lablib.course.plots.strips import add_axes, canvas
from lablib.course.theory.estimators import wilson_interval

import numpy as np
from matplotlib.figure import Figure


class Voting(Explorer):
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

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw both against the samples, with the interval of this many problems."""
        fig = canvas(3.2)
        with style():
            axes = add_axes(fig, 0.9, 0.5, 6.9, 2.1)
            names = {"weighted": f"weighted, β = {data['beta']:g}", "counted": "counted"}
            for i, (key, name) in enumerate(names.items()):
                values, colour = data[key], COLOURS[(0, 5)[i]]
                total = len(self.truths)
                ends = np.array([wilson_interval(value * total, total) for value in values])
                axes.plot(
                    self.counts, values, color=colour, ls=DASHES[i], marker=MARKERS[i], ms=5,
                    label=name,
                )  # fmt: skip
                axes.fill_between(self.counts, *ends.T, color=colour, alpha=0.15, lw=0)
            axes.axvline(data["samples"], color="#999999", lw=8, alpha=0.3)
            axes.set(xlabel="samples a problem", ylabel="right answers", ylim=(0, 1.03))
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=10)
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Name both accuracies at the chosen number of samples."""
        at = data["samples"] - 1
        plural = "" if at == 0 else "s"
        return (
            f"{data['samples']} sample{plural} a problem: counted {data['counted'][at]:.0%} right, "
            f"weighted with β = {data['beta']:g} {data['weighted'][at]:.0%}."
        )
