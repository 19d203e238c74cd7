"""What a lesson's sentences claim is checked behind the cell where it is made.

What counts as a claim, and as none, say the first lines of ``oracles/claims.py``; with a lesson's
number it prints the claims that nothing checks yet.
"""

import ast
import re
import shutil
import subprocess
import sys

from lablib.course.checks.exercises import number_of
from lablib.teach.editions import read_notebook

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from oracles.claims import (
    FOLDER,
    NOT_YET,
    claim,
    complaints,
    lesson_path,
    sections,
    sentences,
    stated,
)
from oracles.refusals import refuses

LESSONS = sorted(number_of(path.name) for path in FOLDER.glob("[0-9]*.ipynb"))


@pytest.mark.parametrize("lesson", sorted({*LESSONS} - NOT_YET))
def test_every_claim_of_a_lesson_is_checked(lesson):
    assert complaints(read_notebook(lesson_path(lesson)), sections(lesson), stated(lesson)) == []


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_claim_solves_an_exercise_for_the_student(lesson):
    for source in sections(lesson).values():
        nodes = ast.walk(ast.parse(source))
        calls = (each.func for each in nodes if isinstance(each, ast.Call))
        called = {each.id for each in calls if isinstance(each, ast.Name)}
        assert not called & {"check", "hint", "solution", "predict", "outcome"}


TEXT = """Three of *them* are [right](x.ipynb). Nothing to see.

**Question.** Which two lose? Look.
- It is faster
  than `that`.
"""
CELLS = [
    {"id": "first", "cell_type": "code", "source": "n = 3", "metadata": {}},
    {"id": "text", "cell_type": "markdown", "source": TEXT, "metadata": {}},
]
NOTEBOOK = {"cells": CELLS}
MADE = {
    "text": 'claim("Three of them are right.", n == 3)\nclaim("It is faster than that.", a < b)'
}
SAID = {"Nothing to see.": "definition"}


def test_sentences_are_read_as_they_are_seen():
    texts = [each.text for each in sentences(NOTEBOOK)]
    assert texts[:3] == ["Three of them are right.", "Nothing to see.", "Question."]
    assert texts[-1] == "It is faster than that."
    found = [each.text for each in sentences(NOTEBOOK) if each.claims]
    assert found == ["Three of them are right.", "Nothing to see.", "It is faster than that."]
    assert complaints(NOTEBOOK, MADE, SAID) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("Three of *them*", "Four of them", "nothing checks: Four of them are right."),
        ("Three of *them*", "Four of them", "no such sentence: Three of them are right."),
        ("n == 3", "3 == 3", "its check looks at nothing"),
        ("text", "title", "no such cell: title"),
        ("Nothing to", "Something to", "stated, but no such sentence"),
        ('"It is faster than that."', '"Nothing to see."', "stated, and checked as well"),
        ("Look.", "Every one does.", "nothing checks: Every one does."),
    ],
)
def test_a_claim_that_drifts_is_seen(old, new, complaint):
    cells = [{**cell, "source": cell["source"].replace(old, new)} for cell in CELLS]
    made = {cell.replace(old, new): source.replace(old, new) for cell, source in MADE.items()}
    found = complaints({"cells": cells}, made, SAID)
    assert any(line.startswith(complaint) for line in found)


def test_an_answer_is_not_checked_before_it_is_given_and_reasons_are_few():
    early = {"first": MADE["text"]}
    assert any(line.startswith("checked before") for line in complaints(NOTEBOOK, early, SAID))
    assert any("is no reason" in line for line in complaints(NOTEBOOK, MADE, {"Look.": "obvious"}))


RUN = """# %% after counted
assert n == 3
n, own = 4, 5
# %% after text
claim("Three of them are right.", n + own == 8)
claim("It is faster than that.", n == own)
# %% after no-such
claim("x", True)
# %% after shown
claim("It is faster than that.", True, clock=n > 3)
"""


@pytest.mark.parametrize(("asked", "recorded"), [("tests/claims", "PASSED"), (".", "FAILED")])
def test_claims_leave_a_lessons_kernel_as_it_was_clocks_where_asked(tmp_path, asked, recorded):
    cells = [
        new_code_cell("n = 3", id="counted", execution_count=1),
        new_code_cell("assert n == 3\n'own' in globals()", id="later", execution_count=2),
        new_markdown_cell(TEXT, id="text"),
        new_code_cell("n", id="shown", outputs=[new_output("execute_result", {"text/plain": "2"})]),
    ]
    cells[-1].update(execution_count=3)
    cells[1].update(outputs=[new_output("execute_result", {"text/plain": "False"})])
    for name in ("notebooks", "tests/claims", "tests/oracles"):
        (tmp_path / name).mkdir(parents=True)
    nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks" / "00_small.ipynb")
    (tmp_path / "tests" / "claims" / "00.py").write_text(RUN)
    shutil.copy(FOLDER.parent / "conftest.py", tmp_path)
    shutil.copy(FOLDER.parent / "tests" / "oracles" / "claims.py", tmp_path / "tests" / "oracles")
    options = ["--nbval", "--nbval-current-env", "-p", "no:cacheprovider", "-rA", "-k", "00"]
    command = [sys.executable, "-m", "pytest", *options, asked]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    where = r"(PASSED|FAILED) notebooks/00_small.ipynb::(Cell \d|claims after [\w-]+)"
    assert [(name, how) for how, name in sorted(re.findall(where, told), key=lambda x: x[1])] == [
        ("Cell 0", "PASSED"),
        ("Cell 1", "PASSED"),
        ("Cell 2", recorded),
        ("claims after counted", "PASSED"),
        ("claims after no-such", "FAILED"),
        ("claims after shown", {"PASSED": "FAILED", "FAILED": "PASSED"}[recorded]),
        ("claims after text", "FAILED"),
    ]
    assert "this does not hold here: It is faster than that." in told
    assert "no such cell: no-such" in told


def test_a_claim_says_which_sentence_does_not_hold():
    claim("Two is more than one.", np.bool_(True))
    refuses(AssertionError, "Two is less than one", claim, "Two is less than one.", 2 < 1)
    for vague in (float("nan"), np.array([True]), None, 1):
        refuses(TypeError, "True or False", claim, "x", vague)
        refuses(TypeError, "True or False", claim, "x", clock=vague)
