"""Equal answers: the same program under other names is found, and nothing else is."""

import json
import time

from lablib.course.checks.exercises import exercises, find
from lablib.teach import alike
from lablib.teach.alike import SHORTEST, Alike, form, groups
from lablib.teach.grade import grade
from lablib.teach.page import page

import pytest
import submitted

ONE = '''
def helper(row):
    return [max(0, each) for each in row]

def kept(rows, limit=3):
    """Return what is kept."""
    # from the left
    total = 0
    for row in rows:
        for each in helper(row):
            if each > limit and total < 10:
                total += each
            else:
                print(total, each)
    total = abs(total)
    return total
'''
OTHER = """
%time 1
def positive( values ):
    "Another text."
    return [max(0, v) for v in values]
def kept(table: list[list[int]], bound=3) -> int:
    s: int = 0
    for line in table:
        for number in positive(line):
            if number > bound and s < 10: s += number
            else: print(s, number)
    s = abs(s)
    return s
"""


def test_names_comments_docstrings_annotations_and_blanks_make_no_difference():
    assert form([ONE], "kept") == form([OTHER], "kept") != ""
    assert form(["x = 1", ONE, "y = 2"], "kept") == form([ONE], "kept")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max(0", "min(0"),  # names that are not the program's own stay
        ("each > limit", "each >= limit"),
        ("limit=3", "limit=4"),
        ("total < 10", "each < 10"),  # another of its own names in its place
        ("total += each", "total -= each"),
        ("return total", "return limit"),
    ],
)
def test_another_program_is_another(old, new):
    assert old in ONE
    assert form([ONE.replace(old, new)], "kept") not in ("", form([ONE], "kept"))


def test_short_answers_missing_ones_and_starters_have_no_form():
    assert form([submitted.RIGHT], "best_token") == ""
    assert form([ONE], "other") == form(["def kept(:"], "kept") == form([], "kept") == ""
    body = "    x = 1\n" * ((SHORTEST - 1) // 3)  # a statement has three nodes
    assert form([f"def kept():\n{body}"], "kept") == ""
    assert form([f"def kept():\n{body}    x = 1\n"], "kept") != ""
    begun = [each.id for each in exercises() if alike._begun(each.id)]
    assert {each[:2] for each in begun} == {"11", "15"}
    told = [each.id for each in exercises() if each.id not in begun]
    assert not any(form([find(id_).starter], find(id_).name) for id_ in told)
    assert sum(bool(form([find(id_).solution], find(id_).name)) for id_ in told) > 20


@pytest.mark.parametrize(
    "text",
    ["x = " + "(" * 50_000, "x = " + "-" * 90_000 + "1", "x = 1\n" * 500_000, "\0", "x = '\ud800'"],
)
def test_a_text_that_nobody_can_parse_has_no_form_and_costs_little(text):
    began = time.monotonic()
    assert form([text], "x") == ""
    assert form([ONE, text], "kept") == form([ONE], "kept")
    assert time.monotonic() - began < 3


def test_groups_are_by_exercise_and_say_what_solution_shows():
    shown = form([find("01.3").solution], find("01.3").name)
    told = {("01.3", name): shown for name in ("cy", "ada")} | {("01.4", "bob"): "x"}
    told |= {("07.1", "bob"): "y", ("07.1", "dan"): "y", ("00.1", "ada"): "", ("00.1", "bob"): ""}
    told |= {("15.1", name): "z" for name in ("ada", "bob")}  # handed out, all but a line
    assert groups(told) == [
        Alike("01.3", ("ada", "cy"), True),
        Alike("07.1", ("bob", "dan"), False),
    ]


def answers(school, student, text):
    (school / student).mkdir(parents=True)
    notebook = submitted.answered("01", {"01.3": text, "01.4": "pass"})
    (school / student / "01_from_logits_to_text.ipynb").write_text(json.dumps(notebook))


def test_a_class_s_equal_answers_are_listed_and_nobody_is_accused(tmp_path):
    school, right = tmp_path / "school", find("01.3").solution
    (name,) = (each.name for each in exercises("01") if each.id == "01.3")
    other = submitted.answer_of("01", find("01.3").alternatives[0].__name__, name)
    answers(school, "ada", right)
    answers(school, "b<b>", f"# mine\n{right.replace('total', 'result')}")
    answers(school, "cy", other)
    answers(school, "dan", find("01.3").starter)
    answers(school, "eve", find("01.3").starter)
    report = grade(school, json=tmp_path / "r.json", lessons=["01"])
    assert Alike("01.3", ("ada", "b<b>"), True) in report.alike
    assert not [each for each in report.alike if each.exercise == "01.3" and "cy" in each.students]
    assert {each.exercise for each in report.alike} == {"01.3"}
    text = page(report)
    assert '<td class="text wide">ada, b&lt;b&gt;</td><td class="text">as solution shows' in text
    assert "Equal but for names and comments: answers to 01.3" in report.summary()
    equal = json.loads((tmp_path / "r.json").read_text())["equal"]
    assert equal == [{"exercise": "01.3", "students": ["ada", "b<b>"], "shown": True}]
    again = grade(school, json=tmp_path / "r.json", lessons=["01"], resume=True)
    assert again == report  # the journal keeps the forms
