"""The editions that a teacher hands out: nothing answered too early, nothing left out."""

import copy
import json
import sys
from pathlib import Path

from lablib import __main__
from lablib.course.checks import checking
from lablib.course.checks.checking import solution
from lablib.course.checks.exercises import exercises, find, number_of
from lablib.teach import grade, release
from lablib.teach.editions import code_cells, edition, part_of, read_notebook
from lablib.validation import BadValue

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
by_lesson = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def starters(notebook):
    return {
        part_of(cell)[0]: cell["source"]
        for cell in notebook["cells"]
        if part_of(cell)[1] == "starter"
    }


def text(notebook):
    return json.dumps(notebook, ensure_ascii=False)


@by_lesson
def test_a_student_finds_no_answer_and_no_solution_in_the_file(path):
    recorded = read_notebook(path)
    folded = [cell["id"] for cell, _ in code_cells(recorded) if "jupyter" in cell["metadata"]]
    student = release.student_edition(recorded)
    nbformat.validate(nbformat.from_dict(student))
    cells = {cell["id"]: cell for cell in student["cells"]}
    assert folded
    assert all(cells[id_]["outputs"] == [] for id_ in folded)
    assert "outputs_hidden" not in text(student)
    assert [cell["id"] for cell in recorded["cells"]] == [*cells]
    for id_, starter in starters(student).items():
        exercise = find(id_)
        assert starter == exercise.starter
        own = exercise.solution.removeprefix(exercise.starter[: exercise.starter.rindex("\n")])
        assert json.dumps(own, ensure_ascii=False)[1:-1] not in text(student)
    kept = [cell for cell in student["cells"] if cell.get("outputs")]
    assert kept, "what answers nothing stays to be seen"


@by_lesson
def test_an_assessment_has_no_call_of_solution(path, monkeypatch):
    monkeypatch.setattr(checking, "_closed", set())
    exam = release.student_edition(read_notebook(path), assessment=True)
    nbformat.validate(nbformat.from_dict(exam))
    sources = [cell["source"] for cell, _ in code_cells(exam)]
    assert not any("solution(" in source for source in sources)
    assert not any(
        "solution" in line for s in sources for line in s.splitlines() if "import" in line
    )
    assert sum("assessment()" in source for source in sources) == 1
    space = {}
    exec(next(source for source in sources if "assessment()" in source), space)
    with pytest.raises(ValueError, match=r"the solution of 01.1 is for after the assessment"):
        solution("01.1")


def test_an_assessment_is_graded_like_any_other(tmp_path):
    exam = release.student_edition(read_notebook(NOTEBOOKS[1]), assessment=True)
    release.write_notebook(edition(exam, solved=True), tmp_path / "ada" / NOTEBOOKS[1].name)
    rows = grade.grade(tmp_path).rows
    assert [row.outcome for row in rows] == ["✓"] * len(exercises(number_of(NOTEBOOKS[1].name)))


@pytest.mark.parametrize(
    "line",
    [
        "from lablib.course import check, solution",
        "from lablib.course import solution, check",
        "from lablib.course import (\n    check,\n    solution,\n)",
    ],
)
def test_solution_leaves_the_import_however_it_is_written(line):
    cells = [nbformat.v4.new_code_cell(f"import math\n{line}\nx = 1", id="setup")]
    first, second = release._without_solutions(cells)
    assert first["source"] == "import math\nfrom lablib.course import check\nx = 1"
    assert second["source"] == release.CLOSED


@by_lesson
def test_a_teacher_reads_every_wrong_answer(path):
    teacher = release.teacher_edition(read_notebook(path))
    nbformat.validate(nbformat.from_dict(teacher))
    assert "outputs_hidden" not in text(teacher)
    below = {
        part_of(before)[0]: cell["source"]
        for before, cell in zip(teacher["cells"], teacher["cells"][1:], strict=False)
        if cell["source"].startswith("#### For the teacher")
    }
    for exercise in map(find, starters(teacher)):
        notes = below.pop(exercise.id)
        for name, said in exercise.misconceptions.items():
            assert f"- `{name}`: {said}" in notes
            assert f"def {name}(" in notes
        assert starters(teacher)[exercise.id] == exercise.solution
    assert below == {}
    answered = [c for c in teacher["cells"] if c.get("outputs") and not any(part_of(c))]
    assert len(answered) == sum(
        bool(c.get("outputs")) and not any(part_of(c)) for c in read_notebook(path)["cells"]
    )


def test_a_folder_is_released_at_once_with_what_its_lessons_link_to(tmp_path, capsys):
    course, out = tmp_path / "course", tmp_path / "out"
    course.mkdir()
    for path in NOTEBOOKS[:2]:
        notebook = read_notebook(path)
        notebook["cells"][0]["source"] += "\nA word: [slot](words.md#slot), [no](nowhere.md)."
        release.write_notebook(notebook, course / path.name)
    (course / "words.md").write_text("slot: a place")
    (course / "TEACHING.md").write_text("not for students")
    assert __main__.main(["release", str(out), str(course)]) == 0
    assert capsys.readouterr().out.split() == [
        str(out / k) for k in ("solved", "student", "teacher")
    ]
    names = [path.name for path in NOTEBOOKS[:2]]
    for kind in ("solved", "student", "teacher"):
        assert sorted(path.name for path in (out / kind).iterdir()) == [*names, "words.md"]
    alone = tmp_path / "alone.ipynb"
    assert __main__.main(["solve", str(course / names[0]), "-o", str(alone)]) == 0
    assert alone.read_bytes() == (out / "solved" / names[0]).read_bytes()
    assert not any(cell["outputs"] for cell, _ in code_cells(read_notebook(alone)))
    before = sorted(out.rglob("*"))
    release.release(out, [course / names[0]], assessment=True)  # again, over the earlier one
    assert sorted(out.rglob("*")) == before
    assert "assessment()" in (out / "student" / names[0]).read_text()


def test_options_may_stand_before_between_and_behind(tmp_path, capsys):
    first, second = map(str, NOTEBOOKS[:2])
    for number, words in enumerate(
        (["OUT", first, second, "--nbgrader"], ["OUT", "--nbgrader", first, second],
         ["--nbgrader", "OUT", first, second], ["OUT", first, "--nbgrader", second])
    ):  # fmt: skip
        out = tmp_path / str(number)
        assert __main__.main(["release", *(str(out) if w == "OUT" else w for w in words)]) == 0
        names = [path.name for path in (out / "source").iterdir()]
        assert sorted(names) == [path.stem for path in NOTEBOOKS[:2]]
    capsys.readouterr()
    option = "--asessment" if sys.version_info >= (3, 14) else f"--asessment {first}"
    wrong = {option: ["release", "out", "--asessment", first], "twice": ["doctor", "twice"]}
    for told, words in wrong.items():
        with pytest.raises(SystemExit):
            __main__.main(words)
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"lablib: error: unrecognized arguments: {told}"


def test_both_assignments_lie_side_by_side_and_are_as_alone(tmp_path):
    kinds = ({"nbgrader": True}, {"otter": True}, {"nbgrader": True, "otter": True})
    for number, kind in enumerate(kinds):
        release.release(tmp_path / str(number), NOTEBOOKS[1:2], **kind)
    found = [
        {path.relative_to(tmp_path / str(n)): path.read_bytes()
         for path in (tmp_path / str(n)).rglob("*") if path.is_file()}
        for n in range(3)
    ]  # fmt: skip
    assert found[2] == found[0] | found[1]
    assert len(found[2]) == len(found[0]) + len(found[1])


def test_what_cannot_be_released_is_one_line_before_anything_is_written(tmp_path):
    good = tmp_path / "student" / NOTEBOOKS[0].name
    release.write_notebook(read_notebook(NOTEBOOKS[0]), good)
    twice = tmp_path / "other" / good.name
    release.write_notebook(read_notebook(good), twice)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.ipynb").write_text("{not json")
    (tmp_path / "list.ipynb").write_text("[]")
    (tmp_path / "old.ipynb").write_text('{"nbformat": 3}')
    for sources, complaint in (
        ([tmp_path / "nowhere"], "source must be a lesson's number, a notebook or a folder"),
        ([tmp_path / "empty"], "source must be a lesson's number, a notebook or a folder"),
        ([good, tmp_path / "text.ipynb"], "source must be a notebook, got"),
        ([good, tmp_path / "list.ipynb"], "source must be a notebook, got"),
        ([good, tmp_path / "old.ipynb"], "source must be a notebook, got .*format 4, got 3"),
        ([good, twice], "sources must have names of their own"),
        ([good], "out must not hold the sources"),
    ):
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        with pytest.raises(ValueError, match=complaint):
            release.release(tmp_path, sources)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_lessons_may_be_named_by_their_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release.release("out", ["01", "4", "00b"], assessment=True)
    names = {path.name for path in Path("out/student").glob("*.ipynb")}
    wanted = {"00b_what_a_model_is.ipynb", "01_from_logits_to_text.ipynb"}
    assert names == wanted | {"04_many_sequences.ipynb"}
    for unknown in ("70", "99", "001", "one"):
        with pytest.raises(ValueError, match="source must be a lesson's number, a notebook or"):
            release.release("out", [unknown])


def test_the_source_stays_as_it_was(tmp_path):
    notebook = read_notebook(NOTEBOOKS[1])
    before = copy.deepcopy(notebook)
    release.student_edition(notebook, assessment=True)
    release.solved_edition(notebook)
    release.teacher_edition(notebook)
    assert notebook == before


PICTURE = {"output_type": "display_data", "data": {"image/png": "aGk="}}
ODD_CELLS = {
    "no metadata": {"metadata": None},
    "a mark that is nothing": {"metadata": {"lablib": None}},
    "tags that are nothing": {"metadata": {"tags": None}},
    "no outputs": {"outputs": None},
    "a picture without metadata": {"outputs": [PICTURE]},
    "an output that is nothing": {"outputs": [None]},
    "half of a letter": {"source": "print('\ud800')"},
    "a deep number": {"source": "x = " + "-" * 5000 + "1"},
}


@pytest.mark.parametrize("kind", ["sheet", "nbgrader", "otter", "assessment"])
@pytest.mark.parametrize("odd", ODD_CELLS)
def test_an_odd_cell_is_one_line_about_its_file_or_no_harm(odd, kind, tmp_path):
    question = {"cell_type": "markdown", "metadata": {}, "source": "## Board\n**Question.** Why?"}
    plain = {"cell_type": "code", "metadata": {}, "source": "x", "outputs": []}
    cells = [question, plain | ODD_CELLS[odd]]
    source = tmp_path / "own.ipynb"
    source.write_text(json.dumps({"nbformat": 4, "cells": cells}))
    said = BadValue("own.ipynb")  # as when all is well
    try:
        release.release(tmp_path / "out", [source], **{kind: True})
    except Exception as error:
        said = error
    assert type(said) is BadValue
    assert "own.ipynb" in str(said)
