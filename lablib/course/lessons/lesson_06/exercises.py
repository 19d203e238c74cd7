"""Exercises of lesson 06: counting votes, weighing them, and knowing when to stop."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.lessons.edges import edges

import numpy as np

# ------------------------------------------------------------------ 06.1 majority with ties


def majority(answers):
    """Return the answer with the most votes; among equals the one that appeared first.

    answers: one answer for each sample, texts or numbers; None where a sample has none (it casts
        no vote). The list may be empty, or hold nothing but None: return None then.
    """
    counts = {}
    for answer in answers:
        if answer is not None:
            counts[answer] = counts.get(answer, 0) + 1
    return max(counts, key=counts.get, default=None)


def with_a_counter(answers):
    votes = Counter(answer for answer in answers if answer is not None).most_common(1)
    return votes[0][0] if votes else None


def by_sorting(answers):
    cast = [answer for answer in answers if answer is not None]
    ranked = sorted(dict.fromkeys(cast), key=lambda answer: -cast.count(answer))
    return ranked[0] if ranked else None


def none_votes(answers):
    return max(dict.fromkeys(answers), key=list(answers).count, default=None)


def smallest_of_equals(answers):
    cast = [answer for answer in answers if answer is not None]
    return max(sorted(set(cast)), key=cast.count, default=None)


def last_of_equals(answers):
    cast = [answer for answer in answers if answer is not None]
    return max(reversed(dict.fromkeys(cast)), key=cast.count, default=None)


def largest_of_equals(answers):
    cast = [answer for answer in answers if answer is not None]
    return max(sorted(set(cast), reverse=True), key=cast.count, default=None)


def whatever_a_set_says(answers):
    cast = [answer for answer in answers if answer is not None]
    return max(set(cast), key=cast.count, default=None)


def largest_answer(answers):
    return max((answer for answer in answers if answer is not None), default=None)


def with_its_count(answers):
    winner = majority(answers)
    return winner if winner is None else (winner, list(answers).count(winner))


def drops_zero(answers):
    return majority([answer or None for answer in answers])


def first_to_reach(answers):
    cast = [answer for answer in answers if answer is not None]
    most = max(map(cast.count, cast), default=0)
    for n, answer in enumerate(cast, start=1):
        if cast[:n].count(answer) == most:
            return answer
    return None


def needs_more_than_half(answers):
    cast = [answer for answer in answers if answer is not None]
    winners = [answer for answer in dict.fromkeys(cast) if 2 * cast.count(answer) > len(cast)]
    return winners[0] if winners else None


def _polls(rng: np.random.Generator) -> Iterator[tuple[list[str | int]]]:
    yield (["4", "7", "7"],)
    yield (["7", "4", "4", "7"],)
    yield (["9", "10"],)  # neither the longer nor the larger one
    yield (["4", "7", "7", "4"],)
    yield (["5", "1", "2", "2", "3", "1"],)  # 1 appeared first, but the votes for 2 are earlier
    yield ([30, 4, 4, 30],)  # a set of numbers has the same order every day, and not this one
    yield ([30, 4, 30, 4, 17],)
    yield ([7, 1000, 5, int("1000")],)  # equal, but not the same object
    yield (["10", "1", "1", "10", "10"],)
    yield ([4] * 9 + [7] * 10,)  # ten are more than nine, though "10" is not
    yield ([*range(120), 119],)  # many kinds, and the last one decides
    for size in (4, 6, 8, 12, 12):
        yield ([str(each) for each in rng.integers(1, 5, size=size)],)
    yield ([str(each) for each in rng.integers(8, 14, size=300)],)
    # six equals each: the order of a set agrees with another rule in all nine once in 10 million
    for tens in range(1, 10):
        yield ([str(10 * tens + each) for each in rng.permutation(6)],)


def _polls_with_none(rng: np.random.Generator) -> Iterator[tuple[list[str | float | None]]]:
    yield ([None, None, "3"],)
    yield (["6", "5", None],)  # None repeats nobody
    yield (["6", None, "5"],)
    yield ([None, None],)
    yield ([],)
    yield (["6"],)
    yield ([0, 0, 7],)  # the answer 0 is an answer
    yield ([0, None, 0],)  # and may be the only one
    yield (["", "", "7"],)  # and so is an empty text
    yield ([-1, -1, 7],)  # and -1
    yield (["a", "A", "a ", "b", "b"],)  # alike is not equal
    yield (["07", "7", "7.0", "8", "8"],)
    yield (["it's about 3", "3", "it's about 4", "5", "5"],)  # nor is what begins or ends alike
    yield (["21", "12", "3", "3"],)  # nor are other orders of the same digits
    yield ([2, 0.301, -0.301, 0.302, 3, 3],)  # a sign and a third digit count
    yield ([1_000_007, 1_000_017, 7, 3, 3],)  # and so does the last one, and all before it
    yield ([2, 2.5, 2, 2.5, 2.5],)  # not rounded
    yield ([8, 7, 8, 7.0, 7],)  # 7 and 7.0 are equal, and only look different
    yield (["None", "None", "7"],)  # a text, whatever it says
    yield ([7, 0, None, 0, None, None],)
    for size in (6, 12):
        yield ([None if each == 4 else str(each) for each in rng.integers(1, 5, size=size)],)


MAJORITY = Exercise(
    id="06.1",
    title="Who is elected?",
    task=(
        "Count the votes. Samples without an answer (`None`) cast none, and among equals the "
        "answer that *appeared* first is elected: a rule that doesn't depend on the names."
    ),
    stars=1,
    minutes=6,
    reference=majority,
    alternatives=[with_a_counter, by_sorting],
    wrong={
        none_votes: "None is counted as an answer; a sample without an answer casts no vote.",
        smallest_of_equals: (
            "among equals you return the smallest answer, not the one that appeared first."
        ),
        last_of_equals: "among equals you return the one that appeared last.",
        first_to_reach: (
            "among equals you return the one that *reached* the number first; the rule asks which "
            "one appeared first."
        ),
        needs_more_than_half: (
            "you ask for more than half of the votes; the most votes are enough, and None is only "
            "for a poll without any vote."
        ),
        largest_of_equals: (
            "among equals you return the largest answer, not the one that appeared first."
        ),
        whatever_a_set_says: (
            "a set has no order: among equals you return whichever it shows first, and with texts "
            "that changes from one run of Python to the next."
        ),
        largest_answer: (
            "that is the largest *answer*, however many have voted for it: compare the counts."
        ),
        with_its_count: "return the answer alone, without its count.",
        drops_zero: (
            "the answer 0 is lost: `if answer` is false for 0 as well; ask whether it `is None`."
        ),
    },
    cases=_polls,
    checker=edges(_polls_with_none),
    hints=[
        "A dict keeps its keys in the order in which they came.",
        "max(counts, key=counts.get, default=None) returns the first of the largest.",
    ],
    next="Does the order of the samples matter for the accuracy, on average over all orders?",
)

# ------------------------------------------------------------------ 06.2 weighted vote, in logs


def weighted_vote(answers, log_weights):
    """Return each answer's share of the total weight, as a dict {answer: share}.

    answers: one for each sample, at least one, never None.   log_weights: of each the logarithm.
    The weights may be as small as e**-2000 and as large as e**2000, both in one vote: no float
    holds them. An answer whose share is too small for a float has the share 0.
    """
    largest = max(log_weights)
    totals = {}
    for answer, log_weight in zip(answers, log_weights, strict=True):
        totals[answer] = totals.get(answer, 0.0) + math.exp(log_weight - largest)
    everything = sum(totals.values())
    return {answer: total / everything for answer, total in totals.items()}


def with_logaddexp(answers, log_weights):
    logs = np.array(log_weights, dtype=float)
    everything = np.logaddexp.reduce(logs)
    return {
        answer: float(
            np.exp(np.logaddexp.reduce(logs[[a == answer for a in answers]]) - everything)
        )
        for answer in dict.fromkeys(answers)
    }


def straight_exponentials(answers, log_weights):
    totals = {}
    with np.errstate(all="ignore"):
        for answer, log_weight in zip(answers, log_weights, strict=True):
            totals[answer] = totals.get(answer, 0.0) + np.exp(np.float64(log_weight))
        everything = sum(totals.values())
        return {answer: float(total / everything) for answer, total in totals.items()}


def shifted_apart(answers, log_weights):
    totals = {}
    for answer in dict.fromkeys(answers):
        mine = [w for a, w in zip(answers, log_weights, strict=True) if a == answer]
        totals[answer] = sum(math.exp(w - max(mine)) for w in mine)
    return {answer: total / sum(totals.values()) for answer, total in totals.items()}


def adds_logarithms(answers, log_weights):
    totals = {}
    for answer, log_weight in zip(answers, log_weights, strict=True):
        totals[answer] = totals.get(answer, 0.0) + log_weight
    largest = max(totals.values())
    shares = {answer: math.exp(total - largest) for answer, total in totals.items()}
    return {answer: share / sum(shares.values()) for answer, share in shares.items()}


def best_only(answers, log_weights):
    best = {}
    for answer, log_weight in zip(answers, log_weights, strict=True):
        best[answer] = max(best.get(answer, -math.inf), log_weight)
    largest = max(best.values())
    shares = {answer: math.exp(log - largest) for answer, log in best.items()}
    return {answer: share / sum(shares.values()) for answer, share in shares.items()}


def unweighted(answers, log_weights):
    return {answer: list(answers).count(answer) / len(answers) for answer in dict.fromkeys(answers)}


def shifted_by_another(answers, log_weights):
    totals = {}
    for answer, log_weight in zip(answers, log_weights, strict=True):
        totals[answer] = totals.get(answer, 0.0) + math.exp(log_weight - min(log_weights))
    everything = sum(totals.values())
    return {answer: total / everything for answer, total in totals.items()}


def weights_by_logarithm(answers, log_weights):
    totals = {}
    for answer, log_weight in zip(answers, log_weights, strict=True):
        totals[answer] = totals.get(answer, 0.0) + log_weight
    everything = sum(totals.values()) or 1.0
    return {answer: total / everything for answer, total in totals.items()}


def not_shares(answers, log_weights):
    largest = max(log_weights)
    totals = {}
    for answer, log_weight in zip(answers, log_weights, strict=True):
        totals[answer] = totals.get(answer, 0.0) + math.exp(log_weight - largest)
    return totals


def _weighed(rng: np.random.Generator) -> Iterator[tuple[list[str], list[float]]]:
    yield ["a", "b"], [0.0, math.log(3)]
    yield ["a", "b", "a"], [math.log(0.2), math.log(0.5), math.log(0.3)]
    yield ["a", "b", "b"], [-1.0, -1.5, -2.5]
    yield ["a", "b", "a"], [-1.0, -1.0, -1.0]  # two samples may be alike in everything
    yield ["a", "b", "b"], [-1.0, -1.0, -1.0]
    yield ["a", "b", "a"], [-1500.0, -1501.0, -1502.0]
    yield ["a", "b", "b"], [1200.0, 1199.0, 1198.0]
    for shift in (0.0, -900.0, 800.0):
        answers = [str(each) for each in rng.choice(list("abc"), size=6)]
        yield answers, (rng.normal(size=6) + shift).round(2).tolist()
    answers = [str(each) for each in rng.integers(8, 14, size=200)]
    yield answers, rng.normal(size=200).tolist()


def _far_apart(rng: np.random.Generator) -> Iterator[tuple[list[str | int], list[float]]]:
    yield ["a", "b", "c", "a"], [-3000.0, 0.0, -1500.0, -1.0]
    yield ["a", "b", "b", "c", "c"], [2000.0, -2000.0, 1999.0, -1999.0, 0.5]
    yield ["c", "b", "a"], [-2000.0, -2000.0, 900.0]
    yield ["a", "b", "c"], [-2000.0, 1000.0, 1000.5]
    yield ["a"], [-1234.5]
    yield [0, 12, 0], [-1.0, -2.0, -3.0]  # answers need not be texts, and 0 is one
    yield ["a", *["b"] * 9], [0.0, *[-10.0] * 9]  # little, many times


def _check_far_apart(fn: Callable[..., Any]) -> None:
    try:
        edges(_far_apart)(fn)
    except Wrong as wrong:  # near each other any shift will do, so this one was not the largest
        accidents = ("OverflowError", "ZeroDivisionError", "nan")
        accident = any(name in wrong.message for name in accidents)
        like = "shifted_by_another" if accident else None
        raise Wrong(wrong.message, like=like, error=wrong.error) from None


WEIGHTED = Exercise(
    id="06.2",
    title="A weighted vote in log space",
    task=(
        "Weights often come as logarithms, and a chain of 100 tokens can weigh `e**-200`. Add up "
        "the *weights* of each answer, but never compute `exp` of something large: shift all the "
        "logarithms by the largest first. The shift cancels in the shares."
    ),
    stars=2,
    minutes=10,
    reference=weighted_vote,
    alternatives=[with_logaddexp],
    wrong={
        straight_exponentials: (
            "exp of a large or a very negative number leaves the range of a float (inf or 0, and "
            "their quotient is nan): subtract the largest logarithm first."
        ),
        shifted_apart: (
            "each answer is shifted by its own largest weight, so they can't be compared any more: "
            "one shift for all."
        ),
        adds_logarithms: (
            "adding logarithms multiplies the weights, so every further vote *against* 1 harms its "
            "own answer. Add the weights."
        ),
        best_only: "only the heaviest vote of each answer counts; add all of them up.",
        unweighted: "every vote counts the same: the weights are not used.",
        not_shares: "the weights are added up, but not divided by their total.",
        weights_by_logarithm: (
            "the logarithms themselves are added and divided; exp makes weights of them."
        ),
        shifted_by_another: (
            "the shift is not the largest logarithm. Where weights are far apart, any other shift "
            "(the smallest, the first, the mean) leaves something large to exp, or nothing at all."
        ),
    },
    cases=_weighed,
    checker=_check_far_apart,
    tolerance=1e-4,  # float32 knows a logarithm near 900 to 3e-5
    hints=[
        "largest = max(log_weights); exp(w - largest) is at most 1, and once exactly 1.",
        "Add them up for each answer in a dict, then divide by the sum of the dict's values.",
    ],
    next="What happens to a vote whose weight is 0, so that its logarithm is -inf?",
)

# ------------------------------------------------------------------ 06.3 when to stop


def may_stop(counts, remaining):
    """Tell whether the leader wins whatever the remaining votes say.

    counts: votes of each answer, in order of first appearance (ties go to the earlier one); an
        empty list before the first vote. Leave it as it is.
    remaining: votes still to come; they may go to anybody, also to an answer not seen yet. With
        none to come, return True, whatever was counted.
    """
    if not counts:
        return remaining == 0
    lead = max(counts)
    leader = counts.index(lead)
    for place, votes in enumerate([*counts, 0]):
        reach = votes + remaining
        if place < leader and reach >= lead:
            return False
        if place > leader and reach > lead:
            return False
    return True


def plays_it_out(counts, remaining):
    if not counts:
        return remaining == 0
    leader = counts.index(max(counts))
    for rival in range(len(counts) + 1):
        final = [*counts, 0]
        final[rival] += remaining
        if final.index(max(final)) != leader:
            return False
    return True


def any_lead(counts, remaining):
    ranked = sorted([*counts, 0, 0], reverse=True)
    return remaining == 0 or ranked[0] > ranked[1]


def more_than_half_so_far(counts, remaining):
    return remaining == 0 or 2 * max(counts, default=0) > sum(counts)


def forgets_the_tie(counts, remaining):
    ranked = sorted([*counts, 0, 0], reverse=True)
    return remaining == 0 or ranked[1] + remaining <= ranked[0]


def too_careful(counts, remaining):
    ranked = sorted([*counts, 0, 0], reverse=True)
    return remaining == 0 or ranked[1] + remaining < ranked[0]


def one_answer_has_no_second(counts, remaining):
    ranked = sorted(counts, reverse=True)
    return remaining == 0 or ranked[0] - ranked[1] > remaining


def only_seen_rivals(counts, remaining):
    return len(counts) == 1 or may_stop(counts, remaining)


def needs_half_of_all(counts, remaining):
    return remaining == 0 or 2 * max(counts, default=0) > sum(counts) + remaining


def first_two_only(counts, remaining):
    padded = [*counts, 0, 0]
    return remaining == 0 or padded[0] - padded[1] > remaining


def the_other_way_round(counts, remaining):
    return not may_stop(counts, remaining)


def never_early(counts, remaining):
    return remaining == 0


def _standings(rng: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    yield [3, 1], 1
    yield [6, 1, 1, 4], 3  # the last of many may overtake
    yield [6, 1, 4, 1], 3  # and one that is neither the last nor next to the leader
    yield [3, 1], 2
    yield [3, 1], 3
    yield [1, 3], 2
    yield [2], 3
    yield [3], 3
    yield [4, 3], 5
    yield [5, 1], 6
    yield [2, 2], 0
    yield [4, 1, 1, 1], 2  # safe, with less than half of all
    yield [1, 4, 1], 3
    yield [1, 1, 4], 2
    yield [50, 49], 0
    yield [40, 10, 12], 27
    yield [40, 10, 12], 28
    yield [12, 10, 40], 27
    yield [12, 10, 40], 28
    yield [7], 7
    yield [7], 8
    yield [5, *[1] * 10, 4], 2  # there may be more answers than digits
    yield [1, 4, 5], 1  # of two rivals before the leader the second is the stronger
    yield [1, 4, 5], 0
    yield [2, 5, 4, 7, 6], 1  # and the strongest of all stands behind it
    for _ in range(20):
        counts = rng.integers(1, 7, size=int(rng.integers(1, 4))).tolist()
        yield counts, int(rng.integers(0, 7))


def _before_the_first_vote(rng: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    yield [], 2
    yield [], 1
    yield [], 0
    yield [1], 0
    yield [1], 1


MAY_STOP = Exercise(
    id="06.3",
    title="May the vote stop?",
    task=(
        "A vote of n samples may stop early if nothing that is still to come can change the "
        "winner. Imagine the worst: all remaining votes go to one rival. Mind the ties: a rival "
        "that appeared *before* the leader needs only as many votes as the leader, a later one "
        "needs one more. And the rival may be an answer that nobody has given yet. Before the "
        "first vote `counts` is empty: only a vote without any votes may stop then."
    ),
    stars=3,
    minutes=12,
    reference=may_stop,
    alternatives=[plays_it_out],
    wrong={
        any_lead: (
            "it stops too early: a lead now is not a lead at the end. Give all remaining votes to "
            "the runner-up and look again."
        ),
        more_than_half_so_far: (
            "it stops too early: more than half of the votes *cast* is not more than half of all "
            "n. One vote out of one would be enough."
        ),
        forgets_the_tie: (
            "it stops too early when the runner-up appeared before the leader: then a tie is "
            "enough to overtake."
        ),
        too_careful: (
            "it goes on too long: a rival that appeared later loses a tie, so it needs one more."
        ),
        one_answer_has_no_second: (
            "one answer alone has no second: `s[1]` is an IndexError. An answer that nobody has "
            "given yet is a rival, too, with 0 votes: sorted([*counts, 0], reverse=True)."
        ),
        changed(one_answer_has_no_second, "nor_an_end", "remaining == 0 or ", ""): (
            "one answer alone has no second: `s[1]` is an IndexError. Count an answer that nobody "
            "has given yet, with 0 votes. And with no vote to come, the vote is over."
        ),
        only_seen_rivals: (
            "it stops too early when there is one answer only: all the others may still agree on "
            "an answer that nobody has given yet."
        ),
        never_early: "it stops only when no votes remain: that saves nothing.",
        needs_half_of_all: (
            "it goes on too long: more than half of all n is safe but not needed. Where the other "
            "votes are split, less is enough."
        ),
        first_two_only: (
            "you compare the first two counts: they stand in order of appearance, not of size."
        ),
        the_other_way_round: "that is the other way round: True means that the vote may stop.",
    },
    cases=_standings,
    checker=edges(_before_the_first_vote),
    hints=[
        "Who can still win? Try each rival in turn, and [*counts, 0] adds the unseen one.",
        "Before the leader: votes + remaining >= lead is dangerous. After it: > lead.",
    ],
    next="With two answers and n = 32, what is the earliest moment at which this rule can stop?",
    further=True,
)
