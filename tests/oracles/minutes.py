"""How long a lesson takes: reading, thinking about its questions, solving its exercises."""

import re
from typing import Any

from lablib.course.checks.exercises import exercises
from lablib.teach.editions import part_of

WORDS_A_MINUTE = 200
SKIPPABLE = "(may be skipped)"


def minutes(notebook: Any, lesson: str) -> tuple[float, float]:
    """Return the minutes of a whole lesson, and those without what may be skipped.

    Text and code are read at 200 words a minute, and each question takes a minute. An exercise
    takes what it says; its cells are not counted again. Skipped are the sections and exercises
    whose headings say so, and the exercises that the first cell names.
    """
    named = re.findall(r"\b\d\d\.\d\b", notebook.cells[0].source)
    whole, skipped = 0.0, 0.0
    for exercise in exercises(lesson):
        whole += exercise.minutes
        skipped += exercise.minutes * (exercise.id in named or SKIPPABLE in exercise.title)
    depth_skipped = 0
    for cell in notebook.cells:
        if any(part_of(cell)):
            continue
        if cell.cell_type == "markdown" and (heading := re.match(r"(#+) (.*)", cell.source)):
            depth = len(heading[1])
            if SKIPPABLE in heading[2]:
                depth_skipped = depth
            elif depth <= depth_skipped:
                depth_skipped = 0
        words = re.findall(r"\w[\w'’-]*", cell.source)
        takes = len(words) / WORDS_A_MINUTE + cell.source.count("**Question.**")
        whole += takes
        skipped += takes if depth_skipped else 0.0
    return whole, whole - skipped
