"""The picture of slots over time is a right schedule."""

import json

from lablib.course.lessons.lesson_04.trial import countdown, serve_queue
from lablib.course.lessons.lesson_04.widgets import SlotTimeline, padded, throughput
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


def test_the_timeline_counts_the_busy_share_of_both_ways() -> None:
    widget = SlotTimeline(QUEUES, slots=2)
    data = widget.compute("ann")
    assert (data[WHOLE]["steps"], data[WHOLE]["busy"]) == (5, pytest.approx(6 / 10))
    assert data[CONTINUOUS]["steps"] == 4
    assert "5 steps in whole batches; with each free slot filled at once 4, 1 fewer" in (
        widget.view.caption
    )
    assert "at once 3, no fewer" in widget.set(queue="ben")
    player = widget.controls["step"]
    assert player.max == player.play.max == 3
    assert "step 1 of 3" in widget.draw(widget.compute("ben", 1))["panels"][1]["title"]
    widget.set(queue="ann", step=5)
    assert player.max == player.play.max == 5
    early = widget.compute("ann", step=2)[WHOLE]["stays"]
    assert [(stay.sequence, stay.length) for stay in early] == [(0, 2), (1, 1)]
    assert widget.compute("ann", step=5)[CONTINUOUS]["now"] == 4  # it is done


def test_the_timelines_axes_stay_where_they_are_and_what_is_empty_is_drawn() -> None:
    widget = SlotTimeline(QUEUES, slots=2)
    assert {tuple(each["x"]["ends"]) for each in widget.constants["panels"]} == {(0, 6)}
    for queue, lengths in QUEUES.items():
        data = widget.compute(queue)
        views = json.loads(json.dumps(widget.draw(data)))["panels"]
        for mode, view in zip((WHOLE, CONTINUOUS), views, strict=True):
            bars = [mark for mark in view["marks"] if "bar" in mark]
            empty, stays = bars[:2], bars[2:]
            assert [bar["bar"][1] for bar in empty] == [data[mode]["steps"]] * 2  # they lie upon it
            assert [bar["bar"][1] - bar["bar"][0] for bar in stays] == lengths
            assert [bar["text"] for bar in stays] == [*"ABCDEFGH"][: len(lengths)]
            assert len({bar["fill"] for bar in empty}) == len({bar["fill"] for bar in stays}) == 1
            assert empty[0]["fill"] != stays[0]["fill"]
            assert f"busy {data[mode]['busy']:.0%}" in view["title"]


def test_padded_rows_end_in_one_column() -> None:
    chart = padded([["a", "b", "c"], ["d"]])
    cells = {(mark["bar"][0], mark["bar"][2]): mark["text"] for mark in chart.marks[0]}
    assert [*cells.values()] == ["a", "b", "c", "", "", "d"]
    assert (cells[2.04, -0.4], cells[2.04, -1.4]) == ("c", "d")


def test_throughput_follows_one_price_and_then_the_other() -> None:
    figure = throughput([1, 2, 4], [[1, 1.1], [1.9, 2.0], [3.0, 2.5]], [1, 2, 3.0])
    (panel,) = figure.panels
    assert panel["x"]["log"] is panel["y"]["log"] is True
    measured, theory = curves(charted(figure)[0]).values()
    assert theory == [1, 2, 3]
    assert measured == [1.1, 2.0, 3.0]


@given(LENGTHS, st.integers(1, 5))
def test_the_lessons_own_loop_serves_as_scheduled(lengths: list[int], slots: int) -> None:
    names = [str(i) for i in range(len(lengths))]
    left = dict(zip(names, lengths, strict=True))

    def step(active: list[str]) -> list[str]:
        left.update({name: left[name] - 1 for name in active})
        return [name for name in active if not left[name]]

    stays = schedule(lengths, slots)
    for now, active in enumerate(serve_queue(names, slots, step)):
        assert {*active} == {str(s.sequence) for s in stays if s.start <= now < s.start + s.length}
    assert not any(left.values())


def test_requests_count_down_and_are_finished_once() -> None:
    step = countdown({5: 2, 7: 1})
    assert step([5, 7]) == [7]
    assert step([5]) == [5]
