"""A block of drafts at work: the places of a round come out of one forward.

As a head does (``trained_head.py``), it drafts from the hidden states that the target leaves
behind. But a head runs once for each draft; a block runs once a round, and what is left for each
draft is a row of a table: what the token before it makes likelier (``models/draft_block.py``).

How many are offered is decided by each place's confidence, which is asked before its token is
drawn: it knows the text, the drafts before and q, and so nothing is biased (``drafter.py``).
"""

from dataclasses import replace
from functools import partial

from lablib.cache import kv
from lablib.definitions import FastPath
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import draft_model
from lablib.inference.speculation.drafter import Limits, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.speculation.trained_head import Head
from lablib.models.draft_block import DraftBlock
from lablib.unknown_options import checks_options
from lablib.validation import BadType, number

import mlx.core as mx

_TABLE = 2**20  # entries of the coupling that are computed once; of larger ones a row at a time
_KEPT = FastPath("coupling's table")


@checks_options
class Block(Head):
    """A trained block of the target, such as ``Block(load_block("target-block", target))``.

    A round has at most as many drafts as the block has places (``block.size``). A place is offered
    while the chance that its draft and all before it stay, as the block sees it, is at least
    ``least``; the first one always is, and with 0 all are, which nobody waits for. A batch of texts
    is drafted for one by one. ``Tree(Block(...))`` drafts a tree, of at most ``block.size`` levels.

    Raises:
        TypeError: it is no block, as ``load_block`` returns one.
        ValueError: ``least`` is not between 0 and 1.

    Example:
        >>> block = lablib.Block(lablib.load_block("target-block", model))
        >>> lablib.generate(model, tokenizer, "Mia", draft_model=block, max_tokens=4).finish_reason
        'length'
    """

    called = "block"

    def __init__(self, block: DraftBlock, least: float = 0.2) -> None:
        if not isinstance(block, DraftBlock):
            raise BadType(f"block must be a DraftBlock, as load_block returns it, got {block!r}")
        self.head = block
        self.least = number("least", least, 0.0, 1.0)
        self.depth = block.size
        table: mx.array | None = None
        if block.target.vocab_size * len(block.ids) <= _TABLE:
            table = block.coupling(mx.arange(block.target.vocab_size))
        self._table = table

    @property
    def block(self) -> DraftBlock:
        """Return the block."""
        return self.head

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Guess all places in one forward, draw them one after the other, offer the first ones."""
        pairs = self.unread(texts[0])
        if pairs is None:
            return None  # the target has read nothing yet
        block, (states, unread) = self.head, pairs
        places = block.size if self.growth else min(limits[0], block.size)
        self.calls += 1
        guessed = block(states, unread, self._cache, places)
        kv.trim(self._cache, places - 1)  # the marks: the target's own states will follow
        alone = block.scores(guessed)
        drawn_from: list[mx.array] = []

        def forward(tokens: mx.array, parents: list[int] | None = None) -> mx.array:
            scores = alone[:, len(drawn_from)][:, None]
            if drawn_from:  # the token before has been drawn; nodes of a level share their place
                scores = scores + self._coupling(tokens)
            drawn_from.append(scores)
            return block.spread(scores)

        draw = self.growth or partial(draft_model.draw_in_turn, offers=self.offers)
        proposal = draw(forward, unread, limits if self.growth else [places], sampler)
        if self.growth or proposal is None or not self.least:
            return proposal
        n = proposal.tokens.shape[1]
        return self._offered(proposal, guessed[:, :n], mx.concatenate(drawn_from[:n], axis=1))

    def _coupling(self, tokens: mx.array) -> mx.array:
        if self._table is None or not _KEPT.is_open():
            return self.head.coupling(tokens)
        return self._table[tokens]

    def _offered(self, proposal: Proposal, states: mx.array, scores: mx.array) -> Proposal:
        """Return the places before the first whose chance to be reached and kept is too small.

        Each chance hangs on what was drawn before its place, none on what was drawn there.
        """
        chances = mx.cumprod(self.head.confidence(states, scores)[0])
        n = max(1, int(mx.sum(chances >= self.least)))  # the host waits
        first = {name: getattr(proposal, name) for name in ("tokens", "q", "logits")}
        some = {name: rows[:, :n] for name, rows in first.items() if rows is not None}
        counts = None if proposal.counts is None else [min(n, each) for each in proposal.counts]
        return replace(proposal, **some, counts=counts)
