"""Hold a simulated server against the engine, list by list; keep what was found.

    python -m lablib.course.lessons.lesson_14.measured 10

measures lists of arrivals until there are ten, and writes ``stored/load.json`` after each. For each
list the prices are measured anew, then the capacity, and then the loads, in an order of its own. A
``Metronome`` beats all the while: other programs may run, but better they don't.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import lablib
from lablib.course.lessons.lesson_14.load import three_times
from lablib.course.lessons.lesson_14.runs import LOADS, STORED, Record, keep, stored
from lablib.course.replay.arrivals import Clocked, Metronome, prices_of, serve
from lablib.course.theory.serving import Asked, Prices, Served, at_random, capacity, simulate

import mlx.core as mx
import numpy as np

COMMAND = "python -m lablib.course.lessons.lesson_14.measured"
REQUESTS, MOST = 60, 8  # in a list; that are served at a time
ROWS = (1, 2, 4, 8)
TIMES = 3.0  # what is promised, in times of what a reader has who is alone


def promise(prices: Prices) -> tuple[float, float]:
    """Return three times what a reader alone has: the first token, between tokens, in seconds."""
    (alone,) = simulate([Asked(0.0, 12, 16)], prices, 1)
    return TIMES * alone.to_first, TIMES * alone.between


def rates(served: Sequence[Served], promised: tuple[float, float]) -> tuple[float, float]:
    """Return throughput and goodput, in texts a second, while requests come.

    The first quarter of that time is left out, as the server begins empty, and so is what it does
    when nobody comes any more.
    """
    end = max(each.asked.at for each in served)
    begin = min(each.asked.at for each in served) + end / 4
    ended = [each for each in served if begin < each.last <= end]
    kept = [e for e in ended if e.to_first <= promised[0] and e.between <= promised[1]]
    return len(ended) / (end - begin), len(kept) / (end - begin)


def measure(model: Any, seed: int, beats: Metronome) -> Record:
    """Return what became of a list of arrivals at each load, in the engine and simulated."""
    prices, asked = prices_of(model, ROWS, beats), at_random(1.0, REQUESTS, seed)
    at_once = [replace(each, at=0.0) for each in asked]
    most = REQUESTS / serve(Clocked(model, MOST, metronome=beats), at_once).seconds
    promised, loads = promise(prices), {}
    for load in np.random.default_rng(seed).permutation(LOADS).tolist():
        asked = at_random(load * most, REQUESTS, seed)
        run = serve(Clocked(model, MOST, metronome=beats), asked)
        both = {"engine": run.served, "simulated": simulate(asked, prices, MOST)}
        loads[load] = {
            "load": load,
            **{name: _few(three_times(served).ravel()) for name, served in both.items()},
            "rates": {
                name: _few(np.divide(rates(each, promised), most)) for name, each in both.items()
            },
            "crowd": _few([run.in_system, REQUESTS / run.seconds * _stay(run.served)]),
        }
    return {
        "seed": seed,
        "requests a second": _few([most, capacity(asked, prices, MOST)]),
        "rounds": dict(zip(ROWS, _few(1e3 * prices.round(n) for n in ROWS), strict=True)),
        "loads": [loads[load] for load in LOADS],
    }


def _stay(served: Sequence[Served]) -> float:
    return float(np.mean([each.whole for each in served]))


def _few(values: Any) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def main() -> None:
    """Measure lists until there are so many."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lists", type=int, help="how many there shall be")
    lists = parser.parse_args().lists
    records = stored() if STORED.exists() else []
    model, _ = lablib.load("target", dtype=mx.float32)
    beats = Metronome(model)
    for seed in range(len(records), lists):
        records.append(measure(model, seed, beats))
        keep(STORED, records, COMMAND)


if __name__ == "__main__":
    main()
