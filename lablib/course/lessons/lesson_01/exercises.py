"""Exercises of lesson 01: from logits to a token, from tokens to a text."""

from collections.abc import Callable, Iterator

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import further

import numpy as np

# ------------------------------------------------------------------ 01.1 a softmax that survives


def safe_softmax(scores):
    """Return the probabilities e^score / sum of all e^score, for scores of any size.

    scores: an array of shape (tokens,), at least one token.
    """
    weights = np.exp(np.asarray(scores) - np.max(scores))
    return weights / weights.sum()


def softmax_through_logs(scores):
    scores = np.asarray(scores, dtype=float)
    return np.exp(scores - np.logaddexp.reduce(scores))


def divides_the_scores(scores):
    scores = np.asarray(scores)
    weights = np.exp(scores / np.max(np.abs(scores)))
    return weights / weights.sum()


def only_where_it_is_large(scores):
    shift = np.max(scores) if np.max(scores) > 700 else 0
    weights = np.exp(np.asarray(scores) - shift)
    return weights / weights.sum()


def clips_the_scores(scores):
    weights = np.exp(np.clip(scores, -700, 700))
    return weights / weights.sum()


def shares_of_the_scores(scores):
    scores = np.asarray(scores, dtype=float)
    return scores / scores.sum()


def _scores(rng: np.random.Generator) -> Iterator[tuple[np.ndarray]]:
    yield (np.array([0.0, 1.0]),)
    yield (np.array([1000.0, 1001.0]),)
    yield (np.array([-1000.0, -1001.0]),)
    yield (np.array([0.0, -1000.0]),)  # large is the size here, not the score
    yield (np.array([0.0, 0.0, 0.0, 1200.0, 1201.0]),)
    yield (np.array([800.0, 0.0]),)
    yield (np.array([1200.0, 0.0, 0.0, 0.0]),)
    yield (np.array([0.0, 1200.0, 0.0]),)  # neither first nor last
    yield (np.array([50_000.0, 49_999.0, -50_000.0]),)
    yield (np.array([7.0]),)
    yield (np.full(5, -3.0),)
    yield (np.array([0.0, -10.0]),)  # far behind is not nothing
    for n in (3, 6, 60):  # a slow right answer has its time
        yield ((rng.normal(size=n) * 3).round(2),)


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
        changed(safe_softmax, "overflows", " - np.max(scores)", ""): (
            "right for small scores, but e to a large score overflows, and e to a very negative "
            "one leaves nothing to divide by. Subtract the largest score first."
        ),
        only_where_it_is_large: (
            "right for large scores, but when all are very negative nothing is left to divide by. "
            "Subtract the largest score always."
        ),
        changed(safe_softmax, "minus_the_mean", "np.max", "np.mean"): (
            "the mean does not bound the largest score, which can still overflow: subtract the "
            "maximum."
        ),
        changed(safe_softmax, "minus_the_smallest", "np.max", "np.min"): (
            "you subtract the smallest score, so the largest is still far above 0 and overflows: "
            "subtract the maximum."
        ),
        changed(safe_softmax, "minus_the_first", "np.max(scores)", "scores[0]"): (
            "you subtract the first score; another one may be a thousand above it and overflow: "
            "subtract the maximum."
        ),
        changed(safe_softmax, "minus_the_median", "np.max", "np.median"): (
            "the median does not bound the largest score, which can still overflow: subtract the "
            "maximum."
        ),
        changed(safe_softmax, "minus_a_constant", "np.max(scores)", "1000.0"): (
            "no constant fits all scores: at 50,000 it overflows, at -50,000 nothing is left. "
            "Subtract the maximum of these scores."
        ),
        changed(
            safe_softmax, "minus_the_largest_size", "np.max(scores)", "np.max(np.abs(scores))"
        ): (
            "the largest absolute value is not the largest score: when all scores are very "
            "negative, nothing is left to divide by. Subtract the maximum itself."
        ),
        divides_the_scores: (
            "dividing the scores changes the probabilities (it is a temperature). Subtracting "
            "the same number from all of them does not."
        ),
        clips_the_scores: (
            "different scores come out equal: clipped, or mended after the overflow, they can't be "
            "told apart. Subtract the maximum instead: that changes no probability."
        ),
        changed(safe_softmax, "divides_by_the_largest", "weights.sum()", "weights.max()"): (
            "the largest one comes out as 1, so all of them can't sum to 1: divide by the sum of "
            "the weights."
        ),
        shares_of_the_scores: "where is the exponential? Scores may be negative, shares may not.",
        changed(
            safe_softmax,
            "smallest_first",
            "np.asarray(scores) - np.max(scores)",
            "np.min(scores) - np.asarray(scores)",
        ): "the sign is turned: the largest score must get the largest probability.",
    },
    tolerance=1e-6,
    cases=_scores,
    hints=[
        "With scores 1000 and 1001 only their difference matters. Make the largest one 0.",
        "Which number, subtracted from every score, makes the largest one 0? After that the "
        "formula as it stands is safe: no weight exceeds 1, and one of them is 1.",
    ],
    next="A score of -inf: what probability does it get? And if all scores are -inf?",
)

# ------------------------------------------------------------------ 01.2 one draw


def draw_from(weights, u):
    """Return the token where the running sum of the weights first exceeds u times their total.

    weights: a list of numbers, at least 0, not all 0; they need not sum to 1.   u: in [0, 1).
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


def falls_off_the_line(weights, u):
    sums = 0.0
    for token, weight in enumerate(weights):
        sums += weight
        if u < sums:
            return token


def total_only_if_large(weights, u):
    sums = np.cumsum(weights)
    return int(np.searchsorted(sums, u * max(1, sums[-1]), side="right"))


def one_too_early(weights, u):
    return max(draw_from(weights, u) - 1, 0)


def sorted_first(weights, u):
    order = np.argsort(-np.asarray(weights), kind="stable")
    return int(order[draw_from(np.asarray(weights)[order], u)])


def place_in_the_list(weights, u):
    return int(u * len(weights))


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
    yield [1.0, 2.0, 1.0, 0.0, 0.0], 0.999
    yield [1.0, 0.0, 0.0, 3.0], 0.25
    yield [3.0], 0.9
    yield [1, 3], 0.25  # whole numbers, and a dart on the edge
    yield [1, 1], 0.4999999  # nearly on the edge is before it
    yield [0.5, 1.5], 0.125  # cut to whole numbers, the first is nothing
    yield [1, 999_999_999], 5e-10  # rounded, however finely, it is nothing, too
    yield [1, 999_999_999], 1e-6  # nor is it more than it is
    yield [0.34, 0.36], 0.45  # rounded to one digit, the second is hit
    yield [0.014, 0.006], 0.69  # and to two
    yield [300, 100], 0.7  # they are no per cents
    for i in range(4):
        yield [2.0, 2.0, 2.0, 2.0], i / 4
    yield [0.5] * 300, 0.7501  # off the edge: what divides at each step rounds
    for n in (3, 5, 9, 300):
        yield rng.uniform(0, 4, size=n).round(2).tolist(), round(float(rng.uniform()), 3)


def _small_totals(_: np.random.Generator) -> list[tuple[list[float], float]]:
    """Return totals below 1, tried with the others: a name is given only where it fits all."""
    cases = [([0.125, 0.125], 0.25), ([0.125, 0.0, 0.125], 0.5), ([0.25, 0.125], 0.875)]
    return cases + [([1e-9, 0.0, 3e-9], u) for u in (0.125, 0.5)]  # no tolerance is small enough


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
        falls_off_the_line: (
            "you compare with u itself, but the weights need not sum to 1: a line of 0.25 ends "
            "before the dart 0.5 lands. Compare with u times the total."
        ),
        total_only_if_large: (
            "you take the total only where it is above 1. It counts where it is below 1, too: "
            "compare with u times the total, always."
        ),
        changed(draw_from, "takes_the_impossible", "right", "left"): (
            "on an edge you take the token that ends there, even one of weight 0. The sum must "
            "exceed the dart: >, not >=."
        ),
        changed(
            draw_from,
            "one_too_far",
            'int(np.searchsorted(sums, u * sums[-1], side="right"))',
            'min(1 + np.searchsorted(sums, u * sums[-1], side="right"), len(sums) - 1)',
        ): "always one token too far: the first sum that exceeds the dart is the one.",
        one_too_early: (
            "always one token too early. `cumsum` counts each token's own weight already."
        ),
        sorted_first: (
            "you sort the weights first. The line has them in their own order; another order hits "
            "other tokens."
        ),
        place_in_the_list: (
            "that draws every token equally often: a piece of the line is as long as its weight."
        ),
        nearest_weight: (
            "you look for a weight that is close to u. Look for the place on the line: running "
            "sums."
        ),
    },
    cases=_draws,
    checker=further(_small_totals),
    hints=[
        "np.cumsum gives the running sums; the last one is the total.",
        "np.searchsorted(sums, x, side=...) finds the place of x; of its two sides one is right.",
    ],
    next="Draw 10,000 times with np.random.default_rng(0).random(): are the shares right?",
)

# ------------------------------------------------------------------ 01.3 a text's log-probability


def log_probability(logits, tokens):
    """Return ln P(all tokens after the first, given the first).

    logits: shape (T, V), of any size; row i was computed from tokens[0] ... tokens[i].
    tokens: a list of T ids, at least one. (One token alone: the answer is 0.)
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


def log_of_the_product(logits, tokens):
    return float(np.log(np.prod(_probabilities(logits, tokens))))


def log_of_the_softmax(logits, tokens):
    return float(np.sum(np.log(_probabilities(logits, tokens))))


def with_a_little_more(logits, tokens):
    return float(np.sum(np.log(_probabilities(logits, tokens) + 1e-12)))


def overflows_on_the_way(logits, tokens):
    rows = zip(logits[:-1], tokens[1:], strict=True)
    return float(sum(row[token] - np.log(np.exp(row).sum()) for row, token in rows))


def overflows_in_the_softmax(logits, tokens):
    weights = np.exp(logits)
    log_p = np.log(weights / weights.sum(axis=1, keepdims=True))
    return float(sum(log_p[i, tokens[i + 1]] for i in range(len(tokens) - 1)))


def one_shift_for_all(logits, tokens):
    return overflows_on_the_way(logits - logits.max(), tokens)


def _probabilities(logits: np.ndarray, tokens: list[int]) -> np.ndarray:
    """Return the softmax's probability of each token but the first, ``(T - 1,)``."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    chosen = weights[np.arange(len(tokens) - 1), tokens[1:]]
    return chosen / weights[:-1].sum(axis=1)


def _sequences(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, list[int]]]:
    yield np.array([[0.0, 1.1], [0.0, 0.0]]), [0, 1]
    yield np.array([[0.0, 0.0, 0.7], [0.0, 0.0, 0.0]]), [0, 2]  # equal scores, and both count
    yield np.array([[0.0, 2.9], [0.0, 0.0]]), [0, 1]  # a nearly sure step counts, too
    for length, size in ((3, 3), (4, 6), (6, 5), (5, 40)):
        logits = (rng.normal(size=(length, size)) * 2).round(2)
        yield logits, rng.integers(0, size, size=length).tolist()


def _hard_texts() -> list[list[tuple[np.ndarray, list[int]]]]:
    """Return what overflows or underflows, in rounds: a name must fit the easy texts, too."""
    rng = np.random.default_rng(1)
    long = rng.normal(size=(400, 12)) * 2, rng.integers(0, 12, size=400).tolist()
    high = np.array([[900.0, 0.0], [0.0, 0.0]]), [0, 1]  # float32 can tell these, too
    near = np.array([[900.0, 899.0, 0.0], [0.0, 0.0, 0.0]]), [0, 2]  # and the best isn't sure
    low = np.array([[-1800.0, -900.0], [-1800.0, -900.0]]), [0, 0]  # no row is above 0
    apart = np.array([[900.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), [0, 0, 1]
    rare = np.array([[60.0, 0.0], [0.0, 40.0], [0.0, 0.0]]), [0, 1, 0]
    beyond = np.array([[0.0, 715.0], [0.0, 0.0]]), [0, 0]  # e**-715 is a float, e**715 is none
    rarest = np.array([[0.0, 2000.0], [0.0, 0.0]]), [1, 0]
    surest = np.array([[0.0, 2000.0], [0.0, 0.0]]), [0, 1]
    one_token = np.array([[1.0, 2.0, 0.0]]), [2]
    far = [high, near, low, apart, beyond]
    return [[long], far, [rare], [rarest, surest], [one_token]]


LOG_PROBABILITY = Exercise(
    id="01.3",
    title="How probable is this text?",
    task=(
        "A model has read `tokens` and returned `logits`, one row for each token it read. The "
        "chain rule multiplies conditional probabilities, so their logarithms add up. Which row "
        "tells the probability of which token? Texts have hundreds of tokens and logits can be "
        "large, so a probability may be too small for a computer where its logarithm is not."
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
        changed(log_probability, "forgets_the_shift", "logits - top - np", "logits - np"): (
            "you subtract each row's maximum inside the sum and not outside: what is taken from "
            "one side must be taken from the other."
        ),
        changed(
            log_probability, "without_the_log", "float(sum(", "np.exp(sum("
        ): "that is the probability; wanted is its logarithm.",
        changed(
            log_probability_product, "the_mean", "return total", "return total / (len(tokens) - 1)"
        ): "that is the mean for each token; wanted is the sum.",
        changed(
            log_probability_product, "in_bits", "return total", "return total / np.log(2)"
        ): "that is in bits, a logarithm to base 2; wanted is the natural one.",
        changed(
            log_probability, "the_surprise", "float(sum(", "-float(sum("
        ): "that is the surprise. Its negative is wanted, a number below 0.",
        log_of_the_softmax: (
            "a probability like e**-2000 is 0 in a computer, and its logarithm -inf. Stay with "
            "logarithms: row[token] less the log of the sum of the row's exponentials."
        ),
        log_of_the_product: (
            "a product of hundreds of probabilities is too small for a computer: it becomes 0, and "
            "its logarithm -inf. Add logarithms instead."
        ),
        with_a_little_more: (
            "a small number inside the logarithm hides -inf, and falsifies rare tokens. Stay with "
            "logarithms: row[token] less the log of the sum of the row's exponentials."
        ),
        overflows_on_the_way: (
            "right for small logits, but e to a large one overflows, and with very negative ones "
            "the sum is 0. Subtract each row's maximum first (exercise 01.1)."
        ),
        overflows_in_the_softmax: (
            "right for small logits, but e to a large one overflows, and the logarithm of a share "
            "that is rounded to 0 is -inf. Subtract each row's maximum first (exercise 01.1)."
        ),
        one_shift_for_all: (
            "you subtract one maximum from all rows; a row far below it has nothing left. Each "
            "row has its own maximum."
        ),
    },
    cases=_sequences,
    checker=further(*(lambda _, hard=hard: hard for hard in _hard_texts())),
    hints=[
        "T tokens, T - 1 steps: pair each row but the last with each token but the first.",
        "The log of the sum of e^x over a row is top + np.log(np.exp(row - top).sum()), with top = "
        "row.max(). What is left to do with row[token]?",
    ],
    next="Turn it into a perplexity: exp(-log_probability / (T - 1)).",
)

# ------------------------------------------------------------------ 01.4 a greedy loop


def write_greedily(next_scores, prompt, max_tokens, stop):
    """Return the new tokens: the best next token again and again, the stop token included.

    next_scores(tokens): the model's scores of the next token, given a list of all tokens so far.
    prompt: a list of ids, at least one; it may hold the stop token, which ends nothing there.
    max_tokens: how many new ones at most; it may be 0.   stop: the id that ends.
    Of several best tokens take the one with the smallest id.
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
    return written[:-1] if stop in written else written


def forgets_to_read(next_scores, prompt, max_tokens, stop):
    token = int(np.argmax(next_scores(prompt)))
    return [token] * (min(1, max_tokens) if token == stop else max_tokens)


def reads_one_token_only(next_scores, prompt, max_tokens, stop):
    def last_only(tokens):
        return next_scores(tokens[-1:])

    return write_greedily(last_only, prompt, max_tokens, stop)


def stops_at_a_stop_in_the_prompt(next_scores, prompt, max_tokens, stop):
    written = write_greedily(next_scores, prompt, max_tokens, stop)
    return written[:1] if stop in prompt else written


def reads_only_what_is_new(next_scores, prompt, max_tokens, stop):
    def without_the_prompt(tokens):
        return next_scores(tokens[len(prompt) :] or tokens)

    return write_greedily(without_the_prompt, prompt, max_tokens, stop)


def last_of_the_best(next_scores, prompt, max_tokens, stop):
    def nudged(tokens):
        scores = np.asarray(next_scores(tokens))
        return np.where(np.arange(len(scores)) == np.flatnonzero(scores == scores.max())[-1], 1, 0)

    return write_greedily(nudged, prompt, max_tokens, stop)


class _Scores:
    """A small model: its scores depend on all tokens and their order; it is printed as a lambda."""

    def __init__(self, table: list[list[float]]):
        self.table = np.array(table)

    def __call__(self, tokens: list[int]) -> np.ndarray:
        tokens = [int(token) for token in tokens]
        place = sum(i * token for i, token in enumerate(tokens, 1)) + len(tokens)
        return self.table[place % len(self.table)].copy()

    def __repr__(self) -> str:
        rows = str([[f"{score:g}" for score in row] for row in self.table])
        rows = rows.replace("'", "").replace(" ", "")
        if len(self.table) == 1:
            return f"lambda t: np.array({rows[1:-1]})"
        place = "sum(i * x for i, x in enumerate(t, 1)) + len(t)"
        return f"lambda t: np.array({rows}[({place}) % {len(self.table)}])"


class _Rows:
    """A model that looks at the last token and gives its own row: who writes there spoils it."""

    def __init__(self, rows: list[list[float]]):
        self.rows = np.array(rows)

    def __call__(self, tokens: list[int]) -> np.ndarray:
        return self.rows[int(tokens[-1])]

    def __repr__(self) -> str:
        rows = str(self.rows.tolist()).replace(" ", "")
        return f"lambda t, rows=np.array({rows}): rows[t[-1]]"


class _RisingScores:
    """A model of 301 tokens that always wants the last one."""

    def __call__(self, tokens: list[int]) -> np.ndarray:
        return np.arange(301)

    def __repr__(self) -> str:
        return "lambda t: np.arange(301)"


def _texts(rng: np.random.Generator) -> Iterator[tuple[Callable, list[int], int, int]]:
    yield _Scores([[0, 0, 5]]), [1], 1, 2
    yield _Scores([[0, 0, 5]]), [0], 12, 1
    yield _Scores([[0, 5], [5, 0]]), [0], 1, 1  # the next one would have been the stop token
    yield _Scores([[0.5, 0.5001]]), [0], 1, 0  # rounded they are the same
    yield _Scores([[-3, -1, -2]]), [0], 2, 2  # no score above 0
    yield _Scores([[1500, 2000, 0]]), [0], 1, 2  # e to these is too large for a float
    yield _Scores([[0, 5]]), [1], 3, 1  # a stop token in the prompt
    yield _Scores([[5, 0]]), [1], 3, 0  # the stop token 0
    yield _Scores([[0, 2, 2]]), [1], 2, 0  # a tie
    yield _Rows([[0, 5, 0], [5, 0, 0], [0, 0, 0]]), [0], 3, 2  # it is asked about 0 again
    yield _RisingScores(), [1], 2, int("300")  # equal, and not one object
    yield _Scores([[0, 0, 2], [2, 2, 2], [2, 2, 0]]), [2, 0], 10, 1  # all is read, in order
    for length in (2, 3, 4, 5):
        table = rng.integers(-5, 6, size=(17, 6))
        yield _Scores(table), rng.integers(0, 6, size=length).tolist(), 8, int(rng.integers(0, 6))
    table = rng.normal(size=(101, 30)).round(4)
    table[:, 29] = -9.0  # the stop token never comes
    yield _Scores(table), [12, 29, 7], 60, 29
    table = rng.normal(size=(37, 12)).round()  # ties
    table[:, 11] += 1.0
    yield _Scores(table), [11, 10], 20, 11


def _no_tokens(_: np.random.Generator) -> Iterator[tuple[Callable, list[int], int, int]]:
    yield _Scores([[0, 0, 5]]), [1], 0, 2


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
        changed(
            write_greedily, "never_stops", "token == stop", "False"
        ): "you go on after the stop token.",
        changed(write_greedily, "same_object", "token == stop", "token is stop"): (
            "`is` asks whether two ids are one object in memory, and from 257 on equal ones need "
            "not be: use ==."
        ),
        forgets_to_read: (
            "each step asks about the same text. Append the new token to what the model reads next."
        ),
        reads_one_token_only: (
            "you show the model only the last token. It needs the prompt and all that was written."
        ),
        changed(
            write_greedily, "prompt_and_all", "return written", "return prompt + written"
        ): "the prompt is in your answer; wanted are the new tokens only.",
        changed(
            write_greedily, "one_too_many", "< max", "<= max"
        ): "one token more than max_tokens: compare before you write another.",
        changed(
            write_greedily, "counts_the_prompt", "len(written)", "len(prompt + written)"
        ): "max_tokens counts new tokens; you count the prompt's too.",
        stops_at_a_stop_in_the_prompt: (
            "a stop token in the prompt ends nothing: ask whether the token just written is one."
        ),
        changed(
            write_greedily,
            "overflows",
            "next_scores(prompt + written)",
            "np.exp(next_scores(prompt + written))",
        ): (
            "e to a large score is too large for a computer, and then all are the same: the best "
            "token is that with the largest score, and no softmax is needed."
        ),
        reads_only_what_is_new: (
            "you show the model only what was written. It needs the prompt before it, every time."
        ),
        last_of_the_best: (
            "of several best tokens you take the last; wanted is the one with the smallest id, as "
            "np.argmax has it."
        ),
    },
    cases=_texts,
    checker=further(_no_tokens),
    hints=[
        "Keep two things apart: what the model reads (prompt and new tokens), and what you return.",
        "Each round: ask about everything so far, append, look whether to stop. What must be asked "
        "before each round, so that max_tokens may be 0?",
    ],
    next="Replace the argmax by your draw from 01.2, and you have a sampler.",
)
