"""Says what part of a prompt is read at once, while others who write wait, and not for long."""

import math
from collections import deque
from statistics import median

PATIENCE = 1.75  # rounds that a text waits in a turn for those who read, if they are not more
SMALLEST, SMALL = 4, 32  # tokens of a piece of a prompt: at least; more are worth waiting for


class Pace:
    """Learns what pieces of prompts and rounds of texts take, and says how large a piece may be.

    Args:
        step_size: tokens of a piece at most.
    """

    def __init__(self, step_size: int) -> None:
        self.step_size = step_size
        self._rounds: deque[float] = deque(maxlen=32)  # seconds, lately
        self._rate = 0.0  # tokens of prompts a second, lately

    def wrote(self, seconds: float) -> None:
        """Learn what the rounds of a turn took."""
        self._rounds.append(seconds)

    def read(self, n: int, seconds: float) -> None:
        """Learn what a piece took."""
        if n >= SMALLEST and seconds:
            self._rate = (self._rate or n / seconds) * 0.6 + 0.4 * n / seconds

    def patience(self, reading: int, writing: int) -> float:
        """Return the seconds in a turn for which those who write may wait for those who read."""
        if not writing:
            return math.inf
        return PATIENCE * median(self._rounds) * max(1.0, reading / writing)

    def piece(self, unread: int, most: int, seconds: float) -> int:
        """Return how many of the unread tokens to read next, in about so many seconds.

        ``most`` is the largest piece of that text, as nobody knows yet what it takes.
        """
        if seconds == math.inf:
            return min(self.step_size, unread)
        n = max(SMALLEST, int(min(self._rate * seconds, most)))
        return min(n, self.step_size, unread)
