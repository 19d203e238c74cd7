"""Exercises of lesson 02: what a KV cache saves, holds and forgets."""

from collections.abc import Iterator

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.running import Watched
from lablib.course.lessons.edges import further

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


def _lengths(rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    yield 1, 1
    yield 3, 2
    yield 5, 1
    yield 1, 6
    yield 4, 4  # as long as the prompt is nothing special
    for _ in range(6):
        yield int(rng.integers(1, 50)), int(rng.integers(1, 50))
    yield 5000, 2  # no window
    yield 200, 300  # and not more, for a recursion is right, too


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
        changed(token_forwards, "reads_the_last_token", "new - 1", "new"): (
            "with the cache you count one token too many: the last written token is never read, "
            "because nobody asks what comes after it."
        ),
        changed(token_forwards, "one_token_too_late", "range(new)", "range(1, new + 1)"): (
            "without a cache you count one token too many at each step: the first step reads the "
            "prompt alone, for nothing has been written yet."
        ),
        changed(token_forwards, "one_step_too_many", "range(new)", "range(new + 1)"): (
            "without a cache you count one step too many: `new` tokens take `new` steps."
        ),
        changed(
            token_forwards,
            "one_too_late_in_both",
            "without, prompt + new - 1",
            "without + new, prompt + new",
        ): (
            "both counts are one step too late. The first step reads the prompt alone, and the "
            "last written token is never read, because nobody asks what comes after it."
        ),
        changed(token_forwards, "only_what_is_written", "prompt + new - 1", "new"): (
            "with the cache you forget the prefill: the prompt is read once."
        ),
        changed(token_forwards, "stores_the_answers", "prompt + new - 1", "prompt"): (
            "with the cache you count the prompt only. It stores no answers: each written token "
            "but the last is read, too."
        ),
        changed(
            token_forwards, "turned_round", "without, prompt + new - 1", "prompt + new - 1, without"
        ): "your two counts are in the other order: first without a cache, then with.",
        changed(token_forwards, "whole_text_each_time", "prompt + written", "prompt + new"): (
            "without the cache you read the finished text at every step: at step i only i tokens "
            "have been written yet."
        ),
        changed(token_forwards, "prompt_only_each_time", "prompt + written", "prompt"): (
            "without the cache you read the prompt at every step, but not what has been written."
        ),
        changed(
            token_forwards,
            "prompt_again_each_time",
            "prompt + new - 1",
            "new * prompt + new - 1",
        ): "with the cache you read the prompt at every step: it is read once, in the prefill.",
    },
    cases=_lengths,
    tolerance=0.0,
    hints=[
        "Write down how many tokens each of the first three steps reads, for a prompt of 5.",
        "Without a cache a step reads what the one before it read, and one token more. With one, "
        "the first step reads the prompt: what does each further step read?",
    ],
    next="For which prompt length is the ratio of the two counts largest, if you write 100 tokens?",
)

# ------------------------------------------------------------------ 02.2 one step of attention


def attend_step(x, to_query, to_key, to_value, keys, values):
    """Let one new token attend; return (output, keys, values) with the new token remembered.

    x: the new token's embedding, shape (m,).
    to_query, to_key, to_value: the layer's matrices, each of shape (m, d).
    keys, values: those of the tokens before it, each of shape (T, d); T may be 0.
    The output has the shape (d,), keys and values now have the shape (T + 1, d).
    """
    keys = np.concatenate([keys, [x @ to_key]])
    values = np.concatenate([values, [x @ to_value]])
    scores = keys @ (x @ to_query) / np.sqrt(keys.shape[1])
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values, keys, values


def attend_step_loop(x, to_query, to_key, to_value, keys, values):
    query = x @ to_query
    keys, values = [*keys, x @ to_key], [*values, x @ to_value]
    scores = [float(np.dot(key, query)) / len(query) ** 0.5 for key in keys]
    weights = [np.exp(score - max(scores)) for score in scores]
    output = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    return output, np.array(keys), np.array(values)


def appends_flat(x, to_query, to_key, to_value, keys, values):
    keys, values = np.append(keys, x @ to_key), np.append(values, x @ to_value)
    weights = np.exp(keys @ (x @ to_query) / np.sqrt(len(to_key[0])))
    return weights / weights.sum() @ values, keys, values


def _steps(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield steps in which tokens, numbers of an embedding and numbers of a key are not equal."""
    small = np.array(
        [[[1.0, -1.0], [1.0, 0.0]], [[0.0, 1.0], [2.0, 0.0]], [[1.0, 0.0], [1.0, 1.0]]]
    )
    yield np.array([1.0, 1.0]), *small, small[1], small[2]  # the lesson's third token
    one = np.ones((1, 1))  # a token that was there already is remembered once more
    yield one[0], one, one, one, one, one
    for width, size, tokens in ((2, 3, 1), (3, 2, 1), (2, 2, 4), (4, 3, 2), (6, 8, 40)):
        matrices, kept = (
            rng.integers(-2, 3, size=(n, rows, size)) / 2 for n, rows in ((3, width), (2, tokens))
        )
        yield rng.choice([-1.0, 0.5, 2.0], size=width), *matrices, *kept


def _first_token_and_large_scores() -> list[list[tuple[np.ndarray, ...]]]:
    rng = np.random.default_rng(2)
    first = (np.array([1.0, 2.0]), *rng.integers(-2, 3, size=(3, 2, 3)), *np.zeros((2, 0, 3)))
    one = np.ones((1, 1))  # scores of 1,999 and 2,000, which float32 holds exactly
    large = [(one[0], s * 1000 * one, 2 * one, one, 1.999 * one, 3 * one) for s in (1, -1)]
    # nor is it enough to take the mean off, or the new one's score and to cut what is left
    old = np.array([[4.0], [5.0]]), np.array([[3.0], [7.0]])
    far = (one[0], 1000 * one, 2 * one, one, *old)
    own = (one[0], 1000 * one, 4 * one, one, 2 * one, 3 * one)  # the largest score is the new one's
    # a name is given only where it fits the other steps, too
    return [[first], [*large, far, own]]


ATTEND_STEP = Exercise(
    id="02.2",
    title="One step with a cache",
    task=(
        "The lesson's `attention` computes the keys and values of all tokens anew. Write the step "
        "that does not: one new token comes, those before it have left their keys and values. It "
        "remembers its own key and value first, then looks at everything remembered: "
        "`softmax(keys · query / √d)` weighs the values. The first token of a text finds nothing "
        "remembered. Scores may be large."
    ),
    stars=2,
    minutes=12,
    reference=attend_step,
    alternatives=[attend_step_loop],
    wrong={
        changed(
            attend_step,
            "looks_before_remembering",
            "    weights = np.exp",
            "    scores[max(1, len(scores) - 1) :] = -np.inf\n    weights = np.exp",
        ): "the new token does not see itself: append its key and value before you look.",
        appends_flat: (
            "np.append makes one long row of all numbers. Wanted is one row more: "
            "np.vstack([keys, new_key]), or np.concatenate([keys, [new_key]])."
        ),
        changed(attend_step, "no_scale", " / np.sqrt(keys.shape[1])", ""): (
            "the scores are not divided by √d, so the softmax is too sharp."
        ),
        changed(attend_step, "divides_by_d", "np.sqrt(keys.shape[1])", "keys.shape[1]"): (
            "you divide by d; wanted is its square root."
        ),
        changed(attend_step, "divides_by_the_tokens", "keys.shape[1]", "len(keys)"): (
            "d is the length of a key, not the number of tokens: divide by √d."
        ),
        changed(attend_step, "divides_by_the_embedding", "keys.shape[1]", "len(x)"): (
            "d is the length of a key, not that of the embedding: divide by √d."
        ),
        changed(attend_step, "always_root_2", "keys.shape[1]", "2"): (
            "√2 belongs to keys of two numbers, as in the lesson; these have d of them."
        ),
        changed(attend_step, "no_softmax", "weights / weights.sum()", "scores"): (
            "the scores are no weights yet: put them through a softmax."
        ),
        changed(attend_step, "not_normalised", "weights / weights.sum()", "np.exp(scores)"): (
            "the weights don't sum to 1: divide the exponentials by their sum."
        ),
        changed(
            attend_step, "equal_weights", "np.exp(scores - scores.max())", "np.ones(len(scores))"
        ): "you take the mean of all values. The scores say which ones count more.",
        changed(
            attend_step,
            "best_only",
            "np.exp(scores - scores.max())",
            "(scores == scores.max()) * 1",
        ): "you take the best value alone; a softmax mixes all of them.",
        changed(
            attend_step,
            "remembers_in_front",
            "@ values, keys, values",
            "@ values, np.roll(keys, 1, axis=0), np.roll(values, 1, axis=0)",
        ): "the output is right, but the new token is in front: it came last, so append it.",
        changed(attend_step, "overflows", "scores - scores.max()", "scores"): (
            "right for small scores, but e to a large one overflows: subtract the largest score "
            "before the exponential (exercise 01.1)."
        ),
        changed(
            attend_step,
            "forgets_the_new_token",
            "@ values, keys, values",
            "@ values, keys[:-1], values[:-1]",
        ): (
            "the output is right, but you return the old keys and values: the next step would "
            "miss this token."
        ),
        changed(attend_step, "weighs_the_keys", "weights.sum() @ values", "weights.sum() @ keys"): (
            "the weights belong on the values; you weighed the keys."
        ),
        changed(attend_step, "remembers_the_embedding", "[x @ to_key]", "[x]"): (
            "you remember the embedding as the key: to_key makes the key from it."
        ),
        changed(attend_step, "remembers_the_query", "[x @ to_key]", "[x @ to_query]"): (
            "you remember the query. A query is asked once; others need the key."
        ),
        changed(attend_step, "value_through_to_key", "[x @ to_value]", "[x @ to_key]"): (
            "your value is the key once more: to_value makes it."
        ),
        changed(attend_step, "asks_with_the_embedding", "(x @ to_query)", "x"): (
            "you compare the keys with the embedding itself: to_query makes the query from it."
        ),
        changed(
            attend_step,
            "makes_keys_of_keys",
            "np.concatenate([keys, [x @ to_key]])",
            "np.concatenate([keys, [x]]) @ to_key",
        ): "what is kept are keys already: only the new token's embedding goes through to_key.",
        changed(
            attend_step,
            "matrix_first",
            "    keys = np",
            "    to_query, to_key, to_value = to_query.T, to_key.T, to_value.T\n    keys = np",
        ): "the embedding stands in front, x @ to_key: a row for each number of x.",
    },
    cases=_steps,
    checker=further(*(lambda _, more=more: more for more in _first_token_and_large_scores())),
    hints=[
        "Append, score, weigh. The new key is x @ to_key; [new_key] has the shape (1, d).",
        "np.concatenate([keys, [new_key]]) appends. Each key has a score, divided by the root "
        "of keys.shape[1]; subtract the largest before the exponential.",
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


def _caches(rng: np.random.Generator) -> Iterator[tuple[list[tuple[np.ndarray, ...]], int]]:
    yield [(np.array([[1.0], [2.0], [3.0]]), np.array([[4.0], [5.0], [6.0]]))], 2
    few = (1, 2, 1), (1, 2, 0), (2, 1, 0), (2, 1, 1)  # these can be pasted as they are printed
    for n_layers, tokens, n in (*few, (2, 3, 0), (2, 5, 4), (3, 4, 2), (3, 5, 5), (6, 60, 17)):
        arrays = np.round(rng.normal(size=(n_layers, 2, tokens, n_layers + 1)), 1)
        yield [tuple(layer) for layer in arrays], n


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
        changed(
            trim_cache,
            "first_layer_only",
            "in layers]",
            "in layers[:1]] + [tuple(layer) for layer in layers[1:]]",
        ): (
            "only the first layer forgets; the others still hold the tokens. (A real library "
            "shipped this bug: the text stays fluent and is wrong.)"
        ),
        changed(trim_cache, "minus_zero", "len(layers[0][0]) - n", "-n"): (
            "with n = 0 everything is gone: [:-0] is [:0]."
        ),
        changed(
            trim_cache, "from_the_front", "keys[:keep], values[:keep]", "keys[n:], values[n:]"
        ): "you forget the first n tokens; the newest must go.",
        changed(trim_cache, "keys_only", "values[:keep]", "values"): (
            "the keys are shorter, the values are not: both must forget."
        ),
        changed(trim_cache, "values_only", "keys[:keep]", "keys"): (
            "the values are shorter, the keys are not: both must forget."
        ),
        changed(trim_cache, "keys_twice", "values[:keep]", "keys[:keep]"): (
            "the values that you return are the keys once more."
        ),
        changed(
            trim_cache,
            "changes_the_old_one",
            "    return [(keys[:keep], values[:keep]) for keys, values in layers]",
            "    layers[:] = [(keys[:keep], values[:keep]) for keys, values in layers]\n"
            "    return layers",
        ): (
            "the cache that you were given is no longer what it was, and whoever kept it (for "
            "another ending, say) has lost tokens: leave it alone and build a new list."
        ),
        changed(trim_cache, "keeps_n", "len(layers[0][0]) - n", "n"): (
            "you keep n tokens; n is how many to forget."
        ),
        changed(
            trim_cache,
            "forgets_layers",
            "[(keys[:keep], values[:keep]) for keys, values in layers]",
            "layers[: len(layers) - n]",
        ): "you drop layers; every layer stays, each with fewer tokens.",
        changed(
            trim_cache,
            "forgets_numbers",
            "(keys[:keep], values[:keep])",
            "tuple(part[:, : max(part.shape[1] - n, 0)] for part in (keys, values))",
        ): "tokens are the rows: you shorten the axis of the numbers.",
    },
    cases=_caches,
    checker=_old_one_unchanged,
    hints=[
        "Say which tokens stay, not which go: the first T - n.",
        "A new list, with a pair for each layer. And try n = 0: what does [:-0] keep?",
    ],
    next="What would a recurrent layer need in order to take a token back? (Lessons to come.)",
)

# ------------------------------------------------------------------ 02.4 memory


def cache_bytes(layers, kv_heads, head_dim, tokens, bytes_per_number):
    """Return the bytes that a KV cache of `tokens` tokens takes.

    bytes_per_number: 4 in float32, 0.5 at 4 bits.
    """
    return 2 * layers * kv_heads * head_dim * tokens * bytes_per_number


def cache_bytes_by_parts(layers, kv_heads, head_dim, tokens, bytes_per_number):
    one_key = kv_heads * head_dim * bytes_per_number
    return sum(one_key + one_key for _ in range(layers)) * tokens


def _shapes(rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    yield 2, 1, 4, 3, 2
    yield 2, 1, 4, 3, 0.5  # 4 bits are half a byte
    yield 1, 1, 3, 1, 0.5  # a key of a byte and a half is not rounded by itself
    yield 1, 1, 1, 2, 0.25  # nor is what a token leaves, at 2 bits a number
    yield 2, 1, 1, 1, 0.25  # nor what a layer keeps
    yield 2, 1, 4, 1, 0.625  # 4 bits, and one for the scale and the offset: no whole part of 1
    yield 32, 8, 128, 122_000, 2  # more than 32 bits can count
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
        changed(cache_bytes, "keys_without_values", "2 * ", ""): (
            "half is missing: a token leaves a key and a value."
        ),
        changed(
            cache_bytes,
            "whole_keys_without_values",
            "2 * layers * kv_heads * head_dim * tokens * bytes_per_number",
            "int(layers * kv_heads * head_dim * tokens * bytes_per_number)",
        ): "half is missing: beside each key, a token leaves a value.",
        changed(cache_bytes, "one_layer", " * layers", ""): (
            "that is one layer: each layer keeps its own keys and values."
        ),
        changed(cache_bytes, "one_head", " * kv_heads", ""): (
            "that is one head: each key/value head keeps its own."
        ),
        changed(cache_bytes, "one_number_a_key", " * head_dim", ""): (
            "you count a key as one number; it has head_dim of them."
        ),
        changed(cache_bytes, "counts_numbers", " * bytes_per_number", ""): (
            "those are numbers; each takes bytes_per_number bytes."
        ),
        changed(cache_bytes, "bytes_as_bits", "* bytes_per_number", "* bytes_per_number / 8"): (
            "bytes_per_number is in bytes already: nothing is to be divided by 8."
        ),
        changed(cache_bytes, "in_mebibytes", "* bytes_per_number", "* bytes_per_number / 2**20"): (
            "that is in MiB; wanted are bytes."
        ),
        changed(cache_bytes, "squared_tokens", "* tokens", "* tokens**2"): (
            "the cache grows with the number of tokens, not with its square: the scores are "
            "squared, and nobody keeps those."
        ),
        changed(cache_bytes, "room_for_256", "* tokens", "* 256 * -(-tokens // 256)"): (
            "you count the room for 256 tokens at a time that mlx-lm allocates; wanted is what the "
            "tokens themselves take."
        ),
    },
    cases=_shapes,
    tolerance=0.0,
    hints=[
        "Count the numbers first, then multiply by the bytes of one.",
        "Begin with one token in one layer: it leaves kv_heads keys, and as many values.",
    ],
    next="An 8-billion model has 32 layers, 8 such heads of 128: how long a text fits in 1 GiB?",
)
