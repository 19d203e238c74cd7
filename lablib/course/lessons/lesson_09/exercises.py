"""Exercises of lesson 09: looking drafts up, choosing how many, judging and dropping them.

The wrong ideas are listed with what is said of each, in ``wrong``; a comment at a case says which
one it is for. Cases are short enough to paste, and probabilities are sixteenths.
"""

from collections.abc import Iterator

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges
from lablib.course.lessons.lesson_09.exercises_dropping import DROPPING

import numpy as np

__all__ = ["BEST_LENGTH", "BLOCK", "DROPPING", "ESTIMATE", "LOOKUP"]

# ------------------------------------------------------------------ 09.1 prompt lookup


def lookup(text, n, longest):
    """Propose at most n tokens: what followed the last tokens of the text when they last occurred.

    text: a list of ids, perhaps empty.   n: at least 1.
    longest: how many last tokens to look for at most, at least 1; try the longest run first, then
        shorter ones, down to a single token. Return [] if even that one is new.
    """
    for size in range(min(longest, len(text) - 1), 0, -1):
        run = text[-size:]
        for start in reversed(range(len(text) - size)):
            if text[start : start + size] == run:
                return text[start + size : start + size + n]
    return []


def lookup_by_table(text, n, longest):
    follows = {}
    for end in range(1, len(text)):
        for size in range(1, min(longest, end) + 1):
            follows[tuple(text[end - size : end])] = end
    for size in range(longest, 0, -1):
        place = follows.get(tuple(text[-size:])) if size <= len(text) else None
        if place is not None:
            return list(text[place : place + n])
    return []


def in_the_joined_text(text, n, longest):
    for size in range(min(longest, len(text) - 1), 0, -1):
        run = "".join(str(token) for token in text[-size:])
        for start in reversed(range(1, len(text))):
            if "".join(str(token) for token in text[:start]).endswith(run):
                return text[start : start + n]
    return []


def most_frequent(text, n, longest):
    for size in range(min(longest, len(text) - 1), 0, -1):
        starts = [i for i in range(len(text) - size) if text[i : i + size] == text[-size:]]
        if starts:
            after = [text[i + size] for i in starts]
            start = starts[after.index(max(after, key=after.count))]
            return text[start + size : start + size + n]
    return []


def _texts(rng: np.random.Generator) -> Iterator[tuple[list[int], int, int]]:
    yield [1, 2, 3, 1, 2], 2, 2
    yield [1, 2, 4, 1, 2], 2, 2  # another text with the same end
    yield [1, 2, 3], 2, 2  # nothing comes twice
    yield [5, 6, 7, 5, 8], 2, 2  # the 5 does, but the text has gone on
    yield [1, 1, 2, 7, 1, 2, 2], 1, 3  # 1 1 2 is not 1 2 2: the same words, and two places agree
    yield [1, 2, 3, 9, 1, 2, 4, 9, 1, 2], 3, 2  # two places
    yield [1, 2, 3, 4, 7, 3, 5, 1, 2, 3], 1, 3  # a long run, and a later short one
    yield [5, 6, 7, 5], 4, 1  # the text ends before the guess does
    yield [5, 1, 2, 5, 5], 2, 1  # and would not if the first place counted
    yield [3, 3, 3, 3], 3, 3  # a run that overlaps itself
    yield [7, 7, 9, 7, 7, 7], 1, 2  # and goes before one that doesn't
    yield [7, 7, 9, 5, 7, 7], 1, 2  # the 9 followed two of them, a 7 only one
    yield [1, 12, 5, 11, 2, 6, 1, 12], 1, 2  # ids of more than one digit
    yield [2, 7, 12, 8, 5, 2], 1, 1  # a 2 is no 12
    yield [12, 7, 30, 12], 2, 1  # and the guess has a 30
    yield [3, 8, 5, 3, 7, 3, 7, 9, 3, 6, 3], 1, 1
    yield [1, 2, 3, 4, 7, 3, 5, 1, 2, 3], 1, 1
    yield [1, 2, 3, 4, 9, 0, 2, 3, 4, 8, 1, 2, 3, 4], 2, 4  # only a run of four finds the 9
    yield [1, 2, 3, 7, 2, 3, 8, 1, 2, 3], 1, 4  # and one of three the 7
    yield [2, 3, 4, 7, 1, 9, 3, 4, 8, 1, 2, 3, 4], 1, 4  # three of four agree before the 8
    yield [*range(1, 9), 0, *range(2, 9), 9, *range(1, 9)], 1, 9  # and one of eight the 0
    yield [1, 2, 3, 4, 5, 6, 7, 1], 6, 1
    yield [*range(20), 0], 1, 1  # it is long ago
    yield [5, 6, 6, 9, 5, 6], 3, 2  # the guess has the run's last token in it
    yield [1, 21, 3, 12, 1, 4, 2, 1], 2, 2  # the digits 21 stand in three places
    for size in (8, 12, 16):
        n, longest = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        yield rng.integers(0, 3, size=size).tolist(), n, longest


def _short_texts(rng: np.random.Generator) -> Iterator[tuple[list[int], int, int]]:
    yield [], 2, 2
    yield [4], 2, 3
    yield [4, 4], 2, 3
    yield [10, 20, 30], 1, 12
    yield [4, 0, 4], 1, 1  # 0 is an id as any other
    yield [0, 5, 0, 0, 5], 2, 2
    yield [int("1000"), 7, int("1000")], 1, 1  # equal, and not the same object
    yield [258, 7, 2, 8, 258], 1, 1  # a byte would hold both as 2
    yield [1, 2, 7, 2, 5, 1, 2], 1, 4  # only a run of two finds the 7
    yield [1, 2, 4, 7, 1, 2, 3], 1, 3  # a run is more than its beginning
    yield [5, 6] * 4, 4, 6  # six of eight, and they overlap
    for words in (2, 2, 2, 3, 3, 3):  # much comes again, nearly
        yield rng.integers(0, words, size=40).tolist(), 4, 6


LOOKUP = Exercise(
    id="09.1",
    title="Prompt lookup",
    task=(
        "Write the drafter that needs no model. Take the last `longest` tokens, find the *last* "
        "place before the end where the same run stands, and propose up to `n` tokens that "
        "followed it there. If the run is new, try a shorter one."
    ),
    stars=1,
    minutes=8,
    reference=lookup,
    alternatives=[lookup_by_table],
    wrong={
        changed(lookup, "finds_itself", "len(text) - size)", "len(text) - size + 1)"): (
            "the run matches *itself* at the very end of the text, where nothing follows it: that "
            "place does not count."
        ),
        changed(
            lookup, "first_place", "reversed(range(len(text) - size))", "range(len(text) - size)"
        ): "the *last* earlier place counts, not the first: near text guides better.",
        changed(
            lookup,
            "shortest_first",
            "range(min(longest, len(text) - 1), 0, -1)",
            "range(1, min(longest, len(text) - 1) + 1)",
        ): (
            "the last place of a single token decides: you try it first, or take the newest place "
            "of any run. A longer run fits in fewer places, and better: look for it everywhere "
            "first."
        ),
        changed(
            lookup,
            "longest_or_nothing",
            "range(min(longest, len(text) - 1), 0, -1)",
            "[longest] if longest < len(text) else []",
        ): "if the longest run is new, try shorter ones, down to one token.",
        changed(
            lookup,
            "copies_the_run",
            "text[start + size : start + size + n]",
            "text[start : start + n]",
        ): (
            "you propose the run itself, which the text has just said. Propose what came *after* "
            "it."
        ),
        changed(
            lookup,
            "one_too_far",
            "text[start + size : start + size + n]",
            "text[start + size + 1 : start + size + 1 + n]",
        ): "you start one token too late: the first token after the run is the guess.",
        changed(
            lookup,
            "copies_beyond_the_end",
            "text[start + size : start + size + n]",
            "[text[start + size + i % (len(text) - start - size)] for i in range(n)]",
        ): (
            "what followed ends where the text ends: propose fewer than n tokens then, and don't "
            "start again from the front."
        ),
        changed(
            lookup, "always_all", "start + size + n]", "]"
        ): "at most n tokens: every further one has to be read and judged.",
        in_the_joined_text: (
            "you search in a text of joined digits, where 1, 12 and 11, 2 look the same: compare "
            "whole ids, text[i : i + size] == run."
        ),
        changed(
            lookup,
            "runs_that_overlap_do_not_count",
            "len(text) - size)",
            "len(text) - 2 * size + 1)",
        ): (
            "the earlier place may overlap the run itself: in 3 3 3 the run 3 3 stood before, one "
            "token to the left."
        ),
        changed(
            lookup, "longer_than_longest", "min(longest, len(text) - 1)", "len(text) - 1"
        ): "you look for runs longer than `longest`.",
        changed(lookup, "only_full_guesses", "len(text) - size)", "len(text) - size - n + 1)"): (
            "you skip places that are followed by fewer than n tokens. A short guess from the last "
            "place counts: up to n."
        ),
        changed(lookup, "at_most_three", "min(longest, ", "min(longest, 3, "): (
            "you look for runs of three tokens at most; `longest` says how many."
        ),
        most_frequent: (
            "you propose what followed the run most often. Here the *last* place counts, however "
            "rare it was."
        ),
    },
    cases=_texts,
    checker=edges(_short_texts),
    hints=[
        "Two loops: over the size of the run, downwards, and over its start, from the right.",
        "reversed(range(len(text) - size)) are the starts that have a token after the run.",
    ],
    next="How much work is your search for a text of 10,000 tokens? How does NGram avoid it?",
)

# ------------------------------------------------------------------ 09.2 the best length


def best_length(alpha, target, draft, most):
    """Return the number of drafts, 0 to most, with the most expected tokens for their cost.

    alpha: the chance, 0 to 1, that a draft which is reached is kept.
    target: target[k - 1] is the cost of one forward over k tokens, a list of at least most + 1.
    draft: the cost of a drafted token, perhaps 0.
    Plain decoding is 0 drafts: one token for target[0]. Among equals the smallest number wins.
    """
    best, best_rate = 0, 1 / target[0]
    for gamma in range(1, most + 1):
        tokens = sum(alpha**i for i in range(gamma + 1))
        rate = tokens / (gamma * draft + target[gamma])
        if rate > best_rate * (1 + 1e-9):  # more than a rounding error
            best, best_rate = gamma, rate
    return best


def best_length_by_arrays(alpha, target, draft, most):
    gammas = np.arange(most + 1)
    tokens = np.cumsum(float(alpha) ** gammas)
    rates = tokens / (gammas * draft + np.array(target[: most + 1]))
    return int(np.flatnonzero(rates >= rates.max() * (1 - 1e-9))[0])


def _prices(rng: np.random.Generator) -> Iterator[tuple[float, list[float], float, int]]:
    flat = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8]
    yield 0.8, flat, 0.1, 8
    yield 0.3, flat, 0.4, 8  # cannot pay
    yield 0.3, [2.0, 2.4, 2.8, 3.2], 0.8, 3  # nor here, where plain decoding costs 2
    yield 0.8, [1.0, 2.0, 3.0, 4.0, 5.0], 0.1, 4  # reading is as dear as writing
    yield 0.9, flat, 0.0, 8
    yield 0.95, flat, 0.05, 8
    yield 0.6, flat, 0.1, 8
    yield 0.9, flat, 0.02, 3
    yield 0.5, [1.0, 1.6, 1.7, 1.8, 1.9], 0.05, 4  # the second token is the dear one
    yield 0.6, [1.0, 1.6, 1.7, 1.8, 1.9], 0.05, 4  # and it pays for those behind it
    yield 0.5, [1.0, 1.5, 1.75], 0.0, 2  # all are equal, exactly
    yield 0.5, [2.0, 2.5, 3.5, 4.5], 0.25, 3  # a tie that is no dip
    yield 0.5, [1.0, 1.25], 0.24, 1  # a gain of 1 in 150
    yield 0.4, [1.0, 1.125], 0.125, 1  # most drafts are refused, and they pay
    yield 0.5, [1.0, 2.0, 1.5], 0.0, 2  # a measured price may fall
    # prices rise in steps: what does not pay at a step may pay behind it
    yield 0.9, [1.0, 1.1, 1.9, 1.95, 2.0, 2.05], 0.05, 5
    yield 0.95, [1.0, 1.1, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0], 0.0, 7
    yield 0.8, [1.0, 1.2, 2.4, 2.5, 2.6, 2.7], 0.0, 5  # and may not
    for alpha in (0.5, 0.7, 0.85, 0.95):
        slope, price = rng.uniform(0.02, 0.3), rng.uniform(0, 0.5)
        yield alpha, [round(2 + 2 * slope * k, 2) for k in range(9)], round(price, 2), 8
    # prices in microseconds, or in hours: only their ratios matter
    yield 0.9, [2e-7, 2.1e-7, 2.2e-7, 2.3e-7, 2.4e-7], 1e-8, 4
    yield 0.9, [2e7, 2.1e7, 2.2e7, 2.3e7, 2.4e7], 1e6, 4


def _extreme_prices(rng: np.random.Generator) -> Iterator[tuple[float, list[float], float, int]]:
    flat = [1.0, 1.1, 1.2, 1.3, 1.4]
    yield 1.0, flat, 0.05, 4
    yield 1.0, [1.0, 2.0, 3.0, 4.0, 5.0], 0.0, 4  # all are equal
    yield 1.0, [1.0, 1.9995], 0.0, 1  # and 0.999 is not 1
    yield 0.0, flat, 0.0, 4
    yield 0.9, [1.0], 0.1, 0  # drafting is not allowed
    yield 0.9, [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], 0.1, 2  # prices beyond `most` are known too


BEST_LENGTH = Exercise(
    id="09.2",
    title="How many to draft",
    task=(
        "Expected tokens grow with every further draft, and so does the cost. Find the number of "
        "drafts with the most tokens *for their cost*. It may be 0."
    ),
    stars=2,
    minutes=10,
    reference=best_length,
    alternatives=[best_length_by_arrays],
    wrong={
        changed(best_length, "most_tokens", "tokens / (gamma * draft + target[gamma])", "tokens"): (
            "you maximise tokens per round. That always grows with γ, so you would always draft "
            "as many as allowed: divide by what the round costs."
        ),
        changed(best_length, "never_zero", "0, 1 / target[0]", "min(1, most), 0"): (
            "you never return 0. Where drafting cannot pay, plain decoding is the best choice."
        ),
        changed(
            best_length, "drafts_are_free", "gamma * draft + ", ""
        ): "drafted tokens have a price too: γ times `draft`.",
        changed(best_length, "reading_is_free", "target[gamma]", "target[0]"): (
            "the target reads γ + 1 tokens in its forward, and that costs target[γ], not target[0]."
        ),
        changed(best_length, "one_draft_too_few", "target[gamma]", "target[gamma - 1]"): (
            "the target reads the last token *and* the γ drafts: γ + 1 tokens, so target[γ]."
        ),
        changed(best_length, "forgets_its_own_token", "range(gamma + 1)", "range(1, gamma + 1)"): (
            "a round yields one token of the target's own as well: 1 + α + ... + α^γ."
        ),
        changed(
            best_length,
            "all_or_nothing",
            "sum(alpha**i for i in range(gamma + 1))",
            "1 + gamma * alpha",
        ): (
            "you count α tokens for every draft. The third draft counts only if the first two "
            "were kept: it is worth α³."
        ),
        changed(
            best_length,
            "stops_at_the_first_dip",
            "best, best_rate = gamma, rate",
            "best, best_rate = gamma, rate\n        else:\n            break",
        ): ("you stop where one more draft does not help. Two more might: try every number."),
        changed(
            best_length,
            "stops_after_a_rise",
            "best, best_rate = gamma, rate",
            "best, best_rate = gamma, rate\n        elif best:\n            break",
        ): (
            "you stop where it pays no more. The price of reading rises in steps, and behind a "
            "step a draft may pay again: try every number."
        ),
        changed(
            best_length,
            "each_pays_for_itself",
            "rate > best_rate * (1 + 1e-9)",
            "alpha**gamma * target[0] > draft + target[gamma] - target[gamma - 1]",
        ): (
            "you draft as long as a draft is worth more than it costs in plain tokens. A good "
            "round makes tokens cheaper than plain ones: compare whole rounds, tokens over cost."
        ),
        changed(
            best_length,
            "the_last_of_equals",
            "> best_rate * (1 + 1e-9)",
            ">= best_rate * (1 - 1e-9)",
        ): "among equals the smallest number wins: nothing is drafted in vain.",
        changed(best_length, "cheapest", "return best", "return 0"): (
            "you always return 0, whatever α is. (So it comes out, too, where prices are added up: "
            "target[γ] is the price of the whole forward.)"
        ),
        changed(
            best_length, "never_most", "most + 1)", "most)"
        ): "`most` itself is allowed: range(most + 1).",
        changed(
            best_length_by_arrays, "drafts_one_more", "(gammas * draft", "((gammas + 1) * draft"
        ): ("γ drafts cost γ times `draft`: the token of the target's own is no draft."),
        changed(
            best_length,
            "only_the_whole_block",
            "sum(alpha**i for i in range(gamma + 1))",
            "1 + gamma * alpha**gamma",
        ): (
            "a round keeps what comes before the first refusal too: the n-th draft counts with α^n."
        ),
    },
    cases=_prices,
    checker=edges(_extreme_prices),
    hints=[
        "A round of γ drafts yields 1 + α + ... + α^γ tokens. What does it cost?",
        "γ * draft + target[γ]; for γ = 0 that is target[0], plain decoding.",
    ],
    next="Let drafts be free and target = [1, 1.1, 1.2, ...]: from which α on does drafting pay?",
    further=True,
)

# ------------------------------------------------------------------ 09.3 an estimate that forgets


def estimate(rounds, start, memory):
    """Return the estimate of alpha after these rounds, as a text goes on and changes.

    rounds: (drafted, accepted) of each, in order, perhaps none; up to accepted + 1 drafts were
        judged in it. A round of (0, 0) was plain decoding: it teaches nothing and changes nothing.
    start: the estimate before the first round; it has the weight of 4 judged drafts.
    memory: each round with drafts multiplies the weight of all before it by 1 - 1 / memory. What it
        brings itself has weight 1 for each judged draft.
    """
    kept, judged = 4 * start, 4.0
    for drafted, accepted in rounds:
        if drafted > 0:
            kept = (1 - 1 / memory) * kept + accepted
            judged = (1 - 1 / memory) * judged + min(accepted + 1, drafted)
    return kept / judged


def with_a_fade(rounds, start, memory):
    kept, judged = 4 * start, 4.0
    for drafted, accepted in rounds:
        reached = min(accepted + 1, drafted)
        fade = 1 - 1 / memory if reached else 1.0
        kept, judged = fade * kept + accepted, fade * judged + reached
    return kept / judged


def estimate_backwards(rounds, start, memory):
    kept, judged, weight = 0.0, 0.0, 1.0
    for drafted, accepted in reversed(rounds):
        if drafted == 0:
            continue
        kept += weight * accepted
        judged += weight * (accepted if accepted == drafted else accepted + 1)
        weight *= 1 - 1 / memory
    return (kept + weight * 4 * start) / (judged + weight * 4)


def mean_of_the_rounds(rounds, start, memory):
    rates = [accepted / min(accepted + 1, drafted) for drafted, accepted in rounds if drafted]
    return sum([start, *rates]) / (1 + len(rates))


def _histories(rng: np.random.Generator) -> Iterator[tuple[list[tuple[int, int]], float, int]]:
    yield [(4, 4)], 0.5, 8
    yield [(4, 0)], 0.5, 8
    yield [(4, 1), (4, 4), (2, 0)], 0.8, 4
    yield [(2, 2), (2, 2), (2, 1)], 0.5, 2  # all kept, and then not
    yield [(6, 6), (1, 0), (1, 0), (2, 1), (1, 0)], 0.5, 2  # what is long ago still counts a little
    for memory in (4, 16, 64):
        drafted = rng.integers(1, 9, size=5)
        rounds = [(int(d), int(rng.integers(0, d + 1))) for d in drafted]
        yield rounds, round(rng.uniform(0.2, 0.9), 2), memory


def _histories_at_the_edge(
    rng: np.random.Generator,
) -> Iterator[tuple[list[tuple[int, int]], float, int]]:
    yield [], 0.8, 8
    yield [(1, 0)], 1.0, 8
    yield [(1, 1)], 0.0, 8
    yield [(4, 2), (0, 0), (0, 0), (3, 3)], 0.6, 8  # two rounds of plain decoding
    yield [(5, 3), (2, 2), (0, 0)], 0.5, 1  # it remembers one round only
    yield [(0, 0), (6, 0)], 0.75, 1000
    yield [(4, 4)] * 3 + [(4, 0)] * 12, 0.5, 100  # a long memory
    yield [(4, 0)] * 6, 0.2, 4  # nearly 0, and nearly 1
    yield [(4, 4)] * 6, 0.9, 5


ESTIMATE = Exercise(
    id="09.3",
    title="An estimate that forgets",
    task=(
        "To choose a length one needs α, and α changes with the text. Keep two sums, of accepted "
        "and of judged drafts, and let the old evidence fade with every round."
    ),
    stars=2,
    minutes=10,
    reference=estimate,
    alternatives=[estimate_backwards, with_a_fade],
    wrong={
        changed(estimate, "divides_by_drafted", "min(accepted + 1, drafted)", "drafted"): (
            "you divide by all drafts. Those after a refusal were never judged and say nothing "
            "about α."
        ),
        changed(with_a_fade, "never_forgets", "1 - 1 / memory if reached else 1.0", "1.0"): (
            "old rounds keep their full weight: after a long easy text you would need as long "
            "again to notice a hard one."
        ),
        changed(
            with_a_fade,
            "fades_by_judged",
            "1 - 1 / memory if reached else 1.0",
            "(1 - 1 / memory) ** reached",
        ): "the old evidence fades once in each round, not once for each draft.",
        changed(
            with_a_fade,
            "fades_by_accepted",
            "1 - 1 / memory if reached else 1.0",
            "(1 - 1 / memory) ** accepted",
        ): ("the old evidence fades once in each round, however many drafts were accepted in it."),
        changed(
            with_a_fade,
            "fades_by_drafted",
            "1 - 1 / memory if reached else 1.0",
            "(1 - 1 / memory) ** drafted",
        ): ("the old evidence fades once in each round, however many drafts were made in it."),
        changed(
            with_a_fade,
            "last_round_only",
            "1 - 1 / memory if reached else 1.0",
            "0.0 if reached else 1.0",
        ): "only the last round counts with you: earlier ones fade, but they stay.",
        changed(
            with_a_fade, "ignores_the_start", "4 * start, 4.0", "0.0, 1e-300"
        ): "before the first round `start` counts, with the weight of 4 drafts.",
        changed(
            with_a_fade, "start_weighs_one", "4 * start, 4.0", "start, 1.0"
        ): "`start` has the weight of 4 judged drafts, not of one.",
        changed(estimate, "counts_one_too_many", "min(accepted + 1, drafted)", "accepted + 1"): (
            "if all drafts were accepted, no further one was judged: min(accepted + 1, drafted)."
        ),
        changed(
            with_a_fade,
            "fades_the_new_ones_too",
            "fade * kept + accepted, fade * judged + reached",
            "fade * (kept + accepted), fade * (judged + reached)",
        ): (
            "what this round brings has full weight: fade the old sums first, then add. (So it "
            "comes out, too, if the first round does not fade what was there at the start.)"
        ),
        mean_of_the_rounds: (
            "you average the rates of the rounds. A round of one draft would weigh as much as one "
            "of eight: keep two sums."
        ),
        changed(with_a_fade, "plain_rounds_fade", " if reached else 1.0", ""): (
            "a round without drafts has taught nothing, so nothing fades: leave both sums."
        ),
    },
    cases=_histories,
    checker=edges(_histories_at_the_edge),
    hints=[
        "Begin with 4 * start accepted drafts of 4 judged ones.",
        "What was there fades before a round's own counts are added. How many of its drafts were "
        "judged if all were kept? And if not?",
    ],
    next="AdaptiveLength.observe does this for each place of a round. Why is one α not enough?",
    further=True,
)

# ------------------------------------------------------------------ 09.4 block verification


def block(p, q, drafts):
    """Return the probability that exactly n drafts are kept, for n = 0 ... γ, as a list.

    p: the target's distributions, an array (γ + 1, V), γ at least 1.   q: the draft's, (γ, V).
    drafts: the γ drafted tokens; q of each is positive.
    w[0] = 1 and w[n] = min(1, w[n - 1] * p(x) / q(x)), x the n-th draft: how well n are covered.
    s[n] = Σ max(w[n] * p[n] - q[n], 0) over the vocabulary; after the last draft s = w.
    Prefix n passes with probability s / (s + 1 - w), or 0 where s is 0 (then w may be 1, for
    example if p = q). The empty one always passes. The LONGEST prefix that passes is kept.
    """
    chances, longer_failed, w = [], 1.0, [1.0]
    for i, x in enumerate(drafts):
        w.append(min(1.0, w[-1] * p[i, x] / q[i, x]))
    for n in reversed(range(len(drafts) + 1)):
        s = np.maximum(w[n] * p[n] - q[n], 0).sum() if n < len(drafts) else w[n]
        passes = s / (s + (1 - w[n])) if s > 0 else 0.0  # 1 for the empty prefix, whose w is 1
        chances.append(longer_failed * passes)
        longer_failed *= 1 - passes
    return chances[::-1]


def block_by_arrays(p, q, drafts):
    ids = np.arange(len(drafts))
    covered = [1.0]
    for ratio in p[ids, drafts] / q[ids, drafts]:
        covered.append(min(1.0, covered[-1] * ratio))
    w = np.array(covered)
    rest = np.maximum(w[:, None] * p - np.vstack([q, np.zeros((1, p.shape[1]))]), 0).sum(axis=1)
    passes = np.divide(rest, rest + 1 - w, out=np.zeros_like(rest), where=rest + 1 - w > 0)
    passes[0] = 1
    later = np.append(np.cumprod((1 - passes)[::-1])[-2::-1], 1.0)
    return (passes * later).tolist()


def _passes(p, q, drafts):
    """Return the chance that each prefix passes."""
    w = [1.0]
    for i, x in enumerate(drafts):
        w.append(min(1.0, w[-1] * p[i][x] / q[i][x]))
    chances = [1.0]
    for n in range(1, len(drafts) + 1):
        s = np.maximum(w[n] * p[n] - q[n], 0).sum() if n < len(drafts) else w[n]
        chances.append(s / (s + 1 - w[n]) if s > 0 else 0.0)
    return chances


def one_by_one(p, q, drafts):
    accept = [min(1.0, p[i][x] / q[i][x]) for i, x in enumerate(drafts)]
    reach = np.cumprod([1.0, *accept])
    return [*(reach[:-1] * (1 - np.array(accept))).tolist(), float(reach[-1])]


def first_failure_ends(p, q, drafts):
    passes = _passes(p, q, drafts)
    reach = np.cumprod(passes)
    return [*(reach[:-1] * (1 - np.array(passes[1:]))).tolist(), float(reach[-1])]


def shortest_first(p, q, drafts):
    chances, failed = [], 1.0
    for each in _passes(p, q, drafts)[1:]:
        chances.append(failed * each)
        failed *= 1 - each
    return [failed, *chances]


def _sixteenths(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Return distributions of three positive sixteenths, ``(rows, 3)``."""
    return (1 + rng.multinomial(13, np.ones(3) / 3, size=rows)) / 16


def _blocks(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, list[int]]]:
    for drafts in ([0, 1], [1, 0], [0, 0], [1, 1]):
        yield np.array([[0.25, 0.75]] * 3), np.array([[0.75, 0.25]] * 2), drafts
    p = np.array([[0.25, 0.5, 0.25], [0.375, 0.375, 0.25], [0.5, 0.25, 0.25]])
    yield p, np.array([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]), [0, 2]  # s is a sum of two
    for gamma in (1, 2, 2, 3, 3, 4):
        p, q = (_sixteenths(rng, rows) for rows in (gamma + 1, gamma))
        yield p, q, [int(rng.choice(3, p=row)) for row in q]


def _equal_blocks(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, list[int]]]:
    p, q = (_sixteenths(rng, rows) for rows in (4, 3))
    yield p[[0, 0, 1, 2]], np.array([p[0], p[0], q[2]]), [2, 0, 2]  # p = q, and then not
    yield np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([[0.25, 0.75]]), [1]  # p = q
    yield np.vstack([p[:1], p[:1], p[:1]]), np.vstack([q[:1], p[:1]]), [int(p[0].argmax()), 1]
    yield np.array([[1.0, 0.0]] * 3), np.array([[0.5, 0.5]] * 2), [1, 0]  # never the target's
    p = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])  # nor is the second one here
    yield p, np.array([[0.5, 0.5], [0.25, 0.75]]), [0, 1]
    yield np.ones((3, 1)), np.ones((2, 1)), [0, 0]  # a vocabulary of one
    # little is left, and it is not nothing
    yield np.full((3, 2), 0.5), np.array([[0.25, 0.75], [0.5078125, 0.4921875]]), [0, 0]


BLOCK = Exercise(
    id="09.4",
    title="Judge the block",
    task=(
        "Block verification asks about prefixes and not about tokens. At least n drafts should be "
        "kept with probability w. Longer prefixes bring w − s of that, so s is still due, and all "
        "of them fail with 1 − (w − s): that is where s / (s + 1 − w) comes from. Compute with "
        "what probability exactly n of the drafts are kept."
    ),
    stars=3,
    minutes=20,
    reference=block,
    alternatives=[block_by_arrays],
    wrong={
        one_by_one: (
            "that is token-wise rejection: a refused draft ends it, and nothing that follows can "
            "make up for it."
        ),
        first_failure_ends: (
            "a prefix that does not pass ends nothing: a longer one may pass. Ask the longest "
            "prefix first."
        ),
        changed(
            block, "not_capped", "min(1.0, w[-1] * p[i, x] / q[i, x])", "w[-1] * p[i, x] / q[i, x]"
        ): ("w is at most 1: what a draft has too much of is not saved up for later drafts."),
        changed(
            block, "not_scaled", "w[n] * p[n]", "p[n]"
        ): "in s the target's row is multiplied by w: only that share of it is left.",
        changed(
            block, "coverage_is_the_chance", "s / (s + (1 - w[n])) if s > 0 else 0.0", "w[n]"
        ): (
            "w says how well a prefix is covered; it passes with s / (s + 1 - w), which is w only "
            "for the last one."
        ),
        changed(
            block, "at_least", "return chances[::-1]", "return np.cumsum(chances)[::-1].tolist()"
        ): "that is the chance that *at least* n are kept: the chances must sum to 1.",
        changed(
            block, "room_forgotten", "(s + (1 - w[n]))", "(s + 1)"
        ): "the chance to pass is s / (s + 1 - w), not s / (s + 1).",
        changed(
            block,
            "ratios_capped_one_by_one",
            "min(1.0, w[-1] * p[i, x] / q[i, x])",
            "w[-1] * min(1.0, p[i, x] / q[i, x])",
        ): (
            "you cap each p/q at 1 before you multiply, so a surplus can't make up for the deficit "
            "before it. Multiply first, then cap: min(1, w[n - 1] * p(x) / q(x))."
        ),
        shortest_first: "you ask the shortest prefix first; the *longest* that passes is kept.",
        changed(
            block_by_arrays,
            "zero_over_zero",
            "np.divide(rest, rest + 1 - w, out=np.zeros_like(rest), where=rest + 1 - w > 0)",
            "rest / (rest + 1 - w)",
        ): (
            "0 / 0: where s is 0 nothing could follow that prefix, and it does not pass. It "
            "happens when p = q."
        ),
    },
    cases=_blocks,
    checker=edges(_equal_blocks),
    hints=[
        "First all w, from the front. Then the prefixes, from the longest to the empty one.",
        "Prefix n is kept if it passes and every longer one failed; the empty one always passes.",
    ],
    next="For p = [1/3, 2/3], q = [2/3, 1/3], drafts 0 then 1: why is so much more kept?",
    further=True,
)
