"""Each cell that uses what a student wrote runs with a right answer, and waits for none."""

from pathlib import Path

from lablib.course.checks.checking import find

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
USED = [
    path
    for path in sorted([*NOTEBOOKS.glob("*.ipynb"), *NOTEBOOKS.glob("further/*.ipynb")])
    if '"part": "used"' in path.read_text("utf-8")
]


@pytest.mark.slow  # whole lessons, which nbval runs without answers
@pytest.mark.parametrize("path", USED, ids=lambda path: path.stem)
def test_a_solved_exercise_is_used_without_an_error(path: Path) -> None:
    lesson = nbformat.read(path, 4)
    parts = {}
    for cell in lesson.cells:
        about = cell.metadata.get("lablib", {})
        if about.get("part") == "starter":
            cell.source = find(about["exercise"]).solution
        elif about.get("part") == "used":
            parts[about["exercise"]] = cell
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(lesson, timeout=600, resources=where).execute()
    assert parts
    for exercise, cell in parts.items():
        assert cell.outputs, exercise
        assert "this cell uses your function" not in str(cell.outputs), exercise
