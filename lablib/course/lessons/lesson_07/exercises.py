"""Exercises of lesson 07: what a round keeps, how it is counted, and what it is worth."""

from collections.abc import Iterator

from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np

# ------------------------------------------------------------------ 07.1 greedy acceptance


def greedy_round(drafted, logits, stop):
    """Return the tokens that this round adds to the text, a list of ids.

    drafted: the draft's γ guesses, a list of ids; empty if nothing was drafted.
    logits: the target's scores, shape (γ + 1, V): row i is about the token at place i, that is
        after the text and the first i drafts. The last row comes after all of them.
    stop: the id that ends a text. Nothing comes after it.
    """
    tokens = []
    for guess, row in zip(drafted, logits, strict=False):
        best = int(np.argmax(row))
        tokens.append(best)
        if best != guess or best == stop:
            return tokens
    return [*tokens, int(np.argmax(logits[-1]))]


def _leading(drafted, said):
    """Return how many drafts, from the first, are what was said."""
    kept = 0
    while kept < len(drafted) and said[kept] == drafted[kept]:
        kept += 1
    return kept


def _until(stop, tokens):
    """Return the tokens up to the first stop, that one included."""
    return tokens[: tokens.index(stop) + 1] if stop in tokens else tokens


def count_then_cut(drafted, logits, stop):
    best = np.argmax(logits, axis=-1).tolist()
    return _until(stop, best[: _leading(drafted, best) + 1])


def accept_everything(drafted, logits, stop):
    return _until(stop, [*drafted, int(np.argmax(logits[-1]))])


def off_by_one(drafted, logits, stop):
    best = np.argmax(logits, axis=-1).tolist()
    kept = _leading(drafted, best[1:])
    return _until(stop, [*drafted[:kept], best[kept]])


def forgotten_bonus(drafted, logits, stop):
    tokens = []
    for guess, row in zip(drafted, logits, strict=False):
        best = int(np.argmax(row))
        tokens.append(best)
        if best != guess or best == stop:
            break
    return tokens


def forgotten_correction(drafted, logits, stop):
    tokens = []
    for guess, row in zip(drafted, logits, strict=False):
        if int(np.argmax(row)) != guess:
            return tokens
        tokens.append(guess)
        if guess == stop:
            return tokens
    return [*tokens, int(np.argmax(logits[-1]))]


def keeps_the_wrong_one(drafted, logits, stop):
    tokens = []
    for guess, row in zip(drafted, logits, strict=False):
        tokens.append(guess)
        if int(np.argmax(row)) != guess or guess == stop:
            return tokens
    return [*tokens, int(np.argmax(logits[-1]))]


def matches_anywhere(drafted, logits, stop):
    best = np.argmax(logits, axis=-1).tolist()
    kept = sum(a == b for a, b in zip(drafted, best, strict=False))
    return _until(stop, [*drafted[:kept], best[kept]])


def correction_from_the_last_row(drafted, logits, stop):
    best = np.argmax(logits, axis=-1).tolist()
    return _until(stop, [*drafted[: _leading(drafted, best)], best[-1]])


def bonus_after_the_end(drafted, logits, stop):
    best = np.argmax(logits, axis=-1).tolist()
    return best[: _leading(drafted, best) + 1]


def trusts_a_drafted_stop(drafted, logits, stop):
    tokens = []
    for guess, row in zip(drafted, logits, strict=False):
        if guess == stop:
            return [*tokens, guess]
        tokens.append(int(np.argmax(row)))
        if tokens[-1] != guess:
            return tokens
    return [*tokens, int(np.argmax(logits[-1]))]


def looks_for_the_stop_last(drafted, logits, stop):
    best = np.argmax(logits, axis=-1).tolist()
    kept = _leading(drafted, best)
    return best[: kept + 1] if kept < len(drafted) else _until(stop, best)


def accepts_the_probable(drafted, logits, stop):
    tokens = []
    for guess, row in zip(drafted, logits, strict=False):
        chances = np.exp(row - np.max(row))
        if chances[guess] / chances.sum() < 0.5:
            return [*tokens, int(np.argmax(row))]
        tokens.append(guess)
        if guess == stop:
            return tokens
    return [*tokens, int(np.argmax(logits[-1]))]


def accepts_a_second_best(drafted, logits, stop):
    tokens = []
    for guess, row in zip(drafted, logits, strict=False):
        if guess not in np.argsort(row)[-2:]:
            return [*tokens, int(np.argmax(row))]
        tokens.append(guess)
        if guess == stop:
            return tokens
    return [*tokens, int(np.argmax(logits[-1]))]


def only_the_accepted(drafted, logits, stop):
    best = np.argmax(logits, axis=-1).tolist()
    return _until(stop, list(drafted[: _leading(drafted, best)]))


def every_answer(drafted, logits, stop):
    return _until(stop, np.argmax(logits, axis=-1).tolist())


def how_many(drafted, logits, stop):
    return len(greedy_round(drafted, logits, stop))


def _said(rng: np.random.Generator, *best: int) -> np.ndarray:
    """Return noisy logits of 16 tokens whose largest are at these ids."""
    logits = rng.uniform(-2, 2, size=(len(best), 16)).round(2)
    logits[np.arange(len(best)), list(best)] = 4.0
    return logits


def _small(*best: int) -> np.ndarray:
    """Return logits of a vocabulary of four, small enough to be read and pasted."""
    return np.array(
        [[(5 * i + 3 * row) % 4 + 5.0 * (i == id) for i in range(4)] for row, id in enumerate(best)]
    )


def _rounds(rng: np.random.Generator) -> Iterator[tuple[list[int], np.ndarray, int]]:
    yield [1, 2], _small(1, 2, 3), 0  # both right, and a bonus
    yield [1, 2], _small(1, 3, 3), 0  # the second is wrong
    yield [1, 2, 3], _small(3, 2, 3, 1), 0  # the first is wrong, later ones agree by chance
    yield [2, 3], _small(1, 2, 3), 0  # agrees only when the rows are shifted
    yield [3, 3, 3], _small(3, 2, 3, 3), 0  # one token many times
    yield [3, 3], _small(3, 3, 1), 0  # and it is right
    yield [3, 3], _small(3, 3, 3), 0  # and so is the bonus
    yield [3, 1], _small(3, 3, 1), 0  # the correction repeats the token before it
    yield [1, 2], _small(1, 2, 3) - [[0], [999], [0]], 0  # each row is compared with itself
    yield [1, 2, 3, 1, 2], _small(1, 2, 3, 1, 2, 3), 0  # more drafts than four
    yield [3, 1], np.array([[2.0, 3, 0, 6], [0, 6, 2, 7], [0, 5, 2, 3]]), 0  # one is second-best
    yield [1], np.array([[0.0] * 12 + [5], [0] * 11 + [5, 0]]), 0  # 12 is neither 1 nor 2
    yield [2], np.array([[0, 600.1, 600.2], [0, 9, 5]]), 0  # half precision has too few digits
    yield [1, 2], _said(rng, 1, 2, 3), 0  # both right, and a bonus
    yield [1, 2], _said(rng, 1, 4, 3), 0  # the second is wrong
    yield [1, 2, 3], _said(rng, 4, 2, 3, 5), 0  # the first is wrong, later ones agree by chance
    yield [2, 3], _said(rng, 5, 2, 3), 0  # agrees only when the rows are shifted
    yield [7, 7, 7], _said(rng, 7, 12, 7, 7), 0  # one token many times
    yield [11, 14, 10], _said(rng, 11, 14, 10, 15), 0
    yield [1, 2], np.eye(4)[1:] + 4, 0  # no token has half of the probability
    yield [3, 4, 5], _said(rng, 3, 4, 9, 6) - 60.0, 0  # all scores are negative
    yield [3, 4, 5], 900 * _said(rng, 3, 8, 5, 6), 0  # exp of these is too large for a float
    near = _said(rng, 6, 8, 9)
    near[[0, 1], [6, 2]] = 4.0, 3.9999  # the second draft is second-best, and close
    yield [6, 2], near, 0
    for gamma in (3, 4, 6, 12):
        best = rng.integers(1, 16, size=gamma + 1)
        drafted = best[:-1].copy()
        wrong = int(rng.integers(1, gamma))
        drafted[wrong] = 1 + drafted[wrong] % 15
        yield drafted.tolist(), _said(rng, *best.tolist()), 0


def _ends(rng: np.random.Generator) -> Iterator[tuple[list[int], np.ndarray, int]]:
    yield [1, 0, 3], _small(1, 0, 3, 2), 0  # the text ends inside the round
    yield [1, 2], _small(0, 2, 3), 0  # the correction is the end
    yield [1, 0], _small(1, 2, 3), 0  # the draft would end the text, the target would not
    yield [1, 0, 0], _small(1, 0, 0, 2), 0  # two ends: the first one counts
    yield [], _small(3), 0  # nothing was drafted
    yield [], _small(0), 0
    yield [1], _small(1, 0), 0  # the bonus is the end
    yield [2, 0, 3], _small(1, 0, 3, 2), 0  # a stop among drafts that were never reached
    yield [1, 0, 3], _small(1, 0, 2, 3), 0  # a refusal behind the end
    yield [1, 2, 3], _small(1, 3, 0, 2), 0  # an end behind a refusal: it has read what is refused
    yield [0, 2, 1], _small(0, 2, 1, 3), 2  # another token ends this text
    yield [0, 2, 1], _small(0, 3, 1, 0), 2
    yield [0, 2], _small(2, 3, 1), 0  # no end yet: the target says what is drafted behind it
    yield [0], _small(0, 3), 0  # the first token is the end
    yield [9, 13, 4], _said(rng, 9, 13, 4, 5), 13


GREEDY_ROUND = Exercise(
    id="07.1",
    title="Greedy acceptance",
    task=(
        "The drafts are on the table and the target has read them all, in one forward. Which "
        "tokens does the round add? Accepted drafts, then one token of the target's own: a "
        "correction or a bonus. Real texts end, so mind `stop` too."
    ),
    stars=1,
    minutes=10,
    reference=greedy_round,
    alternatives=[count_then_cut],
    wrong={
        accept_everything: (
            "every draft is accepted, whatever the target says: the text is then the draft's. "
            "Compare each one with the target's best token at the same place."
        ),
        off_by_one: (
            "you compare with the wrong row: row 0 has seen none of the drafts, so it judges the "
            "first one."
        ),
        forgotten_bonus: (
            "where every draft is right, one token is missing: the last row has seen them all "
            "and gives a bonus for nothing."
        ),
        forgotten_correction: (
            "after a rejection the target's own token is missing. It is already computed; without "
            "it a round might add nothing."
        ),
        keeps_the_wrong_one: "the rejected draft stays in the text, in place of the correction.",
        matches_anywhere: (
            "you count agreements beyond the first mistake: those rows have read a wrong text, "
            "and what they say is worth nothing."
        ),
        correction_from_the_last_row: (
            "the correction comes from the row of the rejected draft; the last row has read "
            "drafts that are not in the text."
        ),
        bonus_after_the_end: "something follows an accepted stop token: the text has ended there.",
        trusts_a_drafted_stop: (
            "the draft model may be wrong about the end too: ask the target first, and only a stop "
            "that it agrees with ends the text."
        ),
        looks_for_the_stop_last: (
            "you look for the stop only if no draft was refused. What is refused behind an "
            "accepted stop does not matter: the text has ended before."
        ),
        accepts_the_probable: (
            "you ask whether a draft is probable *enough*. A greedy text has the best token, be "
            "its probability 0.2 or 0.9: compare with the argmax."
        ),
        accepts_a_second_best: (
            "a second-best token is accepted: the text then differs from the target's own."
        ),
        only_the_accepted: (
            "the token of the target's own is missing: the correction, or else the bonus."
        ),
        every_answer: (
            "you return all of the target's answers: those after the first mistake have read a "
            "wrong text."
        ),
        how_many: "that is the number of tokens; return the tokens.",
    },
    cases=_rounds,
    checker=edges(_ends),
    hints=[
        "The target's best token at a place is right either way: append it, then ask whether to "
        "go on.",
        "Go on only if it equals the draft and isn't stop; after the last draft take row -1.",
    ],
    next="How few tokens can a round add? So how many target calls can speculation ever waste?",
)

# ------------------------------------------------------------------ 07.2 three counts


def measures(drafted, accepted):
    """Return (acceptance_rate, alpha, tokens_per_round) of some rounds.

    drafted: how many tokens each round drafted, at least 1.
    accepted: how many of them it kept. Both lists are equally long, at least 1.
    No text has ended here: every round added one token of the target's own as well.
    """
    reached = [min(kept + 1, n) for n, kept in zip(drafted, accepted, strict=True)]
    total = sum(accepted)
    return total / sum(drafted), total / sum(reached), (total + len(drafted)) / len(drafted)


def with_arrays(drafted, accepted):
    drafted, accepted = np.array(drafted), np.array(accepted)
    reached = accepted + (accepted < drafted)
    kept = accepted.sum()
    return kept / drafted.sum(), kept / reached.sum(), 1 + accepted.mean()


def counts_the_own_token(drafted, accepted):
    reached = [min(kept + 1, n) for n, kept in zip(drafted, accepted, strict=True)]
    total = sum(accepted) + len(drafted)
    return total / sum(drafted), total / sum(reached), total / len(drafted)


def alpha_is_the_rate(drafted, accepted):
    rate = sum(accepted) / sum(drafted)
    return rate, rate, sum(accepted) / len(drafted) + 1


def reached_is_accepted(drafted, accepted):
    return sum(accepted) / sum(drafted), 1.0, sum(accepted) / len(drafted) + 1


def one_more_is_always_reached(drafted, accepted):
    total = sum(accepted)
    rate = total / sum(drafted)
    return rate, total / (total + len(drafted)), total / len(drafted) + 1


def without_the_own_token(drafted, accepted):
    reached = [min(kept + 1, n) for n, kept in zip(drafted, accepted, strict=True)]
    total = sum(accepted)
    return total / sum(drafted), total / sum(reached), total / len(drafted)


def mean_of_ratios(drafted, accepted):
    pairs = list(zip(drafted, accepted, strict=True))
    rate = np.mean([kept / n for n, kept in pairs])
    alpha = np.mean([kept / min(kept + 1, n) for n, kept in pairs])
    return float(rate), float(alpha), sum(accepted) / len(drafted) + 1


def reached_is_the_rest(drafted, accepted):
    total, left = sum(accepted), sum(drafted) - sum(accepted)
    return total / sum(drafted), total / max(1, left), total / len(drafted) + 1


def one_draft_length_for_all(drafted, accepted):
    reached = [min(kept + 1, drafted[0]) for kept in accepted]
    total = sum(accepted)
    return total / (len(drafted) * drafted[0]), total / sum(reached), 1 + total / len(drafted)


def per_draft(drafted, accepted):
    rate, alpha, _ = measures(drafted, accepted)
    return rate, alpha, (sum(accepted) + len(drafted)) / sum(drafted)


def another_order(drafted, accepted):
    return measures(drafted, accepted)[::-1]


def _traces(rng: np.random.Generator) -> Iterator[tuple[list[int], list[int]]]:
    yield [4], [2]
    yield [2], [2]
    yield [4, 4], [4, 0]
    yield [2, 2, 1], [2, 1, 1]
    yield [3], [0]
    for rounds in (5, 9):
        drafted = rng.integers(1, 7, size=rounds)
        accepted = [int(rng.integers(0, n + 1)) for n in drafted]
        yield drafted.tolist(), accepted
    drafted = rng.integers(1, 30, size=400)
    yield drafted.tolist(), rng.integers(0, drafted + 1).tolist()


def _extreme_traces(rng: np.random.Generator) -> Iterator[tuple[list[int], list[int]]]:
    yield [1], [0]
    yield [1], [1]
    yield [3, 1, 16], [0, 0, 0]
    yield [3, 1, 16], [3, 1, 16]


MEASURES = Exercise(
    id="07.2",
    title="Accepted, reached, drafted",
    task=(
        "Three numbers describe how well speculation goes. `acceptance_rate` is accepted over "
        "drafted. `alpha` is accepted over *reached*: a draft is reached if all drafts before it "
        "were accepted, so that it was really judged. `tokens_per_round` counts what one call of "
        "the target adds, its own token included."
    ),
    stars=2,
    minutes=10,
    reference=measures,
    alternatives=[with_arrays],
    wrong={
        counts_the_own_token: (
            "the correction or bonus is counted as an accepted draft: the rate can then exceed 1. "
            "It belongs to tokens_per_round only."
        ),
        alpha_is_the_rate: (
            "alpha is divided by all drafts: those after the first rejection were never judged, "
            "and say nothing about how alike the models are."
        ),
        reached_is_accepted: "the rejected draft was reached too: it was judged, and it failed.",
        one_more_is_always_reached: (
            "where all drafts are accepted there is no rejected one to add: reached is then the "
            "number drafted."
        ),
        without_the_own_token: "tokens_per_round lacks the token that the target always adds.",
        mean_of_ratios: (
            "you average the rounds' own ratios: a round of one draft then weighs as much as a "
            "round of six. Divide the sums."
        ),
        reached_is_the_rest: "reached are the accepted ones *and* those that were rejected.",
        one_draft_length_for_all: "rounds differ in length: each has its own number of drafts.",
        per_draft: "tokens_per_round is divided by the number of rounds, not of drafts.",
        another_order: "the three results stand in another order.",
    },
    cases=_traces,
    checker=edges(_extreme_traces),
    hints=[
        "Round by round: 4 drafted and 2 accepted means 3 reached. And 4 accepted?",
        "reached = min(accepted + 1, drafted); add everything up before you divide.",
    ],
    next="Which of the three rises when γ falls, although the models are the same?",
)

# ------------------------------------------------------------------ 07.3 expected tokens


def tokens_per_round(alpha, gamma):
    """Return how many tokens a round adds on average.

    alpha: the chance that a draft is accepted, given that all drafts before it were.
    gamma: how many tokens are drafted, 0 or more. The target adds one of its own in any case.
    """
    return sum(alpha**i for i in range(gamma + 1))


def closed_form(alpha, gamma):
    if alpha == 1:
        return gamma + 1
    return (1 - alpha ** (gamma + 1)) / (1 - alpha)


def divides_by_zero(alpha, gamma):
    return (1 - alpha ** (gamma + 1)) / (1 - alpha)


def outcome_by_outcome(alpha, gamma):
    stopped = sum((kept + 1) * alpha**kept * (1 - alpha) for kept in range(gamma))
    return stopped + (gamma + 1) * alpha**gamma


def no_own_token(alpha, gamma):
    return sum(alpha**i for i in range(1, gamma + 1))


def gamma_instead_of_one_more(alpha, gamma):
    return sum(alpha**i for i in range(gamma))


def drafts_without_order(alpha, gamma):
    return 1 + gamma * alpha


def endless(alpha, gamma):
    return 1 / (1 - alpha) if alpha < 1 else gamma + 1


def all_or_nothing(alpha, gamma):
    return 1 + gamma * alpha**gamma


def bonus_only_after_all(alpha, gamma):
    return sum(alpha**i for i in range(1, gamma + 1)) + alpha**gamma


def one_power_too_many(alpha, gamma):
    return sum(alpha**i for i in range(gamma + 2))


def alpha_to_the_gamma(alpha, gamma):
    return 1 + alpha**gamma


def one_for_each_draft(alpha, gamma):
    return gamma + 1


def _chances(rng: np.random.Generator) -> Iterator[tuple[float, int]]:
    yield 0.5, 1
    yield 0.5, 2
    yield 0.8, 4
    yield 0.9995, 6  # nearly 1, and not 1
    yield 0.9, 200
    for gamma in (2, 5, 8):
        yield round(rng.uniform(0.2, 0.95), 2), gamma


def _sure_chances(rng: np.random.Generator) -> Iterator[tuple[float, int]]:
    yield 0.0, 3
    yield 0.7, 0
    yield 0.0, 0
    yield 1.0, 3
    yield 1.0, 0
    yield 1, 12


TOKENS_PER_ROUND = Exercise(
    id="07.3",
    title="Expected tokens per round",
    task=(
        "If every draft that is reached is accepted with the same chance α, how many tokens does "
        "a round add on average? Add up chances: the token at place i of a round exists if the "
        "drafts before it were all accepted. Your function must work for α = 1 too."
    ),
    stars=2,
    minutes=10,
    reference=tokens_per_round,
    alternatives=[closed_form, outcome_by_outcome],
    wrong={
        no_own_token: (
            "those are the accepted drafts only: the target adds a token of its own in every "
            "round. With α = 0 a round still adds 1."
        ),
        gamma_instead_of_one_more: (
            "the last power is missing: γ drafts and one more token are γ + 1 terms, from α⁰ to "
            "α^γ. With α = 1 a round adds γ + 1."
        ),
        drafts_without_order: (
            "that is right if drafts were judged one by one, each on its own: a draft counts only "
            "if all before it were accepted too."
        ),
        endless: "γ makes no difference: that is the limit for endlessly many drafts.",
        all_or_nothing: (
            "you keep either all drafts or none: a round that fails at its third draft keeps two."
        ),
        bonus_only_after_all: (
            "the target's own token comes in every round: a bonus after all drafts, a correction "
            "otherwise."
        ),
        divides_by_zero: (
            "the closed form divides by 1 − α: with α = 1 that is 0. There a round adds γ + 1."
        ),
        one_power_too_many: "the sum ends with α^γ: with α = 1 a round adds γ + 1, not γ + 2.",
        alpha_to_the_gamma: "only the last power is there: every draft adds a power of its own.",
        one_for_each_draft: "alpha plays no part: that many tokens come only if none is refused.",
    },
    cases=_chances,
    checker=edges(_sure_chances),
    hints=[
        "The first token always comes. The second needs one accepted draft, the third two.",
        "1 + α + α² + … up to α^γ.",
    ],
    next="What does the limit 1 / (1 − α) say about very long drafts?",
)

# ------------------------------------------------------------------ 07.4 speed-up


def speedup(alpha, gamma, target, draft):
    """Return tokens a second with γ drafts a round, over tokens a second without any.

    target: target[k - 1] is the time of one forward of the target over k tokens, k = 1, 2, ...
        At least γ + 1 are given, perhaps more.   gamma: 0 or more.
    draft: the time of one drafted token, in the same unit.
    """
    tokens = sum(alpha**i for i in range(gamma + 1))
    with_drafts = tokens / (gamma * draft + target[gamma])
    return with_drafts * target[0]


def time_for_the_same_text(alpha, gamma, target, draft):
    tokens = (1 - alpha ** (gamma + 1)) / (1 - alpha) if alpha < 1 else gamma + 1
    plain_seconds, round_seconds = tokens * target[0], target[gamma] + gamma * draft
    return plain_seconds / round_seconds


def _gain(alpha, gamma, target, cost):
    """Return the speed-up of rounds with γ drafts that are taken to cost this much."""
    return tokens_per_round(alpha, gamma) * target[0] / cost


def free_verification(alpha, gamma, target, draft):
    return _gain(alpha, gamma, target, gamma * draft + target[0])


def one_row_too_few(alpha, gamma, target, draft):
    return _gain(alpha, gamma, target, gamma * draft + target[max(0, gamma - 1)])


def free_drafts(alpha, gamma, target, draft):
    return _gain(alpha, gamma, target, target[gamma])


def one_draft_only(alpha, gamma, target, draft):
    return _gain(alpha, gamma, target, draft + target[gamma])


def the_last_time(alpha, gamma, target, draft):
    return _gain(alpha, gamma, target, gamma * draft + target[-1])


def upside_down(alpha, gamma, target, draft):
    return 1 / speedup(alpha, gamma, target, draft)


def cost_alone(alpha, gamma, target, draft):
    return _gain(1.0, gamma, target, gamma * draft + target[gamma])


def tokens_alone(alpha, gamma, target, draft):
    return tokens_per_round(alpha, gamma)


def per_second(alpha, gamma, target, draft):
    return speedup(alpha, gamma, target, draft) / target[0]


def pays_for_one_forward_each(alpha, gamma, target, draft):
    return _gain(alpha, gamma, target, gamma * draft + (gamma + 1) * target[0])


def drafts_one_more(alpha, gamma, target, draft):
    return _gain(alpha, gamma, target, (gamma + 1) * draft + target[gamma])


def own_token_forgotten(alpha, gamma, target, draft):
    cost = gamma * draft + target[gamma]
    return (tokens_per_round(alpha, gamma) - 1) * target[0] / cost


def _machines(rng: np.random.Generator) -> Iterator[tuple[float, int, list[float], float]]:
    yield 0.5, 1, [2.0, 3.0], 0.5
    yield 0.8, 2, [2.0, 2.5, 3.0], 0.2
    yield 0.7, 2, [2.0, 2.5, 3.0, 3.5, 4.0], 0.2  # more was measured than is drafted
    for gamma in (3, 5):
        target = (1.5 + np.cumsum(rng.uniform(0.1, 0.6, size=gamma + 1))).round(2)
        alpha, draft = rng.uniform((0.3, 0.1), (0.9, 0.5)).round(2).tolist()
        yield alpha, gamma, target.tolist(), draft
    yield 0.6, 3, [0.007, 0.0072, 0.0075, 0.0081], 0.0009  # in seconds
    yield 0.8, 2, [2.0, 3.0, 2.5], 0.2  # clocks err: three tokens took less than two
    yield 0.8, 2, [2.5, 2.0, 3.0], 0.2  # and one took more than two
    yield 0.9, 2, [2.0, 2.5, 3.0], 2.0  # the drafts take longer than the target
    target = (7 + np.cumsum(rng.uniform(0.1, 0.6, size=40))).round(2)
    yield 0.95, 24, target.tolist(), 0.4


def _sure_machines(rng: np.random.Generator) -> Iterator[tuple[float, int, list[float], float]]:
    yield 0.0, 2, [1.5, 2.0, 3.0], 0.3
    yield 1.0, 2, [2.0, 2.5, 3.0], 0.2  # every draft is kept
    yield 0.6, 0, [2.0], 0.3  # nothing is drafted
    yield 0.6, 0, [2.0, 3.0], 0.3
    yield 0.8, 2, [2.0, 2.0, 2.0], 0.1  # the textbook's machine


SPEEDUP = Exercise(
    id="07.4",
    title="Speed-up from measured costs (may be skipped)",
    task=(
        "A round drafts γ tokens one after the other, and the target then reads γ + 1 tokens in "
        "one forward: the last token of the text and all drafts. It adds `1 + α + … + α^γ` tokens. "
        "How many times as fast as plain decoding is that, with these measured times?"
    ),
    stars=2,
    minutes=10,
    reference=speedup,
    alternatives=[time_for_the_same_text],
    wrong={
        free_verification: (
            "you charge one plain token for the verification: the target reads γ + 1 tokens, and "
            "that takes target[γ]."
        ),
        one_row_too_few: (
            "the forward is one token too short: the target reads the last token of the text "
            "besides the γ drafts."
        ),
        free_drafts: "the draft model's time is missing.",
        one_draft_only: "a round drafts γ tokens, one after the other; you pay for one.",
        the_last_time: (
            "the last measured time need not be that of γ + 1 tokens: more may have been measured. "
            "Take target[γ]."
        ),
        upside_down: "that is the other way round: above 1 must mean faster.",
        cost_alone: "you assume that every draft is accepted: alpha plays no part.",
        tokens_alone: "you count tokens only: neither the drafts nor the verification are free.",
        per_second: (
            "that is the speed with drafts: divide it by the speed without, one token in target[0]."
        ),
        pays_for_one_forward_each: (
            "you pay γ + 1 forwards of one token: the target reads all γ + 1 in *one* forward, "
            "target[γ]. That is where the gain comes from."
        ),
        drafts_one_more: "a round drafts γ tokens; the one more is the target's own.",
        own_token_forgotten: "the target's own token is missing from what a round adds.",
    },
    cases=_machines,
    checker=edges(_sure_machines),
    hints=[
        "What does a round cost, and what does it add? Plain decoding adds 1 token in target[0].",
        "tokens / (γ · draft + target[γ]), divided by 1 / target[0].",
    ],
    next="Which γ is the best for α = 0.5? Try your function on `costs`, measured above.",
)
