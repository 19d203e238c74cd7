"""Texts of the target with what every drafter gave their tokens, and what the engine counted.

``workshop.acceptance`` makes such a recording; here it is read.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lablib.course.replay.rounds import guesses_of_ngram
from lablib.course.replay.sampled import RULES, Texts, looked_up, room, spread
from lablib.inference.speculation import NGram
from lablib.models import zoo
from lablib.validation import BadValue

import numpy as np

FILE = "acceptance.npz"
DRAFT, HEAD, LOOKUP = DRAFTERS = ("draft model", "head", "look-up")
MAX_TOKENS = 72
GAMMA = 4  # of the engine's rounds
COUNTS = ("accepted", "reached", "rounds", "tokens")


@dataclass(frozen=True)
class Recording:
    """Texts of every task and temperature, and the engine's counts.

    Texts stand in the order of task, temperature, problem; ``places`` are all their tokens, one
    text after the other.

    Attributes:
        temperatures: ``(T,)``.
        tasks: their names.
        problems: of each task and temperature.
        tokens: of each text, and its prompt: pairs of lists of ids.
        p: the target's probability of each token ``(places,)``.
        draft: the draft model's, and the chance that both draw it with shared noise
            ``(places, 2)``.
        head: the same of the head, after 0 ... 7 drafts of the round ``(places, LONGEST, 2)``.
        engine: ``COUNTS`` of each task, temperature, rule of ``RULES`` and drafter of ``DRAFTERS``
            with γ = 4, ``(tasks, T, 4, 3, 4)``.
    """

    temperatures: np.ndarray
    tasks: tuple[str, ...]
    problems: int
    tokens: list[tuple[list[int], list[int]]]
    p: np.ndarray
    draft: np.ndarray
    head: np.ndarray
    engine: np.ndarray

    def written(self, task: str, temperature: float) -> tuple[list[int], list[int]]:
        """Return prompt and completion of the first text at this temperature."""
        return self.texts(task, temperature)[0]

    def texts(self, task: str, temperature: float) -> list[tuple[list[int], list[int]]]:
        """Return prompt and completion of each text of a task at this temperature."""
        first = self._first(task) + self.at(temperature) * self.problems
        return self.tokens[first : first + self.problems]

    def at(self, temperature: float) -> int:
        """Return the number of a temperature."""
        return int(np.argmin(np.abs(self.temperatures - temperature)))

    def of(self, temperature: float) -> slice:
        """Return which texts of a task were written at this temperature."""
        first = self.at(temperature) * self.problems
        return slice(first, first + self.problems)

    def along(self, task: str, drafter: str) -> Texts:
        """Return what a drafter gave all texts of a task, one temperature after the other."""
        first, count = self._first(task), len(self.temperatures) * self.problems
        ends = np.cumsum([0, *(len(tokens) for _, tokens in self.tokens)])
        some = slice(ends[first], ends[first + count])
        mine = self.tokens[first : first + count]
        lengths = np.diff(ends)[first : first + count]
        inside = np.arange(lengths.max()) < lengths[:, None]

        def padded(values: np.ndarray) -> np.ndarray:
            whole = np.zeros((*inside.shape, *values.shape[1:]))
            whole[inside] = values[some]
            return whole

        p, limits = padded(self.p), room(lengths, inside.shape[1], MAX_TOKENS)
        if drafter == LOOKUP:
            guesses = [guesses_of_ngram(NGram(), *each) for each in mine]
            offered, q = looked_up(guesses, limits)
            return Texts(lengths, offered, p, q, q * spread(p))
        if drafter == HEAD:
            head = padded(self.head)
            return Texts(lengths, limits, p, head[..., 0], head[..., 1])
        q, both = np.moveaxis(padded(self.draft), -1, 0)
        return Texts(lengths, limits, p, spread(q), spread(both))

    def counted(self, task: str, temperature: float, rule: str, drafter: str) -> dict[str, int]:
        """Return the engine's ``COUNTS``."""
        place = self.tasks.index(task), self.at(temperature), RULES.index(rule)
        values = self.engine[(*place, DRAFTERS.index(drafter))].tolist()
        return dict(zip(COUNTS, values, strict=True))

    def _first(self, task: str) -> int:
        return self.tasks.index(task) * len(self.temperatures) * self.problems


def stored_acceptance(folder: str | Path | None = None) -> Recording:
    """Return the recording that came with the checkpoints, or the one in ``folder``.

    Raises:
        BadValue: there is none.
    """
    path = (Path(folder) if folder is not None else zoo.CHECKPOINTS) / FILE
    if not path.is_file():
        raise BadValue(f"{path} is missing: `python -m lablib evaluate --acceptance` makes it")
    with np.load(path) as stored:
        arrays = dict(stored)
    rows = np.split(arrays.pop("ids").astype(int), np.cumsum(arrays.pop("lengths"))[:-1])
    tokens = [
        (row[:n].tolist(), row[n:].tolist())
        for row, n in zip(rows, arrays.pop("prompts").tolist(), strict=True)
    ]
    wide = {name: arrays[name].astype(np.float64) for name in ("p", "draft", "head")}
    return Recording(
        arrays["temperatures"], tuple(arrays["tasks"].tolist()), int(arrays["problems"]), tokens,
        **wide, engine=arrays["engine"],
    )  # fmt: skip


def probabilities(logits: Any, temperature: float) -> np.ndarray:
    """Return softmax(logits / temperature) in float64; at 0 all for the best token."""
    scores = np.array(logits, np.float64)
    if not temperature:
        return (np.arange(scores.shape[-1]) == scores.argmax(axis=-1)[..., None]).astype(float)
    weights = np.exp((scores - scores.max(axis=-1, keepdims=True)) / temperature)
    return weights / weights.sum(axis=-1, keepdims=True)
