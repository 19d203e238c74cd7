"""Points: what exercises are worth, and tables that Moodle and Canvas take."""

import csv
import io
import re
import time
from dataclasses import replace

from lablib.__main__ import main
from lablib.course.checks.exercises import exercises, find
from lablib.teach.grade import grade
from lablib.teach.gradebook import CANVAS, MOODLE, POSSIBLE, canvas, moodle
from lablib.teach.page import page
from lablib.teach.points import Scheme, read_points
from lablib.teach.reports import ExerciseRow, GradeReport, no_formula
from lablib.teach.roster import packed, read_roster
from lablib.validation import BadValue

import pytest
import submitted

LESSONS = ("00", "01", "05", "07", "13")


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


PEOPLE = {
    "ada": {"Email address": "ada@x.org", "SIS User ID": "77", "Section": "A"},
    "bob": {"Email address": "bob@x.org", "SIS User ID": "78", "Section": "B"},
}


def test_moodle_reads_a_row_of_points_back():
    report = report_of({"ada": "✓", "bob": "✗"})
    rows = table(moodle(report, PEOPLE))
    assert [*rows["ada"]] == [
        "Student", "Email address", *(f"lablib {n}" for n in LESSONS), "Total"
    ]  # fmt: skip
    for student, person in PEOPLE.items():
        assert rows[student]["Email address"] == person["Email address"]
        got = [float(rows[student][f"lablib {lesson}"]) for lesson in LESSONS]
        assert got == [report.points(student, lesson)[0] for lesson in LESSONS]
        assert float(rows[student]["Total"]) == sum(got) == report.points(student)[0]
    assert float(rows["bob"]["Total"]) == 0 < float(rows["ada"]["Total"])
    alone = table(moodle(report, {}))  # no roster: the folder's name is what there is
    assert alone["ada"]["Username"] == "ada"
    assert MOODLE[0] == "Username"


def test_a_total_has_all_digits_of_its_parts():
    points = {each.id: 100.125 for lesson in LESSONS for each in exercises(lesson)}
    report = report_of({"ada": "✓"}, Scheme(points))
    total = report.points("ada")[0]
    assert float(table(moodle(report, {}))["ada"]["Total"]) == total
    assert total != float(f"{total:g}")
    assert f"{total} of {total}" in page(report)
    parts = table(canvas(report, {}))["ada"]
    assert sum(float(parts[f"lablib {lesson}"]) for lesson in LESSONS) == total


def test_canvas_reads_a_row_of_points_back():
    report = report_of({"ada": "✓", "bob": "✗"})
    text = canvas(report, PEOPLE)
    head = text.splitlines()[0].split(",")
    assert head == ["Student", *CANVAS, *(f"lablib {lesson}" for lesson in LESSONS)]
    assert text.splitlines()[1].startswith(f"{POSSIBLE},")
    rows = table(text)
    for lesson in LESSONS:
        stars = sum(each.stars for each in exercises(lesson))
        assert float(rows[POSSIBLE][f"lablib {lesson}"]) == stars
        assert float(rows["ada"][f"lablib {lesson}"]) == stars
        assert float(rows["bob"][f"lablib {lesson}"]) == 0
    assert (rows["ada"]["SIS User ID"], rows["bob"]["Section"]) == ("77", "B")
    assert table(canvas(report, {}))["ada"]["SIS Login ID"] == "ada"


def test_no_student_says_how_many_points_are_possible():
    """Canvas takes every row for that whose name has these words in it."""
    report = report_of({"ada": "✓", "mal Points Possible": "✗"})
    for people in ({}, PEOPLE):
        rows = [*csv.reader(io.StringIO(canvas(report, people)))]
        assert [row[0] for row in rows if "Points Possible" in row[0]] == [POSSIBLE]
        assert rows[-1][0] == "mal points possible"


def test_a_name_is_no_formula_in_either():
    report = report_of({"=1+1": "✓"})
    for text in (moodle(report, {}), canvas(report, {})):
        assert "'=1+1" in text
        assert not [
            cell for row in csv.reader(io.StringIO(text)) for cell in row if cell[:1] == "="
        ]


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
        ("option = []", "must have the keys points and optional, got 'option'"),
        ('optional = "07.4"', "must have a list optional"),
        ("points = [1]", "a table"),
        ('optional = ["99.1"]', "must name exercises"),
        ("optional = [[1]]", "must name exercises"),
        ('[points]\n"00.1" = -1', "points of 00.1 must be from 0 to 1000, got -1"),
        ('[points]\n"00.1" = true', "must be from 0"),
        ('[points]\n"00.1" = nan', "must be from 0"),
    ],
)
def test_what_is_no_scheme_is_named(text, said, tmp_path):
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ValueError, match=said):
        read_points(tmp_path / "p.toml")
    with pytest.raises(ValueError, match="must be a file in TOML"):
        read_points(tmp_path / "none.toml")


def test_the_command_writes_what_the_grade_books_take_and_a_line(tmp_path, capsys):
    school = tmp_path / "school"
    for student, text in {"ada": submitted.RIGHT, "bob": submitted.ZERO}.items():
        (school / student).mkdir(parents=True)
        (school / student / "work.py").write_text(f"import numpy as np\n{text}")
    (school / "bob" / "rest.zip").write_bytes(b"PK")
    (tmp_path / "class.csv").write_text("student,Email address\nada,a@x.org\nbob,b@x.org\n")
    (tmp_path / "p.toml").write_text('optional = ["00.3"]\n[points]\n"00.1" = 7')
    options = {"--moodle": "m.csv", "--canvas": "c.csv", "--roster": "class.csv"}
    options |= {"--points": "p.toml"}
    places = [part for key, name in options.items() for part in (key, str(tmp_path / name))]
    assert main(["grade", str(school), *places]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "2 students, 1 of 6 ✓"
    assert said.splitlines()[-1].endswith("unpack it: bob/rest.zip.")
    rows = table((tmp_path / "m.csv").read_text())
    assert [(row["Email address"], row["Total"]) for row in rows.values()] == [
        ("a@x.org", "7"), ("b@x.org", "0")
    ]  # fmt: skip
    possible = table((tmp_path / "c.csv").read_text())[POSSIBLE]["lablib 00"]
    assert float(possible) == 7 + find("00.2").stars
    assert packed(school) == ["bob/rest.zip"]
    (note,) = GradeReport([], packed=[f"{i}.zip" for i in range(102)]).notes()
    assert note.endswith(", 98.zip, 99.zip and 2 more.")


def test_the_page_tells_how_the_class_did_and_leads_to_what_was_told():
    report = report_of({"ada": "✓", "bob": "✗", "cy": "✓", "<b>": "○"})
    assert report.shares() == [0, 1, 0, 1]
    text = page(report)
    assert "Half of the students have 50 % of their points or more." in text
    for share, count in (("0 to 10", 2), ("10 to 20", 0), ("90 to 100", 2)):
        row = text[text.index(f'<th scope="row">{share} %</th>') :].partition("</tr>")[0]
        assert row.endswith(f" {count}</td>")
        assert ('class="bar"' in row) == (count > 0)
    links = re.findall(r'<a href="#([^"]+)">', text)
    assert len(links) == len(report.rows)
    assert {*links} == {*re.findall(r'<li id="([^"]+)">', text)}
    assert "Half" not in page(GradeReport([]))


def test_a_broken_file_is_blamed_for_its_own_lesson_alone(tmp_path):
    school = tmp_path / "school"
    (school / "ada").mkdir(parents=True)
    (school / "ada" / "01_from_logits_to_text.ipynb").write_text("{broken")
    (school / "bob").mkdir()
    (school / "bob" / "work.ipynb").write_text("{broken")
    (tmp_path / "class.csv").write_text("ada\nbob\n")
    report = grade(school, roster=tmp_path / "class.csv", lessons=["01", "03"])
    marks = {}
    for row in report.rows:
        marks.setdefault((row.student, row.exercise[:2]), set()).add(row.outcome)
    assert marks["ada", "01"] == marks["bob", "01"] == marks["bob", "03"] == {"!"}
    assert marks["ada", "03"] == {"∅"}


def test_a_teachers_own_file_that_is_none_is_named(tmp_path):
    path = tmp_path / "own"
    path.write_text("a = " + "[" * 10_000)
    with pytest.raises(BadValue, match=r"a file in TOML, got .*own"):
        read_points(path)
    path.write_text("student\n" + "a" * 200_000)
    with pytest.raises(BadValue, match=r"a CSV file, got .*own"):
        read_roster(path)
    with pytest.raises(BadValue, match="a CSV file, got"):
        read_roster(tmp_path / "a\0b")


def test_a_large_class_has_its_tables_in_little_time():
    """All rows were looked through for each student and lesson: whoever pressed Ctrl-C waited."""
    report = report_of({f"s{i:03d}": "✓" for i in range(1500)})
    began = time.process_time()
    for table in (moodle, canvas):
        assert len(table(report, {}).splitlines()) > 1500
    assert time.process_time() - began < 3  # it was six
