"""Whose is it, who was absent, and which lessons were asked for."""

import inspect
import os
import random
import re
import subprocess
import sys
import time
import tracemalloc
import unicodedata
from pathlib import Path

from lablib.course.checks.exercises import exercises
from lablib.teach import grade as grading
from lablib.teach.grade import grade
from lablib.teach.handed_in import digest, unreadable
from lablib.teach.owners import Owners, student_of
from lablib.teach.page import feedback
from lablib.teach.reports import CALLED, RENAME
from lablib.teach.roster import (
    not_read,
    printable,
    read_roster,
    submissions,
)
from lablib.teach.submission import read_submission

import pytest
import submitted


def instantly(orders, limits, workers):
    """Say of every exercise that is asked for that it is solved."""
    for order in orders:
        path = Path(order.path)
        order.digest = digest(path)
        if order.known and order.digest == order.known:
            yield order, {"same": order.digest}
            continue
        try:
            work = read_submission(path).only(order.lessons)
        except ValueError as error:
            yield order, {"unreadable": unreadable(error, path, order.name)}
        else:
            yield order, {exercise: ["✓", "", ""] for exercise in work.exercises}


def test_with_lessons_named_these_are_asked_for_and_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "judge", instantly)
    for name, asked in {"ada/a": "03.1", "ada/b": "05.2", "bob": "01.1", "cy": "07.1"}.items():
        path = tmp_path / "school" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'check("{asked}", f)')
    (tmp_path / "school" / "dan.ipynb").write_text("{broken")
    (tmp_path / "class.csv").write_text("ada\nbob\neve\n")
    marks = {}
    for row in grade(tmp_path / "school", roster=tmp_path / "class.csv", lessons=["03", "5"]).rows:
        assert row.exercise[:2] in ("03", "05", "-")
        marks[row.student] = marks.get(row.student, "") + row.outcome
    asked = len(exercises("03")) + len(exercises("05"))
    assert marks == {"ada": "✓" * asked, "bob": "∅" * asked, "dan": "!", "eve": "∅" * asked}
    report = grade(tmp_path / "school", roster=tmp_path / "class.csv", lessons=["09"])
    assert {row.outcome for row in report.rows} == {"∅", "!"}  # nobody has handed in any of it
    every = [row.exercise[:2] for row in grade(tmp_path / "school").rows]
    assert {*every} == {"01", "03", "05", "07", "-"}


def test_the_command_takes_lessons_after_the_folder(tmp_path):
    command = [sys.executable, "-m", "lablib", "grade", str(tmp_path), "--lessons"]
    for lessons, status in ((["3", "05"], 0), (["03", "99"], 2)):
        done = subprocess.run([*command, *lessons], capture_output=True, text=True)
        assert done.returncode == status
        assert ("lessons must be one of '00', '01'" in done.stderr) == (status == 2)


def test_a_verdict_on_some_lessons_is_not_taken_for_one_on_others(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "judge", instantly)
    school = tmp_path / "school"
    school.mkdir()
    (school / "ada.py").write_text('check("03.1", f)\ncheck("05.1", f)')
    for lesson in ("03", "05"):
        report = grade(school, tmp_path / "r.csv", lessons=[lesson], resume=True)
        assert {row.exercise[:2] for row in report.rows} == {lesson}


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("ada/03_sampling.ipynb", "ada"), ("ada/x/y.ipynb", "ada"), ("ada.ipynb", "ada"),
        ("ada_03_sampling.ipynb", "ada"), ("ada-03_sampling (2).ipynb", "ada"),
        ("03_sampling_ada-Copy1.ipynb", "ada"), ("03_sampling.ipynb", "03_sampling"),
        ("ada .ipynb", "ada"), (" ada/x.ipynb", "ada"), (" .ipynb", "\ufffd"), ("__.py", "__"),
        ("plate.ipynb", "plate"), ("Copy of 07_ADA_late-solved.ipynb", "ADA"),
    ],
)  # fmt: skip
def test_a_notebook_is_its_folders_or_its_names(path, student):
    assert student_of(Path(path)) == student


def whose(people, *paths):
    """Return in whose row files are, by their paths; of a doubt its own row."""
    people = people if isinstance(people, dict) else {name: {} for name in people}
    owners = Owners(people, map(Path, paths))
    found = {path: owners.student(Path(path)) for path in paths}
    for path, row in found.items():
        doubt = owners.rivals(Path(path))
        assert doubt.startswith(row) if doubt else (row in people or "(" not in row.split("/")[0])
    return found


def in_classroom(*accounts):
    """Return a roster in which students are called as their accounts of GitHub."""
    return {account: {"github_username": account} for account in accounts}


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("ada/x.ipynb", "Ada"), ("03_sampling_ada-Copy1.ipynb", "Ada"), ("hw/ADA/x.py", "Ada"),
        ("hw/ada/hw.py", "Ada"), ("eve/01_ada.ipynb", "Ada"), ("Ada Ng_late.ipynb", "Ada Ng"),
        ("Ada Ng - 03_sampling (1).ipynb", "Ada Ng"), ("Copy of ada_03 (2).ipynb", "Ada"),
        ("week3/ada/ada.ipynb", "Ada"), ("03_sampling/ada_final.ipynb", "Ada"),
    ],
)  # fmt: skip
def test_a_roster_tells_whose_a_notebook_is(path, student):
    assert whose(["Ada", "Ada Ng"], path) == {path: student}


@pytest.mark.parametrize(
    ("path", "stranger"),
    [
        ("adam/x.ipynb", "adam"), ("Ada Ng 12345_late.py", "Ada Ng 12345"), ("x-ada.py", "x-ada"),
        ("eve/hw-ada/x.ipynb", "eve"), ("hw-ada/hw-ada.ipynb", "hw-ada"), ("hw/ada_1.py", "hw"),
        ("ada_ng/x.ipynb", "ada_ng"), ("hw3_ada.ipynb", "hw3_ada"), ("adalate.py", "adalate"),
        ("03_sampling.ipynb", "03_sampling"), ("eve/03_samplingada.ipynb", "eve"),
    ],
)  # fmt: skip
def test_a_name_among_others_is_nobodys(path, stranger):
    """Whoever was called as a piece of a path had what lay there."""
    assert whose(["Ada", "Ada Ng"], path) == {path: stranger}


def test_what_lies_beside_students_in_a_teachers_folder_has_a_row_of_its_own():
    told = {"week3/ada/x.py": "ada", "week3/zoe.py": "week3/zoe", "week3/cy/x.py": "week3/cy"}
    told |= {f"c/hand/in/{path}": "c/hand/in/" * (row != "ada") + row for path, row in told.items()}
    told |= {f"w1/labs/lab0-{name}/x.py": name for name in ("ada", "bob")}
    told |= {"w1/labs/lab0-zoe/x/y.py": "w1/labs/lab0-zoe"}
    assert whose(in_classroom("ada", "bob"), *told, "zoe/x.py", "zoe/y/x.py") == told | {
        "zoe/x.py": "zoe",
        "zoe/y/x.py": "zoe",
    }


def test_whoever_else_is_named_within_makes_a_doubt():
    """Moodle's folders hold a name, and a file in one may be called by another's."""
    class_list = ["Mallory Moe", "Bob Li", "Jos\u00e9 \u00d1u"]
    outer = "Mallory Moe_12345_assignsubmission_file_"
    told = {
        f"{outer}/x.py": f"{outer} (Mallory Moe or Bob Li)",
        f"{outer}/Bob Li/00.py": f"{outer} (Mallory Moe or Bob Li)",
        "Jose\u0301 N\u0303u/00.py": class_list[2],
        "bob li/1/2/3.py": "Bob Li",
    }
    assert whose(class_list, *told) == told


def test_the_name_that_a_platform_puts_first_decides_whose_a_file_is():
    """Canvas and Moodle put who handed in before a file's own name, which may be another's."""
    names = ["Mal", "Christina", "ada", "ada_late", "lab0"]
    told = {
        "mal_123_4567_christina.py": "Mal",
        "moodle/mal_12_assignsubmission_file_christina.py": "Mal",
        "ada_123_45_lab0.py": "ada",
        "moodle/ada_12_assignsubmission_file_/lab.py": "ada",
        "ada_late_123_45_x.py": "ada_late_123_45_x (ada or ada_late)",
    }
    assert whose(names, *told) == told
    people = {"Ng, Ada": {"ID": "13574"}, "13574": {"ID": "99"}, "Ada Ng_12_": {}, "Ada Ng": {}}
    told = {"ngada_13574_98765_00.ipynb": "Ng, Ada", "Ada Ng_12_assignsubmission_x.py": "Ada Ng"}
    assert whose(people, *told) == told


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("week3/03_sampling_ada.ipynb", "ada"), ("section1/00_ada.ipynb", "ada"),
        ("week3/00_ada_03_sampling.ipynb", "ada"), ("ada_03_sampling-Copy1.ipynb", "ada"),
        ("ev1/03_sampling.ipynb", "ev1"), ("03_sampling/bob/x.ipynb", "bob"),
        ("03_sampling.ipynb", "03_sampling?"), ("ev1/sampling.ipynb", "sampling"),
        ("ev1/03_sampling_sampling.ipynb", "sampling"), ("ev1/x_03_sampling_ada.ipynb", "ev1"),
        ("03_sampling/sampling.ipynb", "sampling"), ("ada/03_sampling_final.ipynb", "ada"),
    ],
)  # fmt: skip
def test_a_lessons_number_and_title_are_no_name_and_may_stand_before_one(path, student):
    assert whose(["ada", "bob", "sampling", "03_sampling", "final"], path) == {path: student}


def test_a_number_or_a_word_is_a_name_where_students_are_called_so():
    told = {"Copy/lab.py": "Copy (Copy or lab)", "final/x.py": "final", "copy_late.py": "Copy"}
    told |= {"03_sampling_final.py": "03_sampling"}
    assert whose(["Copy", "final", "lab"], *told) == told
    told = {"lab0-final/x.py": "final", "lab0-lab/x.py": "lab"}
    assert whose(in_classroom("Copy", "final", "lab"), *told) == told
    told = {"07/x.py": "07", "03_sampling_07.ipynb": "07", "07_03_sampling.ipynb": "07"}
    assert whose(["07", "08"], *told) == told


def test_nobody_makes_anothers_name_a_title():
    """By files that are called by it and by most of the class, or by folders of other names."""
    names = ["ada", "bob", "cem", "dia", "eve"]
    own = {f"{name}_00.ipynb": name for name in names}
    others = [f"ada_{name}.ipynb" for name in names[1:]]
    for folder in ("", "week3/"):
        found = whose(names, *(f"{folder}{path}" for path in (*own, *others)))
        assert {path: found[f"{folder}{path}"] for path in own} == own


def test_nobody_changes_by_a_files_name_how_others_are_called():
    """What counted was the column by which most was somebody's: two files made it another one."""
    people = {f"{name}@x.org": {"github_username": name} for name in ("ada", "bob", "cy", "mal")}
    own = {f"lab{n}/lab{n}-{name}/00.py": f"{name}@x.org" for n in (0, 1) for name in ("ada", "cy")}
    files = "lab0/lab0-mal/ada@x.org.py", "lab1/lab1-mal/bob@x.org.py"
    told = whose(people, *own, *files)
    assert {path: told[path] for path in own} == own
    assert all("lab0-mal (" in told[path] or "lab1-mal (" in told[path] for path in files)


def test_nobody_is_called_as_a_folder_of_the_teachers_in_silence():
    """Whoever was called so had the marks of everybody in it, and no line said so."""
    people = {"ada": {}, "bob": {}, "Lab 1": {}, "week3": {}}
    told = {
        "Lab 1/ada/x.py": "Lab 1 (Lab 1 or ada)",
        "Lab 1/bob.py": "Lab 1 (Lab 1 or bob)",
        "Lab 1/00_ada.ipynb": "Lab 1 (Lab 1 or ada)",
        "Lab 1/ada_12345_assignsubmission_file_/x.py": "Lab 1 (Lab 1 or ada)",
        "Lab 1/zoe/x.py": "Lab 1 (Lab 1 or ada or bob)",
        "hw/week3/00_ada.ipynb": "week3 (week3 or ada)",
        "hw/week3/zoe.py": "week3 (week3 or ada)",
        "week3/zoe.py": "week3",
    }
    assert whose(people, *told) == told
    cured = {"hw/week3/00_ada.ipynb": "ada", "hw/week3/zoe.py": "hw/week3/zoe"}
    people["week3"] = {"folder": "w3"}
    assert whose(people, *cured) == cured
    many = {f"s{i}": {} for i in range(30)} | {"week3": {}}
    paths = [f"week3/{name}.py" for name in many] + ["week3/x.py"]
    assert whose(many, *paths)["week3/x.py"] == "week3 (week3 or s0 or s1 or s2 or another)"


def test_a_path_of_two_thousand_folders_takes_little_time():
    people = {f"Family{i}, Given{i}": {"ID": str(10_000 + i)} for i in range(300)}
    paths = [Path("zz", *["y"] * 1900, f"{i}.py") for i in range(1000)]
    began = time.process_time()
    owners = Owners(people, paths)
    assert {owners.student(path) for path in paths} == {"zz"}
    assert time.process_time() - began < 10  # it was 13 s for the names alone


def test_a_doubt_is_in_nobodys_row():
    """It was in the row of whoever was called as the folder is."""
    told = {"week3/bob/x.py": "week3 (week3 or bob)", "week3/y.py": "week3 (week3 or bob)"}
    assert whose(["week3", "bob"], *told) == told
    people = ["week3", "bob", "week3 (week3 or bob)", "week3 (week3 or bob)?"]
    assert whose(people, *told) == {path: f"{row}??" for path, row in told.items()}
    owners = Owners({name: {} for name in people}, map(Path, told))
    assert owners.student(Path("week3/y.py")) == "week3 (week3 or bob)??"


def test_a_number_before_the_names_tells_nothing():
    people = {name: {"No": str(n)} for n, name in enumerate(("ada", "bob", "cy", "dan"), start=1)}
    told = {"Lab 1/ada/x.py": "ada", "Lab 1/bob/x.py": "bob", "Lab 2/cy/x.py": "cy"}
    assert whose(people, *told) == told
    alone = {"Week 1/dan/00 (1).py": "dan"}
    assert whose(people, *alone) == alone


PLATFORMS = {
    "GitHub Classroom": (
        "identifier,github_username,github_id,name\nada@x.org,countess,11111,Ada\n"
        "bob@x.org,bb,22222,\ncy@x.org,,,\ndan@x.org,lab0,44444,countess\n",
        {
            "lab0-countess/x.py": "ada@x.org",
            "lab0-bb/x.py": "bob@x.org",
            "lab0-bb/account.py": "bob@x.org",
            "lab0-lab0/x.py": "dan@x.org",
        },
    ),
    "Canvas": (
        'Student,ID,SIS Login ID,Section\n    Points Possible,,,\n"Lovelace, Ada",13574,al,S1\n'
        '"Ng, Bob",6170,bn,S1\nAda,999,a,S2\n',
        {
            "lovelaceada_13574_98765_6170.ipynb": "Lovelace, Ada",
            "ngbob_LATE_6170_999_x-1.ipynb": "Ng, Bob",
            "ada_999_13574_x.ipynb": "Ada",
        },
    ),
    "Moodle": (
        "\ufeffFirst name,Last name,ID number,Email address\nAda,Ng,13,an@x\nAda,Li,12,al@x\n",
        {
            "Ada Ng_12_assignsubmission_file/x.py": "Ada Ng",
            "Ada Ng_12_assignsubmission_file_Ada Li.py": "Ada Ng",
            "Ada Li_3_assignsubmission_file_/x.py": "Ada Li",
            "Bo Ng_4_assignsubmission_file_/x.py": "Bo Ng_4_assignsubmission_file_",
        },
    ),
    "Moodle's worksheet": (
        "Identifier,Full name,ID number\nParticipant 7,Ada Ng,13\nParticipant 8,Ada Li,12\n",
        {"Ada Ng_7_assignsubmission_file/x.py": "Ada Ng"},
    ),
    "Moodle's, blind": (
        "Identifier,Status\nParticipant 7,Submitted\n",
        {"Participant_7_assignsubmission_file_/x.py": "Participant 7"},
    ),
    "Excel": (
        "sep=;\r\nstudent;mail\r\nada;a,b\r\nbob;c\r\n",
        {"ada/x.py": "ada", "b/c.py": "b", "bob/sep.py": "bob"},
    ),
    "sections": (
        "No,Name,Section\n1,ada,A1\n2,bob,A1\n",
        {
            "Lab 1/ada.py": "ada",
            "Lab 1/bob.py": "bob",
            "Lab 2/ada.py": "ada",
            "Lab 2/bob_01.py": "bob",
        },
    ),
    "a column of one's own": (
        "student,folder\nada,g1-left\nbob,g1-right\n",
        {
            "g1-left/x.py": "ada",
            "g1-right/bob/x.py": "bob",
            "bob/x.py": "bob?",
            "w/g1-left.py": "ada",
        },
    ),
    "letters": (
        "Jan Groß\nJan Gross\n",
        {"jan groß/x.py": "Jan Groß", "JAN GROSS/x.py": "Jan Gross"},
    ),
}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_roster_may_be_what_a_platform_exports(platform, tmp_path):
    """Folders may be called by a column that says so, as students are not."""
    text, told = PLATFORMS[platform]
    (tmp_path / "class.csv").write_text(text, encoding="utf-8")
    assert whose(read_roster(tmp_path / "class.csv"), *told) == told


def test_who_has_a_folder_in_the_list_is_called_so_and_not_by_name():
    people = {"ada": {"Folder": "one"}, "one": {"folder": "two"}, "bob": {}, "bob_late": {}}
    told = {"one/x.py": "ada", "two/x.py": "one", "ada/x.py": "ada?"}
    told |= {"bob_late/x.py": "bob_late (bob or bob_late)", "cy/one/x.py": "ada"}
    assert whose(people, *told) == told
    people["bob_late"] = {"folder": "bob_late"}
    assert whose(people, *told) == told | {"bob_late/x.py": "bob_late"}
    taken = {
        "03": {"folder": "li"},
        "li": {},
        "lin": {"folder": "/li_late/", "GitHub Username": "@l"},
    }
    told = {"li/x.py": "li (03 or li)", "li_late/x.py": "lin", "l/x.py": "l"}
    assert whose(taken, *told) == told
    people["bob"] = {"folder": "BOB_LATE"}
    assert whose(people, "bob_late/x.py") == {"bob_late/x.py": "bob_late (bob or bob_late)"}


@pytest.mark.parametrize("folder", ["03_sampling", "lablib-lessons", "week 3"])
def test_a_folder_in_the_list_that_many_have_takes_nobodys_work(folder):
    """A lesson's file in each student's folder went to whoever had handed in a folder called so."""
    people = {"ada": {}, "bob": {}, "mal": {"folder": folder}}
    told = {f"{folder}/x.py": "mal"}
    for name in ("ada", "bob"):
        told |= {f"{name}/{folder}.py": f"{name} ({name} or mal)"}
        told |= {f"{name}/{folder}/03.py": f"{name} ({name} or mal)"}
    assert whose(people, *told) == told


def test_two_people_of_one_name_in_moodle_are_a_doubt():
    """One had the other's work: Moodle's number behind the name tells them apart."""
    zhang = "Wei Zhang_{}_assignsubmission_file_"
    twins = [f"{zhang.format(123)}/x.py", f"{zhang.format(124)}/x.py"]
    one = {f"Week {n}/{zhang.format(120 + n)}/x.py": "Wei Zhang" for n in (1, 2)}
    one |= {f"Week 1/{zhang.format(121)[:-5]}onlinetext/y.py": "Wei Zhang"}
    doubts = {p: f"{Path(p).parent} (Wei Zhang or another of that name)" for p in twins}
    assert whose(["Wei Zhang", "Ada Ng"], *twins, *one) == doubts | one
    files = [f"{zhang.format(n)}x.py" for n in (1, 2)]
    found = whose(["Wei Zhang"], *files)
    assert found == {p: f"{p[:-3]} (Wei Zhang or another of that name)" for p in files}
    people = {"Wei Zhang": {"folder": zhang.format(123)}, "Wei Zhang 2": {"folder": "Wei Zhang_2"}}
    cured = whose(people, *twins, *files)
    assert [*cured.values()] == ["Wei Zhang", zhang.format(124), files[0][:-3], "Wei Zhang 2"]
    people = {"Wei Zhang": {}, "Wei Zhang 2": {"folder": zhang.format(124)}}
    assert [*whose(people, *twins).values()] == [*people]


def test_a_turkish_list_in_capitals_and_a_greek_one_are_read():
    """One letter in capitals are two small ones there."""
    told = {"Ayşe Yılmaz/x.py": "AYŞE YILMAZ", "ALİ KILIÇ/x.py": "Ali Kılıç", "irem.py": "İrem"}
    told |= {"παπαδοπουλοσνικοσ_101_9_x.py": "ΠΑΠΑΔΟΠΟΥΛΟΣ, ΝΙΚΟΣ", "νίκος.py": "ΝΊΚΟΣ"}
    assert whose([*told.values()], *told) == told
    one = whose(["Ayşe Yilmaz", "Ayşe Yılmaz"], "AYŞE YILMAZ/x.py")
    assert [*one.values()] == ["AYŞE YILMAZ (Ayşe Yilmaz or Ayşe Yılmaz)"]


def test_two_people_of_one_name_in_canvas_are_a_doubt():
    """Its number is a person's in every file: one had the other's work."""
    twins = ["zhangwei_101_9001_x.py", "week2/zhangwei_101_9002_x.py"]
    twins += [path.replace("_101_", "_102_") for path in twins]
    alone = {"ngada_103_9003_x.py": "Ada Ng", "ngada_late_103_9004_x.py": "Ada Ng"}
    found = whose(["Wei Zhang", "Ada Ng"], *twins, *alone)
    assert {path: found[path] for path in alone} == alone
    for path in twins:
        assert found[path] == f"{Path(path).stem} (Wei Zhang or another of that name)"
    turned = whose(["Li Yuan"], "liyuan_101_9_x.py", "yuanli_102_9_x.py")
    assert "Li Yuan" not in turned.values()
    people = {"Wei Zhang": {"ID": "101"}, "Zhang, Wei": {"ID": "102"}, "Ada Ng": {}}
    assert [*whose(people, *twins).values()] == ["Wei Zhang"] * 2 + ["Zhang, Wei"] * 2


def test_names_are_compared_as_moodle_writes_them():
    people = ["Sinead O'Brien", "Ada_Li", "Participant 123", "Participant 124", "Bo & Co"]
    front = "_12_assignsubmission_file_"
    told = {
        f"Sinead OBrien{front}/x.py": "Sinead O'Brien",
        f"Ada Li{front}/x.py": "Ada_Li",
        "Participant_123_assignsubmission_file_/x.py": "Participant 123",
        "Participant_124_assignsubmission_file_/x.py": "Participant 124",
        f"Bo  Co{front}/x.py": "Bo & Co",
        "Sinead OBrien/x.py": "Sinead OBrien",
    }
    assert whose(people, *told) == told
    taken = whose([*people, "Ada Li"], f"Ada Li{front}/x.py")
    assert [*taken.values()] == [f"Ada Li{front} (Ada Li or Ada_Li)"]


def test_a_small_number_is_none_of_canvas():
    """A date in a file's name was another student's number."""
    people = {f"s{n}": {"ID": str(n)} for n in range(1, 31)} | {"Ng, Ada": {"ID": "6170"}}
    told = {
        "s1_10_12_2026.py": "s1_10_12_2026", "s4_lab_3_1_final.py": "s4_lab_3_1",
        "s2/lab_10_12_2026.py": "s2", "ngada_6170_12_s1.py": "Ng, Ada",
        "s1_6170_12_x.py": "s1_6170_12_x", "s1_1_12_x.py": "s1", "cs_6170_2_hw.py": "cs_6170_2_hw",
        "lab_10_12_2026/s3/x.py": "s3", "s2/cs_6170_2_hw.py": "s2",
    }  # fmt: skip
    assert whose(people, *told) == told


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("lab0-ada/x.ipynb", "lab0-ada (ada or lab0-ada)"), ("lab0-lab0/x.ipynb", "lab0"),
        ("lab0-bob/lab0.py", "lab0-bob (bob or lab0)"), ("lab0-ada-lovelace/x.py", "ada-lovelace"),
        ("lab0-lab0-ada/x.py", "lab0-ada"), ("lab0-lovelace/x.py", "lab0-lovelace"),
        ("lab0-bob/sub/x.py", "lab0-bob (bob or lab0)"), ("lab0-cy_late/x.py", "lab0-cy_late"),
    ],
)  # fmt: skip
def test_what_stands_before_two_accounts_may_stand_before_another(path, student):
    """GitHub Classroom's are ASSIGNMENT-USER; whoever is called as another's has not theirs."""
    names = ["ada", "bob", "cy", "lab0", "ada-lovelace", "lab0-ada"]
    files = [path, "lab0-bob/lab0.py", "lab0-dan/x.py", "lab0-cy/x.py"]
    for folder in ("", "lab0-submissions/"):
        found = whose(in_classroom(*names), *(f"{folder}{file}" for file in files))
        rows = (student, f"lab0-submissions/{student}")
        assert found[f"{folder}{path}"] in rows[: 1 + (folder != "")]
        plain = whose(names, *(f"{folder}{file}" for file in files))  # no account, no beginning
        assert plain[f"{folder}lab0-cy/x.py"] not in names
    alone = whose(in_classroom("ada", "bob", "cy"), "lab0-bob/x.py", "starter/x.py", "a/hw-cy/x.py")
    deep = whose(in_classroom("bob", "cy"), "w/a/b/c/d/lab0-cy/x.py", "w/a/b/c/d/lab0-bob/y")
    assert [*alone.values(), *deep.values()] == ["lab0-bob", "starter", "a", "w", "w"]


def test_what_two_names_have_in_common_is_none_of_a_name():
    """Rizki had Muhammad Rizki's work, who is in another section, as Fajar and two others had."""
    section = ["Rizki", "Fajar", "Paul", "Luc", "lee", "kim", "Siti"]
    folders = ["Muhammad Rizki", "Muhammad Fajar", "Jean-Paul", "Jean-Luc", "a.lee", "a.kim"]
    everybody = {f"{name}/x.py": name for name in [*section, *folders]}
    assert whose(section, *everybody) == everybody
    assert whose([*section, *folders], *everybody) == everybody
    others = {f"{name}/x.py": name for name in [*folders, "Siti"]}
    assert whose(section, *others) == others
    with_accounts = {name: {"github_username": name} for name in ("paul", "luc", "Siti")}
    beside = {f"{name}/x.py": name for name in ("paul", "luc", "Jean-Paul", "Jean-Luc", "Siti")}
    assert whose(with_accounts, *beside) == beside


def test_other_folders_make_nobody_a_stranger():
    """One folder that began otherwise made the whole class strangers."""
    told = {f"lab{n}-{name}/x.py": name for n in (0, 1) for name in ("ada", "bob")}
    told |= {"solutions/x.py": "solutions", "lab0/x.py": "lab0", "mal/x.py": "mal"}
    assert whose(in_classroom("ada", "bob", "mal"), *told) == told


def test_whoever_is_called_as_the_assignment_has_no_folder_that_begins_with_it():
    """A teacher's reference that lay beside the class was theirs."""
    told = {f"lab0-{name}/x.py": name for name in ("ada", "bob", "lab0")}
    for name in ("solved", "03", "copy", "final"):
        told |= {f"lab0-{name}/x.py": f"lab0-{name} (lab0 or nobody on the roster)"}
    assert whose(in_classroom("ada", "bob", "lab0"), *told) == told


def test_who_is_called_as_a_folder_of_who_is_not_linked_yet_has_it_not_in_silence():
    told = {"lab0-ada/x.py": "ada", "lab0-cy/x.py": "cy", "lab0-lab0-bob/x.py": "lab0-bob"}
    told |= {"lab0-bob/x.py": "lab0-bob (lab0-bob or nobody on the roster)"}
    people = in_classroom("ada", "cy", "lab0-bob") | {"bob@x.org": {}}
    assert whose(people, *told) == told
    told = {f"lab0-{name}/x.py": name for name in ("ada", "max", "max-12")}
    assert whose(in_classroom(*told.values()), *told) == told
    told["lab0-max-12/x.py"] = "lab0-max-12"  # and not linked max-12 is no lesson of max's
    assert whose(in_classroom("ada", "max"), *told) == told
    told = {f"lab0-{name}/x.py": name for name in ("ada", "lee", "kim", "a-lee", "a-kim")}
    assert whose(in_classroom(*told.values()), *told) == told
    told |= {f"lab0-a-{name}/x.py": f"lab0-a-{name}" for name in ("lee", "kim")}
    assert whose(in_classroom("ada", "lee", "kim"), *told) == told


def test_a_file_is_called_as_a_folder_beside_it_and_has_nothing_in_it():
    """It was a visitor's of that folder."""
    told = {"lab0-ada/x.py": "ada", "lab0-bob/x.py": "bob", "lab0-zed.py": "lab0-zed"}
    told |= {"lab0-zed/bob.py": "lab0-zed (nobody on the roster or bob)"}
    told |= {"ada.py": "ada", "ada/bob.py": "ada (ada or bob)"}
    assert whose(in_classroom("ada", "bob", "cy"), *told, "lab0-cy/x.py") == told | {
        "lab0-cy/x.py": "cy"
    }


def test_what_lies_in_a_strangers_folder_is_nobodys_in_silence():
    """Whoever was called as a file in it had the work of who is not on the list."""
    moodle = "Zoe Q_12_assignsubmission_file_"
    told = {
        "lab0-ada/x.py": "ada",
        "lab0-cy/x.py": "cy",
        "lab0-bobby/x.py": "lab0-bobby (nobody on the roster or max)",
        "lab0-bobby/max.py": "lab0-bobby (nobody on the roster or max)",
        "lab0-dan/x.py": "lab0-dan",
        f"{moodle}/max.py": f"{moodle} (nobody on the roster or max)",
        f"{moodle}max.py": f"{moodle}max",
        "week3/max.py": "max",
    }
    assert whose(in_classroom("ada", "cy", "max"), *told) == told


def test_whoever_is_called_as_the_assignment_has_their_own_marks_alone(tmp_path, monkeypatch):
    """GitHub Classroom's folders are ASSIGNMENT-USER."""
    monkeypatch.setattr(grading, "judge", instantly)
    school = tmp_path / "school"
    for name in ("lab0-ada", "lab0-ann-b", "lab0-eve", "lab0-lab0"):
        (school / name).mkdir(parents=True)
        asked = "03.1" if name == "lab0-lab0" else "00.1"
        (school / name / "x.py").write_text(f'check("{asked}", f)')
    linked = [f"{name},{name}" for name in ("ada", "ann-b", "lab0", "lab0-ada")]
    roster = "\n".join(["identifier,github_username", *linked])
    (tmp_path / "class.csv").write_text(roster)
    report = grade(school, roster=tmp_path / "class.csv", lessons=["00"])
    doubt = "lab0-ada (ada or lab0-ada)"
    solved = {row.student for row in report.rows if row.outcome == "✓"}
    assert solved == {"ann-b", "lab0-eve", doubt}
    assert report.strangers == ["lab0-eve"]
    assert report.doubts == [doubt]


def test_a_doubt_says_once_what_names_the_other_one(tmp_path, monkeypatch):
    """Among ten thousand files of Python's packages one was called as somebody's user name is."""
    monkeypatch.setattr(grading, "judge", instantly)
    for path in ("03.py", "venv/rich/a.py", "venv/rich/b.py", "z.py"):
        (tmp_path / "school" / "ada" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "school" / "ada" / path).write_text('check("00.1", f)')
    (tmp_path / "class.csv").write_text("ada\nrich\n")
    report = grade(tmp_path / "school", roster=tmp_path / "class.csv")
    assert report.doubts == ["ada (ada or rich), by ada/venv/rich"]
    assert {row.student for row in report.rows} == {"ada", "rich", "ada (ada or rich)"}


def test_whoever_is_named_with_the_owner_further_in_makes_no_doubt():
    """A user name that is another's login was one, in files that her own login is in."""
    people = {"ang12": {"github_username": "vic"}, "mal1": {"github_username": "ang12"}}
    people |= in_classroom("bo")
    told = {
        "lab0-vic/ang12_03.py": "ang12",
        "lab0-bo/x.py": "bo",
        "lab0-zoe/x.py": "lab0-zoe",
        "lab0-vic/x/y.py": "ang12",
    }
    assert whose(people, *told) == told
    told = {"Ada/Ada 02.py": "Ada", "Ada 02/x.py": "Ada 02 (Ada or Ada 02)"}
    assert whose(["Ada", "Ada 02"], *told) == told


def test_whose_number_is_another_one_is_nobody_on_the_list():
    people = {"Budi": {"ID": "999"}, "cy": {}}
    told = {"budi_999_66_x.py": "Budi", "budi_555_66_x.py": "budi_555_66_x", "cy_555_66_x.py": "cy"}
    assert whose(people, *told) == told
    people |= {"Lee, Ann": {}, "Lé, Ann": {"ID": "13"}}
    told = {"leeann_11_66_x.py": "Lee, Ann", "léann_late_13_66_x.py": "Lé, Ann"}
    assert whose(people, *told) == told
    people["Ann Lee"] = {}
    told["leeann_11_66_x.py"] = "leeann_11_66_x (Ann Lee or Lee, Ann)"
    assert whose(people, *told) == told
    people["Ann Lee"] = {"ID": "11"}
    told = {"leeann_11_66_x.py": "Ann Lee", "leeann_12_66_x.py": "Lee, Ann"}
    assert whose(people, *told) == told


def test_canvas_writes_the_letters_of_a_name_in_order():
    """Li Yuan had Liu Yan's work: one has the other's letters."""
    told = {"liuyan_1_66_x.py": "Liu Yan", "schmidtnoel_3_66_x.py": "Noel Schmidt"}
    told |= {"delacruzmaríajosé_4_66_x.py": "María José de la Cruz", "राम_5_66_x.py": "राम"}
    told |= {"रमा_6_66_x.py": "रमा_6_66_x", "liyuan_2_66_x.py": "liyuan_2_66_x"}
    told |= {"noelschmidt_late_3_66_x.py": "Noel Schmidt", "Ada/main_2026_11_26.py": "Ada"}
    names = ["Liu Yan", "Noel Schmidt", "María José de la Cruz", "राम", "Ada", "Amin"]
    assert whose(names, *told) == told
    told |= {"liyuan_2_66_x.py": "Li Yuan", "schmidtleon_7_66_x.py": "Leon Schmidt"}
    told |= {"रमा_6_66_x.py": "रमा"}
    assert whose([*names, "Li Yuan", "Leon Schmidt", "रमा"], *told) == told
    unseen = [printable(name) for name in ("山田\u3000太郎", "Ng,\xa0Ada", "رضایی, علی\u200cرضا")]
    fronts = "山田太郎", "ngada", "رضاییعلیرضا"
    told = {f"{front}_101_9_x.py": name for front, name in zip(fronts, unseen, strict=True)}
    assert whose(unseen, *told) == told


LARGE = {
    "unseen": [
        Path("mal", *[f"{n}.{k}." + "\x01" * 200 for k in range(15)], "x.py") for n in range(300)
    ],
    "cuts": [Path("mal", f"{n}." + "a." * 120, "x.py") for n in range(1000)],
    "elsewhere": [Path("s0", f"{n}.py") for n in range(1000)]
    + [Path("s0", f"s{n}.py") for n in range(3000)],
}


@pytest.mark.parametrize("what", LARGE)
def test_many_odd_names_take_little_time_and_memory(what):
    """Ten thousand such folders took 386 MB, and so many files in a namesake's folder seconds."""
    people = {f"s{n}": {} for n in range(3000)}
    tracemalloc.start()
    began = time.process_time()
    owners = Owners(people, LARGE[what])
    found = {owners.student(path) for path in LARGE[what]}
    took, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took < 12  # traced, and others at work
    assert peak < 20 * 2**20
    assert len(found) == (3000 if what == "elsewhere" else 1)


def test_whose_work_is_in_doubt_is_said_and_what_helps(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "judge", instantly)
    school = tmp_path / "school"
    for name in ("lab0/ada", "lab0/bob", "other"):
        (school / name).mkdir(parents=True)
        (school / name / "x.py").write_text('check("00.1", f)')
    roster = tmp_path / "class.csv"
    roster.write_text("student\nada\nbob\nlab0\n")
    report = grade(school, roster=roster)
    assert {row.student for row in report.rows if row.outcome == "∅"} == {"ada", "bob", "lab0"}
    assert report.notes() == [
        f"Not on the roster, so only what they handed in is here: other. {CALLED}",
        "Nobody's, as two of the roster are named: whose is lab0 (lab0 or ada), by lab0/ada, "
        f"lab0 (lab0 or bob), by lab0/bob? {RENAME}",
    ]
    roster.write_text("student,folder\nada,\nbob,\nlab0,none\n")
    report = grade(school, roster=roster)
    assert {row.student for row in report.rows if row.outcome == "∅"} == {"lab0"}
    assert report.strangers == ["other"]


def test_folders_that_begin_alike_and_are_names_stay_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "judge", instantly)
    for name in ("2024-001", "2024-002", "2024-003"):
        (tmp_path / "school" / name).mkdir(parents=True)
        (tmp_path / "school" / name / "x.py").write_text('check("00.1", f)')
    for more in ("004,\n", "eve,001\n", "eve,001\nfay,002\n"):
        listed = f"name,github_username\n2024-001,\n2024-002,\n2024-003,\n{more}"
        (tmp_path / "class.csv").write_text(listed)
        report = grade(tmp_path / "school", roster=tmp_path / "class.csv")
        solved = {row.student for row in report.rows if row.outcome == "✓"}
        assert solved == {"2024-001", "2024-002", "2024-003"}


LAYOUTS = {
    "canvas": "{squashed}_{number}_98765_03_sampling-1.ipynb",
    "canvas, late": "week3/{squashed}_LATE_{number}_98765_03_sampling.ipynb",
    "moodle": "{name}_{number}_assignsubmission_file_/03_sampling.ipynb",
    "moodle, newer": "Week 3/{name}_{number}_assignsubmission_file/sub/03_sampling.ipynb",
    "moodle, no folders": "{name}_{number}_assignsubmission_file_03_sampling (1).ipynb",
    "classroom": "lab0-{user}/notebooks/03_sampling.ipynb",
    "classroom, below": "lab0-submissions/lab0-{user}/03_sampling.ipynb",
    "drive": "week3/{name}/03_sampling (2).ipynb",
    "drive, other way": "{name}/week 3/03_sampling - Copy.ipynb",
    "a folder for a lesson": "03_sampling/{name}.ipynb",
    "mail": "{name}_03_sampling.ipynb",
    "mail, number": "03_{name}_final.py",
    "mail, loaded": "03_sampling_{name} (1).ipynb",
    "mail, written": "{name} - 03_sampling.ipynb",
    "Google's copy": "Copy of {name} 03_sampling-Copy1.ipynb",
    "nbgrader": "submitted/{user}/week3/03_sampling.ipynb",
    "hub": "{user}/lablib-lessons/03_sampling.ipynb",
}
NAMES = ["Ada Lovelace", "Ada Müller-Lüdenscheid", "Zoë", "Ng", "Christina Ng", "Jean-Luc O'Neil"]
USERS = ["ada", "ada-l", "zoe1", "ng", "c-ng", "oneil"]
CLASS = {
    name: {"github_username": user, "ID": str(13570 + i)}
    for i, (name, user) in enumerate(zip(NAMES, USERS, strict=True))
}


def laid_out(layout):
    """Return whose files are, by their paths, in an honest class."""
    told = {}
    for name, row in CLASS.items():
        named = {"name": name, "user": row["github_username"], "number": row["ID"]}
        squashed = re.sub(r"\W", "", " ".join(name.lower().split()[::-1]))
        told[LAYOUTS[layout].format(squashed=squashed, **named)] = name
    return told


@pytest.mark.parametrize("layout", LAYOUTS)
def test_honest_layouts_are_read(layout):
    told = laid_out(layout)
    assert whose(CLASS, *told) == told


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_name_moves_in_silence_what_names_somebody_else(layout):
    """Mallory is called as any piece of any path, and hands in what she likes in her folder."""
    told = laid_out(layout)
    rng = random.Random(f"moved {layout}")
    parts = sorted({part for path in told for part in Path(path).with_suffix("").parts})
    folder = str(Path(LAYOUTS[layout]).parent)
    kept = doubts = 0
    for turn in range(100):
        part = rng.choice(parts)
        begin, end = sorted(rng.sample(range(len(part) + 1), 2))
        name = rng.choice([part, part[begin:end], part[begin:], part[:end], part.title()]).strip()
        name = rng.choice([name, name, f"{name}_late", f"{name}_1_assignsubmission_file_"])
        if name.lower() in {"", *(known.lower() for known in NAMES)}:
            continue
        row = {} if turn % 2 else {"github_username": name}
        people = CLASS | {"Mallory Moe" if row else name: row}
        place = folder.format(name=name, user=name, number=1)
        own = [f"{place}/{rng.choice(parts)}/{rng.choice(parts)}.py" for _ in range(turn % 3)]
        owners = Owners(people, map(Path, [*told, *own]))
        for path, student in told.items():
            found = owners.student(Path(path))
            assert found == student or found not in people, (name, path)
            assert found in people or owners.rivals(Path(path)) or place == "."
            kept += found in people
            doubts += found not in people
    assert kept > 100
    assert (doubts > 0) == (layout != "a folder for a lesson")  # there files alone are called so


def test_a_large_class_is_looked_through_in_little_time():
    """Once a regular expression was made for each name, anew for each file of a large class."""
    class_list = [f"Given{i} Family{i}" for i in range(3000)]
    named = {f"01_given{i} family{i}_02.py": class_list[i] for i in range(200)}
    named |= {name: name for name in (f"given{i} family{i}x" for i in range(200))}
    paths = [f"x{i}/y.py" for i in range(200)] + [f"{name}".removesuffix(".py") for name in named]
    began = time.process_time()
    found = whose(class_list, *(f"{path.removesuffix('.py')}.py" for path in paths))
    assert time.process_time() - began < 5  # it was some minutes
    for name, student in named.items():
        assert found[f"{name.removesuffix('.py')}.py"] == student
    assert found["x7/y.py"] == "x7"


def test_long_names_are_looked_at_once_however_many_reports_are_written():
    """Whoever stopped a grading waited a minute for its last report."""
    paths = [Path("mallory", *["\x01" * 245] * 15, f"{i}.py") for i in range(300)]
    began = time.process_time()
    owners = Owners({"Ada": {}}, paths)
    for _ in range(30):
        for path in paths:
            assert owners.student(path) == "mallory"
            printable(str(path))
    assert time.process_time() - began < 5  # it was some twenty seconds


def test_of_too_many_files_those_that_lie_deep_are_left_out(tmp_path, monkeypatch):
    """Whoever hands Python's packages in, too, hands in ten thousand."""
    asked = []

    def noted(orders, limits, workers):
        listed = [*orders]
        asked.append([order.name for order in listed if not order.known])
        yield from instantly(listed, limits, workers)

    monkeypatch.setattr(grading, "judge", noted)
    monkeypatch.setattr(grading, "FILES", 3)
    school, out = tmp_path / "school", tmp_path / "r.csv"
    names = [f"venv/lib/{i}.py" for i in range(9)] + ["venv/x.py", "work.py"]
    for name in [*(f"eve/{name}" for name in names), "bob/00.py"]:
        path = school / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('check("00.1", f)' if name in ("eve/work.py", "bob/00.py") else "")
    report = grade(school, out)
    assert asked == [["bob/00.py", "eve/work.py", "eve/venv/x.py", "eve/venv/lib/0.py"]]
    rows = {(row.student, row.exercise): row for row in report.rows}
    assert rows["bob", "00.1"].outcome == rows["eve", "00.1"].outcome == "✓"
    assert "no exercise" in rows["eve", "-"].message  # of the first such file
    assert grade(school, out, resume=True) == report
    assert asked[1:] == [[]]


def test_a_name_in_another_encoding_makes_nobody_a_stranger(tmp_path):
    """As the shell's language writes it, whoever is called so had handed in nothing."""
    (tmp_path / "zoë").mkdir()
    (tmp_path / "zoë" / "00.py").write_text('check("00.1", f)')
    command = [sys.executable, "-m", "lablib", "grade", str(tmp_path)]
    spoken = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    codes = []
    for utf8 in "01":
        env = {**os.environ, **spoken, "PYTHONUTF8": utf8}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        codes.append(done.returncode)
        if sys.platform == "linux":
            assert ("must be read in UTF-8, and not in ascii" in done.stderr) == (utf8 == "0")
    assert codes == ([2, 0] if sys.platform == "linux" else [0, 0])


def test_a_link_to_itself_ends_nobodys_grading(tmp_path):
    (tmp_path / "bob.py").write_text('check("00.1", f)')
    (tmp_path / "eve").symlink_to("eve")
    assert not_read(tmp_path, [tmp_path / "bob.py"]) == ["eve"]


def test_a_name_is_one_line_without_orders_for_a_terminal():
    assert student_of(Path("Amy\nZoe  00.1  ok", "x.py")) == "Amy\ufffda\ufffdZoe  00.1  ok"
    assert student_of(Path("eve\x1b[2K\rbob.py")) == "eve\ufffd1b\ufffd[2K\ufffdd\ufffdbob"


def test_no_two_names_are_shown_alike():
    """But for the forms that a file system may take for each other."""
    letters = "".join(map(chr, range(1, 0x110000)))
    read_back = re.sub("\ufffd([0-9a-f]+)\ufffd", lambda m: chr(int(m[1], 16)), printable(letters))
    assert read_back == unicodedata.normalize("NFC", letters)


UNSEEN = ["eve\x01", "eve\x02", "eve\u200b", "eve\u3164", "eve\ufe0f", "eve\ufffd1\ufffd"]


def test_folders_that_differ_in_letters_that_nobody_sees_are_two_students(tmp_path, monkeypatch):
    def unevenly(orders, limits, workers):
        for order in orders:
            right = "right" in Path(order.path).read_text()
            yield order, {"00.1": ["✓" if right else "✗", "", ""]}

    monkeypatch.setattr(grading, "judge", unevenly)
    school = tmp_path / "school"
    for name in ("eve", *UNSEEN):
        path = school / name / "work.py"
        try:
            path.parent.mkdir(parents=True)
        except OSError:
            pytest.skip("no such names here")
        path.write_text("right" if name == "eve\x01" else "")
    report = grade(school, feedback=tmp_path / "told")
    solved = printable("eve\x01")
    due = {printable(name): "✗" for name in ("eve", *UNSEEN)} | {solved: "✓"}
    assert {row.student: row.outcome for row in report.rows} == due
    assert len({re.sub(r"\W", "", name) for name in due}) == 7  # and they look like seven
    told = [path.read_text("utf-8") for path in (tmp_path / "told").iterdir()]
    assert len(told) == 7
    (page,) = (text for text in told if "1 of 1 solved" in text)
    assert page.startswith(f"# {solved}: your exercises")


def test_an_end_in_capitals_is_the_same_end(tmp_path):
    """So Windows' programs and old cameras write them."""
    solved = Path("notebooks/00_start_here.ipynb").read_text(encoding="utf-8")
    texts = {"ADA.IPYNB": solved, "BOB.PY": f"import numpy as np\n{submitted.RIGHT}"}
    texts |= {"CY.Py": submitted.ZERO, "DAN.ZIP": "", "eve/X.TGZ": "", "FAY.PDF": ""}
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    report = grade(tmp_path)
    marks = {row.student: row.outcome for row in report.rows if row.exercise == "00.1"}
    assert marks == {"ADA": "○", "BOB": "✓", "CY": "✗"}
    assert report.unread == ["FAY.PDF", "eve/"]
    assert report.packed == ["DAN.ZIP", "eve/X.TGZ"]


def test_a_folder_that_cannot_be_looked_into_costs_nobody_else(tmp_path, monkeypatch):
    for name in ("al", "bob"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00.py").write_text('check("00.1", f)')
    right = Path.is_file

    def is_file(path):
        if "al" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return right(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    assert [path.parent.name for path in submissions(tmp_path)] == ["al", "bob"]
    monkeypatch.setattr(grading, "judge", instantly)
    marks = {row.student: row.outcome for row in grade(tmp_path, lessons=["00"]).rows[::-1]}
    assert marks["bob"] == "✓"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path):
    """It may take the place after the files were listed."""
    code = "import sys; from pathlib import Path; from lablib.teach.handed_in import read_bytes\n"
    code += "read_bytes(Path(sys.argv[1]))"
    os.mkfifo(tmp_path / "a.ipynb")
    command = [sys.executable, "-c", code, str(tmp_path / "a.ipynb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stderr.endswith("ValueError: it is no file\n")


def test_folders_in_folders_in_folders_end_nobodys_grading(tmp_path):
    """A walk that calls itself for each folder would end in a RecursionError."""
    (tmp_path / "bob.py").write_text('check("00.1", f)')
    inner = tmp_path
    for _ in range(300):
        inner = inner / "d"
        inner.mkdir()
    most = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 120)
    try:
        found = submissions(tmp_path)
    finally:
        sys.setrecursionlimit(most)
    assert [path.name for path in found] == ["bob.py"]


def test_a_roster_is_a_list_or_a_table(tmp_path):
    path = tmp_path / "r.csv"
    named = ("name,student\nA,ada\nB,bob\n", "No,Name\n1,ada\n2,bob\n")
    named += ("No;Name;Mail\n1;ada;a,b\n2;bob;c\n", "No\tstudent\n1\tada\n2\tbob\n")
    for text in (*named, "\ufeffada\nbob\n\n", "ada,\nbob,\n"):
        path.write_text(text, encoding="utf-8")
        assert [*read_roster(path)] == ["ada", "bob"]
    path.write_text(named[2])
    assert read_roster(path)["bob"] == {"No": "2", "Name": "bob", "Mail": "c"}
    for data in (b"name\nJos\xe9\n", "ada".encode("utf-16"), "ada".encode("utf-16-le")):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="roster must be a CSV file in UTF-8, got"):
            read_roster(path)
    path.write_text("\n")
    with pytest.raises(ValueError, match="at least one student"):
        read_roster(path)
    with pytest.raises(ValueError, match="roster must be a CSV file"):
        read_roster(tmp_path / "none")


def test_a_name_on_the_roster_ends_no_line(tmp_path):
    """Platforms show what name one gives oneself: it would make two students, or a double."""
    (tmp_path / "r.csv").write_text('student,mail\nbob,b\neve\u2028bob,e\n"x\x85y",x\n', "utf-8")
    people = read_roster(tmp_path / "r.csv")
    assert [*people] == ["bob", printable("eve\u2028bob"), printable("x\x85y")]
    assert people[printable("eve\u2028bob")]["mail"] == "e"


def test_what_canvas_exports_is_a_roster(tmp_path):
    """Its second line is no student, who would have handed in nothing."""
    path = tmp_path / "grades.csv"
    rows = 'Student,ID,SIS Login ID\n    Points Possible,,\n"Ng, Ada",17,ada\n'
    path.write_text(rows, encoding="utf-8-sig")
    assert read_roster(path) == {
        "Ng, Ada": {"Student": "Ng, Ada", "ID": "17", "SIS Login ID": "ada"}
    }


@pytest.mark.parametrize(
    ("roster", "wrong"),
    [
        ("student\nNg, Ada\nNg, Bob\n", "more cells in a line than columns; got ['Ng', 'Ada']"),
        (
            "Ng, Ada\nLi, Bo\n",
            "be a list of names, or have one of the columns student, full name, ",
        ),
        ("Ada Ng\nKing, Jr., Martin\n", "a line than columns; got ['King', 'Jr.', 'Martin']"),
        ("Vorname,Nachname\nAda,Ng\n", "a line than columns; got ['Vorname', 'Nachname']"),
        ("Wei Zhang\nAda Ng\nWei Zhang\n", "nobody twice, in capitals or not, got 'Wei Zhang'"),
        ("name,Section\nAda,1\nAda,1\n", "nobody twice, in capitals or not, got 'Ada'"),
        (
            "Matrikel;folder\n1;g1\n",
            "have one of the columns student, full name, identifier, name, first name and ",
        ),
        ("id,email\nada,a@x\n", "no more cells in a line than columns; got ['id', 'email']"),
        ("name,Mail\nAda,a@x\nAda,b@x\n", "nobody twice, in capitals or not, got 'Ada'"),
        ("name,Mail\nAda,a@x\nada,b@x\n", "nobody twice, in capitals or not, got 'ada'"),
    ],
)
def test_a_roster_in_which_two_are_one_is_refused(roster, wrong, tmp_path):
    """Else their work would be judged as one student's, the better of each exercise."""
    (tmp_path / "class.csv").write_text(roster)
    with pytest.raises(ValueError, match=re.escape(wrong)):
        read_roster(tmp_path / "class.csv")
    (tmp_path / "class.csv").write_text("name;Mail;\nNg, Ada;a;;\nNg, Bob;b\n")
    assert [*read_roster(tmp_path / "class.csv")] == ["Ng, Ada", "Ng, Bob"]


def test_whose_file_is_broken_was_not_absent(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "gus.ipynb").write_text('{"cells": [')
    solved = Path("notebooks/00_start_here.ipynb").read_text(encoding="utf-8")
    (work / "ben.ipynb").write_text(solved, encoding="utf-8")
    (tmp_path / "class.csv").write_text("name\nben\ngus\nivo\n")
    report = grade(work, roster=tmp_path / "class.csv")
    marks = dict.fromkeys(report.students(), "")
    for row in report.rows:
        marks[row.student] += row.outcome
    assert marks["ivo"] == "∅∅∅"
    assert marks["gus"] == "!!!!"  # the file, and each exercise that may be in it
    assert "gus.ipynb can't be read" in report.rows[-4].message
    assert "of 9 ✓" in repr(report)  # three students, three exercises: a file is no answer
    told = feedback(report, "ivo")
    assert told.count("nothing handed in") == 3
    assert "0 of 3 solved" in feedback(report, "gus")


def test_who_is_on_no_roster_and_what_is_no_work_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(grading, "judge", instantly)
    school = tmp_path / "school"
    for name in ("ada/x.py", "gus.py", "hans/essay.pdf", "ina.zip", "ada/notes.md", ".git/x"):
        path = school / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('check("00.1", f)')
    (school / "class.csv").write_text("name\nada\nbob\n")
    report = grade(
        school, school / "r.csv", html=school / "r.html", json=tmp_path / "r.json",
        feedback=school / "told", roster=school / "class.csv",
    )  # fmt: skip
    notes = [
        f"Not on the roster, so only what they handed in is here: gus. {CALLED}",
        "Not graded, as there is no .ipynb and no .py in it: hans/.",
        "Packed, so nobody has looked into it; unpack it: ina.zip.",
    ]
    assert report.notes() == notes
    assert repr(report).splitlines()[-3:] == notes
    other = grade(school, roster=school / "class.csv", lessons=["05"])
    assert not other.strangers  # whose work is of another lesson is not in the table
    text = (school / "r.html").read_text(encoding="utf-8")
    assert text.count("<small>not on the roster</small>") == 1
    assert all(note in text and note in (tmp_path / "r.json").read_text() for note in notes)
    (school / "ada" / "notes.md").unlink()
    assert grade(school / "ada").notes() == []  # and nobody is a stranger without a roster


def test_what_lies_in_hidden_folders_was_not_handed_in(tmp_path):
    for name in ("a/x.ipynb", "a/.ipynb_checkpoints/x.ipynb", ".git/y.py", "b.py", "c.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert [path.name for path in submissions(tmp_path)] == ["x.ipynb", "b.py"]
