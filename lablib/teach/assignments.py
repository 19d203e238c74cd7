"""Lessons as source notebooks of nbgrader and Otter: solutions marked, a point for each star.

``nbgrader generate_assignment`` takes the solutions out, and ``nbgrader autograde`` runs what comes
back (metadata of schema 3, nbgrader 0.6 to 0.9). ``otter assign`` and ``otter run`` do so with raw
cells around each exercise. Submissions stay notebooks that ``grade`` can read.
"""

import copy
from collections.abc import Iterator
from typing import Any

from lablib.course.checks.exercises import Exercise, find
from lablib.teach.editions import Cell, Notebook, code_cells, part_of, unrun

_STUB = "    raise NotImplementedError"
# The solved lessons are tested where they are made, which takes longer than an assignment should.
_OTTER = "# ASSIGNMENT CONFIG\ninit_cell: true\nexport_cell: false\nrun_tests: false"


def nbgrader_source(student: Notebook) -> Notebook:
    """Return a student edition as nbgrader's source notebook, without any output."""
    notebook = _unrun(student)
    for cell in notebook["cells"]:
        id_, part = part_of(cell)
        if part == "starter":
            cell["source"] = _with_solution(find(id_), "### ")
            _mark(cell, solution=True, locked=False)
        elif part == "check":
            exercise = find(id_)
            cell["source"] = (  # imported anew: a student's own check is none
                f"from lablib.course import check\n\n"
                f'display(checked := check("{id_}", {exercise.name}))\n'
                f"assert checked.correct  # {exercise.stars} of {exercise.stars} points"
            )
            _mark(cell, grade=True, points=exercise.stars)
        elif part == "task":
            _mark(cell)
    return notebook


def otter_source(student: Notebook) -> Notebook:
    """Return a student edition as Otter's source notebook, without any output."""
    notebook = _unrun(student)
    around = [_raw("otter", _OTTER)]
    for cell in notebook["cells"]:
        around += _for_otter(cell)
    return notebook | {"cells": around}


def _for_otter(cell: Cell) -> Iterator[Cell]:
    """Yield a cell and the raw ones around it: an exercise is a question from task to check."""
    (id_, part), name = part_of(cell), cell.get("id")
    if part == "task":
        asked = f"name: q{id_.replace('.', '_')}\npoints: {find(id_).stars}"
        yield _raw(f"{name}-begin", f"# BEGIN QUESTION\n{asked}")
    if part == "starter":
        yield _raw(f"{name}-begin", "# BEGIN SOLUTION")
        yield cell | {"source": _with_solution(find(id_), "# ")}
        yield _raw(f"{name}-end", "# END SOLUTION")
        return
    if part == "check":  # its output is what Otter expects
        right = {"output_type": "execute_result", "execution_count": 1, "metadata": {}}
        outputs = [right | {"data": {"text/plain": "True"}}]
        afresh = f"from lablib.course import check\n{cell['source']}.correct"
        test = {"source": afresh, "metadata": {}, "execution_count": 1, "outputs": outputs}
        yield _raw(f"{name}-begin", "# BEGIN TESTS")
        yield {"cell_type": "code", "id": f"{name}-test", **test}
        yield _raw(f"{name}-end", "# END TESTS")
        yield _raw(f"{name}-question-end", "# END QUESTION")
    yield cell


def _unrun(student: Notebook) -> Notebook:
    notebook = copy.deepcopy(student)
    for cell, _ in code_cells(notebook):
        unrun(cell)
    return notebook


def _with_solution(exercise: Exercise, mark: str) -> str:
    """Return the reference with its body between markers, comments that begin with ``mark``."""
    head = exercise.starter.removesuffix(_STUB)
    body = exercise.solution.removeprefix(head)
    return f"{head}    {mark}BEGIN SOLUTION\n{body}\n    {mark}END SOLUTION"


def _raw(id_: str, text: str) -> Cell:
    return {"cell_type": "raw", "id": id_, "metadata": {}, "source": text}


def _mark(cell: Cell, **more: Any) -> None:
    plain = {"grade": False, "solution": False, "task": False, "locked": True, "schema_version": 3}
    cell["metadata"]["nbgrader"] = {**plain, "grade_id": cell["id"], **more}
