"""The widget of lesson 16: what a vote makes of the samples that were drawn."""

from typing import Any

from lablib.course.lessons.lesson_16.sums import World
from lablib.course.plots.charts import WARM, Chart, axis, curves, panel
from lablib.course.plots.explorer import slider
from lablib.course.plots.pictures import COLOURS
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

    MOST = 2.0  # β

    def __init__(self, world: World) -> None:
        answers = np.array([[int(a) if a else -1 for a, _ in pool] for pool in world.samples])
        sure = np.array([[sum(chances) for _, chances in pool] for pool in world.samples])
        self.sure = sure - sure.max()
        self.said = answers[..., None] == np.arange(10)  # (problems, samples, digits)
        self.truths = np.array([int(truth) for truth in world.truths])
        right, order = answers == self.truths[:, None], np.argsort(-sure, axis=1, kind="stable")
        self.right, self.surest = (np.take_along_axis(x, order, 1) for x in (right, self.sure))
        size = answers.shape[1]
        self.counts = np.arange(1, size + 1)
        super().__init__(
            samples=slider(min(5, size), 1, size, label="samples a problem"),
            beta=slider(1.0, 0.0, self.MOST, 0.25, label="weight β"),
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

    def weight(self, beta: float) -> np.ndarray:
        """Return the share of its problem's weight that the surest sample has, the second ..."""
        weights = np.exp(beta * self.surest)
        return weights / weights.sum(axis=1, keepdims=True)

    def compute(self, samples: int, beta: float) -> dict[str, Any]:
        """Return both curves, and by rank, the surest first, the weight of all and of the right."""
        curves = {"counted": self.accuracy(0.0), "weighted": self.accuracy(beta)}
        whole = self.weight(beta)
        ranks = {"whole": whole.mean(axis=0), "right": (whole * self.right).mean(axis=0)}
        return {**curves, **ranks, "samples": samples, "beta": beta}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw both curves, with intervals of this many problems; and the weight of each rank."""
        total, series = len(self.truths), {}
        for key, name in (("weighted", f"weighted, β = {data['beta']:g}"), ("counted", "counted")):
            ends = [wilson_interval(value * total, total) for value in data[key]]
            series[name] = (data[key], *np.transpose(ends))
        here = {"key": "here", "rule": {"x": data["samples"]}, "colour": WARM}
        x = axis(1, self.counts[-1], "samples a problem")
        title, y = "right votes (share; bands: 95 %)", axis(0, 1, "", (0, 0.5, 1))
        view = panel(title, x, y, series, share=1.3)
        bars = []
        for rank, (whole, right) in enumerate(zip(data["whole"], data["right"], strict=True), 1):
            truth = f"{self.right[:, rank - 1].mean():.0%} of these samples are right"
            note = f"Number {rank} of the surest has {whole:.1%} of the weight; {truth}."
            sides, look = [rank - 0.4, rank + 0.4], {"fill": COLOURS[5], "hollow": True}
            bars.append({"key": f"r{rank}", "bar": [*sides, 0, right], "fill": COLOURS[2]})
            bars.append({"key": f"w{rank}", "bar": [*sides, right, whole], **look, "note": note})
        last, most = self.counts[-1], self.weight(self.MOST).mean(axis=0).max()
        x = axis(0.4, last + 0.6, "a problem's samples, the surest first", sorted({1, last}))
        why = panel("each sample's share of the weight", x, axis(0, most))
        keys = [(COLOURS[2], "a right sample", False), (COLOURS[5], "a wrong one", True)]
        return Chart([view, why], [[*curves(self.counts, series), here], bars], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Say how right sure samples are, and what comes of it at the chosen number of samples."""
        at, (first, *_, last) = data["samples"] - 1, self.right.mean(axis=0)
        plural = "" if at == 0 else "s"
        return (
            f"Of each problem's surest samples {first:.0%} are right, of the least sure "
            f"{last:.0%}. So with {data['samples']} sample{plural} a problem counting is right in "
            f"{data['counted'][at]:.0%}, weighting with β = {data['beta']:g} in "
            f"{data['weighted'][at]:.0%}."
        )
