"""Widgets of the lesson on sampling: what is kept, what is punished, and what it costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.plots.charts import WARM, Chart, axis, bars, curves, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.scene import ChartExplorer, SceneExplorer
from lablib.course.theory.estimators import wilson_interval
from lablib.inference import SamplerOptions
from lablib.inference.sampling import transforms

import mlx.core as mx
import numpy as np

STAYS = "#0072B2"


class BeforeAfter(SceneExplorer):
    """The distribution over a few words, and how the cuts go through it.

    Args:
        words: one for each logit.
        logits: the model's scores ``(V,)``, the best first.
    """

    scene, called = "chart", "Probabilities of the next word, and where they are cut"

    def __init__(self, words: Sequence[str], logits: Sequence[float]) -> None:
        self.words, self.logits = list(words), mx.array(logits, dtype=mx.float32)
        names = {"ends": [-0.6, len(words) - 0.4], "ticks": [*enumerate(words)], "bare": True}
        scale = {"ends": [0, 1.04], "ticks": [[0, "0"], [0.5, "0.5"], [1, "1"]]}
        panels = [
            {"title": "probability", "x": names, "y": scale},
            {
                "title": "stacked: what begins below top-p stays",
                "x": names,
                "y": scale,
            },
        ]
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
        """Return the probabilities ``(V,)`` before, warmed but not yet cut, and after."""
        warmed = SamplerOptions(temperature=options["temperature"])
        scores = transforms.apply(self.logits, SamplerOptions(**options))
        every = self.logits, transforms.apply(self.logits, warmed), scores
        before, warm, after = (np.array(mx.softmax(each)) for each in every)
        return {"before": before, "warm": warm, "after": after, **options}

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Draw the warmed words, what stays of them, and a line for each cut."""
        warm, after, top_k = data["warm"], data["after"], data["top_k"]
        mass = np.cumsum(warm) - warm
        cut = [{"rule": {"x": top_k - 0.5}, "dash": "5 3", "text": "top-k"}] if top_k else []
        left, right = [*cut], [*cut]
        if data["min_p"]:
            height, name = data["min_p"] * warm.max(), f"min-p: {data['min_p']:.2f} of the best"
            left.append({"rule": {"y": float(height)}, "dash": "5 3", "text": name})
        if data["top_p"] < 1:
            name, look = f"top-p {data['top_p']:.2f}", {"dash": "5 3", "below": data["top_p"] > 0.1}
            right.append({"rule": {"y": data["top_p"]}, "text": name, **look})
        for i, word in enumerate(self.words):
            stays = after[i] > 0
            note = f"{word}: {warm[i]:.3f} before the cut, {after[i]:.3f} after it."
            whole = {"bar": [i - 0.4, i + 0.4, 0, float(after[i])], "fill": STAYS, "note": note}
            hollow = {"bar": [i - 0.4, i + 0.4, 0, float(warm[i])], "fill": WARM, "hollow": True}
            left += [{"key": f"a{i}", **whole}, {"key": f"w{i}", **hollow, "note": note}]
            fate = "stays" if stays else "goes"
            note = f"Before {word} stands {mass[i]:.3f} of the mass: it {fate}."
            grown = {"bar": [i - 0.4, i + 0.4, float(mass[i]), float(mass[i] + warm[i])]}
            look = {"fill": STAYS if stays else WARM, "hollow": not stays}
            right.append({"key": f"m{i}", **grown, **look, "note": note})
        return {"panels": [{"marks": left}, {"marks": right}]}

    def caption(self, data: dict[str, np.ndarray]) -> str:
        """Say how many words are left, and which share of the model's own mass they had."""
        kept = data["after"] > 0
        best = int(np.argmax(data["after"]))
        return (
            f"{kept.sum()} of {len(kept)} words stay; the model gave them "
            f"{data['before'][kept].sum():.0%} of its mass. "
            f"'{self.words[best]}' now has {data['after'][best]:.0%}."
        )


class Penalties(ChartExplorer):
    """The distribution before and after the penalties for words that were just said.

    Args:
        words: one for each logit.
        logits: the model's scores ``(V,)``.
        said: the words said so far, the latest last.
    """

    def __init__(self, words: Sequence[str], logits: Sequence[float], said: Sequence[str]) -> None:
        self.words, self.logits = list(words), mx.array(logits, dtype=mx.float32)
        self.said = [self.words.index(word) for word in said]
        super().__init__(
            repeat_penalty=slider(1.5, 1.0, 3.0, 0.1),
            presence_penalty=slider(0.0, 0.0, 3.0, 0.1),
            frequency_penalty=slider(0.0, 0.0, 3.0, 0.1),
            repeat_last_n=slider(len(said), 0, len(said), label="window (words)"),
        )

    def compute(self, **options: float) -> dict[str, np.ndarray]:
        """Return the probabilities ``(V,)`` before and after."""
        scores = transforms.apply(self.logits, SamplerOptions(**options), self.said)
        return {
            "before": np.array(mx.softmax(self.logits)),
            "after": np.array(mx.softmax(scores)),
        }

    def chart(self, data: dict[str, np.ndarray]) -> Chart:
        """Draw what the words have now, within what they had."""
        return bars(self.words, data, "probability", xlabel="next word", ymax=1)

    def caption(self, data: dict[str, np.ndarray]) -> str:
        """Say what the words that were said had, and have now."""
        said = list(dict.fromkeys(self.said))
        before, after = data["before"], data["after"]
        each = (f"'{self.words[i]}' {before[i]:.0%}, now {after[i]:.0%}" for i in said)
        return (
            f"The words already said had {before[said].sum():.0%} of the mass and now have "
            f"{after[said].sum():.0%}: {'; '.join(each)}."
        )


@dataclass(frozen=True)
class StoryCounts:
    """Counts of a set of completions: all, the right ones, the different ones."""

    drawn: int
    valid: int
    distinct: int


class Frontier(ChartExplorer):
    """Validity and diversity over the temperature, for each way of cutting.

    Args:
        outcomes: (way of cutting, temperature) -> outcome; temperatures evenly spaced.
    """

    def __init__(self, outcomes: Mapping[tuple[str, float], StoryCounts]) -> None:
        self.outcomes = dict(outcomes)
        self.cuts = list(dict.fromkeys(cut for cut, _ in outcomes))
        self.temperatures = sorted({temperature for _, temperature in outcomes})
        low, second, *_, high = self.temperatures
        super().__init__(
            temperature=slider(second, low, high, round(second - low, 6)),
            cut=choice(self.cuts[0], self.cuts, label="cut"),
        )

    def compute(self, temperature: float, cut: str) -> dict[str, Any]:
        """Return each way's shares (valid, distinct), and the chosen point with its interval."""
        nearest = min(self.temperatures, key=lambda t: abs(t - temperature))
        chosen = self.outcomes[cut, nearest]
        paths = {
            name: [
                (o.valid / o.drawn, o.distinct / o.drawn)
                for o in (self.outcomes[name, t] for t in self.temperatures)
            ]
            for name in self.cuts
        }
        interval = wilson_interval(chosen.valid, chosen.drawn)
        return {"paths": paths, "temperature": nearest, "cut": cut} | {
            "valid": chosen.valid / chosen.drawn,
            "distinct": chosen.distinct / chosen.drawn,
            "interval": interval,
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw both shares over the temperature, a line for each way, and the chosen point."""
        at, views, marks = data["temperature"], [], []
        across = {"name": "temperature", "ticks": self.temperatures}
        ends = self.temperatures[0] - 0.1, self.temperatures[-1] + 0.1
        for place, name in enumerate(("valid", "distinct")):
            shares = {cut: [each[place] for each in path] for cut, path in data["paths"].items()}
            x, y = axis(*ends, **across), axis(-0.03, 1.03, "", (0, 0.5, 1))
            views.append(panel(("valid stories", "different stories")[place], x, y, shares))
            ring = {"dot": [at, data[name]], "r": 9, "hollow": True, "colour": "#000000"}
            marks.append([*curves(self.temperatures, shares), {"key": "ring", **ring}])
        spread = {"line": [[at, end] for end in data["interval"]], "colour": "#000000"}
        marks[0].append({"key": "spread", **spread})
        return Chart(views, marks)

    def caption(self, data: dict[str, Any]) -> str:
        """Name the chosen point and its interval."""
        low, high = data["interval"]
        return (
            f"Temperature {data['temperature']:.1f}, {data['cut']}: {data['valid']:.0%} valid "
            f"(95 % interval {low:.0%} to {high:.0%}), {data['distinct']:.0%} different."
        )
