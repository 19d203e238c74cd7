"""Pictures of lesson 16: what tries got, a ruler in halves, and what a vote makes of samples."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lablib.course.lessons.lesson_16.drafts import LIMIT
from lablib.course.lessons.lesson_16.scores import Score
from lablib.course.lessons.lesson_16.sums import World
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import TINTS, WARM, axis, curves, panel
from lablib.course.plots.explorer import slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.theory.estimators import bootstrap_interval

import numpy as np

KINDS = ("stories", "sums", "edits")  # of the texts of *drafts*, as many of each, in this order


class Voting(ChartExplorer):
    """Accuracy against samples a problem, counted and weighted by the model's own confidence.

    An answer's weight is the sum of e^(β · log-probability) over the samples that gave it: β = 0
    counts them. Each sample of a pool has its turn to be the first: averages over all turns.

    Args:
        worlds: the samples of one seed or more, equally many for each problem.
    """

    MOST, STEP = 2.0, 0.5  # of β

    def __init__(self, *worlds: World) -> None:
        pools = [pool for world in worlds for pool in world.samples]
        answers = np.array([[int(a) if a else -1 for a, _ in pool] for pool in pools])
        sure = np.array([[sum(chances) for _, chances in pool] for pool in pools])
        self.sure = sure - sure.max()
        self.said = answers[..., None] == np.arange(10)  # (problems, samples, digits)
        self.truths = np.array([int(truth) for world in worlds for truth in world.truths])
        right, order = answers == self.truths[:, None], np.argsort(-sure, axis=1, kind="stable")
        self.right, self.surest = (np.take_along_axis(x, order, 1) for x in (right, self.sure))
        size = answers.shape[1]
        self.counts = np.arange(1, size + 1)
        self.gain = lru_cache(None)(self._gain)
        betas = np.arange(0, self.MOST + self.STEP, self.STEP)
        gains = [self.gain(beta)[1:] for beta in betas]
        self._ends = float(np.min(gains)), np.ceil(10 * np.max(gains)) / 10  # an axis stays
        super().__init__(
            samples=slider(min(5, size), 1, size, label="samples a problem"),
            beta=slider(self.MOST, 0.0, self.MOST, self.STEP, label="weight β"),
        )

    def won(self, beta: float) -> np.ndarray:
        """Return how often each problem's vote of 1, 2, ... samples is right: shares of turns."""
        weights = self.said * np.exp(beta * self.sure)[..., None]
        earlier = 1 + 1e-9 / 2.0**self.counts  # of equals the first to appear is elected
        right = []
        for turn in range(len(self.counts)):
            turned = np.roll(weights, -turn, axis=1) * earlier[:, None]
            tallies = np.cumsum(turned, axis=1)
            elected = np.where(tallies.any(axis=2), tallies.argmax(axis=2), -1)
            right.append(elected == self.truths[:, None])
        return np.mean(right, axis=0)

    def _gain(self, beta: float) -> np.ndarray:
        """Return by how much weighting is right more often, and that by problem's 95 % interval."""
        each = (self.won(beta) - self.won(0.0)).T
        ends = [bootstrap_interval(apart, resamples=1000) for apart in each]
        return np.array([each.mean(axis=1), *np.transpose(ends)])

    def weight(self, beta: float) -> np.ndarray:
        """Return the share of its problem's weight that the surest sample has, the second ..."""
        weights = np.exp(beta * self.surest)
        return weights / weights.sum(axis=1, keepdims=True)

    def compute(self, samples: int, beta: float) -> dict[str, Any]:
        """Return both curves and what lies between; by rank the weight of all and of the right."""
        weights = self.weight(beta)
        return {
            "counted": self.won(0.0).mean(axis=0),
            "weighted": self.won(beta).mean(axis=0),
            "gain": self.gain(beta),
            "whole": weights.mean(axis=0),
            "right": (weights * self.right).mean(axis=0),
            "samples": samples,
            "beta": beta,
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw both curves, the weight of each rank, and below the difference with its interval."""
        series = {f"weighted, β = {data['beta']:g}": data["weighted"], "counted": data["counted"]}
        here = {"rule": {"x": data["samples"]}, "colour": WARM}
        x = axis(1, self.counts[-1], "samples a problem")
        view = panel("right votes (share)", x, axis(0, 1, "", (0, 0.5, 1)), series, share=1.3)
        low, high = self._ends
        title = "weighted − counted, and its 95 % interval, problem by problem"
        apart = panel(title, x, axis(min(low, 0), max(high, 0.1)), below=True, high=90)
        gain = curves(self.counts, {"difference": tuple(data["gain"])}, (3,))
        even = {"key": "even", "rule": {"y": 0}, "dash": "2 3"}
        bars = []
        for rank, (whole, right) in enumerate(zip(data["whole"], data["right"], strict=True), 1):
            truth = f"{self.right[:, rank - 1].mean():.0%} of these samples are right"
            note = f"Number {rank} of the surest has {whole:.1%} of the weight; {truth}."
            sides, look = [rank - 0.4, rank + 0.4], {"fill": COLOURS[5], "hollow": True}
            bars.append({"bar": [*sides, 0, right], "fill": COLOURS[2]})
            bars.append({"bar": [*sides, right, whole], **look, "note": note})
        last, most = self.counts[-1], self.weight(self.MOST).mean(axis=0).max()
        x = axis(0.4, last + 0.6, f"all {last} samples, the surest first", sorted({1, last}))
        why = panel("share of the weight (filled: right samples)", x, axis(0, most))
        voted = [*curves(self.counts, series), here]
        return Chart([view, why, apart], [voted, bars, [*gain, even, {**here}]])

    def caption(self, data: dict[str, Any]) -> str:
        """Say what weighting gains at the chosen number of samples, and how right sure ones are."""
        at, (first, *_, last) = data["samples"] - 1, self.right.mean(axis=0)
        gain, low, high = data["gain"][:, at]
        return (
            f"With {at + 1} sample{'s' * (at > 0)} a problem weighting gains {gain:+.2f} on "
            f"counting (95 %, problem by problem: {low:+.2f} to {high:+.2f}). Of each problem's "
            f"surest samples {first:.0%} are right, of the least sure {last:.0%}."
        )


def tried(played: Mapping[str, Score]) -> Chart:
    """Draw what tries at *drafts* got: a bar is the mean of its texts, dots are those of each kind.

    Args:
        played: each try's score, a row for each in this order. The axis is the same for all.
    """
    marks: list[dict[str, Any]] = [{"rule": {"x": 1}, "dash": "5 3"}]
    names = []
    for place, (name, score) in enumerate(played.items()):
        names.append((-place, f"{name} {score.value:.2f}"))
        note = f"{name}: {score.value:.2f} tokens for the price of a call, all texts alike."
        bar = [0, score.value, -place - 0.36, -place + 0.36]
        marks.append({"bar": bar, "fill": "#DDDDDD", "note": note})
        for k, each in enumerate(np.reshape(score.values, (len(KINDS), -1)).mean(axis=1)):
            note = f"{name}, {KINDS[k]}: {each:.2f}."
            dot = {"dot": [float(each), 0.22 * (1 - k) - place], "r": 4.5, "colour": COLOURS[k]}
            marks.append({**dot, "fill": COLOURS[k], "note": note})
    x = axis(0, LIMIT + 1, "tokens for the price of a call", range(LIMIT + 2), grid=True)
    y = axis(0.5 - len(names), 0.5, "", names, bare=True)
    keys = [("#DDDDDD", "all texts"), *zip(COLOURS, KINDS, strict=False)]
    title = "dashed: no drafts; dots from above: stories, sums, edits"
    return Chart([panel(title, x, y, side=170, high=36 * len(names))], [marks], keys)


def ruler(names: list[str], chances: np.ndarray) -> Chart:
    """Draw chances as a ruler, and below it both of its halves, each stretched to the whole length.

    Args:
        names: of the words, in the order of their pieces.
        chances: how long the pieces are, summing to 1.
    """
    ends = np.append(0, np.cumsum(chances))
    marks: list[dict[str, Any]] = []
    for row, (begin, wide) in enumerate(((0, 1), (0, 0.5), (0.5, 0.5))):
        seen = np.clip((ends - begin) / wide, 0, 1).round(9).tolist()
        for word, low, high, fill in zip(names, seen, seen[1:], TINTS, strict=False):
            if high == low:
                continue
            note = f"“{word}” has {high - low:.2g} of this ruler."
            marks.append({"bar": [low, high, -row - 0.3, 0.3 - row], "fill": fill, "note": note})
            marks.append({"text": f"{word} {high - low:.2g}", "at": [low + 0.01, -row - 0.07]})
    marks.append({"line": [[0.5, -0.4], [0.5, 0.4]], "wide": 4, "colour": "#333333"})
    rows = [(0, "the model"), (-1, "one story: the left half"), (-2, "the other: the right half")]
    y = axis(-2.5, 0.5, "", rows, bare=True)
    return Chart([panel("", axis(0, 1, "the ruler"), y, side=170, high=140)], [marks])
