"""The teacher's table of capstones: every submission on seeds that nobody has seen.

The seeds are hashes of a secret, so the same secret gives the same table. All students play the
same problems, with the same samples and the same random numbers; so two of them are compared
problem by problem, and the table says how far each is from the first, with an interval.
"""

import csv as tables
import io
import pickle
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lablib.course.lessons.lesson_16.board import CAPSTONES
from lablib.course.lessons.lesson_16.scores import Difference, Score
from lablib.course.lessons.lesson_16.texts import number
from lablib.folders import replacing
from lablib.teach.desk import Order, judge
from lablib.teach.grade import check_reports, need_walls
from lablib.teach.handed_in import clean
from lablib.teach.process import Limits
from lablib.teach.reports import no_formula
from lablib.teach.roster import owners, submissions
from lablib.validation import BadValue
from lablib.validation import number as positive

LONGEST = 200  # letters of a note
SEEDS = 3  # that each capstone is played on
HEAD = (
    "capstone", "place", "student", "score", "low", "high", "to the first", "made of", "note",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """The result of one student's function: a score, or a note that says why there is none."""

    capstone: str
    student: str
    score: Score | None
    note: str = ""


@dataclass(frozen=True)
class Table:
    """All results, in order: by capstone, the best first, equal scores in one place."""

    results: list[Result]  # as they came
    secret: str  # what the seeds were made from; with it the table can be had again

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
                    rows.append((capstone, "", one.student, *[""] * 5, one.note))
                    continue
                place = 1 + sum(value > one.score.value for value in values)
                numbers = (f"{x:.4f}" for x in (one.score.value, one.score.low, one.score.high))
                apart = repr(Difference.of(one.score, mine[0].score)) if place > 1 else ""
                rows.append(
                    (capstone, str(place), one.student, *numbers, apart, one.score.made_of, "")
                )
        return rows

    def __repr__(self) -> str:
        from tabulate import tabulate

        table = tabulate(self.rows, HEAD, tablefmt="plain", disable_numparse=True)
        return f"{table}\nseeds: --seed {self.secret}"

    def write_csv(self, path: Path) -> None:
        """Write every row to a CSV file with a header (UTF-8 with a mark, so Excel reads it)."""
        text = io.StringIO(newline="")
        writer = tables.writer(text)
        writer.writerow(HEAD)
        for *front, student, score, low, high, apart, made_of, note in self.rows:
            texts = [no_formula(each) for each in (student, apart, note)]
            writer.writerow([*front, texts[0], score, low, high, texts[1], made_of, texts[2]])
        with replacing(path) as file:
            file.write_text(text.getvalue(), encoding="utf-8-sig", newline="")


def score_folder(
    folder: str | Path,
    secret: str,
    *,
    seconds: float = 120.0,
    csv: Path | None = None,
    walls: bool = True,
) -> Table:
    """Score every submission below a folder on every capstone.

    Args:
        folder: ``FOLDER/student/notebook.ipynb`` or ``FOLDER/student.ipynb``; ``.py`` files, too.
            Of a student's files the first that has the function counts.
        secret: any text; the seeds are made from it.
        seconds: time limit for one function: to load it, and for its calls, all together.
        csv: a file to write the table to, too; as far as it came where it is stopped.
        walls: whether students' code is kept in.

    Raises:
        ValueError: there is no such folder, or nothing in it.
        OSError: ``csv`` can't be written.
    """
    folder, seconds = Path(folder), positive("seconds", seconds, 0.1, 1e5)
    if not folder.is_dir():
        raise BadValue(f"folder must be a folder of submissions, got {str(folder)!r}")
    outputs = [] if csv is None else [Path(csv)]
    check_reports(outputs)
    files: dict[str, list[str]] = {}
    whose = owners("folder", {})
    for path in submissions(folder):
        student, _ = whose(path.relative_to(folder).as_posix())
        files.setdefault(student, []).append(str(path))
    if not files:
        raise BadValue(f"folder must hold notebooks or Python files, got none in {str(folder)!r}")
    for path in outputs:
        Table([], secret).write_csv(path)  # refused before the work, not after it
    need_walls(walls)
    hide = [str(path.resolve()) for path in (folder, *outputs)]
    limits = Limits(seconds, seconds, hide=hide, has_walls=walls)
    results: dict[tuple[str, str], Result] = {}
    with TemporaryDirectory() as worlds:
        orders = _orders(files, secret, Path(worlds))
        for capstone, student in orders:
            results[capstone, student] = Result(capstone, student, None)
        try:
            with closing(judge(orders.values(), limits, 1)) as verdicts:
                for order, verdict in verdicts:
                    key = order.score["capstone"], order.name
                    found = verdict.get("score")
                    score = Score(*found[:-1], tuple(found[-1])) if found is not None else None
                    note = verdict.get("note", verdict.get("unreadable", ""))
                    results[key] = Result(*key, score, clean(note)[:LONGEST])
        finally:  # whoever stops it has what was scored
            table = Table([*results.values()], secret)
            for path in outputs:
                table.write_csv(path)
    return table


def _orders(files: dict[str, list[str]], secret: str, worlds: Path) -> dict[tuple[str, str], Order]:
    """Return an order for each capstone and student; ``worlds`` gets what all of them play."""
    orders = {}
    for capstone, game in CAPSTONES.items():
        played = worlds / capstone
        seeds = [number("hidden", secret, capstone, i) for i in range(SEEDS)]
        played.write_bytes(pickle.dumps([*map(game.world, seeds)]))
        for student, paths in sorted(files.items()):
            told = {"capstone": capstone, "world": str(played), "paths": paths}
            orders[capstone, student] = Order(paths[0], student, score=told)
    return orders
