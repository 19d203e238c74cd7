"""Answers to the exercises of lesson 01, as students write them: right ones and wrong ones."""

import math
from bisect import bisect
from itertools import accumulate

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers


def shifted(shift):
    """Return a softmax that subtracts ``shift(scores)`` first."""

    def softmax(scores):
        weights = np.exp(scores - shift(scores))
        return weights / weights.sum()

    return softmax


right_softmax = shifted(np.max)


def a_list_of_floats(scores):
    weights = [math.exp(score - max(scores)) for score in scores]
    return [weight / sum(weights) for weight in weights]


def of_long_doubles(scores):
    weights = np.exp(np.asarray(scores, dtype=np.longdouble))
    return (weights / weights.sum()).astype(float)


def cubic(scores):
    """Right, and slow: the maximum and the sum again for each score."""
    return [
        math.exp(x - max(scores)) / sum(math.exp(y - max(scores)) for y in scores) for x in scores
    ]


def only_if_large(scores):
    return shifted(lambda s: s.max() if s.max() > 700 else 0)(scores)


def walks(weights, u, *, total=sum, hit=lambda dart, edge: dart < edge):
    edge = 0.0
    for token, weight in enumerate(weights):
        edge += weight
        if hit(u * total(weights), edge):
            return np.int32(token)
    return len(weights) - 1


def log_softmax(row):
    return row - row.max() - np.log(np.exp(row - row.max()).sum())


def scored(
    per_row, total=sum, pairs=lambda logits, tokens: zip(logits[:-1], tokens[1:], strict=True)
):
    """Return an answer to 01.3 that puts one number for each step together."""
    return lambda logits, tokens: total([per_row(r, t) for r, t in pairs(logits, tokens)])


def exact(row, token):
    return log_softmax(row)[token]


def log_of_the_sum(row, shift):
    return shift + np.log(np.exp(row - shift).sum())


def one_shift_for_the_rows_that_count(logits, tokens):
    rows = logits[: len(tokens) - 1 or 1]
    rows = rows - rows.max()
    steps = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
    return sum(steps[i, token] for i, token in enumerate(tokens[1:]))


def in_mlx(logits, tokens):
    logits = mx.array(logits)
    steps = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    return steps[mx.arange(len(tokens) - 1), mx.array(tokens[1:] or [0])[: len(tokens) - 1]].sum()


def gathered(logits, tokens):
    steps = np.array([log_softmax(row) for row in logits])[:-1]
    return np.take_along_axis(steps, np.array(tokens[1:], int)[:, None], axis=1).sum()


def loop(pick=np.argmax, read=lambda prompt, new: prompt + new, stops=None, give=None, extra=0):
    """Return an answer to 01.4 with one of its parts replaced."""
    stops = stops or (lambda prompt, new, stop: new[-1] == stop)
    give = give or (lambda prompt, new: new)

    def write(next_scores, prompt, max_tokens, stop):
        new = []
        while len(new) < max_tokens + extra:
            new.append(pick(next_scores(read(prompt, new))))
            if stops(prompt, new, stop):
                break
        return give(prompt, new)

    return write


def recursive(next_scores, prompt, max_tokens, stop):
    if max_tokens == 0:
        return ()
    token = mx.argmax(mx.array(next_scores(np.array(prompt)))).item()
    if token == stop:
        return (token,)
    return (token, *recursive(next_scores, [*prompt, token], max_tokens - 1, stop))


def stops_before_it_writes(next_scores, prompt, max_tokens, stop):
    new = []
    for _ in range(max_tokens):
        token = int(np.argmax(next_scores(prompt + new)))
        if token == stop:
            break
        new.append(token)
    return new


def stop_beyond_the_end(next_scores, prompt, max_tokens, stop):
    written = loop(extra=1)(next_scores, prompt, max_tokens, stop)
    return written if written[-1] == stop and max_tokens else written[:max_tokens]


def writes_into_the_scores(scores):
    best = int(np.argmax(scores))
    scores[:] = 0
    return best


def at_least_one(next_scores, prompt, max_tokens, stop):
    new = []
    while True:
        new.append(int(np.argmax(next_scores(prompt + new))))
        if new[-1] == stop or len(new) >= max_tokens:
            return new


RIGHT = [
    ("01.1", a_list_of_floats),
    ("01.1", cubic),
    ("01.1", lambda s: mx.softmax(mx.array(s))),
    ("01.1", lambda s: tuple(shifted(np.max)(np.array(s)).tolist())),
    ("01.1", lambda s: np.exp(s - np.logaddexp.reduce(s))),
    ("01.1", lambda s: 1 / np.exp(np.minimum(s[None] - s[:, None], 700)).sum(1)),
    ("01.2", walks),
    ("01.2", lambda w, u: bisect(list(accumulate(w)), u * sum(w))),
    ("01.2", lambda w, u: np.argmax(np.cumsum(w) > u * np.sum(w))),
    ("01.2", lambda w, u: mx.argmax(mx.cumsum(mx.array(w)) > u * sum(w))),
    ("01.2", lambda w, u: float((np.cumsum(w) <= u * np.cumsum(w)[-1]).sum())),
    ("01.3", scored(exact)),
    ("01.3", scored(exact, total=math.fsum)),
    ("01.3", in_mlx),
    ("01.3", gathered),
    ("01.3", scored(lambda row, t: -np.logaddexp.reduce(row - row[t]))),
    ("01.4", loop()),
    ("01.4", recursive),
    ("01.4", loop(pick=lambda s: np.flatnonzero(s == s.max())[0], give=lambda p, n: np.array(n))),
    ("01.4", loop(read=lambda p, n: np.array([*p, *n]), give=lambda p, n: mx.array(np.array(n)))),
]
WRONG = [
    ("01.1", "only_where_it_is_large", only_if_large),
    ("01.1", None, lambda s: np.exp(s - s.max()) / (np.exp(s - s.max()).sum() + 1e-5)),
    ("01.1", "minus_the_largest_size", shifted(lambda s: np.abs(s).max())),
    ("01.1", "divides_the_scores", lambda s: right_softmax(s / np.abs(s).max())),
    ("01.1", "clips_the_scores", lambda s: right_softmax(np.clip(s, -700, 700))),
    ("01.1", None, lambda s: right_softmax(s / s.max())),
    ("01.1", None, shifted(lambda s: s[-1])),
    ("01.1", None, shifted(lambda s: max(s[0], s[-1]))),
    ("01.1", None, lambda s: np.nan_to_num(shifted(lambda s: 0)(s))),
    ("01.1", None, of_long_doubles),
    ("01.1", None, lambda s: right_softmax(s).round(3)),
    ("01.1", "divides_by_the_largest", lambda s: np.exp(s - s.max())),
    ("01.1", None, lambda s: right_softmax(-s)),
    ("01.1", None, lambda s: 2.0 ** (s - s.max()) / (2.0 ** (s - s.max())).sum()),
    ("01.1", None, lambda s: s - np.logaddexp.reduce(s)),
    ("01.2", "takes_the_impossible", lambda w, u: np.argmax(np.cumsum(w) >= u * sum(w))),
    ("01.2", "not_normalised", lambda w, u: walks(w, u, total=lambda w: 1)),
    ("01.2", None, lambda w, u: np.argsort(w)[::-1][walks(sorted(w)[::-1], u)]),
    ("01.2", "place_in_the_list", lambda w, u: int(len(w) * u)),
    ("01.2", "one_too_far", lambda w, u: min(walks(w, u) + 1, len(w) - 1)),
    ("01.2", None, lambda w, u: walks(sorted(w), u)),
    ("01.2", None, lambda w, u: walks(w, u, hit=lambda dart, edge: dart <= edge)),
    ("01.2", None, lambda w, u: np.argmax(w)),
    ("01.2", None, lambda w, u: w[walks(w, u)]),
    ("01.2", None, lambda w, u: walks(w, 1 - u)),
    ("01.2", None, lambda w, u: np.random.default_rng(0).choice(len(w), p=np.array(w) / sum(w))),
    ("01.2", "total_only_if_large", lambda w, u: bisect(list(accumulate(w)), u * max(1, sum(w)))),
    ("01.2", None, lambda w, u: walks(w, u, total=lambda w: max(1, sum(w)))),
    ("01.2", None, lambda w, u: walks(w, u, total=lambda w: sum(map(math.ceil, w)))),
    ("01.2", None, lambda w, u: min(walks(w, u), 100)),
    ("01.2", None, lambda w, u: walks([*map(int, w)] if sum(map(int, w)) else w, u)),
    *(
        ("01.2", None, lambda w, u, n=n: np.argmax((np.cumsum(w) / sum(w)).round(n) > u))
        for n in (3, 8)
    ),
    ("01.2", None, lambda w, u: np.argmax(np.cumsum(w) > u * sum(w) + 1e-6)),
    ("01.2", None, lambda w, u: np.argmax(np.cumsum(w) > u * sum(w) * (1 + 1e-6))),
    ("01.2", None, lambda w, u: np.argmax(np.cumsum(np.float16(w)) > np.float16(u * sum(w)))),
    (
        "01.3",
        "log_of_the_product",
        scored(lambda r, t: math.exp(exact(r, t)), lambda p: np.log(np.prod(p))),
    ),
    ("01.3", "forgets_the_shift", scored(lambda r, t: r[t] - np.log(np.exp(r - r.max()).sum()))),
    ("01.3", "overflows_on_the_way", scored(lambda r, t: r[t] - np.log(np.exp(r).sum()))),
    ("01.3", "log_of_the_softmax", scored(lambda r, t: np.log(right_softmax(r)[t]))),
    ("01.3", "with_a_little_more", scored(lambda r, t: np.log(right_softmax(r)[t] + 1e-12))),
    ("01.3", "in_bits", scored(lambda r, t: exact(r, t) / math.log(2))),
    ("01.3", "the_surprise", scored(lambda r, t: -exact(r, t))),
    ("01.3", "each_row_its_own_token", scored(exact, pairs=zip)),
    ("01.3", "the_mean", scored(exact, lambda s: sum(s) / len(s))),
    ("01.3", "without_the_log", scored(lambda r, t: math.exp(exact(r, t)), np.prod)),
    ("01.3", "sums_the_logits", scored(lambda r, t: r[t])),
    ("01.3", "multiplies_logs", scored(exact, np.prod)),
    ("01.3", None, scored(lambda r, t: shifted(lambda s: 0)(r)[t], lambda p: np.log(np.prod(p)))),
    ("01.3", None, scored(lambda r, t: np.log(shifted(lambda s: 0)(r)[t]))),
    ("01.3", "one_shift_for_all", one_shift_for_the_rows_that_count),
    ("01.3", None, scored(lambda r, t: np.log(right_softmax(r)[t] + 1e-30))),
    ("01.3", None, scored(exact, pairs=lambda x, t: zip(x[1:], t[1:], strict=True))),
    ("01.3", None, scored(exact, pairs=lambda x, t: zip(x[:-1], t[:-1], strict=True))),
    ("01.3", None, scored(lambda r, t: log_softmax(r).max())),
    ("01.3", None, scored(lambda r, t: min(exact(r, t), -0.1) + 0.1)),
    ("01.3", None, scored(lambda r, t: (exact(r, t) < -0.1) * exact(r, t))),
    ("01.3", None, lambda x, t: scored(exact)(x, t[:100])),
    ("01.3", None, scored(exact, list)),
    ("01.4", "leaves_out_the_stop", stops_before_it_writes),
    ("01.4", "never_stops", loop(stops=lambda p, n, s: False)),
    ("01.4", "one_too_many", loop(extra=1)),
    ("01.4", "reads_one_token_only", loop(read=lambda p, n: (p + n)[-1:])),
    ("01.4", "forgets_to_read", loop(read=lambda p, n: p)),
    ("01.4", "reads_only_what_is_new", loop(read=lambda p, n: n or p)),
    ("01.4", "prompt_and_all", loop(give=lambda p, n: p + n)),
    ("01.4", "last_of_the_best", loop(pick=lambda s: np.argsort(s, kind="stable")[-1])),
    ("01.4", "stops_at_a_stop_in_the_prompt", loop(stops=lambda p, n, s: s in p + n)),
    ("01.4", "counts_the_prompt", lambda f, p, m, s: loop()(f, p, m - len(p), s)),
    ("01.4", "overflows", loop(pick=lambda s: np.argmax(np.exp(s) / np.exp(s).sum()))),
    ("01.4", None, at_least_one),
    ("01.4", None, loop(pick=lambda s: max([*range(len(s))], key=lambda i: max(s[i], 0)))),
    ("01.4", None, loop(stops=lambda p, n, s: s and n[-1] == s)),
    ("01.4", None, loop(pick=np.argmin)),
    ("01.4", None, loop(pick=np.max)),
    ("01.4", None, loop(stops=lambda p, n, s: s in n[:-1])),
    ("01.4", None, loop(stops=lambda p, n, s: len(n) > 20 or n[-1] == s)),
    ("01.4", None, loop(stops=lambda p, n, s: n[-1] >= s)),
    ("01.4", None, loop(stops=lambda p, n, s: n[-1] == s or n.count(n[-1]) > 5)),
    ("01.4", None, loop(read=lambda p, n: (p + n)[-8:])),
    ("01.4", None, loop(read=lambda p, n: p[-1:] + n)),
    ("01.4", None, loop(read=lambda p, n: p[:1] + n)),
    ("01.4", None, loop(read=lambda p, n: p + n[::-1])),
    ("01.4", None, loop(read=lambda p, n: p + sorted(n))),
    ("01.4", None, loop(stops=lambda p, n, s: n[-1] == 2)),
    (
        "01.4",
        "same_object",
        loop(pick=lambda s: int(np.argmax(s)), stops=lambda p, n, s: n[-1] is s),
    ),
    ("01.4", None, loop(extra=-1)),
    ("01.4", None, stop_beyond_the_end),
    ("01.4", None, loop(pick=lambda s: np.argmax(np.round(s, 1)))),
    ("01.4", None, loop(stops=lambda p, n, s: n[-1] == s or n[-3:] == 3 * n[-1:])),
    ("01.4", None, loop(stops=lambda p, n, s: n[-1] == s or n[-6:] == 6 * n[-1:])),
    ("01.3", None, scored(lambda r, t: r[t] - np.logaddexp.reduce(np.unique(r)))),
    ("01.3", None, scored(lambda r, t: r[t] - r.max() if abs(r).max() > 700 else exact(r, t))),
    ("01.3", None, scored(lambda r, t: r[t] - log_of_the_sum(r, max(r.max(), 0)))),
    ("01.3", None, scored(lambda r, t: r[t] - log_of_the_sum(r, r[t]))),
    ("01.3", None, scored(lambda r, t: r[t] - log_of_the_sum(r, r.mean()))),
    ("01.4", None, loop(pick=writes_into_the_scores)),
]

ANSWERS = Answers(RIGHT, WRONG)
for digits in (1, 2):
    rounded = f"np.cumsum(np.round(weights, {digits}))"
    ANSWERS.changed("01.2", f"to_{digits}_digits", "np.cumsum(weights)", rounded)
smoothed = "np.cumsum(np.maximum(weights, 1e-3 * np.max(weights)) * (np.array(weights) > 0))"
ANSWERS.changed("01.2", "a_per_mille_at_least", "np.cumsum(weights)", smoothed)
ANSWERS.changed("01.2", "per_cents", "np.cumsum(weights)", "np.cumsum(np.clip(weights, 0, 100))")


@ANSWERS.wrong("01.2", "falls_off_the_line")
def dart_without_the_total(weights, u):
    for token, end in enumerate(np.cumsum(weights)):
        if end > u:
            return token
    return None


@ANSWERS.wrong("01.3", "overflows_in_the_softmax")
def softmax_as_it_is(logits, tokens):
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return sum(np.log(p[i, token]) for i, token in enumerate(tokens[1:]))
