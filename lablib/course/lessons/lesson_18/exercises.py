"""Exercises of lesson 18: powers of whole texts, who is taken, whose vote counts, who is like all.

Logarithms in the cases are multiples of a half, confidences and utilities are small numbers: short
enough to paste.
"""

import math
from collections.abc import Iterator
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np

# ------------------------------------------------------------------ 18.1 a power of whole texts


def powered(logprobs, alpha):
    """Return the texts' shares under p^alpha, N numbers whose sum is 1.

    logprobs: of each of N texts the list of its tokens' log-probabilities (natural logarithms).
        The texts may have different lengths, and hundreds of tokens.
    alpha: the power, a number, 0 or more.
    """
    logs = np.array([alpha * sum(text) for text in logprobs])
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def powered_by_ratios(logprobs, alpha):
    best = max(logprobs, key=sum)
    weights = [math.exp(alpha * (sum(text) - sum(best))) for text in logprobs]
    return [weight / sum(weights) for weight in weights]


def token_by_token(logprobs, alpha):
    shares = []
    for text in logprobs:
        p = np.exp(np.array(text, float))
        shares.append(np.prod(p**alpha / (p**alpha + (1 - p) ** alpha)))
    return np.array(shares) / max(sum(shares), 1e-300)


POWERED_WRONG = {
    token_by_token: (
        "you sharpen each token on its own: that is what a temperature does. A text's chance is "
        "the product of its tokens' chances; sharpen that, and divide by the sum over the texts."
    ),
    changed(powered, "by_the_length", "sum(text)", "sum(text) / max(1, len(text))"): (
        "you take the mean of a token, which forgives length. A text's log-probability is the sum."
    ),
    changed(powered, "upside_down", "alpha * sum(text)", "sum(text) / max(alpha, 1e-9)"): (
        "you divide by alpha. That flattens where it should sharpen: the logarithm of p^alpha is "
        "alpha times that of p."
    ),
    changed(powered, "without_alpha", "alpha * sum(text)", "sum(text)"): (
        "alpha plays no part: those are the shares under p."
    ),
    changed(powered, "alpha_on_the_chance", "alpha * sum(text)", "alpha * math.exp(sum(text))"): (
        "you multiply the chance by alpha. A power of p is a product with *log* p."
    ),
    changed(powered, "not_divided", "weights / weights.sum()", "weights"): (
        "the shares don't sum to 1: divide by the sum over the texts."
    ),
    changed(powered, "the_best_only", "weights / weights.sum()", "1.0 * (weights == 1)"): (
        "you give all to the likeliest text. p^alpha comes near to that only as alpha grows."
    ),
    changed(powered, "too_small_to_see", "logs - logs.max()", "logs"): (
        "a long text's chance is 0 for a computer, and all of them together are 0, too. Subtract "
        "the largest logarithm from all before you raise e to them: the shares stay."
    ),
    changed(powered, "the_last_token", "sum(text)", "text[-1]"): (
        "you look at the last token alone. All of a text's tokens count."
    ),
    changed(powered, "the_first_token", "sum(text)", "text[0]"): (
        "you look at the first token alone. All of a text's tokens count."
    ),
    changed(powered, "the_least_likely_token", "sum(text)", "min(text)"): (
        "you look at the least likely token alone. All of a text's tokens count."
    ),
    changed(
        powered,
        "logarithms",
        "return weights / weights.sum()",
        "return np.log(weights / weights.sum())",
    ): ("those are logarithms of the shares: raise e to them."),
}


def _texts(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield [[-1.0], [-1.5]], 2.0
    yield [[-0.5, -1.5], [-1.0, -0.5]], 2.0
    yield [[-0.5, -0.5, -0.5], [-1.0]], 3.0  # the long one is likelier by token, not as a text
    yield [[-1.0, -2.0], [-2.5, -0.5], [-0.5, -1.5]], 0.5
    yield [[-0.5, -2.0, -0.5], [-1.0, -1.0]], 4.0
    yield [[-2.0] * 300, [-2.0] * 299 + [-2.5]], 2.0
    for n in (2, 3):
        rows = [(-rng.integers(1, 6, rng.integers(1, 4)) / 2).tolist() for _ in range(n)]
        yield rows, float(rng.integers(2, 5)) / 2


def _odd_texts(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield [[-3.0]], 4.0
    yield [[-1.0], [-2.0], [-3.0]], 0.0  # all alike
    yield [[-1.0, -1.0], [-2.0]], 7.0
    yield [[], [-1.0]], 1.0  # no tokens: a chance of 1
    yield [[-1.0], [-800.0]], 1.0
    yield [[-1.0], [-1.0], [-1.0]], 5.0
    yield [[-1.0], [-1.0], [-2.0]], 1.0  # a text may come twice
    yield [[-900.0], [-901.0]], 3.0
    yield [[-2000.0], [-1.0]], 1.0  # the first, or the mean, is too little to subtract
    yield [[-3000.0], [-1000.0], [-1000.5]], 4.0  # and no help is to cut off at 700
    yield [[-1.0], [-801.0]], 0.005  # no share under p, and one under its power


POWERED = Exercise(
    id="18.1",
    title="A power of whole texts",
    task=(
        "Sharpen a list of texts: give each the share that it has under p^alpha, where p is the "
        "chance of the whole text."
    ),
    stars=1,
    minutes=6,
    reference=powered,
    alternatives=[powered_by_ratios],
    wrong=POWERED_WRONG,
    cases=_texts,
    checker=edges(_odd_texts),
    hints=[
        "What is the logarithm of a text's chance, given those of its tokens? And of p^alpha?",
        "e to very negative numbers is 0. Which number may you subtract from all logarithms "
        "without changing any share?",
    ],
    next="Which alpha makes all texts equally likely? Which temperature does so?",
)

# ------------------------------------------------------------------ 18.2 taken or not


def accept(old, new, place, alpha):
    """Return the chance to take the proposed text `new` in place of `old`, a number from 0 to 1.

    old, new: dictionaries of two lists, for a text's tokens in order. text["p"] has their
        log-probabilities under the model, text["q"] under whoever proposes.
    place: one of the old text's tokens, 0 the first; each was as likely. The tokens before it are
        those of old, the others were written anew, by q. `new` may be longer or shorter, and both
        may have hundreds of tokens.
    alpha: texts must come to be as frequent as p^alpha.
    """
    there = sum(new["q"][place:]) - math.log(len(old["p"]))
    back = sum(old["q"][place:]) - math.log(len(new["p"]))
    gain = alpha * (sum(new["p"]) - sum(old["p"]))
    return math.exp(min(0, gain + back - there))


def accept_by_flows(old, new, place, alpha):
    def flow(start, end):  # the logarithm of how often the walk stands at start and proposes end
        stands = alpha * np.sum(start["p"][place:])
        return stands - np.log(len(start["p"])) + np.sum(end["q"][place:])

    return float(np.exp(np.minimum(0, flow(new, old) - flow(old, new))))


ACCEPT_WRONG = {
    changed(accept, "forgets_the_proposal", "gain + back - there", "gain"): (
        "you compare p^alpha alone. What is proposed often is also taken often, unless q is "
        "divided out: the way there and the way back."
    ),
    changed(accept, "ways_swapped", "gain + back - there", "gain + there - back"): (
        "the two ways have changed places: what is easily proposed must be taken *less* often."
    ),
    changed(accept, "only_the_way_there", "gain + back - there", "gain - there"): (
        "you divide by the way there and leave the way back out. If old would be proposed as "
        "easily from new, the two cancel."
    ),
    changed(
        accept,
        "forgets_the_lengths",
        "gain + back - there",
        "gain + sum(old['q'][place:]) - sum(new['q'][place:])",
    ): (
        "the place was drawn, too: one of the old text's tokens there, one of the new text's on "
        "the way back. Where the lengths differ these chances do."
    ),
    changed(
        accept,
        "lengths_swapped",
        "gain + back - there",
        "gain + back - there + 2 * math.log(len(new['p']) / len(old['p']))",
    ): ("the lengths have changed places: the way *there* drew one of the old text's tokens."),
    changed(
        accept, "only_if_better", "math.exp(min(0, gain + back - there))", "1.0 * (gain >= 0)"
    ): (
        "you climb: what is likelier is taken, nothing else. That finds a likely text; texts as "
        "frequent as p^alpha need a step down now and then."
    ),
    changed(accept, "not_at_most_1", "min(0, gain + back - there)", "gain + back - there"): (
        "a chance is 1 at most: take the smaller of 1 and the ratio."
    ),
    changed(accept, "without_alpha", "alpha * (sum", "(sum"): (
        "alpha plays no part: that leaves p as it is, not p^alpha."
    ),
    changed(accept, "alpha_on_all", "gain + back - there", "gain + alpha * (back - there)"): (
        "alpha belongs to what is wanted, p^alpha. What proposes, q and the place, stays as it is."
    ),
    changed(
        accept,
        "q_is_p",
        "gain + back - there",
        "(alpha - 1) * (sum(new['p']) - sum(old['p'])) + math.log(len(old['p']) / len(new['p']))",
    ): ("that is right if the model itself proposes. Here q is another one: use text['q']."),
    changed(
        accept,
        "a_logarithm",
        "math.exp(min(0, gain + back - there))",
        "min(0, gain + back - there)",
    ): ("that is the logarithm of the chance: raise e to it."),
    changed(
        accept,
        "the_first_token_only",
        "gain + back - there",
        "gain + back - there - sum(old['q'][place + 1:]) + sum(new['q'][place + 1:])",
    ): ("you count q of the first new token alone: all from `place` on were proposed."),
}

Proposal = dict[str, list[float]]


def _text(p: list[float], q: list[float]) -> Proposal:
    return {"p": p, "q": q}


def _proposals(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield _text([-1.0], [-1.0]), _text([-1.5], [-1.5]), 0, 2.0
    yield _text([-1.0], [-0.5]), _text([-1.5], [-2.0]), 0, 2.0
    yield _text([-1.0, -1.0], [-0.5, -1.5]), _text([-1.0, -1.5], [-0.5, -1.0]), 1, 4.0
    yield _text([-1.5], [-1.0]), _text([-0.5, -1.5], [-1.0, -0.5]), 0, 2.0  # longer
    yield _text([-1.0, -1.0, -0.5], [-1.0, -0.5, -1.0]), _text([-1.0, -2.0], [-1.0, -1.0]), 1, 2.0
    yield _text([-2.0, -2.0], [-0.5, -0.5]), _text([-0.5, -0.5], [-1.0, -1.0]), 0, 3.0  # sure
    yield _text([-2.0], [-3.0]), _text([-1.0], [-0.5]), 0, 2.0  # likelier, proposed too often
    yield _text([-3.0], [-1.0]), _text([-0.5, -0.5], [-1.0, -0.5]), 0, 2.0  # sure, though longer
    yield _text([-0.5, -1.0], [-1.0, -2.5]), _text([-0.5, -2.0], [-1.0, -1.5]), 1, 1.0
    for _ in range(5):
        place, lengths = int(rng.integers(0, 2)), rng.integers(2, 5, 2)
        start = -rng.integers(1, 5, (2, place)) / 2
        ends = [-rng.integers(1, 5, (2, length - place)) / 2 for length in lengths]
        both = [np.hstack([start, end]).tolist() for end in ends]
        yield _text(*both[0]), _text(*both[1]), place, float(rng.integers(1, 4))


def _odd_proposals(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    same = [-1.0, -0.5]
    yield _text(same, [-2.0, -0.5]), _text(same, [-2.0, -0.5]), 1, 4.0  # proposed itself
    yield _text([-1.0], [-1.0]), _text([-2.0], [-9.0]), 0, 0.0
    yield _text([-1.0], [-2.0]), _text([-2.0], [-1.0]), 0, 0.0  # all are wanted alike, q is not
    yield _text([-1.0], [-2.0]), _text([-1.0], [-1.0]), 0, 2.0  # as likely, and not the same
    yield _text([-1.0], [-1.0]), _text([-301.0], [-900.0]), 0, 3.0  # hardly likely or proposed
    yield _text([-1.0] * 4, [-1.0] * 4), _text([-1.0], [-1.0]), 0, 1.0
    yield _text([-1.0], [-1.0]), _text([-300.0], [-1.0]), 0, 2.0
    yield _text([-400.0], [-1.0]), _text([-1.0], [-1.0]), 0, 2.0  # far better
    long = [-2.0] * 400  # a chance of 0, for a computer
    yield _text(long, long), _text([*long[1:], -2.5], [*long[1:], -2.0]), 399, 2.0
    yield _text([-0.5] * 3, [-1.0] * 3), _text([-0.5] * 2 + [-4.0], [-1.0] * 2 + [-2.0]), 2, 1.5


ACCEPT = Exercise(
    id="18.2",
    title="Taken or not",
    task=(
        "One step of Metropolis and Hastings: a walk stands at one text, and another is proposed. "
        "With which chance may it go there, so that texts come to be as frequent as p^alpha?"
    ),
    stars=2,
    minutes=8,
    reference=accept,
    alternatives=[accept_by_flows],
    wrong=ACCEPT_WRONG,
    cases=_proposals,
    checker=edges(_odd_proposals),
    hints=[
        "As many must go from old to new as come back. How often does the walk stand at old and "
        "propose new? Write it as a product of three chances.",
        "The ratio is p(new)^alpha times the chance to propose old from new, over p(old)^alpha "
        "times the chance to propose new from old. A proposal draws a place and then the tokens "
        "behind it.",
    ],
    next="How many steps would you need if q knew nothing, and each token were as likely?",
)

# ------------------------------------------------------------------ 18.3 the surest vote


def surest_vote(answers, confidences, keep):
    """Return the answer that the surest chains elect; None if none of them has one.

    answers: of each chain, None where it has none.
    confidences: of each chain, positive numbers.
    keep: the share of all chains that vote, those with the largest confidence: 0 < keep <= 1. If
        that is no whole number, one more. Of equally sure chains the earlier ones vote.
    A vote counts as much as its chain's confidence. Of answers with equal sums the one that got
    the first vote wins, in the order of the chains.
    """
    order = sorted(range(len(answers)), key=lambda i: -confidences[i])
    voters = sorted(order[: math.ceil(keep * len(answers))])
    sums = {}
    for i in voters:
        if answers[i] is not None:
            sums[answers[i]] = sums.get(answers[i], 0) + confidences[i]
    return max(sums, key=sums.get, default=None)


def surest_vote_with_numpy(answers, confidences, keep):
    least_sure = np.argsort(-np.array(confidences), kind="stable")
    votes = np.array(confidences, float)
    votes[least_sure[int(np.ceil(keep * len(answers))) :]] = 0
    best, most = None, 0.0
    for answer, own in zip(answers, votes, strict=True):
        mine = sum(vote for other, vote in zip(answers, votes, strict=True) if other == answer)
        if answer is not None and own > 0 and mine > most:
            best, most = answer, mine
    return best


_ADDED = "sums.get(answers[i], 0) + confidences[i]"

SUREST_WRONG = {
    changed(surest_vote, "all_vote", "order[: math.ceil(keep * len(answers))]", "order"): (
        "all chains vote. Only the share `keep`, the surest, may."
    ),
    changed(surest_vote, "one_chain_one_vote", _ADDED, "sums.get(answers[i], 0) + 1"): (
        "each vote counts 1. It should count as much as its chain's confidence."
    ),
    changed(surest_vote, "the_surest_alone", "math.ceil(keep * len(answers))", "1"): (
        "you ask the surest chain alone. The whole share `keep` votes."
    ),
    changed(surest_vote, "the_least_sure", "-confidences[i])", "confidences[i])"): (
        "you keep the least sure: larger is surer."
    ),
    changed(
        surest_vote,
        "rounded_down",
        "math.ceil(keep * len(answers))",
        "max(1, int(keep * len(answers)))",
    ): ("where the share is no whole number one chain more votes, not one less."),
    changed(surest_vote, "no_answer_wins", "if answers[i] is not None:", "if True:"): (
        "None is no answer: it casts no vote."
    ),
    changed(
        surest_vote,
        "of_those_with_answers",
        "order = sorted(range(len(answers)), key",
        "order = sorted([i for i in range(len(answers)) if answers[i] is not None], key",
    ): (
        "a chain without an answer may be sure, too. It takes its place among the share that "
        "votes, and casts no vote."
    ),
    changed(
        surest_vote,
        "mean_for_the_sum",
        "max(sums, key=sums.get, default=None)",
        "max(sums, key=lambda a: sums[a] / [answers[i] for i in voters].count(a), default=None)",
    ): (
        "you compare the mean confidence of an answer's chains. Then one sure chain beats many: "
        "add the confidences up."
    ),
    changed(
        surest_vote, "largest_for_the_sum", _ADDED, "max(sums.get(answers[i], 0), confidences[i])"
    ): ("you keep an answer's largest confidence. Add up those of all its chains that vote."),
    changed(surest_vote, "the_last_of_each", _ADDED, "confidences[i]"): (
        "you keep the confidence of an answer's last chain. Add up those of all its chains that "
        "vote."
    ),
    changed(
        surest_vote,
        "ties_to_the_surest",
        "voters = sorted(order[: math.ceil(keep * len(answers))])",
        "voters = order[: math.ceil(keep * len(answers))]",
    ): (
        "of equal sums the answer that got the first vote wins, in the order of the chains, not "
        "the one of the surest chain."
    ),
    changed(
        surest_vote,
        "ties_to_the_last",
        "max(sums, key=sums.get, default=None)",
        "max(reversed(sums), key=sums.get, default=None)",
    ): ("of equal sums the answer that got the first vote wins, not the last."),
    changed(
        surest_vote,
        "above_a_floor",
        "voters = sorted(order[: math.ceil(keep * len(answers))])",
        "voters = [i for i in range(len(answers)) if confidences[i] >= keep * max(confidences)]",
    ): ("`keep` is a share of the chains, not of the largest confidence."),
    changed(
        surest_vote,
        "how_much",
        "max(sums, key=sums.get, default=None)",
        "max(sums.values(), default=None)",
    ): ("that is how much the winner got. Return the answer."),
}


def _votes(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield ["7", "4"], [2, 3], 1.0
    yield ["7", "7", "4"], [1, 1, 3], 1.0
    yield ["7", "7", "4", "4"], [3, 2, 4, 1], 0.5
    yield ["7", "7", "7", "4"], [1, 1, 1, 2], 0.5
    yield ["4", "7", "7"], [4, 3, 3], 1.0  # one sure chain, and two together
    yield ["4", "7", "7", "2", "2"], [5, 3, 4, 1, 1], 0.6
    yield ["7", "7", "4"], [5, 1, 4], 1.0
    yield [None, "4", "7"], [9, 2, 1], 1.0
    yield [None, "4", None, "7", "7"], [9, 5, 8, 3, 3], 0.6  # the silent ones take up places
    yield ["4", "7", "7", "2"], [5, 2, 3, 1], 0.75  # a tie
    yield ["7", "4", "7", "2"], [2, 5, 3, 1], 0.75  # a tie again
    yield ["2", "4", "4", "7", "7"], [8, 6, 5, 1, 1], 0.5  # three vote, no fewer
    yield ["4", "7", "7", "7"], [8, 5, 4, 1], 0.5
    yield ["7", "9", "4", "7", "4"], [2, 5, 1, 3, 4], 1.0  # a tie of three
    yield ["7", "4", "4", "7"], [1, 3, 3, 5], 1.0  # the first gets there last
    yield ["4", "7", "7", "2"], [2.0, 1.5, 1.5, 0.25], 1.0  # and not much less sure
    yield ["7", "7", "4"], [1, 5, 4], 1.0
    for n in (5, 8):
        row = [("2", "4", "7", None)[i] for i in rng.integers(0, 4, n)]
        yield row, rng.integers(1, 9, n).tolist(), float(rng.integers(1, 4)) / 4


def _odd_votes(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield ["7"], [1], 1.0
    yield ["7", "4"], [1, 2], 0.01  # at least one votes
    yield [None, "4"], [2, 1], 0.5
    yield [None, "7", "4", "4"], [9, 5, 1, 1], 0.26  # little more than one: two
    yield [None, None], [2, 1], 1.0
    yield ["4", "7", "7"], [3, 3, 3], 0.5  # equally sure: the earlier ones
    yield ["", "4"], [2, 1], 1.0  # an empty text is an answer
    yield [0, 4, 4], [9, 1, 1], 1.0  # so is 0
    yield ["4", "7"] * 8, [1, 1] * 8, 0.25
    yield ["4", "7", "2"], [9.0, 10.5, 10.75], 0.3  # no text to sort by, no whole numbers
    few, many = [None, "4", "4", "4"], [None, "7", "7", "7"]
    yield few + many * 9, [2, 1, 1, 1] * 10, 0.375  # so many equals an unstable sort mixes
    yield ["7", "4", "7", "4"], [0.5, 0.25, 0.25, 1.0], 1.0
    yield ["4", "7", "7"], [3, 3, 3], 1.0  # who is as sure as another is another all the same
    yield ["7", "7", "4"], [0.101, 0.101, 0.2025], 1.0  # nothing to round
    yield [None, "4", "7"], [2, 2, 1], 0.3  # the earlier one votes, though it has no answer
    yield ["4", "7", "4"], [1, 5, 5], 0.5  # a tie, and the first chain has no vote


SUREST = Exercise(
    id="18.3",
    title="The surest vote",
    task=(
        "A vote by confidence: only the surest chains vote, and a vote counts as much as its chain "
        "is sure."
    ),
    stars=2,
    minutes=8,
    reference=surest_vote,
    alternatives=[surest_vote_with_numpy],
    wrong=SUREST_WRONG,
    cases=_votes,
    checker=edges(_odd_votes),
    hints=[
        "First decide who votes: all chains in one order, those without an answer among them. Then "
        "count.",
        "A dictionary from answer to the sum of its confidences. max takes the first of equals, "
        "and a dictionary keeps the order in which its keys came.",
    ],
    next="With which confidences is it the plain vote? With which keep the answer of one chain?",
)

# ------------------------------------------------------------------ 18.4 like all the others


def most_alike(texts, utility):
    """Return the text that is most useful on average, if the truth is one of `texts`.

    texts: samples, a list; a text that came twice is twice as likely to be the truth.
    utility: a dictionary of dictionaries; utility[candidate][truth] is how useful a candidate is if
        that is the truth, a number, more is better. The two may not change places.
    Of equally useful texts the first wins.
    """
    return max(texts, key=lambda one: sum(utility[one][other] for other in texts))


def most_alike_by_table(texts, utility):
    table = np.array([[utility[candidate][truth] for truth in texts] for candidate in texts])
    return texts[int(table.mean(axis=1).argmax())]


_EXPECTED = "sum(utility[one][other] for other in texts)"

ALIKE_WRONG = {
    changed(most_alike, "the_most_frequent", _EXPECTED, "texts.count(one)"): (
        "you take the most frequent text. Nobody need repeat a text that is like all others: ask "
        "the utility."
    ),
    changed(most_alike, "places_swapped", "utility[one][other]", "utility[other][one]"): (
        "the two have changed places: utility[candidate][truth]."
    ),
    changed(most_alike, "each_once", "for other in texts)", "for other in {*texts})"): (
        "you count each different text once. What came twice is twice as likely to be the truth."
    ),
    changed(most_alike, "in_the_worst_case", "sum(utility", "min(utility"): (
        "you look at the worst case. What counts is the mean over all truths."
    ),
    changed(
        most_alike,
        "in_the_best_case",
        _EXPECTED,
        "max([utility[one][other] for other in texts if other != one], default=0)",
    ): ("you look for one text that is much alike. What counts is the mean over all truths."),
    changed(most_alike, "the_least_useful", "max(texts", "min(texts"): (
        "that is the least useful one: more is better."
    ),
    changed(
        most_alike,
        "how_useful",
        "max(texts, key=lambda one: " + _EXPECTED + ")",
        "max(" + _EXPECTED + " for one in texts) / len(texts)",
    ): ("that is how useful it is. Return the text."),
    changed(most_alike, "like_the_first", _EXPECTED, "utility[one][texts[0]]"): (
        "you compare with the first text alone. Each of them may be the truth."
    ),
    changed(
        most_alike,
        "not_its_own_copies",
        "for other in texts)",
        "for other in texts if other != one)",
    ): (
        "you leave out what is equal to the candidate. It may be the truth, too, the more often it "
        "came."
    ),
    changed(
        most_alike,
        "mean_of_the_others",
        _EXPECTED,
        "sum(utility[one][x] for x in texts if x != one) / max(1, len(texts) - texts.count(one))",
    ): ("you take the mean over the other texts. The candidate itself may be the truth, too."),
    changed(most_alike, "ties_to_the_last", "max(texts,", "max(texts[::-1],"): (
        "of equally useful texts the first wins."
    ),
}

Utility = dict[str, dict[str, float]]


def _useful(texts: str, **rows: float) -> Utility:
    """Return a utility: 8 where two are equal, ``rows["ab"]`` of candidate a and truth b, or 0."""
    names = dict.fromkeys(texts)
    return {a: {b: rows.get(a + b, 8 * (a == b)) for b in names} for a in names}


def _samples(rng: np.random.Generator) -> Iterator[tuple[list[str], Utility]]:
    yield [*"ab"], _useful("ab", ab=2)
    yield [*"aabc"], _useful("abc", cb=6, ca=6, bc=6)  # a came most often, c is like all
    yield [*"abc"], _useful("abc", ab=1, ac=1, ba=7, bc=1, ca=4, cb=5)
    yield [*"abbc"], _useful("abc", ab=2, ac=3, ba=1, bc=1, ca=5, cb=5)
    yield [*"aaab"], _useful("ab", ba=5)  # its own copies count
    yield [*"abcc"], _useful("abc", ac=7, ab=1, bc=2, ba=7, ca=2, cb=2)
    yield [*"bacca"], _useful("abc", ab=3, ba=3, ac=3, ca=3, bc=5, cb=5)
    yield [*"cab"], _useful("abc")  # all alike
    yield [*"bcaa"], _useful("abc", bc=6, ba=1, cb=6, ca=1, ab=2, ac=2)
    yield [*"abc"], _useful("abc", aa=5, ab=5, ac=5, ba=4, bb=9, bc=6, ca=6, cc=3)
    yield [*"aabc"], _useful("abc", bc=0.5)  # b is more like the others than a is
    for _ in range(4):
        texts = [("a", "b", "c", "d")[i] for i in rng.integers(0, 4, 6)]
        rows = {a + b: int(rng.integers(0, 8)) for a in "abcd" for b in "abcd" if a != b}
        yield texts, _useful("abcd", **rows)


def _odd_samples(rng: np.random.Generator) -> Iterator[tuple[list[str], Utility]]:
    yield ["a"], _useful("a")
    yield ["a", "a"], _useful("a")
    yield [*"ab"], {"a": {"a": -1.0, "b": -2.0}, "b": {"a": -0.5, "b": -2.0}}  # all below 0
    yield [*"ba"], _useful("ab", ab=8, ba=8)
    yield [*"ab"], {"a": {"a": 0, "b": 0, "z": 9}, "b": {"a": 0, "b": 1, "z": 0}, "z": {"z": 1}}
    yield [*"abca"], {x: {y: 0.125 * (x < y) for y in "abc"} for x in "abc"}
    yield [*"ab"], _useful("ab", aa=0.001, ab=0.002, ba=0.003, bb=0.001)  # nothing to round
    yield [*"baa"], _useful("ab", ba=4)  # as useful, though not as frequent
    yield [*"abcd"], _useful("abcd")
    yield [*"dcba"], _useful("abcd")  # all alike again: a set has one order for both


ALIKE = Exercise(
    id="18.4",
    title="Like all the others",
    task=(
        "Minimum Bayes risk: no answer to count, but texts that resemble each other more or less. "
        "Elect the one that would be most useful, whichever of the samples is the truth."
    ),
    stars=1,
    minutes=6,
    reference=most_alike,
    alternatives=[most_alike_by_table],
    wrong=ALIKE_WRONG,
    cases=_samples,
    checker=edges(_odd_samples),
    hints=[
        "Each sample may be the truth, and each is as likely. How useful is one candidate then, on "
        "average?",
        "max with a key: the candidate's utilities, added up over all samples. A list keeps those "
        "that came twice.",
    ],
    next="Which utility makes this the majority vote?",
)
