"""The question of nbgrader's locked cells: is this exercise solved in the notebook's file?

The kernel that runs the cell has run a student's code, so what its names mean, ``check`` too, is
the student's to say. The file is judged elsewhere, as ``grade`` does it.
"""

from contextlib import closing
from pathlib import Path

from lablib.course.checks.exercises import find
from lablib.teach import walls
from lablib.teach.desk import Order, judge
from lablib.teach.process import Limits
from lablib.validation import BadValue


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
    # nbgrader has run it with your rights already: without walls it is asked all the same.
    with closing(judge([order], Limits(has_walls=not walls.missing()), 1)) as found:
        said = next(found)[1]
    lost = ["!", "", said.get("unreadable", "")]
    mark, _, message = said.get("findings", {}).get(id_, lost)
    if mark != "✓":
        print(f"{mark} {id_} as {notebook} was saved. {message}")
        print("If it is solved here: save the notebook, and run this cell again.")
    return mark == "✓"
