"""Exercises of lesson 01: from logits to a token, from tokens to a text."""

from collections.abc import Callable, Iterator

from lablib.classroom.exercises import Exercise

import numpy as np

# ------------------------------------------------------------------ 01.1 a softmax that survives


def safe_softmax(scores):
    """Return the probabilities e^score / sum of all e^score, for scores of any size.

    scores: shape (tokens,).
    """
    weights = np.exp(np.asarray(scores) - np.max(scores))
    return weights / weights.sum()


def softmax_through_logs(scores):
    scores = np.asarray(scores, dtype=float)
    return np.exp(scores - np.logaddexp.reduce(scores))


def overflows(scores):
    weights = np.exp(scores)
    return weights / np.sum(weights)


def minus_the_mean(scores):
    weights = np.exp(np.asarray(scores) - np.mean(scores))
    return weights / weights.sum()


def divides_by_the_largest(scores):
    weights = np.exp(np.asarray(scores) - np.max(scores))
    return weights / weights.max()


def shares_of_the_scores(scores):
    scores = np.asarray(scores, dtype=float)
    return scores / scores.sum()


def smallest_first(scores):
    weights = np.exp(np.min(scores) - np.asarray(scores))
    return weights / weights.sum()


def _scores(rng: np.random.Generator) -> Iterator[tuple[np.ndarray]]:
    yield (np.array([0.0, 1.0]),)
    yield (np.array([1000.0, 1001.0]),)
    yield (np.array([-1000.0, -1001.0]),)
    yield (np.array([0.0, 0.0, 0.0, 1200.0, 1201.0]),)
    for n in (3, 6):
        yield (rng.normal(size=n) * 3,)


SOFTMAX = Exercise(
    id="01.1",
    title="A softmax that survives",
    task=(
        "The formula is short, but `e**1000` is more than a computer can hold. Adding the same "
        "number to every score changes no probability: use that, so that scores of any size work."
    ),
    stars=1,
    minutes=5,
    reference=safe_softmax,
    alternatives=[softmax_through_logs],
    wrong={
        overflows: (
            "right for small scores, but e to a large score overflows, and e to a very negative "
            "one leaves nothing to divide by. Subtract the largest score first."
        ),
        minus_the_mean: (
            "the mean does not bound the largest score, which can still overflow: subtract the "
            "maximum."
        ),
        divides_by_the_largest: (
            "you divide by the largest weight: the answer does not sum to 1. Divide by the sum."
        ),
        shares_of_the_scores: "where is the exponential? Scores may be negative, shares may not.",
        smallest_first: "the sign is turned: the largest score must get the largest probability.",
    },
    cases=_scores,
    hints=[
        "With scores 1000 and 1001 only their difference matters. Make the largest one 0.",
        "weights = np.exp(scores - np.max(scores)), then divide by their sum.",
    ],
    next="A score of -inf: what probability does it get? And if all scores are -inf?",
)

# ------------------------------------------------------------------ 01.2 one draw


def draw_from(weights, u):
    """Return the token where the running sum of the weights first exceeds u times their total.

    weights: at least 0, not all 0; they need not sum to 1.   u: in [0, 1).
    """
    sums = np.cumsum(weights)
    return int(np.searchsorted(sums, u * sums[-1], side="right"))


def draw_from_a_list(weights, u):
    left = u * sum(weights)
    for token, weight in enumerate(weights):
        if left < weight:
            return token
        left -= weight
    return token


def not_normalised(weights, u):
    return min(int(np.searchsorted(np.cumsum(weights), u, side="right")), len(weights) - 1)


def takes_the_impossible(weights, u):
    sums = np.cumsum(weights)
    return int(np.searchsorted(sums, u * sums[-1], side="left"))


def one_too_far(weights, u):
    return min(draw_from(weights, u) + 1, len(weights) - 1)


def one_too_early(weights, u):
    return max(draw_from(weights, u) - 1, 0)


def nearest_weight(weights, u):
    weights = np.asarray(weights, dtype=float)
    return int(np.argmin(np.abs(weights / weights.sum() - u)))


def _draws(rng: np.random.Generator) -> Iterator[tuple[list[float], float]]:
    yield [0.5, 0.5], 0.3
    yield [0.5, 0.25, 0.25], 0.5
    yield [0.0, 1.0, 1.0], 0.0
    yield [2.0, 1.0, 1.0], 0.75
    yield [1.0, 0.0, 3.0], 0.25
    yield [8.0, 16.0, 4.0, 4.0], 0.9
    for n in (3, 5, 9):
        yield rng.uniform(0, 4, size=n).round(2).tolist(), round(float(rng.uniform()), 3)


DRAW = Exercise(
    id="01.2",
    title="A draw from weights",
    task=(
        "Put the weights side by side on a line, from 0 to their total, and throw a dart at "
        "`u * total`. Return the token that is hit. A token of weight 0 must never be drawn, not "
        "even when the dart falls exactly on an edge."
    ),
    stars=2,
    minutes=6,
    reference=draw_from,
    alternatives=[draw_from_a_list],
    wrong={
        not_normalised: (
            "u goes from 0 to 1, but the weights need not sum to 1: compare with u times the total."
        ),
        takes_the_impossible: (
            "on an edge you take the token that ends there, even one of weight 0. The sum must "
            "exceed the dart: >, not >=."
        ),
        one_too_far: "always one token too far: the first sum that exceeds the dart is the one.",
        one_too_early: (
            "always one token too early. `cumsum` counts each token's own weight already."
        ),
        nearest_weight: (
            "you look for a weight that is close to u. Look for the place on the line: running "
            "sums."
        ),
    },
    cases=_draws,
    hints=[
        "np.cumsum gives the running sums; the last one is the total.",
        "np.searchsorted(sums, x, side=...) finds the place of x; of its two sides one is right.",
    ],
    next="Draw 10,000 times with np.random.default_rng(0).random(): are the shares right?",
)

# ------------------------------------------------------------------ 01.3 a text's log-probability


def log_probability(logits, tokens):
    """Return ln P(all tokens after the first, given the first).

    logits: shape (T, V); row i was computed from tokens[0] ... tokens[i].
    tokens: T ids.
    """
    top = logits.max(axis=1, keepdims=True)
    log_p = logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
    return float(sum(log_p[i, tokens[i + 1]] for i in range(len(tokens) - 1)))


def log_probability_product(logits, tokens):
    total = 0.0
    for row, token in zip(logits[:-1], tokens[1:], strict=True):
        total += row[token] - np.logaddexp.reduce(row)
    return total


def looks_at_itself(logits, tokens):
    return log_probability(np.vstack([logits[1:], logits[:1]]), tokens)


def each_row_its_own_token(logits, tokens):
    rows = zip(logits, tokens, strict=True)
    return float(sum(row[token] - np.logaddexp.reduce(row) for row, token in rows))


def counts_the_first(logits, tokens):
    first = logits[-1] - np.logaddexp.reduce(logits[-1])
    return log_probability(logits, tokens) + float(first[tokens[0]])


def multiplies_logs(logits, tokens):
    rows = zip(logits[:-1], tokens[1:], strict=True)
    return float(np.prod([row[token] - np.logaddexp.reduce(row) for row, token in rows]))


def sums_the_logits(logits, tokens):
    return float(sum(logits[i, tokens[i + 1]] for i in range(len(tokens) - 1)))


def without_the_log(logits, tokens):
    return float(np.exp(log_probability(logits, tokens)))


def the_mean(logits, tokens):
    return log_probability(logits, tokens) / (len(tokens) - 1)


def _sequences(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, list[int]]]:
    yield np.log([[1.0, 3.0], [1.0, 1.0]]), [0, 1]
    for length, size in ((3, 3), (4, 6), (6, 5)):
        yield rng.normal(size=(length, size)) * 2, rng.integers(0, size, size=length).tolist()


LOG_PROBABILITY = Exercise(
    id="01.3",
    title="How probable is this text?",
    task=(
        "A model has read `tokens` and returned `logits`, one row for each token it read. The "
        "chain rule multiplies conditional probabilities, so their logarithms add up. Which row "
        "tells the probability of which token?"
    ),
    stars=2,
    minutes=8,
    reference=log_probability,
    alternatives=[log_probability_product],
    wrong={
        looks_at_itself: (
            "you ask row i about tokens[i], which it has already read. Row i is about the token "
            "after it: tokens[i + 1]."
        ),
        each_row_its_own_token: (
            "you pair each row with the token it has just read, T pairs in all. A row looks ahead: "
            "row i goes with tokens[i + 1], and there are T - 1 pairs."
        ),
        counts_the_first: (
            "you count one token too many: no row tells the probability of the first, and the "
            "last row is about a token that is not there."
        ),
        multiplies_logs: "probabilities are multiplied; their logarithms are added.",
        sums_the_logits: (
            "logits are not log-probabilities yet: subtract the log of the sum of exponentials "
            "of each row."
        ),
        without_the_log: "that is the probability; wanted is its logarithm.",
        the_mean: "that is the mean for each token; wanted is the sum.",
    },
    cases=_sequences,
    hints=[
        "T tokens, T - 1 steps: pair each row but the last with each token but the first.",
        "For one row: row[token] - np.log(np.exp(row).sum()) (subtract the row's maximum first).",
    ],
    next="Turn it into a perplexity: exp(-log_probability / (T - 1)).",
)

# ------------------------------------------------------------------ 01.4 a greedy loop


def write_greedily(next_scores, prompt, max_tokens, stop):
    """Return the new tokens: the best next token again and again, the stop token included.

    next_scores(tokens): the model's scores of the next token, given all tokens so far.
    prompt: a list of ids.   max_tokens: how many new ones at most.   stop: the id that ends.
    """
    written = []
    while len(written) < max_tokens:
        token = int(np.argmax(next_scores(prompt + written)))
        written.append(token)
        if token == stop:
            break
    return written


def write_greedily_for(next_scores, prompt, max_tokens, stop):
    text = list(prompt)
    for _ in range(max_tokens):
        scores = list(next_scores(text))
        text.append(scores.index(max(scores)))
        if text[-1] == stop:
            return text[len(prompt) :]
    return text[len(prompt) :]


def leaves_out_the_stop(next_scores, prompt, max_tokens, stop):
    written = write_greedily(next_scores, prompt, max_tokens, stop)
    return written[:-1] if written[-1] == stop else written


def never_stops(next_scores, prompt, max_tokens, stop):
    return write_greedily(next_scores, prompt, max_tokens, None)


def forgets_to_read(next_scores, prompt, max_tokens, stop):
    token = int(np.argmax(next_scores(prompt)))
    return [token] if token == stop else [token] * max_tokens


def reads_one_token_only(next_scores, prompt, max_tokens, stop):
    def last_only(tokens):
        return next_scores(tokens[-1:])

    return write_greedily(last_only, prompt, max_tokens, stop)


def prompt_and_all(next_scores, prompt, max_tokens, stop):
    return prompt + write_greedily(next_scores, prompt, max_tokens, stop)


def one_too_many(next_scores, prompt, max_tokens, stop):
    return write_greedily(next_scores, prompt, max_tokens + 1, stop)


class _Scores:
    """A small model: the scores after a text are a row that depends on all of its tokens."""

    def __init__(self, table: np.ndarray):
        self.table, self.__name__ = table, "model"

    def __call__(self, tokens: list[int]) -> np.ndarray:
        return self.table[sum((i + 1) * (t + 1) for i, t in enumerate(tokens)) % len(self.table)]


def _texts(rng: np.random.Generator) -> Iterator[tuple[Callable, list[int], int, int]]:
    always = np.tile([0.0, 0.0, 5.0], (7, 1))
    yield _Scores(always), [1], 1, 2
    yield _Scores(always), [0], 3, 1
    for length in (2, 3, 4, 5):
        table = rng.normal(size=(17, 6))
        yield _Scores(table), rng.integers(0, 6, size=length).tolist(), 8, int(rng.integers(0, 6))


WRITE_GREEDILY = Exercise(
    id="01.4",
    title="The loop",
    task=(
        "Write text: ask the model for scores, append the best token, ask again. Stop after the "
        "stop token, which belongs to the answer, or after `max_tokens` new ones."
    ),
    stars=2,
    minutes=6,
    reference=write_greedily,
    alternatives=[write_greedily_for],
    wrong={
        leaves_out_the_stop: (
            "the stop token is missing: it was written, so it belongs to the answer. Append first, "
            "then look whether to stop."
        ),
        never_stops: "you go on after the stop token.",
        forgets_to_read: (
            "each step asks about the same text. Append the new token to what the model reads next."
        ),
        reads_one_token_only: (
            "you show the model only the last token. It needs the prompt and all that was written."
        ),
        prompt_and_all: "the prompt is in your answer; wanted are the new tokens only.",
        one_too_many: "one token more than max_tokens: compare before you write another.",
    },
    cases=_texts,
    hints=[
        "Keep two things apart: what the model reads (prompt and new tokens), and what you return.",
        "while len(written) < max_tokens: take the argmax, append it, break if it is the stop.",
    ],
    next="Replace the argmax by your draw from 01.2, and you have a sampler.",
)
