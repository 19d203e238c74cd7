"""The teacher's table of capstones: every submission on seeds that nobody has seen.

The seeds are hashes of a secret, so the same secret gives the same table. All students play the
same problems, with the same samples and the same random numbers; so two of them are compared
problem by problem, and the table says how far each is from the first, with an interval.

A student's function runs in a process of its own behind the walls that ``grade`` has (see
``apart``), and is asked case by case: it sees neither the seeds nor the answers, nor what others
handed in. What it answers is scored in another process; here scores are read.
"""

import csv as tables
import io
import pickle
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lablib
from lablib.course.checks.running import Accident, Gone, TimeUp
from lablib.course.lessons.lesson_16 import drafts
from lablib.course.lessons.lesson_16.board import CAPSTONES
from lablib.course.lessons.lesson_16.scores import Difference, Foul, Score
from lablib.course.lessons.lesson_16.texts import number
from lablib.folders import replacing
from lablib.teach.desk import Order, judge
from lablib.teach.grade import need_walls
from lablib.teach.handed_in import clean, code_of, read_cells, unreadable
from lablib.teach.process import Function, Limits, NotStarted, Process
from lablib.teach.reports import no_formula
from lablib.teach.roster import Owners, check_report, owner_of, submissions
from lablib.teach.submission import offered
from lablib.validation import BadValue
from lablib.validation import number as positive

LONGEST = 200  # letters of a note
CAPSTONE = "16.0"  # no exercise: ``check`` knows none of that number
SEEDS = 3  # that each capstone is played on
HEAD = (
    "capstone", "place", "student", "score", "low", "high", "to the first", "made of", "note",
)  # fmt: skip


class Missing(Exception):
    """A file has no such function; the message says why, for a row of the table."""


@dataclass(frozen=True)
class Result:
    """The result of one student's function: a score, or a note that says why there is none."""

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
        table = [HEAD, *self.rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(HEAD))]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)
        return "\n".join([*lines, f"seeds: --seed {self.secret}"])

    def write_csv(self, path: str | Path) -> None:
        """Write every row to a CSV file with a header (UTF-8 with a mark, so Excel reads it)."""
        text = io.StringIO(newline="")
        writer = tables.writer(text)
        writer.writerow(HEAD)
        for *front, student, score, low, high, apart, made_of, note in self.rows:
            texts = [no_formula(each) for each in (student, apart, note)]
            writer.writerow([*front, texts[0], score, low, high, texts[1], made_of, texts[2]])
        with replacing(Path(path)) as file:
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
    if csv is not None:
        check_report(Path(csv))
    files: dict[str, list[Path]] = {}
    owners = Owners(owner_of("folder"), {})
    for path in submissions(folder):
        whose = owners.student(path.relative_to(folder).as_posix())
        files.setdefault(whose, []).append(path)
    if not files:
        raise BadValue(f"folder must hold notebooks or Python files, got none in {str(folder)!r}")
    table, outputs = Table([], secret), [] if csv is None else [Path(csv)]
    for path in outputs:
        table.write_csv(path)  # refused before the work, not after it
    need_walls(walls)
    hide = [str(path.resolve()) for path in (folder, *outputs)]
    limits = Limits(seconds, seconds, hide=hide, has_walls=walls)
    with (
        TemporaryDirectory() as worlds,
        closing(_results(files, secret, limits, Path(worlds))) as found,
    ):
        try:
            for results in found:
                table = Table(results, secret)
        finally:  # whoever stops it has what was scored
            for path in outputs:
                table.write_csv(path)
    return table


def _results(
    files: dict[str, list[Path]], secret: str, limits: Limits, worlds: Path
) -> Iterator[list[Result]]:
    """Have every student's files scored; yield all results whenever there is one more.

    Args:
        files: of each student.
        secret: what seeds are made from.
        limits: of each function.
        worlds: a folder for what all of them play.
    """
    orders, results = [], {}
    for capstone, game in CAPSTONES.items():
        played = worlds / capstone
        seeds = [number("hidden", secret, capstone, i) for i in range(SEEDS)]
        played.write_bytes(pickle.dumps([*map(game.world, seeds)]))
        for student, paths in sorted(files.items()):
            results[capstone, student] = Result(capstone, student, None)
            told = {"capstone": capstone, "world": str(played), "paths": [*map(str, paths)]}
            orders.append(Order(path=str(paths[0]), name=student, task="score", score=told))
    with closing(judge(orders, limits, 1)) as verdicts:
        for order, verdict in verdicts:
            key = order.score["capstone"], order.name
            found = verdict.get("score")
            note = verdict.get("note", verdict.get("unreadable", ""))
            score = Score(*found[:-1], tuple(found[-1])) if found is not None else None
            results[key] = Result(*key, score, clean(note)[:LONGEST])
            yield [*results.values()]


def play(capstone: str, world: str, paths: Sequence[str], limits: Limits) -> dict[str, Any]:
    """Return the score of a student's files, as its fields, or a note that says why there is none.

    This is what a referee does.

    Args:
        capstone: its name.
        world: the file of what is played: the worlds of some seeds.
        paths: of the student's files.
        limits: of the process that the function runs in.
    """
    score, note = _score(CAPSTONES[capstone], _worlds(world), [*map(Path, paths)], limits)
    if score is None:
        return {"note": note}
    return {"score": [*vars(score).values()]}


@cache
def _worlds(path: str) -> Any:
    lablib.load("target")  # what takes its time is not the student's
    drafts.call_seconds()  # while nothing of a student's can slow it down, and with it prices
    return pickle.loads(Path(path).read_bytes())  # the judge's own


def _score(
    game: Any, worlds: list[Any], paths: list[Path], limits: Limits
) -> tuple[Score, str] | tuple[None, str]:
    """Return the score of the first of these files that has the function, or why there is none."""
    nothing = f"no function {game.FUNCTION}"
    notes = []
    for path in paths:
        try:
            return _played(game, worlds, path, limits), ""
        except Missing as missing:
            notes.append(str(missing))
        except Accident as accident:
            return None, "not attempted" if accident.unwritten else f"it raised {accident.text}"
        except TimeUp:
            return None, f"it ran longer than {limits.seconds:g} s"
        except (Foul, Gone) as problem:
            return None, str(problem)
        except NotStarted:
            raise
        except Exception as error:  # an answer that even the game does not expect
            return None, f"could not be scored: {type(error).__name__}: {error}"
    return None, next((note for note in notes if note), nothing)


def _played(game: Any, worlds: list[Any], path: Path, limits: Limits) -> Score:
    """Return a function's score.

    Raises:
        Missing: there is none; says nothing when nothing went wrong on the way.
    """
    with Process(limits) as process:
        found, problems = offered(process, _code(path), {CAPSTONE: game.FUNCTION})
        told = next(iter(found.get(CAPSTONE) or []), {})
        if told.get("callable") is not True:
            unsaid = f"NameError: name '{game.FUNCTION}' is not defined"
            said = (text for text in problems.values() if text and text != unsaid)
            raise Missing(next((f"its cell raised {text}" for text in said), ""))
        function = Function(process, told, (CAPSTONE, 0), limits.seconds)
        return Score.together([game.play(function, world) for world in worlds])


def _code(path: Path) -> list[tuple[int, str]]:
    try:
        return code_of(read_cells(path))
    except Exception as error:  # whatever is in the file, it gets a row
        raise Missing(unreadable(error, path, path.name)) from None
