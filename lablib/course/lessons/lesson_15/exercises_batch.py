"""Hunts 15.1 and 15.2: a text alone, and the same text in a batch."""

from collections.abc import Iterator
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges
from lablib.course.lessons.lesson_15.found import STILL, as_found

import numpy as np

# ------------------------------------------------------------------ 15.1 only the neighbour


def read(rounds, kept, spread):
    """Return (what each text's newest token reads, (B, 2); how long each text is, B numbers).

    rounds: rounds of drafts, each B rows of equally many tokens, 0 to 9.
    kept: for each round B numbers: how many of a row's drafts stay, at least one.
    spread: how far the scores are apart.
    A text reads all its tokens that stay and nothing else: the same alone and in any batch.
    """
    of_query, of_key, of_value = np.random.default_rng(0).normal(size=(3, 10, 2))
    rows = len(rounds[0])
    cache = {
        "keys": np.zeros((rows, 0, 2)),
        "values": np.zeros((rows, 0, 2)),
        "there": np.zeros((rows, 0), dtype=bool),
    }

    def append(blocks):
        for name, block in blocks.items():
            cache[name] = np.concatenate([cache[name], block], axis=1)

    def take_back(width, stay):
        # The cache is one rectangle: cut it to the longest text, clear what the others lost.
        start = cache["there"].shape[1] - width
        for name in cache:
            cache[name] = cache[name][:, : start + max(stay)]
            for row, count in enumerate(stay):
                cache[name][row, start + count :] = 0

    def attend(queries):
        scores = np.einsum("bd,btd->bt", queries, cache["keys"]) * spread / np.sqrt(2)
        scores = np.where(cache["there"], scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights = weights / weights.sum(axis=1, keepdims=True)
        return np.einsum("bt,btd->bd", weights, cache["values"])

    for drafts, stay in zip(rounds, kept, strict=True):
        drafts = np.asarray(drafts)
        append({"keys": of_key[drafts], "values": of_value[drafts], "there": drafts >= 0})
        take_back(drafts.shape[1], stay)
        newest = [row[count - 1] for row, count in zip(drafts, stay, strict=True)]
    return attend(of_query[newest]), cache["there"].sum(axis=1)


MASK = 'np.where(cache["there"], scores, -np.inf)'
READ_FOUND, READ_STARTER = as_found(read, (f"        scores = {MASK}\n", ""))


def read_text_by_text(rounds, kept, spread):
    of_query, of_key, of_value = np.random.default_rng(0).normal(size=(3, 10, 2))
    reads, lengths = [], []
    for row in range(len(rounds[0])):
        text = []
        for drafts, stay in zip(rounds, kept, strict=True):
            text += [*drafts[row]][: stay[row]]
        scores = spread * of_key[text] @ of_query[text[-1]] / 2**0.5
        weights = np.exp(scores - np.max(scores))
        reads.append(weights @ of_value[text] / weights.sum())
        lengths.append(len(text))
    return reads, lengths


READINGS = {
    READ_FOUND: STILL,
    changed(read, "far_below", MASK, "np.where(cache['there'], scores, -1e4)"): (
        "a score that real keys can have, too: here some are far below it. Only −∞ is below all."
    ),
    changed(
        read, "by_length", MASK,
        "np.where(np.arange(scores.shape[1]) < cache['there'].sum(axis=1)[:, None], scores, -1e99)",
    ): (
        "you keep the first places of a row, as many as its text is long. But a later round was "
        "written behind the gap: the refused places lie in the middle."
    ),
    changed(
        changed(read, "largest_of_all", MASK, "scores"),
        "largest_of_all", "keepdims=True))\n", "keepdims=True)) * cache['there']\n",
    ): (
        "the weights of cleared keys are 0 now, but the largest score is still taken over them: "
        "where the others are far below it, all that is left is 0 / 0."
    ),
    changed(read, "cut_to_the_shortest", "start + max(stay)", "start + min(stay)"): (
        "all texts are cut to the shortest: the others lose tokens of their own."
    ),
    changed(
        changed(read, "keys_far_away", "count :] = 0", "count :] = -1e9 * (name == 'keys')"),
        "keys_far_away", MASK, "scores",
    ): (
        "a key far below 0 has a low score only where the query is positive; a query that points "
        "the other way wants it more than anything. The score must be low, not the key."
    ),
}  # fmt: skip


def _rollbacks(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield [[[3, 1], [2, 4]]], [[2, 1]], 1
    yield [[[3, 1], [2, 4]], [[5, 6], [7, 8]]], [[2, 1], [1, 2]], 1
    yield [[[3, 1, 2], [2, 4, 0], [9, 9, 1]], [[5, 6, 7], [7, 8, 8], [0, 3, 5]]], \
        [[3, 1, 2], [1, 3, 2]], 3  # fmt: skip
    yield [[[3, 1], [2, 4]]], [[2, 1]], 0  # all scores are 0, and what is there shares alike
    for spread in (1, 30):
        rounds = rng.integers(0, 10, (3, 3, 4)).tolist()
        yield rounds, rng.integers(1, 5, (3, 3)).tolist(), spread
    for query, key in ((1, 4), (6, 2), (0, 5)):  # only scores far below 0, and far above
        yield [[[key, query, query], [key, query, 3]]], [[3, 2]], 1e7


def _odd_rollbacks(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield [[[4]]], [[1]], 1
    yield [[[4, 5, 6]]], [[1]], 1
    yield [[[4, 5], [6, 7]]], [[1, 1]], 2
    yield [[[4], [6]], [[1, 2, 3], [3, 2, 1]], [[0, 0], [5, 5]]], [[1, 1], [1, 3], [2, 1]], 1
    for token in range(10):  # each with nothing but itself: some scores are below -1e6
        yield [[[token, 3], [5, 3]]], [[1, 2]], 1e7


READ = Exercise(
    id="15.1",
    title="Only the neighbour",
    task=(
        "*Report.* “Since several texts share a batch with drafts, some are duller. Alone each is "
        "right, and in a batch the one whose drafts all stay. Their lengths are right, too.”\n\n"
        "Compare a text alone with the same text in a batch. Find the line, and mend it."
    ),
    stars=1,
    minutes=9,
    reference=read,
    starter=READ_STARTER,
    alternatives=[read_text_by_text],
    wrong=READINGS,
    cases=_rollbacks,
    checker=edges(_odd_rollbacks),
    hints=[
        "read([[[3, 1], [2, 4]]], [[2, 1]], 1): two texts, one of which lost a draft. Its weights "
        "should be those of read([[[2]]], [[1]], 1). Print them in both.",
        "What is the score of a key that was set to 0? And e to that score?",
    ],
    next="For which scores of the other keys does the bug do least harm?",
)

# ------------------------------------------------------------------ 15.2 the same prompt twice


def write(prompts, new):
    """Return `new` tokens for each prompt, each time the one with the highest score, (B, new).

    prompts: B prompts of equally many tokens, 0 to 11.
    A prompt is continued in the same way alone and in any batch.
    """
    rng = np.random.default_rng(14)
    heads, size = 2, 8
    of_query, of_key, of_value = 2 * rng.normal(size=(3, heads, 12, size))
    to_scores = rng.normal(size=(heads * size, 12))

    def turn(vectors, angles):
        even, odd = vectors[..., 0::2], vectors[..., 1::2]
        cos, sin = np.cos(angles), np.sin(angles)
        pairs = even * cos - odd * sin, even * sin + odd * cos
        return np.stack(pairs, axis=-1).reshape(vectors.shape)

    def rotate(vectors, start):
        # (B, heads, T, size): each vector is turned by its position, the first one is `start`
        count = vectors.shape[2]
        positions = start + np.arange(count)
        angles = positions[:, None] / 10 ** np.arange(size // 2)
        if count > 1:
            return turn(vectors, angles)
        flat = vectors.reshape(-1, size)  # one token each, as when writing: a short way
        turned = np.zeros_like(flat)
        for i in range(len(flat)):
            turned[i] = turn(flat[i], angles[0])
        return turned.reshape(vectors.shape)

    def look(tokens, past):
        # read tokens (B, T) behind the past; return the scores of the next one, (B, 12)
        tables = of_query, of_key, of_value
        query, key, value = (np.moveaxis(table[:, tokens], 1, 0) for table in tables)
        start, count = past["keys"].shape[2], tokens.shape[1]
        query, key = rotate(query, start), rotate(key, start)
        past["keys"] = np.concatenate([past["keys"], key], axis=2)
        past["values"] = np.concatenate([past["values"], value], axis=2)
        scores = query @ np.swapaxes(past["keys"], 2, 3) / np.sqrt(size)
        scores = np.where(np.tri(count, start + count, start) > 0, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        return (weights @ past["values"])[:, :, -1].reshape(len(tokens), -1) @ to_scores

    tokens, texts = np.asarray(prompts), []
    past = {name: np.zeros((len(tokens), heads, 0, size)) for name in ("keys", "values")}
    for _ in range(new):
        tokens = look(tokens, past).argmax(axis=1)[:, None]
        texts.append(tokens)
    return np.concatenate(texts, axis=1)


LOOP = "for i in range(len(flat)):"
WRITE_FOUND, WRITE_STARTER = as_found(write, (LOOP, "for i in range(heads):"))
write_without_a_short_way = changed(
    write, "write_without_a_short_way", "if count > 1:", "if count:"
)


def write_one_by_one(prompts, new):
    return [write([prompt], new)[0] for prompt in prompts]


WRITINGS = {
    WRITE_FOUND: STILL,
    changed(write, "once_a_row", LOOP, "for i in range(len(vectors)):"): (
        "one vector for each row of the batch: each row has one for each of its heads."
    ),
    changed(write, "left_as_they_were", "        turned = np.zeros_like(flat)\n        " + LOOP,
            "        turned = flat.copy()\n        for i in range(heads):"): (
        "what was left out is no longer 0, but not turned either: those vectors stand at position "
        "0, wherever their token is."
    ),
    changed(write, "first_row_for_all", "        return turned.reshape(vectors.shape)",
            "        turned[:] = np.tile(turned[:heads], (len(vectors), 1))\n"
            "        return turned.reshape(vectors.shape)"): (
        "every row gets the vectors of the first one, and writes on from *its* tokens."
    ),
    changed(write, "by_place", "turn(flat[i], angles[0])", "turn(flat[i], angles[0] + i // heads)"):
        "a row is turned by its place in the batch, too: it depends on its neighbours.",
}  # fmt: skip


def _prompts(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield [[3, 1]], 4
    yield [[0, 2, 1]], 4  # of one text, too, each token of a prompt has its own position
    yield [[3, 1], [3, 1]], 4
    yield [[3, 1], [7, 7], [0, 9]], 5
    for rows, length, new in ((2, 1, 6), (4, 3, 6), (3, 6, 3), (2, 5, 8)):
        yield rng.integers(0, 12, (rows, length)).tolist(), new


def _odd_prompts(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield [[5]], 1
    yield [[5], [5], [6]], 2
    yield [[0, 0], [5, 5]], 2  # here a vector that is turned by half writes another token
    yield [[1, 8], [0, 10], [9, 0], [9, 11], [11, 6]], 2  # ten vectors
    yield rng.integers(0, 12, (9, 2)).tolist(), 12
    yield rng.integers(0, 12, (2, 30)).tolist(), 3


WRITE = Exercise(
    id="15.2",
    title="The same prompt twice",
    task=(
        "*Report.* “The same prompt twice in a batch, temperature 0: two answers. They begin with "
        "the same word, then the second one goes astray. The first row of a batch is always "
        "right.”\n\nCompare row with row, and step with step. Find the line, and mend it."
    ),
    stars=2,
    minutes=10,
    reference=write,
    starter=WRITE_STARTER,
    alternatives=[write_without_a_short_way, write_one_by_one],
    wrong=WRITINGS,
    cases=_prompts,
    checker=edges(_odd_prompts),
    hints=[
        "The first word of each row is right, the second is not. What is done otherwise when the "
        "second word is computed?",
        "Print what `rotate` returns for write([[3, 1], [3, 1]], 2): both rows should be equal.",
    ],
    next="A test reads a whole prompt at once, in a batch. Would it have seen this?",
)
