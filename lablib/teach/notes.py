"""The notes of a teacher's edition, made from the exercises themselves."""

import inspect
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from lablib.course.checks.exercises import find
from lablib.teach.editions import Cell


def lesson_notes(ids: Iterable[str]) -> Cell:
    """Return a cell with a table of a lesson's exercises: difficulty, minutes, points."""
    exercises = [find(id_) for id_ in sorted(ids)]
    rows = [
        f"| {e.id} | {e.title} | {e.difficulty} | {e.minutes} | {e.stars} | {len(e.wrong)} |"
        for e in exercises
    ]
    minutes, points = sum(e.minutes for e in exercises), sum(e.stars for e in exercises)
    lines = [
        "**Teacher's edition.** Every exercise is solved; below each one stand the wrong answers "
        "that `check` and `grade` know by name, and what to talk about.",
        "",
        "| | Exercise | Difficulty | Minutes | Points | Known wrong answers |",
        "|---|---|---|---|---|---|",
        *rows,
        f"| | together | | {minutes} | {points} | {sum(len(e.wrong) for e in exercises)} |",
    ]
    return _cell("teacher", lines)


def exercise_notes(id_: str) -> Cell:
    """Return the cell that stands below an exercise: its wrong answers and its discussion."""
    exercise = find(id_)
    lines = [
        f"#### For the teacher · {exercise.id} {exercise.title}",
        f"{exercise.difficulty} · {exercise.minutes} minutes · points: {exercise.stars}",
        "",
        "**Wrong answers**, by the names that `grade` calls them, and what students are told:",
        "",
        *(f"- `{name}`: {text}" for name, text in exercise.misconceptions.items()),
        "",
        "**To discuss.** Show one of them, without its name. Who finds an input for which it "
        "differs from the solution? What did its author believe?",
    ]
    lines += [f"Who is done may go on: {exercise.next}"] if exercise.next else []
    lines += ["", "**Hints**, in the order in which students get them:", ""]
    lines += [f"{number}. {text}" for number, text in enumerate(exercise.hints, 1)]
    lines += _folded("Right answers written differently", exercise.alternatives)
    lines += _folded("The wrong answers as code", exercise.wrong)
    return _cell(f"exercise-{id_.replace('.', '-')}-teacher", lines)


def _folded(title: str, functions: Iterable[Callable[..., Any]]) -> list[str]:
    code = "\n\n\n".join(textwrap.dedent(inspect.getsource(f)).rstrip() for f in functions)
    block = ["```python", code, "```"]
    return ["", f"<details><summary>{title}</summary>", "", *block, "", "</details>"]


def _cell(id_: str, lines: list[str]) -> Cell:
    return {"cell_type": "markdown", "id": id_, "metadata": {}, "source": "\n".join(lines)}
