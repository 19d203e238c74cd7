"""Closed forms of speculative decoding: how often a draft is kept, and what a round then yields.

The forms treat every draft as kept with the same probability α, whatever came before it. Real text
is not like that (boilerplate is easy, names are hard), so a measured curve lies near the closed
form and not on it; the page beside lesson 07 shows by how much. What the engine itself computes
with, the yield and the cost of a round, is in ``costs.py``.
"""

from collections.abc import Sequence

from lablib.course.theory.estimators import distributions

import numpy as np


def acceptance_rejection(p: Sequence[float], q: Sequence[float]) -> float:
    """Return ``α = Σ min(p, q)``, the chance that rejection keeps a draft from q.

    It is 1 − TV(p, q): what the total variation distance leaves (Leviathan et al. 2023,
    2211.17192).

    Args:
        p: the target's distribution ``(V,)``.
        q: the draft's distribution ``(V,)``.
    """
    p, q = distributions(p, q)
    return float(np.minimum(p, q).sum())


def acceptance_match(p: Sequence[float], q: Sequence[float]) -> float:
    """Return ``Σ p·q``, the chance that one sample of each is the same token; p and q ``(V,)``."""
    p, q = distributions(p, q)
    return float((p * q).sum())


def acceptance_coupled(p: Sequence[float], q: Sequence[float]) -> float:
    """Return the chance that one sample of each, drawn with the same noise, is the same token.

    Both models take the first token to arrive, i after ``E_i / p_i`` or ``E_i / q_i``, with the
    same exponential E. Token i wins both races if ``E_j >= E_i max(p_j/p_i, q_j/q_i)`` for every
    other j: ``Σ_i 1 / Σ_j max(p_j/p_i, q_j/q_i)``. It is at least ``(1 − TV) / (1 + TV)``, the most
    that a rule can promise whose text does not depend on the draft (Daliri, Musco and Suresh 2024,
    2408.07978); at least ``Σ p·q`` and at most ``Σ min(p, q)``.

    Args:
        p: the target's distribution ``(V,)``.
        q: the draft's distribution ``(V,)``.
    """
    p, q = distributions(p, q)
    drafted = q > 0  # else i wins no race of the draft's
    beaten = np.maximum(p[:, None] * q, q[:, None] * p).sum(axis=0)  # times p_i q_i
    return float(((p * q)[drafted] / beaten[drafted]).sum())
