"""The teacher's report: who solved what, from a folder of submitted notebooks.

Each notebook is judged (see ``submission``) in a fresh process, in an empty folder, with a time
limit: a broken or endless notebook costs a row, never the report. It is no sandbox: a hostile
notebook can do what your account can do, so grade strangers' work in a container.
"""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from lablib.classroom.editions import Notebook, part_of, read_notebook
from lablib.classroom.exercises import exercises, lessons
from lablib.validation import BadValue, number

RANK = {"!": 0, "○": 1, "✗": 2, "✓": 3}  # of several verdicts on one exercise the best counts


@dataclass(frozen=True)
class ExerciseRow:
    """One exercise of one submitted notebook.

    Attributes:
        student: the folder that the notebook lies in, or its own name at the top of the folder.
        notebook: its path within the graded folder.
        exercise: the exercise's id, ``"-"`` when the notebook can't be read.
        outcome: ``✓``, ``✗``, ``○``, or ``!`` when it could not be judged.
        misconception: the name of the wrong answer that it looks like, or empty.
        message: what the student was told, on one line.
    """

    student: str
    notebook: str
    exercise: str
    outcome: str
    misconception: str
    message: str


@dataclass(frozen=True)
class GradeReport:
    """All rows; prints as a table."""

    rows: list[ExerciseRow]

    def __repr__(self) -> str:
        names = ["student", "exercise", "outcome", "misconception", "message"]
        table = [names, *([getattr(row, name) for name in names] for row in self.rows)]
        widths = [max(len(line[i]) for line in table) for i in range(4)]
        lines = ["  ".join([*map(str.ljust, line, widths), line[4][:80]]) for line in table]
        solved = sum(row.outcome == "✓" for row in self.rows)
        return "\n".join([*(line.rstrip() for line in lines), f"{solved} of {len(self.rows)} ✓"])

    def write_csv(self, path: str | Path) -> None:
        """Write every row to a CSV file with a header (UTF-8 with a mark, so Excel reads it)."""
        with open(path, "w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(ExerciseRow)])
            writer.writeheader()
            writer.writerows(asdict(row) for row in self.rows)


def grade(
    folder: str | Path,
    csv: str | Path | None = None,
    *,
    seconds: float = 60.0,
    workers: int | None = None,
) -> GradeReport:
    """Grade every notebook below a folder.

    Args:
        folder: ``FOLDER/student/notebook.ipynb`` or ``FOLDER/student.ipynb``.
        csv: a file to write the table to, too.
        seconds: time limit for one notebook.
        workers: notebooks graded at the same time; one per processor when ``None``.
    """
    folder = Path(folder)
    seconds = number("seconds", seconds, 0.1)
    if not folder.is_dir():
        raise BadValue(f"folder must be a folder of notebooks, got {str(folder)!r}")
    paths = [
        path for path in sorted(folder.rglob("*.ipynb")) if ".ipynb_checkpoints" not in path.parts
    ]
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        results = pool.map(lambda path: list(_rows(folder, path, seconds)), paths)
        report = GradeReport([row for rows in results for row in rows])
    if csv is not None:
        report.write_csv(csv)
    return report


def _rows(folder: Path, path: Path, seconds: float) -> Iterator[ExerciseRow]:
    inside = path.relative_to(folder)
    student = inside.parent.as_posix() if inside.parent.parts else path.stem
    try:
        wanted = _wanted(read_notebook(path), path.name)
        found, accident = _run_apart(path, seconds)
    except Exception as error:  # whatever is in the file, it gets a row
        reason = f"can't be read: {type(error).__name__}: {error}".splitlines()[0]
        yield ExerciseRow(student, inside.as_posix(), "-", "!", "", reason)
        return
    missing = {"outcome": "!", "misconception": "", "message": accident}
    for exercise in wanted:
        yield ExerciseRow(student, inside.as_posix(), exercise, **found.get(exercise, missing))


def _wanted(notebook: Notebook, name: str) -> list[str]:
    """Return the ids of all exercises of the lessons this notebook is about."""
    numbers = {id_[:2] for cell in notebook["cells"] if (id_ := part_of(cell)[0])}
    if not numbers and (found := re.match(r"\d\d", name)):
        numbers = {found[0]}
    wanted = [e.id for number in sorted(numbers & {*lessons()}) for e in exercises(number)]
    if not wanted:
        raise ValueError("it has no exercise of this course")
    return wanted


def _run_apart(path: Path, seconds: float) -> tuple[dict[str, dict[str, str]], str]:
    """Judge a notebook in another process; return what it found and what went wrong, if anything.

    The process works in an empty folder and writes one line per verdict, so that what was judged
    before a crash or the time limit still counts.
    """
    with tempfile.TemporaryDirectory() as empty:
        out = Path(empty, "verdicts.jsonl")
        module = ["-m", "lablib.classroom.submission"]
        command = [sys.executable, *module, str(path.resolve()), str(out)]
        accident = "the notebook was not judged to its end"
        try:
            done = subprocess.run(
                command,
                cwd=empty,
                timeout=seconds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "MPLBACKEND": "Agg"},
            )
            if done.returncode:
                last = done.stderr.strip().splitlines()[-1:] or ["no message"]
                accident = f"its process ended with {done.returncode}: {last[0]}"
        except subprocess.TimeoutExpired:
            accident = f"it ran longer than {seconds:g} s"
        lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        exercise, verdict = json.loads(line)
        best = found.get(exercise)
        if best is None or RANK[verdict["outcome"]] > RANK[best["outcome"]]:
            found[exercise] = verdict
    return found, accident
