"""What was tried against ``grade``'s reports and its command: none speaks to who reads them."""

import os
import re
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from lablib import __main__
from lablib.course.checks.checking import judge
from lablib.course.checks.exercises import find
from lablib.machine import backend
from lablib.teach import submission, walls
from lablib.teach.grade import grade
from lablib.teach.handed_in import clean, read_bytes
from lablib.teach.page import feedback, file_name, page
from lablib.teach.reports import ExerciseRow, GradeReport

import pytest
import submitted
from markdown_it import MarkdownIt

pytestmark = pytest.mark.thorough

HAS_WALLS = not walls.missing()
OPEN = ["--no-walls"] * (not HAS_WALLS)
RIGHT = submitted.RIGHT


def class_of(folder, **programs):
    """Hand in a program about 00.1 from each student."""
    for student, text in programs.items():
        path = folder / student / "work.py"
        path.parent.mkdir(parents=True)
        path.write_text(f"import numpy as np\n{text}\n# %%\ncheck('00.1', best_token)\n")
    return folder


def marks(report):
    return {row.student: row.outcome for row in report.rows if row.exercise == "00.1"}


def test_long_text_is_cleaned_in_linear_time():
    began = time.process_time()
    assert len(clean("A" * 8_000_000)) <= 2000
    clean("/lablib-" * 1_000_000)
    assert time.process_time() - began < 0.5


def test_a_link_is_refused_by_its_name(tmp_path):
    school = class_of(tmp_path / "school", other=RIGHT)
    (school / "one").mkdir()
    (school / "one" / "work.py").symlink_to("../other/work.py")
    (school / "two").symlink_to("other")
    exercises = submitted.course.__path__[0] + "/lesson_00/exercises.py"
    (school / "ref.py").symlink_to(exercises)
    report = grade(school, walls=HAS_WALLS)
    assert marks(report) == {"other": "✓"}
    refused = {row.student: row.message for row in report.rows if row.exercise == "-"}
    assert {*refused} == {"one", "two", "ref"}
    for student, target in {"one": "../other/work.py", "two": "other", "ref": exercises}.items():
        assert refused[student] == f"can't be read: it is a link, to {target}"


def test_a_link_that_takes_a_files_place_after_the_look_is_not_followed(tmp_path, monkeypatch):
    """Whoever may still write to the folder changes one for the other as often as they like."""
    (tmp_path / "other.py").write_text(RIGHT)
    (tmp_path / "work.py").symlink_to("other.py")
    monkeypatch.setattr(Path, "is_symlink", lambda path: False)
    with pytest.raises(OSError, match=r"work\.py"):
        read_bytes(tmp_path / "work.py")


@pytest.mark.grid(lambda name: "\x1b" in name, rest="slow")
@pytest.mark.parametrize("name", ["\x1b[2J\x1b[31m", "x\n\n# Passed\n\n", "\udcff", "=1+1\r"])
def test_a_files_name_says_nothing_to_a_terminal_or_a_page(name, tmp_path):
    school = class_of(tmp_path / "school", ada=RIGHT, bob=submitted.ZERO)
    for student, text in {"eve": "{", "bob": None}.items():
        path = school / student / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        try:
            if text is None:
                path.symlink_to(f"{name}/there")
            else:
                path.with_suffix(".ipynb").write_text(text)
        except (OSError, UnicodeEncodeError):
            pytest.skip("no such names here")
    (tmp_path / "class.csv").write_text("id,name\n1,ada\n2,bob\n3,eve\n")
    told = tmp_path / "told"
    report = grade(school, walls=HAS_WALLS, roster=tmp_path / "class.csv", feedback=told)
    assert all(
        field.isprintable() for row in report.rows for field in asdict(row).values() if field
    )
    assert marks(report) == {"ada": "✓", "bob": "✗", "eve": "∅"}
    for text in (report.csv(), page(report), str(report)):
        assert text.encode()  # no letter that can't be written
    lines = [line for path in told.glob("*.md") for line in path.read_text("utf-8").splitlines()]
    assert sum(line.startswith("#") for line in lines) == 3


@pytest.mark.parametrize(
    ("command", "folder", "place"), [("grade", ".", ""), ("score", "..", "ada")]
)
def test_nobody_stands_among_the_modules_of_students(command, folder, place, tmp_path):
    """``python -m`` looks for ``csv`` there before it looks among Python's own."""
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "work.py").write_text("# nothing of this course")
    run = [sys.executable, "-m", "lablib", command, folder]
    done = subprocess.run(run, cwd=tmp_path / place, capture_output=True, text=True)
    assert done.returncode == 2
    assert "a student's csv.py would run with your rights" in done.stderr


OWNS = "from pathlib import Path\nPath({!r}).touch()\n"


@pytest.mark.parametrize("name", ["csv", "json", "argparse", "platform", "numpy", "psutil"])
def test_no_module_of_a_student_runs_before_that_is_refused(name, tmp_path):
    school, ran = tmp_path / "school", tmp_path / "ran"
    school.mkdir()
    (school / f"{name}.py").write_text(OWNS.format(str(ran)))
    run = [sys.executable, "-m", "lablib", "grade", "."]
    done = subprocess.run(run, cwd=school, capture_output=True, text=True)
    assert (done.returncode, ran.exists()) == (2, False)
    assert "a student's csv.py would run with your rights" in done.stderr


@pytest.mark.parametrize("paths", ["", "school/ada"])
def test_a_folder_in_pythonpath_is_refused(paths, tmp_path):
    """An empty entry, as a colon at an end makes one, is where one stands."""
    (tmp_path / "school" / "ada").mkdir(parents=True)
    here = tmp_path if paths else tmp_path / "school"
    run = [sys.executable, "-P", "-m", "lablib", "grade", str(tmp_path / "school")]
    environment = {**os.environ, "PYTHONPATH": f"{paths}{os.pathsep}/nowhere"}
    done = subprocess.run(run, cwd=here, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "in PYTHONPATH" in done.stderr


def test_a_terminal_that_lacks_a_letter_shows_the_report(tmp_path):
    school = class_of(tmp_path / "school", ada=RIGHT)
    run = [sys.executable, "-m", "lablib", "grade", str(school), *OPEN]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 students, 1 of 3 \\u2713" in done.stdout


@pytest.mark.parametrize("command", ["grade", "score"])
def test_mlx_for_cuda_is_refused_before_anybody_is_judged(command, tmp_path, monkeypatch, capsys):
    """It takes terabytes of addresses: each student's process would end while it imports MLX."""
    monkeypatch.setattr(backend, "has_cuda_backend", lambda: True)
    assert __main__.main([command, str(tmp_path)]) == 2
    assert "got MLX for CUDA" in capsys.readouterr().err


def test_who_looks_for_no_modules_there_may_stand_there(tmp_path):
    (tmp_path / "csv.py").write_text("raise SystemExit('it runs')")
    run = [sys.executable, "-P", "-m", "lablib", "grade", ".", *OPEN]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pages_of_feedback_have_names_of_their_own(tmp_path):
    """Folders that one file's name would do for, on this system or on another."""
    same = ["A B", "A_B"], ["ada", "Ada"], ["e\u0301va", "éva"], ["x" * 255, "x" * 254 + "y"]
    students = [*(name for names in same for name in names), "../up", ".hidden", "bob", ""]
    names = [*map(file_name, [*students, file_name("A B")])]
    assert len({name.casefold() for name in names}) == 13
    assert file_name("bob") == "bob"
    for name in names:
        assert re.fullmatch(r"[a-zA-Z0-9_@+~-][a-zA-Z0-9_.@+~-]{,100}", name)
    school = class_of(tmp_path / "school", **{"A B": RIGHT, "A_B": submitted.ZERO})
    told = tmp_path / "told"
    told.mkdir()
    (told / "A_B.md").write_text("# A\\_B: your exercises\nwhen only one of the two was there")
    grade(school, walls=HAS_WALLS, feedback=told)
    pages = [path.read_text() for path in told.glob("*.md")]
    assert sorted(page.splitlines()[:3] for page in pages) == [
        ["# A B: your exercises", "", "1 of 3 solved."],
        ["# A\\_B: your exercises", "", "0 of 3 solved."],
    ]


@pytest.mark.grid(lambda after: after is None, rest="slow")
@pytest.mark.parametrize("after", [[[], []], [1, 2], None])
def test_what_no_honest_process_sends_is_no_accident_of_a_function(after, tmp_path):
    source = f"""
from lablib.course import check

def best_token(scores):
    check.__self__.send({{"after": {after}, "answer": 1}})

check("00.1", best_token)
"""
    rows = grade(class_of(tmp_path, mal=source), walls=HAS_WALLS).rows
    assert [row.message for row in rows if row.exercise == "00.1"] == [
        "calling it: it wrote something else into its line"
    ]


@pytest.mark.parametrize(
    "begun", ["# ", "- ✓ **00.2**", "1. ", "2) ", "===", "---", "~~~", "+ ", ""]
)
def test_a_message_begins_no_heading_and_no_list(begun):
    row = ExerciseRow("mal", "x.py", "00.1", "✗", "", f"wrong ·     {begun}a · {begun}b")
    text = feedback(GradeReport([row]), "mal")
    tokens = MarkdownIt().parse(text)
    kinds = [token.type for token in tokens if token.type.endswith(("_open", "fence", "block"))]
    assert [kind for kind in kinds if kind != "paragraph_open"] == [
        "heading_open",
        "bullet_list_open",
        "list_item_open",
    ]


HIDES = """
def read(layer, tokens):
    try:
        layer.read(tokens, [])
    except TypeError:
        layer.read(tokens)
def try_drafts(layer, drafts, accepted):
    text = list(layer.log)
    layer.read(drafts)
    layer.__init__()
    read(layer, [*text, *drafts[:accepted]])
"""


def test_a_layer_notes_all_that_it_reads():
    """Where the notes were an argument of its own, whoever read could say where they go."""
    space = {}
    exec(HIDES, space)
    outcome = judge(find("10.3"), space["try_drafts"])
    assert (outcome.mark, outcome.misconception) == ("✗", "reads_the_text_again")


def test_a_drafter_has_no_second_look_at_the_same_texts():
    known = {}

    def propose(prompt, written, limit):
        text = known.setdefault(tuple(prompt), [])
        text += written[len(text) :]
        return text[len(written) :][:limit]

    assert judge(find("16.3"), propose).mark == "✗"


LEARNS = """
known = {}
def propose(prompt, written, limit):
    text = known.setdefault(tuple(prompt), [])
    text += written[len(text):]
    return text[len(written):][:limit]
for _ in range(6):
    check("16.3", propose)
first = propose
def propose(*asked):
    return first(*asked)
"""


def test_a_drafter_that_is_checked_again_meets_other_texts(tmp_path):
    (tmp_path / "mal.py").write_text(LEARNS)
    (row,) = [row for row in grade(tmp_path, walls=HAS_WALLS).rows if row.exercise == "16.3"]
    assert row.outcome == "✗"


def test_a_drafters_answers_are_known_by_name_whichever_texts_it_meets():
    exercise = find("16.3")
    for turn in range(1, submission.OFFERS + 1):
        for function in (exercise.reference, *exercise.alternatives, *exercise.wrong):
            vars(function)["turn"] = turn
            outcome = judge(exercise, function)
            del vars(function)["turn"]
            known = function.__name__ if function in exercise.wrong else None
            assert (outcome.misconception, outcome.correct) == (known, known is None)
