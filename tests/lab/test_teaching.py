"""The plan of eight weeks, the guesses and the drawings say what the lessons say."""

import re
from collections import Counter
from pathlib import Path

from lablib.course.checks.exercises import exercises, number_of
from lablib.course.checks.predictions import questions

import nbformat
import numpy as np
import pytest
from oracles import minutes as rule

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "teaching"
PLAN = (FOLDER / "eight-weeks.md").read_text("utf-8")
WEEK = r"^## Week (\d) · (.+): (\d+) in class, (\d+) at home$"
WEEKS = [
    (*found.groups(), text)
    for found, text in zip(
        re.finditer(WEEK, PLAN, re.M), re.split(r"^## Week .*$", PLAN, flags=re.M)[1:], strict=True
    )
]
ASIDE = {"", "Exercises", "Summary"}  # a lesson's sections that need no place in the plan


def parts(lesson: str) -> dict[str, float]:
    """Return the minutes of a lesson's main line, by section and by exercise."""
    _, notebook = rule.lesson_of(lesson)
    named = re.findall(r"\b\d\d[a-z]?\.\d\b", notebook["cells"][0]["source"])
    found, section = {}, ""
    for cell, further in rule.own_cells(notebook):
        heading = re.match(r"## (.*)", cell["source"])
        section = heading[1] if heading and cell["cell_type"] == "markdown" else section
        if not further:
            found[section] = found.get(section, 0) + rule._takes(cell)
    for each in exercises(lesson):
        if not (each.further or each.id in named or rule.FURTHER.search(each.title)):
            found[each.id] = rule.EXERCISE * each.minutes
    return {name: took for name, took in found.items() if name not in ASIDE}


def rows(text: str) -> list[tuple[int, list[tuple[str, str]]]]:
    """Return the minutes of each row of a table, and the parts of lessons that it names."""
    found = []
    for spent, where in re.findall(r"^\| (\d+) \| (.*?) \|", text, re.M):
        named = [(number_of(id_), id_) for id_ in re.findall(r"\b\d\d[a-z]?\.\d\b", where)]
        for lesson, sections in re.findall(r"\b(\d\d[a-z]?) ((?:\*[^*]+\*(?:, )?)+)", where):
            named += [(lesson, section) for section in re.findall(r"\*([^*]+)\*", sections)]
        found.append((int(spent), named))
    return found


@pytest.mark.parametrize(("number", "lessons", "class_", "home", "text"), WEEKS)
def test_a_weeks_minutes_hold_every_part_of_its_lessons_once(number, lessons, class_, home, text):
    taught = lessons.split(", ")
    known = {(each, part): took for each in taught for part, took in parts(each).items()}
    first, second = (rows(part) for part in text.split("| Minutes | At home |"))
    placed = Counter(part for _, named in first + second for part in named)
    assert placed == dict.fromkeys(known, 1)
    for spent, named in first + second:
        assert spent >= sum(known[part] for part in named), named
    assert sum(spent for spent, _ in first) == int(class_) == 90
    assert sum(spent for spent, _ in second) == int(home)
    assert sum(spent for spent, _ in first + second) >= sum(map(whole, taught))


def whole(lesson: str) -> int:
    """Return the minutes that a lesson tells, without what is further."""
    said = rule.said(rule.lesson_of(lesson)[1])
    return int(re.findall(r"(\d+)(?= minutes| without)", said)[-1])


def test_the_guide_has_the_same_weeks_and_each_has_one_drawing():
    guide = (ROOT / "notebooks/TEACHING.md").read_text("utf-8")
    table = guide[guide.index("## Eight weeks") : guide.index("## Twelve weeks")]
    listed = re.findall(r"^\| (\d) \| (.*?) \|", table, re.M)
    assert listed == [(number, lessons) for number, lessons, *_ in WEEKS]
    assert len(WEEKS) == 8
    assert all(text.count("```") == 2 for *_, text in WEEKS)
    assert max(len(line) for line in PLAN.split("```")[1::2] for line in line.splitlines()) < 80
    left_out = re.findall(r"\d\d", re.findall(r"main line; (.*) are left out", PLAN)[0])
    taught = {lesson for _, lessons, *_ in WEEKS for lesson in lessons.split(", ")}
    assert {*left_out} == {each for each in rule.lessons() if len(each) == 2} - taught
    assert len(taught) == 13
    assert "Thirteen lessons are in" in PLAN


def outcomes(lesson: str) -> dict[str, str]:
    """Return what came out in the recorded lesson, by question."""
    came: dict[str, str] = {}
    for cell in nbformat.read(rule.lesson_of(lesson)[0], as_version=4).cells:
        shown = "".join(o.get("text", "") for o in cell.get("outputs", ()))
        ids = dict.fromkeys(re.findall(r'outcome\(\s*"([^"]+)"', cell.source))
        said = re.findall(r"^It came out: ([a-h](?= \()|\S+)", shown, re.M)
        came |= dict(zip(ids, said, strict=len(ids) > 0))
    return came


GUESSES = re.findall(
    r"^\| (\d\d\w?\.q\d) .*? \| (\S+) \| (\S+) \|", (FOLDER / "guesses.md").read_text("utf-8"), re.M
)


@pytest.mark.parametrize("lesson", sorted({number_of(id_) for id_, *_ in GUESSES}))
def test_what_comes_out_came_out_and_what_to_expect_is_wrong(lesson):
    came = outcomes(lesson)
    for id_, right, wrong in GUESSES:
        if number_of(id_) == lesson:
            asked = questions()[id_]
            assert right == came[id_], id_
            answer = wrong if asked.choices else float(wrong)
            assert asked.accepts(answer), id_
            assert not asked.right(answer, came[id_] if asked.choices else float(right)), id_


def test_each_week_has_guesses():
    taught = {number_of(id_) for id_, *_ in GUESSES}
    assert all(taught & {*lessons.split(", ")} for _, lessons, *_ in WEEKS)
    assert len(GUESSES) == len({id_ for id_, *_ in GUESSES}) >= 24


# --- the drawings -----------------------------------------------------------------------------
def drawing(week: int) -> str:
    return WEEKS[week - 1][-1].split("```")[1]


def test_the_dart_falls_on_the_dog():
    line = drawing(1)
    ends = [eval(end) for end in re.findall(r"\d+/16", line)]
    assert ends == [1 / 16, 1 / 16 + 1 / 2, 1 / 16 + 1 / 2 + 1 / 4]
    assert ends[1] < 0.60 < ends[2]


def test_the_weather_table_is_that_of_lesson_08():
    found = re.findall(r"^ +\w+ +(\.\d) +(\.\d) +(\.\d) .* (\S+)$", drawing(5), re.M)
    words = [[*map(float, numbers)] for numbers in found]
    p, q, both, wanted = map(list, zip(*words, strict=True))
    (source,) = re.findall(
        r"p = np.array\((.*)\).*\nq = np.array\((.*)\)",
        "".join(c.source for c in nbformat.read(rule.lesson_of("08")[0], as_version=4).cells)[
            :9000
        ],
    )[:1]
    assert [p, q] == [eval(each) for each in source]
    assert both == [min(each) for each in zip(p, q, strict=True)]
    assert [round(max(a - b, 0), 9) for a, b in zip(p, q, strict=True)] == wanted
    assert f"kept .{10 * sum(both):.0f} of the time; refused .{10 * sum(wanted):.0f}" in drawing(5)


def test_six_readers_make_sixteen_marks():
    found = re.findall(r"^ +[A-F]( [ .#]*)(?: {9,}.*)?$", drawing(7), re.M)
    marks = "".join(re.sub(r"\. waits|# is served", "", each) for each in found)
    assert len(found) == 6
    assert (marks.count("."), marks.count("#")) == (4, 12)


def test_the_cleared_key_takes_its_share():
    (shown,) = re.findall(r"weights +(\S+)  (\S+) +(\S+)  (\S+) +(\S+)", drawing(8))
    alone, batch = (np.exp(each) / np.exp(each).sum() for each in ([1.2, -3.0], [1.2, -3.0, 0]))
    assert [*map(float, shown)] == [round(float(x), 2) for x in [*alone, *batch]]
