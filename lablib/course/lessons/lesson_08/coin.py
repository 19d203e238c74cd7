"""The picture of lossless speculation: a coin for each draft, and what is missing of p fills up."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lablib.course.lessons.lesson_08.enumeration import Rule, by_draft
from lablib.course.lessons.lesson_08.widgets import between, every_rule, positive
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, panel
from lablib.course.plots.explorer import Player, choice, slider
from lablib.course.plots.marks import REST
from lablib.course.plots.pictures import COLOURS
from lablib.course.theory.closed_forms import acceptance_match, acceptance_rejection
from lablib.inference.speculation.rules import Outcome

import mlx.core as mx
import numpy as np

KEPT, REFUSED = COLOURS[:2]


class Overlap(ChartExplorer):
    """One position: a coin for each draft, and how what is refused fills up what is missing of p.

    Args:
        words: the vocabulary.
        p: the target's distribution ``(V,)``, all positive.
        other: the draft's distribution ``(V,)`` when it is as far away as the slider goes.
        names: the rules to choose from, all by default; or rules of one's own by their names.
    """

    def __init__(
        self, words: Sequence[str], p: Sequence[float], other: Sequence[float],
        names: Sequence[str] | Mapping[str, Rule] | None = None,
    ) -> None:  # fmt: skip
        known = names if isinstance(names, Mapping) else every_rule()
        self.rules = {name: known[name] for name in names or known}
        self.words, (self.p, self.other) = list(words), positive(p, other)
        first, last = next(iter(self.rules)), len(self.words)
        first = "rejection" if "rejection" in self.rules else first
        judged = Player(last, 0, last, milliseconds=1500, label="words judged")
        super().__init__(
            distance=slider(1.0, 0.0, 1.0, 0.05, label="draft's distance"),
            temperature=slider(1.0, 0.3, 3.0, 0.1, label="temperature of q"),
            rule=choice(first, list(self.rules), label="rule"),
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
        keep, instead = by_draft(self.rules[rule], self.p, q)
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

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw a column as wide as q for each draft and its coin, and what is written beside."""
        p, q, keep = (data[name].tolist() for name in ("p", "q", "keep"))
        kept, added = data["kept"].tolist(), data["added"].tolist()
        start = (np.cumsum(data["q"]) - data["q"]).tolist()
        middles = (data["q"] / 2 + start).tolist()
        left, right = [], []
        for i, word in enumerate(self.words):
            ends = [start[i], start[i] + q[i]]
            note = f"{word}: drafted {q[i]:.2f}, wanted {p[i]:.2f}"
            if i < data["judged"]:
                note += f", of these {keep[i]:.2f} kept."
                good = {"bar": [*ends, 0, keep[i]], **_area(q[i] * keep[i], KEPT), "note": note}
                bad = {"bar": [*ends, keep[i], 1], **_area(q[i] - q[i] * keep[i], REFUSED)}
                left += [{"key": f"g{i}", **good}, {"key": f"r{i}", **bad, "note": note}]
            else:
                wait = {"bar": [*ends, 0, 1], "fill": "#EEEEEE", "edge": REST}
                left.append({"key": f"g{i}", **wait, "note": f"{note}, not yet judged."})
            sides, top = [i - 0.35, i + 0.35], kept[i] + added[i]
            note = f"{word}: {kept[i]:.2f} kept and {added[i]:.2f} added, of p = {p[i]:.2f}."
            right += [
                {"bar": [*sides, 0, kept[i]], **_area(kept[i], KEPT, 0.07), "note": note},
                {"bar": [*sides, kept[i], top], **_area(added[i], REFUSED, 0.07), "note": note},
                {"bar": [i - 0.41, i + 0.41, 0, q[i]], "fill": COLOURS[5], "hollow": True},
                {"line": [[i - 0.45, p[i]], [i + 0.45, p[i]]], "wide": 3},
            ]
        y, names = axis(0, 1, "", (0, 0.5, 1)), [*enumerate(self.words)]
        x = axis(0, 1, "", [*zip(middles, self.words, strict=True)], bare=True)
        views = [panel("drafts, as wide as q: the coin keeps", x, y)]
        x = axis(-0.6, len(names) - 0.4, "", names, bare=True)
        keys = [(KEPT, "kept"), (REFUSED, "refused, and drawn anew")]
        keys += [(COLOURS[5], "draft q", True), ("#333333", "target p")]
        return Chart([*views, panel("what is written", x, y)], [left, right], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Say how much is kept and how far the result is from p."""
        judged = data["judged"]
        if judged < len(self.words):
            words = ", ".join(self.words[:judged]) or "nothing yet"
            return (
                f"So far judged: {words}. {data['q'][:judged].sum():.2f} of the drafts, "
                f"{data['kept'].sum():.2f} kept, {data['added'].sum():.2f} refused and "
                "drawn anew."
            )
        wrong = np.abs(data["kept"] + data["added"] - data["p"]).max()
        verdict = "exactly p" if wrong < 1e-9 else f"not p: wrong by up to {wrong:.3f}"
        most = "" if abs(data["kept"].sum() - data["min"]) < 1e-9 else "rejection keeps "
        return (
            f"With the rule ‘{data['rule']}’ {data['kept'].sum():.0%} of the drafts are kept "
            f"({most}Σ min(p, q) = {data['min']:.2f}), and what is written is {verdict}."
        )


def _area(size: float, fill: str, least: float = 0.005) -> dict[str, str]:
    """Return the look of a kept or a refused share, which bears its size where it has room."""
    words = {"text": f"{size:.2f}"} if size >= least else {}
    return {"fill": fill, **words, **({"colour": "#FFFFFF"} if fill == KEPT else {})}


HALVINGS = 40  # of the stretch of coins in which a draft's chance lies


def of_coins(verify: Callable[..., tuple[int, Any]]) -> Rule:
    """Return the rule for one draft that a solution of exercise 08.2 plays.

    ``verify(p, q, drafts, u) -> (kept, after)`` keeps a draft if its chance exceeds the coin u. So
    it is asked with one coin after another, each halving where the chance may lie.
    """

    def judged(p: np.ndarray, q: np.ndarray, draft: int) -> tuple[float, list[Any]]:
        after = [p[0], p[1]]
        for coin in (0.0, np.nextafter(1.0, 0.0)):  # kept if ever, refused if ever
            kept, after_it = verify(p, q, [draft], [coin])
            after[kept] = after_it
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            coin = (low + high) / 2
            kept, _ = verify(p, q, [draft], [coin])
            low, high = (coin, high) if kept else (low, coin)
        return low, after

    def rule(p: mx.array, q: mx.array, drafts: mx.array) -> Outcome:
        rows = zip(np.array(p), np.array(q), np.array(drafts)[:, 0].tolist(), strict=True)
        chances, after = zip(*(judged(*row) for row in rows), strict=True)
        kept = np.stack([1 - np.array(chances), chances], axis=-1)
        return Outcome(*(mx.array(each, dtype=mx.float64) for each in (kept, np.array(after))))

    return rule
