"""The widget of lesson 16: what a vote makes of the samples that were drawn."""

from functools import lru_cache
from typing import Any

from lablib.course.lessons.lesson_16.scores import Score
from lablib.course.lessons.lesson_16.sums import World
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import TINTS, WARM, axis, curves, lines, panel
from lablib.course.plots.dots import dots
from lablib.course.plots.explorer import slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.theory.estimators import bootstrap_interval

import numpy as np


class Voting(ChartExplorer):
    """Accuracy against samples a problem, counted and weighted by the model's own confidence.

    An answer's weight is the sum of e^(β · log-probability) over the samples that gave it: β = 0
    counts them. Each sample of a pool has its turn to be the first: averages over all turns.

    Args:
        world: the samples of a seed, equally many for each problem.
    """

    MOST, STEP = 2.0, 0.25  # of β

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
        self.gain = lru_cache(None)(self._gain)
        betas = np.arange(0, self.MOST + self.STEP, self.STEP)
        self._low = min(float(self.gain(beta)[1].min()) for beta in betas)  # an axis stays
        super().__init__(
            samples=slider(min(5, size), 1, size, label="samples a problem"),
            beta=slider(1.0, 0.0, self.MOST, self.STEP, label="weight β"),
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
        """Draw both curves, their difference with its interval, and the weight of each rank."""
        series = {f"weighted, β = {data['beta']:g}": data["weighted"], "counted": data["counted"]}
        series["difference, 95 %"] = tuple(data["gain"])
        here = {"rule": {"x": data["samples"]}, "colour": WARM}
        x, y = axis(1, self.counts[-1], "samples a problem"), axis(self._low, 1, "", (0, 0.5, 1))
        view = panel("right votes (share)", x, y, series, share=1.3)
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
        return Chart([view, why], [[*curves(self.counts, series, (0, 1, 3)), here], bars])

    def caption(self, data: dict[str, Any]) -> str:
        """Say what weighting gains at the chosen number of samples, and how right sure ones are."""
        at, (first, *_, last) = data["samples"] - 1, self.right.mean(axis=0)
        gain, low, high = data["gain"][:, at]
        return (
            f"With {at + 1} sample{'s' * (at > 0)} a problem weighting gains {gain:+.2f} on "
            f"counting (95 %, problem by problem: {low:+.2f} to {high:+.2f}). Of each problem's "
            f"surest samples {first:.0%} are right, of the least sure {last:.0%}."
        )


def beside_theory(counts: list[int], theory: np.ndarray, counted: np.ndarray, gap: Any) -> Chart:
    """Draw votes of the model beside the author's, and the gap with its interval below.

    Args:
        counts: samples of a vote, N numbers.
        theory: how often the author's votes are right, (N,).
        counted: how often the model's are, (N,).
        gap: theory less counted, and both ends of its interval, three times (N,).
    """
    series = {"the author, counted": theory, "the model, counted": counted}
    both = lines(counts, series, "", "right answers (share)")
    apart = lines(counts, {"gap": gap}, "samples a problem", "author − model, 95 %")
    apart.marks[0][0]["colour"] = "#333333"  # it is neither of the two lines
    apart.marks[0].append({"key": "even", "rule": {"y": 0}, "dash": "2 3"})
    apart.panels[0] |= {"below": True, "high": 120}
    for each in (both, apart):
        each.panels[0] |= {"side": 46, "labels": [*series]}  # they share an axis
    return Chart([*both.panels, *apart.panels], [*both.marks, *apart.marks])


def of_the_room(played: dict[str, tuple[Score, Score, Score]], tops: dict[str, Score]) -> Chart:
    """Draw how much of its room each answer has taken, from doing nothing to the oracle.

    Args:
        played: capstone -> scores of who does nothing, the baseline and the good answer.
        tops: capstone -> the oracle's score.
    """
    first: dict[str, tuple[float, ...]] = {}
    second: dict[str, tuple[float, ...]] = {}
    for capstone, scores in played.items():
        nothing, low, high, top = (np.array(s.values) for s in (*scores, tops[capstone]))
        lead, room = high - low, top - nothing  # of a problem, so that they go together
        ends = bootstrap_interval(lead, per=room)
        at = (low - nothing).sum() / room.sum()
        first[capstone] = (at, at, at)
        second[capstone] = (at + lead.sum() / room.sum(), *(at + np.array(ends)))
    series = {"baseline": first, "one good answer": second}
    name = "share of what there is to gain: 0 does nothing, 1 is the oracle"
    title = "lines: 95 % of the lead over the baseline, problem by problem"
    chart = dots(series, name, title, rule=1, ends=(-0.04, 1.04), side=130)
    chart.marks[0].insert(0, {"rule": {"x": 0}, "dash": "5 3"})
    return chart


def ruler(names: list[str], chances: np.ndarray, stories: int = 12) -> Chart:
    """Draw chances as a ruler: stories that read it at equal steps, and two with a half for each.

    Args:
        names: of the words, in the order of their pieces.
        chances: how long the pieces are, summing to 1.
        stories: how many needles the first ruler has.
    """
    ends = np.append(0, np.cumsum(chances)).tolist()
    marks: list[dict[str, Any]] = []
    for row in (0, -1):
        for word, low, high, fill in zip(names, ends, ends[1:], TINTS, strict=False):
            note = f"“{word}” has the ruler from {low:g} to {high:g}."
            marks.append({"bar": [low, high, row - 0.25, row + 0.25], "fill": fill, "note": note})
            marks.append({"text": word, "at": [low + 0.01, row - 0.19]})
    for i in range(stories):
        place = (i + 0.5) / stories
        marks.append({"line": [[place, 0.08], [place, 0.42]], "wide": 2, "colour": "#333333"})
    marks.append({"line": [[0.5, -1.4], [0.5, -0.6]], "wide": 4, "colour": "#333333"})
    rows = [(0, f"one number, {stories} needles"), (-1, "a half for each of two")]
    y = axis(-1.5, 0.5, "", rows, bare=True)
    return Chart([panel("", axis(0, 1, "the ruler"), y, side=170, high=120)], [marks])
