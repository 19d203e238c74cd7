"""nbgrader and Otter hand out what ``release`` writes, and give the points that ``grade`` does."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from lablib.course.checks.exercises import exercises, find, number_of
from lablib.teach import grade, release
from lablib.teach.assignments import nbgrader_source, otter_source
from lablib.teach.editions import part_of, read_notebook

import nbformat
import pytest

pytestmark = pytest.mark.thorough

FOLDER = Path(__file__).parents[2] / "notebooks"
LESSON = next(FOLDER.glob("01_*.ipynb"))
EXERCISES = exercises("01")
STARS = {exercise.id: exercise.stars for exercise in EXERCISES}
# Others for the slow suite: a class to fill in, arrays, borrowed functions, models.
OTHERS = [
    pytest.param(number, False, marks=pytest.mark.slow) for number in ("04", "08", "11", "16")
]


def needs(package, install):
    there = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(
        not there, reason=f"{package} is not installed: pip install {install}"
    )


needs_nbgrader = needs("nbgrader", "-e '.[teach]'")
needs_otter = needs("otter", "otter-grader")
# Every name of the kernel says what its student wants, also under the exercise's own.
FORGED = """class F: correct = True
check = correct = lambda *a: F
"""
# What six students wrote into the starter cells, by exercise; None leaves a starter.
ANSWERS = {
    "solved": lambda number, exercise: exercise.solution,
    "untouched": lambda number, exercise: None,
    "half": lambda number, exercise: exercise.solution if number % 2 else None,
    "wrong": lambda number, exercise: returns_one(exercise),
    "forger": lambda number, exercise: FORGED + exercise.starter,
    "broken": lambda number, exercise: exercise.solution if number else "def broken(:",
}


def returns_one(exercise):
    head = exercise.starter.removesuffix("raise NotImplementedError")
    return f"{head}return 1"


def lesson_to_release(folder, path=LESSON, whole=False):
    """Write a lesson, or its exercises alone, which take a tenth of the time."""
    lesson = read_notebook(path)
    if not whole:
        lesson["cells"] = [
            cell
            for cell in lesson["cells"]
            if any(part_of(cell)) or "setup" in cell["metadata"].get("tags", [])
        ]
    return release.write_notebook(lesson, folder / path.name)


def hand_in(handed_out, folder, students=tuple(ANSWERS)):
    """Write what each student makes of the notebook that was handed out."""
    assert "BEGIN SOLUTION" not in handed_out.read_text()
    asked = exercises(number_of(handed_out.name))
    for student in students:
        answer = ANSWERS[student]
        notebook = read_notebook(handed_out)
        for cell in notebook["cells"]:
            if part_of(cell)[1] == "starter":
                number = [each.id for each in asked].index(part_of(cell)[0])
                cell["source"] = answer(number, asked[number]) or cell["source"]
        release.write_notebook(notebook, folder / student / handed_out.stem / handed_out.name)


def points_of_grade(folder):
    """Return each student's points; what was handed out is not attempted, whoever made it."""
    points = dict.fromkeys(ANSWERS, 0)
    for row in grade.grade(folder, seconds=600).rows:
        points[row.student] += find(row.exercise).stars * (row.outcome == "✓")
        if row.student == "untouched":
            assert row.outcome == "○", row
    return points


def test_a_source_notebook_has_what_nbgrader_asks_for():
    made = nbgrader_source(release.student_edition(read_notebook(LESSON), assessment=True))
    cells = {part_of(cell): cell for cell in made["cells"]}
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
    where = [] if arguments == ("export",) else [f"--course-dir={course}"]  # or where it runs
    command = [sys.executable, "-m", "nbgrader", *arguments, *where]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    places = {"PATH": path, "JUPYTER_RUNTIME_DIR": str(course / "runtime")}
    done = subprocess.run(
        command, cwd=course, env={**os.environ, **places}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]


@needs_nbgrader
@pytest.mark.parametrize(
    ("lesson", "whole"), [("01", False), pytest.param("01", True, marks=pytest.mark.slow), *OTHERS]
)
def test_nbgrader_gives_six_students_the_points_that_grade_gives(lesson, whole, tmp_path):
    from nbgrader.api import Gradebook

    path = next(FOLDER.glob(f"{lesson}_*.ipynb"))
    most = sum(each.stars for each in exercises(lesson) if not each.further)
    course, name = tmp_path / "course", path.stem
    release.release(course, [lesson_to_release(tmp_path / "lessons", path, whole)], nbgrader=True)
    nbgrader(course, "generate_assignment", name)
    hand_in(course / "release" / name / path.name, course / "submitted")
    nbgrader(course, "autograde", name)
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        assert book.find_assignment(name).max_score == most
        theirs = {student: book.find_submission(name, student).score for student in ANSWERS}
    ours = points_of_grade(course / "submitted")
    print(f"{lesson}: of {most} points, nbgrader {theirs}, grade {ours}")
    assert theirs == ours
    assert [*theirs.values()].count(most) == 1


def test_a_question_of_otter_goes_from_its_task_to_its_check():
    made = otter_source(release.student_edition(read_notebook(LESSON), assessment=True))
    nbformat.validate(nbformat.from_dict(made))
    lines = [cell["source"].splitlines() for cell in made["cells"] if cell["cell_type"] == "raw"]
    assert lines[0][0] == "# ASSIGNMENT CONFIG"
    one = ["# BEGIN QUESTION", "# BEGIN SOLUTION", "# END SOLUTION", "# BEGIN TESTS", "# END TESTS"]
    assert [each[0] for each in lines[1:]] == [*one, "# END QUESTION"] * len(EXERCISES)
    begins = [each for each in lines if each[0] == "# BEGIN QUESTION"]
    assert [each[1:] for each in begins] == [
        [f"name: q{exercise.id.replace('.', '_')}", f"points: {exercise.stars}"]
        for exercise in EXERCISES
    ]
    tests = [cell for cell in made["cells"] if cell["source"].endswith(".correct")]
    assert [cell["outputs"][0]["data"]["text/plain"] for cell in tests] == ["True"] * len(EXERCISES)


def otter(folder, *arguments):
    command = [str(Path(sys.executable).with_name("otter")), *map(str, arguments)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]


@needs_otter
@pytest.mark.slow
def test_otter_gives_the_points_that_grade_gives(tmp_path):
    release.release(tmp_path, [lesson_to_release(tmp_path / "lessons")], otter=True)
    otter(tmp_path, "assign", tmp_path / "otter" / LESSON.name, tmp_path / "dist")
    hand_in(tmp_path / "dist" / "student" / LESSON.name, tmp_path / "submitted")
    (rules,) = (tmp_path / "dist" / "autograder").glob("*.zip")
    theirs = {}
    for student in ANSWERS:
        notebook = tmp_path / "submitted" / student / LESSON.stem / LESSON.name
        otter(tmp_path, "run", "-a", rules, "-o", tmp_path, notebook)
        tests = json.loads((tmp_path / "results.json").read_text())["tests"]
        theirs[student] = sum(test.get("score") or 0 for test in tests)
    ours = points_of_grade(tmp_path / "submitted")
    print(f"of {sum(STARS.values())} points, Otter {theirs}, grade {ours}")
    assert theirs == ours
    assert [*theirs.values()].count(sum(STARS.values())) == 1
