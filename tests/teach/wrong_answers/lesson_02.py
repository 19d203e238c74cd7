"""Answers to the exercises of lesson 02, as students write them: right ones and wrong ones."""

import lablib  # noqa: F401 (before mlx)

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

# ------------------------------------------------------------------ 02.1, 02.4 counting


def simulated(prompt, new, first_step=0, read_last=False, swapped=False):
    without = with_cache = 0
    for step in range(first_step, new + first_step):
        without += prompt + step
        with_cache += prompt if step == first_step else 1
    counts = without, with_cache + read_last
    return counts[::-1] if swapped else counts


# ------------------------------------------------------------------ 02.2 one step


def soft(scores):
    weights = np.exp(scores - np.max(scores))
    return weights / weights.sum()


def step(weigh=soft, scale=np.sqrt, front=False, give=lambda out, k, v: (out, k, v)):
    """Return an answer to 02.2 with one of its parts replaced."""

    def attend(query, key, value, keys, values):
        pair = (key[None], keys) if front else (keys, key[None])
        keys = np.concatenate(pair)
        values = np.concatenate((value[None], values) if front else (values, value[None]))
        return give(weigh(keys @ query / scale(len(query))) @ values, keys, values)

    return attend


def in_mlx(query, key, value, keys, values):
    query, key, value, keys, values = map(mx.array, (query, key, value, keys, values))
    keys, values = mx.concatenate([keys, key[None]]), mx.concatenate([values, value[None]])
    return mx.softmax(keys @ query / len(query) ** 0.5) @ values, keys, values


def by_mlx_attention(query, key, value, keys, values):
    keys, values = np.vstack([keys, key]), np.vstack([values, value])
    q, k, v = (mx.array(x.reshape(1, 1, -1, len(query)), mx.float32) for x in (query, keys, values))
    output = mx.fast.scaled_dot_product_attention(q, k, v, scale=len(query) ** -0.5)
    return [output.reshape(-1), keys, values]


def in_lists(query, key, value, keys, values):
    keys, values = [*keys.tolist(), key.tolist()], [*values.tolist(), value.tolist()]
    weights = soft([sum(map(float.__mul__, k, query)) / len(query) ** 0.5 for k in keys])
    return [sum(weights * [v[i] for v in values]) for i in range(len(value))], keys, values


def looks_first(query, key, value, keys, values):
    scores = keys @ query / np.sqrt(len(query))
    output = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum() @ values
    return output, np.vstack([keys, key]), np.vstack([values, value])


def looks_first_and_divides_by_zero(query, key, value, keys, values):
    weights = np.exp(keys @ query / np.sqrt(len(query)))
    output = weights / weights.sum() @ values
    return output, np.vstack([keys, key]), np.vstack([values, value])


def swaps(query, key, value, keys, values):
    output, keys, values = step()(query, key, value, keys, values)
    return output, values, keys


def remembers_the_query(query, key, value, keys, values):
    return step()(query, query, value, keys, values)


# ------------------------------------------------------------------ 02.3 trim


def each(cut):
    """Return an answer to 02.3 that cuts each array."""
    return lambda layers, n: [(cut(keys, n), cut(values, n)) for keys, values in layers]


def in_place(layers, n):
    for i, (keys, values) in enumerate(layers):
        layers[i] = (keys[: len(keys) - n], values[: len(values) - n])
    return layers


def pops_the_layers(layers, n):
    shorter = []
    while layers:
        keys, values = layers.pop(0)
        shorter.append((keys[: len(keys) - n], values[: len(values) - n]))
    return shorter


def zeroes(array, n):
    array = array.copy()
    array[len(array) - n :] = 0
    return array


RIGHT = [
    ("02.1", simulated),
    ("02.1", lambda p, n: [np.int64(n * (2 * p + n - 1) // 2), np.int64(p + n - 1)]),
    ("02.1", lambda p, n: mx.array([sum(range(p, p + n)), p + n - 1])),
    ("02.1", lambda p, n: (n * p + n * (n - 1) / 2, p + n - 1.0)),
    ("02.1", lambda p, n: (np.arange(p, p + n).sum(), len(range(1, p + n)))),
    ("02.2", step()),
    ("02.2", in_mlx),
    ("02.2", by_mlx_attention),
    ("02.2", in_lists),
    ("02.3", each(lambda a, n: a[: len(a) - n])),
    ("02.3", each(lambda a, n: a[:-n] if n else a)),
    ("02.3", each(lambda a, n: a[: -n or None].copy())),
    ("02.3", each(lambda a, n: mx.array(a)[: len(a) - n])),
    ("02.3", lambda cache, n: [[p[: len(p) - n] for p in layer] for layer in cache]),
    ("02.3", lambda cache, n: tuple(np.stack(layer)[:, : len(layer[0]) - n] for layer in cache)),
    ("02.4", lambda *sizes: 2 * int(np.prod(sizes))),
    ("02.4", lambda la, h, d, t, b: np.float64(la * h * d * t * b + la * h * d * t * b)),
    ("02.4", lambda la, h, d, t, b: np.zeros((2, la, 1)).size * h * d * b * t),
    ("02.4", lambda la, h, d, t, b: sum(2 * h * d * b for _ in range(la)) * t),
]
WRONG = [
    ("02.1", "reads_the_last_token", lambda p, n: simulated(p, n, read_last=True)),
    ("02.1", "one_token_too_late", lambda p, n: simulated(p, n, first_step=1)),
    ("02.1", "one_too_late_in_both", lambda p, n: simulated(p, n, 1, read_last=True)),
    ("02.1", "turned_round", lambda p, n: simulated(p, n, swapped=True)),
    ("02.1", "whole_text_each_time", lambda p, n: ((p + n) * n, p + n - 1)),
    ("02.1", "prompt_again_each_time", lambda p, n: (simulated(p, n)[0], p * n + n - 1)),
    ("02.1", "only_what_is_written", lambda p, n: (simulated(p, n)[0], n)),
    ("02.1", None, lambda p, n: (p * n, p + n - 1)),
    ("02.1", None, lambda p, n: simulated(p, n)[0]),
    ("02.1", None, lambda p, n: (simulated(p, n)[0] + n, p + n + 1)),
    ("02.1", None, lambda p, n: ((p + n) * (p + n - 1) // 2, p + n - 1)),
    ("02.1", None, lambda p, n: (simulated(p, n)[0] + (n > 1000), p + n - 1)),
    ("02.1", None, lambda p, n: (simulated(p, n - 1)[0], p + n - 1)),
    ("02.2", "looks_before_remembering", looks_first),
    ("02.2", "looks_before_remembering", looks_first_and_divides_by_zero),
    ("02.2", "no_scale", step(scale=lambda d: 1)),
    ("02.2", "divides_by_d", step(scale=lambda d: d)),
    ("02.2", "overflows", step(weigh=lambda s: np.exp(s) / np.exp(s).sum())),
    ("02.2", "no_softmax", step(weigh=lambda s: s)),
    ("02.2", "not_normalised", step(weigh=np.exp)),
    ("02.2", "equal_weights", step(weigh=lambda s: np.full(len(s), 1 / len(s)))),
    ("02.2", "best_only", step(weigh=lambda s: np.eye(len(s))[s.argmax()])),
    ("02.2", "remembers_in_front", step(front=True)),
    ("02.2", None, step(give=lambda out, k, v: (out, k[:-1], v[:-1]))),
    ("02.2", None, step(give=lambda out, k, v: out)),
    ("02.2", None, step(give=lambda out, k, v: (out[None], k, v))),
    ("02.2", None, step(weigh=lambda s: np.exp(s - s.max()) / np.exp(s - s.max()).max())),
    ("02.2", None, step(weigh=lambda s: soft(-s))),
    ("02.2", None, step(scale=lambda d: np.sqrt(2))),
    ("02.2", None, swaps),
    ("02.2", None, remembers_the_query),
    ("02.3", "changes_the_old_one", in_place),
    ("02.3", "changes_the_old_one", pops_the_layers),
    ("02.3", "minus_zero", each(lambda a, n: a[:-n])),
    ("02.3", "from_the_front", each(lambda a, n: a[n:])),
    ("02.3", "keeps_n", each(lambda a, n: a[:n])),
    ("02.3", "forgets_layers", lambda cache, n: cache[: len(cache) - n]),
    ("02.3", "keys_only", lambda cache, n: [(k[: len(k) - n], v) for k, v in cache]),
    ("02.3", None, lambda cache, n: [(k, v[: len(v) - n]) for k, v in cache]),
    ("02.3", None, lambda cache, n: [(k[: len(k) - n], k[: len(k) - n]) for k, v in cache]),
    ("02.3", None, lambda cache, n: [(k[: len(cache) - n], v[: len(cache) - n]) for k, v in cache]),
    ("02.3", None, each(zeroes)),
    ("02.3", None, each(lambda a, n: a[: len(a) - n - 1])),
    ("02.3", None, each(lambda a, n: a[: max(len(a) - n, 1)])),
    ("02.3", None, each(lambda a, n: a[: len(a) - n][::-1])),
    ("02.3", None, lambda cache, n: cache),
    ("02.4", "keys_without_values", lambda la, h, d, t, b: la * h * d * t * b),
    ("02.4", "one_layer", lambda la, h, d, t, b: 2 * h * d * t * b),
    ("02.4", "one_head", lambda la, h, d, t, b: 2 * la * d * t * b),
    ("02.4", "counts_numbers", lambda la, h, d, t, b: 2 * la * h * d * t),
    ("02.4", "bytes_as_bits", lambda la, h, d, t, b: 2 * la * h * d * t * b / 8),
    ("02.4", "in_mebibytes", lambda la, h, d, t, b: 2 * la * h * d * t * b / 1024**2),
    ("02.4", "squared_tokens", lambda la, h, d, t, b: 2 * la * h * d * t * t * b),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * t * b),
    ("02.4", None, lambda la, h, d, t, b: 4 * la * h * d * t * b),
    ("02.4", None, lambda la, h, d, t, b: la * (h * d * t * b) ** 2),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * d * t * b + 1000 * (t > 5000)),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * d * max(t, 1) * b),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * d * 256 * -(-t // 256) * b),
]

ANSWERS = Answers(RIGHT, WRONG)
