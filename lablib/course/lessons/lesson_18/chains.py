"""Chains for a problem of *sums*, how sure their author was, and what a vote makes of that."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import lablib
from lablib.course.tasks import sums
from lablib.course.tasks.problem import Problem
from lablib.inference.steering import (
    lowest_confidence,
    mean_confidence,
    negative_entropy,
    self_certainty,
    tail_confidence,
)
from lablib.inference.voting.votes import tally

import mlx.core as mx
import numpy as np

LONGEST = 40  # tokens of a chain; a whole one has 33


@dataclass(frozen=True)
class Drawn:
    """Chains for one problem, and what their author thought at each token.

    Attributes:
        texts: the chains.
        answers: of each, None where it has none.
        right: ``(n,)``, whether each answer is the true sum.
        logs: for each chain ``(T, V)``, the log-probabilities at each token, the best first.
        written: for each ``(T,)``, those of the tokens that were written.
    """

    texts: list[str]
    answers: list[str | None]
    right: np.ndarray
    logs: Sequence[np.ndarray]
    written: Sequence[np.ndarray]


def pairs(logs: np.ndarray, k: int | None = None) -> Any:
    """Return the best ``k`` of log-probabilities ``(T, V)`` as measures take them, ids beside."""
    values = logs[:, :k]
    return np.stack([np.zeros_like(values), values], axis=-1)


# A measure of a chain: of all that its author thought, and of what was written; more is surer.
MEASURES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "mean of the best 5": lambda logs, written: mean_confidence(pairs(logs, 5)),
    "its last 16 tokens": lambda logs, written: tail_confidence(pairs(logs, 5)),
    "its worst 8 in a row": lambda logs, written: lowest_confidence(pairs(logs, 5)),
    "minus the entropy": lambda logs, written: negative_entropy(pairs(logs)),
    "log-probability": lambda logs, written: float(written.mean()),
    "self-certainty": lambda logs, written: self_certainty(pairs(logs)),
}


def draw(model: Any, tokenizer: Any, problem: Problem, n: int, seed: int) -> Drawn:
    """Write ``n`` chains at temperature 1, and read them once more for all log-probabilities."""
    prompt = tokenizer.encode(problem.prompt)
    rows = lablib.sample_n(model, prompt, n, max_tokens=LONGEST, seed=seed).tokens
    whole = np.zeros((n, len(prompt) + LONGEST), int)
    for i, row in enumerate(rows):
        whole[i, : len(prompt) + len(row)] = [*prompt, *row]
    logits = model(mx.array(whole))[:, len(prompt) - 1 : -1].astype(mx.float32)
    logs = np.array(logits - mx.logsumexp(logits, axis=-1, keepdims=True), np.float64)
    texts = [tokenizer.decode(row, skip_special_tokens=True) for row in rows]
    each = [*zip(logs, rows, strict=True)]
    return Drawn(
        texts,
        [sums.extract(text) for text in texts],
        np.array([sums.check(problem, text) for text in texts]),
        [-np.sort(-log[: len(row)], axis=-1) for log, row in each],
        [log[np.arange(len(row)), row] for log, row in each],
    )


def values_of(drawn: Drawn, name: str) -> np.ndarray:
    """Return what a measure says of each chain ``(n,)``, rounded: equal chains are equally sure."""
    both = zip(drawn.logs, drawn.written, strict=True)
    return np.round([MEASURES[name](*each) for each in both], 9)


def surest(values: np.ndarray, keep: float) -> np.ndarray:
    """Return log weights ``(n,)``: 0 for the surest share, at least one; no weight for the rest."""
    weights = np.full(len(values), -np.inf)
    weights[np.argsort(-values, kind="stable")[: max(1, math.ceil(keep * len(values)))]] = 0
    return weights


def elected(answers: Sequence[Any], log_weights: np.ndarray | None = None) -> Any:
    """Return a vote's winner, None if nobody with a weight has an answer."""
    weights = np.zeros(len(answers)) if log_weights is None else log_weights
    if all(a is None or w == -np.inf for a, w in zip(answers, weights, strict=True)):
        return None
    return tally([[]] * len(answers), answers, weights).winner


def ordered(values: np.ndarray, right: np.ndarray) -> float:
    """Return how often a right chain is surer than a wrong one; NaN if there are no such pairs."""
    if right.all() or not right.any():
        return math.nan
    better = values[right][:, None] - values[~right]
    return float(((better > 0) + 0.5 * (better == 0)).mean())
