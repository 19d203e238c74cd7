"""The functions that students call: ``check``, ``hint``, ``solution`` and ``progress``."""

import contextlib
import html
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lablib.course.checks.comparing import compare
from lablib.course.checks.exercises import Exercise, Wrong, exercises, find
from lablib.course.checks.marks import FILE, MARKS, keep, keep_here
from lablib.course.checks.running import TOO_MUCH, NotAttempted, TimeUp, Watched, time_limit
from lablib.course.checks.values import as_text
from lablib.validation import BadValue, integer

_marks: dict[str, str] = {}  # what check said in this kernel, by exercise
_closed: set[str] = set()  # whether, and by what, the solutions are closed in this kernel
_told: set[str] = set()  # why marks could not be kept, said once in this kernel


@dataclass(frozen=True)
class CheckResult:
    """The outcome of ``check``; it displays itself.

    Attributes:
        exercise: which one.
        mark: ``"○"`` not attempted, ``"✗"`` wrong, ``"✓"`` correct.
        message: what to tell the student, a few lines.
        misconception: the name of the wrong answer that it looks like, if any.
    """

    exercise: Exercise
    mark: str
    message: str
    misconception: str | None = None

    @property
    def correct(self) -> bool:
        """Return whether the answer was accepted."""
        return self.mark == "✓"

    def __repr__(self) -> str:
        head = f"{self.mark} {self.exercise.id} {self.exercise.title}: {MARKS[self.mark][0]}"
        return "\n".join([head, *(f"  {line}" for line in self.message.splitlines())])

    def _repr_html_(self) -> str:
        head, *rest = map(html.escape, repr(self).splitlines())
        lines = "\n".join(line.removeprefix("  ") for line in rest)
        return (
            f'<div role="status" style="border-left:5px solid {MARKS[self.mark][1]};'
            f'padding:.3em .8em"><b>{head}</b>'
            '<pre style="margin:0;white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere">'
            f"{lines}</pre></div>"
        )


@dataclass(frozen=True)
class Folded:
    """What opens with a click in a notebook, part by part, and with ``.source`` elsewhere."""

    text: str
    parts: dict[str, str]  # by their titles
    code: bool = False

    @property
    def source(self) -> str:
        """Return what is folded."""
        return "\n".join(self.parts.values())

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        folds = ""
        for title, part in self.parts.items():
            body = html.escape(part)
            body = f"<pre>{body}</pre>" if self.code else body.replace("\n", "<br>")
            folds += f"<details><summary>{html.escape(title)}</summary>{body}</details>"
        return folds


def check(exercise: str | Exercise, function: Callable[..., Any]) -> CheckResult:
    """Say whether ``function`` solves the exercise: ○ not attempted, ✗ wrong and why, ✓ correct.

    Nothing is raised for a wrong answer. What the function prints while it is checked is hidden.

    Args:
        exercise: its id, for example ``"01.2"``.
        function: the function itself, without parentheses.

    Returns:
        The outcome, which shows itself; ``.mark`` is "○", "✗" or "✓".

    Raises:
        ValueError: there is no such exercise.

    Example:
        >>> lablib.check("01.1", lambda scores: scores).mark
        '✗'
    """
    exercise, printed = find(exercise), io.StringIO()
    with _quiet(printed):
        outcome = judge(exercise, function, printed)
    _marks[exercise.id] = outcome.mark
    _, trouble = keep_here({exercise.id: outcome.mark})
    if not trouble or trouble in _told:
        return outcome
    _told.add(trouble)
    return replace(outcome, message=f"{outcome.message}\nNote: {trouble}".lstrip())


def solved(exercise: str, function: Callable[..., Any]) -> bool:
    """Return whether ``function`` solves the exercise; if not, say that this cell waits for it.

    Args:
        exercise: its id, for example ``"01.2"``.
        function: the function itself, without parentheses.

    Raises:
        ValueError: there is no such exercise.

    Example:
        >>> lablib.course.solved("01.1", lambda scores: scores)
        ○ Once 01.1 is ✓, this cell uses your function.
        False
    """
    if check(exercise, function).correct:
        return True
    print(f"○ Once {find(exercise).id} is ✓, this cell uses your function.")
    return False


def hint(exercise: str, level: int | None = None) -> Folded:
    """Show the hints of an exercise, each folded where a notebook shows them.

    Args:
        exercise: its id, for example ``"01.2"``.
        level: the number of a hint, from 1; None: all of them. As plain text the first is shown.

    Returns:
        The hints; ``.source`` is their text.

    Raises:
        ValueError, TypeError: there is no such exercise, or no such hint.

    Example:
        >>> print(str(lablib.hint("01.1", 1))[:20])
        Hint 1 of 2 for 01.1
    """
    exercise = find(exercise)
    total = len(exercise.hints)
    first = integer("level", 1 if level is None else level, 1, total)
    title = f"Hint {{}} of {total} for {exercise.id}"
    shown = range(first, 1 + (total if level is None else first))
    parts = {f"{title.format(i)} (click)": exercise.hints[i - 1] for i in shown}
    text = f"{title.format(first)}: {exercise.hints[first - 1]}"
    if first < total:
        text += f'\nOne more: hint("{exercise.id}", {first + 1})'
    return Folded(text, parts)


def solution(exercise: str) -> Folded:
    """Show a solution, one click away; it is never run in the notebook.

    Args:
        exercise: its id, for example ``"01.2"``.

    Returns:
        The solution, folded where a notebook shows it; ``.source`` is its text.

    Raises:
        ValueError: there is no such exercise, or an assessment has begun.

    Example:
        >>> lablib.solution("01.1").source.startswith("def safe_softmax")
        True
    """
    exercise = find(exercise)
    if _closed:
        raise BadValue(f"the solution of {exercise.id} is for after the assessment")
    how = f'print(solution("{exercise.id}").source)'
    title = f"One solution of {exercise.id} (click; try the hints first)"
    return Folded(f"One solution of {exercise.id}: {how}", {title: exercise.solution}, code=True)


def assessment() -> None:
    """Close ``solution`` in this kernel: the first cells of an assessment call it."""
    _closed.add("by the assessment")


def progress(lesson: str | None = None, save: str | Path | None = None) -> "Progress":
    """Return a table of the exercises of a lesson (or of all) and what ``check`` said of each.

    Marks of earlier kernels are among them where ``progress.json`` in the working folder keeps
    them: ``lab`` puts one there, or ``save="progress.json"``.

    Args:
        lesson: its number, for example ``"01"``; all lessons when ``None``.
        save: a JSON file to write the marks to, for a teacher to collect. Marks that an earlier
            session left there are kept and shown too, so one file can serve every lesson.

    Returns:
        The table, which shows itself.

    Raises:
        ValueError: there is no such lesson, or ``save`` can't be written.

    Example:
        >>> print(str(lablib.progress("01")).splitlines()[1].split()[1])
        01.2
    """
    listed = exercises(lesson)
    marks, note = keep_here(_marks)
    marks |= {exercise: mark for exercise, mark in _marks.items() if mark != "○"}
    if save is not None:
        try:
            marks = keep(Path(save), marks)
        except OSError as error:
            reason = f"{str(save)!r}: {error.strerror or type(error).__name__}"
            raise BadValue(f"save must be a file that can be written, got {reason}") from None
    if not note and Path(FILE).exists():
        note = f"Kept in {FILE}, so a restart of the kernel forgets none."
    return Progress(listed, {each.id: marks.get(each.id, "○") for each in listed}, note)


@dataclass(frozen=True)
class Progress:
    """A table of exercises and marks, and a line on where they are kept, if they are."""

    exercises: list[Exercise]
    marks: dict[str, str]
    note: str = ""

    @property
    def solved(self) -> int:
        """Return how many exercises are marked ✓."""
        return sum(mark == "✓" for mark in self.marks.values())

    @property
    def summary(self) -> str:
        """Return one line: how many of how many are solved."""
        return f"{self.solved} of {len(self.exercises)} solved"

    def __repr__(self) -> str:
        width = max((len(exercise.title) for exercise in self.exercises), default=0)
        rows = [
            f"{self.marks[e.id]} {e.id}  {e.title:<{width}}  {e.difficulty}  "
            f"{e.minutes:>2} min{_on(e)}"
            for e in self.exercises
        ]
        return "\n".join([*rows, self.summary, *filter(None, [self.note])])

    def _repr_html_(self) -> str:
        rows = ""
        for e in self.exercises:
            mark = self.marks[e.id]
            word, colour = MARKS[mark]
            rows += (
                f'<tr><td style="border-left:5px solid {colour}">{mark} {word}</td><td>{e.id}</td>'
                f'<td style="text-align:left;overflow-wrap:anywhere">'
                f"{html.escape(e.title)}{_on(e)}</td>"
                f'<td style="white-space:nowrap">{e.difficulty}</td>'
                f'<td style="white-space:nowrap">{e.minutes} min</td></tr>'
            )
        names = '<th>outcome</th><th colspan="2">exercise</th><th>level</th><th>time</th>'
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        rows = f"<caption>{self.summary}</caption><tr>{names}</tr>{rows}"
        return f"<table>{rows}</table>{note}"


def _on(exercise: Exercise) -> str:
    """Return where an exercise stands, if not in its lesson."""
    return ", on the page beside the lesson" if exercise.further else ""


def judge(
    exercise: Exercise, function: Callable[..., Any], printed: io.StringIO | None = None
) -> CheckResult:
    """Judge a function as ``check`` does, and remember nothing.

    Args:
        exercise: which one.
        function: a function, or what stands for one in another process.
        printed: what the function has printed is found here afterwards.
    """
    if not callable(function):
        call = f'check("{exercise.id}", {exercise.name})'
        return CheckResult(exercise, "✗", f"check wants the function itself, without (): {call}")
    watched = Watched(function, exercise)
    try:
        wrong = _find_fault(exercise, watched)
    except NotAttempted:
        text = f"Write {exercise.name} above, run its cell, then this one."
        return CheckResult(exercise, "○", text)
    notes = [f"Note: it changes its argument {name}; work on a copy." for name in watched.changed]
    if printed is not None and printed.getvalue():
        notes.append("Note: what it prints is hidden while it is checked.")
    if wrong is None:
        lines = [f"Next: {exercise.next}"] if exercise.next else []
        return CheckResult(exercise, "✓", "\n".join([*lines, *notes]))
    lines = [wrong.message]
    if wrong.like:
        lines.append(f"What it looks like: {exercise.misconceptions[wrong.like]}")
    lines += [*notes, f'Stuck? hint("{exercise.id}")']
    return CheckResult(exercise, "✗", "\n".join(lines), wrong.like)


def _find_fault(exercise: Exercise, watched: Watched) -> Wrong | None:
    """Return what is wrong with a student's function, or None; cases come before the checker."""
    try:
        # One in another process has a clock of its own.
        with time_limit(getattr(watched.function, "patience", exercise.seconds)):
            if exercise.cases:
                compare(exercise, watched)
            if exercise.checker:
                exercise.checker(watched)
    except NotAttempted:
        raise
    except TimeUp as late:
        text = f"it took longer than {exercise.seconds:g} s: {TOO_MUCH}"
        line = watched.where(late)
        return Wrong(f"{text}\nstopped at {line}" if line else text)
    except Wrong as wrong:
        return wrong
    except Exception as error:  # a checker that got something it could not work with
        what = f"{type(error).__name__}: {error}"
        return Wrong(f"its answer {as_text(watched.last)} could not be used: {what}")
    return None


@contextlib.contextmanager
def _quiet(printed: io.StringIO) -> Iterator[None]:
    """Keep prints in ``printed``, and warnings away: the verdict says what matters."""
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
