"""How many drafts some texts kept, beside what p and q promise where drafts were judged."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lablib.inference import SpeculativeTokenIterator


@dataclass(frozen=True)
class Place:
    """A place where a draft was judged.

    Attributes:
        before: the ids of the text so far.
        shared: Σ min(p, q) there, the chance that rejection keeps the draft.
    """

    before: list[int]
    shared: float


@dataclass(frozen=True)
class Kept:
    """The drafts of some texts: how many stayed, and where they were judged."""

    kept: int = 0
    places: list[Place] = field(default_factory=list)

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(self.kept + other.kept, self.places + other.places)

    @property
    def judged(self) -> int:
        """Return how many drafts were judged."""
        return len(self.places)

    @property
    def share(self) -> float:
        """Return the share of the judged drafts that stayed."""
        return self.kept / self.judged

    @property
    def promised(self) -> float:
        """Return the mean of Σ min(p, q), the share that rejection keeps on average."""
        return sum(place.shared for place in self.places) / self.judged

    @property
    def spread(self) -> float:
        """Return two standard errors of the share: each place tosses a coin of its own."""
        variance = sum(place.shared * (1 - place.shared) for place in self.places)
        return 2 * math.sqrt(variance) / self.judged

    @property
    def hardest(self) -> Place:
        """Return the first of the places where p and q share least."""
        return min(self.places, key=lambda place: place.shared)


def kept_drafts(
    target: Any, drafter: Any, prompts: Iterable[Sequence[int]], **options: Any
) -> Kept:
    """Write a text behind each prompt, the n-th with seed n, and count its drafts.

    Args:
        target: writes.
        drafter: a draft model or a drafter.
        prompts: of ids.
        **options: of ``lablib.SpeculativeTokenIterator``.
    """
    found = Kept()
    for seed, prompt in enumerate(prompts):
        text = SpeculativeTokenIterator(target, drafter, prompt, trace=True, seed=seed, **options)
        with text:
            for _ in text:
                pass
        before = list(prompt)
        for verdict in text.rounds:
            shares = verdict.min_pq[: verdict.reached]
            places = [
                Place([*before, *verdict.drafted[:i]], float(each)) for i, each in enumerate(shares)
            ]
            found += Kept(verdict.accepted, places)
            before += verdict.tokens
    return found
