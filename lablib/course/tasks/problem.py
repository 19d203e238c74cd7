"""The parts that tasks share: a problem, the train/test split, and a skewed choice.

A document is ``prompt + answer``. A stable hash of what the prompt is about sends one document in
ten to the held-out side: :func:`held_out` decides, training never sees such a prompt, and every
evaluation problem is one.
"""

import random
import re
import zlib
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from lablib.validation import BadType, BadValue

Span = tuple[int, int, str]


@dataclass(frozen=True)
class Problem:
    """One exercise for a language model.

    Attributes:
        prompt: the text the model is given.
        answer: one valid completion (often one of very many); no special tokens.
        task: ``"stories"``, ``"sums"`` or ``"edits"``.
        data: what the prompt says, in a form the checker understands.
    """

    prompt: str
    answer: str
    task: str
    data: tuple | None = None


def words(text: str) -> tuple[str, ...]:
    """Return the words of ``text``: a short way to write a list of them."""
    return tuple(text.split())


def expect(task: str, problem: Problem, text: str) -> None:
    """Refuse a problem of another task, or a completion that is not text."""
    if not isinstance(problem, Problem):
        raise BadType(f"problem must be a Problem, got {type(problem).__name__}")
    if problem.task != task:
        raise BadValue(
            f"problem must be one of lablib.course.tasks.{task}, got one of {problem.task}"
        )
    if not isinstance(text, str):
        raise BadType(f"text must be the completion as a str, got {type(text).__name__}")


def generator(task: str, purpose: str, seed: int) -> random.Random:
    """Return a generator of random numbers of its own for every (task, purpose, seed).

    Seeding with text goes through SHA-512, so the streams are unrelated and the same everywhere.
    """
    return random.Random(f"lablib {task} {purpose} {seed}")


def held_out(key: str) -> bool:
    """Tell whether the prompt that ``key`` stands for is kept from training (one in ten is)."""
    return zlib.crc32(b"lablib" + key.encode()) % 10 == 0


@cache
def _cumulative(count: int) -> list[float]:
    return list(accumulate(1.0 / (rank + 1) for rank in range(count)))


def skewed_choice(options: Sequence[str], rng: random.Random) -> str:
    """Choose one option with probability proportional to 1/rank (Zipf's law), the first most often.

    Natural text is skewed like this; and a clear favourite gives a large and a small model the same
    greedy choice, as between equals each would pick by accident.
    """
    if len(options) == 1:
        return options[0]
    weights = _cumulative(len(options))
    return options[bisect(weights, rng.random() * weights[-1])]


def fill_gaps(spans: Iterator[Span] | Sequence[Span], length: int, default: str) -> list[Span]:
    """Return sorted ``spans`` as a partition of ``[0, length)``; the gaps are ``default``."""
    full, position = [], 0
    for start, end, name in spans:
        if start > position:
            full.append((position, start, default))
        full.append((start, end, name))
        position = end
    if position < length:
        full.append((position, length, default))
    return full


def prompt_of(document: str) -> str:
    """Return the prompt of a training document: a story's first sentence, or up to the colon."""
    match = re.match(r"sum [^:]*:|edit: [^:]*:|[^.]*\.", document)
    if match is None:
        raise BadValue(f"document must begin with the prompt of a task, got {document[:40]!r}")
    return match[0]
