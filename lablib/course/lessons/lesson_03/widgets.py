"""Widgets of the lesson on sampling: what is kept, what is punished, what heat buys and costs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import STROKES, WARM, axis, bars, curves, panel, token_strip
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.theory.estimators import difference_interval, wilson_interval
from lablib.inference import SamplerOptions
from lablib.inference.sampling import transforms

import mlx.core as mx
import numpy as np

STAYS = "#0072B2"


class BeforeAfter(Explorer):
    """The distribution over a few words, and how the cuts go through it.

    Args:
        words: one for each logit.
        logits: the model's scores ``(V,)``, the best first.
    """

    called = "Probabilities of the next word, and where they are cut"

    def __init__(self, words: Sequence[str], logits: Sequence[float]) -> None:
        self.words, self.logits = list(words), mx.array(logits, dtype=mx.float32)
        names = axis(-0.6, len(words) - 0.4, "", [*enumerate(words)], bare=True)
        scale, stacked = axis(0, 1.04, "", (0, 0.5, 1)), "top-p keeps what begins below it"
        panels = [panel("probability", names, scale), panel(stacked, names, scale)]
        keys = [[WARM, "warmed, not yet cut", True], [STAYS, "what stays, made whole"]]
        self.constants = {"panels": panels, "keys": keys}
        given = {"words": self.words, "logits": self.logits.tolist()}
        self.engine = {"name": "cuts", "prompt": "On a sunny day, Mia finds", "given": given}
        super().__init__(
            temperature=slider(1.0, 0.0, 3.0, 0.1),
            top_k=slider(0, 0, len(self.words), label="top-k (0 is off)"),
            top_p=slider(0.9, 0.05, 1.0, 0.05, label="top-p (1 is off)"),
            min_p=slider(0.0, 0.0, 1.0, 0.05, label="min-p (0 is off)"),
        )

    def compute(self, **options: float) -> dict[str, Any]:
        """Return the probabilities ``(V,)`` warmed but not yet cut, and after the cuts."""
        both = SamplerOptions(temperature=options["temperature"]), SamplerOptions(**options)
        scores = (transforms.apply(self.logits, each) for each in both)
        warm, after = (np.array(mx.softmax(each)) for each in scores)
        return {"warm": warm, "after": after, **options}

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Draw the warmed words, what stays of them, and a line for each cut."""
        warm, after = data["warm"], data["after"]
        top_k, top_p, min_p = data["top_k"], data["top_p"], data["min_p"]
        mass = np.cumsum(warm) - warm
        cut = {"rule": {"x": top_k - 0.5}, "dash": "5 3", "text": "top-k"}
        left, right = ([{**cut, "line_down": n}] * (top_k > 0) for n in (0, 8))  # beside the bars
        if min_p:
            height = float(min_p * warm.max())
            name = f"min-p: {min_p:.2f} of the best"
            left.append({"rule": {"y": height}, "dash": "5 3", "text": name})
        if top_p < 1:
            look = {"dash": "5 3", "below": top_p > 0.1}
            right.append({"rule": {"y": top_p}, "text": f"top-p {top_p:.2f}", **look})
        for i, word in enumerate(self.words):
            ends, stays = [i - 0.4, i + 0.4], after[i] > 0
            note = f"{word}: {warm[i]:.3f} before the cut, {after[i]:.3f} after it."
            left.append({"bar": [*ends, 0, float(after[i])], "fill": STAYS, "note": note})
            whole = {"bar": [*ends, 0, float(warm[i])], "fill": WARM, "hollow": True}
            left.append({**whole, "note": note})
            fate = "stays" if stays else "goes"
            note = f"Before {word} stands {mass[i]:.3f} of the mass: it {fate}."
            grown = {"bar": [*ends, float(mass[i]), float(mass[i] + warm[i])], "note": note}
            look = {"fill": STAYS if stays else WARM, "hollow": not stays}
            right.append({"key": f"m{i}", **grown, **look})
        return {"panels": [{"marks": left}, {"marks": right}]}

    def caption(self, data: dict[str, np.ndarray]) -> str:
        """Say how many words are left, and which share of the warmed mass they had."""
        kept = data["after"] > 0
        best = int(np.argmax(data["after"]))
        return (
            f"{kept.sum()} of {len(kept)} words stay, {data['warm'][kept].sum():.0%} of the mass. "
            f"'{self.words[best]}' now has {data['after'][best]:.0%}."
        )


PARTS = {"repeat": COLOURS[1], "presence": COLOURS[2], "frequency": COLOURS[3]}


class Penalties(ChartExplorer):
    """The scores of words just said, what each penalty takes from them, and what that does.

    Args:
        words: one for each logit.
        logits: the model's scores ``(V,)``.
        said: the words said so far, the latest last.
    """

    MOST = 2.0  # of each

    def __init__(self, words: Sequence[str], logits: Sequence[float], said: Sequence[str]) -> None:
        self.words, self.logits = list(words), mx.array(logits, dtype=mx.float32)
        self.said = [self.words.index(word) for word in said]
        worst = self.compute(len(said), **{f"{name}_penalty": self.MOST for name in PARTS})
        self._ends = float(worst["scores"].min()) - 0.3, max(0.0, *logits) + 0.3
        mass = np.where(worst["counts"] > 0, worst["before"], 0)
        # a word has the most when every other one that was said has lost all
        most = float(np.max(worst["before"] / (1 - mass.sum() + mass)))
        self._most = float(np.ceil(5 * most)) / 5
        super().__init__(
            repeat_penalty=slider(1.5, 1.0, self.MOST, 0.1),
            presence_penalty=slider(0.0, 0.0, self.MOST, 0.1),
            frequency_penalty=slider(0.0, 0.0, self.MOST, 0.1),
            repeat_last_n=slider(len(said), 0, len(said), label="window (words)"),
        )

    def compute(self, repeat_last_n: int, **penalties: float) -> dict[str, np.ndarray]:
        """Return the probabilities ``(V,)`` before and after, and what lies between them.

        The scores ``(4, V)`` before, and after each penalty in turn; how often the window has each
        word ``(V,)``.
        """
        seen, used, scores = self.said[len(self.said) - repeat_last_n :], {}, [self.logits]
        window = mx.array([seen], dtype=mx.int32)
        for name in PARTS:
            used[f"{name}_penalty"] = penalties[f"{name}_penalty"]
            scores.append(transforms.penalize(self.logits[None], window, used)[0])
        before, after = (np.array(mx.softmax(scores[i])) for i in (0, -1))
        counts = np.bincount(np.array(seen, int), minlength=len(self.words))
        return {"before": before, "after": after, "scores": np.array(scores), "counts": counts}

    def chart(self, data: dict[str, np.ndarray]) -> Chart:
        """Draw the window, what is taken from each score, and the probabilities."""
        chances = {name: data[name] for name in ("before", "after")}
        right = bars(self.words, chances, "probability", xlabel="next word", ymax=self._most)
        names, scores = right.panels[0]["x"], axis(*self._ends, "", range(-98, 100, 2))
        left = panel("score, and what is taken from it", names, scores)
        marks = [{"rule": {"y": 0}, "colour": WARM}, *self._taken(data)]
        keys = [(fill, f"{name} penalty") for name, fill in PARTS.items()]
        start = len(self.said) - int(data["counts"].sum())
        kinds = ["just said, and in the window" * (i >= start) for i in range(len(self.said))]
        strip = token_strip([self.words[i] for i in self.said], kinds)
        views, all_marks = [left, *right.panels], [marks, *right.marks]
        return replace(strip, panels=views, marks=all_marks, keys=[*right.keys, *keys])

    def _taken(self, data: dict[str, np.ndarray]) -> Iterator[dict[str, Any]]:
        """Yield of each word its score before, the pieces taken from it, and its score after."""
        for i, (word, *steps) in enumerate(zip(self.words, *data["scores"].tolist(), strict=True)):
            told = []
            for (name, fill), high, low in zip(PARTS.items(), steps, steps[1:], strict=False):
                told.append(f"{name} {high - low:.2f}")
                pieces = int(data["counts"][i]) if name == "frequency" else 1
                edges = np.linspace(high, low, pieces + 1).tolist()
                for k, (top, bottom) in enumerate(pairwise(edges)):
                    bar = [i - 0.3, i + 0.3, bottom, top]
                    yield {"key": f"{name}{i}.{k}", "bar": bar, "fill": fill}
            for colour, at in ((WARM, steps[0]), (COLOURS[0], steps[-1])):
                yield {"line": [[i - 0.42, at], [i + 0.42, at]], "colour": colour, "wide": 3}
            note = f"{word}: score {steps[0]:.2f}, now {steps[-1]:.2f}; {', '.join(told)}."
            clear = {"fill": "transparent", "edge": "transparent", "note": note}
            yield {"key": f"n{i}", "bar": [i - 0.5, i + 0.5, *self._ends], **clear}

    def caption(self, data: dict[str, np.ndarray]) -> str:
        """Say what the words that were said had, and have now."""
        before, after = (data[name][list({*self.said})].sum() for name in ("before", "after"))
        return f"The words already said had {before:.0%} of the mass and now have {after:.0%}."


@dataclass(frozen=True)
class StoryCounts:
    """Counts of a set of completions, and how they differ.

    Attributes:
        drawn: how many there were.
        valid: how many of them were right.
        unlike: of each one, how unlike the others it is ``(drawn,)``, from 0 to 1.
    """

    drawn: int
    valid: int
    unlike: np.ndarray

    @property
    def spans(self) -> list[list[float]]:
        """Return how unlike two are, and the share of right ones: each with its 95 % interval.

        The mean over pairs varies twice as much as that of so many numbers: each is in many pairs.
        """
        error = 2 * 1.96 * np.std(self.unlike, ddof=1) / self.drawn**0.5
        apart = np.clip(np.mean(self.unlike) + error * np.array([0, -1, 1]), 0, 1)
        return [apart.tolist(), [self.valid / self.drawn, *wilson_interval(self.valid, self.drawn)]]

    def __str__(self) -> str:
        (unlike, *apart), (valid, *right) = self.spans
        ends = ["{:.0%} to {:.0%}".format(*each) for each in (right, apart)]
        return (
            f"{valid:.0%} of {self.drawn} stories are right (95 % interval {ends[0]}), and two of "
            f"them differ in {unlike:.0%} of their words ({ends[1]})."
        )


class HeatCost(ChartExplorer):
    """What heat buys, to the right, and what it costs, downwards: a path for each way of cutting.

    Args:
        outcomes: (way of cutting, temperature) -> its counts; temperatures evenly spaced. The first
            way is what the others are held against.
    """

    def __init__(self, outcomes: Mapping[tuple[str, float], StoryCounts]) -> None:
        self.outcomes = dict(outcomes)
        self.cuts = list(dict.fromkeys(cut for cut, _ in outcomes))
        self.temperatures = sorted({temperature for _, temperature in outcomes})
        low, second, *_, high = self.temperatures
        super().__init__(
            temperature=slider(self.temperatures[-2], low, high, round(second - low, 6)),
            cut=choice(self.cuts[-1], self.cuts, label="cut"),
        )

    def compute(self, temperature: float, cut: str) -> dict[str, Any]:
        """Return each way's outcomes, the coldest first, and what was chosen."""
        nearest = min(self.temperatures, key=lambda t: abs(t - temperature))
        every = {name: [self.outcomes[name, t] for t in self.temperatures] for name in self.cuts}
        return {"every": every, "temperature": nearest, "cut": cut}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the paths, and at the chosen temperature how far each point may be off."""
        x = axis(0, 1, "diversity: how much two stories differ", (0, 0.25, 0.5, 0.75, 1))
        where = self.temperatures.index(data["temperature"])
        marks: list[dict[str, Any]] = []
        for i, (name, outcomes) in enumerate(data["every"].items()):
            colour, chosen = COLOURS[i], name == data["cut"]
            spans = [each.spans for each in outcomes]
            points = [[apart[0], right[0]] for apart, right in spans]
            (path,) = curves([x for x, _ in points], {name: [y for _, y in points]}, [i])
            told = zip(self.temperatures, outcomes, strict=True)
            notes = [f"{name}, temperature {t:g}: {each}" for t, each in told]
            under = 1.5 * (len(self.cuts) - i)  # none hides one
            sizes = [under + (4 if n == where else 1.5) for n in range(len(points))]
            look = {"sizes": sizes, "wide": 3 if chosen else 1.5, "dash": STROKES[i % 4]}
            marks.append({**path, **look, "notes": notes})
            (here, left, right), (high, least, most) = spans[where]
            for line in ([[left, high], [right, high]], [[here, least], [here, most]]):
                marks.append({"line": line, "colour": colour, "wide": 1.5})
            for n in {0, where} if chosen else ():  # the path begins where it is cold
                at = {"at": [points[n][0], points[n][1] + 0.06], "anchor": "middle"}
                marks.append({"text": f"T = {self.temperatures[n]:g}", **at, "bold": n == where})
        y = axis(0, 1.15, "", (0, 0.5, 1))
        drawn = panel("share of right stories", x, y, self.cuts, high=280)
        return Chart([drawn], [marks], [(WARM, "cross: 95 % intervals at this temperature")])

    def caption(self, data: dict[str, Any]) -> str:
        """Say what the chosen way leaves, and how far that is from the first way."""
        where = self.temperatures.index(data["temperature"])
        bare, chosen = (data["every"][name][where] for name in (self.cuts[0], data["cut"]))
        told = f"Temperature {data['temperature']:g}, {data['cut']}: {chosen}"
        if chosen is bare:
            return told
        gain = chosen.spans[1][0] - bare.spans[1][0]
        low, high = difference_interval(chosen.valid, chosen.drawn, bare.valid, bare.drawn)
        verdict = "0 lies inside" if low <= 0 <= high else "0 lies outside"
        return (
            f"{told} With {self.cuts[0]} {bare.valid / bare.drawn:.0%} are right: a difference of "
            f"{gain:+.0%} (95 % interval {low:+.0%} to {high:+.0%}; {verdict})."
        )
