"""Answers to the exercises of lesson 18, as students write them: right ones and wrong ones."""

import math
from collections import Counter, defaultdict

import mlx.core as mx
import numpy as np
from oracles.answers import Answers
from scipy.special import logsumexp, softmax

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 18.1 a power of whole texts


@right("18.1")
def by_softmax(logprobs, alpha):
    return softmax([alpha * np.sum(text) for text in logprobs])


@right("18.1")
def by_logsumexp(logprobs, alpha):
    logs = [alpha * math.fsum(text) for text in logprobs]
    return [math.exp(each - logsumexp(logs)) for each in logs]


@right("18.1")
def with_mlx(logprobs, alpha):
    return mx.softmax(mx.array([float(alpha * sum(text)) for text in logprobs])).tolist()


@right("18.1")
def one_against_all(logprobs, alpha):
    logs = [sum(text) for text in logprobs]
    shares = []
    for mine in logs:
        with np.errstate(over="ignore"):
            shares.append(1 / sum(np.exp(alpha * (other - mine)) for other in logs))
    return tuple(shares)


ANSWERS.changed("18.1", "halved", "alpha * sum(text)", "alpha * sum(text) / 2")
ANSWERS.changed("18.1", "one_more", "alpha * sum(text)", "(alpha + 1) * sum(text)")
ANSWERS.changed("18.1", "one_less", "alpha * sum(text)", "(alpha - 1) * sum(text)")
ANSWERS.changed("18.1", "by_the_best", "weights / weights.sum()", "weights / weights.max()")
ANSWERS.changed("18.1", "without_the_last", "sum(text)", "sum(text[:-1])")
ANSWERS.changed("18.1", "in_a_list_of_one", "weights / weights.sum()", "[weights / weights.sum()]")


@wrong("18.1", like="by_the_length")
def mean_logprob(logprobs, alpha):
    logs = np.array([alpha * np.mean(text) if text else 0.0 for text in logprobs])
    return np.exp(logs - logsumexp(logs))


@wrong("18.1", like="too_small_to_see")
def chances_first(logprobs, alpha):
    chances = np.array([np.prod(np.exp(text)) for text in logprobs])
    return chances**alpha / (chances**alpha).sum()


@wrong("18.1", like="without_alpha")
def as_the_model_says(logprobs, alpha):
    return softmax([sum(text) for text in logprobs])


@wrong("18.1")
def scaled_before(logprobs, alpha):
    p = softmax([sum(text) for text in logprobs])
    return p**alpha


@wrong("18.1")
def temperature_alpha(logprobs, alpha):
    return softmax([sum(text) / (alpha or 1) for text in logprobs])


@wrong("18.1")
def power_of_a_share(logprobs, alpha):
    """A share that is 0 for a computer stays 0, and so does its power."""
    shares = softmax([sum(text) for text in logprobs]) ** alpha
    return shares / shares.sum()


@wrong("18.1")
def the_first_subtracted(logprobs, alpha):
    logs = np.array([alpha * sum(text) for text in logprobs])
    return np.exp(logs - logs[0]) / np.exp(logs - logs[0]).sum()


@wrong("18.1")
def the_mean_subtracted(logprobs, alpha):
    logs = np.array([alpha * sum(text) for text in logprobs])
    return np.exp(logs - logs.mean()) / np.exp(logs - logs.mean()).sum()


@wrong("18.1")
def subtracted_before_the_power(logprobs, alpha):
    logs = np.array([sum(text) for text in logprobs])
    weights = np.exp(alpha * logs - logs.max())
    return weights / weights.sum()


# ------------------------------------------------------------------ 18.2 taken or not


@right("18.2")
def step_by_step(old, new, place, alpha):
    log = 0.0
    for logprob in new["p"]:
        log += alpha * logprob
    for logprob in old["p"]:
        log -= alpha * logprob
    log += sum(old["q"][place:]) - sum(new["q"][place:])
    ratio = np.exp(min(log, 700.0)) * len(old["p"]) / len(new["p"])
    return min(ratio, 1.0)


@right("18.2")
def all_of_q(old, new, place, alpha):
    """The tokens before the place are the same, and so is their q."""

    def worth(text):
        return alpha * sum(text["p"]) - sum(text["q"]) - math.log(len(text["q"]))

    gap = worth(new) - worth(old)
    return 1.0 if gap >= 0 else math.exp(gap)


@right("18.2")
def with_arrays(old, new, place, alpha):
    p = [np.array(text["p"][place:]) for text in (old, new)]
    q = [np.array(text["q"][place:]) for text in (old, new)]
    log = (alpha * p[1] - q[1]).sum() - (alpha * p[0] - q[0]).sum()
    return float(np.exp(np.minimum(0, log + np.log(len(old["p"]) / len(new["p"])))))


ANSWERS.changed("18.2", "a_place_too_late", 'sum(new["q"][place:])', 'sum(new["q"][place + 1 :])')
ANSWERS.changed("18.2", "always", "math.exp(min(0, gain + back - there))", "1.0")
ANSWERS.changed("18.2", "a_coin", "math.exp(min(0, gain + back - there))", "0.5")
ANSWERS.changed(
    "18.2", "backwards", 'sum(new["p"]) - sum(old["p"])', 'sum(old["p"]) - sum(new["p"])'
)
ANSWERS.changed("18.2", "places_of_both", "math.log(len(old", "math.log(len(new")


@wrong("18.2", like="forgets_the_proposal")
def metropolis(old, new, place, alpha):
    return min(1.0, float(np.exp(alpha * (sum(new["p"]) - sum(old["p"])))))


@wrong("18.2", like="only_if_better")
def climbs(old, new, place, alpha):
    return 1 if alpha * sum(new["p"]) >= alpha * sum(old["p"]) else 0


@wrong("18.2")
def barker(old, new, place, alpha):
    """It leaves p^alpha as it is, too, but it is another chance: half where nothing changes."""
    log = alpha * (sum(new["p"]) - sum(old["p"])) + sum(old["q"][place:]) - sum(new["q"][place:])
    ratio = math.exp(min(600, log)) * len(old["p"]) / len(new["p"])
    return ratio / (1 + ratio)


@wrong("18.2")
def tokens_that_are_left(old, new, place, alpha):
    log = alpha * (sum(new["p"]) - sum(old["p"])) + sum(old["q"][place:]) - sum(new["q"][place:])
    share = (len(old["p"]) - place) / max(1, len(new["p"]) - place)
    return min(1.0, math.exp(min(0.0, log)) * share)


@wrong("18.2")
def all_that_is_likelier(old, new, place, alpha):
    """It is taken less often where it is proposed too often."""
    log = alpha * (sum(new["p"]) - sum(old["p"])) + sum(old["q"][place:]) - sum(new["q"][place:])
    log += math.log(len(old["p"]) / len(new["p"]))
    return 1.0 if sum(new["p"]) >= sum(old["p"]) else math.exp(min(0, log))


@wrong("18.2")
def too_large_for_e(old, new, place, alpha):
    log = alpha * (sum(new["p"]) - sum(old["p"])) + sum(old["q"][place:]) - sum(new["q"][place:])
    return min(1, math.exp(log + math.log(len(old["p"]) / len(new["p"]))))


@wrong("18.2")
def chances_of_0(old, new, place, alpha):
    def flow(start, end):
        stands = np.exp(alpha * np.sum(start["p"]))
        return stands / len(start["p"]) * np.exp(np.sum(end["q"][place:]))

    return min(1.0, float(flow(new, old) / flow(old, new)))


@wrong("18.2")
def lengths_after_the_minimum(old, new, place, alpha):
    log = alpha * (sum(new["p"]) - sum(old["p"])) + sum(old["q"][place:]) - sum(new["q"][place:])
    return min(1.0, math.exp(min(0, log)) * len(old["p"]) / len(new["p"]))


# ------------------------------------------------------------------ 18.3 the surest vote


@right("18.3")
def by_pairs(answers, confidences, keep):
    ranked = sorted(zip(confidences, range(len(answers)), strict=True), key=lambda x: (-x[0], x[1]))
    most = -(-keep * len(answers) // 1)
    counted = Counter()
    for place, (confidence, i) in enumerate(ranked):
        if place < most:
            counted[answers[i]] += confidence
    counted.pop(None, None)
    if not counted:
        return None
    best = max(counted.values())
    voters = sorted(i for _, i in ranked[: int(most)])
    return next(answers[i] for i in voters if counted.get(answers[i]) == best)


@right("18.3")
def by_rank(answers, confidences, keep):
    n, sums = len(answers), defaultdict(float)
    for i, (answer, mine) in enumerate(zip(answers, confidences, strict=True)):
        surer = sum(c > mine or (c == mine and j < i) for j, c in enumerate(confidences))
        if surer < math.ceil(keep * n) and answer is not None:
            sums[answer] += mine
    return max(sums.items(), key=lambda pair: pair[1])[0] if sums else None


@right("18.3")
def one_after_the_other(answers, confidences, keep):
    left, voters = [*range(len(answers))], []
    while len(voters) < keep * len(answers):
        best = max(left, key=lambda i: confidences[i])
        left.remove(best)
        voters.append(best)
    totals = {}
    for i in sorted(voters):
        totals[answers[i]] = totals.get(answers[i], 0) + confidences[i]
    totals.pop(None, 0)
    return max(totals, key=lambda answer: totals[answer]) if totals else None


ANSWERS.changed(
    "18.3", "one_more", "math.ceil(keep * len(answers))", "math.ceil(keep * len(answers)) + 1"
)
ANSWERS.changed("18.3", "squares", "+ confidences[i]", "+ confidences[i] ** 2")
ANSWERS.changed("18.3", "ranks", "+ confidences[i]", "+ 1 / (1 + order.index(i))")
ANSWERS.changed("18.3", "the_fewest", "max(sums,", "min(sums,")
ANSWERS.changed("18.3", "an_empty_text_is_none", "if answers[i] is not None:", "if answers[i]:")
ANSWERS.changed("18.3", "rounded", "math.ceil(keep", "round(keep")


@wrong("18.3", like="one_chain_one_vote")
def counted(answers, confidences, keep):
    order = np.argsort(-np.array(confidences), kind="stable")[: math.ceil(keep * len(answers))]
    cast = [answers[i] for i in sorted(order) if answers[i] is not None]
    return max(cast, key=cast.count, default=None)


@wrong("18.3", like="all_vote")
def weighed_only(answers, confidences, keep):
    sums = {}
    for answer, confidence in zip(answers, confidences, strict=True):
        if answer is not None:
            sums[answer] = sums.get(answer, 0) + confidence
    return max(sums, key=sums.get, default=None)


@wrong("18.3", like="the_surest_alone")
def whoever_is_surest(answers, confidences, keep):
    return answers[max(range(len(answers)), key=lambda i: confidences[i])]


@wrong("18.3")
def as_sure_as_the_last_one(answers, confidences, keep):
    least = sorted(confidences, reverse=True)[math.ceil(keep * len(answers)) - 1]
    sums = {}
    for answer, confidence in zip(answers, confidences, strict=True):
        if answer is not None and confidence >= least:
            sums[answer] = sums.get(answer, 0) + confidence
    return max(sums, key=sums.get, default=None)


@wrong("18.3")
def an_unstable_order(answers, confidences, keep):
    """A selection sort by exchanges: what is exchanged jumps over its equals."""
    order = [*range(len(answers))]
    most = math.ceil(keep * len(answers))
    for place in range(most):
        best = max(range(place, len(order)), key=lambda at: confidences[order[at]])
        order[place], order[best] = order[best], order[place]
    sums = {}
    for i in sorted(order[:most]):
        if answers[i] is not None:
            sums[answers[i]] = sums.get(answers[i], 0) + confidences[i]
    return max(sums, key=sums.get, default=None)


@wrong("18.3")
def the_smallest_of_equals(answers, confidences, keep):
    """No known mistake: neither the surest chain's answer wins nor the last."""
    order = sorted(range(len(answers)), key=lambda i: -confidences[i])
    sums = defaultdict(float)
    for i in order[: math.ceil(keep * len(answers))]:
        if answers[i] is not None:
            sums[answers[i]] += confidences[i]
    return max(sorted(sums, key=str), key=lambda answer: sums[answer], default=None)


@wrong("18.3")
def powers_of_e(answers, confidences, keep):
    """No known mistake: several less sure chains may still outvote the surest."""
    order = sorted(range(len(answers)), key=lambda i: -confidences[i])
    sums = {}
    for i in sorted(order[: math.ceil(keep * len(answers))]):
        if answers[i] is not None:
            sums[answers[i]] = sums.get(answers[i], 0) + math.exp(confidences[i])
    return max(sums, key=sums.get, default=None)


@wrong("18.3", like="the_last_of_each")
def overwritten(answers, confidences, keep):
    order = sorted(range(len(answers)), key=lambda i: -confidences[i])
    voters = sorted(order[: math.ceil(keep * len(answers))])
    sure = {answers[i]: confidences[i] for i in voters if answers[i] is not None}
    return max(sure, key=sure.get, default=None)


@wrong("18.3")
def above_the_least_sure(answers, confidences, keep):
    """No known mistake: two votes may be worth more than the surest one."""
    order = sorted(range(len(answers)), key=lambda i: -confidences[i])
    voters = sorted(order[: math.ceil(keep * len(answers))])
    least = min(confidences[i] for i in voters)
    sums = {}
    for i in voters:
        if answers[i] is not None:
            sums[answers[i]] = sums.get(answers[i], 0) + confidences[i] - least
    return max(sums, key=sums.get, default=None)


@wrong("18.3")
def who_gets_there_first(answers, confidences, keep):
    """No known mistake: whoever leads stays the winner until another has more."""
    order = sorted(range(len(answers)), key=lambda i: -confidences[i])
    sums, leader = {}, None
    for i in sorted(order[: math.ceil(keep * len(answers))]):
        if answers[i] is not None:
            sums[answers[i]] = sums.get(answers[i], 0) + confidences[i]
            leader = answers[i] if sums[answers[i]] > sums.get(leader, 0) else leader
    return leader


@wrong("18.3")
def above_a_quantile(answers, confidences, keep):
    least = np.quantile(confidences, 1 - keep)
    order = sorted(range(len(answers)), key=lambda i: -confidences[i])
    voters = [i for i in order if confidences[i] >= least][: math.ceil(keep * len(answers))]
    sums = {}
    for i in sorted(voters):
        if answers[i] is not None:
            sums[answers[i]] = sums.get(answers[i], 0) + confidences[i]
    return max(sums, key=sums.get, default=None)


@wrong("18.3")
def whole_nats(answers, confidences, keep):
    order = sorted(range(len(answers)), key=lambda i: -int(confidences[i]))
    sums = {}
    for i in sorted(order[: math.ceil(keep * len(answers))]):
        if answers[i] is not None:
            sums[answers[i]] = sums.get(answers[i], 0) + confidences[i]
    return max(sums, key=sums.get, default=None)


# ------------------------------------------------------------------ 18.4 like all the others


@right("18.4")
def with_a_loop(texts, utility):
    best, most = None, -math.inf
    for one in texts:
        total = 0.0
        for truth, times in Counter(texts).items():
            total += times * utility[one][truth]
        if total > most:
            best, most = one, total
    return best


@right("18.4")
def by_means(texts, utility):
    useful = {one: np.mean([utility[one][truth] for truth in texts]) for one in texts}
    return sorted(texts, key=lambda one: -useful[one])[0]


@right("18.4")
def by_a_product(texts, utility):
    names = [*dict.fromkeys(texts)]
    shares = np.array([texts.count(name) for name in names]) / len(texts)
    table = np.array([[utility[a][b] for b in names] for a in names], float)
    return names[int(np.argmax(np.round(table @ shares, 9)))]


ANSWERS.changed("18.4", "without_the_first", "for other in texts)", "for other in texts[1:])")
ANSWERS.changed(
    "18.4", "products", "sum(utility[one][other] for", "math.prod(utility[one][other] for"
)
ANSWERS.changed("18.4", "all_candidates", "max(texts,", "max(utility,")
ANSWERS.changed("18.4", "all_truths", "for other in texts)", "for other in utility[one])")


@wrong("18.4", like="the_most_frequent")
def majority(texts, utility):
    return Counter(texts).most_common(1)[0][0]


@wrong("18.4", like="each_once")
def different_ones(texts, utility):
    return max(texts, key=lambda one: sum(utility[one][other] for other in dict.fromkeys(texts)))


@wrong("18.4", like="places_swapped")
def truth_first(texts, utility):
    return max(texts, key=lambda one: sum(utility[truth][one] for truth in texts))


@wrong("18.4")
def median_utility(texts, utility):
    return max(texts, key=lambda one: np.median([utility[one][other] for other in texts]))


@wrong("18.4")
def most_useful_once(texts, utility):
    """No known mistake: it isn't the first text that it compares with."""
    return max(texts, key=lambda one: max(utility[one][other] for other in texts))


@wrong("18.4")
def wins_of_each_truth(texts, utility):
    """No known mistake: the most frequent text need not be the best for most truths."""
    best = [max(utility[one][truth] for one in texts) for truth in texts]
    both = [*zip(texts, best, strict=True)]
    return max(texts, key=lambda one: sum(utility[one][truth] == most for truth, most in both))


@wrong("18.4")
def whole_numbers(texts, utility):
    return max(texts, key=lambda one: sum(int(utility[one][other]) for other in texts))


@wrong("18.4")
def rounded_means(texts, utility):
    return max(texts, key=lambda one: round(sum(utility[one][t] for t in texts) / len(texts), 1))


@wrong("18.4")
def ties_to_the_frequent(texts, utility):
    return max(texts, key=lambda one: (sum(utility[one][t] for t in texts), texts.count(one)))


@wrong("18.4")
def in_the_order_of_names(texts, utility):
    return max(sorted(texts), key=lambda one: sum(utility[one][other] for other in texts))


ANSWERS.changed("18.1", "clipped", "logs - logs.max()", "np.clip(logs - logs.mean(), -700, 700)")
ANSWERS.changed("18.1", "by_the_mean_if_all_are_0", "np.exp(logs - logs.max())",
                "np.exp(logs - logs.mean() * (logs.max() < -745))")  # fmt: skip
ANSWERS.changed("18.2", "clipped_gain", "min(0, gain +", "min(0, max(gain, -700) +")
ANSWERS.changed("18.2", "alpha_0_takes_all", "min(0, gain", "0 if alpha == 0 else min(0, gain")
ANSWERS.changed("18.2", "as_likely_is_equal", "min(0, gain", "0 if gain == 0 else min(0, gain")
ANSWERS.changed("18.3", "answers_first_among_equals", "key=lambda i: -confidences[i]",
                "key=lambda i: (-confidences[i], answers[i] is None)")  # fmt: skip
ANSWERS.changed("18.3", "to_one_decimal", "0) + confidences[i]", "0) + round(confidences[i], 1)")
ANSWERS.changed("18.3", "first_named_by_anybody", "max(sums,",
                "max([a for a in answers if a in sums],")  # fmt: skip
ANSWERS.changed("18.4", "to_two_decimals", "sum(utility[one][other] for other in texts)",
                "round(sum(utility[one][other] for other in texts) / len(texts), 2)")  # fmt: skip


@wrong("18.3")
def looked_up_by_confidence(answers, confidences, keep):
    sums = {}
    for confidence in sorted(confidences, reverse=True)[: math.ceil(keep * len(answers))]:
        answer = answers[confidences.index(confidence)]
        if answer is not None:
            sums[answer] = sums.get(answer, 0) + confidence
    return max([answer for answer in answers if answer in sums], key=sums.get, default=None)


ANSWERS.changed("18.1", "twice_is_once", "weights / weights.sum()",
                "weights / weights.sum() / [logprobs.count(one) for one in logprobs]")  # fmt: skip
