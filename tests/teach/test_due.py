"""Late work is marked, by its file's time alone, and loses no points."""

import csv
import json
import os
import re
import time
from datetime import UTC, datetime, timedelta

from lablib.__main__ import main
from lablib.teach.due import is_late, read_due
from lablib.teach.grade import grade
from lablib.teach.gradebook import canvas, moodle
from lablib.teach.page import page

import pytest
import submitted

DUE = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)


def hand_in(path, text, after):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"import numpy as np\n{text}")
    moment = (DUE + timedelta(seconds=after)).timestamp()
    os.utime(path, (moment, moment))


@pytest.fixture
def school(tmp_path):
    folder = tmp_path / "school"
    hand_in(folder / "ada" / "work.py", submitted.RIGHT, 0)
    hand_in(folder / "bob" / "work.py", submitted.RIGHT, 1)
    hand_in(folder / "cy" / "a.py", submitted.RIGHT, 60)  # right twice: the one in time counts
    hand_in(folder / "cy" / "b.py", submitted.RIGHT, -60)
    hand_in(folder / "dan" / "a.py", submitted.ZERO, -60)  # wrong in time, right too late
    hand_in(folder / "dan" / "b.py", submitted.RIGHT, 60)
    return folder


def table(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return [*csv.DictReader(file)]


def test_late_work_is_marked_everywhere_and_has_its_points(school, tmp_path, capsys):
    places = {name: tmp_path / f"x.{name}" for name in ("csv", "json", "html", "moodle", "canvas")}
    options = [part for name, path in places.items() for part in (f"--{name}", str(path))]
    assert main(["grade", str(school), *options, "--due", "2026-11-30T23:59+00:00"]) == 0
    said = capsys.readouterr().out
    assert "by its own time, which is all that is known" in said
    assert "Of what is here, 2 are." in said
    rows = [row for row in table(places["csv"]) if row["exercise"] == "00.1"]
    assert [(row["student"], row["late"], row["points"]) for row in rows] == [
        ("ada", "", "1"), ("bob", "late", "1"), ("cy", "", "1"), ("dan", "late", "1")
    ]  # fmt: skip
    late = {row["student"] for row in json.loads(places["json"].read_text())["rows"] if row["late"]}
    assert late == {"bob", "dan"}
    assert [(row["Student"], row["Late"]) for row in table(places["moodle"])] == [
        ("ada", ""), ("bob", "00"), ("cy", ""), ("dan", "00")
    ]  # fmt: skip
    assert "Late" not in places["canvas"].read_text()
    text = places["html"].read_text()
    marks = re.findall(
        r'<tr><th scope="row">(\w+)</th><td[^>]*>(?:(?!</td>).)*</a>(<small>)?', text
    )
    assert [name for name, small in marks if small] == ["bob", "dan"]
    report = grade(school, due="2026-11-30T23:59Z")
    shown = [line for line in repr(report).splitlines() if "  ✓ late" in line]
    assert [line.split()[:2] for line in shown] == [["bob", "00.1"], ["dan", "00.1"]]


def test_without_a_date_nothing_is_late_and_nothing_is_said_of_it(school):
    report = grade(school)
    assert not any(row.late for row in report.rows)
    for text in (page(report), moodle(report, {}), canvas(report, {}), report.summary()):
        assert not re.search(r"\blate\b", text, re.IGNORECASE)


def test_a_time_without_an_offset_is_this_machines(tmp_path):
    assert read_due("2026-11-30T23:59+02:00") == DUE - timedelta(hours=2)
    assert (
        read_due("2026-11-30 23:59:30").timestamp()
        == datetime(2026, 11, 30, 23, 59, 30).timestamp()
    )
    assert read_due(DUE) == DUE
    assert not is_late(tmp_path / "gone", DUE)
    (tmp_path / "link").symlink_to("nowhere")  # its own time, not that of what it leads to
    assert is_late(tmp_path / "link", datetime(2020, 1, 1))


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows")
def test_what_is_due_in_an_hour_that_a_spring_leaves_out_is_due_after_it(monkeypatch):
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        due = read_due("2026-03-29T02:30")
    time.tzset()
    assert due.isoformat() == "2026-03-29T03:30:00+02:00"


NO_DATES = ("", "2026-11-30", "20261130", "tomorrow", "2026-11-31T10:00", "30.11.2026 23:59")


@pytest.mark.parametrize("due", [*NO_DATES, "0001-01-01T00:00+14:00"])
def test_what_is_no_date_with_a_time_is_refused_in_one_line(due, school, tmp_path, capsys):
    feedback = tmp_path / "feedback"
    assert main(["grade", str(school), "--due", due, "--feedback", str(feedback)]) != 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "due" in line] == said[-1:]
    assert f"due must be a date and a time, 2026-11-30T23:59 say, got {due!r}" in said[-1]
    assert not feedback.exists()
    with pytest.raises(TypeError, match="due must be a date and a time"):
        grade(school, due=20261130)
