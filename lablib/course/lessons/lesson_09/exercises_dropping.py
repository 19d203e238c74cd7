"""Exercise 09.5: a drafter that looks at what it drew, with all that can happen listed."""

from collections.abc import Iterator

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np


def first_token(p, q, offered):
    """Return the chance of each token to be written first in a round, V numbers with sum 1.

    p: the target's distribution, an array of V numbers.   q: the draft model's, the same.
    A draft x is drawn from q. Then it is offered with the chance offered[x], or else dropped.
    An offered x is kept with the chance min(1, p(x) / q(x)); if it is refused, the token comes from
    max(p - q, 0), divided by its sum. After a drop nothing is judged: the token comes from p.
    """
    written = np.zeros(len(p))
    rest = np.maximum(p - q, 0)
    after = rest / rest.sum() if rest.sum() > 0 else p
    for x in range(len(p)):
        if q[x] > 0:
            keep = min(1, p[x] / q[x])
            written[x] += q[x] * offered[x] * keep
            written += q[x] * offered[x] * (1 - keep) * after
            written += q[x] * (1 - offered[x]) * p
    return written


def first_token_by_arrays(p, q, offered):
    shared = np.minimum(p, q)
    rest = p - shared
    refused, dropped = (offered * (q - shared)).sum(), ((1 - offered) * q).sum()
    after = rest / rest.sum() if rest.sum() > 0 else p
    return offered * shared + refused * after + dropped * p


def always_the_targets(p, q, offered):
    return p


def drawn_again(p, q, offered):
    again = q * offered
    again = again / again.sum() if again.sum() > 0 else q
    rest = np.maximum(p - q, 0)
    after = rest / rest.sum() if rest.sum() > 0 else p
    keep = np.minimum(1, np.divide(p, q, out=np.zeros(len(p)), where=q > 0))
    return again * keep + (again * (1 - keep)).sum() * after


def _worlds(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    yield np.array([0.5, 0.5]), np.array([0.75, 0.25]), np.array([1.0, 0.0])
    yield np.array([0.5, 0.5]), np.array([0.75, 0.25]), np.array([0.0, 1.0])  # refused, or dropped
    yield np.array([0.5, 0.5]), np.array([0.7, 0.3]), np.array([1.0, 0.0])
    yield np.array([0.25, 0.75]), np.array([0.5, 0.5]), np.array([1.0, 1.0])  # nothing is dropped
    for size in (2, 3, 3, 4):
        p, q = (1 + rng.multinomial(16 - size, np.ones(size) / size, size=2)) / 16
        yield p, q, rng.integers(0, 5, size=size) / 4


def _edges(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    yield np.array([0.25, 0.75]), np.array([0.25, 0.75]), np.array([0.5, 1.0])  # p = q
    yield np.array([0.5, 0.25, 0.25]), np.array([0.75, 0.25, 0.0]), np.array([1.0, 0.0, 1.0])
    yield np.array([0.0, 1.0]), np.array([1.0, 0.0]), np.array([0.25, 0.5])  # never the target's
    yield np.array([1.0]), np.array([1.0]), np.array([0.5])
    yield np.array([0.25, 0.75]), np.array([0.5, 0.5]), np.zeros(2)  # no draft at all
    yield np.array([0.25, 0.75]), np.array([0.375, 0.625]), np.array([0.0078125, 1.0])


DROPPING = Exercise(
    id="09.5",
    title="Drawn, and dropped",
    task=(
        "A drafter draws x from q, looks at it, and perhaps drops it. List all that can happen to "
        "each x: offered and kept, offered and refused, dropped. What does the round write, and "
        "how often?"
    ),
    stars=2,
    minutes=8,
    reference=first_token,
    alternatives=[first_token_by_arrays],
    wrong={
        always_the_targets: (
            "that is p. It would be right if it were settled before the draw whether to offer. "
            "Here x is offered more or less often than q says: list what happens to each x."
        ),
        drawn_again: (
            "a dropped draft is not drawn again: nothing is judged, and the target's own token, "
            "from p, stands there."
        ),
        changed(
            first_token, "dropped_is_refused", "(1 - offered[x]) * p", "(1 - offered[x]) * after"
        ): (
            "a dropped draft was not refused, as nobody judged it: the token comes from p, not "
            "from max(p - q, 0)."
        ),
        changed(
            first_token_by_arrays, "drops_write_nothing", " + dropped * p", ""
        ): "after a drop the round writes a token too, one from p: your chances don't sum to 1.",
        changed(first_token, "refused_from_p", "(1 - keep) * after", "(1 - keep) * p"): (
            "after a refusal the token comes from max(p - q, 0), divided by its sum: what p has "
            "more than q."
        ),
        changed(first_token, "never_refused", "min(1, p[x] / q[x])", "1"): (
            "you keep each offered draft; it is kept with min(1, p(x) / q(x)) only."
        ),
        changed(
            first_token_by_arrays, "with_gaps", "rest / rest.sum() if rest.sum() > 0 else p", "rest"
        ): "max(p - q, 0) does not sum to 1: divide it by its sum before you draw from it.",
        changed(first_token, "kept_with_p", "min(1, p[x] / q[x])", "p[x]"): (
            "p(x) is the chance to keep a guess without a q; one that was drawn is kept with "
            "min(1, p(x) / q(x))."
        ),
        changed(
            first_token_by_arrays,
            "only_what_is_kept",
            "offered * shared + refused * after + dropped * p",
            "offered * shared / max((offered * shared).sum(), 1e-300)",
        ): "you look at the rounds that keep their draft only: the others write a token as well.",
    },
    cases=_worlds,
    checker=edges(_edges),
    hints=[
        "Each x is drawn with q(x). Three things can happen to it, and their chances sum to q(x).",
        "Offered and kept adds to written[x]; offered and refused, or dropped, adds a whole "
        "distribution to `written`.",
    ],
    next="Let offered hang on q alone, the same for every x: why is nothing lost then?",
    further=True,
)
