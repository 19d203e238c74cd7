"""A round of speculation: draft, verify, keep, take back; for one text or for many."""

from collections.abc import Sequence
from typing import Any

from lablib.inference.speculation.drafters import Drafter
from lablib.inference.speculation.judge import Judge, Verdict
from lablib.inference.speculation.proposal import Proposal
from lablib.models.interface import vocab_size_of
from lablib.validation import BadType, BadValue, token_ids

import mlx.core as mx


class Rounds:
    """Texts that speculate together, and all that works on them.

    A round appends what it decides to ``texts``, the token ids of each. ``target`` is the model
    with its cache, a ``Rewinder``.
    """

    def __init__(self, texts: list[list[int]], target: Any, drafter: Drafter, judge: Judge) -> None:
        self.texts, self.target, self.drafter, self.judge = texts, target, drafter, judge
        self._vocab_size = vocab_size_of(target.model)

    def round(self, limits: Sequence[int]) -> list[Verdict] | None:
        """Run one round with at most ``limits[row]`` drafts for each text.

        Returns:
            A verdict for each text; None if the drafter had no guess, and nothing was read.
        """
        self.target.settle()  # what earlier rounds left stays
        proposal = self.drafter.propose(self.texts, limits, self.judge.sampler)  # draft
        if proposal is None:
            return None
        counts = check_proposal(proposal, limits, self._vocab_size, self.drafter)
        logits = self.read(proposal.tokens, proposal.parents)  # verify
        verdicts = self.judge.decide(logits, proposal, counts)  # keep
        if proposal.parents is not None:  # a tree, of which one path stays
            self.target.follow(len(proposal.parents), verdicts[0].path)
        lengths = self.append(verdicts)
        self.target.keep(lengths)  # take back
        self.drafter.keep(lengths)
        return verdicts

    def plain(self) -> list[Verdict]:
        """Let the target write one token of each text by itself."""
        self.target.settle()
        verdicts = self.judge.decide(self.read())
        self.append(verdicts)
        return verdicts

    def read(
        self, drafts: mx.array | None = None, parents: Sequence[int] | None = None
    ) -> mx.array:
        """Let the target read what it has not read of the texts, and the drafts ``(B, γ)``.

        Of a tree, ``parents`` are those of ``Proposal``.

        Returns:
            Its logits ``(B, γ+1, V)``, after the last token of each text and after each draft.
        """
        places = self.target.positions
        unread = [text[at:] for text, at in zip(self.texts, places, strict=True)]
        tokens = mx.array(unread, mx.int32)
        if drafts is not None:
            tokens = mx.concatenate([tokens, drafts], axis=1)
        late = len(unread[0]) - 1  # tokens of a prompt that were left for this forward
        if parents is not None:  # among all that is read: the unread tokens are the first ones
            parents = [*range(-1, late), *(late + 1 + parent for parent in parents)]
        logits = self.target.forward(tokens, parents=parents)
        return logits[:, late:] if late else logits

    def append(self, verdicts: Sequence[Verdict]) -> list[int]:
        """Write down what was decided; returns how many tokens of each text are read for good."""
        lengths = []
        for text, verdict in zip(self.texts, verdicts, strict=True):
            text += verdict.tokens
            lengths.append(len(text) - 1)
        self.judge.sampler.commit([verdict.tokens for verdict in verdicts])
        return lengths

    def select(self, places: Sequence[int]) -> None:
        """Go on with the texts at these places only."""
        self.texts[:] = [self.texts[place] for place in places]
        for part in (self.target, self.drafter, self.judge.sampler):
            part.select(places)


def check_proposal(
    proposal: Any, limits: Sequence[int], vocab_size: int, drafter: Drafter
) -> Sequence[int] | None:
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
        limited = f"{allowed}, with limits {list(limits)}"
        raise BadValue(f"drafter must propose tokens of shape {limited}, got {tokens.shape}")
    for name, array in (("q", proposal.q), ("logits", proposal.logits)):
        if array is not None and array.shape != (wanted := (*tokens.shape, vocab_size)):
            raise BadValue(f"drafter must propose {name} of shape {wanted}, got {array.shape}")
    for row, ids in enumerate([] if proposal.drawn else tokens.tolist()):
        token_ids(f"the drafter's guess for text {row}", ids, vocab_size)
    if proposal.parents is not None:
        parents, n = list(proposal.parents), tokens.shape[1]
        if not drafter.trees:
            raise BadValue("drafter must say trees = True to propose parents")
        if texts > 1 or len(parents) != n or any(not -1 <= p < i for i, p in enumerate(parents)):
            allowed = f"{n} parents from -1 to the place before, for one text"
            raise BadValue(f"drafter must propose {allowed}, got {parents} for {texts}")
    if texts == 1:
        return None
    counts = limits if proposal.counts is None else proposal.counts
    return [min(pair) for pair in zip(counts, limits, strict=True)]
