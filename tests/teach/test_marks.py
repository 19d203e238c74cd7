"""Marks outlast a kernel where a file keeps them, and nowhere else."""

import dataclasses
import json
import multiprocessing
import os
from pathlib import Path

from lablib.course.checks import checking, exercises, marks
from lablib.course.checks.checking import check, progress

import pytest
from oracles.fake_exercise import SOFTMAX, overflow, softmax


def starter(scores, temperature):
    raise NotImplementedError


@pytest.fixture(autouse=True)
def course(monkeypatch, tmp_path):
    """A course of one lesson with two exercises, and a kernel that starts in an empty folder."""
    second = dataclasses.replace(SOFTMAX, id="97.2", title="Another")
    module = type("M", (), {"a": SOFTMAX, "b": second})
    monkeypatch.setattr(exercises, "lessons", lambda: ["97"])
    monkeypatch.setattr(exercises.importlib, "import_module", lambda _: module)
    monkeypatch.chdir(tmp_path)
    restart(monkeypatch)


def restart(monkeypatch):
    monkeypatch.setattr(checking, "_marks", {})
    monkeypatch.setattr(checking, "_told", set())


def test_a_restarted_kernel_knows_what_was_solved_and_says_where_it_is_kept(monkeypatch):
    Path(marks.FILE).write_text("{}")
    check("97.1", softmax)
    check("97.2", overflow)
    restart(monkeypatch)
    assert repr(progress()).splitlines() == [
        "✓ 97.1  Softmax  ●○○   5 min",
        "✗ 97.2  Another  ●○○   5 min",
        "1 of 2 solved",
        "Kept in progress.json, so a restart of the kernel forgets none.",
    ]
    assert "<p>Kept in progress.json" in progress()._repr_html_()


def test_a_page_beside_the_lessons_keeps_its_marks_with_theirs(monkeypatch, tmp_path):
    Path(marks.FILE).write_text("{}")
    for folder in (marks.FURTHER, "elsewhere"):
        Path(folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        check("97.1", softmax) if folder == marks.FURTHER else check("97.2", overflow)
        monkeypatch.chdir(tmp_path)
    assert json.loads(Path(marks.FILE).read_text()) == {"97.1": "✓"}
    assert not Path(marks.FURTHER, marks.FILE).exists()


def test_an_untouched_starter_takes_no_mark_away_and_a_new_answer_does(monkeypatch):
    Path(marks.FILE).write_text('{"97.1": "✓"}', encoding="utf-8")
    check("97.1", starter)
    assert progress().marks["97.1"] == "✓"
    check("97.1", overflow)
    restart(monkeypatch)
    assert progress().marks["97.1"] == "✗"


def test_without_the_file_nothing_is_written_or_said(tmp_path):
    check("97.1", softmax)
    assert repr(progress()).splitlines()[-1] == "1 of 2 solved"
    assert list(tmp_path.iterdir()) == []


def test_saving_under_this_name_is_enough_to_go_on(monkeypatch):
    assert "Kept in" in repr(progress(save=marks.FILE))
    check("97.2", softmax)
    restart(monkeypatch)
    assert progress().solved == 1


def test_what_was_kept_here_is_saved_elsewhere_too(monkeypatch):
    Path(marks.FILE).write_text('{"97.1": "✓"}', encoding="utf-8")
    check("97.2", softmax)
    restart(monkeypatch)
    progress(save="for_my_teacher.json")
    assert marks.read(Path("for_my_teacher.json")) == {"97.1": "✓", "97.2": "✓"}


def keep_some(kernel):
    for number in range(25):
        marks.keep(Path(marks.FILE), {f"{kernel}{number:02}": "✓"})


def test_two_kernels_at_once_lose_no_mark():
    spawn = multiprocessing.get_context("spawn")
    kernels = [spawn.Process(target=keep_some, args=(name,)) for name in "ab"]
    for kernel in kernels:
        kernel.start()
    for kernel in kernels:
        kernel.join()
    kept = marks.read(Path(marks.FILE))
    assert [*kept] == [f"{name}{number:02}" for name in "ab" for number in range(25)]


def test_a_kill_in_the_middle_leaves_the_file_whole(monkeypatch):
    marks.keep(Path(marks.FILE), {"97.1": "✓"})
    before = Path(marks.FILE).read_text()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        marks.keep(Path(marks.FILE), {"97.2": "✓"})
    assert Path(marks.FILE).read_text() == before


def test_a_file_that_cannot_be_written_costs_one_line_once(monkeypatch):
    Path(marks.FILE).write_text('{"97.1": "✓"}', encoding="utf-8")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    said = check("97.2", softmax).message.splitlines()[-1]
    assert said == (
        "Note: progress.json can't be written (Permission denied): your marks end with this "
        'kernel. progress(save="FILE") keeps them elsewhere.'
    )
    assert "written" not in check("97.2", overflow).message
    table = progress()
    assert table.marks == {"97.1": "✓", "97.2": "✗"}
    assert table.note == said.removeprefix("Note: ")
    with pytest.raises(ValueError, match=r"save must be a file that can be written, got 'x.json'"):
        progress(save="x.json")


@pytest.mark.parametrize("text", ["{not json", '{"name": "Ada"}', "[1]"])
def test_somebody_elses_file_of_this_name_is_left_alone(text):
    Path(marks.FILE).write_text(text)
    assert "holds something else" in check("97.1", softmax).message
    assert "holds something else" in progress().note
    assert progress().solved == 1
    assert Path(marks.FILE).read_text() == text


def test_the_file_is_one_that_a_teacher_can_read():
    marks.keep(Path(marks.FILE), {"97.2": "✗", "97.1": "✓", "96.1": "○"})
    text = Path(marks.FILE).read_text(encoding="utf-8")
    assert json.loads(text) == {"97.1": "✓", "97.2": "✗"}
    assert text == '{\n "97.1": "✓",\n "97.2": "✗"\n}\n'
