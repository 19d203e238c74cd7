"""Predictions that students make before a cell is run: kept, asked again, worth no points.

``predict("06.q1", "b")`` keeps a prediction, and ``outcome("06.q1", "a")`` in the cell that finds
out shows it beside what came. ``recall()`` asks earlier questions again: a week apart at first,
twice as long after each right answer. A question is one line of the ``questions.py`` of its lesson.

Predictions lie in ``predictions.json`` beside the marks, and, as these, only where there is a
``progress.json``; elsewhere they end with the kernel.
"""

import datetime
import importlib
import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from lablib.course.checks import marks
from lablib.course.checks.exercises import lessons, number_of
from lablib.folders import write_whole
from lablib.validation import BadValue

FILE = "predictions.json"
LETTERS = "abcdefgh"
FIRST = 7  # days until a question comes again
WIDE = 78  # columns of an output; a notebook breaks longer lines anywhere
CLOSE = 0.2  # of a number: a prediction this near to it was right
_kept: dict[str, dict[str, Any]] = {}  # of this kernel, by question


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        id: ``"06.q1"``, or ``"06.m1"`` for a misconception, which ``recall`` asks without a
            prediction.
        text: the question, understandable without its lesson.
        choices: what may be answered, ``"a"`` the first; none where a number is asked for.
        truth: the right letter, where no cell finds it out.
    """

    id: str
    text: str
    choices: tuple[str, ...] = ()
    truth: str = ""

    def accepts(self, answer: object) -> bool:
        """Return whether this is an answer to it, right or wrong."""
        if self.choices:
            return isinstance(answer, str) and answer in [*LETTERS[: len(self.choices)]]
        return type(answer) in (int, float) and abs(answer) <= sys.float_info.max

    def words(self, answer: str | float) -> str:
        """Return an answer as it is shown."""
        if not self.choices:
            return f"{answer:.4g}"
        return f"{answer} ({self.choices[LETTERS.index(answer)]})"

    def right(self, said: str | float, came: str | float) -> bool:
        """Return whether an answer is right; a number need only be close."""
        if self.choices:
            return said == came
        return abs(said - came) <= CLOSE * abs(came)

    @property
    def asked(self) -> str:
        """Return the question with its choices, none broken within a word."""
        listed = zip(LETTERS, self.choices, strict=False)
        choices = [f"  {letter}  {choice}" for letter, choice in listed]
        folded = [fill(choice, WIDE, subsequent_indent=5 * " ") for choice in choices]
        return "\n".join([fill(self.text, WIDE), *folded])

    def how(self, function: str) -> str:
        """Return how it is answered with ``predict`` or ``recall``."""
        example = '"a"' if self.choices else "a number"
        return f'Answer in the cell: {function}("{self.id}", {example})'


def questions() -> dict[str, Question]:
    """Return all questions of the course, by id, in order."""
    found = {}
    for lesson in lessons():
        name = f"lablib.course.lessons.lesson_{lesson}.questions"
        if importlib.util.find_spec(name):
            found |= {each.id: each for each in importlib.import_module(name).QUESTIONS}
    return found


def predict(question: str, answer: object = ...) -> None:
    """Keep what you expect, before the next cell shows it; without an answer, show the question.

    Args:
        question: its id, for example ``"06.q1"``.
        answer: a letter, or a number where there is nothing to choose from; ``...`` is none yet.
    """
    asked = find(question)
    if answer is ...:
        print(f"{asked.asked}\n{asked.how('predict')}; or go on without.")
    elif not asked.accepts(answer):
        print(f"{answer!r} is no answer to this.\n{asked.asked}\n{asked.how('predict')}")
    else:
        _keep(question, {"said": answer})
        print(f"Your prediction: {asked.words(answer)}")


def outcome(question: str, came: str | float) -> None:
    """Show what came, and the prediction beside it, if there is one.

    Args:
        question: its id.
        came: the letter or the number that the lesson's cells found.
    """
    asked = find(question)
    if not asked.accepts(came):
        raise BadValue(f"came must be an answer to {question}, got {came!r}")
    said = _all().get(question, {}).get("said")
    if said is None:
        print(f"It came out: {asked.words(came)}")
        return
    _keep(question, {"said": said, "came": came, "days": FIRST, "due": _after(FIRST)})
    print(f"You said {asked.words(said)}; it came out: {asked.words(came)}")


def recall(question: str | None = None, answer: object = ...) -> None:
    """Ask a question of an earlier lesson again, if one is due; with an answer, say what came.

    When nothing is due it says nothing.

    Args:
        question: the id that it showed; the next one that is due when ``None``.
        answer: yours, as for ``predict``.
    """
    if question is None:
        if due := _due():
            print(f"{due[0].asked}\n{due[0].how('recall')}")
            print(f"{len(due)} to recall today." if len(due) > 1 else "The only one today.")
        return
    asked, known = find(question), _all().get(question, {})
    came = known.get("came", asked.truth)
    if not came and came != 0:
        print(f"Nothing came of {question} yet: predict it in its lesson, and run the cell below.")
    elif not asked.accepts(answer):
        print(f"{asked.asked}\n{asked.how('recall')}")
    else:
        right = asked.right(answer, came)
        days = 2 * known.get("days", FIRST) if right else FIRST
        _keep(question, {**known, "days": days, "due": _after(days)})
        verdict = "Yes" if right else f"You said {asked.words(answer)}"
        print(f"{verdict}: it is {asked.words(came)}. It comes again in {days} days.")


def find(question: str) -> Question:
    """Return the question with this id."""
    known = questions()
    if question not in known:
        raise BadValue(f"there is no question {question!r}; there are: {', '.join(known)}")
    return known[question]


def _due() -> list[Question]:
    """Return what is to be recalled today: a misconception once its lesson has a prediction."""
    kept, today = _all(), _after(0)
    begun = {number_of(id_) for id_ in kept}
    found = []
    for each in questions().values():
        when = kept.get(each.id, {}).get("due", today if each.truth else "")
        if number_of(each.id) in begun and when and when <= today:
            found.append(each)
    return found


def _after(days: int) -> str:
    return (datetime.date.today() + datetime.timedelta(days)).isoformat()


def _all() -> dict[str, dict[str, Any]]:
    """Return what is kept, in the folder's file and in this kernel."""
    return {**_read(), **_kept}


def _read() -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(Path(FILE).read_text(encoding="utf-8"))
        return {id_: dict(each) for id_, each in found.items() if _is_entry(id_, each)}
    # None yet, or somebody else's.
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}


def _is_entry(id_: str, each: Any) -> bool:
    """Return whether this was kept here: an answer is one to a question that exists."""
    asked = questions().get(id_)
    answers = [each[name] for name in ("said", "came") if name in each]
    dated = isinstance(each.get("due", ""), str) and type(each.get("days", 0)) is int
    return asked is not None and dated and all(map(asked.accepts, answers))


def _keep(question: str, entry: dict[str, Any]) -> None:
    """Keep an entry in this kernel, and in the folder's file where marks are kept."""
    _kept[question] = entry
    if not Path(marks.FILE).exists():
        return
    if Path(FILE).exists() and not _read():
        print(f"Note: {FILE} holds something else: your predictions end with this kernel.")
        return
    try:
        write_whole(Path(FILE), json.dumps(_all(), ensure_ascii=False, indent=1) + "\n")
    except OSError as error:
        print(f"Note: {FILE} can't be written ({error.strerror}): it ends with this kernel.")
