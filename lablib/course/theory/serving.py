"""A server under load, simulated: requests come, wait, are read, and are written side by side.

It takes the turns of ``lablib.Engine`` (``inference/engine/continuous_batch.py``), with prices in
place of a model: who has come joins while there is room; prompts are read in pieces that take
``PATIENCE`` rounds of those who write (Agrawal et al. 2023, 2308.16369); then each text gets a
token.
"""

from bisect import bisect
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf

from lablib.inference.engine.lane import FIRST_PIECE
from lablib.inference.engine.pace import SMALL, Pace
from lablib.validation import BadValue, integer, number

import numpy as np

_MOST = 512  # tokens of a piece of a prompt, the default of an engine's prefill_step_size


@dataclass(frozen=True)
class Asked:
    """A request: when it comes, in seconds, and the tokens that it has read and written."""

    at: float
    prompt: int
    tokens: int


@dataclass(frozen=True)
class Served:
    """A request that was served.

    Attributes:
        asked: what was wanted, and when.
        first: when its first token came, in seconds.
        last: when its last token came.
        longest: the longest wait for a token behind the first one.
    """

    asked: Asked
    first: float
    last: float
    longest: float = 0.0

    @property
    def to_first(self) -> float:
        """Return the seconds to the first token."""
        return self.first - self.asked.at

    @property
    def between(self) -> float:
        """Return the mean seconds between its tokens; 0 for a token alone."""
        return (self.last - self.first) / max(self.asked.tokens - 1, 1)

    @property
    def whole(self) -> float:
        """Return the seconds to the last token."""
        return self.last - self.asked.at


@dataclass(frozen=True)
class Prices:
    """What a server's work costs, in seconds: some prices, and straight lines between them.

    Attributes:
        rounds: rows -> seconds of a round in which each of them gets a token.
        reads: tokens -> seconds of reading a piece of a prompt; none if it costs nothing.
        joins: rows -> seconds of letting texts join, in a batch of so many rows then.
        leaves: rows -> seconds of letting texts leave a batch of so many rows.
    """

    rounds: Mapping[int, float]
    reads: Mapping[int, float] = field(default_factory=dict)
    joins: Mapping[int, float] = field(default_factory=dict)
    leaves: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.rounds:
            raise BadValue("rounds must hold a price, got none")
        for name in ("rounds", "reads", "joins", "leaves"):
            for size, seconds in getattr(self, name).items():
                integer(f"{name}, a size", size, 1)
                number(f"{name}[{size}]", seconds, 0.0)

    def round(self, rows: int) -> float:
        """Return the seconds of a round of so many rows."""
        return _on_lines(self.rounds, rows)

    def read(self, tokens: int) -> float:
        """Return the seconds of a piece of a prompt."""
        return _on_lines(self.reads, tokens) if tokens and self.reads else 0.0

    def join(self, rows: int) -> float:
        """Return the seconds of letting texts join."""
        return _on_lines(self.joins, rows) if self.joins else 0.0

    def leave(self, rows: int) -> float:
        """Return the seconds of letting texts leave."""
        return _on_lines(self.leaves, rows) if self.leaves else 0.0

    def times(self, factor: float) -> "Prices":
        """Return the prices of a machine on which all takes so many times as long."""
        number("factor", factor, 0.0)
        known = (self.rounds, self.reads, self.joins, self.leaves)
        return Prices(*({size: factor * each[size] for size in each} for each in known))


def _on_lines(known: Mapping[int, float], size: int) -> float:
    """Return a price between those that are known; beyond them the nearest two lead on."""
    sizes = sorted(known)
    if len(sizes) == 1:
        return known[sizes[0]]
    right = min(max(bisect(sizes, size), 1), len(sizes) - 1)
    low, high = sizes[right - 1], sizes[right]
    slope = (known[high] - known[low]) / (high - low)
    return max(known[low] + slope * (size - low), 0.0)


class _Text:
    """A request on its way."""

    def __init__(self, asked: Asked) -> None:
        self.asked, self.unread, self.most = asked, asked.prompt - 1, FIRST_PIECE
        self.times: list[float] = []

    def served(self) -> Served:
        gaps = [two - one for one, two in pairwise(self.times)]
        return Served(self.asked, self.times[0], self.times[-1], max(gaps, default=0.0))


class _Server:
    """The turns of a server: read pieces of prompts, then write a round."""

    def __init__(self, prices: Prices, most: int, in_pieces: bool) -> None:
        self.prices, self.most, self.in_pieces = prices, most, in_pieces
        self.reading: list[_Text] = []
        self.writing: list[_Text] = []
        self._oldest_first = False
        self._pace = Pace(_MOST)
        self._rounds = [prices.round(rows) for rows in range(1, most + 1)]
        self._left = 0  # rows of the turn before, if some have left

    @property
    def rows(self) -> int:
        return len(self.reading) + len(self.writing)

    def turn(self, now: float) -> float:
        """Run a turn; return when it ends."""
        now += self._read()
        seconds = self._rounds[len(self.writing) - 1] if self.writing else 0.0
        now += seconds
        for text in self.writing:
            text.times.append(now)
        stay = [text for text in self.writing if len(text.times) < text.asked.tokens]
        if stay:
            self._pace.wrote(seconds)
        self._left = len(self.writing) if 0 < len(stay) < len(self.writing) else 0
        self.writing = stay
        return now

    def _read(self) -> float:
        """Read pieces, as long as those who write may wait; return how long it took."""
        self._oldest_first = not self._oldest_first
        writing = len(self.writing) if self.in_pieces else 0
        patience, spent, joined = self._pace.patience(len(self.reading), writing), 0.0, 0
        while self.reading and spent < patience:
            by_age = self._oldest_first or not self.in_pieces
            text = self.reading[0] if by_age else min(self.reading, key=lambda text: text.unread)
            n = self._pace.piece(text.unread, text.most, patience - spent)
            if spent and n < min(text.unread, SMALL):  # in the next turn it is a larger one
                break
            seconds = self.prices.read(n)
            spent += seconds
            text.unread, text.most = text.unread - n, 2 * text.most
            self._pace.read(n, seconds)
            if not text.unread:
                self.reading.remove(text)
                self.writing.append(text)
                joined += 1
                if patience == inf and self.in_pieces:
                    break
        if joined:  # the caches are copied, once for those who join and those who have left
            return spent + self.prices.join(len(self.writing))
        return spent + (self.prices.leave(self._left) if self._left else 0.0)


def simulate(
    asked: Sequence[Asked], prices: Prices, most: int, *, in_pieces: bool = True
) -> list[Served]:
    """Serve requests first come, first served; return what became of each, in their order.

    Args:
        asked: in any order.
        prices: of the server's work.
        most: how many texts are read and written at a time, at most.
        in_pieces: whether prompts are read in pieces between the others' tokens; else each is read
            whole, while all others wait.
    """
    server = _Server(prices, integer("most", most, 1), in_pieces)
    texts = [_Text(each) for each in asked]
    to_come = deque(sorted(texts, key=lambda text: text.asked.at))
    now = 0.0
    while to_come or server.rows:
        if not server.rows:
            now = max(now, to_come[0].asked.at)
        while to_come and to_come[0].asked.at <= now and server.rows < most:
            server.reading.append(to_come.popleft())
        now = server.turn(now)
    return [text.served() for text in texts]


def at_random(rate: float, n: int, seed: int, prompt: int = 12, tokens: int = 16) -> list[Asked]:
    """Return requests that come at random, so many a second on average.

    Args:
        rate: a second.
        n: how many.
        seed: the same seed at another rate has the same requests, closer together.
        prompt: tokens of a prompt on average; each has a half of it to one and a half.
        tokens: to be written, the same.
    """
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(size=integer("n", n, 1)) / rate)
    lengths = [rng.integers(m - m // 2, m + m // 2 + 1, size=n).tolist() for m in (prompt, tokens)]
    return [Asked(*each) for each in zip(times.tolist(), *lengths, strict=True)]


def capacity(asked: Sequence[Asked], prices: Prices, most: int) -> float:
    """Return the requests a second that a server manages if all of them are there at once."""
    at_once = [replace(each, at=0.0) for each in asked]
    return len(asked) / max(each.last for each in simulate(at_once, prices, most))


def wait_of_one(load: float, seconds: float, spread: float = 0.0) -> float:
    """Return the mean wait where one is served at a time and requests come at random.

    ``load / (1 - load) · seconds · (1 + spread²) / 2`` (Pollaczek 1930, Khinchine 1932).

    Args:
        load: arrivals a second times ``seconds``: below 1.
        seconds: that a request takes on average.
        spread: their standard deviation over their mean; 0 if all take the same.
    """
    if not 0 <= number("load", load) < 1:
        raise BadValue(f"load must be at least 0 and below 1, got {load}")
    return load / (1 - load) * seconds * (1 + spread**2) / 2
