"""The teacher's report: who solved what, from a folder of submitted notebooks.

Each notebook's functions run in a process of their own, behind walls; what they answer is judged in
another (``desk``), and here only findings are read. Reports are written as whole files, now and
then and however it ends: who stops it has what was judged.
"""

import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lablib.course.checks.exercises import exercises
from lablib.course.checks.exercises import lessons as known_lessons
from lablib.folders import replacing
from lablib.teach.desk import Order, judge
from lablib.teach.due import is_late, read_due
from lablib.teach.gradebook import People, canvas, moodle
from lablib.teach.handed_in import clean
from lablib.teach.page import feedback as feedback_of
from lablib.teach.page import file_names, is_feedback, page
from lablib.teach.points import Scheme, read_points
from lablib.teach.predicted import predicted
from lablib.teach.process import Limits
from lablib.teach.reports import ExerciseRow, GradeReport, best_of
from lablib.teach.roster import (
    Owners,
    check_report,
    kind_of,
    not_read,
    owner_of,
    packed,
    printable,
    read_roster,
    submissions,
)
from lablib.teach.submission import RANK
from lablib.teach.walls import missing
from lablib.validation import BadValue, integer, number, one_of

TOLD = 20_000  # letters about one file that are kept: a class has thousands of files
FILES = 100  # of a folder that are judged, outer ones first: Python's packages are ten thousand
MOST_SECONDS, MOST_CPU, MOST_MEMORY = 1e5, 1e4, 10**6  # more than anybody waits for, or has, in MB
SHARE = 9.0  # of the time, work for each time that reports are written: they grow with the class

Said = dict[str, dict[str, Any]]  # of each file, by its place, what its referee has said


@dataclass(frozen=True)
class Outputs:
    """Where the report goes: files, and a folder with a page for each student."""

    csv: Path | None = None
    json: Path | None = None
    html: Path | None = None
    feedback: Path | None = None
    moodle: Path | None = None
    canvas: Path | None = None
    people: People = field(default_factory=dict)

    def files(self) -> list[Path]:
        """Return the files among them."""
        found = self.csv, self.json, self.html, self.moodle, self.canvas
        return [path for path in found if path is not None]

    def check(self, read: Sequence[Path] = ()) -> None:
        """Raise ``BadValue`` about one that can't be written; what is ``read`` stays as it is."""
        own = Counter(map(os.path.realpath, (*read, *self.files())))
        for path in self.files():
            check_report(path)
            if own[os.path.realpath(path)] > 1:
                raise BadValue(f"each report must be a file of its own, got {path} for two things")
            parent = path.absolute().parent
            if path.is_dir() or not parent.is_dir() or not os.access(parent, os.W_OK):
                raise BadValue(f"the report must go into a folder that can be written, got {path}")
            is_file = not path.exists() or (path.is_file() and not path.is_symlink())
            if not is_file or (path.exists() and not os.access(path, os.W_OK)):
                raise BadValue(f"the report must be a file that can be written, got {path}")
        if self.feedback is None:
            return
        try:
            self.feedback.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadValue(f"feedback must be a folder that can be made: {error}") from None
        if not os.access(self.feedback, os.W_OK):
            raise BadValue(f"feedback must be a folder to write to, got {self.feedback}")
        for path in sorted(self.feedback.iterdir()):
            is_shown = kind_of(path) == ".md" and path.name[0] != "."
            if is_shown and not is_feedback(path):  # a student may be called as it is
                raise BadValue(f"feedback must be a folder of its own, got one with {path}")

    def write(self, report: GradeReport) -> None:
        """Write the files, each as a whole or not at all."""
        texts = (
            (self.csv, report.csv),
            (self.json, report.json),
            (self.html, lambda: page(report)),
            (self.moodle, lambda: moodle(report, self.people)),
            (self.canvas, lambda: canvas(report, self.people)),
        )
        for path, text in texts:
            if path is not None:
                _write(path, text())

    def write_feedback(self, report: GradeReport) -> None:
        """Write a page for each student, and take those of an earlier report away."""
        if self.feedback is None:
            return
        names = file_names(report.students())
        for path in self.feedback.glob("*.md"):
            if is_feedback(path):
                path.unlink()
        for student, name in names.items():
            _write(self.feedback / f"{name}.md", feedback_of(report, student))


def grade(
    folder: str | Path,
    csv: str | Path | None = None,
    *,
    json: str | Path | None = None,
    html: str | Path | None = None,
    feedback: str | Path | None = None,
    moodle: str | Path | None = None,
    canvas: str | Path | None = None,
    roster: str | Path | None = None,
    student: str = "folder",
    points: str | Path | None = None,
    due: str | datetime | None = None,
    lessons: Sequence[str] = (),
    seconds: float = 120.0,
    workers: int | None = None,
    memory: int = 2048,
    cpu: float = 1.2,
    walls: bool = True,
    progress: bool = False,
) -> GradeReport:
    """Grade every notebook below a folder.

    Args:
        folder: ``FOLDER/student/notebook.ipynb`` or ``FOLDER/student.ipynb``; ``.py`` files, too.
        csv: a file to write the table to, too; so are ``json`` and ``html``, with counts.
        json: see ``csv``.
        html: see ``csv``.
        feedback: a folder for a page of feedback for each student.
        moodle: a file with a row of points for each student, which Moodle imports.
        canvas: one that Canvas imports.
        roster: a CSV file of who is in the class; who handed in nothing is in the report, too, and
            is asked for every exercise that anybody was.
        student: whose a file is: a regular expression that is searched for in its path, with a
            group ``student``, or one of ``roster.PRESETS``.
        points: a file in TOML that says what exercises are worth (see ``points``); else an exercise
            is worth its stars.
        due: a date and a time, as ``"2026-11-30T23:59"``: what is of a file that was modified after
            it is marked as late, which changes no points.
        lessons: numbers, as ``["03", "05"]``: only their exercises are graded and reported, and
            whoever is on the roster is asked for all of them; every lesson when empty.
        seconds: time limit for one notebook.
        workers: notebooks graded at the same time; one per processor when ``None``.
        memory: limit for one notebook, in MB.
        cpu: seconds of processor time for one exercise; what needs more is not judged (``!``). In
            Jupyter it has ten seconds by the clock.
        walls: whether students' code is kept in.
        progress: show a bar.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise BadValue(f"folder must be a folder of notebooks, got {str(folder)!r}")
    lessons = [one_of("lessons", str(lesson).zfill(2), known_lessons()) for lesson in lessons]
    moment = read_due(due) if due is not None else None
    seconds = number("seconds", seconds, 0.1, MOST_SECONDS)
    memory = integer("memory", memory, 256, MOST_MEMORY)
    cpu = number("cpu", cpu, 0.1, MOST_CPU)
    workers = integer("workers", workers or os.cpu_count() or 1, 1)
    people = read_roster(Path(roster)) if roster is not None else {}
    wanted = (csv, json, html, feedback, moodle, canvas)
    outputs = Outputs(*(Path(p) if p is not None else None for p in wanted), people)
    read = [Path(path) for path in (roster, points) if path is not None]
    outputs.check(read)
    scheme = read_points(Path(points)) if points is not None else Scheme()
    ours = [*outputs.files(), *read, *([outputs.feedback] if outputs.feedback else [])]
    hide = [str(path.resolve()) for path in (folder, *ours)]
    need_walls(walls)
    limits = Limits(seconds, cpu, memory * 2**20, hide, walls)
    owners = Owners(owner_of(student), people)
    job = _Job(folder, limits, people, sorted({*lessons}), owners, scheme, moment, ours)
    return _held(job, outputs, workers, progress)


def need_walls(wanted: bool) -> None:
    """Raise ``BadValue`` where walls are wanted and there are none; say why, and what to do."""
    why = missing() if wanted else ""
    if why:
        raise BadValue(f"walls must stand around students' code: {why}; or use --no-walls")


def _held(job: "_Job", outputs: Outputs, workers: int, progress: bool) -> GradeReport:
    """Grade; write reports now and then, and however it ends."""
    said: Said = {}
    exercises()  # every lesson is imported now: whoever interrupts later does not wait for it
    last, took = -math.inf, 0.0
    report = job.report(said)
    outputs.write(report)
    try:
        for path, told in job.work(workers, progress):
            said[path] = told
            now = time.monotonic()
            if now - last > SHARE * took:
                outputs.write(job.report(said))
                last = time.monotonic()
                took = last - now
    finally:
        report = job.report(said)
        outputs.write(report)
    outputs.write_feedback(report)
    return report


@dataclass(frozen=True)
class _Job:
    """A folder to grade, within limits, with or without a list of students and of lessons."""

    folder: Path
    limits: Limits
    people: People
    lessons: Sequence[str]
    owners: Owners
    scheme: Scheme
    due: datetime | None
    ours: Sequence[Path]

    def work(self, workers: int, progress: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what is said of every file, in any order."""
        from tqdm import tqdm

        orders, counts = [], Counter[str]()
        for path in sorted(submissions(self.folder), key=lambda path: len(path.parts)):
            inside = path.relative_to(self.folder).as_posix()
            whose = inside.partition("/")[0]  # nobody uses up another's by a name
            counts[whose] += 1
            if counts[whose] <= FILES:
                known = {"lessons": [*self.lessons], "whose": whose}
                orders.append(Order(path=str(path), name=inside, **known))
            elif counts[whose] == FILES + 1:
                why = f"is not judged: more than {FILES} files are in that folder"
                yield inside, {"unreadable": why}
        bar = tqdm(total=len(orders), unit="notebook", file=sys.stderr, disable=not progress)
        with bar, closing(judge(orders, self.limits, workers)) as found:
            for order, told in found:
                yield order.name, told
                bar.update()

    def report(self, said: Said) -> GradeReport:
        """Return the report on what is known by now."""
        rows = self._rows(said)
        archives = packed(self.folder)
        skipped = [name for name in not_read(self.folder, self.ours) if name not in archives]
        found = {self._student(path) for path in said if "asked" in said[path] or _bad(said[path])}
        strangers = sorted(found - {*self.people}) if self.people else []
        told = ((self._student(path), said[path].get("predicted", {})) for path in sorted(said))
        every = predicted(told)
        asked = [p for p in every if not self.lessons or p.question[:2] in self.lessons]
        return GradeReport(rows, strangers, skipped, archives, self.scheme, self.due, asked)

    def _student(self, path: str) -> str:
        return self.owners.student(path)

    def _rows(self, said: Said) -> list[ExerciseRow]:
        """Return one row for each student and exercise, in order."""
        ranked = []
        late = {path: self._is_late(path) for path in said}
        # Of two that are equally good the one in time counts.
        for path in sorted(said, key=lambda path: (late[path], path)):
            student, file = self._student(path), printable(path)
            if bad := _bad(said[path]):
                row = ExerciseRow(student, file, "-", "!", "", bad, late[path])
                ranked.append((0, row))
            for exercise, (mark, name, message) in said[path].get("findings", {}).items():
                told = message[: TOLD // len(said[path]["findings"])]
                row = ExerciseRow(student, file, exercise, mark, name, told, late[path])
                ranked.append((RANK[mark], row))
        chosen = [each.id for lesson in self.lessons for each in exercises(lesson)]
        asked = chosen or sorted({row.exercise for _, row in ranked} - {"-"})
        unread = [row for _, row in ranked if row.exercise == "-"]
        for student in self.people:
            absent = ExerciseRow(student, "", "-", "∅", "", "nothing handed in")
            broken = [row for row in unread if row.student == student]
            for exercise in asked or ["-"]:
                held = (_not_found(row) for row in broken if _may_hold(row, exercise))
                ranked.append((-1, replace(next(held, absent), exercise=exercise)))
        return best_of(ranked)

    def _is_late(self, path: str) -> bool:
        return self.due is not None and is_late(self.folder / path, self.due)


def _bad(said: dict[str, Any]) -> str:
    return clean(said.get("unreadable", ""))


def _may_hold(unread: ExerciseRow, exercise: str) -> bool:
    """Return whether a file that can't be read may be of an exercise's lesson, by its name."""
    told = {*re.findall(r"(?<!\d)\d\d(?!\d)", Path(unread.notebook).stem)} & {*known_lessons()}
    return not told or exercise[:2] in told


def _not_found(unread: ExerciseRow) -> ExerciseRow:
    """Return what is said of an exercise that such a file may hold: that is not an absence."""
    return replace(unread, message=f"not found, but {unread.notebook} can't be read")


def _write(path: Path, text: str) -> None:
    """Write a file as a whole, whatever letters its names hold."""
    with _naming(path), replacing(path) as file:
        file.write_bytes(text.encode("utf-8", "replace"))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Have an error say which file it is about: a full disk's does not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
