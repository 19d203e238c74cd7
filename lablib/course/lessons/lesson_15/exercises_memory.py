"""Exercises 15.1 and 15.3, what a system remembers: rows of a batch, slots of a ring."""

from collections.abc import Iterator
from typing import Any

from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges
from lablib.course.lessons.lesson_15.found import found

import numpy as np

# ------------------------------------------------------------------ 15.1 zeroed keys


def attend(queries, keys, values, lengths):
    """Return what each row's newest token reads from its own past, (B, d).

    queries: (B, d).   keys, values: (B, T, d): a batch after a round of speculation.
    lengths: how many tokens of each row stay, 1 to T. What is behind them was refused, and no
        token may see it.
    """
    stays = np.arange(keys.shape[1]) < np.asarray(lengths)[:, None]
    scores = np.einsum("bd,btd->bt", queries, keys) / np.sqrt(keys.shape[2])
    scores = np.where(stays, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = weights / weights.sum(axis=1, keepdims=True)
    return np.einsum("bt,btd->bd", weights, values)


ATTEND_FOUND = """    stays = np.arange(keys.shape[1]) < np.asarray(lengths)[:, None]
    keys, values = keys * stays[..., None], values * stays[..., None]
    scores = np.einsum("bd,btd->bt", queries, keys) / np.sqrt(keys.shape[2])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = weights / weights.sum(axis=1, keepdims=True)
    return np.einsum("bt,btd->bd", weights, values)
"""


def attend_row_by_row(queries, keys, values, lengths):
    rows = []
    for query, key, value, n in zip(queries, keys, values, lengths, strict=True):
        scores = key[:n] @ query / len(query) ** 0.5
        weights = np.exp(scores - np.max(scores))
        rows.append(weights @ value[:n] / weights.sum())
    return np.array(rows)


def _softmax(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _attended(queries, keys, values, change):
    """Attend with ``change(scores)`` in place of the scores."""
    scores = np.einsum("bd,btd->bt", queries, keys) / np.sqrt(keys.shape[2])
    return np.einsum("bt,btd->bd", _softmax(change(scores)), values)


def _stays(keys, lengths):
    return np.arange(keys.shape[1]) < np.asarray(lengths)[:, None]


def zeroed(queries, keys, values, lengths):
    stays = _stays(keys, lengths)[..., None]
    return _attended(queries, keys * stays, values * stays, lambda scores: scores)


def keys_only(queries, keys, values, lengths):
    return _attended(queries, keys * _stays(keys, lengths)[..., None], values, lambda s: s)


def values_only(queries, keys, values, lengths):
    return _attended(queries, keys, values * _stays(keys, lengths)[..., None], lambda s: s)


def a_little_below(queries, keys, values, lengths):
    stays = _stays(keys, lengths)
    return _attended(queries, keys, values, lambda scores: np.where(stays, scores, -10.0))


def shortest_for_all(queries, keys, values, lengths):
    return attend(queries, keys, values, [min(lengths)] * len(lengths))


def longest_for_all(queries, keys, values, lengths):
    return attend(queries, keys, values, [max(lengths)] * len(lengths))


def one_more(queries, keys, values, lengths):
    return attend(queries, keys, values, [n + 1 for n in lengths])


def newest_instead(queries, keys, values, lengths):
    stays = _stays(keys, lengths)[:, ::-1]
    return _attended(queries, keys, values, lambda scores: np.where(stays, scores, -np.inf))


def scale_forgotten(queries, keys, values, lengths):
    return attend(queries * np.sqrt(keys.shape[2]), keys, values, lengths)


def _ragged(rng: np.random.Generator, spread: float, shapes: Any) -> Iterator[tuple[Any, ...]]:
    for tokens, lengths in shapes:
        rows = len(lengths)
        queries = spread * rng.normal(size=(rows, 4))
        yield queries, *rng.normal(size=(2, rows, tokens, 4)), lengths


def _rollbacks(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield from _ragged(rng, 2.0, [(3, [1, 2]), (5, [5, 2]), (9, [4, 8, 6]), (6, [1, 6, 3, 5])])
    yield from _ragged(rng, 20.0, [(6, [4, 2, 5])])  # scores far below -10


def _odd_rollbacks(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield from _ragged(rng, 2.0, [(4, [4, 4]), (1, [1]), (7, [1, 1, 1]), (40, [12, 33])])
    yield from _ragged(rng, 2000.0, [(6, [3, 6])])  # e to the score overflows
    same = rng.normal(size=(1, 5, 4))
    yield np.zeros((2, 4)), np.repeat(same, 2, 0), np.repeat(same[:, ::-1], 2, 0), [2, 5]


ATTEND = Exercise(
    id="15.1",
    title="The keys that were zeroed",
    task=(
        "Two texts of a batch keep different numbers of drafts, but their cache is one rectangle. "
        "The code as found writes zeros over the refused keys and values, and goes on. Mend it."
    ),
    stars=1,
    minutes=8,
    reference=attend,
    starter=found(attend, ATTEND_FOUND),
    alternatives=[attend_row_by_row],
    wrong={
        zeroed: (
            "the refused keys are zero and still take part: their score is 0, and e⁰ = 1 stands "
            "in the sum below the line. A score that counts for nothing is −∞."
        ),
        keys_only: "the refused keys are zeroed, and now their *values* come in, at weight e⁰.",
        values_only: (
            "the refused values are zeroed, but their keys take weight away from the others: the "
            "weights of what stays no longer sum to 1."
        ),
        a_little_below: "−10 is a score that real keys can have too. Only −∞ is below all of them.",
        shortest_for_all: (
            "all rows are cut to the shortest: a row that kept more drafts loses tokens of its own."
        ),
        longest_for_all: "the shorter rows still see refused drafts: each row has its length.",
        one_more: "one refused draft still takes part in each row.",
        newest_instead: "you mask the oldest tokens; the refused ones stand at the end of a row.",
        scale_forgotten: "the scores are no longer divided by √d.",
    },
    cases=_rollbacks,
    checker=edges(_odd_rollbacks),
    hints=[
        "What is the score of a zeroed key? And e to that score?",
        "Leave keys and values as they are. scores = np.where(stays, scores, -np.inf), before the "
        "softmax.",
    ],
    next="Run the widget of hunt 1 again. For which scores does a zeroed key do least harm?",
)

# ------------------------------------------------------------------ 15.3 a ring that has wrapped


def take_back(ring, read, back):
    """Return (held, again) after the last `back` tokens were taken back, 0 <= back <= read.

    ring: a list of slots, at least one; it was given the tokens at positions 0 ... read - 1, one
        by one, the token at `position` into slot position % len(ring).
    held: the tokens that the ring should hold now and still has, oldest first. It should hold the
        last len(ring) of those that stay.
    again: how many that it should hold are gone, and must be read again.
    """
    stays = read - back
    wanted = range(max(0, stays - len(ring)), stays)
    held = [ring[at % len(ring)] for at in wanted if at >= read - len(ring)]
    return held, len(wanted) - len(held)


RING_FOUND = """    stays = read - back
    wanted = range(max(0, stays - len(ring)), stays)
    return [ring[at % len(ring)] for at in wanted], 0
"""


def take_back_in_order(ring, read, back):
    turn = read % len(ring) if read > len(ring) else 0
    in_order = (list(ring[turn:]) + list(ring[:turn]))[:read]
    held = in_order[: max(0, len(in_order) - back)]
    return held, min(len(ring), read - back) - len(held)


def counters_only(ring, read, back):
    stays = read - back
    return [ring[at % len(ring)] for at in range(max(0, stays - len(ring)), stays)], 0


def nothing_left(ring, read, back):
    if back and read > len(ring):
        return [], min(len(ring), read - back)
    return take_back(ring, read, back)


def asked_too_late(ring, read, back):
    if read - back <= len(ring):
        return counters_only(ring, read, back)
    return take_back(ring, read, back)


def as_the_slots_lie(ring, read, back):
    gone = {at % len(ring) for at in range(max(0, read - back), read)}
    held = [t for slot, t in enumerate(ring) if slot < read and slot not in gone]
    return held, take_back(ring, read, back)[1]


def oldest_go(ring, read, back):
    held, again = take_back(ring, read, back)
    return (take_back(ring, read, 0)[0][back:], again) if held else (held, again)


def nothing_gone(ring, read, back):
    return take_back(ring, read, back)[0], 0


def as_many_as_back(ring, read, back):
    return take_back(ring, read, back)[0], back


def whole_window(ring, read, back):
    held = take_back(ring, read, back)[0]
    return held, len(ring) - len(held)


def one_more_lost(ring, read, back):
    stays, size = read - back, len(ring)
    wanted = range(max(0, stays - size), stays)
    held = [ring[at % size] for at in wanted if at > read - size]
    return held, len(wanted) - len(held)


def _rings(rng: np.random.Generator) -> Iterator[tuple[list[int], int, int]]:
    for size, read, back in (
        (4, 3, 1), (4, 4, 2), (4, 5, 1), (4, 6, 2), (4, 9, 3), (3, 9, 5), (6, 20, 4), (5, 7, 4),
    ):  # fmt: skip
        yield _filled(rng, size, read), read, back


def _odd_rings(rng: np.random.Generator) -> Iterator[tuple[list[int], int, int]]:
    for size, read, back in (
        (4, 9, 0), (4, 9, 9), (4, 0, 0), (4, 4, 4), (1, 5, 1), (1, 5, 2), (4, 9, 4), (4, 6, 5),
        (16, 100, 7), (16, 17, 16), (16, 15, 0), (4, 4, 0),
    ):  # fmt: skip
        yield _filled(rng, size, read), read, back


def _filled(rng: np.random.Generator, size: int, read: int) -> list[int]:
    ring = [0] * size
    for position, token in enumerate(rng.integers(1, 100, read).tolist()):
        ring[position % size] = token
    return ring


TAKE_BACK = Exercise(
    id="15.3",
    title="A ring that has wrapped",
    task=(
        "The code as found steps back by moving its counter. That is right until the ring has "
        "wrapped; then the slots of older tokens hold the refused ones. Return what is really "
        "still there, and how much must be read again."
    ),
    stars=2,
    minutes=10,
    reference=take_back,
    starter=found(take_back, RING_FOUND),
    alternatives=[take_back_in_order],
    wrong={
        counters_only: (
            "only the counter moves. Once the ring has wrapped, the refused tokens lie in the "
            "slots of older ones, and come back as if they were those."
        ),
        nothing_left: (
            "once the ring has wrapped you give everything up. That is safe, and reads again what "
            "is still there."
        ),
        asked_too_late: (
            "you ask whether the ring has wrapped *after* going back. What counts is how far it "
            "had read: a token that was taken back has overwritten another one all the same."
        ),
        as_the_slots_lie: "the right tokens, in the order of the slots, not of the text.",
        oldest_go: "you drop the oldest tokens; the ones to take back are the newest.",
        nothing_gone: "what you hold is right, but what is missing must be read again: count it.",
        as_many_as_back: (
            "not every token taken back leaves a hole: before the ring was full they overwrote "
            "nothing, and no more can be missing than the ring should hold."
        ),
        whole_window: "a short text doesn't fill the ring: only tokens that exist can be missing.",
        one_more_lost: "the oldest slot still holds what it should: from read - len(ring).",
    },
    cases=_rings,
    checker=edges(_odd_rings),
    hints=[
        "Two questions for each position: should the ring hold it? Has its slot been overwritten?",
        "Position `at` is still there if at >= read - len(ring), with `read` from before.",
    ],
    next="mlx-lm refuses instead of returning `again`. What must its caller do then?",
)
