"""Capstone *stories*: a sampler whose stories are valid, and all different.

For each opening twelve stories are written side by side. A student's ``odds`` gives the chances of
the next token in each; the game draws, with random numbers that are the same for everybody. What
counts is how many *different valid* stories come of it; stories that begin with the same sentence
are not different. So a low temperature doesn't pay: it tells one story again and again. Nor does a
high one: its stories are not valid.

A token must be one that the model could have written: where its own probability is below ``LEAST``
the story is void. Who brings stories along instead of sampling them gains little by it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import lablib
from lablib.course.lessons.lesson_16.scores import Foul, Score
from lablib.course.lessons.lesson_16.texts import by_chance, number, uniforms, write
from lablib.course.tasks import Problem, stories

import numpy as np
from scipy.special import softmax

NAME, FUNCTION = "stories", "odds"
OPENINGS, ROWS, LONGEST = 8, 12, 64
LEAST = 1e-4
MORE = 3  # times as many stories are written by who may choose
Odds = Callable[[np.ndarray, list[list[int]]], Any]


@dataclass(frozen=True)
class World:
    """The openings that a seed gives, and what the drawing depends on."""

    seed: int
    problems: list[Problem]


class Told(NamedTuple):
    """A story, whether it is valid, and how many tokens it took."""

    text: str
    valid: bool
    tokens: int

    @property
    def first(self) -> str:
        """Return what it begins with, up to its first full stop."""
        return self.text.partition(".")[0]


@lru_cache(maxsize=6)
def world(seed: int, openings: int = OPENINGS) -> World:
    """Return the openings of a seed."""
    return World(seed, stories.problems(number(NAME, seed), openings))


def baseline(logits: np.ndarray, texts: list[list[int]]) -> np.ndarray:
    """Return the model's own chances: temperature 1, nothing cut. The baseline."""
    return softmax(logits, axis=1)


def play(odds: Odds, world: World) -> Score:
    """Let ``odds`` write twelve stories for each opening, and count the different valid ones.

    Args:
        odds: ``odds(logits (B, V), texts) -> chances (B, V)``; ``texts`` are the ids that each
            unfinished row has written so far, and each row of the chances sums to 1.
        world: from :func:`world`.

    Raises:
        Foul: what it returned are no chances.
    """
    values, valid, different, tokens = [], 0, 0, 0
    for place in range(len(world.problems)):
        written = tell(odds, world, place)
        good = [story.first for story in written if story.valid]
        valid += len(good)
        different += len({story.first for story in written})
        tokens += sum(story.tokens for story in written)
        values.append(len({*good}) / ROWS)
    total = ROWS * len(world.problems)
    return Score.of(NAME, values, valid=valid / total, different=different / total, tokens=tokens)


def tell(
    odds: Odds, world: World, place: int, n: int = ROWS, key: tuple[str, ...] = (NAME,)
) -> list[Told]:
    """Return the stories that ``odds`` writes for one opening of a world.

    Args:
        odds: as in :func:`play`.
        world: from :func:`world`.
        place: of the opening.
        n: how many stories.
        key: begins that of their random numbers.
    """
    model, tokenizer = lablib.load("target")
    problem, stop = world.problems[place], tokenizer.eos_token_id
    written: list[list[int]] = [[] for _ in range(n)]

    def draw(step: int, rows: list[int], logits: np.ndarray) -> Sequence[int]:
        probs = as_chances(odds(logits.copy(), [list(written[row]) for row in rows]), logits)
        u = uniforms(*key, world.seed, place, step, size=n)[rows]
        drawn = by_chance(probs, u).tolist()
        for row, token in zip(rows, drawn, strict=True):
            written[row].append(token)
        return drawn

    ids, logprobs = write(model, [tokenizer.encode(problem.prompt)] * n, draw, LONGEST, stop)
    told = []
    for row, chances in zip(ids, logprobs, strict=True):
        text = tokenizer.decode([token for token in row if token != stop])
        ended = row[-1] == stop and min(chances) >= np.log(LEAST)
        told.append(Told(text, ended and stories.check(problem, text), len(row)))
    return told


def oracle(world: World) -> Score:
    """Return what a writer gets who draws from the model, and keeps only what counts.

    It writes ``MORE`` times as many stories as count, so that it is no sampler: a ceiling that was
    reached, and 1 where each opening has twelve different valid stories.
    """
    values, n = [], MORE * ROWS
    for place in range(len(world.problems)):
        told = tell(baseline, world, place, n, (NAME, "oracle"))
        good = {story.first for story in told if story.valid}
        values.append(min(ROWS, len(good)) / ROWS)
    return Score.of(NAME, values, written=n * len(world.problems))


def as_chances(found: Any, logits: np.ndarray) -> np.ndarray:
    """Return what a student's function gave as chances, or say what is wrong with it."""
    try:
        probs = np.asarray(found, dtype=float)
    except (ValueError, TypeError, OverflowError):
        raise Foul(f"odds must return numbers, got {type(found).__name__}") from None
    if probs.shape != logits.shape:
        raise Foul(f"odds must return the shape of its logits, {logits.shape}, got {probs.shape}")
    totals = probs.sum(axis=1)
    if not np.isfinite(probs).all() or probs.min() < 0 or np.abs(totals - 1).max() > 1e-3:
        if np.isfinite(probs).all() and probs.min() < 0:
            raise Foul(f"each row of odds must be chances, from 0 on, got {probs.min():.4g}")
        worst = totals[np.argmax(np.abs(totals - 1))]
        raise Foul(f"each row of odds must be chances that sum to 1, got a sum of {worst:.4g}")
    return probs
