"""The shipped pair at work: its rounds, and evidence against what its distributions promise."""

import math
from dataclasses import dataclass, field
from typing import Any

from lablib.course.tasks import TASKS
from lablib.inference.decoding.rows import Verdict
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator

import numpy as np

FALSE_ALARM = 1e-6
MANY = 60  # problems of each cell in a turn of the slow suite


@dataclass
class Trace:
    """The rounds of several problems of one task."""

    rounds: list[Verdict] = field(default_factory=list)
    positions: list[tuple[int, int]] = field(default_factory=list)  # problem, place of first draft
    texts: list[list[int]] = field(default_factory=list)
    tokens: int = 0

    @property
    def accepted(self) -> int:
        """The drafts that were kept."""
        return sum(r.accepted for r in self.rounds)

    def overlaps(self, name: str) -> np.ndarray:
        """Return ``min_pq`` or ``dot_pq`` of every draft that was judged: ``(N,)``."""
        return np.array([o for r in self.rounds for o in getattr(r, name)[: r.reached]])

    @property
    def tokens_per_round(self) -> float:
        """The tokens written for one look of the target."""
        return self.tokens / len(self.rounds)


def run(
    pair: tuple[Any, Any, Any],
    task: str,
    n: int,
    draft: Any = None,
    first_seed: int = 0,
    problems: int = 11,
    **options: Any,
) -> Trace:
    """Let the pair write at most 64 tokens for each of ``n`` problems.

    Args:
        pair: target, draft, tokenizer.
        task: the name of the task that sets the problems.
        n: how many.
        draft: what drafts in the place of the pair's own.
        first_seed: the first problem's seed; each one has the next.
        problems: the seed that draws the problems.
        options: of :class:`SpeculativeTokenIterator`.
    """
    target, shipped, tokenizer = pair
    trace = Trace()
    for number, problem in enumerate(TASKS[task].problems(problems, n)):
        iterator = SpeculativeTokenIterator(
            target, shipped if draft is None else draft, tokenizer.encode(problem.prompt),
            max_tokens=64, stop_tokens=tokenizer.eos_token_ids, seed=first_seed + number,
            trace=True, **options,
        )  # fmt: skip
        for _ in iterator:
            pass
        place = 0
        for round_ in iterator.rounds:
            trace.positions.append((number, place))
            place += round_.accepted + (round_.token is not None)
        trace.rounds += iterator.rounds
        trace.texts.append(iterator.tokens)
        trace.tokens += len(iterator.tokens)
    return trace


def log_evidence(chances: np.ndarray, kept: int) -> float:
    """Return the log of a number whose mean is 1 if counts that sum to ``kept`` have these chances.

    For any bet b, ``Π e^(b·count) / E e^(b·count)`` is a martingale that starts at 1, however the
    contexts come about and however few they are; so is the mean over several bets. By Markov it
    exceeds 10⁶ at most once in 10⁶ (a z-score promises that for many drafts only).

    Args:
        chances: ``(N, K)``, row i those of the count 0 … K-1 in context i.
        kept: the sum of all counts.
    """
    bets = np.array([sign * 2.0**-i for i in range(8) for sign in (1, -1)])
    means = [chances @ np.exp(bet * np.arange(chances.shape[1])) for bet in bets]
    logs = [bet * kept - np.log(mean).sum() for bet, mean in zip(bets, means, strict=True)]
    return float(np.logaddexp.reduce(logs) - math.log(len(bets)))
