"""Answers to the exercises of lesson 19, as students write them: right ones and wrong ones."""

import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 19.1 what of a block stays


@right("19.1")
def kept_by_row(p1, p2, q1, q2):
    mean = 0
    for x in range(len(p1)):
        both = sum(min(a, b) for a, b in zip(p2[x], q2[x], strict=True))
        mean += min(p1[x], q1[x]) * (1 + both)
    return mean


@right("19.1")
def kept_by_einsum(p1, p2, q1, q2):
    first = np.minimum(p1, q1)
    return first.sum() + np.einsum("x,xy->", first, np.minimum(p2, q2))


@wrong("19.1", like="on_average")
def kept_from_marginals(p1, p2, q1, q2):
    first = np.minimum(p1, q1).sum()
    second = np.minimum(np.dot(p1, p2), np.dot(q1, q2)).sum()
    return first * (1 + second)


@wrong("19.1", like="each_for_itself")
def second_without_first(p1, p2, q1, q2):
    return sum(np.minimum(p1, q1)) + sum(
        q1[x] * sum(np.minimum(p2[x], q2[x])) for x in range(len(q1))
    )


@wrong("19.1", like="both_alone")
def only_whole_blocks(p1, p2, q1, q2):
    return sum(min(p1[x], q1[x]) * np.minimum(p2[x], q2[x]).sum() for x in range(len(p1)))


@wrong("19.1", like="own_word_too")
def tokens_a_round(p1, p2, q1, q2):
    return 1 + kept_by_row(p1, p2, q1, q2)


@wrong("19.1")
def of_the_agreement(p1, p2, q1, q2):
    return np.minimum(p1, q1).sum() + np.minimum(p2, q2).sum()


# ------------------------------------------------------------------ 19.2 a block's draws


@right("19.2")
def drawn_with_searchsorted(scores, pairs, last, u):
    scores, pairs = np.asarray(scores, float), np.asarray(pairs, float)
    drafts, said = [], []
    for k, number in enumerate(u):
        row = scores[k] + pairs[drafts[-1] if drafts else last]
        row = np.exp(row - row.max())
        row = row / row.sum()
        drafts.append(int(np.searchsorted(np.cumsum(row), number, side="right")))
        said.append(row)
    return drafts, np.stack(said)


@wrong("19.2", like="always_the_text")
def all_behind_the_text(scores, pairs, last, u):
    drafts, said = [], []
    for row, number in zip(scores, u, strict=True):
        row = np.exp(row + pairs[last] - np.max(row + pairs[last]))
        row = row / row.sum()
        drafts.append(int(np.argmax(np.cumsum(row) > number)))
        said.append(row)
    return drafts, np.array(said)


@wrong("19.2", like="without_the_table")
def independent_places(scores, pairs, last, u):
    said = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    said = said / said.sum(axis=1, keepdims=True)
    return [int(np.argmax(np.cumsum(q) > x)) for q, x in zip(said, u, strict=True)], said


@wrong("19.2", like="said_without_the_table")
def another_q(scores, pairs, last, u):
    drafts, _ = drawn_with_searchsorted(scores, pairs, last, u)
    return drafts, independent_places(scores, pairs, last, u)[1]


@wrong("19.2", like="turned_round")
def column_of_the_table(scores, pairs, last, u):
    return drawn_with_searchsorted(scores, np.transpose(pairs), last, u)


@wrong("19.2")
def logits_for_q(scores, pairs, last, u):
    drafts, q = drawn_with_searchsorted(scores, pairs, last, u)
    return drafts, np.log(np.maximum(q, 1e-30))


# ------------------------------------------------------------------ 19.3 how much to offer


@right("19.3")
def best_of_all(confidence, block, reading):
    def speed(n):
        tokens = 1 + sum(np.prod(confidence[:k]) for k in range(1, n + 1))
        return round(tokens / (1 + block + n * reading), 9)

    return max(range(len(confidence) + 1), key=speed)


@wrong("19.3", like="without_those_before")
def sum_of_confidences(confidence, block, reading):
    speeds = [
        (1 + sum(confidence[:n])) / (1 + block + n * reading) for n in range(len(confidence) + 1)
    ]
    return int(np.argmax(speeds))


@right("19.3")
def while_it_pays(confidence, block, reading):
    n, tokens, stays = 0, 1.0, 1.0
    for chance in confidence:
        stays *= chance
        before = tokens / (1 + block + n * reading)
        if (tokens + stays) / (1 + block + (n + 1) * reading) <= before + 1e-9:
            return n
        n, tokens = n + 1, tokens + stays
    return n


@wrong("19.3", like="most_tokens")
def all_that_may_stay(confidence, block, reading):
    return int(np.count_nonzero(np.cumprod(confidence) > 0))


@wrong("19.3", like="block_for_each")
def a_forward_for_each(confidence, block, reading):
    tokens = np.concatenate([[1.0], 1 + np.cumsum(np.cumprod(confidence))])
    return int(np.argmax(np.round(tokens / (1 + np.arange(len(tokens)) * (block + reading)), 9)))


@wrong("19.3", like="above_one_half")
def above_one_half(confidence, block, reading):
    return int(np.count_nonzero(np.cumprod(confidence) > 0.5))


@wrong("19.3", like="while_it_pays_for_itself")
def most_profit(confidence, block, reading):
    tokens = np.concatenate([[0.0], np.cumsum(np.cumprod(confidence))])
    return int(np.argmax(np.round(tokens - reading * np.arange(len(tokens)), 9)))
