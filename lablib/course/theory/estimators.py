"""The worth of many samples: unbiased estimators, their intervals, and the i.i.d. closed forms.

Two kinds of functions live here. *Estimators* take samples and say what k of them would have
achieved, without bias: ``best_of_k``, beside ``pass_at_k`` of ``lablib.inference``. *Closed forms*
take an answerer whose answers are independent draws from a known distribution and compute exactly
what best-of-N and a majority vote make of it; lessons 05 and 06 are about how far a measurement is
from them.
"""

import math
from collections.abc import Sequence

from lablib.validation import BadValue, integer, number

import numpy as np

Interval = tuple[float, float]


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
        below, equal = int((s < score).sum()), s == score
        subsets = math.comb(below + int(equal.sum()), k) - math.comb(below, k)
        total += subsets / math.comb(n, k) * float(v[equal].mean())
    return total


def any_right(p: float, n: int) -> float:
    """Return ``1 − (1 − p)^n``, the chance that one of n independent samples is right.

    It is also the accuracy of best-of-N under an exact verifier.
    """
    p, n = number("p", p, 0.0, 1.0), integer("n", n, 1)
    return 1.0 if p == 1.0 else -math.expm1(n * math.log1p(-p))


def best_of_n_distribution(probs: Sequence[float], scores: Sequence[float], n: int) -> np.ndarray:
    """Return the exact distribution of the best-scored of ``n`` independent draws.

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
    """Return ``log n − (n − 1)/n``, the most (in nats) that best-of-n moves away from the model.

    An upper bound of KL(best-of-n ‖ model), and the value itself only when no two outcomes tie and
    none has much probability; a model that is sure of its answer moves far less (Beirami et al.
    2024, 2401.01879).
    """
    n = integer("n", n, 1)
    return math.log(n) - (n - 1) / n


def kl_divergence(p: Sequence[float], q: Sequence[float]) -> float:
    """Return KL(p ‖ q) in nats for p and q ``(K,)``; infinite where p has mass and q has none."""
    p, q = distributions(p, q)
    seen = p > 0
    if (q[seen] == 0).any():
        return math.inf
    return float(np.sum(p[seen] * np.log(p[seen] / q[seen])))


def majority_accuracy(probs: Sequence[float], n: int, right: int = 0) -> float:
    """Return the exact probability that a vote of ``n`` independent answers elects ``right``.

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
    p = _distribution("probs", probs, least=0.0)
    n, right = integer("n", n, 1), integer("right", right, 0, len(p) - 1)
    *pmf, silent, all_n = _poisson(n * np.array([*p, max(0.0, 1.0 - p.sum()), 1.0]), n)
    wins, others = pmf[right], np.delete(pmf, right, axis=0)
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
        total += wins[votes] * float(np.sum(ways[:, n - votes] / np.arange(1, len(p) + 1)))
    return min(1.0, float(total / all_n[n]))


def wilson_interval(successes: float, n: int, level: float = 0.95) -> Interval:
    """Return Wilson's score interval for a proportion (1927): sound near 0 and 1, unlike ± 2σ.

    ``successes`` may be fractional, which SciPy's interval refuses: for a mean of n values in
    [0, 1] (each problem's own accuracy, say) the interval is conservative, as no such variable
    varies more than a coin of that mean.
    """
    from scipy.special import ndtri  # a plain install has none, and needs none for the rest

    n = integer("n", n, 1)
    mean = number("successes", successes, 0.0, n) / n
    z = float(ndtri(0.5 + _level(level) / 2))
    centre = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return (centre - half if mean > 0 else 0.0), (centre + half if mean < 1 else 1.0)


def difference_interval(k: int, n: int, others: int, of: int, level: float = 0.95) -> Interval:
    """Return Newcombe's interval for ``k / n - others / of`` (1998, method 10).

    Two Wilson intervals, put together as independent errors are: by their squares. Where both
    counts go up and down together, say of the same seeds, it is wider than need be.
    """
    (low, high), (least, most) = wilson_interval(k, n, level), wilson_interval(others, of, level)
    one, other = k / n, others / of
    below, above = math.hypot(one - low, most - other), math.hypot(high - one, other - least)
    return one - other - below, one - other + above


def bootstrap_interval(
    values: Sequence[float],
    level: float = 0.95,
    *,
    per: Sequence[float] | None = None,
    resamples: int = 4000,
    seed: int = 0,
) -> Interval:
    """Return the percentile interval of a mean or of a ratio of sums, by resampling (Efron 1979).

    The numbers drawn depend on ``seed`` and on n alone, so two intervals over the same texts are
    resampled alike. A resample in which nothing is counted has the ratio 0.

    Args:
        values: one for each unit that a new experiment would draw afresh (a text, a problem),
            ``(n,)``.
        level: the share of resamples inside.
        per: counts ``(n,)`` whose sum the sum of ``values`` is divided by; all 1 by default, which
            is the mean.
        resamples: how many.
        seed: of the resamples.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise BadValue("values must be a non-empty sequence of finite numbers")
    n, per = len(values), np.ones(len(values)) if per is None else np.asarray(per, np.float64)
    if per.shape != (n,) or not (per >= 0).all():
        raise BadValue(f"per must hold a count for each of {n} values, got {per.tolist()}")
    tail, resamples = (1 - _level(level)) / 2, integer("resamples", resamples, 1)
    rng = np.random.default_rng(integer("seed", seed, 0))
    picks = rng.multinomial(n, np.full(n, 1 / n), size=resamples)
    sums, counts = picks @ values, picks @ per
    ratios = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return float(low), float(high)


def _level(level: float) -> float:
    level = number("level", level)
    if not 0.0 < level < 1.0:
        raise BadValue(f"level must lie strictly between 0 and 1, got {level}")
    return level


def distributions(p: Sequence[float], q: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return p and q ``(K,)`` as float64; refuse what are not two distributions of equal length."""
    if np.shape(p) != np.shape(q):
        raise BadValue(f"p and q must have the same shape, got {np.shape(p)} and {np.shape(q)}")
    return _distribution("p", p), _distribution("q", q)


def _distribution(name: str, probs: Sequence[float], least: float = 1.0) -> np.ndarray:
    p = np.asarray(probs, dtype=np.float64)
    off = 1e-6  # what a softmax in float32 may be off by
    fits = p.ndim == 1 and len(p) and (p >= 0).all() and least - off <= p.sum() <= 1 + off
    if not fits:
        wanted = "sum to 1" if least else "sum to at most 1"
        raise BadValue(f"{name} must be probabilities (K,) that {wanted}, got {probs!r}")
    return p


def _poisson(means: np.ndarray, n: int) -> np.ndarray:
    """Return ``P(Poisson(mean) = 0 … n)`` for each of ``means (K,)``, as ``(K, n + 1)``."""
    from scipy.special import gammaln, xlogy

    counts, means = np.arange(n + 1), means[:, None]
    return np.exp(xlogy(counts, means) - means - gammaln(counts + 1))
