"""A sweep over processes, drawn: who works when, and what more ranks are worth."""

from collections.abc import Sequence

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, curves, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.theory.scaling import Scaling, simulate

import numpy as np

COMES, LONGEST = "as they come", "longest first"
_WAITS = "#DDDDDD"
WORK = 48.0  # seconds of all units together, so that a mean unit takes one


def limit(unit_seconds: Sequence[float], ranks: int) -> float:
    """Return the speed-up that so many ranks cannot pass: their number, or total over slowest."""
    return min(ranks, sum(unit_seconds) / max(unit_seconds))


class Dealing(ChartExplorer):
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
        swept = [simulate(seconds, count) for count in counts]
        return {
            "seconds": seconds,
            "ranks": ranks,
            "order": order,
            "took": swept[ranks - 1],
            "speedups": [each.speedup for each in swept],
            "limits": [limit(seconds, count) for count in counts],
        }

    def chart(self, data: dict) -> Chart:
        """Draw a line of work for each rank, and below it the speed-up against ranks."""
        ranks, counts = data["ranks"], range(1, self.most + 1)
        series = {"limit": data["limits"], "these units": data["speedups"]}
        below = curves(counts, series, (5, 0))
        here, note = [ranks, data["speedups"][ranks - 1]], f"{ranks} ranks, as drawn above."
        below.append({"dot": here, "r": 8, "colour": COLOURS[0], "note": note})
        if data["limits"][-1] < self.most - 1:
            above = [self.most, data["limits"][-1] + 0.4]
            below.append({"text": f"{WORK:g} s / slowest", "at": above, "anchor": "end"})
        ticks = [1, *range(4, self.most + 1, 4)]
        shown = range(0, ranks, 1 if ranks < 9 else 5)  # however many they are, they fill the panel
        names = [(-(rank + 0.5) / ranks, f"rank {rank}") for rank in shown]
        rows = axis(-1, 0.13, "", names, bare=True)  # words stand above the bars
        seconds = axis(0, WORK, "seconds", range(0, int(WORK) + 1, 8))
        work = panel("who works when", seconds, rows, high=190, side=56)
        x = axis(0.8, self.most + 0.2, "ranks", ticks)
        gain = panel("speed-up", x, axis(0, self.most, "", ticks), series, below=True, side=56)
        keys = [(COLOURS[4], "a unit"), (COLOURS[1], "the slowest")]
        keys += [("#666666", "the end of a round", "2 3"), (_WAITS, "waits")]
        return Chart([work, gain], [_timeline(data), below], keys)

    def caption(self, data: dict) -> str:
        """Say how long it took, what the speed-up is and how long the ranks waited."""
        took: Scaling = data["took"]
        rounds = f"{took.rounds} round{'s' * (took.rounds > 1)}"
        who = f"{data['ranks']} rank{'s' * (data['ranks'] > 1)}"
        return (
            f"Work of {WORK:g} s by {who}, {data['order']}, takes {took.seconds:.1f} s in "
            f"{rounds}: a speed-up of {took.speedup:.1f}. The ranks wait "
            f"{abs(1 - took.efficiency):.0%} of the time."
        )


def _timeline(data: dict) -> list[dict]:
    """Return every stint; the slowest unit is marked, and the end of each round is a line."""
    second, marks = sorted([0.0, *data["seconds"]])[-2], []  # of equal ones none is the slowest
    took: Scaling = data["took"]

    def sides(rank: int, start: float, end: float) -> list[float]:
        top = -rank / data["ranks"]
        return [round(start, 3), round(end, 3), top - 0.9 / data["ranks"], top]

    for stint in took.stints:
        bar = sides(stint.rank, stint.start, stint.start + stint.seconds)
        colour = COLOURS[1 if stint.seconds > second else 4]
        note = f"Rank {stint.rank}: unit {stint.place}, {stint.seconds:.1f} s."
        marks.append({"key": f"u{stint.place}", "bar": bar, "fill": colour, "note": note})
    alone = f"one rank alone: {WORK:g} s"
    end, ends = 0.0, [{"rule": {"x": WORK}, "text": alone, "colour": "#666666"}]
    for number in range(took.rounds):
        began, stints = end, [stint for stint in took.stints if stint.round == number]
        end = max(stint.start + stint.seconds for stint in stints)
        for rank in range(data["ranks"]):
            own = sum(stint.seconds for stint in stints if stint.rank == rank)
            bar = sides(rank, began + own, end)
            if bar[0] < bar[1]:
                note = f"Rank {rank} waits {end - began - own:.1f} s."
                key = f"w{number}.{rank}"
                marks.append({"key": key, "bar": bar, "fill": _WAITS, "note": note})
        line = [[end, -1], [end, 0.02]]  # the words above stay free
        ends.append({"line": line, "wide": 1.5, "colour": "#666666", "dash": "2 3"})
    in_time = sorted(marks, key=lambda mark: mark["bar"][0])  # the arrow keys walk on in time
    return [*in_time, *ends]
