"""Widgets about the speed of speculation: what a draft length is worth on this machine."""

from collections.abc import Mapping, Sequence
from typing import Any

from lablib.course.lessons.lesson_07.widgets import RoundCounts
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, curves, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.replay.rounds import LONGEST
from lablib.course.theory.estimators import wilson_interval
from lablib.inference.speculation.costs import Costs, best_draft_tokens, expected_tokens, speedup

READS, WRITES = "#444444", COLOURS[3]  # what a promise is made of; nothing measured has them
HERE, TEXTBOOK = "as measured here", "free (textbook)"


class LengthCurves(ChartExplorer):
    """Yield and cost of a round against γ, and the speed-up that is their quotient.

    Reading drafts costs what was measured, or nothing more than reading one token.

    Args:
        costs: measured on this machine.
        alpha: where the slider starts.
    """

    def __init__(self, costs: Costs, alpha: float = 0.5) -> None:
        self.costs = {HERE: costs, TEXTBOOK: Costs.from_ratio(costs.draft / costs.forward(1))}
        super().__init__(
            alpha=slider(alpha, 0.0, 1.0, 0.05, label="acceptance α"),
            verification=choice(HERE, [HERE, TEXTBOOK], label="reading drafts is"),
        )

    def compute(self, alpha: float, verification: str = HERE) -> dict[str, Any]:
        """Return tokens, cost (in plain tokens) and speed-up of γ = 0 ... 8, and the best γ."""
        costs, gammas = self.costs[verification], range(LONGEST + 1)
        return {
            "alpha": alpha,
            "best": best_draft_tokens(alpha, costs, LONGEST),
            "tokens": [expected_tokens(alpha, gamma) for gamma in gammas],
            "cost": [costs.of_round(gamma) / costs.forward(1) for gamma in gammas],
            "speedup": [speedup(alpha, gamma, costs) for gamma in gammas],
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw yield and cost at the left, their quotient at the right, its peak ringed."""
        gammas = range(LONGEST + 1)
        x = axis(-0.4, LONGEST + 0.4, "draft tokens γ", gammas)
        most = [self.compute(1.0, each) for each in self.costs]  # an axis stays
        high = max(max(each["tokens"] + each["cost"]) for each in most)
        fast = 1.05 * max(max(each["speedup"]) for each in most)
        series = {"it yields": data["tokens"], "it costs": data["cost"]}
        y = axis(0, high, "", range(0, int(high) + 1, int(high) // 4))
        views = [panel("a round, in plain tokens", x, y, series)]
        views.append(panel("promised speed-up (dotted: plain, ×1)", x, axis(0, fast)))
        best = data["best"]
        peak = {"dot": [best, data["speedup"][best]], "r": 9, "hollow": True, "colour": COLOURS[5]}
        one = {"rule": {"y": 1}, "dash": "2 3"}
        right = [one, *curves(gammas, {"promised speed-up": data["speedup"]}, [2]), peak]
        return Chart(views, [curves(gammas, series), right])

    def caption(self, data: dict[str, Any]) -> str:
        """Name the best γ and what the longest would do."""
        best = data["best"]
        return (
            f"With α = {data['alpha']:.2f} the best draft length is {best} "
            f"(promised ×{data['speedup'][best]:.2f}); {LONGEST} drafts promise "
            f"×{data['speedup'][-1]:.2f}."
        )


class ByClass(ChartExplorer):
    """Which tokens' drafts are kept, and what that promises: time a token, of each γ.

    Args:
        tallies: task -> counted rounds of γ = 1, 2, ...
        costs: measured on this machine.
    """

    def __init__(self, tallies: Mapping[str, Sequence[RoundCounts]], costs: Costs) -> None:
        self.tallies, self.costs = tallies, costs
        self._names = {
            task: sorted({name for each in found for name in each.classes})
            for task, found in tallies.items()
        }
        super().__init__(
            draft_tokens=slider(4, 1, LONGEST, label="draft tokens γ"),
            task=choice(next(iter(tallies)), list(tallies)),
        )

    def compute(self, draft_tokens: int, task: str) -> dict[str, Any]:
        """Return kept and judged drafts of each class, and the price of a token by γ.

        In plain tokens: what the target reads for it, and what the draft writes.
        """
        found, once = self.tallies[task], self.costs.forward(1)
        classes = found[draft_tokens - 1].classes
        return {
            "gamma": draft_tokens,
            "task": task,
            "alpha": found[draft_tokens - 1].alpha,
            "classes": {name: classes.get(name, (0, 0)) for name in self._names[task]},
            "price": [
                (
                    self.costs.forward(gamma + 1) / once / each.tokens_per_round,
                    gamma * self.costs.draft / once / each.tokens_per_round,
                )
                for gamma, each in enumerate(found, 1)
            ],
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the share kept of each class at the left, promised time by γ at the right."""
        rows = max(map(len, self._names.values()))
        most = max(sum(each) for task in self.tallies for each in self.compute(1, task)["price"])
        names = [(-row, name) for row, name in enumerate(data["classes"])]
        y = axis(0.5 - rows, 0.5, "", names, bare=True)
        x = axis(0, 1.3, "share of judged drafts", (0, 0.5, 1), grid=True)
        views = [panel("kept, by class of token", x, y, side=100)]
        x = axis(0.4, LONGEST + 0.6, "draft tokens γ", range(1, LONGEST + 1))
        up = axis(0, 1.15 * max(1, most), "", (0, 0.5, 1))
        views.append(panel("promised time per token", x, up))
        keys = [(COLOURS[0], "kept"), (READS, "promised: target reads")]
        keys.append((WRITES, "promised: draft writes"))
        marks = [
            mark
            for row, (name, counts) in enumerate(data["classes"].items())
            for mark in _kept(name, -row, *counts)
        ]
        return Chart(views, [marks, _times(data["price"], data["gamma"])], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Name α, the tokens whose drafts are kept least, and the promised speed."""
        head = f"On {data['task']} with γ = {data['gamma']} α is {data['alpha']:.2f}"
        shares = {name: kept / of for name, (kept, of) in data["classes"].items() if of}
        least = min(shares, key=lambda name: shares[name])
        speed = f"the promised speed is ×{1 / sum(data['price'][data['gamma'] - 1]):.2f}"
        if shares[least] == 1:
            return f"{head}, and no draft that is judged is refused; {speed}."
        return f"{head}; of class '{least}' {shares[least]:.2f} are kept; {speed}."


def _kept(name: str, row: float, kept: int, judged: int) -> list[dict[str, Any]]:
    """Return a bar of the share kept with its 95 % interval, and of how many it is."""
    if not judged:
        return [{"text": "none judged", "at": [0.02, row - 0.15]}]
    share, (low, high) = kept / judged, wilson_interval(kept, judged)
    note = f"{name}: {share:.0%} of {judged} judged drafts kept, 95 % {low:.0%} to {high:.0%}."
    ends = {"line": [[low, row], [high, row]]}
    return [
        {"bar": [0, share, row - 0.3, row + 0.3], "fill": COLOURS[0], "note": note},
        {**ends, "wide": 4.5, "colour": "#FFFFFF"},
        {**ends, "wide": 1.5},
        {"text": f"of {judged}", "at": [1.03, row - 0.15]},
    ]


def _times(prices: Sequence[tuple[float, float]], now: int) -> list[dict[str, Any]]:
    """Return a bar for each γ: reading, writing on top of it, and at this γ what it promises."""
    marks: list[dict[str, Any]] = [{"rule": {"y": 1}, "dash": "5 3", "text": "plain: 1"}]
    for gamma, (reading, writing) in enumerate(prices, 1):
        total, wide = reading + writing, 0.42 if gamma == now else 0.25
        note = f"γ = {gamma}: {reading:.2f} to read and {writing:.2f} to draft: promised ×"
        note += f"{1 / total:.2f}."
        for low, high, fill in ((0, reading, READS), (reading, total, WRITES)):
            bar = [gamma - wide, gamma + wide, low, high]
            marks.append({"bar": bar, "fill": fill, "note": note})
        if gamma == now:
            words = {"text": f"promised ×{1 / total:.2f}", "at": [gamma, total + 0.03]}
            marks.append({**words, "anchor": "middle", "bold": True})
    return marks
