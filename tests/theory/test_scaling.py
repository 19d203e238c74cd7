"""Work dealt in rounds: nothing lost, nothing done twice, and no faster than it can be."""

from lablib.course.theory.scaling import goes_on, round_seconds, simulate, take
from lablib.validation import BadValue

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

UNITS = st.lists(st.floats(0.001, 30), min_size=1, max_size=60)


@given(units=UNITS, ranks=st.integers(1, 9), gather=st.floats(0, 0.5))
def test_all_is_done_once_and_no_faster_than_its_limits(units, ranks, gather) -> None:
    found = simulate(units, ranks, gather=gather)
    assert sum(found.busy) == pytest.approx(sum(units))
    assert found.seconds >= max(sum(units) / ranks, max(units)) * (1 - 1e-9)
    assert found.seconds <= sum(units) * (1 + 1e-9) + gather * found.rounds
    assert 0 < found.efficiency <= 1 + 1e-9
    assert found.speedup == pytest.approx(found.efficiency * ranks)


def test_one_rank_takes_as_long_as_its_work() -> None:
    assert simulate([1.0, 2.0, 0.5], 1, gather=9.0).seconds == 3.5


def test_equal_units_scale_and_one_long_one_is_the_limit() -> None:
    many = [0.05] * 4000
    assert simulate(many, 8, gather=0.01).efficiency > 0.95
    assert 10 <= simulate([10.0, *many], 64).seconds < 15
    assert simulate(many, 8000).seconds == pytest.approx(0.05)
    late = simulate([*many, 60.0], 2).seconds  # found last, it is waited for
    assert late > simulate([60.0, *many], 2).seconds + 20


def test_a_round_is_short_when_little_is_left() -> None:
    assert round_seconds(1000, 0.0, 2) == 0.0  # nobody knows yet
    assert round_seconds(1000, 0.1, 2) == 2.0
    assert round_seconds(1000, 3.0, 2) == 30.0
    assert round_seconds(10, 1.0, 2) == 2.5
    assert round_seconds(1, 1.0, 1) == 2.0
    assert take([1.0] * 9, 1.0, 3.6) == (4, 4.0)
    assert take([1.0] * 9, 1.0, 0.0) == (1, 1.0)
    assert take([], 1.0, 5.0) == (0, 0.0)
    assert goes_on(1.0, 1.0, 1.6)
    assert not goes_on(1.0, 1.0, 1.5)


def test_it_refuses_what_is_no_work() -> None:
    for units, ranks in ([], 1), ([1.0], 0), ([-1.0], 1), ([np.nan], 2):
        with pytest.raises(BadValue):
            simulate(units, ranks)
