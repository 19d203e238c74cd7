"""One row a student with points, as the grade books of Moodle and Canvas import it.

Whose row it is they find by a column of the roster's that is called as theirs is: without one,
Moodle gets the folder's name as ``Username``, and Canvas as ``SIS Login ID``. Which lessons were
late is in Moodle's alone: Canvas makes an assignment of any column that it doesn't know.
"""

import csv
import io
from collections.abc import Mapping, Sequence

from lablib.teach.reports import GradeReport, no_formula

MOODLE = ("Username", "ID number", "Email address")
CANVAS = ("ID", "SIS User ID", "SIS Login ID", "Section")
POSSIBLE = "    Points Possible"  # as Canvas writes it itself, blanks and all

People = Mapping[str, Mapping[str, str]]  # of each student what the roster says, by its column


def moodle(report: GradeReport, people: People) -> str:
    """Return a table for Moodle's *Grades > Import > CSV file*."""
    named = [name for name in MOODLE if any(person.get(name) for person in people.values())]
    known = named or ["Username"]
    lessons = _lessons(report)
    head = ["Student", *known, *(f"lablib {lesson}" for lesson in lessons), "Total"]
    head += ["Late"] * (report.due is not None)
    rows = []
    for student in report.students():
        person = people.get(student, {}) if named else {"Username": student}
        got = [_text(report.points(student, lesson)[0]) for lesson in (*lessons, "")]
        got += [_late(report, student)] * (report.due is not None)
        rows.append([student, *(person.get(name, "") for name in known), *got])
    return _csv([head, *rows])


def canvas(report: GradeReport, people: People) -> str:
    """Return a table for Canvas' *Grades > Import*."""
    lessons = _lessons(report)
    head = ["Student", *CANVAS, *(f"lablib {lesson}" for lesson in lessons)]
    possible = [_text(report.possible(lesson)) for lesson in lessons]
    named = any(person.get(name) for person in people.values() for name in CANVAS[:3])
    rows = []
    for student in report.students():
        person = people.get(student, {}) if named else {"SIS Login ID": student}
        got = [_text(report.points(student, lesson)[0]) for lesson in lessons]
        # Canvas takes the points for those that are possible where this stands in a name.
        name = student.replace(POSSIBLE.strip(), POSSIBLE.strip().lower())
        rows.append([name, *(person.get(name, "") for name in CANVAS), *got])
    return _csv([head, [POSSIBLE, *[""] * len(CANVAS), *possible], *rows])


def _late(report: GradeReport, student: str) -> str:
    """Return the lessons of which something that counts was late."""
    rows = [row for row in report.of(student) if row.late]
    return " ".join(sorted({row.exercise[:2] for row in rows if row.exercise != "-"}))


def _lessons(report: GradeReport) -> list[str]:
    return sorted({exercise.lesson for exercise in report.exercises()})


def _text(points: float) -> str:
    return f"{points:.10g}"  # as many digits as a sum of points has


def _csv(rows: Sequence[Sequence[str]]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file).writerows([[no_formula(cell) for cell in row] for row in rows])
    return file.getvalue()
