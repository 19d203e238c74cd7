"""Exercise 15.4, whose random numbers a row of a batch draws."""

from collections.abc import Callable
from typing import Any

from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.values import as_text, difference
from lablib.course.lessons.edges import refuse_changes
from lablib.course.lessons.lesson_15.found import found

import numpy as np


def draw_rows(probs, seeds, steps):
    """Return one token for each row of a batch, as a list.

    probs: (B, V), each row sums to 1.   seeds: the seed of each request, whole numbers from 0.
    steps: how many tokens each request has drawn before, whole numbers from 0.
    A row's token depends on its own probabilities, seed and step, and on nothing else: a request
    writes the same text alone, in any batch and in any place. Other seeds and steps: other numbers.
    """
    tokens = []
    for row, seed, step in zip(probs, seeds, steps, strict=True):
        u = np.random.default_rng([seed, step]).random()
        tokens.append(min(int(np.searchsorted(np.cumsum(row), u, "right")), len(row) - 1))
    return tokens


DRAW_FOUND = """    rng = np.random.default_rng([seeds[0], steps[0]])
    return [int(rng.choice(len(row), p=row)) for row in probs]
"""


def draw_with_choice(probs, seeds, steps):
    keys = zip(steps, seeds, strict=True)
    rngs = [np.random.default_rng(np.random.SeedSequence(key)) for key in keys]
    return [rng.choice(len(row), p=row) for rng, row in zip(rngs, probs, strict=True)]


def _drawn(probs, numbers):
    """Draw by these numbers from 0 to 1, one for each row."""
    pairs = zip(probs, numbers, strict=True)
    return [min(int(np.searchsorted(np.cumsum(p), u, "right")), len(p) - 1) for p, u in pairs]


def _number(*key):
    return np.random.default_rng(key).random()


def first_rows_seed(probs, seeds, steps):
    rng = np.random.default_rng([seeds[0], steps[0]])
    return _drawn(probs, rng.random(len(probs)))


def one_number(probs, seeds, steps):
    return _drawn(probs, [_number(sum(seeds), sum(steps))] * len(probs))


def seed_and_row(probs, seeds, steps):
    return _drawn(
        probs, [_number(s, t, i) for i, (s, t) in enumerate(zip(seeds, steps, strict=True))]
    )


def seed_plus_step(probs, seeds, steps):
    return _drawn(probs, [_number(seed + step) for seed, step in zip(seeds, steps, strict=True)])


def seed_times_step(probs, seeds, steps):
    return _drawn(probs, [_number(seed * step) for seed, step in zip(seeds, steps, strict=True)])


def seed_alone(probs, seeds, steps):
    return _drawn(probs, [_number(seed) for seed in seeds])


def step_alone(probs, seeds, steps):
    return _drawn(probs, [_number(step) for step in steps])


def no_seed(probs, seeds, steps):
    return _drawn(probs, np.random.default_rng().random(len(probs)))


def the_best(probs, seeds, steps):
    return [int(np.argmax(row)) for row in probs]


def probabilities_unread(probs, seeds, steps):
    return _drawn(np.full(np.shape(probs), 1 / len(probs[0])), [*map(_number, seeds, steps)])


_WIDE = 1000  # tokens of equal chance: two draws agree by chance once in so many times


def _flat(rows: int) -> np.ndarray:
    return np.full((rows, _WIDE), 1 / _WIDE)


def _tokens(function: Callable[..., Any], probs: np.ndarray, seeds: Any, steps: Any) -> list[int]:
    got = function(probs, list(seeds), list(steps))
    problem = difference([0] * len(probs), np.zeros(len(probs)) if got is None else got, np.inf)
    if problem:
        raise Wrong(f"{problem}, for a batch of {len(probs)} rows")
    tokens = [int(token) for token in got]
    if not all(0 <= token < probs.shape[1] for token in tokens):
        raise Wrong(f"tokens must be 0 to {probs.shape[1] - 1}, got {as_text(tokens)}")
    return tokens


def _check_draw(function: Callable[..., Any]) -> None:
    """Ask for what a seed must keep, from the plainest property to the finest."""
    draw = lambda *batch: _tokens(function, *batch)  # noqa: E731
    seeds, steps = [7, 8, 9, 7, 30, 1], [3, 3, 3, 4, 0, 12]
    wide = draw(_flat(6), seeds, steps)
    if draw(_flat(6), seeds, steps) != wide:
        raise Wrong("the same batch gave other tokens the second time", like="no_seed")
    _one_row_apart(draw)
    for i in range(6):
        alone = draw(_flat(1), [seeds[i]], [steps[i]])[0]
        if alone != wide[i]:
            like = "seed_and_row" if i else None
            raise Wrong(
                f"seed {seeds[i]}, step {steps[i]}: token {alone} alone, {wide[i]} as row {i} of "
                "six. A text must not depend on its neighbours.",
                like=like,
            )
    _streams_apart(draw)
    _by_probability(draw)
    refuse_changes(function)


def _one_row_apart(draw: Callable[..., list[int]]) -> None:
    """Change the seed or the step of the last row: its token must follow, the others must not."""
    before = [draw(_flat(3), [5, 6, seed], [2, 2, 2]) for seed in range(8)]
    if len({row[2] for row in before}) == 1:
        same = all(row[0] == row[1] == row[2] for row in before)
        raise Wrong(
            "eight batches in which only the last row's seed differs: it drew the same token in "
            "all of them",
            like=("step_alone" if before[0][0] else "the_best") if same else "first_rows_seed",
        )
    if len({(row[0], row[1]) for row in before}) > 1:
        raise Wrong(
            "eight batches in which only the last row's seed differs: the *other* rows drew other "
            "tokens each time",
            like="one_number",
        )


def _streams_apart(draw: Callable[..., list[int]]) -> None:
    """No seed's numbers may come again: at another step, or under another seed."""
    stream = {seed: draw(_flat(12), [seed] * 12, range(12)) for seed in (0, 40, 41)}
    if len({*stream[40]}) < 6:
        raise Wrong("twelve steps of seed 40 draw from the same number", like="seed_alone")
    if len({*draw(_flat(12), range(50, 62), [0] * 12)}) < 6:
        raise Wrong("at step 0 twelve seeds draw from the same number", like="seed_times_step")
    if len({*stream[0]}) < 6:
        raise Wrong("twelve steps of seed 0 draw from the same number", like="seed_times_step")
    if stream[40][1:] == stream[41][:-1]:
        raise Wrong(
            "seed 41 writes what seed 40 writes, one step later: the two are one stream",
            like="seed_plus_step",
        )


def _by_probability(draw: Callable[..., list[int]]) -> None:
    """Draw 2,000 tokens; six standard errors are exceeded by chance less than once in 10⁸."""
    p = np.array([0.05, 0.6, 0.0, 0.35])
    tokens = draw(np.tile(p, (2000, 1)), range(100, 2100), [5] * 2000)
    seen = np.bincount(tokens, minlength=4) / 2000
    if np.all(np.abs(seen - p) <= 6 * np.sqrt(p * (1 - p) / 2000)):
        return
    like = "probabilities_unread" if seen[2] else None
    raise Wrong(f"2,000 seeds drew {as_text(seen)} where the shares are {as_text(p)}", like=like)


DRAW_ROWS = Exercise(
    id="15.4",
    title="One seed for all rows",
    task=(
        "The code as found draws a whole batch from the first request's seed. Each request asked "
        "for its own. Give every row numbers that are its own, whatever stands beside it."
    ),
    stars=2,
    minutes=10,
    reference=draw_rows,
    starter=found(draw_rows, DRAW_FOUND),
    alternatives=[draw_with_choice],
    wrong={
        first_rows_seed: (
            "the row's own seed plays no part: all rows draw from the first one's. Who asked for "
            "seed 8 gets another text in each batch."
        ),
        one_number: "one random number serves the whole batch, and changes with every neighbour.",
        seed_and_row: (
            "the row's place is part of its key: the same request writes another text when it "
            "stands elsewhere."
        ),
        seed_plus_step: "seed + step gives neighbouring seeds the same numbers, one step apart.",
        seed_times_step: "seed × step is 0 for every seed at step 0, and always for seed 0.",
        seed_alone: "each step starts the seed's numbers anew: one number serves the whole text.",
        step_alone: "the seed plays no part: every request draws the same number at a step.",
        no_seed: "an unseeded generator: the seed was there so that a text can be had again.",
        the_best: "that is the best token, whatever the seed: draw one.",
        probabilities_unread: "the tokens are drawn, but without asking for their probabilities.",
    },
    checker=_check_draw,
    hints=[
        "What may a row's random number depend on? Name two things; the place is not one.",
        "np.random.default_rng([seed, step]).random() for each row: a hash of both, not a sum.",
    ],
    next="Eight samples of one request have one seed. What must their key hold besides the step?",
)
