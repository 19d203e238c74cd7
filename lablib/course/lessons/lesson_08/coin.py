"""The picture of lossless speculation: a coin for each draft, and what is missing of p fills up."""

from collections.abc import Sequence
from typing import Any

from lablib.course.lessons.lesson_08.widgets import (
    between,
    by_draft,
    every_rule,
    legend_above,
    positive,
)
from lablib.course.plots.charts import COLOURS, style
from lablib.course.plots.explorer import Explorer, Player, choice, slider
from lablib.course.plots.strips import add_axes, canvas, name_bars, scales
from lablib.course.theory.closed_forms import acceptance_match, acceptance_rejection

import numpy as np
from matplotlib.figure import Figure


class Overlap(Explorer):
    """One position: a coin for each draft, and how what is refused fills up what is missing of p.

    Args:
        words: the vocabulary.
        p: the target's distribution ``(V,)``, all positive.
        other: the draft's distribution ``(V,)`` when it is as far away as the slider goes.
        names: the rules to choose from, all by default.
    """

    def __init__(
        self, words: Sequence[str], p: Sequence[float], other: Sequence[float],
        names: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        self.words, (self.p, self.other) = list(words), positive(p, other)
        judged = Player(len(self.words) + 1, milliseconds=1500, label="words judged")
        judged.value = judged.play.value = len(self.words)
        super().__init__(
            distance=slider(1.0, 0.0, 1.0, 0.05, label="draft's distance"),
            temperature=slider(1.0, 0.3, 3.0, 0.1, label="temperature of q"),
            rule=choice("rejection", list(names or every_rule()), label="rule"),
            judged=judged,
        )

    def compute(
        self, distance: float, temperature: float, rule: str, judged: int | None = None
    ) -> dict[str, Any]:
        """Return p, q, what is kept and what is added, each ``(V,)``, and the overlaps.

        Only the drafts of the first ``judged`` words are counted; None means all of them.
        """
        q = between(self.p, self.other, distance) ** (1 / temperature)
        q /= q.sum()
        judged = len(self.words) if judged is None else judged
        keep, instead = by_draft(every_rule()[rule], self.p, q)
        return {
            "p": self.p,
            "q": q,
            "keep": keep,
            "kept": np.where(np.arange(len(q)) < judged, q * keep, 0),
            "added": instead[:judged].sum(axis=0),
            "judged": judged,
            "rule": rule,
            "min": acceptance_rejection(self.p, q),
            "dot": acceptance_match(self.p, q),
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw a column as wide as q for each draft and its coin, and what is written beside."""
        fig = canvas(3.5)
        x, p, q, keep = np.arange(len(self.words)), data["p"], data["q"], data["keep"]
        kept, added = data["kept"], data["added"]
        with style():
            left, right = (add_axes(fig, at, 0.75, 3.3, 2.25) for at in (0.65, 4.55))
            start, seen = np.cumsum(q) - q, x < data["judged"]
            look = {"align": "edge", "ec": "white"}
            left.bar(start[~seen], 1, q[~seen], fc="#EEEEEE", align="edge", ec="#999999")
            left.bar(start, seen * keep, q, fc=COLOURS[2], label="kept", **look)
            rest = {"fc": COLOURS[1], "hatch": "///", "label": "refused", **look}
            left.bar(start, seen * (1 - keep), q, keep, **rest)
            left.set(xlim=(0, 1), ylim=(0, 1))
            scales(left, (), (0, 0.5, 1), "", "coin u: kept below")
            middle = {"ha": "center", "va": "top", "transform": left.get_xaxis_transform()}
            for at, wide, word, chance in zip(start + q / 2, q, self.words, keep, strict=True):
                if wide > 0.08:  # else names would cover each other
                    left.text(at, -0.03, f"{word}\n{chance:.2f}", **middle)
            right.bar(x, kept, 0.7, fc=COLOURS[2])
            right.bar(x, added, 0.7, kept, fc=COLOURS[1], hatch="///", ec="white", label="added")
            right.bar(x, q, 0.82, fc="none", ec=COLOURS[5], lw=1.5, ls="--", label="draft q")
            right.hlines(p, x - 0.45, x + 0.45, color="black", lw=2.5, label="target p")
            name_bars(right, self.words)
            right.set_ylim(0, 1)  # an axis stays
            for axes, title in ((left, "drafts, as wide as q"), (right, "what is written")):
                axes.text(0, 1.17, title, transform=axes.transAxes, weight="bold")
                legend_above(axes)
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Say how much is kept and how far the result is from p."""
        judged, written = data["judged"], data["kept"] + data["added"]
        if judged < len(self.words):
            words = ", ".join(self.words[:judged]) or "nothing yet"
            return (
                f"{data['rule']}, judged: {words}. {data['q'][:judged].sum():.2f} of the drafts, "
                f"{data['kept'].sum():.2f} kept, {data['added'].sum():.2f} refused and "
                "drawn anew."
            )
        wrong = np.abs(written - data["p"]).max()
        verdict = "exactly p" if wrong < 1e-9 else f"not p: wrong by up to {wrong:.3f}"
        return (
            f"Σ min(p, q) = {data['min']:.2f}, Σ p·q = {data['dot']:.2f}. "
            f"{data['rule']}: {data['kept'].sum():.0%} of the drafts are kept, and what is written "
            f"is {verdict}."
        )
