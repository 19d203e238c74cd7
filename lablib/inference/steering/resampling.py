"""Which particles live on: each way keeps particle i ``N · w_i`` times on average.

So every sum over particles keeps its mean, whatever the way; they differ in how far chance may
stray from it. (Douc, Cappé and Moulines 2005, cs/0507025.) Weights are ``(N,)`` and sum to 1,
``u`` are N random numbers in [0, 1), parents ``(N,)`` are indices in order.
"""

from collections.abc import Callable

import numpy as np

Resample = Callable[[np.ndarray, np.ndarray], np.ndarray]


def multinomial(weights: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Draw N parents one by one: the noise of N dice."""
    return _at(weights, np.sort(u))


def stratified(weights: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Draw one parent from each of N equal slices of the weight."""
    n = len(weights)
    return _at(weights, (np.arange(n) + u) / n)


def systematic(weights: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Take one number for all slices: particle i lives on ``N · w_i`` times, rounded up or down."""
    n = len(weights)
    return _at(weights, (np.arange(n) + u[0]) / n)


def residual(weights: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Keep the whole part of ``N · w_i`` for certain, and draw the rest."""
    expected = len(weights) * weights
    certain = np.floor(expected).astype(int)
    parents = np.repeat(np.arange(len(weights)), certain)
    left = len(weights) - len(parents)
    if left:
        drawn = _at(expected - certain, np.sort(u[:left]))
        parents = np.sort(np.concatenate([parents, drawn]))
    return parents


RESAMPLE: dict[str, Resample] = {
    "systematic": systematic,
    "stratified": stratified,
    "residual": residual,
    "multinomial": multinomial,
}


def effective(weights: np.ndarray) -> float:
    """Return how many equal particles would be as good: 1 / Σ w² (Kong 1992)."""
    return float(1.0 / np.sum(weights**2))


def _at(weights: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the particle that owns each point of the weight, from 0 to 1."""
    sums = np.cumsum(weights)
    return np.searchsorted(sums, points * sums[-1], side="right").clip(max=_last(weights))


def _last(weights: np.ndarray) -> int:
    """Return the last particle with a weight: no rounding may wake a dead one."""
    return int(np.flatnonzero(weights)[-1])
