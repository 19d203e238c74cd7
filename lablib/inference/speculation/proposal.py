"""What a drafter proposes."""

from collections.abc import Sequence
from dataclasses import dataclass

from lablib.validation import BadType, BadValue, token_ids

import mlx.core as mx


@dataclass(frozen=True)
class Proposal:
    """Drafted tokens, possibly not computed yet; make one with ``Proposal.of``.

    A draft model also says what each token was drawn from: ``q`` is None if the drafts were certain
    (looked up, or the draft model's best), ``logits`` are the raw scores behind them.
    """

    tokens: mx.array  # (B, γ) int32, γ ≥ 1
    q: mx.array | None = None  # (B, γ, V)
    logits: mx.array | None = None  # (B, γ, V)
    counts: Sequence[int] | None = None  # how many of its γ tokens each text means; None: all
    known: bool = False  # whether these are surely ids of tokens; else the engine waits and looks

    @classmethod
    def of(cls, guesses: Sequence[Sequence[int]]) -> "Proposal | None":
        """Make one from a list of ids for each text, any number of them; None if all are empty."""
        counts = [len(guess) for guess in guesses]
        if not (longest := max(counts)):
            return None
        padded = [[*guess] + [0] * (longest - len(guess)) for guess in guesses]
        return cls(mx.array(padded, mx.int32), counts=counts)

    def check(self, texts: int, most: int, vocab_size: int) -> None:
        """Refuse what may not be proposed: no token, more than ``most``, or ids of no token."""
        tokens = self.tokens
        if not isinstance(tokens, mx.array):
            kind = type(tokens).__name__
            raise BadType(f"drafter must propose tokens as an mx.array, got {kind}")
        if tokens.ndim != 2 or tokens.shape[0] != texts or not 1 <= tokens.shape[1] <= most:
            allowed = f"({texts}, 1) to ({texts}, {most})"
            raise BadValue(f"drafter must propose tokens of shape {allowed}, got {tokens.shape}")
        for name, array in (("q", self.q), ("logits", self.logits)):
            if array is not None and array.shape != (wanted := (*tokens.shape, vocab_size)):
                raise BadValue(f"drafter must propose {name} of shape {wanted}, got {array.shape}")
        for row in tokens.tolist():
            token_ids("the drafter's tokens", row, vocab_size)
