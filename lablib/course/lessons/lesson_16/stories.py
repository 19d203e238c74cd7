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
from typing import Any

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
    model, tokenizer = lablib.load("target")
    values, valid, different, tokens = [], 0, 0, 0
    for place, problem in enumerate(world.problems):
        written: list[list[int]] = [[] for _ in range(ROWS)]

        def draw(step: int, rows: list[int], logits: np.ndarray, place: int = place,
                 written: list[list[int]] = written) -> Sequence[int]:  # fmt: skip
            probs = as_chances(odds(logits.copy(), [list(written[row]) for row in rows]), logits)
            u = uniforms(NAME, world.seed, place, step, size=ROWS)[rows]
            drawn = by_chance(probs, u).tolist()
            for row, token in zip(rows, drawn, strict=True):
                written[row].append(token)
            return drawn

        prompts = [tokenizer.encode(problem.prompt)] * ROWS
        ids, logprobs = write(model, prompts, draw, LONGEST, tokenizer.eos_token_id)
        good, stop = set(), tokenizer.eos_token_id
        texts = [tokenizer.decode([token for token in row if token != stop]) for row in ids]
        for row, text, chances in zip(ids, texts, logprobs, strict=True):
            if row[-1] == stop and min(chances) >= np.log(LEAST) and stories.check(problem, text):
                good.add(first_sentence(text))
                valid += 1
        different += len({first_sentence(text) for text in texts})
        tokens += sum(map(len, ids))
        values.append(len(good) / ROWS)
    total = ROWS * len(world.problems)
    return Score.of(NAME, values, valid=valid / total, different=different / total, tokens=tokens)


def oracle(world: World) -> Score:
    """Return what a writer gets who draws from the model, and keeps only what counts.

    It writes ``MORE`` times as many stories as count, so that it is no sampler: a ceiling that was
    reached, and 1 where each opening has twelve different valid stories.
    """
    model, tokenizer = lablib.load("target")
    values, stop, n = [], tokenizer.eos_token_id, MORE * ROWS
    for place, problem in enumerate(world.problems):

        def draw(step: int, rows: list[int], logits: np.ndarray, place: int = place) -> Any:
            u = uniforms(NAME, "oracle", world.seed, place, step, size=n)[rows]
            return by_chance(softmax(logits, axis=1), u).tolist()

        ids, logs = write(model, [tokenizer.encode(problem.prompt)] * n, draw, LONGEST, stop)
        good = {
            first_sentence(text)
            for row, chances in zip(ids, logs, strict=True)
            for text in [tokenizer.decode([token for token in row if token != stop])]
            if row[-1] == stop and min(chances) >= np.log(LEAST) and stories.check(problem, text)
        }
        values.append(min(ROWS, len(good)) / ROWS)
    return Score.of(NAME, values, written=n * len(world.problems))


def first_sentence(text: str) -> str:
    """Return what a story begins with, up to its first full stop."""
    return text.partition(".")[0]


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
