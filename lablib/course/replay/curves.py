"""Accuracy against the number of samples, computed from samples that are already drawn.

Draw M samples for each of many problems once, and every strategy at every N ≤ M can be measured on
them: ``pass@N`` and best-of-N exactly (the mean over all N-subsets), votes on random orders of the
samples. Intervals are Wilson's over *problems*: the problems are what a new experiment would draw
afresh, and a per-problem accuracy varies at most like a coin of the same mean.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from lablib.course.theory.estimators import best_of_k, wilson_interval
from lablib.inference import pass_at_k
from lablib.inference.voting.stopping import StopRule
from lablib.validation import BadValue, integer

import numpy as np


@dataclass(frozen=True)
class Sampled:
    """The M samples that were drawn for one problem.

    Attributes:
        truth: the right answer; a sample is right if its answer equals it.
        answers: the answer of each sample, None for none.
        scores: by name, a score of each sample ``(M,)``; best-of-N ranks by it.
        log_weights: by name, the logarithm of each sample's weight ``(M,)`` in a weighted vote.
    """

    truth: Hashable
    answers: Sequence[Hashable | None]
    scores: Mapping[str, Sequence[float]] = field(default_factory=dict)
    log_weights: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """One strategy's accuracy at each number of samples.

    Attributes:
        n: samples allowed.
        accuracy: mean over problems.
        low: lower end of the interval.
        high: upper end of the interval.
        used: samples drawn on average; equal to ``n`` unless the strategy may stop early.
        per_problem: accuracy of each problem, ``(problems, len(n))``, for paired comparisons.
    """

    n: tuple[int, ...]
    accuracy: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    used: tuple[float, ...]
    per_problem: np.ndarray = field(repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """Return the curve as a table, one dict of plain numbers for each N."""
        names = ("n", "accuracy", "low", "high", "used")
        columns = [getattr(self, name) for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def vote_curves(
    problems: Sequence[Sampled],
    counts: Sequence[int] = (1, 2, 4, 8, 16, 32),
    *,
    confidence: float | None = 0.95,
    stop_rule: str = StopRule.stop_rule,
    batch: int = 1,
    at_least: int = StopRule.at_least,
    orders: int = 32,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Curve]:
    """Measure every strategy at every N.

    Args:
        problems: samples of each problem, at least ``max(counts)`` of them.
        counts: the N to report.
        confidence: of the adaptive vote, as in ``vote_until``; None leaves that curve out.
        stop_rule: of the adaptive vote, as in ``vote_until``.
        batch: samples in a round of the adaptive votes; 1 may stop after any sample.
        at_least: samples before ``confidence`` is asked for.
        orders: random orders of each problem's samples that the votes are averaged over.
        level: of the intervals.
        seed: of the random orders.

    Returns:
        Curves by name: ``"single"`` (one sample, whatever N), ``"pass"`` (any of N right),
        ``"majority"``, ``"certain"`` and ``"confident"`` (adaptive votes; their ``used`` says how
        many samples they took), ``"best: NAME"`` for each score and ``"weighted: NAME"`` for each
        weight. Where no sample has an answer a vote is wrong.
    """
    problems, counts = _checked(problems, counts)
    batch, orders = integer("batch", batch, 1), integer("orders", orders, 1)
    stops = {"certain": StopRule()}
    if confidence is not None:
        stops["confident"] = StopRule(confidence, stop_rule, at_least)
    rng = np.random.default_rng(integer("seed", seed, 0))
    found: dict[str, list[Any]] = {}
    used: dict[str, list[np.ndarray]] = {}
    for problem in problems:
        results = _over_subsets(problem, counts)
        order = np.argsort(rng.random((orders, len(problem.answers))), axis=1)
        codes, truth = _encode(problem)
        results["majority"] = vote_accuracy(codes[order], truth, counts)
        for name, logs in problem.log_weights.items():
            weighted = vote_accuracy(codes[order], truth, counts, np.asarray(logs, float)[order])
            results[f"weighted: {name}"] = weighted
        for name, stop in stops.items():
            results[name], drawn = _adaptive(codes[order], truth, counts, batch, stop)
            used.setdefault(name, []).append(drawn)
        for name, result in results.items():
            found.setdefault(name, []).append(result)
    return {name: _curve(counts, found[name], level, used.get(name)) for name in found}


def _over_subsets(problem: Sampled, counts: Sequence[int]) -> dict[str, Any]:
    """Return what has a closed form: the mean over all subsets of N samples, for each N."""
    right = [float(answer == problem.truth) for answer in problem.answers]
    size, c = len(right), int(sum(right))
    results = {"single": [c / size] * len(counts), "pass": [pass_at_k(size, c, n) for n in counts]}
    for name, scores in problem.scores.items():
        results[f"best: {name}"] = [best_of_k(scores, right, n) for n in counts]
    return results


def _encode(problem: Sampled) -> tuple[np.ndarray, int]:
    """Return the answers as 0, 1, … by first appearance (−1: none), and the truth's (−1: never)."""
    seen: dict[Hashable, int] = {}
    codes = [-1 if a is None else seen.setdefault(a, len(seen)) for a in problem.answers]
    return np.array(codes), seen.get(problem.truth, -1)


def vote_accuracy(
    codes: np.ndarray, truth: int, counts: Sequence[int], log_weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the share of orders in which the first N votes elect ``truth``, for each N.

    Args:
        codes: answers as small ints, in R orders of M samples, ``(R, M)``; −1 for no answer.
        truth: the code of the right answer; −1 if no sample gave it.
        counts: the N, none above M.
        log_weights: weight of each vote as a logarithm, ``(R, M)``; by default all weigh 1.
    """
    if truth < 0:
        return np.zeros(len(counts))
    votes = codes[:, :, None] == np.arange(codes.max() + 1)  # (R, M, K)
    if log_weights is None:
        standing = votes.cumsum(axis=1)
    else:
        logs = np.where(votes, log_weights[:, :, None], -np.inf)
        # Rounded, so that equal weights added in another order still tie.
        standing = np.logaddexp.accumulate(logs, axis=1).round(9)
    never = codes.shape[1]
    first = np.where(votes.any(axis=1), votes.argmax(axis=1), never)  # (R, K)
    won = np.zeros(len(counts))
    for place, n in enumerate(counts):
        now, seen = standing[:, n - 1], first < n
        leads = (now == now.max(axis=1, keepdims=True)) & seen
        leader = np.where(leads, first, never + 1).argmin(axis=1)  # a tie: the first to appear
        won[place] = np.mean((leader == truth) & seen.any(axis=1))
    return won


def _adaptive(
    codes: np.ndarray, truth: int, counts: Sequence[int], batch: int, stop: StopRule
) -> tuple[np.ndarray, np.ndarray]:
    """Replay ``vote_until`` on every order ``(R, M)``: accuracy and samples used at each N."""
    won, used = np.zeros(len(counts)), np.zeros(len(counts))
    for row in codes.tolist():
        for place, n in enumerate(counts):
            tally: dict[int, int] = {}
            for drawn, code in enumerate(row[:n], start=1):
                if code >= 0:
                    tally[code] = tally.get(code, 0) + 1
                if drawn % batch == 0 and stop.reason(list(tally.values()), drawn, n):
                    break
            won[place] += bool(tally) and max(tally, key=tally.__getitem__) == truth
            used[place] += drawn
    return won / len(codes), used / len(codes)


def _curve(
    counts: tuple[int, ...], results: list[Any], level: float, used: list[np.ndarray] | None
) -> Curve:
    values = np.array(results)
    ends = [wilson_interval(float(column.sum()), len(values), level) for column in values.T]
    low, high = zip(*ends, strict=True)
    mean_used = np.asarray(counts, dtype=float) if used is None else np.mean(used, axis=0)
    accuracy = tuple(values.mean(axis=0).tolist())
    return Curve(counts, accuracy, low, high, tuple(mean_used.tolist()), values)


def _checked(
    problems: Sequence[Sampled], counts: Sequence[int]
) -> tuple[list[Sampled], tuple[int, ...]]:
    problems = list(problems)
    if not problems:
        raise BadValue("problems must hold at least one problem, got none")
    fewest = min(len(problem.answers) for problem in problems)
    counts = tuple(integer("counts", n, 1, fewest) for n in counts)
    for (i, problem), kind in product(enumerate(problems), ("scores", "log_weights")):
        size, named = len(problem.answers), getattr(problem, kind)
        if set(named) != set(getattr(problems[0], kind)):
            raise BadValue(f"problems[{i}].{kind} must have the names of problems[0]'s")
        for name, values in named.items():
            if np.shape(values) != (size,) or np.isnan(values).any():
                what = f"problems[{i}].{kind}[{name!r}]"
                raise BadValue(f"{what} must hold one number for each of {size} samples")
    return problems, counts
