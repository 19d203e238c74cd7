"""What a sweep costs, and what a second rank gains; the second on a quiet machine only.

overhead    100,000 units of about a millisecond, one a group, in one rank with a file, against
            a bare loop that does the same work: at most 5 % more
two ranks   `sweep votes target` with 1 and with 2 ranks, one BLAS thread each, in turns, from
            the command to its end, start and loading included: at least 1.6 times as fast

python tests/benchmarks/bench_sweep.py [units] [problems] [turns]     prints both
pytest -m benchmark tests/benchmarks/bench_sweep.py
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lablib.tools.sweep import grouped, run, start

import numpy as np
import pytest

UNITS, PROBLEMS, TURNS = 100_000, 120, 3


def one_millisecond() -> int:
    """Return how many steps of ``_work`` take about a millisecond here."""
    begun = time.perf_counter()
    _work(20_000)
    return int(20_000 * 0.001 / (time.perf_counter() - begun))


def _work(steps: int) -> int:
    value = 1
    for _ in range(steps):
        value = value * 48271 % 2147483647
    return value


def overhead(units: int) -> tuple[float, float]:
    """Return the seconds that a sweep's units took, as a bare loop would, and all of the sweep.

    Of the processor, which the neighbours do not add to; so both are of the same run.
    """
    steps, bare = one_millisecond(), 0.0

    def work(group):
        nonlocal bare
        begun = time.process_time()
        value = _work(steps)
        bare += time.process_time() - begun
        return [{"value": value}]

    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        groups = grouped({"unit": i} for i in range(units))
        run(groups, work, out=Path(folder) / "units.jsonl", progress=False)
        return bare, time.process_time() - begun


def two_ranks(problems: int, turns: int) -> list[float]:
    """Return how many times as fast two ranks were, in each turn."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(turns):
            seconds = {}
            for ranks in (1, 2) if turn % 2 else (2, 1):
                out = Path(folder) / f"{turn}-{ranks}.jsonl"
                command = [sys.executable, "-m", "lablib", "sweep", "votes", "target", "--n", "32"]
                command += ["--problems", str(problems), "--out", str(out)]
                begun = time.perf_counter()
                status = start(
                    ranks, command, env=os.environ | {"LABLIB_THREADS": "1"},
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )  # fmt: skip
                seconds[ranks] = time.perf_counter() - begun
                assert status == 0
            print(f"turn {turn}: {seconds[1]:.1f} s alone, {seconds[2]:.1f} s with two", flush=True)
            found.append(seconds[1] / seconds[2])
    return found


@pytest.mark.benchmark
def test_small_units_cost_little() -> None:
    bare, swept = overhead(UNITS)
    assert swept <= 1.05 * bare, (bare, swept)


@pytest.mark.benchmark
def test_two_ranks_pay() -> None:
    if len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else "12") < 2:
        pytest.skip("one core")
    assert np.median(two_ranks(PROBLEMS, TURNS)) >= 1.6


if __name__ == "__main__":
    asked = [*map(int, sys.argv[1:])]
    units, problems, turns = asked + [UNITS, PROBLEMS, TURNS][len(asked) :]
    bare, swept = overhead(units)
    print(f"{units} units of {1000 * bare / units:.2f} ms: {100 * (swept / bare - 1):+.2f} %")
    if turns:
        ratios = two_ranks(problems, turns)
        print(f"two ranks: {statistics.median(ratios):.2f} times as fast as one")
