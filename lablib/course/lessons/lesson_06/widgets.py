"""Widgets of the lesson on voting: what more votes buy, and when to stop asking."""

from collections.abc import Mapping, Sequence
from typing import Any

from lablib.course.plots.charts import COLOURS, MARKERS, bars, figure, style
from lablib.course.plots.explorer import Explorer, Player, choice, slider
from lablib.course.replay.curves import Sampled
from lablib.inference.voting.leads import cannot_lose, overtake_risk
from lablib.inference.voting.stopping import StopRule

import numpy as np
from matplotlib.figure import Figure


class VoteBars(Explorer):
    """A vote that fills up as samples arrive.

    Args:
        problems: name -> its samples, whose answers are digits (or None).
    """

    def __init__(self, problems: Mapping[str, Sampled]) -> None:
        self.problems = dict(problems)
        names = list(self.problems)
        steps = min(len(problem.answers) for problem in self.problems.values())
        super().__init__(
            samples=Player(steps + 1, milliseconds=350),
            problem=choice(names[0], names),
        )

    def compute(self, samples: int, problem: str) -> dict[str, Any]:
        """Return the votes for each digit after ``samples`` samples, and who leads."""
        chosen = self.problems[problem]
        cast = [answer for answer in chosen.answers[:samples] if answer is not None]
        votes = {str(digit): cast.count(str(digit)) for digit in range(10)}
        leader = max(cast, key=cast.count) if cast else None  # the first to appear among equals
        total = len(chosen.answers)
        return {
            "votes": votes,
            "leader": leader,
            "truth": chosen.truth,
            "samples": samples,
            "top": max(map(list(chosen.answers).count, votes)),
            "settled": bool(cast) and cannot_lose(_counts(cast), total - samples),
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw one bar for each digit, the right one apart."""
        right = [v if digit == data["truth"] else 0 for digit, v in data["votes"].items()]
        wrong = [0 if digit == data["truth"] else v for digit, v in data["votes"].items()]
        fig = figure()
        with style():
            axes = fig.subplots()
            places = range(len(right))
            axes.bar(places, right, color=COLOURS[2], edgecolor="white", label="right answer")
            axes.bar(places, wrong, color=COLOURS[1], hatch="///", edgecolor="white", label="wrong")
            axes.set_xticks(places, list(data["votes"]))
            axes.set(xlabel="answer", ylabel="votes", ylim=(0, data["top"] * 1.05))
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Name the leader, the right answer and whether the vote is settled."""
        if data["leader"] is None:
            return f"No votes yet. The right answer is {data['truth']}."
        settled = " and cannot lose any more" if data["settled"] else ""
        return (
            f"After {data['samples']} samples {data['leader']} leads with "
            f"{data['votes'][data['leader']]} votes{settled}. The right answer is "
            f"{data['truth']}, with {data['votes'].get(data['truth'], 0)}."
        )


class Stopping(Explorer):
    """A vote that stops when the leader is safe enough: samples used and answers right.

    Args:
        problems: samples of each problem; they arrive in the order they are in.
        batch: samples between two looks.
        at_least: samples before a probability is believed.
    """

    def __init__(
        self, problems: Sequence[Sampled], batch: int = 2, at_least: int = StopRule.at_least
    ) -> None:
        self.n = min(len(problem.answers) for problem in problems)
        self.looks = np.array([*range(batch, self.n, batch), self.n])
        self._risk = np.array([[self._look(p, n)[0] for n in self.looks] for p in problems])
        self._right = np.array([[self._look(p, n)[1] for n in self.looks] for p in problems])
        self._early = self.looks < at_least
        super().__init__(confidence=slider(0.95, 0.6, 1.0, 0.01))

    def _look(self, problem: Sampled, drawn: int) -> tuple[float, bool]:
        """Return the leader's risk of losing after ``drawn`` samples, and whether it is right."""
        cast = [answer for answer in problem.answers[:drawn] if answer is not None]
        if not cast:
            return 1.0, False
        risk = overtake_risk(_counts(cast), self.n - drawn)
        return risk, max(cast, key=cast.count) == problem.truth

    def compute(self, confidence: float) -> dict[str, Any]:
        """Return samples used by each problem ``(problems,)`` and both accuracies."""
        safe = self._risk <= 1.0 - confidence + 1e-9
        certain = self._risk == 0.0
        stops = np.where(self._early, certain, safe)
        stops[:, -1] = True
        first = stops.argmax(axis=1)
        return {
            "used": self.looks[first],
            "accuracy": float(np.mean(self._right[np.arange(len(first)), first])),
            "full": float(np.mean(self._right[:, -1])),
            "confidence": confidence,
        }

    def draw(self, data: dict[str, Any]) -> Figure:
        """Draw how many problems stopped after how many samples."""
        stopped = [int((data["used"] == look).sum()) for look in self.looks]
        labels = [str(look) for look in self.looks]
        fig = bars(labels, {"problems": stopped}, "problems", xlabel="stopped after … samples")
        return fig

    def caption(self, data: dict[str, Any]) -> str:
        """Say what was saved and what it cost."""
        return (
            f"At confidence {data['confidence']:.2f} a vote takes {data['used'].mean():.1f} of "
            f"{self.n} samples on average and is right on {data['accuracy']:.0%} of the problems; "
            f"the full vote on {data['full']:.0%}."
        )


def heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Any, rows_are: str, columns_are: str
) -> Figure:
    """Draw shares between 0 and 1 as a map, each cell with its number.

    Args:
        rows: labels, the first at the top.
        columns: labels.
        values: ``(rows, columns)``.
        rows_are: what the rows are, with the unit.
        columns_are: what the columns are, with the unit.
    """
    values = np.asarray(values, dtype=float)
    fig = figure(7.0, 1.4 + 0.45 * len(rows))
    with style():
        axes = fig.subplots()
        image = axes.imshow(values, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            ink = "black" if value > 0.5 else "white"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=ink)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows)
        axes.set(xlabel=columns_are, ylabel=rows_are)
        axes.spines[:].set_visible(False)
        fig.colorbar(image, label="share right")
    return fig


def before_after_vote(single: Sequence[float], voted: Sequence[float]) -> Figure:
    """Draw each problem as a point: accuracy of one sample, and of the vote.

    Args:
        single: ``(problems,)``.
        voted: ``(problems,)``.
    """
    single, voted = np.asarray(single, dtype=float), np.asarray(voted, dtype=float)
    fig = figure(5.6, 4.0)
    with style():
        axes = fig.subplots()
        axes.plot([0, 1], [0, 1], color="black", lw=1, ls=":")
        kinds = {"vote no worse": voted >= single, "vote worse": voted < single}
        for i, (name, those) in enumerate(kinds.items()):
            axes.plot(single[those], voted[those], MARKERS[i], color=COLOURS[i], alpha=0.8)
            axes.lines[-1].set_label(f"{name} ({those.sum()})")
        axes.set(
            xlabel="one sample right (share)",
            ylabel="vote right (share)",
            xlim=(-0.04, 1.04),
            ylim=(-0.04, 1.04),
        )
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    return fig


def _counts(cast: Sequence[str]) -> list[int]:
    """Return the votes of each answer, in order of first appearance."""
    return [cast.count(answer) for answer in dict.fromkeys(cast)]
