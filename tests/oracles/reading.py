"""How long a lesson takes, counted: words that are read, questions, and the exercises' minutes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lablib.classroom.editions import part_of
from lablib.classroom.exercises import exercises

import nbformat

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
WORDS = 200  # a minute, of prose and of code
SKIP = "(may be skipped)"


def lesson(number: str) -> Any:
    """Return the notebook of a lesson, as nbformat reads it."""
    return nbformat.read(next(NOTEBOOKS.glob(f"{number}_*.ipynb")), as_version=4)


def minutes(number: str, skipping: bool = False) -> int:
    """Return how long a lesson takes, in minutes, rounded up to five.

    Args:
        number: its two digits.
        skipping: without the sections whose heading says that they may be skipped.
    """
    notebook = lesson(number)
    texts = [cell.source for cell in (_needed(notebook) if skipping else _read(notebook))]
    words = sum(len(re.findall(r"\w[\w'’-]*", text)) for text in texts)
    questions = sum(text.count("**Question.**") for text in texts)
    asked = [each for each in exercises(number) if not (skipping and SKIP in each.title)]
    needed = words / WORDS + questions + sum(exercise.minutes for exercise in asked)
    return 5 * -int(-needed // 5)


def to_state(number: str) -> list[int]:
    """Return the minutes that the first cell has to state; both where it takes over an hour."""
    whole = minutes(number)
    return [whole] if whole <= 60 else [whole, minutes(number, skipping=True)]


def stated(number: str) -> list[int]:
    """Return the minutes that the first cell states: all, then (if it says so) without skips."""
    time = re.search(r"\*\*Time\*\*(.*?)·", lesson(number).cells[0].source)[1]
    return [int(each) for each in re.findall(r"\d+", time)]


def _read(notebook: Any) -> Iterator[Any]:
    """Yield the cells that are read: all but an exercise's own, whose minutes count them."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" or part_of(cell)[0] is None:
            yield cell


def _needed(notebook: Any) -> Iterator[Any]:
    skipping = False
    for cell in _read(notebook):
        headings = re.findall(r"^##.*", cell.source, re.M) if cell.cell_type == "markdown" else []
        if headings:
            skipping = SKIP in headings[-1]
        if not skipping:
            yield cell
