"""A sweep, simulated: a pile of work is dealt to many ranks, and takes its time.

Ranks work in rounds. In each one every rank takes its share of what is left, one unit after the
other, until the round's time is up for all, also for one with a long unit; then they tell each
other what they finished, and the rest is dealt anew. Rounds are long against a unit, so that the
waiting at their end is small, and never longer than half of what is left, so that nobody idles
beside a long share at the end (guided self-scheduling, Polychronopoulos and Kuck 1987). What
remains is the slowest unit: no number of ranks is faster than that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from lablib.validation import BadValue, integer, number, sequence

LEAST_SECONDS = 2.0  # of a round: what telling each other costs is small against it
UNITS = 10  # of the usual length in a round, if these take longer


def round_seconds(left: int, mean: float, ranks: int, least: float = LEAST_SECONDS) -> float:
    """Return how long the next round may take, in seconds; 0 lets every rank do one unit.

    Args:
        left: units that nobody has finished.
        mean: seconds that a unit took on average so far; 0 if nobody knows.
        ranks: that share them.
        least: seconds of a round where many units are left.
    """
    if ranks == 1:
        return least
    return min(max(least, UNITS * mean), left * mean / ranks / 2)


def goes_on(elapsed: float, mean: float, limit: float) -> bool:
    """Tell whether a rank begins another unit: if most of it should fit into the round."""
    return elapsed + mean / 2 < limit


@dataclass(frozen=True)
class Stint:
    """A rank's work on one unit.

    Attributes:
        place: of the unit in the order in which they are dealt.
        rank: who does it.
        start: seconds since the sweep began.
        seconds: how long it takes.
        round: in which round, from 0.
    """

    place: int
    rank: int
    start: float
    seconds: float
    round: int


@dataclass(frozen=True)
class Scaling:
    """The times of a simulated sweep.

    Attributes:
        seconds: from the first unit to the last.
        busy: seconds that each rank worked, ``(ranks,)``; it waited for the rest.
        rounds: how often all ranks told each other what they had finished.
        stints: who did which unit, and when.
    """

    seconds: float
    busy: tuple[float, ...]
    rounds: int
    stints: tuple[Stint, ...]

    @property
    def speedup(self) -> float:
        """Return how many times as fast it is as one rank that does nothing but the units."""
        return sum(self.busy) / self.seconds if self.seconds else 1.0

    @property
    def efficiency(self) -> float:
        """Return the share of the ranks' time that was work."""
        return self.speedup / len(self.busy)


def simulate(
    unit_seconds: Sequence[float], ranks: int, *, gather: float = 0.0,
    least: float = LEAST_SECONDS,
) -> Scaling:  # fmt: skip
    """Deal units to ranks as a sweep does.

    Args:
        unit_seconds: what each unit takes, in the order in which they are dealt; long ones belong
            at the front.
        ranks: how many.
        gather: seconds in which all ranks tell each other what they finished, once a round.
        least: see :func:`round_seconds`.

    Raises:
        ValueError, TypeError: an argument is out of range.
    """
    ranks, gather = integer("ranks", ranks, 1), number("gather", gather, 0)
    every = sequence("unit_seconds", unit_seconds, "seconds")
    left = [*enumerate(number("unit_seconds", each, 0) for each in every)]
    if not left:
        raise BadValue("unit_seconds must hold at least one unit, got none")
    seconds, rounds, busy, stints = 0.0, 0, [0.0] * ranks, list[Stint]()
    while left:
        mean = sum(busy) / len(stints) if stints else 0.0
        limit = round_seconds(len(left), mean, ranks, least)
        shares = [left[rank::ranks] for rank in range(ranks)]
        times = [[each for _, each in share] for share in shares]
        up = max(take(share, mean, limit)[1] for share in times)
        taken = [take(share, 0.0, up) for share in times]
        done = set()
        for rank, (some, elapsed) in enumerate(taken):
            starts = accumulate(times[rank][:some], initial=seconds)
            for (place, each), start in zip(shares[rank][:some], starts, strict=False):
                stints.append(Stint(place, rank, start, each, rounds))
                done.add(place)
            busy[rank] += elapsed
        seconds += max(elapsed for _, elapsed in taken) + gather * (ranks > 1)
        left = [unit for unit in left if unit[0] not in done]
        rounds += 1
    return Scaling(seconds, tuple(busy), rounds, tuple(stints))


def take(share: Iterable[float], mean: float, limit: float) -> tuple[int, float]:
    """Return how many units of its share a rank does in a round, and in how many seconds."""
    done, elapsed = 0, 0.0
    for unit in share:
        if done and not goes_on(elapsed, mean, limit):
            break
        elapsed += unit
        done += 1
    return done, elapsed
