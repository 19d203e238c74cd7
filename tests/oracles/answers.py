"""Tables of answers to exercises: which a checker must accept, and which it must refuse."""

from collections.abc import Callable, Iterable

from lablib.course.checks.changed import changed
from lablib.course.checks.checking import check
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


def assert_accepted(exercise: str, answer: Callable) -> None:
    """Fail if a right answer is refused."""
    outcome = check(exercise, answer)
    assert outcome.correct, repr(outcome)


def assert_refused(exercise: str, like: str | None, answer: Callable) -> None:
    """Fail if a wrong answer is accepted, or not recognised."""
    outcome = check(exercise, answer)
    assert outcome.mark == "✗", repr(outcome)
    if like is not None:
        assert outcome.misconception == like, repr(outcome)
