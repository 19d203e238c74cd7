"""Completions of one prompt, side by side: what ``sample_n`` and the votes pass around."""

from dataclasses import dataclass


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
