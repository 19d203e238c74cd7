"""The widgets of lesson 06 compute what they say."""

from lablib.course.lessons.lesson_06.exact import one_die_accuracy, process_accuracy
from lablib.course.lessons.lesson_06.widgets import (
    Stopping,
    VoteBars,
    before_after_vote,
    heat_map,
)
from lablib.course.replay.curves import Sampled
from lablib.course.tasks import sums
from lablib.course.theory.estimators import majority_accuracy
from lablib.inference.voting.stopping import StopRule
from lablib.inference.voting.vote import tally

import numpy as np
import pytest
from matplotlib.figure import Figure


def polls(n: int, samples: int = 20, seed: int = 1) -> list[Sampled]:
    rng = np.random.default_rng(seed)
    letters = np.array(["3", "5", "7", None], dtype=object)
    return [
        Sampled("3", list(rng.choice(letters, samples, p=[0.5, 0.3, 0.15, 0.05]))) for _ in range(n)
    ]


def test_vote_bars_fill_up_as_the_library_counts() -> None:
    poll = polls(1)[0]
    widget = VoteBars({"one": poll, "two": polls(1, seed=2)[0]})
    assert widget.picture.caption == "No votes yet. The right answer is 3."
    for n in range(1, 21):
        data = widget.compute(samples=n, problem="one")
        votes = tally([[0]] * n, poll.answers[:n])
        assert data["leader"] == votes.winner
        counts = {answer: count for answer, (_, count) in zip(votes.answers, votes, strict=True)}
        assert {digit: v for digit, v in data["votes"].items() if v} == counts
    assert "leads with" in widget.set(samples=20, problem="two")
    assert isinstance(widget.draw(data), Figure)


@pytest.mark.parametrize("confidence", [0.7, 0.95, 0.99])
def test_stopping_replays_the_stop_rule(confidence: float) -> None:
    problems = polls(12)
    widget = Stopping(problems, batch=2, at_least=6)
    rule = StopRule(confidence, at_least=6)
    used, right = [], []
    for problem in problems:
        for drawn in range(2, 21, 2):
            cast = [answer for answer in problem.answers[:drawn] if answer is not None]
            counts = [cast.count(answer) for answer in dict.fromkeys(cast)]
            if drawn == 20 or rule.reason(counts, drawn, 20):
                break
        used.append(drawn)
        right.append(max(cast, key=cast.count) == problem.truth)
    data = widget.compute(confidence=confidence)
    assert data["used"].tolist() == used
    assert data["accuracy"] == pytest.approx(np.mean(right))


def test_the_certain_rule_changes_no_winner() -> None:
    widget = Stopping(polls(12))
    data = widget.compute(confidence=1.0)
    assert data["accuracy"] == data["full"]
    assert data["used"].mean() < 20
    assert "At confidence 0.80" in widget.set(confidence=0.8)
    assert isinstance(widget.draw(data), Figure)


def test_process_and_one_die_are_averages_in_another_order() -> None:
    problems = sums.problems(4, 6)
    truths = [sum(problem.data) % 10 for problem in problems]
    single = [sums.answer_distribution(p)[t] for p, t in zip(problems, truths, strict=True)]
    assert process_accuracy(problems, 1) == pytest.approx(np.mean(single))
    assert one_die_accuracy(problems, 1) == pytest.approx(np.mean(single))
    exact = [
        majority_accuracy(sums.answer_distribution(p), 8, t)
        for p, t in zip(problems, truths, strict=True)
    ]
    assert process_accuracy(problems, 8) == pytest.approx(np.mean(exact))
    assert one_die_accuracy(problems[:1], 8) == pytest.approx(exact[0])


def test_figures_show_what_they_are_given() -> None:
    fig = heat_map(["a", "b"], ["1", "2", "4"], [[0, 0.5, 1], [0.25, 0.5, 0.75]], "T", "N")
    assert [text.get_text() for text in fig.axes[0].texts][:3] == ["0.00", "0.50", "1.00"]
    fig = before_after_vote([0.2, 0.6, 0.7], [0.1, 0.9, 0.7])
    labels = [text.get_text() for text in fig.axes[0].get_legend().get_texts()]
    assert labels == ["vote no worse (2)", "vote worse (1)"]
