"""The widgets of lesson 06 compute what they say."""

import json
from collections import Counter
from collections.abc import Sequence

from lablib.course.lessons.lesson_06.exact import one_die_accuracy, process_accuracy
from lablib.course.lessons.lesson_06.widgets import Stopping, VoteBars
from lablib.course.replay.curves import Sampled
from lablib.course.tasks import sums
from lablib.course.theory.estimators import majority_accuracy, wilson_interval
from lablib.inference.voting.stopping import StopRule
from lablib.inference.voting.votes import tally

import numpy as np
import pytest
from oracles.drawn import read


def polls(n: int, samples: int = 20, seed: int = 1) -> list[Sampled]:
    rng = np.random.default_rng(seed)
    letters = np.array(["3", "5", "7", None], dtype=object)
    p = [0.5, 0.3, 0.15, 0.05]
    return [Sampled("3", list(rng.choice(letters, samples, p=p))) for _ in range(n)]


def alone(answers: Sequence[str | None]) -> str | None:
    """Return who has more votes than each other one; None if nobody has."""
    counts = Counter(each for each in answers if each is not None)
    best = [each for each, count in counts.items() if count == max(counts.values())]
    return best[0] if len(best) == 1 else None


def test_vote_bars_fill_up_as_the_library_counts() -> None:
    poll = polls(1)[0]
    widget = VoteBars({"one": poll, "two": polls(1, seed=2)[0]})
    assert widget.view.caption == "No votes yet. The right answer is 3."
    for n in range(1, 21):
        data = widget.compute(samples=n, problem="one")
        votes = tally([[0]] * n, poll.answers[:n])
        assert data["leader"] == votes.winner
        lost = bool(data["settled"]) and data["leader"] != "3"
        assert ("So the vote is wrong" in widget.caption(data)) == lost
        counts = {answer: count for answer, (_, count) in zip(votes.answers, votes, strict=True)}
        assert {digit: v for digit, v in data["votes"].items() if v} == counts
        assert [counts[-1] for counts in data["race"].values()] == [*data["votes"].values()]
        assert all(len(counts) == n + 1 for counts in data["race"].values())
        panels = json.loads(json.dumps(widget.draw(data)))["panels"]
        bars, race = (panel["marks"] for panel in panels)
        newest = [mark["bar"][2:] for mark in bars if mark["key"] == "came"]
        came = poll.answers[n - 1]
        assert newest == ([[counts[came] - 1, counts[came]]] if came else [])
        shares = {mark["key"]: mark["text"] for mark in bars if "text" in mark}
        assert shares == {f"s{d}": f"{int(100 * v / n + 0.5)}%" for d, v in counts.items()}
        bars = [mark for mark in bars if "hollow" in mark]
        filled = {bar["key"] for bar in bars if not bar["hollow"]}
        assert filled == {"3", data["leader"]}
        assert [bar["bar"][3] for bar in bars] == [*data["votes"].values()]
        assert [place for place, _ in panels[0]["x"]["ticks"]] == [7, 8, 9, 0, 1, 2, 3, 4, 5, 6]
        said = [mark["rule"]["x"] for mark in race if "x" in mark.get("rule", ())]
        late = n >= 5  # a quarter of 20
        assert said == [data["settled"] or n] * late
        led = [alone(poll.answers[:k]) for k in range(n + 1)]
        since = 1 + max(k for k in range(n) if led[k] != led[n]) if led[n] else 0
        assert data["since"] == since
        two = max(1, sorted(data["votes"].values())[-2])
        named = {mark["label"][1] for mark in race if mark.get("label")}
        assert named == ({d for d, v in data["votes"].items() if v >= two} if late else set())
        level = [mark["rule"]["y"] for mark in race if "y" in mark.get("rule", ())]
        assert (
            level
            == [max(Counter(filter(None, poll.answers[: data["settled"] or n])).values())] * late
        )
    seen = (n for n in range(1, 21) if widget.compute(samples=n, problem="one")["settled"])
    assert data["settled"] == next(seen)
    assert "leads with" in widget.set(samples=20, problem="two")
    misled = VoteBars({"misled": Sampled("3", ["4", "3", "4"])})
    assert "So the vote is wrong" not in misled.set(samples=1)
    assert "So the vote is wrong" in misled.set(samples=3)


def test_vote_bars_may_leave_out_what_the_second_can_reach() -> None:
    plain = VoteBars({"one": polls(1)[0]}, reach=False)
    assert not plain.compute(20, "one")["settled"]
    _, race = plain.draw(plain.compute(20, "one"))["panels"]
    assert not {key for mark in race["marks"] for key in mark} & {"area", "rule"}
    assert "cannot lose" not in plain.set(samples=20)
    assert len(plain.constants["keys"]) == 3


@pytest.mark.parametrize("confidence", [0.7, 0.95, 0.99])
@pytest.mark.parametrize("shared", [False, True])
def test_stopping_replays_the_stop_rule(confidence: float, shared: bool, monkeypatch) -> None:
    problems = polls(12)
    rule = StopRule(confidence)
    if not shared:
        monkeypatch.setattr(StopRule, "allowed_risk", lambda rule, n: 1 - rule.confidence)
    used, right, kept = [], [], []
    for problem in problems:
        for drawn in range(1, 21):
            votes = tally([[0]] * drawn, problem.answers[:drawn])
            counts = Counter(each for each in problem.answers[:drawn] if each is not None)
            if drawn == 20 or rule.reason([*counts.values()], drawn, 20):
                break
        used.append(drawn)
        right.append(votes.winner == problem.truth)
        kept.append(votes.winner == tally([[0]] * 20, problem.answers).winner)
    data = Stopping(problems).compute(confidence=confidence, shared=shared)
    assert data["used"].tolist() == used
    assert data["accuracy"] == pytest.approx(np.mean(right))
    assert data["kept"] == pytest.approx(np.mean(kept))
    assert len(data["changed"]) == len(kept) - sum(kept)
    groups = {}
    for n in range(min(used), max(used) + 1):
        those = [not same for drawn, same in zip(used, kept, strict=True) if drawn <= n]
        groups[n] = len(those), sum(those)
    widget = Stopping(problems)
    assert {n: (of, others) for n, of, others, _ in widget.lost(data)} == groups
    sure = widget.lost(widget.compute(confidence=1.0, shared=shared))
    assert [each[2:] for each in sure] == [(0, 0)] * len(sure)  # none of them could have lost


def test_what_a_promise_is_about_is_drawn_with_its_interval() -> None:
    widget = Stopping(polls(40))
    data = widget.compute(confidence=0.9, shared=False)
    first, of, others, _ = widget.lost(data)[0]
    stopped, lost = read(widget.draw(data))
    said = f"stopped after {first} samples"
    (now,) = (mark["bar"] for mark in stopped if said in mark.get("note", ""))
    assert now[3] - now[2] == pytest.approx(of / 40)
    (line,) = (mark["line"] for mark in lost if "line" in mark)
    n, share, low, high = line[0]
    assert (n, share) == (first, others / of)
    least, most = wilson_interval(others, of)
    assert (low, high) == pytest.approx((least, min(most, widget._top)))
    assert next(mark["text"] for mark in lost if "text" in mark) == f"{others / of:.1%}"
    assert [mark["rule"]["y"] for mark in lost if "rule" in mark] == [0.1]
    sure = read(widget.draw(widget.compute(confidence=1.0, shared=False)))[1][0]["line"]
    assert {tuple(point[1:]) for point in sure} == {(0, 0, 0)}


def test_the_certain_rule_changes_no_winner() -> None:
    widget = Stopping(polls(12))
    data = widget.compute(confidence=1.0, shared=False)
    assert data["accuracy"] == np.mean(widget._right[:, -1])  # as the full vote
    assert data["kept"] == 1
    assert data["used"].mean() < 20
    assert "of 20 samples, on average; 91.7% elect" in widget.set(confidence=0.8)
    assert read(widget.draw(data))


def test_process_and_one_die_are_averages_in_another_order() -> None:
    problems = sums.problems(4, 6)
    truths = [sum(problem.data) % 10 for problem in problems]
    single = [sums.answer_distribution(p)[t] for p, t in zip(problems, truths, strict=True)]
    assert process_accuracy(problems, 1) == pytest.approx(np.mean(single))
    assert one_die_accuracy(problems, 1) == pytest.approx(np.mean(single))
    chances = map(sums.answer_distribution, problems)
    exact = [majority_accuracy(p, 8, t) for p, t in zip(chances, truths, strict=True)]
    assert process_accuracy(problems, 8) == pytest.approx(np.mean(exact))
    assert one_die_accuracy(problems[:1], 8) == pytest.approx(exact[0])
