"""Widgets of the lesson on a real model: what comes next, what a cut keeps, who votes right."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, curves, panel
from lablib.course.plots.explorer import Explorer, slider
from lablib.course.plots.marks import DARK, LIGHT, REST, bars_across, number, ranked
from lablib.course.plots.pictures import COLOURS, visible
from lablib.course.theory.estimators import wilson_interval
from lablib.inference.speculation.costs import Costs, best_draft_tokens, speedup

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


class BatchGain(ChartExplorer):
    """The gain that a batch leaves: the speed-up that measured times promise.

    Args:
        costs: texts decoded at once -> what its forwards cost.
    """

    MOST = 8

    def __init__(self, costs: Mapping[int, Costs]) -> None:
        self.costs = dict(costs)
        best = [speedup(1.0, g, cost) for cost in costs.values() for g in range(1, self.MOST + 1)]
        self._top = 1.05 * max(1.0, *best)  # an axis stays where it is
        super().__init__(alpha=slider(0.8, 0.0, 1.0, 0.05, label="α: chance that a draft is kept"))

    def compute(self, alpha: float) -> dict[str, Any]:
        """Return the speed-up for 1 ... 8 drafts by batch, and the best number of drafts."""
        data: dict[str, Any] = {"alpha": alpha, "gain": {}, "best": {}}
        for batch, cost in self.costs.items():
            gains = [speedup(alpha, drafts, cost) for drafts in range(1, self.MOST + 1)]
            data["gain"][batch] = np.array(gains)
            data["best"][batch] = best_draft_tokens(alpha, cost, self.MOST)
        return data

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw a line for each batch, and plain decoding at 1."""
        series = {f"{batch} text{'s' * (batch != 1)}": gain for batch, gain in data["gain"].items()}
        marks = curves(range(1, self.MOST + 1), series)
        marks.append({"rule": {"y": 1}, "dash": "2 3"})
        x = axis(1, self.MOST, "drafts in a round, γ", range(1, self.MOST + 1))
        y, title = axis(0, self._top), "speed-up (dotted: plain decoding, ×1)"
        return Chart([panel(title, x, y, series, high=240)], [marks])

    def caption(self, data: dict[str, Any]) -> str:
        """Name for each batch the best number of drafts and its speed-up."""
        parts = []
        for batch, best in data["best"].items():
            gain = data["gain"][batch][best - 1] if best else 1.0
            how = f"with {best} draft{'s' * (best != 1)}" if best else "without a draft"
            parts.append(f"×{gain:.2f} {how} for {batch} text{'s' * (batch != 1)}")
        return f"With α = {data['alpha']:.2f}, free drafts bring at best {', '.join(parts)}."


@dataclass(frozen=True)
class Asked:
    """A question that was asked several times.

    Attributes:
        kind: "sum" or "fact", say.
        name: the question, short.
        truth: its answer.
        answers: what was said, one text for each time.
    """

    kind: str
    name: str
    truth: str
    answers: tuple[str, ...]

    @property
    def single(self) -> float:
        """Return the share of right answers: the chance that one answer is right."""
        return self.answers.count(self.truth) / len(self.answers)

    @property
    def leaders(self) -> tuple[str, ...]:
        """Return the most frequent answers, in the order in which they appeared."""
        counts = Counter(self.answers)
        return tuple(answer for answer in counts if counts[answer] == max(counts.values()))

    @property
    def vote(self) -> float:
        """Return the chance that a vote is right which draws lots among its leaders."""
        return (self.truth in self.leaders) / len(self.leaders)


def single_and_vote(asked: Sequence[Asked]) -> dict[str, tuple[float, ...]]:
    """Return the share of right answers and its 95 % interval, of one answer and of the vote."""
    single = sum(each.single for each in asked)
    won = sum(each.vote for each in asked)
    n = len(asked)
    return {name: (x / n, *wilson_interval(x, n)) for name, x in (("one", single), ("vote", won))}


def vote_bars(asked: Sequence[Asked]) -> Chart:
    """Draw of each question the share of right answers and the vote, and the means of each kind."""
    looks = {1.0: (COLOURS[2], "the vote is right"), 0.0: (COLOURS[5], "a wrong answer wins")}
    tie = COLOURS[4], "a tie: lots are drawn"
    views, drawn = [], []
    for kind in dict.fromkeys(each.kind for each in asked):
        own = [each for each in asked if each.kind == kind]
        one, vote = (share for share, *_ in single_and_vote(own).values())
        won = ["" if each.vote else f" ({_cut('/'.join(each.leaders))})" for each in own]
        said = [f"{x.single:.0%} → {x.vote:.0%}{name}" for x, name in zip(own, won, strict=True)]
        head = {"text": "one → vote (winner)", "at": [1.12, 0.7], "room": 1.1, "bold": True}
        colours = [looks.get(each.vote, tie)[0] for each in own]
        names = [f"{each.name} {each.truth}" for each in own]
        rows = bars_across(names, [each.single for each in own], colours, said)
        for mark in rows["marks"][1::2]:
            mark["at"][0] = 1.12  # one column
        votes = [{"dot": [each.vote, -row], "shape": "diamond"} for row, each in enumerate(own)]
        bare = [row for row, each in enumerate(own) if not each.single]  # no bar: a spot around ◆
        spots = [{"dot": [0, -row], "r": 8, "colour": colours[row]} for row in bare]
        rules = [{"rule": {"x": one}, "dash": "5 3"}, {"rule": {"x": vote}}]
        title = f"{len(own)} {kind}s: one answer {one:.0%} → the vote {vote:.0%}"
        view = ranked(len(own), title, end=2.75, side=270, below=True)
        tall = {"ends": [0.5 - len(own), 1.6], "bare": True} | rows["y"]
        across = view["x"] | {"name": "", "ends": [-0.1, 2.75]}  # names keep off the spots
        views.append(view | {"high": 25 * len(own) + 27, "y": tall, "x": across})
        drawn.append([*rows["marks"], head, *rules, *spots, *votes])
    keys = [looks[1.0], tie, looks[0.0]]
    keys.append(("#333333", "one answer (bars; ● none is right), mean", "5 3"))
    return Chart(views, drawn, [*keys, ("#333333", "the vote (◆), mean", "14")])


def _cut(text: str, most: int = 11) -> str:
    """Return a text, or the beginning of a long one."""
    return text if len(text) <= most else text[: most - 1] + "…"
