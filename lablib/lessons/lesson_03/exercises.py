"""Exercises of lesson 03: cutting, penalising and drawing."""

from collections.abc import Iterator

from lablib.classroom.exercises import Exercise

import numpy as np


def _rows(rng: np.random.Generator, rows: int, vocabulary: int) -> np.ndarray:
    return rng.dirichlet(np.full(vocabulary, 0.6), size=rows)


# ------------------------------------------------------------------ 03.1 top-p


def nucleus(probs, p):
    """Keep the nucleus of each row: a token stays while the mass before it is below p.

    probs: probabilities, shape (rows, tokens), in the order of the vocabulary, not sorted.
    Return probabilities of the same shape: 0 where cut, each row summing to 1.
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
    yield np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]), 0.4
    for rows, vocabulary, p in ((1, 6, 0.9), (3, 5, 0.7), (4, 9, 0.95)):
        yield _rows(rng, rows, vocabulary), p


NUCLEUS = Exercise(
    id="03.1",
    title="Top-p for a batch",
    task=(
        "Keep the nucleus of every row: sort by probability, keep a token while the mass *before* "
        "it is below `p`, put everything back in the vocabulary's order, renormalise."
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
    hints=[
        "np.argsort(-probs, axis=1) gives each row's order; np.take_along_axis applies it.",
        "before = cumsum - itself. np.put_along_axis writes the kept values back.",
    ],
    next="What does your function keep for p = 0? And is that what you want?",
)

# ------------------------------------------------------------------ 03.2 min-p


def keep_likely(probs, m):
    """Keep the tokens that are at least m times as probable as the best one, and renormalise.

    probs: probabilities of one row, shape (tokens,).   m: between 0 and 1.
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


def mass_instead_of_ratio(probs, m):
    return nucleus(probs[None], 1 - m)[0]


def _ratios(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, float]]:
    yield np.array([0.5, 0.25, 0.25]), 0.5
    yield np.array([0.4, 0.3, 0.2, 0.1]), 0.3
    for vocabulary, m in ((5, 0.1), (8, 0.2), (12, 0.05)):
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

    scores: one score for each token, shape (tokens,).   recent: token ids, repeats allowed.
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


def everyone(scores, recent, penalty):
    return np.where(scores > 0, scores / penalty, scores * penalty)


def encourages(scores, recent, penalty):
    return discourage(scores, recent, 1 / penalty)


def _histories(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, list[int], float]]:
    yield np.array([2.0, -2.0, 1.0]), [0], 2.0
    yield np.array([2.0, -2.0, 1.0]), [1, 1], 2.0
    yield np.array([2.0, -2.0, 1.0]), [], 1.5
    for _ in range(4):
        recent = rng.integers(0, 6, size=5).tolist()
        yield rng.normal(size=6) * 3, recent, float(rng.uniform(1.1, 2))


PENALTY = Exercise(
    id="03.3",
    title="A penalty for repeating",
    task=(
        "Make the tokens of `recent` less likely, each **once**, however often it occurs. Mind the "
        "sign: a score can be negative."
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
        everyone: "you punish every token; only those in recent have been said.",
        encourages: "the tokens of recent become more likely instead of less.",
    },
    cases=_histories,
    hints=["np.unique(recent) holds each token once.", "np.where(s > 0, s / penalty, s * penalty)"],
    next="Which penalty would stop a model that says 'and and and', and which would spoil a poem?",
)

# ------------------------------------------------------------------ 03.4 drawing


def gumbel_draw(logits, u):
    """Draw a token with probability softmax(logits), without computing the softmax.

    logits: shape (tokens,).   u: independent uniform numbers in (0, 1), shape (tokens,).
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


def one_log(logits, u):
    return int(np.argmax(logits - np.log(u)))


def takes_the_best(logits, u):
    return int(np.argmax(logits))


def _races(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield np.array([0.0, 2.0]), np.array([0.9, 0.1])
    yield np.array([0.0, 0.3]), np.array([0.9, 0.2])
    yield np.array([0.0, 2.0]), np.array([0.5, 0.5])
    for vocabulary in (3, 3, 5, 5, 8, 8, 8, 8):
        yield rng.normal(size=vocabulary) * 2, rng.uniform(size=vocabulary)


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
    },
    cases=_races,
    hints=["np.log(-np.log(u)) is the noise with its sign turned.", "np.argmax of the sum."],
    next="Draw 10,000 tokens and compare their frequencies with the softmax.",
)
