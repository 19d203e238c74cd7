"""The teacher's report: who solved what, from a folder of submitted notebooks.

Each notebook's functions run in a process of their own, behind walls; what they answer is judged in
another (``apart``), and here only verdicts are read. What is finished is written at once, to a
journal and to the reports, each as a whole file. Once these take a tenth of the time, as in a large
class, they are written less often: whoever kills it finds reports that are some seconds old.
"""

import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from lablib.course.checks.exercises import exercises
from lablib.course.checks.exercises import lessons as known_lessons
from lablib.teach.alike import Alike, groups
from lablib.teach.apart.desk import Order, Verdict, judge
from lablib.teach.apart.remote import Limits, not_kept_out
from lablib.teach.due import is_late, read_due
from lablib.teach.gradebook import People, canvas, moodle
from lablib.teach.handed_in import clean, hidden
from lablib.teach.journal import Graded, Journal, basis, beside, write_whole
from lablib.teach.owners import Owners, student_of
from lablib.teach.page import LONGEST, file_name, file_names, is_feedback, page
from lablib.teach.page import feedback as feedback_of
from lablib.teach.points import Scheme, read_points
from lablib.teach.predicted import Predicted, predicted
from lablib.teach.reports import ExerciseRow, GradeReport, best_of
from lablib.teach.roster import (
    check_report,
    kind_of,
    not_read,
    packed,
    printable,
    read_roster,
    submissions,
)
from lablib.teach.submission import RANK, Finding
from lablib.validation import BadValue, integer, number, one_of

TOLD = 20_000  # letters about one file that are kept: a class has thousands of files
FILES = 1000  # of a student's that are judged, outer ones first: Python's packages are ten thousand
MOST_SECONDS, MOST_CPU, MOST_MEMORY = 1e5, 1e4, 10**6  # more than anybody waits for, or has, in MB
SHARE = 9.0  # of the time, work for each time that reports are written: they grow with the class


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

    def check(self, folder: Path, resume: bool, read: Sequence[Path] = ()) -> None:
        """Raise ``BadValue`` about one that can't be written, or from which none is to resume.

        Args:
            folder: of what was handed in.
            resume: whether the journal beside them is read.
            read: files that are read, and stay as they are.
        """
        own = Counter(map(os.path.realpath, (*read, *self.files(), *beside(self.files()))))
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
        if self.feedback is not None:
            try:
                self.feedback.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BadValue(f"feedback must be a folder that can be made: {error}") from None
            if not os.access(self.feedback, os.W_OK):
                raise BadValue(f"feedback must be a folder to write to, got {self.feedback}")
            for path in sorted(self.feedback.iterdir()):
                shown = kind_of(path) == ".md" and path.name[0] != "."
                if shown and not is_feedback(path):  # a student may be called as it is
                    raise BadValue(f"feedback must be a folder of its own, got one with {path}")
        if resume and not self.files():
            raise BadValue("resume needs the file of a report (csv, json or html), got none")
        for path in self.files() if resume else []:
            if path.resolve().is_relative_to(folder.resolve()):
                raise BadValue(
                    f"resume needs a report outside of FOLDER, got {path}: its journal may have "
                    "been handed in; move both"
                )

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
                write_whole(path, text())

    def write_feedback(self, report: GradeReport) -> None:
        """Write a page for each student: once, as there are many of them."""
        if self.feedback is None:
            return
        names = file_names(report.students())
        for student, name in names.items():
            write_whole(self.feedback / f"{name}.md", feedback_of(report, student))
            plain = file_name(student)
            if plain not in names.values() and len(plain.encode()) <= LONGEST:
                # Of an earlier report, when it was one student's.
                (self.feedback / f"{plain}.md").unlink(missing_ok=True)


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
    points: str | Path | None = None,
    due: str | datetime | None = None,
    lessons: Sequence[str] = (),
    resume: bool = False,
    seconds: float = 120.0,
    workers: int | None = None,
    memory: int = 2048,
    cpu: float = 1.2,
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
        points: a file in TOML that says what exercises are worth (see ``points``); else an exercise
            is worth its stars.
        due: a date and a time, as ``"2026-11-30T23:59"``: what is of a file that was modified after
            it is marked as late, which changes no points.
        lessons: numbers, as ``["03", "05"]``: only their exercises are graded and reported, and
            whoever is on the roster is asked for all of them; every lesson when empty.
        resume: take what an earlier run of this report has found in files that are the same.
        seconds: time limit for one notebook.
        workers: notebooks graded at the same time; one per processor when ``None``.
        memory: limit for one notebook, in MB.
        cpu: seconds of processor time for one exercise; what needs more is not judged (``!``). In
            Jupyter it has ten seconds by the clock.
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
    roster = Path(roster) if roster is not None else None
    people = read_roster(roster) if roster is not None else {}
    wanted = (csv, json, html, feedback, moodle, canvas)
    outputs = Outputs(*(Path(p) if p is not None else None for p in wanted), people)
    read = [path for path in (roster, points) if path is not None]
    outputs.check(folder, resume, [*map(Path, read)])
    scheme = read_points(Path(points)) if points is not None else Scheme()
    pages = [outputs.feedback] if outputs.feedback else []
    ours = [*outputs.files(), *beside(outputs.files()), *pages, *map(Path, read)]
    hide = hidden(folder, ours)
    missing = tuple(not_kept_out())
    limits = Limits(seconds, cpu=cpu, memory=memory * 2**20, hide=hide, missing=missing)
    job = _Job(folder, limits, people, sorted({*lessons}), roster, scheme, moment)
    return _held(job, outputs, Journal(outputs.files(), resume), workers, progress)


def _held(
    job: "_Job", outputs: Outputs, journal: Journal, workers: int, progress: bool
) -> GradeReport:
    """Grade what the journal doesn't know; write reports now and then, and however it ends.

    An earlier run's stay as they are until all that it knew is told again, whoever stops it.
    """

    def written() -> GradeReport:
        rows = job.rows(done)
        found = rows, job.strangers(done), skipped, archives, job.scheme
        said = job.predicted(done), job.doubts(done)
        report = GradeReport(*found, equal_answers(rows, done), job.due, *said)
        outputs.write(report)
        return report

    ours = [*outputs.files(), *([journal.path] if journal.path else [])]
    skipped = not_read(job.folder, [*ours, *(p for p in (outputs.feedback, job.roster) if p)])
    archives = packed(job.folder)
    skipped = [name for name in skipped if name not in archives]
    done: list[Graded] = []
    exercises()  # every lesson is imported now: whoever interrupts later does not wait for it
    last, took = -math.inf, 0.0
    untold = {*job.kept(journal)}
    if not untold:
        began = time.monotonic()
        written()
        last = time.monotonic()
        took = last - began
    try:
        for graded in job.work(journal, workers, progress):
            done.append(graded)
            journal.add(graded)
            untold.discard(graded.path)
            now = time.monotonic()
            if not untold and now - last > SHARE * took:
                written()
                last = time.monotonic()
                took = last - now
    finally:
        if not untold:
            report = written()
    outputs.write_feedback(report)
    return report


@dataclass(frozen=True)
class _Job:
    """A folder to grade, within limits, with or without a list of students and of lessons."""

    folder: Path
    limits: Limits
    people: People
    lessons: Sequence[str]
    roster: Path | None = None
    scheme: Scheme = field(default_factory=Scheme)
    due: datetime | None = None

    def kept(self, journal: Journal) -> dict[str, Graded]:
        """Return what an earlier run has found in files that are still there."""
        files, _ = self._files
        found = {inside: journal.found(inside, self._basis) for inside in files}
        return {inside: graded for inside, graded in found.items() if graded is not None}

    def work(self, journal: Journal, workers: int, progress: bool) -> Iterator[Graded]:
        """Yield what is found in every file, in any order; what the journal has comes first."""
        from tqdm import tqdm

        files, too_many = self._files
        why = f"is not judged: more than {FILES} files are theirs"
        for inside in too_many:
            yield Graded(inside, "", self._basis, unreadable=why)
        kept = self.kept(journal)

        def orders() -> Iterator[Order]:
            for inside in sorted(files, key=lambda inside: inside not in kept):
                order = Order(path=str(files[inside]), name=inside, lessons=[*self.lessons])
                order.whose = self._whose(inside)
                order.known = kept[inside].digest if inside in kept else ""
                yield order

        bar = tqdm(total=len(files), unit="notebook", file=sys.stderr, disable=not progress)
        with bar, closing(judge(orders(), self.limits, workers)) as verdicts:
            for order, verdict in verdicts:
                is_same = "same" in verdict
                yield kept[order.name] if is_same else _graded(order, self._basis, verdict)
                bar.update()

    @cached_property
    def _files(self) -> tuple[dict[str, Path], list[str]]:
        """Return the files to judge, by their places, and of each student the first too many."""
        files: dict[str, Path] = {}
        too_many: list[str] = []
        counts: Counter[str] = Counter()
        for path in sorted(submissions(self.folder), key=lambda path: len(path.parts)):
            inside = self._inside(path)
            whose = self._whose(inside)
            counts[whose] += 1
            if counts[whose] <= FILES:
                files[inside] = path
            elif counts[whose] == FILES + 1:
                too_many.append(inside)
        return files, too_many

    def predicted(self, graded: Sequence[Graded]) -> list[Predicted]:
        """Return what students predicted in what they handed in, of the lessons asked for."""
        ordered = sorted(graded, key=lambda each: each.path)
        whose = ((self.student(each.path), each.predicted) for each in ordered)
        every = predicted(whose)
        return [each for each in every if not self.lessons or each.question[:2] in self.lessons]

    def strangers(self, graded: Sequence[Graded]) -> list[str]:
        """Return who handed something in and is not on the roster, if there is one."""
        found = {self.student(path) for path in _asked(graded)}
        return sorted(found - {*self.people, *self._doubts(graded)}) if self.roster else []

    def doubts(self, graded: Sequence[Graded]) -> list[str]:
        """Return what names two of the roster, which makes it nobody's, once for each row."""
        return sorted(self._doubts(graded).values())

    def _doubts(self, graded: Sequence[Graded]) -> dict[str, str]:
        if self._owners is None:
            return {}
        paths = map(Path, sorted(_asked(graded), reverse=True))
        found = {self._owners.student(path): self._owners.rivals(path) for path in paths}
        return {row: text for row, text in found.items() if text}

    def student(self, path: str) -> str:
        """Return whose a file is, by its path within the folder."""
        owners = self._owners
        return owners.student(Path(path)) if owners else student_of(Path(path))

    @cached_property
    def _owners(self) -> Owners | None:
        inside = [path.relative_to(self.folder) for path in submissions(self.folder)]
        return Owners(self.people, inside) if self.people else None

    def rows(self, graded: Sequence[Graded]) -> list[ExerciseRow]:
        """Return one row for each student and exercise, in order."""
        ranked = []
        late = {each.path: self._is_late(each) for each in graded}
        # Of two that are equally good the one in time counts.
        for each in sorted(graded, key=lambda each: (late[each.path], each.path)):
            student, when = self.student(each.path), late[each.path]
            file = printable(each.path)
            if each.unreadable:
                row = ExerciseRow(student, file, "-", "!", "", each.unreadable, when)
                ranked.append((0, row))
            for exercise, found in each.findings.items():
                row = ExerciseRow(student, file, exercise, *asdict(found).values(), when)
                ranked.append((RANK[found.outcome], row))
        chosen = [each.id for lesson in self.lessons for each in exercises(lesson)]
        asked = chosen or sorted({row.exercise for _, row in ranked} - {"-"})
        unread = [row for _, row in ranked if row.exercise == "-"]
        for student in self.people:
            absent = ExerciseRow(student, "", "-", "∅", "", "nothing handed in")
            broken = [row for row in unread if row.student == student]
            for exercise in asked or ["-"]:
                missing = next(
                    (_not_found(row) for row in broken if _may_hold(row, exercise)), absent
                )
                ranked.append((-1, replace(missing, exercise=exercise)))
        return best_of(ranked)

    def _is_late(self, graded: Graded) -> bool:
        return self.due is not None and is_late(self.folder / graded.path, self.due)

    def _whose(self, inside: str) -> str:
        """Return who has a file's time: nobody uses up another's by a name in their own folder."""
        folder = inside.partition("/")[0] if "/" in inside else ""
        return f"{self.student(inside)} in {folder!r}"

    def _inside(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    @cached_property
    def _basis(self) -> str:
        return basis(self.limits, self.lessons)


def equal_answers(rows: Sequence[ExerciseRow], graded: Sequence[Graded]) -> list[Alike]:
    """Return who has equal answers, of those that count and were tried."""
    forms = {printable(each.path): each.forms for each in graded}
    answers = {
        (row.exercise, row.student): forms.get(row.notebook, {}).get(row.exercise, "")
        for row in rows
        if row.outcome in "✓≠✗!"
    }
    return groups(answers)


def _asked(graded: Sequence[Graded]) -> list[str]:
    """Return the files of which something is in the report."""
    return [each.path for each in graded if each.findings or each.unreadable]


def _may_hold(unread: ExerciseRow, exercise: str) -> bool:
    """Return whether a file that can't be read may be of an exercise's lesson, by its name."""
    told = {*re.findall(r"(?<!\d)\d\d(?!\d)", Path(unread.notebook).stem)} & {*known_lessons()}
    return not told or exercise[:2] in told


def _not_found(unread: ExerciseRow) -> ExerciseRow:
    """Return what is said of an exercise that such a file may hold: that is not an absence."""
    return replace(unread, message=f"not found, but {unread.notebook} can't be read")


def _graded(order: Order, basis: str, verdict: Verdict) -> Graded:
    """Return what a referee has found, in its bounds."""
    if "unreadable" in verdict:
        told = clean(verdict["unreadable"])
        return Graded(order.name, order.digest, basis, unreadable=told)
    many = sum(len(message) for _, _, message in verdict.values()) > TOLD
    most = TOLD // len(verdict) if many else TOLD
    findings = {
        id_: Finding(mark, name, message[:most]) for id_, (mark, name, message) in verdict.items()
    }
    found = findings, "", order.forms, order.predicted
    return Graded(order.name, order.digest, basis, *found)
