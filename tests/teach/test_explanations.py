"""An explanation is read from a notebook without running it, and shown to a teacher alone."""

import csv
import io
import json

from lablib.course import explain
from lablib.teach.explained import LARGEST, explanations
from lablib.teach.grade import grade
from lablib.teach.page import feedback, page
from lablib.teach.reports import ExerciseRow, GradeReport

import pytest

WORDS = "A cleared key has the score 0, and e⁰ is 1."


def test_it_says_what_to_write_and_takes_what_is_written(capsys):
    explain("15.1", ...)
    asked = capsys.readouterr().out
    assert 'explain("15.1", """..."""); or go on without.' in asked
    assert max(map(len, asked.splitlines())) < 100
    explain("15.1", WORDS)
    assert capsys.readouterr().out == "Your explanation of 15.1: 11 words.\n"
    explain("15.1", "word " * 900)
    assert "first 2,000 letters" in capsys.readouterr().out
    with pytest.raises(TypeError, match="text must be a text in quotes, got int"):
        explain("15.1", 3)
    with pytest.raises(ValueError, match=r"there is no exercise '15\.9'"):
        explain("15.9", WORDS)


def test_the_last_text_counts_and_nothing_is_run():
    cells = [
        'explain("15.1", "first")',
        f'x = 1\nexplain("15.1", """{WORDS}\n  Twice.""")',
        'explain("15.2", ...)',
        'explain("15.3", str(1 / 0))',
        'explain("15.3", __import__("os").getcwd())',
        'explain("99.1", "of another course")',
        'explain("15.4", "   ")',
        'explain("15.5", "broken',
        '"(" * 3; explain("15.5", "' + "x" * LARGEST + '")',
        "(" * 5000 + 'explain("15.5", "deep")',
        'other.explain("15.5", "not ours")',
    ]
    assert explanations([*enumerate(cells)]) == {"15.1": f"{WORDS} Twice."}
    (long,) = explanations([(0, f'explain("15.2", "{"y" * 9000}")')]).values()
    assert len(long) == 2000


def notebook(*sources):
    cells = [
        {"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": source,
         "outputs": [], "execution_count": None}
        for i, source in enumerate(sources)
    ]  # fmt: skip
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


@pytest.mark.slow
@pytest.mark.thorough
def test_grade_shows_it_beside_the_mark(tmp_path):
    function = "def best_token(probabilities):\n    return 0"
    told = 'explain("00.1", "The <first> token, always; =1+1")'
    (tmp_path / "work" / "ada").mkdir(parents=True)
    work = notebook(function, 'check("00.1", best_token)', told)
    (tmp_path / "work/ada/00.ipynb").write_text(work)
    (tmp_path / "work/ada/00_start.py").write_text("# %%\n" + told.replace("<first>", "second"))
    report = grade(tmp_path / "work", lessons=["00"], walls=False, workers=1)
    (row,) = report.explained()
    assert (row.student, row.exercise) == ("ada", "00.1")
    assert row.explanation == "The <first> token, always; =1+1"
    text = page(report)
    assert "The &lt;first&gt; token" in text
    assert text.index("<h2>Explanations</h2>") < text.index("<h2>Exercises</h2>")
    assert "<first>" not in feedback(report, "ada")
    table = [*csv.DictReader(io.StringIO(report.csv().lstrip("\ufeff")))]
    assert {each["exercise"]: each["explanation"] for each in table}["00.1"].startswith("The <f")
    assert json.loads(report.json())["rows"][0]["explanation"] == row.explanation
    assert "1 explanations to read" in report.summary()


def test_a_formula_in_it_is_text_and_none_needs_no_section():
    row = ExerciseRow("ada", "x.ipynb", "15.1", "✓", "", "", "=cmd()")
    assert "'=cmd()" in GradeReport([row]).csv()
    assert "Explanations" not in page(GradeReport([ExerciseRow("ada", "x", "15.1", "✓", "", "")]))
    marks = page(GradeReport([row])).split("<h2>Explanations</h2>")[1].split("</table>")[0]
    assert "✓" in marks
    assert "=cmd()" in marks
