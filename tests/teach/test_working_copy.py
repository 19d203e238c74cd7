"""A student's copy of the lessons: made once, never overwritten, brought up to date on request."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from lablib.course import lab, working_copy
from lablib.course.checks import marks
from lablib.course.working_copy import fingerprint

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
bring = working_copy.working_copy


def notebook(*sources, outputs=()):
    cells = [nbformat.v4.new_code_cell(s, id=f"c{i}") for i, s in enumerate(sources)]
    cells[0].outputs = list(outputs)
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells))


RUN = [nbformat.v4.new_output("stream", text="seven\n")]


@pytest.fixture
def course(tmp_path):
    folder = tmp_path / "course"
    folder.mkdir()
    for name in ("00_start_here", "01_a", "02_b"):
        (folder / f"{name}.ipynb").write_text(notebook(name))
    (folder / "words.md").write_text("words")
    (folder / "TEACHING.md").write_text("answers")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "01_a-checkpoint.ipynb").write_text("old")
    (folder / marks.FILE).write_text('{"01.1": "✓"}')
    return folder


@pytest.fixture
def mine(tmp_path):
    return tmp_path / "mine"


def shown(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_the_first_use_copies_all_that_a_student_sees(course, mine):
    for path in course.glob("*.ipynb"):
        path.chmod(0o444)  # a course that may only be read
    said = str(bring(course, mine))
    names = ["00_start_here.ipynb", "01_a.ipynb", "02_b.ipynb"]
    assert shown(mine) == [*names, marks.FILE, "words.md"]
    assert said == f"Your lessons: {mine}, 3 copied now; progress.json there keeps what you solve."
    assert (mine / marks.FILE).read_text() == "{}\n"
    for name in names:
        assert (mine / name).read_bytes() == (course / name).read_bytes()
        assert (mine / name).stat().st_mode & 0o200


def test_a_second_use_changes_nothing_and_counts(course, mine):
    bring(course, mine)
    marks.keep(mine / marks.FILE, {"01.1": "✓", "01.2": "✗"})
    (mine / "01_a.ipynb").write_text("mine")
    (mine / "02_b.ipynb").unlink()
    before = {path: path.read_bytes() for path in mine.iterdir()}
    assert str(bring(course, mine)) == f"Your lessons: {mine}, as you left them; 1 solved so far."
    (course / "00_start_here.ipynb").write_text(notebook("newer"))
    (course / "03_c.ipynb").write_text(notebook("new"))
    assert str(bring(course, mine)).endswith(
        "\nThe course has newer ones (2): `lab --update` brings them."
    )
    assert {path: path.read_bytes() for path in mine.iterdir()} == before


def test_an_update_replaces_what_nobody_typed_into_and_keeps_the_rest(course, mine):
    bring(course, mine)
    (mine / "01_a.ipynb").write_text(notebook("my answer"))
    (mine / "02_b.ipynb").write_text(notebook("02_b", outputs=RUN))  # run, not edited
    for name in ("01_a", "02_b", "03_c"):
        (course / f"{name}.ipynb").write_text(notebook(f"newer {name}"))
    said = str(bring(course, mine, update=True))
    assert (mine / "01_a.ipynb").read_text() == notebook("my answer")
    assert (mine / "01_a.new.ipynb").read_text() == notebook("newer 01_a")
    for name in ("02_b.ipynb", "03_c.ipynb"):
        assert (mine / name).read_text() == (course / name).read_text()
    assert said.splitlines()[1:] == [
        "Brought in: 03_c.ipynb, 02_b.ipynb.",
        "01_a.ipynb has your work and stays; the newer one is 01_a.new.ipynb.",
    ]
    again = bring(course, mine, update=True)
    assert [again.new, again.newer, again.beside, again.waiting] == [[], [], {}, 0]


def test_newer_versions_pile_up_only_beside_edited_ones(course, mine):
    bring(course, mine)
    (mine / "01_a.ipynb").write_text(notebook("my answer"))
    for version, there in (("2", ["01_a.new"]), ("3", ["01_a.new"])):
        (course / "01_a.ipynb").write_text(notebook(version))
        bring(course, mine, update=True)
        assert [p.stem for p in sorted(mine.glob("01_a.new*"))] == there
        assert (mine / "01_a.new.ipynb").read_text() == notebook(version)
    (mine / "01_a.new.ipynb").write_text(notebook("my work in the new one"))
    (course / "01_a.ipynb").write_text(notebook("4"))
    assert bring(course, mine, update=True).beside == {"01_a.ipynb": "01_a.new2.ipynb"}
    assert (mine / "01_a.new.ipynb").read_text() == notebook("my work in the new one")
    # Taken over by the student: it is the course's own again.
    os.replace(mine / "01_a.new2.ipynb", mine / "01_a.ipynb")
    (course / "01_a.ipynb").write_text(notebook("5"))
    assert bring(course, mine, update=True).newer == ["01_a.ipynb"]


def test_a_deleted_lesson_comes_back_with_an_update_only(course, mine):
    bring(course, mine)
    (mine / "01_a.ipynb").unlink()
    assert bring(course, mine).waiting == 0
    assert not (mine / "01_a.ipynb").exists()
    assert bring(course, mine, update=True).new == ["01_a.ipynb"]


def test_files_that_were_there_before_are_kept(course, mine):
    mine.mkdir()
    (mine / "01_a.ipynb").write_text("not even a notebook")
    assert "2 copied now" in str(bring(course, mine))
    assert bring(course, mine, update=True).beside == {"01_a.ipynb": "01_a.new.ipynb"}
    assert (mine / "01_a.ipynb").read_text() == "not even a notebook"


def test_what_is_run_is_as_it_was_and_what_is_typed_is_not(tmp_path):
    path = tmp_path / "a.ipynb"
    prints = []
    for text in (notebook("x"), notebook("x", outputs=RUN), notebook("x "), "{", '{"cells": [1]}'):
        path.write_text(text)
        prints.append(fingerprint(path))
    assert prints[0] == prints[1]
    assert len({*prints}) == 4


def test_a_copy_cut_short_leaves_no_half_file(course, mine, monkeypatch):
    def killed(source, target):
        Path(target).write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(working_copy.shutil, "copyfile", killed)
    with pytest.raises(KeyboardInterrupt):
        bring(course, mine)
    assert shown(mine) == []
    monkeypatch.undo()
    assert len(bring(course, mine).new) == 4


def test_the_courses_own_folder_is_no_copy(course):
    for folder in (course, course / "inside"):
        with pytest.raises(ValueError, match="folder must be outside the course's own"):
            bring(course, folder)


def one_line(arguments, **environment):
    """Run a command without root's right to write anywhere; return its status and its words."""
    plain = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    command = [*(plain if os.geteuid() == 0 else []), sys.executable, "-m", "lablib", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, cwd=ROOT
    )
    return done.returncode, done.stderr.strip()


@pytest.mark.skipif(
    os.geteuid() == 0 and sys.platform != "linux", reason="root writes everywhere here"
)
def test_an_unwritable_home_or_folder_is_one_line_and_a_way_on(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    status, said = one_line(["lab", "--no-browser"], HOME=str(home))
    way_on = "name another place, python -m lablib lab --folder FOLDER"
    assert status == 2
    assert said == (
        "lablib: your lessons can't be written to ~/lablib-lessons (Permission denied): " + way_on
    )
    status, said = one_line(["lab", "--folder", str(home)])
    assert status == 2
    assert re.fullmatch(rf"lablib: your lessons can't be written to .* denied\): {way_on}", said)
    (tmp_path / "file").write_text("")
    status, said = one_line(["lab", "--folder", str(tmp_path / "file")])
    assert status == 2
    assert way_on in said
    assert "\n" not in said


def test_jupyter_gets_places_of_its_own_where_the_home_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(lab.os, "access", lambda path, mode: False)
    monkeypatch.setenv("IPYTHONDIR", "chosen")
    found = lab._environment("secret", tmp_path)
    assert found["JUPYTER_RUNTIME_DIR"].startswith(str(tmp_path))
    assert found["IPYTHONDIR"] == "chosen"
    monkeypatch.undo()
    monkeypatch.delenv("JUPYTER_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "JUPYTER_RUNTIME_DIR" not in lab._environment("secret", tmp_path)


def test_the_real_course_is_copied_whole(mine):
    made = bring(ROOT / "notebooks", mine)
    lessons = sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert sorted(path.name for path in mine.glob("*.ipynb")) == lessons
    assert lab.FIRST_LESSON in made.new
    assert {*lessons} <= json.loads((mine / working_copy.BROUGHT).read_text()).keys()


@pytest.fixture
def serve(monkeypatch):
    """Open the lab but for its server; return what lies in the folder that it would serve."""

    def served(**wanted):
        with pytest.raises(KeyboardInterrupt):
            lab.lab(open_browser=False, **wanted)
        return shown(Path(wanted["folder"]))

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(lab.subprocess, "Popen", stop)
    monkeypatch.setattr(lab, "doctor", lambda: "fine")
    return served


def test_an_assessment_is_opened_without_the_lessons_that_show_solutions(serve, course, mine):
    for name in ("00_start_here", "01_a"):
        (course / f"{name}.ipynb").unlink()
    exam = ["02_b.ipynb", marks.FILE, "words.md"]
    assert serve(folder=mine, course=course) == exam
    assert lab._first(mine) == "doc/tree/02_b.ipynb"
    assert serve(folder=mine) == exam  # it remembers
    assert serve(folder=mine, update=True) == exam
    (course / "02_b.ipynb").write_text(notebook("newer"))
    serve(folder=mine, update=True)
    assert (mine / "02_b.ipynb").read_text() == notebook("newer")
    course.rename(course.with_name("elsewhere"))
    with pytest.raises(ValueError, match=r"course must be a folder of lessons, and .* is gone"):
        serve(folder=mine)
    assert serve(folder=mine, course=course.with_name("elsewhere")) == exam


def test_a_course_of_ones_own_wants_lessons_and_a_folder_of_its_own(serve, course, mine, tmp_path):
    with pytest.raises(ValueError, match="folder must be named where course is"):
        lab.lab(course=course)
    with pytest.raises(ValueError, match="course must be a folder of lessons, got"):
        lab.lab(course=tmp_path, folder=mine)
    assert not mine.exists()
    bring(ROOT / "notebooks", mine)
    with pytest.raises(ValueError, match="has lessons of the usual course"):
        lab.lab(course=course, folder=mine)
    assert not (mine / "01_a.ipynb").exists()
    assert lab._first(mine) == f"doc/tree/{lab.FIRST_LESSON}"
