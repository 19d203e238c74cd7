"""What a drafter proposes."""

from collections.abc import Sequence
from dataclasses import dataclass

from lablib.validation import BadType, BadValue, token_ids

import mlx.core as mx


@dataclass(frozen=True)
class Proposal:
    """Drafted tokens, possibly not computed yet.

    Attributes:
        tokens: ``(B, γ)`` int32, γ ≥ 1.
        q: ``(B, γ, V)``, what each token was drawn from; None if the drafts were certain (looked
            up, or the draft model's best).
        logits: ``(B, γ, V)``, the raw scores behind them; None without a draft model.
        counts: how many of its γ tokens each text means; None means all.
        known: whether the tokens are sure to be ids of the target's. If not, the engine waits for
            them and looks.
    """

    tokens: mx.array
    q: mx.array | None = None
    logits: mx.array | None = None
    counts: Sequence[int] | None = None
    known: bool = False

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
        if not self.known:
            for row in tokens.tolist():
                token_ids("the drafter's tokens", row, vocab_size)
