"""The judge's desk: each file goes to a process of its own, and findings come back.

Nothing is computed here: short lines of JSON are all that is read, and who takes longer than a file
may is ended, with the student's process that it asks.
"""

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from typing import Any

from lablib.teach import walls
from lablib.teach.process import Limits, end_family

MEMORY = 2**30  # bytes of a referee beside what it begins with: a notebook may have 50 MB
LATE = 30.0  # seconds that a referee may be late, for its start
SLOW = 10  # files of one folder that may take all their time; others are not judged then
TRIES = 3  # to start a student's process: others may have taken the room by now


@dataclass(kw_only=True)
class Order:
    """A submission to judge.

    Attributes:
        path: of the file.
        name: what messages call it.
        lessons: numbers of the only lessons that are asked for; all when empty.
        only: ids of the only exercises that are asked for; all when empty.
        task: ``"grade"`` or ``"score"``.
        score: the capstone, its world and the student's files, if it is to be scored.
        whose: files of one have a limit of time together.
    """

    path: str
    name: str
    lessons: list[str] = field(default_factory=list)
    only: list[str] = field(default_factory=list)
    task: str = "grade"
    score: dict[str, Any] = field(default_factory=dict)
    whose: str = ""


def judge(
    orders: Iterable[Order], limits: Limits, workers: int
) -> Iterator[tuple[Order, dict[str, Any]]]:
    """Have submissions judged; yield each with what was said of it, in any order.

    That is ``findings`` by exercise, ``unreadable``, or what ``score`` says. Whoever closes the
    iterator leaves no process behind.

    Args:
        orders: what to judge.
        limits: of each.
        workers: how many at the same time.
    """
    busy: set[subprocess.Popen] = set()
    took: Counter[str] = Counter()  # seconds by the clock, of a folder's files
    pool = ThreadPoolExecutor(workers)
    try:
        work = {pool.submit(_judged, order, limits, busy, took): order for order in orders}
        for done in as_completed(work):
            yield work[done], done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        while busy:  # one that a thread was about to start, too
            for process in [*busy]:
                end_family(process.pid)
            time.sleep(0.01)


def _judged(
    order: Order, limits: Limits, busy: set[subprocess.Popen], took: Counter[str]
) -> dict[str, Any]:
    """Return what a referee says of a submission, and of what it could not say why."""
    if took[order.whose] > SLOW * limits.seconds:
        return {"unreadable": f"is not judged: other files there took {SLOW * limits.seconds:g} s"}
    began = time.monotonic()
    for _ in range(TRIES):
        said, end = _asked(order, limits, busy)
        short = next((each["short"] for each in said if "short" in each), "")
        if not short:
            break
        time.sleep(1.0)
    if order.whose:
        took[order.whose] += time.monotonic() - began
    found: dict[str, Any] = {}
    for each in said:
        if "exercise" in each:
            found.setdefault("findings", {})[each["exercise"]] = each["finding"]
        else:
            found |= each
    if "done" not in found:
        why = short or f"its file wore its judge out: {end}"
        if "asked" not in found and "score" not in found:
            found["note"] = found["unreadable"] = f"could not be judged: {why}"
        for exercise in found.get("asked", []):
            lost = ["!", "", f"not judged: {why}"]
            found.setdefault("findings", {}).setdefault(exercise, lost)
    return found


def _asked(
    order: Order, limits: Limits, busy: set[subprocess.Popen]
) -> tuple[list[dict[str, Any]], str]:
    """Return what a referee says, and how it ended."""
    memory = MEMORY if order.task == "grade" else limits.memory  # models are read
    data = json.dumps(asdict(order) | {"limits": asdict(limits)}) + "\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(
        walls.command("referee", str(memory)),
        start_new_session=True,
        env={**os.environ, **walls.OURS},  # MLX' kernels stay among the teacher's temporary files
        **pipes,
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
    whole = out[: out.rfind(b"\n") + 1].splitlines()
    return [json.loads(line) for line in whole], end
