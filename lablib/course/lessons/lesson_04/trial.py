"""Requests for lesson 04's scheduler, each of which needs a number of steps."""

from collections.abc import Callable, Mapping, Sequence


def countdown(needs: Mapping[int, int]) -> Callable[[Sequence[int]], list[int]]:
    """Return a ``step`` for a scheduler.

    Args:
        needs: request -> how many steps it needs.
    """
    left = dict(needs)

    def step(active: Sequence[int]) -> list[int]:
        for request in active:
            left[request] -= 1
        # in another order than they came, and not the same objects: nobody should count on it
        return [int(str(request)) for request in reversed(active) if left[request] == 0]

    return step
