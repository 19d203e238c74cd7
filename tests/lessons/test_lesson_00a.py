"""Lesson 00a: its pictures show what meets what, and its table what comes of a line."""

import re

from lablib.course.lessons.lesson_00a.widgets import Product, stretched
from lablib.teach.editions import read_notebook

import numpy as np
import pytest
from oracles.claims import lesson_path
from oracles.drawn import charted

FIRST, SECOND = [[2, 1], [0, 3], [1, 4]], [[1, 2], [5, 0]]


@pytest.fixture
def widget():
    return Product(FIRST, SECOND, ["Ann", "Ben", "Eve"], ["tea", "jam"], ["here", "there"])


@pytest.mark.parametrize(("row", "i"), [("Ann", 0), ("Eve", 2)])
@pytest.mark.parametrize(("column", "j"), [("here", 0), ("there", 1)])
def test_the_number_is_that_of_its_row_and_column(widget, row, i, column, j):
    data = widget.compute(row, column)
    assert data["sum"] == (np.array(FIRST) @ np.array(SECOND))[i, j]
    assert data["pairs"] == [(FIRST[i][k], SECOND[k][j]) for k in (0, 1)]


def test_a_row_a_column_and_a_number_are_in_colour(widget):
    drawn = charted(widget.chart(widget.compute("Ben", "there")))
    plain = drawn[0][0]["fill"]
    coloured = [[mark["text"] for mark in panel if mark["fill"] != plain] for panel in drawn]
    assert coloured == [["0", "3"], ["2", "0"], ["0"]]


def test_copies_are_grey_and_lie_or_stand_as_numpy_stretches_them():
    counts = np.array([[8, 4, 2, 2], [1, 6, 1, 0], [3, 1, 2, 0]])
    fig = stretched({"counts": counts, "square": counts[:, :3]}, ["the", "a", "one"])
    drawn = charted(fig)
    numbers = [[mark["text"] for mark in panel] for panel in drawn]
    _, lying, standing, *square = numbers
    assert lying == ["8", "6", "3", "?"] * 3
    for table, numbers in ((counts, standing), (counts[:, :3], square[2])):
        upright = np.broadcast_to(table.max(axis=1)[:, None], table.shape)
        assert numbers == [str(n) for n in upright.flat]
    assert square[1] == [str(n) for n in np.broadcast_to([8, 6, 3], (3, 3)).flat]
    own = [[mark["text"] for mark in panel if mark["fill"] == fig.keys[0][0]] for panel in drawn]
    assert own == [[], ["8", "6", "3"], ["8", "6", "3"]] * 2
    copies = [sum(mark["fill"] == fig.keys[1][0] for mark in panel) for panel in drawn]
    assert copies == [0, 6, 9, 0, 6, 6]
    assert ["no fit" in panel["title"] for panel in fig.panels] == [False, True] + [False] * 4


def test_the_last_column_of_the_lessons_table_is_what_comes_of_the_first():
    cells = {cell["id"]: cell["source"] for cell in read_notebook(lesson_path("00a"))["cells"]}
    names = {"np": np, "counts": np.array([[8, 4, 2, 2], [1, 6, 1, 0], [3, 1, 2, 0]])}
    names["row"] = names["counts"][1]
    rows = re.findall(r"^\| `(.*?)` \|.*\| (.*?) \|$", cells["by-hand-lines"], re.M)
    assert len(rows) == cells["by-hand-lines"].count("\n| `") > 8
    for line, comes in rows:
        shown = np.array2string(np.asarray(eval(line, names)), separator=", ")
        assert " ".join(shown.split()) == comes, line


def test_the_caption_reckons(widget):
    assert widget.set(row="Eve", column="here") == "Row Eve, column here: 1×1 + 4×5 = 21."
