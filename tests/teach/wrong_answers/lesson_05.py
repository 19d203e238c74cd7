"""Answers to the exercises of lesson 05, as students write them: right ones and wrong ones."""

import functools
import math
import statistics
from fractions import Fraction

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 05.1 pick the best


@right("05.1")
def mlx_sums(logprobs, normalized):
    rows = [mx.array(row) for row in logprobs]
    return mx.argmax(mx.stack([row.mean() if normalized else row.sum() for row in rows]))


@right("05.1")
def numpy_reduces(logprobs, normalized):
    reduce = np.mean if normalized else np.sum
    return np.argmax([reduce(np.array(row)) for row in logprobs])


@right("05.1")
def index_of_max(logprobs, normalized):
    scores = [math.fsum(row) / (len(row) if normalized else 1) for row in logprobs]
    return scores.index(max(scores))


@right("05.1")
def the_least_surprise(logprobs, normalized):
    def surprise(i):
        return -sum(logprobs[i]) / len(logprobs[i]) ** normalized

    return min(range(len(logprobs)), key=surprise)


def best(scores):
    return int(np.argmax(scores))


@wrong("05.1", "multiplies_probabilities")
def product_of_exponentials(logprobs, normalized):
    products = [np.prod(np.exp(row)) for row in logprobs]
    roots = [1 / len(row) if normalized else 1 for row in logprobs]
    return best([p**r for p, r in zip(products, roots, strict=True)])


@wrong("05.1")
def mean_probability(logprobs, normalized):
    return best([np.mean(np.exp(row)) if normalized else sum(row) for row in logprobs])


@wrong("05.1")
def a_low_start(logprobs, normalized):
    winner, highest = 0, -1000.0
    for i, row in enumerate(logprobs):
        score = sum(row) / len(row) if normalized else sum(row)
        if score > highest:
            winner, highest = i, score
    return winner


@wrong("05.1", "always_the_sum")
def divides_by_the_longest(logprobs, normalized):
    longest = max(map(len, logprobs))
    return best([sum(row) / (longest if normalized else 1) for row in logprobs])


@wrong("05.1")
def one_token_less(logprobs, normalized):
    return best([sum(r) / max(1, len(r) - 1) if normalized else sum(r) for r in logprobs])


@wrong("05.1")
def one_token_more(logprobs, normalized):
    return best([sum(row) / (len(row) + 1) if normalized else sum(row) for row in logprobs])


@wrong("05.1")
def square_root_of_the_length(logprobs, normalized):
    return best([sum(r) / math.sqrt(len(r)) if normalized else sum(r) for r in logprobs])


@wrong("05.1")
def median_token(logprobs, normalized):
    return best([statistics.median(row) if normalized else sum(row) for row in logprobs])


@wrong("05.1")
def weakest_token(logprobs, normalized):
    return best([min(row) if normalized else sum(row) for row in logprobs])


@wrong("05.1", "the_score_itself")
def score_of_the_best(logprobs, normalized):
    return max([np.mean(row) if normalized else np.sum(row) for row in logprobs])


@wrong("05.1")
def largest_magnitude(logprobs, normalized):
    return best([abs(sum(row) / len(row) if normalized else sum(row)) for row in logprobs])


@wrong("05.1")
def shortest_for_the_sum(logprobs, normalized):
    return best([sum(row) / len(row) if normalized else -len(row) for row in logprobs])


@wrong("05.1", "last_of_equals")
def greater_or_equal(logprobs, normalized):
    winner, highest = None, -math.inf
    for i, row in enumerate(logprobs):
        score = sum(row) / len(row) if normalized else sum(row)
        if score >= highest:
            winner, highest = i, score
    return winner


@wrong("05.1")
def sorts_the_callers_rows(logprobs, normalized):
    scores = []
    for row in logprobs:
        row.sort()
        scores.append(sum(row) / len(row) if normalized else sum(row))
    return best(scores)


@wrong("05.1")
def counts_from_one(logprobs, normalized):
    return 1 + best([sum(row) / len(row) if normalized else sum(row) for row in logprobs])


# ------------------------------------------------------------------ 05.2 unbiased pass@k


@right("05.2")
def product_of_shares(n, c, k):
    if n - c < k:
        return 1.0
    return 1 - np.prod(1 - k / np.arange(n - c + 1, n + 1))


@right("05.2")
def logarithms_of_gamma(n, c, k):
    if k > n - c:
        return np.float32(1)

    def choose(a, b):
        return math.lgamma(a + 1) - math.lgamma(b + 1) - math.lgamma(a - b + 1)

    return -math.expm1(choose(n - c, k) - choose(n, k))


@right("05.2")
def exact_fractions(n, c, k):
    missing = Fraction(1)
    for i in range(k):
        missing *= Fraction(max(0, n - c - i), n - i)
    return mx.array(float(1 - missing))


@right("05.2")
def each_number_of_right_ones(n, c, k):
    ways = [math.comb(c, i) * math.comb(n - c, k - i) for i in range(1, min(c, k) + 1)]
    return sum(ways) / math.comb(n, k)


@wrong("05.2", "with_replacement")
def the_biased_formula(n, c, k):
    p = c / n
    return 1 - np.power(1 - p, k)


@wrong("05.2", "float_factorials")
def gamma_functions(n, c, k):
    def choose(a, b):
        return math.gamma(a + 1) / (math.gamma(b + 1) * math.gamma(a - b + 1)) if b <= a else 0.0

    return 1 - choose(n - c, k) / choose(n, k)


@wrong("05.2")
def int64_factorials(n, c, k):
    def factorial(a):
        return np.prod(np.arange(1, a + 1, dtype=np.int64))

    if k > n - c:
        return 1.0
    return 1 - factorial(n - c) * factorial(n - k) / (factorial(n - c - k) * factorial(n))


@wrong("05.2")
def a_simulation(n, c, k):
    rng = np.random.default_rng(0)
    return np.mean([min(rng.permutation(n)[:k]) < c for _ in range(200)])


@wrong("05.2")
def certain_too_early(n, c, k):
    return 1.0 if n - c <= k else 1 - math.comb(n - c, k) / math.comb(n, k)


@wrong("05.2")
def zero_where_wrong_ones_run_out(n, c, k):
    return 0.0 if n - c < k else 1 - math.comb(n - c, k) / math.comb(n, k)


@wrong("05.2")
def divides_the_wrong_way(n, c, k):
    return 1 - math.comb(n, k) / max(1, math.comb(n - c, k))


@wrong("05.2")
def chooses_right_ones(n, c, k):
    return 1 - math.comb(c, k) / math.comb(n, k)


@wrong("05.2", "exactly_one")
def one_right_one(n, c, k):
    return math.comb(c, 1) * math.comb(n - c, k - 1) / math.comb(n, k)


@wrong("05.2", "k_times_one")
def adds_chances(n, c, k):
    return min(1, c / n * k)


@wrong("05.2")
def permutations_and_combinations(n, c, k):
    return 1 - math.comb(n - c, k) / math.perm(n, k)


@wrong("05.2")
def rounded(n, c, k):
    return round(1 - math.comb(n - c, k) / math.comb(n, k), 3)


# ------------------------------------------------------------------ 05.3 best of k


@right("05.3")
def numpy_weights(scores, right, k):
    n = len(scores)
    weights = np.array([math.comb(r, k - 1) / math.comb(n, k) for r in range(n)])
    return (np.array(right)[np.argsort(scores)] * weights).sum()


@right("05.3")
def ranks_of_mlx(scores, right, k):
    ranks = mx.argsort(mx.argsort(mx.array(scores))).tolist()
    n = len(ranks)
    return mx.array(
        sum(
            truth * math.comb(rank, k - 1) / math.comb(n, k)
            for rank, truth in zip(ranks, right, strict=True)
        )
    )


@right("05.3")
def shares_of_subsets_below(scores, right, k):
    n = len(scores)
    below = [math.comb(r, k) / math.comb(n, k) for r in range(n + 1)]
    order = sorted(range(n), key=scores.__getitem__)
    return sum(right[i] * (below[r + 1] - below[r]) for r, i in enumerate(order))


@right("05.3")
def exact_sum(scores, right, k):
    ordered = [truth for _, truth in sorted(zip(scores, right, strict=True))]
    total = sum(int(truth) * math.comb(r, k - 1) for r, truth in enumerate(ordered))
    return float(Fraction(total, math.comb(len(ordered), k)))


def weighed(order, right, weight):
    return sum(right[i] * weight(r) for r, i in enumerate(order))


@wrong("05.3", "order_for_rank")
def takes_order_for_rank(scores, right, k):
    n = len(scores)
    return sum(
        truth * math.comb(int(place), k - 1) / math.comb(n, k)
        for place, truth in zip(np.argsort(scores), right, strict=True)
    )


@wrong("05.3", "with_replacement")
def draws_with_replacement(scores, right, k):
    n = len(scores)
    return weighed(np.argsort(scores), right, lambda r: ((r + 1) / n) ** k - (r / n) ** k)


@wrong("05.3", "from_the_best")
def sorted_downwards(scores, right, k):
    n = len(scores)
    order = np.argsort([-score for score in scores])
    return weighed(order, right, lambda r: math.comb(r, k - 1) / math.comb(n, k))


@wrong("05.3")
def k_instead_of_k_minus_one(scores, right, k):
    n = len(scores)
    return weighed(np.argsort(scores), right, lambda r: math.comb(r, k) / math.comb(n, k))


@wrong("05.3")
def counts_k_minus_one_subsets(scores, right, k):
    n = len(scores)
    order = np.argsort(scores)
    return weighed(order, right, lambda r: math.comb(r, k - 1) / math.comb(n, k - 1))


@wrong("05.3")
def places_from_one(scores, right, k):
    n = len(scores)
    order = np.argsort(scores)
    return weighed(order, right, lambda r: math.comb(r + 1, k - 1) / math.comb(n, k))


@wrong("05.3")
def sorts_the_scores_alone(scores, right, k):
    n = len(scores)
    order = [scores.index(score) for score in scores]
    scores.sort()
    return weighed(order, right, lambda r: math.comb(r, k - 1) / math.comb(n, k))


@wrong("05.3")
def sorts_the_callers_list(scores, right, k):
    n, order = len(scores), np.argsort(scores)
    scores.sort()
    return weighed(order, right, lambda r: math.comb(r, k - 1) / math.comb(n, k))


@wrong("05.3")
def a_few_random_subsets(scores, right, k):
    rng = np.random.default_rng(1)
    subsets = [rng.permutation(len(scores))[:k] for _ in range(100)]
    return np.mean([right[max(subset, key=lambda i: scores[i])] for subset in subsets])


@wrong("05.3", "any_right")
def pass_at_k(scores, right, k):
    return 1 - math.comb(len(right) - sum(right), k) / math.comb(len(right), k)


@wrong("05.3", "best_of_all")
def one_verdict(scores, right, k):
    return right[scores.index(max(scores))]


@wrong("05.3")
def sorted_as_texts(scores, right, k):
    n = len(scores)
    order = sorted(range(n), key=lambda i: str(scores[i]))
    return weighed(order, right, lambda r: math.comb(r, k - 1) / math.comb(n, k))


@wrong("05.3", "mean_of_the_best_k")
def share_of_the_top(scores, right, k):
    top = sorted(zip(scores, right, strict=True), reverse=True)[:k]
    return functools.reduce(lambda total, pair: total + pair[1], top, 0) / k
