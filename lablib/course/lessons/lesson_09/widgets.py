"""Widgets of the lesson on better drafts: who guesses what, how fast, and how far ahead.

They replay greedy texts (:mod:`lablib.course.replay.rounds`): no model runs again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.lessons.lesson_09.rounds import GAMMA
from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import TINTS, WARM, axis, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.marks import REST
from lablib.course.plots.pictures import COLOURS, visible
from lablib.course.replay.rounds import LONGEST, Guesses, Length, replay, tokens_per_call
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import AdaptiveLength, FixedLength
from lablib.validation import BadValue, integer

import numpy as np

# ------------------------------------------------------------------ where proposals come from

# What may become of a token, in the carpet's colours: its fill, and its edge if it is white.
FATES = {
    "kept": (COLOURS[0], "accepted: the drafter guessed it"),
    "refused": (COLOURS[1], "rejected: it guessed wrong; the target’s own token"),
    "bonus": ("#FFFFFF", "bonus: the target’s own, no guess was wrong"),
    "nothing": (TINTS[4], "nothing was drafted"),
}
BETWEEN = 0.12  # rounds, in tokens
LINE = 20  # cells of one line at most: in more a word has no room


def fates(guesses: Guesses) -> tuple[list[str], int]:
    """Return what became of each token of a text, and how many calls of the target it took."""
    found, steps = [], replay(guesses, FixedLength(GAMMA))
    for step in steps:
        own = "refused" if step.kept < step.drafted else "bonus" if step.drafted else "nothing"
        found += (["kept"] * step.kept + [own])[: step.tokens]
    return found, sum(step.calls for step in steps)


def _whole(words: str) -> str:
    """Return words between which no line ends."""
    return words.replace(" ", "\N{NO-BREAK SPACE}")


class Sources(ChartExplorer):
    """A text, as each drafter's rounds write it; how often each is right, and what the clock says.

    Args:
        texts: task -> the ids of one prompt and of its greedy completion.
        guesses: task -> drafter -> its guesses for several texts, that one first.
        seconds: task -> drafter, and "plain" -> measured seconds of each of some texts, that one
            first.
        words: the text of every id.
    """

    def __init__(
        self,
        texts: Mapping[str, tuple[Sequence[int], Sequence[int]]],
        guesses: Mapping[str, Mapping[str, Sequence[Guesses]]],
        seconds: Mapping[str, Mapping[str, Sequence[float]]],
        words: Sequence[str],
    ) -> None:
        if not guesses or not set(texts) == set(guesses) == set(seconds):
            raise BadValue(
                f"texts, guesses and seconds must be of the same tasks, got {[*texts]}, "
                f"{[*guesses]} and {[*seconds]}"
            )
        self.texts, self.guesses, self.words = dict(texts), dict(guesses), list(words)
        self.seconds = dict(seconds)
        self.drafters = [*next(iter(self.guesses.values()))]
        self.yields = {
            task: {name: tokens_per_call(each[name], GAMMA) for name in self.drafters}
            for task, each in self.guesses.items()
        }
        self.speeds = {
            task: {name: sum(each["plain"]) / sum(each[name]) for name in self.drafters}
            for task, each in seconds.items()
        }
        every = [speed for each in self.speeds.values() for speed in each.values()]
        self._fastest = 1.1 * max(2.0, *every)
        longest = max(len(tokens) for _, tokens in self.texts.values())
        self._lines = math.ceil(longest / LINE)  # of the longest text; a cell is a token in all
        self._across = math.ceil(longest / self._lines)
        super().__init__(task=choice(next(iter(self.texts)), list(self.texts)))

    def compute(self, task: str) -> dict[str, Any]:
        """Return each drafter's rounds of the first text, and its tokens per call and speed."""
        every = {name: fates(self.guesses[task][name][0]) for name in self.drafters}
        return {
            "task": task,
            "words": [visible(self.words[i]) for i in self.texts[task][1]],
            "fates": {name: found for name, (found, _) in every.items()},
            "calls": {name: calls for name, (_, calls) in every.items()},
            "first": {name: each[0] for name, each in self.seconds[task].items()},
            "yields": self.yields[task],
            "speeds": self.speeds[task],
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the text once for each drafter, and below all texts as bars."""
        left, right, names, speeds = [], [], [], []
        for row, (name, (middle, low, high)) in enumerate(data["yields"].items()):
            sides, speed = [-row - 0.36, -row + 0.36], data["speeds"][name]
            note = f"{name}: {middle:.2f} tokens a call, 95 % interval {low:.2f} to {high:.2f}."
            left.append({"bar": [0, middle, *sides], "fill": REST, "note": note})
            left.append({"line": [[low, -row], [high, -row]], "wide": 1.5})
            note = f"{name}: {speed:.2f} times as fast as plain decoding, measured."
            right.append({"bar": [0, speed, *sides], "fill": REST, "note": note})
            names.append((-row, name))
            speeds.append((-row, f"×{speed:.2f} {name}"))  # words lie on no line
        right.append({"rule": {"x": 1}, "dash": "2 3"})  # above the bars: who is slower ends there
        y = axis(0.5 - len(names), 0.5, "", names, bare=True)
        x = axis(0, GAMMA + 1, "", range(GAMMA + 2))
        title = "all texts: tokens a call of the target"
        views = [self._text(data, y), panel(title, x, y, high=110, side=98, below=True)]
        x, title = axis(0, self._fastest), "speed by the clock (dotted: plain decoding)"
        views.append(panel(title, x, y | {"ticks": speeds}, high=110, side=138))
        keys = [(WARM, words, True) if look == "bonus" else (fill, words)
                for look, (fill, words) in FATES.items()]  # fmt: skip
        return Chart(views, [self._strips(data), left, right], keys)

    def _text(self, data: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
        """Return the panel of one text: behind each drafter's name its calls, and its time."""
        first, whole = data["first"], len(data["words"])
        ticks = [
            (-row, f"{_whole(name)}: {_whole(f'{calls} calls, {1000 * first[name]:.0f} ms')}")
            for row, (name, calls) in enumerate(data["calls"].items())
        ]
        title = f"one text of {data['task']}; plain decoding: {whole} tokens, "
        title += f"{1000 * first['plain']:.0f} ms"
        high = 110 + 70 * (self._lines - 1)
        return panel(title, axis(0, 1, "", ()), y | {"ticks": ticks}, high=high, side=138)

    def _strips(self, data: dict[str, Any]) -> list[dict[str, Any]]:
        """Return a strip of cells for each drafter: those of a round hang together."""
        marks, across = [], self._across
        lines = math.ceil(len(data["words"]) / across)
        for row, (name, found) in enumerate(data["fates"].items()):
            for place, (fate, word) in enumerate(zip(found, data["words"], strict=True)):
                fill, told = FATES[fate]
                line, left = divmod(place, across)
                ends = [left / across, (left + 1 - BETWEEN * (fate != "kept")) / across]
                top = 0.4 - row - 0.8 * line / lines
                cell = {"bar": [*ends, top - 0.8 / lines + 0.06, top], "fill": fill}
                cell |= {"edge": WARM} if fate == "bonus" else {}
                cell |= {"colour": "#FFFFFF"} if fate == "kept" else {}
                text = "■" if word == "∅" else word.removeprefix("␣") or word
                marks.append(cell | {"text": text, "note": f"{name}, “{word}”: {told}."})
        return marks

    def caption(self, data: dict[str, Any]) -> str:
        """Say how many calls each drafter needs for the text, and who is fastest on its task."""
        best = max(data["speeds"], key=data["speeds"].get)
        (one, few), *others = data["calls"].items()
        more = "".join(f", {each} with the {name}" for name, each in others)
        return (
            f"With the {one} this text of {len(data['words'])} tokens takes {few} calls of the "
            f"target{more}. "
            f"On {data['task']} the fastest by the clock was {best}, ×{data['speeds'][best]:.2f}."
        )


# ------------------------------------------------------------------ a length that adapts


@dataclass(frozen=True)
class Run:
    """Several texts one after the other, under one policy.

    Attributes:
        place: where each step starts, in tokens from the first text's beginning.
        length: γ of each step.
        alpha: the estimate before each step.
        tokens: how many tokens were written.
        cost: of all steps.
    """

    place: np.ndarray
    length: np.ndarray
    alpha: np.ndarray
    tokens: int
    cost: float


def run(texts: Sequence[Guesses], length: Length, costs: Costs) -> Run:
    """Replay texts in turn; a policy keeps what it has learnt from one to the next."""
    steps, starts, before = [], [], 0
    for text in texts:
        found = replay(text, length)
        starts += [before + step.start for step in found]
        steps += found
        before += len(text.right)
    alpha = np.array([step.alpha for step in steps])
    gammas = np.array([step.length for step in steps])
    return Run(np.array(starts), gammas, alpha, before, sum(s.cost(costs) for s in steps))


def _steps(found: Run, values: np.ndarray) -> list[list[float]]:
    """Return the corners of a value that stays as it is from one change to the next."""
    corners = [[0.0, float(values[0])]]
    for place, value in zip(found.place, values, strict=True):
        if abs(value - corners[-1][1]) > 0.004:  # less can't be seen
            corners += [[float(place), corners[-1][1]], [float(place), round(float(value), 3)]]
    return [*corners, [float(found.tokens), corners[-1][1]]]


class Adapting(ChartExplorer):
    """The adaptive length at work on texts that change: what it believes and what it does.

    Args:
        guesses: task -> drafter -> guesses for several texts; the tasks follow one another.
        costs: drafter -> measured costs.
    """

    def __init__(
        self, guesses: Mapping[str, Mapping[str, Sequence[Guesses]]], costs: Mapping[str, Costs]
    ) -> None:
        if not guesses or not all(set(costs) <= set(each) for each in guesses.values()):
            raise BadValue(f"guesses must hold every task's {[*costs]}")
        self.guesses, self.costs = dict(guesses), dict(costs)
        names, gammas = list(self.costs), range(1, LONGEST + 1)
        self._fixed = {
            name: [run(self._texts(name), FixedLength(g), costs[name]) for g in gammas]
            for name in names
        }
        super().__init__(
            memory=slider(32, 4, 128, 4, label="memory (rounds)"),
            drafter=choice(names[0], names),
        )

    def _texts(self, name: str) -> list[Guesses]:
        return [text for drafters in self.guesses.values() for text in drafters[name]]

    def compute(self, memory: int, drafter: str) -> dict[str, Any]:
        """Return the run, where the tasks end, and speed-ups: adaptive, and each fixed γ."""
        costs = self.costs[drafter]
        length = AdaptiveLength(LONGEST, costs, memory=integer("memory", memory, 2))
        found = run(self._texts(drafter), length, costs)
        tasks = self.guesses.values()
        ends = np.cumsum([sum(len(text.right) for text in each[drafter]) for each in tasks])
        plain = found.tokens * costs.forward(1)
        return {
            "run": found,
            "ends": ends.tolist(),
            "speedup": plain / found.cost,
            "fixed": [plain / each.cost for each in self._fixed[drafter]],
        }

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the estimate of α above and the chosen γ below, along the tokens."""
        found, ends = data["run"], [0, *data["ends"]]
        x, views, marks = axis(0, found.tokens, "tokens written", ends), [], []
        rows = ("α, estimated", found.alpha, 1), ("γ, chosen", found.length, LONGEST)
        for look, (name, values, top) in enumerate(rows):
            y = axis(0, 1.3 * top, "", (0, top / 2, top))
            views.append(panel(name, x, y, high=110, below=bool(look), side=46))
            drawn = [{"rule": {"x": end}, "dash": "2 3", "colour": WARM} for end in ends[1:-1]]
            drawn.append({"line": _steps(found, values), "colour": COLOURS[2 * look]})
            for task, start, end in zip(self.guesses, ends, ends[1:], strict=False):
                place = {"at": [(start + end) / 2, 1.15 * top], "anchor": "middle"}
                drawn.append({"text": task, **place, "bold": True})
            marks.append(drawn)
        return Chart(views, marks)

    def caption(self, data: dict[str, Any]) -> str:
        """Name the promised speed-up of the adaptive length, and of fixed ones."""
        fixed = data["fixed"]
        best = int(np.argmax(fixed))
        return (
            f"The chosen γ follows the estimate of α, single probes apart. Over all texts this "
            f"promises ×{data['speedup']:.2f}; the best fixed γ, {best + 1}, ×{fixed[best]:.2f}."
        )
