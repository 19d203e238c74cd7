"""Judge one submitted notebook: run what its exercises need, and nothing else.

That is, in the notebook's order: imports, definitions and literal constants of every cell; all of
a cell tagged ``setup`` or ``exercise``, except IPython magics; and the ``check`` calls. Experiments
between them, which may be slow, are left out.
"""

import ast
import json
import linecache
import sys
from collections.abc import Iterator
from typing import Any

from lablib.classroom.checking import check
from lablib.classroom.editions import Cell, Notebook, part_of, read_notebook
from lablib.classroom.exercises import exercises, find

from IPython.core.inputtransformer2 import TransformerManager

DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FOR_STUDENTS = ("Write ", "Next: ", "Stuck? ")  # advice that a teacher's table can do without
Finding = dict[str, str]


def judge_notebook(notebook: Notebook) -> Iterator[tuple[str, Finding]]:
    """Yield ``(exercise id, finding)`` for each ``check`` call in turn.

    An exercise whose ``check`` call was deleted is judged after the last cell. A finding has the
    keys ``outcome`` (``!`` when the exercise's cell itself failed), ``misconception``, ``message``.
    """
    known = {exercise.id for exercise in exercises()}
    space: dict[str, Any] = {"__name__": "__main__"}
    unchecked: list[str] = []
    accidents: dict[str, str] = {}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        exercise, part = part_of(cell)
        if part == "starter":
            unchecked.append(exercise)
        calls = []
        try:
            calls = _run(cell, f"<cell {number}>", space)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: the other exercises still count
            accidents[exercise] = f"its cell raised {type(error).__name__}: {error}"
        for called, function in calls:
            if called in known:
                yield called, _finding(called, space.get(function), accidents)
                unchecked = [other for other in unchecked if other != called]
    for exercise in unchecked:
        yield exercise, _finding(exercise, space.get(find(exercise).name), accidents)


def _run(cell: Cell, name: str, space: dict[str, Any]) -> list[tuple[str, str]]:
    """Run what a cell has to give and return its ``check`` calls: (exercise id, function name)."""
    source = TransformerManager().transform_cell(cell["source"])
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    body = ast.parse(source).body
    calls = [call for statement in body if (call := _check_call(statement))]
    whole = {"setup", "exercise"} & {*cell["metadata"].get("tags", [])}
    kept = [
        statement
        for statement in body
        if isinstance(statement, DEFINITIONS)
        or _is_constant(statement)
        or (whole and not _check_call(statement) and not _is_magic(statement))
    ]
    exec(compile(ast.Module(kept, []), name, "exec"), space)
    return calls


def _check_call(statement: ast.stmt) -> tuple[str, str] | None:
    """Recognise ``check("01.2", function)`` as a statement."""
    match statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Name(id="check"),
                args=[ast.Constant(value=str(exercise)), ast.Name(id=function)],
            )
        ):
            return exercise, function
    return None


def _is_constant(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign):
        return False
    try:
        ast.literal_eval(statement.value)
    except (ValueError, TypeError):
        return False
    return True


def _is_magic(statement: ast.stmt) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == "get_ipython" for node in ast.walk(statement)
    )


def _finding(exercise: str, function: Any, accidents: dict[str, str]) -> Finding:
    if function is None:
        message = accidents.get(exercise, f"no function {find(exercise).name} in the notebook")
        return {"outcome": "!", "misconception": "", "message": message}
    outcome = check(exercise, function)
    lines = [line for line in outcome.message.splitlines() if not line.startswith(FOR_STUDENTS)]
    return {
        "outcome": outcome.mark,
        "misconception": outcome.misconception or "",
        "message": " · ".join(lines),
    }


def main(path: str, out: str) -> None:
    """Judge the notebook at ``path`` and append one JSON line for each finding to ``out``."""
    with open(out, "a", encoding="utf-8") as file:
        for pair in judge_notebook(read_notebook(path)):
            print(json.dumps(pair), file=file, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
