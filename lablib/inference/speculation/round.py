"""A round of speculation: draft, verify, keep, take back; for one text or for many."""

from collections.abc import Sequence
from typing import Any

from lablib.inference.speculation.drafters import Drafter
from lablib.inference.speculation.judge import Judge, Verdict
from lablib.inference.speculation.proposal import check_proposal
from lablib.models.interface import vocab_size_of

import mlx.core as mx


class Rounds:
    """Texts that speculate together, and all that works on them.

    A round appends what it decides to ``texts``, the token ids of each. ``target`` is the model
    with its cache, a ``Rewinder`` or a ``BatchRewinder``.
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
        counts = check_proposal(proposal, limits, self._vocab_size)
        logits = self.read(proposal.tokens)  # verify
        verdicts = self.judge.decide(logits, proposal, counts)  # keep
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

    def read(self, drafts: mx.array | None = None) -> mx.array:
        """Let the target read what it has not read of the texts, and the drafts ``(B, γ)``.

        Returns:
            Its logits ``(B, γ+1, V)``, after the last token of each text and after each draft.
        """
        places = self.target.positions
        unread = [text[at:] for text, at in zip(self.texts, places, strict=True)]
        tokens = mx.array(unread, mx.int32)
        if drafts is not None:
            tokens = mx.concatenate([tokens, drafts], axis=1)
        logits = self.target.forward(tokens)
        late = len(unread[0]) - 1  # tokens of a prompt that were left for this forward
        return logits[:, late:] if late else logits

    def append(self, verdicts: Sequence[Verdict]) -> list[int]:
        """Write down what was decided; returns how many tokens of each text are read for good."""
        lengths = []
        for text, verdict in zip(self.texts, verdicts, strict=True):
            text += verdict.tokens
            lengths.append(len(text) - 1)
        self.judge.sampler.commit(verdicts)
        return lengths

    def select(self, places: Sequence[int]) -> None:
        """Go on with the texts at these places only."""
        self.texts[:] = [self.texts[place] for place in places]
        for part in (self.target, self.drafter, self.judge.sampler):
            part.select(places)
