"""The findings of grading, as a table, as CSV and as JSON; and the ones worth discussing.

Nothing here depends on when or how fast it was graded: the same work gives the same bytes.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from functools import cached_property
from typing import Any

from lablib.course.checks.exercises import Exercise, exercises
from lablib.teach.due import note
from lablib.teach.points import Scheme
from lablib.teach.predicted import Predicted

# Each mark and what it says, in the order of a table of counts.
OUTCOMES = {
    "✓": "correct",
    "≠": "differs: ✓ in the student's notebook, not here",
    "✗": "wrong",
    "○": "not attempted",
    "!": "could not be judged",
    "∅": "nothing handed in",
}
# Full width, too; and behind a semicolon, at which Excel cuts lines in half of Europe.
_FORMULA = re.compile(r"(^|;)(?=[\s\x00-\x1f\"]*[=+\-@＝＋－＠])")
LATE = " late"  # behind a mark
NAMED = 100  # files or names in one sentence, at most
TOPICS = 5  # suggested for a discussion, at most
CALLED = (
    "Who is on it has a folder or a file that is called as a cell of their row; --student says "
    "which part of a path is whose."
)


@dataclass(frozen=True)
class ExerciseRow:
    """One exercise of one student.

    Attributes:
        student: the folder that the notebook lies in, or its own name at the top of the folder.
        notebook: the path, within the graded folder, of the notebook that counts, as it is shown.
        exercise: the exercise's id, ``"-"`` for a file that can't be read.
        outcome: one of ``OUTCOMES``.
        misconception: the name of the wrong answer that it looks like, or empty.
        message: what the student was told, on one line.
        late: whether that notebook was modified after it was due.
    """

    student: str
    notebook: str
    exercise: str
    outcome: str
    misconception: str
    message: str
    late: bool = False


@dataclass(frozen=True)
class Topic:
    """A misconception, how many students seem to have it, and what to tell them."""

    exercise: str
    title: str
    misconception: str
    students: int
    attempts: int
    text: str


@dataclass(frozen=True)
class GradeReport:
    """All rows; prints as a table.

    Attributes:
        rows: one for each student and exercise.
        strangers: who handed something in and is not on the roster.
        unread: what lay at the top of the folder and could not be graded.
        packed: archives, which are not opened.
        scheme: what exercises are worth.
        due: when the work was, if that was said.
        predicted: what the class predicted, by question.
    """

    rows: list[ExerciseRow]
    strangers: Sequence[str] = ()
    unread: Sequence[str] = ()
    packed: Sequence[str] = ()
    scheme: Scheme = field(default_factory=Scheme)
    due: datetime | None = None
    predicted: Sequence[Predicted] = ()

    def __repr__(self) -> str:
        names = ["student", "exercise", "outcome", "misconception", "message"]
        table = [names, *([getattr(row, name) for name in names] for row in self.rows)]
        for line, row in zip(table[1:], self.rows, strict=True):
            line[2] += LATE * row.late
        widths = [max(len(line[i]) for line in table) for i in range(4)]
        lines = ["  ".join([*map(str.ljust, line, widths), _cut(line[4])]) for line in table]
        return "\n".join([*(line.rstrip() for line in lines), self.summary()])

    def summary(self) -> str:
        """Return the class in a few lines: how much is solved, what to discuss, what is missing."""
        asked = [row for row in self.rows if row.exercise != "-"]
        solved = sum(row.outcome == "✓" for row in asked)
        lines = [f"{len(self.students())} students, {solved} of {len(asked)} ✓"]
        lines += [f"Discuss {line}" for line in map(topic_line, self.topics()[:TOPICS])]
        return "\n".join([*lines, *self.notes()])

    def notes(self) -> list[str]:
        """Return what else a teacher should know, a sentence each."""
        told = []
        if self.strangers:
            who = _listed(self.strangers)
            told.append(f"Not on the roster, so only what they handed in is here: {who}. {CALLED}")
        if self.unread:
            what = _listed(self.unread)
            told.append(f"Not graded, as there is no .ipynb and no .py in it: {what}.")
        if self.packed:
            what = _listed(self.packed)
            told.append(f"Packed, so nobody has looked into it; unpack it: {what}.")
        if self.due is not None:
            files = {row.notebook for row in self.rows if row.late}
            told.append(f"{note(self.due)} Of what is here, {len(files)} are.")
        return told

    def points(self, student: str, lesson: str = "") -> tuple[float, float]:
        """Return how many points a student has, and of how many.

        Args:
            student: whose.
            lesson: its number; all lessons when empty.
        """
        rows = [row for row in self.of(student) if row.exercise.startswith(lesson)]
        worth = self.scheme.worth
        got = sum(worth(row.exercise) for row in rows if row.outcome == "✓")
        due = [row.exercise for row in rows if row.exercise not in self.scheme.optional]
        return got, sum(map(worth, due))

    def shares(self) -> list[float]:
        """Return the share of their points that students have; more than 1 is 1."""
        points = [self.points(student) for student in self.students()]
        return [min(got / most, 1.0) for got, most in points if most]

    def possible(self, lesson: str) -> float:
        """Return how many points there are for what is asked of a lesson."""
        asked = {row.exercise for row in self.rows if row.exercise.startswith(lesson)}
        return sum(map(self.scheme.worth, asked - self.scheme.optional))

    def of(self, student: str) -> list[ExerciseRow]:
        """Return a student's rows."""
        return self._rows_of.get(student, [])

    @cached_property
    def _rows_of(self) -> dict[str, list[ExerciseRow]]:  # who looks through all for each waits
        found: dict[str, list[ExerciseRow]] = {}
        for row in self.rows:
            found.setdefault(row.student, []).append(row)
        return found

    def students(self) -> list[str]:
        """Return who is in the report, in order."""
        return sorted({row.student for row in self.rows})

    def exercises(self) -> list[Exercise]:
        """Return the exercises in the report, in order."""
        listed = {row.exercise for row in self.rows}
        return [exercise for exercise in exercises() if exercise.id in listed]

    def counts(self) -> dict[str, dict[str, int]]:
        """Return how often each outcome was found, for each exercise."""
        found = {exercise.id: Counter[str]() for exercise in self.exercises()}
        for row in self.rows:
            if row.exercise in found:
                found[row.exercise][row.outcome] += 1
        return {id_: {mark: count[mark] for mark in OUTCOMES} for id_, count in found.items()}

    def topics(self) -> list[Topic]:
        """Return the misconceptions that were found, the most frequent first."""
        known, counts = {each.id: each for each in self.exercises()}, self.counts()
        named = Counter((r.exercise, r.misconception) for r in self.rows if r.misconception)
        ordered = sorted(named.items(), key=lambda item: (-item[1], item[0]))
        topics = []
        for (id_, name), students in ordered:
            exercise = known[id_]
            attempts = sum(counts[id_][mark] for mark in "✓≠✗")
            text = exercise.misconceptions.get(name, "")
            topics.append(Topic(id_, exercise.title, name, students, attempts, text))
        return topics

    def unnamed(self) -> dict[str, int]:
        """Return how many are wrong in a way that has no name, by exercise, the most first."""
        found = Counter(r.exercise for r in self.rows if r.outcome == "✗" and not r.misconception)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def csv(self) -> str:
        """Return every row as CSV with a header; Excel wants a mark at its beginning."""
        file = io.StringIO(newline="")
        writer = csv.DictWriter(file, [*(each.name for each in fields(ExerciseRow)), "points"])
        writer.writeheader()
        for row in self.rows:
            points = self.scheme.worth(row.exercise) * (row.outcome == "✓")
            cells = asdict(row) | {"points": points, "late": LATE.strip() * row.late}
            for name in ("student", "notebook", "message"):
                cells[name] = no_formula(cells[name])
            writer.writerow(cells)
        return "\ufeff" + file.getvalue()

    def json(self) -> str:
        """Return rows, counts and misconceptions as JSON."""
        content: dict[str, Any] = {
            "outcomes": OUTCOMES,
            "rows": [asdict(row) for row in self.rows],
            "notes": self.notes(),
            "points": {
                each: dict(zip(("got", "of"), self.points(each), strict=True))
                for each in self.students()
            },
            "counts": self.counts(),
            "misconceptions": [asdict(topic) for topic in self.topics()],
            "predicted": [asdict(each) for each in self.predicted],
            "discuss": [*map(topic_line, self.topics()[:TOPICS])],
        }
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _cut(text: str, longest: int = 80) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def topic_line(topic: Topic) -> str:
    """Return a topic as one line."""
    of = f"{topic.students} of {topic.attempts} who tried"
    return f"{topic.exercise} {topic.title} ({of}): {topic.text}"


def best_of(rows: Iterable[tuple[int, ExerciseRow]]) -> list[ExerciseRow]:
    """Return one row for each student and exercise: of equally good ones the first.

    Args:
        rows: each with its rank; larger ranks are better.
    """
    best: dict[tuple[str, str], tuple[int, ExerciseRow]] = {}
    for rank, row in rows:
        key = (row.student, row.exercise)
        if key not in best or rank > best[key][0]:
            best[key] = rank, row
    return [best[key][1] for key in sorted(best)]


def no_formula(text: str) -> str:
    """Return a text that a spreadsheet takes for a text: a student's may begin with ``=``."""
    return _FORMULA.sub(r"\1'", text)
