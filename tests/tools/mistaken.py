"""Four right engines and nine faulty ones, by somebody who hadn't seen the audit.

They knew the shape of an engine and of the two models, and of the list of mistakes four names.
All rows go on together, each at its own place: buf is (n, end + GAMMA + 1), row r holds at[r] valid
tokens (prompt included), and a text is done at `end` tokens. No model is ever asked about a context
of `end` tokens or more; in such places p = q = uniform, and what is written there is cut off.
"""

import numpy as np

GAMMA = 3


# ---------------------------------------------------------------------------- helpers (all right)


def start(prompt, n, max_tokens, seed):
    end = len(prompt) + max_tokens
    buf = np.zeros((n, end + GAMMA + 1), dtype=np.int64)
    buf[:, : len(prompt)] = prompt
    at = np.full(n, len(prompt))
    return np.random.default_rng(seed), buf, at, end


def next_probs(model, buf, at, end, temperature):
    """(n, V): next-token probabilities after the first at[r] tokens of each row."""
    probs = np.full((len(buf), model.vocab_size), 1.0 / model.vocab_size)
    for length in np.unique(at):
        if length < end:
            here = at == length
            probs[here] = model.probs(buf[here, :length], temperature)
    return probs


def pick(rng, probs):
    """One token of each row of probs (..., V)."""
    ends = probs.cumsum(-1)
    return (rng.random(probs.shape[:-1])[..., None] * ends[..., -1:] >= ends[..., :-1]).sum(-1)


def put(buf, at, token):
    buf[np.arange(len(buf)), at] = token


def draft_block(rng, draft, buf, at, end, temperature):
    """GAMMA drafted tokens (n, GAMMA) written into buf behind `at`, and their q (n, GAMMA, V)."""
    tokens, qs = [], []
    for i in range(GAMMA):
        q = next_probs(draft, buf, at + i, end, temperature)
        token = pick(rng, q)
        put(buf, at + i, token)
        tokens.append(token)
        qs.append(q)
    return np.stack(tokens, 1), np.stack(qs, 1)


def target_block(target, buf, at, end, temperature):
    """(n, GAMMA + 1, V): p of each drafted place and of the place after the last draft."""
    return np.stack(
        [next_probs(target, buf, at + i, end, temperature) for i in range(GAMMA + 1)], 1
    )


def of_token(probs, tokens):
    return np.take_along_axis(probs, tokens[..., None], -1)[..., 0]


def accept(rng, p, q, tokens):
    """(n, GAMMA) bool: each draft with min(1, p/q)."""
    return rng.random(tokens.shape) * of_token(q, tokens) < of_token(p[:, :GAMMA], tokens)


def leading(flags):
    """How many flags are true before the first false one."""
    return np.cumprod(flags, axis=1).sum(1)


def residual(p, q):
    rest = np.maximum(p - q, 0.0)
    total = rest.sum(-1, keepdims=True)
    return np.where(total > 1e-12, rest / np.maximum(total, 1e-12), p)


def row(block, i):
    """block[r, i[r]] of each r."""
    return block[np.arange(len(block)), i]


def with_no_q_at_the_end(q):
    """q with a zero row behind the last draft, where the residual is thus p (the bonus)."""
    return np.concatenate([q, np.zeros_like(q[:, :1])], 1)


def texts_of(buf, prompt, end):
    return buf[:, len(prompt) : end]


# --------------------------------------------------------------------------------- right engines


def right_plain(target, draft, prompt, n, max_tokens, temperature, seed):
    """Right: token by token from the target, no drafts."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    for _ in range(max_tokens):
        put(buf, at, pick(rng, next_probs(target, buf, at, end, temperature)))
        at = at + 1
    return texts_of(buf, prompt, end)


def right_rejection(target, draft, prompt, n, max_tokens, temperature, seed):
    """Right: Leviathan's rejection rule with GAMMA drafts, residual and bonus token."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    while (at < end).any():
        tokens, q = draft_block(rng, draft, buf, at, end, temperature)
        p = target_block(target, buf, at, end, temperature)
        k = leading(accept(rng, p, q, tokens))
        put(buf, at + k, pick(rng, residual(row(p, k), row(with_no_q_at_the_end(q), k))))
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


def right_matching(target, draft, prompt, n, max_tokens, temperature, seed):
    """Right: the target draws its own token at each place; drafts count as far as they match it."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    while (at < end).any():
        tokens, _ = draft_block(rng, draft, buf, at, end, temperature)
        own = pick(rng, target_block(target, buf, at, end, temperature))
        k = leading(own[:, :GAMMA] == tokens)
        put(buf, at + k, row(own, k))
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


def right_mixed_lengths(target, draft, prompt, n, max_tokens, temperature, seed):
    """Right: rejection rule, each row's draft length (0..GAMMA) drawn anew, blind to the tokens."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    while (at < end).any():
        drafts = rng.integers(0, GAMMA + 1, size=n)
        tokens, q = draft_block(rng, draft, buf, at, end, temperature)
        p = target_block(target, buf, at, end, temperature)
        k = np.minimum(leading(accept(rng, p, q, tokens)), drafts)
        q_there = np.where((k == drafts)[:, None], 0.0, row(with_no_q_at_the_end(q), k))
        put(buf, at + k, pick(rng, residual(row(p, k), q_there)))
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


# ------------------------------------------------------- faulty engines of the four listed kinds


def wrong_greedy_draft_judged_by_soft_q(target, draft, prompt, n, max_tokens, temperature, seed):
    """Wrong (kind 1): drafts are argmax of q, yet accepted and corrected as if drawn of soft q."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    while (at < end).any():
        tokens, qs = [], []
        for i in range(GAMMA):
            q = next_probs(draft, buf, at + i, end, temperature)
            tokens.append(q.argmax(-1))
            qs.append(q)
            put(buf, at + i, tokens[-1])
        tokens, q = np.stack(tokens, 1), np.stack(qs, 1)
        p = target_block(target, buf, at, end, temperature)
        k = leading(accept(rng, p, q, tokens))
        put(buf, at + k, pick(rng, residual(row(p, k), row(with_no_q_at_the_end(q), k))))
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


def wrong_draft_sampled_cooler_than_judged(target, draft, prompt, n, max_tokens, temperature, seed):
    """Wrong (kind 2): drafts are drawn at half the temperature, but judged by q at the full one."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    while (at < end).any():
        tokens, _ = draft_block(rng, draft, buf, at, end, 0.5 * temperature)
        q = np.stack([next_probs(draft, buf, at + i, end, temperature) for i in range(GAMMA)], 1)
        p = target_block(target, buf, at, end, temperature)
        k = leading(accept(rng, p, q, tokens))
        put(buf, at + k, pick(rng, residual(row(p, k), row(with_no_q_at_the_end(q), k))))
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


def wrong_unsure_draft_dropped(target, draft, prompt, n, max_tokens, temperature, seed):
    """Wrong (kind 3): the block is cut before the first drafted token whose own q is below 0.4."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    while (at < end).any():
        tokens, q = draft_block(rng, draft, buf, at, end, temperature)
        drafts = leading(of_token(q, tokens) >= 0.4)
        p = target_block(target, buf, at, end, temperature)
        k = np.minimum(leading(accept(rng, p, q, tokens)), drafts)
        q_there = np.where((k == drafts)[:, None], 0.0, row(with_no_q_at_the_end(q), k))
        put(buf, at + k, pick(rng, residual(row(p, k), q_there)))
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


def wrong_temperature_twice(target, draft, prompt, n, max_tokens, temperature, seed):
    """Wrong (kind 4): logits come divided by the temperature, and the sampler divides once more."""

    def again(probs):
        weights = np.exp(np.log(probs) / temperature)
        return weights / weights.sum(-1, keepdims=True)

    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    while (at < end).any():
        tokens, qs = [], []
        for i in range(GAMMA):
            q = again(next_probs(draft, buf, at + i, end, temperature))
            tokens.append(pick(rng, q))
            qs.append(q)
            put(buf, at + i, tokens[-1])
        tokens, q = np.stack(tokens, 1), np.stack(qs, 1)
        p = again(target_block(target, buf, at, end, temperature))
        k = leading(accept(rng, p, q, tokens))
        put(buf, at + k, pick(rng, residual(row(p, k), row(with_no_q_at_the_end(q), k))))
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


# ------------------------------------------------------------------ faulty engines of other kinds


def wrong_correction_from_full_target(target, draft, prompt, n, max_tokens, temperature, seed):
    """Wrong: after a rejection the token is drawn from p itself, not from the residual (p - q)+."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    while (at < end).any():
        tokens, q = draft_block(rng, draft, buf, at, end, temperature)
        p = target_block(target, buf, at, end, temperature)
        k = leading(accept(rng, p, q, tokens))
        put(buf, at + k, pick(rng, row(p, k)))
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


def wrong_accepted_counted_by_sum(target, draft, prompt, n, max_tokens, temperature, seed):
    """Wrong: the accepted prefix's length is accept.sum(), also counting those past a rejection."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    while (at < end).any():
        tokens, q = draft_block(rng, draft, buf, at, end, temperature)
        p = target_block(target, buf, at, end, temperature)
        inside = at[:, None] + np.arange(GAMMA) < end  # drafts past the text's end don't count
        k = (accept(rng, p, q, tokens) & inside).sum(1)
        put(buf, at + k, pick(rng, residual(row(p, k), row(with_no_q_at_the_end(q), k))))
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


def wrong_batch_cut_at_slowest_row(target, draft, prompt, n, max_tokens, temperature, seed):
    """Wrong: batches of 8 keep step by the batch's fewest accepted drafts; a row that had accepted
    more loses those drafts and draws a fresh token from p there, as if it were the bonus."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    batch = np.arange(n) // 8
    while (at < end).any():
        tokens, q = draft_block(rng, draft, buf, at, end, temperature)
        p = target_block(target, buf, at, end, temperature)
        own = leading(accept(rng, p, q, tokens))
        k = np.minimum.reduceat(own, np.arange(0, n, 8))[batch]
        q_there = np.where((own > k)[:, None], 0.0, row(with_no_q_at_the_end(q), k))
        put(buf, at + k, pick(rng, residual(row(p, k), q_there)))
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


def wrong_rejected_token_stays_in_cache(target, draft, prompt, n, max_tokens, temperature, seed):
    """Wrong: the target's cache is trimmed one too few; ever after, the target reads the rejected
    draft in the place of the token that was put out instead of it."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    cache = buf.copy()  # what the target has read; buf is what is put out (and the draft reads)
    places = np.arange(buf.shape[1])
    while (at < end).any():
        tokens, q = draft_block(rng, draft, buf, at, end, temperature)
        cache = np.where(places < at[:, None], cache, buf)
        p = target_block(target, cache, at, end, temperature)
        k = leading(accept(rng, p, q, tokens))
        token = pick(rng, residual(row(p, k), row(with_no_q_at_the_end(q), k)))
        put(buf, at + k, token)
        bonus = k == GAMMA
        cache[bonus, at[bonus] + GAMMA] = token[bonus]
        at = np.minimum(at + k + 1, end)
    return texts_of(buf, prompt, end)


def wrong_second_candidate_judged_by_full_target(
    target, draft, prompt, n, max_tokens, temperature, seed
):
    """Wrong: two candidates are drawn for each place; the second, after the first was rejected, is
    judged by p again instead of by the residual that the first rejection leaves."""
    rng, buf, at, end = start(prompt, n, max_tokens, seed)
    for _ in range(max_tokens):
        q = next_probs(draft, buf, at, end, temperature)
        p = next_probs(target, buf, at, end, temperature)
        first, second = pick(rng, q), pick(rng, q)
        one = rng.random(n) * of_token(q, first) < of_token(p, first)
        two = rng.random(n) * of_token(q, second) < of_token(p, second)
        put(buf, at, np.where(one, first, np.where(two, second, pick(rng, residual(p, q)))))
        at = at + 1
    return texts_of(buf, prompt, end)


# --------------------------------------------------------------------------------- half strength


def half(engine):
    """The engine at half strength: each text comes, with probability 1/2, from right_rejection."""

    def mixed(target, draft, prompt, n, max_tokens, temperature, seed):
        for_coin, for_right, for_wrong = np.random.SeedSequence([seed, 2]).generate_state(3)
        right = np.random.default_rng(for_coin).random(n) < 0.5
        texts = np.empty((n, max_tokens), dtype=np.int64)
        for which, one, its_seed in (
            (right, right_rejection, for_right),
            (~right, engine, for_wrong),
        ):
            if which.any():
                texts[which] = one(
                    target, draft, prompt, int(which.sum()), max_tokens, temperature, int(its_seed)
                )
        return texts

    mixed.__name__ = "half_" + engine.__name__
    mixed.__doc__ = "Half strength of: " + engine.__doc__
    return mixed


RIGHT = [right_plain, right_rejection, right_matching, right_mixed_lengths]
FAULTY = [
    wrong_greedy_draft_judged_by_soft_q,
    wrong_draft_sampled_cooler_than_judged,
    wrong_unsure_draft_dropped,
    wrong_temperature_twice,
    wrong_correction_from_full_target,
    wrong_accepted_counted_by_sum,
    wrong_batch_cut_at_slowest_row,
    wrong_rejected_token_stays_in_cache,
    wrong_second_candidate_judged_by_full_target,
]
HALF = [half(engine) for engine in FAULTY]
