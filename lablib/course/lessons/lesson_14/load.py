"""A server under load, drawn: who waits and who is written, and what a load does to the wait."""

from collections.abc import Sequence

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, curves, lines, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.theory.serving import Prices, Served, at_random, capacity, simulate

import numpy as np

WAITS, WRITES = COLOURS[1], COLOURS[4]
_LOADS = [load / 20 for load in range(2, 20)]
_REQUESTS, _SETTLED = 260, 60  # how many are served; those before do not count
_ROWS = 32


def three_times(served: Sequence[Served]) -> np.ndarray:
    """Return median and 90th percentile of what readers wait for, in milliseconds ``(3, 2)``.

    For the first token, between tokens, for the whole text.
    """
    times = [(each.to_first, each.between, each.whole) for each in served]
    return 1e3 * np.percentile(times, [50, 90], axis=0).T


class UnderLoad(ChartExplorer):
    """Requests on their way through a simulated server, and the wait for a first token by load.

    Args:
        prices: of the server's work.
        sizes: how many texts may be written at a time, the choices.
    """

    def __init__(self, prices: Prices, sizes: Sequence[int] = (1, 8)) -> None:
        self.prices = prices
        some = at_random(1.0, _REQUESTS, 14)
        self.capacity = {size: capacity(some, prices, size) for size in sizes}
        self.window = 10 / min(self.capacity.values())  # seconds that are shown
        self.waits = {size: self._by_load(size) for size in sizes}
        super().__init__(
            load=slider(0.5, _LOADS[0], _LOADS[-1], 0.05, label="load ρ"),
            at_a_time=choice(sizes[0], [*sizes], label="texts at a time"),
        )

    def _served(self, load: float, size: int) -> list[Served]:
        asked = at_random(load * self.capacity[size], _REQUESTS, 14)
        return simulate(asked, self.prices, size)

    def _by_load(self, size: int) -> np.ndarray:
        """Return median and 90th percentile of the time to a first token, by load."""
        return np.array([three_times(self._served(x, size)[_SETTLED:])[0] for x in _LOADS]).T

    def compute(self, load: float, at_a_time: int) -> dict:
        """Return who is in the server in a while, and what the first token costs at this load."""
        served = self._served(load, at_a_time)
        begin = served[_SETTLED].asked.at
        end = begin + self.window
        there = [each for each in served if each.last > begin and each.asked.at < end]
        times = [(each.asked.at, each.first, each.last) for each in there[:_ROWS]]
        return {
            "load": load,
            "at_a_time": at_a_time,
            "rate": load * self.capacity[at_a_time],
            "times": np.clip(np.array(times) - begin, 0, self.window),
            "first": three_times(served[_SETTLED:])[0],
        }

    def chart(self, data: dict) -> Chart:
        """Draw a line for each request, and below it the wait against load."""
        x = axis(0, 1e3 * self.window, "milliseconds")
        rows = axis(-_ROWS, 0.2, "", (), bare=True)
        above = panel("requests, one below the other as they come", x, rows, high=224)
        every = np.concatenate([*self.waits.values()])
        ticks = [10.0**k for k in range(-1, 8) if every.min() / 10 < 10.0**k < 10 * every.max()]
        y = axis(ticks[0], ticks[-1], "", ticks, log=True)
        series = dict(zip(("median", "90 of 100"), self.waits[data["at_a_time"]], strict=True))
        x = axis(0, 1, "load ρ", (0, 0.25, 0.5, 0.75, 1))
        title = "milliseconds to the first token (10, 100, ...)"
        below = panel(title, x, y, series, below=True)
        here = [*curves(_LOADS, series, (0, 5)), {"rule": {"x": data["load"]}, "dash": "2 3"}]
        keys = [(WAITS, "waits for its first token"), (WRITES, "is written")]
        return Chart([above, below], [self._lines(data), here], keys)

    def _lines(self, data: dict) -> list[dict]:
        marks = []
        for row, times in enumerate(1e3 * data["times"]):
            sides = [-row - 0.85, -row - 0.15]
            for what, colour, ends in zip(
                ("waits", "is written"), (WAITS, WRITES), (times[:2], times[1:]), strict=True
            ):
                if ends[0] < ends[1]:
                    note = f"Request {row + 1} {what} for {ends[1] - ends[0]:.0f} ms in this while."
                    bar = [*(float(f"{end:.5g}") for end in ends), *sides]
                    marks.append({"key": f"{row}{what}", "bar": bar, "fill": colour, "note": note})
        return marks

    def caption(self, data: dict) -> str:
        """Say what comes, and what the first token costs."""
        middle, high = data["first"]
        return (
            f"At load {data['load']:.2f}, {data['rate']:.0f} requests a second with "
            f"{data['at_a_time']} at a time, half of the readers wait {middle:.0f} ms or less for "
            f"a first token, and 90 of 100 wait {high:.0f} ms or less."
        )


def against_the_engine(
    loads: Sequence[float], simulated: np.ndarray, measured: np.ndarray
) -> Chart:
    """Draw times to a first token by load: a simulation's as lines, the engine's as dots.

    Args:
        loads: from low to high.
        simulated: for each load what ``three_times`` returns ``(loads, 3, 2)``.
        measured: the same of the engine.
    """
    names = "median", "90 of 100"
    series = {f"{what}, simulated": simulated[:, 0, i] for i, what in enumerate(names)}
    series |= {f"{what}, engine": measured[:, 0, i] for i, what in enumerate(names)}
    dots, title = [*series][2:], "milliseconds to the first token"
    chart = lines(loads, series, "load ρ", title, logy=True, dots=dots)
    for line, own in zip(chart.marks[0], chart.marks[0][2:], strict=False):
        line["r"] = 0
        own["colour"] = line["colour"]
    return chart


def streams(times: Sequence[Sequence[float]]) -> Chart:
    """Draw when each reader's pieces came, a row each: seconds since all had asked."""
    end = 1e3 * max(each[-1] for each in times)
    x, n = axis(0, end, "milliseconds since all asked"), len(times)
    y = axis(-n, 0.2, "", [(-0.5, "first"), (0.5 - n, "last")] if n > 1 else (), bare=True)
    marks = []
    for row, each in enumerate(times):
        first = 1e3 * each[0]
        note = f"Reader {row + 1} waits {first:.0f} ms for a first token."
        marks.append({"bar": [0, first, -row - 0.6, -row - 0.4], "fill": WAITS, "note": note})
        marks += [{"dot": [1e3 * t, -row - 0.5], "r": 2, "colour": COLOURS[0]} for t in each]
    keys = [(WAITS, "waits for its first token"), (COLOURS[0], "a token")]
    return Chart([panel("readers", x, y, high=15 * n, side=56)], [marks], keys)
