"""The picture of slots over time is a right schedule."""

import json

from lablib.course.lessons.lesson_04.trial import countdown
from lablib.course.lessons.lesson_04.widgets import SlotTimeline, throughput
from lablib.course.theory.slots import CONTINUOUS, WHOLE, schedule

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.drawn import charted, curves

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@given(LENGTHS, st.integers(1, 5), st.sampled_from([CONTINUOUS, WHOLE]))
def test_every_sequence_sits_once_and_no_slot_holds_two(lengths, slots, mode):
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


QUEUES = {"ann": [4, 1, 1], "ben": [1] * 6}


def test_the_timeline_counts_the_busy_share() -> None:
    widget = SlotTimeline(QUEUES, slots=2)
    data = widget.compute("ann", WHOLE)
    assert (data["steps"], data["busy"]) == (5, pytest.approx(6 / 10))
    assert widget.compute("ann", CONTINUOUS)["steps"] == 4
    assert "Queue “ben”, continuous: 3 steps" in widget.set(queue="ben", mode=CONTINUOUS)
    fewer = widget.compute("ben", WHOLE)["steps"] - 3
    gain = f"3 steps, {fewer} fewer than in whole batches" if fewer else "3 steps, as in whole"
    assert gain in widget.caption(widget.compute("ben", CONTINUOUS))
    assert "Queue “ben”, continuous: step 1 of 3" in widget.set(step=1)
    player = widget.controls["step"]
    assert player.max == player.play.max == 3
    assert "Queue “ann”, whole batches: step 1 of 5" in widget.set(queue="ann", mode=WHOLE)
    assert player.max == player.play.max == 5
    assert "Queue “ann”, continuous: 4 steps" in widget.set(step=4, mode=CONTINUOUS)
    end = widget.set(mode=WHOLE)  # who is at the end stays there
    assert "Queue “ann”, whole batches: 5 steps" in end
    early = widget.compute("ann", WHOLE, step=2)["stays"]
    assert [(stay.sequence, stay.length) for stay in early] == [(0, 2), (1, 1)]


def test_the_timelines_axes_stay_where_they_are_and_what_is_empty_is_drawn() -> None:
    widget = SlotTimeline(QUEUES, slots=2)
    assert widget.constants["panels"][0]["x"]["ends"] == [0, 6]
    for queue, lengths in QUEUES.items():
        for mode in (WHOLE, CONTINUOUS):
            data = widget.compute(queue, mode)
            (panel,) = json.loads(json.dumps(widget.draw(data)))["panels"]
            bars = [mark for mark in panel["marks"] if "bar" in mark]
            empty, stays = bars[:2], bars[2:]
            assert [bar["bar"][1] for bar in empty] == [data["steps"]] * 2  # sequences lie upon it
            assert [bar["bar"][1] - bar["bar"][0] for bar in stays] == lengths
            assert [bar["text"] for bar in stays] == [*"ABCDEFGH"][: len(lengths)]
            assert len({bar["fill"] for bar in empty}) == len({bar["fill"] for bar in stays}) == 1
            assert empty[0]["fill"] != stays[0]["fill"]


def test_a_step_that_costs_the_same_is_a_straight_line() -> None:
    figure = throughput([1, 2, 4], [[1, 1.1], [1.9, 2.0], [3.0, 2.5]], [1, 1.7, 3.0])
    (panel,) = figure.panels
    assert panel["x"]["log"] is panel["y"]["log"] is True
    measured, _, straight = curves(charted(figure)[0]).values()
    assert straight == [1, 2, 4]
    assert measured == [1.1, 2.0, 3.0]


def test_requests_count_down_and_are_finished_once() -> None:
    step = countdown({5: 2, 7: 1})
    assert step([5, 7]) == [7]
    assert step([5]) == [5]
