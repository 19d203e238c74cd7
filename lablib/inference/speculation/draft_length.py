"""How many tokens to draft: the number that pays best on this machine.

More drafts are more chances and more cost (``costs.py``). ``AdaptiveLength`` estimates α, the
chance that a draft is kept, for each place while it runs, measures the costs once (``measure.py``),
follows them as they drift, and takes the best γ. Where plain decoding is best that is γ = 0, and it
looks again now and then.
"""

from typing import Any

from lablib.inference.speculation.costs import Costs, best_draft_tokens, speedup
from lablib.inference.speculation.drafters import Drafter
from lablib.inference.speculation.measure import measure_costs
from lablib.inference.speculation.tokens import DraftLength
from lablib.validation import BadType, BadValue, integer, number

_FIRST_PAUSE, _LONGEST_PAUSE = 8, 64  # plain tokens while drafting does not pay
_PRIOR = 2.0  # rounds that a place's own rate needs to weigh as much as what is expected of it
_TIMED = 0.25  # the same for the time of its rounds, which varies less
_LATELY = 0.125  # timed rounds, faded, below which plain decoding is tried for four tokens
_ODD = 2.0  # a round that took this many times as long as expected is an accident: cut it


class AdaptiveLength(DraftLength):
    """The γ with the most expected tokens a second, 0 included.

    One object may serve many texts, one after the other: it keeps what it has learnt.

    Args:
        most: the largest γ to consider.
        costs: what rounds cost, once and for all: then nothing depends on the clock. None measures
            that on the models at first use (about 0.1 s) and follows it as it drifts.
        memory: how many rounds the estimates look back over.
        alpha: the rate to begin with.
        margin: the gain that drafting must promise; below it, decode plainly.
    """

    def __init__(
        self, most: int = 8, costs: Costs | None = None, *, memory: int = 32,
        alpha: float = 0.8, margin: float = 0.03,
    ) -> None:  # fmt: skip
        self.most = integer("most", most, 1)
        if costs is not None and not isinstance(costs, Costs):
            raise BadType(f"costs must be Costs or None, got {type(costs).__name__}")
        self.costs, self._given = costs, costs is not None
        self._keep = 1 - 1 / integer("memory", memory, 2)
        self._margin = number("margin", margin, 0.0)
        # Of each place; the first begins with some drafts, which real ones soon outvote.
        self._reached = [4.0, *[0.0] * (self.most - 1)]
        self._accepted = [4 * number("alpha", alpha, 0.0, 1.0), *[0.0] * (self.most - 1)]
        self._pair: tuple[Any, Any] | None = None
        self._pause, self._wait, self._paused = _FIRST_PAUSE, 1, False
        self._forget_times()

    def _forget_times(self) -> None:
        lengths = self.most + 1
        self._rounds = [0.0] * lengths  # of each γ: how many were timed,
        self._slow = [0.0] * lengths  # the sum of how many times as long as measured they took,
        self._drift = [1.0] * lengths  # and how many times as long one takes by now

    @property
    def alpha(self) -> float:
        """The chance that a draft is kept, over all places."""
        return sum(self._accepted) / sum(self._reached)

    @property
    def rates(self) -> list[float]:
        """The chance of each place, given those before; of one not seen that of the one before."""
        rates = [self._accepted[0] / self._reached[0]]
        for accepted, reached in zip(self._accepted[1:], self._reached[1:], strict=True):
            rates.append((accepted + _PRIOR * rates[-1]) / (reached + _PRIOR))
        return rates

    @property
    def plain_tokens(self) -> int:
        """Count the tokens to decode plainly before the next look; in a row they overlap."""
        return self._pause if self._paused else self._wait

    def begin(self, target: Any, drafter: Drafter) -> None:
        """Measure the costs, unless they are known for this target and this draft model."""
        if drafter.trees:
            raise BadValue("draft_tokens must be a number for trees: places of a chain are learnt")
        pair = (target, getattr(drafter, "model", None))
        known = self._pair and all(a is b for a, b in zip(self._pair, pair, strict=True))
        if not self._given and not known:
            self.costs = measure_costs(target, drafter, most=self.most)
            self._forget_times()
        self._pair = pair

    def of_round(self, draft_tokens: int) -> float:
        """Price a round of γ drafts as ``Costs.of_round`` does, at what it takes by now."""
        return self._drift[draft_tokens] * self.costs.of_round(draft_tokens)

    def choose(self) -> int:
        """Return how many tokens to draft next."""
        rates = self.rates
        best = best_draft_tokens(rates, self, self.most)
        if speedup(rates, best, self) >= 1 + self._margin:
            self._paused, self._pause = False, _FIRST_PAUSE
            if any(self._rounds) and self._rounds[0] < _LATELY:
                self._wait = 4
                return 0
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
        for i in range(self.most):  # what was learnt fades, also of places that are not drafted
            self._reached[i] = self._keep * self._reached[i] + (i < reached)
            self._accepted[i] = self._keep * self._accepted[i] + (i < accepted)
        self._wait = 1

    def timed(self, drafted: int, seconds: float) -> None:
        """Learn how long a round took; lengths not tried lately drift as the others did."""
        if self._given or drafted > self.most:
            return
        slow = seconds / self.of_round(drafted)
        slow = self._drift[drafted] * min(max(slow, 1 / _ODD), _ODD)
        for gamma in range(self.most + 1):
            self._rounds[gamma] = self._keep * self._rounds[gamma] + (gamma == drafted)
            self._slow[gamma] = self._keep * self._slow[gamma] + slow * (gamma == drafted)
        common = (sum(self._slow) + _TIMED) / (sum(self._rounds) + _TIMED)
        pairs = zip(self._slow, self._rounds, strict=True)
        self._drift = [(slow + _TIMED * common) / (n + _TIMED) for slow, n in pairs]

    def miss(self) -> None:
        """Learn that nothing was proposed; after several times in a row, ask less often."""
        self._wait = min(2 * self._wait, _FIRST_PAUSE)
