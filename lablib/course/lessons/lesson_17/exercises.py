"""Exercises of lesson 17: masks, what they hide, who survives, and what must come.

The numbers of most cases are sixteenths or small whole numbers: exact in binary, and short enough
to paste.
"""

from collections.abc import Iterator
from typing import Any

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np

# ------------------------------------------------------------------ 17.1 the next word


def next_word(p, texts, so_far):
    """Return the distribution of the next word under a mask, V numbers.

    p: the model's distribution of it, an array of V numbers; words are 0 to V - 1.
    texts: all texts that are wanted, a list of lists of words, of any lengths.
    so_far: the words that stand there already, a list; at least one wanted text goes on from it
        with a word that p gives a chance.
    """
    n = len(so_far)
    allowed = {text[n] for text in texts if text[:n] == so_far and len(text) > n}
    left = np.array([chance if word in allowed else 0 for word, chance in enumerate(p)])
    return left / left.sum()


def next_word_by_words(p, texts, so_far):
    chances = []
    for word, chance in enumerate(p):
        longer = [*so_far, word]
        fits = any(text[: len(longer)] == longer for text in texts)
        chances.append(float(chance) * fits)
    return [chance / sum(chances) for chance in chances]


_GOES_ON = "text[:n] == so_far and len(text) > n"

NEXT_WORD_WRONG = {
    changed(next_word, "not_renormalised", "left / left.sum()", "left"): (
        "what is left does not sum to 1: divide it by its sum."
    ),
    changed(
        next_word,
        "any_word_of_the_texts",
        "{text[n] for text in texts if " + _GOES_ON + "}",
        "{word for text in texts for word in text}",
    ): (
        "you allow every word that stands anywhere in a wanted text. It must be the next one of a "
        "text that begins like so_far."
    ),
    changed(next_word, "only_the_place", "text[:n] == so_far and ", ""): (
        "you look at the right place of every text, also of those that begin otherwise than so_far."
    ),
    changed(
        next_word,
        "only_the_last_word",
        "text[:n] == so_far and len(text) > n",
        "len(text) > n and (n == 0 or text[n - 1] == so_far[-1])",
    ): ("you compare only the last word: the whole beginning of a text must be so_far."),
    changed(next_word, "all_alike", "chance if word in", "1 if word in"): (
        "the allowed words are not equally likely: among them the model's proportions stay."
    ),
    changed(
        next_word,
        "texts_are_counted",
        "chance if word in allowed else 0",
        "chance * sum(text[: n + 1] == [*so_far, word] for text in texts)",
    ): (
        "you count how many texts go on with a word. The mask asks only whether there is one; "
        "which ways are likely is the model's to say."
    ),
    changed(
        next_word, "the_best_only", "left / left.sum()", "np.eye(len(left))[int(left.argmax())]"
    ): ("you take the best allowed word. A mask forbids; it does not choose."),
    changed(next_word, "forbidden_ones", "word in allowed", "word not in allowed"): (
        "those are the forbidden words."
    ),
    changed(
        next_word,
        "rest_shared_out",
        "left / left.sum()",
        "left + (1 - left.sum()) / max(1, len(allowed)) * (left > 0)",
    ): (
        "you share the forbidden mass out in equal parts. Divide by the sum instead: proportions "
        "stay."
    ),
}


def _sixteenths(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return a distribution of positive sixteenths."""
    return (1 + rng.multinomial(16 - size, np.ones(size) / size)) / 16


def _words(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    half = np.array([0.5, 0.25, 0.25])
    yield half, [[0], [1]], []
    yield half, [[2, 0], [1, 1]], []
    yield half, [[0, 1], [1, 2], [1, 0]], [1]
    yield half, [[0, 2], [1, 2], [1, 1]], [0]  # another text allows 1 here
    yield half, [[0, 1], [2, 0, 2]], [0]  # so_far stands in it, and not at its beginning
    yield half, [[0, 1, 2], [2, 1, 0], [2, 1, 1]], [2, 1]  # the last word is not all
    yield half, [[0, 1, 2], [1, 0, 1], [0, 1, 0]], [0, 1]  # nor is which words
    yield half, [[0, 1, 2], [0, 2, 1], [0, 1, 0]], [0, 1]  # nor is the first
    yield half, [[0, 1, 2, 0], [2, 1, 2, 1], [0, 1, 2, 2]], [0, 1, 2]  # nor are the last two
    yield half, [[0, 1, 2, 0], [0, 2, 2, 1], [0, 1, 2, 2]], [0, 1, 2]  # nor are both ends
    yield half, [[0, 0], [0, 1], [2, 1], [0, 2]], []  # 0 begins three texts, 2 one
    yield half, [[1, 2], [0, 1]], []
    for size in (3, 4):
        texts = [[int(word) for word in rng.integers(0, size, 3)] for _ in range(5)]
        yield _sixteenths(rng, size), texts, texts[0][:1]
        yield _sixteenths(rng, size), texts, []


def _odd_words(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    yield np.array([1.0]), [[0]], []
    yield np.array([0.5, 0.5]), [[0, 1]], [0]
    yield np.full(4, 0.25), [[0, 2, 2], [0], [0, 1]], [0]  # 0 itself is wanted, too
    yield np.array([0.25, 0.75, 0.0]), [[2], [0, 2]], []  # p is the next word's, and no other's
    yield np.array([0.5, 0.25, 0.25]), [[1], [1], [2]], []  # the same text twice
    yield np.array([0.5, 0.25, 0.25]), [[1], [0, 1, 2, 2, 1]], [0, 1, 2, 2]
    # the last word counts as the first does, and which words stand there is not enough
    alike = [[0, 1, 2, 2, 1], [0, 2, 1, 2, 0], [0, 1, 2, 0, 2]]
    yield np.array([0.5, 0.25, 0.25]), alike, [0, 1, 2, 2]
    yield np.array([0.5, 0.25, 0.25]), [[0], [0, 1, 2]], [0, 1]  # so_far has outgrown a text
    yield np.full(12, 1 / 12), [[10, 11], [11, 1], [10, 0]], [10]
    yield np.full(12, 1 / 12), [[1, 0, 5], [10, 11, 3]], [1, 0]  # spelled in digits both begin 10
    yield np.full(12, 1 / 12), [[1, 2], [10, 3], [11, 4]], [1]  # 10 begins with 1, 11 ends so
    yield np.array([0.9999997, 2e-7, 1e-7]), [[1], [2]], []  # little is allowed
    yield np.full(300, 1 / 300), [[int("299"), 1], [43, 0]], [int("299")]  # equal, not the same


NEXT_WORD = Exercise(
    id="17.1",
    title="The next word",
    task=(
        "A grammar is given as the list of its texts. Mask the model's distribution of the next "
        "word: a word may come if the text so far, and the word, begin a wanted text."
    ),
    stars=1,
    minutes=6,
    reference=next_word,
    alternatives=[next_word_by_words],
    wrong=NEXT_WORD_WRONG,
    cases=_words,
    checker=edges(_odd_words),
    hints=[
        "Which texts begin with so_far? In those, which word stands at place len(so_far)?",
        "Put 0 in the place of every other word's chance, and divide by the sum of what is left.",
    ],
    next="What does it return if so_far can't go on? What should a decoder do then?",
)

# ------------------------------------------------------------------ 17.2 what the mask has hidden


def weigh(walks):
    """Return (shares, evidence) of masked texts: the weight of each, and their mean.

    walks: a list of texts, at least one; each is a list of (p, allowed) for its words: the model's
        distribution, an array, and the list of the words that the mask let through.
    shares: of each text its weight, divided so that all sum to 1.
    evidence: an estimate of the share of the model's own texts that obey.
    """
    weights = [np.prod([sum(p[w] for w in allowed) for p, allowed in walk]) for walk in walks]
    return [weight / sum(weights) for weight in weights], sum(weights) / len(weights)


def weigh_with_numpy(walks):
    weights = np.ones(len(walks))
    for i, walk in enumerate(walks):
        for p, allowed in walk:
            weights[i] *= np.asarray(p)[list(allowed)].sum()
    return weights / weights.sum(), weights.mean()


_MASS = "sum(p[w] for w in allowed)"
_EVIDENCE = "sum(weights) / len(weights)"

WEIGH_WRONG = {
    changed(weigh, "upside_down", _MASS, "1 / " + _MASS): (
        "the mask has divided by the allowed mass; so the weight makes up for it by *that* "
        "mass. A text that squeezed through weighs little."
    ),
    changed(weigh, "added_up", "np.prod(", "sum("): (
        "each step hides a part of what is left: multiply the allowed masses, as one multiplies "
        "chances."
    ),
    changed(weigh, "last_step_only", "for p, allowed in walk]", "for p, allowed in walk[-1:]]"): (
        "you look at the last step alone. Every step has hidden something."
    ),
    changed(weigh, "first_step_only", "for p, allowed in walk]", "for p, allowed in walk[:1]]"): (
        "you look at the first step alone. Every step has hidden something."
    ),
    changed(weigh, "words_are_counted", _MASS, "len(allowed) / len(p)"): (
        "you count words. What counts is the mass that the model gives them."
    ),
    changed(weigh, "the_likeliest_allowed", _MASS, "max(p[w] for w in allowed)"): (
        "you take the best allowed word; the mask let all of them through: add their chances."
    ),
    changed(weigh, "what_was_forbidden", _MASS, "(1 - " + _MASS + ")"): (
        "that is the mass that was forbidden."
    ),
    changed(weigh, "the_narrowest_step", "np.prod(", "min("): (
        "you keep the narrowest step. All of them count: multiply."
    ),
    changed(weigh, "mean_of_the_shares", _EVIDENCE, "1 / len(weights)"): (
        "shares that sum to 1 have the mean 1/N whatever happened. The evidence is the mean of the "
        "weights *before* they are divided."
    ),
    changed(weigh, "sum_for_the_mean", _EVIDENCE, "sum(weights)"): (
        "the evidence is the mean of the weights, not their sum: more texts don't obey more often."
    ),
    changed(weigh, "not_divided", "weight / sum(weights)", "weight"): (
        "the shares don't sum to 1: divide each weight by their sum."
    ),
    changed(
        weigh,
        "by_the_length",
        "for p, allowed in walk])",
        "for p, allowed in walk]) ** (1 / max(1, len(walk)))",
    ): (
        "you take the mean of a step, as a score that forgives length does. Here length counts: "
        "each step hides its part."
    ),
    changed(
        weigh,
        "weighted_evidence",
        _EVIDENCE,
        "sum(weight * weight for weight in weights) / sum(weights)",
    ): (
        "you weigh the weights with themselves. The texts were drawn under the mask, each as it "
        "came: a plain mean."
    ),
}

Walk = list[tuple[np.ndarray, list[int]]]


def _walk(*steps: tuple[list[float], list[int]]) -> Walk:
    return [(np.array(p), allowed) for p, allowed in steps]


def _walks(rng: np.random.Generator) -> Iterator[tuple[list[Walk]]]:
    yield ([_walk(([0.5, 0.5], [0])), _walk(([0.25, 0.75], [1]))],)
    yield ([_walk(([0.5, 0.25, 0.25], [0, 1])), _walk(([0.125, 0.75, 0.125], [0, 2]))],)
    narrow, wide = ([0.25, 0.25, 0.5], [0, 1]), ([0.5, 0.25, 0.25], [0, 1, 2])
    yield ([_walk(narrow, wide, narrow), _walk(wide, wide), _walk(narrow, narrow)],)
    yield ([_walk(narrow), _walk(wide, narrow), _walk(wide, ([0.5, 0.25, 0.25], [2]))],)
    for n in (2, 3, 5):
        walks = []
        for _ in range(n):
            rows = [_sixteenths(rng, 3) for _ in range(2)]
            chosen = [sorted({*map(int, rng.integers(0, 3, 2))}) for _ in rows]
            walks.append([*zip(rows, chosen, strict=True)])
        yield (walks,)


def _odd_walks(rng: np.random.Generator) -> Iterator[tuple[list[Walk]]]:
    yield ([_walk(([0.5, 0.5], [0, 1]))],)  # a single text, and nothing hidden
    yield ([_walk(([0.25, 0.75], [0]))],)  # or most of it
    yield ([_walk(([0.5, 0.5], [1])), []],)  # one has no words
    live = [_walk(([0.5, 0.5], [0])), _walk(([0.25, 0.75], [0]))]
    yield ([_walk(([0.0, 1.0], [0])), *live],)  # a dead end weighs nothing
    yield ([_walk(*[([0.5, 0.5], [0])] * 20), _walk(*[([0.5, 0.5], [1])] * 19)],)
    yield ([_walk(([0.25] * 4, [3]))] * 5,)
    often, once = ([0.5, 0.5], [0]), ([0.25, 0.75], [0])
    yield ([_walk(often), _walk(often), _walk(once)],)  # a text that came twice counts twice
    more, less = ([0.9999998, 2e-7], [1]), ([0.9999999, 1e-7], [1])
    yield ([_walk(more, less), _walk(less, less)],)  # a small weight is one


WEIGH = Exercise(
    id="17.2",
    title="What the mask has hidden",
    task=(
        "A mask divides by the mass that it allows, at each word. So the chance of a masked text "
        "is too large, by a factor that you can know. A weight makes up for it: return each "
        "text's share of all weights, and what they say about the model: how many of its texts "
        "would obey by themselves. Where a mass is 0 a text came to a dead end; it counts, with "
        "weight 0."
    ),
    stars=2,
    minutes=8,
    reference=weigh,
    alternatives=[weigh_with_numpy],
    wrong=WEIGH_WRONG,
    cases=_walks,
    checker=edges(_odd_walks),
    hints=[
        "At one word the mask lets the mass of `allowed` through. What of a whole text?",
        "A text's weight is the product over its words of sum(p[word] for word in allowed). The "
        "evidence is the mean of the weights.",
    ],
    next="Why does a rare word that was allowed not make its text any lighter?",
)

# ------------------------------------------------------------------ 17.3 who lives on


def survivors(weights, u):
    """Return who lives on: a list of N numbers of particles, in order.

    weights: a list of N numbers, 0 or more, not all 0; their sum may be anything.
    u: one number, 0 <= u < 1. Lay the weights end to end; of N equal parts of the whole length
        take the point that lies at the share u of each. Whoever's weight it falls into lives on; a
        point on a border belongs to the particle behind it.
    """
    ends, n = np.cumsum(weights), len(weights)
    points = (np.arange(n) + u) / n * ends[-1]
    return np.searchsorted(ends, points, side="right").tolist()


def survivors_by_walking(weights, u):
    parents, particle, end = [], 0, weights[0]
    for i in range(len(weights)):
        while (i + u) * sum(weights) >= end * len(weights):
            particle += 1
            end += weights[particle]
        parents.append(particle)
    return parents


def rounded_copies(weights, u):
    n, total = len(weights), sum(weights)
    return [i for i, weight in enumerate(weights) for _ in range(round(n * weight / total))]


def upper_half_twice(weights, u):
    best = sorted(range(len(weights)), key=lambda i: -weights[i])
    half = best[: (len(weights) + 1) // 2]
    return sorted([*half, *half])[: len(weights)]


def how_often(weights, u):
    return np.bincount(survivors(weights, u), minlength=len(weights)).tolist()


_POINTS = "(np.arange(n) + u) / n * ends[-1]"

SURVIVORS_WRONG = {
    changed(survivors, "not_scaled", _POINTS, "(np.arange(n) + u) / n"): (
        "the whole length is the sum of the weights, not 1."
    ),
    changed(
        survivors,
        "the_best_n_times",
        _POINTS,
        "np.full(n, ends[int(np.argmax(weights))] - weights[int(np.argmax(weights))])",
    ): ("you keep the best one only. The others live on too, as often as their weight says."),
    changed(survivors, "one_point_for_all", _POINTS, "np.full(n, u * ends[-1])"): (
        "you ask one point N times. Each of the N parts has a point of its own."
    ),
    changed(survivors, "without_u", _POINTS, "np.arange(n) / n * ends[-1]"): (
        "you take the beginning of each part: then the same particles are favoured every time. "
        "The point lies at the share u of the part."
    ),
    changed(survivors, "in_the_middle", _POINTS, "(np.arange(n) + 0.5) / n * ends[-1]"): (
        "you take the middle of each part. Without chance the mean is not kept: the point lies at "
        "the share u."
    ),
    changed(survivors, "u_of_the_whole", _POINTS, "(np.arange(n) / n + u) % 1 * ends[-1]"): (
        "u is a share of a part, not of the whole length: (i + u) / N."
    ),
    changed(survivors, "border_to_the_front", 'side="right"', 'side="left"'): (
        "a point on a border belongs to the particle behind it: with u = 0 the first point is the "
        "beginning, and a particle of weight 0 would come to life there."
    ),
    changed(survivors, "one_less", "(np.arange(n) + u)", "(np.arange(n - 1) + u)"): (
        "N particles live on, as many as before."
    ),
    rounded_copies: (
        "you round N times the share. Then there need not be N of them, and whoever is below one "
        "half dies for certain: on average each must live on N times its share."
    ),
    upper_half_twice: (
        "you keep the heavier half, twice. That looks at the order of the weights, not at their "
        "size."
    ),
    how_often: (
        "those are numbers of copies. Return who lives on: particle 2 three times is 2, 2, 2."
    ),
}


def _weights(rng: np.random.Generator) -> Iterator[tuple[list[int], float]]:
    yield [1, 1], 0.5
    yield [3, 1], 0.25
    yield [1, 3], 0.75
    yield [2, 1, 1, 4], 0.5
    yield [1, 2, 1, 4], 0.25
    yield [1, 0, 2, 5], 0.0  # points on borders
    yield [5, 1, 1, 1], 0.875  # the light ones, too, have their chance
    yield [0, 3, 0, 1], 0.5
    yield [2, 2, 2, 2], 0.0
    yield [9, 3, 3, 1], 0.75
    yield [3, 4, 5], 0.875  # nearly even: drawn all the same
    for _ in range(3):
        yield rng.integers(0, 5, 8).tolist(), int(rng.integers(0, 8)) / 8


def _odd_weights(rng: np.random.Generator) -> Iterator[tuple[list[float], float]]:
    yield [4], 0.5
    yield [0, 0, 1, 0], 0.9375
    yield [0, 1], 0.0
    yield [1, 0, 1, 2], 0.0  # behind the border stands one of weight 0
    yield [2, 1, 2, 1], 0.0  # drawn as a whole: no copies come first
    yield [1, 0], 0.96875
    yield [0.0625, 0.1875], 0.5
    yield [1.5, 0.5, 1], 0.75
    yield [1, 0.5], 0.75  # their sum is no whole number
    yield [1] * 16, 0.5
    yield [32, *[1] * 32, *[0] * 31], 0.25


SURVIVORS = Exercise(
    id="17.3",
    title="Who lives on",
    task=(
        "Resample: draw N particles from N, each as often as its weight says, on average N times "
        "its share. Here with one random number for all (*systematic* resampling)."
    ),
    stars=2,
    minutes=8,
    reference=survivors,
    alternatives=[survivors_by_walking],
    wrong=SURVIVORS_WRONG,
    cases=_weights,
    checker=edges(_odd_weights),
    hints=[
        "On paper: weights 3 and 1, u = 0.25. The length is 4, its two parts are 0 to 2 and 2 to "
        "4, the points are 0.5 and 2.5: both fall into the first particle.",
        "The points are (i + u) / N of the whole length. Walk along the weights: a particle owns "
        "the points from the sum of the weights before it up to that sum and its own.",
    ],
    next="How often can a particle with a share of 0.3 live on, if there are ten?",
)

# ------------------------------------------------------------------ 17.4 what must come


def forced(grammar, state, most):
    """Return the tokens that must come next, in order, `most` at most.

    grammar: a dictionary of states; grammar[state] is a dictionary, from each token that may come
        to the state behind it. It is empty where the text has ended.
    state: where the text stands.   most: 0 or more.
    """
    tokens = []
    while len(tokens) < most and len(grammar[state]) == 1:
        token = next(iter(grammar[state]))
        tokens.append(token)
        state = grammar[state][token]
    return tokens


def forced_by_recursion(grammar, state, most):
    if most == 0 or len(grammar[state]) != 1:
        return []
    ((token, behind),) = grammar[state].items()
    return [token, *forced_by_recursion(grammar, behind, most - 1)]


def states_for_tokens(grammar, state, most):
    found = []
    while len(found) < most and len(grammar[state]) == 1:
        (state,) = grammar[state].values()
        found.append(state)
    return found


FORCED_WRONG = {
    changed(forced, "the_next_one_only", "while len(tokens) < most", "if len(tokens) < most"): (
        "behind a token that must come another one may have to come: go on."
    ),
    changed(forced, "choices_too", "len(grammar[state]) == 1", "len(grammar[state]) > 0"): (
        "where two tokens may come you take the first. That is the model's to choose."
    ),
    changed(forced, "stays_where_it_is", "state = grammar[state][token]", "pass"): (
        "you repeat the first token: after each one the text stands in another state."
    ),
    changed(forced, "without_a_limit", "len(tokens) < most", "len(tokens) < 999"): (
        "`most` is not kept: a grammar may force without an end."
    ),
    changed(forced, "one_too_many", "len(tokens) < most", "len(tokens) <= most"): (
        "`most` tokens at most, not one more."
    ),
    changed(forced, "one_too_few", "len(tokens) < most", "len(tokens) < most - 1"): (
        "`most` tokens are allowed, not one less."
    ),
    changed(forced, "how_many", "return tokens", "return len(tokens)"): (
        "the question is *which* tokens, not how many: a list."
    ),
    changed(forced, "backwards", "return tokens", "return tokens[::-1]"): (
        "in the order in which they come."
    ),
    changed(
        forced, "all_or_nothing", "return tokens", "return tokens if not grammar[state] else []"
    ): ("the forced tokens count also where a choice follows them."),
    changed(
        forced,
        "each_token_once",
        "len(grammar[state]) == 1:",
        "len(grammar[state]) == 1 and next(iter(grammar[state])) not in tokens:",
    ): ("a token may be forced twice: what counts is the state."),
    states_for_tokens: "those are the states; return the tokens that lead to them.",
}

Table = dict[Any, dict[Any, Any]]
_SUM: Table = {
    0: {"3": 1, "4": 1},
    1: {"+": 2},
    2: {"5": 3, "6": 3},
    3: {"=": 4},
    4: {"7": 5},
    5: {";": 6},
    6: {},
}
_DATE: Table = {0: {"(": 1}, 1: {"a": 2, "b": 5}, 2: {")": 3}, 3: {")": 4}, 4: {}, 5: {"!": 1}}


def _states(rng: np.random.Generator) -> Iterator[tuple[Table, int, int]]:
    yield {0: {"a": 1}, 1: {"b": 2, "c": 2}, 2: {}}, 0, 4
    yield {0: {"a": 1}, 1: {"b": 2}, 2: {}}, 0, 4
    yield {0: {"a": 1, "b": 2}, 1: {"c": 2}, 2: {}}, 0, 4
    yield {0: {"a": 1, "b": 1, "c": 1}, 1: {"d": 2}, 2: {}}, 0, 3
    yield _SUM, 3, 9
    yield _SUM, 1, 9
    yield _DATE, 2, 9  # the same token twice
    yield {0: {"a": 1}, 1: {"b": 2}, 2: {"c": 3}, 3: {}}, 0, 2
    yield {0: {"a": 1}, 1: {"b": 0}}, 0, 5  # round and round
    yield {5: {"x": 3}, 3: {"y": 9}, 9: {"z": 5, "x": 3}}, 5, 3


def _odd_states(rng: np.random.Generator) -> Iterator[tuple[Table, int, int]]:
    yield {0: {}}, 0, 3
    yield {0: {"a": 1}, 1: {}}, 0, 0
    yield {0: {"a": 1}, 1: {}}, 0, 1
    yield {0: {"a": 1}, 1: {"b": 2, "c": 2}, 2: {}}, 0, 1  # the choice is none of `most`
    yield {0: {"a": 0}}, 0, 3
    yield {0: {"a": 0}}, 0, 40
    yield _SUM, 6, 2
    # a token may have many letters
    yield {0: {"ice": 1}, 1: {"ice": 2}, 2: {"sun": 3, "snow": 3}, 3: {}}, 0, 3
    yield {0: {"a": 0, "b": 1}, 1: {}}, 0, 3  # round and round, or out: a choice
    yield {0: {"a": 1, "b": 2}, 1: {"a": 1}, 2: {}}, 0, 3  # and where there is no way out
    yield {0: {"a": 2}, 1: {}, 2: {"b": 1}}, 0, 4  # states stand in any order
    yield {7: {5: 8}, 8: {0: 9}, 9: {}}, 7, 4  # tokens by their ids
    yield {7: {8: 9}, 9: {7: 8}, 8: {}}, 7, 4  # ids may be numbers of states, too


FORCED = Exercise(
    id="17.4",
    title="What must come",
    task=(
        "A grammar as a drafter: where only one token may come, it must come, and no model need be "
        "asked. Collect these tokens, up to the first choice."
    ),
    stars=1,
    minutes=6,
    reference=forced,
    alternatives=[forced_by_recursion],
    wrong=FORCED_WRONG,
    cases=_states,
    checker=edges(_odd_states),
    hints=[
        "Where grammar[state] has one entry there is no choice. Which state comes behind it?",
        "A loop that ends when `most` tokens are there, or where there is not exactly one entry.",
    ],
    next="A grammar whose states are all forced writes a text without a model. What is its chance?",
)
