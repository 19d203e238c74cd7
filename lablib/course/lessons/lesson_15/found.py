"""Starters of bug hunts: a report, and the code as it was found."""

import inspect
from collections.abc import Callable
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import starter_of

STILL = "all is as with the code that was found: the report still holds."
UNTOUCHED = "  # take this line away: below is the code as it was found"


def as_found(
    reference: Callable[..., Any], *places: tuple[str, str]
) -> tuple[Callable[..., Any], str]:
    """Return the function as it was found, and a starter that holds it.

    The starter has a line before it that raises ``NotImplementedError``: nobody has attempted
    anything yet, and ``check`` stays neutral until that line is taken away.

    Args:
        reference: the mended function; its signature and docstring stay as they are.
        places: those of its body that were mended, and what stood there (see ``changed``).
    """
    function = reference
    for old, new in places:
        function = changed(function, f"{reference.__name__}_as_found", old, new)
    body = inspect.getsource(function).split("\n", 1)[1]  # the first line is the def's
    return function, f"{starter_of(reference)}{UNTOUCHED}\n{body.rstrip()}"
