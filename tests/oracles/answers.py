"""Tables of answers to exercises: which a checker must accept, and which it must refuse."""

from collections.abc import Callable, Iterable

from lablib.course.checks.changed import changed
from lablib.course.checks.checking import CheckResult, check
from lablib.course.checks.exercises import find

Right = tuple[str, Callable]  # exercise, answer
Wrong = tuple[str, str | None, Callable]  # exercise, the misconception it looks like, answer


class Answers:
    """Answers to the exercises of one lesson, written as a student might.

    Args:
        rights: those that must be accepted.
        wrongs: those that must be refused, and as which misconception unless that is None.
    """

    def __init__(self, rights: Iterable[Right] = (), wrongs: Iterable[Wrong] = ()) -> None:
        self.rights, self.wrongs = list(rights), list(wrongs)

    def right(self, exercise: str) -> Callable[[Callable], Callable]:
        """Note the decorated function as an answer that must be accepted."""

        def note(function: Callable) -> Callable:
            self.rights.append((exercise, function))
            return function

        return note

    def wrong(self, exercise: str, like: str | None = None) -> Callable[[Callable], Callable]:
        """Note an answer that must be refused, and as which misconception if ``like`` is given."""

        def note(function: Callable) -> Callable:
            self.wrongs.append((exercise, like, function))
            return function

        return note

    def changed(
        self, exercise: str, name: str, old: str, new: str, like: str | None = None
    ) -> None:
        """Note the exercise's reference, one place changed, as an answer to be refused.

        Args:
            exercise: its id.
            name: what the answer is called.
            old: see ``lablib.course.checks.changed``.
            new: see there.
            like: the misconception that it looks like, if it should be recognised.
        """
        self.wrongs.append((exercise, like, changed(find(exercise).reference, name, old, new)))


def name(row: Right | Wrong) -> str:
    """Return what a row of a table is called: exercise, misconception if it has one, function."""
    *said, answer = row
    return "-".join([*filter(None, said), answer.__name__])


def faults(rows: Iterable[Right | Wrong]) -> list[str]:
    """Return a text for each answer that is not judged as it must be."""
    judged = ((row, check(row[0], row[-1])) for row in rows)
    return [f"{name(row)}: {outcome!r}" for row, outcome in judged if not _is_due(row, outcome)]


def _is_due(row: Right | Wrong, outcome: CheckResult) -> bool:
    if len(row) == 2:
        return outcome.correct
    return outcome.mark == "✗" and row[1] in (None, outcome.misconception)
