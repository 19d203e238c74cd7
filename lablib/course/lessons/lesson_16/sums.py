"""Capstone *sums*: the best vote under a token budget.

Samples cost tokens, and the budget is one for all problems. A student's ``vote`` sees what a
problem's samples answered and how sure the model was of each of their tokens, and says: this is the
answer, or: one more. It never sees the problem, so it can't add the digits itself.

The samples were drawn before anybody voted: they are the same for everybody, and whoever asks for
more than is left has spent what the later problems needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import lablib
from lablib.course.lessons.lesson_16.scores import Foul, Score
from lablib.course.lessons.lesson_16.texts import by_chance, number, uniforms, write
from lablib.course.tasks import sums

import numpy as np
from scipy.special import softmax

NAME, FUNCTION = "sums", "vote"
PROBLEMS, POOL, LONGEST = 48, 16, 48
AT_ONCE = 48  # rows of a batch: their keys and values are what takes memory
EACH = 5  # samples a problem that the budget pays for, on average
Sample = tuple[str | None, list[float]]
Vote = Callable[[list[Sample], int, int], Any]


@dataclass(frozen=True)
class World:
    """The problems of a seed.

    Attributes:
        samples: of each problem, in the order in which they are handed out: (answer, logprobs).
        truths: the right answers.
        budget: tokens for all problems together.
    """

    samples: list[list[Sample]]
    truths: list[str]
    budget: int


@lru_cache(maxsize=6)
def world(seed: int, problems: int = PROBLEMS) -> World:
    """Draw the samples of a seed at temperature 1."""
    model, tokenizer = lablib.load("target")
    asked = sums.problems(number(NAME, seed), problems)
    prompts = [tokenizer.encode(problem.prompt) for problem in asked for _ in range(POOL)]
    stop = tokenizer.eos_token_id
    ids: list[list[int]] = []
    logprobs: list[list[float]] = []
    for first in range(0, len(prompts), AT_ONCE):

        def draw(step: int, rows: list[int], logits: np.ndarray, first: int = first) -> Any:
            u = uniforms(NAME, seed, step, size=len(prompts))[first:][rows]
            return by_chance(softmax(logits, axis=1), u)

        part = write(model, prompts[first : first + AT_ONCE], draw, LONGEST, stop)
        ids, logprobs = ids + part[0], logprobs + part[1]
    answers = [sums.extract(tokenizer.decode([t for t in row if t != stop])) for row in ids]
    samples = [*zip(answers, logprobs, strict=True)]
    truths = [str(sum(problem.data) % 10) for problem in asked]
    cost = sum(map(len, ids)) / len(ids)
    pools = [samples[i * POOL : (i + 1) * POOL] for i in range(problems)]
    return World(pools, truths, round(EACH * cost * problems))


def baseline(votes: list[Sample], left: int, problems: int) -> str:
    """Ask for five samples of every problem and take the most frequent answer. The baseline."""
    if len(votes) < EACH and left:
        return "more"
    answers = [answer for answer, _ in votes if answer is not None]
    return max(answers, key=answers.count, default="0")


def play(vote: Vote, world: World) -> Score:
    """Hand out samples until each problem has its answer, or the budget is spent.

    Args:
        vote: ``vote(samples, left, problems)``: the samples so far as (answer or None, logprobs),
            the tokens left for this problem and all later ones, and how many problems those are.
            It returns the answer, a text, or "more" for one more sample. When no sample can be had
            ``left`` is 0, and "more" is no answer.
        world: from :func:`world`.

    Raises:
        Foul: what it returned is no text.
    """
    left, right, spent, drawn = world.budget, [], 0, 0
    for place, (pool, truth) in enumerate(zip(world.samples, world.truths, strict=True)):
        votes: list[Sample] = []
        later = len(world.truths) - place
        while True:
            more = len(votes) < len(pool) and len(pool[len(votes)][1]) <= left
            answer = vote(
                [(text, list(chances)) for text, chances in votes], left if more else 0, later
            )
            if not isinstance(answer, str):
                raise Foul(f"vote must return a text, got {type(answer).__name__}")
            if answer != "more" or not more:
                break
            votes.append(pool[len(votes)])
            left -= len(votes[-1][1])
        right.append(answer == truth)
        spent, drawn = world.budget - left, drawn + len(votes)
    return Score.of(NAME, right, samples=drawn / len(right), tokens=spent, budget=world.budget)


def oracle(world: World) -> Score:
    """Return what a vote gets that knows the answers, and where in a pool each comes first.

    It draws up to there, the cheapest problems first, as long as the budget lasts: no vote that
    sees these samples under this budget is right more often.
    """
    prices: list[tuple[int, int]] = []
    for place, (pool, truth) in enumerate(zip(world.samples, world.truths, strict=True)):
        first = next((i for i, (answer, _) in enumerate(pool) if answer == truth), None)
        if first is not None:
            prices.append((sum(len(chances) for _, chances in pool[: first + 1]), place))
    right, left = [0.0] * len(world.truths), world.budget
    for price, place in sorted(prices):
        if price <= left:
            right[place], left = 1.0, left - price
    return Score.of(NAME, right, tokens=world.budget - left, budget=world.budget)


def ceiling(world: World) -> float:
    """Return the share of problems whose pool holds the right answer at all."""
    pairs = zip(world.samples, world.truths, strict=True)
    return float(np.mean([any(answer == truth for answer, _ in pool) for pool, truth in pairs]))
