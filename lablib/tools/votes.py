"""The voting strategies on *sums*: accuracy against N, measured and exact.

One set of samples serves every strategy and every N (``inference.theory.curves``).
``exact_curves`` are what a perfect model of the annotator would reach, without sampling.
"""

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from lablib.course import tasks
from lablib.course.replay.curves import Sampled, vote_curves
from lablib.course.tasks import Problem
from lablib.course.theory.estimators import any_right, majority_accuracy
from lablib.course.verifiers import Verifier
from lablib.course.verifiers.noisy import Noisy
from lablib.inference.voting.scoring import pad
from lablib.tools.completions import Drawn, Plan
from lablib.tools.results import at
from lablib.validation import BadValue, integer

import mlx.core as mx
import numpy as np
from scipy import stats
from scipy.special import log_expit

# Errors of the noisy verifiers, added to the exact score of 0 or 1: (scale, degrees of freedom).
NOISE = {"gaussian": (0.4, math.inf), "heavy-tailed": (0.2, 1.0)}
# 256 nodes and weights; twice as many move no result by 1e-7.
_quadrature = cache(partial(np.polynomial.legendre.leggauss, 256))


def judge(verifier: Verifier, drawn: Drawn, temperature: float) -> list[dict[str, Any]]:
    """Return all that the curves need of each problem's samples, as plain numbers.

    Returns:
        For each problem: ``digits`` of the prompt, ``truth``, ``answers`` (a string with one
        character a sample, "." for none), ``verified`` (likewise "1" where every step holds),
        ``logprobs`` and ``scores`` of the learned verifier (lists, rounded).
    """
    records = []
    for problem, prompt, texts, answers, samples in zip(
        drawn.problems,
        drawn.prompts,
        drawn.texts(temperature),
        _answers(drawn, temperature),
        drawn.samples[temperature],
        strict=True,
    ):
        sequences, lengths = pad(prompt, samples.tokens)
        records.append(
            {
                "digits": "".join(map(str, problem.data)),
                "truth": _truth(problem),
                "answers": "".join(answer or "." for answer in answers),
                "verified": "".join(str(int(tasks.sums.verify(problem, text))) for text in texts),
                "logprobs": [round(sum(each), 2) for each in samples.logprobs],
                "scores": np.round(np.array(verifier(sequences, lengths)), 2).tolist(),
            }
        )
    return records


def _truth(problem: Problem) -> str:
    return str(sum(problem.data) % 10)


def _answers(drawn: Drawn, temperature: float) -> list[list[str | None]]:
    """Return each problem's answers; a text that did not end has none."""
    return [
        [
            tasks.sums.extract(text) if done else None
            for text, done in zip(texts, samples.finished, strict=True)
        ]
        for texts, samples in zip(drawn.texts(temperature), drawn.samples[temperature], strict=True)
    ]


def sampled(record: dict[str, Any], seed: int = 0) -> Sampled:
    """Turn a record of :func:`judge` into what ``vote_curves`` takes, noisy scores included.

    An error belongs to a sample, not to its text as in ``noise.Noisy``: texts are not stored.
    """
    n = len(record["answers"])
    exact = np.array([float(mark) for mark in record["verified"]])
    digits = [int(digit) for digit in record["digits"]]
    rows = mx.array([[*digits, sample] for sample in range(n)])
    scores = {"learned": record["scores"], "exact": exact, "log-probability": record["logprobs"]}
    for name, (scale, df) in NOISE.items():
        scores[name] = Noisy(lambda _: exact, scale, df, seed)(rows)
    return Sampled(
        truth=record["truth"],
        answers=[None if answer == "." else answer for answer in record["answers"]],
        scores=scores,
        log_weights={
            "learned": log_expit(record["scores"]),
            "log-probability": record["logprobs"],
        },
    )


def curves(records: list[dict[str, Any]], plan: Plan) -> dict[str, list[dict[str, float]]]:
    """Return the accuracy of every strategy at every N, with 95 % intervals over problems."""
    problems = [sampled(record, plan.seed) for record in records]
    found = vote_curves(problems, plan.counts, orders=plan.orders, seed=plan.seed)
    return {name: curve.rows() for name, curve in found.items()}


def by_temperature(drawn: Drawn, plan: Plan) -> dict[str, Any]:
    """Return the majority's accuracy: ``{"counts", "temperatures", "majority"}``.

    Every temperature gets as many samples as the one with the fewest (greedy has one answer).
    """
    temperatures = [t for t in drawn.samples if t > 0]
    counts = [n for n in plan.counts if n <= min(plan.few_samples, plan.samples)]
    table = []
    for temperature in temperatures:
        problems = [
            Sampled(_truth(problem), answers)
            for problem, answers in zip(drawn.problems, _answers(drawn, temperature), strict=True)
        ]
        found = vote_curves(problems, counts, confidence=None, orders=plan.orders, seed=plan.seed)
        table.append([row["accuracy"] for row in found["majority"].rows()])
    return {"counts": counts, "temperatures": temperatures, "majority": table}


def adaptive(found: dict[str, list[dict[str, float]]], n: int) -> dict[str, dict[str, float]]:
    """Return what stopping early costs and saves against a vote of ``n``.

    Returns:
        For ``"certain"`` and ``"confident"`` (0.95): ``accuracy``, ``used`` (samples on average),
        ``share_used`` of ``n`` and ``lost`` (accuracy of the full vote minus this one).
    """
    full, result = at(found["majority"], n=n), {}
    for name in ("certain", "confident"):
        row = at(found[name], n=n)
        result[name] = {
            "accuracy": row["accuracy"],
            "used": row["used"],
            "share_used": row["used"] / n,
            "lost": full["accuracy"] - row["accuracy"],
        }
    return result


def exact_curves(problems: Sequence[Problem], counts: Sequence[int]) -> dict[str, list[float]]:
    """Return the annotator's accuracy at each N of ``counts``, the mean over ``problems``.

    His answers to a problem are independent draws from a known distribution, so a single sample,
    the majority vote and pass@N have closed forms. So has best-of-N with the noisy verifiers: a
    slip adds one, and five slips at most never add up to ten, so the answer is right exactly where
    every step holds, which is all that they see beside their noise. With an exact verifier,
    best-of-N and the weighted vote both are pass@N. The learned one and the log-probability judge
    the whole chain, have no such form, and are left out.

    Returns:
        By strategy, named as in :func:`curves`: ``single``, ``majority``, ``pass``, and best-of-N
        with each of ``NOISE``.
    """
    answers = [tasks.sums.answer_distribution(problem) for problem in problems]
    truths = [int(_truth(problem)) for problem in problems]
    pairs = list(zip(answers, truths, strict=True))
    right = [min(1.0, float(p[truth])) for p, truth in pairs]
    found = {
        "single": [right for _ in counts],
        "majority": [[majority_accuracy(p, n, truth) for p, truth in pairs] for n in counts],
        "pass": [[any_right(p, n) for p in right] for n in counts],
    }
    for name, (scale, df) in NOISE.items():
        found[f"best: {name}"] = [noisy_best_of_n(right, n, scale, df) for n in counts]
    return {name: [float(np.mean(each)) for each in rows] for name, rows in found.items()}


def noisy_best_of_n(right: Sequence[float], n: int, scale: float, df: float) -> np.ndarray:
    """Return the chance that the best-scored of ``n`` independent samples is right.

    A right sample scores 1 and a wrong one 0, plus ``scale`` times an error of its own, whose
    distribution is F. A right one with the error e is the best if each of the others scores less:
    ``n p ∫ (p F(e) + (1 − p) F(e + 1/scale))ⁿ⁻¹ dF(e)``, by Gauss and Legendre over u = F(e).

    Args:
        right: the chance p that a sample is right, of each problem ``(K,)``.
        n: samples.
        scale: size of the error, above 0.
        df: degrees of freedom of Student's t, from 1 (Cauchy's law) to ``inf`` (the Gaussian).

    Returns:
        Probabilities ``(K,)``.
    """
    n = integer("n", n, 1)
    if not df >= 1:
        raise BadValue(f"df must be at least 1, got {df}")
    error = stats.t(df)
    nodes, weights = _quadrature()
    u, weights = (nodes + 1) / 2, weights / 2  # from −1 … 1 to 0 … 1
    v = error.cdf(error.ppf(u) + 1 / scale)
    p = np.asarray(right, dtype=np.float64)[:, None]
    return n * p[:, 0] * ((p * u + (1 - p) * v) ** (n - 1) @ weights)
