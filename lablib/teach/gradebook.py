"""One row a student with points, as the grade books of Moodle and Canvas import it.

Whose row it is they find by the roster's id; without a roster by what ``--student`` found.
"""

import csv
import io
from collections.abc import Mapping, Sequence

from lablib.teach.reports import GradeReport, no_formula

CANVAS = ("ID", "SIS User ID", "SIS Login ID", "Section")
POSSIBLE = "    Points Possible"  # as Canvas writes it itself, blanks and all


def moodle(report: GradeReport, people: Mapping[str, str]) -> str:
    """Return a table for Moodle's *Grades > Import > CSV file*; ``people`` are ids by names."""
    lessons = _lessons(report)
    rows = [["Student", "Username", *(f"lablib {lesson}" for lesson in lessons), "Total"]]
    for student in report.students():
        got = [report.points(student, lesson)[0] for lesson in (*lessons, "")]
        rows.append([student, people.get(student, student), *map(_text, got)])
    return _csv(rows)


def canvas(report: GradeReport, people: Mapping[str, str]) -> str:
    """Return a table for Canvas' *Grades > Import*; ``people`` are ids by names."""
    lessons = _lessons(report)
    possible = [_text(report.possible(lesson)) for lesson in lessons]
    rows = [
        ["Student", *CANVAS, *(f"lablib {lesson}" for lesson in lessons)],
        [POSSIBLE, *[""] * len(CANVAS), *possible],
    ]
    for student in report.students():
        got = [_text(report.points(student, lesson)[0]) for lesson in lessons]
        # Canvas takes the points for those that are possible where this stands in a name.
        name = student.replace(POSSIBLE.strip(), POSSIBLE.strip().lower())
        rows.append([name, "", "", people.get(student, student), "", *got])
    return _csv(rows)


def _lessons(report: GradeReport) -> list[str]:
    return sorted({exercise.lesson for exercise in report.exercises()})


def _text(points: float) -> str:
    return f"{points:.10g}"  # as many digits as a sum of points has


def _csv(rows: Sequence[Sequence[str]]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file).writerows([[no_formula(cell) for cell in row] for row in rows])
    return file.getvalue()
