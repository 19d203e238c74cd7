"""Widgets of the lesson on a real model: who chooses best, what comes next, what a cut keeps."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from lablib.course.lessons.lesson_12 import runs
from lablib.course.lessons.lesson_12.pictures import intervals
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, panel
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.marks import DARK, LIGHT, REST, bars_across, number, ranked
from lablib.course.plots.pictures import COLOURS, visible
from lablib.course.replay.curves import Curve

import ipywidgets as widgets
import mlx.core as mx
import numpy as np

_READ = 64  # tokens of a student's text that are read: the last ones


def log_probabilities(model: Any, ids: Sequence[int], cache: Any = None) -> np.ndarray:
    """Return the log-probabilities ``(T, V)`` of what comes after each token, float32."""
    logits = model(mx.array([list(ids)]), cache=cache)[0].astype(mx.float32)
    return np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True))


class NextTokens(Explorer):
    """The ten likeliest next tokens of a text that the student types.

    Args:
        model: a language model.
        tokenizer: its tokenizer.
        text: what stands there first.
    """

    SHOWN = 10
    called = "The likeliest next tokens of a text"

    def __init__(self, model: Any, tokenizer: Any, text: str) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.constants = {"panels": [ranked(self.SHOWN + 1, side=96)]}
        self._last: tuple[str | None, Any] = None, None  # a slider asks about one text many times
        typed = widgets.Text(value=text, continuous_update=False, description="text (then Enter)")
        super().__init__(text=typed, temperature=slider(1.0, 0.1, 2.0, 0.1))

    def compute(self, text: str, temperature: float) -> dict[str, Any]:
        """Return the likeliest tokens, their probabilities, and the entropy in bits."""
        scores = self._scores(text) / temperature
        p = np.exp(scores - scores.max())
        p = p / p.sum()
        best = np.argsort(-p, kind="stable")[: self.SHOWN]
        return {
            "text": text,
            "temperature": temperature,
            "tokens": [self.tokenizer.decode([int(i)]) for i in best],
            "p": p[best],
            "bits": float(-(p * np.log2(np.maximum(p, 1e-30))).sum()),
        }

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Draw one bar for each token, the likeliest on top."""
        names = [*(visible(token) for token in data["tokens"]), "all others"]
        chances = [*data["p"].tolist(), max(0.0, 1 - float(data["p"].sum()))]
        colours = [DARK] + [LIGHT] * (len(data["p"]) - 1) + [REST]
        return {"panels": [bars_across(names, chances, colours)]}

    def caption(self, data: dict[str, Any]) -> str:
        """Name the likeliest token, the mass of all that are shown, and the entropy."""
        text = data["text"] if len(data["text"]) <= 60 else "…" + data["text"][-60:]
        return (
            f"After “{text}” at temperature {data['temperature']:.1f} the likeliest token is "
            f"“{visible(data['tokens'][0])}” with {number(data['p'][0])}; the {len(data['p'])} "
            f"shown have {data['p'].sum():.0%} of the mass, at {data['bits']:.1f} bits of entropy."
        )

    def _scores(self, text: str) -> np.ndarray:
        if self._last[0] != text:
            ids = self.tokenizer.encode(text)[-_READ:]
            ids = ids or [self.tokenizer.convert_tokens_to_ids("<|endoftext|>")]
            self._last = text, log_probabilities(self.model, ids)[-1].astype(float)
        return self._last[1]


class Cuts(ChartExplorer):
    """A line for each place of a text, and the lines with which top-p and min-p cut them.

    Args:
        pieces: the text of the token that did come, for each place.
        log_p: the log-probabilities ``(T, V)`` of what could come there.
    """

    def __init__(self, pieces: Sequence[str], log_p: np.ndarray) -> None:
        self.pieces = [f"“{visible(piece)}”" for piece in pieces]
        self.sorted = -np.sort(-np.exp(log_p), axis=-1)
        self.mass = np.cumsum(self.sorted, axis=-1, dtype=float)
        sure, *_, free = np.argsort((self.mass < 0.9).sum(axis=-1), kind="stable").tolist()
        self.looks = {free: COLOURS[5], sure: COLOURS[0]}
        self.order = [*sorted({*range(len(pieces))} - {free, sure}), free, sure]
        super().__init__(
            top_p=slider(0.9, 0.05, 0.95, 0.05, label="top-p"),
            min_p=slider(0.1, 0.01, 0.5, 0.01, label="min-p"),
        )

    def compute(self, top_p: float, min_p: float) -> dict[str, np.ndarray]:
        """Return how many tokens each cut keeps at each place, ``(T,)``."""
        return {
            f"top-p {top_p:.2f}": (self.mass - self.sorted < top_p).sum(axis=-1),
            f"min-p {min_p:.2f}": (self.sorted >= min_p * self.sorted[:, :1]).sum(axis=-1),
        }

    def chart(self, data: dict[str, np.ndarray]) -> Chart:
        """Draw what decides how many tokens stay, the cuts, and a dot where each place is cut."""
        kept = np.unique(np.geomspace(1, self.sorted.shape[1] - 1, 40).astype(int))
        ratios = self.sorted[:, kept] / self.sorted[:, :1]
        ways = [("top-p: mass of the tokens kept", 0, self.mass[:, kept - 1])]
        ways.append(("min-p: next chance ÷ best chance", 1, ratios))
        x = axis(0.8, 4 * self.sorted.shape[1], "tokens kept", 10 ** np.arange(5), log=True)
        views, drawn = [], []
        for (title, begin, heights), (name, counts) in zip(ways, data.items(), strict=True):
            cut = float(name.split()[1])
            low = begin == 0 and cut > 0.1
            marks = [{"rule": {"y": cut}, "text": name, "dash": "5 3", "below": low}]
            behind = []
            for place in self.order:
                count, colour = int(counts[place]), self.looks.get(place)
                points = np.column_stack([kept, heights[place].round(3)]).tolist()
                look = {"colour": colour or REST, "wide": 3 if colour else 0.5}
                behind.append({"line": [[1, begin], *points], **look})
                note = f"{name} keeps {count:,} before {self.pieces[place]}."
                wide = 5 if place == self.order[-1] else 8  # where both lie, both are seen
                look = {"colour": colour or "#555555", "r": wide if colour else 4}
                marks.append({"dot": [count, cut], "note": note, **look})
            for count in {int(counts[place]) for place in self.looks}:
                at = [1.2 * count, cut - 0.12 if low else cut + 0.05]
                marks.append({"text": f"{count:,}", "at": at, "bold": True})
            views.append(panel(title, x, axis(0, 1.03, "", (0, 0.5, 1)), high=240, behind=behind))
            drawn.append(marks)
        where = zip(self.looks.items(), ("an open place", "a sure one"), strict=True)
        keys = [(colour, f"before {self.pieces[i]}, {what}") for (i, colour), what in where]
        return Chart(views, drawn, [*keys, (REST, "the other places", "14")])

    def caption(self, data: dict[str, np.ndarray]) -> str:
        """Say how the lines are read, and of each cut how few and how many it keeps."""
        spans = [f"{n.min()} to {n.max():,}" if np.ptp(n) else f"{n[0]:,}" for n in data.values()]
        each = ", ".join(f"{name} keeps {span}" for name, span in zip(data, spans, strict=True))
        return (
            "A line is a place of the text, and its dot says how many of "
            f"{self.sorted.shape[1]:,} tokens stay there: {each}."
        )


class Choosing(ChartExplorer):
    """How much more often one way to choose of the same samples is right than another, in pairs.

    Args:
        asked: questions, with the samples of each.
        curves: what ``vote_curves`` made of them, at each of ``runs.COUNTS``.
    """

    WAYS = MappingProxyType(
        {"the likeliest": "best: likeliest", "a vote": "majority", "one sample": "single"}
    )
    PAIRS = (
        ("the likeliest", "a vote"),
        ("the likeliest", "one sample"),
        ("a vote", "one sample"),
    )

    def __init__(self, asked: runs.Asked, curves: Mapping[str, Curve]) -> None:
        self.kinds = asked.kinds
        self.won = {name: curves[way].per_problem for name, way in self.WAYS.items()}
        self.pairs = {f"{one} against {other}": (one, other) for one, other in self.PAIRS}
        super().__init__(
            pair=choice(next(iter(self.pairs)), list(self.pairs), label="compared"),
            samples=choice(runs.COUNTS[-1], [*runs.COUNTS[1:]], label="samples"),
        )

    def compute(self, pair: str, samples: int) -> dict[str, Any]:
        """Return how often each way is right, and of each kind of question the paired gain."""
        place, names = runs.COUNTS.index(samples), self.pairs[pair]
        gains = np.subtract(*(self.won[name][:, place] for name in names))
        found = {runs.ALL: runs.mean_of(gains)}
        for kind in dict.fromkeys(self.kinds.tolist()):
            found[kind] = runs.mean_of(gains[self.kinds == kind])
        right = {name: float(won[:, place].mean()) for name, won in self.won.items()}
        return {"right": right, "gains": found, "pair": pair, "samples": samples}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw of each kind of question a dot, and its interval across; 0 is a line."""
        names = [f"{kind} ({each.n:,})" for kind, each in data["gains"].items()]
        title = "more right answers (points of a hundred, with 95 % intervals)"
        return intervals([*zip(names, data["gains"].values(), strict=True)], title, (-5, 30), 100)

    def caption(self, data: dict[str, Any]) -> str:
        """Say how often each way is right, and by how much the pair differs."""
        gain = data["gains"][runs.ALL]
        shares = ", ".join(f"{name} in {share:.0%}" for name, share in data["right"].items())
        return (
            f"Of {gain.n:,} questions, {data['samples']} samples each: right is {shares}. In "
            f"pairs, {data['pair']}: {100 * gain.value:+.1f} points (95 %: "
            f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f})."
        )
