"""Whose a file is, by one expression, and who is in the class, by a list."""

import sys

from lablib.teach import grade as grading
from lablib.teach.handed_in import read_bytes, read_cells
from lablib.teach.page import page
from lablib.teach.roster import Owners, not_read, owner_of, packed, read_roster, submissions

import pytest


def whose(inside, student="folder", **people):
    return Owners(owner_of(student), people).student(inside)


@pytest.mark.parametrize(
    ("student", "inside", "name"),
    [
        ("folder", "ada/00.ipynb", "ada"),
        ("folder", "ada/deep/er/00.ipynb", "ada"),
        ("folder", "ada.l.py", "ada.l"),
        ("moodle", "Ada Ng_1234_assignsubmission_file_/00.ipynb", "Ada Ng"),
        ("moodle", "lab/Ada Ng_1234_assignsubmission_file/00.ipynb", "Ada Ng"),
        ("canvas", "ngada_123_4567_00_start.ipynb", "ngada"),
        ("canvas", "ngada_LATE_123_4567_00-1.ipynb", "ngada"),
        ("github", "lab0-ada-l/00.ipynb", "ada-l"),
        ("github", "lab0-submissions/lab0-ada/00.ipynb", "ada"),
        (r"^hw1/(?P<student>\w+)@", "hw1/ada@x.org/00.ipynb", "ada"),
        (r"-(\w+)\.py$", "final-ada.py", "ada"),
        ("moodle", "ada/00.ipynb", "ada"),  # what it does not match is its outer folder's
    ],
)
def test_one_expression_says_whose_a_file_is(student, inside, name):
    assert whose(inside, student) == name


PEOPLE = {
    "Ada Ng": {"github_username": "ada-n", "sortable": "Ng, Ada", "section": "1"},
    "Bob Ode": {"github_username": "1", "sortable": "Ode, Bob", "section": "1"},
}


@pytest.mark.parametrize(
    ("inside", "student", "name"),
    [
        ("ada-n/x.py", "folder", "Ada Ng"),
        ("ADA NG/x.py", "folder", "Ada Ng"),
        ("ngada_1_2_x.py", "canvas", "Ada Ng"),
        ("lab0-ada-n/x.py", "github", "Ada Ng"),
        ("1/x.py", "folder", "1"),  # two rows have such a cell
        ("ada/x.py", "folder", "ada"),  # nothing is guessed
    ],
)
def test_whoever_has_such_a_cell_alone_is_meant(inside, student, name):
    assert whose(inside, student, **PEOPLE) == name


def test_a_name_shows_no_orders_to_a_terminal():
    assert whose("\x1b[2J/x.py").isprintable()
    assert whose("a\u200bda/x.py") != "ada"


@pytest.mark.parametrize("text", ["(", "no group", "[a-"])
def test_what_is_no_such_expression_is_named(text):
    with pytest.raises(ValueError, match="student must"):
        owner_of(text)


def table(path, text, encoding="utf-8"):
    path.write_text(text, encoding=encoding)
    return read_roster(path)


@pytest.mark.parametrize(
    "text",
    [
        "student\nAda Ng\nBob\n", "Ada Ng\nBob\n", "id;Full name\n1;Ada Ng\n2;Bob\n",
        "sep=;\nname;mail\nAda Ng;a@x\nBob;\n", "\ufeffidentifier\tx\nAda Ng\t1\nBob\t2",
        "Last name,First name\nNg,Ada\n,Bob\n", "Student,ID\nPoints Possible,\nAda Ng,1\nBob,2\n",
    ],
)  # fmt: skip
def test_a_list_of_students_is_read_as_platforms_write_it(text, tmp_path):
    assert [*table(tmp_path / "r.csv", text)] == ["Ada Ng", "Bob"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at least one student"), ("student\n", "at least one student"),
        ("student\nAda\nADA\n", "nobody twice"), ("name,x\nAda,1,2\n", "no more cells"),
        ("Ng, Ada\n", "no more cells"), ("a\0b", "in UTF-8"),
    ],
)  # fmt: skip
def test_what_is_no_list_is_named(text, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        table(tmp_path / "r.csv", text)


def test_a_list_that_is_not_there_or_no_text_is_named(tmp_path):
    with pytest.raises(ValueError, match="roster must be a CSV file"):
        read_roster(tmp_path / "none.csv")
    (tmp_path / "r.csv").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match="in UTF-8"):
        read_roster(tmp_path / "r.csv")


def test_what_is_handed_in_is_found_and_what_is_not_is_told(tmp_path):
    for name in (
        "ada/00.IPYNB",
        "ada/.ipynb_checkpoints/x.ipynb",
        "bob.py",
        "notes.txt",
        "c/x.zip",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "link").symlink_to("ada")
    found = [path.relative_to(tmp_path).as_posix() for path in submissions(tmp_path)]
    assert found == ["ada/00.IPYNB", "bob.py", "link"]
    assert packed(tmp_path) == ["c/x.zip"]
    assert not_read(tmp_path, [tmp_path / "notes.txt"]) == ["c/"]


def test_names_that_this_shell_would_misread_are_refused(tmp_path, monkeypatch):
    (tmp_path / "éva.py").touch()
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "latin-1")
    with pytest.raises(ValueError, match="set PYTHONUTF8=1"):
        submissions(tmp_path)


def test_strangers_and_absent_students_are_in_the_report(tmp_path, monkeypatch):
    def instantly(orders, limits, workers):
        for order in orders:
            yield order, {"asked": ["00.1"], "findings": {"00.1": ["✓", "", ""]}}

    monkeypatch.setattr(grading, "judge", instantly)
    for name in ("ada", "eve"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "class.csv").write_text("student\nAda\nBob\n")
    report = grading.grade(tmp_path, roster=tmp_path / "class.csv", walls=False)
    marks = {row.student: row.outcome for row in report.rows}
    assert marks == {"Ada": "✓", "Bob": "∅", "eve": "✓"}
    assert "Not on the roster, so only what they handed in is here: eve." in report.summary()
    assert "not on the roster" in page(report)


def test_a_file_is_read_to_a_size_and_a_link_never(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("# %%\nx = 1\n# %% [markdown]\n# text\n# In[3]:\ny = 2\n")
    kinds = [cell["cell_type"] for cell in read_cells(tmp_path / "a.py")]
    assert kinds == ["code", "markdown", "code"]
    (tmp_path / "b.py").symlink_to("a.py")
    with pytest.raises(ValueError, match=r"it is a link, to a\.py"):
        read_bytes(tmp_path / "b.py")
    monkeypatch.setattr("lablib.teach.handed_in.LARGEST", 3)
    with pytest.raises(ValueError, match="it has more than 0 MB"):
        read_bytes(tmp_path / "a.py")
