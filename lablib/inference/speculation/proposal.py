"""The drafts that a drafter proposes for a round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lablib.machine.arrays import listed
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, token_ids

import mlx.core as mx


@checks_options
@dataclass(frozen=True)
class Proposal:
    """Drafted tokens, possibly not computed yet; make one with ``Proposal.of``.

    Attributes:
        tokens: ``(B, γ)`` int32, γ ≥ 1.
        q: the distributions that they were drawn from ``(B, γ, V)``; None: the drafts were certain
            (looked up, or the draft model's best).
        logits: the draft model's raw scores ``(B, γ, V)``, if it has one.
        counts: how many of the γ tokens each text means; None: all.
        drawn: the tokens come from ``sampler.draft``, so they are ids; else the engine looks.
        blind: each place, and each sibling, was offered before its token was drawn; ``q`` without
            that is refused, as the text would be biased (see ``drafter.py``).
        parents: of a tree, the index of each token's parent, before it; -1 is the text. Siblings
            stand in the order in which they were drawn, and q of each is the distribution that the
            first of them was drawn from.

    Example:
        >>> lablib.Proposal.of([[5, 6], [7]]).tokens.tolist()
        [[5, 6], [7, 0]]
    """

    tokens: mx.array
    q: mx.array | None = None
    logits: mx.array | None = None
    counts: Sequence[int] | None = None
    drawn: bool = False
    parents: Sequence[int] | None = None
    blind: bool = False

    @classmethod
    def of(cls, guesses: Sequence[Sequence[int]]) -> "Proposal | None":
        """Make one from a list of ids for each text, any number of them; None if all are empty."""
        ids = [token_ids(f"guesses[{i}]", x, allow_empty=True) for i, x in enumerate(guesses)]
        longest = max(map(len, ids), default=0)
        if not longest:
            return None
        padded = [each + [0] * (longest - len(each)) for each in ids]
        return cls(mx.array(padded, mx.int32), counts=[*map(len, ids)])


def check_proposal(
    proposal: Any, limits: Sequence[int], vocab_size: int, trees: bool
) -> list[int] | None:
    """Refuse a proposal that is none, or too long, or has ids beyond the vocabulary.

    ``limits`` are the most drafts for each text; only with ``trees`` it may have ``parents``.

    Returns:
        How many drafts each text means; None: all of one text's.
    """
    if not isinstance(proposal, Proposal):
        kind = type(proposal).__name__
        raise BadType(f"drafter must propose a Proposal or None, got {kind}")
    _check_tokens(proposal, limits)
    for name, array in (("q", proposal.q), ("logits", proposal.logits)):
        wanted = (*proposal.tokens.shape, vocab_size)
        if array is not None and array.shape != wanted:
            raise BadValue(f"drafter must propose {name} of shape {wanted}, got {array.shape}")
    if proposal.q is not None and proposal.blind is not True:
        rule = "where no length looks at the tokens it is of, else no q"
        got = f"blind={proposal.blind!r}"
        raise BadValue(f"drafter must propose q with blind=True {rule}, got {got}")
    for row, ids in enumerate([] if proposal.drawn else listed(proposal.tokens)):
        token_ids(f"the drafter's guess for text {row}", ids, vocab_size)
    if proposal.parents is not None:
        _check_parents(list(proposal.parents), proposal.tokens.shape, trees)
    if len(limits) == 1 and proposal.counts in (None, [proposal.tokens.shape[1]]):
        return None
    counts = limits if proposal.counts is None else proposal.counts
    if len(counts) != len(limits):
        raise BadValue(f"drafter must propose {len(limits)} counts, one a text, got {len(counts)}")
    return [min(pair) for pair in zip(counts, limits, strict=True)]


def _check_tokens(proposal: Proposal, limits: Sequence[int]) -> None:
    tokens, texts, most = proposal.tokens, len(limits), max(limits)
    if not isinstance(tokens, mx.array):
        kind = type(tokens).__name__
        raise BadType(f"drafter must propose tokens as an mx.array, got {kind}")
    if tokens.ndim != 2 or tokens.shape[0] != texts or not 1 <= tokens.shape[1] <= most:
        allowed = f"({texts}, 1) to ({texts}, {most})"
        limited = f"{allowed}, with limits {list(limits)}"
        raise BadValue(f"drafter must propose tokens of shape {limited}, got {tokens.shape}")


def _check_parents(parents: list[int], shape: tuple[int, ...], trees: bool) -> None:
    texts, n = shape
    if not trees:
        raise BadValue("drafter must say trees = True to propose parents")
    if texts > 1 or len(parents) != n or any(not -1 <= p < i for i, p in enumerate(parents)):
        allowed = f"{n} parents from -1 to the place before, for one text"
        raise BadValue(f"drafter must propose {allowed}, got {parents} for {texts}")
