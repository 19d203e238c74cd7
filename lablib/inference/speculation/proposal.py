"""What a drafter proposes."""

from collections.abc import Sequence
from dataclasses import dataclass

from lablib.validation import token_ids

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
    drawn: bool = False  # by ``sampler.draft``, so surely ids; else the engine waits and looks
    # Of a tree: the place of each token's parent, before it; -1 is the text. Siblings stand in the
    # order in which they were drawn, and q of each is what the first of them was drawn from.
    parents: Sequence[int] | None = None

    @classmethod
    def of(cls, guesses: Sequence[Sequence[int]]) -> "Proposal | None":
        """Make one from a list of ids for each text, any number of them; None if all are empty."""
        ids = [token_ids(f"guesses[{i}]", x, allow_empty=True) for i, x in enumerate(guesses)]
        if not (longest := max(map(len, ids), default=0)):
            return None
        padded = [each + [0] * (longest - len(each)) for each in ids]
        return cls(mx.array(padded, mx.int32), counts=[*map(len, ids)])
