"""Answers to the exercises of lesson 00a, as students write them: right ones and wrong ones."""

import math

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers


def fills_in_place(counts):
    counts = counts.astype(float)
    for row in counts:
        row /= row.sum()
    return counts


def whole_numbers_stay(counts):
    shares = np.zeros_like(counts)
    for i, row in enumerate(counts):
        shares[i] = row / row.sum()
    return shares


def changes_what_it_was_given(counts):
    for i in range(len(counts)):
        counts[i] = counts[i] / counts[i].sum()
    return counts


def softmax_of_rows(counts):
    weights = np.exp(counts - counts.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def rows_of_a_list(counts):
    return [(row / row.sum()).tolist() for row in counts]


def by_surprise(first, second):
    bits = [sum(-math.log2(p) for p in text) for text in (first, second)]
    return bits.index(min(bits))


def half_by_half(first, second):
    return int(math.prod(second) * 1e150 * 1e150 > math.prod(first) * 1e150 * 1e150)


def a_truth_value(first, second):
    return np.log(first).sum() < np.log(second).sum()


def loses_its_count(first, second):
    return int(np.log(np.prod(second)) > np.log(np.prod(first)))


def columns_by_name(table, columns):
    return np.take_along_axis(table, np.array(columns)[:, None], axis=1)[:, 0]


def upright(table, columns):
    return np.take_along_axis(table, np.array(columns)[:, None], axis=1)


def a_diagonal(table, columns):
    return np.diag(table[:, columns])


def sums_them(table, columns):
    return sum(table[i, c] for i, c in enumerate(columns))


RIGHT = [
    ("00a.1", lambda c: c / c.sum(axis=1, keepdims=True)),
    ("00a.1", lambda c: c / c.sum(1).reshape(-1, 1)),
    ("00a.1", lambda c: (c.T / c.sum(axis=1)).T),
    ("00a.1", fills_in_place),
    ("00a.1", rows_of_a_list),
    ("00a.1", lambda c: np.divide(c, c @ np.ones((c.shape[1], 1)))),
    ("00a.2", by_surprise),
    ("00a.2", a_truth_value),
    ("00a.2", lambda a, b: int(sum(map(math.log2, a)) < sum(map(math.log2, b)))),
    ("00a.2", lambda a, b: np.argmax([np.log10(a).sum(), np.log10(b).sum()])),
    ("00a.3", columns_by_name),
    ("00a.3", a_diagonal),
    ("00a.3", lambda t, c: [row[j] for row, j in zip(t, c, strict=True)]),
    ("00a.3", lambda t, c: (t * (np.arange(t.shape[1]) == np.array(c)[:, None])).sum(axis=1)),
]

WRONG = [
    ("00a.1", "sums_lie_across", lambda c: c / np.sum(c, axis=1)),
    ("00a.1", "divides_by_the_columns", lambda c: c / np.sum(c, axis=0, keepdims=True)),
    ("00a.1", "shares_of_the_table", lambda c: c / np.sum(c)),
    ("00a.1", "whole_numbers", lambda c: c // c.sum(axis=1, keepdims=True)),
    ("00a.1", None, whole_numbers_stay),
    ("00a.1", None, changes_what_it_was_given),
    ("00a.1", None, softmax_of_rows),
    ("00a.2", "multiplies", lambda a, b: int(np.prod(b) > np.prod(a))),
    ("00a.2", "means", lambda a, b: int(np.mean(np.log(b)) > np.mean(np.log(a)))),
    ("00a.2", None, half_by_half),
    ("00a.2", None, loses_its_count),
    ("00a.2", None, lambda a, b: np.log(b).sum() - np.log(a).sum()),
    ("00a.2", None, lambda a, b: 0),
    ("00a.3", "whole_columns", lambda t, c: t[:, np.array(c)]),
    ("00a.3", "whole_rows", lambda t, c: np.array([t[j] for j in c])),
    ("00a.3", None, upright),
    ("00a.3", None, sums_them),
    ("00a.3", None, lambda t, c: t[0, c]),
    ("00a.3", None, lambda t, c: mx.argmax(mx.array(t), axis=1)),
]

ANSWERS = Answers(RIGHT, WRONG)
