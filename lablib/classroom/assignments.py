"""Lessons as nbgrader's source notebooks: solutions between markers, a point for each star.

``nbgrader generate_assignment`` takes the solutions out, and ``nbgrader autograde`` runs what comes
back; a cell that says ``assert check(...).correct`` gives its points or none. Its metadata is of
schema 3, of nbgrader 0.6 to 0.9. Submissions stay notebooks that ``grade`` can read.
"""

import copy
from typing import Any

from lablib.classroom.editions import Cell, Notebook, code_cells, part_of, unrun
from lablib.classroom.exercises import Exercise, find

_STUB = "    raise NotImplementedError"


def assignment(student: Notebook) -> Notebook:
    """Return a student edition as nbgrader's source notebook, without any output."""
    notebook = copy.deepcopy(student)
    for cell, _ in code_cells(notebook):
        unrun(cell)
    for cell in notebook["cells"]:
        id_, part = part_of(cell)
        if part == "starter":
            cell["source"] = _with_solution(find(id_))
            _mark(cell, solution=True, locked=False)
        elif part == "check":
            exercise = find(id_)
            cell["source"] = (
                f'display(found := check("{id_}", {exercise.name}))\n'
                f"assert found.correct  # {exercise.stars} of {exercise.stars} points"
            )
            _mark(cell, grade=True, points=exercise.stars)
        elif part == "task":
            _mark(cell)
    return notebook


def _with_solution(exercise: Exercise) -> str:
    """Return the reference with its body between nbgrader's markers."""
    head = exercise.starter.removesuffix(_STUB)
    body = exercise.solution.removeprefix(head)
    return f"{head}    ### BEGIN SOLUTION\n{body}\n    ### END SOLUTION"


def _mark(cell: Cell, **more: Any) -> None:
    plain = {"grade": False, "solution": False, "task": False, "locked": True, "schema_version": 3}
    cell["metadata"]["nbgrader"] = {**plain, "grade_id": cell["id"], **more}
