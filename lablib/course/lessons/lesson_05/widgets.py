"""Widgets of the lesson on best-of-N: what more samples buy, and what a noisy verifier spoils."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import COLOURS, axis, curves, lines, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.theory.estimators import wilson_interval
from lablib.validation import BadValue, integer

import numpy as np

GAUSSIAN, HEAVY = "Gaussian", "heavy-tailed"


def best_of_weights(counts: Sequence[int], samples: int) -> np.ndarray:
    """Return how often each rank is the best of a random subset.

    Of all subsets of N out of M samples, ``C(r, N − 1) / C(M, N)`` have the sample of rank r (from
    0, the worst) as their best. So one sort gives the exact mean over all subsets, for every N.

    Args:
        counts: the N, each at most ``samples``.
        samples: M.

    Returns:
        Weights ``(len(counts), M)``, each row summing to 1.
    """
    return np.array(
        [
            [math.comb(rank, n - 1) / math.comb(samples, n) for rank in range(samples)]
            for n in (integer("counts", n, 1, samples) for n in counts)
        ]
    )


class OverOptimisation(ChartExplorer):
    """Best-of-N by a noisy verifier: the score it reports, and the truth.

    The samples are drawn already; the widget only judges them again, by 16 verifiers of equal
    quality, whose errors differ.

    Args:
        right: whether each sample is right, ``(problems, samples)``.
        seed: of the verifiers' errors.
    """

    verifiers = 16

    def __init__(self, right: Sequence[Sequence[bool]], seed: int = 0) -> None:
        self.right = np.asarray(right, dtype=float)
        if self.right.ndim != 2:
            raise BadValue(f"right must have shape (problems, samples), got {self.right.shape}")
        samples = self.right.shape[1]
        self.counts = [2**k for k in range(samples.bit_length()) if 2**k <= samples]
        self._weights = best_of_weights(self.counts, samples)
        rng = np.random.default_rng(integer("seed", seed, 0))
        shape = (self.verifiers, *self.right.shape)
        self._errors = {GAUSSIAN: rng.normal(size=shape), HEAVY: rng.standard_t(1, size=shape)}
        loudest = self.compute(noise=1.0, errors=HEAVY)["score"]
        self._top = 1.1 * float(max(1.0, loudest.max()))  # the axis stays where it is
        alone = self.right.mean() + min(0.0, *(each.mean() for each in self._errors.values()))
        self._low = min(0.25, max(0.01, alone))  # one sample has the lowest score
        super().__init__(
            noise=slider(0.2, 0.0, 1.0, 0.05, label="noise (in rewards)"),
            errors=choice(HEAVY, [GAUSSIAN, HEAVY], label="errors are"),
        )

    def compute(self, noise: float, errors: str) -> dict[str, Any]:
        """Return score and truth of the best of N, each ``(len(counts),)``.

        ``lucky``: how often the best of all is the chain with the largest error.
        """
        scores = self.right + noise * self._errors[errors]
        order = np.argsort(scores, axis=-1)
        right = np.broadcast_to(self.right, scores.shape)
        score, truth = (
            self._weights @ np.take_along_axis(each, order, axis=-1).mean(axis=(0, 1))
            for each in (scores, right)
        )
        luckiest = self._errors[errors].argmax(axis=-1)
        lucky = float(np.mean(luckiest == order[..., -1]))
        return {"n": self.counts, "score": score, "truth": truth, "lucky": lucky}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the score at the left and the truth at the right."""
        n = axis(1, self.counts[-1], "samples N", self.counts, log=True)
        # beyond a few rewards a heavy tail would flatten everything else
        score = axis(self._low, self._top, "", (0.25, 1, 4, 16, 64, 256), log=True)
        views = [panel("score of the chosen one (rewards, log)", n, score)]
        views.append(panel("the truth: share of right ones", n, axis(0, 1.03, "", (0, 0.5, 1))))
        reported = curves(self.counts, {"score": data["score"]})
        truth = curves(self.counts, {"truth": data["truth"]}, [2])
        best = int(np.argmax(data["truth"]))
        peak = [self.counts[best], float(data["truth"][best])]
        truth.append({"dot": peak, "r": 9, "hollow": True, "colour": COLOURS[5]})
        return Chart(views, [reported, truth])

    def caption(self, data: dict[str, Any]) -> str:
        """Say where the score ends, where the truth peaks and where it ends."""
        best = int(np.argmax(data["truth"]))
        return (
            f"The score goes up to {data['score'][-1]:.1f}. The truth is best at {data['n'][best]} "
            f"samples ({data['truth'][best]:.0%}) and ends at {data['truth'][-1]:.0%}."
        )


def chosen_right(counts: Sequence[int], by_judge: Mapping[str, Any], problems: int) -> Chart:
    """Draw how often each judge chooses a right one, and what so few problems leave open."""
    title = f"chosen one right (share of {problems} problems)"
    chart = lines(counts, by_judge, "samples N", title, logx=True, dots=["mean"])
    end, best = counts[-1], max(shares[-1] for shares in by_judge.values())
    low, high = wilson_interval(best * problems, problems)
    said = f"{best * problems:.0f} of {problems} (95 %: {low:.0%} to {high:.0%})"
    chart.marks[0].append({"line": [[end, best, low, high]], "wide": 0})
    chart.marks[0].append({"text": said, "at": [end, low - 0.05], "anchor": "end"})
    return chart


def spoken(chains: Mapping[str, tuple[Sequence[str], Sequence[float]]], slip: int) -> Chart:
    """Draw what each token of some chains adds to the log-odds that the chain is right.

    Args:
        chains: name -> texts of its tokens, and what each of them adds.
        slip: the place of the first wrong result, in the first chain.
    """
    every = [add for _, adds in chains.values() for add in adds]
    low, high, longest = min(every), max(*every, 1), max(len(adds) for _, adds in chains.values())
    y = axis(low - 1.2, high, "", (-4, -2, 0, 2, 4))
    views, marks = [], []
    for name, (tokens, adds) in chains.items():
        bars: list[dict[str, Any]] = []
        for i, (token, add) in enumerate(zip(tokens, adds, strict=True)):
            bar = [i - 0.4, i + 0.4, min(0, add), max(0, add)]
            note = f"“{token}” adds {add:.1f} to the log-odds."
            bars.append({"bar": bar, "fill": COLOURS[add < 0], "note": note})
        x = axis(-0.6, longest - 0.4, "", [*enumerate(tokens)], bare=True)
        title = f"{name} adds {sum(adds):.1f} to the log-odds"
        views.append(panel(title, x, y, high=120, below=bool(views)))
        marks.append(bars)
    aside, anchor = (-0.4, "start") if slip < longest / 2 else (0.4, "end")
    at = [slip + aside, low - 0.9]
    marks[0].append({"text": "the first wrong result", "at": at, "bold": True, "anchor": anchor})
    keys = [(COLOURS[0], "for the chain"), (COLOURS[1], "against it")]
    return Chart(views, marks, keys)
