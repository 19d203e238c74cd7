"""Tells what a process and its children have used: processor time, and where their memory lies.

And how many more of them there may be.
"""

import contextlib
import math
import os
import re
import time
from pathlib import Path
from typing import Any

from lablib.course.checks.running import TOO_MUCH, Gone
from lablib.teach.apart.sandbox import PROCESSES

LOOK = 0.1  # seconds between two looks at what a process has used
BEGIN = 5.0  # seconds of processor time until its first statement: for Python, lablib, its cells
BUSY = 40.0  # seconds by the clock that a second of work may take, where others work, too
TABLES = 64 * 2**20  # bytes of page tables: an honest process needs a few millions


def family(pid: int) -> list[Any]:
    """Return a process and all its children (``psutil.Process``); none once it has ended."""
    import psutil  # JupyterLab has it; who only infers needs none

    with contextlib.suppress(psutil.Error):
        outer = psutil.Process(pid)
        return [outer, *_children(outer)]
    return []


def _children(process: Any) -> list[Any]:
    """Return all children of a process.

    Where Linux lists them a look costs the same however many processes others have: whoever looks
    does so in an exercise's time. psutil asks each process there is for its parent.
    """
    import psutil

    listed = _of_threads(process.pid, "children")
    if not listed:
        return process.children(recursive=True)
    numbers = " ".join(listed).split()
    found = []
    for number in numbers:
        with contextlib.suppress(psutil.Error):
            child = psutil.Process(int(number))
            found += [child, *_children(child)]
    return found


def end_children(pid: int) -> bool:
    """End all children of a process, but not itself; return whether it had any."""
    import psutil

    children = family(pid)[1:]
    for child in children:
        with contextlib.suppress(psutil.Error):
            child.kill()
    return children != []


def worked(processes: list[Any]) -> float | None:
    """Return the seconds of processor time that they have used; None once one has ended."""
    import psutil

    with contextlib.suppress(psutil.Error):
        if processes:
            return sum(sum(each.cpu_times()[:4]) for each in processes)
    return None


def counted(processes: list[Any], name: str) -> int:
    """Return the sum of a number in what Linux tells of them; 0 where it does not.

    ``"VmPTE"`` are the KB of their page tables, which no limit of memory counts, and ``"Threads"``
    what they run, which the kernel does not limit where root grades.
    """
    total = 0
    for each in processes:
        statuses = "".join(_of_threads(each.pid, "status"))  # the first thread's may tell nothing
        told = re.findall(rf"^{name}:\s*(\d+)", statuses, re.MULTILINE)
        total += max(map(int, told), default=0)
    return total


def _of_threads(pid: int, file: str) -> list[str]:
    """Return what Linux tells of each thread of a process; nothing of one that has just ended."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/task/{thread}/{file}").read_text())
    return found


def room() -> float:
    """Return how many processes may still be started in this container, as far as Linux tells.

    Threads count, too. On a system without such a limit it is infinity.
    """
    left = [math.inf]
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kind, inside = line.split(":", 2)
            if kind in ("", "pids"):  # of the second version, and of the first
                own = Path("/sys/fs/cgroup", kind, inside.strip("/"))
                left += [_left(folder) for folder in (own, *own.parents)]
    return min(left)


def _left(group: Path) -> float:
    with contextlib.suppress(OSError, ValueError):  # "max" is no number
        used = int((group / "pids.current").read_text())
        return int((group / "pids.max").read_text()) - used
    return math.inf


class Meter:
    """Counts the processor time of a student's process, and says when it has used too much.

    Args:
        cpu: seconds for one statement, and for one exercise; infinity: nothing is counted.
        statements: seconds for all statements together.

    Attributes:
        patience: seconds by the clock that work is given at most, beyond its limit.
        stated: seconds that it has used until its last statement ended, as of the last look.
        has_begun: whether its first statement has.
        is_stating: whether its statements run, and not an exercise.
    """

    def __init__(self, cpu: float, statements: float) -> None:
        self.cpu, self.statements = cpu, statements
        self.patience = BUSY * cpu if cpu < math.inf else 0.0
        self.stated = 0.0
        self.has_begun = self.is_stating = False
        self._first: float | None = None  # what it had used at the first look
        self._start: float | None = None  # what it had used when its statements began
        self._next_look = time.monotonic() + LOOK
        self.ration()

    def ration(self) -> None:
        """Count what it uses from now on."""
        self._before: float | None = None  # what it had used then; the next look says
        self._worked = 0.0  # since then

    def overtime(self) -> float:
        """Return the seconds by the clock that it has more than its limit, for work of its own."""
        return min(BUSY * self._worked, self.patience)

    def look(self, pid: int) -> None:
        """Raise ``Gone`` once it has used up its ration, or too much of what else is counted.

        By the clock it may only be waiting.
        """
        if time.monotonic() < self._next_look:
            return
        everyone = family(pid)
        used = worked(everyone)
        if used is not None:
            self._count(used)
        if counted(everyone, "VmPTE") << 10 > TABLES:
            raise Gone(f"it used more than {TABLES >> 20} MB for where its memory lies")
        if counted(everyone, "Threads") > PROCESSES:
            many = f"it ran more than {PROCESSES} threads"
            raise Gone(f"{many}; MLX keeps one for each thread that used it")
        self._next_look = time.monotonic() + LOOK

    def _count(self, used: float) -> None:
        """Raise ``Gone`` once it has used more than it may by now, which is ``used``."""
        self._first = used if self._first is None else self._first
        if self.has_begun:
            self._before = used if self._before is None else self._before
            self._start = used if self._start is None else self._start
            in_all = self.statements if self.is_stating else math.inf
            bounds = [(self._before, self.cpu), (self._start, in_all)]
        else:
            bounds = [(self._first, max(BEGIN, self.cpu))]
        self._worked = used - bounds[0][0]
        if self.is_stating:
            self.stated = used - self._first
        for before, most in bounds:
            if used - before > most:
                raise Gone(f"it used more than {most:.3g} s of processor time: {TOO_MUCH}")
