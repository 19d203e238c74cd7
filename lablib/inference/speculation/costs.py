"""The yield and the price of a round of speculation, by the closed forms of the field.

With α, the chance that a draft is kept, and T(k), the time of one forward over k tokens, a round of
γ drafts yields ``expected_tokens(α, γ)`` tokens in ``γ·t_draft + T(γ+1)`` seconds. Where the chance
differs from place to place, α is a list: that of the first draft, of the second, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Any, Protocol

from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, integer, number, sequence, shown

Rates = float | Sequence[float]


def expected_tokens(alpha: Rates, draft_tokens: int) -> float:
    """Tokens that a round yields on average: ``(1 − α^(γ+1)) / (1 − α)``, γ + 1 for α = 1.

    The kept drafts and the one token that the target always adds (Leviathan et al. 2023,
    2211.17192, equation 1). It is ``1 + α + … + α^γ``, summed here in that form, which is exact
    near α = 1 too; with a rate for each place ``1 + α₁ + α₁α₂ + …``.

    Args:
        alpha: chance that a draft is kept, given that the ones before it were; one for all places,
            or a list of one for each, of which the last goes on.
        draft_tokens: γ, how many are drafted; 0 is plain decoding.
    """
    return _yields(alpha, integer("draft_tokens", draft_tokens, 0))[-1]


def _yields(alpha: Rates, most: int) -> list[float]:
    """Return ``expected_tokens`` of each γ from 0 to ``most``."""
    given: Any = alpha  # one, or one for each place
    rates = list(given) if hasattr(alpha, "__len__") else [given]
    rates = [number("alpha", rate, 0.0, 1.0) for rate in rates]
    if not rates:
        raise BadValue("alpha must hold a rate, got none")
    rates += rates[-1:] * (most - len(rates))
    return list(accumulate(accumulate(rates[:most], mul, initial=1.0)))


@checks_options
@dataclass(frozen=True)
class Costs:
    """The prices of the parts of a round, in seconds (or in any one unit).

    Attributes:
        target: ``target[k - 1]`` is T(k), one forward of the target over k tokens; as many as are
            known, T(1) at least. Beyond the last one T(k) goes on in a straight line.
        draft: one drafted token.

    Example:
        >>> costs = lablib.inference.Costs((1.0, 1.1, 1.2), 0.2)
        >>> round(costs.of_round(2), 6)
        1.6
    """

    target: tuple[float, ...]
    draft: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", tuple(sequence("target", self.target, "seconds")))
        if not self.target:
            raise BadValue("target must hold at least T(1), got nothing")
        for position, cost in enumerate(self.target):
            if number(f"target[{position}]", cost) <= 0:
                raise BadValue(f"target[{position}] must be positive, got {cost}")
        number("draft", self.draft, 0.0)

    @classmethod
    def from_ratio(cls, c: float) -> "Costs":
        """Return the textbook's machine: T(k) = 1 for every k, and ``c`` for a drafted token."""
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
        """Price a round: γ drafted tokens and one forward over γ + 1; γ = 0 is plain decoding."""
        gamma = integer("draft_tokens", draft_tokens, 0)
        return gamma * self.draft + self.forward(gamma + 1)


class Prices(Protocol):
    """Knows the price of a round: ``Costs``, or what knows it better."""

    def of_round(self, draft_tokens: int) -> float:
        """Price a round of γ drafts."""


def speedup(alpha: Rates, draft_tokens: int, costs: Prices) -> float:
    """Return tokens a second with speculation over tokens a second without it.

    ``E[tokens] · T(1) / (T(γ+1) + γ·t_draft)``; with ``Costs.from_ratio(c)`` it is Leviathan et
    al.'s ``(1 − α^(γ+1)) / ((1 − α)(γc + 1))``.
    """
    if not hasattr(costs, "of_round"):
        raise BadType(f"costs must be Costs, got {shown(costs)}")
    return expected_tokens(alpha, draft_tokens) * costs.of_round(0) / costs.of_round(draft_tokens)


def best_draft_tokens(alpha: Rates, costs: Prices, most: int = 16) -> int:
    """Return the γ in ``0 … most`` with the highest speed-up; 0 where drafting cannot pay."""
    speedup(alpha, 0, costs)  # checks both
    yields = _yields(alpha, integer("most", most, 0))
    return max(range(len(yields)), key=lambda g: (yields[g] / costs.of_round(g), -g))
