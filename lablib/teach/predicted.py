"""The predictions of a class, read from the ``predict`` lines of its files; nothing is run."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.checks.predictions import questions


@dataclass(frozen=True)
class Predicted:
    """The counts of a question's predicted answers, the most frequent first."""

    question: str
    text: str
    answers: dict[str, int]


def predictions(cells: Sequence[tuple[int, str]]) -> dict[str, Any]:
    """Return what is predicted in code cells, numbers and sources, by question: the last counts.

    Students' texts are parsed here, so a file's own judge does it, in bounds.
    """
    known = questions()
    return {i: answer for i, answer in _lines(cells) if i in known and known[i].accepts(answer)}


def predicted(files: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Predicted]:
    """Return what a class predicted, by question.

    Args:
        files: whose it is, and its ``predictions``; of one student's the last count.
    """
    said = {(id_, student): answer for student, told in files for id_, answer in told.items()}
    found = []
    for id_, question in questions().items():
        given = sorted(answer for (asked, _), answer in said.items() if asked == id_)
        counts = Counter(map(question.words, given))  # 0.50001 is said as 0.5 is
        if given:
            found.append(Predicted(id_, question.text, dict(counts.most_common())))
    return found


def _lines(cells: Sequence[tuple[int, str]]) -> Iterator[tuple[str, Any]]:
    """Yield the question and the answer of each ``predict(...)`` that a line consists of."""
    for line in (line for _, source in cells for line in source.splitlines()):
        if line.startswith("predict(") and len(line) < 200:
            try:
                call = ast.parse(line.strip(), mode="eval").body
                id_, answer = (ast.literal_eval(argument) for argument in call.args)
            except (ValueError, SyntaxError, AttributeError, TypeError, RecursionError):
                continue
            if isinstance(id_, str) and isinstance(answer, str | int | float):
                yield id_, answer
