"""Votes spelled out: every outcome enumerated, every rule in its plainest form, a known model."""

import itertools
import math
from fractions import Fraction

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache


class Chain:
    """A model that looks at the last token only: row t of ``table (V, V)`` is what follows t.

    Every probability of every completion is therefore known. ``calls`` records the shape ``(B, T)``
    of each forward.
    """

    def __init__(self, table):
        self.table = np.asarray(table, dtype=np.float64)
        self.logs = mx.array(np.log(np.maximum(self.table, 1e-30)), dtype=mx.float32)
        self.vocab_size = len(self.table)
        self.layers = [self]
        self.calls = []

    def make_cache(self):
        return [KVCache()]

    def __call__(self, tokens, cache=None):
        self.calls.append(tuple(tokens.shape))
        if cache is not None:
            seen = tokens.astype(mx.float32)[:, None, :, None]
            cache[0].update_and_fetch(seen, seen)
        return self.logs[tokens]

    def log_prob(self, last, completion):
        path = [last, *completion]
        return sum(math.log(self.table[a, b]) for a, b in itertools.pairwise(path))


def winner(answers):
    """Whom a vote elects: most votes, ties to the first to appear; None where nobody votes."""
    best = None
    for answer in answers:
        if answer is not None and (best is None or answers.count(answer) > answers.count(best)):
            best = answer
    return best


def outcomes(probs, n):
    """Every sequence of n answers (None: the rest of the probability) with its probability."""
    answers = [*range(len(probs)), None]
    chances = [*probs, 1 - math.fsum(probs)]
    for picks in itertools.product(range(len(answers)), repeat=n):
        chance = math.prod(chances[pick] for pick in picks)
        if chance > 0:
            yield [answers[pick] for pick in picks], chance


def expectation(probs, n, value):
    return math.fsum(chance * value(answers) for answers, chance in outcomes(probs, n))


def subsets_mean(size, k, value):
    chosen = [value(list(subset)) for subset in itertools.combinations(range(size), k)]
    return math.fsum(chosen) / len(chosen)


def best_value(scores, values, rows):
    """Value of the best-scored row, the mean over equal ones."""
    top = max(scores[row] for row in rows)
    best = [values[row] for row in rows if scores[row] == top]
    return math.fsum(best) / len(best)


def tally_counts(answers):
    """Votes in order of first appearance."""
    seen = []
    for answer in answers:
        if answer is not None and answer not in seen:
            seen.append(answer)
    return [answers.count(answer) for answer in seen]


def leader_can_lose(answers, remaining, fresh=99):
    """Whether some continuation of the vote elects another answer, by trying them all."""
    names = {answer for answer in answers if answer is not None} | {fresh}
    now = winner(answers)
    for rest in itertools.product([*names, None], repeat=remaining):
        if winner([*answers, *rest]) != now:
            return True
    return False


def urn(counts, remaining):
    """Every continuation with its probability, by Pólya's urn: one ball each and one unseen."""
    if remaining == 0:
        yield list(counts), Fraction(1)
        return
    balls = [count + 1 for count in counts]
    for pick, ball in enumerate(balls):
        after = list(counts)
        after[pick] += 1
        for final, chance in urn(after, remaining - 1):
            yield final, chance * Fraction(ball, sum(balls))


def overtaken(counts, remaining):
    """For each rival and an unseen answer, the probability that it overtakes, exactly."""
    everyone = [*counts, 0]
    lead = everyone.index(max(everyone))
    risks = [Fraction(0)] * len(everyone)
    for final, chance in urn(everyone, remaining):
        for j in range(len(final)):
            past = final[j] > final[lead] or (final[j] == final[lead] and j < lead)
            risks[j] += chance * past
    return [float(risk) for risk in risks]
