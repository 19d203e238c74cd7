"""Choose how many tokens to draft: the number that pays best on this machine.

More drafts are more chances and more cost (``costs.py``). ``AdaptiveLength`` learns both from the
rounds that it runs: for each place of a round the chance that a draft is kept, and what a round of
each length takes. It takes the best γ. Where plain decoding is best that is γ = 0, and it looks
again now and then.
"""

import numbers
from typing import Any

from lablib.inference.speculation import costs as prices
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.drafter import Drafter
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, integer, members, number

import numpy as np

_FIRST_PAUSE, _LONGEST_PAUSE = 8, 64  # plain tokens while drafting does not pay
_PRIOR = 2.0  # rounds that a place's own rate needs to weigh as much as what is expected of it
_TIMED = 0.25  # the same for the time of its rounds, which varies less
_LATELY = 0.125  # timed rounds, faded, below which plain decoding is tried for four tokens
_ODD = 2.0  # a round that took this many times as long as expected is an accident: cut it


class DraftLength:
    """A policy of draft lengths; subclass it, or have its methods."""

    @property
    def plain_tokens(self) -> int:
        """Count the tokens to decode plainly when nothing is drafted."""
        return 1

    def begin(self, target: Any, drafter: Drafter) -> None:
        """Begin a text with these models."""

    def choose(self) -> int:
        """Return how many tokens to draft next; 0 for none."""
        raise NotImplementedError

    def observe(self, reached: int, accepted: int) -> None:
        """Learn that of ``reached`` drafts that were judged, ``accepted`` were kept."""

    def timed(self, drafted: int, seconds: float) -> None:
        """Learn that a round of so many drafts took so long; 0 is a token of plain decoding.

        The first round, in which the prompt's end is read as well, is not told.
        """

    def miss(self) -> None:
        """Learn that the drafter had no proposal."""


@checks_options
class FixedLength(DraftLength):
    """Always γ = ``draft_tokens`` drafts, at least 1.

    Raises:
        ValueError, TypeError: it is no whole number, or below 1.

    Example:
        >>> lablib.inference.FixedLength(3).choose()
        3
    """

    def __init__(self, draft_tokens: int) -> None:
        self.draft_tokens = integer("draft_tokens", draft_tokens, 1)

    def choose(self) -> int:
        """Return how many tokens to draft next."""
        return self.draft_tokens


def as_length(draft_tokens: Any) -> DraftLength:
    """Return a policy: the caller gave a number, or a policy."""
    # NumPy's integers have a method of that name.
    if isinstance(draft_tokens, numbers.Number) or not hasattr(draft_tokens, "choose"):
        return FixedLength(draft_tokens)
    members("draft_tokens", draft_tokens, DraftLength)
    return draft_tokens


@checks_options
class AdaptiveLength(DraftLength):
    """The γ with the most expected tokens a second, 0 included.

    One object may serve many texts, one after the other: it keeps what it has learnt.

    Args:
        most: the largest γ to consider.
        costs: the prices of rounds, once and for all: then nothing depends on the clock. None
            learns them from the rounds themselves, and follows them as they drift.
        memory: how many rounds the estimates look back over.
        alpha: the rate to begin with.
        margin: the gain that drafting must promise; below it, decode plainly.

    Raises:
        ValueError, TypeError: an argument is out of range.

    Example:
        >>> how = {"draft_model": draft, "draft_tokens": lablib.AdaptiveLength(most=4)}
        >>> lablib.generate(model, tokenizer, "Mia finds", **how).stats["rounds"] > 0
        True
    """

    def __init__(
        self,
        most: int = 8,
        costs: Costs | None = None,
        *,
        memory: int = 32,
        alpha: float = 0.8,
        margin: float = 0.03,
    ) -> None:
        self.most = integer("most", most, 1)
        if costs is not None and not isinstance(costs, Costs):
            raise BadType(f"costs must be Costs or None, got {type(costs).__name__}")
        self.costs = costs
        self._keep = 1 - 1 / integer("memory", memory, 2)
        self._margin = number("margin", margin, 0.0)
        # Of each place; the first begins with some drafts, which real ones soon outvote.
        self._reached = [4.0, *[0.0] * (self.most - 1)]
        self._accepted = [4 * number("alpha", alpha, 0.0, 1.0), *[0.0] * (self.most - 1)]
        self._pair: tuple[Any, Any] | None = None
        self._pause, self._wait, self._paused = _FIRST_PAUSE, 1, False
        self._forget_times()

    def _forget_times(self) -> None:
        self._met: set[int] = set()  # lengths that came up: the first time may compile
        self._rounds = np.zeros(self.most + 1)  # of each length: how many were timed,
        self._seconds = np.zeros(self.most + 1)  # and what they took; both fade
        self._prices: list[float] = []  # what a round of each takes by now, when that is known

    @property
    def alpha(self) -> float:
        """The chance that a draft is kept, over all places."""
        return sum(self._accepted) / sum(self._reached)

    @property
    def rates(self) -> list[float]:
        """The chance of each place, given those before; of one not seen that of all places."""
        # Not that of the place before: where a text has a period, a bad place comes between good.
        seen, prior = zip(self._accepted, self._reached, strict=True), _PRIOR * self.alpha
        return [(accepted + prior) / (reached + _PRIOR) for accepted, reached in seen]

    @property
    def plain_tokens(self) -> int:
        """Count the tokens to decode plainly before the next look; in a row they overlap."""
        return self._pause if self._paused else self._wait

    def begin(self, target: Any, drafter: Drafter) -> None:
        """Forget what rounds took, unless it was with this target and this draft model."""
        if drafter.trees:
            raise BadValue("draft_tokens must be a number for trees: places of a chain are learnt")
        pair = (target, getattr(drafter, "model", None))
        if self._pair and not all(a is b for a, b in zip(self._pair, pair, strict=True)):
            self._forget_times()
        self._pair = pair

    def of_round(self, draft_tokens: int) -> float:
        """Price a round of γ drafts as ``Costs.of_round`` does, at what it takes by now."""
        return self.costs.of_round(draft_tokens) if self.costs else self._prices[draft_tokens]

    def choose(self) -> int:
        """Return how many tokens to draft next."""
        if not self.costs and not any(self._rounds[1:]):
            return (self.most + 1) // 2
        if not self.costs and self._rounds[0] < _LATELY:
            self._paused, self._wait = False, 4
            return 0
        rates = self.rates
        best = prices.best_draft_tokens(rates, self, self.most)
        if prices.speedup(rates, best, self) >= 1 + self._margin:
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
        for i in range(self.most):  # what was learnt fades, also of places that are not drafted
            self._reached[i] = self._keep * self._reached[i] + (i < reached)
            self._accepted[i] = self._keep * self._accepted[i] + (i < accepted)
        self._wait = 1

    def timed(self, drafted: int, seconds: float) -> None:
        """Learn how long a round took; lengths not tried lately are on a line with the others."""
        if self.costs or drafted > self.most:
            return
        if drafted not in self._met:
            self._met.add(drafted)
            return
        if self._prices:
            expected = self._prices[drafted]
            seconds = min(max(seconds, expected / _ODD), _ODD * expected)
        for what, one in ((self._rounds, 1.0), (self._seconds, seconds)):
            what *= self._keep
            what[drafted] += one
        if self._rounds[0] and any(self._rounds[1:]):
            self._prices = self._fit()

    def _fit(self) -> list[float]:
        """Return what each length has taken; the fewer its rounds, the more by the line of all."""
        n, seconds = self._rounds.copy(), self._seconds.copy()
        plain = seconds[0] / n[0]
        # Plain decoding is no round, but nearly one of γ = 0: with one length it makes a line.
        n[0] = min(n[0], _TIMED)
        seconds[0] = n[0] * plain
        lengths = np.arange(len(n))
        deviations = lengths - n @ lengths / n.sum()
        slope = max(0.0, float(deviations @ seconds / (n @ deviations**2)))
        line = seconds.sum() / n.sum() + deviations * slope
        return [plain, *((seconds + _TIMED * line) / (n + _TIMED))[1:].tolist()]

    def miss(self) -> None:
        """Learn that nothing was proposed; after several times in a row, ask less often."""
        self._wait = min(2 * self._wait, _FIRST_PAUSE)
