"""The teacher's table of capstones: every submission on seeds that nobody has seen.

The seeds are a hash of a secret, so the same secret gives the same table. All students play the
same problems, with the same samples and the same random numbers. A student's function runs in a
process of its own (see ``player``), which is asked case by case: it sees neither the seeds nor the
answers. It is no sandbox: it has your account's rights, so run strangers' code in a container.
"""

import csv as tables
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lablib.classroom.player import Lost, Player
from lablib.lessons.lesson_16.board import CAPSTONES
from lablib.lessons.lesson_16.scores import Foul, Score
from lablib.lessons.lesson_16.texts import number
from lablib.validation import BadValue
from lablib.validation import number as positive

HEAD = ("capstone", "place", "student", "score", "low", "high", "made of", "note")


@dataclass(frozen=True)
class Result:
    """What became of one student's function: a score, or a note that says why there is none."""

    capstone: str
    student: str
    score: Score | None
    note: str = ""


@dataclass(frozen=True)
class Table:
    """All results, in order: by capstone, the best first, equal scores in one place.

    Attributes:
        results: as they came.
        secret: what the seeds were made from; with it the table can be had again.
    """

    results: list[Result]
    secret: str

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Return the rows under :data:`HEAD`."""
        rows = []
        for capstone in CAPSTONES:
            mine = [one for one in self.results if one.capstone == capstone]
            mine.sort(key=lambda one: (-one.score.value if one.score else 1, one.student))
            values = [one.score.value for one in mine if one.score]
            for one in mine:
                if one.score is None:
                    rows.append((capstone, "", one.student, "", "", "", "", one.note))
                    continue
                place = 1 + sum(value > one.score.value for value in values)
                numbers = (f"{x:.4f}" for x in (one.score.value, one.score.low, one.score.high))
                rows.append((capstone, str(place), one.student, *numbers, one.score.made_of, ""))
        return rows

    def __repr__(self) -> str:
        table = [HEAD, *self.rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(HEAD))]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)
        return "\n".join([*lines, f"seeds: --seed {self.secret}"])

    def write_csv(self, path: str | Path) -> None:
        """Write every row to a CSV file with a header (UTF-8 with a mark, so Excel reads it)."""
        with open(path, "w", newline="", encoding="utf-8-sig") as file:
            writer = tables.writer(file)
            writer.writerow(HEAD)
            writer.writerows(self.rows)


def score_folder(
    folder: str | Path, secret: str, *, seconds: float = 60.0, csv: Path | None = None
) -> Table:
    """Score every submission below a folder on every capstone.

    Args:
        folder: ``FOLDER/student/file`` or ``FOLDER/student.ipynb``; notebooks and Python files.
            Of a student's files the first that has the function counts.
        secret: any text; the seeds are made from it.
        seconds: time limit of one function's calls, all together.
        csv: a file to write the table to, too.

    Raises:
        ValueError: there is no such folder, or nothing in it.
        OSError: ``csv`` can't be written.
    """
    folder, seconds = Path(folder), positive("seconds", seconds, 0.1)
    if not folder.is_dir():
        raise BadValue(f"folder must be a folder of submissions, got {str(folder)!r}")
    files: dict[str, list[Path]] = {}
    for path in sorted([*folder.rglob("*.ipynb"), *folder.rglob("*.py")]):
        inside = path.relative_to(folder)
        if not any(part.startswith(".") for part in inside.parts):
            student = inside.parent.as_posix() if inside.parent.parts else path.stem
            files.setdefault(student, []).append(path)
    if not files:
        raise BadValue(f"folder must hold notebooks or Python files, got none in {str(folder)!r}")
    if csv is not None:
        Path(csv).touch()  # refused before the work, not after it
    table = Table([*_results(files, secret, seconds)], secret)
    if csv is not None:
        table.write_csv(csv)
    return table


def _results(files: dict[str, list[Path]], secret: str, seconds: float) -> Iterator[Result]:
    for capstone, game in CAPSTONES.items():
        world = game.world(number("hidden", secret, capstone))
        for student, paths in sorted(files.items()):
            yield _result(capstone, game, world, student, paths, seconds)


def _result(
    capstone: str, game: Any, world: Any, student: str, paths: list[Path], seconds: float
) -> Result:
    note = f"no function {game.FUNCTION}"
    for path in paths:
        try:
            with Player(path, game.FUNCTION, seconds) as function:
                return Result(capstone, student, game.play(function, world))
        except (Lost, Foul) as problem:
            if str(problem) == note:
                continue
            return Result(capstone, student, None, str(problem))
    return Result(capstone, student, None, note)
