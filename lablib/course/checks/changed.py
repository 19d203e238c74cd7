"""A wrong answer in two lines: a right one with one place changed.

``changed(majority, "counts_none", "if answer is not None", "if True")`` stands wherever a wrong
answer is written out as a function. The name is its own; it has a source, as others do.
"""

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

from lablib.validation import BadValue


def changed(function: Callable[..., Any], name: str, old: str, new: str) -> Callable[..., Any]:
    """Return the function with one place of its body changed.

    Args:
        function: a ``def``; its docstring is left out.
        name: what the new function is called.
        old: text of the body, which must occur there exactly once. It may go over several lines;
            indentation is counted from the ``def``.
        new: what stands there instead.

    Raises:
        BadValue: ``old`` does not occur once.
        SyntaxError: what comes of it is no Python.
    """
    source = without_docstring(textwrap.dedent(inspect.getsource(function)).rstrip())
    if (times := source.count(old)) != 1:
        raise BadValue(f"old must occur once in {function.__name__}, got {old!r}, {times} times")
    source = source.replace(old, new).replace(f"def {function.__name__}(", f"def {name}(", 1)
    file = f"<{function.__module__}.{name}>"
    made: dict[str, Callable[..., Any]] = {}
    exec(compile(source, file, "exec"), function.__globals__, made)
    # So that inspect finds the source: with None for a time nobody looks for a file.
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    return made[name]


def without_docstring(source: str) -> str:
    """Return a function's source without its decorators and its docstring."""
    (tree,) = ast.parse(source).body
    lines = source.splitlines()
    head = lines[tree.lineno - 1 : tree.body[0].lineno - 1]
    if ast.get_docstring(tree) is not None:
        return "\n".join([*head, *lines[tree.body[0].end_lineno :]])
    return "\n".join(lines[tree.lineno - 1 :])
