"""Exercises of lesson 08: rules that lose nothing, and how to find one that does.

The wrong ideas are listed with what is said of each, in ``wrong``. The numbers of the cases are
sixteenths: exact in binary, and short enough to paste. Where that matters a comment says which idea
a case is for.
"""

import math
from collections.abc import Iterator

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np


def _sixteenths(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return a distribution of positive sixteenths."""
    return (1 + rng.multinomial(16 - size, np.ones(size) / size)) / 16


# ------------------------------------------------------------------ 08.1 how much is kept


def acceptance(p, q):
    """Return (rejection, match): the probability that each rule keeps a draft drawn from q.

    p: the target's distribution, an array of V numbers, some perhaps 0.
    q: the draft's distribution, the same.
    """
    rejection = sum(min(a, b) for a, b in zip(p, q, strict=True))
    match = sum(a * b for a, b in zip(p, q, strict=True))
    return rejection, match


def one_minus_tv(p, q):
    p, q = np.asarray(p), np.asarray(q)
    return 1 - np.abs(p - q).sum() / 2, float(p @ q)


def by_definition(p, q):
    pairs = [(a, b) for a, b in zip(p, q, strict=True) if b > 0]
    return sum(b * min(1, a / b) for a, b in pairs), sum(b * a for a, b in pairs)


def best_of_q_only(p, q):
    best = int(np.argmax(q))
    return min(1.0, p[best] / q[best]), p[best]


def zero_over_zero(p, q):
    return float((q * np.minimum(1, p / q)).sum()), float(p @ q)


def _pairs(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield np.array([0.5, 0.5]), np.array([0.5, 0.5])
    yield np.array([0.75, 0.25]), np.array([0.25, 0.75])
    yield np.array([0.5, 0.5]), np.array([0.25, 0.75])
    yield np.array([0.5, 0.5]), np.array([0.50390625, 0.49609375])  # alike is not the same
    yield np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])  # p/q is 2, and yet half is lost
    for size in (3, 4, 5):
        yield _sixteenths(rng, size), _sixteenths(rng, size)
    yield np.array([0.5, 0.125, 0.375]), np.array([0.125, 0.5, 0.375])  # as likely in both


def _pairs_with_zeros(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield np.array([1.0]), np.array([1.0])
    yield np.array([1.0, 0.0]), np.array([0.0, 1.0])
    yield np.array([0.96875, 0.03125]), np.array([0.03125, 0.96875])  # little, and not nothing
    yield np.array([0.5, 0.25, 0.25]), np.array([0.5, 0.5, 0.0])
    # a token that neither model would write
    yield np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.75, 0.0])


ACCEPTANCE = Exercise(
    id="08.1",
    title="How much is kept",
    task=(
        "A draft x is drawn from q. `rejection` keeps it with probability `min(1, p(x)/q(x))`. "
        "`match` draws a token from p as well and keeps x if the two are the same. How likely is "
        "it, before x is known, that each rule keeps it?"
    ),
    stars=1,
    minutes=6,
    reference=acceptance,
    alternatives=[one_minus_tv, by_definition],
    wrong={
        changed(
            acceptance, "swapped", "return rejection, match", "return match, rejection"
        ): "you return them in the other order: rejection first, then match.",
        changed(one_minus_tv, "twice_the_distance", ".sum() / 2", ".sum()"): (
            "the total variation is *half* of Σ |p − q|: what leaves one token arrives at another "
            "and would be counted twice."
        ),
        changed(
            acceptance, "the_distance", "return rejection", "return 1 - rejection"
        ): "that is the share that is refused: take 1 minus it.",
        changed(
            acceptance,
            "same_favourite",
            "sum(a * b for a, b in zip(p, q, strict=True))",
            "float(np.argmax(p) == np.argmax(q))",
        ): (
            "match does not compare the two favourites: it compares two *samples*, one from each "
            "model. Equal samples can be any token."
        ),
        best_of_q_only: (
            "that holds if q's favourite was drafted. Average over every draft x, each with its "
            "weight q(x)."
        ),
        changed(
            by_definition, "every_draft_alike", "b * min(", "1 / len(p) * min("
        ): "not every draft is equally likely: weigh each x with q(x).",
        changed(
            by_definition, "weighted_by_p", "b * min(", "a * min("
        ): "the draft is drawn from q, not from p: weigh each x with q(x).",
        changed(acceptance, "not_capped", "min(a, b)", "a"): (
            "p/q may exceed 1, and a probability cannot: without the min everything seems kept."
        ),
        changed(acceptance, "all_or_nothing", "min(a, b)", "a * (a <= b)"): (
            "where p(x) ≥ q(x) every draft of x is kept: its share is q(x), and not 0."
        ),
        changed(
            acceptance, "cosine", "match = sum(", "match = 1 / math.sqrt(p @ p * (q @ q)) * sum("
        ): ("the chance that two samples are equal is Σ p·q itself: even for p = q it is not 1."),
        zero_over_zero: "a token with q(x) = 0 is never drafted, so it adds nothing: 0 / 0 is NaN.",
    },
    cases=_pairs,
    checker=edges(_pairs_with_zeros),
    hints=[
        "Sum over x: the chance that x is drafted, times the chance that it is then kept.",
        "q(x) · min(1, p(x)/q(x)) can be written without a division. For match, how likely is it "
        "that the target's own token is x?",
    ],
    next="For p = q: what are the two numbers, and which draft would make match keep the most?",
)

# ------------------------------------------------------------------ 08.2 the rejection rule


def verify(p, q, drafts, u):
    """Judge drafts by rejection; return (kept, after): how many stay, and what follows them.

    p: the target's distributions, an array (γ + 1, V): p[i] is that of draft i, p[γ] comes after.
    q: the draft model's, an array (γ, V).   drafts: the γ drafted tokens; γ may be 0.
    u: γ numbers in [0, 1): draft i is kept if its chance exceeds u[i].
    after: the distribution of the token after the kept drafts, V numbers with sum 1.
    """
    for i, x in enumerate(drafts):
        if u[i] >= p[i, x] / q[i, x]:
            rest = np.maximum(p[i] - q[i], 0)
            return i, rest / rest.sum()
    return len(drafts), p[len(drafts)]


def verify_with_zeros(p, q, drafts, u):
    kept = 0
    while kept < len(drafts):
        chance = min(1.0, p[kept][drafts[kept]] / q[kept][drafts[kept]])
        if chance <= u[kept]:
            break
        kept += 1
    taken = q[kept] if kept < len(drafts) else [0.0] * len(p[kept])
    rest = [max(a - b, 0.0) for a, b in zip(p[kept], taken, strict=True)]
    return kept, [x / sum(rest) for x in rest]


def _after(p, q, drafts, kept):
    """Return what verify returns when so many drafts are kept."""
    if kept == len(drafts):
        return kept, p[kept]
    rest = np.maximum(p[kept] - q[kept], 0)
    return kept, rest / rest.sum()


def counts_the_correction(p, q, drafts, u):
    kept, after = verify(p, q, drafts, u)
    return kept + 1, after


def skips_over_refusals(p, q, drafts, u):
    chances = [p[i][x] / q[i][x] for i, x in enumerate(drafts)]
    kept = sum(a < b for a, b in zip(u, chances, strict=True))
    return _after(p, q, drafts, kept)


def _round(p, q, drafts, u) -> tuple[np.ndarray, np.ndarray, list[int], list[float]]:
    p = np.array(p)
    return p, np.array(q).reshape(len(drafts), p.shape[1]), drafts, u


def _rounds(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, list, list]]:
    for u in (0.6667, 0.6666):  # its chance is 2/3, and not rounded
        yield _round([[0.5, 0.5], [0.25, 0.75]], [[0.25, 0.75]], [1], [u])
    yield _round([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], [[0.25, 0.5, 0.25]], [1], [0.4])
    yield _round([[0.75, 0.25], [0.5, 0.5]], [[0.5, 0.5]], [1], [0.5])  # its chance is u, not more
    # two words are missing something, in other shares than p's
    yield _round([[0.5, 0.375, 0.125], [0.25, 0.25, 0.5]], [[0.46875, 0.03125, 0.5]], [2], [0.3])
    # refused, and the next draft would be kept: it may follow the refusal as well
    rows, loved = [[0.25, 0.375, 0.375], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]], [0.5, 0.25, 0.25]
    yield _round(rows, [loved, loved], [0, 1], [0.75, 0.25])
    # both would be refused, and leave different words
    rows = [[0.25, 0.5, 0.25], [0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]
    yield _round(rows, [loved, loved], [0, 0], [0.75, 0.75])
    # two chances of 3/4: not their product, and not one u for both
    rows, chosen = [[0.375, 0.375, 0.25], [0.375, 0.375, 0.25], [0.25, 0.25, 0.5]], [0, 0]
    for u in ([0.25, 0.625], [0.25, 0.875]):
        yield _round(rows, [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], chosen, u)
    # each draft is asked about itself: at the second place the first would be refused
    rows, mixed = [[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]], [[0.5, 0.5], [0.75, 0.25]]
    yield _round(rows, mixed, [0, 1], [0.5, 0.5])
    # p/q of 2 and then of 1/2: a surplus is not saved up
    rows = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]
    yield _round(rows, [[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]], chosen, [0.5, 0.75])
    # what was drafted at the first place may follow a refusal at the second
    rows = [[0.25, 0.5, 0.25], [0.5, 0.125, 0.375], [0.25, 0.25, 0.5]]
    yield _round(rows, [[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]], [0, 1], [0.5, 0.5])
    # the third coin decides, and is not the second
    three = [[0.25, 0.75], [0.25, 0.75], [0.75, 0.25]]
    yield _round([[0.5, 0.5]] * 4, three, [1, 0, 0], [0.5, 0.25, 0.75])
    # what the target likes less than the refused word may follow, and so may what it likes more
    rows = [[0.3125, 0.1875, 0.5], [0.5, 0.25, 0.25]]
    yield _round(rows, [[0.625, 0.0625, 0.3125]], [0], [0.75])
    # the target's favourite is refused, though it has more than half
    often = [[0.9375, 0.03125, 0.03125]]
    yield _round([[0.625, 0.25, 0.125], [0.25, 0.25, 0.5]], often, [0], [0.75])
    for drafted in (2, 2, 2, 3, 3, 3):
        p, q = (np.array([_sixteenths(rng, 3) for _ in range(n)]) for n in (drafted + 1, drafted))
        drafts = [int(rng.choice(3, p=row)) for row in q]
        yield p, q, drafts, (rng.integers(0, 16, drafted) / 16).tolist()


def _rounds_at_the_edge(
    rng: np.random.Generator,
) -> Iterator[tuple[np.ndarray, np.ndarray, list, list]]:
    yield _round([[0.25, 0.75]], [], [], [])  # nothing drafted: the token is the target's own
    never = [[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]  # the third: its chance is 0, and not above u
    yield _round(never, [[0.125, 0.375, 0.5]], [2], [0.0])
    yield _round([[0.25, 0.75], [0.5, 0.5]], [[0.75, 0.25]], [0], [0.0])  # and here it is above
    rows, later = [[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]], [[0.25, 0.75], [0.5, 0.5]]
    yield _round(rows, later, [0, 1], [0.5, 0.5])  # impossible, and the draft before it stays
    yield _round([[1.0], [1.0]], [[1.0]], [0], [0.5])
    same = [[0.25, 0.75], [0.25, 0.75]]
    yield _round([*same, [0.5, 0.5]], same, [0, 1], [0.999, 0.999])  # p = q: nothing is refused
    yield _round([[0.0, 1.0], [0.5, 0.5]], [[1e-9, 1 - 1e-9]], [1], [0.5])
    for u in (0.25, 0.75):  # rare in both, and by a small difference: its chance is 1/2
        yield _round([[0.03125, 0.96875], [0.5, 0.5]], [[0.0625, 0.9375]], [0], [u])


VERIFY = Exercise(
    id="08.2",
    title="The rejection rule",
    task=(
        "Now with several drafts, as the engine does it. Judge them one after the other: draft x "
        "at place i is kept if `min(1, p[i][x] / q[i][x])` exceeds `u[i]`. The first refusal ends "
        "it. From which distribution does the next token come then, and from which one if all "
        "drafts were kept?"
    ),
    stars=3,
    minutes=15,
    reference=verify,
    alternatives=[verify_with_zeros],
    wrong={
        changed(verify, "residual_is_p", "rest / rest.sum()", "p[i]"): (
            "after a refusal you draw from p as if nothing had been drafted. Tokens that q covers "
            "have had their share already; only max(p − q, 0) is left."
        ),
        changed(
            verify, "not_renormalised", "rest / rest.sum()", "rest"
        ): "`after` does not sum to 1: divide max(p − q, 0) by its sum.",
        changed(verify, "keeps_with_p", " / q[i, x]", ""): (
            "you keep a draft with probability p(x). It was already drawn with probability q(x), "
            "so it would be written with p(x)·q(x): too rarely. Divide by q(x)."
        ),
        changed(
            verify, "upside_down", "p[i, x] / q[i, x]", "q[i, x] / max(p[i, x], 1e-12)"
        ): "the ratio is upside down: it is p/q, what the target wants over what it got.",
        changed(verify, "keeps_at_the_border", ">=", ">"): (
            "a draft is kept if its chance *exceeds* u. With u = 0 you keep one that the target "
            "never writes: its chance is 0."
        ),
        changed(
            verify, "q_of_another_token", "/ q[i, x]", "/ max(q[i])"
        ): "q belongs to the token that was drafted: q[i][x], not the largest q.",
        skips_over_refusals: (
            "you go on after a refusal and count later drafts. They continue a text that was "
            "refused: the first refusal ends the round."
        ),
        changed(
            verify, "keeps_everything", "u[i] >= p[i, x] / q[i, x]", "False"
        ): "you keep every draft, whatever u says. That writes q, not p.",
        changed(verify, "forgotten_bonus", "p[len(drafts)]", "p[max(len(drafts) - 1, 0)]"): (
            "when all drafts are kept, the next token comes from the *last* row of p, the one "
            "after the last draft; you use the row before."
        ),
        changed(
            verify,
            "without_the_draft",
            "np.maximum(p[i] - q[i], 0)",
            "np.where(np.arange(len(p[i])) == x, 0, p[i])",
        ): (
            "p without the draft is right under `match`, where a refusal means that the target's "
            "own sample was another one. Here a refusal says more: take q away from p everywhere."
        ),
        changed(verify, "the_other_way_round", "p[i] - q[i]", "q[i] - p[i]"): (
            "max(q − p, 0) is what the draft writes too often. What is still missing is "
            "max(p − q, 0)."
        ),
        changed(
            verify,
            "q_after_the_last",
            "p[len(drafts)]",
            "np.maximum(p[-1] - q[-1], 0) / np.maximum(p[-1] - q[-1], 0).sum()",
        ): (
            "behind the last kept draft nothing was drafted, so no q is taken away there: the next "
            "token comes from p[γ] itself."
        ),
        changed(verify, "whole_words", "np.maximum(p[i] - q[i], 0)", "p[i] * (p[i] > q[i])"): (
            "those are the right words, but each gets what is missing of it, p − q, and not its "
            "whole p."
        ),
        changed(verify, "one_u", "u[i]", "u[0]"): (
            "each draft has a u of its own, u[i]; with one for all a round is kept or lost as one."
        ),
        changed(
            verify,
            "keeps_the_favourite",
            "if u[i] >= p[i, x] / q[i, x]",
            "if x != np.argmax(p[i]) and u[i] >= p[i, x] / q[i, x]",
        ): (
            "you never refuse the target's likeliest token. That is greedy decoding's rule: with "
            "sampling it is refused, too, where q drafts it more often than p wants it."
        ),
        counts_the_correction: (
            "`kept` counts drafts; the token that follows them is not one of them."
        ),
        changed(verify, "without_chance", "u[i] >= p[i, x] / q[i, x]", "p[i, x] < q[i, x]"): (
            "you keep a draft only if p(x) ≥ q(x), whatever u says. The others are kept too, with "
            "probability p/q, or the words that q likes come too rarely."
        ),
        changed(
            verify,
            "chances_multiplied",
            "p[i, x] / q[i, x]",
            "np.prod([min(1, p[j, drafts[j]] / q[j, drafts[j]]) for j in range(i + 1)])",
        ): (
            "each draft has a u of its own: compare u[i] with p/q of draft i alone, not with the "
            "product of all chances so far."
        ),
    },
    cases=_rounds,
    checker=edges(_rounds_at_the_edge),
    hints=[
        "A loop over the drafts that returns at the first refusal, and one line after the loop.",
        "After a refusal: what p has more than q at that place, as a distribution. When all were "
        "kept nothing was drafted at the next place: what is there to take away?",
    ],
    next="Which tokens can follow a refusal at all? Can the refused draft be written after all?",
)

# ------------------------------------------------------------------ 08.3 a draft that was looked up


def looked_up(p, draft):
    """Return (keep, after) for a draft that was not drawn but looked up.

    p: the target's distribution, an array of V numbers.   draft: the proposed token, an index.
    after: a distribution, V numbers with sum 1; p itself if the draft is never refused.
    """
    rest = [0.0 if token == draft else x for token, x in enumerate(p)]
    if sum(rest) == 0:
        return p[draft], p
    return p[draft], [x / sum(rest) for x in rest]


def with_an_array(p, draft):
    rest = np.array(p, float)
    rest[draft] = 0
    after = rest / rest.sum() if rest.any() else p
    return p[draft], after


def looked_up_by_the_rule(p, draft):
    return _rejection(p, [float(token == draft) for token in range(len(p))], draft)


def _rejection(p, q, draft):
    keep = min(1.0, p[draft] / q[draft])
    rest = [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]
    return keep, [x / sum(rest) for x in rest] if sum(rest) else p


def as_if_q_were_uniform(p, draft):
    return _rejection(p, [1 / len(p)] * len(p), draft)


def without_its_place(p, draft):
    rest = np.delete(p, draft)
    return p[draft], rest / rest.sum() if rest.sum() else p


def divides_by_zero(p, draft):
    rest = np.where(np.arange(len(p)) == draft, 0, p)
    return p[draft], rest / rest.sum()


def _lookups(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, int]]:
    yield np.array([0.5, 0.5]), 0
    yield np.array([0.5, 0.25, 0.25]), 0
    for size in (3, 3, 4, 4, 5):
        yield _sixteenths(rng, size), int(rng.integers(size))
    yield np.array([1e-6, 0.999999]), 1  # nearly certain is not certain


def _certain_lookups(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, int]]:
    yield np.array([0.5, 0.5, 0.0]), 2  # never right
    yield np.array([0.0, 1.0]), 1  # never wrong
    yield np.array([1.0]), 0
    yield np.array([0.0, 0.0, 1.0, 0.0]), 1
    yield np.array([0.0078125, 0.9921875]), 0  # hardly ever right is not never


LOOKED_UP = Exercise(
    id="08.3",
    title="A guess without a q",
    task=(
        "An n-gram drafter copies what followed last time. It draws nothing, so where is q? Asked "
        "again it would propose the same token: q is 1 there and 0 elsewhere. What becomes of the "
        "rejection rule?"
    ),
    stars=2,
    minutes=8,
    reference=looked_up,
    alternatives=[looked_up_by_the_rule, with_an_array],
    wrong={
        changed(
            with_an_array, "always_kept", "return p[draft]", "return 1.0"
        ): "you keep every guess; a guess is only as good as p says: keep it with p(x).",
        changed(with_an_array, "never_refused", "return p[draft], after", "return 1.0, p"): (
            "you keep every guess, so nothing ever follows a refusal. A guess is only as good as p "
            "says: keep it with p(x), and after a refusal draw without it."
        ),
        changed(
            with_an_array, "never_wrong_about_p", "return p[draft], after", "return p[draft], p"
        ): (
            "after a refusal you draw from p with the draft still in it: its share was already "
            "written when the draft was kept. The draft must go."
        ),
        changed(
            with_an_array, "with_gaps", "rest / rest.sum()", "rest"
        ): "`after` does not sum to 1: the draft is gone, divide by what is left.",
        changed(
            with_an_array,
            "only_if_likeliest",
            "return p[draft]",
            "return float(p[draft] == max(p))",
        ): (
            "that is greedy decoding's rule. With sampling any token may be right, as often as p "
            "says."
        ),
        changed(
            with_an_array, "others_alike", "rest[draft] = 0", "rest[:] = np.arange(len(p)) != draft"
        ): (
            "the others are not equally likely after a refusal: they keep the shares that p gives "
            "them."
        ),
        changed(
            with_an_array, "surely_the_best", "rest / rest.sum()", "np.eye(len(p))[rest.argmax()]"
        ): (
            "`after` is drawn from: any other token may follow, as often as p says, not only the "
            "best of them."
        ),
        as_if_q_were_uniform: (
            "q is not uniform: the drafter was certain of its guess. q is 1 at the draft and 0 "
            "elsewhere."
        ),
        without_its_place: (
            "`after` has V numbers, as p has: set the draft's to 0, or every later token moves up."
        ),
        divides_by_zero: (
            "when p is certain of the draft nothing is left to divide by: it is never refused, and "
            "`after` is p."
        ),
        changed(
            with_an_array, "the_other_chance", "return p[draft]", "return 1 - p[draft]"
        ): "that is the chance of a *refusal*: keep = p(x).",
    },
    cases=_lookups,
    checker=edges(_certain_lookups),
    hints=[
        "Put q(draft) = 1 and q = 0 elsewhere into min(1, p/q) and max(p − q, 0).",
        "Only the draft has lost its share: what is left of p, as a distribution. And if p was "
        "sure of the draft?",
    ],
    next="Compare with `match` for the same draft. Does the stronger rule help without a q?",
)

# ------------------------------------------------------------------ 08.4 how many samples


def samples_needed(p, written, limit):
    """Return the fewest samples at which the expected statistic reaches the limit.

    p: the right distribution, an array of V positive numbers.
    written: that of a rule, an array of V numbers, some perhaps 0.
    limit: of the chi-square statistic. For a wrong rule it grows like n · Σ (written − p)² / p.
    Return math.inf if the rule is right.
    """
    each = sum((w - a) ** 2 / a for w, a in zip(written, p, strict=True))
    return math.ceil(limit / each) if each > 0 else math.inf


def samples_with_arrays(p, written, limit):
    p, written = np.array(p), np.array(written)
    growth = float((written**2 / p).sum() - 2 * written.sum() + p.sum())
    return math.inf if growth < 1e-15 else int(np.ceil(limit / growth - 1e-9))


def _tests(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    yield np.array([0.5, 0.5]), np.array([0.75, 0.25]), 30.0  # the limit is met exactly
    yield np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25]), 30.0
    yield np.array([0.5, 0.5]), np.array([0.75, 0.25]), 30.0625
    yield np.array([0.5, 0.5]), np.array([0.75, 0.25]), 30.0001  # a little more is more
    yield np.array([0.96875, 0.03125]), np.array([0.9375, 0.0625]), 30.5  # rare words count, too
    for size in (2, 3, 4):
        p = _sixteenths(rng, size)
        further = np.roll(p, 1) - p if len({*p}) > 1 else np.eye(size)[0] - p
        for share in (1 / 2, 1 / 8, 1 / 16):  # few enough samples for who counts them one by one
            yield p, p + share * further, 33.4


def _tests_at_the_edge(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    yield np.array([0.5, 0.5]), np.array([0.5, 0.5]), 24.0
    yield np.array([1.0]), np.array([1.0]), 24.0
    yield np.array([0.5, 0.5]), np.array([1.0, 0.0]), 24.0  # a rule that never writes the second
    yield np.array([0.5, 0.5]), np.array([1.0, 0.0]), 3.75  # fewer than five of each will do
    yield np.array([0.25, 0.25, 0.5]), np.array([1.0, 0.0, 0.0]), 5.5  # and fewer than words
    yield np.array([0.5, 0.5]), np.array([0.500005, 0.499995]), 2.5e-10  # hardly wrong


SAMPLES = Exercise(
    id="08.4",
    title="How large a test?",
    task=(
        "You have found out by enumeration what a rule writes, and want to know how many samples "
        "a chi-square test would have needed to find the same: the smallest n for which "
        "n · Σ (written − p)² / p reaches the limit."
    ),
    stars=1,
    minutes=6,
    reference=samples_needed,
    alternatives=[samples_with_arrays],
    wrong={
        changed(
            samples_needed, "not_squared", "(w - a) ** 2", "abs(w - a)"
        ): "the differences are squared: half the error needs four times the samples.",
        changed(samples_needed, "not_divided_by_p", " / a", ""): (
            "each square is divided by p: the same error weighs more where little is expected."
        ),
        changed(
            samples_needed, "divided_by_written", "/ a", "/ w"
        ): "divide by p, what is expected if the rule is right, not by `written`.",
        changed(
            samples_needed, "times_the_growth", "limit / each", "limit * each"
        ): "a rule that errs more needs *fewer* samples: divide by the sum.",
        changed(
            samples_needed, "not_rounded", "math.ceil(limit / each)", "limit / each"
        ): "a number of samples is whole: round up, math.ceil.",
        changed(samples_needed, "rounded_down", "math.ceil", "math.floor"): (
            "you round down: with so many samples the statistic has not reached the limit yet. "
            "Round up, math.ceil."
        ),
        changed(
            samples_needed, "rounded_to_nearest", "math.ceil", "round"
        ): "half of the time the nearest number is too small: math.ceil.",
        changed(
            samples_needed, "one_more", "math.ceil(limit / each)", "math.floor(limit / each) + 1"
        ): "where limit / sum is whole, so many are enough: math.ceil adds none.",
        changed(samples_needed, "root", "** 2 / a", "** 2 / a ** 2"): (
            "that is the square of the relative error: divide the square by p once."
        ),
        changed(
            samples_needed, "never_right", " if each > 0 else math.inf", ""
        ): "a right rule has a sum of 0: no number of samples is enough, math.inf.",
    },
    cases=_tests,
    checker=edges(_tests_at_the_edge),
    hints=[
        "Compute the sum first: it is how much the statistic grows with each sample.",
        "n times the sum has to reach the limit: for which whole n is that so first? And for which "
        "sum never?",
    ],
    next="For the bug `residual from p` and a draft at distance 0.1: how many samples?",
    further=True,
)
