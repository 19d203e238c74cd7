"""The completions that most measurements share: how many, and how right and varied they are."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lablib.course import tasks
from lablib.course.tasks import Problem
from lablib.course.theory.estimators import wilson_interval
from lablib.inference.decoding.rows import Samples
from lablib.validation import BadValue

import numpy as np

LOOKED_AT = (0.0, 0.5, 1.0, 2.0)  # temperatures that a requirement or an example is about
# Tokens that any valid completion of the task fits into, and some more for invalid ones.
MAX_TOKENS = {"stories": 60, "sums": 40, "edits": 24}


@dataclass(frozen=True)
class Plan:
    """Say how much is measured; the defaults are what the stored evaluation was made with.

    Attributes:
        problems: unseen problems of each task.
        samples: completions of each *sums* problem at temperature 1, for the curves against N.
        few_samples: completions of each *sums* problem at the other temperatures.
        repeats: completions of each other problem at each temperature, for the diversity.
        temperatures: of sampling; 0 is greedy. Those of ``LOOKED_AT`` must be among them.
        overlap_temperatures: where target and draft are compared; 1 must be among them.
        long_temperatures: of samples that run on past the end of their document.
        long_rows: how many there are, over all tasks.
        long_tokens: the length they run to.
        timings: how often each forward is timed; the shortest time counts.
        orders: random orders of the samples that votes are averaged over.
        seed: decides the problems and every random number.

    Raises:
        BadValue: a temperature that must be there is missing.
    """

    problems: int = 200
    samples: int = 64
    few_samples: int = 16
    repeats: int = 4
    temperatures: tuple[float, ...] = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
    overlap_temperatures: tuple[float, ...] = (0.5, 1.0, 1.5)
    long_temperatures: tuple[float, ...] = (0.5, 1.0)
    long_rows: int = 200
    long_tokens: int = 500
    timings: int = 60
    orders: int = 128
    seed: int = 2026

    def __post_init__(self) -> None:
        if not {*LOOKED_AT} <= {*self.temperatures} or 1.0 not in self.overlap_temperatures:
            raise BadValue(
                f"temperatures must hold {LOOKED_AT}, and overlap_temperatures 1.0, "
                f"got {self.temperatures} and {self.overlap_temperatures}"
            )

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the numbers of samples N that are reported: powers of two."""
        return tuple(2**k for k in range(self.samples.bit_length()) if 2**k <= self.samples)

    def draws(self, task: str, temperature: float) -> int:
        """Return how many completions of a problem are drawn."""
        if temperature == 0:
            return 1
        if task != "sums":
            return self.repeats
        return self.samples if temperature == 1 else self.few_samples


QUICK = Plan(
    problems=12, samples=8, few_samples=4, repeats=2, temperatures=LOOKED_AT,
    overlap_temperatures=(1.0,), long_rows=4, long_tokens=160, timings=5, orders=8,
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """Hold completions of one task's unseen problems by one model.

    Attributes:
        task: its name.
        problems: the problems.
        prompts: token ids of each prompt, ``<s>`` first.
        samples: by temperature, the samples of each problem.
    """

    task: str
    problems: list[Problem]
    prompts: list[list[int]]
    samples: dict[float, list[Samples]]

    def texts(self, temperature: float) -> list[list[str]]:
        """Return the completions as text, of each problem."""
        tokenizer = tasks.load_tokenizer()
        rows = [row for samples in self.samples[temperature] for row in samples.tokens]
        texts = iter(tokenizer.decode_batch(rows, skip_special_tokens=True))
        return [[next(texts) for _ in samples.tokens] for samples in self.samples[temperature]]

    def right(self, temperature: float) -> list[list[bool]]:
        """Tell whether the task's checker accepts each completion, which must also have ended."""
        check = tasks.TASKS[self.task].check
        return [
            [done and check(problem, text) for text, done in zip(row, s.finished, strict=True)]
            for problem, row, s in zip(
                self.problems, self.texts(temperature), self.samples[temperature], strict=True
            )
        ]


def seeds(plan: Plan, n: int) -> list[int]:
    """Return the seed of each problem's samples; ``sample_n(..., seed=...)`` draws the same."""
    return [plan.seed * 1000 + number for number in range(n)]


def quality(drawn: Drawn, repeats: int) -> list[dict[str, float]]:
    """Measure accuracy and diversity at each temperature.

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
    """Return different n-grams over all n-grams (Li et al. 2016, 1510.03055)."""
    grams = [row[i : i + n] for row in map(tuple, rows) for i in range(max(0, len(row) - n + 1))]
    return len(set(grams)) / len(grams) if grams else 0.0


def examples(drawn: Drawn, problems: int = 3) -> list[dict[str, Any]]:
    """Show what the completions read like: the first one of each of the first problems.

    Returns:
        For each temperature of ``LOOKED_AT`` above 0: ``task``, ``temperature`` and ``texts``,
        prompt and completion; "…" ends a text that ran out of tokens.
    """

    def texts(temperature: float) -> list[str]:
        completions = zip(drawn.texts(temperature), drawn.samples[temperature], strict=True)
        return [
            problem.prompt + row[0] + ("" if samples.finished[0] else " …")
            for problem, (row, samples) in zip(drawn.problems[:problems], completions, strict=False)
        ]

    warm = [temperature for temperature in LOOKED_AT if temperature > 0]
    return [{"task": drawn.task, "temperature": t, "texts": texts(t)} for t in warm]
