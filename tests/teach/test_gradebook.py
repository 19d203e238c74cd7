"""Points: what exercises are worth, and tables that Moodle and Canvas take."""

import csv
import io
import re
import time
from dataclasses import replace

from lablib.__main__ import main
from lablib.course.checks.exercises import exercises, find
from lablib.teach.gradebook import CANVAS, POSSIBLE, canvas, moodle
from lablib.teach.page import page
from lablib.teach.points import Scheme, read_points
from lablib.teach.reports import ExerciseRow, GradeReport, no_formula

import pytest
import submitted

LESSONS = ("00", "01", "05", "07", "13")
COLUMNS = [f"lablib {lesson}" for lesson in LESSONS]
PEOPLE = {"Ada": "a7", "Bob": "b8"}


def report_of(marks, scheme=None):
    """Return a report in which a student has the same mark for each exercise of five lessons."""
    rows = [
        ExerciseRow(student, "x", each.id, mark, "", "")
        for student, mark in marks.items()
        for lesson in LESSONS
        for each in exercises(lesson)
    ]
    return GradeReport(rows, scheme=scheme or Scheme())


def table(text):
    rows = [*csv.DictReader(io.StringIO(text))]
    assert all(None not in row and None not in row.values() for row in rows)
    return {row["Student"]: row for row in rows}


def test_moodle_reads_a_row_of_points_back():
    report = report_of({"Ada": "✓", "Bob": "✗"})
    rows = table(moodle(report, PEOPLE))
    assert [*rows["Ada"]] == ["Student", "Username", *COLUMNS, "Total"]
    for student, id_ in PEOPLE.items():
        assert rows[student]["Username"] == id_
        got = [float(rows[student][column]) for column in COLUMNS]
        assert got == [report.points(student, lesson)[0] for lesson in LESSONS]
        assert float(rows[student]["Total"]) == sum(got) == report.points(student)[0]
    assert float(rows["Bob"]["Total"]) == 0 < float(rows["Ada"]["Total"])
    assert table(moodle(report, {}))["Ada"]["Username"] == "Ada"


def test_canvas_reads_a_row_of_points_back():
    report = report_of({"Ada": "✓", "Bob": "✗"})
    rows = table(canvas(report, PEOPLE))
    assert [*rows] == [POSSIBLE, "Ada", "Bob"]
    assert [*rows["Ada"]] == ["Student", *CANVAS, *COLUMNS]
    for lesson, column in zip(LESSONS, COLUMNS, strict=True):
        stars = sum(each.stars for each in exercises(lesson))
        assert [float(row[column]) for row in rows.values()] == [stars, stars, 0]
    assert rows["Bob"]["SIS Login ID"] == "b8"
    assert table(canvas(report, {}))["Ada"]["SIS Login ID"] == "Ada"


def test_a_total_has_all_digits_of_its_parts():
    points = {each.id: 100.125 for lesson in LESSONS for each in exercises(lesson)}
    report = report_of({"ada": "✓"}, Scheme(points))
    total = report.points("ada")[0]
    assert float(table(moodle(report, {}))["ada"]["Total"]) == total
    assert total != float(f"{total:g}")
    assert f"{total} of {total}" in page(report)


def test_no_student_says_how_many_points_are_possible():
    """Canvas takes every row for that whose name has these words in it."""
    rows = table(canvas(report_of({"ada": "✓", "mal Points Possible": "✗"}), {}))
    assert [*rows] == [POSSIBLE, "ada", "mal points possible"]


@pytest.mark.parametrize("name", ["\t=1", " =1", "\r=1", "＝1", "@a", "-1"])
def test_what_a_spreadsheet_may_take_for_a_formula_is_marked_as_text(name):
    assert no_formula(name) == f"'{name}"
    assert no_formula("a=1") == "a=1"


def test_no_cell_is_a_formula_where_spreadsheets_part_cells_at_semicolons():
    """Excel does in half of Europe: a comma's file, opened by a click, is cut at them, too."""
    report = report_of({'a;=1+1; "@b"': "✗"})
    told = [replace(row, message="it raised ValueError: x;\t=1+1, y") for row in report.rows]
    report = replace(report, rows=told)
    for text in (report.csv(), moodle(report, {}), canvas(report, {})):
        cells = [cell for row in csv.reader(io.StringIO(text), delimiter=";") for cell in row]
        assert len(cells) > 2
        assert not [cell for cell in cells if cell.strip(' \t"')[:1] in ("=", "@")]
    assert no_formula("it is 1; two = 2") == "it is 1; two = 2"


def test_an_optional_exercise_is_not_missing_and_counts_when_it_is_solved():
    scheme = Scheme({"07.1": 5}, frozenset({"07.4"}))
    report = report_of({"ada": "✓", "bob": "✗"}, scheme)
    stars = {each.id: each.stars for each in exercises("07")}
    due = 5 + stars["07.2"] + stars["07.3"]
    assert report.points("ada", "07") == (due + stars["07.4"], due)
    assert report.points("bob", "07") == (0, due)
    assert report.possible("07") == due


def test_a_scheme_is_one_small_file(tmp_path):
    path = tmp_path / "points.toml"
    path.write_text('optional = ["07.4"]\n\n[points]\n"08.1" = 5\n"00.1" = 0.5\n')
    scheme = read_points(path)
    assert scheme == Scheme({"08.1": 5, "00.1": 0.5}, frozenset({"07.4"}))
    assert [scheme.worth(id_) for id_ in ("08.1", "00.1", "-")] == [5, 0.5, 0]
    assert scheme.worth("08.2") == find("08.2").stars


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("optional = [", "must be a file in TOML"),
        ("a = " + "[" * 10_000, "must be a file in TOML"),
        ("option = []", "must have a list optional"),
        ('optional = "07.4"', "must have a list optional"),
        ("points = [1]", "a table"),
        ('optional = ["99.1"]', "must name exercises"),
        ("optional = [[1]]", "must name exercises"),
        ('[points]\n"00.1" = -1', "points of 00.1 must be between 0 and 1000, got -1"),
        ('[points]\n"00.1" = true', "points of 00.1 must be a number"),
        ('[points]\n"00.1" = nan', "points of 00.1 must be finite"),
    ],
)
def test_what_is_no_scheme_is_named(text, said, tmp_path):
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises((ValueError, TypeError), match=said):
        read_points(tmp_path / "p.toml")
    with pytest.raises(ValueError, match="must be a file in TOML"):
        read_points(tmp_path / "none.toml")


def test_the_command_writes_what_the_grade_books_take_and_a_line(tmp_path, capsys):
    school = tmp_path / "school"
    for student, text in {"a7": submitted.RIGHT, "b8": submitted.ZERO}.items():
        (school / student).mkdir(parents=True)
        (school / student / "work.py").write_text(f"import numpy as np\n{text}")
    (school / "b8" / "rest.zip").write_bytes(b"PK")
    (tmp_path / "class.csv").write_text("id,name\na7,Ada\nb8,Bob\n")
    (tmp_path / "p.toml").write_text('optional = ["00.3"]\n[points]\n"00.1" = 7')
    options = {"--moodle": "m.csv", "--canvas": "c.csv", "--roster": "class.csv"}
    options |= {"--points": "p.toml"}
    places = [part for key, name in options.items() for part in (key, str(tmp_path / name))]
    assert main(["grade", str(school), *places]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "2 students, 1 of 6 ✓"
    assert said.splitlines()[-1].endswith("unpack it: b8/rest.zip.")
    rows = table((tmp_path / "m.csv").read_text())
    assert [(row["Username"], row["Total"]) for row in rows.values()] == [("a7", "7"), ("b8", "0")]
    possible = table((tmp_path / "c.csv").read_text())[POSSIBLE]["lablib 00"]
    assert float(possible) == 7 + find("00.2").stars
    (note,) = GradeReport([], unread=[f"{i}.zip" for i in range(102)]).notes()
    assert note.endswith(", 98.zip, 99.zip and 2 more.")


def test_the_pages_marks_lead_to_what_was_told():
    report = report_of({"ada": "✓", "bob": "✗", "<b>": "○"})
    text = page(report)
    links = re.findall(r'<a href="#([^"]+)">', text)
    assert len(links) == len(report.rows)
    assert {*links} == {*re.findall(r'<li id="([^"]+)">', text)}


def test_a_large_class_has_its_tables_in_little_time():
    """All rows were looked through for each student and lesson: whoever pressed Ctrl-C waited."""
    report = report_of({f"s{i:03d}": "✓" for i in range(1500)})
    began = time.process_time()
    for table in (moodle, canvas):
        assert len(table(report, {}).splitlines()) > 1500
    assert time.process_time() - began < 3  # it was six
