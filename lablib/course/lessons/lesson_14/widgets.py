"""Widgets of the lesson on scaling out: who works when, and what more ranks are worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lablib.course.plots.charts import COLOURS, DASHES, MARKERS, figure, style
from lablib.course.plots.explorer import Explorer, choice, slider
from lablib.course.theory.scaling import LEAST_SECONDS, Scaling, round_seconds, simulate, take

import numpy as np
from matplotlib.figure import Figure

COMES, LONGEST = "as they come", "longest first"
WORK = 48.0  # seconds of all units together, so that a mean unit takes one


@dataclass(frozen=True)
class Stint:
    """A rank's work on one unit, or on one group of them.

    Attributes:
        place: of the unit in the order in which they are dealt.
        rank: who does it.
        start: seconds since the sweep began.
        seconds: how long it takes.
        round: in which round, from 0.
    """

    place: int
    rank: int
    start: float
    seconds: float
    round: int


def follow(unit_seconds: Sequence[float], ranks: int, least: float = LEAST_SECONDS) -> list[Stint]:
    """Deal units as ``theory.scaling.simulate`` does, and note who did what, and when.

    Args:
        unit_seconds: what each unit takes, in the order in which they are dealt.
        ranks: how many there are.
        least: seconds of a round where many units are left.
    """
    left, stints, began, number = list(enumerate(unit_seconds)), list[Stint](), 0.0, 0
    while left:
        mean = sum(s.seconds for s in stints) / len(stints) if stints else 0.0
        limit = round_seconds(len(left), mean, ranks, least)
        shares = [left[rank::ranks] for rank in range(ranks)]
        times = [[seconds for _, seconds in share] for share in shares]
        up = max(take(share, mean, limit)[1] for share in times)
        done: set[int] = set()
        for rank, share in enumerate(shares):
            clock = began
            for place, seconds in share[: take(times[rank], 0.0, up)[0]]:
                stints.append(Stint(place, rank, clock, seconds, number))
                done.add(place)
                clock += seconds
        began = max(s.start + s.seconds for s in stints)
        left = [unit for unit in left if unit[0] not in done]
        number += 1
    return stints


def limit(unit_seconds: Sequence[float], ranks: int) -> float:
    """Return the speed-up that so many ranks cannot pass: their number, or total over slowest."""
    return min(ranks, sum(unit_seconds) / max(unit_seconds))


class Dealing(Explorer):
    """A picture of ranks over time, and of the speed-up that more of them bring.

    The units are made up: their times spread as widely as a control says, and always sum to 48 s.

    Args:
        units: how many.
        most: ranks at most.
    """

    def __init__(self, units: int = 48, most: int = 16) -> None:
        self.most = most
        self._normal = np.random.default_rng(1).normal(size=units)
        super().__init__(
            ranks=slider(4, 1, most),
            order=choice(COMES, [COMES, LONGEST]),
            spread=slider(1.0, 0.0, 2.0, 0.25, label="spread of times"),
            group=slider(1, 1, 8, label="units in a group"),
        )

    def compute(self, ranks: int, order: str, spread: float, group: int) -> dict:
        """Return who did what, how long it took, and the speed-ups of 1 to ``most`` ranks."""
        unit = np.exp(spread * self._normal)
        unit *= WORK / unit.sum()
        seconds = [float(unit[at : at + group].sum()) for at in range(0, len(unit), group)]
        if order == LONGEST:
            seconds.sort(reverse=True)
        counts = range(1, self.most + 1)
        return {
            "seconds": seconds,
            "ranks": ranks,
            "order": order,
            "group": group,
            "stints": follow(seconds, ranks),
            "took": simulate(seconds, ranks),
            "speedups": [simulate(seconds, count).speedup for count in counts],
            "limits": [limit(seconds, count) for count in counts],
        }

    def draw(self, data: dict) -> Figure:
        """Draw a line of work for each rank, and below it the speed-up against ranks."""
        ranks = data["ranks"]
        above = 0.9 + 0.16 * ranks
        fig = figure(height=above + 2.9)
        with style():
            top, bottom = fig.subplots(2, height_ratios=[above, 2.9])
            _timeline(top, data)
            x = range(1, self.most + 1)
            bottom.plot(x, data["limits"], DASHES[1], color=COLOURS[5], label="limit")
            bottom.plot(x, data["speedups"], DASHES[0], color=COLOURS[0], label="these units")
            bottom.plot(
                [ranks], [data["speedups"][ranks - 1]], MARKERS[0], color=COLOURS[0], ms=10,
                label="drawn above",
            )  # fmt: skip
            bottom.set(xlabel="ranks", ylabel="speed-up", ylim=(0, self.most + 1))
            bottom.set_xticks([1, *range(4, self.most + 1, 4)])
            bottom.legend(loc="upper left")
        return fig

    def caption(self, data: dict) -> str:
        """Say how long it took, what the limit is and how long the ranks waited."""
        took: Scaling = data["took"]
        what = "units" if data["group"] == 1 else f"groups of up to {data['group']} units"
        rounds = f"{took.rounds} round{'s' * (took.rounds > 1)}"
        who = f"{data['ranks']} rank{'s' * (data['ranks'] > 1)}"
        return (
            f"{len(data['seconds'])} {what}, {WORK:g} s of work, by {who}, {data['order']}: "
            f"{took.seconds:.1f} s in {rounds}, a speed-up of {took.speedup:.1f}. At most "
            f"{data['limits'][data['ranks'] - 1]:.1f}: the slowest takes "
            f"{max(data['seconds']):.1f} s. The ranks wait {abs(1 - took.efficiency):.0%} of the "
            "time."
        )


def _timeline(axes, data: dict) -> None:
    """Draw every stint; the slowest unit is marked, and the end of each round is a line."""
    slowest = data["seconds"].index(max(data["seconds"]))
    looks = {
        "a unit": (COLOURS[4], "", [s for s in data["stints"] if s.place != slowest]),
        "the slowest": (COLOURS[1], "///", [s for s in data["stints"] if s.place == slowest]),
    }
    for name, (colour, hatch, stints) in looks.items():
        axes.barh(
            [s.rank for s in stints], [s.seconds for s in stints], 0.8,
            [s.start for s in stints], color=colour, hatch=hatch, edgecolor="white", label=name,
        )  # fmt: skip
    for number in range(data["took"].rounds):
        end = max(s.start + s.seconds for s in data["stints"] if s.round == number)
        axes.axvline(end, color="#666666", linewidth=1, linestyle=":")
    axes.plot([], [], ":", color="#666666", linewidth=1, label="end of a round")
    axes.set(xlabel="seconds", ylabel="rank", xlim=(0, None), ylim=(data["ranks"] - 0.4, -0.6))
    axes.set_yticks(range(0, data["ranks"], 1 if data["ranks"] < 9 else 3))
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)


def speedup_figure(ranks: Sequence[int], series: Mapping[str, Sequence[float]]) -> Figure:
    """Draw speed-ups against ranks, both in powers of two."""
    fig = figure(height=3.8)
    with style():
        axes = fig.subplots()
        for i, (name, values) in enumerate(series.items()):
            axes.plot(
                ranks, values, DASHES[i % 4], color=COLOURS[i % 8], marker=MARKERS[i % 8],
                label=name,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xticks(ranks)
        axes.set(xlabel="ranks", ylabel="speed-up")
        axes.legend(loc="upper left")
    return fig
