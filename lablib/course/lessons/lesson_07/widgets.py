"""A widget of the lesson on speculative decoding: how many drafts its rounds keep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.plots.charts import COLOURS, DASHES, MARKERS, style
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.plots.strips import add_axes, canvas, name_bars, scales
from lablib.course.replay.rounds import LONGEST, guesses_of_flags, replay
from lablib.course.theory.estimators import bootstrap_interval, wilson_interval
from lablib.inference.speculation.costs import expected_tokens
from lablib.inference.speculation.draft_length import FixedLength
from lablib.validation import BadValue, integer

import numpy as np
from matplotlib.figure import Figure

# ------------------------------------------------------------------ acceptance


@dataclass(frozen=True)
class GreedyText:
    """A greedy text of the target, and where the draft would have said the same.

    A greedy text does not depend on the drafts. So these flags decide every round, for every draft
    length, and no model has to run again.

    Attributes:
        task: where its prompt comes from.
        agree: for each token, whether it is the draft's best token after the same text.
        classes: the class of each token.
    """

    task: str
    agree: tuple[bool, ...]
    classes: tuple[str, ...]


def whole_rounds(agree: Sequence[bool], draft_tokens: int) -> list[tuple[int, int]]:
    """Return the rounds of greedy speculation: where each starts, and how many drafts it keeps.

    Only *whole* rounds: those whose bonus token would still belong to the text. Near its end a
    round is cut short, and no closed form knows about that.
    """
    steps = replay(guesses_of_flags(agree), FixedLength(draft_tokens))
    return [(step.start, step.kept) for step in steps if step.start + draft_tokens < len(agree)]


@dataclass(frozen=True)
class RoundCounts:
    """Whole rounds of several texts, counted.

    Attributes:
        accepted: drafts kept at each position of a round ``(γ,)``.
        reached: drafts judged there ``(γ,)``; the target's own token counts in neither.
        classes: class -> (accepted, reached).
        rounds: of each text ``(texts,)``.
        tokens: accepted drafts and own tokens of those rounds ``(texts,)``.
    """

    accepted: np.ndarray
    reached: np.ndarray
    classes: dict[str, tuple[int, int]]
    rounds: np.ndarray
    tokens: np.ndarray

    @property
    def alpha(self) -> float:
        """Return accepted over reached."""
        return float(self.accepted.sum() / max(1, self.reached.sum()))

    @property
    def by_position(self) -> list[float]:
        """Return accepted over reached at each position; 0 where none was reached."""
        return (self.accepted / np.maximum(1, self.reached)).tolist()

    @property
    def tokens_per_round(self) -> float:
        """Return what one call of the target yields."""
        return float(self.tokens.sum() / max(1, self.rounds.sum()))

    def interval(self, repeats: int = 400) -> tuple[float, float]:
        """Return the 95 % bootstrap interval of ``tokens_per_round``, the same at every call.

        Whole texts are drawn again, not rounds: the rounds of one text resemble each other.
        """
        return bootstrap_interval(self.tokens, per=self.rounds, resamples=repeats)


def count_rounds(texts: Sequence[GreedyText], draft_tokens: int) -> RoundCounts:
    """Count the whole rounds of greedy speculation with γ drafts, over all texts.

    Raises:
        ValueError: γ is not in 1 ... 8, or there is no text.
    """
    gamma = integer("draft_tokens", draft_tokens, 1, LONGEST)
    if not texts:
        raise BadValue("texts must hold at least one text, got none")
    accepted, reached = np.zeros(gamma, int), np.zeros(gamma, int)
    classes: dict[str, list[int]] = {}
    rounds, tokens = [], []
    for text in texts:
        found = whole_rounds(text.agree, gamma)
        for start, kept in found:
            judged = min(kept + 1, gamma)
            accepted[:kept] += 1
            reached[:judged] += 1
            for i in range(judged):
                count = classes.setdefault(text.classes[start + i], [0, 0])
                count[0] += i < kept
                count[1] += 1
        rounds.append(len(found))
        tokens.append(sum(kept + 1 for _, kept in found))
    pairs = {name: (a, r) for name, (a, r) in classes.items()}
    return RoundCounts(accepted, reached, pairs, np.array(rounds), np.array(tokens))


class Acceptance(Explorer):
    """The acceptance dashboard: by position, by task, by token class, and tokens per round.

    Args:
        texts: greedy texts of one or more tasks.
    """

    def __init__(self, texts: Sequence[GreedyText]) -> None:
        texts = list(texts)
        tasks = list(dict.fromkeys(text.task for text in texts))
        if not tasks:
            raise BadValue("texts must hold at least one text, got none")
        self.gammas = list(range(1, LONGEST + 1))
        self.tallies = {
            task: [
                count_rounds([t for t in texts if t.task == task], gamma) for gamma in self.gammas
            ]
            for task in tasks
        }
        self._intervals = {
            task: np.array([each.interval() for each in tallies]).T
            for task, tallies in self.tallies.items()
        }
        super().__init__(
            draft_tokens=slider(4, 1, LONGEST, label="draft tokens γ"),
            task=choice(tasks[0], tasks),
        )

    def compute(self, draft_tokens: int, task: str) -> dict[str, Any]:
        """Return shares with 95 % intervals, and tokens per round for every γ."""
        chosen = self.tallies[task][draft_tokens - 1]
        low, high = self._intervals[task]
        classes = sorted(chosen.classes.items(), key=lambda each: -each[1][1])
        return {
            "gamma": draft_tokens,
            "task": task,
            "alpha": chosen.alpha,
            "position": [
                _share(*each) for each in zip(chosen.accepted, chosen.reached, strict=True)
            ],
            "tasks": {
                name: _share(
                    each[draft_tokens - 1].accepted.sum(), each[draft_tokens - 1].reached.sum()
                )
                for name, each in self.tallies.items()
            },
            "classes": {name: (*_share(a, r), r) for name, (a, r) in classes},
            "tokens": [each.tokens_per_round for each in self.tallies[task]],
            "low": low,
            "high": high,
            "theory": [expected_tokens(chosen.alpha, gamma) for gamma in self.gammas],
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw four small charts."""
        fig = canvas(5.8)
        task, shares = data["task"], {"ylim": (0, 1.05)}
        with style():
            axes = add_axes(fig, 0.85, 0.45, 3.0, 1.9)
            x = range(1, data["gamma"] + 1)
            middle, low, high = np.array(data["position"]).T
            axes.plot(x, middle, MARKERS[0], ls=DASHES[0], color=COLOURS[0])
            axes.vlines(x, low, high, color=COLOURS[0])
            axes.set(xlim=(0.5, LONGEST + 0.5), **shares, title=f"{task}: by place in the round")
            scales(axes, (1, 4, 8), (0, 0.5, 1), "place of the draft", "accepted / reached")

            axes = add_axes(fig, 5.1, 0.45, 2.7, 1.9)
            self._across(axes, data["tasks"], task)
            axes.set_title("by task")

            axes = add_axes(fig, 1.8, 3.35, 2.05, 1.95)
            counts = {f"{name} ({share[3]})": share for name, share in data["classes"].items()}
            self._across(axes, counts)
            axes.set_title(f"{task}: by token class")

            axes = add_axes(fig, 5.1, 3.35, 2.7, 1.95)
            look = {"color": COLOURS[5], "ls": DASHES[1]}
            axes.plot(self.gammas, data["theory"], label="one α for all", **look)
            axes.plot(self.gammas, data["tokens"], MARKERS[0], color=COLOURS[0], label="measured")
            axes.vlines(self.gammas, data["low"], data["high"], color=COLOURS[0])
            axes.axvline(data["gamma"], color="#999999", lw=1, zorder=0)
            axes.set(xlim=(0.5, LONGEST + 0.5), ylim=(0.5, LONGEST + 1.5), title=f"{task}: yield")
            scales(axes, (1, 4, 8), (1, 5, 9), "draft tokens γ", "tokens per round")
            axes.legend(loc="upper left", borderaxespad=0.1)
        return fig

    def _across(self, axes: Any, shares: Mapping[str, tuple], chosen: str | None = None) -> None:
        """Draw horizontal bars with intervals, the chosen one darker."""
        y = np.arange(len(shares))
        middle, low, high = np.array([share[:3] for share in shares.values()]).T
        colours = [COLOURS[0] if chosen in (None, name) else COLOURS[4] for name in shares]
        axes.barh(y, middle, 0.7, color=colours)
        axes.hlines(y, low, high, color="black", lw=1.5)
        axes.set(xlim=(0, 1.02), ylim=(len(shares) - 0.4, -0.6))
        scales(axes, (0, 0.5, 1), (), "accepted / reached")
        name_bars(axes, list(shares), across=True)

    def caption(self, data: dict[str, Any]) -> str:
        """Name α, the hardest class, and tokens per round beside theory."""
        i, name = data["gamma"] - 1, min(data["classes"], key=lambda c: data["classes"][c][0])
        low, high = data["low"][i], data["high"][i]
        return (
            f"{data['task']}, γ = {data['gamma']}: α = {data['alpha']:.2f}, and "
            f"{data['classes'][name][0]:.2f} on tokens of class '{name}'. {data['tokens'][i]:.2f} "
            f"tokens per round, 95 % interval {low:.2f} to {high:.2f}; one α for all places "
            f"promises {data['theory'][i]:.2f}."
        )


def _share(accepted: int, reached: int) -> tuple[float, float, float]:
    """Return accepted over reached with its 95 % interval; (0, 0, 1) where none was reached."""
    if not reached:
        return 0.0, 0.0, 1.0
    low, high = wilson_interval(int(accepted), int(reached))
    return float(accepted / reached), low, high
