"""Which particles live on: each way keeps particle i ``N · w_i`` times on average.

So every sum over particles keeps its mean, whatever the way; they differ in how far chance may
stray from it (Douc, Cappé and Moulines 2005, cs/0507025). Weights are given as logarithms ``(N,)``,
``u`` are N random numbers in [0, 1), parents ``(N,)`` are indices in order.
"""

import math
from collections.abc import Callable

import numpy as np

# A way chooses N points of the whole weight, from 0 to 1; the owner of each lives on.
RESAMPLE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "systematic": lambda u: (np.arange(len(u)) + u[0]) / len(u),  # a comb: N·w_i, up or down
    "stratified": lambda u: (np.arange(len(u)) + u) / len(u),  # a point in each of N slices
    "multinomial": np.sort,  # N dice
}


def parents(log_weights: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the particle that owns each point of the weight."""
    sums = np.cumsum(normalized(log_weights))
    alive = np.flatnonzero(log_weights > -np.inf)
    owners = np.searchsorted(sums, points * sums[-1], side="right")
    return owners.clip(max=alive[-1])  # no rounding may wake a dead one


def effective(log_weights: np.ndarray) -> float:
    """Return how many equal particles would be as good: 1 / Σ w² (Kong 1992); 0 if all are dead."""
    weights = normalized(log_weights)
    return float(1.0 / np.sum(weights**2)) if weights.any() else 0.0


def normalized(logs: np.ndarray) -> np.ndarray:
    """Return weights that sum to 1; all 0 where every logarithm is -inf."""
    peak = logs.max(initial=-np.inf)
    if peak == -np.inf:
        return np.zeros(len(logs))
    weights = np.exp(logs - peak)
    return weights / weights.sum()


def log_mean(logs: np.ndarray) -> float:
    """Return the logarithm of the mean of weights that are given as logarithms."""
    peak = logs.max(initial=-np.inf)
    if peak == -np.inf:
        return -math.inf
    return float(peak + np.log(np.exp(logs - peak).mean()))
