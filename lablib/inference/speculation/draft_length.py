"""How many tokens to draft: the number that pays best on this machine.

More drafts are more chances and more cost (``costs.py``). ``AdaptiveLength`` estimates α, the
chance that a draft is kept, while it runs, measures the costs once (``measure.py``), and takes the
best γ. Where plain decoding is best that is γ = 0, and it looks again now and then.
"""

from typing import Any

from lablib.inference.speculation.costs import Costs, best_draft_tokens, speedup
from lablib.inference.speculation.drafters import Drafter
from lablib.inference.speculation.measure import measure_costs
from lablib.inference.speculation.tokens import DraftLength
from lablib.validation import BadType, integer, number

_FIRST_PAUSE, _LONGEST_PAUSE = 8, 64  # plain tokens while drafting does not pay


class AdaptiveLength(DraftLength):
    """The γ with the most expected tokens a second, 0 included.

    One object may serve many texts, one after the other: it keeps what it has learnt.

    Args:
        most: the largest γ to consider.
        costs: measured costs; None measures them on the models at first use (about 0.1 s).
        memory: how many judged drafts the estimate of α looks back over.
        alpha: the estimate to begin with.
        margin: the gain that drafting must promise; below it, decode plainly.
    """

    def __init__(
        self, most: int = 8, costs: Costs | None = None, *, memory: int = 64,
        alpha: float = 0.8, margin: float = 0.03,
    ) -> None:  # fmt: skip
        self.most = integer("most", most, 1)
        if costs is not None and not isinstance(costs, Costs):
            raise BadType(f"costs must be Costs or None, got {type(costs).__name__}")
        self.costs, self._given = costs, costs is not None
        self._keep = 1 - 1 / integer("memory", memory, 2)
        self._margin = number("margin", margin, 0.0)
        # The estimate starts with the weight of a few drafts: the first ones soon outvote it.
        self._accepted, self._reached = 4 * number("alpha", alpha, 0.0, 1.0), 4.0
        self._pair: tuple[Any, Any] | None = None
        self._pause, self._wait, self._paused = _FIRST_PAUSE, 1, False

    @property
    def alpha(self) -> float:
        """The chance that a draft is kept, as far as is known."""
        return self._accepted / self._reached

    @property
    def plain_tokens(self) -> int:
        """Count the tokens to decode plainly before the next look; in a row they overlap."""
        return self._pause if self._paused else self._wait

    def begin(self, target: Any, drafter: Drafter) -> None:
        """Measure the costs, unless they are known for this target and this draft model."""
        pair = (target, getattr(drafter, "model", None))
        known = self._pair and all(a is b for a, b in zip(self._pair, pair, strict=True))
        if not self._given and not known:
            self.costs = measure_costs(target, drafter, most=self.most)
        self._pair = pair

    def choose(self) -> int:
        """Return how many tokens to draft next."""
        best = best_draft_tokens(self.alpha, self.costs, self.most)
        if speedup(self.alpha, best, self.costs) >= 1 + self._margin:
            self._paused, self._pause = False, _FIRST_PAUSE
            return best
        if not self._paused:  # decode plainly for a while ...
            self._paused = True
            return 0
        self._paused = False  # ... then try one draft, more and more rarely while it does not help
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return 1

    def observe(self, reached: int, accepted: int) -> None:
        """Learn from a round: of ``reached`` drafts that were judged, ``accepted`` were kept."""
        if not reached:
            return
        fade = self._keep**reached
        self._accepted = fade * self._accepted + accepted
        self._reached = fade * self._reached + reached
        self._wait = 1

    def miss(self) -> None:
        """The drafter had no proposal; after several in a row, ask it less often."""
        self._wait = min(2 * self._wait, _FIRST_PAUSE)
