"""The picture of slots over time is a right schedule."""

from lablib.course.lessons.lesson_04.widgets import SlotTimeline
from lablib.course.theory.slots import CONTINUOUS, WHOLE, schedule

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@given(LENGTHS, st.integers(1, 5), st.sampled_from([CONTINUOUS, WHOLE]))
def test_every_sequence_sits_once_and_no_slot_holds_two(
    lengths: list[int], slots: int, mode: str
) -> None:
    stays = schedule(lengths, slots, mode)
    assert [(stay.sequence, stay.length) for stay in stays] == list(enumerate(lengths))
    taken = [(s.slot, step) for s in stays for step in range(s.start, s.start + s.length)]
    assert len(taken) == len(set(taken))
    assert {slot for slot, _ in taken} <= set(range(slots))
    starts = [stay.start for stay in stays]
    assert starts == sorted(starts)  # first come first served


@given(LENGTHS, st.integers(1, 5))
def test_continuous_is_a_step_by_step_simulation(lengths: list[int], slots: int) -> None:
    waiting, left, started, step = list(enumerate(lengths)), {}, {}, 0
    while waiting or left:
        while waiting and len(left) < slots:
            name, need = waiting.pop(0)
            left[name], started[name] = need, step
        left = {name: need - 1 for name, need in left.items() if need > 1}
        step += 1
    stays = schedule(lengths, slots)
    assert {stay.sequence: stay.start for stay in stays} == started
    assert max(stay.start + stay.length for stay in stays) == step


@given(LENGTHS, st.integers(1, 5))
def test_whole_batches_take_as_long_as_their_longest(lengths: list[int], slots: int) -> None:
    stays = schedule(lengths, slots, WHOLE)
    groups = [lengths[i : i + slots] for i in range(0, len(lengths), slots)]
    assert max(stay.start + stay.length for stay in stays) == sum(map(max, groups))


def test_the_timeline_counts_the_busy_share() -> None:
    assert SlotTimeline([1] * 6).values["slots"] == 4  # the question's
    widget = SlotTimeline([4, 1, 1])
    assert widget.values["slots"] == 3
    data = widget.compute(slots=2, mode=WHOLE)
    assert (data["steps"], data["busy"]) == (5, pytest.approx(6 / 10))
    assert widget.compute(slots=2, mode=CONTINUOUS)["steps"] == 4
    assert "continuous: 4 steps" in widget.set(slots=2, mode=CONTINUOUS)
    assert isinstance(widget.draw(data), Figure)
