"""Answers to the exercises of lesson 09, as students write them: right ones and wrong ones."""

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 09.1 prompt lookup


@right("09.1")
def with_numpy(text, n, longest):
    ids = np.array(text, dtype=int)
    for size in range(min(longest, len(ids) - 1), 0, -1):
        windows = np.lib.stride_tricks.sliding_window_view(ids[:-1], size)
        found = np.flatnonzero((windows == ids[-size:]).all(axis=1))
        if len(found):
            return ids[found[-1] + size :][:n]
    return np.array([], dtype=int)


@right("09.1")
def with_commas_around_each_id(text, n, longest):
    for size in range(min(longest, len(text) - 1), 0, -1):
        run = "," + "".join(f"{token}," for token in text[-size:])
        whole = "," + "".join(f"{token}," for token in text[:-1])
        place = whole.rfind(run)
        if place >= 0:
            start = whole[: place + 1].count(",") - 1 + size
            return text[start : start + n]
    return []


@right("09.1")
def as_mlx(text, n, longest):
    return mx.array(with_numpy(text, n, longest), dtype=mx.int32)


@right("09.1")
def as_a_tuple(text, n, longest):
    text = tuple(text)
    for size in range(longest, 0, -1):
        for end in range(len(text) - 1, size - 1, -1):
            if text[end - size : end] == text[-size:]:
                return text[end : end + n]
    return ()


def joined(text, n, longest, separator):
    for size in range(min(longest, len(text) - 1), 0, -1):
        run = separator.join(map(str, text[-size:]))
        for end in range(len(text) - 1, 0, -1):
            if separator.join(map(str, text[:end])).endswith(run):
                return text[end : end + n]
    return []


@wrong("09.1", like="in_the_joined_text")
def digits_without_commas(text, n, longest):
    return joined(text, n, longest, "")


@wrong("09.1")
def digits_with_commas_between(text, n, longest):
    return joined(text, n, longest, ",")


@wrong("09.1")
def place_in_digits_taken_for_a_place_in_ids(text, n, longest):
    digits = "".join(map(str, text))
    for size in range(min(longest, len(text) - 1), 0, -1):
        run = digits[-size:]
        place = digits[:-1].rfind(run)
        if place >= 0:
            return text[place + size : place + size + n]
    return []


@wrong("09.1", like="runs_that_overlap_do_not_count")
def runs_apart(text, n, longest):
    for size in range(min(longest, len(text) // 2), 0, -1):
        for start in range(len(text) - 2 * size, -1, -1):
            if text[start : start + size] == text[-size:]:
                return text[start + size : start + size + n]
    return []


@wrong("09.1", like="first_place")
def index_of_the_first(text, n, longest):
    for size in range(min(longest, len(text) - 1), 0, -1):
        for start in range(len(text) - size):
            if text[start : start + size] == text[-size:]:
                return text[start + size : start + size + n]
    return []


@wrong("09.1", like="longer_than_longest")
def as_long_as_it_goes(text, n, longest):
    return with_commas_around_each_id(text, n, len(text))


@wrong("09.1")
def last_token_then_longest(text, n, longest):
    for start in range(len(text) - 2, -1, -1):
        if text[start] == text[-1]:
            return text[start + 1 : start + 1 + n]
    return []


@wrong("09.1")
def start_of_the_text_forgotten(text, n, longest):
    for size in range(min(longest, len(text) - 1), 0, -1):
        for start in range(len(text) - size - 1, 0, -1):
            if text[start : start + size] == text[-size:]:
                return text[start + size : start + size + n]
    return []


@wrong("09.1")
def one_size_too_few(text, n, longest):
    return as_a_tuple(text, n, longest - 1)


@wrong("09.1")
def one_token_only(text, n, longest):
    return as_a_tuple(text, 1, longest)


@wrong("09.1")
def no_answer_for_a_new_token(text, n, longest):
    return as_a_tuple(text, n, longest) or None


@wrong("09.1")
def fails_on_an_empty_text(text, n, longest):
    last = text[-1]
    return as_a_tuple(text, n, longest) if last in text[:-1] else []


@wrong("09.1")
def eats_the_text(text, n, longest):
    answer = list(as_a_tuple(text, n, longest))
    text.clear()
    return answer


# ------------------------------------------------------------------ 09.2 the best length


@right("09.2")
def closed_form(alpha, target, draft, most):
    best, cheapest = 0, target[0]
    for gamma in range(1, most + 1):
        kept = gamma + 1 if alpha == 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)
        price = (gamma * draft + target[gamma]) / kept  # of one token
        if price < cheapest * (1 - 1e-9):
            best, cheapest = gamma, price
    return best


@right("09.2")
def maximum_of_a_list(alpha, target, draft, most):
    rates, tokens = [], 0.0
    for gamma in range(most + 1):
        tokens += alpha**gamma
        rates.append(round(tokens / (gamma * draft + target[gamma]) * target[0], 12))
    return rates.index(max(rates))


@right("09.2")
def argmax_in_mlx(alpha, target, draft, most):
    gammas = mx.arange(most + 1)
    tokens = mx.cumsum(mx.power(mx.array(alpha), gammas))
    rates = tokens * target[0] / (gammas * draft + mx.array(target[: most + 1]))
    return mx.argmax(rates)


@right("09.2")
def with_numpy_scalars(alpha, target, draft, most):
    gammas = np.arange(most + 1)
    tokens = (float(alpha) ** gammas).cumsum()
    rates = np.round(tokens / (gammas * draft + np.array(target[: most + 1])) * target[0], 9)
    return np.argmax(rates)


def _best(most, rate, first=0):
    rates = [round(rate(gamma), 12) for gamma in range(first, most + 1)]
    return first + rates.index(max(rates)) if rates else 0


def _tokens(alpha, gamma):
    return sum(alpha**i for i in range(gamma + 1))


@wrong("09.2", like="forgets_its_own_token")
def geometric_sum_of_gamma_terms(alpha, target, draft, most):
    def rate(g):
        kept = sum(alpha**i for i in range(1, g + 1)) if g else 1
        return kept / (g * draft + target[g])

    return _best(most, rate)


@wrong("09.2", like="never_most")
def range_of_most(alpha, target, draft, most):
    return _best(max(0, most - 1), lambda g: _tokens(alpha, g) / (g * draft + target[g]))


@wrong("09.2", like="drafts_one_more")
def one_draft_for_each_token(alpha, target, draft, most):
    return _best(most, lambda g: _tokens(alpha, g) / ((g + 1) * draft + target[g]))


@wrong("09.2", like="never_zero")
def at_least_one(alpha, target, draft, most):
    return _best(most, lambda g: _tokens(alpha, g) / (g * draft + target[g]), first=1)


@wrong("09.2")
def each_token_its_forward(alpha, target, draft, most):
    return _best(most, lambda g: _tokens(alpha, g) / (g * draft + (g + 1) * target[0]))


@wrong("09.2")
def all_forwards_up_to_gamma(alpha, target, draft, most):
    return _best(most, lambda g: _tokens(alpha, g) / (g * draft + sum(target[: g + 1])))


@wrong("09.2")
def closed_form_without_alpha_1(alpha, target, draft, most):
    def rate(g):
        return (1 - alpha ** (g + 1)) / (1 - alpha) / (g * draft + target[g])

    return _best(most, rate)


@wrong("09.2")
def the_rate_itself(alpha, target, draft, most):
    return max(_tokens(alpha, g) / (g * draft + target[g]) for g in range(most + 1))


@wrong("09.2")
def all_prices_that_are_known(alpha, target, draft, most):
    return _best(len(target) - 1, lambda g: _tokens(alpha, g) / (g * draft + target[g]))


@wrong("09.2")
def difference_in_place_of_quotient(alpha, target, draft, most):
    return _best(most, lambda g: _tokens(alpha, g) - (g * draft + target[g]))


@wrong("09.2")
def one_is_plain(alpha, target, draft, most):
    best, top = 0, 1.0
    for g in range(1, most + 1):
        rate = _tokens(alpha, g) / (g * draft + target[g])
        if rate > top * (1 + 1e-9):
            best, top = g, rate
    return best


@wrong("09.2", like="the_last_of_equals")
def greater_or_equal(alpha, target, draft, most):
    best, top = 0, 0.0
    for g in range(most + 1):
        rate = _tokens(alpha, g) / (g * draft + target[g])
        if rate >= top * (1 - 1e-9):
            best, top = g, rate
    return best


# ------------------------------------------------------------------ 09.3 an estimate that forgets


@right("09.3")
def draft_by_draft(rounds, start, memory):
    kept, judged = 4 * start, 4
    for drafted, accepted in rounds:
        judgements = [1] * accepted + [0] * (accepted < drafted)
        if judgements:
            kept, judged = kept * (1 - 1 / memory), judged * (1 - 1 / memory)
        for verdict in judgements:
            kept, judged = kept + verdict, judged + 1
    return kept / judged


@right("09.3")
def with_weights(rounds, start, memory):
    table = np.array([(min(a + 1, d), a) for d, a in rounds if d] or np.zeros((0, 2)))
    weight = (1 - 1 / memory) ** np.arange(len(table) - 1, -1, -1)
    first = (1 - 1 / memory) ** len(table)
    return (4 * start * first + weight @ table[:, 1]) / (4 * first + weight @ table[:, 0])


@right("09.3")
def a_number_of_mlx(rounds, start, memory):
    return mx.array(draft_by_draft(rounds, start, memory))


def _follow(rounds, start, judged_of, fade_of, first=4):
    kept, judged = first * start, first
    for drafted, accepted in rounds:
        if drafted:
            fade = fade_of(drafted, accepted)
            kept, judged = fade * kept + accepted, fade * judged + judged_of(drafted, accepted)
    return kept / judged


def _reached(drafted, accepted):
    return min(accepted + 1, drafted)


@wrong("09.3", like="fades_by_judged")
def judged_ones_fade(rounds, start, memory):
    return _follow(rounds, start, _reached, lambda d, a: (1 - 1 / memory) ** _reached(d, a))


@wrong("09.3", like="fades_by_accepted")
def accepted_ones_fade(rounds, start, memory):
    return _follow(rounds, start, _reached, lambda d, a: (1 - 1 / memory) ** a)


@wrong("09.3", like="fades_by_drafted")
def drafted_ones_fade(rounds, start, memory):
    return _follow(rounds, start, _reached, lambda d, a: (1 - 1 / memory) ** d)


@wrong("09.3", like="start_weighs_one")
def start_as_one_draft(rounds, start, memory):
    return _follow(rounds, start, _reached, lambda d, a: 1 - 1 / memory, first=1)


@wrong("09.3", like="counts_one_too_many")
def always_one_more(rounds, start, memory):
    return _follow(rounds, start, lambda d, a: a + 1, lambda d, a: 1 - 1 / memory)


@wrong("09.3")
def one_over_memory(rounds, start, memory):
    return _follow(rounds, start, _reached, lambda d, a: 1 / memory)


@wrong("09.3")
def window_of_rounds(rounds, start, memory):
    last = [each for each in rounds if each[0]][-memory:]
    return _follow(last, start, _reached, lambda d, a: 1)


@wrong("09.3")
def window_of_drafts(rounds, start, memory):
    judged = [1] * round(4 * start) + [0] * (4 - round(4 * start))
    for drafted, accepted in rounds:
        judged += [1] * accepted + [0] * (accepted < drafted)
    return sum(judged[-memory:]) / len(judged[-memory:])


@wrong("09.3")
def moving_average_of_rates(rounds, start, memory):
    alpha = start
    for drafted, accepted in rounds:
        if drafted:
            alpha += (accepted / _reached(drafted, accepted) - alpha) / memory
    return alpha


@wrong("09.3")
def only_one_sum_fades(rounds, start, memory):
    kept, judged = 4 * start, 4
    for drafted, accepted in rounds:
        if drafted:
            kept = kept * (1 - 1 / memory) + accepted
            judged += _reached(drafted, accepted)
    return kept / judged


@wrong("09.3", like="plain_rounds_fade")
def every_round_fades(rounds, start, memory):
    kept, judged = 4 * start, 4
    for drafted, accepted in rounds:
        kept = kept * (1 - 1 / memory) + accepted
        judged = judged * (1 - 1 / memory) + _reached(drafted, accepted)
    return kept / judged


@wrong("09.3")
def plain_rounds_are_judged(rounds, start, memory):
    kept, judged = 4 * start, 4
    for drafted, accepted in rounds:
        kept = kept * (1 - 1 / memory) + accepted
        judged = judged * (1 - 1 / memory) + (drafted if accepted == drafted > 0 else accepted + 1)
    return kept / judged


@wrong("09.3")
def the_rounds_backwards(rounds, start, memory):
    return draft_by_draft(rounds[::-1], start, memory)


@wrong("09.3")
def fails_without_rounds(rounds, start, memory):
    return draft_by_draft([rounds[0], *rounds[1:]], start, memory)


# ------------------------------------------------------------------ 09.4 block verification


@right("09.4")
def with_plain_lists(p, q, drafts):
    p, q, gamma = p.tolist(), q.tolist(), len(drafts)
    covered = [1.0]
    for n in range(gamma):
        covered.append(min(1.0, covered[n] * p[n][drafts[n]] / q[n][drafts[n]]))
    chances, failed = [0.0] * (gamma + 1), 1.0
    for n in range(gamma, 0, -1):
        if n == gamma:
            s = covered[n]
        else:
            s = sum(max(covered[n] * a - b, 0.0) for a, b in zip(p[n], q[n], strict=True))
        passes = s / (s + 1 - covered[n]) if s > 0 else 0.0
        chances[n], failed = failed * passes, failed * (1 - passes)
    chances[0] = failed
    return chances


@right("09.4")
def by_recursion(p, q, drafts):
    w = [1.0]
    for i, x in enumerate(drafts):
        w.append(min(1.0, w[-1] * p[i, x] / q[i, x]))

    def up_to(n):
        if n == 0:
            return [1.0]
        s = w[n] if n == len(drafts) else np.maximum(w[n] * p[n] - q[n], 0).sum()
        passes = s / (s + 1 - w[n]) if s else 0.0
        return [*((1 - passes) * np.array(up_to(n - 1))), passes]

    return tuple(up_to(len(drafts)))


@right("09.4")
def as_an_mlx_array(p, q, drafts):
    return mx.array(with_plain_lists(p, q, drafts))


@right("09.4")
def nothing_kept_is_what_remains(p, q, drafts):
    longer = np.array(by_recursion(p, q, drafts))[1:]
    return np.append(1 - longer.sum(), longer)


def _longest(passes):
    chances, failed = [], 1.0
    for each in passes[::-1]:
        chances.append(failed * each)
        failed *= 1 - each
    return chances[::-1]


def _block(p, q, drafts, w=None, zero=0.0):
    gamma = len(drafts)
    if w is None:
        w = [1.0]
        for i, x in enumerate(drafts):
            w.append(min(1.0, w[-1] * p[i, x] / q[i, x]))
    passes = [1.0]
    for n in range(1, gamma + 1):
        s = w[n] if n == gamma else float(np.maximum(w[n] * p[n] - q[n], 0).sum())
        passes.append(s / (s + 1 - w[n]) if s > 0 else zero)
    return passes


@wrong("09.4", like="ratios_capped_one_by_one")
def product_of_capped_ratios(p, q, drafts):
    w = [1.0]
    for i, x in enumerate(drafts):
        w.append(w[-1] * min(1.0, p[i, x] / q[i, x]))
    return _longest(_block(p, q, drafts, w))


@wrong("09.4", like="zero_over_zero")
def nan_for_equal_models(p, q, drafts):
    w = np.ones(len(drafts) + 1)
    for i, x in enumerate(drafts):
        w[i + 1] = min(1, w[i] * p[i, x] / q[i, x])
    s = np.append(np.maximum(w[:-1, None] * p[:-1] - q, 0).sum(axis=1), w[-1])
    passes = s / (s + 1 - w)
    return _longest([1.0, *passes[1:]])


@wrong("09.4")
def error_for_equal_models(p, q, drafts):
    w = [1.0]
    for i, x in enumerate(drafts):
        w.append(min(1.0, w[-1] * float(p[i, x] / q[i, x])))
    s = [float(np.maximum(w[n] * p[n] - q[n], 0).sum()) for n in range(len(drafts))]
    s.append(w[-1])
    return _longest([1.0, *(a / (a + 1 - b) for a, b in zip(s[1:], w[1:], strict=True))])


@wrong("09.4")
def equal_models_pass(p, q, drafts):
    return _longest(_block(p, q, drafts, zero=1.0))


@wrong("09.4", like="shortest_first")
def from_the_front(p, q, drafts):
    chances, failed = [], 1.0
    for each in _block(p, q, drafts)[1:]:
        chances.append(failed * each)
        failed *= 1 - each
    return [failed, *chances]


@wrong("09.4", like="one_by_one")
def token_by_token(p, q, drafts):
    chances, reached = [], 1.0
    for i, x in enumerate(drafts):
        accept = min(1.0, p[i, x] / q[i, x])
        chances.append(reached * (1 - accept))
        reached *= accept
    return [*chances, reached]


@wrong("09.4")
def ratio_of_the_block_only(p, q, drafts):
    whole = min(1.0, np.prod([p[i, x] / q[i, x] for i, x in enumerate(drafts)]))
    return [1 - whole, *[0.0] * (len(drafts) - 1), whole]


@wrong("09.4")
def capped_at_the_end(p, q, drafts):
    ratios = np.cumprod([1.0, *(p[i, x] / q[i, x] for i, x in enumerate(drafts))])
    return _longest(_block(p, q, drafts, np.minimum(1, ratios)))


@wrong("09.4")
def rows_one_too_early(p, q, drafts):
    return _longest(_block(p, np.vstack([q[:1], q[:-1]]), drafts))


@wrong("09.4")
def chances_to_pass(p, q, drafts):
    return _block(p, q, drafts)


@wrong("09.4")
def backwards(p, q, drafts):
    return _longest(_block(p, q, drafts))[::-1]


@wrong("09.4")
def without_nothing(p, q, drafts):
    return _longest(_block(p, q, drafts))[1:]
