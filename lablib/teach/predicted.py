"""What a class predicted, read from the ``predict`` lines of what it handed in; nothing is run."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lablib.course.checks.predictions import Question, questions
from lablib.teach.handed_in import code_of, read_cells


@dataclass(frozen=True)
class Predicted:
    """How often each answer to a question was predicted, the most frequent first."""

    question: str
    text: str
    answers: dict[str, int]


def predicted(files: Iterable[tuple[str, Path]]) -> list[Predicted]:
    """Return what was predicted, by question.

    Args:
        files: whose it is, and a notebook; of several predictions of one student the last counts.
    """
    known = questions()
    said: dict[tuple[str, str], Any] = {}
    for student, path in files:
        for id_, answer in _lines(path):
            if id_ in known and known[id_].accepts(answer):
                said[id_, student] = answer
    found = []
    for id_, question in known.items():
        given = [answer for (asked, _), answer in said.items() if asked == id_]
        if given:
            found.append(Predicted(id_, question.text, _counted(question, given)))
    return found


def _counted(question: Question, given: list[Any]) -> dict[str, int]:
    ordered = sorted({*given}, key=lambda answer: (-given.count(answer), answer))
    return {question.words(answer): given.count(answer) for answer in ordered}


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the question and the answer of each ``predict(...)`` that a line consists of."""
    try:
        sources = [source for _, source in code_of(read_cells(path))]
    except Exception:  # what can't be read is reported where it is graded
        return
    for line in (line for source in sources for line in source.splitlines()):
        if line.startswith("predict(") and len(line) < 200:
            try:
                call = ast.parse(line.strip(), mode="eval").body
                id_, answer = (ast.literal_eval(argument) for argument in call.args)
            except (ValueError, SyntaxError, AttributeError, TypeError, RecursionError):
                continue
            if isinstance(id_, str) and isinstance(answer, str | int | float):
                yield id_, answer
