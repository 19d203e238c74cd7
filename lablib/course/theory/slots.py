"""Who sits in which slot, and when: sequences of known lengths, a batch of so many at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from lablib.validation import integer, one_of

CONTINUOUS, WHOLE = "continuous", "whole batches"


@dataclass(frozen=True)
class Stay:
    """One sequence's stay in a slot: from step ``start`` on for ``length`` steps."""

    sequence: int
    slot: int
    start: int
    length: int


def schedule(lengths: Sequence[int], slots: int, mode: str = CONTINUOUS) -> list[Stay]:
    """Seat sequences in ``slots``, first come first served; ``lengths`` count their steps.

    ``CONTINUOUS`` gives a free slot to the next sequence at once; ``WHOLE`` waits until every
    sequence of the batch has ended.
    """
    slots, mode = integer("slots", slots, 1), one_of("mode", mode, (CONTINUOUS, WHOLE))
    free_from, stays = [0] * slots, []
    for number, length in enumerate(lengths):
        if mode == WHOLE and number % slots == 0:
            free_from = [max(free_from)] * slots
        slot = min(range(slots), key=lambda s: (free_from[s], s))
        stays.append(Stay(number, slot, free_from[slot], length))
        free_from[slot] += length
    return stays
