"""Closed forms of speculative decoding: how much is kept, how many tokens a round, how fast.

The forms treat every draft as kept with the same probability α, whatever came before it. Real text
is not like that (boilerplate is easy, names are hard), so a measured curve lies near the closed
form and not on it; the lesson shows by how much.
"""

from collections.abc import Sequence

from lablib.inference.speculation.costs import expected_tokens
from lablib.validation import BadValue, integer, number

import numpy as np


def acceptance_rejection(p: Sequence[float], q: Sequence[float]) -> float:
    """``α = Σ min(p, q) = 1 − TV(p, q)``: the chance that rejection keeps a draft from q.

    Args:
        p: the target's distribution ``(V,)``.
        q: the draft's distribution ``(V,)``.
    """
    p, q = _pair(p, q)
    return float(np.minimum(p, q).sum())


def acceptance_match(p: Sequence[float], q: Sequence[float]) -> float:
    """``Σ p·q``: the chance that two independent samples, one from each, are the same token."""
    p, q = _pair(p, q)
    return float((p * q).sum())


def total_variation(p: Sequence[float], q: Sequence[float]) -> float:
    """``TV(p, q) = ½ Σ |p − q|``: the share of the mass that stands in another place."""
    p, q = _pair(p, q)
    return float(np.abs(p - q).sum() / 2)


def expected_tokens_by_position(alphas: Sequence[float]) -> float:
    """The same with a chance of its own for each position: ``1 + a_1 + a_1·a_2 + …``.

    Args:
        alphas: chance that the draft at each position is kept, given that it was reached.
    """
    chances = [number(f"alphas[{i}]", alpha, 0.0, 1.0) for i, alpha in enumerate(alphas)]
    return 1.0 + float(np.cumprod(chances).sum()) if chances else 1.0


def alpha_for(tokens_per_round: float, draft_tokens: int) -> float:
    """The α at which ``expected_tokens`` is ``tokens_per_round``: the inverse, by bisection."""
    draft_tokens = integer("draft_tokens", draft_tokens, 1)
    wanted = number("tokens_per_round", tokens_per_round, 1.0, draft_tokens + 1.0)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if expected_tokens(middle, draft_tokens) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _pair(p: Sequence[float], q: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    if p.shape != q.shape or p.ndim != 1 or not len(p):
        raise BadValue(f"p and q must have the same shape (V,), got {p.shape} and {q.shape}")
    for name, row in (("p", p), ("q", q)):
        if not np.isfinite(row).all() or (row < 0).any() or abs(row.sum() - 1) > 1e-6:
            raise BadValue(f"{name} must be probabilities that sum to 1, got {row.tolist()}")
    return p, q
