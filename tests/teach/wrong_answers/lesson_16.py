"""Answers to the exercises of lesson 16, as students write them: right ones and wrong ones."""

import itertools

import numpy as np
from oracles.answers import Answers
from scipy.special import softmax

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 16.1 a sampler


@right("16.1")
def nucleus(logits, texts):
    probs = softmax(logits, axis=1)
    order = np.argsort(-probs, axis=1)
    ranked = np.take_along_axis(probs, order, axis=1)
    ranked = np.where(np.cumsum(ranked, axis=1) - ranked < 0.9, ranked, 0)
    kept = np.zeros_like(probs)
    np.put_along_axis(kept, order, ranked / ranked.sum(axis=1, keepdims=True), axis=1)
    return kept


@right("16.1")
def lists_of_what_is_near_the_best(logits, texts):
    rows = []
    for row in logits.tolist():
        kept = [np.exp(x - max(row)) if x > max(row) - 2.5 else 0.0 for x in row]
        rows.append([x / sum(kept) for x in kept])
    return rows


@right("16.1")
def each_row_a_token_of_its_own(logits, texts):
    groups = [[*map(tuple, texts[:i])].count(tuple(text)) for i, text in enumerate(texts)]
    chosen = []
    for row, n in zip(logits, groups, strict=True):
        likely = [token for token in np.argsort(-row) if row[token] > row.max() - 3]
        chosen.append(likely[n % len(likely)])
    return np.eye(logits.shape[1])[chosen]


@wrong("16.1")
def the_best_six(logits, texts):
    least = np.sort(logits, axis=1)[:, [-6]]
    return softmax(np.where(logits >= least, logits, -np.inf), axis=1)


@wrong("16.1", like="a_little_colder")
def temperature_seven_tenths(logits, texts):
    return softmax(logits / 0.7, axis=1)


@wrong("16.1")
def temperature_six_tenths(logits, texts):
    return softmax(logits / 0.6, axis=1)


@wrong("16.1")
def temperature_nine_tenths(logits, texts):
    return softmax(logits / 0.9, axis=1)


@wrong("16.1", like="the_best_only")
def argmax(logits, texts):
    return (logits == logits.max(axis=1, keepdims=True)).astype(float)


@wrong("16.1", like="as_the_model_says")
def untouched_softmax(logits, texts):
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True)


@wrong("16.1", like="everything_alike")
def flat(logits, texts):
    return np.ones_like(logits) / logits.shape[1]


@wrong("16.1")
def knows_where_junk_once_was(logits, texts):
    return np.eye(logits.shape[1])[np.arange(len(logits)) % 7]


@wrong("16.1")
def one_row(logits, texts):
    return softmax(logits[0])


@wrong("16.1")
def logarithms(logits, texts):
    return np.log(softmax(logits, axis=1))


# ------------------------------------------------------------------ 16.2 a vote


@right("16.2")
def the_surest_of_five(votes, left, problems):
    if left > 0 and len(votes) < 5:
        return "more"
    known = [(sum(chances), answer) for answer, chances in votes if answer is not None]
    return max(known)[1] if known else "0"


@right("16.2")
def weighted_with_numpy(votes, left, problems):
    if left and len(votes) < 5:
        return "more"
    tally = np.zeros(10)
    for answer, chances in votes:
        if answer:
            tally[int(answer)] += np.exp(2 * np.sum(chances) + 20)
    return str(np.argmax(tally))


@wrong("16.2", like="most_frequent")
def counted(votes, left, problems):
    if left and len(votes) < 5:
        return "more"
    said = [answer for answer, _ in votes if answer]
    return max(said, key=said.count) if said else "0"


@wrong("16.2", like="a_number")
def as_an_int(votes, left, problems):
    return "more" if left and len(votes) < 2 else 7


@wrong("16.2")
def always_seven(votes, left, problems):
    return "7"


# ------------------------------------------------------------------ 16.3 a drafter


@right("16.3")
def by_places(prompt, written, limit):
    words = prompt[-21:-5]
    if prompt[-4] not in words:
        return []
    place = words.index(prompt[-4])
    words = [*words[:place], prompt[-2], *words[place + 1 :]]
    return words[len(written) :][:limit]


@right("16.3")
def as_an_array(prompt, written, limit):
    words = np.array(prompt[-21:-5])
    words = np.where(words == prompt[-4], prompt[-2], words)
    return words[len(written) : len(written) + limit]


@right("16.3")
def with_the_end_and_sums(prompt, written, limit):
    if len(prompt) == 24:
        words = [prompt[-2] if word == prompt[-4] else word for word in prompt[-21:-5]]
        return [*words, 2][len(written) : len(written) + limit]
    return [prompt[3]] * min(limit, 1)


@wrong("16.3")
def trips_over_a_sum(prompt, written, limit):
    words = prompt[-21:-5]
    place = words.index(prompt[-4])
    return [*words[:place], prompt[-2], *words[place + 1 :]][len(written) :][:limit]


@wrong("16.3")
def texts_not_ids(prompt, written, limit):
    return ["the"][:limit]


@wrong("16.3", like="nothing")
def empty(prompt, written, limit):
    return ()


@wrong("16.3", like="from_the_beginning")
def first_words(prompt, written, limit):
    words = [prompt[-2] if word == prompt[-4] else word for word in prompt[-21:-5]]
    return words[:limit]


@wrong("16.3", like="more_than_asked")
def all_words(prompt, written, limit):
    return [prompt[-2] if word == prompt[-4] else word for word in prompt[-21:-5]]


@wrong("16.3")
def next_word_only(prompt, written, limit):
    follows = dict(itertools.pairwise(prompt))
    return [follows[written[-1]]][:limit] if written and written[-1] in follows else []


@wrong("16.3")
def at_least_one(prompt, written, limit):
    words = [prompt[-2] if word == prompt[-4] else word for word in prompt[-21:-5]]
    return words[len(written) :][: max(limit, 1)]


@wrong("16.2")
def the_fifth_sample(votes, left, problems):
    if left and len(votes) < 5:
        return "more"
    return next((answer for answer, _ in reversed(votes) if answer), "0")


@wrong("16.1")
def less_than_nothing(logits, texts):
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = scores / scores.sum(axis=1, keepdims=True)
    return probs * 1.2 - 0.2 / logits.shape[1]


@wrong("16.2")
def none_is_an_answer(votes, left, problems):
    if left and len(votes) < 5:
        return "more"
    weights = {"0": 0.0}
    for answer, chances in votes:
        weights[answer] = weights.get(answer, 0) + np.exp(np.sum(chances))
    return max(weights, key=weights.get)


def _cut_and_shared(logits, texts):
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.where(scores < 0.1, 0, scores) / np.where(scores < 0.1, 0, scores).sum(1)[:, None]


@wrong("16.1")
def scores_of_the_first_row(logits, texts):
    return np.repeat(_cut_and_shared(logits[:1], texts), len(logits), axis=0)


@wrong("16.1")
def average_row(logits, texts):
    return np.repeat(_cut_and_shared(logits.mean(axis=0, keepdims=True), texts), len(logits), 0)


@wrong("16.1")
def rows_the_other_way(logits, texts):
    return _cut_and_shared(logits, texts)[::-1]


@right("16.1")
def a_part_for_each_row(logits, texts):
    probs, rows = _cut_and_shared(logits, texts), len(logits)
    ends = np.cumsum(probs, axis=1)
    row = np.arange(rows)[:, None]  # also where texts have parted
    part = np.clip(ends, row / rows, (row + 1) / rows)
    part = np.diff(np.hstack([row / rows, part]), axis=1)
    return part / part.sum(axis=1, keepdims=True)


def _weighed(votes):
    known = [(sum(chances), answer) for answer, chances in votes if answer is not None]
    return max(known)[1] if known else "0"


@wrong("16.2", like="never_an_answer")
def five_whatever_is_left(votes, left, problems):
    return "more" if len(votes) < 5 else _weighed(votes)


@wrong("16.2", like="never_an_answer")
def until_less_than_nothing_is_left(votes, left, problems):
    return "more" if len(votes) < 5 and left >= 0 else _weighed(votes)


@wrong("16.3")
def eight_and_no_more(prompt, written, limit):
    return first_words(prompt, written, limit) if len(prompt) == 24 and not written else []


@wrong("16.1")
def one_story_without_a_batch(logits, texts):
    probs = _cut_and_shared(logits, texts)
    return probs[0] if len(probs) == 1 else probs


@wrong("16.2")
def nothing_without_votes(votes, left, problems):
    return five_whatever_is_left(votes, left, problems) if votes or left else None


@right("16.1")
def a_higher_cut(logits, texts):
    probs = softmax(logits, axis=1)
    probs[probs < 0.15 * probs.max(axis=1, keepdims=True)] = 0
    return probs / probs.sum(axis=1, keepdims=True)


@right("16.1")
def a_cut_and_a_little_colder(logits, texts):
    probs = softmax(logits / 0.9, axis=1)
    probs[probs < 0.08 * probs.max(axis=1, keepdims=True)] = 0
    return probs / probs.sum(axis=1, keepdims=True)


@wrong("16.1")
def the_best_is_taken_for_0(logits, texts):
    probs = np.where(np.exp(logits) < 0.05, 0, np.exp(logits))
    return probs / probs.sum(axis=1, keepdims=True)


@wrong("16.1")
def the_best_of_all_rows(logits, texts):
    probs = np.exp(logits - logits.max())
    probs = np.where(probs < 0.05, 0, probs)
    return probs / probs.sum(axis=1, keepdims=True)
