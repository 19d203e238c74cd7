"""Widgets of the lesson on lossless speculation: what a rule writes, computed exactly and drawn.

Nothing here is sampled except in ``Detection``: a rule is a pure function, so everything that can
happen is listed with its probability, in float64.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from lablib.course.lessons.lesson_08.enumeration import Rule, exactly, one_round, plain
from lablib.course.lessons.lesson_08.enumeration import bias as bias
from lablib.course.lessons.lesson_08.enumeration import by_draft as by_draft
from lablib.course.lessons.lesson_08.enumeration import extended as extended
from lablib.course.lessons.lesson_08.enumeration import one_token as one_token
from lablib.course.lessons.lesson_08.extras import TYPICAL, typical
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, bar_keys, curves, panel, upright
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.marks import REST
from lablib.course.plots.pictures import COLOURS
from lablib.course.theory.closed_forms import acceptance_rejection
from lablib.inference.speculation import rules
from lablib.validation import BadValue, integer

import mlx.core as mx
import numpy as np
from scipy.stats import chi2, chisquare

FALSE_ALARM = 1e-6
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
        start: the token before the round.
        drafted: γ.
        names: the rules to choose from, all by default.
    """

    def __init__(
        self, letters: str, target: Any, other: Any, start: int = 0, drafted: int = 2,
        names: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        rows = [positive(*row) for row in zip(target, other, strict=True)]
        self.target, self.other = (np.array(table) for table in zip(*rows, strict=True))
        self.start, self.drafted = integer("start", start, 0), integer("drafted", drafted, 1)
        self.texts = ["".join(text) for text in product(letters, repeat=drafted + 1)]
        self.truth = plain(self.target, start, drafted + 1)
        self.names = list(names or every_rule())
        far = [
            one_round(every_rule()[name], self.target, self.other, start, drafted)[0].max()
            for name in self.names
        ]
        self._top = float(max(1.2 * self.truth.max(), 1.05 * max(far)))  # of all rules
        super().__init__(
            distance=slider(1.0, 0.0, 1.0, 0.05, label="draft's distance"),
            rule=choice("rejection", self.names, label="rule"),
        )

    def compute(self, distance: float, rule: str) -> dict[str, Any]:
        """Return the joint distribution ``(V**(γ+1),)``, and each rule's tokens per round."""
        draft = between(self.target, self.other, distance)
        all_rules = {
            name: one_round(each, self.target, draft, self.start, self.drafted)
            for name, each in every_rule().items()
            if name == rule or (name in rules.RULE and name in self.names)
        }
        return {
            "written": all_rules[rule][0].ravel(),
            "truth": self.truth.ravel(),
            "tokens": {name: tokens for name, (_, tokens) in all_rules.items()},
            "rule": rule,
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw each text's probability within the target's own, and how long a round is."""
        series = {"target alone": data["truth"], "written": data["written"]}
        x = axis(-0.6, len(self.texts) - 0.4, "text", [*enumerate(self.texts)], bare=True)
        views = [panel("probability", x, axis(0, self._top), share=2)]
        rows = [name.split(":")[0] for name in data["tokens"]]
        colours = [COLOURS[0] if name == data["rule"] else REST for name in data["tokens"]]
        marks = upright(rows, {"tokens": [*data["tokens"].values()]}, colours)
        known = sum(name in rules.RULE for name in self.names)
        most = known + (known < len(self.names))  # a broken rule stands beside the known ones
        x = axis(-0.6, most - 0.4, "", [*enumerate(rows)], bare=True)
        views.append(panel("tokens a round (blue: this rule)", x, axis(0, self.drafted + 1)))
        return Chart(views, [upright(self.texts, series), marks], bar_keys(series))

    def caption(self, data: dict[str, Any]) -> str:
        """Say how far the joint distribution is from the target's, and how long a round is."""
        wrong = np.abs(data["written"] - data["truth"]).max()
        verdict = "as the target alone does" if wrong < 1e-9 else f"wrong by up to {wrong:.3f}"
        return (
            f"The rule ‘{data['rule']}’ writes the texts of {self.drafted + 1} tokens {verdict}. "
            f"A round writes {data['tokens'][data['rule']]:.2f} tokens."
        )


class Detection(ChartExplorer):
    """The number of samples until a chi-square test finds a broken rule.

    Args:
        p: the target's distribution ``(V,)``, all positive.
        other: the draft's distribution ``(V,)`` when it is as far away as the slider goes.
        seed: of the samples.
    """

    counts = tuple(2**k for k in range(6, 17))

    def __init__(self, p: Sequence[float], other: Sequence[float], seed: int = 0) -> None:
        self.p, self.other = positive(p, other)
        self.limit = float(chi2.isf(FALSE_ALARM, len(self.p) - 1))
        rng = np.random.default_rng(integer("seed", seed, 0))
        self._numbers = rng.random((3, self.counts[-1]))
        super().__init__(
            distance=slider(0.5, 0.05, 1.0, 0.05, label="draft's distance"),
            bug=choice(RESIDUAL_BUG, [RESIDUAL_BUG, ACCEPT_BUG], label="compared with"),
        )

    def sample(self, rule: Rule, q: np.ndarray) -> np.ndarray:
        """Run the rule: draft from q, judge, and draw the token that follows a refusal."""
        size = len(q)
        kept, following = exactly(
            rule,
            np.tile(self.p, (size, 2, 1)),
            np.tile(q, (size, 1, 1)),
            np.arange(size)[:, None],
        )
        draft, judge, follow = self._numbers
        x = np.minimum(np.searchsorted(np.cumsum(q), draft, side="right"), size - 1)
        sums = np.cumsum(following[:, 0], axis=1)[:, :-1]
        other = (sums[x] <= follow[:, None]).sum(axis=1)
        return np.where(judge < kept[x, 1], x, other)

    def compute(self, distance: float, bug: str) -> dict[str, Any]:
        """Return the statistic after each number of samples, for the right rule and the bug."""
        q = between(self.p, self.other, distance)
        statistics = {}
        for name in ("rejection", bug):
            tokens = self.sample(every_rule()[name], q)
            counted = (np.bincount(tokens[:n], minlength=len(q)) for n in self.counts)
            statistics[name] = [chi_square(each, self.p) for each in counted]
        found = [n for n, x in zip(self.counts, statistics[bug], strict=True) if x > self.limit]
        return {
            "statistics": statistics,
            "alpha": acceptance_rejection(self.p, q),
            "found": min(found, default=None),
            "bug": bug,
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw both statistics as the samples grow, and the limit."""
        marks = curves(self.counts, data["statistics"], (0, 5))
        marks.append({"rule": {"y": self.limit}, "dash": "2 3"})
        x = axis(self.counts[0], self.counts[-1], "samples", self.counts[::2], log=True)
        y = axis(0.05, 1e5, "", (0.1, 1, 10, 100, 1000, 10_000), log=True)
        title = f"chi-square (dotted: the limit, {self.limit:.1f})"
        return Chart([panel(title, x, y, data["statistics"], high=240)], [marks])

    def caption(self, data: dict[str, Any]) -> str:
        """Say when the bug is found, if it is, and that the right rule is not accused."""
        found = data["found"]
        when = f"after {found:,} samples" if found else f"not even after {self.counts[-1]:,}"
        worst = max(data["statistics"]["rejection"])
        return (
            f"The bug {data['bug'].split(': ')[1]!r} exceeds the limit, as chance does once in a "
            f"million tests, {when}; the right rule stays at {worst:.0f} or less."
        )
