"""What a draft length is worth on this machine: what is promised, and what the clock says.

Speed-ups that one α promises, that counted tokens promise, and that were measured have different
colours, and their names.
"""

from collections.abc import Mapping
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, curves, panel
from lablib.course.plots.explorer import slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.replay.rounds import LONGEST
from lablib.inference.speculation.costs import Costs, best_draft_tokens, expected_tokens, speedup

PROMISED, MEASURED, COUNTED = 3, 2, 0  # their looks


class LengthCurves(ChartExplorer):
    """Yield and cost of a round against γ, and the speed-up that is their quotient.

    Args:
        costs: measured on this machine.
        alpha: where the slider starts.
    """

    def __init__(self, costs: Costs, alpha: float = 0.5) -> None:
        self.costs = costs
        super().__init__(alpha=slider(alpha, 0.0, 1.0, 0.05, label="acceptance α"))

    def compute(self, alpha: float) -> dict[str, Any]:
        """Return tokens, cost (in plain tokens) and speed-up of γ = 0 ... 8, and the best γ."""
        costs, gammas = self.costs, range(LONGEST + 1)
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
        most = self.compute(1.0)  # an axis stays
        high, fast = max(most["tokens"] + most["cost"]), 1.05 * max(most["speedup"])
        series = {"it yields": data["tokens"], "it costs": data["cost"]}
        y = axis(0, high, "", range(0, int(high) + 1, int(high) // 4))
        views = [panel("a round, in plain tokens", x, y, series)]
        views.append(panel("promised speed-up (dotted: plain decoding, ×1)", x, axis(0, fast)))
        best = data["best"]
        peak = {"dot": [best, data["speedup"][best]], "r": 9, "hollow": True, "colour": COLOURS[5]}
        one = {"rule": {"y": 1}, "dash": "2 3"}
        right = [one, *curves(gammas, {"promised": data["speedup"]}, [PROMISED]), peak]
        return Chart(views, [curves(gammas, series), right])

    def caption(self, data: dict[str, Any]) -> str:
        """Name the best γ and what the longest would do."""
        best = data["best"]
        return (
            f"With α = {data['alpha']:.2f} the best draft length is {best} "
            f"(×{data['speedup'][best]:.2f}); {LONGEST} drafts give ×{data['speedup'][-1]:.2f}."
        )


def against_the_clock(
    one_alpha: Mapping[int, float], counted: Mapping[int, float], measured: Mapping[int, float]
) -> Chart:
    """Draw speed-ups by γ: what was promised as lines, what was measured as dots.

    Args:
        one_alpha: γ -> how many times as fast as plain decoding one α for all places promises.
        counted: γ -> what the tokens of the rounds promise.
        measured: γ -> how many times as fast it was.
    """
    promised = {"one α": [*one_alpha.values()], "counted tokens": [*counted.values()]}
    gammas, most = list(counted), max(*map(max, promised.values()), *measured.values())
    two = curves(gammas, promised, [PROMISED, COUNTED])
    (dots,) = curves(gammas, {"measured": list(measured.values())}, [MEASURED])
    x = axis(0.5, max(gammas) + 0.5, "draft tokens γ", gammas)
    y = axis(0, 1.1 * most, "", [step / 2 for step in range(int(2.2 * most) + 1)])
    names = [*promised, "measured"]
    view = panel("speed-up (dotted: plain decoding, ×1)", x, y, names, high=240)
    one = {"rule": {"y": 1}, "dash": "2 3"}
    return Chart([view], [[one, *two, dots | {"wide": 0, "r": 6}]])
