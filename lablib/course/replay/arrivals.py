"""An engine under a list of arrivals, by a clock that counts its work alone; and its prices.

``lablib.Engine`` runs its batch turn by turn, in a thread of its own. Here the same batch runs its
turns with nobody beside it, and where it has nothing to do the clock leaps to the next arrival. So
an hour of few requests takes no longer than their work.

The clock counts processor time, where it can. That leaves out the time that neighbours on the
machine take, but not that the same work lasts longer beside them, since they share its memory and
what lies nearest to it: half as long again for some seconds is nothing unusual. Near the wall such
a server is an overloaded one. A metronome takes that out as well.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import median
from typing import Any

from lablib.course.replay.measure import clock
from lablib.course.theory.serving import Asked, Prices, Served
from lablib.inference import arguments
from lablib.inference.decoding.scheduler import make_row
from lablib.inference.engine.continuous_batch import ContinuousBatch
from lablib.inference.engine.job import Job
from lablib.inference.engine.lane import Models

import mlx.core as mx
import numpy as np

_SIZES = (1, 2, 4, 8, 16)  # rows whose rounds are timed
_READS = (4, 16, 64, 256)  # tokens of prompts that are
_TURNS = 8
_STEP = 512  # tokens of a prompt that are read at once, at most
_BEATS = 5  # of a metronome that count at a time


@dataclass(frozen=True)
class Run:
    """What became of requests.

    Attributes:
        served: in their order.
        seconds: from the first arrival's zero to the last token.
        in_system: requests that waited, were read or were written, on average over these seconds.
        evicted: of each request, how often it gave up its cache.
        times: of each, when its tokens came.
    """

    served: list[Served]
    seconds: float
    in_system: float
    evicted: list[int]
    times: list[list[float]]


class Metronome:
    """How slow the machine is now: a forward that is always the same is timed again and again.

    Args:
        model: whose forward, of one token.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._token, self._clock = model, mx.zeros((1, 1), mx.int32), clock()
        self._lately: deque[float] = deque(maxlen=_BEATS)
        self.usual = median([self.beat() for _ in range(60)][10:])

    def beat(self) -> float:
        """Time a forward; return its seconds."""
        start = self._clock()
        mx.eval(self._model(self._token))
        self._lately.append(self._clock() - start)
        return self._lately[-1]

    @property
    def slowness(self) -> float:
        """Return how many times as long as at the beginning a forward takes now."""
        return median(self._lately) / self.usual


class Clocked:
    """A batch of the engine, on a clock of its own.

    Args:
        model: any that the engine serves.
        most: texts that are read and written at a time, at most.
        cache_bytes: of all their caches.
        metronome: if there is one it beats after each turn, and the clock counts the seconds that
            the turn would have taken while it beats as at its beginning.
        draft_model: of an engine that has one; see ``lablib.Engine``.
    """

    def __init__(
        self,
        model: Any,
        most: int,
        cache_bytes: int = 2**30,
        metronome: Metronome | None = None,
        draft_model: Any = None,
    ) -> None:
        self.model, self.now, self.metronome = model, 0.0, metronome
        self._clock, self._numbers = clock(), count()
        models = Models(model, draft_model, _STEP)
        self.batch = ContinuousBatch(models, most, cache_bytes, self._clock)

    def job(self, prompt: int, tokens: int) -> Job:
        """Return a request: a prompt of so many tokens, any, and tokens to write."""
        number = next(self._numbers)
        ids = np.random.default_rng(number).integers(3, 512, size=prompt).tolist()
        how = {"max_tokens": tokens, "temperature": 0.0, "stop_tokens": ()}
        request = arguments.read_request(self.model, ids, **how)
        return Job(make_row(request, 0, number, 0), request)

    def ask(self, prompt: int, tokens: int) -> Job:
        """Let such a request wait for its turn."""
        job = self.job(prompt, tokens)
        self.batch.check(job)
        self.batch.ask([job])
        return job

    def turn(self) -> tuple[list[Job], float]:
        """Run a turn; return the jobs of which there is news, and how long it took."""
        news, seconds = self.timed(self.batch.turn)
        self.now += seconds
        return news, seconds

    def timed(self, work: Callable[[], Any]) -> tuple[Any, float]:
        """Return what some work returns, and how long it took."""
        start = self._clock()
        found = work()
        seconds = self._clock() - start
        if self.metronome is None:
            return found, seconds
        self.metronome.beat()
        return found, seconds / self.metronome.slowness


def serve(server: Clocked, asked: Sequence[Asked]) -> Run:
    """Ask each request at its time; return what the server's clock says of it."""
    begin, area = server.now, 0.0
    to_come = sorted(enumerate(asked), key=lambda each: each[1].at)
    jobs: dict[int, Job] = {}
    times: dict[int, list[float]] = {}
    numbers: dict[Job, int] = {}
    while to_come or server.batch.is_busy:
        if not server.batch.is_busy:
            server.now = max(server.now, begin + to_come[0][1].at)
        while to_come and begin + to_come[0][1].at <= server.now:
            number, request = to_come.pop(0)
            jobs[number] = server.ask(request.prompt, request.tokens)
            numbers[jobs[number]] = number
        stats = server.batch.stats
        news, seconds = server.turn()
        area += seconds * (stats["waiting"] + stats["reading"] + stats["running"])
        for job in news:
            times.setdefault(numbers[job], []).append(server.now - begin)
    served = [_served(request, times[i]) for i, request in enumerate(asked)]
    whole = server.now - begin
    order = range(len(asked))
    evicted = [jobs[i].evicted for i in order]
    return Run(served, whole, area / whole, evicted, [times[i] for i in order])


def _served(asked: Asked, times: list[float]) -> Served:
    gaps = np.diff(times)
    return Served(asked, times[0], times[-1], float(gaps.max()) if len(gaps) else 0.0)


def prices_of(
    model: Any, sizes: Sequence[int] = _SIZES, metronome: Metronome | None = None
) -> Prices:
    """Measure what the engine's work on a model costs.

    Args:
        model: any that the engine serves.
        sizes: numbers of rows whose rounds are timed.
        metronome: as a server's that is ``Clocked``.
    """
    server = Clocked(model, max(sizes), metronome=metronome)
    rounds = _usual(partial(_rounds, server, sorted(sizes)), 3)
    reads = _usual(lambda: {tokens: _read(server, tokens) for tokens in _READS}, 9)
    both = _usual(lambda: {n: _joining(server, n) for n in (2, min(8, max(sizes)))}, 7)
    joins = {rows: max(seconds[0] - reads[_READS[0]], 0.0) for rows, seconds in both.items()}
    leaves = {rows: max(seconds[1], 0.0) for rows, seconds in both.items()}
    return Prices(rounds, reads, joins, leaves)


def _usual(work: Callable[[], dict[int, Any]], times: int) -> dict[int, Any]:
    """Return the medians of so many measurements."""
    work()  # the first one warms up
    found = [work() for _ in range(times)]
    return {size: np.median([each[size] for each in found], axis=0).tolist() for size in found[0]}


def _rounds(server: Clocked, sizes: Sequence[int]) -> dict[int, float]:
    """Return the seconds of a round of each number of rows, as more and more join."""
    found = {}
    for rows in sizes:
        _fill(server, rows)
        found[rows] = median(server.turn()[1] for _ in range(_TURNS))
    _empty(server)
    return found


def _read(server: Clocked, tokens: int) -> float:
    """Return the seconds of reading so many tokens at once."""
    reading = server.batch.models.reading(server.job(tokens + 1, 1))
    server.batch.models.begin(reading)
    return server.timed(partial(reading.read, tokens))[1]


def _joining(server: Clocked, rows: int) -> tuple[float, float]:
    """Return by how much a text that joins and one that leaves make turns longer.

    It is the same text, which makes the rows so many: it has a prompt of ``_READS[0]`` tokens,
    which is read as well, and writes a token.
    """
    _fill(server, rows - 1)
    usual = median(server.turn()[1] for _ in range(3))
    server.ask(_READS[0] + 1, 1)
    joins, leaves = (server.turn()[1] - usual for _ in range(2))
    _empty(server)
    return joins, leaves


def _fill(server: Clocked, rows: int) -> None:
    """Let texts join until there are so many."""
    for _ in range(rows - server.batch.stats["running"]):
        server.ask(_READS[0], 20 * _TURNS)
    while server.batch.stats["running"] < rows:
        server.turn()
    server.turn()


def _empty(server: Clocked) -> None:
    for lane in server.batch.lanes:
        for job in lane.jobs:
            server.batch.cancel(job)
    while server.batch.is_busy:
        server.turn()
