"""What many samples are worth: unbiased estimators, their intervals, and the i.i.d. closed forms.

Two kinds of functions live here. *Estimators* take what was sampled and say what k samples would
have achieved, without bias: ``pass_at_k`` and ``best_of_k``. *Closed forms* take an answerer whose
answers are independent draws from a known distribution and compute exactly what best-of-N and a
majority vote make of it; the distance of a measurement from them is what the lesson is about.
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

from lablib.inference.voting.stopping import log_factorials
from lablib.validation import BadValue, integer, number

import numpy as np

Interval = tuple[float, float]


def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate the probability that at least one of ``k`` samples is right, from ``c`` of ``n``.

    ``1 − C(n − c, k) / C(n, k)``: the share of the k-subsets of the n samples that hold a right
    one, hence unbiased (Chen et al. 2021, 2107.03374). The tempting ``1 − (1 − c/n)^k`` is biased.

    Args:
        n: samples drawn.
        c: how many of them are right.
        k: at most ``n``; nothing unbiased is known about more samples than were drawn.
    """
    n, c, k = _counts(n, c, k)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_at_k_interval(n: int, c: int, k: int, level: float = 0.95) -> Interval:
    """Confidence interval of one problem's pass@k, covering it with probability ≥ ``level``.

    pass@k is ``1 − (1 − p)^k``, which grows with p, so the ends of the exact interval for p
    (Clopper & Pearson 1934) carry over. For the mean over many problems use
    ``bootstrap_interval``: there the problems, not the samples, are the larger source of chance.
    """
    n, c, k = _counts(n, c, k)
    low, high = clopper_pearson_interval(c, n, level)
    return any_right(low, k), any_right(high, k)


def best_of_k(scores: Sequence[float], values: Sequence[float], k: int) -> float:
    """Estimate the value of the best-scored of ``k`` samples, from n ≥ k scored ones, unbiased.

    The mean, over all k-subsets of the samples, of the value of the subset's highest score;
    between equal scores the choice is even. With right (1) or wrong (0) as both score and value
    this is ``pass_at_k``.

    Args:
        scores: what the selection looks at, ``(n,)``; a noisy verifier's score, say.
        values: what the selected sample is worth, ``(n,)``; 1 for right and 0 for wrong, say.
        k: between 1 and n.
    """
    n = len(scores)
    k = integer("k", k, 1, n)
    if len(values) != n:
        raise BadValue(f"values must have one entry for each of {n} scores, got {len(values)}")
    s, v = np.asarray(scores, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if np.isnan(s).any() or np.isnan(v).any():
        raise BadValue("scores and values must not hold NaN")
    total = 0.0
    for score in np.unique(s):
        equal = s == score
        below = int((s < score).sum())
        subsets = math.comb(below + int(equal.sum()), k) - math.comb(below, k)
        total += subsets / math.comb(n, k) * float(v[equal].mean())
    return total


def any_right(p: float, n: int) -> float:
    """``1 − (1 − p)^n``: the chance that one of n independent samples is right.

    It is also the accuracy of best-of-N under an exact verifier.
    """
    p, n = number("p", p, 0.0, 1.0), integer("n", n, 1)
    return 1.0 if p == 1.0 else -math.expm1(n * math.log1p(-p))


def best_of_n_distribution(probs: Sequence[float], scores: Sequence[float], n: int) -> np.ndarray:
    """The exact distribution of the best-scored of ``n`` independent draws.

    ``P(best scores ≤ s) = F(s)^n`` with F the distribution of one draw's score; outcomes of equal
    score share what their score gets in proportion to ``probs``.

    Args:
        probs: probability of each outcome, ``(K,)``, summing to 1.
        scores: score of each outcome, ``(K,)``.
        n: number of draws.

    Returns:
        Probabilities ``(K,)``, float64.
    """
    p = _distribution("probs", probs)
    n = integer("n", n, 1)
    if len(scores) != len(p):
        raise BadValue(f"scores must have one entry for each of {len(p)} probs, got {len(scores)}")
    s = np.asarray(scores, dtype=np.float64)
    if np.isnan(s).any():
        raise BadValue("scores must not hold NaN")
    below = np.array([p[s < one].sum() for one in s])
    level = np.array([p[s == one].sum() for one in s])
    share = np.divide(p, level, out=np.zeros_like(p), where=level > 0)
    return share * (np.minimum(below + level, 1.0) ** n - below**n)


def best_of_n_kl_bound(n: int) -> float:
    """``log n − (n − 1)/n``: the most (in nats) that best-of-n moves away from the model.

    An upper bound of KL(best-of-n ‖ model), and the value itself only when no two outcomes tie and
    none has much probability; a model that is sure of its answer moves far less (Beirami et al.
    2024, 2401.01879).
    """
    n = integer("n", n, 1)
    return math.log(n) - (n - 1) / n


def kl_divergence(p: Sequence[float], q: Sequence[float]) -> float:
    """KL(p ‖ q) in nats of two distributions over the same outcomes; infinite in a hole of q."""
    p, q = _distribution("p", p), _distribution("q", q)
    if len(p) != len(q):
        raise BadValue(f"p and q must have equally many outcomes, got {len(p)} and {len(q)}")
    seen = p > 0
    if (q[seen] == 0).any():
        return math.inf
    return float(np.sum(p[seen] * np.log(p[seen] / q[seen])))


def majority_accuracy(probs: Sequence[float], n: int, right: int = 0) -> float:
    """Exact probability that a vote of ``n`` independent answers elects answer ``right``.

    Ties go to the answer that appeared first; as every order of the same votes is equally likely,
    each of t tied answers wins with probability 1/t.

    The votes of answer j are Poisson(n · probs[j]) given that all votes sum to n; so the sum over
    multinomial outcomes becomes one product of polynomials for every count of the right answer.

    Args:
        probs: probability of each answer, ``(K,)``. What is missing to 1 is "no answer": such a
            completion uses up a sample and casts no vote.
        n: samples, those without an answer included.
        right: index of the right answer.
    """
    p = _distribution("probs", probs, complete=False)
    n, right = integer("n", n, 1), integer("right", right, 0, len(p) - 1)
    pmf = np.array([_poisson(n * each, n) for each in [*p, max(0.0, 1.0 - p.sum())]])
    others, silent = np.delete(pmf[:-1], right, axis=0), pmf[-1]
    fewer = np.zeros((len(others), n + 1, n + 1))  # [j, m, m + k]: answer j adds k votes, k < votes
    total = 0.0
    for votes in range(1, n + 1):
        start = np.arange(n + 2 - votes)
        fewer[:, start, start + votes - 1] = others[:, votes - 1, None]
        # ways[t, m]: t of the others stand at exactly `votes`, and m samples are spoken for.
        ways = np.zeros((len(p), n + 1))
        ways[0] = silent
        for other, add in zip(others, fewer, strict=True):
            tied = ways[:-1, : n + 1 - votes] * other[votes]
            ways = ways @ add
            ways[1:, votes:] += tied
        total += pmf[right, votes] * float(np.sum(ways[:, n - votes] / np.arange(1, len(p) + 1)))
    return min(1.0, total / _poisson(float(n), n)[n])


def wilson_interval(successes: float, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for a proportion (Wilson 1927): sound near 0 and 1, unlike ± 2σ.

    ``successes`` may be fractional: for a mean of n values in [0, 1] (each problem's own accuracy,
    say) the interval is conservative, as no such variable varies more than a coin of that mean.
    """
    n = integer("n", n, 1)
    mean = number("successes", successes, 0.0, n) / n
    z = NormalDist().inv_cdf(0.5 + _level(level) / 2)
    centre = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return (centre - half if mean > 0 else 0.0), (centre + half if mean < 1 else 1.0)


def clopper_pearson_interval(successes: int, n: int, level: float = 0.95) -> Interval:
    """The exact binomial interval (Clopper & Pearson 1934): it covers with at least ``level``."""
    n = integer("n", n, 1)
    c = integer("successes", successes, 0, n)
    alpha = (1 - _level(level)) / 2
    low = 0.0 if c == 0 else _solve(lambda p: 1 - _binomial_cdf(c - 1, n, p), alpha, rising=True)
    high = 1.0 if c == n else _solve(lambda p: _binomial_cdf(c, n, p), alpha, rising=False)
    return low, high


def bootstrap_interval(
    values: Sequence[float], level: float = 0.95, *, resamples: int = 4000, seed: int = 0
) -> Interval:
    """Percentile interval of a mean by resampling ``values`` (Efron 1979); one value a problem."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise BadValue("values must be a non-empty sequence of finite numbers")
    resamples = integer("resamples", resamples, 1)
    rng = np.random.default_rng(integer("seed", seed, 0))
    picks = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), size=resamples)
    tail = (1 - _level(level)) / 2
    low, high = np.quantile(picks @ values / len(values), [tail, 1 - tail])
    return float(low), float(high)


def _counts(n: int, c: int, k: int) -> tuple[int, int, int]:
    n = integer("n", n, 1)
    return n, integer("c", c, 0, n), integer("k", k, 1, n)


def _level(level: float) -> float:
    level = number("level", level)
    if not 0.0 < level < 1.0:
        raise BadValue(f"level must lie strictly between 0 and 1, got {level}")
    return level


def _distribution(name: str, probs: Sequence[float], complete: bool = True) -> np.ndarray:
    p = np.asarray(probs, dtype=np.float64)
    if p.ndim != 1 or not len(p) or not np.isfinite(p).all() or (p < 0).any():
        raise BadValue(f"{name} must be a non-empty sequence of probabilities, got {probs!r}")
    if p.sum() > 1 + 1e-9 or (complete and p.sum() < 1 - 1e-9):
        raise BadValue(f"{name} must sum to {'' if complete else 'at most '}1, got {p.sum():.6g}")
    return p


def _poisson(mean: float, n: int) -> np.ndarray:
    """``P(Poisson(mean) = 0 … n)``."""
    counts = np.arange(n + 1)
    if mean == 0.0:
        return (counts == 0).astype(np.float64)
    return np.exp(counts * math.log(mean) - mean - log_factorials(n))


def _binomial_cdf(c: int, n: int, p: float) -> float:
    """``P(Binomial(n, p) ≤ c)`` for 0 < p < 1, summed from logarithms."""
    counts = np.arange(c + 1)
    log_comb = log_factorials(n)[n] - log_factorials(n)[: c + 1] - log_factorials(n)[n - counts]
    return float(np.exp(log_comb + counts * math.log(p) + (n - counts) * math.log1p(-p)).sum())


def _solve(function: Callable[[float], float], target: float, rising: bool) -> float:
    """The p in [0, 1] where a monotone ``function`` meets ``target``, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if (function(middle) < target) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2
