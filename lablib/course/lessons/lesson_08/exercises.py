"""Exercises of lesson 08: rules that lose nothing, and how to find one that does."""

import math
from collections.abc import Iterator

from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np

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


def _weighted(weights, p, q):
    """Average the chance of every draft with these weights."""
    kept = [w * min(1, a / b) for w, a, b in zip(weights, p, q, strict=True) if b > 0]
    return sum(kept), acceptance(p, q)[1]


def swapped(p, q):
    return acceptance(p, q)[::-1]


def twice_the_distance(p, q):
    p, q = np.asarray(p), np.asarray(q)
    return 1 - np.abs(p - q).sum(), float(p @ q)


def the_distance(p, q):
    return 1 - acceptance(p, q)[0], acceptance(p, q)[1]


def same_favourite(p, q):
    return acceptance(p, q)[0], float(np.argmax(p) == np.argmax(q))


def best_of_q_only(p, q):
    best = int(np.argmax(q))
    return min(1.0, p[best] / q[best]), p[best]


def every_draft_alike(p, q):
    return _weighted(np.ones(len(p)) / len(p), p, q)


def weighted_by_p(p, q):
    return _weighted(p, p, q)


def not_capped(p, q):
    return sum(p), acceptance(p, q)[1]


def zero_over_zero(p, q):
    return float((q * np.minimum(1, p / q)).sum()), float(p @ q)


def _pairs(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield np.array([0.5, 0.5]), np.array([0.5, 0.5])
    yield np.array([0.75, 0.25]), np.array([0.25, 0.75])
    for size in (3, 4, 6, 1000):
        yield tuple(rng.dirichlet(np.ones(size), size=2))


def _pairs_with_zeros(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield np.array([1.0]), np.array([1.0])
    yield np.array([1.0, 0.0]), np.array([0.0, 1.0])
    yield np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])
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
        swapped: "you return them in the other order: rejection first, then match.",
        twice_the_distance: (
            "the total variation is *half* of Σ |p − q|: what leaves one token arrives at another "
            "and would be counted twice."
        ),
        the_distance: "that is the share that is refused: take 1 minus it.",
        same_favourite: (
            "match does not compare the two favourites: it compares two *samples*, one from each "
            "model. Equal samples can be any token."
        ),
        best_of_q_only: (
            "that holds if q's favourite was drafted. Average over every draft x, each with its "
            "weight q(x)."
        ),
        every_draft_alike: "not every draft is equally likely: weigh each x with q(x).",
        weighted_by_p: "the draft is drawn from q, not from p: weigh each x with q(x).",
        not_capped: (
            "p/q may exceed 1, and a probability cannot: without the min everything seems kept."
        ),
        zero_over_zero: "a token with q(x) = 0 is never drafted, so it adds nothing: 0 / 0 is NaN.",
    },
    cases=_pairs,
    checker=edges(_pairs_with_zeros),
    hints=[
        "Sum over x: the chance that x is drafted, times the chance that it is then kept.",
        "q(x)·min(1, p(x)/q(x)) is min(p(x), q(x)); q(x)·p(x) is the other one.",
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


def _judged(p, q, drafts, u, chance):
    """Follow verify with another chance of keeping draft i."""
    kept = next((i for i in range(len(drafts)) if u[i] >= chance(i)), len(drafts))
    return _after(p, q, drafts, kept)


def residual_is_p(p, q, drafts, u):
    kept, _ = verify(p, q, drafts, u)
    return kept, p[kept]


def not_renormalised(p, q, drafts, u):
    kept, after = verify(p, q, drafts, u)
    if kept == len(drafts):
        return kept, after
    return kept, np.maximum(p[kept] - q[kept], 0)


def the_other_way_round(p, q, drafts, u):
    kept, after = verify(p, q, drafts, u)
    if kept == len(drafts):
        return kept, after
    rest = np.maximum(q[kept] - p[kept], 0)
    return kept, rest / rest.sum()


def q_after_the_last(p, q, drafts, u):
    kept, after = verify(p, q, drafts, u)
    if kept < len(drafts):
        return kept, after
    rest = np.maximum(p[kept] - q[kept - 1], 0)
    return kept, rest / rest.sum()


def counts_the_correction(p, q, drafts, u):
    kept, after = verify(p, q, drafts, u)
    return kept + 1, after


def without_chance(p, q, drafts, u):
    return _judged(
        p, q, drafts, np.full(len(u), 1 - 1e-12), lambda i: p[i, drafts[i]] / q[i, drafts[i]]
    )


def chances_multiplied(p, q, drafts, u):
    places = range(len(drafts))
    chances = np.cumprod([min(1.0, p[i, drafts[i]] / q[i, drafts[i]]) for i in places])
    return _judged(p, q, drafts, u, lambda i: chances[i])


def keeps_with_p(p, q, drafts, u):
    return _judged(p, q, drafts, u, lambda i: p[i][drafts[i]])


def upside_down(p, q, drafts, u):
    return _judged(p, q, drafts, u, lambda i: q[i][drafts[i]] / max(p[i][drafts[i]], 1e-12))


def keeps_at_the_border(p, q, drafts, u):
    for i, x in enumerate(drafts):
        if u[i] > p[i, x] / q[i, x]:
            return _after(p, q, drafts, i)
    return _after(p, q, drafts, len(drafts))


def q_of_another_token(p, q, drafts, u):
    return _judged(p, q, drafts, u, lambda i: p[i][drafts[i]] / max(q[i]))


def skips_over_refusals(p, q, drafts, u):
    chances = [p[i][x] / q[i][x] for i, x in enumerate(drafts)]
    kept = sum(a < b for a, b in zip(u, chances, strict=True))
    return _after(p, q, drafts, kept)


def keeps_everything(p, q, drafts, u):
    return len(drafts), p[len(drafts)]


def forgotten_bonus(p, q, drafts, u):
    kept, after = verify(p, q, drafts, u)
    return kept, (p[kept - 1] if 0 < kept == len(drafts) else after)


def without_the_draft(p, q, drafts, u):
    kept, after = verify(p, q, drafts, u)
    if kept == len(drafts):
        return kept, after
    rest = np.array(p[kept])
    rest[drafts[kept]] = 0
    return kept, rest / rest.sum()


def _round(p, q, drafts, u) -> tuple[np.ndarray, np.ndarray, list[int], list[float]]:
    p = np.array(p)
    return p, np.array(q).reshape(len(drafts), p.shape[1]), drafts, u


def _rounds(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, list, list]]:
    yield _round([[0.5, 0.5], [0.25, 0.75]], [[0.25, 0.75]], [1], [0.8])
    yield _round([[0.5, 0.5], [0.25, 0.75]], [[0.25, 0.75]], [1], [0.6])
    yield _round([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], [[0.25, 0.5, 0.25]], [1], [0.4])
    yield _round([[0.75, 0.25], [0.5, 0.5]], [[0.5, 0.5]], [1], [0.5])  # its chance is u, not more
    for drafted in (2, 3, 3, 4, 4, 4, 12):
        size = int(rng.integers(3, 6)) if drafted < 12 else 200
        p = rng.dirichlet(np.ones(size), size=drafted + 1)
        q = 0.4 * rng.dirichlet(np.ones(size), size=drafted) + 0.6 * p[:-1]
        drafts = [int(rng.choice(size, p=row)) for row in q]
        yield p, q, drafts, rng.random(drafted).tolist()


def _rounds_at_the_edge(
    rng: np.random.Generator,
) -> Iterator[tuple[np.ndarray, np.ndarray, list, list]]:
    yield _round([[0.25, 0.75]], [], [], [])  # nothing drafted: the token is the target's own
    yield _round([[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5]], [1], [0.0])  # the target never writes it
    yield _round([[1.0], [1.0]], [[1.0]], [0], [0.5])
    p = rng.dirichlet(np.ones(4), size=3)
    yield _round(p, p[:-1], [0, 3], [0.999, 0.999])  # the same model: nothing is refused
    yield _round([[0.0, 1.0], [0.5, 0.5]], [[1e-9, 1 - 1e-9]], [1], [0.5])


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
        residual_is_p: (
            "after a refusal you draw from p as if nothing had been drafted. Tokens that q covers "
            "have had their share already; only max(p − q, 0) is left."
        ),
        not_renormalised: "`after` does not sum to 1: divide max(p − q, 0) by its sum.",
        keeps_with_p: (
            "you keep a draft with probability p(x). It was already drawn with probability q(x), "
            "so it would be written with p(x)·q(x): too rarely. Divide by q(x)."
        ),
        upside_down: "the ratio is upside down: it is p/q, what the target wants over what it got.",
        keeps_at_the_border: (
            "a draft is kept if its chance *exceeds* u. With u = 0 you keep one that the target "
            "never writes: its chance is 0."
        ),
        q_of_another_token: "q belongs to the token that was drafted: q[i][x], not the largest q.",
        skips_over_refusals: (
            "you go on after a refusal and count later drafts. They continue a text that was "
            "refused: the first refusal ends the round."
        ),
        keeps_everything: "you keep every draft, whatever u says. That writes q, not p.",
        forgotten_bonus: (
            "when all drafts are kept, the next token comes from the *last* row of p, the one "
            "after the last draft; you use the row before."
        ),
        without_the_draft: (
            "p without the draft is right under `match`, where a refusal means that the target's "
            "own sample was another one. Here a refusal says more: take q away from p everywhere."
        ),
        the_other_way_round: (
            "max(q − p, 0) is what the draft writes too often. What is still missing is "
            "max(p − q, 0)."
        ),
        q_after_the_last: (
            "behind the last kept draft nothing was drafted, so no q is taken away there: the next "
            "token comes from p[γ] itself."
        ),
        counts_the_correction: (
            "`kept` counts drafts; the token that follows them is not one of them."
        ),
        without_chance: (
            "you keep a draft only if p(x) ≥ q(x), whatever u says. The others are kept too, with "
            "probability p/q, or the words that q likes come too rarely."
        ),
        chances_multiplied: (
            "each draft has a u of its own: compare u[i] with p/q of draft i alone, not with the "
            "product of all chances so far."
        ),
    },
    cases=_rounds,
    checker=edges(_rounds_at_the_edge),
    hints=[
        "A loop over the drafts that returns at the first refusal, and one line after the loop.",
        "Refused at i: max(p[i] − q[i], 0) over its sum. All kept: p[len(drafts)].",
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


def looked_up_by_the_rule(p, draft):
    return _rejection(p, [float(token == draft) for token in range(len(p))], draft)


def _rejection(p, q, draft):
    keep = min(1.0, p[draft] / q[draft])
    rest = [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]
    return keep, [x / sum(rest) for x in rest] if sum(rest) else p


def always_kept(p, draft):
    return 1.0, looked_up(p, draft)[1]


def never_refused(p, draft):
    return 1.0, p


def never_wrong_about_p(p, draft):
    return p[draft], p


def with_gaps(p, draft):
    rest = [0.0 if token == draft else x for token, x in enumerate(p)]
    return p[draft], rest if sum(rest) else p


def only_if_likeliest(p, draft):
    return float(p[draft] == max(p)), looked_up(p, draft)[1]


def as_if_q_were_uniform(p, draft):
    return _rejection(p, [1 / len(p)] * len(p), draft)


def without_its_place(p, draft):
    rest = np.delete(p, draft)
    return p[draft], rest / rest.sum() if rest.sum() else p


def divides_by_zero(p, draft):
    rest = np.where(np.arange(len(p)) == draft, 0, p)
    return p[draft], rest / rest.sum()


def the_other_chance(p, draft):
    keep, after = looked_up(p, draft)
    return 1 - keep, after


def _lookups(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, int]]:
    yield np.array([0.5, 0.5]), 0
    yield np.array([0.5, 0.25, 0.25]), 0
    for size in (3, 4, 5, 6, 300):
        yield rng.dirichlet(np.ones(size)), int(rng.integers(size))
    yield np.array([0.0078125, 0.9921875]), 1  # nearly certain is not certain


def _certain_lookups(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, int]]:
    yield np.array([0.5, 0.5, 0.0]), 2  # never right
    yield np.array([1.0, 0.0]), 0  # never wrong
    yield np.array([1.0]), 0
    yield np.array([0.0, 0.0, 1.0, 0.0]), 1


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
    alternatives=[looked_up_by_the_rule],
    wrong={
        always_kept: "you keep every guess; a guess is only as good as p says: keep it with p(x).",
        never_refused: (
            "you keep every guess, so nothing ever follows a refusal. A guess is only as good as p "
            "says: keep it with p(x), and after a refusal draw without it."
        ),
        never_wrong_about_p: (
            "after a refusal you draw from p with the draft still in it: its share was already "
            "written when the draft was kept. The draft must go."
        ),
        with_gaps: "`after` does not sum to 1: the draft is gone, divide by what is left.",
        only_if_likeliest: (
            "that is greedy decoding's rule. With sampling any token may be right, as often as p "
            "says."
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
        the_other_chance: "that is the chance of a *refusal*: keep = p(x).",
    },
    cases=_lookups,
    checker=edges(_certain_lookups),
    hints=[
        "Put q(draft) = 1 and q = 0 elsewhere into min(1, p/q) and max(p − q, 0).",
        "keep = p[draft]; after is p with a 0 at the draft, divided by its sum, if there is one.",
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


def not_squared(p, written, limit):
    each = sum(abs(w - a) / a for w, a in zip(written, p, strict=True))
    return math.ceil(limit / each) if each > 0 else math.inf


def not_divided_by_p(p, written, limit):
    each = sum((w - a) ** 2 for w, a in zip(written, p, strict=True))
    return math.ceil(limit / each) if each > 0 else math.inf


def divided_by_written(p, written, limit):
    each = sum((w - a) ** 2 / w for w, a in zip(written, p, strict=True))
    return math.ceil(limit / each) if each > 0 else math.inf


def times_the_growth(p, written, limit):
    each = sum((w - a) ** 2 / a for w, a in zip(written, p, strict=True))
    return math.ceil(limit * each) if each > 0 else math.inf


def never_right(p, written, limit):
    each = sum((w - a) ** 2 / a for w, a in zip(written, p, strict=True))
    return math.ceil(limit / each)


def _growth(p, written):
    return float(((written - p) ** 2 / p).sum())


def not_rounded(p, written, limit):
    each = _growth(p, written)
    return limit / each if each else math.inf


def rounded_down(p, written, limit):
    each = _growth(p, written)
    return math.floor(limit / each) if each else math.inf


def rounded_to_nearest(p, written, limit):
    each = _growth(p, written)
    return round(limit / each) if each else math.inf


def one_more(p, written, limit):
    each = _growth(p, written)
    return math.floor(limit / each) + 1 if each else math.inf


def _tests(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    yield np.array([0.5, 0.5]), np.array([0.75, 0.25]), 30.0  # the limit is met exactly
    yield np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25]), 30.0
    yield np.array([0.5, 0.5]), np.array([0.75, 0.25]), 30.0625
    for size in (3, 4, 6, 50):
        p, other = rng.dirichlet(3 * np.ones(size), size=2)
        for share in (0.5, 0.05, 0.001):
            yield p, (1 - share) * p + share * other, 33.4


def _tests_at_the_edge(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    yield np.array([0.5, 0.5]), np.array([0.5, 0.5]), 24.0
    yield np.array([1.0]), np.array([1.0]), 24.0
    yield np.array([0.5, 0.5]), np.array([1.0, 0.0]), 24.0  # a rule that never writes the second


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
        not_squared: "the differences are squared: half the error needs four times the samples.",
        not_divided_by_p: (
            "each square is divided by p: the same error weighs more where little is expected."
        ),
        divided_by_written: "divide by p, what is expected if the rule is right, not by `written`.",
        times_the_growth: "a rule that errs more needs *fewer* samples: divide by the sum.",
        not_rounded: "a number of samples is whole: round up, math.ceil.",
        rounded_down: (
            "you round down: with so many samples the statistic has not reached the limit yet. "
            "Round up, math.ceil."
        ),
        rounded_to_nearest: "half of the time the nearest number is too small: math.ceil.",
        one_more: "where limit / sum is whole, so many are enough: math.ceil adds none.",
        never_right: "a right rule has a sum of 0: no number of samples is enough, math.inf.",
    },
    cases=_tests,
    checker=edges(_tests_at_the_edge),
    hints=[
        "Compute the sum first: it is how much the statistic grows with each sample.",
        "limit / sum, rounded up with math.ceil; math.inf if the sum is 0.",
    ],
    next="For the bug `residual from p` and a draft at distance 0.1: how many samples?",
)
