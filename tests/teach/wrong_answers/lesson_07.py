"""Answers to the exercises of lesson 07, as students write them: right ones and wrong ones."""

import itertools
import math
from fractions import Fraction

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 07.1 greedy acceptance


def until(stop, tokens):
    return tokens[: tokens.index(stop) + 1] if stop in tokens else tokens


@right("07.1")
def argmax_of_mlx(drafted, logits, stop):
    best = mx.argmax(mx.array(logits), axis=-1)
    agree = mx.cumprod(best[:-1] == mx.array(drafted, dtype=best.dtype)).sum().item()
    tokens = best[: agree + 1]
    ends = np.flatnonzero(np.array(tokens) == stop)
    return tokens[: int(ends[0]) + 1] if ends.size else tokens


@right("07.1")
def takewhile_of_itertools(drafted, logits, stop):
    best = [max(range(len(row)), key=row.__getitem__) for row in logits.tolist()]
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(drafted, best, strict=False))
    kept = len([*same])
    return until(stop, [*drafted[:kept], best[kept]])


@right("07.1")
def numpy_masks(drafted, logits, stop):
    best = logits.argmax(-1)
    goes_on = (best[:-1] == drafted) & (best[:-1] != stop)
    return best[: 1 + int(goes_on.argmin())] if not goes_on.all() else best


@right("07.1")
def a_generator(drafted, logits, stop):
    for place, row in enumerate(logits):
        best = np.argmax(row)
        yield best
        if place == len(drafted) or best != drafted[place] or best == stop:
            return


def accept(drafted, logits, stop, judge):
    tokens = []
    for guess, row in zip(drafted, logits, strict=False):
        if not judge(guess, row):
            return [*tokens, int(np.argmax(row))]
        tokens.append(guess)
        if guess == stop:
            return tokens
    return [*tokens, int(np.argmax(logits[-1]))]


def softmax(row):
    weights = np.exp(row - np.max(row))
    return weights / weights.sum()


@wrong("07.1", "accepts_the_probable")
def half_of_the_probability(drafted, logits, stop):
    return accept(drafted, logits, stop, lambda guess, row: softmax(row)[guess] >= 0.5)


@wrong("07.1")
def a_tenth_of_the_probability(drafted, logits, stop):
    return accept(drafted, logits, stop, lambda guess, row: softmax(row)[guess] >= 0.1)


@wrong("07.1")
def overflowing_softmax(drafted, logits, stop):
    def judge(guess, row):
        weights = np.exp(row)
        return (weights / weights.sum()).argmax() == guess

    return accept(drafted, logits, stop, judge)


@wrong("07.1")
def a_positive_score(drafted, logits, stop):
    return accept(drafted, logits, stop, lambda guess, row: row[guess] > 0)


@wrong("07.1", "accepts_a_second_best")
def one_of_the_two_best(drafted, logits, stop):
    return accept(drafted, logits, stop, lambda guess, row: guess in np.argsort(-row)[:2])


@wrong("07.1")
def the_place_of_an_equal_token(drafted, logits, stop):
    tokens = []
    for guess in drafted:
        best = int(np.argmax(logits[drafted.index(guess)]))
        tokens.append(best)
        if best != guess or best == stop:
            return tokens
    return [*tokens, int(np.argmax(logits[-1]))]


@wrong("07.1")
def ids_of_one_digit(drafted, logits, stop):
    return [token % 10 for token in takewhile_of_itertools(drafted, logits, stop)]


@wrong("07.1")
def four_drafts_at_most(drafted, logits, stop):
    return numpy_masks(drafted[:4], logits[:5], stop)


@wrong("07.1", "accept_everything")
def everything_and_a_bonus(drafted, logits, stop):
    return until(stop, [*drafted, int(np.argmax(logits[-1]))])


@wrong("07.1", "accept_everything")
def everything_and_no_word_of_stop(drafted, logits, stop):
    return [*drafted, int(np.argmax(logits[-1]))]


@wrong("07.1", "off_by_one")
def rows_shifted_and_no_word_of_stop(drafted, logits, stop):
    best = np.argmax(logits, axis=-1).tolist()
    kept = 0
    while kept < len(drafted) and best[kept + 1] == drafted[kept]:
        kept += 1
    return [*drafted[:kept], best[kept]]


@wrong("07.1", "forgotten_correction")
def nothing_after_a_rejection(drafted, logits, stop):
    tokens = []
    for place, guess in enumerate(drafted):
        if logits[place].argmax() != guess:
            return tokens
        tokens.append(guess)
    return [*tokens, int(logits[-1].argmax())]


@wrong("07.1", "forgotten_bonus")
def fails_when_nothing_is_drafted(drafted, logits, stop):
    tokens = []
    for place, guess in enumerate(drafted):
        tokens.append(int(logits[place].argmax()))
        if tokens[-1] != guess:
            break
    assert tokens
    return tokens


@wrong("07.1", "bonus_after_the_end")
def no_word_of_stop(drafted, logits, stop):
    return accept(drafted, logits, -1, lambda guess, row: np.argmax(row) == guess)


@wrong("07.1", "only_the_accepted")
def the_accepted_alone(drafted, logits, stop):
    best = np.argmax(logits, axis=-1).tolist()
    kept = 0
    while kept < len(drafted) and best[kept] == drafted[kept]:
        kept += 1
    return until(stop, drafted[:kept])


@wrong("07.1", "every_answer")
def all_the_argmaxes(drafted, logits, stop):
    return until(stop, np.argmax(logits, axis=-1).tolist())


@wrong("07.1")
def ends_without_the_stop(drafted, logits, stop):
    tokens = accept(drafted, logits, stop, lambda guess, row: np.argmax(row) == guess)
    return tokens[: tokens.index(stop)] if stop in tokens else tokens


@wrong("07.1")
def best_in_half_precision(drafted, logits, stop):
    return a_generator(drafted, logits.astype(np.float16), stop)


@wrong("07.1")
def cuts_at_the_last_stop(drafted, logits, stop):
    tokens = accept(drafted, logits, -1, lambda guess, row: np.argmax(row) == guess)
    last = max((i for i, token in enumerate(tokens) if token == stop), default=len(tokens))
    return tokens[: last + 1]


@wrong("07.1")
def zero_always_ends(drafted, logits, stop):
    return accept(drafted, logits, 0, lambda guess, row: np.argmax(row) == guess)


@wrong("07.1")
def grows_the_callers_list(drafted, logits, stop):
    tokens = accept(drafted, logits, stop, lambda guess, row: np.argmax(row) == guess)
    drafted[:] = tokens
    return drafted


@wrong("07.1")
def a_set_of_agreements(drafted, logits, stop):
    best = np.argmax(logits, axis=-1).tolist()
    kept = len({*drafted} & {*best[:-1]})
    return until(stop, best[: kept + 1])


@wrong("07.1")
def exp_of_all_rows_together(drafted, logits, stop):
    chances = np.exp(np.array(logits) - np.max(np.array(logits)))
    tokens = []
    for i, row in enumerate(chances):
        tokens.append(int(row.argmax()))
        if tokens[-1] == stop or tokens[i : i + 1] != list(drafted[i : i + 1]):
            break
    return tokens


@wrong("07.1")
def each_token_once(drafted, logits, stop):
    tokens = []
    for i, token in enumerate(np.array(logits).argmax(axis=-1).tolist()):
        if token in tokens:
            break
        tokens.append(token)
        if token == stop or [token] != list(drafted[i : i + 1]):
            break
    return tokens


@wrong("07.1")
def own_token_only_if_new(drafted, logits, stop):
    best = logits.argmax(-1).tolist()
    kept = 0
    while kept < len(drafted) and best[kept] == drafted[kept]:
        kept += 1
    own = best[kept : kept + 1] if kept == 0 or best[kept] != best[kept - 1] else []
    return until(stop, best[:kept] + own)


# ------------------------------------------------------------------ 07.2 three counts


@right("07.2")
def round_by_round(drafted, accepted):
    total = judged = 0
    for n, kept in zip(drafted, accepted, strict=True):
        total += kept
        judged += kept + (kept < n)
    return [total / sum(drafted), total / judged, 1 + total / len(accepted)]


@right("07.2")
def arrays_of_mlx(drafted, accepted):
    n, kept = mx.array(drafted), mx.array(accepted)
    reached = mx.minimum(kept + 1, n)
    return mx.stack([kept.sum() / n.sum(), kept.sum() / reached.sum(), (kept + 1).mean()])


@right("07.2")
def exact_fractions(drafted, accepted):
    rejected = sum(kept != n for n, kept in zip(drafted, accepted, strict=True))
    total = sum(accepted)
    shares = Fraction(total, sum(drafted)), Fraction(total, total + rejected)
    return (*map(np.float64, shares), np.float32(1 + total / len(drafted)))


@right("07.2")
def fractions_as_they_are(drafted, accepted):
    total, reached = sum(accepted), sum(map(min, [k + 1 for k in accepted], drafted))
    kept = Fraction(total, len(drafted))
    return Fraction(total, sum(drafted)), Fraction(total, reached), 1 + kept


@wrong("07.2", "reached_is_accepted")
def alpha_is_one(drafted, accepted):
    total = sum(accepted)
    return total / sum(drafted), 1.0, 1 + total / len(accepted)


@wrong("07.2")
def alpha_of_accepted_over_accepted(drafted, accepted):
    total = sum(accepted)
    return total / sum(drafted), total / total, 1 + total / len(accepted)


@wrong("07.2", "one_more_is_always_reached")
def one_more_in_every_round(drafted, accepted):
    total = sum(accepted)
    reached = sum(kept + 1 for kept in accepted)
    return total / sum(drafted), total / reached, reached / len(accepted)


@wrong("07.2", "counts_the_own_token")
def own_tokens_are_accepted(drafted, accepted):
    kept = [k + 1 for k in accepted]
    reached = sum(map(min, kept, drafted))
    return sum(kept) / sum(drafted), sum(kept) / reached, sum(kept) / len(kept)


@wrong("07.2", "alpha_is_the_rate")
def one_rate_for_both(drafted, accepted):
    rate = sum(accepted) / sum(drafted)
    return rate, rate, 1 + np.mean(accepted)


@wrong("07.2", "mean_of_ratios")
def means_of_ratios(drafted, accepted):
    n, kept = np.array(drafted), np.array(accepted)
    return (kept / n).mean(), (kept / np.minimum(kept + 1, n)).mean(), 1 + kept.mean()


@wrong("07.2", "reached_is_the_rest")
def reached_are_the_rejected(drafted, accepted):
    total = sum(accepted)
    return total / sum(drafted), total / max(1, sum(drafted) - total), 1 + np.mean(accepted)


@wrong("07.2", "another_order")
def from_right_to_left(drafted, accepted):
    return round_by_round(drafted, accepted)[::-1]


@wrong("07.2")
def alpha_first(drafted, accepted):
    rate, alpha, tokens = round_by_round(drafted, accepted)
    return alpha, rate, tokens


@wrong("07.2", "per_draft")
def tokens_per_draft(drafted, accepted):
    rate, alpha, _ = round_by_round(drafted, accepted)
    return rate, alpha, (sum(accepted) + len(accepted)) / sum(drafted)


@wrong("07.2", "without_the_own_token")
def accepted_per_round(drafted, accepted):
    rate, alpha, _ = round_by_round(drafted, accepted)
    return rate, alpha, np.mean(accepted)


@wrong("07.2")
def bonus_only_where_all_are_kept(drafted, accepted):
    rate, alpha, _ = round_by_round(drafted, accepted)
    whole = sum(kept == n for n, kept in zip(drafted, accepted, strict=True))
    return rate, alpha, (sum(accepted) + whole) / len(accepted)


@wrong("07.2")
def the_total_of_tokens(drafted, accepted):
    rate, alpha, _ = round_by_round(drafted, accepted)
    return rate, alpha, sum(accepted) + len(accepted)


@wrong("07.2")
def percent(drafted, accepted):
    rate, alpha, tokens = round_by_round(drafted, accepted)
    return 100 * rate, 100 * alpha, tokens


# ------------------------------------------------------------------ 07.3 expected tokens


@right("07.3")
def a_running_power(alpha, gamma):
    total = power = 1.0
    for _ in range(gamma):
        power *= alpha
        total += power
    return np.float32(total)


@right("07.3")
def powers_of_numpy(alpha, gamma):
    return np.sum(np.full(gamma + 1, alpha) ** np.arange(gamma + 1))


@right("07.3")
def recursion(alpha, gamma):
    return 1 if gamma == 0 else 1 + alpha * recursion(alpha, gamma - 1)


@right("07.3")
def powers_of_mlx(alpha, gamma):
    return mx.cumprod(mx.array([1.0] + [float(alpha)] * gamma)).sum()


@wrong("07.3", "divides_by_zero")
def the_closed_form_alone(alpha, gamma):
    return (1 - alpha ** (gamma + 1)) / (1 - alpha)


@wrong("07.3")
def the_closed_form_of_numpy(alpha, gamma):
    alpha = np.float64(alpha)
    return (1 - alpha ** (gamma + 1)) / (1 - alpha)


@wrong("07.3")
def one_from_99_percent_on(alpha, gamma):
    return gamma + 1 if alpha > 0.99 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


@wrong("07.3", "gamma_instead_of_one_more")
def one_power_too_few(alpha, gamma):
    return sum(alpha**i for i in range(gamma))


@wrong("07.3", "one_power_too_many")
def one_more_power(alpha, gamma):
    return (1 - alpha ** (gamma + 2)) / (1 - alpha) if alpha < 1 else gamma + 2


@wrong("07.3", "no_own_token")
def accepted_drafts(alpha, gamma):
    return sum(alpha ** (i + 1) for i in range(gamma))


@wrong("07.3", "drafts_without_order")
def each_on_its_own(alpha, gamma):
    return alpha * gamma + 1


@wrong("07.3")
def a_simulation(alpha, gamma):
    accepted = np.random.default_rng(0).random((2000, gamma)) < alpha
    return 1 + np.cumprod(accepted, axis=1).sum() / 2000


@wrong("07.3", "endless")
def the_limit(alpha, gamma):
    return gamma + 1 if alpha == 1 else 1 / (1 - alpha)


@wrong("07.3")
def the_limit_where_it_is_near(alpha, gamma):
    return min(gamma + 1, 1 / (1 - alpha)) if alpha < 1 else gamma + 1


@wrong("07.3", "all_or_nothing")
def all_drafts_or_none(alpha, gamma):
    return gamma * alpha**gamma + 1


@wrong("07.3")
def counts_places_instead_of_powers(alpha, gamma):
    return sum(i * alpha**i for i in range(gamma + 1))


@wrong("07.3")
def nothing_without_drafts(alpha, gamma):
    return sum(alpha**i for i in range(gamma + 1)) if gamma else 0


@wrong("07.3")
def rounded(alpha, gamma):
    return round(sum(alpha**i for i in range(gamma + 1)), 2)


# ------------------------------------------------------------------ 07.4 speed-up


@right("07.4")
def rates_of_numpy(alpha, gamma, target, draft):
    tokens = np.power(float(alpha), np.arange(gamma + 1)).sum()
    speed = tokens / (np.array(target)[gamma] + gamma * draft)
    return speed / (1 / target[0])


@right("07.4")
def in_plain_tokens(alpha, gamma, target, draft):
    price = (draft * gamma + target[gamma]) / target[0]
    return mx.array(math.fsum(alpha**i for i in range(gamma + 1)) / price)


@right("07.4")
def time_of_a_token(alpha, gamma, target, draft):
    tokens = gamma + 1 if alpha == 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)
    return np.float32(target[0] / ((gamma * draft + target[gamma]) / tokens))


@right("07.4")
def in_units_of_the_draft(alpha, gamma, target, draft):
    tokens = 1 + sum(alpha**i for i in range(1, gamma + 1))
    return tokens * (target[0] / draft) / (gamma + target[gamma] / draft)


def gain(alpha, gamma, target, cost, more=0):
    return (sum(alpha**i for i in range(gamma + 1)) + more) * target[0] / cost


@wrong("07.4", "one_row_too_few")
def target_of_gamma_tokens(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, gamma * draft + target[max(gamma, 1) - 1])


@wrong("07.4")
def target_one_too_far_back(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, gamma * draft + target[gamma - 1])


@wrong("07.4", "the_last_time")
def the_last_measured(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, gamma * draft + target[-1])


@wrong("07.4")
def the_largest_measured(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, gamma * draft + max(target))


@wrong("07.4", "free_drafts")
def forgets_the_draft(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, target[gamma])


@wrong("07.4", "free_verification")
def one_plain_forward(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, draft * gamma + target[0])


@wrong("07.4", "pays_for_one_forward_each")
def no_batching(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, gamma * draft + target[0] * (gamma + 1))


@wrong("07.4")
def all_forwards_measured(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, gamma * draft + sum(target[: gamma + 1]))


@wrong("07.4", "drafts_one_more")
def one_draft_too_many(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, (1 + gamma) * draft + target[gamma])


@wrong("07.4", "own_token_forgotten")
def accepted_only(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, gamma * draft + target[gamma], more=-1)


@wrong("07.4", "upside_down")
def slower_is_more(alpha, gamma, target, draft):
    return 1 / gain(alpha, gamma, target, gamma * draft + target[gamma])


@wrong("07.4", "per_second")
def tokens_a_second(alpha, gamma, target, draft):
    return gain(alpha, gamma, [1.0], gamma * draft + target[gamma])


@wrong("07.4")
def closed_form_alone(alpha, gamma, target, draft):
    tokens = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    return tokens * target[0] / (gamma * draft + target[gamma])


@wrong("07.4")
def never_below_one(alpha, gamma, target, draft):
    return max(1.0, gain(alpha, gamma, target, gamma * draft + target[gamma]))


@wrong("07.4")
def side_by_side(alpha, gamma, target, draft):
    return gain(alpha, gamma, target, max(gamma * draft, target[gamma]))


ANSWERS.changed("07.4", "the_shortest_for_plain_decoding", "* target[0]", "* min(target)")
ANSWERS.changed(
    "07.1",
    "without_the_drafted_ends",
    "zip(drafted, logits, strict=False):",
    "zip([guess for guess in drafted if guess != stop] + [-1], logits, strict=False):",
)
ANSWERS.changed("07.1", "rounded_scores", "np.argmax(row)", "np.argmax(np.round(row, 2))")


@right("07.1")
def softmax_in_place_on_a_copy(drafted, logits, stop):
    p = logits.copy()
    p -= p.max(axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    tokens = []
    for guess, best in zip([*drafted, None], p.argmax(axis=1).tolist(), strict=True):
        tokens.append(best)
        if best != guess or best == stop:
            break
    return tokens


@right("07.1")
def without_the_draft_is_less(drafted, logits, stop):
    tokens = []
    for guess, row in zip(drafted, logits, strict=False):
        others = row.copy()
        others[guess] = -np.inf
        tokens.append(guess if row[guess] > others.max() else int(others.argmax()))
        if tokens[-1] != guess or guess == stop:
            return tokens
    return [*tokens, int(logits[-1].argmax())]


@wrong("07.1")
def an_end_that_was_refused(drafted, logits, stop):
    said = np.argmax(logits, axis=-1).tolist()
    kept = 0
    while kept < len(drafted) and drafted[kept] == said[kept]:
        kept += 1
    if stop not in said:
        return said[: kept + 1]
    end = said.index(stop)
    return said[: end + 1] if end <= kept else said[: max(kept, 1)]
