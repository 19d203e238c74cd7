"""Exercises of lesson 05: choosing one of many, and counting what could have been chosen."""

import math
from collections.abc import Iterator
from itertools import combinations

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np

# ------------------------------------------------------------------ 05.1 pick the best


def pick(logprobs, normalized):
    """Return the index of the best completion; the first one among equals.

    logprobs: one list for each completion, the log-probability of each of its tokens; at least
        one completion, and none is empty. A completion may have hundreds of tokens.
    normalized: False ranks by their sum, True by their mean.
    """
    scores = [sum(row) / len(row) if normalized else sum(row) for row in logprobs]
    return int(np.argmax(scores))


def pick_loop(logprobs, normalized):
    best, best_score = None, None
    for index, row in enumerate(logprobs):
        score = float(np.mean(row) if normalized else np.sum(row))
        if best is None or score > best_score:
            best, best_score = index, score
    return best


def _completions(rng: np.random.Generator) -> Iterator[tuple[list[list[float]], bool]]:
    """Yield log-probabilities and the rule.

    Ideas that come out right on some of them: one rule for both; a mean of probabilities; one
    divisor for all rows; the weakest, the middle or the first token decides; the last of equals;
    the search begins at some "very low" number; scores are rounded; a certain token does not count;
    probabilities are multiplied; of equals the shortest, or
    the longest; equal tokens count once; only the first hundred tokens count.
    """
    short_or_even = [[-1.0, -0.5], [-0.5, -0.5, -0.5, -0.5], [-2.0]]
    yield short_or_even, False
    yield short_or_even, True
    yield [[-1.0, -1.0], [-1.0, -1.0]], True
    yield [[-0.5], [-1.0], [-0.5]], False
    yield [[-1.0], [-1.0], [-0.5]], False  # equals before the best one keep their places
    yield [[-0.5, -0.5], [-1.0]], False  # equal, and not equally long
    yield [[-1.0], [-0.5, -0.5]], False
    yield [[-2.0], [-0.1, -2.9], [-1.6, -1.6]], False  # best sum, best mean, best of the weakest
    yield [[-1.0, -1.0], [-1.0]], True
    yield [[-2.0, -2.0, -2.0, -0.5], [-1.5]], True
    yield [[-1.1] * 11, [-1.0, -1.0]], True
    yield [[-150.0], [-120.0]], False  # lower than a start of -100, and e to it is not yet 0
    yield [[-900.0], [-800.0]], False  # e to them is 0
    yield [[-300.0] * 3, [-280.0] * 3], True  # e to the sums is 0; a perplexity is still a float
    yield [[-0.1, -3.0], [-1.0, -1.0]], True
    yield [[-1.0], [-0.525, -0.525]], True  # any forgiveness for length, not only the mean's
    yield [[-3e12], [-2e12]], False  # lower than any start that one would type
    yield [[-1.000001], [-1.0]], True  # nearly equal is not equal
    yield [[-1.5, -1.5], [-0.1, -2.7]], True  # nor does a mean of squares say so
    yield [[-3.0, -3.0, -0.3], [-2.0, -2.0]], True  # two parts of unequal length weigh unequally
    yield [[-1.0, -1.0, -4.0], [-1.5, -1.5, -1.5]], True  # the middle token is better
    yield [[-2.0], [-3.0, -0.5, -0.5]], True  # the weakest token is better
    for normalized in (False, True) * 4:
        lengths = rng.integers(1, 9, size=5)
        yield [(-rng.exponential(size=n)).tolist() for n in lengths], normalized
    for normalized in (False, True):
        yield [(-3 * rng.exponential(size=n)).tolist() for n in rng.integers(3, 9, 14)], normalized


def _long_and_single(rng: np.random.Generator) -> Iterator[tuple[list[list[float]], bool]]:
    for normalized in (False, True):
        yield [[-30.0] * 30, [-50.0] * 15], normalized
        yield [[-0.25]], normalized
        yield [[-0.01] * 300, [-1.5]], normalized
        yield [[-0.001] * 300 + [-6.0], [-0.01] * 100], normalized  # the end may decide
        yield [[-1.0, 0.0], [0.0], [0.0, 0.0]], normalized  # some token is certain
        yield [[-1.0, 0.0], [-0.75]], normalized
        yield [[-0.25, -0.75], [-0.5, -0.5]], normalized  # equal, and not equally steady


PICK = Exercise(
    id="05.1",
    title="Pick the best",
    task=(
        "Rank completions by the sum of their log-probabilities, or by the mean. Return the index "
        "of the best one, and of the *first* one if several are equally good."
    ),
    stars=1,
    minutes=5,
    reference=pick,
    alternatives=[pick_loop],
    wrong={
        changed(pick, "always_the_sum", "sum(row) / len(row) if normalized else ", ""): (
            "normalized=True makes no difference: divide each sum by its own completion's length "
            "then (one number for all would change no ranking)."
        ),
        changed(
            pick, "always_the_mean", " if normalized else sum(row)", ""
        ): "you divide by the length even if normalized is False.",
        changed(pick, "the_worst", "argmax", "argmin"): (
            "that is the least probable one: log-probabilities are negative, and the best is the "
            "one nearest to 0."
        ),
        changed(
            pick, "last_of_equals", "np.argmax(scores)", "len(scores) - 1 - np.argmax(scores[::-1])"
        ): "among equals the first one wins; you return the last.",
        changed(
            pick,
            "multiplies_probabilities",
            "sum(row) / len(row) if normalized else sum(row)",
            "np.prod(np.exp(row)) ** (1 / len(row) if normalized else 1)",
        ): (
            "the probability of hundreds of tokens is too small for a float: e to the -800 is 0, "
            "like e to the -900. Stay with the logarithms, and add."
        ),
        changed(
            pick,
            "shares_out_the_probability",
            "sum(row) / len(row) if normalized else sum(row)",
            "np.exp(sum(row)) / (len(row) if normalized else 1)",
        ): (
            "you divide the probability of the whole text by its length. The mean is one of "
            "logarithms: divide their sum, and take no exponential."
        ),
        changed(
            pick,
            "mean_of_probabilities",
            "sum(row) / len(row) if",
            "np.mean(np.exp(row)) if",
        ): "you take the mean of the probabilities; take the mean of their logarithms.",
        changed(
            pick, "the_longest", "sum(row) / len(row) if normalized else sum(row)", "len(row)"
        ): "you compare lengths: compare the log-probabilities.",
        changed(
            pick, "the_score_itself", "int(np.argmax(scores))", "max(scores)"
        ): "that is the best score; return the index of its completion.",
        changed(
            pick, "the_completion_itself", "int(np.argmax(scores))", "logprobs[np.argmax(scores)]"
        ): "that is the best completion; return its index.",
    },
    cases=_completions,
    checker=edges(_long_and_single),
    hints=[
        "One score for each completion, then the place of the largest.",
        "A mean is a sum, divided by its own row's length. What finds the place of the largest of "
        "several numbers, and the first of equals?",
    ],
    next="Divide by the root of the length. Where does that stand between the two rules?",
)

# ------------------------------------------------------------------ 05.2 unbiased pass@k


def pass_at_k(n, c, k):
    """Estimate the probability that at least one of k samples is right.

    n: samples drawn, perhaps hundreds.   c: how many of them are right, 0 to n.   k: 1 to n.
    Count the k-subsets of the n samples: which share holds at least one right sample?
    """
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def enumerated(n, c, k):
    right = [sample < c for sample in range(n)]
    subsets = list(combinations(right, k))
    return sum(any(subset) for subset in subsets) / len(subsets)


def product(n, c, k):
    none_right = 1.0
    for i in range(k):
        none_right *= max(n - c - i, 0) / (n - i)
    return 1 - none_right


def float_factorials(n, c, k):
    def choose(a, b):
        return math.gamma(a + 1) / math.gamma(b + 1) / math.gamma(a - b + 1) if b <= a else 0.0

    return 1 - choose(n - c, k) / choose(n, k)


_NONE = "math.comb(n - c, k) / math.comb(n, k)"


def _subsets(rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    """Yield n, c and k.

    Ideas that come out right on some of them: draws with replacement; chances are added; all, none
    or exactly one instead of at least one; the answer is certain one sample too early, or never;
    numbers too large for a float; a few random subsets; a rounded answer.
    """
    yield 2, 1, 1
    yield 3, 1, 2
    yield 4, 2, 2
    yield 5, 0, 3
    yield 5, 5, 2
    yield 6, 4, 3
    for _ in range(4):
        n = int(rng.integers(6, 12))
        yield n, int(rng.integers(1, n)), int(rng.integers(2, n))


def _large_and_extreme(rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    yield 1, 0, 1
    yield 1, 1, 1
    yield 7, 3, 1
    yield 7, 3, 7
    yield 7, 3, 4  # every wrong one fits, and no other
    yield 7, 3, 5
    yield 400, 13, 2  # few subsets of many: whoever lists them may
    yield 300, 2, 299
    yield 300, 1, 299  # a product of 299 factors is too large for a float


PASS_AT_K = Exercise(
    id="05.2",
    title="pass@k without bias",
    task=(
        "You drew n samples, and c of them are right. What would k samples have achieved? Putting "
        "`c / n` into `1 - (1 - p) ** k` is tempting and biased: the average of a curve is not "
        "the curve of the average. Count subsets instead."
    ),
    stars=2,
    minutes=10,
    reference=pass_at_k,
    alternatives=[enumerated, product],
    wrong={
        changed(pass_at_k, "with_replacement", _NONE, "(1 - c / n) ** k"): (
            "that is the biased formula: it draws k samples *with* replacement from the n, as if "
            "one sample could be drawn twice. A subset holds k different samples."
        ),
        changed(pass_at_k, "k_times_one", f"1 - {_NONE}", "min(1.0, k * c / n)"): (
            "chances of overlapping events can't be added: several of the k samples may be right "
            "at once."
        ),
        changed(
            pass_at_k, "all_of_them", f"1 - {_NONE}", "math.comb(c, k) / math.comb(n, k)"
        ): "that is the chance that *all* k are right; one is enough.",
        changed(
            pass_at_k, "none_of_them", "1 - ", ""
        ): "that is the chance that none is right: take 1 minus it.",
        changed(
            pass_at_k, "first_k_only", f"1 - {_NONE}", "1.0 if c and k > n - c else c / n"
        ): "k hardly enters your answer: more samples must give a larger chance.",
        changed(
            pass_at_k,
            "exactly_one",
            f"1 - {_NONE}",
            "c * math.comb(n - c, k - 1) / math.comb(n, k)",
        ): "that is the chance that *exactly* one is right: two or more count as well.",
        float_factorials: (
            "the factorial of some hundreds is too large for a float: math.comb counts in whole "
            "numbers, and a quotient of two whole numbers may be as large as it likes."
        ),
    },
    cases=_subsets,
    checker=edges(_large_and_extreme),
    hints=[
        "How many k-subsets are there? How many hold only wrong samples?",
        "math.comb(a, b) counts the subsets of b things out of a. Out of how many samples is a "
        "subset taken that holds no right one?",
    ],
    next="For n = 2, c = 1, k = 2: what do both formulas say, and which one is right?",
)

# ------------------------------------------------------------------ 05.3 best of k, from n


def best_of_k(scores, right, k):
    """Return how often the best-scored of k samples is right, over all k-subsets of the n.

    scores: what the choice looks at, n different numbers.   right: n truths, 1 or 0.   k: 1 to n.
    With the samples sorted from the worst, the one at place r (from 0) is the best of a subset
    if the other k - 1 come from the r before it.
    """
    order = np.argsort(scores)
    n = len(scores)
    total = 0.0
    for r, index in enumerate(order):
        total += right[index] * math.comb(r, k - 1) / math.comb(n, k)
    return total


def weight_by_weight(scores, right, k):
    pairs = sorted(zip(scores, right, strict=True), reverse=True)
    left, mean = 1.0, 0.0  # the share of subsets that hold none of those above
    for above, (_, truth) in enumerate(pairs):
        remaining = len(pairs) - above
        mean += left * min(1.0, k / remaining) * truth
        left *= max(0, remaining - k) / remaining
    return mean


def every_subset(scores, right, k):
    subsets = list(combinations(range(len(scores)), k))
    return sum(right[max(subset, key=lambda i: scores[i])] for subset in subsets) / len(subsets)


_SHARE = "math.comb(r, k - 1) / math.comb(n, k)"


def _scored(rng: np.random.Generator) -> Iterator[tuple[list[float], list[int], int]]:
    """Yield scores, truths and k.

    Ideas that come out right on some of them: any right one counts; the order is turned round, left
    as it is, or taken for the ranks; one subset stands for all; draws with replacement; the sample
    counts among those it beats; scores are compared as texts, by their size without the sign, or
    rounded.
    """
    yield [0.3, 0.1, 0.2], [0, 1, 1], 2
    yield [0.3, 0.1, 0.2], [1, 0, 0], 1
    yield [1.0, 2.0, 3.0, 4.0], [0, 1, 1, 0], 3
    yield [3.0, 1.0, 2.0], [1, 0, 0], 3  # the best of all of them is not the last
    yield [0.500003, 0.500001, 0.500002], [1, 0, 0], 2  # different, though near
    yield [8004.0, 8002.0, 8003.0], [1, 0, 0], 2  # half precision knows only every fourth
    yield [0.3, -0.1, -0.2], [1, 0, 1], 2  # the sign counts
    yield [10, 9, 8], [1, 0, 0], 2  # as a text, 10 comes before 8
    for k in (1, 2, 3, 5):
        scores = rng.permutation(8) + rng.uniform(0, 0.5, size=8)
        yield scores.tolist(), rng.integers(0, 2, size=8).tolist(), k
    scores = (rng.normal(size=12) * 1000 - 2000).round(1)
    yield scores.tolist(), rng.integers(0, 2, size=12).tolist(), 4


def _many_and_single(rng: np.random.Generator) -> Iterator[tuple[list[float], list[int], int]]:
    yield [-7.5], [1], 1
    yield [-7.5], [0], 1
    yield [2.0, -1.0, 0.0], [0, 0, 0], 2
    for k in (1, 2, 21, 22):  # few subsets of many: whoever lists them may
        yield rng.permutation(22).tolist(), rng.integers(0, 2, size=22).tolist(), k


BEST_OF_K = Exercise(
    id="05.3",
    title="One sort, every N",
    task=(
        "You scored n samples once and want the accuracy of best-of-k, without drawing again: the "
        "mean over *all* k-subsets. There are far too many to list for n = 64, but a sort is "
        "enough. This is how the curves above were made."
    ),
    stars=3,
    minutes=15,
    reference=best_of_k,
    alternatives=[weight_by_weight, every_subset],
    wrong={
        changed(
            best_of_k,
            "any_right",
            "return total",
            "return 1 - math.comb(n - sum(right), k) / math.comb(n, k)",
        ): (
            "that is pass@k: it asks whether *any* of the k is right, but the score chooses which "
            "one is kept."
        ),
        changed(best_of_k, "from_the_best", "np.argsort(scores)", "np.argsort(scores)[::-1]"): (
            "the order is turned round: the samples *below* one in score are those it beats, so "
            "sort from the worst."
        ),
        changed(
            best_of_k, "unsorted", "np.argsort(scores)", "range(len(scores))"
        ): "places are those after sorting by score, not those of the list.",
        changed(
            best_of_k, "first_k", "return total", "return right[np.argmax(scores[:k])]"
        ): "that is one subset, the first k samples; take the mean over all of them.",
        changed(
            best_of_k, "best_of_all", "return total", "return right[order[-1]]"
        ): "that is the best of all n samples, whatever k is.",
        changed(
            best_of_k, "itself_included", _SHARE, "math.comb(r + 1, k) / math.comb(n + 1, k + 1)"
        ): "the best one is itself one of the k: the other k - 1 come from those below it.",
        changed(best_of_k, "with_replacement", _SHARE, "((r + 1) ** k - r**k) / n**k"): (
            "those are the chances of k draws *with* replacement: a subset holds k different "
            "samples, so count with math.comb."
        ),
        changed(
            best_of_k,
            "order_for_rank",
            "right[index] * math.comb(r,",
            "right[r] * math.comb(index,",
        ): (
            "np.argsort says *who* is at each place, not at which place each one is: go through "
            "it with enumerate."
        ),
        changed(
            best_of_k, "the_mean", "return total", "return sum(right) / n"
        ): "that is the accuracy of one sample: k and the scores play no part.",
        changed(
            best_of_k,
            "mean_of_the_best_k",
            "return total",
            "return np.mean(np.array(right)[order[-k:]])",
        ): "only the best of a subset is kept, and subsets are drawn from all n.",
        changed(
            best_of_k, "mean_best_score", "right[index]", "scores[index]"
        ): "that is the mean *score* of the best one: ask whether it is right.",
    },
    cases=_scored,
    checker=edges(_many_and_single),
    hints=[
        "order = np.argsort(scores) lists the samples from the worst to the best.",
        "Three samples make three pairs. The worst is the best of none of them, the middle one of "
        "one, the best of two: which math.comb gives 0, 1, 2?",
    ],
    next="What does the function give for k = 1 and k = n? And which of the two is noisier?",
)
