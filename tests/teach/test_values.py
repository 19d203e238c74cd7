"""Comparing, copying and showing what a student's function returns."""

import math
from decimal import Decimal
from enum import StrEnum

from lablib.course.checks.values import as_text, call_text, copied, difference, pair_text

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

numbers = st.one_of(st.integers(-9, 9), st.floats(allow_nan=True, width=32))
values = st.recursive(
    st.one_of(numbers, st.text(max_size=3), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(values)
def test_a_value_equals_its_copy(value):
    assert difference(value, copied(value)) is None


@settings(max_examples=40, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=12), st.data())
def test_one_changed_number_is_seen(row, data):
    where = data.draw(st.integers(0, len(row) - 1))
    changed = list(row)
    changed[where] = 3.5 if row[where] != 3.5 else -1.0
    assert difference(row, changed) is not None
    assert difference(np.array(row), tuple(changed)) is not None


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ([1, 2], (1.0, 2.0)),
        ([1.0, 2.0], mx.array([1.0, 2.0])),
        (mx.zeros((2, 0)), np.zeros((2, 0))),
        (np.zeros((0, 2)), []),
        (mx.array([1.0, 2.0], dtype=mx.bfloat16), [1, 2]),
        (3, mx.array(3)),
        (0.3, 0.1 + 0.2 + 1e-7),
        (1e6, 1e6 + 1),
        (math.inf, float("inf")),
        (True, np.bool_(True)),
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        (np.eye(2), [[1, 0], [0, 1]]),
        ([[1], [2, 3]], [(1,), np.array([2, 3])]),
        ({"a": [1.0]}, {"a": np.ones(1)}),
        ({1, 2}, {2, 1}),
        (["a", "b"], np.array(["a", "b"])),
        ("a", np.array(["a", "b"])[0]),
        ("a", StrEnum("Letters", {"A": "a"}).A),
        ([["a"], ["b", "c"]], np.array([["a"], np.array(["b", "c"])], dtype=object)),
        (([["a"]], [(0, 1)]), ([np.array(["a"])], np.array([(0, 1)]))),
        ([], ()),
        (0.5, Decimal("0.5")),
        ([0.5, 1.0], [Decimal("0.5"), Decimal(1)]),
    ],
)
def test_equal(expected, got):
    assert difference(expected, got, 1e-5) is None


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        (1, "1", "returned a str, expected a number"),
        (1, [1], "returned a row of 1 number, expected a number"),
        (1.0, math.nan, ""),
        (1.0, math.inf, ""),
        (math.inf, -math.inf, ""),
        ([1.0, math.inf], [1.0, 5.0], ""),
        ([1, 2], [1], "returned 1 in a row, expected 2"),
        ([1, 2], 3, "returned a number, expected 2 numbers"),
        ([1, 2], [[1], [2, 3]], "rows of different lengths"),
        (np.zeros((3, 4)), np.ones((3, 4)), "first difference at [(0, 0)]: expected 0, got 1"),
        (["a", "b"], ["a", "c"], "at [1]: expected 'b', got 'c'"),
        (["a"], ["a", "b"], "returned 2 items, expected 1"),
        (["a"], 1, "returned a number, expected a list"),
        ([1, 2], ["1", "2"], "returned a list, expected 2 numbers"),
        (np.zeros((0, 2)), np.zeros((0, 3)), "returned shape (0, 3), expected (0, 2)"),
        (np.zeros((1, 0)), [], "returned shape (0,), expected (1, 0)"),
        ({"a": 1}, {"b": 1}, "returned the keys ['b'], expected ['a']"),
        ([1], 1, "returned a number, expected a row of 1 number"),
        ({"a": 1}, [1], "returned a row of 1 number, expected a dict"),
        ({"a": 1}, {"a": 2}, "at ['a']: expected 1, got 2"),
        (
            {(1,) * 300: "b"},
            {(1,) * 300: "c"},
            "at [(" + "1, " * 28 + "1,…]: expected 'b', got 'c'",
        ),
        ({1}, {2}, ""),
        ("ab", "ac", ""),
        (["a", "b"], np.array(["a", "c"]), "at [1]: expected 'b', got 'c'"),
        (None, 3, "returned a number, expected None"),
        ("4", ("4", 1), "returned a tuple, expected a str"),
    ],
)
def test_different(expected, got, said):
    assert said in difference(expected, got, 1e-5)


@pytest.mark.parametrize("as_given", [float, lambda number: np.array([number, 1.0])])
def test_a_tolerance_is_a_share_of_the_right_answer(as_given):
    assert difference(as_given(4.0), as_given(2.1), 0.5) is None
    assert difference(as_given(1.0), as_given(1.9), 0.5) is not None


def test_copies_protect_arrays_but_share_models():
    class Model:
        pass

    model, array, list_ = Model(), mx.array([1.0]), [np.zeros(2)]
    same, array_copy, list_copy = copied((model, array, list_))
    array_copy[0] = 5.0
    list_copy[0][0] = 5.0
    assert same is model
    assert array.item() == 1.0
    assert list_[0][0] == 0.0


def test_values_are_shown_short_and_without_addresses():
    assert as_text(np.array([1.0, 1 / 3])) == "[1, 0.3333]"
    assert as_text([46080.0, 46080.5, 1e-5, 1e300]) == "[46080, 46080.5, 1e-05, 1e+300]"
    assert as_text(mx.array([[1, 2]])) == "[[1, 2]]"
    assert as_text({"a": (1.5, "x")}) == "{'a': (1.5, 'x')}"
    assert as_text({(1, 2): {}, (3,): [(4,), ()]}) == "{(1, 2): {}, (3,): [(4,), ()]}"
    assert len(as_text(np.arange(1000))) == 88
    assert "0x" not in as_text(object()) + as_text(np.random.default_rng(0)) + as_text(as_text)
    assert call_text("f", ([1], "a")) == "f([1], 'a')"
    assert call_text("f", ([5e4, 49_999.0], 1 / 3, 1e-30)) == "f([50000, 49999], 0.3333, 1e-30)"
    assert call_text("f", ({"a": 1.0, "b": [2.0]},)) == "f({'a': 1.0, 'b': [2]})"  # as JSON has it
    assert call_text("f", ([7, 7.0, 0.5, None],)) == "f([7, 7.0, 0.5, None])"
    array = np.array([1.0, -2.0])  # pasted as whole numbers, it would cut what is put into it
    assert call_text("f", ([array], array / 4)) == (
        "f([np.array([1, -2], float)], np.array([0.25, -0.5]))"
    )
    assert call_text("f", (np.zeros((0, 2)), np.eye(2, dtype=int))) == (
        "f(np.zeros((0, 2)), np.array([[1, 0], [0, 1]]))"
    )
    assert call_text("f", (mx.ones(1), mx.array(2))) == "f(mx.array([1], mx.float32), 2)"
    config = {"a name of many letters " * 3: 1, "another one of many letters": 2}
    assert call_text("f", (config,)) == f"f({config})"  # whole, to be pasted
    assert pair_text(1.0, 1.00000001) == ("1", "1.00000001")
    assert pair_text("a" * 99 + "b", "a" * 99) == (f"…'{'a' * 20}b'", f"…'{'a' * 20}'")
    many = [[0] * 50, [0] * 50]  # whose first 88 characters are alike
    parted = pair_text(many, [[0] * 50, [1] * 50])
    assert "], [0, 0" in parted[0]
    assert "], [1, 1" in parted[1]
