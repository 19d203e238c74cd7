"""Widgets of the lesson on lossless speculation: what a rule writes, computed exactly and drawn.

Nothing here is sampled: a rule is a pure function, so everything that can happen is listed with
its probability, in float64.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from lablib.course.lessons.lesson_08.enumeration import Rule, one_round, plain
from lablib.course.lessons.lesson_08.extras import TYPICAL, typical
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import TINTS, WARM, axis, bar_keys, panel, upright
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.theory.closed_forms import acceptance_rejection
from lablib.inference.speculation import rules
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
from scipy.stats import chisquare

FALSE_ALARM = 1e-6
TINT = {"fill": TINTS[4], "edge": WARM}  # of bars that are not chosen
RESIDUAL_BUG, ACCEPT_BUG = "bug: residual from p", "bug: keep every draft"


def residual_from_p(p: mx.array, q: mx.array, drafts: mx.array) -> rules.Outcome:
    """Draw from p after a rejection, as if nothing had been drafted: a planted bug."""
    return rules.Outcome(rules.rejection(p, q, drafts).kept, p)


def keep_every_draft(p: mx.array, q: mx.array, drafts: mx.array) -> rules.Outcome:
    """Refuse no draft: a planted bug."""
    right = rules.rejection(p, q, drafts)
    last = mx.arange(p.shape[-2]) == p.shape[-2] - 1
    return rules.Outcome(mx.broadcast_to(last, right.kept.shape).astype(p.dtype), right.following)


def every_rule() -> dict[str, Rule]:
    """Return the engine's rules by name, added ones too, the lossy one and the bugs."""
    bugs = {RESIDUAL_BUG: residual_from_p, ACCEPT_BUG: keep_every_draft}
    return {**rules.RULE, TYPICAL: typical, **bugs}


def chi_square(counts: Sequence[int], p: Sequence[float]) -> float:
    """Return Pearson's ``Σ (observed − expected)² / expected`` of counts against a distribution p.

    Raises:
        ValueError: p is not positive everywhere, or not as long as ``counts``.
    """
    counts, p = np.ravel(counts), np.asarray(p, np.float64).ravel()
    if counts.shape != p.shape or (p <= 0).any():
        raise BadValue(f"p must be positive and as long as counts ({counts.size}), got {p.size}")
    return float(chisquare(counts, counts.sum() * p / p.sum()).statistic)


def between(p: Any, other: Any, distance: float) -> np.ndarray:
    """Return a draft at a ``distance`` from p: 0 is p itself, 1 is ``other``; rows sum to 1."""
    mixed = np.asarray(p, float) ** (1 - distance) * np.asarray(other, float) ** distance
    return mixed / mixed.sum(axis=-1, keepdims=True)


def positive(p: Any, other: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return two distributions as arrays, or refuse them: everywhere positive."""
    acceptance_rejection(p, other)  # refuses what is not two distributions
    p, other = np.array(p, float), np.array(other, float)
    if min(p.min(), other.min()) <= 0:
        raise BadValue("p and other must be positive everywhere: a distance has no zeros")
    return p, other


class RoundTexts(ChartExplorer):
    """A round of drafts on a small language: every text it can lead to, with its probability.

    Args:
        letters: the vocabulary, a letter for each token.
        target: ``(V, V)``; row i is the distribution after token i, all positive.
        other: the draft's when it is as far away as the slider goes.
        names: the rules to choose from; it begins with the last one.
    """

    FIRST, DRAFTED = 0, 2  # the token before the round, and γ

    def __init__(self, letters: str, target: Any, other: Any, names: Sequence[str]) -> None:
        rows = [positive(*row) for row in zip(target, other, strict=True)]
        self.target, self.other = (np.array(table) for table in zip(*rows, strict=True))
        self.texts = ["".join(text) for text in product(letters, repeat=self.DRAFTED + 1)]
        self.truth = plain(self.target, self.FIRST, self.DRAFTED + 1)
        self.names = list(names)
        far = [self._round(name, self.other)[0].max() for name in names]
        self._top = float(max(1.2 * self.truth.max(), 1.05 * max(far)))  # of all rules
        super().__init__(
            distance=slider(1.0, 0.0, 1.0, 0.05, label="draft's distance"),
            rule=choice(self.names[-1], self.names, label="rule"),
        )

    def compute(self, distance: float, rule: str) -> dict[str, Any]:
        """Return the joint distribution ``(V**(γ+1),)``, and each rule's tokens per round."""
        draft = between(self.target, self.other, distance)
        all_rules = {name: self._round(name, draft) for name in self.names}
        return {
            "written": all_rules[rule][0].ravel(),
            "truth": self.truth.ravel(),
            "tokens": {name: tokens for name, (_, tokens) in all_rules.items()},
            "rule": rule,
        }

    def _round(self, name: str, draft: np.ndarray) -> tuple[np.ndarray, float]:
        return one_round(every_rule()[name], self.target, draft, self.FIRST, self.DRAFTED)

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw each text's probability within the target's own, and how long a round is."""
        series = {"target alone": data["truth"], "written": data["written"]}
        x = axis(-0.6, len(self.texts) - 0.4, "text", [*enumerate(self.texts)], bare=True)
        views = [panel("probability", x, axis(0, self._top), share=2)]
        marks, names = [], []
        for row, (name, tokens) in enumerate(data["tokens"].items()):
            look = {"fill": COLOURS[0], "colour": "#FFFFFF"} if name == data["rule"] else TINT
            note = f"{name}: {tokens:.2f} tokens a round."
            bar = {"bar": [0, tokens, -row - 0.36, -row + 0.36], "text": f"{tokens:.2f}"}
            marks.append({**bar, **look, "note": note})
            names.append((-row, name))
        x, y = axis(0, self.DRAFTED + 1), axis(0.5 - len(names), 0.5, "", names, bare=True)
        views.append(panel("tokens a round (blue: this rule)", x, y, side=98))
        return Chart(views, [upright(self.texts, series), marks], bar_keys(series))

    def caption(self, data: dict[str, Any]) -> str:
        """Say how far the joint distribution is from the target's, and how long a round is."""
        wrong = np.abs(data["written"] - data["truth"]).max()
        verdict = "as the target alone does" if wrong < 1e-9 else f"wrong by up to {wrong:.3f}"
        return (
            f"The rule ‘{data['rule']}’ writes the texts of {self.DRAFTED + 1} tokens {verdict}. "
            f"A round writes {data['tokens'][data['rule']]:.2f} tokens."
        )
