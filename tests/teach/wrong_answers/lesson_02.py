"""Answers to the exercises of lesson 02, as students write them: right ones and wrong ones."""

import math

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


def by_recursion(prompt, new):
    if new == 1:
        return prompt, prompt
    without, with_cache = by_recursion(prompt, new - 1)
    return without + prompt + new - 1, with_cache + 1


# ------------------------------------------------------------------ 02.2 one step


def soft(scores):
    weights = np.exp(scores - np.max(scores))
    return weights / weights.sum()


def largest_of_the_old(scores):
    """Return the weights, less the largest of the scores that were there before."""
    weights = np.exp(scores - np.max(scores[:-1], initial=scores[0]))
    return weights / weights.sum()


def step(weigh=soft, scale=np.sqrt, front=False, give=lambda out, k, v: (out, k, v)):
    """Return an answer to 02.2 with one of its parts replaced."""

    def attend(x, to_query, to_key, to_value, keys, values):
        key, value = (x @ to_key)[None], (x @ to_value)[None]
        keys = np.concatenate((key, keys) if front else (keys, key))
        values = np.concatenate((value, values) if front else (values, value))
        return give(weigh(keys @ (x @ to_query) / scale(len(key[0]))) @ values, keys, values)

    return attend


def in_mlx(*arrays):
    x, to_query, to_key, to_value, keys, values = (mx.array(a, mx.float32) for a in arrays)
    keys = mx.concatenate([keys, (x @ to_key)[None]])
    values = mx.concatenate([values, (x @ to_value)[None]])
    return mx.softmax(keys @ (x @ to_query) / keys.shape[1] ** 0.5) @ values, keys, values


def by_mlx_attention(x, to_query, to_key, to_value, keys, values):
    keys, values, d = (
        np.vstack([keys, x @ to_key]),
        np.vstack([values, x @ to_value]),
        len(to_key[0]),
    )
    parts = (x @ to_query, keys, values)
    q, k, v = (mx.array(part.reshape(1, 1, -1, d), mx.float32) for part in parts)
    output = mx.fast.scaled_dot_product_attention(q, k, v, scale=d**-0.5)
    return [output.reshape(-1), keys, values]


def in_lists(x, to_query, to_key, to_value, keys, values):
    def through(matrix):
        return [
            sum(a * b for a, b in zip(x, column, strict=True))
            for column in zip(*matrix, strict=True)
        ]

    query = through(to_query)
    keys, values = [*keys.tolist(), through(to_key)], [*values.tolist(), through(to_value)]
    weights = soft([sum(map(float.__mul__, k, query)) / len(query) ** 0.5 for k in keys])
    return [sum(weights * [v[i] for v in values]) for i in range(len(values[0]))], keys, values


def by_einsum(x, to_query, to_key, to_value, keys, values):
    query, key, value = np.einsum("m,nmd->nd", x, np.stack([to_query, to_key, to_value]))
    keys, values = np.append(keys, key[None], axis=0), np.append(values, value[None], axis=0)
    return soft((keys * query).sum(axis=1) / np.sqrt(query.size)) @ values, keys, values


def looks_first(x, to_query, to_key, to_value, keys, values):
    weights = soft(keys @ (x @ to_query) / np.sqrt(len(to_key[0])))
    return weights @ values, np.vstack([keys, x @ to_key]), np.vstack([values, x @ to_value])


def looks_first_and_divides_by_zero(x, to_query, to_key, to_value, keys, values):
    weights = np.exp(keys @ (x @ to_query) / np.sqrt(len(to_key[0])))
    output = weights / weights.sum() @ values
    return output, np.vstack([keys, x @ to_key]), np.vstack([values, x @ to_value])


def swaps(*given):
    output, keys, values = step()(*given)
    return output, values, keys


def keeps_weighted_values(*given):
    output, keys, values = step()(*given)
    return output, keys, np.vstack([values[:-1], output])


# ------------------------------------------------------------------ 02.3 trim


def remembers_what_is_new(x, to_query, to_key, to_value, keys, values):
    if (keys == x @ to_key).all(axis=1).any():
        return soft(keys @ (x @ to_query) / np.sqrt(keys.shape[1])) @ values, keys, values
    return step()(x, to_query, to_key, to_value, keys, values)


def each(cut):
    """Return an answer to 02.3 that cuts each array."""
    return lambda layers, n: [(cut(keys, n), cut(values, n)) for keys, values in layers]


def one_list_for_all_drafts(layers, n, kept=[]):  # noqa: B006
    kept[:] = [(k[: len(k) - n], v[: len(v) - n]) for k, v in layers]
    return kept


def one_from_each_layer_further_up(layers, n):
    forget = [n if i < n else min(n, 1) for i in range(len(layers))]
    return [(k[: len(k) - m], v[: len(v) - m]) for m, (k, v) in zip(forget, layers, strict=True)]


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


def zeroes_the_old_tail(layers, n):
    shorter = each(lambda a, n: a[: len(a) - n].copy())(layers, n)
    for part in (part for layer in layers for part in layer):
        part[len(part) - n :] = 0
    return shorter


RIGHT = [
    ("02.1", simulated),
    ("02.1", lambda p, n: [np.int64(n * (2 * p + n - 1) // 2), np.int64(p + n - 1)]),
    ("02.1", lambda p, n: mx.array([sum(range(p, p + n)), p + n - 1])),
    ("02.1", lambda p, n: (n * p + n * (n - 1) / 2, p + n - 1.0)),
    ("02.1", lambda p, n: (np.arange(p, p + n).sum(), len(range(1, p + n)))),
    ("02.1", by_recursion),
    ("02.2", step()),
    ("02.2", in_mlx),
    ("02.2", by_mlx_attention),
    ("02.2", in_lists),
    ("02.2", by_einsum),
    ("02.3", each(lambda a, n: a[: len(a) - n])),
    ("02.3", each(lambda a, n: a[:-n] if n else a)),
    ("02.3", each(lambda a, n: a[: -n or None].copy())),
    ("02.3", each(lambda a, n: mx.array(a)[: len(a) - n])),
    ("02.3", lambda cache, n: [[p[: len(p) - n] for p in layer] for layer in cache]),
    ("02.3", lambda cache, n: tuple(np.stack(layer)[:, : len(layer[0]) - n] for layer in cache)),
    ("02.4", lambda *sizes: int(2 * np.prod(sizes))),
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
    ("02.1", "prompt_only_each_time", lambda p, n: (p * n, p + n - 1)),
    ("02.1", "stores_the_answers", lambda p, n: (simulated(p, n)[0], p)),
    ("02.1", "one_step_too_many", lambda p, n: (sum(p + i for i in range(n + 1)), p + n - 1)),
    ("02.1", None, lambda p, n: simulated(p, n)[0]),
    ("02.1", None, lambda p, n: (simulated(p, n)[0] + n, p + n + 1)),
    ("02.1", None, lambda p, n: ((p + n) * (p + n - 1) // 2, p + n - 1)),
    ("02.1", None, lambda p, n: (simulated(p, n)[0] + (n > 100), p + n - 1)),
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
    ("02.2", None, step(weigh=lambda s: np.exp(s - s.mean()) / np.exp(s - s.mean()).sum())),
    ("02.2", None, step(weigh=lambda s: np.exp(s - s[-1]) / np.exp(s - s[-1]).sum())),
    ("02.2", None, step(weigh=lambda s: soft(np.clip(s, -30, 30)))),
    ("02.2", None, step(weigh=lambda s: soft(np.clip(s - s[-1], -700, 700)))),
    ("02.2", None, step(weigh=largest_of_the_old)),
    ("02.2", "always_root_2", step(scale=lambda d: np.sqrt(2))),
    ("02.2", None, step(scale=lambda d: d**2)),
    ("02.2", None, step(weigh=lambda s: s / s.sum())),
    ("02.2", None, swaps),
    ("02.2", None, keeps_weighted_values),
    ("02.3", "changes_the_old_one", in_place),
    ("02.3", "changes_the_old_one", pops_the_layers),
    ("02.3", "minus_zero", each(lambda a, n: a[:-n])),
    ("02.3", "from_the_front", each(lambda a, n: a[n:])),
    ("02.3", "keeps_n", each(lambda a, n: a[:n])),
    ("02.3", "forgets_layers", lambda cache, n: cache[: len(cache) - n]),
    ("02.3", "keys_only", lambda cache, n: [(k[: len(k) - n], v) for k, v in cache]),
    ("02.3", "changes_the_old_one", zeroes_the_old_tail),
    ("02.3", "values_only", lambda cache, n: [(k, v[: len(v) - n]) for k, v in cache]),
    ("02.3", "keys_twice", lambda cache, n: [(k[: len(k) - n],) * 2 for k, v in cache]),
    ("02.3", None, lambda cache, n: [(k[: len(cache) - n], v[: len(cache) - n]) for k, v in cache]),
    ("02.3", None, each(zeroes)),
    ("02.3", None, each(lambda a, n: a[: len(a) - n or None])),
    ("02.3", None, each(lambda a, n: a[: len(a) - min(n, 1)])),
    ("02.3", None, each(lambda a, n: a[::-1][n:])),
    ("02.3", None, lambda cache, n: each(lambda a, n: a[: len(a) - n // len(cache)])(cache, n)),
    ("02.3", None, each(lambda a, n: a[: len(a) - n - 1])),
    ("02.3", None, each(lambda a, n: a[: max(len(a) - n, 1)])),
    ("02.3", None, each(lambda a, n: a[: len(a) - n][::-1])),
    ("02.3", None, each(lambda a, n: a[: int(len(a) * (1 - n / len(a)))])),
    ("02.3", None, lambda cache, n: cache),
    ("02.4", "keys_without_values", lambda la, h, d, t, b: la * h * d * t * b),
    ("02.4", "whole_keys_without_values", lambda la, h, d, t, b: int(la * h * d * t * b)),
    ("02.4", "one_layer", lambda la, h, d, t, b: 2 * h * d * t * b),
    ("02.4", "one_head", lambda la, h, d, t, b: 2 * la * d * t * b),
    ("02.4", "counts_numbers", lambda la, h, d, t, b: 2 * la * h * d * t),
    ("02.4", "bytes_as_bits", lambda la, h, d, t, b: 2 * la * h * d * t * b / 8),
    ("02.4", "in_mebibytes", lambda la, h, d, t, b: 2 * la * h * d * t * b / 1024**2),
    ("02.4", "squared_tokens", lambda la, h, d, t, b: 2 * la * h * d * t * t * b),
    ("02.4", "one_number_a_key", lambda la, h, d, t, b: 2 * la * h * t * b),
    ("02.4", None, lambda la, h, d, t, b: 4 * la * h * d * t * b),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * d * t * int(b)),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * d * t * max(1, round(b))),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * d * t * b % 2**31),
    ("02.4", None, lambda la, h, d, t, b: la * (h * d * t * b) ** 2),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * d * t * b + 1000 * (t > 5000)),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * d * max(t, 1) * b),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * t * math.ceil(d * b)),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * t * int(d * b)),
    ("02.4", None, lambda la, h, d, t, b: la * h * d * t * math.ceil(2 * b)),
    ("02.4", None, lambda la, h, d, t, b: la * h * t * math.ceil(2 * d * b)),
    ("02.4", None, lambda la, h, d, t, b: la * math.ceil(2 * h * d * t * b)),
    ("02.4", None, lambda *sizes: 2 * int(np.prod(sizes))),
    ("02.4", None, lambda la, h, d, t, b: 2 * la * h * d * t / max(1, int(1 / b)) * max(1, b)),
    ("02.4", "room_for_256", lambda la, h, d, t, b: 2 * la * h * d * 256 * -(-t // 256) * b),
    ("02.2", None, remembers_what_is_new),
    ("02.3", None, lambda cache, n: each(lambda a, n: a[: len(a) - n])(cache[:4], n)),
    ("02.3", None, each(lambda a, n: a[: len(a) - n, :3])),
    ("02.3", None, one_from_each_layer_further_up),
    ("02.3", None, one_list_for_all_drafts),
    ("02.1", None, lambda p, n: (simulated(p, n)[0], p + n - 1 - (p == n > 1))),
    ("02.1", None, lambda p, n: (sum(min(p + i, 4096) for i in range(n)), p + n - 1)),
]

ANSWERS = Answers(RIGHT, WRONG)


@ANSWERS.wrong("02.2", "appends_flat")
def appends_numbers(x, to_query, to_key, to_value, keys, values):
    keys = np.append(keys, x @ to_key)
    values = np.append(values, x @ to_value)
    scores = keys @ (x @ to_query) / np.sqrt(to_key.shape[1])
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values, keys, values


@ANSWERS.wrong("02.2", "looks_before_remembering")
def looks_and_then_appends(x, to_query, to_key, to_value, keys, values):
    scores = keys @ (x @ to_query) / np.sqrt(to_key.shape[1])
    weights = np.exp(scores - scores.max())
    output = weights / weights.sum() @ values
    return output, np.vstack([keys, x @ to_key]), np.vstack([values, x @ to_value])
