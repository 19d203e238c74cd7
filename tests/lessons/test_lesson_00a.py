"""Lesson 00a: the picture of a product shows the row and the column that make a number."""

from lablib.course.lessons.lesson_00a.widgets import Product

import numpy as np
import pytest
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


def test_the_caption_reckons(widget):
    assert widget.set(row="Eve", column="here") == "Row Eve, column here: 1×1 + 4×5 = 21."
