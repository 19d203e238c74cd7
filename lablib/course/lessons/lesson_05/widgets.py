"""Widgets of the lesson on best-of-N: what more samples buy, and what a noisy verifier spoils."""

import math
from collections.abc import Sequence
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import COLOURS, axis, curves, panel
from lablib.course.plots.explorer import slider
from lablib.validation import BadValue, integer

import numpy as np

GAUSSIAN, HEAVY = "Gaussian", "heavy-tailed"
KINDS, LOOKS = (HEAVY, GAUSSIAN), (5, 0)  # of errors: vermilion, blue


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
        tried = [self.compute(noise / 20)[kind]["score"] for noise in range(21) for kind in KINDS]
        self._top = 1.1 * float(max(1.0, np.max(tried)))  # the axis stays where it is
        self._low = min(0.25, max(0.01, float(np.min(tried))))
        super().__init__(noise=slider(0.2, 0.0, 1.0, 0.05, label="noise (in rewards)"))

    def compute(self, noise: float) -> dict[str, Any]:
        """Return of each kind of errors the score and the truth of the best of N.

        ``score``: the median over problems and verifiers, for a mean would be that of its luckiest
        error; ``truth``: the mean; ``lucky``: how often the best of all is the chain with the
        largest error.
        """
        found: dict[str, Any] = {"n": self.counts}
        right = np.broadcast_to(self.right, self._errors[HEAVY].shape)
        for kind, errors in self._errors.items():
            scores = self.right + noise * errors
            order = np.argsort(scores, axis=-1)
            score, truth = (
                np.take_along_axis(each, order, axis=-1) @ self._weights.T
                for each in (scores, right)
            )
            lucky = float(np.mean(errors.argmax(axis=-1) == order[..., -1]))
            score, truth = np.median(score, axis=(0, 1)), truth.mean(axis=(0, 1))
            found[kind] = {"score": score, "truth": truth, "lucky": lucky}
        return found

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the score at the left and the truth at the right, of both kinds of errors."""
        n = axis(1, self.counts[-1], "samples N", self.counts, log=True)
        # beyond a few rewards a heavy tail would flatten everything else
        score = axis(self._low, self._top, "", (0.25, 1, 4, 16, 64, 256), log=True)
        views = [panel("score of the chosen one (median, rewards, log)", n, score, KINDS)]
        truth = axis(0, 1.03, "", (0, 0.5, 1))
        views.append(panel("the truth: share of right ones", n, truth, KINDS))
        marks = [
            curves(self.counts, {kind: data[kind][what] for kind in KINDS}, LOOKS)
            for what in ("score", "truth")
        ]
        best = int(np.argmax(data[HEAVY]["truth"]))
        peak = [self.counts[best], float(data[HEAVY]["truth"][best])]
        marks[1].append({"dot": peak, "r": 9, "hollow": True, "colour": COLOURS[LOOKS[0]]})
        return Chart(views, marks)

    def caption(self, data: dict[str, Any]) -> str:
        """Say of both where the score ends, where the truth peaks and where it ends."""
        said = []
        for kind in KINDS:
            score, truth = data[kind]["score"], data[kind]["truth"]
            best = int(np.argmax(truth))
            peak = f", after {truth[best]:.0%} at {data['n'][best]} samples" * (
                best < len(truth) - 1
            )
            said.append(
                f"{kind.capitalize()} errors: the score ends at {score[-1]:.1f}, the truth at "
                f"{truth[-1]:.0%}{peak}."
            )
        return " ".join(said)


def slipped(
    wrong: tuple[Sequence[str], Sequence[float]],
    fine: tuple[Sequence[str], Sequence[float]],
    slip: int,
) -> Chart:
    """Draw what each token of a chain adds to the log-odds that the chain is right.

    Args:
        wrong: the texts of its tokens, and what each of them adds.
        fine: those of the same chain without its slips, token by token.
        slip: the place of the first wrong result.
    """
    apart = [a - b for a, b in zip(wrong[1], fine[1], strict=True)]
    rows = {
        "a chain with a slip": wrong,
        "the same chain without it": fine,
        "the difference, column by column": ([], apart),
    }
    every = [*wrong[1], *fine[1], *apart, 0.0]
    y = axis(min(every) - 1.8, max(every) + 1.8, "", (-6, -3, 0, 3))
    views, marks = [], []
    for title, (tokens, adds) in rows.items():
        bars: list[dict[str, Any]] = []
        for i, add in enumerate(adds):
            bar = [i - 0.4, i + 0.4, min(0, add), max(0, add)]
            who = f"“{tokens[i]}” adds" if tokens else f"Token {i + 1}: the slip changes it by"
            note = f"{who} {add:.1f}."
            bars.append({"bar": bar, "fill": COLOURS[add < 0], "note": note})
        at = [slip, adds[slip] + (0.4 if adds[slip] > 0 else -1.7)]
        bars.append({"text": f"{adds[slip]:+.1f}", "at": at, "bold": True, "anchor": "middle"})
        x = axis(-0.6, len(adds) - 0.4, "", [*enumerate(tokens)], bare=True)
        views.append(panel(title, x, y, high=100, below=bool(views)))
        marks.append(bars)
    keys = [(COLOURS[0], "speaks for the chain"), (COLOURS[1], "against it")]
    return Chart(views, marks, keys)
