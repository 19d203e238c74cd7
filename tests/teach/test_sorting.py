"""The page's tables sort by a column, from a file, with a mouse and with keys."""

import random

from lablib.course.checks.exercises import exercises
from lablib.teach.page import page
from lablib.teach.reports import ExerciseRow, GradeReport

import pytest
from oracles import browser

# 00.1, 00.2 and 00.3 of twelve students; cy was not asked for the last.
MARKS = {f"s{number}": "✓✓✓" for number in range(1, 10)} | {"s10": "✗○✓", "Ben": "○✗!", "cy": "✗✗"}
READ = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"


@pytest.fixture
def opened(tmp_path):
    """The page in a browser, from a file."""
    from playwright.sync_api import sync_playwright

    browser.need("the page's tables")
    asked = exercises("00")
    rows = [
        ExerciseRow(student, "x", asked[place].id, mark, "", "")
        for student, marks in MARKS.items()
        for place, mark in enumerate(marks)
    ]
    random.Random(0).shuffle(rows)
    path = tmp_path / "report.html"
    path.write_text(page(GradeReport(rows)), encoding="utf-8")
    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=browser.chromium(), args=browser.FLAGS)
        shown = chrome.new_page()
        shown.errors = []
        shown.on("pageerror", lambda error: shown.errors.append(str(error)))
        shown.goto(path.as_uri())
        yield shown
        assert shown.errors == []
        chrome.close()


def column(shown, place, table=0):
    rows = shown.locator("table.sorted").nth(table).locator("tbody tr").evaluate_all(READ)
    assert len({row[0] for row in rows}) == len(rows)
    return [row[place] for row in rows]


def head(shown, name):
    return shown.locator("table.sorted").first.get_by_role("button", name=name, exact=True)


@pytest.mark.browser
def test_a_press_on_a_head_sorts_and_one_more_turns_it_round(opened):
    head(opened, "points").click()
    stars = {each.id: each.stars for each in exercises("00")}
    most = sum(stars.values())
    due = most - stars["00.3"]
    ends = [f"0 of {due}", f"0 of {most}", f"{stars['00.3']} of {most}", *[f"{most} of {most}"] * 9]
    got = column(opened, 5)
    assert sorted(got[:2]) == sorted(ends[:2])
    assert got[2:] == ends[2:]
    head(opened, "points").click()
    assert column(opened, 5)[:10] == ends[:1:-1]
    head(opened, "student").click()
    assert column(opened, 0) == ["Ben", "cy", *(f"s{number}" for number in range(1, 11))]
    head(opened, "00.3").click()  # by what a mark is worth, not by its letter; ✓ is the most
    assert column(opened, 3) == ["", "!", *"✓" * 10]


@pytest.mark.browser
def test_keys_do_the_same_and_a_reader_is_told(opened):
    heads = opened.locator("table.sorted").first.locator("th[scope=col]")
    assert heads.evaluate_all("all => all.map(h => h.ariaSort)") == [None] * 6
    opened.keyboard.press("Tab")
    while opened.evaluate("document.activeElement.innerText") != "00.1":
        opened.keyboard.press("Tab")
    for key, order in (("Enter", "ascending"), ("Space", "descending")):
        opened.keyboard.press(key)
        told = heads.evaluate_all("all => all.map(h => h.ariaSort)")
        assert told == [None, order, *[None] * 4]
        marks = ["○", "✗", "✗", *"✓" * 9]
        assert column(opened, 1) == (marks if order == "ascending" else marks[::-1])
    outline = opened.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.browser
def test_counts_are_numbers_and_an_empty_one_is_none(opened):
    table = opened.locator("table.sorted").nth(1)
    table.get_by_role("button", name="✓", exact=True).click()
    assert column(opened, 1, 1) == ["9", "9", "10"]
    table.get_by_role("button", name="!", exact=True).click()
    assert column(opened, 5, 1) == ["", "", "1"]
