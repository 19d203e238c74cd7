"""Answers to the exercises of lesson 03, as students write them: right ones and wrong ones."""

from itertools import pairwise
from statistics import NormalDist

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

# ------------------------------------------------------------------ 03.1 top-p


def top_p(stays, order=lambda row: np.argsort(-row, kind="stable"), divide=True, back=True):
    """Return an answer to 03.1, row by row; ``stays(sums, row, p)`` of the sorted row."""

    def nucleus(probs, p):
        result = np.zeros_like(probs)
        for i, row in enumerate(probs):
            places = order(row)
            kept = np.where(stays(np.cumsum(row[places]), row[places], p), row[places], 0)
            result[i, places if back else slice(None)] = kept / kept.sum() if divide else kept
        return result

    return nucleus


def before(sums, row, p):
    return sums - row < p


def the_first_that_is_enough(probs, p):
    alone = np.eye(probs.shape[1])[np.argmax(probs >= p, axis=1)]
    return np.where((probs >= p).any(axis=1, keepdims=True), alone, top_p(before)(probs, p))


def shifted_sums(sums, row, p):
    return np.concatenate([[0], sums[:-1]]) < p


def crossing(sums, row, p):
    stays = sums < p
    stays[np.argmax(~stays)] = True  # the first one that is out comes back in
    return stays


def up_to_the_first_sum(sums, row, p):
    return np.arange(len(sums)) < np.argmax(sums >= p) + 1


def first_place_where(sums, row, p):
    return np.arange(len(sums)) <= np.where(sums >= p)[0][0]


def while_the_mass_is_below(probs, p):
    result = np.zeros_like(probs)
    for i, row in enumerate(probs):
        order, mass, k = np.argsort(-row, kind="stable"), 0.0, 0
        while mass < p:
            mass, k = mass + row[order[k]], k + 1
        result[i, order[:k]] = row[order[:k]] / mass
    return result


def in_mlx(probs, p):
    probs = mx.array(probs, mx.float32)
    order = mx.argsort(-probs, axis=1)
    best_first = mx.take_along_axis(probs, order, axis=1)
    stays = mx.cumsum(best_first, axis=1, inclusive=False) < p
    kept = mx.put_along_axis(mx.zeros_like(probs), order, mx.where(stays, best_first, 0), axis=1)
    return kept / kept.sum(axis=1, keepdims=True)


def by_inverse_order(probs, p):
    order = np.argsort(-probs, axis=1)
    best_first = np.take_along_axis(probs, order, axis=1)
    kept = np.where(np.cumsum(best_first, axis=1) - best_first < p, best_first, 0)
    kept = np.take_along_axis(kept, np.argsort(order, axis=1), axis=1)
    return (kept / kept.sum(axis=1, keepdims=True)).tolist()


def threshold(probs, p):
    best_first = -np.sort(-probs, axis=1)
    smallest = np.where(np.cumsum(best_first, axis=1) - best_first < p, best_first, 2).min(axis=1)
    kept = np.where(probs >= smallest[:, None], probs, 0)
    return kept / kept.sum(axis=1, keepdims=True)


def whole_batch_at_once(probs, p):
    return top_p(before)(probs.reshape(1, -1), p).reshape(probs.shape)


def one_total_for_all_rows(probs, p):
    kept = top_p(before, divide=False)(probs, p)
    return kept / kept.sum() * len(kept)


def sorts_the_argument(probs, p):
    return top_p(before)(-np.sort(-probs, axis=1), p)


def writes_into_the_argument(probs, p):
    probs[...] = top_p(before)(probs, p)
    return probs


# ------------------------------------------------------------------ 03.2 min-p


def min_p(stays, divide=True):
    """Return an answer to 03.2 with another comparison."""

    def keep(probs, m):
        kept = np.where(stays(probs, m), probs, 0)
        return kept / kept.sum() if divide else kept

    return keep


def ratio(probs, m):
    return probs / probs.max() >= m


def one_by_one(probs, m):
    kept = [p if p >= m * max(probs) else 0 for p in probs]
    return [p / sum(kept) for p in kept]


# ------------------------------------------------------------------ 03.3 a penalty


def by_loop(scores, recent, penalty, tokens=set, copy=True, rule=None):
    scores = scores.copy() if copy else scores
    for token in tokens(recent):
        s = scores[token]
        scores[token] = rule(s, penalty) if rule else s / penalty if s > 0 else s * penalty
    return scores


def with_int_index(scores, recent, penalty):
    seen = np.unique(np.array(recent, int))
    result = np.array(scores)
    result[seen] = np.minimum(result[seen] / penalty, result[seen] * penalty)
    return mx.array(result)


def unique_floats(scores, recent, penalty):
    scores, seen = scores.copy(), np.unique(recent)
    scores[seen] = np.where(scores[seen] > 0, scores[seen] / penalty, scores[seen] * penalty)
    return scores


def with_a_mask(scores, recent, penalty):
    said = np.isin(np.arange(len(scores)), recent)
    return np.where(
        said, scores - abs(scores) * np.where(scores > 0, 1 - 1 / penalty, penalty - 1), scores
    )


def whoever_has_such_a_score(scores, recent, penalty):
    said = np.isin(scores, scores[sorted({*recent})])
    return np.where(said, np.where(scores > 0, scores / penalty, scores * penalty), scores)


def remembers_scores(scores, recent, penalty):
    """Punish each token whose score is none of those that a punished one has now."""
    scores, done = scores.copy(), set()
    for token in recent:
        if scores[token] not in done:
            scores[token] *= 1 / penalty if scores[token] > 0 else penalty
            done.add(scores[token])
    return scores


def rule(change):
    return lambda scores, recent, penalty: by_loop(scores, recent, penalty, rule=change)


def tokens(choose, copy=True):
    return lambda scores, recent, penalty: by_loop(scores, recent, penalty, choose, copy)


# ------------------------------------------------------------------ 03.4 the Gumbel trick


def noise(u):
    return -np.log(-np.log(u))


def race(logits, u):
    return np.argmin(np.log(-np.log(u)) - logits)


def loop(logits, u):
    sums = [x - np.log(-np.log(v)) for x, v in zip(logits.tolist(), u.tolist(), strict=True)]
    return sums.index(max(sums))


RIGHT = [
    ("03.1", top_p(before)),
    ("03.1", top_p(shifted_sums)),
    ("03.1", top_p(crossing, order=lambda row: sorted(range(len(row)), key=lambda i: -row[i]))),
    ("03.1", in_mlx),
    ("03.1", by_inverse_order),
    ("03.1", top_p(before, order=lambda row: np.argsort(row)[::-1])),  # ties the other way round
    ("03.2", min_p(ratio)),
    ("03.2", min_p(lambda p, m: p >= p.max() * m)),
    (
        "03.2",
        lambda p, m: (
            mx.where(mx.array(p) >= m * max(p), mx.array(p), 0) / p[p >= m * p.max()].sum()
        ),
    ),
    ("03.2", one_by_one),
    ("03.2", lambda p, m: np.float32(one_by_one(p, m))),
    ("03.3", by_loop),
    ("03.3", with_int_index),
    ("03.3", with_a_mask),
    (
        "03.3",
        lambda s, r, p: [x / p ** (1 if x > 0 else -1) if t in r else x for t, x in enumerate(s)],
    ),
    ("03.3", lambda s, r, p: mx.array(by_loop(s, r, p))),
    ("03.4", race),
    ("03.4", loop),
    ("03.4", lambda x, u: mx.argmax(mx.array(x) - mx.log(-mx.log(mx.array(u))))),
    ("03.4", lambda x, u: np.argmin(-np.log(u) / np.exp(x - x.max()))),
    ("03.4", lambda x, u: np.float64(np.argsort(x + noise(u))[-1])),
]
WRONG = [
    ("03.1", "keeps_at_the_boundary", top_p(lambda sums, row, p: sums - row <= p)),
    ("03.1", "without_the_crossing_token", top_p(lambda sums, row, p: sums <= p)),
    ("03.1", "without_the_crossing_token", top_p(lambda sums, row, p: sums < p)),
    ("03.1", "sorted_order", top_p(before, back=False)),
    ("03.1", "sorted_order", sorts_the_argument),
    ("03.1", "unsorted", top_p(before, order=lambda row: np.arange(len(row)))),
    ("03.1", "not_renormalised", top_p(before, divide=False)),
    ("03.1", "least_probable_first", top_p(before, order=np.argsort)),
    ("03.1", "keeps_all_ties", threshold),
    ("03.1", "looks_for_p_among_the_sums", top_p(up_to_the_first_sum)),
    ("03.1", None, top_p(first_place_where)),
    ("03.1", None, while_the_mass_is_below),
    ("03.1", None, whole_batch_at_once),
    ("03.1", None, one_total_for_all_rows),
    ("03.1", None, writes_into_the_argument),
    ("03.1", None, top_p(lambda sums, row, p: row >= p)),
    ("03.1", None, top_p(lambda sums, row, p: np.arange(len(row)) < p * len(row))),
    ("03.1", None, top_p(lambda sums, row, p: sums - row < p - 1e-3)),
    ("03.1", None, top_p(lambda sums, row, p: np.arange(len(row)) <= np.argmax(sums > p))),
    ("03.1", None, top_p(lambda sums, row, p: np.round(sums - row, 2) < p)),
    ("03.1", None, top_p(lambda sums, row, p: sums - row < p + 1e-3)),
    ("03.1", None, lambda probs, p: top_p(before)(probs[:1], p)),
    ("03.1", None, the_first_that_is_enough),
    ("03.1", None, lambda probs, p: probs if p == 1 else top_p(before)(probs, p)),
    ("03.1", None, top_p(lambda sums, row, p: (sums - row < p) & (row >= 0.01 * row.max()))),
    ("03.1", None, lambda probs, p: top_p(before)(probs, p) > 0),
    ("03.2", "absolute_threshold", min_p(lambda p, m: p >= m)),
    ("03.2", "absolute_threshold_or_the_best", min_p(lambda p, m: (p >= m) | (p == p.max()))),
    ("03.2", "drops_the_tie", min_p(lambda p, m: p / p.max() > m)),
    (
        "03.2",
        "drops_the_tie_but_the_best",
        min_p(lambda p, m: (p > m * p.max()) | (p == p.max())),
    ),
    ("03.2", "not_renormalised_row", min_p(ratio, divide=False)),
    ("03.2", "difference_to_the_best", min_p(lambda p, m: p.max() - p <= m)),
    ("03.2", "share_of_the_mean", min_p(lambda p, m: p / p.mean() >= m)),
    ("03.2", None, min_p(lambda p, m: p <= m * p.max())),
    ("03.2", None, min_p(lambda p, m: p >= m * np.sort(p)[-2:][0])),
    ("03.2", "share_of_the_first", min_p(lambda p, m: p >= m * p[0])),
    ("03.2", None, min_p(lambda p, m: p >= (m or 1) * p.max())),
    ("03.2", None, min_p(lambda p, m: p >= (m or 0.05) * p.max())),
    ("03.2", None, min_p(lambda p, m: p >= round(float(m * p.max()), 3))),
    ("03.2", None, min_p(lambda p, m: p >= 0.999 * m * p.max())),
    ("03.2", None, min_p(lambda p, m: p >= np.float16(m * p.max()))),
    ("03.2", None, min_p(lambda p, m: (p >= m * p.max()) | (p >= np.sort(p)[-2:][0]))),
    ("03.2", None, min_p(lambda p, m: p >= m * p.max() - 1e-3)),
    ("03.2", None, min_p(lambda p, m: (p > m * p.max()) | np.isclose(p, m * p.max()))),
    ("03.2", None, min_p(lambda p, m: np.floor(100 * p) >= np.floor(100 * m * p.max()))),
    ("03.2", None, min_p(lambda p, m: 100 * p / p.max() >= int(100 * m))),
    *(("03.2", None, min_p(lambda p, m, n=n: p >= round(m, n) * p.max())) for n in (1, 2)),
    ("03.2", None, lambda p, m: min_p(ratio)(p, m)[p >= m * p.max()]),
    ("03.2", None, lambda p, m: np.exp(p) * (p >= m * p.max()) / np.exp(p)[p >= m * p.max()].sum()),
    ("03.3", "divides_everything", rule(lambda s, p: s / p)),
    ("03.3", "multiplies_everything", rule(lambda s, p: s * p)),
    ("03.3", "once_per_occurrence", tokens(list)),
    ("03.3", "latest_only", tokens(lambda recent: recent[-1:])),
    ("03.3", "ignores_token_0", tokens(lambda recent: filter(None, set(recent)))),
    ("03.3", "leaves_negative_ones", rule(lambda s, p: s / p if s > 0 else s)),
    ("03.3", "subtracts", rule(lambda s, p: s - p)),
    ("03.3", "encourages", rule(lambda s, p: s * p if s > 0 else s / p)),
    ("03.3", "changes_the_scores", tokens(set, copy=False)),
    ("03.3", "everyone", lambda s, r, p: np.minimum(s / p, s * p)),
    ("03.3", None, unique_floats),
    ("03.3", None, tokens(lambda recent: set(recent[:64]))),
    ("03.3", None, lambda s, r, p: by_loop(s, r, p) if r else s),
    ("03.3", None, rule(lambda s, p: -np.inf)),
    ("03.3", None, tokens(lambda recent: set(recent[:5]))),
    ("03.3", "repeats_only", tokens(lambda recent: {t for t in recent if recent.count(t) > 1})),
    ("03.3", "window_of_64", tokens(lambda recent: set(recent[-64:]))),
    ("03.3", None, tokens(lambda recent: {b for _, b in pairwise(recent)})),
    ("03.3", None, tokens(lambda recent: {t % 10 for t in recent})),
    ("03.3", None, rule(lambda s, p: s - abs(s) * (p - 1))),
    ("03.4", "wrong_sign", lambda x, u: np.argmax(x + np.log(-np.log(u)))),
    ("03.4", "race_that_overflows", lambda x, u: np.argmin(-np.log(u) / np.exp(x))),
    ("03.4", "largest_noise", lambda x, u: np.argmax(noise(u))),
    ("03.4", "takes_the_best", lambda x, u: np.argmax(x)),
    ("03.4", "smallest_sum", lambda x, u: np.argmin(x + noise(u))),
    ("03.4", "noise_of_the_rest", lambda x, u: np.argmax(x + noise(1 - u))),
    ("03.4", "uniform_noise", lambda x, u: np.argmax(x + u)),
    ("03.4", "one_log", lambda x, u: np.argmax(x - np.log(u))),
    ("03.4", "value_of_the_best", lambda x, u: max(x + noise(u))),
    ("03.4", "logistic_noise", lambda x, u: np.argmax(x + np.log(u) - np.log(1 - u))),
    ("03.4", "other_base", lambda x, u: np.argmax(x - np.log2(-np.log2(u)))),
    ("03.4", None, lambda x, u: np.argmax(x + 1.1 * noise(u))),
    ("03.4", None, lambda x, u: np.argmax(np.float16(x) + noise(u))),
    ("03.4", None, lambda x, u: np.argmax(x + noise(np.clip(u, 0, 0.99)))),
    ("03.4", None, lambda x, u: np.argmax(np.where(x > x.max() - 9, x + noise(u), -np.inf))),
    ("03.4", None, lambda x, u: np.argmax(x + noise(np.clip(u, 0.01, 1)))),
    ("03.4", None, lambda x, u: np.argmax(np.clip(x, -100, 100) + noise(u))),
    ("03.4", None, lambda x, u: np.argmax(x + 0.9 * noise(u))),
    ("03.4", None, lambda x, u: np.argmax(x + [NormalDist().inv_cdf(v) for v in u])),
    ("03.4", None, lambda x, u: np.argmax(x - np.log(1 - u))),
    ("03.4", None, lambda x, u: np.argmax(x - np.log10(-np.log10(u)))),
    ("03.4", None, lambda x, u: np.argmax(x + np.log(u))),
    ("03.4", None, lambda x, u: np.argmax(x * noise(u))),
    ("03.4", None, lambda x, u: np.argmax(x[:20] + noise(u)[:20])),
    (
        "03.4",
        None,
        lambda x, u: np.argmax(np.cumsum(np.exp(x - x.max())) > u[0] * np.exp(x - x.max()).sum()),
    ),
    ("03.4", None, lambda x, u: np.argmax(np.exp(x) + noise(u))),
    ("03.4", None, lambda x, u: np.argmax(x + noise(u + 1e-10))),
    ("03.4", None, lambda x, u: np.argmax(x + noise(np.clip(u, 0.001, 0.999)))),
    ("03.4", None, lambda x, u: np.argmax(np.where(x < np.sort(x)[-5:][0], -99, x + noise(u)))),
    ("03.4", None, lambda x, u: np.argmax(np.log(np.exp(x - x.max()) + 1e-6) + noise(u))),
    ("03.4", None, lambda x, u: np.argmax(np.float16(x) + np.float16(noise(u)))),
    ("03.3", None, whoever_has_such_a_score),
    ("03.3", None, remembers_scores),
    ("03.3", None, lambda s, r, p: rule(lambda x, q: x / q if max(s) > 0 else x * q)(s, r, p)),
    ("03.4", None, lambda x, u: np.argmax(x + noise(u)) + 1),
    ("03.4", None, lambda x, u: np.argmax(x + 1.28 * noise(u))),
    ("03.4", None, lambda x, u: np.argmax(np.where(x < np.sort(x)[-10:][0], -99, x + noise(u)))),
]

ANSWERS = Answers(RIGHT, WRONG)
ANSWERS.changed(
    "03.3", "ids_below_fifty", "(recent, dtype=int))", "([t for t in recent if t < 50], dtype=int))"
)
ANSWERS.changed("03.3", "two_at_most", "scores[seen] * penalty", "scores[seen] * min(penalty, 2)")
ANSWERS.changed(
    "03.3",
    "small_ones_stay",
    "(recent, dtype=int))",
    "([t for t in recent if abs(scores[t]) > 0.05], dtype=int))",
)
ANSWERS.changed("03.2", "nine_tenths_at_most", "m * probs", "min(m, 0.9) * probs")
ANSWERS.changed("03.2", "best_from_half_on", "m * probs", "(m if m <= 0.5 else 1) * probs")
for most, name in ((10, "ten_at_most"), (50, "fifty_at_most")):
    floor = f"max(m * probs.max(), np.sort(probs)[-{most + 1}:][0] * 1.001)"
    ANSWERS.changed("03.2", name, "m * probs.max()", floor)
