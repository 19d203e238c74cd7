"""The stored runs of lesson 14, simulation beside engine, and what may be said from them.

``measured.py`` made them. Times are told in rounds of one row, which were measured for each list,
so that lists of a slow hour and of a quick one can be averaged.
"""

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from lablib.course.lessons.lesson_14.load import against_the_engine, table
from lablib.course.plots.chart import Chart

import numpy as np
from scipy import stats

STORED = Path(__file__).with_name("stored") / "load.json"
LOADS = (0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5)
BELOW = 4  # loads, of these, for which the times are compared
BOTH = ENGINE, SIMULATED = "engine", "simulated"

Record = dict[str, Any]


class Estimate(NamedTuple):
    """A mean over the lists, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@lru_cache
def _file() -> dict[str, Any]:
    return json.loads(STORED.read_text("utf-8"))


def keep(path: Path, records: Sequence[Record], command: str) -> None:
    """Write what was measured into a file, a line a record, and the command; say how many."""
    lines = ",\n".join(json.dumps(each) for each in records)
    about = json.dumps({"model": "target", "command": f"{command} {len(records)}"})
    path.write_text(f'{{"about": {about},\n"records": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(records)} records in {path.name}", flush=True)


def stored() -> list[Record]:
    """Return what was measured of each list."""
    return _file()["records"]


def command() -> str:
    """Return what made them."""
    return _file()["about"]["command"]


def mean_of(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values, with Student's interval."""
    mean, n = float(np.mean(values)), len(values)
    half = float(stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half)


def ratio_of(values: Sequence[float]) -> Estimate:
    """Return the geometric mean of independent ratios."""
    return Estimate(*(math.exp(each) for each in mean_of(np.log(values).tolist())))


def times(who: str) -> np.ndarray:
    """Return ``three_times`` in rounds of one row ``(lists, loads below the wall, 3, 2)``."""
    rounds = [record["rounds"]["1"] for record in stored()]
    found = [[each[who] for each in record["loads"][:BELOW]] for record in stored()]
    return np.reshape(found, (len(found), BELOW, 3, 2)) / np.reshape(rounds, (-1, 1, 1, 1))


def ratios() -> list[list[Estimate]]:
    """Return simulated over engine, of each load: of medians and 90th percentiles, time by time."""
    off = times(SIMULATED) / times(ENGINE)
    return [[ratio_of(off[:, i, j, k]) for j in range(3) for k in range(2)] for i in range(BELOW)]


def capacities() -> Estimate:
    """Return the capacity by the prices over that of the engine."""
    pairs = [record["requests a second"] for record in stored()]
    return ratio_of([simulated / engine for engine, simulated in pairs])


def compared() -> str:
    """Return a table of what is simulated over what the engine did, with intervals."""
    head = ["medians, simulated / engine", *(f"load {load}" for load in LOADS[:BELOW])]
    columns = zip(*(each[::2] for each in ratios()), strict=True)
    return table(head, [(n, *map(_said, row)) for n, row in zip(_TIMES, columns, strict=True)])


_TIMES = "first token", "between tokens", "whole text"


def _said(found: Estimate) -> str:
    return f"{found.value:.2f} ({found.low:.2f}-{found.high:.2f})"


def firsts() -> Chart:
    """Draw rounds to the first token by load, simulated and by the engine."""
    series = {}
    for k, name in enumerate(("median", "90 of 100")):
        simulated, engine = (times(who)[:, :, 0, k].T for who in (SIMULATED, ENGINE))
        series[name] = simulated.mean(axis=1), _band(engine)
    return against_the_engine(LOADS[:BELOW], series, "rounds to the first token")


def rates(who: str) -> np.ndarray:
    """Return throughput and goodput as shares of the capacity ``(lists, loads, 2)``."""
    return np.array([[each["rates"][who] for each in record["loads"]] for record in stored()])


def goodput() -> Chart:
    """Draw throughput and goodput by load, as shares of the capacity."""
    series = {}
    for k, name in enumerate(("throughput", "goodput")):
        simulated, engine = (rates(who)[:, :, k].T for who in (SIMULATED, ENGINE))
        series[name] = simulated.mean(axis=1), _band(engine)
    chart = against_the_engine(LOADS, series, "share of the capacity")
    chart.marks[0].insert(0, {"rule": {"x": 1}, "text": "the wall", "dash": "5 3"})
    return chart


def _band(values: np.ndarray) -> tuple[Any, ...]:
    """Return the means of ``(loads, lists)`` and the ends of their intervals, each ``(loads,)``."""
    return (*np.array([mean_of(row.tolist()) for row in values]).T,)
