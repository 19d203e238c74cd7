"""Starters of bug hunts: a task, and the code as it was found."""

from collections.abc import Callable
from typing import Any

from lablib.course.checks.exercises import starter_of


def found(reference: Callable[..., Any], body: str) -> str:
    """Return a starter that holds code as it was found, behind a line that says so.

    Nobody has attempted anything yet: ``check`` stays neutral until that line is taken away.

    Args:
        reference: its signature and docstring are the task.
        body: the body of the function, indented.
    """
    untouched = "  # take this line away: below is the code as it was found"
    return f"{starter_of(reference)}{untouched}\n{body.rstrip()}"
