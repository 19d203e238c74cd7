"""Hunt 15.5: a seed today, and the same seed tomorrow."""

import itertools
from collections.abc import Callable
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.values import as_text
from lablib.course.lessons.edges import refuse_changes
from lablib.course.lessons.lesson_15.found import STILL, as_found

import numpy as np


def serve(requests, most):
    """Return the text of each request, a list of tokens from 0 to 999, all equally likely.

    requests: (seed, length) of each, a seed of any size; they are served in this order.
    most: how many are served at a time; when one ends, the next one joins.
    A seed and a length say which text it is, whoever is served before or beside it. Other seeds
    give unrelated texts.
    """
    waiting = [*enumerate(requests)]
    texts = [[] for _ in requests]
    active, rngs = [], {}
    while waiting or active:
        while waiting and len(active) < most:
            place, (seed, length) = waiting.pop(0)
            rngs[place] = np.random.default_rng(seed)
            active.append((place, length))
        going_on = []
        for place, length in active:
            if len(texts[place]) < length:
                texts[place].append(int(1000 * rngs[place].random()))
                going_on.append((place, length))
        active = going_on
    return texts


DRAWN, SEEDED = "rngs[place].random()", "rngs[place] = np.random.default_rng(seed)"
SERVE_FOUND, SERVE_STARTER = as_found(
    serve,
    ("active, rngs = [], {}", "active, rng = [], None"),
    (SEEDED, "rng = np.random.default_rng(seed)"),
    (DRAWN, "rng.random()"),
)


def serve_one_by_one(requests, most):
    texts = []
    for seed, length in requests:
        rng = np.random.default_rng([seed, 15])
        texts.append(rng.integers(0, 1000, length))
    return texts


def _by(name: str, *key: str) -> Any:
    """Return ``serve`` with a number that is a hash of what ``key`` says, made anew each time."""
    new = f"np.random.default_rng([{', '.join(key)}]).random()"
    return changed(serve, name, DRAWN, new)


OWN, STEP = "requests[place][0]", "len(texts[place])"
serve_by_hash = _by("serve_by_hash", OWN, STEP)
SERVED = {
    SERVE_FOUND: STILL,
    changed(serve, "first_seed_for_all", SEEDED,
            "rngs[place] = rngs[0] if place else np.random.default_rng(seed)"): (
        "one generator, with the first request's seed: the seeds of the others play no part."
    ),
    _by("place_in_the_key", OWN, STEP, "place"): (
        "the place in the list is part of the key: the same request writes another text when it "
        "stands elsewhere."
    ),
    _by("seed_plus_step", f"{OWN} + {STEP}"): (
        "seed + step: neighbouring seeds draw the same numbers, some steps apart."
    ),
    _by("seed_times_step", f"{OWN} * {STEP}"): "seed × step is 0 at step 0, whatever the seed.",
    _by("seed_or_step", f"{OWN} ^ {STEP}"): (
        "seed ^ step: seed 8 at step 1 is seed 9 at step 0. Neighbours share their numbers."
    ),
    _by("digits_in_a_row", f"int(str({OWN}) + str({STEP}))"): (
        "the digits in a row: seed 1 at step 10 is seed 11 at step 0. A pair is not a number."
    ),
    _by("thousands", f"1000 * {OWN} + {STEP}"): (
        "1000 · seed + step: at step 1000 a text goes on with the next seed's. A pair is not a "
        "number."
    ),
    _by("seed_alone", OWN): "each step begins anew: one number serves the whole text.",
    _by("step_alone", STEP): "the seed plays no part: all requests draw the same at a step.",
    changed(serve, "no_randomness", DRAWN, f"((0.618034 * {OWN} + 0.754878 * {STEP}) % 1)"): (
        "from one token to the next the number grows by the same amount: nothing here is random, "
        "and who knows one token knows the rest."
    ),
}  # fmt: skip


def _served(function: Callable[..., Any], requests: list[Any], most: int) -> list[list[int]]:
    answer = function(requests, most)
    try:
        texts = [[int(token) for token in text] for text in answer]
    except (TypeError, ValueError):
        raise Wrong(f"serve({requests}, {most}) must return lists, got {as_text(answer)}") from None
    if len(texts) != len(requests):
        fault = f"{len(texts)} texts for {len(requests)} requests"
    else:
        fault = next(filter(None, map(_odd, requests, texts)), "")
    if fault:
        raise Wrong(
            f"serve({as_text(requests)}, {most}) must return as many tokens as each request wants, "
            f"0 to 999, got {fault}"
        )
    return texts


def _odd(request: tuple[int, int], text: list[int]) -> str:
    """Return what is wrong with a text's tokens, whatever they should be."""
    if len(text) != request[1]:
        return f"{len(text)} tokens for {request}"
    outside = [token for token in text if not 0 <= token < 1000]
    return f"the token {outside[0]} for {request}" if outside else ""


BATCHES = [
    ([(8, 4)], 1), ([(7, 4), (8, 4)], 2), ([(8, 4), (7, 4)], 2), ([(7, 2), (9, 3), (8, 4)], 2),
    ([(8, 4), (8, 4)], 2), ([(8, 4), (0, 0), (3, 1)], 1), ([(8, 2), (8, 4), (8, 3)], 2),
]  # fmt: skip


def _check_serve(function: Callable[..., Any]) -> None:
    """Ask for what a seed promises, from the plainest to the finest."""
    first = _served(function, *BATCHES[0])
    if _served(function, *BATCHES[0]) != first:
        raise Wrong(
            "serve([(8, 4)], 1), called twice, wrote two texts: either nothing is seeded, or "
            "something outlives the call"
        )
    for requests, most in BATCHES[1:]:
        for request, text in zip(requests, _served(function, requests, most), strict=True):
            if request == (8, 4) and text != first[0]:
                raise Wrong(
                    f"serve([(8, 4)], 1)   writes {first[0]}\n"
                    f"serve({requests}, {most}): there (8, 4) writes {text}",
                    like=_alike(function),
                )
    if fault := _related(function):
        raise Wrong(fault, like=_alike(function))
    refuse_changes(function)


def _alike(function: Callable[..., Any]) -> str | None:
    """Return the mistake that writes the very same texts, if one does."""
    asked = [*BATCHES, ([(8, 12), (9, 12), (1, 12), (0, 12)], 3)]
    theirs = [_served(function, *each) for each in asked]
    for wrong in SERVED:
        if all(_served(wrong, *each) == text for each, text in zip(asked, theirs, strict=True)):
            return wrong.__name__
    return None


SEEDS = [*range(41), 100, 101, *(10**n for n in (3, 4, 5, 6, 9)), 2**16 + 8, 2**32 + 8]
SEEDS += [2**60, 2**60 + 1, 2**64 + 8, 2**31 + 7, 2**61 + 7]  # for `hash` the last one is 8


def _always(tokens: list[int]) -> int:
    """Return by how much each token is more than the one before it, or -1 if that is no rule."""
    steps = np.diff(tokens) % 1000
    return int(np.bincount(steps).argmax()) if len({*steps.tolist()}) < 10 else -1


def _related(function: Callable[..., Any]) -> str:
    """Return how texts of different seeds are related, or nothing.

    Right answers fail by chance less than once in 10⁶ times.
    """
    long = {0: 1100, 1: 141}  # seed 1 and length 141: the digits of seed 11 and length 41
    wanted = [(seed, long.get(seed, 41)) for seed in SEEDS]
    texts = dict(zip(SEEDS, _served(function, wanted, 4), strict=True))
    for seed, text in texts.items():
        more = _always(text[:41])
        if more >= 0:
            return (
                f"seed {seed} writes {as_text(text[:8])}: from token to token it is always "
                f"{more} more, but for rounding"
            )
    for a, b in itertools.combinations(SEEDS, 2):
        common = {*texts[a][:16]} & {*texts[b][:16]}
        if len(common) >= 8:
            return f"seeds {a} and {b} have {len(common)} of their first 16 tokens in common"
    for step in range(16):
        more = _always([texts[seed][step] for seed in range(41)])
        if more >= 0:
            return f"at step {step} it is always {more} more from seed to seed, but for rounding"
        seen = {text[step] for text in texts.values()}
        if len(seen) < len(SEEDS) // 2:
            return f"at step {step} {len(SEEDS)} seeds write only {len(seen)} different tokens"
    where: dict[tuple[int, ...], tuple[int, int, int]] = {}
    shorter = [(seed, 60 - seed) for seed in range(20, 41)]  # seed + length is 60
    others = zip(range(20, 41), _served(function, shorter, 4), strict=True)
    for seed, text in [*texts.items(), *others]:
        for at in range(len(text) - 3):
            before = where.setdefault((*text[at : at + 4],), (seed, at, len(text)))
            again = before[1] != at and before[2] == len(text)  # in one text
            if before[0] != seed or again:
                return (
                    f"{(seed, len(text))} writes {text[at : at + 4]} from step {at} on, as "
                    f"{before[::2]} does from step {before[1]} on"
                )
    shares = np.bincount(np.concatenate([*texts.values()]) // 100, minlength=10)
    total = shares.sum()
    if np.abs(shares - total / 10).max() > 6 * np.sqrt(total * 0.09):
        return f"of {total} tokens {as_text(shares)} lie in the ten hundreds: not alike"
    many = np.concatenate(_served(function, [(seed, 40) for seed in range(200, 700)], 4))
    for token in (0, 999):
        if token not in many:
            return f"of {len(many)} tokens none is {token}: 0 to 999 must all be likely"
    if (seen := len(np.unique(many))) < 990:
        return f"{len(many)} tokens are only {seen} different ones: 0 to 999 must all be likely"
    return ""


SERVE = Exercise(
    id="15.5",
    title="Monday and Tuesday (further)",
    task=(
        "*Report.* “On Monday seed 8 gave us a text that we liked. On Tuesday, "
        "with the same one, it was another. At night, when we are alone, it is Monday's again.”\n\n"
        "Compare `serve([(8, 4)], 1)` with longer lists, served two at a time. Find the line, and "
        "mend it."
    ),
    stars=2,
    minutes=10,
    reference=serve,
    starter=SERVE_STARTER,
    alternatives=[serve_one_by_one, serve_by_hash],
    wrong=SERVED,
    checker=_check_serve,
    hints=[
        "How many generators are there, and who makes them anew?",
        "What may a random number depend on? The seed and the step; not the place, not the others.",
    ],
    next="Eight samples of one request have one seed. What must their numbers depend on, too?",
)
