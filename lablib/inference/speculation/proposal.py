"""What a drafter proposes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    drawn: bool = False  # by ``sampler.draft``, so surely ids; else the engine waits and looks

    @classmethod
    def of(cls, guesses: Sequence[Sequence[int]]) -> "Proposal | None":
        """Make one from a list of ids for each text, any number of them; None if all are empty."""
        counts = [len(guess) for guess in guesses]
        if not (longest := max(counts, default=0)):
            return None
        padded = [[*guess] + [0] * (longest - len(guess)) for guess in guesses]
        return cls(mx.array(padded, mx.int32), counts=counts)


def check_proposal(proposal: Any, limits: Sequence[int], vocab_size: int) -> Sequence[int] | None:
    """Refuse no token, more than ``max(limits)`` for each text, and ids of no token.

    Returns:
        How many drafts each of several texts means; None for one.
    """
    if not isinstance(proposal, Proposal):
        kind = type(proposal).__name__
        raise BadType(f"drafter must propose a Proposal or None, got {kind}")
    tokens, texts, most = proposal.tokens, len(limits), max(limits)
    if not isinstance(tokens, mx.array):
        kind = type(tokens).__name__
        raise BadType(f"drafter must propose tokens as an mx.array, got {kind}")
    if tokens.ndim != 2 or tokens.shape[0] != texts or not 1 <= tokens.shape[1] <= most:
        allowed = f"({texts}, 1) to ({texts}, {most})"
        raise BadValue(f"drafter must propose tokens of shape {allowed}, got {tokens.shape}")
    for name, array in (("q", proposal.q), ("logits", proposal.logits)):
        if array is not None and array.shape != (wanted := (*tokens.shape, vocab_size)):
            raise BadValue(f"drafter must propose {name} of shape {wanted}, got {array.shape}")
    for row, ids in enumerate([] if proposal.drawn else tokens.tolist()):
        token_ids(f"the drafter's guess for text {row}", ids, vocab_size)
    if texts == 1:
        return None
    counts = limits if proposal.counts is None else proposal.counts
    return [min(pair) for pair in zip(counts, limits, strict=True)]
