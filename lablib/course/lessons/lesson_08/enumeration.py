"""Everything that a rule may write, listed with its probability: whether something is lost.

A rule is a pure function: nothing is sampled, all that can happen is enumerated, in float64.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from lablib.inference.speculation import rules
from lablib.validation import function, integer

import mlx.core as mx
import numpy as np

Rule = Callable[[mx.array, mx.array, mx.array], rules.Outcome]


def exactly(rule: Rule, p: Any, q: Any, drafts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Apply a rule in float64, which only a CPU has.

    Args:
        rule: see ``lablib.inference.speculation.rules``.
        p: ``(..., γ+1, V)``.
        q: ``(..., γ, V)``.
        drafts: ``(..., γ)``.

    Returns:
        ``kept (..., γ+1)`` and ``following (..., γ+1, V)``.

    Raises:
        ValueError, TypeError: it returned no ``Outcome``, or what are no distributions.
    """
    with mx.stream(mx.cpu):
        exact = [mx.array(np.array(x, np.float64), dtype=mx.float64) for x in (p, q)]
        outcome = rule(*exact, mx.array(np.array(drafts, np.int32)))
        rules.check_outcome("the rule", outcome, exact[0], tolerance=1e-6)
        return np.array(outcome.kept), np.array(outcome.following)


def by_draft(rule: Rule, p: Sequence[float], q: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return what each word leads to if it is drafted, everything that can happen listed.

    It does not look at the bonus after a kept draft; ``one_round`` does.

    Args:
        rule: see ``lablib.inference.speculation.rules``.
        p: the target's distribution ``(V,)``.
        q: the draft's distribution ``(V,)``.

    Returns:
        The chance that a drafted word is kept ``(V,)``; and in row x the probability that x is
        drafted and refused, and each word written instead ``(V, V)``.
    """
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    size = len(p)
    drafts = np.arange(size)[:, None]
    kept, following = exactly(
        rule, np.tile(p, (size, 2, 1)), np.tile(q, (size, 1, 1)), drafts
    )  # row x: token x was drafted
    return kept[:, 1], (q * kept[:, 0])[:, None] * following[:, 0]


def one_token(rule: Rule, p: Sequence[float], q: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return what one draft leads to; arguments as for :func:`by_draft`.

    Returns:
        Two arrays ``(V,)``: the probability that a token is written because its draft was kept, and
        the probability that it is written after another draft was refused. They sum to 1 together.
    """
    keep, instead = by_draft(rule, p, q)
    return np.asarray(q, np.float64) * keep, instead.sum(axis=0)


def one_round(
    rule: Rule, target: np.ndarray, draft: np.ndarray, start: int, drafted: int
) -> tuple[np.ndarray, float]:
    """Enumerate one round of speculation on languages in which only the last token matters.

    The round writes between 1 and γ+1 tokens; the target writes what is missing to γ+1. If the rule
    is lossless the result is the target's own distribution, and a text of many rounds is one such
    round after another.

    Args:
        rule: see ``lablib.inference.speculation.rules``.
        target: ``(V, V)``; row i is the distribution of the token after token i.
        draft: the same for the draft model.
        start: the token before the round.
        drafted: γ.

    Returns:
        The joint distribution of the next γ+1 tokens ``(V,) * (γ+1)``, and how many tokens the
        round itself writes on average.
    """
    size = len(target)
    blocks = np.array(list(product(range(size), repeat=drafted)))
    before = np.concatenate([np.full((len(blocks), 1), start), blocks], axis=1)
    p, q = target[before], draft[before[:, :-1]]
    chance = np.take_along_axis(q, blocks[..., None], axis=-1)[..., 0].prod(axis=-1)
    kept, following = exactly(rule, p, q, blocks)
    joint = np.zeros((size,) * (drafted + 1))
    for n in range(drafted + 1):
        ends = np.zeros((size**n, size))
        prefix = np.arange(len(blocks)) // size ** (drafted - n)  # blocks are in order
        np.add.at(ends, prefix, (chance * kept[:, n])[:, None] * following[:, n])
        joint += extended(ends.reshape((size,) * (n + 1)), target, drafted - n)
    return joint, float(1 + chance @ kept @ np.arange(drafted + 1))


def bias(rule: Rule, drafted: int = 2, languages: int = 20, seed: int = 0) -> float:
    """Return how far a rule's texts are from the target's own, in total variation: 0 if lossless.

    It is the worst of some random ``languages`` of three letters, in which some chances are 0; of
    each, one round is enumerated. With one draft a rule passes that forgets the zeros behind q.

    Args:
        rule: see ``lablib.rules``.
        drafted: how many drafts a round has, at least 1.
        languages: how many languages, at least 1.
        seed: of the languages, at least 0.

    Returns:
        The distance, from 0 to 1.

    Raises:
        ValueError, TypeError: an argument is out of range, or the rule returned no ``Outcome``.

    Example:
        >>> lablib.bias(lablib.rules.block) < 1e-9
        True
    """
    function("rule", rule)
    rng, worst = np.random.default_rng(integer("seed", seed, 0)), 0.0
    for _ in range(integer("languages", languages, 1)):
        tables = rng.dirichlet([0.5] * 3, size=(2, 3))
        tables = np.where(tables < 0.05, 0, tables)
        target, draft = tables / tables.sum(axis=-1, keepdims=True)
        joint, _ = one_round(rule, target, draft, 0, integer("drafted", drafted, 1))
        worst = max(worst, np.abs(joint - plain(target, 0, drafted + 1)).sum() / 2)
    return float(worst)


def extended(joint: np.ndarray, target: np.ndarray, more: int) -> np.ndarray:
    """Let the target write ``more`` tokens after each text of ``joint``."""
    for _ in range(more):
        joint = joint[..., None] * target
    return joint


def plain(target: np.ndarray, start: int, n: int) -> np.ndarray:
    """Return the target's own joint distribution of the next ``n`` tokens, ``(V,) * n``."""
    return extended(target[start], target, n - 1)
