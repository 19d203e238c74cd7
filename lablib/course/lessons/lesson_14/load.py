"""A server under load, drawn: who waits and who is written, and what a load does to the wait."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, curves, lines, panel
from lablib.course.plots.explorer import choice, slider
from lablib.course.plots.pictures import COLOURS
from lablib.course.replay.measure import bandwidth, clock
from lablib.course.theory.serving import (
    Asked,
    Prices,
    Served,
    at_random,
    capacity,
    simulate,
    wait_of_one,
)

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

WAITS, WRITES = COLOURS[1], COLOURS[4]
_LOADS = [load / 20 for load in range(2, 20)]
_MANY, _ALONE = 2000, 100_000  # requests, of a curve; of the curves of one at a time
_WINDOW = 60  # texts that one at a time can write while a picture lasts
_PEOPLE, _TEXTS = 20, 12  # where axes end
HALF = 0.5  # the load of the upper picture


def three_times(served: Sequence[Served]) -> np.ndarray:
    """Return median and 90th percentile of what readers wait for, in milliseconds ``(3, 2)``.

    For the first token, between tokens, for the whole text.
    """
    times = [(each.to_first, each.between, each.whole) for each in served]
    return 1e3 * np.percentile(times, [50, 90], axis=0).T


def waits_of_one(gaps: np.ndarray, work: np.ndarray) -> np.ndarray:
    """Return the seconds that each of n requests waits for its turn, one at a time ``(n,)``.

    What ``simulate`` says of one text at a time, by a sum over all at once (Lindley 1952): the work
    that has come, less the time, less the lowest that this has been.

    Args:
        gaps: seconds from each request to the next one ``(n - 1,)``.
        work: seconds of each ``(n,)``.
    """
    ahead = np.concatenate([[0.0], np.cumsum(work[:-1] - gaps)])
    return ahead - np.minimum.accumulate(ahead)


def alone(prices: Prices, asked: Asked) -> float:
    """Return the seconds until a reader alone has a first token."""
    return prices.read(asked.prompt - 1) + prices.join(1) + prices.round(1)


class UnderLoad(ChartExplorer):
    """Who is in a simulated server at half load and at another one, and how long all wait by load.

    A wait is by how much longer than for a reader alone it takes until the first token comes. It is
    counted in texts, those that the server can finish meanwhile, so that any two are comparable.

    Args:
        prices: of the server's work.
        sizes: how many texts may be written at a time, the choices.
    """

    def __init__(self, prices: Prices, sizes: Sequence[int] = (1, 8)) -> None:
        self.prices = prices
        some = at_random(1.0, _ALONE, 14)
        self.capacity = {size: capacity(some[:_MANY], prices, size) for size in sizes}
        self.window = _WINDOW / self.capacity[min(sizes)]  # seconds that are shown
        self._gaps = np.diff([each.at for each in some])  # at one request a second
        kinds = {(each.prompt, each.tokens): each for each in some}
        each = {k: alone(prices, one) + (k[1] - 1) * prices.round(1) for k, one in kinds.items()}
        self._work = np.array([each[one.prompt, one.tokens] for one in some])
        spread = float(self._work.std() / self._work.mean())
        self.theory = [wait_of_one(load, 1.0, spread) for load in _LOADS]
        self.waits, self.there = {}, {}
        for size in sizes:
            runs = {load: self._served(load, size) for load in _LOADS}
            waits = [self._waits(load, size, served) for load, served in runs.items()]
            self.waits[size] = np.array(waits).T
            self.there[size] = [self._there(load, size, served) for load, served in runs.items()]
        super().__init__(
            load=slider(_LOADS[-1], _LOADS[0], _LOADS[-1], 0.05, label="load ρ"),
            at_a_time=choice(sizes[0], [*sizes], label="texts at a time"),
        )

    def _served(self, load: float, size: int) -> list[Served]:
        n = _MANY if load < 0.75 else 2 * _MANY  # near the wall a queue comes and goes slowly
        return simulate(at_random(load * self.capacity[size], n, 14), self.prices, size)

    def _waits(self, load: float, size: int, served: Sequence[Served]) -> tuple[float, float]:
        """Return the mean and the median of the waits, in texts."""
        if size == 1:
            rate = load / self._work.mean()
            waits = waits_of_one(self._gaps / rate, self._work) / self._work.mean()
        else:
            steady = served[len(served) // 10 :]  # it begins empty
            more = [each.to_first - alone(self.prices, each.asked) for each in steady]
            waits = self.capacity[size] * np.array(more)
        return float(waits.mean()), float(np.median(waits))

    def compute(self, load: float, at_a_time: int) -> dict:
        """Return who is there in a while, at half load and at this one, and how long all wait."""
        here, half = (_LOADS.index(round(each, 2)) for each in (load, HALF))
        waits = self.waits[at_a_time].T[here]
        return {
            "load": load,
            "at_a_time": at_a_time,
            "rate": load * self.capacity[at_a_time],
            "there": (self.there[at_a_time][half], self.there[at_a_time][here]),
            "wait": 1e3 * waits / self.capacity[at_a_time],
        }

    def _there(self, load: float, size: int, served: Sequence[Served]) -> np.ndarray:
        """Return seconds, and who waits and who is written then ``(3, 241)``, of a usual while.

        Of all such whiles that follow one another it is the one whose crowd is nearest to the mean:
        of one at a time to that by theory, as the mean of few whiles near the wall says little.
        """
        moments = [(each.asked.at, each.first, each.last) for each in served]
        asked, first, last = np.sort(moments, axis=0).T
        begins = np.arange(asked[-1] / 10, max(asked[-1] - self.window, asked[-1] / 9), self.window)
        steps = np.linspace(0, self.window, 241)
        came, began, ended = (
            np.searchsorted(times, begins[:, None] + steps, "right")
            for times in (asked, first, last)
        )
        crowds = (came - ended).mean(axis=1)
        wait = self.theory[_LOADS.index(load)]
        mean = load * (wait + 1) if size == 1 else crowds.mean()  # Little's law
        usual = int(np.argmin(abs(crowds - mean)))
        return np.array([steps, came[usual] - began[usual], began[usual] - ended[usual]])

    def chart(self, data: dict) -> Chart:
        """Draw two crowds over time, one above the other, and below them the wait by load."""
        x = axis(0, self.window, "seconds")
        y = axis(0, _PEOPLE, "", range(0, _PEOPLE + 1, 10))
        strips = [
            panel(f"readers in the server, load {load:.2f}", x, y, high=104, below=bool(below))
            for below, load in enumerate((HALF, data["load"]))
        ]
        names = "theory, one at a time", "mean", "median"
        series = dict(zip(names, (self.theory, *self.waits[data["at_a_time"]]), strict=True))
        series = {name: np.minimum(values, _TEXTS) for name, values in series.items()}
        x = axis(0, 1, "load ρ", (0, 0.25, 0.5, 0.75, 1))
        y = axis(0, _TEXTS, "", range(0, _TEXTS + 1, 3))
        below = panel("the wait, in texts that end meanwhile", x, y, series, below=True)
        here = [*curves(_LOADS, series, (7, 0, 5)), {"rule": {"x": data["load"]}, "dash": "2 3"}]
        keys = [(WAITS, "wait for a first token"), (WRITES, "are written")]
        return Chart([*strips, below], [*map(self._crowd, data["there"]), here], keys)

    def _crowd(self, there: np.ndarray) -> list[dict]:
        seconds, waiting, writing = there
        every, most = [], np.minimum(writing + waiting, _PEOPLE)
        for heights, colour in ((most, WAITS), (np.minimum(writing, _PEOPLE), WRITES)):
            at = np.repeat(seconds, 2)[1:-1]
            steps = np.column_stack([at, np.repeat(heights[:-1], 2)])
            outline = [[seconds[0], 0.0], *steps.tolist(), [seconds[-1], 0.0]]
            area = [[float(f"{a:.5g}"), float(b)] for a, b in outline]
            every.append({"area": area, "fill": colour})
        return every

    def caption(self, data: dict) -> str:
        """Say what comes, and how long it waits."""
        mean, middle = data["wait"]
        return (
            f"At load {data['load']:.2f}, {data['rate']:.0f} requests a second with "
            f"{data['at_a_time']} at a time, a first token comes {mean:.0f} ms later than to a "
            f"reader alone, on average; for half of the readers {max(middle, 0):.0f} ms or less."
        )


def against_the_engine(loads: Sequence[float], series: Mapping[str, Any], title: str) -> Chart:
    """Draw what a simulation says by load as lines, and the engine's as dots with intervals.

    Args:
        loads: from low to high.
        series: name -> the simulation's heights, and the engine's with the ends of their interval.
        title: what the height is, with its unit.
    """
    every = {f"{name}, simulated": simulated for name, (simulated, _) in series.items()}
    every |= {f"{name}, engine": engine for name, (_, engine) in series.items()}
    dots = [*every][len(series) :]
    chart = lines(loads, every, "load ρ", title, dots=dots)
    for line, own in zip(chart.marks[0], chart.marks[0][len(series) :], strict=False):
        line["r"] = 0
        own["colour"] = line["colour"]
    return chart


def limits(model: Any) -> tuple[float, float]:
    """Return the seconds that a round's bytes take at least, and the arithmetic of a row of it.

    Both speeds are measured: of reading an array as large as the weights, and of a product of large
    matrices, with two operations a weight of 4 bytes.
    """
    weights = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    square, now, took = mx.random.normal((1024, 1024), key=mx.random.key(0)), clock(), []
    for _ in range(5):
        start = now()
        mx.eval(square @ square)
        took.append(now() - start)
    read = weights / bandwidth(max(weights >> 20, 1), repeats=30)
    return read, 2 * weights / 4 / (2 * 1024**3 / min(took))


def on_a_line(known: Mapping[int, float]) -> tuple[float, float]:
    """Return a and b of the straight line a + b · n that lies nearest to prices by n."""
    slope, start = np.polyfit([*known], [*known.values()], 1)
    return float(start), float(slope)


def rounds(prices: Prices, line: tuple[float, float], limit: tuple[float, float]) -> Chart:
    """Draw the price of a round by rows, the line a + b · n beside it, and the roofline below."""
    most = max(prices.rounds)
    n, measured = np.arange(1, most + 1), {x: 1e3 * y for x, y in prices.rounds.items()}
    series = {"a + b · n": line[0] + line[1] * n, "roofline": np.maximum(limit[0], limit[1] * n)}
    series = {name: 1e3 * values for name, values in series.items()}
    highest = max(*measured.values(), *(values.max() for values in series.values()))
    up = axis(0, 1.1 * highest)
    marks = [curve | {"r": 0} for curve in curves(n, series, (0, 5))]
    same = line[0] / line[1]
    if 1 < same < most:
        marks.append({"rule": {"x": same}, "text": "a = b · n", "dash": "5 3"})
    marks += [
        {"dot": [rows, ms], "r": 6, "colour": COLOURS[0], "note": f"{rows} rows: {ms:.1f} ms."}
        for rows, ms in measured.items()
    ]
    x = axis(0, most, "rows", [*measured])
    return Chart(
        [panel("milliseconds a round", x, up, series)], [marks], [(COLOURS[0], "measured")]
    )


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows below their heads, each column as wide as its widest, the first on the left."""
    every = [[*map(str, row)] for row in (head, *rows)]
    first, *others = ([*column] for column in zip(*every, strict=True))
    columns = [[each.ljust(max(map(len, first))) for each in first]]
    columns += [[each.rjust(max(map(len, column))) for each in column] for column in others]
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def listed(prices: Prices) -> str:
    """Return all prices as a table, in milliseconds."""
    names = ("a round, of rows", prices.rounds), ("reading, tokens", prices.reads)
    names += ("joining, rows then", prices.joins), ("leaving, rows before", prices.leaves)
    wide = max(len(known) for _, known in names)
    rows = []
    for what, known in names:
        cells = [f"{n}: {1e3 * seconds:.1f}" for n, seconds in known.items()]
        rows.append([what, *cells, *[""] * (wide - len(cells))])
    return table(["milliseconds", *[""] * wide], rows)


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
