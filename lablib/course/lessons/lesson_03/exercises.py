"""Exercises of lesson 03: cutting, penalising and drawing."""

from collections.abc import Iterator

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.running import Watched
from lablib.course.lessons.edges import further

import numpy as np


def _rows(rng: np.random.Generator, rows: int, vocabulary: int) -> np.ndarray:
    exact = rng.dirichlet(np.full(vocabulary, 0.6), size=rows)
    return rng.multinomial(100_000, exact) / 100_000  # five digits, which can be shown


def _refuse_the_old(function: Watched) -> None:
    if function.shared:
        text = (
            "its answers are right, but it returns {0} itself: whoever changes the one changes the "
        )
        raise Wrong(f"{text.format(function.shared[0])}other. Return a new array.")


# ------------------------------------------------------------------ 03.1 top-p


def nucleus(probs, p):
    """Keep the nucleus of each row: a token stays while the mass before it is below p.

    probs: probabilities, shape (rows, tokens), in the order of the vocabulary, not sorted.
    p: above 0, at most 1.
    Return new probabilities of the same shape: 0 where cut, each row summing to 1. Leave the old.
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


def _nuclei(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, float]]:
    """Yield rows; where p is 1 their sums, added up best first, stay just below 1 by rounding."""
    yield np.array([[0.2, 0.5, 0.3]]), 0.6
    yield np.array([[0.1, 0.2, 0.3, 0.4]]), 1.0
    yield np.array([[0.3, 0.6, 0.1], [0.1, 0.2, 0.7]]), 1.0
    yield np.array([[0.1, 0.4, 0.3, 0.2], [0.4, 0.3, 0.2, 0.1]]), 0.65
    yield np.array([[0.05, 0.3, 0.4, 0.25], [0.01, 0.9, 0.06, 0.03]]), 0.92
    for p in (0.79998, 0.8):  # rounded, both are reached, or neither is
        yield np.array([[0.3, 0.49999, 0.20001]]), p
    for rows, vocabulary, p in ((3, 5, 0.97), (5, 60, 0.8)):
        yield _rows(rng, rows, vocabulary), p


def _edges(_: np.random.Generator) -> Iterator[tuple[np.ndarray, float]]:
    """Yield what float32 and float64 both hold exactly, so that a boundary is one for all."""
    yield np.array([[0.125, 0.5, 0.125, 0.25]]), 0.75
    yield np.array([[0.25, 0.75], [0.75, 0.25]]), 0.75
    yield np.array([[0.125, 0.875], [0.25, 0.75]]), 0.5
    yield np.array([[0.0, 1.0, 0.0]]), 0.9
    yield np.array([[0.375, 0.625]]), 0.25  # either has p alone, and the best comes first
    yield np.array([[0.25, 0.5, 0.25]]), 1.0
    yield np.array([[0.9999, 0.0001]]), 1.0  # no token is too small to stay
    yield np.array([[1.0], [1.0]]), 0.3
    yield np.array([[0.3, 0.06, 0.64], [0.5, 0.3, 0.2], [0.1, 0.05, 0.85]]), 0.55


_compare_at_edges = further(_edges)


def _edges_and_ties(function: Watched) -> None:
    _compare_at_edges(function)
    for probs in (np.full((1, 4), 0.25), np.array([[0.125, 0.125, 0.5, 0.125, 0.125]])):
        kept, right = np.asarray(function(probs, 0.625), dtype=float), nucleus(probs, 0.625)
        if not np.abs(np.sort(kept) - np.sort(right)).max() <= NUCLEUS.tolerance:  # or it is NaN
            keeps = f"keeps {(kept > 0).sum()} tokens, expected {(right > 0).sum()} of them"
            text = f"nucleus({probs.tolist()}, 0.625) {keeps}"
            raise Wrong(text, like="keeps_all_ties" if (kept > 0).all() else None)
    if function.changed:
        raise Wrong("its answers are right, but it changes probs: return new probabilities.")
    _refuse_the_old(function)


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
        changed(
            nucleus,
            "without_the_crossing_token",
            "before < p",
            "(before + best_first <= p) | (before == 0)",
        ): (
            "the token that crosses p is missing: keep a token while the mass *before* it is "
            "below p, so the one that reaches p stays."
        ),
        changed(nucleus, "keeps_at_the_boundary", "before < p", "before <= p"): (
            "when the mass before a token is exactly p, it goes: below p is <, not <=."
        ),
        changed(
            nucleus,
            "looks_for_p_among_the_sums",
            "before < p",
            "np.arange(probs.shape[1])"
            " <= np.argmax(before + best_first >= p, axis=1, keepdims=True)",
        ): (
            "you look for the first sum that reaches p. At p = 1 rounding may leave all sums just "
            "below it, and argmax then says 0: compare the mass *before* each token with p."
        ),
        changed(
            nucleus,
            "sorted_order",
            "np.put_along_axis(kept, order, np.where(before < p, best_first, 0), axis=1)",
            "kept = np.where(before < p, best_first, 0)",
        ): (
            "the right probabilities, most probable first: put them back in the vocabulary's order."
        ),
        changed(
            nucleus,
            "scattered_with_take",
            "np.put_along_axis(kept, order, np.where(before < p, best_first, 0), axis=1)",
            "kept = np.take_along_axis(np.where(before < p, best_first, 0), order, axis=1)",
        ): "take_along_axis with the same order sorts once more; put_along_axis is its inverse.",
        changed(nucleus, "least_probable_first", "argsort(-probs", "argsort(probs"): (
            "you add up from the least probable; begin with the best."
        ),
        changed(
            nucleus,
            "keeps_all_ties",
            "    return kept",
            "    smallest = np.where(kept > 0, kept, 2).min(axis=1, keepdims=True)\n"
            "    kept = np.where(probs >= smallest, probs, 0)\n"
            "    return kept",
        ): (
            "of equally probable tokens you keep all, although the mass before the later ones has "
            "reached p: compare masses, not probabilities."
        ),
        changed(
            nucleus, "at_least_p_each", "before < p", "(best_first >= p) | (before == 0)"
        ): "p is a mass that tokens reach together; you compare each one alone with it.",
        changed(nucleus, "unsorted", "argsort(-probs", "argsort(0 * probs"): (
            "the tokens are added up in the order of the vocabulary; the nucleus adds the most "
            "probable first."
        ),
        changed(nucleus, "not_renormalised", " / kept.sum(axis=1, keepdims=True)", ""): (
            "the right tokens stay, but the rows don't sum to 1 any more."
        ),
        changed(nucleus, "one_sum_for_all_rows", "kept.sum(axis=1, keepdims=True)", "kept.sum()"): (
            "you divide by the sum of the whole batch: each row has its own."
        ),
        changed(
            nucleus,
            "first_row_for_all",
            "    return kept",
            "    kept = np.where(kept[:1] > 0, probs, 0)\n    return kept",
        ): "every row keeps the tokens that the first row would: each row has its own nucleus.",
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


def _ratios(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, float]]:
    """Yield rows in which whoever stands exactly at the threshold does so in binary, too."""
    yield np.array([0.5, 0.25, 0.25]), 0.5
    yield np.array([0.4, 0.3, 0.2, 0.1]), 0.3
    yield np.array([0.1, 0.2, 0.7]), 0.25
    yield np.array([0.25, 0.375, 0.375]), 1.0
    yield np.array([0.5, 0.0, 0.5]), 0.0
    yield np.array([0.96875, 0.03125]), 0.0  # 0 is not "as usual"
    yield np.array([0.25, 0.75]), 0.5  # the best stays alone
    yield np.array([0.5, 0.4375, 0.0625]), 0.75  # and not alone
    yield np.array([0.51, 0.49]), 0.98  # the other one is near, and not near enough
    yield np.array([0.5, 0.249999, 0.250001]), 0.5  # nearly enough is not enough
    yield np.array([0.64, 0.3481, 0.0119]), 0.544  # in whole per cent it would be, and to 3 digits
    yield np.array([0.5, 0.15001, 0.34999]), 0.3  # the threshold in half precision is above it
    yield np.array([0.0, 1.0, 0.0]), 0.1
    yield np.array([1.0]), 0.5
    yield np.full(16, 0.0625), 1.0  # as many as there are
    yield np.array([0.9, 0.0999, 1e-4, 0.0]), 1e-4
    for vocabulary, m in ((5, 0.1), (8, 0.2), (60, 0.1), (60, 0.001)):
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
        changed(keep_likely, "absolute_threshold", "m * probs.max()", "m"): (
            "your threshold is m itself; it should be m times the largest probability."
        ),
        changed(
            keep_likely,
            "absolute_threshold_or_the_best",
            "probs >= m * probs.max()",
            "(probs >= m) | (probs == probs.max())",
        ): "you keep the best and what has m by itself; the measure is m times the best.",
        changed(keep_likely, "drops_the_tie", ">=", ">"): (
            "exactly m times is enough: >= and not >. At m = 1 even the best one has gone."
        ),
        changed(
            keep_likely,
            "drops_the_tie_but_the_best",
            "probs >= m * probs.max()",
            "(probs > m * probs.max()) | (probs == probs.max())",
        ): "a token that is exactly m times as probable as the best one stays.",
        changed(keep_likely, "not_renormalised_row", " / kept.sum()", ""): (
            "the right tokens stay, but they don't sum to 1 any more."
        ),
        changed(keep_likely, "difference_to_the_best", "m * probs.max()", "probs.max() - m"): (
            "you subtract m from the best probability; `m` times as probable is a product."
        ),
        changed(keep_likely, "share_of_the_mean", "probs.max()", "probs.mean()"): (
            "you compare with the mean; the measure is the best token."
        ),
        changed(keep_likely, "share_of_the_first", "probs.max()", "probs[0]"): (
            "you compare with the first token; the best one may stand anywhere."
        ),
        changed(
            keep_likely,
            "keeps_the_unlikely",
            "probs >= m * probs.max()",
            "(probs <= m * probs.max()) | (probs == probs.max())",
        ): "your comparison is turned round: the likely ones stay.",
        changed(
            keep_likely, "mass_instead_of_ratio", "probs >= m", "nucleus(probs[None], 1 - m)[0] > 0"
        ): "that is a top-p: min-p compares each token with the best one and adds nothing up.",
    },
    cases=_ratios,
    hints=[
        "One comparison and one division.",
        "np.where(stays, probs, 0) keeps who stays; the threshold goes with probs.max().",
    ],
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


def _histories(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, list[int], float]]:
    yield np.array([2.0, -2.0, 1.0]), [0], 2.0
    yield np.array([2.0, 2.0]), [0], 2.0  # two tokens of one score
    yield np.array([4.0, 2.0]), [0, 1], 2.0  # what one becomes, the other was
    yield np.array([-1.0, -2.0]), [0], 2.0  # the sign is the token's own, not that of the best
    yield np.array([2.0, -2.0, 1.0]), [1, 1], 2.0
    yield np.array([0.0, -2.0, 1.0]), [2, 0, 2, 2], 1.5
    yield np.array([3.0, -1.0, -0.5, 1.5, 2.0]), [4, 1, 0, 4], 1.25
    yield np.array([0.5, 0.25, -4.0]), [1, 2, 0], 1.5
    yield np.array([0.03, -1.0, 6.0]), [0, 1, 2], 3.0  # small ones too, and more than doubled
    for vocabulary in (6, 6, 80):
        recent = rng.integers(0, vocabulary, size=vocabulary - 1).tolist()
        scores = np.round(rng.normal(size=vocabulary) * 3, 1)
        yield scores, recent, round(float(rng.uniform(1.1, 2)), 1)


@further
def _compare_little_said(_: np.random.Generator) -> Iterator[tuple[np.ndarray, list[int], float]]:
    yield np.array([2.0, -2.0, 1.0]), [], 1.5
    yield np.array([-1.0]), [0], 2.0


def _nothing_said_much_said_nothing_changed(function: Watched) -> None:
    _compare_little_said(function)
    if np.asarray(function(np.array([2.0, -2.0, 1.0]), [0] + [1] * 70, 2.0))[0] != 1:
        text = "discourage(np.array([2.0, -2.0, 1.0]), [0] + [1] * 70, 2.0) leaves token 0 as it is"
        raise Wrong(text, like="window_of_64")
    if np.asarray(function(np.array([2.0, -2.0, 1.0]), [1] * 70 + [0], 2.0))[0] != 1:
        text = "discourage(np.array([2.0, -2.0, 1.0]), [1] * 70 + [0], 2.0) leaves token 0 as it is"
        raise Wrong(text)
    if "scores" in function.changed:
        raise Wrong("its answers are right, but look at the old scores.", like="changes_the_scores")
    _refuse_the_old(function)


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
    further=True,
    reference=discourage,
    alternatives=[discourage_loop],
    wrong={
        changed(
            discourage, "divides_everything", "scores[seen] * penalty", "scores[seen] / penalty"
        ): (
            "a negative score that is divided gets larger, so the token becomes *more* likely: "
            "multiply negative scores."
        ),
        changed(
            discourage_loop,
            "once_per_occurrence",
            "(s / penalty if s > 0 else s * penalty) if token in recent else s",
            "s * penalty ** (recent.count(token) * (-1 if s > 0 else 1))",
        ): (
            "a token that occurs twice is punished twice; this penalty counts distinct tokens. "
            "(The frequency penalty counts occurrences.)"
        ),
        changed(
            discourage_loop,
            "divides_each_time",
            "(s / penalty if s > 0 else s * penalty) if token in recent else s",
            "s / penalty ** recent.count(token)",
        ): (
            "you divide, whatever the sign, and once for each occurrence: multiply negative "
            "scores, and meet each distinct token once."
        ),
        changed(discourage_loop, "everyone", " if token in recent else s", ""): (
            "you punish every token; only those in recent have been said."
        ),
        changed(
            discourage, "multiplies_everything", "scores[seen] / penalty", "scores[seen] * penalty"
        ): (
            "a positive score that is multiplied gets larger, so the token becomes *more* likely: "
            "divide positive scores."
        ),
        changed(discourage, "leaves_negative_ones", "scores[seen] * penalty", "scores[seen]"): (
            "tokens with a negative score go unpunished: multiply those by the penalty."
        ),
        changed(
            discourage_loop, "subtracts", "(s / penalty if s > 0 else s * penalty)", "s - penalty"
        ): "you subtract the penalty; this one divides and multiplies.",
        changed(discourage, "latest_only", "np.array(recent,", "np.array(recent[-1:],"): (
            "you punish the latest token only: all of recent have been said."
        ),
        changed(discourage, "window_of_64", "np.array(recent,", "np.array(recent[-64:],"): (
            "you look at the last 64 only, as the library does by default: recent is the window "
            "already, all of it counts."
        ),
        changed(
            discourage_loop, "repeats_only", "token in recent", "recent.count(token) > 1"
        ): "you punish what was said at least twice; once is enough.",
        changed(
            discourage_loop, "ignores_token_0", "token in recent", "token and token in recent"
        ): "token 0 goes unpunished: `if token` is false for 0.",
        changed(discourage, "changes_the_scores", "scores.copy()", "scores"): (
            "the scores that you were given have changed, and somebody may still need them: work "
            "on a copy."
        ),
        changed(discourage, "encourages", "scores[seen] > 0", "scores[seen] < 0"): (
            "the tokens of recent become more likely instead of less."
        ),
    },
    cases=_histories,
    checker=_nothing_said_much_said_nothing_changed,
    hints=[
        "for token in set(recent) meets each token once. Or: np.unique(np.array(recent, int)); "
        "without the int an empty list makes an array of floats, which is no index.",
        "scores.copy() leaves the old ones alone; np.where(s > 0, this, that) minds the sign.",
    ],
    next="Which penalty would stop a model that says 'and and and', and which would spoil a poem?",
)

# ------------------------------------------------------------------ 03.4 drawing


def gumbel_draw(logits, u):
    """Draw a token with probability softmax(logits), without computing the softmax.

    logits: shape (tokens,), of any size.   u: independent numbers in (0, 1), shape (tokens,).
    Return the token (an int) whose logit plus Gumbel noise is largest.
    """
    return int(np.argmax(logits - np.log(-np.log(u))))


def exponential_race(logits, u):
    return int(np.argmin(-np.log(u) / np.exp(logits - logits.max())))


def _races(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield two tokens, the second a little behind or ahead of where the noise makes them equal.

    So close that other noise, even one a tenth too strong, turns one of the two round.
    """
    for first, second in ((0.5, 0.1), (0.9, 0.5), (0.99, 0.3), (0.05, 0.6), (0.2, 0.8)):
        gap = np.log(np.log(second) / np.log(first))
        for margin in (-0.02, 0.02):
            yield np.array([0.0, round(gap + margin, 2)]), np.array([first, second])
    yield np.array([0.0, 2.0]), np.array([0.9, 0.1])
    yield np.array([0.0, 0.3]), np.array([0.9, 0.2])
    yield np.array([1.0, 0.0]), np.array([0.5, 0.55])
    yield np.array([0.0, 0.0]), np.array([0.995, 0.999])  # clipped they are the same
    yield np.array([0.0, 0.0]), np.array([0.001, 0.005])
    yield np.array([0.3, 0.0]), np.array([1e-30, 1e-20])  # no need of a little more: u is above 0
    yield np.array([0.0, -40.0]), np.array([1e-30, 0.9999999])  # far behind, and not nearer
    yield np.array([0.0, -12.0]), np.array([0.5, 0.9999999])  # far behind, and not out of the race
    yield np.array([2.56, 0.0]), np.array([0.5, 0.9])  # base 2 turns it round, a third more doesn't
    yield np.arange(5.5, -0.5, -0.5), np.array([0.1] * 11 + [0.9999])  # anybody can win
    yield np.array([600.1, 600.2]), np.array([0.5, 0.5])  # half precision has too few digits
    for vocabulary in (3, 3, 5, 5, 8, 8, 8, 8, 40, 400):
        logits = np.round(rng.normal(size=vocabulary) * 2, 1)
        yield logits, np.round(rng.uniform(0.001, 0.999, size=vocabulary), 3)


def _large_logits(_: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    u = np.array([0.25, 0.5, 0.75])
    yield from ((base + np.array([1.0, 2.0, 0.0]), u) for base in (5000.0, -5000.0))
    yield np.array([-3.0]), u[:1]


GUMBEL = Exercise(
    id="03.4",
    title="The Gumbel trick",
    task=(
        "A draw without a softmax: add Gumbel noise `-log(-log(u))` to each logit and take the "
        "best. It takes a random number for each token. (`transforms.draw` adds probabilities up "
        "instead, with one for each row.)"
    ),
    stars=2,
    minutes=6,
    further=True,
    reference=gumbel_draw,
    alternatives=[exponential_race],
    wrong={
        changed(exponential_race, "race_that_overflows", "logits - logits.max()", "logits"): (
            "a good race, but e to a large logit overflows: stay with sums of logits and noise."
        ),
        changed(
            gumbel_draw,
            "noise_on_probabilities",
            "logits - np",
            "np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum() - np",
        ): (
            "the noise belongs on the logits; on probabilities it drowns them: everything becomes "
            "nearly equally likely."
        ),
        changed(gumbel_draw, "uniform_noise", "- np.log(-np.log(u))", "+ u"): (
            "uniform noise is bounded: a token that is 1 below the best could never win. Gumbel "
            "noise is -log(-log(u))."
        ),
        changed(gumbel_draw, "logistic_noise", "- np.log(-np.log(u))", "+ np.log(u / (1 - u))"): (
            "log(u / (1 - u)) is the noise of the logistic distribution, and draws other shares: "
            "Gumbel noise is -log(-log(u))."
        ),
        changed(gumbel_draw, "other_base", "np.log(-np.log(u))", "np.log2(-np.log2(u))"): (
            "logits go with natural logarithms: np.log, not np.log2."
        ),
        changed(gumbel_draw, "one_log", "np.log(-np.log(u))", "np.log(u)"): (
            "one logarithm is missing: the noise is -log(-log(u))."
        ),
        changed(gumbel_draw, "takes_the_best", " - np.log(-np.log(u))", ""): (
            "that is greedy: the random numbers change nothing."
        ),
        changed(gumbel_draw, "wrong_sign", "logits -", "logits +"): (
            "the sign of the noise is turned: log(-log(u)) is its negative, so subtract it."
        ),
        changed(gumbel_draw, "largest_noise", "logits - np", "-np"): (
            "you look at the noise alone: add it to the logits."
        ),
        changed(gumbel_draw, "smallest_sum", "argmax", "argmin"): (
            "you take the smallest sum; wanted is the largest."
        ),
        changed(gumbel_draw, "noise_of_the_rest", "np.log(u)", "np.log(1 - u)"): (
            "that is a fair draw too, but from 1 - u; wanted is the one from u, so that everybody "
            "draws the same token."
        ),
        changed(gumbel_draw, "value_of_the_best", "int(np.argmax(", "float(np.max("): (
            "you return the largest sum; wanted is the token that has it."
        ),
    },
    cases=_races,
    checker=further(_large_logits),
    hints=[
        "The noise is -np.log(-np.log(u)), with a minus in front: one number for each token.",
        "np.max gives the largest sum, np.argmax the place where it stands.",
    ],
    next="Draw 10,000 tokens and compare their frequencies with the softmax.",
)
