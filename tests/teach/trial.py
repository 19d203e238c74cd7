"""One whole trial of ``grade``: a class's folder, the real command, three times.

``python tests/teach/trial.py`` hands in all of ``submitted`` and has it graded: at once; again,
one notebook at a time, which tells what each costs; and killed twice and resumed. Every mark must
be due, and the reports of the three the same to the byte. What a notebook costs of the processor is
counted in three parts, as SECURITY.md does: its answers, which referees compare while its own
process is there; its reading, with all that begins for it, a referee and the first import of its
lesson among it; and what its own process uses. ``MOST`` has the bound of each. The command itself
may not hold more than 300 MB. What is wrong is named, and the exit status is then 1.
"""

import argparse
import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil  # ipykernel brings it
import submitted
from tabulate import tabulate

# Seconds of processor time, of a notebook. Of the last four tenths are an endless loop's, or of the
# slowest honest import; on a machine that others use, too, a second's work takes more of them.
MOST = {"its answers": 3.0, "its reading": 5.0, "its own process": 5.0}
HOLDS = 300  # MB of memory for the command itself
BECOME_SUBREAPER = 36  # from <sys/prctl.h>
PRINTED = "printed.txt"


@dataclass
class Run:
    """What one grading left: the folder of its reports, how long it took, what notebooks cost."""

    name: str
    out: Path
    seconds: float = 0.0
    judged: list[int] = field(default_factory=list)  # notebooks that were judged at each end
    costs: dict[str, np.ndarray] = field(default_factory=dict)  # see ``Meter.read``
    most: float = 0.0  # MB that the command itself held


def grade(school: Path, run: Run, options: Sequence[str], kill_at: Sequence[int] = ()) -> Run:
    """Run the command; kill it whenever it has judged so many notebooks, and resume.

    Raises:
        RuntimeError: it failed; says what it printed.
    """
    run.out.mkdir()
    reports = ["--csv", "r.csv", "--json", "r.json", "--html", "r.html", "--feedback", "told"]
    command = [sys.executable, "-m", "lablib", "grade", str(school), *reports, *options]
    began = time.monotonic()
    for number, enough in enumerate((*kill_at, sys.maxsize)):
        more = ["--resume"] if number else []
        with open(run.out / PRINTED, "w") as printed, open(run.out / "errors.log", "w") as errors:
            process = subprocess.Popen(
                [*command, *more], cwd=run.out, stdout=printed, stderr=errors
            )
            try:
                run.judged.append(_watch(process, run, enough))
            finally:
                process.kill()
                process.wait()
        if enough == sys.maxsize and process.returncode:
            raise RuntimeError((run.out / "errors.log").read_text())
    run.seconds = time.monotonic() - began
    return run


def _watch(process: subprocess.Popen, run: Run, enough: int) -> int:
    """Wait for its end, or until so many notebooks are judged; note what each took.

    Returns:
        How many are judged.
    """
    journal, known = run.out / "r.csv.journal", 0
    meter, before = Meter(process.pid), None
    while process.poll() is None and known < enough:
        lines = journal.read_text(encoding="utf-8").split("\n")[:-1] if journal.exists() else []
        used = meter.read()
        run.most = max(run.most, _held(meter.command))
        if journal.exists() and before is None:
            before, known = used, len(lines)
        for line in lines[known:]:
            name = Path(json.loads(line)["path"]).parts[0]
            run.costs[name] = (used - before) / (len(lines) - known)
        if len(lines) > known:
            before, known = used, len(lines)
        time.sleep(0.004)
    return known


class Meter:
    """Adds up the processor time of a command, of those below it and those that they waited for."""

    def __init__(self, pid: int) -> None:
        self.command = psutil.Process(pid)
        self._own: dict[psutil.Process, float] = {}  # of the command and of each referee, by itself
        self._all = self._killed = self._compared = 0.0

    def read(self) -> np.ndarray:
        """Return the seconds used by now, of each kind in ``MOST``."""
        self._killed += _orphans(self.command.pid)
        used = self._killed
        with contextlib.suppress(psutil.Error):  # one has just ended, and its parent knows its time
            everyone = [self.command, *self.command.children(recursive=True)]
            parents = [each.ppid() for each in everyone]
            for each, parent in zip(everyone, parents, strict=True):
                times = each.cpu_times()
                used += sum(times[:4])
                if self.command.pid in (each.pid, parent):
                    before = self._own.get(each, 0.0)
                    self._own[each] = times.user + times.system
                    if parent == self.command.pid and each.pid in parents:
                        self._compared += self._own[each] - before
        self._all = max(self._all, used)
        judges = sum(self._own.values())
        return np.array([self._compared, judges - self._compared, self._all - judges])


def _held(watched: psutil.Process) -> float:
    """Return how much memory a process holds, in MB."""
    with contextlib.suppress(psutil.Error):
        return watched.memory_info().rss / 2**20
    return 0.0


def _orphans(but: int) -> float:
    """Bury processes whose own parent was killed before them; return what they had used.

    Args:
        but: the process that is still watched.
    """
    used = 0.0
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid == but:
            return used
        usage = os.wait4(ended.si_pid, 0)[2]
        used += usage.ru_utime + usage.ru_stime


def wrong_marks(cases: Iterable[submitted.Case], rows: Iterable[dict[str, str]]) -> list[str]:
    """Return a line about every mark or misconception that is not due, missing or too many."""
    found, wrong = {(row["student"], row["exercise"]): row for row in rows}, []
    for case in cases:
        for exercise, due in case.due.items():
            row = found.pop((case.name, exercise), None)
            if row is None:
                wrong.append(f"{case.name}: {exercise} has no row")
                continue
            named = case.like.get(exercise, row["misconception"])
            if row["outcome"] not in due or row["misconception"] != named:
                said = " ".join((row["outcome"], row["misconception"], row["message"]))
                wrong.append(f"{case.name}: {exercise} {said}; due is {due} {named}".rstrip())
    return wrong + [f"{student}: {exercise} was not asked" for student, exercise in found]


def reports(out: Path) -> dict[str, bytes]:
    """Return what a grading wrote, by name; its journal is in the order of the work."""
    paths = [path for path in sorted(out.rglob("*")) if path.is_file()]
    kept = [path for path in paths if path.suffix not in (".journal", ".log")]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in kept}


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Return the names of files that are not the same in both, or not there."""
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def trial(cases: Sequence[submitted.Case], folder: Path, seconds: float) -> list[str]:
    """Hand in and grade in three ways; print what happened, return what is wrong."""
    school, thirds = folder / "school", [len(cases) // 3, 2 * len(cases) // 3]
    for case in cases:
        case.write(school)
    options = ["--seconds", f"{seconds:g}"]
    whole = grade(school, Run("whole", folder / "1"), options)
    again = grade(school, Run("one at a time", folder / "2"), [*options, "--workers", "1"])
    killed = grade(school, Run("killed, resumed", folder / "3"), options, thirds)
    rows = json.loads((whole.out / "r.json").read_text(encoding="utf-8"))["rows"]
    wrong, first = wrong_marks(cases, rows), reports(whole.out)
    for run in (again, killed):
        wrong += [f"{run.name}: {name} differs" for name in differing(first, reports(run.out))]
    for case in cases:
        cost = again.costs.get(case.name)
        if cost is None:
            if not isinstance(case.notebook, Path):  # a link is refused, unread
                wrong.append(f"{case.name}: nobody knows what it cost")
            continue
        for (what, most), seconds in zip(MOST.items(), cost, strict=True):
            if seconds > most:
                wrong.append(f"{case.name}: {seconds:.2f} s of processor time for {what}")
    wrong += [
        f"{run.name}: the command held {run.most:.0f} MB"
        for run in (whole, again, killed)
        if run.most > HOLDS
    ]
    print(_table(cases, rows, again.costs), end="\n\n")
    head = ("run", "seconds", "judged at its ends", "files", "MB")
    lines = [
        (r.name, f"{r.seconds:.0f}", r.judged, len(reports(r.out)), f"{r.most:.0f}")
        for r in (whole, again, killed)
    ]
    print(tabulate(lines, head), end="\n\n")
    return wrong


def _table(
    cases: Sequence[submitted.Case], rows: Sequence[dict], costs: dict[str, np.ndarray]
) -> str:
    """Return a line for each kind of submission: how many, their marks, their processor time."""
    kinds: dict[str, list[str]] = {}
    for case in cases:
        kinds.setdefault(re.match("[a-z]+", case.name)[0], []).append(case.name)
    lines = []
    for kind, names in kinds.items():
        marks = "".join(sorted(row["outcome"] for row in rows if row["student"] in names))
        counts = " ".join(f"{mark}{marks.count(mark)}" for mark in dict.fromkeys(marks))
        line = [kind, len(names), counts]
        known = np.array([costs.get(name, np.zeros(len(MOST))) for name in names])
        for seconds in (*known.T, known.sum(axis=1)):
            line.append(f"{np.median(seconds):.2f} {seconds.max():.2f} {names[seconds.argmax()]}")
        lines.append(line)
    lines.append(["all", len(cases), len(rows), *[""] * (len(MOST) + 1)])
    head = [f"s for {what}: median, worst" for what in (*MOST, "all of it")]
    return tabulate(lines, ("kind", "notebooks", "marks", *head))


def main(arguments: list[str] | None = None) -> int:
    """Hold the trial; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a pattern in the submissions' names")
    parser.add_argument("--seconds", type=float, default=60, help="limit of a notebook, 60")
    options = parser.parse_args(arguments)
    handed_in = [*submitted.submissions(), *submitted.links()]
    cases = [case for case in handed_in if re.search(options.only, case.name)]
    if sys.platform == "linux":  # whoever outlives a killed process there becomes this one's child
        ctypes.CDLL(None).prctl(BECOME_SUBREAPER, 1, 0, 0, 0)
    with TemporaryDirectory() as folder:
        wrong = trial(cases, Path(folder), options.seconds)
    print(*wrong or ["Every mark is due; the three are the same to the byte."], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
