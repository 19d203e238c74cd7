"""Widgets of lesson 17: what a mask does to whole texts, and how particles live and die."""

from collections.abc import Mapping
from typing import Any

from lablib.course.lessons.lesson_17.language import WEATHER, Chain, Wanted
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, bar_keys, panel, upright
from lablib.course.plots.explorer import Player, choice, slider, toggle
from lablib.course.plots.pictures import COLOURS
from lablib.inference.steering import smc
from lablib.inference.steering.resampling import effective
from lablib.validation import integer

import mlx.core as mx
import numpy as np
from scipy.special import softmax

ICE = 3
_COLOURS = (COLOURS[1], COLOURS[0], COLOURS[2], COLOURS[5])  # of the words, in order
_SHAPES = ("triangle", "circle", "square", "diamond")
_ANEW = "#8A3B8F"
_SIZE = 22  # pixels: half as wide is a particle with all the weight
GRAMMARS: dict[str, Wanted] = {
    "ice on the second day": lambda text: text[1] == ICE,
    "ice on the first day": lambda text: text[0] == ICE,
    "ice on one day at least": lambda text: ICE in text,
    "two different days": lambda text: text[0] != text[1],
    "two equal days": lambda text: text[0] == text[1],
}


class Masked(ChartExplorer):
    """Every text of two words: what a mask writes, and what the model would have written.

    Args:
        chain: the language.
        grammars: which texts are wanted, by name.
    """

    def __init__(self, chain: Chain = WEATHER, grammars: Mapping[str, Wanted] = GRAMMARS) -> None:
        self.chain, self.grammars = chain, dict(grammars)
        tenths = np.arange(11) / 10
        every = [self.compute(name, each, False) for name in self.grammars for each in tenths]
        self.most = max(data[name].max() for data in every for name in ("model", "shown", "true"))
        super().__init__(
            grammar=choice(next(iter(self.grammars)), list(self.grammars), label="wanted"),
            dependence=slider(1.0, 0.0, 1.0, 0.1, label="depends on today"),
            weigh=toggle(False, label="weigh each text by the mass that was allowed"),
        )

    def compute(self, grammar: str, dependence: float, weigh: bool) -> dict[str, Any]:
        """Return the texts, and of each ``(16,)``: the model's, the mask's and the true chance.

        ``apart``: the mass that the mask has in the wrong place.
        """
        chain, wanted = self.chain.mixed(dependence), self.grammars[grammar]
        every = chain.texts(2)
        masked, (true, share) = chain.masked(2, wanted), chain.true(2, wanted)
        shown, weights = masked, {text: every[text] / masked[text] for text in masked}
        if weigh:
            mean = sum(masked[text] * weights[text] for text in masked)
            shown = {text: masked[text] * weights[text] / mean for text in masked}
        return {
            "names": [chain.spelled(text) for text in every],
            "model": np.array([*every.values()]),
            "shown": np.array([shown.get(text, 0.0) for text in every]),
            "true": np.array([true.get(text, 0.0) for text in every]),
            "allowed": {text[0]: weight for text, weight in weights.items()},
            "wanted": np.array([text in true for text in every]),
            "share": share,
            "apart": np.abs([shown.get(text, 0.0) - true.get(text, 0.0) for text in every]).sum()
            / 2,
            "grammar": grammar,
            "weigh": weigh,
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw each text's bar under the mask, the model's own, and the true one as a line.

        Below them stands the mass that was allowed on the way: it depends on the first word alone.
        """
        series = {"model, no grammar": data["model"], "mask": data["shown"]}
        marks, names = upright(data["names"], series), [*enumerate(data["names"])]
        for i in np.flatnonzero(data["wanted"]).tolist():
            name, true = data["names"][i], float(data["true"][i])
            names[i] = (i, f"{name}✓")
            line = [[i - 0.45, true], [i + 0.45, true]]
            note = f"{name}: {true:.3f} of the texts of a model that had obeyed."
            marks.append({"key": f"t{i}", "line": line, "wide": 3, "note": note})
        letters = ", ".join(f"{word[0]} {word}" for word in self.chain.words)
        x = axis(-0.6, len(names) - 0.4, "the text", names, bare=True)
        keys = [*bar_keys(series), ("#333333", "model, had it obeyed")]
        view = panel(f"probability ({letters}; ✓ wanted)", x, axis(0, self.most), high=230)
        ways, begins, wide = [], [], len(self.chain.words)
        for word, name in enumerate(self.chain.words):
            middle, mass = wide * word + (wide - 1) / 2, data["allowed"].get(word)
            height, said = mass or 0, "no way" if mass is None else f"{mass:.2g}"
            bar = [middle - wide / 2.2, middle + wide / 2.2, 0, height]
            note = f"After {name} on the first day: {said}."
            ways.append({"bar": bar, "fill": COLOURS[1], "note": note})
            ways.append({"text": said, "at": [middle, height + 0.08], "anchor": "middle"})
            begins.append((middle, f"{name} …"))
        x, y = axis(-0.6, len(names) - 0.4, "", begins, bare=True), axis(0, 1.4, "", (0, 1))
        below = panel("mass allowed on the way: a text's weight", x, y, high=70, below=True)
        return Chart([view, below], [marks, ways], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Say how far the mask's texts are from the true ones, and how many obey by themselves."""
        apart = data["apart"]
        far = "equal to" if apart < 1e-9 else f"{apart:.2f} of the mass away from"
        who = "Masked and weighed" if data["weigh"] else "Masked"
        wanted = data["grammar"].capitalize()
        return (
            f"{wanted}: {data['share']:.3f} of the model's texts obey by themselves. "
            f"{who}, the texts are {far} what the model would have written had it obeyed."
        )


class Cloud(ChartExplorer):
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
        last = days - 1
        day = Player(last, 0, last, milliseconds=1200, label="days after the first")
        super().__init__(
            particles=slider(most, 2, most, label="particles"),
            ess=choice(0.8, [0.0, 0.6, 0.7, 0.8, 0.9, 1.0], label="threshold"),
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
        parents = [each.parents for each in found.history]
        logs = np.array([each.log_weights for each in found.history])
        counts = [effective(row) for row in logs]
        return {
            "parents": parents,
            "words": [each.tokens for each in found.history],
            "weights": softmax(logs, axis=1),
            "alive": self.ancestors(parents),
            "effective": counts,
            "drawn": [
                day
                for day, count in enumerate(counts[:-1], 2)
                if ess == 1 or count < ess * particles
            ],
        }

    @staticmethod
    def ancestors(parents: list[list[int]]) -> list[set[int]]:
        """Return for each day the particles of whom one of the last day descends."""
        alive = [{*range(len(parents[-1]))}]
        for row in reversed(parents[1:]):
            alive.insert(0, {row[i] for i in alive[0]})
        return alive

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw a row for each particle, and for each day a mark as large as its share."""
        marks, nodes, high = [], [], self.most / len(data["words"][0])  # few rows have more room
        for day, (words, shares) in enumerate(zip(data["words"], data["weights"], strict=True)):
            for i, (word, share) in enumerate(zip(words, shares.tolist(), strict=True)):
                lives, key = i in data["alive"][day], f"{day}.{i}"
                if day:
                    line = [[day - 1, -high * data["parents"][day][i]], [day, -high * i]]
                    look = {"wide": 2, "colour": "#444444"} if lives else {"wide": 1, "dash": "2 3"}
                    marks.append({"key": f"l{key}", "line": line, **look})
                end = "" if lives else "; nobody of the last day descends from it"
                note = f"{self.chain.words[word]}, day 1 + {day}: weight {share:.3f}{end}."
                size = round(_SIZE * share**0.5, 1)
                dot = {"dot": [day, -high * i], "r": size, "hollow": not lives, "fill": "#FFFFFF"}
                look = {"colour": _COLOURS[word], "shape": _SHAPES[word], "note": note}
                nodes.append({"key": f"n{key}.{word}", **dot, **look})
        for day in data["drawn"]:  # counted from 1
            x, look = day - 1.5, {"colour": _ANEW, "dash": "6 3", "wide": 1.5}
            marks.append({"key": f"a{day}", "line": [[x, 0.6], [x, 0.4 - self.most]], **look})
            words = {"text": "anew", "at": [x, 0.8], "anchor": "middle", "colour": _ANEW}
            marks.append({"key": f"A{day}", **words})
        days = [(day, f"+{day}" if day else "day 1") for day in range(self.days)]
        x = axis(-0.4, self.days - 0.6, "", days)
        y = axis(0.4 - self.most, 1.4, "", (), bare=True)  # words stand above the rows
        shown = np.flatnonzero(self.allowed)
        keys = [(_COLOURS[word], self.chain.words[word]) for word in shown]
        keys.append(("#444444", "outlined, dotted: without descendants", "2 3"))
        keys.append((_ANEW, "between two days: all drawn anew, by weight", "6 3"))
        title = "area: its share of the day's weight"
        view = panel(title, x, y, high=26 * self.most + 20, side=8)
        return Chart([view], [[*marks, *nodes]], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Say how often they were drawn, of how many they descend, and how many are effective."""
        times, n = len(data["drawn"]), len(data["words"][-1])
        when = f"drawn anew {times} time{'s' * (times > 1)}" if times else "never drawn anew"
        return (
            f"{n} particles, {when}: they descend from {len(data['alive'][0])} of the first day, "
            f"and {data['effective'][-1]:.1f} are effective."
        )
