"""Answers to the exercises of lesson 15, as students write them: right ones and wrong ones."""

import hashlib
import math
import random

import mlx.core as mx
import numpy as np
from oracles.answers import Answers
from scipy.special import softmax

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 15.1 zeroed keys


@right("15.1")
def a_large_negative_number(queries, keys, values, lengths):
    out = []
    for b in range(len(queries)):
        scores = keys[b] @ queries[b] / math.sqrt(len(queries[b]))
        scores[lengths[b] :] = -1e30
        out.append(softmax(scores) @ values[b])
    return out


@right("15.1")
def in_mlx(queries, keys, values, lengths):
    q, k, v = (mx.array(each) for each in (queries[:, None, None], keys[:, None], values[:, None]))
    mask = mx.arange(keys.shape[1]) < mx.array(lengths)[:, None]
    return mx.fast.scaled_dot_product_attention(
        q.astype(mx.float32), k.astype(mx.float32), v.astype(mx.float32),
        scale=1 / math.sqrt(keys.shape[2]), mask=mask[:, None, None],
    )[:, 0, 0]  # fmt: skip


@right("15.1")
def masked_after_and_scaled_again(queries, keys, values, lengths):
    stays = np.arange(keys.shape[1])[None] < np.array(lengths)[:, None]
    scores = (keys @ queries[:, :, None])[..., 0] / np.sqrt(keys.shape[2])
    scores = scores - np.where(stays, scores, -np.inf).max(1, keepdims=True)
    weights = np.exp(np.minimum(scores, 0)) * stays
    return (weights[..., None] * values).sum(1) / weights.sum(1, keepdims=True)


@wrong("15.1", like="zeroed")
def multiplied_scores(queries, keys, values, lengths):
    stays = np.arange(keys.shape[1])[None] < np.array(lengths)[:, None]
    scores = (keys @ queries[:, :, None])[..., 0] / np.sqrt(keys.shape[2]) * stays
    return (softmax(scores, axis=1)[..., None] * (values * stays[..., None])).sum(1)


@wrong("15.1", like="values_only")
def masked_after(queries, keys, values, lengths):
    stays = np.arange(keys.shape[1])[None] < np.array(lengths)[:, None]
    weights = softmax((keys @ queries[:, :, None])[..., 0] / np.sqrt(keys.shape[2]), axis=1)
    return ((weights * stays)[..., None] * values).sum(1)


@wrong("15.1")
def mask_added_as_true_and_false(queries, keys, values, lengths):
    stays = np.arange(keys.shape[1])[None] < np.array(lengths)[:, None]
    scores = (keys @ queries[:, :, None])[..., 0] / np.sqrt(keys.shape[2]) + stays
    return (softmax(scores, axis=1)[..., None] * values).sum(1)


@wrong("15.1")
def no_maximum_subtracted(queries, keys, values, lengths):
    stays = np.arange(keys.shape[1])[None] < np.array(lengths)[:, None]
    weights = np.exp((keys @ queries[:, :, None])[..., 0] / np.sqrt(keys.shape[2])) * stays
    return (weights[..., None] * values).sum(1) / weights.sum(1, keepdims=True)


# ------------------------------------------------------------------ 15.2 a rate above one


@right("15.2")
def equal_pairs(rounds):
    kept = sum(
        a == b for drafted, written in rounds for a, b in zip(drafted, written, strict=False)
    )
    drafts = sum(len(drafted) for drafted, _ in rounds)
    return kept / drafts if drafts else 0.0


@right("15.2")
def with_a_loop(rounds):
    kept = drafts = 0
    for drafted, written in rounds:
        drafts += len(drafted)
        n = 0
        while n < len(drafted) and n < len(written) and drafted[n] == written[n]:
            n += 1
        kept += n
    if drafts == 0:
        return 0
    return kept / drafts


@wrong("15.2", like="all_written")
def tokens_for_drafts(rounds):
    return np.array(sum(len(w) for _, w in rounds) / max(1, sum(len(d) for d, _ in rounds)))


@wrong("15.2", like="mean_of_rounds")
def averaged(rounds):
    rates = []
    for drafted, written in rounds:
        if drafted:
            same = [a == b for a, b in zip(drafted, written, strict=False)]
            rates.append(sum(same) / len(drafted))
    return float(np.mean(rates)) if rates else 0.0


@wrong("15.2", like="nothing_divides")
def not_a_number(rounds):
    same = [a == b for d, w in rounds for a, b in zip(d, w, strict=False)]
    return sum(same) / sum(len(d) for d, _ in rounds)


@wrong("15.2")
def membership(rounds):
    kept = sum(token in written for drafted, written in rounds for token in drafted)
    return kept / max(1, sum(len(drafted) for drafted, _ in rounds))


# ------------------------------------------------------------------ 15.3 a ring that has wrapped


@right("15.3")
def by_marking(ring, read, back):
    positions = {}
    for at in range(read):
        positions[at % len(ring)] = at
    have = {at: ring[slot] for slot, at in positions.items()}
    wanted = list(range(read - back))[-len(ring) :]
    held = [have[at] for at in wanted if at in have]
    return held, len(wanted) - len(held)


@right("15.3")
def as_a_list(ring, read, back):
    size, held, again = len(ring), [], 0
    for at in range(max(0, read - back - size), read - back):
        if at + size < read:
            again += 1
        else:
            held.append(ring[at % size])
    return [held, again]


@wrong("15.3", like="counters_only")
def moves_the_counter(ring, read, back):
    read = read - back
    return [ring[i % len(ring)] for i in range(max(read - len(ring), 0), read)], 0


@wrong("15.3", like="nothing_left")
def gives_up(ring, read, back):
    if back > 0 and read > len(ring):
        return [], min(len(ring), read - back)
    return [ring[at % len(ring)] for at in range(max(0, read - back - len(ring)), read - back)], 0


@wrong("15.3")
def cut_from_the_list(ring, read, back):
    held = ring[: max(0, min(read, len(ring)) - back)]
    return held, min(len(ring), read - back) - len(held)


# ------------------------------------------------------------------ 15.4 one seed for all rows


@right("15.4")
def with_a_digest(probs, seeds, steps):
    tokens = []
    for p, seed, step in zip(probs, seeds, steps, strict=True):
        digest = hashlib.sha256(f"{seed}/{step}".encode()).digest()
        u = int.from_bytes(digest[:8], "big") / 2**64
        tokens.append(min(int((np.cumsum(p) <= u).sum()), len(p) - 1))
    return tokens


@right("15.4")
def with_python_s_own(probs, seeds, steps):
    return [
        random.Random(f"{seed} {step}").choices(range(len(p)), weights=list(p))[0]
        for p, seed, step in zip(probs, seeds, steps, strict=True)
    ]


@right("15.4")
def step_by_step(probs, seeds, steps):
    tokens = []
    for p, seed, step in zip(probs, seeds, steps, strict=True):
        rng = np.random.default_rng(seed)
        u = rng.random(step + 1)[step]
        tokens.append(np.argmax(np.cumsum(p) > u))
    return np.array(tokens)


@wrong("15.4", like="first_rows_seed")
def one_generator(probs, seeds, steps):
    rng = np.random.default_rng([seeds[0], steps[0]])
    return [int(rng.choice(len(p), p=p)) for p in probs]


@wrong("15.4", like="first_rows_seed")
def first_seed_and_row(probs, seeds, steps):
    rngs = [np.random.default_rng([seeds[0], steps[0], row]) for row in range(len(probs))]
    return [int(rng.choice(len(p), p=p)) for rng, p in zip(rngs, probs, strict=True)]


@wrong("15.4", like="seed_alone")
def seed_only(probs, seeds, steps):
    pairs = zip(probs, seeds, strict=True)
    return [int(np.random.default_rng(seed).choice(len(p), p=p)) for p, seed in pairs]


@wrong("15.4", like="seed_plus_step")
def sum_of_both(probs, seeds, steps):
    triples = zip(probs, seeds, steps, strict=True)
    return [int(np.random.default_rng(s + t).choice(len(p), p=p)) for p, s, t in triples]


@wrong("15.4")
def last_seed_wins(probs, seeds, steps):
    for seed, step in zip(seeds, steps, strict=True):
        rng = np.random.default_rng([seed, step])
    return [int(rng.choice(len(p), p=p)) for p in probs]


@wrong("15.4")
def one_token_too_few(probs, seeds, steps):
    return [0] * (len(probs) - 1)


@wrong("15.4")
def probabilities_as_they_rank(probs, seeds, steps):
    triples = zip(probs, seeds, steps, strict=True)
    return [
        int(np.random.default_rng([s, t]).choice(len(p), p=np.sort(p)[::-1])) for p, s, t in triples
    ]


# ------------------------------------------------------------------ 15.5 never above temperature 0


@right("15.5")
def with_loops(p, q):
    size = len(p)
    table = [[0.0] * size for _ in range(size)]
    rest = [max(p[y] - q[y], 0.0) for y in range(size)]
    for x in range(size):
        keep = min(1.0, p[x] / q[x]) if q[x] > 0 else 0.0
        table[x][x] += keep
        for y in range(size):
            if sum(rest) > 0:
                table[x][y] += (1 - keep) * rest[y] / sum(rest)
    return table


@right("15.5")
def without_a_guard(p, q):
    with np.errstate(all="ignore"):
        keep = np.minimum(1, p / q)
        rest = np.maximum(p - q, 0)
        rest = rest / rest.sum() if rest.sum() > 0 else rest
    return np.diag(keep) + (1 - keep)[:, None] * rest


@wrong("15.5", like="target_draws")
def one_hot_q(p, q):
    rows = []
    for x in range(len(p)):
        rest = np.maximum(p - np.eye(len(p))[x], 0)
        rest = rest / rest.sum() if rest.sum() > 0 else rest
        rows.append(p[x] * np.eye(len(p))[x] + (1 - p[x]) * rest)
    return np.array(rows)


@wrong("15.5", like="corrected_from_p")
def drawn_again_from_p(p, q):
    keep = np.array([min(1, a / b) if b else 0 for a, b in zip(p, q, strict=True)])
    return np.diag(keep) + np.outer(1 - keep, p)


@wrong("15.5", like="keep_all")
def trusting(p, q):
    return np.diag(np.ones(len(q)))


@wrong("15.5")
def joint_instead_of_rows(p, q):
    rest = np.maximum(p - q, 0)
    spare = np.maximum(q - p, 0)
    return np.diag(np.minimum(p, q)) + np.outer(spare, rest / max(rest.sum(), 1e-12))


@wrong("15.5")
def accepted_at_half(p, q):
    keep = np.where(q > 0, np.minimum(1, p / np.where(q > 0, q, 1)), 0) / 2
    rest = p - q * keep
    return np.diag(keep) + np.outer(1 - keep, rest / rest.sum())
