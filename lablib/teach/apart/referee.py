"""The referee: a process that reads a submission, asks the student's process, and judges.

Orders come in and verdicts go out, a line of JSON each. Whatever a student's work makes it do, time
and memory are this process' own: ``desk`` ends it, and does not wait for it.
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

from lablib.course.checks.exercises import find
from lablib.teach import alike
from lablib.teach.apart import sandbox
from lablib.teach.apart.remote import Limits, NotStarted
from lablib.teach.handed_in import digest, unreadable
from lablib.teach.submission import CELLS, Finding, judge_submission, read_submission

Say = Callable[[dict[str, Any]], None]


def grade(order: dict[str, Any], limits: Limits, say: Say) -> None:
    """Judge a submission; tell of each exercise before it begins, and what was found of it.

    Args:
        order: ``path``, and ``name``, what messages call it; ``lessons`` and ``only``, to which
            exercises are left, if not empty; ``notes``, what is found already; ``struck``, why
            exercises are not judged (again); ``over``, why nothing is; ``known``, the digest of a
            file that has its verdict.
        limits: of the student's process.
        say: sends a message.
    """
    path = Path(order["path"])
    # Of what is there before it is read: a file that changes meanwhile is judged again.
    found = digest(path)
    say({"digest": found})
    if found and found == order["known"]:
        say({"end": {"same": found}})
        return
    try:
        work = read_submission(path)
    except Exception as error:  # whatever is in the file, it gets a row
        say({"end": {"unreadable": unreadable(error, path, order["name"])}})
        return
    work = work.only(order["lessons"], order["only"])
    known = {exercise: Finding(*note) for exercise, note in order["notes"].items()}

    def tell(exercise: str, finding: Finding | None) -> None:
        say(
            {"at": exercise} if finding is None else {"note": [exercise, *asdict(finding).values()]}
        )

    verdicts = judge_submission(work, limits, tell, known, order["struck"], order["over"])
    forms: dict[str, str] = {}
    if not order["over"]:  # if reading them has worn a referee out, no other one tries
        sources = [source for _, source in work.cells]
        forms = {id_: alike.form(sources, find(id_).name) for id_ in verdicts}
    told = {id_: [*asdict(finding).values()] for id_, finding in verdicts.items()}
    say({"end": told, "forms": forms, "predicted": work.predicted})


def score(order: dict[str, Any], limits: Limits, say: Say) -> None:
    """Score a capstone; ``order`` has ``score``, what is played, and ``over``, why nothing is."""
    from lablib.teach.capstones import play

    say({"at": CELLS})
    say(
        {"end": {"note": order["over"]} if order["over"] else play(**order["score"], limits=limits)}
    )


TASKS = {"grade": grade, "score": score}


def main(memory: str) -> None:
    """Do what the orders on the line say, until there are none."""
    sandbox.end_with_parent()
    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is printed must not get in between
    sandbox.limit_memory(int(memory))
    warnings.simplefilter("ignore")  # an overflow in a wrong answer is no news

    def say(message: dict[str, Any]) -> None:
        line.write(json.dumps(message) + "\n")
        line.flush()

    for order in map(json.loads, sys.stdin):
        limits = Limits(**{**order["limits"], "hide": tuple(order["limits"]["hide"])})
        with contextlib.suppress(BrokenPipeError):
            try:
                TASKS[order["task"]](order, limits, say)
            except NotStarted as error:
                say({"short": str(error)})
