"""What a rule that stops a vote early does, exactly: by dynamic programming over its ``reason``.

Samples are independent. A vote is *overtaken* if it stopped early and, had all n been drawn,
another answer would have strictly more votes than the one it elected; it is *misled* if it stopped
as "confident" on an answer that is less probable than another. Both are probabilities of the whole
vote, not of those that stop.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

Reason = Callable[[Sequence[int], int, int], str | None]


class Found(NamedTuple):
    """Of each of the chances asked for, ``(P,)``."""

    overtaken: np.ndarray
    misled: np.ndarray
    votes: np.ndarray  # drawn on average


def counts_of(lead: int, drawn: int, second: bool) -> list[int] | None:
    """Two answers in order of appearance, whose leader came second; None if that cannot be."""
    most, least = (drawn + lead) // 2, (drawn - lead) // 2
    if second:
        return [least, most] if least and lead else None
    return [most, least] if least else [most]


def leads(reason: Reason, n: int, every: int = 1) -> np.ndarray:
    """The smallest lead at which a vote of two answers stops, ``(n, 2)``: leader first, second.

    By halving, as a rule that stops at a lead stops at a greater one; n + 1 where it never does.
    """
    found = np.full((n, 2), n + 1)
    for drawn, second in itertools.product(range(every, n, every), (False, True)):
        possible = range(drawn % 2, drawn + 1, 2)
        possible = [lead for lead in possible if counts_of(lead, drawn, second)]
        low, high = 0, len(possible)
        while low < high:
            middle = (low + high) // 2
            if reason(counts_of(possible[middle], drawn, second), drawn, n):
                high = middle
            else:
                low = middle + 1
        if low < len(possible):
            found[drawn, int(second)] = possible[low]
    return found


def two(reason: Reason, n: int, chances: Sequence[float], every: int = 1) -> Found:
    """Two answers, the first of which has these chances, 1/2 at least.

    At 1/2 none is less probable; ``misled`` is then its limit from above, for the second answer.
    """
    p = np.asarray(chances, np.float64)[:, None]
    ahead = np.arange(-n - 1, n + 2)  # votes of the first answer minus those of the second
    least = leads(reason, n, every)

    def step(rows: np.ndarray) -> np.ndarray:
        """One more vote: from distributions to distributions."""
        new = np.zeros_like(rows)
        new[:, 1:] += p * rows[:, :-1]
        new[:, :-1] += (1 - p) * rows[:, 1:]
        return new

    def back(rows: np.ndarray) -> np.ndarray:
        """One more vote to come: from chances after it to chances before."""
        new = rows.copy()
        new[:, 1:-1] = p * rows[:, 2:] + (1 - p) * rows[:, :-2]
        return new

    behind, before = [np.repeat(ahead[None] < 0, len(p), 0).astype(float)], []
    before = [np.repeat(ahead[None] > 0, len(p), 0).astype(float)]
    for _ in range(n):
        behind.append(back(behind[-1]))
        before.append(back(before[-1]))
    overtaken, misled, votes = (np.zeros(len(p)) for _ in range(3))
    for second in (False, True):  # which of the two came first
        rows = np.zeros((len(p), len(ahead)))
        rows[:, n] = (1 - p[:, 0]) * second  # ahead by -1
        rows[:, n + 2] = p[:, 0] * (not second)
        for drawn in range(1, n):
            if drawn > 1:
                rows = step(rows)
            one = ahead >= least[drawn, int(second)]
            one &= (ahead > 0) | (not second)
            other = (-ahead >= least[drawn, int(not second)]) & ((ahead < 0) | second) & ~one
            overtaken += (rows * behind[n - drawn] * one).sum(1)
            overtaken += (rows * before[n - drawn] * other).sum(1)
            certain = -ahead - (not second) >= n - drawn
            misled += (rows * (other & ~certain)).sum(1)
            votes += drawn * (rows * (one | other)).sum(1)
            rows = rows * ~(one | other)
        votes += n * rows.sum(1)
    return Found(overtaken, misled, votes)


def three(reason: Reason, n: int, grid: Sequence[Sequence[float]], nobody: bool = False) -> Found:
    """Three answers of these chances ``(P, 3)``; with ``nobody`` the third is none at all."""
    stops, confident = _states(reason, n, nobody)
    p = np.asarray(grid, np.float64)
    found = Found(*(np.zeros(len(p)) for _ in range(3)))
    for order in _orders(nobody):
        _add(found, n, p[:, order], stops, confident, nobody, p[:, : 3 - nobody].max(1))
    return found


def _orders(nobody: bool) -> Iterator[list[int]]:
    """In what order the answers may appear; what is no answer stays where it is."""
    if nobody:
        return iter(([0, 1, 2], [1, 0, 2]))
    return iter([list(order) for order in itertools.permutations(range(3))])


def _states(reason: Reason, n: int, nobody: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where the rule stops, and where as "confident", by drawn and the first two answers' votes."""
    shape = (n, n + 1, n + 1)
    stops, confident = np.zeros(shape, bool), np.zeros(shape, bool)
    for drawn in range(1, n):
        for first, second in itertools.product(range(drawn + 1), repeat=2):
            third = drawn - first - second
            if third < 0 or (not first and second) or (not nobody and not second and third):
                continue
            if not nobody and not first:
                continue
            counts = [first, second] if nobody else [first, second, third]
            why = reason([count for count in counts if count], drawn, n)
            stops[drawn, first, second] = why is not None
            confident[drawn, first, second] = why == "confident"
    return stops, confident


def _add(
    found: Found,
    n: int,
    p: np.ndarray,
    stops: np.ndarray,
    confident: np.ndarray,
    nobody: bool,
    best: np.ndarray,
) -> None:
    """Add what happens if the answers appear in the order of ``p``'s columns."""
    a, b, c = (p[:, i, None, None] for i in range(3))
    first, second = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    real = 3 - nobody

    def votes(drawn: int) -> np.ndarray:
        return np.stack([first, second, drawn - first - second])

    future = []  # of each leader, the chance that another has strictly more in the end
    for leader in range(real):
        others = np.delete(votes(n)[:real], leader, 0).max(0)
        rows = [
            np.repeat(((others > votes(n)[leader]) & (votes(n)[2] >= 0))[None], len(p), 0) * 1.0
        ]
        for _ in range(n):
            after, before = rows[-1], c * rows[-1]
            before[:, :-1] += a * after[:, 1:]
            before[:, :, :-1] += b * after[:, :, 1:]
            rows.append(before)
        future.append(rows)
    now = np.zeros((len(p), n + 1, n + 1))
    now[:, 0, 0] = 1
    for drawn in range(1, n + 1):
        before, now = now, np.zeros_like(now)
        now[:, 1:] += a * before[:, :-1]
        met = before.copy() if nobody else before * (second > 0)
        now += c * met
        now[:, :, 1:] += b * (before * (first > 0))[:, :, :-1]
        # Two orders that have not come to what they differ in are one and the same vote.
        alike = second == 0
        shared = np.where(alike & (first == 0) if nobody else alike, 0.5, 1.0)
        if drawn == n:
            found.votes[:] += n * (now * shared).sum((1, 2))
            return
        ended = now * stops[drawn] * shared
        found.votes[:] += drawn * ended.sum((1, 2))
        leader = votes(drawn)[:real].argmax(0)
        for which in range(real):
            mine = ended * (leader == which)
            found.overtaken[:] += (mine * future[which][n - drawn]).sum((1, 2))
            lesser = p[:, which] < best - 1e-12
            found.misled[:] += lesser * (mine * confident[drawn]).sum((1, 2))
        now = now * ~stops[drawn]
