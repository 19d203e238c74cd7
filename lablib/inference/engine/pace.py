"""Says what part of a prompt is read at once, while others who write wait, and not for long."""

import math
from collections import deque
from statistics import median

PATIENCE = 1.75  # rounds that a text waits in a turn for those who read, if they are not more
SMALLEST, SMALL = 4, 32  # tokens of a piece of a prompt: at least; more are worth waiting for
WIDE = 20  # tokens: kernels work on tiles, so that 9 to 19 may take as long
MORE = 1.5  # times as long as there is: what a wide piece may take, if it gains as much


class Pace:
    """Learns what pieces of prompts and rounds of texts take, and says how large a piece may be.

    Args:
        step_size: tokens of a piece at most.
    """

    def __init__(self, step_size: int) -> None:
        self.step_size = step_size
        self._rounds: deque[float] = deque(maxlen=32)  # seconds, lately
        self._rates = {True: 0.0, False: 0.0}  # of wide pieces and of others, tokens a second

    def wrote(self, seconds: float) -> None:
        """Learn what the rounds of a turn took."""
        self._rounds.append(seconds)

    def read(self, n: int, seconds: float) -> None:
        """Learn what a piece took."""
        if n >= SMALLEST and seconds:
            is_wide = n >= WIDE
            before = self._rates[is_wide] or n / seconds
            self._rates[is_wide] = before * 0.6 + 0.4 * n / seconds

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
        wide = self._rates[True] or self._rates[False]
        narrow = self._rates[False] or wide
        gain = min(max(wide / narrow, 1.0), MORE) if narrow else 1.0
        if wide * seconds * gain >= WIDE:
            n = max(WIDE, int(wide * seconds))
        else:
            n = min(WIDE - 1, int(narrow * seconds))
        return min(max(SMALLEST, min(n, most)), self.step_size, unread)
