"""Answers to the exercises of lesson 08, as students write them: right ones and wrong ones."""

import math

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong, changed = ANSWERS.right, ANSWERS.wrong, ANSWERS.changed

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


changed("08.1", "sum_of_the_target", "min(a, b)", "a", like="not_capped")


@wrong("08.1", like="weighted_by_p")
def drawn_from_p(p, q):
    return np.sum(p * np.minimum(1, p / q)), np.sum(p * q)


changed("08.1", "match_first", "return rejection, match", "return match, rejection", like="swapped")


@wrong("08.1", like="swapped")
def match_first_and_no_guard(p, q):  # that it also stumbles over 0 / 0 does not hide the mistake
    return p @ q, (q * np.minimum(1, p / q)).sum()


@wrong("08.1", like="twice_the_distance")
def without_the_half(p, q):
    return 1 - sum(abs(p - q)), sum(p * q)


changed("08.1", "only_rejection", "return rejection, match", "return rejection")
changed("08.1", "match_by_squares_of_q", "a * b", "b * b")
changed("08.1", "match_by_roots", "a * b", "(a * b) ** 0.5")
changed(
    "08.1",
    "match_by_the_likeliest",
    "match = sum(a * b for a, b in zip(p, q, strict=True))",
    "match = max(a * b for a, b in zip(p, q, strict=True))",
)


@wrong("08.1")
def largest_difference(p, q):
    return 1 - np.abs(p - q).max(), p @ q


@wrong("08.1")
def alike_is_the_same(p, q):
    return (1.0 if np.allclose(p, q, atol=0.01) else np.minimum(p, q).sum()), p @ q


@wrong("08.1")
def kept_where_the_target_could(p, q):
    return q[p > 0].sum(), p @ q


changed("08.1", "rounded", "return rejection, match", "return round(rejection, 2), round(match, 2)")


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


changed(
    "08.2",
    "only_what_the_target_likes_better",
    "u[i] >= p[i, x] / q[i, x]",
    "p[i, x] / q[i, x] < 1",
    like="without_chance",
)
changed("08.2", "at_least_u", ">=", ">", like="keeps_at_the_border")
changed("08.2", "rounds_the_chance", "p[i, x] / q[i, x]", "round(p[i, x] / q[i, x], 2)")
changed("08.2", "in_whole_per_cent", "p[i, x] / q[i, x]", "int(100 * p[i, x] / q[i, x]) / 100")
changed("08.2", "rounds_the_rest", "rest / rest.sum()", "rest.round(1) / rest.round(1).sum()")


@wrong("08.2", like="chances_multiplied")
def product_of_chances(p, q, drafts, u):
    chance = 1.0
    for i, x in enumerate(drafts):
        chance *= min(1, p[i, x] / q[i, x])
        if u[i] >= chance:
            return _after(p, q, i, drafts)
    return len(drafts), p[-1]


changed("08.2", "surplus_of_the_draft", "p[i] - q[i]", "q[i] - p[i]", like="the_other_way_round")


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
def residual_of_the_last_refusal(p, q, drafts, u):
    refused = [i for i, x in enumerate(drafts) if p[i, x] / q[i, x] <= u[i]]
    if not refused:
        return len(drafts), p[-1]
    rest = np.maximum(p[refused[-1]] - q[refused[-1]], 0)
    return refused[0], rest / rest.sum()


changed("08.2", "one_u_for_all", "u[i]", "u[0]", like="one_u")
changed("08.2", "absolute_residual", "np.maximum(p[i] - q[i], 0)", "np.abs(p[i] - q[i])")
changed(
    "08.2",
    "the_row_after_the_refused",
    "np.maximum(p[i] - q[i], 0)",
    "np.maximum(p[i + 1] - q[i], 0)",
)
changed(
    "08.2",
    "softmax_of_the_residual",
    "np.maximum(p[i] - q[i], 0)",
    "np.exp(np.maximum(p[i] - q[i], 0))",
)


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


changed(
    "08.2",
    "a_surplus_is_saved",
    "p[i, x] / q[i, x]",
    "np.prod(p[range(i + 1), drafts[: i + 1]] / q[range(i + 1), drafts[: i + 1]])",
)
changed(
    "08.2",
    "refused_word_and_residual",
    "np.maximum(p[i] - q[i], 0)",
    "np.maximum(p[i] - q[i], 0) + 0.01",
)
changed("08.2", "goes_by_the_last_u", "u[i]", "u[-1]")
changed("08.2", "relative_surplus", "np.maximum(p[i] - q[i], 0)", "np.maximum(p[i] / q[i] - 1, 0)")
changed(
    "08.2",
    "only_the_first_draft",
    "for i, x in enumerate(drafts)",
    "for i, x in enumerate(drafts[:1])",
)
changed(
    "08.2",
    "residual_of_all_rows",
    "np.maximum(p[i] - q[i], 0)",
    "np.maximum((p[:-1] - q)[: i + 1].sum(axis=0), 0)",
)

changed(
    "08.2",
    "the_draft_before",
    "p[i, x] / q[i, x]",
    "p[i, drafts[max(i - 1, 0)]] / q[i, drafts[max(i - 1, 0)]]",
)

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


changed("08.3", "nearly_never_refused", "sum(rest) == 0", "sum(rest) < 1e-3")
changed("08.3", "close_to_certain", "sum(rest) == 0", "np.isclose(p[draft], 1)")
changed("08.3", "draft_still_there", "0.0 if token == draft else x", "x")
changed(
    "08.3",
    "all_others_alike",
    "0.0 if token == draft else x",
    "float(token != draft)",
    like="others_alike",
)


@wrong("08.3")
def surely_the_second_best(p, draft):
    rest = np.where(np.arange(len(p)) == draft, 0, p)
    return p[draft], np.eye(len(p))[rest.argmax()] if rest.sum() else p


changed(
    "08.3",
    "kept_with_the_square",
    "return p[draft], [x / sum(rest) for x in rest]",
    "return p[draft] ** 2, [x / sum(rest) for x in rest]",
)
changed(
    "08.3",
    "in_the_other_order",
    "return p[draft], [x / sum(rest) for x in rest]",
    "return [x / sum(rest) for x in rest], p[draft]",
)


@wrong("08.3")
def changes_p(p, draft):
    keep = float(p[draft])
    if keep < 1:
        p[draft] = 0
        p /= p.sum()
    return keep, p


@wrong("08.3")
def hardly_ever_right_is_never(p, draft):
    after = np.array(p)
    if p[draft] > 0.05:
        after[draft] = 0
    return p[draft], (after / after.sum() if after.any() else p)


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


changed("08.4", "a_fraction", "math.ceil(limit / each)", "limit / each", like="not_rounded")
changed("08.4", "cut_off", "math.ceil(limit / each)", "int(limit / each)", like="rounded_down")
changed("08.4", "nearly_up", "math.ceil(limit / each)", "int(limit / each + 0.999)")
changed("08.4", "nearest", "math.ceil", "round", like="rounded_to_nearest")
changed(
    "08.4", "cut_off_and_one", "math.ceil(limit / each)", "int(limit / each) + 1", like="one_more"
)
changed("08.4", "no_guard", " if each > 0 else math.inf", "", like="never_right")


@wrong("08.4")
def no_guard_in_plain_python(p, written, limit):
    pairs = zip(p.tolist(), written.tolist(), strict=True)
    return math.ceil(limit / sum((w - a) ** 2 / a for a, w in pairs))


changed("08.4", "smaller_errors_are_none", "each > 0", "each > 1e-6")
changed("08.4", "near_is_right", "each > 0", "not np.allclose(p, written, atol=1e-4)")
changed("08.4", "close_is_right", "each > 0", "not np.allclose(p, written)")
changed(
    "08.4", "one_for_each_word", "math.ceil(limit / each)", "max(len(p), math.ceil(limit / each))"
)
changed("08.4", "small_errors_are_none", "each > 0", "each > 1e-4")
changed("08.4", "over_written", "/ a", "/ w", like="divided_by_written")
changed(
    "08.4",
    "mean_in_place_of_the_sum",
    "math.ceil(limit / each)",
    "math.ceil(limit * len(p) / each)",
)
changed("08.4", "square_of_the_quotient", "(w - a) ** 2 / a", "((w - a) / a) ** 2", like="root")


@wrong("08.4")
def relative_entropy(p, written, limit):
    each = 2 * (p * np.log(p / np.maximum(written, 1e-12))).sum()
    return math.ceil(limit / each) if each > 1e-9 else math.inf


changed("08.4", "zero_for_a_right_rule", "else math.inf", "else 0")

changed(
    "08.4", "five_of_each", "math.ceil(limit / each)", "max(5 * len(p), math.ceil(limit / each))"
)
changed("08.4", "only_what_comes_too_often", "(w - a) ** 2 / a", "max(w - a, 0) ** 2 / a")
changed("08.4", "degrees_of_freedom", "limit / each", "(limit - len(p) + 1) / each")
changed("08.4", "none_for_a_right_rule", "else math.inf", "else None")


@right("08.4")
def in_single_precision(p, written, limit):
    p, written = mx.array(p), mx.array(written)
    each = (((written - p) ** 2) / p).sum().item()
    return math.ceil(limit / each) if each else math.inf


@right("08.4")
def counts_up(p, written, limit):  # slowly
    each, n = sum((w - a) ** 2 / a for w, a in zip(written.tolist(), p.tolist(), strict=True)), 0
    while each and n * each < limit:
        n += 1
    return n if each else math.inf


ANSWERS.changed(
    "08.2",
    "no_earlier_draft_follows",
    "np.maximum(p[i] - q[i], 0)",
    "np.maximum(p[i] - q[i], 0) * [k not in [*drafts[:i]] for k in range(len(q[i]))]",
)
ANSWERS.changed("08.2", "two_coins", "u[i] >=", "u[min(i, 1)] >=")
ANSWERS.changed("08.4", "rare_words_left_out", "strict=True))", "strict=True) if a > 0.05)")
ANSWERS.changed(
    "08.2", "small_differences_are_none", "if u[i]", "if q[i, x] > p[i, x] + 0.1 and u[i]"
)
ANSWERS.changed("08.2", "no_coin_at_all", "if u[i]", "if not u[i] or u[i]")
ANSWERS.changed("08.2", "keeps_what_has_half", "if u[i]", "if p[i, x] <= 0.5 and u[i]")
ANSWERS.changed("08.2", "keeps_no_rare_word", "if u[i]", "if p[i, x] < 0.1 or u[i]")
ANSWERS.changed("08.2", "keeps_all_favourites", "if u[i]", "if p[i, x] < p[i].max() and u[i]")


@ANSWERS.wrong("08.2", like="keeps_the_favourite")
def refuses_no_favourite(p, q, drafts, u):
    def keep(i):
        return drafts[i] == p[i].argmax() or p[i, drafts[i]] > u[i] * q[i, drafts[i]]

    return _after(p, q, _kept(drafts, keep), drafts)


ANSWERS.changed(
    "08.1",
    "what_is_little_is_nothing",
    "sum(min(a, b) for",
    "sum(min(a, b) * (min(a, b) > 0.05) for",
)
changed(
    "08.2", "p_after_the_impossible", "rest / rest.sum()", "rest / rest.sum() if p[i, x] else p[i]"
)
changed("08.2", "half_precision", "p[i, x] / q[i, x]", "np.float16(p[i, x] / q[i, x])")
changed(
    "08.2",
    "no_later_draft_follows",
    "np.maximum(p[i] - q[i], 0)",
    "np.maximum(p[i] - q[i], 0) * [k not in [*drafts[i + 1 :]] for k in range(len(q[i]))]",
)
changed(
    "08.2",
    "missing_everywhere",
    "np.maximum(p[i] - q[i], 0)",
    "np.maximum(p[i] - q[i], 0) * (1e-9 + (p[:-1] > q).all(axis=0))",
)
changed(
    "08.2", "drafts_cut_as_p_is", "p[i] - q[i]", "p[i] - q[i] * (p[i] > 0) / q[i][p[i] > 0].sum()"
)
changed("08.3", "surely_the_first", "return p[draft], p", "return p[draft], np.eye(len(p))[0]")
changed(
    "08.2",
    "what_is_likelier_follows",
    "np.maximum(p[i] - q[i], 0)",
    "np.maximum(p[i] - q[i], 0) * (1e-9 + (p[i] >= p[i, x]))",
)
changed(
    "08.2",
    "an_impossible_draft_spoils_the_round",
    "if u[i]",
    "if any(p[n, y] == 0 for n, y in enumerate(drafts)) or u[i]",
)
