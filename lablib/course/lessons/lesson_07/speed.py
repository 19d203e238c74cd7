"""Widgets about the speed of speculation: what a draft length is worth on this machine."""

from collections.abc import Mapping
from typing import Any

from lablib.course.plots.charts import WARM, Chart, axis, curves, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.plots.scene import ChartExplorer
from lablib.course.replay.rounds import LONGEST
from lablib.inference.speculation.costs import Costs, best_draft_tokens, expected_tokens, speedup

import numpy as np

LOST, WON = "#FBE7C3", "#E3EEF8"  # where drafts lose, and where they win
HERE, TEXTBOOK = "as measured here", "free (textbook)"


class SpeedupMap(ChartExplorer):
    """Speed-up over α and the price of a draft, with this machine's points on it.

    Args:
        costs: measured on this machine.
        alphas: name -> α, the points.
    """

    def __init__(self, costs: Costs, alphas: Mapping[str, float]) -> None:
        self.costs, self.alphas = costs, dict(alphas)
        self.ratio = costs.draft / costs.forward(1)
        self.widest = max(0.5, 1.25 * self.ratio)
        self._alpha, self._ratio = np.linspace(0, 1, 81), np.linspace(0, self.widest, 61)
        self._yield = np.array(
            [[expected_tokens(a, g) for a in self._alpha] for g in range(1, LONGEST + 1)]
        )
        super().__init__(
            draft_tokens=slider(4, 1, LONGEST, label="draft tokens γ"),
            verification=choice(HERE, [HERE, TEXTBOOK], label="reading drafts is"),
        )

    def compute(self, draft_tokens: int, verification: str) -> dict[str, Any]:
        """Return the map ``(α, price)``, and the prediction for each point."""
        read = self.costs.forward(draft_tokens + 1) / self.costs.forward(1)
        read = read if verification == HERE else 1.0
        unit = Costs((*[1.0] * draft_tokens, read), self.ratio)
        return {
            "gamma": draft_tokens,
            "read": read,
            "map": self._yield[draft_tokens - 1][:, None] / (draft_tokens * self._ratio + read),
            "points": {
                name: (alpha, speedup(alpha, draft_tokens, unit))
                for name, alpha in self.alphas.items()
            },
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw where drafts win and where they lose, with lines of equal speed-up."""
        gamma, read = data["gamma"], data["read"]
        end, even = self.widest, self._line(gamma, read, 1)
        whole = [(0, 0), (end, 0), (end, 1), (0, 1)]
        marks: list[dict[str, Any]] = [{"key": "lost", "area": whole, "fill": LOST}]
        if even:
            won = [*even, (end, even[-1][1]), *whole[2:], (0, even[0][1])]
            marks.append({"key": "won", "area": won, "fill": WON})
        for level in (0.5, 1, 1.5, 2, 3, 4):
            line = self._line(gamma, read, level)
            if len(line) > 4:
                look = {"wide": 3.5} if level == 1 else {"wide": 1, "colour": WARM}
                x, y = line[3 * len(line) // 4]  # its name stands on it, away from the points'
                if x < self.ratio + 0.4 * self.widest:
                    x, y = max(line[len(line) // 8], line[3])  # whole within the frame
                up = 0.03 if level == 1 else -0.015  # beside the thick one
                name = {"text": f"×{level:g}", "bold": level == 1, "anchor": "middle"}
                marks.append({"key": f"l{level}", "line": line, **look})
                marks.append({"key": f"t{level}", "at": [x, min(0.96, max(0, y + up))], **name})
        price = axis(0, end, "price of a drafted token (in plain tokens)")
        y, title = axis(0, 1, "", (0, 0.5, 1)), "α, the chance that a draft is kept"
        keys = [(WON, "drafts win", False), (LOST, "drafts lose", False)]
        keys.append((COLOURS[5], "this machine, each task by one α", False))
        marks += self._points(data["points"])
        corner = {"at": [0.98 * end, 0.03], "anchor": "end", "bold": True}
        marks.append({"key": "γ", "text": f"γ = {gamma}", **corner})
        return Chart([panel(title, price, y, high=280)], [marks], keys)

    def _points(self, points: Mapping[str, tuple[float, float]]) -> list[dict[str, Any]]:
        """Return a dot for each task, its name beside it; the names stand apart."""
        marks, free, row = [], 1.0, 0.055
        side, anchor = (0.02, "start") if self.ratio < self.widest / 2 else (-0.02, "end")
        ranked = sorted(points.items(), key=lambda each: -each[1][0])
        for below, (name, (alpha, gain)) in zip(range(len(ranked))[::-1], ranked, strict=True):
            free = max(row * below, min(free, alpha - 0.015))
            place = {"at": [self.ratio + side * self.widest, free], "anchor": anchor}
            dot = {"dot": [self.ratio, alpha], "r": 6, "colour": COLOURS[5]}
            marks.append({"key": name, **dot, "note": f"{name}: α = {alpha:.2f}, ×{gain:.2f}."})
            marks.append({"key": f"n{name}", "text": f"{name} ×{gain:.2f}", "bold": True, **place})
            free -= row
        return marks

    def _line(self, gamma: int, read: float, level: float) -> list[tuple[float, float]]:
        """Return the points of one speed-up within the map, the cheapest draft first."""
        price = (self._yield[gamma - 1] / level - read) / gamma  # it grows with α
        every = np.union1d(self._ratio, price[[0, -1]])
        along = every[(every >= max(0, price[0])) & (every <= min(self.widest, price[-1]))]
        pairs = zip(along, np.interp(along, price, self._alpha), strict=True)
        return [(round(float(x), 4), round(float(y), 4)) for x, y in pairs]

    def caption(self, data: dict[str, Any]) -> str:
        """Name the machine's prices and what they promise for each point."""
        won = sum(gain > 1 for _, gain in data["points"].values())
        return (
            f"A drafted token costs {self.ratio:.2f} of a plain one, and reading "
            f"{data['gamma'] + 1} tokens costs {data['read']:.2f}: drafts win on {won} of "
            f"{len(data['points'])} tasks."
        )


class LengthCurves(ChartExplorer):
    """Yield and cost of a round against γ, and the speed-up that is their quotient.

    Reading drafts costs what was measured, or nothing more than reading one token.

    Args:
        costs: measured on this machine.
        alpha: where the slider starts.
    """

    def __init__(self, costs: Costs, alpha: float = 0.5) -> None:
        self.gammas = list(range(LONGEST + 1))
        self.costs = {HERE: costs, TEXTBOOK: Costs.from_ratio(costs.draft / costs.forward(1))}
        self.cost = self._prices(costs)
        super().__init__(
            alpha=slider(alpha, 0.0, 1.0, 0.05, label="acceptance α"),
            verification=choice(HERE, [HERE, TEXTBOOK], label="reading drafts is"),
        )

    def _prices(self, costs: Costs) -> list[float]:
        """Return what a round costs for γ = 0 ... 8, in plain tokens."""
        return [costs.of_round(gamma) / costs.forward(1) for gamma in self.gammas]

    def compute(self, alpha: float, verification: str = HERE) -> dict[str, Any]:
        """Return, for γ = 0 ... 8, what a round yields and costs and the speed-up; and the best."""
        costs = self.costs[verification]
        return {
            "alpha": alpha,
            "tokens": [expected_tokens(alpha, gamma) for gamma in self.gammas],
            "cost": self._prices(costs),
            "speedup": [speedup(alpha, gamma, costs) for gamma in self.gammas],
            "best": best_draft_tokens(alpha, costs, LONGEST),
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw yield and cost at the left, their quotient at the right, its peak ringed."""
        x = axis(-0.4, LONGEST + 0.4, "draft tokens γ", self.gammas)
        high = max(LONGEST + 1, *self.cost)  # whatever α is: an axis stays
        fast = 1.05 * max(
            speedup(1.0, gamma, costs) for costs in self.costs.values() for gamma in self.gammas
        )
        series = {"it yields": data["tokens"], "it costs": data["cost"]}
        y = axis(0, high, "", range(0, int(high) + 1, int(high) // 4))
        views = [panel("a round, in plain tokens", x, y, series)]
        views.append(panel("speed-up (dotted: plain decoding, ×1)", x, axis(0, fast)))
        best = data["best"]
        peak = {"dot": [best, data["speedup"][best]], "r": 9, "hollow": True, "colour": COLOURS[5]}
        right = [{"key": "one", "rule": {"y": 1}, "dash": "2 3"}]
        right += [*curves(self.gammas, {"speed-up": data["speedup"]}, [2]), {"key": "best", **peak}]
        return Chart(views, [curves(self.gammas, series), right])

    def caption(self, data: dict[str, Any]) -> str:
        """Name the best γ and what the longest would do."""
        best = data["best"]
        return (
            f"With α = {data['alpha']:.2f} the best draft length is {best} "
            f"(×{data['speedup'][best]:.2f}); {LONGEST} drafts give ×{data['speedup'][-1]:.2f}."
        )
