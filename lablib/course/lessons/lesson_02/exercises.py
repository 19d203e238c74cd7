"""Exercises of lesson 02: what a KV cache saves, holds and forgets."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from lablib.course.checks.comparing import compare
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.running import Watched

import numpy as np

# ------------------------------------------------------------------ 02.1 token-forwards


def token_forwards(prompt, new):
    """Return (without, with_cache): tokens the model reads to write `new` tokens after `prompt`.

    prompt: number of prompt tokens, at least 1.   new: number of tokens to write, at least 1.
    """
    without = sum(prompt + written for written in range(new))
    return without, prompt + new - 1


def token_forwards_closed(prompt, new):
    return new * prompt + new * (new - 1) // 2, prompt + new - 1


def reads_the_last_token(prompt, new):
    return sum(prompt + written for written in range(new)), prompt + new


def one_token_too_late(prompt, new):
    return sum(prompt + written for written in range(1, new + 1)), prompt + new - 1


def one_too_late_in_both(prompt, new):
    return sum(prompt + written for written in range(1, new + 1)), prompt + new


def only_what_is_written(prompt, new):
    return sum(prompt + written for written in range(new)), new


def turned_round(prompt, new):
    return token_forwards(prompt, new)[::-1]


def whole_text_each_time(prompt, new):
    return new * (prompt + new), prompt + new - 1


def prompt_again_each_time(prompt, new):
    return sum(prompt + written for written in range(new)), new * prompt + new - 1


def _lengths(rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    yield 1, 1
    yield 3, 2
    yield 5, 1
    yield 1, 6
    for _ in range(6):
        yield int(rng.integers(1, 50)), int(rng.integers(1, 50))
    yield 2000, 3000


TOKEN_FORWARDS = Exercise(
    id="02.1",
    title="Count the work",
    task=(
        "A model has read nothing yet. It writes `new` tokens after a prompt of `prompt` tokens. "
        "Count the tokens that go through it: without a cache, where each step reads the whole "
        "text so far, and with one, where nothing is read twice. No model is needed."
    ),
    stars=1,
    minutes=5,
    reference=token_forwards,
    alternatives=[token_forwards_closed],
    wrong={
        reads_the_last_token: (
            "with the cache you count one token too many: the last written token is never read, "
            "because nobody asks what comes after it."
        ),
        one_token_too_late: (
            "without a cache you count one token too many at each step: the first step reads the "
            "prompt alone, for nothing has been written yet."
        ),
        one_too_late_in_both: (
            "both counts are one step too late. The first step reads the prompt alone, and the "
            "last written token is never read, because nobody asks what comes after it."
        ),
        only_what_is_written: "with the cache you forget the prefill: the prompt is read once.",
        turned_round: "your two counts are in the other order: first without a cache, then with.",
        whole_text_each_time: (
            "without the cache you read the finished text at every step: at step i only i tokens "
            "have been written yet."
        ),
        prompt_again_each_time: (
            "with the cache you read the prompt at every step: it is read once, in the prefill."
        ),
    },
    cases=_lengths,
    tolerance=0.0,
    hints=[
        "Write down how many tokens each of the first three steps reads, for a prompt of 5.",
        "Without a cache step i reads prompt + i tokens. With one, the first step reads the "
        "prompt and each further step reads one token.",
    ],
    next="For which prompt length is the ratio of the two counts largest, if you write 100 tokens?",
)

# ------------------------------------------------------------------ 02.2 one step of attention


def attend_step(query, key, value, keys, values):
    """Take one decoding step; return (output, keys, values) with the new token remembered.

    query, key, value: the new token's, each of shape (d,).
    keys, values: those of the tokens before it, each of shape (T, d); T may be 0.
    The output has the shape (d,), keys and values now have the shape (T + 1, d).
    """
    keys = np.concatenate([keys, key[None]])
    values = np.concatenate([values, value[None]])
    scores = keys @ query / np.sqrt(len(query))
    weights = np.exp(scores - scores.max())
    weights = weights / weights.sum()
    return weights @ values, keys, values


def attend_step_loop(query, key, value, keys, values):
    keys, values = [*keys, key], [*values, value]
    scores = [float(np.dot(k, query)) / len(query) ** 0.5 for k in keys]
    weights = [np.exp(score - max(scores)) for score in scores]
    output = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    return output, np.array(keys), np.array(values)


def looks_before_remembering(query, key, value, keys, values):
    grown = np.concatenate([keys, key[None]]), np.concatenate([values, value[None]])
    if len(keys) == 0:
        return value, *grown
    return attend_step(query, keys[-1], values[-1], keys[:-1], values[:-1])[0], *grown


def no_scale(query, key, value, keys, values):
    return attend_step(query * np.sqrt(len(query)), key, value, keys, values)


def divides_by_d(query, key, value, keys, values):
    return attend_step(query / np.sqrt(len(query)), key, value, keys, values)


def divides_by_the_tokens(query, key, value, keys, values):
    tokens = len(keys) + 1
    return attend_step(query * np.sqrt(len(query) / tokens), key, value, keys, values)


def no_softmax(query, key, value, keys, values):
    _, keys, values = attend_step(query, key, value, keys, values)
    return keys @ query / np.sqrt(len(query)) @ values, keys, values


def not_normalised(query, key, value, keys, values):
    _, keys, values = attend_step(query, key, value, keys, values)
    return np.exp(keys @ query / np.sqrt(len(query))) @ values, keys, values


def equal_weights(query, key, value, keys, values):
    return attend_step(query * 0, key, value, keys, values)


def best_only(query, key, value, keys, values):
    return attend_step(query * 1e6, key, value, keys, values)


def remembers_in_front(query, key, value, keys, values):
    output = attend_step(query, key, value, keys, values)[0]
    return output, np.concatenate([key[None], keys]), np.concatenate([value[None], values])


def overflows(query, key, value, keys, values):
    _, keys, values = attend_step(query, key, value, keys, values)
    weights = np.exp(keys @ query / np.sqrt(len(query)))
    return weights / weights.sum() @ values, keys, values


def forgets_the_new_token(query, key, value, keys, values):
    return attend_step(query, key, value, keys, values)[0], keys, values


def weighs_the_keys(query, key, value, keys, values):
    _, all_keys, all_values = attend_step(query, key, value, keys, values)
    return attend_step(query, key, key, keys, keys)[0], all_keys, all_values


def _steps(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, ...]]:
    for tokens, width in ((1, 2), (3, 2), (5, 4), (3, 3), (40, 8)):
        yield (*rng.normal(size=(3, width)), *rng.normal(size=(2, tokens, width)))


def _first_token_and_large_scores(function: Callable[..., object]) -> None:
    rng = np.random.default_rng(2)
    first = (*rng.normal(size=(3, 3)), *np.zeros((2, 0, 3)))
    ones = np.ones(4)  # scores of 2,000 and 1,999, which float32 holds exactly
    large = (1000 * ones, ones, ones, np.diag([1.0, 2.0, 3.998, 3.0]), rng.normal(size=(4, 4)))
    for case in (first, large, (-large[0], *large[1:])):
        compare(replace(ATTEND_STEP, cases=lambda _, case=case: [case]), function)


ATTEND_STEP = Exercise(
    id="02.2",
    title="One step with a cache",
    task=(
        "Write the attention of one new token. It remembers its own key and value first, then "
        "looks at everything remembered: `softmax(keys · query / √d)` weighs the values. The first "
        "token of a text finds nothing remembered. Scores may be large."
    ),
    stars=2,
    minutes=12,
    reference=attend_step,
    alternatives=[attend_step_loop],
    wrong={
        looks_before_remembering: (
            "the new token does not see itself: append its key and value before you look."
        ),
        no_scale: "the scores are not divided by √d, so the softmax is too sharp.",
        divides_by_d: "you divide by d; wanted is its square root.",
        divides_by_the_tokens: (
            "d is the length of the query, not the number of tokens: divide by √d."
        ),
        no_softmax: "the scores are no weights yet: put them through a softmax.",
        not_normalised: "the weights don't sum to 1: divide the exponentials by their sum.",
        equal_weights: "you take the mean of all values. The scores say which ones count more.",
        best_only: "you take the best value alone; a softmax mixes all of them.",
        remembers_in_front: (
            "the output is right, but the new token is in front: it came last, so append it."
        ),
        overflows: (
            "right for small scores, but e to a large one overflows: subtract the largest score "
            "before the exponential (exercise 01.1)."
        ),
        forgets_the_new_token: (
            "the output is right, but you return the old keys and values: the next step would "
            "miss this token."
        ),
        weighs_the_keys: "the weights belong on the values; you weighed the keys.",
    },
    cases=_steps,
    checker=_first_token_and_large_scores,
    hints=[
        "Three lines: append, score, weigh. key[None] has the shape (1, d).",
        "scores = keys @ query / np.sqrt(len(query)), then a softmax that survives large scores, "
        "then weights @ values.",
    ],
    next="Which line has a cost that grows with T? Which one more would, without the cache?",
)

# ------------------------------------------------------------------ 02.3 trim


def trim_cache(layers, n):
    """Forget the last n tokens; return the shorter cache, the old one unchanged.

    layers: a list with one (keys, values) pair for each layer, each of shape (T, d).
    n: how many tokens to forget, from 0 to T, both included.
    """
    keep = len(layers[0][0]) - n
    return [(keys[:keep], values[:keep]) for keys, values in layers]


def trim_cache_by_deleting(layers, n):
    last = np.arange(len(layers[0][0]) - n, len(layers[0][0]))
    return [tuple(np.delete(part, last, axis=0) for part in layer) for layer in layers]


def first_layer_only(layers, n):
    return trim_cache(layers[:1], n) + [tuple(layer) for layer in layers[1:]]


def minus_zero(layers, n):
    return [(keys[:-n], values[:-n]) for keys, values in layers]


def from_the_front(layers, n):
    return [(keys[n:], values[n:]) for keys, values in layers]


def changes_the_old_one(layers, n):
    keep = len(layers[0][0]) - n
    for i, (keys, values) in enumerate(layers):
        layers[i] = keys[:keep], values[:keep]
    return layers


def keeps_n(layers, n):
    return [(keys[:n], values[:n]) for keys, values in layers]


def forgets_layers(layers, n):
    return [tuple(layer) for layer in layers[: len(layers) - n]]


def forgets_numbers(layers, n):
    return [tuple(part[:, : max(part.shape[1] - n, 0)] for part in layer) for layer in layers]


def keys_only(layers, n):
    return [(keys[: len(keys) - n], values) for keys, values in layers]


def _caches(rng: np.random.Generator) -> Iterator[tuple[list[tuple[np.ndarray, ...]], int]]:
    for n_layers, tokens, n in ((1, 2, 1), (2, 3, 0), (2, 4, 3), (3, 5, 5), (4, 60, 17), (2, 1, 1)):
        yield [tuple(rng.normal(size=(2, tokens, 2))) for _ in range(n_layers)], n


def _old_one_unchanged(function: Watched) -> None:
    if function.changed:
        raise Wrong("its answers are right, but look at the old cache.", like="changes_the_old_one")


TRIM = Exercise(
    id="02.3",
    title="Take tokens back",
    task=(
        "A draft was wrong, or a student changed their mind: the last `n` tokens must go, as if "
        "they had never been read. Return the shorter cache. The old one must stay as it is: "
        "somebody may go on from there. `n` may be 0, and it may be all of them."
    ),
    stars=2,
    minutes=8,
    reference=trim_cache,
    alternatives=[trim_cache_by_deleting],
    wrong={
        first_layer_only: (
            "only the first layer forgets; the others still hold the tokens. (A real library "
            "shipped this bug: the text stays fluent and is wrong.)"
        ),
        minus_zero: "with n = 0 everything is gone: [:-0] is [:0].",
        from_the_front: "you forget the first n tokens; the newest must go.",
        keys_only: "the keys are shorter, the values are not: both must forget.",
        changes_the_old_one: (
            "the list that you were given is shorter, too. Whoever kept it (for another ending, "
            "say) has lost tokens: build a new list."
        ),
        keeps_n: "you keep n tokens; n is how many to forget.",
        forgets_layers: "you drop layers; every layer stays, each with fewer tokens.",
        forgets_numbers: "tokens are the rows: you shorten the axis of the numbers.",
    },
    cases=_caches,
    checker=_old_one_unchanged,
    hints=[
        "Say which tokens stay, not which go: the first T - n.",
        "A new list with the pair keys[:T - n], values[:T - n] for every layer.",
    ],
    next="What would a recurrent layer need in order to take a token back? (Lessons to come.)",
)

# ------------------------------------------------------------------ 02.4 memory


def cache_bytes(layers, kv_heads, head_dim, tokens, bytes_per_number):
    """Return the bytes (a whole number) that a KV cache of `tokens` tokens takes."""
    return 2 * layers * kv_heads * head_dim * tokens * bytes_per_number


def cache_bytes_by_parts(layers, kv_heads, head_dim, tokens, bytes_per_number):
    one_key = kv_heads * head_dim * bytes_per_number
    return sum(one_key + one_key for _ in range(layers)) * tokens


def keys_without_values(layers, kv_heads, head_dim, tokens, bytes_per_number):
    return layers * kv_heads * head_dim * tokens * bytes_per_number


def one_layer(layers, kv_heads, head_dim, tokens, bytes_per_number):
    return 2 * kv_heads * head_dim * tokens * bytes_per_number


def one_head(layers, kv_heads, head_dim, tokens, bytes_per_number):
    return 2 * layers * head_dim * tokens * bytes_per_number


def counts_numbers(layers, kv_heads, head_dim, tokens, bytes_per_number):
    return 2 * layers * kv_heads * head_dim * tokens


def bytes_as_bits(layers, kv_heads, head_dim, tokens, bytes_per_number):
    return 2 * layers * kv_heads * head_dim * tokens * bytes_per_number / 8


def in_mebibytes(layers, kv_heads, head_dim, tokens, bytes_per_number):
    return 2 * layers * kv_heads * head_dim * tokens * bytes_per_number / 2**20


def squared_tokens(layers, kv_heads, head_dim, tokens, bytes_per_number):
    return 2 * layers * kv_heads * head_dim * tokens**2 * bytes_per_number


def _shapes(rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    yield 2, 1, 4, 3, 2
    yield 32, 8, 128, 8192, 2
    yield 1, 1, 1, 1, 1
    yield 3, 1, 5, 0, 4
    for _ in range(4):
        yield tuple(int(n) for n in rng.integers(2, 40, size=5))


CACHE_BYTES = Exercise(
    id="02.4",
    title="How much memory?",
    task=(
        "How many bytes does a cache take? Each layer keeps a key and a value of `head_dim` "
        "numbers for every token and every key/value head."
    ),
    stars=1,
    minutes=4,
    reference=cache_bytes,
    alternatives=[cache_bytes_by_parts],
    wrong={
        keys_without_values: "half is missing: a token leaves a key and a value.",
        one_layer: "that is one layer: each layer keeps its own keys and values.",
        one_head: "that is one head: each key/value head keeps its own.",
        counts_numbers: "those are numbers; each takes bytes_per_number bytes.",
        bytes_as_bits: "bytes_per_number is in bytes already: nothing is to be divided by 8.",
        in_mebibytes: "that is in MiB; wanted are bytes.",
        squared_tokens: (
            "the cache grows with the number of tokens, not with its square: the scores are "
            "squared, and nobody keeps those."
        ),
    },
    cases=_shapes,
    tolerance=0.0,
    hints=["Count the numbers first, then multiply by the bytes of one."],
    next="An 8-billion model has 32 layers, 8 such heads of 128: how long a text fits in 1 GiB?",
)
