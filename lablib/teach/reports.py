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
from functools import cached_property
from typing import Any

from lablib.course.checks.exercises import Exercise, exercises
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
NAMED = 100  # files or names in one sentence, at most
TOPICS = 5  # suggested for a discussion, at most
TEXTS = "student", "notebook", "message", "explanation"  # a student's words are in them
LONGEST = 80  # letters of a message in the table


@dataclass(frozen=True)
class ExerciseRow:
    """One exercise of one student."""

    student: str
    notebook: str  # the path, within the graded folder, of the one that counts, as it is shown
    exercise: str  # ``"-"`` for a file that can't be read
    outcome: str  # one of ``OUTCOMES``
    misconception: str  # the name of the wrong answer that it looks like, or empty
    message: str  # what the student was told, on one line
    explanation: str = ""  # what the student wrote beside it, for a teacher to read


@dataclass(frozen=True)
class Topic:
    """A misconception, how many students seem to have it, and what to tell them."""

    exercise: str
    title: str
    misconception: str
    students: int
    attempts: int
    text: str

    def __str__(self) -> str:
        of = f"{self.students} of {self.attempts} who tried"
        return f"{self.exercise} {self.title} ({of}): {self.text}"


@dataclass(frozen=True)
class GradeReport:
    """All rows, one for each student and exercise; prints as a table."""

    rows: list[ExerciseRow]
    strangers: Sequence[str] = ()  # who handed something in and is not on the roster
    unread: Sequence[str] = ()  # other files, and archives, which are not opened
    scheme: Scheme = field(default_factory=Scheme)
    predicted: Sequence[Predicted] = ()  # by the class, by question

    def __repr__(self) -> str:
        from tabulate import tabulate

        hidden = "notebook", "explanation"
        names = [each.name for each in fields(ExerciseRow) if each.name not in hidden]
        rows = [[getattr(row, name) for name in names] for row in self.rows]
        for row in rows:
            row[-1] = row[-1] if len(row[-1]) <= LONGEST else f"{row[-1][: LONGEST - 1]}…"
        table = tabulate(rows, names, tablefmt="plain", disable_numparse=True)
        return f"{table}\n{self.summary()}"

    def summary(self) -> str:
        """Return the class in a few lines: how much is solved, what to discuss, what is missing."""
        asked = [row for row in self.rows if row.exercise != "-"]
        solved = sum(row.outcome == "✓" for row in asked)
        lines = [f"{len(self.students())} students, {solved} of {len(asked)} ✓"]
        lines += [f"Discuss {topic}" for topic in self.topics()[:TOPICS]]
        if written := len(self.explained()):
            lines.append(f"{written} explanations to read: --html has them beside the marks")
        return "\n".join([*lines, *self.notes()])

    def notes(self) -> list[str]:
        """Return what else a teacher should know, a sentence each."""
        told = {
            "Not on the roster, so only what they handed in is here": self.strangers,
            "Not graded, as it is no .ipynb and no .py, or is packed: unpack it": self.unread,
        }
        return [f"{said}: {_listed(names)}." for said, names in told.items() if names]

    def points(self, student: str, lesson: str = "") -> tuple[float, float]:
        """Return how many points a student has, and of how many, in one lesson or in all."""
        rows = [row for row in self.of(student) if row.exercise.startswith(lesson)]
        got = sum(self.scheme.worth(row.exercise) for row in rows if row.outcome == "✓")
        return got, self._due({row.exercise for row in rows})

    def possible(self, lesson: str) -> float:
        """Return how many points there are for what is asked of a lesson."""
        return self._due({row.exercise for row in self.rows if row.exercise.startswith(lesson)})

    def _due(self, asked: set[str]) -> float:
        return sum(self.scheme.worth(id_) for id_ in sorted(asked.difference(self.scheme.optional)))

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
        return sorted(self._rows_of)

    def exercises(self) -> list[Exercise]:
        """Return the exercises in the report, in order."""
        listed = {row.exercise for row in self.rows}
        return [exercise for exercise in exercises() if exercise.id in listed]

    def counts(self) -> dict[str, dict[str, int]]:
        """Return how often each outcome was found, for each exercise."""
        found = Counter((row.exercise, row.outcome) for row in self.rows)
        return {e.id: {mark: found[e.id, mark] for mark in OUTCOMES} for e in self.exercises()}

    def topics(self) -> list[Topic]:
        """Return the misconceptions that were found, the most frequent first."""
        known, counts = {each.id: each for each in self.exercises()}, self.counts()
        named = Counter((r.exercise, r.misconception) for r in self.rows if r.misconception)
        topics = []
        for (id_, name), students in sorted(named.items(), key=lambda item: (-item[1], item[0])):
            attempts = sum(counts[id_][mark] for mark in "✓≠✗")
            text = known[id_].misconceptions.get(name, "")
            topics.append(Topic(id_, known[id_].title, name, students, attempts, text))
        return topics

    def explained(self) -> list[ExerciseRow]:
        """Return the rows with an explanation, by exercise, then by student."""
        found = [row for row in self.rows if row.explanation]
        return sorted(found, key=lambda row: (row.exercise, row.student))

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
            texts = {n: no_formula(getattr(row, n)) for n in TEXTS}
            points = self.scheme.worth(row.exercise) * (row.outcome == "✓")
            writer.writerow(asdict(row) | texts | {"points": points})
        return "\ufeff" + file.getvalue()

    def json(self) -> str:
        """Return rows, counts and misconceptions as JSON."""
        points = {each: self.points(each) for each in self.students()}
        content: dict[str, Any] = {
            "outcomes": OUTCOMES,
            "rows": [asdict(row) for row in self.rows],
            "notes": self.notes(),
            "points": {each: {"got": got, "of": of} for each, (got, of) in points.items()},
            "counts": self.counts(),
            "misconceptions": [asdict(topic) for topic in self.topics()],
            "predicted": [asdict(each) for each in self.predicted],
            "discuss": [str(topic) for topic in self.topics()[:TOPICS]],
        }
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def best_of(rows: Iterable[tuple[int, ExerciseRow]]) -> list[ExerciseRow]:
    """Return one row for each student and exercise: of the highest rank, the first."""
    best: dict[tuple[str, str], tuple[int, ExerciseRow]] = {}
    for rank, row in rows:
        key = (row.student, row.exercise)
        if key not in best or rank > best[key][0]:
            best[key] = rank, row
    return [best[key][1] for key in sorted(best)]


def no_formula(text: str) -> str:
    """Return a text that a spreadsheet takes for a text: a student's may begin with ``=``."""
    return _FORMULA.sub(r"\1'", text)
