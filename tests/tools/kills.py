"""Kills a sweep at random moments, and lets it go on: always the same bytes, sorted.

    python tests/tools/kills.py [--kills 1000] [--seed 0] [--minutes 60]

A sweep of 1 to 3 ranks (``swept.py``) loses its launcher or a rank to SIGKILL, or a rank comes to
the end of its memory or of its disk. Its processes must then end, all of them, and what the file
holds must be whole lines of the sweep but for a torn last one. A sweep of 1 to 3 ranks goes on,
now and then at once and now and then to be killed again, and must leave nothing but the file.
"""

import argparse
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lablib.tools.sweep import start

import psutil
from tabulate import tabulate

SWEPT = Path(__file__).with_name("swept.py")
LAUNCH = "import sys; from lablib.tools.sweep import start; "
LAUNCH += "sys.exit(start(int(sys.argv[1]), sys.argv[2:]))"
# Linux alone lets one process limit another's memory.
KINDS = ("launcher", "rank", "disk", *["memory"] * hasattr(psutil.Process, "rlimit"))
SECONDS = 1.2  # in which a sweep begins and ends
PATIENCE = 600  # tenths of a second in which a sweep that was hit must be gone, on a busy machine


class Trials:
    """Sweeps that are hit, in a folder; ``random`` decides when, and how they go on."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.folder = random.Random(seed), folder
        self.counts: Counter[tuple[str, int, str]] = Counter()
        out = folder / "alone.jsonl"
        assert start(1, command(out)) == 0
        self.whole = sorted(out.read_bytes().splitlines(keepends=True))
        self.size = out.stat().st_size
        out.unlink()

    def hit(self, kind: str, ranks: int, again: float = 0.3) -> None:
        """Hit a sweep, let it go on, and compare; AssertionError says what was wrong.

        With probability ``again`` what goes on is hit first.
        """
        out = self.folder / "swept.jsonl"
        self._hit(out, kind, ranks)
        while self.random.random() < again:
            kind, ranks = self.random.choice(KINDS), self.random.randint(1, 3)
            self._hit(out, kind, ranks)
        log = self.folder / "log"
        with log.open("w") as said:
            status = start(self.random.randint(1, 3), command(out), stderr=said, stdout=said)
        assert status == 0, log.read_text()
        assert sorted(out.read_bytes().splitlines(keepends=True)) == self.whole
        assert not log.read_text(), log.read_text()
        out.unlink()
        log.unlink()
        left = [path.name for path in self.folder.iterdir()]
        assert not left, left

    def _hit(self, out: Path, kind: str, ranks: int) -> None:
        extra = ["", str(self.random.randrange(self.size))] if kind == "disk" else []
        launch = [sys.executable, "-c", LAUNCH, str(ranks), *command(out, *extra)]
        launcher = subprocess.Popen(
            launch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        end = time.monotonic() + SECONDS
        if self.random.random() < 0.7:  # while it works, and else at any time
            while not out.exists() and time.monotonic() < end:
                time.sleep(0.005)
            end = time.monotonic() + SECONDS / 3
        time.sleep(self.random.uniform(0, end - time.monotonic()))
        swept = []
        with suppress(psutil.NoSuchProcess):
            swept = psutil.Process(launcher.pid).children(recursive=True)
        with suppress(psutil.NoSuchProcess):
            if kind == "launcher":
                launcher.kill()
            elif swept and kind == "rank":
                self.random.choice(swept).kill()
            elif swept and kind == "memory":
                most = self.random.choice(swept)
                size = most.memory_info().vms + self.random.randrange(1 << 22)
                most.rlimit(resource.RLIMIT_AS, (size, size))
        if kind != "launcher" or self.random.random() < 0.5:  # else the next one begins at once
            wait(lambda: launcher.poll() is not None)
            wait(lambda: not psutil.wait_procs(swept, 0)[1])
            self._look(out)
        lines = out.read_bytes().count(b"\n") if out.exists() else 0
        wait(lambda: launcher.poll() is not None)
        state = "finished" if lines == len(self.whole) else "begun" if lines > 1 else "not begun"
        self.counts[kind, ranks, state] += 1

    def _look(self, out: Path) -> None:
        """Refuse a file that holds anything but whole lines of the sweep and a torn one."""
        if out.exists():
            *lines, torn = out.read_bytes().splitlines(keepends=True) or [b""]
            assert set(lines) <= set(self.whole)
            assert len(set(lines)) == len(lines)
            assert any(each.startswith(torn) for each in self.whole)


def wait(is_over: Callable[[], bool]) -> None:
    """Wait by turns, so that the time in which this process itself was stopped is one of them."""
    for _ in range(PATIENCE):
        if is_over():
            return
        time.sleep(0.1)
    raise TimeoutError("a sweep that was hit is still there")


def command(out: Path, *extra: str) -> list[str]:
    """Return the command of a rank."""
    return [sys.executable, str(SWEPT), str(out), "20", *extra]


def main() -> int:
    """Hit sweeps, and print how often and in which state the file then was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no more after these")
    options = parser.parse_args()
    failures: list[str] = []
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(Path(folder), options.seed)
        while trials.counts.total() < options.kills and time.monotonic() < end:
            kind, ranks = trials.random.choice(KINDS), trials.random.randint(1, 3)
            try:
                trials.hit(kind, ranks)
            except (AssertionError, TimeoutError) as error:
                failures.append(f"{kind}, {ranks} ranks: {error}")
                print(failures[-1], flush=True)
                for path in Path(folder).iterdir():
                    path.unlink()
            print(f"\r{trials.counts.total()} kills", end="", file=sys.stderr, flush=True)
    states = ("not begun", "begun", "finished")
    rows = [
        [kind, ranks, *(trials.counts[kind, ranks, state] for state in states)]
        for kind in KINDS
        for ranks in (1, 2, 3)
    ]
    print(tabulate(rows, ["what was hit", "ranks", *states], "github"))
    print(f"{trials.counts.total()} kills, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
