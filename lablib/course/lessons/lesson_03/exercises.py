"""Exercises of lesson 03: cutting, penalising and drawing."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from lablib.course.checks.comparing import compare
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.running import Watched

import numpy as np


def _rows(rng: np.random.Generator, rows: int, vocabulary: int) -> np.ndarray:
    return rng.dirichlet(np.full(vocabulary, 0.6), size=rows)


# ------------------------------------------------------------------ 03.1 top-p


def nucleus(probs, p):
    """Keep the nucleus of each row: a token stays while the mass before it is below p.

    probs: probabilities, shape (rows, tokens), in the order of the vocabulary, not sorted.
    p: above 0, at most 1.
    Return new probabilities of the same shape: 0 where cut, each row summing to 1.
    """
    order = np.argsort(-probs, axis=1, kind="stable")
    best_first = np.take_along_axis(probs, order, axis=1)
    before = np.cumsum(best_first, axis=1) - best_first
    kept = np.zeros_like(probs)
    np.put_along_axis(kept, order, np.where(before < p, best_first, 0), axis=1)
    return kept / kept.sum(axis=1, keepdims=True)


def nucleus_loop(probs, p):
    result = np.zeros_like(probs)
    for row, row_probs in enumerate(probs):
        mass = 0.0
        for token in sorted(range(len(row_probs)), key=lambda t: -row_probs[t]):
            if mass < p:
                result[row, token] = row_probs[token]
            mass += row_probs[token]
    return result / result.sum(axis=1, keepdims=True)


def without_the_crossing_token(probs, p):
    order = np.argsort(-probs, axis=1, kind="stable")
    best_first = np.take_along_axis(probs, order, axis=1)
    stays = np.cumsum(best_first, axis=1) <= p
    stays[:, 0] = True
    kept = np.zeros_like(probs)
    np.put_along_axis(kept, order, np.where(stays, best_first, 0), axis=1)
    return kept / kept.sum(axis=1, keepdims=True)


def keeps_at_the_boundary(probs, p):
    order = np.argsort(-probs, axis=1, kind="stable")
    best_first = np.take_along_axis(probs, order, axis=1)
    before = np.cumsum(best_first, axis=1) - best_first
    kept = np.zeros_like(probs)
    np.put_along_axis(kept, order, np.where(before <= p, best_first, 0), axis=1)
    return kept / kept.sum(axis=1, keepdims=True)


def sorted_order(probs, p):
    return -np.sort(-nucleus(probs, p), axis=1)


def scattered_with_take(probs, p):
    order = np.argsort(-probs, axis=1, kind="stable")
    return np.take_along_axis(sorted_order(probs, p), order, axis=1)


def least_probable_first(probs, p):
    order = np.argsort(probs, axis=1, kind="stable")
    best_last = np.take_along_axis(probs, order, axis=1)
    before = np.cumsum(best_last, axis=1) - best_last
    kept = np.zeros_like(probs)
    np.put_along_axis(kept, order, np.where(before < p, best_last, 0), axis=1)
    return kept / kept.sum(axis=1, keepdims=True)


def keeps_all_ties(probs, p):
    smallest = np.where(nucleus(probs, p) > 0, probs, np.inf).min(axis=1, keepdims=True)
    kept = np.where(probs >= smallest, probs, 0)
    return kept / kept.sum(axis=1, keepdims=True)


def at_least_p_each(probs, p):
    kept = np.where((probs >= p) | (probs == probs.max(axis=1, keepdims=True)), probs, 0)
    return kept / kept.sum(axis=1, keepdims=True)


def unsorted(probs, p):
    kept = np.where(np.cumsum(probs, axis=1) - probs < p, probs, 0)
    return kept / kept.sum(axis=1, keepdims=True)


def not_renormalised(probs, p):
    return np.where(nucleus(probs, p) > 0, probs, 0)


def first_row_for_all(probs, p):
    kept = np.where(nucleus(probs[:1], p) > 0, probs, 0)
    return kept / kept.sum(axis=1, keepdims=True)


def _nuclei(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, float]]:
    yield np.array([[0.2, 0.5, 0.3]]), 0.6
    yield np.array([[0.1, 0.4, 0.3, 0.2], [0.4, 0.3, 0.2, 0.1]]), 0.6
    for rows, vocabulary, p in ((1, 6, 0.9), (3, 5, 0.97), (4, 9, 0.95), (5, 60, 0.8)):
        yield _rows(rng, rows, vocabulary), p


def _edges(_: np.random.Generator) -> Iterator[tuple[np.ndarray, float]]:
    """Yield what float32 and float64 both hold exactly, so that a boundary is one for all."""
    yield np.array([[0.125, 0.5, 0.125, 0.25]]), 0.75
    yield np.array([[0.25, 0.75], [0.75, 0.25]]), 0.75
    yield np.array([[0.125, 0.875], [0.25, 0.75]]), 0.5
    yield np.array([[0.0, 1.0, 0.0]]), 0.9
    yield np.array([[0.25, 0.5, 0.25]]), 1.0
    yield np.array([[1.0], [1.0]]), 0.3


def _edges_and_ties(function: Watched) -> None:
    compare(replace(NUCLEUS, cases=_edges), function)
    for probs in (np.full((1, 4), 0.25), np.array([[0.125, 0.125, 0.5, 0.125, 0.125]])):
        kept = np.asarray(function(probs, 0.625), dtype=float)
        apart = np.abs(np.sort(kept) - np.sort(nucleus(probs, 0.625))).max()
        if not apart <= NUCLEUS.tolerance:  # a NaN is neither more nor less
            text = f"nucleus({probs.tolist()}, 0.625) keeps {(kept > 0).sum()} tokens."
            raise Wrong(text, like="keeps_all_ties")
    if function.changed:
        raise Wrong("its answers are right, but it changes probs: return new probabilities.")


NUCLEUS = Exercise(
    id="03.1",
    title="Top-p for a batch",
    task=(
        "Keep the nucleus of every row: sort by probability, keep a token while the mass *before* "
        "it is below `p`, put everything back in the vocabulary's order, renormalise. Of equally "
        "probable tokens any may come first, but each adds to the mass before the next."
    ),
    stars=3,
    minutes=15,
    reference=nucleus,
    alternatives=[nucleus_loop],
    wrong={
        without_the_crossing_token: (
            "the token that crosses p is missing: keep a token while the mass *before* it is "
            "below p, so the one that reaches p stays."
        ),
        keeps_at_the_boundary: (
            "when the mass before a token is exactly p, it goes: below p is <, not <=."
        ),
        sorted_order: (
            "the right probabilities, most probable first: put them back in the vocabulary's order."
        ),
        scattered_with_take: (
            "take_along_axis with the same order sorts once more; put_along_axis is its inverse."
        ),
        least_probable_first: "you add up from the least probable; begin with the best.",
        keeps_all_ties: (
            "of equally probable tokens you keep all, although the mass before the later ones has "
            "reached p: compare masses, not probabilities."
        ),
        at_least_p_each: (
            "p is a mass that tokens reach together; you compare each one alone with it."
        ),
        unsorted: (
            "the tokens are added up in the order of the vocabulary; the nucleus adds the most "
            "probable first."
        ),
        not_renormalised: "the right tokens stay, but the rows don't sum to 1 any more.",
        first_row_for_all: (
            "every row keeps the tokens that the first row would: each row has its own nucleus."
        ),
    },
    cases=_nuclei,
    checker=_edges_and_ties,
    hints=[
        "np.argsort(-probs, axis=1) gives each row's order; np.take_along_axis applies it.",
        "before = cumsum - itself. np.put_along_axis writes the kept values back.",
    ],
    next="What does your function keep for p = 0? And is that what you want?",
)

# ------------------------------------------------------------------ 03.2 min-p


def keep_likely(probs, m):
    """Keep the tokens that are at least m times as probable as the best one, and renormalise.

    probs: probabilities of one row, shape (tokens,).   m: from 0 to 1, both included.
    """
    kept = np.where(probs >= m * probs.max(), probs, 0)
    return kept / kept.sum()


def keep_likely_list(probs, m):
    best = max(probs)
    kept = [p if p >= m * best else 0.0 for p in probs]
    return np.array([p / sum(kept) for p in kept])


def absolute_threshold(probs, m):
    kept = np.where((probs >= m) | (probs == probs.max()), probs, 0)
    return kept / kept.sum()


def drops_the_tie(probs, m):
    kept = np.where((probs > m * probs.max()) | (probs == probs.max()), probs, 0)
    return kept / kept.sum()


def not_renormalised_row(probs, m):
    return np.where(probs >= m * probs.max(), probs, 0)


def difference_to_the_best(probs, m):
    kept = np.where(probs >= probs.max() - m, probs, 0)
    return kept / kept.sum()


def share_of_the_mean(probs, m):
    kept = np.where(probs >= m * probs.mean(), probs, 0)
    return kept / kept.sum()


def keeps_the_unlikely(probs, m):
    kept = np.where((probs <= m * probs.max()) | (probs == probs.max()), probs, 0)
    return kept / kept.sum()


def mass_instead_of_ratio(probs, m):
    return nucleus(probs[None], 1 - m)[0]


def _ratios(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, float]]:
    yield np.array([0.5, 0.25, 0.25]), 0.5
    yield np.array([0.4, 0.3, 0.2, 0.1]), 0.3
    yield np.array([0.25, 0.375, 0.375]), 1.0
    yield np.array([0.5, 0.0, 0.5]), 0.0
    yield np.array([0.0, 1.0, 0.0]), 0.1
    yield np.array([1.0]), 0.5
    yield np.array([0.9, 0.0999, 1e-4, 0.0]), 1e-4
    for vocabulary, m in ((5, 0.1), (8, 0.2), (12, 0.05), (500, 0.1)):
        yield _rows(rng, 1, vocabulary)[0], m


MIN_P = Exercise(
    id="03.2",
    title="Min-p",
    task=(
        "The threshold of min-p moves with the model's certainty: a token stays if it is at least "
        "`m` times as probable as the best one. Exactly `m` times is enough."
    ),
    stars=1,
    minutes=5,
    reference=keep_likely,
    alternatives=[keep_likely_list],
    wrong={
        absolute_threshold: (
            "your threshold is m itself; it should be m times the largest probability."
        ),
        drops_the_tie: "a token that is exactly m times as probable as the best one stays.",
        not_renormalised_row: "the right tokens stay, but they don't sum to 1 any more.",
        difference_to_the_best: (
            "you subtract m from the best probability; `m` times as probable is a product."
        ),
        share_of_the_mean: "you compare with the mean; the measure is the best token.",
        keeps_the_unlikely: "your comparison is turned round: the likely ones stay.",
        mass_instead_of_ratio: (
            "that is a top-p: min-p compares each token with the best one and adds nothing up."
        ),
    },
    cases=_ratios,
    hints=["One comparison and one division.", "probs >= m * probs.max()"],
    next="When the best token has probability 0.9, which tokens can stay at m = 0.2?",
)

# ------------------------------------------------------------------ 03.3 repetition penalty


def discourage(scores, recent, penalty):
    """Return new scores in which every token that occurs in `recent` is less likely.

    scores: one score for each token, an array of shape (tokens,); it must not change.
    recent: a list of token ids, repeats allowed; it may be empty.
    penalty: above 1. A positive score is divided by it, a negative one multiplied.
    """
    scores = scores.copy()
    seen = np.unique(np.array(recent, dtype=int))
    scores[seen] = np.where(scores[seen] > 0, scores[seen] / penalty, scores[seen] * penalty)
    return scores


def discourage_loop(scores, recent, penalty):
    return np.array(
        [
            (s / penalty if s > 0 else s * penalty) if token in recent else s
            for token, s in enumerate(scores)
        ]
    )


def divides_everything(scores, recent, penalty):
    scores = scores.copy()
    scores[list(set(recent))] /= penalty
    return scores


def once_per_occurrence(scores, recent, penalty):
    for token in recent:
        scores = discourage(scores, [token], penalty)
    return scores


def divides_each_time(scores, recent, penalty):
    scores = scores.copy()
    for token in recent:
        scores[token] /= penalty
    return scores


def everyone(scores, recent, penalty):
    return np.where(scores > 0, scores / penalty, scores * penalty)


def multiplies_everything(scores, recent, penalty):
    scores = scores.copy()
    scores[list(set(recent))] *= penalty
    return scores


def leaves_negative_ones(scores, recent, penalty):
    return np.where(scores > 0, discourage(scores, recent, penalty), scores)


def subtracts(scores, recent, penalty):
    scores = scores.copy()
    scores[list(set(recent))] -= penalty
    return scores


def latest_only(scores, recent, penalty):
    return discourage(scores, recent[-1:], penalty)


def ignores_token_0(scores, recent, penalty):
    return discourage(scores, [token for token in recent if token], penalty)


def changes_the_scores(scores, recent, penalty):
    for token in set(recent):
        scores[token] = scores[token] / penalty if scores[token] > 0 else scores[token] * penalty
    return scores


def encourages(scores, recent, penalty):
    return discourage(scores, recent, 1 / penalty)


def _histories(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, list[int], float]]:
    yield np.array([2.0, -2.0, 1.0]), [0], 2.0
    yield np.array([2.0, -2.0, 1.0]), [1, 1], 2.0
    yield np.array([0.0, -2.0, 1.0]), [2, 0, 2, 2], 1.5
    for vocabulary in (6, 6, 6, 40):
        recent = rng.integers(0, vocabulary, size=vocabulary - 1).tolist()
        yield rng.normal(size=vocabulary) * 3, recent, float(rng.uniform(1.1, 2))


def _nothing_said_and_nothing_changed(function: Watched) -> None:
    cases = [(np.array([2.0, -2.0, 1.0]), [], 1.5), (np.array([-1.0]), [0], 2.0)]
    compare(replace(PENALTY, cases=lambda _: cases), function)
    if "scores" in function.changed:
        raise Wrong("its answers are right, but look at the old scores.", like="changes_the_scores")


PENALTY = Exercise(
    id="03.3",
    title="A penalty for repeating",
    task=(
        "Make the tokens of `recent` less likely, each **once**, however often it occurs. Mind the "
        "sign: a score can be negative. At the beginning of a text `recent` is empty. Return new "
        "scores and leave the old ones as they are."
    ),
    stars=2,
    minutes=8,
    reference=discourage,
    alternatives=[discourage_loop],
    wrong={
        divides_everything: (
            "a negative score that is divided gets larger, so the token becomes *more* likely: "
            "multiply negative scores."
        ),
        once_per_occurrence: (
            "a token that occurs twice is punished twice; this penalty counts distinct tokens. "
            "(The frequency penalty counts occurrences.)"
        ),
        divides_each_time: (
            "you divide, whatever the sign, and once for each occurrence: multiply negative "
            "scores, and meet each distinct token once."
        ),
        everyone: "you punish every token; only those in recent have been said.",
        multiplies_everything: (
            "a positive score that is multiplied gets larger, so the token becomes *more* likely: "
            "divide positive scores."
        ),
        leaves_negative_ones: (
            "tokens with a negative score go unpunished: multiply those by the penalty."
        ),
        subtracts: "you subtract the penalty; this one divides and multiplies.",
        latest_only: "you punish the latest token only: all of recent have been said.",
        ignores_token_0: "token 0 goes unpunished: `if token` is false for 0.",
        changes_the_scores: (
            "the scores that you were given have changed, and somebody may still need them: work "
            "on a copy."
        ),
        encourages: "the tokens of recent become more likely instead of less.",
    },
    cases=_histories,
    checker=_nothing_said_and_nothing_changed,
    hints=[
        "for token in set(recent) meets each token once. Or: np.unique(np.array(recent, int)); "
        "without the int an empty list makes an array of floats, which is no index.",
        "On a copy of the scores: np.where(s > 0, s / penalty, s * penalty) for those tokens.",
    ],
    next="Which penalty would stop a model that says 'and and and', and which would spoil a poem?",
)

# ------------------------------------------------------------------ 03.4 drawing


def gumbel_draw(logits, u):
    """Draw a token with probability softmax(logits), without computing the softmax.

    logits: shape (tokens,), of any size.   u: independent numbers in (0, 1), shape (tokens,).
    Return the token (an int) where logits - log(-log(u)) is largest.
    """
    return int(np.argmax(logits - np.log(-np.log(u))))


def exponential_race(logits, u):
    return int(np.argmin(-np.log(u) / np.exp(logits - logits.max())))


def noise_on_probabilities(logits, u):
    probs = np.exp(logits - logits.max())
    return int(np.argmax(probs / probs.sum() - np.log(-np.log(u))))


def uniform_noise(logits, u):
    return int(np.argmax(logits + u))


def wrong_sign(logits, u):
    return int(np.argmax(logits + np.log(-np.log(u))))


def largest_noise(logits, u):
    return int(np.argmax(-np.log(-np.log(u))))


def smallest_sum(logits, u):
    return int(np.argmin(logits - np.log(-np.log(u))))


def noise_of_the_rest(logits, u):
    return int(np.argmax(logits - np.log(-np.log(1 - u))))


def value_of_the_best(logits, u):
    return float(np.max(logits - np.log(-np.log(u))))


def race_that_overflows(logits, u):
    return int(np.argmin(-np.log(u) / np.exp(logits)))


def one_log(logits, u):
    return int(np.argmax(logits - np.log(u)))


def takes_the_best(logits, u):
    return int(np.argmax(logits))


def _races(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield np.array([0.0, 2.0]), np.array([0.9, 0.1])
    yield np.array([0.0, 0.3]), np.array([0.9, 0.2])
    yield np.array([0.0, 2.0]), np.array([0.5, 0.5])
    for vocabulary in (3, 3, 5, 5, 8, 8, 8, 8, 40, 40, 40, 400):
        yield rng.normal(size=vocabulary) * 2, rng.uniform(0.001, 0.999, size=vocabulary)


def _large_logits(function: Callable[..., object]) -> None:
    u = np.array([0.25, 0.5, 0.75])
    cases = [(base + np.array([1.0, 2.0, 0.0]), u) for base in (1000.0, -1000.0)]
    cases.append((np.array([-3.0]), u[:1]))
    compare(replace(GUMBEL, cases=lambda _: cases), function)


GUMBEL = Exercise(
    id="03.4",
    title="The Gumbel trick",
    task=(
        "A draw without a softmax: add Gumbel noise `-log(-log(u))` to each logit and take the "
        "best. It is what a fast sampler does, because a batch needs one pass and no sums."
    ),
    stars=2,
    minutes=6,
    reference=gumbel_draw,
    alternatives=[exponential_race],
    wrong={
        race_that_overflows: (
            "a good race, but e to a large logit overflows: stay with sums of logits and noise."
        ),
        noise_on_probabilities: (
            "the noise belongs on the logits; on probabilities it drowns them: everything becomes "
            "nearly equally likely."
        ),
        uniform_noise: (
            "uniform noise is bounded: a token that is 1 below the best could never win. Gumbel "
            "noise is -log(-log(u))."
        ),
        one_log: "one logarithm is missing: the noise is -log(-log(u)).",
        takes_the_best: "that is greedy: the random numbers are not used.",
        wrong_sign: (
            "the sign of the noise is turned: log(-log(u)) is its negative, so subtract it."
        ),
        largest_noise: "you look at the noise alone: add it to the logits.",
        smallest_sum: "you take the smallest sum; wanted is the largest.",
        noise_of_the_rest: (
            "that is a fair draw too, but from 1 - u; wanted is the one from u, so that everybody "
            "draws the same token."
        ),
        value_of_the_best: "you return the largest sum; wanted is the token that has it.",
    },
    cases=_races,
    checker=_large_logits,
    hints=[
        "The noise is -np.log(-np.log(u)), with a minus in front: one number for each token.",
        "Add it to the logits, as logits - np.log(-np.log(u)), and take int(np.argmax(...)).",
    ],
    next="Draw 10,000 tokens and compare their frequencies with the softmax.",
)
