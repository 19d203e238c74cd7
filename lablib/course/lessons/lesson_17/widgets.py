"""Widgets of lesson 17: what a mask does to whole texts, and how particles live and die."""

from collections.abc import Mapping
from itertools import product
from typing import Any

from lablib.course.lessons.lesson_17.language import WEATHER, Chain, Wanted
from lablib.course.plots.charts import COLOURS, style
from lablib.course.plots.explorer import Explorer, Player, choice, slider, toggle
from lablib.course.plots.strips import add_axes, canvas, scales
from lablib.inference.steering import smc
from lablib.inference.steering.resampling import effective
from lablib.validation import integer

import mlx.core as mx
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

ICE = 3
_COLOURS = (COLOURS[1], COLOURS[0], COLOURS[2], COLOURS[5])  # of the words, in order
_MARKERS = "^osD"
_AREA = 1500  # points², of a particle with all the weight
GRAMMARS: dict[str, Wanted] = {
    "ice on the second day": lambda text: text[1] == ICE,
    "ice on the first day": lambda text: text[0] == ICE,
    "ice on one day at least": lambda text: ICE in text,
    "two different days": lambda text: text[0] != text[1],
    "two equal days": lambda text: text[0] == text[1],
}


class Masked(Explorer):
    """Every text of two words: what a mask writes, and what the model would have written.

    Args:
        chain: the language.
        grammars: which texts are wanted, by name.
    """

    def __init__(self, chain: Chain = WEATHER, grammars: Mapping[str, Wanted] = GRAMMARS) -> None:
        self.chain, self.grammars = chain, dict(grammars)
        super().__init__(
            grammar=choice(next(iter(self.grammars)), list(self.grammars), label="wanted"),
            dependence=slider(1.0, 0.0, 1.0, 0.1, label="depends on today"),
            weigh=toggle(False, label="weigh each text by the mass that was allowed"),
        )

    def compute(self, grammar: str, dependence: float, weigh: bool) -> dict[str, Any]:
        """Return the texts, and of each ``(16,)``: the model's, the mask's and the true chance."""
        chain, wanted = self.chain.mixed(dependence), self.grammars[grammar]
        every = chain.texts(2)
        masked, (true, share) = chain.masked(2, wanted), chain.true(2, wanted)
        shown = masked
        if weigh:
            weights = {text: every[text] / masked[text] for text in masked}
            mean = sum(masked[text] * weights[text] for text in masked)
            shown = {text: masked[text] * weights[text] / mean for text in masked}
        return {
            "names": [chain.spelled(text) for text in every],
            "model": np.array([*every.values()]),
            "shown": np.array([shown.get(text, 0.0) for text in every]),
            "true": np.array([true.get(text, 0.0) for text in every]),
            "wanted": np.array([text in true for text in every]),
            "share": share,
            "grammar": grammar,
            "weigh": weigh,
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw each text's bar under the mask, the model's own, and the true one as a line."""
        fig, x = canvas(3.4), np.arange(len(data["names"]))
        with style():
            axes = add_axes(fig, 0.8, 0.45, 7.0, 2.4)
            axes.set(xlim=(-0.7, len(x) - 0.3), ylim=(0, 1))
            scales(axes, (), (0, 0.25, 0.5, 0.75, 1), "", "probability")
            name = "mask, weighed" if data["weigh"] else "mask"
            axes.bar(x, data["shown"], 0.8, color=COLOURS[4], label=name)
            look = {"fc": "none", "ec": COLOURS[5], "lw": 1.5, "ls": "--"}
            axes.bar(x, data["model"], 0.9, label="model, no grammar", **look)
            at = x[data["wanted"]]
            axes.hlines(
                data["true"][at], at - 0.45, at + 0.45, color="black", lw=2.5,
                label="model, had it obeyed",
            )  # fmt: skip
            below = {"ha": "center", "va": "top", "transform": axes.get_xaxis_transform()}
            for i, text in enumerate(data["names"]):
                fine = bool(data["wanted"][i])
                axes.text(
                    i, -0.03, text, family="monospace", color="black" if fine else "#767676",
                    weight="bold" if fine else "normal", **below,
                )  # fmt: skip
            axes.legend(
                loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=3, fontsize=10,
                borderaxespad=0, columnspacing=1.2,
            )  # fmt: skip
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Say how far the mask's texts are from the true ones, and how many obey by themselves."""
        apart = np.abs(data["shown"] - data["true"]).sum() / 2
        far = "equal to" if apart < 1e-9 else f"{apart:.2f} of the mass away from"
        who = "Masked and weighed" if data["weigh"] else "Masked"
        return (
            f"{data['grammar']}: {data['share']:.3f} of the model's texts obey by themselves. "
            f"{who}, the texts are {far} what the model would have written had it obeyed."
        )


class Cloud(Explorer):
    """Particles day by day: who weighs how much, who lives on, who descends from whom.

    A text of the language must do without its word number ``missing``; a mask sees to it, and the
    weights tell what the mask has hidden.

    Args:
        chain: the language.
        missing: the word that is forbidden.
        days: the length of a text.
        most: the largest number of particles.
    """

    def __init__(
        self, chain: Chain = WEATHER, missing: int = 0, days: int = 7, most: int = 12
    ) -> None:
        self.chain, self.missing = chain, integer("missing", missing, 0, len(chain.words) - 1)
        self.days, self.most = integer("days", days, 2), integer("most", most, 2)
        self.allowed = np.arange(len(chain.words)) != missing
        self._allowed = mx.array(np.arange(chain.vocab_size) != missing)
        day = Player(days, milliseconds=1200, label="day")
        day.value = day.play.value = days - 1
        super().__init__(
            particles=slider(most, 2, most, label="particles"),
            ess=slider(0.8, 0.0, 1.0, 0.1, label="threshold"),
            seed=slider(4, 0, 20, label="seed"),
            day=day,
        )

    def mask(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Forbid the word: a logits processor without a state."""
        return mx.where(self._allowed, logits, -mx.inf)

    def compute(self, particles: int, ess: float, seed: int, day: int) -> dict[str, Any]:
        """Return what happened up to the end of a day, the first one being 0."""
        (found,) = smc(
            self.chain,
            [[self.chain.mark]],
            particles,
            ess=ess,
            max_tokens=day + 1,
            stop_tokens=(),
            logits_processors=[self.mask],
            seed=seed,
        )
        logs = np.array([each.log_weights for each in found.history])
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares = weights / weights.sum(axis=1, keepdims=True)
        return {
            "parents": [each.parents for each in found.history],
            "words": [each.tokens for each in found.history],
            "weights": shares,
            "alive": self.ancestors([each.parents for each in found.history]),
            "evidence": float(np.exp(found.log_evidence)),
            "exact": self.chain.share(self.allowed, day + 1),
            "effective": [effective(row) for row in logs],
            "drawn": [
                day + 1
                for day in range(1, len(shares))
                if ess == 1 or effective(logs[day - 1]) < ess * particles
            ],
        }

    @staticmethod
    def ancestors(parents: list[list[int]]) -> list[set[int]]:
        """Return for each day the particles of whom one of the last day descends."""
        alive = [{*range(len(parents[-1]))}]
        for row in reversed(parents[1:]):
            alive.insert(0, {row[i] for i in alive[0]})
        return alive

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw a row for each particle, and for each day a mark as large as its share."""
        fig = canvas(4.3)
        with style():
            axes = add_axes(fig, 0.45, 0.65, 7.4, 3.2)
            axes.set(xlim=(-0.4, self.days - 0.6), ylim=(self.most - 0.4, -0.6))
            axes.set_axis_off()
            self._draw_lines(axes, data)
            self._draw_texts(axes, data)
            below = {"ha": "center", "va": "top", "size": 11}
            for day in range(self.days):
                axes.text(day, self.most - 0.3, f"day {day + 1}", **below)
            self._draw_legend(axes)
        return fig

    def _draw_lines(self, axes: Any, data: dict[str, Any]) -> None:
        live, dead = [], []
        for day, parents in enumerate(data["parents"][1:], start=1):
            for i, parent in enumerate(parents):
                lines = live if i in data["alive"][day] else dead
                lines.append([(day - 1, parent), (day, i)])
        axes.add_collection(LineCollection(dead, colors="#999999", lw=1, ls=":", zorder=1))
        axes.add_collection(LineCollection(live, colors="#444444", lw=1.8, zorder=2))

    def _draw_texts(self, axes: Any, data: dict[str, Any]) -> None:
        words = np.array(data["words"])
        days, rows = np.indices(words.shape)
        alive = np.array([[i in row for i in range(words.shape[1])] for row in data["alive"]])
        for word, lives in product(range(len(self.chain.words)), (True, False)):
            at = (words == word) & (alive == lives)
            look = {"ec": _COLOURS[word], "fc": _COLOURS[word] if lives else "white"}
            sizes = _AREA * data["weights"][at]
            axes.scatter(days[at], rows[at], sizes, marker=_MARKERS[word], lw=1.5, zorder=3, **look)

    def _draw_legend(self, axes: Any) -> None:
        for word, name in enumerate(self.chain.words):
            if word != self.missing:
                axes.scatter([], [], 80, color=_COLOURS[word], marker=_MARKERS[word], label=name)
        axes.scatter([], [], 80, fc="white", ec="#444444", label="no descendant")
        axes.legend(
            loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=5, fontsize=10, borderaxespad=0,
            columnspacing=1.0, handletextpad=0.2, title="area: its share of the day's weight",
            title_fontsize=10, alignment="left",
        )  # fmt: skip

    def caption(self, data: dict[str, Any]) -> str:
        """Say who descends from whom, and how near the estimate is to the exact share."""
        drawn = data["drawn"]
        *before, last_time = map(str, drawn or [0])
        days = f"s {', '.join(before)} and {last_time}" if before else f" {last_time}"
        when = f"drawn anew before day{days}" if drawn else "never drawn anew"
        n, last = len(data["words"][-1]), len(data["words"])
        return (
            f"Day {last}: {n} particles, {when}; {data['effective'][-1]:.1f} are effective, and "
            f"they descend from {len(data['alive'][0])} of the first day. A share of "
            f"{data['evidence']:.4f} of the texts has no {self.chain.words[self.missing]} so far, "
            f"they say; exactly it is {data['exact']:.4f}."
        )
