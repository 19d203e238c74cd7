"""The teacher's report: who solved what, from a folder of submitted notebooks.

Each notebook's functions run in a process of their own, behind walls; what they answer is judged in
another (``desk``), and here only findings are read. Reports are written as whole files, now and
then and however it ends: who stops it has what was judged.
"""

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lablib.course.checks.exercises import exercises, number_of
from lablib.course.checks.exercises import lessons as known_lessons
from lablib.folders import replacing
from lablib.teach.desk import Order, judge
from lablib.teach.gradebook import canvas as canvas_table
from lablib.teach.gradebook import moodle as moodle_table
from lablib.teach.handed_in import clean
from lablib.teach.page import feedback as feedback_of
from lablib.teach.page import file_name, is_feedback, page
from lablib.teach.points import Scheme, read_points
from lablib.teach.predicted import predicted
from lablib.teach.process import Limits
from lablib.teach.reports import ExerciseRow, GradeReport, best_of
from lablib.teach.roster import (
    KINDS,
    kind_of,
    not_read,
    owners,
    printable,
    read_roster,
    submissions,
)
from lablib.teach.submission import RANK
from lablib.teach.walls import missing
from lablib.validation import BadValue, integer, number, one_of

FILES = 100  # of a folder that are judged, outer ones first: Python's packages are ten thousand
MOST_SECONDS, MOST_CPU, MOST_MEMORY = 1e5, 1e4, 10**6  # more than anybody waits for, or has, in MB
SHARE = 9.0  # of the time, work for each time that reports are written: they grow with the class

Said = dict[str, dict[str, Any]]  # of each file, by its place, what its judge has said
Writer = Callable[[GradeReport], str]


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
    lessons: Sequence[str] = (),
    seconds: float = 120.0,
    workers: int | None = None,
    memory: int = 2048,
    cpu: float = 3.0,
    walls: bool = True,
    progress: bool = False,
) -> GradeReport:
    """Grade every notebook below a folder.

    Args:
        folder: ``FOLDER/student/notebook.ipynb`` or ``FOLDER/student.ipynb``; ``.py`` files, too.
        csv: a file to write the table to, too; so are ``json`` and ``html``, with counts.
        json: see ``csv``.
        html: see ``csv``.
        feedback: a folder for a page of feedback for each student, and for nothing else.
        moodle: a file with a row of points for each student, which Moodle imports.
        canvas: one that Canvas imports.
        roster: a CSV file with the columns ``id`` and ``name``: who is in the class. Who handed in
            nothing is in the report, too, asked for every exercise that anybody was.
        student: whose a file is: a regular expression that is searched for in its path, with a
            group ``student``, or one of ``roster.PRESETS``.
        points: a file in TOML that says what exercises are worth (see ``points``); else an exercise
            is worth its stars.
        lessons: numbers, as ``["03", "05"]``: only their exercises are graded and reported, and
            whoever is on the roster is asked for all of them; every lesson when empty.
        seconds: time limit for one notebook.
        workers: notebooks graded at the same time; one per processor when ``None``.
        memory: limit for one notebook, in MB.
        cpu: seconds of processor time for one exercise; what needs more is not judged (``!``).
        walls: whether students' code is kept in.
        progress: show a bar.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise BadValue(f"folder must be a folder of notebooks, got {str(folder)!r}")
    lessons = [one_of("lessons", str(lesson).zfill(2), known_lessons()) for lesson in lessons]
    seconds = number("seconds", seconds, 0.1, MOST_SECONDS)
    memory = integer("memory", memory, 256, MOST_MEMORY)
    cpu = number("cpu", cpu, 0.1, MOST_CPU)
    workers = integer("workers", workers or os.cpu_count() or 1, 1)
    people = read_roster(Path(roster)) if roster is not None else {}
    scheme = read_points(Path(points)) if points is not None else Scheme()
    written: list[tuple[str | Path | None, Writer]] = [
        (csv, GradeReport.csv),
        (json, GradeReport.json),
        (html, page),
        (moodle, lambda report: moodle_table(report, people)),
        (canvas, lambda report: canvas_table(report, people)),
    ]
    files = [(Path(path), text) for path, text in written if path is not None]
    read = [Path(path) for path in (roster, points) if path is not None]
    told = None if feedback is None else Path(feedback)
    check_reports([path for path, _ in files], read)
    _check_feedback(told)
    ours = [*read, *(path for path, _ in files), *([told] if told else [])]
    hide = [str(path.resolve()) for path in (folder, *ours)]
    whose = owners(student, people)
    need_walls(walls)
    limits = Limits(seconds, cpu, memory * 2**20, hide, walls)
    job = _Job(folder, limits, people, sorted({*lessons}), whose, scheme, ours)
    return _held(job, files, told, workers, progress)


def check_reports(files: Sequence[Path], read: Sequence[Path] = ()) -> None:
    """Raise ``BadValue`` about reports that would take the place of work, or of each other."""
    own = Counter(map(os.path.realpath, (*read, *files)))
    for path in files:
        if kind_of(path) in KINDS:
            raise BadValue(f"the report must be no notebook and no program, got {path}")
        if own[os.path.realpath(path)] > 1:
            raise BadValue(f"each report must be a file of its own, got {path} for two things")


def need_walls(wanted: bool) -> None:
    """Raise ``BadValue`` where walls are wanted and there are none; say why, and what to do."""
    why = missing() if wanted else ""
    if why:
        raise BadValue(f"walls must stand around students' code: {why}; or use --no-walls")


def _check_feedback(folder: Path | None) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.iterdir()):
            if path.name[0] != "." and not is_feedback(path):
                raise BadValue(f"feedback must be a folder of its own, got one with {path}")


def _held(
    job: "_Job",
    files: Sequence[tuple[Path, Writer]],
    feedback: Path | None,
    workers: int,
    progress: bool,
) -> GradeReport:
    """Grade; write reports now and then, and however it ends."""

    def write() -> GradeReport:
        report = job.report(said)
        for path, text in files:
            _write(path, text(report))
        return report

    said: Said = {}
    write()  # what can't be is known before the work
    exercises()  # every lesson is imported now: whoever interrupts later does not wait for it
    last, took = -math.inf, 0.0
    try:
        for path, told in job.work(workers, progress):
            said[path] = told
            now = time.monotonic()
            if now - last > SHARE * took:
                write()
                last = time.monotonic()
                took = last - now
    finally:
        report = write()
    if feedback is not None:
        for path in filter(is_feedback, feedback.iterdir()):
            path.unlink()  # of an earlier report
        for student in report.students():
            _write(feedback / f"{file_name(student)}.md", feedback_of(report, student))
    return report


@dataclass(frozen=True)
class _Job:
    """A folder to grade, within limits, with or without a list of students and of lessons.

    ``owner`` tells whose a file is, and what of its path says so.
    """

    folder: Path
    limits: Limits
    people: Mapping[str, str]
    lessons: Sequence[str]
    owner: Callable[[str], tuple[str, str]]
    scheme: Scheme
    ours: Sequence[Path]

    def work(self, workers: int, progress: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what is said of every file, in any order."""
        from tqdm import tqdm

        orders, counts, left_out = [], Counter[str](), set()
        for path in sorted(submissions(self.folder), key=lambda path: len(path.parts)):
            inside = path.relative_to(self.folder).as_posix()
            student, place = self.owner(inside)  # nobody uses up another's by a name
            counts[place] += 1
            if counts[place] <= FILES:
                orders.append(Order(str(path), inside, place, self.lessons))
            elif student not in left_out:  # everybody has a row
                left_out.add(student)
                why = f"is not judged: more than {FILES} files are in that folder"
                yield inside, {"unreadable": why}
        bar = tqdm(total=len(orders), unit="notebook", file=sys.stderr, disable=not progress)
        with bar, closing(judge(orders, self.limits, workers)) as found:
            for order, told in found:
                yield order.name, told
                bar.update()

    def whose(self, path: str) -> str:
        """Return whose a file is."""
        return self.owner(path)[0]

    def report(self, said: Said) -> GradeReport:
        """Return the report on what is known by now."""
        known = {"asked", "unreadable"}
        found = {self.whose(path) for path, told in said.items() if known & {*told}}
        every = predicted((self.whose(p), said[p].get("predicted", {})) for p in sorted(said))
        return GradeReport(
            self._rows(said),
            sorted(found - {*self.people}) if self.people else [],
            not_read(self.folder, self.ours),
            self.scheme,
            [q for q in every if not self.lessons or number_of(q.question) in self.lessons],
        )

    def _rows(self, said: Said) -> list[ExerciseRow]:
        """Return one row for each student and exercise, in order."""
        ranked = []
        for path in sorted(said):
            student, file = self.whose(path), printable(path)
            findings = {**said[path].get("findings", {})}
            if bad := said[path].get("unreadable"):
                findings["-"] = ["!", "", clean(bad)]
            for exercise, (mark, name, message) in findings.items():
                own = said[path].get("explained", {}).get(exercise, "")
                row = ExerciseRow(student, file, exercise, mark, name, message, own)
                ranked.append((RANK[mark], row))
        chosen = [each.id for lesson in self.lessons for each in exercises(lesson)]
        asked = chosen or sorted({row.exercise for _, row in ranked} - {"-"})
        for student in self.people:
            for exercise in asked or ["-"]:
                absent = ExerciseRow(student, "", exercise, "∅", "", "nothing handed in")
                ranked.append((-1, absent))
        return best_of(ranked)


def _write(path: Path, text: str) -> None:
    """Write a file as a whole, whatever letters its names hold; an error says which it is about."""
    try:
        with replacing(path) as file:
            file.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:  # a full disk's does not
        error.filename = error.filename or str(path)
        raise
