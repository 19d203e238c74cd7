"""How good and how varied the completions are, and what some of them read like."""

from collections.abc import Iterable
from typing import Any

from lablib.inference.theory.estimators import wilson_interval
from lablib.workshop.completions import LOOKED_AT, Drawn

import numpy as np


def quality(drawn: Drawn, repeats: int) -> list[dict[str, float]]:
    """Accuracy and diversity at each temperature.

    Args:
        drawn: the completions.
        repeats: how many completions of a problem the diversity is measured on; a greedy one is
            drawn once and counts as so many equal ones.

    Returns:
        For each temperature: ``accuracy`` (mean over problems; *stories*: the share of valid ones)
        with its 95 % interval ``low``, ``high`` over problems, ``distinct`` (different completions
        of a problem over their number) and ``distinct_trigrams`` (different token triples over all
        triples, across problems).
    """
    rows = []
    for temperature, samples in drawn.samples.items():
        right = np.array(drawn.right(temperature), dtype=float)
        low, high = wilson_interval(float(right.mean(axis=1).sum()), len(right))
        each = 1 if temperature == 0 else repeats
        completions = [[tuple(row) for row in s.tokens[:each]] * (repeats // each) for s in samples]
        rows.append(
            {
                "temperature": temperature,
                "samples": right.shape[1],
                "accuracy": float(right.mean()),
                "low": low,
                "high": high,
                "distinct": float(np.mean([len(set(c)) / len(c) for c in completions])),
                "distinct_trigrams": distinct_ngrams(row for c in completions for row in c),
            }
        )
    return rows


def distinct_ngrams(rows: Iterable[Iterable[int]], n: int = 3) -> float:
    """Different n-grams over all n-grams (Li et al. 2016, 1510.03055)."""
    grams = [row[i : i + n] for row in map(tuple, rows) for i in range(max(0, len(row) - n + 1))]
    return len(set(grams)) / len(grams) if grams else 0.0


def examples(drawn: Drawn, problems: int = 3) -> list[dict[str, Any]]:
    """What the completions read like: the first one of each of the first problems.

    Returns:
        For each temperature of ``LOOKED_AT`` above 0: ``task``, ``temperature`` and ``texts``,
        prompt and completion; "…" ends a text that ran out of tokens.
    """
    return [
        {
            "task": drawn.task,
            "temperature": temperature,
            "texts": [
                problem.prompt + row[0] + ("" if samples.finished[0] else " …")
                for problem, row, samples in zip(
                    drawn.problems[:problems],
                    drawn.texts(temperature),
                    drawn.samples[temperature],
                    strict=False,
                )
            ],
        }
        for temperature in LOOKED_AT
        if temperature > 0
    ]
