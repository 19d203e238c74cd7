"""Answers to the exercises of lesson 06, as students write them: right ones and wrong ones."""

import math
import statistics
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import groupby

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 06.1 majority with ties


def votes_of(answers):
    return [answer for answer in answers if answer is not None]


@right("06.1")
def numpy_unique(answers):
    cast = votes_of(answers)
    if not cast:
        return None
    values, first, counts = np.unique(cast, return_index=True, return_counts=True)
    return values[np.lexsort((first, -counts))[0]]


@right("06.1")
def mode_of_statistics(answers):
    cast = votes_of(answers)
    return statistics.mode(cast) if cast else None


@right("06.1")
def a_loop_with_the_best_so_far(answers):
    winner, most = None, 0
    for answer in answers:
        if answer is not None and answers.count(answer) > most:
            winner, most = answer, answers.count(answer)
    return winner


@right("06.1")
def a_set_with_a_rule_for_ties(answers):
    cast = votes_of(answers)
    return min(set(cast), key=lambda a: (-cast.count(a), cast.index(a)), default=None)


@wrong("06.1", "whatever_a_set_says")
def a_set_without_order(answers):
    cast = votes_of(answers)
    return max(set(cast), key=cast.count, default=None)


@wrong("06.1")
def gaps_filled_from_behind(answers):
    filled, last = [], None
    for answer in reversed(answers):
        last = last if answer is None else answer
        filled.append(last)
    return max(filled[::-1], key=filled.count, default=None)


ANSWERS.changed("06.1", "counts_as_texts", "key=counts.get", "key=lambda each: str(counts[each])")
ANSWERS.changed(
    "06.1", "longest_of_equals", "key=counts.get", "key=lambda each: (counts[each], len(str(each)))"
)


@wrong("06.1", "none_votes")
def counter_of_everything(answers):
    return Counter(answers).most_common(1)[0][0] if answers else None


@wrong("06.1")
def fails_without_votes(answers):
    return Counter(votes_of(answers)).most_common(1)[0][0]


@wrong("06.1", "drops_zero")
def truthy_answers(answers):
    cast = Counter(answer for answer in answers if answer)
    return cast.most_common(1)[0][0] if cast else None


@wrong("06.1", "largest_answer")
def forgets_the_key(answers):
    counts = Counter(votes_of(answers))
    return max(counts) if counts else None


@wrong("06.1", "largest_of_equals")
def count_and_name(answers):
    counts = Counter(votes_of(answers))
    return max(counts.items(), key=lambda item: item[::-1])[0] if counts else None


@wrong("06.1", "smallest_of_equals")
def sorted_first(answers):
    cast = sorted(votes_of(answers))
    return max(cast, key=cast.count, default=None)


@wrong("06.1", "with_its_count")
def the_pair(answers):
    pairs = Counter(votes_of(answers)).most_common(1)
    return pairs[0] if pairs else None


@wrong("06.1", "last_of_equals")
def greater_or_equal(answers):
    counts, winner = Counter(votes_of(answers)), None
    for answer in counts:
        if winner is None or counts[answer] >= counts[winner]:
            winner = answer
    return winner


@wrong("06.1")
def longest_run(answers):
    runs = [(len([*run]), answer) for answer, run in groupby(votes_of(answers))]
    return max(runs, key=lambda run: run[0])[1] if runs else None


@wrong("06.1")
def counts_in_a_text(answers):
    text = "".join(map(str, votes_of(answers)))
    return max(dict.fromkeys(votes_of(answers)), key=lambda a: text.count(str(a)), default=None)


@wrong("06.1")
def empties_the_callers_list(answers):
    while None in answers:
        answers.remove(None)
    return max(dict.fromkeys(answers), key=answers.count, default=None)


@wrong("06.1")
def the_first_vote(answers):
    return next(iter(votes_of(answers)), None)


@wrong("06.1")
def the_same_object(answers):
    cast = votes_of(answers)
    return max(cast, key=lambda a: sum(a is b for b in cast), default=None)


@wrong("06.1")
def always_a_text(answers):
    cast = votes_of(answers)
    return str(Counter(cast).most_common(1)[0][0]) if cast else None


@wrong("06.1")
def the_earlier_on_average(answers):
    places = defaultdict(list)
    for place, answer in enumerate(answers):
        places[answer].append(place)
    places.pop(None, None)
    return min(places, key=lambda a: (-len(places[a]), sum(places[a])), default=None)


@wrong("06.1")
def none_repeats_the_last_answer(answers):
    cast = []
    for answer in answers:
        cast += [answer] if answer is not None else cast[-1:]
    return Counter(cast).most_common(1)[0][0] if cast else None


ANSWERS.changed("06.1", "none_as_a_text", "answer is not None", 'str(answer) != "None"')
ANSWERS.changed(
    "06.1",
    "whole_numbers_only",
    "in answers:",
    "in (round(each) if isinstance(each, float) else each for each in answers):",
)


@wrong("06.1")
def counted_as_they_are_printed(answers):
    texts = [str(answer) for answer in answers if answer is not None]
    winner = max(texts, key=texts.count, default=None)
    return next((answer for answer in answers if str(answer) == winner), None)


ANSWERS.changed("06.1", "minus_one_is_none", "is not None", "not in (None, -1)")
ANSWERS.changed("06.1", "without_empty_texts", "is not None", 'not in (None, "")')


@wrong("06.1")
def nothing_where_all_are_false(answers):
    return statistics.mode(votes_of(answers)) if any(answers) else None


@wrong("06.1")
def capitals_do_not_count(answers):
    cast = [a.lower() if isinstance(a, str) else a for a in answers if a is not None]
    return max(cast, key=cast.count, default=None)


@wrong("06.1")
def spaces_do_not_count(answers):
    cast = [a.strip() if isinstance(a, str) else a for a in answers if a is not None]
    return max(cast, key=cast.count, default=None)


@wrong("06.1")
def texts_as_numbers(answers):
    def value(answer):
        try:
            return float(answer)
        except ValueError:
            return answer

    cast = [answer for answer in answers if answer is not None]
    values = [value(answer) for answer in cast]
    return max(cast, key=lambda answer: values.count(value(answer)), default=None)


def alike_by(text=str, number=float):
    """Return an answer that takes for one whatever comes out alike."""

    def majority(answers):
        cast = [answer for answer in answers if answer is not None]
        keys = [text(each) if isinstance(each, str) else number(each) for each in cast]
        return max(cast, key=lambda each: keys.count(keys[cast.index(each)]), default=None)

    return majority


wrong("06.1")(alike_by(text=lambda words: words[:8]))
wrong("06.1")(alike_by(text=lambda words: words.split()[-1:]))
wrong("06.1")(alike_by(number=abs))
wrong("06.1")(lambda answers: mode_of_statistics(votes_of(answers)[:100]))
wrong("06.1")(alike_by(text=sorted))
wrong("06.1")(alike_by(number=lambda x: round(x, 2)))
wrong("06.1")(alike_by(number=lambda x: float(f"{x:.4g}")))
wrong("06.1")(alike_by(number=lambda x: x % 10))


# ------------------------------------------------------------------ 06.2 weighted vote, in logs


@right("06.2")
def softmax_of_mlx(answers, log_weights):
    shares = defaultdict(lambda: mx.array(0.0))
    for answer, share in zip(answers, mx.softmax(mx.array(log_weights)), strict=True):
        shares[answer] = shares[answer] + share
    return shares


@right("06.2")
def exact_fractions(answers, log_weights):
    weights = [Fraction(math.exp(w - max(log_weights))) for w in log_weights]
    return {
        a: sum(w for b, w in zip(answers, weights, strict=True) if a == b) / sum(weights)
        for a in answers
    }


@right("06.2")
def numpy_by_mask(answers, log_weights):
    weights = np.exp(np.array(log_weights) - np.max(log_weights))
    names = np.array(answers)
    return {a: weights[names == a].sum() / weights.sum() for a in answers}


@right("06.2")
def from_the_shares_of_logsumexp(answers, log_weights):
    top = max(log_weights)
    whole = top + math.log(math.fsum(math.exp(w - top) for w in log_weights))
    shares = Counter()
    for answer, log_weight in zip(answers, log_weights, strict=True):
        shares[answer] += math.exp(log_weight - whole)
    return shares


def shares_of(answers, weights):
    totals = defaultdict(float)
    for answer, weight in zip(answers, weights, strict=True):
        totals[answer] += weight
    whole = sum(totals.values())
    return {answer: total / whole for answer, total in totals.items()}


@wrong("06.2", "shifted_by_another")
def shifted_by_the_smallest(answers, log_weights):
    return shares_of(answers, np.exp(np.array(log_weights) - min(log_weights)))


@wrong("06.2", "shifted_by_another")
def shifted_by_the_first(answers, log_weights):
    return shares_of(answers, [math.exp(w - log_weights[0]) for w in log_weights])


@wrong("06.2", "shifted_by_another")
def shifted_by_the_mean(answers, log_weights):
    return shares_of(answers, np.exp(np.array(log_weights) - np.mean(log_weights)))


@wrong("06.2", "shifted_by_another")
def shifted_by_the_median(answers, log_weights):
    return shares_of(answers, [math.exp(w - statistics.median(log_weights)) for w in log_weights])


@wrong("06.2", "shifted_by_another")
def shifted_by_the_last(answers, log_weights):
    return shares_of(answers, np.exp(np.array(log_weights) - log_weights[-1]))


@wrong("06.2", "shifted_by_another")
def shifted_by_the_largest_magnitude(answers, log_weights):
    return shares_of(answers, np.exp(np.array(log_weights) - max(log_weights, key=abs)))


@wrong("06.2", "shifted_apart")
def each_answer_by_its_own(answers, log_weights):
    top = {a: max(w for b, w in zip(answers, log_weights, strict=True) if a == b) for a in answers}
    pairs = zip(answers, log_weights, strict=True)
    return shares_of(answers, [math.exp(w - top[a]) for a, w in pairs])


@wrong("06.2", "straight_exponentials")
def plain_exponentials(answers, log_weights):
    return shares_of(answers, np.exp(np.array(log_weights)))


@wrong("06.2", "weights_by_logarithm")
def logarithms_as_weights(answers, log_weights):
    return shares_of(answers, log_weights)


@wrong("06.2", "best_only")
def overwrites(answers, log_weights):
    top, best = max(log_weights), {}
    for answer, w in zip(answers, log_weights, strict=True):
        best[answer] = max(best.get(answer, 0.0), math.exp(w - top))
    return {answer: weight / sum(best.values()) for answer, weight in best.items()}


@wrong("06.2")
def the_last_one_counts(answers, log_weights):
    top = max(log_weights)
    last = {a: math.exp(w - top) for a, w in zip(answers, log_weights, strict=True)}
    return {answer: weight / sum(last.values()) for answer, weight in last.items()}


@wrong("06.2", "unweighted")
def counts_only(answers, log_weights):
    return shares_of(answers, [1] * len(answers))


@wrong("06.2", "not_shares")
def sums_only(answers, log_weights):
    totals = defaultdict(float)
    for answer, w in zip(answers, log_weights, strict=True):
        totals[answer] += math.exp(w - max(log_weights))
    return totals


@wrong("06.2")
def drops_what_vanishes(answers, log_weights):
    weights = np.exp(np.array(log_weights) - max(log_weights))
    return {a: share for a, share in shares_of(answers, weights).items() if share > 0}


@wrong("06.2")
def truthy_answers_only(answers, log_weights):
    pairs = [(a, w) for a, w in zip(answers, log_weights, strict=True) if a]
    return numpy_by_mask(*map(list, zip(*pairs, strict=True)))


@wrong("06.2")
def base_two(answers, log_weights):
    return shares_of(answers, [2.0 ** (w - max(log_weights)) for w in log_weights])


@wrong("06.2")
def shifts_the_callers_list(answers, log_weights):
    top = max(log_weights)
    for i in range(len(log_weights)):
        log_weights[i] -= top
    return shares_of(answers, [math.exp(w) for w in log_weights])


PAIRS = "zip(answers, log_weights, strict=True)"
ANSWERS.changed("06.2", "like_samples_once", PAIRS, f"set({PAIRS})")
ANSWERS.changed("06.2", "names_as_texts", "{answer: total /", "{str(answer): total /")
ANSWERS.changed(
    "06.2", "little_is_nothing", "+ math.exp(", "+ (log_weight > largest - 8) * math.exp("
)


# ------------------------------------------------------------------ 06.3 when to stop


@right("06.3")
def numpy_worst_case(counts, remaining):
    if not remaining:
        return np.True_
    final = np.array([*counts, 0]) + remaining
    if not counts:
        return np.False_
    leader = int(np.argmax(counts))
    final[leader] = counts[leader]
    return np.argmax(final) == leader


@right("06.3")
def lead_over_the_best_rival(counts, remaining):
    if remaining == 0 or not counts:
        return remaining == 0
    leader = counts.index(max(counts))
    before, after = counts[:leader], [*counts[leader + 1 :], 0]
    need = max([votes + 1 for votes in before] + after)
    return mx.array(counts[leader] - need >= remaining)


@right("06.3")
def ranked_pairs(counts, remaining):
    if remaining == 0:
        return 1
    ranked = sorted((-votes, place) for place, votes in enumerate([*counts, 0]))
    (lead, leader), rivals = ranked[0], ranked[1:]
    return bool(rivals) and all((v - remaining, p) > (lead, leader) for v, p in rivals)


def with_defaults(rule):
    def answer(counts, remaining):
        if remaining == 0:
            return True
        return bool(counts) and rule(counts, remaining)

    answer.__name__ = rule.__name__
    return answer


@wrong("06.3")
def fails_before_the_first_vote(counts, remaining):
    return remaining == 0 if not max(counts) else lead_over_the_best_rival(counts, remaining)


@wrong("06.3")
def stops_before_the_first_vote(counts, remaining):
    return not counts or lead_over_the_best_rival(counts, remaining)


@wrong("06.3", "needs_half_of_all")
@with_defaults
def half_of_all_n(counts, remaining):
    return max(counts) > (sum(counts) + remaining) / 2


@wrong("06.3", "too_careful")
@with_defaults
def lead_above_remaining(counts, remaining):
    first, second = sorted([*counts, 0], reverse=True)[:2]
    return first - second > remaining


@wrong("06.3", "forgets_the_tie")
@with_defaults
def lead_at_least_remaining(counts, remaining):
    first, second = sorted([*counts, 0], reverse=True)[:2]
    return first - second >= remaining


@wrong("06.3", "first_two_only")
@with_defaults
def counts_are_sorted(counts, remaining):
    return counts[0] - (counts[1] if len(counts) > 1 else 0) > remaining


@wrong("06.3", "only_seen_rivals")
@with_defaults
def nobody_new_appears(counts, remaining):
    leader = counts.index(max(counts))
    for place, votes in enumerate(counts):
        if place < leader and votes + remaining >= counts[leader]:
            return False
        if place > leader and votes + remaining > counts[leader]:
            return False
    return True


@wrong("06.3")
@with_defaults
def ties_the_wrong_way_round(counts, remaining):
    leader = counts.index(max(counts))
    for place, votes in enumerate([*counts, 0]):
        if place < leader and votes + remaining > counts[leader]:
            return False
        if place > leader and votes + remaining >= counts[leader]:
            return False
    return True


@wrong("06.3")
@with_defaults
def average_of_what_remains(counts, remaining):
    share = remaining / (len(counts) + 1)
    first, second = sorted([*counts, 0], reverse=True)[:2]
    return second + share < first


@wrong("06.3")
@with_defaults
def only_rivals_before(counts, remaining):
    leader = counts.index(max(counts))
    return all(votes + remaining < counts[leader] for votes in counts[:leader])


ANSWERS.changed("06.3", "three_answers_only", "[*counts, 0]", "[*counts[:3], 0]")
ANSWERS.changed("06.3", "ten_answers_only", "[*counts, 0]", "[*counts, 0][:11]")
ANSWERS.changed(
    "06.3", "last_rival_and_unseen", "[*counts, 0]", "[*counts[: leader + 1], counts[-1], 0]"
)
ANSWERS.changed("06.3", "one_vote_is_decided", "remaining == 0", "remaining <= 1")
ANSWERS.changed("06.3", "first_of_those_before", "place < leader", "place == 0 < leader")


@wrong("06.3")
def appends_to_the_callers_list(counts, remaining):
    counts.append(0)
    if remaining == 0:
        return True
    leader = counts.index(max(counts))
    final = [votes + remaining for votes in counts]
    final[leader] -= remaining
    return any(counts) and final.index(max(final)) == leader


@wrong("06.3", "the_other_way_round")
def must_go_on(counts, remaining):
    return not lead_over_the_best_rival(counts, remaining)


@wrong("06.3", "any_lead")
@with_defaults
def somebody_leads(counts, remaining):
    return counts.count(max(counts)) == 1


@wrong("06.3", "one_answer_has_no_second")
def first_less_second(counts, remaining):
    ranked = sorted(counts)
    return remaining == 0 or ranked[-1] > ranked[-2] + remaining


@wrong("06.3", "nor_an_end")
def lead_of_two(counts, remaining):
    first, second = sorted(counts, reverse=True)[:2] if len(counts) > 1 else (counts[0], counts[1])
    return first - second > remaining
