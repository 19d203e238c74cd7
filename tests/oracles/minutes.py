"""How long a lesson takes, by a rule: reading, thinking about its questions, solving.

    python tests/oracles/minutes.py 06 --write

prints the minutes of lessons, all by default, and writes them into the lesson's first cell and the
teacher's guide.

Text is read at ``WORDS`` a minute, visible code at ``LINES`` a minute (blank lines and the set-up
cell left out), each question takes ``QUESTION`` minutes, each exercise ``EXERCISE`` times what it
says; its cells are not counted again, and an exercise on a page beside the lesson not at all.
*Further* are the sections whose heading says "further" or "may be skipped", exercises whose title
does, and exercises that the first cell names. The *main line* is the rest. Both are printed rounded
up to five.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lablib.course.checks.exercises import exercises, lessons
from lablib.teach.editions import Cell, Notebook, part_of, read_notebook

WORDS, LINES, QUESTION, EXERCISE = 200, 20, 1.0, 1.2
FURTHER = re.compile(r"\bfurther\b|may be skipped", re.IGNORECASE)
TIME = re.compile(r"\*\*Time\*\* (.*?) ·")
FOLDER = Path(__file__).parents[2] / "notebooks"


def minutes(notebook: Any, lesson: str) -> tuple[float, float]:
    """Return the minutes of a whole lesson, and those of its main line."""
    named = re.findall(r"\b\d\d[a-z]?\.\d\b", notebook["cells"][0]["source"])
    whole, main = 0.0, 0.0
    for exercise in exercises(lesson):
        if exercise.further:
            continue
        takes = EXERCISE * exercise.minutes
        whole += takes
        main += 0 if exercise.id in named or FURTHER.search(exercise.title) else takes
    for cell, further in own_cells(notebook):
        takes = _takes(cell)
        whole += takes
        main += 0 if further else takes
    return whole, main


def own_cells(notebook: Any) -> Iterator[tuple[Cell, bool]]:
    """Yield a lesson's cells but exercises, and whether each is further."""
    depth_further = 0
    for cell in notebook["cells"]:
        if any(part_of(cell)):
            continue
        heading = re.match(r"(#+) (.*)", cell["source"])
        if cell["cell_type"] == "markdown" and heading:
            depth = len(heading[1])
            if FURTHER.search(heading[2]) and not depth_further:
                depth_further = depth
            elif depth <= depth_further:
                depth_further = depth if FURTHER.search(heading[2]) else 0
        yield cell, bool(depth_further)


def words(cell: Cell) -> int:
    """Return the words of a cell's text."""
    return len(re.findall(r"\w[\w'’-]*", cell["source"]))


def code_lines(cell: Cell) -> int:
    """Return the lines of a cell's code that are not blank; none of the set-up is read."""
    if "setup" in cell["metadata"].get("tags", ()):
        return 0
    return sum(bool(line.strip()) for line in cell["source"].splitlines())


def _takes(cell: Cell) -> float:
    if cell["cell_type"] == "code":
        return code_lines(cell) / LINES
    return words(cell) / WORDS + QUESTION * cell["source"].count("**Question.**")


def rounded(time: float) -> int:
    """Return minutes as they are printed."""
    return 5 * -int(-time // 5)


def printed(notebook: Any, lesson: str) -> str:
    """Return the words in which the lesson should tell its time."""
    whole, main = map(rounded, minutes(notebook, lesson))
    if whole == main:
        return f"{whole} minutes"
    return f"{whole} minutes, {main} without what is marked *further*"


def said(notebook: Any) -> str:
    """Return what the lesson does tell."""
    return TIME.findall(notebook["cells"][0]["source"])[0]


def lesson_of(lesson: str) -> tuple[Path, Notebook]:
    """Return where a lesson lies, and its notebook."""
    path = next(FOLDER.glob(f"{lesson}_*.ipynb"))
    return path, read_notebook(path)


def write(lesson: str) -> None:
    """Write what the lesson should tell into its file and the teacher's guide, nothing else."""
    path, notebook = lesson_of(lesson)
    before, after = said(notebook), printed(notebook, lesson)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(f"**Time** {before} ·", f"**Time** {after} ·", 1), "utf-8")
    guide = FOLDER / "TEACHING.md"
    head, link, rest = guide.read_text(encoding="utf-8").partition(f"]({path.name})\n\n**Time.**")
    guide.write_text(head + link + rest.replace(f" {before}.", f" {after}.", 1), "utf-8")


def main() -> None:
    """Print lessons' minutes; with ``--write`` have the lessons say so."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", default=lessons())
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    for lesson in options.lessons:
        _, notebook = lesson_of(lesson)
        takes, line = minutes(notebook, lesson)
        print(f"{lesson}  whole {takes:5.1f}  main line {line:5.1f}  says {said(notebook)!r}")
        if options.write:
            write(lesson)


if __name__ == "__main__":
    main()
