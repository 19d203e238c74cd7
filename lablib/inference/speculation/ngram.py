"""Prompt lookup: the text itself says how it goes on."""

from collections.abc import Sequence
from copy import copy as shallow_copy
from typing import Any, Self

from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.drafter import Drafter, Limits, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.unknown_options import checks_options
from lablib.validation import integer


@checks_options
class NGram(Drafter):
    """Prompt lookup: find the last tokens earlier in the text and propose what followed them there.

    Costs nothing but a dictionary and pays on text that repeats itself: edits, quotations, code.
    Runs of ``longest`` last tokens are tried first, of ``shortest`` last.

    Raises:
        ValueError, TypeError: ``longest`` is below 1, or ``shortest`` not from 1 to ``longest``.

    Example:
        >>> text = lablib.generate(model, tokenizer, "Mia finds", draft_model=lablib.NGram())
        >>> text.stats["draft_calls"]
        0
    """

    _indexes: list[tuple[dict[tuple[int, ...], int], int]]

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        self.longest = integer("longest", longest, 1)
        self.shortest = integer("shortest", shortest, 1, self.longest)

    def begin(self, target: Any, own: Any, texts: int) -> Self:
        """Return a drafter for some texts; see :class:`Drafter`."""
        session = shallow_copy(self)
        # One pair a text: the end of each run of tokens, and how much of the text was indexed.
        session._indexes = [({}, 0) for _ in range(texts)]
        return session

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Look up each text's last tokens in it."""
        rows = range(len(texts))
        return Proposal.of([self.lookup(texts[row], limits[row], row) for row in rows])

    def lookup(self, text: Sequence[int], n: int, row: int = 0) -> list[int]:
        """Return the guess itself, at most ``n`` ids; empty if the last tokens are new."""
        follows, indexed = self._indexes[row]
        # Where each run was last followed by something; the end of the text has no follower yet.
        for end in range(indexed, len(text)):
            for size in range(self.shortest, min(self.longest, end) + 1):
                follows[tuple(text[end - size : end])] = end
        self._indexes[row] = follows, len(text)
        for size in range(min(self.longest, len(text)), self.shortest - 1, -1):
            place = follows.get(tuple(text[-size:]))
            if place is not None:
                return list(text[place : place + n])
        return []

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these texts."""
        self._indexes = [self._indexes[row] for row in rows]

    def extend(self, other: Self) -> None:
        """Go on with the texts of another, too."""
        self._indexes += other._indexes
