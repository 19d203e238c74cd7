"""A slice of each of lesson 12's stored runs, made again: it comes out as it is stored."""

from itertools import islice

import lablib
from lablib.course.lessons.lesson_12 import facts, measured, runs, window
from lablib.models import zoo

import mlx.core as mx
import pytest

pytestmark = pytest.mark.thorough
SMOLLM2 = pytest.mark.skipif(zoo.fetched("smollm2") is None, reason="python -m lablib fetch")
GEMMA3 = pytest.mark.skipif(zoo.fetched("gemma3") is None, reason="python -m lablib fetch gemma3")
CLOCK = {"seconds"}  # another machine's


@pytest.fixture(scope="module")
def smollm2():
    return lablib.load("smollm2", dtype=mx.float32)


def without_clock(record):
    """Return a record without what a clock said."""
    told = {name: value for name, value in record.items() if name not in CLOCK}
    return {k: without_clock(v) if isinstance(v, dict) else v for k, v in told.items()}


@SMOLLM2
def test_questions_are_answered_as_they_were(smollm2):
    known = {each["number"]: each for each in runs.stored("facts")}
    numbers = [0, 36, 336, 480, 672, 696, 840, 936]
    every = facts.facts()
    again = [*measured.answered(*smollm2, [(number, every[number]) for number in numbers])]
    for each in again:  # a sample in a hundred may part where two tokens are as likely
        stored = known[each["number"]]
        pairs = zip(runs.chosen(each), runs.chosen(stored), strict=True)
        assert sum(one[0] != other[0] for one, other in pairs) <= 1


@pytest.mark.slow
@SMOLLM2
def test_greedy_answers_come_again(smollm2):
    model, tokenizer = smollm2
    known = {each["number"]: each for each in runs.stored("greedy")}
    some = [each for each in enumerate(facts.facts()) if each[0] in known][3::64]
    models = {"32": model, "4": lablib.load("smollm2", bits=4)[0]}
    again = [*measured.greedy_answers(models, tokenizer, some)]
    assert len(again) == 8
    for bits in models:  # another kernel may flip a near tie
        assert sum(each[bits] != known[each["number"]][bits] for each in again) <= 1


@pytest.mark.slow
@SMOLLM2
def test_borders_move_as_they_did_and_the_head_moves_none(smollm2):
    stored = runs.stored("borders")
    done = {each["number"] for each in stored} - {1}
    (again,) = next(iter(measured.PARTS["borders"](*smollm2, done)))
    assert again["number"] == 1
    assert again["head"] == stored[1]["head"] == 0
    assert again["rare"] == pytest.approx(stored[1]["rare"], rel=1e-3)
    assert again["expected"] == pytest.approx(stored[1]["expected"], rel=0.2)


@SMOLLM2
def test_the_random_number_lies_in_the_word_that_was_drawn(smollm2):
    stored = runs.stored("pieces")
    done = {each["number"] for each in stored} - {29}
    (again,) = next(iter(measured.PARTS["pieces"](*smollm2, done)))
    begin, end = again["plain"][0]
    assert begin <= 0 < end
    widths = [[end - begin for begin, end in each["plain"]] for each in (again, stored[1])]
    assert widths[0] == pytest.approx(widths[1], rel=1e-3)


@pytest.mark.slow
@pytest.mark.grid(lambda part, n: part == "drafts", rest="slow")
@SMOLLM2
@pytest.mark.parametrize(
    ("part", "n"),
    [("drafts", 2), ("law", 1), pytest.param("match", 1, marks=pytest.mark.slow)],
)
def test_drafts_are_kept_as_they_were(smollm2, part, n):
    portions = islice(measured.PARTS[part](*smollm2, set()), n)
    again = [without_clock(record) for portion in portions for record in portion]
    stored = [without_clock(record) for record in runs.stored(part)]
    for one, other in zip(again, stored, strict=False):
        for name, value in other.items():
            close = isinstance(value, float)
            assert one[name] == (pytest.approx(value, abs=0.01) if close else value), name


@GEMMA3
@pytest.mark.slow
def test_a_text_past_the_window_parts_where_it_did():
    model, tokenizer = lablib.load("gemma3")
    ((again,),) = islice(window.window(model, tokenizer, set()), 1)
    assert again == runs.stored("window")[0]
