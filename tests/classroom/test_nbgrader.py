"""nbgrader hands out what ``release --nbgrader`` writes, and gives the points of ``grade``."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from lablib.classroom import grade, release
from lablib.classroom.editions import part_of, read_notebook
from lablib.classroom.exercises import exercises

import pytest

LESSON = next((Path(__file__).parents[2] / "notebooks").glob("01_*.ipynb"))
EXERCISES = exercises("01")
needs_nbgrader = pytest.mark.skipif(
    importlib.util.find_spec("nbgrader") is None,
    reason="nbgrader is not installed: python -m pip install -e '.[teach]'",
)
# What five students wrote into the starter cells, by exercise; None leaves a starter.
ANSWERS = {
    "solved": lambda number, exercise: exercise.solution,
    "untouched": lambda number, exercise: None,
    "half": lambda number, exercise: exercise.solution if number % 2 else None,
    "wrong": lambda number, exercise: returns_one(exercise),
    "broken": lambda number, exercise: exercise.solution if number else "def broken(:",
}


def returns_one(exercise):
    head = exercise.starter.removesuffix("raise NotImplementedError")
    return f"{head}return 1"


def source_edition(path):
    """Return the cells of nbgrader's source notebook by exercise and part."""
    ((_, made),) = release._editions(path, read_notebook(path), assessment=False, nbgrader=True)
    return {part_of(cell): cell for cell in made["cells"]}


def test_a_source_notebook_has_what_nbgrader_asks_for():
    cells = source_edition(LESSON)
    for exercise in EXERCISES:
        starter, check = cells[exercise.id, "starter"], cells[exercise.id, "check"]
        head, _, rest = starter["source"].partition("    ### BEGIN SOLUTION\n")
        body, _, end = rest.partition("\n    ### END SOLUTION")
        assert head + body == exercise.solution
        assert end == ""
        assert starter["metadata"]["nbgrader"] == {
            "grade": False, "grade_id": starter["id"], "locked": False, "schema_version": 3,
            "solution": True, "task": False,
        }  # fmt: skip
        assert check["metadata"]["nbgrader"] == {
            "grade": True, "grade_id": check["id"], "locked": True, "points": exercise.stars,
            "schema_version": 3, "solution": False, "task": False,
        }  # fmt: skip
        assert cells[exercise.id, "task"]["metadata"]["nbgrader"]["locked"]
        assert (exercise.id, "solution") not in cells
    assert not any(cell.get("outputs") for cell in cells.values())


def nbgrader(course, *arguments):
    command = [sys.executable, "-m", "nbgrader", *arguments, f"--course-dir={course}"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    places = {"PATH": path, "JUPYTER_RUNTIME_DIR": str(course / "runtime")}
    done = subprocess.run(
        command, cwd=course, env={**os.environ, **places}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]


@needs_nbgrader
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nbgrader_gives_the_points_that_grade_gives(whole, tmp_path):
    from nbgrader.api import Gradebook

    lesson = read_notebook(LESSON)
    if not whole:  # its exercises alone, which takes a tenth of the time
        setup = {"setup", "exercise"}
        lesson["cells"] = [
            cell
            for cell in lesson["cells"]
            if any(part_of(cell)) or setup & {*cell["metadata"].get("tags", [])}
        ]
    release.write_notebook(lesson, tmp_path / "lessons" / LESSON.name)
    course, name = tmp_path / "course", LESSON.stem
    release.release(course, [tmp_path / "lessons"], nbgrader=True)
    nbgrader(course, "generate_assignment", name)
    handed_out = course / "release" / name / LESSON.name
    assert "BEGIN SOLUTION" not in handed_out.read_text()
    for student, answer in ANSWERS.items():
        notebook = read_notebook(handed_out)
        for cell in notebook["cells"]:
            if part_of(cell)[1] == "starter":
                number = [e.id for e in EXERCISES].index(part_of(cell)[0])
                cell["source"] = answer(number, EXERCISES[number]) or cell["source"]
        release.write_notebook(notebook, course / "submitted" / student / name / LESSON.name)
    nbgrader(course, "autograde", name)

    stars = {exercise.id: exercise.stars for exercise in EXERCISES}
    ours = dict.fromkeys(ANSWERS, 0)
    for row in grade.grade(course / "submitted", seconds=600).rows:
        ours[row.student.split("/")[0]] += stars[row.exercise] * (row.outcome == "✓")
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        assert book.find_assignment(name).max_score == sum(stars.values())
        theirs = {student: book.find_submission(name, student).score for student in ANSWERS}
    print(f"of {sum(stars.values())} points, nbgrader {theirs}, grade {ours}")
    assert theirs == ours
    assert [*theirs.values()].count(sum(stars.values())) == 1
