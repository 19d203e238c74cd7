"""Completions side by side: rows that grow, and what is returned when they have ended."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lablib.inference.sampling.options import SamplerOptions


@dataclass(eq=False)
class Row:
    """One sequence of a batch, and what has been written of it."""

    number: int  # its place among all that were asked for, and its name in the sampler
    prompt: list[int]
    options: SamplerOptions
    stream: int  # which of the seed's random numbers
    left: int  # how many tokens it may still get; 0: it has ended
    stops: frozenset[int]  # ids that end it
    ended: Callable[[int, list[int]], bool] = lambda number, tokens: False  # another reason to end
    tokens: list[int] = field(default_factory=list)  # the completion so far
    logprobs: list[float] = field(default_factory=list)  # of each token, as in Samples
    stopped: bool = False  # whether a stop token, or ``ended``, ended it

    def take(self, tokens: Sequence[int], logprobs: Sequence[float]) -> None:
        """Append what was decided; a stop token is the last of it."""
        self.tokens += tokens
        self.logprobs += logprobs
        self.stopped = self.tokens[-1] in self.stops or self.ended(self.number, self.tokens)
        self.left = 0 if self.stopped else self.left - len(tokens)


@dataclass(frozen=True)
class Samples:
    """Completions of one prompt or of several, in the order of their row numbers.

    Attributes:
        tokens: the ids of each completion, the stop token included.
        logprobs: natural log of the model's own probability of each token (raw logits).
        finished: whether a stop token ended the row (False: ``max_tokens`` did).
        stats: after speculation the stats of ``SpeculativeTokenIterator`` that count drafts and
            calls, of all rows; ``rounds`` counts each row's verifications, ``target_calls`` the
            forwards of the batch.
    """

    tokens: list[list[int]]
    logprobs: list[list[float]]
    finished: list[bool]
    stats: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def lengths(self) -> list[int]:
        """Tokens in each row."""
        return [len(row) for row in self.tokens]

    @classmethod
    def of(cls, rows: Iterable[Row], **more: Any) -> "Samples":
        """Collect rows that have ended."""
        parts = (cls([row.tokens], [row.logprobs], [row.stopped]) for row in rows)
        return cls.joined(parts, **more)

    @classmethod
    def joined(cls, parts: Iterable["Samples"], **more: Any) -> "Samples":
        """Put parts one behind the other."""
        joined = cls([], [], [], **more)
        for part in parts:
            joined.tokens.extend(part.tokens)
            joined.logprobs.extend(part.logprobs)
            joined.finished.extend(part.finished)
        return joined
