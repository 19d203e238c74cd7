"""Whose a file is, by one expression, and who is in the class, by a list."""

from lablib.teach import grade as grading
from lablib.teach.handed_in import read_bytes, read_cells
from lablib.teach.page import page
from lablib.teach.roster import not_read, owners, read_roster, submissions

import pytest


@pytest.mark.parametrize(
    ("student", "inside", "name"),
    [
        ("folder", "ada/00.ipynb", "ada"),
        ("folder", "ada/deep/er/00.ipynb", "ada"),
        ("folder", "ada.l.py", "ada.l"),
        ("moodle", "Eva Ng_1234_assignsubmission_file_/00.ipynb", "Eva Ng"),
        ("moodle", "lab/Eva Ng_1234_assignsubmission_file/00.ipynb", "Eva Ng"),
        ("canvas", "ngada_123_4567_00_start.ipynb", "ngada"),
        ("canvas", "ngada_LATE_123_4567_00-1.ipynb", "ngada"),
        ("github", "lab0-ada-l/00.ipynb", "ada-l"),
        ("github", "lab0-submissions/lab0-ada/00.ipynb", "ada"),
        (r"^hw1/(?P<student>\w+)@", "hw1/ada@x.org/00.ipynb", "ada"),
        # A name within what was handed in is its author's, and says nothing.
        ("canvas", "mal_123_4567_hw/ada_1_2_00.py", "mal"),
        ("github", "lab0-mal-submissions/lab0-ada/00.py", "mal-submissions"),
        ("moodle", "Mal_1_assignsubmission_file/Ada Ng_2_assignsubmission_file/00.py", "Mal"),
        ("moodle", "ada/00.ipynb", "ada"),  # what it does not match is its outer folder's
        ("folder", "an7/x.py", "Ada Ng"),  # an id on the roster
        ("folder", "ADA NG.py", "Ada Ng"),
        ("folder", "an/x.py", "an"),  # nothing is guessed
    ],
)
def test_one_expression_and_the_list_say_whose_a_file_is(student, inside, name):
    assert owners(student, {"Ada Ng": "an7"})(inside)[0] == name


def test_a_name_shows_no_orders_to_a_terminal():
    whose = owners("folder", {})
    assert whose("\x1b[2J/x.py")[0].isprintable()
    assert whose("a\u200bda/x.py")[0] != "ada"


def test_what_was_handed_in_by_one_begins_alike():
    whose = owners("github", {})
    assert whose("lab0-submissions/lab0-ada/a/b.py")[1] == "lab0-submissions/lab0-ada"
    assert whose("lab0-submissions/lab0-mal/c.py")[1] == "lab0-submissions/lab0-mal"


def test_a_link_or_a_path_that_is_too_long_stops_nobody(tmp_path):
    (tmp_path / "ada.py").write_text("x = 1")
    (tmp_path / "mal").symlink_to("a" * 300)
    inner = tmp_path / "eve"
    inner.mkdir()
    (inner / "link").symlink_to("b" * 300)
    assert [path.name for path in submissions(tmp_path)] == ["ada.py"]
    assert not_read(tmp_path) == ["eve", "mal"]


@pytest.mark.parametrize("text", ["(", "no group", "[a-", r"(\w+)"])
def test_what_is_no_such_expression_is_named(text):
    with pytest.raises(ValueError, match="student must"):
        owners(text, {})


def test_a_list_of_students_is_a_table_of_ids_and_names(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text('\ufeffmail,name,id\na@x," Ng, Ada",7\nb@x,Bob,8\n', encoding="utf-8")
    assert read_roster(path) == {"Ng, Ada": "7", "Bob": "8"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "must have columns id and name"), (b"id,name\n", "and a student"),
        (b"student\nAda\n", "must have columns id and name"),
        (b"id,name\n1,Ada\n2,ADA\n", "each once, got 'ada'"),
        (b"id,name\n1,Ada\n1,Bob\n", "each once, got '1'"), (b"id,name\n1\n", "each once, got ''"),
        (b"\xff\xfe", "must be a CSV file in UTF-8"), (b"a" * 200_000, "must be a CSV file"),
        (None, "must be a CSV file"),
    ],
)  # fmt: skip
def test_what_is_no_list_is_named(text, said, tmp_path):
    if text is not None:
        (tmp_path / "r.csv").write_bytes(text)
    with pytest.raises(ValueError, match=f"roster {said}|{said}"):
        read_roster(tmp_path / "r.csv")


def test_what_is_handed_in_is_found_and_what_is_not_is_told(tmp_path):
    names = "ada/00.IPYNB", "ada/.ipynb_checkpoints/x.ipynb", "bob.py", "notes.txt", "c/x.zip"
    for name in (*names, "bob/y.zip", "bob/y.py", "photo.jpg"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "link").symlink_to("ada")
    found = [path.relative_to(tmp_path).as_posix() for path in submissions(tmp_path)]
    assert found == ["ada/00.IPYNB", "bob/y.py", "bob.py", "link"]
    assert not_read(tmp_path, [tmp_path / "notes.txt"]) == [
        "bob/y.zip", "c", "c/x.zip", "photo.jpg"
    ]  # fmt: skip


def test_strangers_and_absent_students_are_in_the_report(tmp_path, monkeypatch):
    def instantly(orders, limits, workers):
        for order in orders:
            yield order, {"asked": ["00.1"], "findings": {"00.1": ["✓", "", ""]}}

    monkeypatch.setattr(grading, "judge", instantly)
    for name in ("1", "eve"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "class.csv").write_text("id,name\n1,Ada\n2,Bob\n")
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


def test_too_many_files_cost_who_handed_them_in_and_everybody_has_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "FILES", 3)
    monkeypatch.setattr(grading, "judge", lambda orders, *_: ((each, {}) for each in orders))
    class_ = tmp_path / "lab0-submissions"
    for student, count in {"ada": 1, "mal": 7, "zoe": 2}.items():
        (class_ / f"lab0-{student}").mkdir(parents=True)
        for i in range(count):
            (class_ / f"lab0-{student}" / f"{i}.py").write_text("x = 1")
    owner = owners("github", {})
    job = grading._Job(tmp_path, None, {}, [], owner, grading.Scheme(), [])
    said = dict(job.work(1, False))
    assert [owner(path)[0] for path, told in said.items() if told] == ["mal"]
    assert sorted(owner(path)[0] for path, told in said.items() if not told) == (
        ["ada"] + ["mal"] * 3 + ["zoe"] * 2
    )
