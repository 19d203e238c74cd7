"""Widgets about the speed of speculation: what a draft length is worth on this machine."""

from collections.abc import Mapping
from typing import Any

from lablib.course.plots.charts import COLOURS, MARKERS, style
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.strips import add_axes, canvas, scales
from lablib.course.replay.rounds import LONGEST
from lablib.inference.speculation.costs import Costs, best_draft_tokens, expected_tokens, speedup

import numpy as np
from matplotlib.figure import Figure

HERE, TEXTBOOK = "as measured here", "free (textbook)"


class SpeedupMap(Explorer):
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
        tokens = self._yield[draft_tokens - 1]
        unit = Costs((*[1.0] * draft_tokens, read), self.ratio)
        return {
            "gamma": draft_tokens,
            "read": read,
            "map": tokens[:, None] / (draft_tokens * self._ratio + read),
            "points": {
                name: (alpha, speedup(alpha, draft_tokens, unit))
                for name, alpha in self.alphas.items()
            },
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw the map in powers of two, with lines of equal speed-up."""
        fig = canvas(4.2)
        gamma = data["gamma"]
        with style():
            axes = add_axes(fig, 0.8, 0.45, 6.8, 3.0)
            extent = (0, self.widest, 0, 1)
            look = {"origin": "lower", "aspect": "auto", "cmap": "PuOr", "vmin": -2, "vmax": 2}
            steps = np.round(4 * np.log2(data["map"])) / 4  # bands: easier to follow than a haze
            axes.imshow(steps, extent=extent, **look)
            for level in (0.5, 1, 1.5, 2, 3, 4):
                price = (self._yield[gamma - 1] / level - data["read"]) / gamma
                inside = np.flatnonzero((price >= 0) & (price <= self.widest))
                if len(inside) > 4:
                    axes.plot(price[inside], self._alpha[inside], "k", lw=2.5 if level == 1 else 1)
                    at = inside[len(inside) // 4]
                    label = {"ha": "center", "va": "center", "size": 10, "clip_on": True}
                    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
                    axes.text(price[at], self._alpha[at], f"×{level:g}", bbox=box, **label)
            self._mark(axes, data["points"])
            axes.set(xlim=(0, self.widest), ylim=(0, 1))
            price = "price of a drafted token (in plain tokens)"
            scales(axes, np.arange(0, self.widest + 0.01, 0.1), (0, 0.5, 1), price, "α")
            axes.set_title(f"speed-up with γ = {gamma}")
        return fig

    def _mark(self, axes: Any, points: Mapping[str, tuple[float, float]]) -> None:
        """Mark the points; names that would cover each other move apart."""
        below = 1.12
        for name, (alpha, _) in sorted(points.items(), key=lambda each: -each[1][0]):
            look = {"color": COLOURS[5], "markeredgecolor": "white", "ms": 10, "zorder": 3}
            axes.plot(self.ratio, alpha, "o", clip_on=False, **look)
            below = min(max(alpha, 0.05), below - 0.085)
            text = {"xytext": (self.ratio + 0.05 * self.widest, below), "va": "center", "size": 11}
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
            arrow = {"arrowstyle": "-", "color": "black", "lw": 0.8}
            axes.annotate(name, (self.ratio, alpha), bbox=box, arrowprops=arrow, **text)

    def caption(self, data: dict[str, Any]) -> str:
        """Name the machine's prices and what they promise for each point."""
        promised = ", ".join(f"{name} ×{s:.2f}" for name, (_, s) in data["points"].items())
        return (
            f"A drafted token costs {self.ratio:.2f} of a plain one, and reading "
            f"{data['gamma'] + 1} tokens costs {data['read']:.2f}. Promised speed-up: {promised}."
        )


class LengthCurves(Explorer):
    """Yield and cost of a round against γ, and the speed-up that is their quotient.

    Args:
        costs: measured on this machine.
        alpha: where the slider starts.
    """

    def __init__(self, costs: Costs, alpha: float = 0.5) -> None:
        self.costs, self.gammas = costs, list(range(LONGEST + 1))
        self.cost = [costs.of_round(gamma) / costs.forward(1) for gamma in self.gammas]
        super().__init__(alpha=slider(alpha, 0.0, 1.0, 0.05, label="acceptance α"))

    def compute(self, alpha: float) -> dict[str, Any]:
        """Return tokens per round and the speed-up for γ = 0 ... 8, and the best γ."""
        return {
            "alpha": alpha,
            "tokens": [expected_tokens(alpha, gamma) for gamma in self.gammas],
            "speedup": [speedup(alpha, gamma, self.costs) for gamma in self.gammas],
            "best": best_draft_tokens(alpha, self.costs, LONGEST),
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw yield and cost at the left, their quotient at the right."""
        fig = canvas(3.3)
        with style():
            axes = add_axes(fig, 0.6, 0.5, 3.1, 2.2)
            axes.plot(self.gammas, data["tokens"], MARKERS[0], ls="-", label="tokens it yields")
            axes.plot(self.gammas, self.cost, MARKERS[1], ls="--", label="what it costs")
            top = 1.15 * max(LONGEST + 1, *self.cost)  # whatever α is: an axis stays
            axes.set(xlim=(-0.4, LONGEST + 0.4), ylim=(0, top), title="a round")
            axes.legend(loc="upper left", borderaxespad=0.1)
            scales(axes, self.gammas, range(0, int(top) + 1, 3), "draft tokens γ", "plain tokens")

            axes = add_axes(fig, 4.6, 0.5, 3.1, 2.2)
            axes.axhline(1, color="black", lw=1, ls=":")
            axes.plot(self.gammas, data["speedup"], MARKERS[0], ls="-", color=COLOURS[2])
            best = data["best"]
            look = {"ms": 16, "markerfacecolor": "none", "color": COLOURS[5], "mew": 2.5}
            axes.plot(best, data["speedup"][best], "o", **look)
            top = 1.15 * max(speedup(1.0, gamma, self.costs) for gamma in self.gammas)
            axes.set(xlim=(-0.4, LONGEST + 0.4), ylim=(0, top), title="speed-up")
            heights = np.arange(0, top, 0.5 if top < 2.5 else 1)
            scales(axes, self.gammas, heights, "draft tokens γ", "× plain decoding")
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Name the best γ and what the longest would do."""
        best = data["best"]
        return (
            f"α = {data['alpha']:.2f}: the best draft length here is {best} "
            f"(×{data['speedup'][best]:.2f}); {LONGEST} drafts give ×{data['speedup'][-1]:.2f}."
        )
