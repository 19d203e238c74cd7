"""The three editions from one source: student's, solved, and the teacher's report."""

from pathlib import Path

from lablib.course.checks import exercises
from lablib.course.checks.exercises import number_of
from lablib.teach import editions, grade, submission, walls
from lablib.teach.editions import edition, exercise_cells, fold, part_of
from lablib.teach.process import Limits
from lablib.teach.release import solve
from lablib.teach.submission import judge_submission, read_submission, understood

import nbformat
import pytest
from nbconvert import PythonExporter
from oracles.fake_exercise import SOFTMAX

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# Pages beside the lessons: some have exercises of theirs.
PAGES = [p for p in sorted(FOLDER.glob("further/*.ipynb")) if 'check(\\"' in p.read_text()]
code_cell = nbformat.v4.new_code_cell


def write(path, *cells):
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)
    return path


@pytest.fixture
def course(monkeypatch):
    """A course of one exercise, in this process."""
    monkeypatch.setattr(submission, "lessons", lambda: ["97"])
    for module in (exercises, submission):
        monkeypatch.setattr(module, "find", lambda exercise: SOFTMAX)
        monkeypatch.setattr(module, "exercises", lambda lesson=None: [SOFTMAX])


def lesson(answer=SOFTMAX.solution, *, setup="import math", drop=(), extra=()):
    cells = [code_cell(setup, id="setup", metadata={"tags": ["setup"]}), *extra]
    for cell in exercise_cells(SOFTMAX):
        if part_of(cell)[1] == "starter":
            cell.source = answer
        if part_of(cell)[1] not in drop:
            cells.append(cell)
    return nbformat.v4.new_notebook(cells=cells)


def judged(notebook, name=""):
    limits = Limits(has_walls=not walls.missing())
    return judge_submission(understood(notebook["cells"], name), limits, lambda *_: None)


def the_verdict(notebook):
    ((exercise, finding),) = judged(notebook, "97.ipynb").items()
    assert exercise == "97.1"
    assert not any(word in finding.message for word in ("Next", "Stuck", "Write"))
    return finding.outcome, finding.misconception or finding.message


def test_exercise_cells_are_readable_and_neutral():
    cells = exercise_cells(SOFTMAX)
    assert [part_of(cell) for cell in cells] == [
        ("97.1", part) for part in ("task", "starter", "check", "hint", "solution")
    ]
    assert [cell.id for cell in cells][:2] == ["exercise-97-1-task", "exercise-97-1-starter"]
    assert cells[0].source.startswith("### Exercise 97.1 · Softmax\n●○○ · 5 minutes")
    assert cells[1].source == SOFTMAX.starter
    assert cells[2].source == 'check("97.1", softmax)'


def test_solved_and_student_editions_are_inverse(monkeypatch):
    monkeypatch.setattr(editions, "find", lambda exercise: SOFTMAX)
    student = lesson(SOFTMAX.starter)
    solved = edition(student, solved=True)
    assert solved == lesson()
    assert edition(solved, solved=False) == student


def test_what_follows_a_question_is_folded_and_tells_nothing():
    def asked(text, *printed):
        cells = [nbformat.v4.new_markdown_cell(text)]
        for words in printed:
            outputs = [nbformat.v4.new_output("stream", text=words)] if words else []
            cells.append(code_cell(f"print({words!r})", outputs=outputs))
        return cells

    cells = asked("**Question.** How many?", "seven", "", "8") + asked("They are", "seven", "8")
    notebook = nbformat.v4.new_notebook(cells=cells)
    folded = fold(notebook)
    hidden = ["jupyter" in cell.metadata for cell in folded.cells]
    assert hidden == [False, True, False, True, False, False, False]
    assert [len(cell.outputs) for cell in folded.cells if "outputs" in cell] == [2, 0, 2, 1, 1]
    assert folded.cells[1].outputs[0]["data"] == {}
    assert folded.cells[1].outputs[1:] == notebook.cells[1].outputs
    assert fold(folded) == folded
    nbformat.validate(folded)
    folded.cells[0].source = "No question any more."
    assert fold(folded).cells[1] == notebook.cells[1]


@pytest.mark.usefixtures("course")
@pytest.mark.parametrize(
    ("notebook", "outcome", "said"),
    [
        (lesson(), "✓", ""),
        (lesson(SOFTMAX.starter), "○", ""),
        (lesson(SOFTMAX.starter.replace("raise NotImplementedError", "...")), "○", ""),
        (lesson(SOFTMAX.solution.replace("/ temperature", "")), "✗", "no_temperature"),
        (lesson("x = 1\ndef softmax(:"), "!", "SyntaxError: invalid syntax (line 2)"),
        (lesson("softmax = 1 / 0"), "!", "its cell raised ZeroDivisionError"),
        (lesson("softmax = exit()"), "!", "its cell raised SystemExit"),
        (lesson("x = 1 / 0"), "!", "its cell raised ZeroDivisionError"),
        (lesson("softmax = 3"), "✗", "check wants the function itself"),
        (lesson("%timeit 1\n" + SOFTMAX.solution), "✓", ""),
        (lesson(setup="%matplotlib inline\nimport math"), "✓", ""),
        (lesson(drop=["check"]), "✓", ""),
        (lesson(drop=["starter"]), "!", "no function softmax in the notebook"),
        (lesson(setup="", extra=[code_cell("import math\n1 / 0")]), "✓", ""),
        (lesson(setup="", extra=[code_cell("import math; ONE = 1; x = y")]), "✓", ""),
        (lesson(setup=""), "✗", "it raised NameError: name 'math' is not defined"),
    ],
)
def test_judge_runs_what_the_exercise_needs_and_no_more(notebook, outcome, said):
    found = the_verdict(notebook)
    assert found[0] == outcome
    assert said in found[1]


@pytest.mark.usefixtures("course")
def test_an_answer_in_another_cell_counts_where_check_sees_it():
    notebook = lesson(SOFTMAX.starter)
    notebook.cells.insert(3, code_cell(SOFTMAX.solution))
    assert the_verdict(notebook)[0] == "✓"


@pytest.mark.parametrize(
    ("source", "lessons"),
    [
        ("def draw_from(weights, u): ...\n\ndef pad_left(rows, padding): ...", "01 04"),
        ("def odds(logits, text): ...", "16"),  # a capstone alone, with no check
        ("def survivors(x): ...\ndef tree_mask(parents): ...", "13"),  # survivors are in 11, too
        ('check("05.1", f)\ndef draw_from(weights, u): ...', "05"),  # what is checked comes first
    ],
)
def test_a_program_without_checks_is_known_by_its_functions(source, lessons):
    cells = [{"cell_type": "code", "source": source}]
    for name in ("homework.py", "ada_07.py"):  # seven is a number like any other
        work = understood(cells, name)
        assert [*dict.fromkeys(number_of(id_) for id_ in work.exercises)] == lessons.split()


@pytest.mark.parametrize(
    ("name", "lesson"),
    [
        ("00a_arrays (1).ipynb", "00a"),
        ("ada-00b.ipynb", "00b"),
        ("00_start_here.ipynb", "00"),
        ("07b.ipynb", "07"),  # a second try, and no lesson of this letter
        ("07spec.ipynb", "07"),
    ],
)
def test_a_file_is_known_by_the_lessons_number_in_its_name(name, lesson):
    cells = [{"cell_type": "code", "source": "def best_token(p): return 0"}]
    work = understood(cells, name)
    assert {number_of(id_) for id_ in work.exercises} == {lesson}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: number_of(path.name))
def test_a_lesson_without_its_checks_is_known_under_any_name(path):
    cells = nbformat.read(path, as_version=4).cells
    bare = [
        {"cell_type": cell.cell_type, "source": cell.source}
        for cell in cells
        if not cell.source.startswith("check(")
    ]
    for name in ("Untitled.ipynb", path.name):
        work = understood(bare, name)
        assert {number_of(id_) for id_ in work.exercises} == {number_of(path.name)}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: number_of(path.name))
def test_a_lessons_own_cells_are_known_in_a_program_too(path, tmp_path):
    """There a cell ends with the next text, as comments."""
    notebook = nbformat.read(path, as_version=4)
    work = understood(notebook.cells, path.name)
    assert len(work.untouched) == len(work.cells)
    cell = next(each for each in notebook.cells if "def " in each.source)
    cell.source = f"{cell.source}\nmine = 1"
    program = tmp_path / path.with_suffix(".py").name
    program.write_text(PythonExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    changed = tmp_path / path.name
    nbformat.write(notebook, changed)
    for file in (changed, program):
        assert len(read_submission(file).untouched) == len(work.untouched) - 1


def test_a_name_of_two_lessons_tells_of_neither():
    with pytest.raises(ValueError, match="neither a check nor a function of one"):
        understood([{"cell_type": "code", "source": "def survivors(x): ..."}], "homework.py")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is no notebook"),
        (b"\xff\xfe", "it is no text in UTF-8"),
        (b"[1,", "it is no notebook"),
        (b"[" * 10**6, "it is no notebook, or not a whole one"),
        *((b'{"nbformat": 4, "cells": %s}' % cells, "") for cells in (
            b"null", b'["x"]', b'[{"cell_type": "code", "source": 5}]', b'[{"metadata": 5}]',
            b'[{"cell_type": "code", "source": [["x"]]}]', b'[{"metadata": {"lablib": 5}}]',
            b'[{"cell_type": "code", "outputs": [5]}]',
            b'[{"cell_type": "code", "outputs": [{"text": 5}]}]',
        )),
    ],
)  # fmt: skip
def test_a_teacher_reads_why_a_file_cannot_be_read(content, said, tmp_path):
    (tmp_path / "ada.ipynb").write_bytes(content)
    (row,) = grade.grade(tmp_path).rows
    assert row.message.startswith(f"can't be read: {said}")


def test_grade_wants_a_folder(tmp_path):
    with pytest.raises(ValueError, match="folder must be a folder of notebooks"):
        grade.grade(tmp_path / "nowhere")
    assert grade.grade(tmp_path).rows == []


@pytest.mark.parametrize("path", NOTEBOOKS + PAGES, ids=lambda path: path.stem)
def test_the_solved_edition_of_every_lesson_is_all_correct(path, tmp_path):
    """And of every page beside one; what stands on the other one is not asked for."""
    solved = nbformat.read(solve(path, tmp_path / path.name), as_version=4)
    assert {exercise: found.outcome for exercise, found in judged(solved).items()} == {
        exercise.id: "✓"
        for exercise in exercises.exercises(number_of(path.name))
        if exercise.further == (path in PAGES)
    }


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS + PAGES, ids=lambda path: path.stem)
def test_the_solved_edition_runs_from_top_to_bottom(path, tmp_path):
    from nbclient import NotebookClient

    solved = nbformat.read(solve(path, tmp_path / path.name), as_version=4)
    NotebookClient(solved, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    checks = [cell for cell in solved.cells if part_of(cell)[1] == "check"]
    texts = [cell.outputs[-1]["data"]["text/plain"] for cell in checks]
    assert [text[0] for text in texts] == ["✓"] * len(checks)


def test_solve_never_overwrites_its_source(tmp_path):
    path = write(tmp_path / "97_a.ipynb", *lesson().cells)
    with pytest.raises(ValueError, match="out must be another file"):
        solve(path, path)
