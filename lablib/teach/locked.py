"""The question of nbgrader's locked cells: is this exercise solved in the notebook's file?

The kernel that runs the cell has run a student's code, so what its names mean, ``check`` too, is
the student's to say. The file is judged elsewhere, as ``grade`` does it.
"""

from contextlib import closing
from pathlib import Path

from lablib.course.checks.exercises import find
from lablib.teach.apart.desk import Order, judge
from lablib.teach.apart.remote import Limits
from lablib.validation import BadValue

CPU = 1.2  # seconds of processor time for an exercise, as ``grade`` gives it


def correct(exercise: str, notebook: str) -> bool:
    """Return whether an exercise is solved as the notebook was saved; print why not.

    Args:
        exercise: its id, for example ``"01.2"``.
        notebook: the file's name; it lies in the working folder.

    Raises:
        BadValue: there is no such exercise, or no such file.
    """
    id_, path = find(exercise).id, Path(notebook).absolute()
    if not path.is_file():
        raise BadValue(f"notebook must be a file in {str(path.parent)!r}, got {notebook!r}")
    order = Order(path=str(path), name=path.name, only=[id_])
    with closing(judge([order], Limits(cpu=CPU), 1)) as verdicts:
        verdict = next(verdicts)[1]
    mark, _, message = verdict.get(id_, ["!", "", verdict.get("unreadable", "")])
    if mark != "✓":
        print(f"{mark} {id_} as {notebook} was saved. {message}")
        print("If it is solved here: save the notebook, and run this cell again.")
    return mark == "✓"
