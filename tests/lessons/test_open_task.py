"""The open task counts tokens, refuses what is too dear, and compares with what was stored."""

from lablib.course.lessons.lesson_12 import real, runs
from lablib.course.lessons.lesson_16 import open_task
from lablib.course.lessons.lesson_16.scores import Foul
from lablib.models import zoo

import pytest

HERE = zoo.fetched(real.NAME)


def writer(prompt, n, temperature, most, seed):
    """Write the prompt's last word, in two tokens."""
    return [(f" {prompt.split()[-1]}\n", -1.0, 2)] * n


def size(text):
    return len(text.split())


def test_what_is_read_and_written_is_counted_and_too_much_is_refused() -> None:
    pen = open_task.Pen(writer, size, 0)
    assert pen.write("a b c", n=4, most=3) == [(" c\n", -1.0)] * 4
    assert pen.left == open_task.BUDGET - 3 - 4 * 2  # the prompt once, and what came
    with pytest.raises(Foul, match=r"tokens left, could take 1003"):
        pen.write("a b c", n=100, most=10)
    assert pen.left == open_task.BUDGET - 11
    with pytest.raises(ValueError, match="n must be"):
        pen.write("a", n=0)


def test_a_right_answer_is_the_fact_s_own() -> None:
    asked = open_task.chosen(3, 8)
    truths = {fact.asked: fact.truth for _, fact in asked}
    score = open_task.play(lambda line, examples, pen: truths[line], writer, size, asked)
    assert score.value == 1
    assert score.parts["tokens"] == 0
    wrong = open_task.play(lambda *_: "no", writer, size, asked)
    assert wrong.value == 0
    with pytest.raises(Foul, match="must return a text, got int"):
        open_task.play(lambda *_: 7, writer, size, asked)
    seen = []
    open_task.play(
        lambda line, examples, pen: seen.append((line, examples)) or "", writer, size, asked
    )
    assert all(len(examples) == 3 and line not in examples for line, examples in seen)
    assert not any(
        truth in line.split() for (line, _), truth in zip(seen, truths.values(), strict=True)
    )


def test_a_seed_draws_its_questions_and_the_opponent_is_the_stored_vote() -> None:
    assert open_task.chosen(1) == open_task.chosen(1)
    assert {i for i, _ in open_task.chosen(1)} != {i for i, _ in open_task.chosen(2)}
    whole = [*enumerate(open_task.facts())]
    ours, theirs = open_task.opponent(whole), runs.curves_of()["majority"].per_problem[:, -1]
    assert ours.value == pytest.approx(theirs.mean(), abs=0.02)  # ties go to who came first
    assert len(ours.values) == len(whole) == len(theirs)


def test_without_the_model_the_task_says_so(monkeypatch) -> None:
    monkeypatch.setattr(zoo, "fetched", lambda name: None)
    with pytest.raises(real.NotFetched):
        open_task.attempt(open_task.as_lesson_12)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.skipif(HERE is None, reason="no smollm2: run python -m lablib fetch")
def test_lesson_12_s_own_way_is_not_told_apart_from_its_stored_vote() -> None:
    score, lead = open_task.attempt(open_task.as_lesson_12, questions=24)
    assert not lead.sure
    assert score.parts["tokens"] <= score.parts["budget"]
