"""Closed forms of speculative decoding: how much is kept, how many tokens a round, how fast.

The forms treat every draft as kept with the same probability α, whatever came before it. Real text
is not like that (boilerplate is easy, names are hard), so a measured curve lies near the closed
form and not on it; the lesson shows by how much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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


def expected_tokens(alpha: float, draft_tokens: int) -> float:
    """Tokens that a round yields on average: ``(1 − α^(γ+1)) / (1 − α)``, γ + 1 for α = 1.

    The kept drafts and the one token that the target always adds (Leviathan et al. 2023,
    2211.17192, equation 1). It is ``1 + α + … + α^γ``, summed here in that form, which is exact
    near α = 1 too.

    Args:
        alpha: chance that a draft is kept, given that the ones before it were.
        draft_tokens: γ, how many are drafted; 0 is plain decoding.
    """
    alpha = number("alpha", alpha, 0.0, 1.0)
    draft_tokens = integer("draft_tokens", draft_tokens, 0)
    return float(sum(alpha**i for i in range(draft_tokens + 1)))


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


@dataclass(frozen=True)
class Costs:
    """What the parts of a round cost, in seconds (or in any one unit).

    Attributes:
        target: ``target[k - 1]`` is T(k), one forward of the target over k tokens; as many as are
            known, T(1) at least. Beyond the last one T(k) goes on in a straight line.
        draft: one drafted token.
        overhead: what a round of speculation costs beside the forwards.
    """

    target: tuple[float, ...]
    draft: float
    overhead: float = 0.0

    def __post_init__(self) -> None:
        if not self.target:
            raise BadValue("target must hold at least T(1), got nothing")
        for position, cost in enumerate(self.target):
            if number(f"target[{position}]", cost) <= 0:
                raise BadValue(f"target[{position}] must be positive, got {cost}")
        number("draft", self.draft, 0.0)
        number("overhead", self.overhead, 0.0)

    @classmethod
    def from_ratio(cls, c: float) -> "Costs":
        """The textbook's machine: T(k) = 1 for every k, and a drafted token costs ``c`` of it."""
        return cls((1.0, 1.0), number("c", c, 0.0))

    def forward(self, k: int) -> float:
        """T(k)."""
        k = integer("k", k, 1)
        if k <= len(self.target):
            return self.target[k - 1]
        last = self.target[-1]
        slope = (last - self.target[0]) / (len(self.target) - 1) if len(self.target) > 1 else last
        return last + max(0.0, slope) * (k - len(self.target))

    def of_round(self, draft_tokens: int) -> float:
        """One round: γ drafted tokens and one forward over γ + 1; γ = 0 is plain decoding."""
        if integer("draft_tokens", draft_tokens, 0) == 0:
            return self.forward(1)
        return self.overhead + draft_tokens * self.draft + self.forward(draft_tokens + 1)


def speedup(alpha: float, draft_tokens: int, costs: Costs) -> float:
    """Tokens a second with speculation over tokens a second without it.

    ``E[tokens] · T(1) / (T(γ+1) + γ·t_draft)``; with ``Costs.from_ratio(c)`` it is Leviathan et
    al.'s ``(1 − α^(γ+1)) / ((1 − α)(γc + 1))``.
    """
    return expected_tokens(alpha, draft_tokens) * costs.forward(1) / costs.of_round(draft_tokens)


def best_draft_tokens(alpha: float, costs: Costs, most: int = 16) -> int:
    """The γ in ``0 … most`` with the highest speed-up; 0 where drafting cannot pay."""
    most = integer("most", most, 0)
    return max(range(most + 1), key=lambda g: (speedup(alpha, g, costs), -g))


def _pair(p: Sequence[float], q: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    if p.shape != q.shape or p.ndim != 1 or not len(p):
        raise BadValue(f"p and q must have the same shape (V,), got {p.shape} and {q.shape}")
    for name, row in (("p", p), ("q", q)):
        if not np.isfinite(row).all() or (row < 0).any() or abs(row.sum() - 1) > 1e-6:
            raise BadValue(f"{name} must be probabilities that sum to 1, got {row.tolist()}")
    return p, q
