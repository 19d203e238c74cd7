"""Answers to the exercises of lesson 09, as students write them: right ones and wrong ones."""

from lablib.course.checks.exercises import find

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong, changed = ANSWERS.right, ANSWERS.wrong, ANSWERS.changed

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


changed(
    "09.1",
    "runs_apart",
    "len(text) - size))",
    "len(text) - 2 * size + 1))",
    like="runs_that_overlap_do_not_count",
)
changed(
    "09.1",
    "index_of_the_first",
    "reversed(range(len(text) - size))",
    "range(len(text) - size)",
    like="first_place",
)
changed(
    "09.1",
    "as_long_as_it_goes",
    "min(longest, len(text) - 1)",
    "len(text) - 1",
    like="longer_than_longest",
)
changed(
    "09.1",
    "last_token_then_longest",
    "range(min(longest, len(text) - 1), 0, -1)",
    "[1] if len(text) > 1 else []",
)
changed(
    "09.1",
    "start_of_the_text_forgotten",
    "reversed(range(len(text) - size))",
    "reversed(range(1, len(text) - size))",
)
changed("09.1", "one_size_too_few", "min(longest, ", "min(longest - 1, ")
changed("09.1", "one_token_only", "size + n]", "size + 1]")
changed("09.1", "no_answer_for_a_new_token", "return []", "return None")


@wrong("09.1")
def fails_on_an_empty_text(text, n, longest):
    last = text[-1]
    return as_a_tuple(text, n, longest) if last in text[:-1] else []


@wrong("09.1")
def eats_the_text(text, n, longest):
    answer = list(as_a_tuple(text, n, longest))
    text.clear()
    return answer


changed("09.1", "three_at_most", "min(longest, ", "min(longest, 3, ", like="at_most_three")
changed("09.1", "five_drafts_at_most", "size + n]", "size + min(n, 5)]")
changed(
    "09.1",
    "the_same_objects",
    "text[start : start + size] == run",
    "all(a is b for a, b in zip(text[start : start + size], run))",
)
changed(
    "09.1",
    "zero_is_nothing",
    "text[start : start + size] == run",
    "text[start : start + size] == run and text[start + size]",
)
changed(
    "09.1",
    "any_order",
    "text[start : start + size] == run",
    "sorted(text[start : start + size]) == sorted(run)",
)
changed(
    "09.1",
    "what_came_before",
    "text[start + size : start + size + n]",
    "text[max(0, start - n) : start]",
)
changed(
    "09.1",
    "last_of_the_run_only",
    "text[start : start + size] == run",
    "text[start + size - 1] == run[-1]",
)
changed("09.1", "the_run_before_where_new", "return []", "return lookup(text[:-1], n, longest)[1:]")
changed(
    "09.1",
    "two_thirds_agree",
    "text[start : start + size] == run",
    "3 * sum(map(int.__eq__, text[start : start + size], run)) >= 2 * size",
)
changed("09.1", "four_at_most", "min(longest, ", "min(longest, 4, ")
changed(
    "09.1",
    "digits_only",
    "return text[start + size : start + size + n]",
    "return [x for x in text[start + size : start + size + n] if x < 10]",
)
changed("09.1", "seven_at_most", "min(longest, ", "min(longest, 7, ")


changed(
    "09.1",
    "prefers_full_guesses",
    "reversed(range(len(text) - size))",
    "sorted(range(len(text) - size), key=lambda s: (s + size + n > len(text), -s))",
)


changed(
    "09.1",
    "overlaps_come_last",
    "reversed(range(len(text) - size))",
    "sorted(range(len(text) - size), key=lambda s: (s + 2 * size > len(text), -s))",
)
changed(
    "09.1",
    "looks_back_a_little",
    "range(len(text) - size)",
    "range(max(0, len(text) - size - 16), len(text) - size)",
)


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


changed(
    "09.2",
    "geometric_sum_of_gamma_terms",
    "range(gamma + 1)",
    "range(1, gamma + 1)",
    like="forgets_its_own_token",
)
changed("09.2", "range_of_most", "most + 1)", "most)", like="never_most")


@wrong("09.2", like="drafts_one_more")
def one_draft_for_each_token(alpha, target, draft, most):
    return _best(most, lambda g: _tokens(alpha, g) / ((g + 1) * draft + target[g]))


changed("09.2", "at_least_one", "0, 1 / target[0]", "min(1, most), 0", like="never_zero")
changed("09.2", "each_token_its_forward", "target[gamma]", "(gamma + 1) * target[0]")
changed("09.2", "all_forwards_up_to_gamma", "target[gamma]", "sum(target[: gamma + 1])")
changed(
    "09.2",
    "closed_form_without_alpha_1",
    "sum(alpha**i for i in range(gamma + 1))",
    "(1 - alpha ** (gamma + 1)) / (1 - alpha)",
)
changed("09.2", "the_rate_itself", "return best", "return best_rate")
changed("09.2", "all_prices_that_are_known", "most + 1)", "len(target))")
changed(
    "09.2",
    "difference_in_place_of_quotient",
    "tokens / (gamma * draft + target[gamma])",
    "tokens - (gamma * draft + target[gamma])",
)
changed("09.2", "one_is_plain", "0, 1 / target[0]", "0, 1.0")
changed(
    "09.2",
    "greater_or_equal",
    "> best_rate * (1 + 1e-9)",
    ">= best_rate * (1 - 1e-9)",
    like="the_last_of_equals",
)
changed(
    "09.2",
    "a_dip_after_a_rise",
    "best, best_rate = gamma, rate",
    "best, best_rate = gamma, rate\n        elif best:\n            break",
    like="stops_after_a_rise",
)
changed(
    "09.2",
    "while_it_is_worth_its_price",
    "rate > best_rate * (1 + 1e-9)",
    "alpha**gamma * target[0] > draft + target[gamma] - target[gamma - 1]",
    like="each_pays_for_itself",
)
changed("09.2", "halves", "range(1, most + 1)", "(2**k for k in range(most.bit_length()))")
changed("09.2", "seven_at_most", "most + 1)", "min(most, 7) + 1)")
changed(
    "09.2",
    "alpha_times_gamma",
    "sum(alpha**i for i in range(gamma + 1))",
    "min(gamma, alpha / (1 - alpha + 1e-12)) + 1",
)
changed("09.2", "prices_never_fall", "target[gamma]", "max(target[: gamma + 1])")
changed("09.2", "never_quite_certain", "alpha**i", "min(alpha, 0.999) ** i")
changed("09.2", "one_more_is_much_better", "(1 + 1e-9)", "1.03")


@wrong("09.2")
def gives_up_after_three(alpha, target, draft, most):
    best, top = 0, 0.0
    for g in range(most + 1):
        rate = _tokens(alpha, g) / (g * draft + target[g])
        if rate > top * (1 + 1e-9):
            best, top = g, rate
        elif g - best >= 3:
            break
    return best


changed("09.2", "only_if_clearly_faster", "best_rate * (1 + 1e-9)", "best_rate * 1.05")


changed(
    "09.2",
    "only_what_is_mostly_right",
    "range(1, most + 1)",
    "range(1, most + 1 if alpha >= 0.5 else 1)",
)


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


changed("09.3", "start_as_one_draft", "4 * start, 4.0", "start, 1.0", like="start_weighs_one")


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


changed("09.3", "only_one_sum_fades", "(1 - 1 / memory) * judged + ", "judged + ")
changed("09.3", "every_round_fades", "if drafted > 0:", "if True:", like="plain_rounds_fade")


@wrong("09.3")
def plain_rounds_are_judged(rounds, start, memory):
    kept, judged = 4 * start, 4
    for drafted, accepted in rounds:
        kept = kept * (1 - 1 / memory) + accepted
        judged = judged * (1 - 1 / memory) + (drafted if accepted == drafted > 0 else accepted + 1)
    return kept / judged


changed("09.3", "the_rounds_backwards", "in rounds:", "in rounds[::-1]:")


@wrong("09.3")
def fails_without_rounds(rounds, start, memory):
    return draft_by_draft([rounds[0], *rounds[1:]], start, memory)


@wrong("09.3")
def half_life(rounds, start, memory):
    return _follow(rounds, start, _reached, lambda d, a: 2 ** (-1 / memory))


@wrong("09.3")
def exponential_of_the_memory(rounds, start, memory):
    return _follow(rounds, start, _reached, lambda d, a: np.exp(-1 / memory))


changed("09.3", "an_unlucky_round_only", "if drafted > 0:", "if drafted > accepted:")
changed("09.3", "a_hopeless_round_teaches_nothing", "if drafted > 0:", "if accepted > 0:")
changed("09.3", "clipped_from_below", "return kept / judged", "return max(0.05, kept / judged)")
changed("09.3", "all_but_one", "min(accepted + 1, drafted)", "max(accepted, 1)")


@wrong("09.3")
def only_twice_the_memory(rounds, start, memory):
    accepted, judged = 4 * start, 4.0
    for drafted, kept in list(rounds)[-2 * memory :]:
        if drafted:
            accepted = accepted * (1 - 1 / memory) + kept
            judged = judged * (1 - 1 / memory) + min(kept + 1, drafted)
    return accepted / judged if judged else start


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


changed(
    "09.4",
    "product_of_capped_ratios",
    "min(1.0, w[-1] * p[i, x] / q[i, x])",
    "w[-1] * min(1.0, p[i, x] / q[i, x])",
    like="ratios_capped_one_by_one",
)


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


changed("09.4", "equal_models_pass", "else 0.0", "else 1.0")


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


changed("09.4", "backwards", "return chances[::-1]", "return chances")
changed("09.4", "without_nothing", "return chances[::-1]", "return chances[-2::-1]")
changed(
    "09.4",
    "the_bonus_row_too",
    "if n < len(drafts) else w[n]",
    "if n < len(drafts) else w[n] * p[n].max()",
)
changed("09.4", "absolute_rest", "np.maximum(w[n] * p[n] - q[n], 0)", "np.abs(w[n] * p[n] - q[n])")
changed("09.4", "rest_of_q", "w[n] * p[n] - q[n], 0", "q[n] - w[n] * p[n], 0")
changed("09.4", "failures_forgotten", "longer_failed *= 1 - passes", "pass")
changed("09.4", "little_is_nothing", "if s > 0 ", "if s > 0.01 ")
changed("09.4", "the_largest_rest", "q[n], 0).sum()", "q[n], 0).max()")


@wrong("09.1")
def searches_bytes(text, n, longest):
    held = bytes(token % 256 for token in text)
    for size in range(min(longest, len(text) - 1), 0, -1):
        start = held.rfind(held[-size:], 0, len(held) - 1)
        if start >= 0:
            return text[start + size : start + size + n]
    return []


@wrong("09.1")
def half_as_long_each_time(text, n, longest):
    size = min(longest, len(text) - 1)
    while size > 0:
        for start in reversed(range(len(text) - size)):
            if text[start : start + size] == text[-size:]:
                return text[start + size : start + size + n]
        size //= 2
    return []


@wrong("09.1")
def powers_of_two(text, n, longest):
    for size in (8, 4, 2, 1):
        for start in reversed(range(len(text) - size)):
            if size <= longest and text[start : start + size] == text[-size:]:
                return text[start + size : start + size + n]
    return []


changed("09.3", "the_last_eight_rounds", "in rounds", "in rounds[-8:]")

changed(
    "09.1",
    "the_last_two_agree",
    "text[start : start + size] == run",
    "text[start : start + size][-2:] == run[-2:]",
)
changed(
    "09.1",
    "all_but_one_of_a_long_run",
    "text[start : start + size] == run",
    "sum(map(int.__eq__, text[start : start + size], run)) >= size - (size > 3)",
)
changed(
    "09.1",
    "the_first_two_agree",
    "text[start : start + size] == run",
    "text[start : start + size][:2] == run[:2]",
)


@wrong("09.1")
def remembers_the_end(text, n, longest, known={}):  # noqa: B006
    key = len(text), *text[-longest:], n
    known.setdefault(key, find("09.1").reference(text, n, longest))
    return known[key]


@wrong("09.1", like="shortest_first")
def the_newest_place_of_any_run(text, n, longest):
    for end in reversed(range(1, len(text))):
        for size in range(min(longest, end), 0, -1):
            if text[end - size : end] == text[-size:]:
                return text[end : end + n]
    return []


@wrong("09.3", like="fades_the_new_ones_too")
def the_first_round_fades_nothing(rounds, start, memory):
    kept, judged, fade = 4 * start, 4.0, 1.0
    for drafted, accepted in rounds:
        if drafted:
            kept = fade * kept + accepted
            judged = fade * judged + min(accepted + 1, drafted)
            fade = 1 - 1 / memory
    return kept / judged


@wrong("09.4")
def ends_before_the_impossible(p, q, drafts):
    end = [*(p[i, x] > 0 for i, x in enumerate(drafts)), False].index(False)
    if end == 0:
        return [1.0] + [0.0] * len(drafts)
    kept = find("09.4").reference(p, q[:end], drafts[:end])
    return kept + [0.0] * (len(drafts) - end)


changed("09.1", "one_after_a_long_run", "size + n]", "size + (n if n >= size else 1)]")
changed(
    "09.1",
    "no_run_of_one_token",
    "run = text",
    "if size > len({*text[-size:]}):\n            continue\n        run = text",
)
changed(
    "09.1",
    "the_same_words",
    "text[start : start + size] == run",
    "text[start + size - 1] == run[-1] and {*text[start : start + size]} == {*run}",
)
changed(
    "09.1",
    "in_any_order_but_the_last",
    "text[start : start + size] == run",
    "text[start + size - 1] == run[-1] and sorted(text[start : start + size]) == sorted(run)",
)
changed(
    "09.1",
    "only_one_token_may_overlap",
    "text[start : start + size] == run",
    "text[start : start + size] == run and (len({*run}) == 1 or start + 2 * size <= len(text))",
)


# ------------------------------------------------------------------ 09.5 drawn, and dropped


@right("09.5")
def told_by_lists(p, q, offered):
    size = len(p)
    found = [0.0] * size
    rest = [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]
    left = sum(rest)
    for x in range(size):
        kept = offered[x] * min(p[x], q[x])
        refused = offered[x] * max(q[x] - p[x], 0.0)
        dropped = (1 - offered[x]) * q[x]
        found[x] += kept
        for y in range(size):
            found[y] += (refused * rest[y] / left if left > 0 else 0) + dropped * p[y]
    return found


@right("09.5")
def what_the_rule_lacks(p, q, offered):
    """Without drops p is written: change that by what each drop does."""
    found = np.array(p, float)
    for x in range(len(p)):
        alone = np.zeros(len(p))
        keep = min(1.0, p[x] / q[x]) if q[x] else 0.0
        alone[x] = keep
        rest = np.maximum(p - q, 0)
        if keep < 1 and rest.sum():
            alone += (1 - keep) * rest / rest.sum()
        found += q[x] * (1 - offered[x]) * (p - alone)
    return mx.array(found)


@wrong("09.5", like="always_the_targets")
def judged_by_what_is_offered(p, q, offered):
    really = q * offered
    kept = np.minimum(p, really)
    return kept + (p - kept)


@wrong("09.5", like="always_the_targets")
def as_often_on_average(p, q, offered):
    often = sum(offered) / len(offered)
    kept = often * np.minimum(p, q)
    rest = np.maximum(p - q, 0)
    after = rest / rest.sum() if rest.sum() else p
    return kept + (often - kept.sum()) * after + (1 - often) * p


changed("09.5", "a_drop_draws_from_q", "(1 - offered[x]) * p", "(1 - offered[x]) * q")
changed("09.5", "no_token_after_a_refusal", "(1 - keep) * after", "0 * after")
changed(
    "09.5",
    "the_dropped_one_excluded",
    "(1 - offered[x]) * p",
    "(1 - offered[x]) * np.where(np.arange(len(p)) == x, 0, p)",
)
changed("09.5", "offered_and_dropped_exchanged", "offered[x] * keep", "(1 - offered[x]) * keep")
changed(
    "09.5",
    "not_a_number_where_p_is_q",
    "rest / rest.sum() if rest.sum() > 0 else p",
    "rest / rest.sum()",
)
changed("09.5", "the_other_ratio", "p[x] / q[x]", "q[x] / p[x]")
