"""Exercise 14.5: how many requests a server can take, if nobody shall stay too long."""

from collections.abc import Iterator

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np


def most_requests(seconds, stay):
    """Return how many requests a second a server may take, and how many readers are then in it.

    It writes one text at a time, each takes the same time, and requests come at random.

    seconds: that each text takes, more than 0.
    stay: seconds from the asking to the end of the text, on average; at least `seconds`.
    Return a pair: requests a second, and readers in the server on average.
    """
    wait = stay - seconds
    load = wait / (wait + seconds / 2)  # from wait = load / (1 - load) * seconds / 2
    rate = load / seconds
    return rate, rate * stay


def most_by_search(seconds, stay):
    low, high = 0.0, 1.0
    for _ in range(60):
        load = (low + high) / 2
        if load / (1 - load) * seconds / 2 > stay - seconds:
            high = load
        else:
            low = load
    return [low / seconds, stay * low / seconds]


def _servers(rng: np.random.Generator) -> Iterator[tuple[float, float]]:
    yield 2, 3
    yield 2.0, 4.0
    yield 1.0, 10.0
    yield 0.5, 0.75
    yield 0.1, 5.0
    for _ in range(6):
        seconds = float(rng.integers(1, 20)) / 8
        yield seconds, seconds * (1 + float(rng.integers(1, 40)) / 8)


def _ends(rng: np.random.Generator) -> Iterator[tuple[float, float]]:
    yield 2, 2  # nobody may ever wait, and so nobody may come
    yield 0.25, 0.25


WAITING = Exercise(
    id="14.5",
    title="How many may come?",
    task=(
        "Turn the law of waiting round: a text takes some seconds, and readers shall stay no "
        "longer than so many, on average. Say how many requests a second the server may take, and "
        "by Little's law how many readers are then in it."
    ),
    stars=2,
    minutes=8,
    reference=most_requests,
    alternatives=[most_by_search],
    wrong={
        changed(most_requests, "waits_as_long_as_he_stays", "stay - seconds", "stay"): (
            "a stay is the wait *and* the own text: take its seconds off before you ask for a load."
        ),
        changed(most_requests, "a_whole_text_is_left", "seconds / 2)", "seconds)"): (
            "of the text that is running, half is left on average: your half is missing."
        ),
        changed(most_requests, "load_for_rate", "load / seconds", "load"): (
            "that is the load, a share of the time: requests a second are the load over a text's "
            "seconds."
        ),
        changed(most_requests, "always_full", "load / seconds", "1 / seconds"): (
            "so many come that the server is always busy: its load is 1, and nobody's stay ends."
        ),
        changed(most_requests, "only_who_waits", "rate * stay", "rate * wait"): (
            "these are the readers who wait: the one who is being written is in the server, too."
        ),
        changed(most_requests, "load_for_crowd", "rate * stay", "load"): (
            "the load counts those who are being written: those who wait are missing."
        ),
        changed(most_requests, "one_after_the_other", "load / seconds", "1 / stay"): (
            "a request each stay means that nobody comes while another is there: stays overlap."
        ),
    },
    cases=_servers,
    checker=edges(_ends),
    hints=[
        "How long may one wait, if the stay is given? Then solve W = ρ / (1 − ρ) · S / 2 for ρ.",
        "ρ = W / (W + S / 2). Of the load, ρ = λ · S, comes the rate, and of the rate, by Little's "
        "law, the crowd.",
    ],
    next="A second server costs as much again. How many more may come then, at this stay?",
)
