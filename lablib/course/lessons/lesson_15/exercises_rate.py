"""Exercise 15.2, what a system counts: the rate at which drafts are accepted."""

from collections.abc import Iterator
from typing import Any

from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges
from lablib.course.lessons.lesson_15.found import found

import numpy as np


def acceptance_rate(rounds):
    """Return the share of all drafts that were accepted, from 0 to 1; 0.0 if nothing was drafted.

    rounds: a list of (drafted, written), two lists of tokens. `written` is what the round added to
        the text: the accepted drafts, then a token of the target's own, which differs from the
        draft that it replaces. In the last round the text may end before that token.
    """
    accepted = 0
    for drafted, written in rounds:
        for draft, token in zip(drafted, written, strict=False):
            if draft != token:
                break
            accepted += 1
    total = sum(len(drafted) for drafted, _ in rounds)
    return accepted / total if total else 0.0


RATE_FOUND = """    accepted = sum(len(written) for _, written in rounds)
    total = sum(len(drafted) for drafted, _ in rounds)
    return accepted / total if total else 0.0
"""


def rate_by_prefixes(rounds):
    kept = [
        max(n for n in range(len(drafted) + 1) if list(drafted[:n]) == list(written[:n]))
        for drafted, written in rounds
    ]
    return sum(kept) / max(1, sum(len(drafted) for drafted, _ in rounds))


def _share(rounds, count, size=lambda drafted, written: len(drafted)):
    total = sum(size(drafted, written) for drafted, written in rounds)
    return sum(count(d, w) for d, w in rounds) / total if total else 0.0


def _kept(drafted, written):
    return round(acceptance_rate([(drafted, written)]) * len(drafted))


def all_written(rounds):
    return _share(rounds, lambda drafted, written: len(written))


def one_less(rounds):
    return _share(rounds, lambda drafted, written: len(written) - 1)


def capped(rounds):
    return min(1.0, all_written(rounds))


def capped_each(rounds):
    return _share(rounds, lambda drafted, written: min(len(drafted), len(written)))


def anywhere(rounds):
    return _share(rounds, lambda drafted, written: len({*drafted} & {*written}))


def mean_of_rounds(rounds):
    rates = [_kept(d, w) / len(d) for d, w in rounds if d]
    return sum(rates) / len(rates) if rates else 0.0


def whole_rounds(rounds):
    return _share(rounds, lambda d, w: _kept(d, w) == len(d), lambda d, w: 1)


def of_the_text(rounds):
    return _share(rounds, _kept, lambda drafted, written: len(written))


def of_the_reached(rounds):
    return _share(rounds, _kept, lambda d, w: min(len(d), _kept(d, w) + 1))


def nothing_divides(rounds):
    return sum(_kept(d, w) for d, w in rounds) / sum(len(drafted) for drafted, _ in rounds)


def _round(rng: np.random.Generator, drafted: int, kept: int, own: bool = True) -> Any:
    drafts = rng.integers(0, 30, drafted).tolist()
    if not own:
        return drafts, drafts[:kept]
    refused = drafts[kept] if kept < drafted else -1
    earlier = [token for token in drafts[:kept] if token != refused]
    token = earlier[0] if earlier else (refused + 1) % 30  # a token may well come twice
    return drafts, [*drafts[:kept], token]


def _histories(rng: np.random.Generator) -> Iterator[tuple[list[Any]]]:
    yield ([([3, 5], [3, 5, 8])],)
    yield ([([3, 5], [4]), ([6, 7], [6, 7])],)
    for sizes in (((4, 4), (4, 1), (2, 0)), ((3, 0), (1, 1), (5, 2)), ((0, 0), (4, 3), (4, 2))):
        yield ([_round(rng, *size) for size in sizes],)
    yield ([_round(rng, 6, 2), _round(rng, 3, 3), _round(rng, 5, 3, own=False)],)


def _short_histories(rng: np.random.Generator) -> Iterator[tuple[list[Any]]]:
    yield ([],)
    yield ([([], [4]), ([], [7])],)
    yield ([([3], [])],)  # the text was full before the round wrote anything
    yield ([([3, 3, 3], [3, 3, 3, 3])],)
    yield ([([3, 4, 3], [3, 3])],)
    yield ([_round(rng, 8, int(rng.integers(0, 9))) for _ in range(60)],)


ACCEPTANCE_RATE = Exercise(
    id="15.2",
    title="More than all of them",
    task=(
        "A model that drafts for itself keeps every draft, and the code as found reports a rate "
        "above 1. Say what share of the *drafts* was accepted."
    ),
    stars=1,
    minutes=7,
    reference=acceptance_rate,
    starter=found(acceptance_rate, RATE_FOUND),
    alternatives=[rate_by_prefixes],
    wrong={
        all_written: (
            "you count every token that a round wrote. The last one is the target's own, a "
            "correction or a bonus: nobody drafted it."
        ),
        one_less: (
            "you take one off in each round. In the last round the text may end before the "
            "target's own token, and then an accepted draft is missing."
        ),
        capped: "a cap at 1 hides the mistake where it is seen, and leaves it everywhere else.",
        capped_each: (
            "each round is capped at its drafts. That is right when all were kept; after a "
            "refusal the correction still counts as an accepted draft."
        ),
        anywhere: (
            "you count the tokens that both lists share, at any place. A draft is accepted at its "
            "own place, and only if all before it were."
        ),
        mean_of_rounds: (
            "you average the rates of the rounds. A round of one draft then counts as much as a "
            "round of eight: divide the totals."
        ),
        whole_rounds: "that is the share of rounds in which *all* drafts were kept.",
        of_the_text: (
            "you divide by the tokens written. That share of the text is another number, and it "
            "can't reach 1."
        ),
        of_the_reached: (
            "you divide by the drafts that were *reached*. That is α, the chance of one draft; "
            "the drafts after a refusal were drafted too."
        ),
        nothing_divides: "with nothing drafted it divides by 0; the answer then is 0.0.",
    },
    cases=_histories,
    checker=edges(_short_histories),
    hints=[
        "Walk through both lists side by side, as far as they agree.",
        "In each round count the equal pairs before the first unequal one; divide by all drafts.",
    ],
    next="Which of two systems is faster can't be read from their rates. What can it be read from?",
)
