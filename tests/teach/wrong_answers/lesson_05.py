"""Answers to the exercises of lesson 05, as students write them: right ones and wrong ones."""

import math
from decimal import Decimal
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


@right("05.1")
def least_perplexity(logprobs, normalized):
    costs = [math.exp(-sum(row) / len(row)) if normalized else -sum(row) for row in logprobs]
    return costs.index(min(costs))


def pick(name, old, new, like=None):
    ANSWERS.changed("05.1", name, old, new, like)


MEAN, RULE = "sum(row) / len(row)", "sum(row) / len(row) if normalized else sum(row)"
BEST = "int(np.argmax(scores))"
pick("a_gentler_length", MEAN, "sum(row) / ((5 + len(row)) / 6) ** 0.6")
pick("mean_probability", MEAN, "np.mean(np.exp(row))", "mean_of_probabilities")
pick(
    "the_shorter_of_equals",
    BEST,
    "max(range(len(scores)), key=lambda i: (scores[i], -len(logprobs[i])))",
)
pick(
    "the_longer_of_equals",
    BEST,
    "max(range(len(scores)), key=lambda i: (scores[i], len(logprobs[i]), -i))",
)
pick("equal_tokens_once", RULE, "sum(set(row)) / len(set(row)) if normalized else sum(row)")
pick("the_first_hundred", RULE, "sum(row[:100]) / (len(row[:100]) if normalized else 1)")
pick("divides_by_the_longest", MEAN, "sum(row) / max(map(len, logprobs))", "always_the_sum")
pick("one_token_less", MEAN, "sum(row) / max(1, len(row) - 1)")
pick("one_token_more", MEAN, "sum(row) / (len(row) + 1)")
pick("square_root_of_the_length", MEAN, "sum(row) / math.sqrt(len(row))")
pick("a_penalty_for_length", MEAN, "sum(row) / ((5 + len(row)) / 6) ** 0.6")
pick("mean_square", MEAN, "-sum(x * x for x in row) / len(row)")
pick("first_of_the_nearly_equal", BEST, "[s >= max(scores) - 1e-5 for s in scores].index(True)")
pick("median_token", MEAN, "float(np.median(row))")
pick("weakest_token", MEAN, "min(row)")
pick("first_token", RULE, "row[0]")
pick("last_token", RULE, "row[-1]")
pick("without_the_last_token", MEAN, "sum(row[:-1]) / max(1, len(row) - 1)")
pick("certain_tokens_do_not_count", MEAN, "sum(row) / max(1, sum(x != 0 for x in row))")
pick("mean_first_then_the_shortest", MEAN, "(sum(row) / len(row), -len(row))[1]")
pick("multiplies_the_logarithms", RULE, "float(np.prod(row))")
pick("least_surprise_turned_round", RULE, f"-({RULE})")
pick("largest_magnitude", RULE, f"abs({RULE})")
pick("shortest_for_the_sum", "else sum(row)", "else -len(row)")
pick("rounded_scores", RULE, f"round({RULE}, 2)")
pick("rules_swapped", "if normalized else", "if not normalized else")
pick("counts_from_one", BEST, f"1 + {BEST}")
pick("a_number_for_each", BEST, "np.argsort(scores)")
pick("all_of_the_best", BEST, "[i for i, x in enumerate(scores) if x == max(scores)]")
pick("index_among_the_sorted", BEST, "sorted(scores).index(max(scores))")
pick("largest_last", BEST, "int(np.argsort(scores, kind='stable')[-1])", "last_of_equals")
pick("a_low_start", BEST, "max([(-1000.0, 0)] + [(x, -i) for i, x in enumerate(scores)])[1] * -1")
pick("a_very_low_start", BEST, "max([(-1e9, 0)] + [(x, -i) for i, x in enumerate(scores)])[1] * -1")
pick("sorts_the_callers_rows", "scores = ", "[row.sort() for row in logprobs]; scores = ")


@wrong("05.1", "multiplies_probabilities")
def product_of_exponentials(logprobs, normalized):
    products = [np.prod(np.exp(row)) for row in logprobs]
    roots = [1 / len(row) if normalized else 1 for row in logprobs]
    return int(np.argmax([p**r for p, r in zip(products, roots, strict=True)]))


@wrong("05.1", "last_of_equals")
def greater_or_equal(logprobs, normalized):
    winner, highest = None, -math.inf
    for i, row in enumerate(logprobs):
        score = sum(row) / len(row) if normalized else sum(row)
        if score >= highest:
            winner, highest = i, score
    return winner


@wrong("05.1")
def mean_of_two_means(logprobs, normalized):
    halves = [(row[: (len(row) + 1) // 2], row[(len(row) + 1) // 2 :] or row) for row in logprobs]
    means = [np.mean([np.mean(half) for half in pair]) for pair in halves]
    return np.argmax(means if normalized else [sum(row) for row in logprobs])


@wrong("05.1")
def better_than_minus_a_hundred(logprobs, normalized):
    best, index = -100.0, 0
    for i, row in enumerate(logprobs):
        score = sum(row) / len(row) if normalized else sum(row)
        if score > best:
            best, index = score, i
    return index


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


@right("05.2")
def in_decimals(n, c, k):
    return 1 - Decimal(math.comb(n - c, k)) / math.comb(n, k)


@right("05.2")
def n_and_c_change_places(n, c, k):
    return 1 - Fraction(math.comb(n - k, c), math.comb(n, c))


def pass_at(name, old, new, like=None):
    ANSWERS.changed("05.2", name, old, new, like)


NONE = "math.comb(n - c, k) / math.comb(n, k)"
pass_at("the_biased_formula", NONE, "np.power(1 - c / n, k)", "with_replacement")
pass_at("adds_chances", f"1 - {NONE}", "min(1, c / n * k)", "k_times_one")
pass_at("the_mean_number_of_right_ones", f"1 - {NONE}", "c / n * k")
pass_at("certain_too_early", f"1 - {NONE}", f"1.0 if n - c <= k else 1 - {NONE}")
pass_at("zero_where_wrong_ones_run_out", f"1 - {NONE}", f"0.0 if n - c < k else 1 - {NONE}")
pass_at("divides_the_wrong_way", NONE, "math.comb(n, k) / max(1, math.comb(n - c, k))")
pass_at("divides_whole_numbers", NONE, "math.comb(n - c, k) // math.comb(n, k)")
pass_at("chooses_right_ones", NONE, "math.comb(c, k) / math.comb(n, k)")
pass_at("k_of_the_right_ones", NONE, "math.comb(n - k, k) / math.comb(n, k)")
pass_at("some_wrong_one", f"1 - {NONE}", "1 - math.comb(c, k) / math.comb(n, k)")
pass_at("one_sample", f"1 - {NONE}", "c / n")
pass_at("all_of_them_right", f"1 - {NONE}", "math.comb(c, k) / math.comb(n, k)", "all_of_them")
pass_at("permutations_and_combinations", NONE, "math.comb(n - c, k) / math.perm(n, k)")
pass_at("half_without_replacement", NONE, "math.perm(n - c, k) / n**k")
pass_at("rounded", f"1 - {NONE}", f"round(1 - {NONE}, 3)")
pass_at("share_of_the_wrong", NONE, "((n - c) / n) * ((n - c) / n) ** (k - 1)", "with_replacement")
pass_at("never_all_of_them", NONE, "math.comb(n - c, min(k, n - c)) / math.comb(n, k)")
pass_at("one_more_in_all", NONE, "math.comb(n - c, k) / math.comb(n + 1, k)")
pass_at("in_per_cent", f"1 - {NONE}", f"100 * (1 - {NONE})")
pass_at(
    "exactly_one_right",
    f"1 - {NONE}",
    "math.comb(c, 1) * math.comb(n - c, k - 1) / math.comb(n, k)",
    "exactly_one",
)


@wrong("05.2")
def a_quotient_of_two_products(n, c, k):
    if k > n - c:
        return 1.0
    missed = math.prod(map(float, range(n - c - k + 1, n - c + 1)))
    return 1 - missed / math.prod(map(float, range(n - k + 1, n + 1)))


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


def best_of(name, old, new, like=None):
    ANSWERS.changed("05.3", name, old, new, like)


best_of("scores_rounded", "np.argsort(scores)", "np.argsort(np.round(scores, 4), kind='stable')")
best_of(
    "half_precision",
    "np.argsort(scores)",
    "np.argsort(np.array(scores, np.float16), kind='stable')",
)


ORDER, TOTAL = "np.argsort(scores)", "return total"
SHARE = "math.comb(r, k - 1) / math.comb(n, k)"
best_of("sorted_downwards", ORDER, "np.argsort([-score for score in scores])", "from_the_best")
best_of("takes_them_as_they_stand", ORDER, "np.arange(len(scores))", "unsorted")
best_of("ranks_for_order", ORDER, "np.argsort(np.argsort(scores))")
best_of("sorted_by_size", ORDER, "np.argsort(np.abs(scores))")
best_of("sorted_as_texts", ORDER, "sorted(range(len(scores)), key=lambda i: str(scores[i]))")
best_of("sorted_by_truth", ORDER, "np.argsort(right)")
best_of(
    "sorted_as_whole_numbers", ORDER, "np.argsort([int(score) for score in scores], kind='stable')"
)
best_of("draws_with_replacement", SHARE, "(((r + 1) / n) ** k - (r / n) ** k)", "with_replacement")
best_of("k_instead_of_k_minus_one", SHARE, "math.comb(r, k) / math.comb(n, k)")
best_of("counts_k_minus_one_subsets", SHARE, "math.comb(r, k - 1) / math.comb(n, k - 1)")
best_of("places_from_one", SHARE, "math.comb(r + 1, k - 1) / math.comb(n, k)")
best_of("all_others_are_below", SHARE, "math.comb(n - 1, k - 1) / math.comb(n, k)")
best_of("negative_is_out", ORDER, "[i for i in np.argsort(scores) if scores[i] > 0]")
best_of("orders_count", SHARE, "math.perm(r, k - 1) / math.perm(n, k)")
best_of("each_place_alike", SHARE, "(r >= k - 1) / (n - k + 1)")
best_of("whole_shares", "* math.comb(r, k - 1) / math.comb", "* math.comb(r, k - 1) // math.comb")
best_of("nothing_below_the_kth", "enumerate(order)", "enumerate(order[k - 1 :])")
best_of("wrong_for_right", "right[index]", "(1 - right[index])")
best_of("place_for_sample", "right[index]", "right[r]")
best_of(
    "pass_at_k", TOTAL, "return 1 - math.comb(n - sum(right), k) / math.comb(n, k)", "any_right"
)
best_of("one_verdict", TOTAL, "return right[scores.index(max(scores))]", "best_of_all")
best_of(
    "share_of_the_top",
    TOTAL,
    "return sum(right[i] for i in order[n - k :]) / k",
    "mean_of_the_best_k",
)
best_of("rounded", TOTAL, "return round(total, 2)")
best_of(
    "best_of_neighbours",
    TOTAL,
    "return np.mean(\n"
    "        [right[max(range(i, i + k), key=scores.__getitem__)] for i in range(n - k + 1)]\n"
    "    )",
)
best_of(
    "sorts_the_callers_list",
    "order = np.argsort(scores)",
    "order = np.argsort(scores); scores.sort()",
)
best_of(
    "takes_order_for_rank",
    "right[index] * math.comb(r, k - 1)",
    "right[r] * math.comb(int(index), k - 1)",
    "order_for_rank",
)


pick("the_first_256", "for row in logprobs", "for row in (row[:256] for row in logprobs)")
pick(
    "the_steadier",
    "return int(np.argmax(scores))",
    "return int(np.argmax(scores - np.array([np.var(row) / 1000 for row in logprobs])))",
)
pick(
    "place_among_the_distinct",
    "return int(np.argmax(scores))",
    "return [*dict.fromkeys(scores)].index(max(scores))",
)
pick("the_weakest_token", "else sum(row)", "else min(row)")
best_of("the_last_of_all", "return total", "return total if k < n else right[-1]")


@wrong("05.3")
def sorts_the_scores_alone(scores, right, k):
    n, ordered = len(scores), sorted(scores)
    return sum(right[r] * math.comb(r, k - 1) / math.comb(n, k) for r, _ in enumerate(ordered))


@wrong("05.3")
def a_few_random_subsets(scores, right, k):
    rng = np.random.default_rng(1)
    subsets = [rng.permutation(len(scores))[:k] for _ in range(100)]
    return np.mean([right[max(subset, key=lambda i: scores[i])] for subset in subsets])


@wrong("05.1", "shares_out_the_probability")
def product_over_the_length(logprobs, normalized):
    scores = [np.prod(np.exp(row)) / (len(row) if normalized else 1) for row in logprobs]
    return int(np.argmax(scores))
