"""Exercise 14.4: how many texts a second keep what was promised of them."""

from collections.abc import Iterator
from itertools import pairwise

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np


def goodput(texts, to_first, between):
    """Return how many texts a second keep both promises.

    texts: of each, at least one, (asked, times): the second when it was asked for, and those when
        its tokens came, in order, at least one.
    to_first: a promise: the first token comes at most so many seconds after the text was asked for.
    between: the other: from the first token to the last one, a token takes at most so many seconds
        on average. A text of one token keeps it.
    The time is that from when the first text was asked for to the last token of all; it isn't 0.
    """
    kept = 0
    for asked, times in texts:
        mean = (times[-1] - times[0]) / max(len(times) - 1, 1)
        kept += times[0] - asked <= to_first and mean <= between
    begin = min(asked for asked, _ in texts)
    return kept / (max(times[-1] for _, times in texts) - begin)


def goodput_by_arrays(texts, to_first, between):
    asked = np.array([start for start, _ in texts])
    first, last = np.array([(times[0], times[-1]) for _, times in texts]).T
    steps = np.array([len(times) - 1 for _, times in texts])
    good = (first - asked <= to_first) & (last - first <= between * steps)
    return good.sum() / (last.max() - asked.min())


def only_the_texts_time(texts, to_first, between):
    kept = busy = 0
    for asked, times in texts:
        mean = (times[-1] - times[0]) / max(len(times) - 1, 1)
        kept += times[0] - asked <= to_first and mean <= between
        busy += times[-1] - asked
    return kept / busy


def each_gap(texts, to_first, between):
    kept = 0
    for asked, times in texts:
        longest = max((b - a for a, b in pairwise(times)), default=0)
        kept += times[0] - asked <= to_first and longest <= between
    begin = min(asked for asked, _ in texts)
    return kept / (max(times[-1] for _, times in texts) - begin)


def _days(rng: np.random.Generator) -> Iterator[tuple[list, float, float]]:
    yield [(0.0, [1.0, 2.0, 3.0])], 1.0, 1.0  # just kept, both
    yield [(0.0, [2.0, 3.0])], 1.0, 1.0  # the first came late
    yield [(0.0, [1.0, 4.0])], 1.0, 1.0  # the second did
    yield [(0.0, [1.0, 1.5, 3.0])], 1.0, 1.0  # one gap is longer, the mean is not
    yield [(1.0, [2.0, 3.0]), (0.0, [4.0, 8.0])], 2.0, 1.0  # a promise is broken from the start
    yield [(3.0, [4.0, 5.0]), (2.0, [3.0, 9.0]), (5.0, [6.0, 7.0])], 1.0, 1.0
    yield [(2.0, [3.0]), (4.0, [7.0]), (2.5, [3.0, 3.5, 5.0])], 1.0, 0.5  # one token
    yield [(2.0, [2.0, 4.0, 8.0]), (3.0, [9.0, 10.0])], 0.0, 3.0
    for size in (3, 8, 20):
        texts = []
        for _ in range(size):
            asked = float(rng.integers(0, 40)) / 4
            gaps = rng.integers(1, 9, size=int(rng.integers(2, 7))) / 4
            texts.append((asked, (asked + np.cumsum(gaps)).tolist()))
        yield texts, 1.0, 1.25


def _ends(rng: np.random.Generator) -> Iterator[tuple[list, float, float]]:
    yield [(0.0, [9.0])], 1.0, 1.0  # nobody's promise is kept
    yield [(5.0, [6.0]), (4.0, [5.0])], 1.0, 0.0
    yield [(0, [1, 2]), (0, [1, 3])], 1, 1


PROMISES = Exercise(
    id="14.4",
    title="Goodput",
    task=(
        "A text that comes too late is of no use, though its tokens count as throughput. Count "
        "the texts that keep two promises, on the first token and on those behind it, a second."
    ),
    stars=1,
    minutes=8,
    reference=goodput,
    alternatives=[goodput_by_arrays],
    wrong={
        changed(goodput, "counts_all", "times[0] - asked <= to_first and mean <= between", "1"): (
            "all texts are counted, late ones as well: that is throughput."
        ),
        changed(goodput, "either_promise", "to_first and mean", "to_first or mean"): (
            "one promise is enough for you: a text has to keep both."
        ),
        changed(goodput, "divides_by_tokens", "max(len(times) - 1, 1)", "len(times)"): (
            "n tokens have n - 1 gaps between them: your mean is too small."
        ),
        changed(goodput, "from_the_asking", "(times[-1] - times[0]) /", "(times[-1] - asked) /"): (
            "the wait for the first token is in your mean, too: it has a promise of its own."
        ),
        changed(goodput, "from_zero", "min(asked for asked, _ in texts)", "0"): (
            "the time begins when the first text was asked for, not at 0."
        ),
        changed(goodput, "clock_time", "times[0] - asked <= to_first", "times[0] <= to_first"): (
            "the first token's time is compared as it is: the wait counts from the asking."
        ),
        changed(
            goodput,
            "a_share",
            "(max(times[-1] for _, times in texts) - begin)",
            "len(texts)",
        ): "that is the share of texts that keep them: asked for is a number a second.",
        only_the_texts_time: (
            "the seconds of all texts are added up: they run side by side, so the clock's count."
        ),
        each_gap: "you ask it of each gap: the promise is on their mean.",
        changed(goodput, "just_missed", "<= to_first", "< to_first"): (
            "a first token that comes exactly as promised is in time: at most, not less."
        ),
    },
    cases=_days,
    checker=edges(_ends),
    hints=[
        "For each text two comparisons: `times[0] - asked`, and the mean of the gaps behind it.",
        "(times[-1] - times[0]) / (len(times) - 1), if there is a gap. Divide the count by the "
        "seconds from the first `asked` to the last token of all.",
    ],
    next="Which of the two promises does a larger batch break first?",
)
