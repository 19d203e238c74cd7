"""The voting strategies on *sums*: accuracy against N.

One set of samples serves every strategy and every N (``inference.curves``). What they would reach
on the annotator himself, exactly, is in ``evaluation.process``.
"""

import math
from typing import Any

from lablib import tasks
from lablib.inference.theory.curves import Sampled, vote_curves
from lablib.inference.voting.scoring import pad
from lablib.inference.voting.verifiers import Noisy, log_sigmoid
from lablib.models.verifier import Verifier
from lablib.workshop.completions import Drawn, Plan

import mlx.core as mx
import numpy as np

# Errors of the noisy verifiers, added to the exact score of 0 or 1: (scale, degrees of freedom).
NOISE = {"gaussian": (0.4, math.inf), "heavy-tailed": (0.2, 1.0)}


def judge(verifier: Verifier, drawn: Drawn, temperature: float) -> list[dict[str, Any]]:
    """Everything about each problem's samples that the curves need, as plain numbers.

    Returns:
        For each problem: ``digits`` of the prompt, ``truth``, ``answers`` (a string with one
        character a sample, "." for none), ``verified`` (likewise "1" where every step holds),
        ``logprobs`` and ``scores`` of the learned verifier (lists, rounded).
    """
    records = []
    texts = drawn.texts(temperature)
    for problem, prompt, row, samples in zip(
        drawn.problems, drawn.prompts, texts, drawn.samples[temperature], strict=True
    ):
        sequences, lengths = pad(prompt, samples.tokens)
        answers = [
            tasks.sums.extract(text) if done else None
            for text, done in zip(row, samples.finished, strict=True)
        ]
        records.append(
            {
                "digits": "".join(map(str, problem.data)),
                "truth": str(sum(problem.data) % 10),
                "answers": "".join(answer or "." for answer in answers),
                "verified": "".join(str(int(tasks.sums.verify(problem, text))) for text in row),
                "logprobs": [round(sum(each), 2) for each in samples.logprobs],
                "scores": np.round(np.array(verifier(sequences, lengths)), 2).tolist(),
            }
        )
    return records


def sampled(record: dict[str, Any], seed: int = 0) -> Sampled:
    """A record of :func:`judge` as ``vote_curves`` takes it, with the noisy verifiers' scores.

    An error belongs to a sample, not to its text as in ``verifiers.Noisy``: texts are not stored.
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
            "learned": log_sigmoid(record["scores"]),
            "log-probability": record["logprobs"],
        },
    )


def curves(records: list[dict[str, Any]], plan: Plan) -> dict[str, list[dict[str, float]]]:
    """Accuracy of every strategy at every N, with 95 % intervals over problems."""
    problems = [sampled(record, plan.seed) for record in records]
    found = vote_curves(problems, plan.counts, orders=plan.orders, seed=plan.seed)
    return {name: curve.rows() for name, curve in found.items()}


def by_temperature(drawn: Drawn, plan: Plan) -> dict[str, Any]:
    """Majority accuracy for each temperature and N: ``{"counts", "temperatures", "majority"}``.

    Every temperature gets as many samples as the one with the fewest (greedy has one answer).
    """
    temperatures = [t for t in drawn.samples if t > 0]
    counts = [n for n in plan.counts if n <= min(plan.few_samples, plan.samples)]
    table = []
    for temperature in temperatures:
        problems = []
        for problem, row, samples in zip(
            drawn.problems, drawn.texts(temperature), drawn.samples[temperature], strict=True
        ):
            answers = [
                tasks.sums.extract(text) if done else None
                for text, done in zip(row, samples.finished, strict=True)
            ]
            problems.append(Sampled(str(sum(problem.data) % 10), answers))
        found = vote_curves(problems, counts, confidence=None, orders=plan.orders, seed=plan.seed)
        table.append([row["accuracy"] for row in found["majority"].rows()])
    return {"counts": counts, "temperatures": temperatures, "majority": table}


def adaptive(found: dict[str, list[dict[str, float]]], n: int) -> dict[str, dict[str, float]]:
    """What stopping early costs and saves against a vote of ``n``.

    Returns:
        For ``"certain"`` and ``"confident"`` (0.95): ``accuracy``, ``used`` (samples on average)
        and ``lost`` (accuracy of the full vote minus this one).
    """
    at = {name: next(r for r in rows if r["n"] == n) for name, rows in found.items()}
    return {
        name: {
            "accuracy": at[name]["accuracy"],
            "used": at[name]["used"],
            "share_used": at[name]["used"] / n,
            "lost": at["majority"]["accuracy"] - at[name]["accuracy"],
        }
        for name in ("certain", "confident")
    }
