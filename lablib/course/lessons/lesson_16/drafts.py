"""Capstone *drafts*: one drafter for stories, sums and edits, whose own work is paid for.

The target writes at temperature 0. Before each of its calls a student's ``propose`` may draft what
comes next. A draft stays if it is what the target writes, and so does no other: the text is the
target's own, whatever is drafted. A round writes the kept drafts and one token more.

What counts is how many tokens come for the price of a call. A round costs one call, and what the
drafter worked for it, in quarters of a call: work below a quarter is free, so that the score does
not depend on the machine, but a drafter that asks a model pays for it.

There is no q to give: a draft that was looked up is certain. Claims about it could gain nothing.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import lablib
from lablib.cache import kv
from lablib.course.lessons.lesson_16.scores import Foul, Score
from lablib.course.lessons.lesson_16.texts import number, write
from lablib.course.replay.measure import clock
from lablib.course.tasks import TASKS
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import NGram
from lablib.inference.speculation.drafter import Drafter, Limits, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.validation import shown

import mlx.core as mx

NAME, FUNCTION = "drafts", "propose"
PROBLEMS, LIMIT, LONGEST = 24, 8, 48
PARTS = 4  # of a call: work is paid for in such parts
Propose = Callable[[list[int], list[int], int], Any]


@dataclass(frozen=True)
class World:
    """The problems of a seed: prompts, and the target's text after each, as ids."""

    prompts: list[list[int]]
    texts: list[list[int]]


@lru_cache(maxsize=6)
def world(seed: int, problems: int = PROBLEMS) -> World:
    """Let the target write its texts, at temperature 0; as many of each task."""
    model, tokenizer = lablib.load("target")
    prompts = [
        tokenizer.encode(problem.prompt)
        for name, task in TASKS.items()
        for problem in task.problems(number(NAME, seed, name), -(-problems // len(TASKS)))
    ][:problems]
    texts: list[list[int]] = [[] for _ in prompts]
    for length in {*map(len, prompts)}:
        rows = [row for row, prompt in enumerate(prompts) if len(prompt) == length]
        asked = [prompts[row] for row in rows]
        written, _ = write(
            model, asked, lambda step, at, p: p.argmax(axis=1), LONGEST, tokenizer.eos_token_id
        )
        for row, text in zip(rows, written, strict=True):
            texts[row] = text
    return World(prompts, texts)


@cache
def call_seconds() -> float:
    """Return how long the target takes on this machine to read ``LIMIT + 1`` tokens."""
    model, _ = lablib.load("target")
    now, times = clock(), []
    past = kv.make(model)
    mx.eval(model(mx.array([[1] * 32]), cache=past))
    for _ in range(9):
        began = now()
        mx.eval(model(mx.array([[1] * (LIMIT + 1)]), cache=past))
        times.append(now() - began)
        kv.trim(past, LIMIT + 1)
    return statistics.median(times)


def baseline(prompt: list[int], written: list[int], limit: int) -> list[int]:
    """Propose what followed the last tokens where they stood before. The baseline."""
    return NGram().begin(None, None, 1).lookup([*prompt, *written], limit)


def play(propose: Propose, world: World, call: float | None = None) -> Score:
    """Count the calls that the texts of a world take with these drafts, and add the drafter's work.

    Args:
        propose: ``propose(prompt, written, limit)``: ids of the prompt, ids written so far, and how
            many ids it may return, perhaps 0.
        world: from :func:`world`.
        call: seconds that a call of the target takes; measured when None.

    Raises:
        Foul: it returned something else than at most ``limit`` ids.
    """
    work = Work(propose)
    values, drafted, kept, calls = [], 0, 0, 0
    for prompt, text in zip(world.prompts, world.texts, strict=True):
        written, rounds = 0, 0
        while written < len(text):
            limit = min(LIMIT, LONGEST - written - 1)
            drafts = as_ids(work(list(prompt), text[:written], limit), limit)
            same = 0
            while same < len(drafts) and text[written + same : written + same + 1] == [
                drafts[same]
            ]:
                same += 1
            drafted, kept, rounds = drafted + len(drafts), kept + same, rounds + 1
            written += same + 1
        values.append(len(text) / rounds)
        calls += rounds
    call = call_seconds() if call is None else call
    price = 1 + int(PARTS * work.seconds() / (calls * call)) / PARTS
    rate = kept / drafted if drafted else 0.0
    parts = {"calls": calls, "drafted": drafted, "acceptance_rate": rate, "price": price}
    return Score.of(NAME, [value / price for value in values], **parts)


def oracle(world: World) -> Score:
    """Return what a drafter gets that knows the target's texts, and finds them for nothing.

    Each call then writes nine tokens, eight drafts and one more, until a text ends.
    """
    rounds = [-(-len(text) // (LIMIT + 1)) for text in world.texts]
    values = [len(text) / calls for text, calls in zip(world.texts, rounds, strict=True)]
    return Score.of(NAME, values, calls=sum(rounds))


class Work:
    """A drafter, and the seconds that it works.

    One in another process says itself how long that has worked: ``worked()``.
    """

    def __init__(self, propose: Propose) -> None:
        self._propose, self._clock, self._own = propose, clock(), 0.0
        self._worked = getattr(propose, "worked", None)
        self._before = self._worked() if self._worked else 0.0

    def __call__(self, *case: Any) -> Any:
        """Ask the drafter."""
        began = self._clock()
        try:
            return self._propose(*case)
        finally:
            self._own += self._clock() - began

    def seconds(self) -> float:
        """Return how long it has worked."""
        return self._worked() - self._before if self._worked else self._own


def as_ids(found: Any, limit: int) -> list[int]:
    """Return what a student's function gave as ids, or say what is wrong with it."""
    try:
        given = list(found)
        ids = [int(token) for token in given]
        whole = all(token == each for token, each in zip(ids, given, strict=True))
    except (TypeError, ValueError):
        inside = "".join(f" that begins with a {type(each).__name__}" for each in _some(found)[:1])
        what = "texts" if _texts(found) else type(found).__name__ + inside
        raise Foul(f"propose must return a list of ids, got {what}") from None
    except OverflowError:  # an infinite one
        raise Foul(f"propose must return ids, whole numbers from 0, got {shown(found)}") from None
    if _texts(found):
        raise Foul("propose must return a list of ids, got texts")
    if not whole or min(ids, default=0) < 0:
        raise Foul(f"propose must return ids, whole numbers from 0, got {shown(given[:LIMIT])}")
    if len(ids) > limit:
        raise Foul(f"propose must return at most {limit} ids, got {len(ids)}")
    return ids


def _texts(found: Any) -> bool:
    return isinstance(found, str) or any(isinstance(each, str) for each in _some(found))


def _some(found: Any) -> list[Any]:
    return list(found)[:LIMIT] if isinstance(found, list | tuple) else []


class Written(Drafter):
    """A student's ``propose`` as the engine's drafter, for one text.

    Args:
        propose: as in :func:`play`.
        prompt: the ids that the text begins with.
    """

    batches = False

    def __init__(self, propose: Propose, prompt: Sequence[int]) -> None:
        self._propose, self._prompt = propose, list(prompt)

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Ask the student's function."""
        (text,), (limit,) = texts, limits
        written = list(text)[len(self._prompt) :]
        return Proposal.of([as_ids(self._propose(list(self._prompt), written, limit), limit)])
