"""Exercises of lesson 05: choosing one of many, and counting what could have been chosen."""

import math
from collections.abc import Iterator
from itertools import combinations

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


def always_the_sum(logprobs, normalized):
    return int(np.argmax([sum(row) for row in logprobs]))


def always_the_mean(logprobs, normalized):
    return int(np.argmax([sum(row) / len(row) for row in logprobs]))


def the_worst(logprobs, normalized):
    return int(np.argmin([sum(r) / len(r) if normalized else sum(r) for r in logprobs]))


def last_of_equals(logprobs, normalized):
    scores = [sum(row) / len(row) if normalized else sum(row) for row in logprobs]
    return max(range(len(scores)), key=lambda i: (scores[i], i))


def multiplies_probabilities(logprobs, normalized):
    scores = []
    for row in logprobs:
        probability = math.prod(math.exp(x) for x in row)
        scores.append(probability ** (1 / len(row)) if normalized else probability)
    return int(np.argmax(scores))


def the_longest(logprobs, normalized):
    return int(np.argmax([len(row) for row in logprobs]))


def the_score_itself(logprobs, normalized):
    return max(sum(row) / len(row) if normalized else sum(row) for row in logprobs)


def the_completion_itself(logprobs, normalized):
    return logprobs[pick(logprobs, normalized)]


def _completions(rng: np.random.Generator) -> Iterator[tuple[list[list[float]], bool]]:
    short_or_even = [[-1.0, -0.5], [-0.5, -0.5, -0.5, -0.5], [-2.0]]
    yield short_or_even, False
    yield short_or_even, True
    yield [[-1.0, -1.0], [-1.0, -1.0]], True
    yield [[-0.5], [-1.0], [-0.5]], False
    yield [[-1.1] * 11, [-1.0, -1.0]], True
    for normalized in (False, True) * 4:
        lengths = rng.integers(1, 9, size=5)
        yield [(-rng.exponential(size=n)).tolist() for n in lengths], normalized
    for normalized in (False, True):
        yield [(-3 * rng.exponential(size=n)).tolist() for n in rng.integers(3, 9, 14)], normalized


def _long_and_single(rng: np.random.Generator) -> Iterator[tuple[list[list[float]], bool]]:
    for normalized in (False, True):
        yield [[-3.0] * 400, [-4.0] * 400, [-2.5] * 440, [-2.75] * 420], normalized
        yield [[-30.0] * 600, [-50.0] * 300], normalized
        yield [[-0.25]], normalized
        yield [[-1.0, 0.0], [0.0], [0.0, 0.0]], normalized  # some token is certain


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
        always_the_sum: (
            "normalized=True makes no difference: divide each sum by its own completion's length "
            "then (one number for all would change no ranking)."
        ),
        always_the_mean: "you divide by the length even if normalized is False.",
        the_worst: (
            "that is the least probable one: log-probabilities are negative, and the best is the "
            "one nearest to 0."
        ),
        last_of_equals: "among equals the first one wins; you return the last.",
        multiplies_probabilities: (
            "the probability of hundreds of tokens is too small for a float: it becomes 0 for all "
            "of them. Stay with the logarithms, and add."
        ),
        the_longest: "you compare lengths: compare the log-probabilities.",
        the_score_itself: "that is the best score; return the index of its completion.",
        the_completion_itself: "that is the best completion; return its index.",
    },
    cases=_completions,
    checker=edges(_long_and_single),
    hints=[
        "One score for each completion, then the place of the largest.",
        "sum(row) / len(row); np.argmax returns the first of the largest.",
    ],
    next="Can the sum's winner ever be longer than the mean's winner? Try to prove your answer.",
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


def with_replacement(n, c, k):
    return 1 - (1 - c / n) ** k


def k_times_one(n, c, k):
    return min(1.0, k * c / n)


def all_of_them(n, c, k):
    return math.comb(c, k) / math.comb(n, k)


def none_of_them(n, c, k):
    return math.comb(n - c, k) / math.comb(n, k)


def exactly_one(n, c, k):
    return c * math.comb(n - c, k - 1) / math.comb(n, k)


def float_factorials(n, c, k):
    def choose(a, b):
        return math.gamma(a + 1) / math.gamma(b + 1) / math.gamma(a - b + 1) if b <= a else 0.0

    return 1 - choose(n - c, k) / choose(n, k)


def first_k_only(n, c, k):
    return 1.0 if c and k > n - c else c / n


def _subsets(rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
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
        with_replacement: (
            "that is the biased formula: it draws k samples *with* replacement from the n, as if "
            "one sample could be drawn twice. A subset holds k different samples."
        ),
        k_times_one: (
            "chances of overlapping events can't be added: several of the k samples may be right "
            "at once."
        ),
        all_of_them: "that is the chance that *all* k are right; one is enough.",
        none_of_them: "that is the chance that none is right: take 1 minus it.",
        first_k_only: "k hardly enters your answer: more samples must give a larger chance.",
        exactly_one: "that is the chance that *exactly* one is right: two or more count as well.",
        float_factorials: (
            "the factorial of some hundreds is too large for a float: math.comb counts in whole "
            "numbers, and a quotient of two whole numbers may be as large as it likes."
        ),
    },
    cases=_subsets,
    checker=edges(_large_and_extreme),
    hints=[
        "How many k-subsets are there? How many hold only wrong samples?",
        "math.comb(n - c, k) of the math.comb(n, k) subsets hold no right sample.",
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


def any_right(scores, right, k):
    n, c = len(right), int(sum(right))
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def from_the_best(scores, right, k):
    n = len(scores)
    order = np.argsort(scores)[::-1]
    return sum(right[i] * math.comb(r, k - 1) for r, i in enumerate(order)) / math.comb(n, k)


def unsorted(scores, right, k):
    n = len(scores)
    return sum(right[i] * math.comb(i, k - 1) for i in range(n)) / math.comb(n, k)


def first_k(scores, right, k):
    return float(right[int(np.argmax(scores[:k]))])


def best_of_all(scores, right, k):
    return float(right[int(np.argmax(scores))])


def itself_included(scores, right, k):
    n = len(scores)
    order = np.argsort(scores)
    weights = [math.comb(r + 1, k) for r in range(n)]
    return sum(right[i] * w for i, w in zip(order, weights, strict=True)) / sum(weights)


def with_replacement(scores, right, k):
    n = len(scores)
    order = np.argsort(scores)
    return sum(right[i] * ((r + 1) ** k - r**k) / n**k for r, i in enumerate(order))


def order_for_rank(scores, right, k):
    n = len(scores)
    places = np.argsort(scores).tolist()
    return sum(right[i] * math.comb(places[i], k - 1) for i in range(n)) / math.comb(n, k)


def the_mean(scores, right, k):
    return sum(right) / len(right)


def mean_of_the_best_k(scores, right, k):
    return sum(right[i] for i in np.argsort(scores)[-k:]) / k


def mean_best_score(scores, right, k):
    return best_of_k(scores, scores, k)


def _scored(rng: np.random.Generator) -> Iterator[tuple[list[float], list[int], int]]:
    yield [0.3, 0.1, 0.2], [0, 1, 1], 2
    yield [0.3, 0.1, 0.2], [1, 0, 0], 1
    yield [1.0, 2.0, 3.0, 4.0], [0, 1, 1, 0], 3
    for k in (1, 2, 3, 5):
        scores = rng.permutation(8) + rng.uniform(0, 0.5, size=8)
        yield scores.tolist(), rng.integers(0, 2, size=8).tolist(), k
    yield (rng.normal(size=12) * 1000 - 2000).tolist(), rng.integers(0, 2, size=12).tolist(), 4


def _many_and_single(rng: np.random.Generator) -> Iterator[tuple[list[float], list[int], int]]:
    yield [-7.5], [1], 1
    yield [-7.5], [0], 1
    yield [2.0, -1.0, 0.0], [0, 0, 0], 2
    for k in (1, 2, 63, 64):  # few subsets of many: whoever lists them may
        yield rng.permutation(64).tolist(), rng.integers(0, 2, size=64).tolist(), k


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
        any_right: (
            "that is pass@k: it asks whether *any* of the k is right, but the score chooses which "
            "one is kept."
        ),
        from_the_best: (
            "the order is turned round: the samples *below* one in score are those it beats, so "
            "sort from the worst."
        ),
        unsorted: "places are those after sorting by score, not those of the list.",
        first_k: "that is one subset, the first k samples; take the mean over all of them.",
        best_of_all: "that is the best of all n samples, whatever k is.",
        itself_included: (
            "the best one is itself one of the k: the other k - 1 come from those below it."
        ),
        with_replacement: (
            "those are the chances of k draws *with* replacement: a subset holds k different "
            "samples, so count with math.comb."
        ),
        order_for_rank: (
            "np.argsort says *who* is at each place, not at which place each one is: go through "
            "it with enumerate."
        ),
        the_mean: "that is the accuracy of one sample: k and the scores play no part.",
        mean_of_the_best_k: "only the best of a subset is kept, and subsets are drawn from all n.",
        mean_best_score: "that is the mean *score* of the best one: ask whether it is right.",
    },
    cases=_scored,
    checker=edges(_many_and_single),
    hints=[
        "order = np.argsort(scores) lists the samples from the worst to the best.",
        "Place r is the best of math.comb(r, k - 1) subsets, of math.comb(n, k) in all.",
    ],
    next="What does the function give for k = 1 and k = n? And which of the two is noisier?",
)
