"""The judge's desk: each file is judged in a process of its own, and findings come back.

That process reads the file, asks the student's process and compares. Whatever a student's work
makes it do, time and memory are its own: who takes longer than a file may is ended, and the lines
of JSON that it has said by then stand. Nothing else is read here.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lablib.course.checks.exercises import number_of
from lablib.teach import walls
from lablib.teach.handed_in import unreadable
from lablib.teach.process import Limits, NotStarted, end_family
from lablib.teach.submission import Finding, judge_submission, read_submission

MEMORY = 2**30  # bytes of a judge beside what it begins with: a notebook may have 50 MB
LATE = 30.0  # seconds that a judge may be late, for its start
SLOW = 10  # files of one folder that may take all their time; others are not judged then
SECONDS = 60  # of the processor, to read and to compare all that one file answers


@dataclass(frozen=True)
class Order:
    """A submission to judge."""

    path: str
    name: str  # what messages call it
    whose: str = ""  # files of one have a limit of time together
    lessons: Sequence[str] = ()  # the only ones that are asked for, if any
    score: dict[str, Any] | None = None  # what ``plays.play`` is told, if it is to be scored


def judge(
    orders: Iterable[Order], limits: Limits, workers: int
) -> Iterator[tuple[Order, dict[str, Any]]]:
    """Have submissions judged; yield each with what was said of it, in any order.

    That is ``findings`` by exercise, ``unreadable``, or what ``plays.play`` says. Whoever
    closes the iterator leaves no process behind.
    """
    busy: set[subprocess.Popen] = set()
    took: Counter[str] = Counter()  # seconds by the clock, of a folder's files
    pool = ThreadPoolExecutor(workers)

    def judged(order: Order) -> dict[str, Any]:
        if took[order.whose] > SLOW * limits.seconds:
            most = f"{SLOW * limits.seconds:g} s"
            return {"unreadable": f"is not judged: other files there took {most}"}
        began = time.monotonic()
        found = _told(order, limits, busy)
        if order.whose:
            took[order.whose] += time.monotonic() - began
        return found

    try:
        work = {pool.submit(judged, order): order for order in orders}
        for done in as_completed(work):
            yield work[done], done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        while busy:  # one that a thread was about to start, too
            for process in [*busy]:
                end_family(process.pid)
            time.sleep(0.01)


def _told(order: Order, limits: Limits, busy: set[subprocess.Popen]) -> dict[str, Any]:
    """Return what a process says of a submission, and of what it could not say why."""
    data = json.dumps({"order": asdict(order), "limits": asdict(limits)}) + "\n"
    process = subprocess.Popen(
        walls.command("desk", str(limits.memory if order.score else MEMORY)),  # models are read
        start_new_session=True,
        env={**os.environ, **walls.OURS},  # MLX' kernels stay among the teacher's temporary files
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    busy.add(process)
    try:
        out, _ = process.communicate(data.encode(), timeout=limits.seconds + LATE)
        end = f"it ended (exit code {process.returncode})"
    except subprocess.TimeoutExpired:
        end_family(process.pid)
        out, _ = process.communicate()
        end = f"it took longer than {limits.seconds:g} s"
    finally:
        busy.discard(process)
    found: dict[str, Any] = {}
    findings: dict[str, Any] = {}
    for line in out[: out.rfind(b"\n") + 1].splitlines():  # whole ones
        found |= json.loads(line)
        findings |= found.pop("findings", {})
    if "done" not in found:
        why = f"its file wore its judge out: {end}"
        lost = ["!", "", f"not judged: {why}"]
        findings = dict.fromkeys(found.get("asked", []), lost) | findings
        if not findings:
            found["unreadable"] = f"could not be judged: {why}"
    return found | {"findings": findings}


def grade(order: Order, limits: Limits, say: Callable[[dict[str, Any]], None]) -> None:
    """Judge a submission; tell what is found of each exercise."""
    path = Path(order.path)
    try:
        work = read_submission(path)
    except Exception as error:  # whatever is in the file, it gets a row
        say({"unreadable": unreadable(error, path, order.name)})
        return
    only = order.lessons
    work.exercises[:] = [e for e in work.exercises if not only or number_of(e) in only]
    told = {id_: text for id_, text in work.explained.items() if id_ in work.exercises}
    say({"predicted": work.predicted, "explained": told, "asked": work.exercises})

    def tell(exercise: str, finding: Finding) -> None:
        said = [finding.outcome, finding.misconception, finding.message]
        say({"findings": {exercise: said}})

    for each in judge_submission(work, limits, tell).items():
        tell(*each)


def main(memory: str) -> None:
    """Do what the order on the line says; end with who gave it."""
    import resource

    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is printed must not get in between
    with contextlib.suppress(OSError, ValueError):  # macOS can't
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + int(memory)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    warnings.simplefilter("ignore")  # an overflow in a wrong answer is no news

    def say(message: dict[str, Any]) -> None:
        line.write(json.dumps(message) + "\n")
        line.flush()

    told = json.loads(sys.stdin.readline())
    order, limits = Order(**told["order"]), Limits(**told["limits"])
    try:
        if order.score:
            from lablib.teach.plays import play

            say(play(**order.score, limits=limits))
        else:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            grade(order, limits, say)
    except NotStarted as error:
        say({"unreadable": f"could not be judged: {error}"})
    say({"done": True})
