"""Answers to the exercises of lesson 08, as students write them: right ones and wrong ones."""

import math

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 08.1 how much is kept


@right("08.1")
def with_mlx(p, q):
    p, q = mx.array(p), mx.array(q)
    return mx.minimum(p, q).sum(), (p * q).sum()


@right("08.1")
def as_an_array(p, q):
    return np.array([np.minimum(p, q).sum(), np.dot(p, q)])


@right("08.1")
def as_a_list_of_floats(p, q):
    return [float(sum(map(min, p, q))), float(sum(x * y for x, y in zip(p, q, strict=True)))]


@right("08.1")
def by_the_residual(p, q):
    return 1 - np.maximum(q - p, 0).sum(), p @ q


@wrong("08.1", like="zero_over_zero")
def ratio_without_a_guard(p, q):
    return sum(q * np.minimum(1, p / q)), sum(p * q)


@wrong("08.1", like="every_draft_alike")
def mean_of_the_chances(p, q):
    return np.mean(np.minimum(1, p / q)), np.sum(p * q)


@wrong("08.1", like="not_capped")
def sum_of_the_target(p, q):
    return np.sum(q * (p / q)), np.sum(p * q)


@wrong("08.1", like="weighted_by_p")
def drawn_from_p(p, q):
    return np.sum(p * np.minimum(1, p / q)), np.sum(p * q)


@wrong("08.1", like="swapped")
def match_first(p, q):
    return p @ q, np.minimum(p, q).sum()


@wrong("08.1", like="swapped")
def match_first_and_no_guard(p, q):  # that it also stumbles over 0 / 0 does not hide the mistake
    return p @ q, (q * np.minimum(1, p / q)).sum()


@wrong("08.1", like="twice_the_distance")
def without_the_half(p, q):
    return 1 - sum(abs(p - q)), sum(p * q)


@wrong("08.1")
def only_rejection(p, q):
    return np.minimum(p, q).sum()


@wrong("08.1")
def match_by_squares_of_q(p, q):
    return np.minimum(p, q).sum(), (q**2).sum()


@wrong("08.1")
def match_by_roots(p, q):
    return np.minimum(p, q).sum(), np.sqrt(p * q).sum()


@wrong("08.1")
def match_by_the_likeliest(p, q):
    return np.minimum(p, q).sum(), (p * q).max()


@wrong("08.1")
def largest_difference(p, q):
    return 1 - np.abs(p - q).max(), p @ q


@wrong("08.1")
def rounded(p, q):
    return round(np.minimum(p, q).sum(), 2), round(p @ q, 2)


# ------------------------------------------------------------------ 08.2 the rejection rule


@right("08.2")
def vectorised(p, q, drafts, u):
    places = np.arange(len(drafts))
    chance = np.minimum(1, p[places, drafts] / q[places, drafts]) if len(drafts) else np.zeros(0)
    kept = np.argmin(np.append(chance > u, False))
    padded = np.vstack([q, np.zeros((1, p.shape[1]))])
    rest = np.clip(p[kept] - padded[kept], 0, None)
    return kept, rest / rest.sum()


@right("08.2")
def with_plain_lists(p, q, drafts, u):
    p, q = [list(row) for row in p], [list(row) for row in q]
    kept = 0
    for row_p, row_q, x, chance in zip(p, q, drafts, u, strict=False):
        if chance * row_q[x] >= row_p[x]:
            left = [max(0, a - b) for a, b in zip(row_p, row_q, strict=True)]
            return [kept, [a / sum(left) for a in left]]
        kept += 1
    return [kept, p[-1]]


@right("08.2")
def after_from_mlx(p, q, drafts, u):
    kept = 0
    while kept < len(drafts) and min(1, p[kept, drafts[kept]] / q[kept, drafts[kept]]) > u[kept]:
        kept += 1
    if kept == len(drafts):
        return mx.array(kept), mx.array(p[kept])
    rest = mx.maximum(mx.array(p[kept]) - mx.array(q[kept]), 0)
    return mx.array(kept), rest / rest.sum()


@right("08.2")
def residual_over_the_refused_share(p, q, drafts, u):
    for i, x in enumerate(drafts):
        if min(1, p[i][x] / q[i][x]) <= u[i]:
            refused = 1 - np.minimum(p[i], q[i]).sum()
            return i, np.maximum(p[i] - q[i], 0) / refused
    return len(drafts), p[-1]


def _after(p, q, kept, drafts):
    rest = np.maximum(p[kept] - q[kept], 0) if kept < len(drafts) else p[kept]
    return kept, rest / rest.sum()


def _kept(drafts, stays):
    return next((i for i in range(len(drafts)) if not stays(i)), len(drafts))


@wrong("08.2", like="without_chance")
def only_what_the_target_likes_better(p, q, drafts, u):
    kept = _kept(drafts, lambda i: p[i, drafts[i]] >= q[i, drafts[i]])
    return _after(p, q, kept, drafts)


@wrong("08.2", like="keeps_at_the_border")
def at_least_u(p, q, drafts, u):
    kept = _kept(drafts, lambda i: min(1, p[i, drafts[i]] / q[i, drafts[i]]) >= u[i])
    return _after(p, q, kept, drafts)


@wrong("08.2", like="chances_multiplied")
def product_of_chances(p, q, drafts, u):
    chance = 1.0
    for i, x in enumerate(drafts):
        chance *= min(1, p[i, x] / q[i, x])
        if u[i] >= chance:
            return _after(p, q, i, drafts)
    return len(drafts), p[-1]


@wrong("08.2", like="the_other_way_round")
def surplus_of_the_draft(p, q, drafts, u):
    kept = _kept(drafts, lambda i: p[i, drafts[i]] / q[i, drafts[i]] > u[i])
    if kept == len(drafts):
        return kept, p[kept]
    rest = np.maximum(q[kept] - p[kept], 0)
    return kept, rest / rest.sum()


@wrong("08.2", like="counts_the_correction")
def counts_the_bonus(p, q, drafts, u):
    kept = _kept(drafts, lambda i: p[i, drafts[i]] / q[i, drafts[i]] > u[i])
    return kept + 1, _after(p, q, kept, drafts)[1]


@wrong("08.2", like="q_after_the_last")
def residual_behind_the_last(p, q, drafts, u):
    kept = _kept(drafts, lambda i: p[i, drafts[i]] / q[i, drafts[i]] > u[i])
    taken = q[min(kept, len(drafts) - 1)] if drafts else 0
    rest = np.maximum(p[kept] - taken, 0)
    return kept, rest / rest.sum()


@wrong("08.2")
def one_u_for_all(p, q, drafts, u):
    kept = _kept(drafts, lambda i: p[i, drafts[i]] / q[i, drafts[i]] > u[0])
    return _after(p, q, kept, drafts)


@wrong("08.2")
def absolute_residual(p, q, drafts, u):
    kept = _kept(drafts, lambda i: p[i, drafts[i]] / q[i, drafts[i]] > u[i])
    rest = np.abs(p[kept] - q[kept]) if kept < len(drafts) else p[kept]
    return kept, rest / rest.sum()


@wrong("08.2")
def the_row_after_the_refused(p, q, drafts, u):
    kept = _kept(drafts, lambda i: p[i, drafts[i]] / q[i, drafts[i]] > u[i])
    if kept == len(drafts):
        return kept, p[kept]
    rest = np.maximum(p[kept + 1] - q[kept], 0)
    return kept, rest / rest.sum()


@wrong("08.2")
def softmax_of_the_residual(p, q, drafts, u):
    kept = _kept(drafts, lambda i: p[i, drafts[i]] / q[i, drafts[i]] > u[i])
    if kept == len(drafts):
        return kept, p[kept]
    rest = np.exp(np.maximum(p[kept] - q[kept], 0))
    return kept, rest / rest.sum()


@wrong("08.2")
def fails_without_drafts(p, q, drafts, u):
    for i in range(len(drafts)):
        if p[i, drafts[i]] / q[i, drafts[i]] <= u[i]:
            return _after(p, q, i, drafts)
    return i + 1, p[i + 1]


@wrong("08.2")
def changes_q(p, q, drafts, u):
    kept = _kept(drafts, lambda i: p[i, drafts[i]] / q[i, drafts[i]] > u[i])
    answer = _after(p, q, kept, drafts)
    q[:] = 0
    return answer


# ------------------------------------------------------------------ 08.3 a guess without a q


@right("08.3")
def with_a_copy(p, draft):
    after = p.copy()
    after[draft] = 0
    if p[draft] < 1:
        after /= after.sum()
        return p[draft], after
    return 1.0, p


@right("08.3")
def over_what_is_left(p, draft):
    if p[draft] == 1:
        return p[draft], list(p)
    return p[draft], [0 if i == draft else x / (1 - p[draft]) for i, x in enumerate(p)]


@right("08.3")
def masked_in_mlx(p, draft):
    p = mx.array(p)
    rest = mx.where(mx.arange(len(p)) == draft, 0, p)
    return p[draft], rest / rest.sum() if rest.sum() > 0 else p


@wrong("08.3", like="divides_by_zero")
def never_looks_at_zero(p, draft):
    after = np.array(p)
    after[draft] = 0
    return p[draft], after / after.sum()


@wrong("08.3", like="without_its_place")
def drops_the_draft(p, draft):
    rest = [x for i, x in enumerate(p) if i != draft]
    return p[draft], [x / sum(rest) for x in rest] if sum(rest) else p


@wrong("08.3", like="the_other_chance")
def chance_of_refusal(p, draft):
    return 1 - p[draft], over_what_is_left(p, draft)[1]


@wrong("08.3", like="never_refused")
def takes_it_for_granted(p, draft):
    return 1, p


@wrong("08.3")
def nearly_certain_is_certain(p, draft):
    if p[draft] > 0.99:
        return p[draft], p
    return over_what_is_left(p, draft)


@wrong("08.3")
def draft_still_there(p, draft):
    return p[draft], p / (1 - p[draft]) if p[draft] < 1 else p


@wrong("08.3")
def all_others_alike(p, draft):
    after = np.full(len(p), 1 / max(1, len(p) - 1))
    after[draft] = 0
    return p[draft], after if len(p) > 1 and p[draft] < 1 else p


@wrong("08.3")
def surely_the_second_best(p, draft):
    rest = np.where(np.arange(len(p)) == draft, 0, p)
    return p[draft], np.eye(len(p))[rest.argmax()] if rest.sum() else p


@wrong("08.3")
def kept_with_the_square(p, draft):
    return p[draft] ** 2, over_what_is_left(p, draft)[1]


@wrong("08.3")
def in_the_other_order(p, draft):
    return over_what_is_left(p, draft)[::-1]


@wrong("08.3")
def changes_p(p, draft):
    keep = float(p[draft])
    if keep < 1:
        p[draft] = 0
        p /= p.sum()
    return keep, p


# ------------------------------------------------------------------ 08.4 how large a test


@right("08.4")
def ceiling_of_numpy(p, written, limit):
    with np.errstate(divide="ignore"):
        return np.ceil(limit / np.sum((written - p) ** 2 / p))


@right("08.4")
def ceiling_by_division(p, written, limit):
    each = sum((w - a) * (w - a) / a for w, a in zip(written.tolist(), p.tolist(), strict=True))
    return -int(-limit // each) if each else float("inf")


@right("08.4")
def asks_first(p, written, limit):
    if (p == written).all():
        return np.inf
    growth = sum((written[i] - p[i]) ** 2 / p[i] for i in range(len(p)))
    return np.int64(math.ceil(limit / growth))


@wrong("08.4", like="not_rounded")
def a_fraction(p, written, limit):
    each = ((written - p) ** 2 / p).sum()
    return limit / each if each > 0 else math.inf


@wrong("08.4", like="rounded_down")
def cut_off(p, written, limit):
    each = ((written - p) ** 2 / p).sum()
    return int(limit / each) if each > 0 else math.inf


@wrong("08.4", like="rounded_to_nearest")
def nearest(p, written, limit):
    each = ((written - p) ** 2 / p).sum()
    return round(limit / each) if each > 0 else math.inf


@wrong("08.4", like="one_more")
def cut_off_and_one(p, written, limit):
    each = ((written - p) ** 2 / p).sum()
    return int(limit / each) + 1 if each > 0 else math.inf


@wrong("08.4", like="never_right")
def no_guard(p, written, limit):
    return math.ceil(limit / ((written - p) ** 2 / p).sum())


@wrong("08.4")
def no_guard_in_plain_python(p, written, limit):
    pairs = zip(p.tolist(), written.tolist(), strict=True)
    return math.ceil(limit / sum((w - a) ** 2 / a for a, w in pairs))


@wrong("08.4")
def small_errors_are_none(p, written, limit):
    each = ((written - p) ** 2 / p).sum()
    return math.ceil(limit / each) if each > 1e-4 else math.inf


@wrong("08.4", like="divided_by_written")
def over_written(p, written, limit):
    each = ((written - p) ** 2 / written).sum()
    return math.ceil(limit / each) if each > 0 else math.inf


@wrong("08.4")
def mean_in_place_of_the_sum(p, written, limit):
    each = ((written - p) ** 2 / p).mean()
    return math.ceil(limit / each) if each > 0 else math.inf


@wrong("08.4")
def square_of_the_quotient(p, written, limit):
    each = (((written - p) / p) ** 2).sum()
    return math.ceil(limit / each) if each > 0 else math.inf


@wrong("08.4")
def relative_entropy(p, written, limit):
    each = 2 * (p * np.log(p / np.maximum(written, 1e-12))).sum()
    return math.ceil(limit / each) if each > 1e-9 else math.inf


@wrong("08.4")
def zero_for_a_right_rule(p, written, limit):
    each = ((written - p) ** 2 / p).sum()
    return math.ceil(limit / each) if each > 0 else 0
