"""A wrong answer that is a right one with one place changed."""

import inspect

from lablib.course.checks.changed import changed

import pytest


def between(low, values, high=3):
    """Return the values between two ends.

    low: if value
    """
    return [value for value in values if low <= value < high]


def plain(values):
    return sum(values)


def test_one_place_is_changed_and_nothing_else():
    closed = changed(between, "closed", "value < high", "value <= high")
    assert closed(1, [0, 1, 2, 3, 4]) == [1, 2, 3]
    assert between(1, [0, 1, 2, 3, 4]) == [1, 2]
    assert closed.__name__ == "closed"
    assert inspect.signature(closed) == inspect.signature(between)
    assert inspect.getsource(closed) == (
        "def closed(low, values, high=3):\n"
        "    return [value for value in values if low <= value <= high]"
    )
    assert changed(plain, "largest", "sum", "max")([1, 3]) == 3


@pytest.mark.parametrize("old", ["value <", "value", "Return the values", ""])
def test_a_place_is_found_once_in_the_body(old):
    if old == "value <":
        changed(between, "wrong", old, "value >")
    else:
        with pytest.raises(ValueError, match="old must occur once in between"):
            changed(between, "wrong", old, "x")
