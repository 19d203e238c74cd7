"""The minutes that a lesson promises are those that it takes, and its links lead on."""

import re
from pathlib import Path

from lablib.course.checks.exercises import exercises, number_of

import nbformat
import pytest
from oracles.claims import NOT_YET
from oracles.minutes import EXERCISE, lesson_of, minutes, printed, rounded, said

FOLDER = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(number_of(path.name) for path in FOLDER.glob("[0-9]*.ipynb"))


@pytest.mark.parametrize("lesson", sorted({*LESSONS} - NOT_YET))
def test_a_lesson_says_what_the_rule_says_and_its_main_line_is_an_hour_at_most(lesson):
    path, notebook = lesson_of(lesson)
    told = said(notebook) == printed(notebook, lesson)
    assert told, f"run python tests/oracles/minutes.py {lesson} --write, here {path.name}"
    assert rounded(minutes(notebook, lesson)[1]) <= 60


def cell(source, kind="markdown", **metadata):
    return {"cell_type": kind, "source": source, "metadata": metadata}


def test_the_rule_counts_words_lines_and_questions():
    read = cell("word " * 400 + "\n\n**Question.** Why?")
    further = cell("### One more (further)\n" + "word " * 197)
    code, setup = cell("x = 1\n\ny\n" * 10, "code"), cell("import x\n" * 9, "code", tags=["setup"])
    notebook = {"cells": [read, setup, further, code, cell("## Next"), code]}
    ours = [exercise.minutes for exercise in exercises("06") if not exercise.further]
    solving = EXERCISE * sum(ours)
    whole, main = minutes(notebook, "06")
    assert whole - solving == pytest.approx(402 / 200 + 1 + 1 + 1 + 1 / 200 + 1)
    assert whole - main == pytest.approx(1 + 1)
    assert [rounded(time) for time in (55.0, 55.1, 60.0)] == [55, 60, 60]


def test_an_exercise_on_a_page_beside_its_lesson_takes_none_of_its_minutes():
    whole, main = minutes({"cells": [cell("")]}, "08")
    ours = [exercise.minutes for exercise in exercises("08") if not exercise.further]
    assert whole == main == pytest.approx(EXERCISE * sum(ours))
    assert len(ours) == 3


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_links_the_next_one_its_papers_and_no_file_that_the_site_lacks(lesson):
    (path,) = FOLDER.glob(f"{lesson}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    following = sorted(FOLDER.glob("[0-9]*.ipynb"))[LESSONS.index(lesson) + 1 :][:1]
    assert "](../lablib" not in text
    assert "**Next" in cells[-1].source
    assert all(f"({other.name})" in cells[-1].source for other in following)
    for number in re.findall(r"\d{4}\.\d{5}", text):
        assert f"[arXiv {number}](https://arxiv.org/abs/{number})" in text
