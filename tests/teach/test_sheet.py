"""The sheet of board exercises: students see no answer, the teacher every one, and it prints."""

import re
from pathlib import Path

from lablib import __main__
from lablib.course.checks.exercises import exercises, number_of
from lablib.teach.editions import QUESTION, answered, code_cells, read_notebook
from lablib.teach.sheet import _section, boards, sheet_page, shown

import pytest
from oracles import browser
from oracles.alone import fetched, solution_lines, words

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
by_lesson = pytest.mark.parametrize("path", NOTEBOOKS[1:], ids=lambda path: path.stem)


@by_lesson
def test_each_question_by_hand_is_an_exercise_on_both_sheets(path):
    notebook = read_notebook(path)
    asked = sum(QUESTION in cell["source"] for cell in _section(notebook))
    assert asked >= 1
    assert len(boards(notebook)) == asked
    for answers in (False, True):
        page = sheet_page([notebook], answers)
        assert page.count("<article>") == asked
        assert fetched(page) == []
        for exercise in exercises(number_of(path.name)):
            assert not any(line in words(page) for line in solution_lines(exercise, path))


@by_lesson
def test_answers_are_on_the_teachers_sheet_alone(path):
    notebook = read_notebook(path)
    student, teacher = (words(sheet_page([notebook], answers)) for answers in (False, True))
    answering = {cell["id"] for cell, answers in code_cells(notebook) if answers}
    cells = _section(notebook)
    said = 0
    for cell, after in zip(cells, [*cells[1:], None], strict=True):
        if cell["id"] not in answering:
            continue
        for each in shown(cell):
            if each.startswith("<pre"):
                said += 1
                assert words(each) in teacher
                assert words(each) not in student
        if after and after["cell_type"] == "markdown":
            for paragraph in answered(after["source"])[0]:
                said_first = words(paragraph.removeprefix("1. "))  # of a list
                first = re.split(r"[*`\[]", said_first)[0].strip()[:60]
                if len(first) > 20:
                    assert first in teacher
                    assert first not in student
    assert said or number_of(path.name) == "01"
    assert student.count("Answer") == 0
    assert teacher.count("Answer") == len(boards(notebook))
    assert not any(word in teacher for word in ("claim(", "predict("))


def test_the_numbers_that_are_needed_are_on_the_students_sheet():
    (path,) = (each for each in NOTEBOOKS if number_of(each.name) == "06")
    student = words(sheet_page([read_notebook(path)], answers=False))
    assert "faces = [1, 2, 3, 4, 5, 6]" in student
    assert "np.exp" not in student


def test_the_command_writes_both_and_refuses_lessons_that_ask_nothing(tmp_path, capsys):
    assert __main__.main(["release", str(tmp_path / "out"), "00", "07", "--sheet"]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "out/sheet")]
    pages = {path.name: path.read_text() for path in (tmp_path / "out/sheet").iterdir()}
    assert {*pages} == {"student.html", "teacher.html"}
    for page in pages.values():
        assert page.count("<h2>") == 1  # lesson 00 has no board exercise
    assert __main__.main(["release", str(tmp_path / "none"), "00", "--sheet"]) == 2
    told = "source must ask something in a section '## By hand', got 00_start_here.ipynb"
    assert capsys.readouterr().err == f"lablib: {told}\n"
    assert not (tmp_path / "none").exists()


def test_no_exercise_is_broken_between_two_pages_of_paper(tmp_path):
    """None is higher than A4 without its margins, and the browser is told to keep each whole."""
    browser.need("the sheets")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=browser.chromium(), args=browser.FLAGS)
        page = chrome.new_page(viewport={"width": 680, "height": 1009})  # 180 by 267 mm
        page.emulate_media(media="print")
        for answers in (False, True):
            file = tmp_path / "sheet.html"
            file.write_text(sheet_page([read_notebook(path) for path in NOTEBOOKS], answers))
            page.goto(file.as_uri())
            boxes = page.locator("article").evaluate_all(
                "all => all.map(e => [e.offsetHeight, e.scrollWidth,"
                " getComputedStyle(e).breakInside])"
            )
            assert len(boxes) > 30
            for height, width, inside in boxes:
                assert (height < 1009, width <= 680, inside) == (True, True, "avoid")
        chrome.close()
