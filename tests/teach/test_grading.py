"""Grading a class: what is reported, what is refused, and what is left by whoever stops it."""

import csv
import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from lablib.__main__ import main
from lablib.course.checks.exercises import find, lessons
from lablib.teach import grade as grading
from lablib.teach import reports, walls
from lablib.teach.editions import part_of
from lablib.teach.page import feedback, page
from lablib.teach.reports import ExerciseRow, GradeReport, best_of

import psutil
import pytest
import submitted

pytestmark = pytest.mark.thorough

HAS_WALLS = not walls.missing()


def grade(folder, *files, **more):
    return grading.grade(folder, *files, **{"walls": HAS_WALLS, **more})


@pytest.fixture
def school(tmp_path):
    """Four students: solved, wrong twice, untouched and solved, a broken file."""
    folder = tmp_path / "school"
    named = {case.name: case for case in submitted.honest("00")}
    for student, case in {"ada": "solved00", "bob": "wrong00", "cleo": "starter00"}.items():
        named[case].write(folder).parent.rename(folder / student)
    path = named["other00"].write(folder)
    path.rename(folder / "cleo" / "again (1).ipynb")
    path.parent.rmdir()
    (folder / "dan.ipynb").write_text("{broken")
    (folder / "roster.csv").write_text("id,name\nada,Ada L.\neve,Eve\nbob,Bob\n")
    return folder


def instantly(orders, limits, workers):
    for order in orders:
        yield order, {"asked": ["00.1"], "findings": {"00.1": ["✓", "", ""]}}


@pytest.mark.slow
def test_two_runs_are_the_same_to_the_byte(school, tmp_path):
    written = []
    for name in ("one", "two"):
        out = tmp_path / name
        more = {"json": out / "r.json", "html": out / "r.html", "feedback": out / "told"}
        out.mkdir()
        grade(school, out / "r.csv", roster=school / "roster.csv", **more)
        paths = [path for path in sorted(out.rglob("*")) if path.is_file()]
        written.append({path.relative_to(out): path.read_bytes() for path in paths})
    assert written[0] == written[1]
    assert len(written[0]) == 3 + 5


@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM]
)
def test_whoever_stops_it_finds_no_process_and_a_whole_report(how, tmp_path):
    for name in "abc":
        path = tmp_path / "school" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"import time\n{submitted.RIGHT}time.sleep(60)\ncheck('00.1', best_token)")
    options = ["--csv", str(tmp_path / "r.csv")] + ["--no-walls"] * (not HAS_WALLS)
    command = [sys.executable, "-m", "lablib", "grade", str(tmp_path / "school"), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        watched, inside = psutil.Process(process.pid), []
        until = time.monotonic() + 60
        while len(inside) < 4 and time.monotonic() < until:
            inside = watched.children(recursive=True)
            time.sleep(0.05)
        process.send_signal(how)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert said.splitlines()[-1] == "lablib: stopped; what is judged by now is in the report"
    assert len(inside) >= 4
    assert psutil.wait_procs(inside, timeout=10)[1] == []
    assert (tmp_path / "r.csv").read_text("utf-8-sig").startswith("student,notebook,")


def test_whoever_interrupts_has_what_was_judged(tmp_path, monkeypatch):
    def until_the_fifth(orders, limits, workers):
        yield from [*instantly(orders, limits, workers)][:5]
        raise KeyboardInterrupt

    for number in range(10):
        (tmp_path / f"s{number}.py").write_text('check("00.1", best_token)')
    monkeypatch.setattr(grading, "judge", until_the_fifth)
    with pytest.raises(KeyboardInterrupt):
        grade(tmp_path, tmp_path / "r.csv")
    rows = [*csv.DictReader(io.StringIO((tmp_path / "r.csv").read_text("utf-8-sig")))]
    assert [row["student"] for row in rows] == [f"s{number}" for number in range(5)]


def test_a_full_disk_is_named(tmp_path, monkeypatch, capsys):
    def full(path, data):
        if "ada.md" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, data)

    school, told = tmp_path / "school", tmp_path / "told"
    school.mkdir()
    (school / "ada.py").write_text('check("00.1", best_token)')
    write = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(grading, "judge", instantly)
    command = ["grade", str(school), "--csv", str(tmp_path / "r.csv"), "--feedback", str(told)]
    assert main([*command, "--no-walls"]) == 2
    no_space = f"[Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}"
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "lablib: stopped; what is judged by now is in the report",
        f"lablib: {no_space}: {str(told / 'ada.md')!r}",
    ]


def test_a_folder_of_too_many_files_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "judge", instantly)
    monkeypatch.setattr(grading, "FILES", 2)
    for number in range(4):
        path = tmp_path / "mal" / f"{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("check('00.1', best_token)")
    rows = grade(tmp_path).rows
    why = "is not judged: more than 2 files are in that folder"
    assert [(row.exercise, row.outcome, row.message) for row in rows] == [
        ("-", "!", why), ("00.1", "✓", ""),
    ]  # fmt: skip


def test_an_answer_may_use_the_class_that_its_lesson_shows(tmp_path):
    right = find("10.3").solution.replace("def try_drafts", "def right")
    own = "\n\ndef try_drafts(layer, drafts, accepted):\n    Recurrent()\n"
    own += "    return right(layer, drafts, accepted)"
    submitted.Case("ada", submitted.answered("10", {"10.3": right + own}), {}).write(tmp_path)
    found = {row.exercise: row.outcome for row in grade(tmp_path).rows}
    assert found["10.3"] == "✓"


@pytest.mark.slow
def test_of_capstones_grade_marks_the_first_steps(tmp_path):
    notebook = submitted.answered("16", {"16.1": ""})
    checks = [n for n, cell in enumerate(notebook["cells"]) if part_of(cell) == ("16.3", "check")]
    further = "def propose(prompt, written, limit):\n    return []\nscore('drafts', propose)"
    cell = {"cell_type": "code", "metadata": {}, "source": further, "outputs": []}
    notebook["cells"].insert(checks[0] + 1, cell)  # somebody went on, and it plays worse
    submitted.Case("ada", notebook, {}).write(tmp_path)
    rows = grade(tmp_path).rows
    assert [(row.exercise, row.outcome) for row in rows] == [
        ("16.1", "!"), ("16.2", "✓"), ("16.3", "✓"),
    ]  # fmt: skip


def given(cases, tmp_path):
    """Return what each was given that is not its due."""
    for case in cases:
        case.write(tmp_path)
    rows = {(r.student, r.exercise): r for r in grade(tmp_path, cpu=3.0, seconds=60.0).rows}
    return [
        row
        for case in cases
        for row in (rows[case.name, id_] for id_ in case.due)
        if row.outcome not in case.due[row.exercise]
        or row.misconception != case.like.get(row.exercise, row.misconception)
    ]


@pytest.mark.parametrize(
    "lesson",
    [n if n == "00" else pytest.param(n, marks=pytest.mark.slow) for n in lessons()],
)
def test_honest_notebooks_get_their_due(lesson, tmp_path):
    """Untouched, solved, solved otherwise, and wrong all over."""
    assert given(submitted.honest(lesson), tmp_path) == []


EVERY = {"cheat": 16, "hog": 8, "fair": 20, "killer": 20}  # of how many one is tried; all are slow


@pytest.mark.parametrize(
    ("kind", "every"),
    [*EVERY.items(), *(pytest.param(kind, 1, marks=pytest.mark.slow) for kind in EVERY)],
)
def test_odd_notebooks_get_their_due(kind, every, tmp_path):
    """What is right in Jupyter is right here, and nobody takes a mark."""
    cases = [case for case in submitted.odd() if case.name.startswith(kind)]
    assert len(cases) > 3
    assert given(cases[::every], tmp_path) == []


def test_a_report_tells_who_solved_what_and_what_to_discuss(school, tmp_path):
    roster = school / "roster.csv"
    report = grade(school, roster=roster, html=tmp_path / "r.html", json=tmp_path / "r.json")
    marks = {}
    for row in report.rows:
        marks.setdefault(row.student, []).append(row.outcome)
    assert {name: "".join(found) for name, found in marks.items()} == {
        "Ada L.": "✓✓✓", "Bob": "✗✗✗", "cleo": "✓✓✓", "dan": "!", "Eve": "∅∅∅",
    }  # fmt: skip
    assert {r.notebook for r in report.rows if r.student == "cleo"} == {"cleo/again (1).ipynb"}
    assert report.counts()["00.1"] == {"✓": 2, "≠": 0, "✗": 1, "○": 0, "!": 0, "∅": 1}
    topics = report.topics()
    assert [topic.exercise for topic in topics] == ["00.1", "00.2", "00.3"]
    assert (topics[0].students, topics[0].attempts) == (1, 3)
    assert f"Discuss 00.1 The best token (1 of 3 who tried): {topics[0].text}" in repr(report)
    content = json.loads((tmp_path / "r.json").read_text())
    assert len(content["rows"]) == len(report.rows)
    assert content["misconceptions"][0]["misconception"] == topics[0].misconception
    text = (tmp_path / "r.html").read_text()
    for word in ("<h2>Discuss next</h2>", "cleo/again (1).ipynb", 'aria-label="correct"'):
        assert word in text
    assert "http" not in text  # it needs nothing else


ROW = ExerciseRow("a<b", "x.ipynb", "00.1", "✗", "largest_value", "=cmd · <script>")


def test_nothing_a_student_writes_is_run_by_a_reader_of_the_report():
    report = GradeReport([ROW])
    assert "<script>" not in page(report)
    assert "a&lt;b" in page(report)
    assert "'=cmd" in report.csv()
    assert "\\<script\\>" in feedback(report, "a<b")


def test_a_report_counts_points_and_what_has_no_name():
    rows = [
        ExerciseRow("ada", "x", "03.1", "✓", "", ""), ExerciseRow("ada", "x", "03.2", "✗", "", ""),
        ExerciseRow("bob", "x", "03.2", "✗", "", ""), ExerciseRow("bob", "x", "-", "!", "", ""),
        ExerciseRow("bob", "x", "03.1", "≠", "", "a" * 100),
    ]  # fmt: skip
    report = GradeReport(rows)
    assert (report.points("ada"), report.points("bob")) == ((3, 4), (0, 4))
    assert ">3 of 4</td>" in page(report)
    assert "Wrong in ways that have no name: 03.2 (2)." in page(report)
    table = csv.DictReader(io.StringIO(report.csv().lstrip("\ufeff")))
    assert [row["points"] for row in table] == ["3", "0", "0", "0", "0"]
    assert json.loads(report.json())["points"]["bob"] == {"got": 0, "of": 4}
    assert "a" * 79 + "…" in repr(report)


def test_a_page_says_our_sentences_as_they_are_meant():
    row = ExerciseRow("ada_l", "a_b.ipynb", "08.1", "✗", "same_favourite", "one · two")
    text = page(GradeReport([row]))
    assert "<code>same_favourite</code>" in text  # as the guide and the teacher's edition call it
    assert "it compares two <em>samples</em>" in text
    broken = replace(row, exercise="-", outcome="!")
    lines = feedback(GradeReport([broken, row]), "ada_l").splitlines()
    assert lines[0] == "# ada\\_l: your exercises"
    assert lines[4].startswith("- ! **a\\_b.ipynb**")
    assert lines[-2:] == ["  one  ", "  two"]  # each on a line of its own


def test_of_several_notebooks_the_best_counts_and_of_equals_the_first():
    rows = [ExerciseRow("a", str(i), "00.1", mark, "", "") for i, mark in enumerate("✗✓✓")]
    ranks = [2, 4, 4]
    assert best_of(zip(ranks, rows, strict=True)) == [rows[1]]
    assert set(reports.OUTCOMES) == set("✓≠✗○!∅")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"csv": "none/r.csv"}, "No such file"),
        ({"html": "."}, "Not a file"),
        ({"feedback": "file"}, "File exists"),
        ({"feedback": "docs"}, "feedback must be a folder of its own, got one with docs/README.md"),
        ({"csv": "file", "json": "./file"}, "a file of its own, got file for two things"),
        ({"csv": "file", "html": "link"}, "a file of its own, got file for two things"),
        ({"csv": "r.csv", "roster": "r.csv"}, "a file of its own, got r.csv for two things"),
        ({"html": "p.toml", "points": "p.toml"}, "a file of its own, got p.toml for two"),
        ({"csv": "ada.ipynb"}, "no notebook and no program, got ada.ipynb"),
        ({"student": "("}, "student must be a regular expression"),
        ({"student": "a"}, "student must have a group"),
        ({"roster": "none"}, "roster must be"),
        ({"seconds": 0}, "seconds must be"),
        ({"workers": -1}, "workers must be"),
        ({"memory": 1}, "memory must be"),
        ({"seconds": 1e19}, "seconds must be between 0.1 and 100000"),
        ({"cpu": 1e9}, "cpu must be between 0.1 and 10000"),
        ({"memory": 10**13}, "memory must be between 256 and 1000000"),
        ({"lessons": ["03", "x"]}, "lessons must be one of"),
    ],
)
def test_what_is_wrong_is_said_before_the_work(wanted, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("ada\n")
    Path("r.csv").write_text("id,name\n1,ada\n")
    Path("p.toml").touch()
    Path("link").symlink_to("file")
    Path("docs").mkdir()
    Path("docs", "README.md").write_text("# Ours\n")
    monkeypatch.setattr("lablib.teach.grade.judge", None)
    with pytest.raises((ValueError, OSError), match=message):
        grade(tmp_path, **wanted)


def test_the_command_says_what_its_walls_keep_out(capsys):
    with pytest.raises(SystemExit):
        main(["grade", "--help"])
    said = capsys.readouterr().out
    told = ("--student", "neither references nor verdicts", "bubblewrap", "copied", "score")
    for word in told:
        assert word in said


def test_a_command_leaves_signals_as_they_were(tmp_path, capsys):
    (tmp_path / "ada.ipynb").write_text("{}")
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert main(["grade", str(tmp_path), *["--no-walls"] * (not HAS_WALLS)]) == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.slow
def test_a_cell_of_another_courses_exercise_costs_none_of_this_one(tmp_path):
    """An older edition may have had more exercises: a cell of one that fails is nobody's here."""
    cells = [
        {"source": "def (", "metadata": {"lablib": {"exercise": "00.9", "part": "starter"}}},
        {"source": "y = (", "metadata": {"lablib": {"exercise": ["00.1"]}}},
        {"source": f"import numpy as np\n{submitted.RIGHT}\ncheck('00.1', best_token)"},
    ]
    whole = {"nbformat": 4, "cells": [{"cell_type": "code", **cell} for cell in cells]}
    (tmp_path / "ada.ipynb").write_text(json.dumps(whole))
    assert [row.outcome for row in grade(tmp_path).rows] == ["✓", "!", "!"]


@pytest.mark.parametrize("limit", [0, float("nan"), True, "1"])
def test_a_limit_is_a_number_above_nothing(limit, tmp_path):
    with pytest.raises((ValueError, TypeError), match="cpu must be"):
        grade(tmp_path, cpu=limit)
