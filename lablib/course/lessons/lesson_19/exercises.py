"""Exercises of lesson 19: what of a block stays, a block's draws, and how much of it to offer."""

from collections.abc import Iterator
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np

# ------------------------------------------------------------------ 19.1 what of a block stays


def drafts_kept(p1, p2, q1, q2):
    """Return how many of a block's two drafts stay, on average, if they are judged by rejection.

    p1: the target's chances of the first word, V numbers.   q1: the block's, V numbers.
    p2: the target's chances of the second word, an array (V, V): row x stands after first word x.
    q2: the block's, the same; all its rows are equal if the places are drawn independently.
    The first draft x stays with min(1, p1[x] / q1[x]); the second, y, only if the first one does,
    with min(1, p2[x, y] / q2[x, y]). The target's own word afterwards does not count.
    """
    first = np.minimum(p1, q1)
    second = np.minimum(p2, q2).sum(axis=1)
    return (first * (1 + second)).sum()


def drafts_kept_by_listing(p1, p2, q1, q2):
    mean, words = 0.0, range(len(p1))
    for x in words:
        for y in words:
            chance = q1[x] * q2[x][y]
            if chance > 0:
                stays = min(1, p1[x] / q1[x])
                mean += chance * (stays + stays * min(1, p2[x][y] / q2[x][y]))
    return mean


def on_average(p1, p2, q1, q2):
    first = np.minimum(p1, q1).sum()
    return first + first * np.minimum(p1 @ p2, q1 @ q2).sum()


KEPT_WRONG = {
    on_average: (
        "you compare the second word's chances *on average* over the first words. There the "
        "independent block is perfect, and the pairs don't show: compare row by row, after each "
        "first word."
    ),
    changed(drafts_kept, "each_for_itself", "(first * (1 + second)).sum()",
            "first.sum() + (q1 * second).sum()"): (
        "the second draft is judged only if the first one stays: behind a refusal it counts for "
        "nothing."
    ),
    changed(drafts_kept, "one_row_for_all", "(first * (1 + second)).sum()",
            "first.sum() * (1 + second.mean())"): (
        "rows are not equally likely: row x counts as often as x is drafted and kept."
    ),
    changed(drafts_kept, "both_alone", "(1 + second)", "second"): (
        "that is how often *both* stay. A first draft that stays alone is kept, too."
    ),
    changed(drafts_kept, "own_word_too", "(first * (1 + second)).sum()",
            "1 + (first * (1 + second)).sum()"): (
        "you count the target's own word at the end. It is no draft."
    ),
    changed(drafts_kept, "by_match", "np.minimum(p2, q2).sum(axis=1)", "(p2 * q2).sum(axis=1)"): (
        "Σ p·q is what `match` keeps. Rejection keeps Σ min(p, q)."
    ),
    changed(drafts_kept, "turned_round", ".sum(axis=1)", ".sum(axis=0)"): (
        "row x of p2 stands after first word x: sum along a row, not down a column."
    ),
    changed(drafts_kept, "first_always_stays", "np.minimum(p1, q1)", "np.asarray(q1)"): (
        "the first draft may be refused as well: min(1, p1[x] / q1[x])."
    ),
    changed(drafts_kept, "drawn_by_the_target", "np.minimum(p1, q1)", "np.asarray(p1)"): (
        "the first word is drawn from q1, not from p1, and stays with min(1, p1[x] / q1[x])."
    ),
}  # fmt: skip


def _share(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return distributions of sixteenths, none of them 0: short enough to paste."""
    size = shape[-1]
    counts = rng.multinomial(16 - size, np.full(size, 1 / size), size=shape[:-1] or None)
    return (counts + 1) / 16


def _pairs(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    half, sure = np.array([0.5, 0.5]), np.eye(2)
    yield half, sure, half, np.full((2, 2), 0.5)  # of course, no problem
    yield np.array([0.75, 0.25]), np.array([[1.0, 0.0], [0.5, 0.5]]), half, np.full((2, 2), 0.5)
    yield np.array([0.25, 0.75]), np.array([[0.5, 0.5], [0.25, 0.75]]), half, sure
    yield half, np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([0.75, 0.25]), half * np.ones((2, 1))
    for size in (2, 3, 5):
        yield _share(rng, size), _share(rng, size, size), _share(rng, size), _share(rng, size, size)


def _odd_pairs(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    one = np.array([1.0])
    yield one, np.eye(1), one, np.eye(1)
    yield np.array([1.0, 0.0]), np.eye(2), np.array([0.0, 1.0]), np.eye(2)  # nothing stays
    yield np.array([0.5, 0.5]), np.eye(2), np.array([0.5, 0.5]), np.eye(2)[::-1]  # the first alone
    yield np.array([0.5, 0.5]), np.eye(2), np.array([1.0, 0.0]), np.eye(2)


DRAFTS_KEPT = Exercise(
    id="19.1",
    title="What of a block stays",
    task=(
        "List all pairs that a block of two places can draw, or find the sum without the list: "
        "how many of its two drafts stay on average?"
    ),
    stars=1,
    minutes=7,
    reference=drafts_kept,
    alternatives=[drafts_kept_by_listing],
    wrong=KEPT_WRONG,
    cases=_pairs,
    checker=edges(_odd_pairs),
    hints=[
        "q(x) times min(1, p(x)/q(x)) is min(p(x), q(x)): no division is needed.",
        "First word x is drafted and kept with min(p1[x], q1[x]). Then it has earned 1, and the "
        "second word Σ min(p2[x], q2[x]) on average.",
    ],
    next="Which single row, used for all first words, keeps the most of of course | no problem?",
)

# ------------------------------------------------------------------ 19.2 a block's draws


def draw_block(scores, pairs, last, u):
    """Return (tokens, q): a block's drafts, drawn from left to right, and what each was drawn from.

    scores: an array (k, V), what the block's forward says of each place, all at once.
    pairs: the Markov head's table (V, V): row x is added to the scores of a place behind word x.
    last: the text's last word, which stands before the first place.
    u: k numbers from 0 to 1, one for each draw: the first word at which the running sum of q
        exceeds u is drawn.
    q: an array (k, V): the softmax of a place's scores, with its row of the table added.
    """
    tokens, q = [], []
    for row, number in zip(scores, u, strict=True):
        total = row + pairs[last]
        weights = np.exp(total - total.max())
        said = weights / weights.sum()
        last = int(np.argmax(np.cumsum(said) > number))
        tokens.append(last)
        q.append(said)
    return tokens, np.array(q)


def draw_block_by_steps(scores, pairs, last, u):
    tokens, q = [], np.zeros(np.shape(scores))
    for k in range(len(u)):
        before = tokens[-1] if tokens else last
        logits = np.array(scores[k], float) + np.array(pairs[before], float)
        q[k] = np.exp(logits - np.max(logits))
        q[k] /= q[k].sum()
        word, total = 0, q[k][0]
        while total <= u[k]:
            word += 1
            total += q[k][word]
        tokens.append(word)
    return tokens, q


def table_of_chances(scores, pairs, last, u):
    tokens, q = [], []
    for row, number in zip(scores, u, strict=True):
        weights = np.exp(row - row.max()) + pairs[last] - pairs[last].min()
        q.append(weights / weights.sum())
        last = int(np.argmax(np.cumsum(q[-1]) > number))
        tokens.append(last)
    return tokens, np.array(q)


DRAW_WRONG = {
    changed(draw_block, "without_the_table", "row + pairs[last]", "row + 0 * pairs[last]"): (
        "the table plays no part: places that don't know their neighbours draw of problem."
    ),
    changed(draw_block_by_steps, "always_the_text", "tokens[-1] if tokens else last", "last"): (
        "each place gets the row of the text's last word. Its neighbour is the draft before it: "
        "go on with that."
    ),
    changed(draw_block, "turned_round", "pairs[last]", "pairs[:, last]"): (
        "row x of the table is for the place *behind* word x; you take its column."
    ),
    changed(draw_block, "said_without_the_table", "q.append(said)",
            "q.append(np.exp(row - row.max()) / np.exp(row - row.max()).sum())"): (
        "q is what a draft was *drawn from*, the table included. A rule that is told another q "
        "writes another text than the target's."
    ),
    table_of_chances: (
        "the table is added to the *scores*, before the softmax, not to chances."
    ),
    changed(draw_block, "the_best_word", "np.cumsum(said) > number", "said == said.max()"): (
        "you take the best word, and u plays no part. A draft at temperature 1 is drawn."
    ),
    changed(draw_block, "not_scaled", "said = weights / weights.sum()", "said = weights"): (
        "q does not sum to 1: divide by the sum."
    ),
    changed(draw_block, "overflows", "total - total.max()", "total"): (
        "large scores are too large for e to their power. Take the largest off first: q stays."
    ),
    changed(draw_block, "reached_not_exceeded", "np.cumsum(said) > number",
            "np.cumsum(said) >= number"): (
        "the running sum must *exceed* u: with >= a word of chance 0 is drawn where u is 0."
    ),
}  # fmt: skip


def _draws(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    apart = np.array([[0.0, 0.0, 3.0, -3.0], [0.0, 0.0, -3.0, 3.0], [0.0] * 4, [0.0] * 4])
    block = np.array([[2.0, 2.0, -4.0, -4.0], [-4.0, -4.0, 2.0, 2.0]])
    yield block, apart, 2, [0.25, 0.25]  # of course
    yield block, apart, 2, [0.75, 0.75]  # no problem
    yield block, apart, 2, [0.75, 0.25]
    yield np.zeros((3, 3)), np.array([[2.0, 0, 1], [0, 1.0, 3], [1, 0, 0]]), 1, [0.25, 0.5, 0.75]
    for k, size in ((1, 3), (3, 4), (4, 6)):
        scores = rng.integers(-4, 5, (k, size)) / 2
        yield (
            scores,
            rng.integers(-4, 5, (size, size)) / 2,
            int(rng.integers(size)),
            ((2 * rng.integers(0, 8, k) + 1) / 16).tolist(),
        )


def _odd_draws(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield np.array([[0.0, -np.inf]]), np.zeros((2, 2)), 0, [0.9375]
    yield np.array([[-np.inf, 0.0]]), np.zeros((2, 2)), 0, [0.0]  # a word of chance 0 comes first
    yield np.array([[900.0, 899.0]]), np.zeros((2, 2)), 1, [0.9375]
    yield np.zeros((2, 2)), np.array([[0.0, 800.0], [0.0, 0.0]]), 0, [0.5, 0.25]
    yield np.zeros((1, 1)), np.zeros((1, 1)), 0, [0.5]


DRAW_BLOCK = Exercise(
    id="19.2",
    title="A block's draws",
    task=(
        "The forward has said its scores of all places. Draw the drafts from left to right, with "
        "a Markov head that tells each place its neighbour, and return what each was drawn from."
    ),
    stars=2,
    minutes=9,
    reference=draw_block,
    alternatives=[draw_block_by_steps],
    wrong=DRAW_WRONG,
    cases=_draws,
    checker=edges(_odd_draws),
    hints=[
        "One loop over the places. Keep the word that was drawn last: it names the table's row.",
        "np.cumsum(q) > u is False up to the drawn word; np.argmax finds the first True.",
    ],
    next="With a table of zeros the places are independent. What is q[1] then, after either word?",
)

# ------------------------------------------------------------------ 19.3 how much to offer


def how_many(confidence, block, reading):
    """Return how many drafts of a block to offer: the most tokens for their price; 0 is allowed.

    confidence: for each place the chance that its draft stays, if those before it do.
    block: the price of the block's forward, which is paid however many are offered.
    reading: the price of reading one more draft.   Prices are in plain tokens.
    With n drafts a round costs 1 + block + n * reading. It writes one token of the target's own,
    and each draft that stays. Of equally good numbers return the smallest.
    """
    tokens, stays = 1.0, 1.0
    best, most = 0, tokens / (1 + block)
    # It looks at all confidences. It may: behind the first that doesn't pay none ever does.
    for n, chance in enumerate(confidence, 1):
        stays *= chance
        tokens += stays
        speed = tokens / (1 + block + n * reading)
        if speed > most + 1e-9:
            best, most = n, speed
    return best


def how_many_by_arrays(confidence, block, reading):
    tokens = np.cumsum([1.0, *np.cumprod(confidence)])
    speeds = tokens / (1 + block + reading * np.arange(len(tokens)))
    return int(np.flatnonzero(speeds >= speeds.max() - 1e-9)[0])


def how_many_place_by_place(confidence, block, reading):
    tokens, price, stays = 1.0, 1.0 + block, 1.0
    for n, chance in enumerate(confidence):
        stays *= chance  # never rises: what doesn't pay here won't further on
        if stays * price <= tokens * reading + 1e-9:
            return n
        tokens, price = tokens + stays, price + reading
    return len(confidence)


def while_it_pays_for_itself(confidence, block, reading):
    return int(np.count_nonzero(np.cumprod(confidence) > reading))


def above_one_half(confidence, block, reading):
    return int(np.count_nonzero(np.cumprod(confidence) > 0.5))


def at_least_one(confidence, block, reading):
    tokens = 1 + np.cumsum(np.cumprod(confidence))
    speeds = tokens / (1 + block + reading * np.arange(1, 1 + len(tokens)))
    return 1 + int(np.flatnonzero(speeds >= speeds.max() - 1e-9)[0]) if len(speeds) else 0


HOW_MANY_WRONG = {
    changed(how_many_by_arrays, "without_those_before", "np.cumprod(confidence)", "confidence"): (
        "a draft counts only if all before it stay: multiply the chances along the block."
    ),
    changed(how_many, "only_the_last", "tokens += stays", "tokens = 1 + n * stays"): (
        "you count all n drafts, if all stay. The first ones count, too, where a later one falls: "
        "add each place's own chance."
    ),
    changed(how_many_by_arrays, "most_tokens", "tokens / (1", "tokens + 0 * (1"): (
        "most tokens a round, whatever they cost: divide by the price."
    ),
    changed(how_many_by_arrays, "without_its_own", "[1.0, *np.cumprod(confidence)]",
            "[0.0, *np.cumprod(confidence)]"): (
        "the target's own token is missing: a round writes one even if no draft stays."
    ),
    changed(how_many_by_arrays, "block_for_nothing", "1 + block +", "1 +"): (
        "the block's forward has its price as well. Leave it out, and reading looks dearer beside "
        "the rest than it is: too few are offered."
    ),
    changed(how_many_by_arrays, "block_for_each", "1 + block + reading * np.arange(len(tokens))",
            "1 + (block + reading) * np.arange(len(tokens))"): (
        "the block is paid once, not for each draft: one forward fills all places."
    ),
    changed(how_many_by_arrays, "target_for_nothing", "1 + block +", "1e-9 + block +"): (
        "the target's forward costs 1, however many drafts it reads."
    ),
    while_it_pays_for_itself: (
        "you offer a draft while it brings more than its own price. It has to bring more than the "
        "round does without it: compare tokens divided by price, for each number."
    ),
    above_one_half: (
        "one half is no reason: where reading is cheap an unlikely draft pays, too. Compare tokens "
        "divided by price, for each number."
    ),
    changed(how_many_by_arrays, "largest_of_the_best", "- 1e-9)[0]", "- 1e-9)[-1]"): (
        "of equally good numbers the smallest: np.argmax takes the first."
    ),
    at_least_one: "0 drafts may be the best: then all of them cost more than they bring.",
}  # fmt: skip


def _confidences(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield [0.95, 0.9, 0.5, 0.9], 0.25, 0.125
    yield [0.9, 0.9, 0.9, 0.9], 0.25, 0.25
    yield [0.5, 0.95, 0.95, 0.95, 0.95], 0.25, 0.45
    yield [0.25, 0.25], 0.25, 0.5  # none
    yield [0.875, 0.75, 0.5], 1.5, 0.25
    yield [1.0, 1.0, 1.0, 0.5, 1.0], 0.5, 0.5
    for k in (3, 5, 8):
        yield (
            (rng.integers(4, 16, k) / 16).tolist(),
            float(rng.integers(0, 8)) / 8,
            float(rng.integers(1, 6) / 16),
        )


def _odd_confidences(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield [], 0.25, 0.25
    yield [1.0], 0.0, 1.0  # as good with it as without: the smaller number
    yield [1.0, 1.0, 1.0], 0.0, 0.0
    yield [0.0, 1.0, 1.0], 0.25, 0.125
    yield [1.0] * 30, 0.5, 0.0625


HOW_MANY = Exercise(
    id="19.3",
    title="How much to offer",
    task=(
        "A confidence head has said of each place how likely its draft is to stay. How many of "
        "the block's drafts does one offer, so that the round writes most tokens for its price?"
    ),
    stars=2,
    minutes=8,
    reference=how_many,
    alternatives=[how_many_by_arrays, how_many_place_by_place],
    wrong=HOW_MANY_WRONG,
    cases=_confidences,
    checker=edges(_odd_confidences),
    hints=[
        "np.cumprod of the confidences is how likely each place is to stay, with all before it.",
        "Its np.cumsum, with the target's own 1 in front, is the tokens for n = 0, 1, 2, ...",
    ],
    next="Sixteen texts share one forward. Which of their places would you offer?",
)
