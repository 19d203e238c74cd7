"""One budget of drafts for all rows of a batch: a place goes where it promises most.

Rows of a batch share a forward, and so the price of a draft. A fixed γ gives each row as many. Here
the places of all rows compete, by their *survival*: the chance that a draft and all before it in
its row stay. (Wu et al. 2025, "TETRIS", 2502.15197; goodput: Liu et al. 2024, 2406.14066.)

Why the n places of the highest survival are the best n, and n is where it no longer pays:

    1. A round's expected tokens are one a row and the survivals of the places that are offered.
    2. Of two choices of n places, let one lack a place that survives better than one it has.
       Exchanging the two costs nothing and loses nothing. So the n highest are a best choice.
    3. Survival falls along a row, so the n highest are the first places of each row, as they must.
    4. One place more brings its survival, and takes T(k+1) − T(k), in which the batch writes ρ
       tokens a second. Survivals fall and prices, made convex, rise: the first that loses ends it.

For that last reason a place is offered or not by what is known *before* its token is drawn: those
that rank after it, of which some have seen the token, have no say, and ρ and the depth of a round
come from earlier rounds. So the text is distributed as the target's alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from lablib.inference.decoding.rows import Verdict
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.row import Row
from lablib.inference.sampling.sums import softmax
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.drafter import Drafter
from lablib.inference.speculation.judge import plays_out
from lablib.inference.speculation.proposal import Proposal
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, integer, number

import mlx.core as mx
import numpy as np

_FIRST_PAUSE, _LONGEST_PAUSE = 8, 64  # plain rounds while drafting does not pay
_PRIOR = 4.0  # judged drafts that a rate of its own needs to weigh as much as what is expected
_EDGES = np.array([0.3, 0.5, 0.7, 0.85, 0.95, 0.99])  # between classes of a drafter's confidence
_MIDDLES = np.array([0.15, 0.4, 0.6, 0.78, 0.9, 0.97, 0.99])  # what they promise at first
_LATELY = 0.125  # rounds without drafts, faded, below which two are tried
_LEAST = 0.1  # of the price of such a round, that one of fewer rows has at least
_RIDGE = 0.01  # of the squares, that stands for rounds which tell prices apart
_ODD = 2.0  # a round that took this many times as long as expected is an accident: cut it


def allocate(survival: np.ndarray, steps: Sequence[float], rate: float) -> list[int]:
    """Return how many places each row gets; the exchange argument is at the top of the file.

    Args:
        survival: ``(B, γ)``, the chance of each place that its draft stays; it falls along a row,
            and is 0 where nothing was drafted.
        steps: the seconds that one place more takes, then one more, and so on; they never fall,
            and the last goes on.
        rate: ρ, the tokens a second that the time would bring elsewhere.

    Example:
        >>> from lablib.inference.speculation.draft_budget import allocate
        >>> allocate(np.array([[0.9, 0.8, 0.7], [0.6, 0.2, 0.1]]), [0.0, 0.0, 0.3], 2.0)
        [3, 0]
    """
    counts = [0] * len(survival)
    order = np.argsort(-survival.T, axis=None, kind="stable")  # of equals the first places
    for taken, place in enumerate(order):
        column, row = divmod(int(place), len(survival))
        if survival[row, column] <= rate * steps[min(taken, len(steps) - 1)]:
            break
        counts[row] += 1
    return counts


class Rates:
    """Chances that drafts stay, of some classes, learnt from those that were judged."""

    def __init__(self, expected: Sequence[float]) -> None:
        self._expected = np.array(expected)
        self._reached = np.zeros(len(expected))
        self._kept = np.zeros(len(expected))

    @property
    def chances(self) -> np.ndarray:
        """Return the chance of each class."""
        return (self._kept + _PRIOR * self._expected) / (self._reached + _PRIOR)

    def fade(self, keep: float) -> None:
        """Let what was learnt count for less."""
        self._reached *= keep
        self._kept *= keep

    def learn(self, classes: Any, kept: Any) -> None:
        """Learn of judged drafts of these classes which were kept."""
        np.add.at(self._reached, classes, 1.0)
        np.add.at(self._kept, classes, kept)


class Prices:
    """What rounds take: those without drafts, and those with, by tokens read and by columns.

    Within the columns that are drafted a place costs its reading. A column costs all rows a draft,
    and the parts of a forward and of its judgement that packing does not spare.
    """

    def __init__(self, keep: float, costs: Costs | None) -> None:
        self._keep = keep
        self._costs = costs
        self._plain = np.zeros(3)  # of 1, rows, seconds, over rounds without drafts; they fade
        self._squares, self._products = np.zeros((3, 3)), np.zeros(3)  # normal equations of others
        self._fit = np.zeros(3)  # seconds of a round, of a token read, of a place drafted

    @property
    def known(self) -> tuple[bool, bool]:
        """Return whether rounds without drafts, and with, were timed lately."""
        if self._costs is not None:
            return True, True
        return bool(self._plain[0] > _LATELY), bool(self._squares[0, 0])

    def of_round(self, rows: int, drafts: int, depth: int) -> float:
        """Price a round of so many rows: drafts that the target reads, and places drafted."""
        if self._costs is not None:
            return self._costs.forward(rows + drafts) + depth * self._costs.draft
        if not depth:  # a forward over single tokens is quicker than the others say
            n, plain_rows, seconds = self._plain
            mean = float(seconds / n)
            return max(mean + self._fit[1] * (rows - plain_rows / n), _LEAST * mean)
        return float(self._fit @ [1.0, rows + drafts, rows * depth])

    def steps(self, rows: int, most: int) -> list[float]:
        """Return what the target's reading one draft takes, then another, and so on; convex."""
        if self._costs is None:
            return [float(self._fit[1])]
        return convex_steps([self._costs.forward(rows + i) for i in range(most + 1)])

    def learn(self, rows: int, drafts: int, depth: int, seconds: float) -> None:
        """Learn what a round took."""
        if all(self.known):
            expected = self.of_round(rows, drafts, depth)
            seconds = min(max(seconds, expected / _ODD), _ODD * expected)
        self._plain *= self._keep
        if not depth:
            self._plain += [1.0, rows, seconds]
            return
        things = np.array([1.0, rows + drafts, rows * depth])
        self._squares = self._squares * self._keep + np.outer(things, things)
        self._products = self._products * self._keep + things * seconds
        # A little is added to the diagonal, where rounds were all alike, and no price is negative.
        ridge = _RIDGE * np.diag(np.diag(self._squares))
        self._fit = np.maximum(np.linalg.solve(self._squares + ridge, self._products), 0.0)


def convex_steps(prices: Sequence[float]) -> list[float]:
    """Return the steps between prices, levelled so that none is smaller than the one before.

    Those of the lower convex hull: where the next tokens are dear and later ones cheap, each costs
    their mean.
    """
    hull: list[int] = []
    for i in range(len(prices)):
        while len(hull) > 1 and _slope(prices, hull[-2], i) <= _slope(prices, hull[-2], hull[-1]):
            hull.pop()
        hull.append(i)
    return [_slope(prices, a, b) for a, b in pairwise(hull) for _ in range(b - a)]


def _slope(prices: Sequence[float], a: int, b: int) -> float:
    return (prices[b] - prices[a]) / (b - a)


def _ends(drafts: np.ndarray, stops: Sequence[frozenset[int]]) -> np.ndarray:
    """Return how many drafts ``(B, γ)`` there are up to the first that ends each text."""
    found = np.full(len(drafts), drafts.shape[1])
    for row, ids in enumerate(stops):
        is_end = np.isin(drafts[row], list(ids))
        if is_end.any():
            found[row] = is_end.argmax() + 1
    return found


@checks_options
class DraftBudget:
    """One budget for all rows of a batch, in place of ``draft_tokens``: see the top of its file.

    How many drafts a row gets hangs on its neighbours. Under ``match`` and ``coupled`` its text
    does not; under ``rejection``, ``block`` and rules like them a seed's text would, so that these
    take a budget only with ``seed=None`` (or at temperature 0).

    Survival is the product of a row's chances. A draft model's, or a head's, is learnt for each
    class of its confidence: what the proposal promises, else the largest q at that place, which
    says nothing of the token drawn. Of drafts that are looked up each row has a rate of its own.

    Args:
        most: the largest number of drafts for a row.
        costs: the prices, once and for all: T(k) of k tokens in all rows together, and ``draft``,
            one draft for every row. None learns them from the rounds themselves.
        memory: how many rounds the estimates look back over.
        margin: the gain that drafting must bring; below it, decode plainly.

    Raises:
        ValueError, TypeError: an argument is out of range.

    Example:
        >>> how = {"draft_tokens": lablib.inference.DraftBudget(), "rule": "match", "seed": 0}
        >>> rows = lablib.speculative_sample_n(model, draft, prompt, 3, **how)
        >>> rows.tokens == lablib.sample_n(model, prompt, 3, seed=0).tokens
        True
    """

    def __init__(
        self,
        most: int = 8,
        costs: Costs | None = None,
        *,
        memory: int = 32,
        margin: float = 0.03,
    ) -> None:
        self.most = integer("most", most, 1)
        if costs is not None and not isinstance(costs, Costs):
            raise BadType(f"costs must be Costs or None, got {type(costs).__name__}")
        self.costs = costs
        self._keep = 1 - 1 / integer("memory", memory, 2)
        self._margin = number("margin", margin, 0.0)
        self._pair: tuple[Any, Any] | None = None
        self.draft_tokens = self.most  # the most places that rows need room for
        self._forget()

    def _forget(self) -> None:
        self._prices = Prices(self._keep, self.costs)
        self._rates = Rates(_MIDDLES)  # of classes of confidence
        self._all = Rates([0.8])
        self._own: dict[int, Rates] = {}  # of rows
        self._pause, self._wait, self._paused = _FIRST_PAUSE, 1, False
        self._begin_round()

    def _begin_round(self) -> None:
        self._classes: np.ndarray | None = None  # (B, γ), of the confidence of each draft
        self._numbers: list[int] = []
        self._rate, self._depth = 0.0, 0  # tokens a second that are promised, places drafted

    @property
    def plain_tokens(self) -> int:
        """Count the rounds to decode plainly before the next look."""
        return self._pause if self._paused else self._wait

    def check(self, rule: Any, options: Sequence[SamplerOptions]) -> None:
        """Refuse a rule under which neighbours would change the text of somebody's seed."""
        if plays_out(rule, greedy=False):
            return
        if any(each.seed is not None and each.temperature for each in options):
            name = getattr(rule, "__name__", rule)
            cure = "'match' and 'coupled' take it, and seed=None"
            reason = f"a seed's text would hang on its neighbours ({cure})"
            raise BadValue(f"draft_tokens must be a number under rule {name!r}: {reason}")

    def begin(self, target: Any, drafter: Drafter) -> None:
        """Begin texts; what was learnt of other models is forgotten."""
        if drafter.trees:
            raise BadValue("draft_tokens must be a number for trees: places of chains compete")
        pair = (target, getattr(drafter, "model", None))
        if self._pair and not all(a is b for a, b in zip(self._pair, pair, strict=True)):
            self._forget()
        self._pair = pair
        self._own = {}

    def deepest(self, rows: Sequence[Row]) -> int:
        """Return how many places to draft for these rows; 0: decode plainly."""
        self._begin_round()
        plain, drafted = self._prices.known
        if not drafted:
            return (self.most + 1) // 2
        if not plain:
            self._paused, self._wait = False, 2
            return 0
        depth, gain = self._plan(rows)
        if depth and gain >= 1 + self._margin:
            self._paused, self._pause = False, _FIRST_PAUSE
            return depth
        if not self._paused:  # decode plainly for a while, then try one place
            self._paused = True
            return 0
        self._paused = False
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return 1

    def _plan(self, rows: Sequence[Row]) -> tuple[int, float]:
        """Return the depth that promises most, by what each row has kept, and its gain on plain.

        The rate ρ that time is worth is that of the best plan itself (Dinkelbach 1967).
        """
        n, prices = len(rows), self._prices
        overall = self._all.chances
        own = [self._own[r.number].chances if r.number in self._own else overall for r in rows]
        survival = np.array(own) ** np.arange(1, self.most + 1)
        plain = self._rate = n / prices.of_round(n, 0, 0)
        steps, depth = prices.steps(n, n * self.most), 0
        for _ in range(4):
            counts = np.array(allocate(survival, steps, self._rate))
            offered = np.where(np.arange(self.most) < counts[:, None], survival, 0.0)
            read = (offered > 0).sum(axis=0).cumsum()
            written = n + offered.sum(axis=0).cumsum()
            speeds = [w / prices.of_round(n, int(r), d + 1)
                      for d, (r, w) in enumerate(zip(read, written, strict=True))]  # fmt: skip
            depth = int(np.argmax(speeds)) + 1
            if speeds[depth - 1] <= self._rate * (1 + 1e-6):
                break
            self._rate = speeds[depth - 1]
        return depth, self._rate / plain

    def share(
        self, rows: Sequence[Row], proposal: Proposal, counts: Sequence[int] | None
    ) -> tuple[Proposal, list[int]] | None:
        """Give the drafts of a proposal their places; return it cut, and how many each row gets.

        Args:
            rows: the texts.
            proposal: the drafts of all.
            counts: how many of them each row means; None: all.

        Returns:
            None where none is worth its place.
        """
        depth = proposal.tokens.shape[1]
        given = np.array([depth] if counts is None else counts)
        self._numbers = [row.number for row in rows]
        survival = np.cumprod(self._chances(proposal, depth), axis=1)
        ends = _ends(np.array(proposal.tokens), [row.stops for row in rows])
        survival = np.where(np.arange(depth) < np.minimum(given, ends)[:, None], survival, 0.0)
        self._depth = depth
        steps = self._prices.steps(len(rows), int(given.sum()))
        found = allocate(survival, steps, self._rate)
        most = max(found)
        if not most:
            return None
        cut = {
            name: None if array is None else array[:, :most]
            for name in ("tokens", "q", "logits", "promise")
            for array in [getattr(proposal, name)]
        }
        return replace(proposal, counts=found, **cut), found

    def _chances(self, proposal: Proposal, depth: int) -> np.ndarray:
        """Return the chance of each place, given those before: ``(B, γ)``."""
        promise = proposal.promise
        if promise is None and (proposal.q is not None or proposal.logits is not None):
            q = softmax(proposal.logits) if proposal.q is None else proposal.q
            promise = mx.max(q, axis=-1)
        if promise is not None:
            self._classes = np.searchsorted(_EDGES, np.array(promise, np.float32))
            return self._rates.chances[self._classes]
        own = [self._own.get(each, self._all).chances for each in self._numbers]
        return np.repeat(np.array(own), depth, axis=1)

    def learn(self, verdicts: Sequence[Verdict], seconds: float | None) -> None:
        """Learn from a round, and how long it took; None: that says nothing of others."""
        if self._depth:
            self._learn_rates(verdicts)
        if seconds is not None and self.costs is None:
            drafts = sum(len(each.drafted) for each in verdicts)
            self._prices.learn(len(verdicts), drafts, self._depth, seconds)
        self._wait = 1
        self._depth = 0

    def _learn_rates(self, verdicts: Sequence[Verdict]) -> None:
        for each in self._numbers:
            self._own.setdefault(each, Rates(self._all.chances))
        for rates in (self._rates, self._all, *map(self._own.__getitem__, self._numbers)):
            rates.fade(self._keep)
        for row, verdict in enumerate(verdicts):
            # A draft behind the text's end was judged in vain, too.
            judged = min(verdict.accepted + 1, len(verdict.drafted))
            kept = np.arange(judged) < verdict.accepted
            if self._classes is not None:
                self._rates.learn(self._classes[row, :judged], kept)
            same = np.zeros(judged, int)
            self._all.learn(same, kept)
            self._own[self._numbers[row]].learn(same, kept)

    def miss(self) -> None:
        """Learn that nothing was proposed; after several times in a row, ask less often."""
        self._wait = min(2 * self._wait, _FIRST_PAUSE)
