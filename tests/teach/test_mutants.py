"""No exercise accepts its reference changed in one place, unless the change changes nothing."""

import dataclasses

from lablib.course.checks.exercises import exercises, lessons

import mutants
import pytest
from oracles.fake_exercise import SOFTMAX

# (exercise, the changed lines): why accepting them is right.
EXPLAINED = {
    ("03.1", "order = np.argsort(-probs, axis=1)"): (
        "which of two equally probable tokens comes first is not part of the task"
    ),
    ("10.3", "if True:"): "going back although all drafts stay leaves the same state",
    ("10.3", "if accepted <= len(drafts):"): "the same",
    ("12.2", "return numbers * (bits + extra) // 8"): "a cache takes whole bytes",
    **{
        ("15.2", line): "one layer: only the last token's row is read, and it sees all"
        for line in (
            "scores = np.where(np.tri(count, start + count, start) > 0, scores, np.inf)",
            "weights = np.exp(scores - scores.min(axis=-1, keepdims=True))",
        )
    },
    **{
        ("13.2", f"drawn = drawn / drawn.sum() if {always} else drawn"): (
            "0 / 0 warns, and a child of whom NaN is asked is refused, as it must be"
        )
        for always in ("True", "drawn.sum() >= 0", "drawn.sum() > -1")
    },
}


# Whatever beats the baseline of a capstone is right, and many a change of a good answer does.
CAPSTONES = {"16"}
# The text must be right; other drafts, or fewer, and other random numbers are no mistake.
LOOSE = {"15.3", "15.4", "15.5"}


@pytest.mark.slow
@pytest.mark.parametrize("lesson", sorted({*lessons()} - CAPSTONES))
def test_every_survivor_is_explained(lesson):
    asked = [exercise for exercise in exercises(lesson) if exercise.id not in LOOSE]
    found = [one for exercise in asked for one in mutants.search(exercise)]
    calls = {
        (one["exercise"], one["change"].split("  ->  ")[1]): one["call"]
        for one in found
        if one["fate"] == "surviving"
    }
    assert {key: call for key, call in calls.items() if key not in EXPLAINED} == {}
    gone = [key for key in EXPLAINED if key[0].startswith(f"{lesson}.") and key not in calls]
    assert [key for key in gone if "argsort" not in key[1]] == []  # NumPy's is the processor's


def test_a_function_is_changed_in_every_kind_of_place():
    source = (
        "def f(a, b=1):\n    for i in range(a):\n        if a < i and b: a = a[i:-1] + min(a)\n"
    )
    source += "    return np.argmax([a for a in b if a == 0], axis=0)"
    found = mutants.mutants(source)
    assert len(found) == len({*found}) > 30
    for change in (
        "a <= i", "a > i", "or b", "range(a + 1)", "range(a - 1)", "if True", "if False", "max(a)",
        "if not (a < i and b)", "a[:-1]", "a[i:]", "a[i + 1:-1]", "a[i:-1 - 1]", "a[i:1]", "- min",
        "pass", "np.argmin", "a != 0", "a == 1", "[a for a in b]", "for i in a", "axis=1)", "b=0",
    ):  # fmt: skip
        assert any(change in one for one in found), change


def fates(cases):
    exercise = dataclasses.replace(
        SOFTMAX, reference=below, alternatives=[], wrong={}, cases=cases, starter=""
    )
    return [one for one in mutants.judge(exercise) if one["fate"] != "killed"]


def below(numbers, limit):
    """Return how many of the first numbers are below the limit."""
    count = 0
    while count < len(numbers) and numbers[count] < limit:
        count += 1
    return count


def test_a_checker_with_friendly_cases_lets_mutants_live(monkeypatch):
    monkeypatch.setattr(mutants, "SECONDS", 0.3)  # some count for ever
    friendly = fates(lambda rng: [([1.0, 5.0, 2.0], 3.0), ([6.0], 3.0)])
    changes = {one["change"] for one in friendly if one["fate"] == "surviving"}
    assert any("numbers[count] <= limit" in change for change in changes)
    assert all(one["call"].startswith("below(") for one in friendly if one["fate"] == "surviving")
    sharp = [([1.0, 5.0, 2.0], 3.0), ([3.0], 3.0), ([1.0, 2.0], 3.0), ([], 1.0)]
    assert [one["change"] for one in fates(lambda rng: sharp) if one["fate"] == "surviving"] == []
