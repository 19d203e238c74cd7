"""Capstone *edits*: a drafter that beats look-up.

The target copies a list with one word replaced. Before each of its calls a student's ``propose``
may draft what comes next. A draft stays if it is what the target writes, and so does no other: at
temperature 0 the text is the target's own, whatever is drafted. A round writes the kept drafts and
one token more; what counts is how many tokens a call writes.

There is no q to give: a draft that was looked up is certain. Claims about it could gain nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import lablib
from lablib.course.lessons.lesson_16.scores import Foul, Score
from lablib.course.lessons.lesson_16.texts import number, write
from lablib.course.tasks import edits
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import NGram
from lablib.inference.speculation.drafter import Drafter, Limits, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.validation import shown

NAME, FUNCTION = "edits", "propose"
PROBLEMS, LIMIT, LONGEST = 24, 8, 40
Propose = Callable[[list[int], list[int], int], Any]


@dataclass(frozen=True)
class World:
    """What a seed gives: prompts, and what the target writes after each, as ids."""

    prompts: list[list[int]]
    texts: list[list[int]]


@lru_cache(maxsize=2)
def world(seed: int, problems: int = PROBLEMS) -> World:
    """Let the target write its texts, at temperature 0."""
    model, tokenizer = lablib.load("target")
    asked = edits.problems(number(NAME, seed), problems)
    prompts = [tokenizer.encode(problem.prompt) for problem in asked]
    stop = tokenizer.eos_token_id
    texts, _ = write(model, prompts, lambda step, rows, p: p.argmax(axis=1), LONGEST, stop)
    return World(prompts, texts)


def baseline(prompt: list[int], written: list[int], limit: int) -> list[int]:
    """Propose what followed the last tokens where they stood before. The baseline."""
    return NGram().begin(None, None, 1).lookup([*prompt, *written], limit)


def play(propose: Propose, world: World) -> Score:
    """Count the target's calls that the texts of a world take with these drafts.

    Args:
        propose: ``propose(prompt, written, limit)``: ids of the prompt, ids written so far, and how
            many ids it may return, perhaps 0.
        world: from :func:`world`.

    Raises:
        Foul: it returned something else than at most ``limit`` ids.
    """
    values, drafted, kept, calls = [], 0, 0, 0
    for prompt, text in zip(world.prompts, world.texts, strict=True):
        written, rounds = 0, 0
        while written < len(text):
            limit = min(LIMIT, LONGEST - written - 1)
            drafts = _ids(propose(list(prompt), text[:written], limit), limit)
            same = 0
            while same < len(drafts) and text[written + same : written + same + 1] == [
                drafts[same]
            ]:
                same += 1
            drafted, kept, rounds = drafted + len(drafts), kept + same, rounds + 1
            written += same + 1
        values.append(len(text) / rounds)
        calls += rounds
    rate = kept / drafted if drafted else 0.0
    return Score.of(NAME, values, calls=calls, drafted=drafted, acceptance_rate=rate)


def _ids(found: Any, limit: int) -> list[int]:
    """Return what a student's function gave as ids, or say what is wrong with it."""
    try:
        ids = [int(token) for token in found]
        whole = all(token == given for token, given in zip(ids, found, strict=True))
    except (TypeError, ValueError):
        raise Foul(f"propose must return a list of ids, got {type(found).__name__}") from None
    except OverflowError:  # an infinite one
        raise Foul(f"propose must return ids, whole numbers from 0, got {shown(found)}") from None
    if not whole or min(ids, default=0) < 0:
        raise Foul(f"propose must return ids, whole numbers from 0, got {ids[:8]}")
    if len(ids) > limit:
        raise Foul(f"propose must return at most {limit} ids, got {len(ids)}")
    return ids


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
        return Proposal.of([_ids(self._propose(list(self._prompt), written, limit), limit)])
