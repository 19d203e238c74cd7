"""Exercise 12.4: what pairs tell of a claim, and what they could have told."""

from collections.abc import Iterator

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np

Pairs = tuple[np.ndarray, np.ndarray, float]


def compared(before, after, factor):
    """Return what pairs tell of the claim that `after` is right more often than `before`.

    before, after: arrays (K,), of each of K >= 2 questions a number from 0 (wrong) to 1 (right).
    factor: so many standard errors lie between the mean gain and each end of its interval.
    Return (low, high, verdict, visible): the interval's ends; "held" if all of it lies above 0,
    "not held" if all of it lies below 0, else "not told apart"; and the gain that such pairs show
    four times in five: factor + 0.84 standard errors.
    """
    gain = after - before
    error = gain.std(ddof=1) / len(gain) ** 0.5
    low, high = gain.mean() - factor * error, gain.mean() + factor * error
    verdict = "held" if low > 0 else "not held" if high < 0 else "not told apart"
    return low, high, verdict, (factor + 0.84) * error


def compared_by_sums(before, after, factor):
    """Return the same, by sums."""
    gains = [float(b) - float(a) for a, b in zip(before, after, strict=True)]
    n, mean = len(gains), sum(gains) / len(gains)
    error = (sum((gain - mean) ** 2 for gain in gains) / (n - 1) / n) ** 0.5
    verdict = "not told apart"
    if mean - factor * error > 0:
        verdict = "held"
    elif mean + factor * error < 0:
        verdict = "not held"
    return mean - factor * error, mean + factor * error, verdict, factor * error + 0.84 * error


def _pairs(rng: np.random.Generator) -> Iterator[Pairs]:
    one = np.array([1, 0, 1, 0, 0, 1, 0, 1], dtype=float)
    vote = np.array([1, 1, 1, 0, 0, 1, 1, 1], dtype=float)
    yield one, vote, 2.36
    yield vote, one, 2.36
    yield one, one, 1.96
    yield np.array([0.0, 0, 0, 1, 0]), np.array([1.0, 1, 1, 1, 1]), 2.0
    yield np.array([1.0, 1, 1, 1, 1]), np.array([0.0, 0, 0, 1, 0]), 2.0
    for k in (12, 30, 40):
        hard = rng.uniform(size=k)  # what questions have in common drops out
        a = (rng.uniform(size=k) > hard).astype(float)
        yield a, np.maximum(a, (rng.uniform(size=k) < 0.3).astype(float)), 1.96


def _odd_pairs(rng: np.random.Generator) -> Iterator[Pairs]:
    yield np.array([0.25, 0.5, 1.0]), np.array([0.5, 0.5, 0.75]), 4.3  # shares of samples
    yield np.array([0.0, 0.0]), np.array([1.0, 1.0]), 12.7  # no spread at all: held
    yield np.array([1.0, 1.0]), np.array([0.0, 0.0]), 12.7
    yield np.array([0.0, 1.0]), np.array([1.0, 0.0]), 1.0
    yield np.array([0.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.0]), 0.5


COMPARED = Exercise(
    id="12.4",
    title="Pairs, and a verdict",
    task=(
        "A row of the table from its pairs: the interval, the verdict, and what so many pairs "
        "could have shown. The lesson's own rows come out of your function then."
    ),
    stars=1,
    minutes=8,
    reference=compared,
    alternatives=[compared_by_sums],
    wrong={
        changed(
            compared,
            "as_if_no_pairs",
            "gain.std(ddof=1) / len(gain) ** 0.5",
            "((after.var(ddof=1) + before.var(ddof=1)) / len(gain)) ** 0.5",
        ): (
            "that is the error of two separate groups. What makes a question easy for both drops "
            "out if you take each question's difference first, and its spread then."
        ),
        changed(
            compared,
            "undecided_is_refuted",
            '"not held" if high < 0 else "not told apart"',
            '"not held"',
        ): (
            "an interval with 0 inside refutes nothing: something smaller than the visible may be "
            "there. Its verdict is *not told apart*."
        ),
        changed(compared, "spread_for_error", " / len(gain) ** 0.5", ""): (
            "that is how far single gains spread. Their mean spreads less, by the root of how many."
        ),
        changed(compared, "spread_of_the_many", "ddof=1", "ddof=0"): (
            "so few gains show too little of their spread: divide by one less than how many there "
            "are (ddof=1)."
        ),
        changed(compared, "seen_half_the_time", "(factor + 0.84)", "factor"): (
            "a true gain of factor errors is seen every second time only: half of all means lie "
            "below it. Four in five lie above 0.84 errors less than the truth."
        ),
        changed(compared, "the_other_way_round", "after - before", "before - after"): (
            "that is the loss: the claim is that *after* is right more often."
        ),
    },
    cases=_pairs,
    checker=edges(_odd_pairs),
    hints=[
        "Take the difference of each question first; all else is about that one array.",
        "The error is the spread of the gains (ddof=1) over the root of how many there are.",
    ],
    next="Of how many questions would your interval be half as wide?",
)
