"""Completions side by side: rows that grow, and what is returned when they have ended."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class Row:
    """One sequence of a batch, and what has been written of it.

    Attributes:
        number: its place among all that were asked for, and its name in the sampler.
        prompt: token ids.
        tokens: the completion so far.
        logprobs: natural log of the model's own probability of each of them (raw logits).
    """

    number: int
    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def stopped(self, stops: frozenset[int]) -> bool:
        """Return whether a stop token ended it."""
        return bool(self.tokens) and self.tokens[-1] in stops


@dataclass(frozen=True)
class Samples:
    """Completions of one prompt, in the order of their row numbers.

    Attributes:
        tokens: the ids of each completion, the stop token included.
        logprobs: natural log of the model's own probability of each token (raw logits).
        finished: whether a stop token ended the row (False: ``max_tokens`` did).
    """

    tokens: list[list[int]]
    logprobs: list[list[float]]
    finished: list[bool]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def lengths(self) -> list[int]:
        """Tokens in each row."""
        return [len(row) for row in self.tokens]

    @classmethod
    def of(cls, rows: Iterable[Row], stops: frozenset[int], **more: object) -> "Samples":
        """Collect rows that have ended."""
        rows = list(rows)
        return cls(
            [row.tokens for row in rows],
            [row.logprobs for row in rows],
            [row.stopped(stops) for row in rows],
            **more,
        )

    @classmethod
    def joined(cls, parts: Sequence["Samples"], **more: object) -> "Samples":
        """Put parts one behind the other."""
        return cls(
            [row for part in parts for row in part.tokens],
            [row for part in parts for row in part.logprobs],
            [row for part in parts for row in part.finished],
            **more,
        )
