"""The referee: a process that reads one student's file, asks the student's process, and judges.

An order comes in and findings go out, a line of JSON each. Whatever a student's work makes it do,
time and memory are this process' own: ``desk`` ends it, and what it has said by then stands.
"""

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lablib.teach.handed_in import unreadable
from lablib.teach.process import Limits, NotStarted
from lablib.teach.submission import Finding, judge_submission, read_submission

SECONDS = 60  # of the processor, to read and to compare all that one file answers

Say = Callable[[dict[str, Any]], None]


def grade(order: dict[str, Any], limits: Limits, say: Say) -> None:
    """Judge a submission; tell what was found of each exercise.

    Args:
        order: ``path``, and ``name``, what messages call it; ``lessons`` and ``only``, to which
            exercises are left, if not empty.
        limits: of the student's process.
        say: sends a message.
    """
    path = Path(order["path"])
    try:
        work = read_submission(path)
    except Exception as error:  # whatever is in the file, it gets a row
        say({"unreadable": unreadable(error, path, order["name"])})
        return
    work = work.only(order["lessons"], order["only"])
    say({"predicted": work.predicted, "asked": work.exercises})

    def tell(exercise: str, finding: Finding) -> None:
        say({"exercise": exercise, "finding": [*asdict(finding).values()][:3]})

    for each in judge_submission(work, limits, tell).items():
        tell(*each)


def score(order: dict[str, Any], limits: Limits, say: Say) -> None:
    """Score a capstone."""
    from lablib.teach.capstones import play

    say(play(**order["score"], limits=limits))


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

    order = json.loads(sys.stdin.readline())
    if order["task"] == "grade":
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        {"grade": grade, "score": score}[order["task"]](order, Limits(**order["limits"]), say)
        say({"done": True})
    except NotStarted as error:
        say({"short": str(error)})
