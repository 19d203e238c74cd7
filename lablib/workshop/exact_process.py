"""The exact process: what a perfect model of the *sums* annotator would reach, without sampling.

Its answers to a problem are independent draws from a known distribution, so the curves of a single
sample, the majority vote and pass@N have closed forms. So has best-of-N with the noisy verifiers,
whose error is each sample's own (``votes.sampled``): a slip of the annotator adds one, and five
slips at most never add up to ten, so the answer is right exactly where every step holds, and that
is all these verifiers see beside their noise. With an exact verifier, best-of-N and the weighted
vote both are pass@N. With the learned one or the log-probability, which judge the whole chain,
neither has such a form, and they are left out.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from statistics import NormalDist

from lablib import tasks
from lablib.inference.theory.estimators import any_right, majority_accuracy
from lablib.tasks import Problem
from lablib.validation import integer, one_of
from lablib.workshop.votes import NOISE

import numpy as np

_NODES = 256  # of the quadrature; twice as many move no result by 1e-7


def process(problems: Sequence[Problem], counts: Sequence[int]) -> dict[str, list[float]]:
    """Accuracy at each N of ``counts``, the mean over the *sums* ``problems``.

    Returns:
        By strategy, as in ``votes.curves``: ``single``, ``majority``, ``pass``, and best-of-N with
        each of ``votes.NOISE``.
    """
    answers = [tasks.sums.answer_distribution(problem) for problem in problems]
    truths = [sum(problem.data) % 10 for problem in problems]
    right = [min(1.0, float(p[truth])) for p, truth in zip(answers, truths, strict=True)]
    pairs = list(zip(answers, truths, strict=True))
    found = {
        "single": [right for _ in counts],
        "majority": [[majority_accuracy(p, n, truth) for p, truth in pairs] for n in counts],
        "pass": [[any_right(p, n) for p in right] for n in counts],
    }
    for name, (scale, df) in NOISE.items():
        found[f"best: {name}"] = [noisy_best_of_n(right, n, scale, df) for n in counts]
    return {name: [float(np.mean(each)) for each in rows] for name, rows in found.items()}


def noisy_best_of_n(right: Sequence[float], n: int, scale: float, df: float) -> np.ndarray:
    """Chance that the best-scored of ``n`` independent samples is right, for each problem.

    A right sample scores 1 and a wrong one 0, plus ``scale`` times an error of its own, whose
    distribution is F. A right one with the error e is the best if each of the others scores less:
    ``n p ∫ (p F(e) + (1 − p) F(e + 1/scale))ⁿ⁻¹ dF(e)``, by Gauss and Legendre over u = F(e).

    Args:
        right: the chance p that a sample is right, ``(K,)``.
        n: samples.
        scale: size of the error, above 0.
        df: ``inf`` for the Gaussian, 1 for Student's t with one degree of freedom (Cauchy's law).

    Returns:
        Probabilities ``(K,)``.
    """
    n, (below, quantile) = integer("n", n, 1), _LAWS[one_of("df", df, _LAWS)]
    u, weights = _quadrature()
    v = np.array([below(quantile(each) + 1 / scale) for each in u])
    p = np.asarray(right, dtype=np.float64)[:, None]
    return n * p[:, 0] * ((p * u + (1 - p) * v) ** (n - 1) @ weights)


@cache
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss and Legendre on 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


# For each number of degrees of freedom the distribution function and its inverse.
_LAWS: dict[float, tuple[Callable[[float], float], Callable[[float], float]]] = {
    math.inf: (NormalDist().cdf, NormalDist().inv_cdf),
    1.0: (lambda x: 0.5 + math.atan(x) / math.pi, lambda u: math.tan(math.pi * (u - 0.5))),
}
