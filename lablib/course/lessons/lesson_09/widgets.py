"""Widgets of the lesson on better drafts: who guesses what, at what price, and how far ahead.

They replay greedy texts (:mod:`lablib.course.replay.rounds`): no model runs again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import WARM, axis, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.replay.rounds import LONGEST, Guesses, Length, replay, tokens_per_call
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import AdaptiveLength, FixedLength
from lablib.validation import BadValue, integer

import numpy as np

# ------------------------------------------------------------------ where proposals come from

COPIED, OWN = 0, 1
LOOKS = [("#A9D3F0", "accepted draft"), ("#F3BE6B", "the target's own")]


class Sources(ChartExplorer):
    """A text with its accepted drafts, and what each drafter yields on this task.

    Args:
        texts: task -> the ids of one prompt and of its greedy completion.
        guesses: task -> drafter -> its guesses for several texts, that one first.
        costs: drafter -> measured costs.
        words: the text of every id.
    """

    def __init__(
        self,
        texts: Mapping[str, tuple[Sequence[int], Sequence[int]]],
        guesses: Mapping[str, Mapping[str, Sequence[Guesses]]],
        costs: Mapping[str, Costs],
        words: Sequence[str],
    ) -> None:
        if not guesses or set(texts) != set(guesses):
            raise BadValue(f"texts and guesses must be of the same tasks, got {[*texts]}")
        self.texts, self.guesses, self.costs = dict(texts), dict(guesses), dict(costs)
        self.words = list(words)
        self._yields = {
            (task, name, gamma): tokens_per_call(found, gamma)
            for task, drafters in self.guesses.items()
            for name, found in drafters.items()
            for gamma in range(1, LONGEST + 1)
        }
        self._most = max(high for _, _, high in self._yields.values())
        promised = [self._promise(*each) for each in self._yields if each[1] in self.costs]
        self._fastest = 1.05 * max(2.0, *promised)
        drafters = list(self.costs)
        super().__init__(
            draft_tokens=slider(4, 1, LONGEST, label="draft tokens γ"),
            task=choice(next(iter(self.texts)), list(self.texts)),
            drafter=choice(drafters[0], drafters),
        )

    def compute(self, draft_tokens: int, task: str, drafter: str) -> dict[str, Any]:
        """Return the looks of the text, and tokens per call and speed-up of every drafter."""
        prompt, tokens = self.texts[task]
        looks = [OWN] * len(tokens)
        steps = replay(self.guesses[task][drafter][0], FixedLength(draft_tokens))
        for step in steps:
            looks[step.start : step.start + step.kept] = [COPIED] * step.kept
        return {
            "task": task,
            "drafter": drafter,
            "looks": [-1] * (len(prompt) - 1) + looks,
            "calls": sum(step.calls for step in steps),
            "written": len(tokens),
            "yields": {name: self._yields[task, name, draft_tokens] for name in self.costs},
            "speedups": {name: self._promise(task, name, draft_tokens) for name in self.costs},
        }

    def _promise(self, task: str, name: str, gamma: int) -> float:
        """Return the speed-up of this drafter, each round priced by what was drafted in it."""
        texts, costs = self.guesses[task][name], self.costs[name]
        spent = sum(step.cost(costs) for text in texts for step in replay(text, FixedLength(gamma)))
        return sum(len(text.right) for text in texts) * costs.forward(1) / spent

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the text above, the drafters as bars below."""
        left, right, names, promised = [], [{"rule": {"x": 1}, "dash": "2 3"}], [], []
        for row, (name, (middle, low, high)) in enumerate(data["yields"].items()):
            sides, gain = [-row - 0.36, -row + 0.36], data["speedups"][name]
            fill = COLOURS[0] if name == data["drafter"] else COLOURS[4]
            note = f"{name}: {middle:.2f} tokens a call, 95 % interval {low:.2f} to {high:.2f}."
            left.append({"bar": [0, middle, *sides], "fill": fill, "note": note})
            left.append({"line": [[low, -row], [high, -row]], "wide": 1.5})
            note = f"{name}: ×{gain:.2f} is promised."
            right.append({"bar": [0, gain, *sides], "fill": fill, "note": note})
            names.append((-row, name))
            promised.append((-row, f"×{gain:.2f} {name}"))  # words lie on no line
        y = axis(0.5 - len(names), 0.5, "", names, bare=True)
        views = [panel("tokens a call", axis(0, 1.05 * self._most), y, high=100, side=98)]
        x, title = axis(0, self._fastest), "promised speed-up (dotted: ×1)"
        views.append(panel(title, x, y | {"ticks": promised}, high=100, side=138))
        whole = [[*prompt[1:], *tokens] for prompt, tokens in self.texts.values()]  # all but <s>
        texts = [[self.words[i] or " ∅" for i in ids] for ids in whole]
        dress = {"texts": texts, "looks": LOOKS, "about": ""}
        now = {"text": [*self.texts].index(data["task"]), "looks": data["looks"], "marked": -1}
        now["notes"] = [look >= 0 and f"{LOOKS[look][1]}." for look in data["looks"]]
        return Chart(views, [left, right], (), "reading", dress, now)

    def caption(self, data: dict[str, Any]) -> str:
        """Say what the chosen drafter does to this text and to its task, and who yields most."""
        best = max(data["speedups"], key=data["speedups"].get)
        return (
            f"With the {data['drafter']} this text of {data['written']} tokens takes "
            f"{data['calls']} calls of the target. Of all drafters {best} promises most on "
            f"{data['task']}, ×{data['speedups'][best]:.2f}."
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
