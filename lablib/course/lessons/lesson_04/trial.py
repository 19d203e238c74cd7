"""Lesson 04's queue, before the student has written it, and requests to try one with."""

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


def serve_queue(
    readers: Sequence[str], slots: int, step: Callable[[list[str]], list[str]]
) -> list[list[str]]:
    """Serve readers, first come first served; return who was active in each step.

    Args:
        readers: in order of arrival.
        slots: how many may be active at a time.
        step: does one step for the active ones, and returns those who are done.
    """
    waiting, active, seated = list(readers), [], []
    while waiting or active:
        free = slots - len(active)
        active, waiting = active + waiting[:free], waiting[free:]  # a free slot is taken at once
        seated.append(active)
        done = step(active)
        active = [reader for reader in active if reader not in done]
    return seated
