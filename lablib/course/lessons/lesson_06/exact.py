"""Compute what a vote of the *sums* author's chains is worth, without a sample."""

from collections.abc import Sequence

from lablib.course.tasks import sums
from lablib.course.tasks.problem import Problem
from lablib.course.theory.estimators import majority_accuracy

import numpy as np


def process_accuracy(problems: Sequence[Problem], n: int) -> float:
    """Return the exact accuracy of a vote of ``n`` chains of the *sums* author.

    It is the average over these problems, each of which has its own distribution of answers.
    """
    return float(np.mean([_elected(sums.answer_distribution(p), n, _truth(p)) for p in problems]))


def one_die_accuracy(problems: Sequence[Problem], n: int) -> float:
    """Return that accuracy if all problems were one: their distributions averaged into one die."""
    faces = [np.roll(sums.answer_distribution(p), -_truth(p)) for p in problems]
    return _elected(np.mean(faces, axis=0), n, 0)


def _elected(probs: np.ndarray, n: int, right: int) -> float:
    return majority_accuracy(probs / probs.sum(), n, right)


def _truth(problem: Problem) -> int:
    return sum(problem.data) % 10
