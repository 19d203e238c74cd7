"""A smaller model of the same vocabulary as drafter (Leviathan et al. 2023, 2211.17192)."""

from collections.abc import Callable, Sequence
from copy import copy as shallow_copy
from functools import partial
from typing import Any, Self

from lablib.cache.rewind import Rewinder, check_rewindable
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.drafter import Drafter, Limits, Offers, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.models.interface import instead_of_model
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, flag, members

import mlx.core as mx

_CHUNK = 256  # tokens read at once when a draft model has fallen behind


@checks_options
class DraftModel(Drafter):
    """A smaller model of the same vocabulary, run token by token; messages call it ``name``.

    Its table of ids may be longer or shorter than the target's by padding (``shared_ids``): what
    only one of them has is never drafted. Tokenizers are compared where both models know theirs, as
    those from ``lablib.load`` do.

    Raises:
        ValueError, TypeError: ``model`` is none; later, another vocabulary than the target's.

    Example:
        >>> drafter = lablib.inference.DraftModel(draft)
        >>> _, stats = lablib.speculative_decode(model, drafter, prompt, max_tokens=8)
        >>> stats["draft_calls"] > 0
        True
    """

    growth: Any = None  # draws a tree, given the arguments of ``draw_in_turn``; None: a chain
    _reader: Any = None

    def __init__(self, model: Any, name: str = "draft_model") -> None:
        if not callable(model):
            raise BadType(f"{name} must be a model or a drafter, got {instead_of_model(model)}")
        self.model = model

    def begin(self, target: Any, own: Any, texts: int) -> Self:
        """Return a drafter for some texts; see :class:`Drafter`."""
        if isinstance(own, Rewinder):
            if any(ours is theirs for ours in own.cache for theirs in target.cache):
                raise BadValue("draft_cache must not share layers with cache")
            check_rewindable(own.cache, "draft_cache")
        session = shallow_copy(self)
        session._reader = own
        session.calls = own.calls
        return session

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Draw tokens one after the other; nothing is waited for."""
        reader, alone = self._reader, isinstance(self._reader, Rewinder)
        if alone:
            self._catch_up(texts[0])
        reader.settle()
        unread = [text[at:] for text, at in zip(texts, reader.positions, strict=True)]
        draw = self.growth or partial(draw_in_turn, offers=self.offers)
        proposal = draw(reader.forward, mx.array(unread), limits, sampler)
        # One text reads its last draft if it stays. Of a batch all do, if that wasn't done to ask
        # whether there is one more.
        if not alone and proposal is not None and proposal.tokens.shape[1] == max(limits):
            reader.forward(proposal.tokens[:, -1:])
        if self.trees:
            reader.keep([len(texts[0])])
        self.calls = reader.calls
        return proposal

    def keep(self, lengths: Sequence[int]) -> None:
        """Forget everything beyond the first tokens of each text."""
        self._reader.keep(lengths)
        self.calls = self._reader.calls

    def select(self, rows: Sequence[int]) -> None:
        """Go on with these texts."""
        self._reader.select(rows)

    def extend(self, other: Self) -> None:
        """Go on with the texts of another, too."""
        self._reader.extend(other._reader)
        self.calls = self._reader.calls

    def finish(self, text: Sequence[int]) -> None:
        """Leave the cache at ``text`` but its last token: the last draft, if it stayed, is read."""
        end = max(0, len(text) - 1)
        self._reader.keep([end])
        self._read_until(text, end)
        self.calls = self._reader.calls
        mx.async_eval([layer.state for layer in self._reader.cache])

    def _catch_up(self, text: Sequence[int]) -> None:
        """Read the tokens that were not read as drafts, but for the last ones.

        These are the last draft, if it was accepted, and after a tree all accepted ones.
        """
        behind = len(text) - self._reader.positions[0]
        if behind == 1:
            return
        at_once = _CHUNK if self.trees else 2
        if self._reader.room() is not None:  # a ring with sinks reads one by one
            at_once = 1
        if behind > at_once:
            self._read_until(text, len(text) - at_once)

    def _read_until(self, text: Sequence[int], end: int) -> None:
        reader = self._reader
        while reader.positions[0] < end:
            start = reader.positions[0]
            n = min(end - start, reader.room() or _CHUNK, _CHUNK)
            reader.forward(mx.array([text[start : start + n]]))


def draw_in_turn(
    forward: Callable[[mx.array], mx.array],
    unread: mx.array,
    limits: Limits,
    sampler: TextSampler,
    offers: Offers | None = None,
) -> Proposal | None:
    """Draw tokens one after the other; nothing is waited for, unless ``offers`` waits.

    ``forward(tokens (B, T)) -> logits (B, T, V)`` gets ``unread``, then each token but the last.
    ``offers(logits (B, V), drafts so far)`` is asked before each draw, see :class:`Drafter`.
    """
    counts = list(limits)
    tokens: list[mx.array] = []
    logits: list[mx.array] = []
    q: list[mx.array] = []  # none where drafts are certain
    for place in range(max(limits)):
        logits.append(forward(unread)[:, -1])
        offered = None if offers is None else offers(logits[-1], tokens)
        if offered is not None:
            _check_offered(offered, len(counts))
            counts = [n if yes else min(n, place) for n, yes in zip(counts, offered, strict=True)]
            if max(counts) <= place:
                logits.pop()
                break
        token, probabilities = sampler.draft(logits[-1], tokens)
        mx.async_eval(token)  # the device starts while the next step is being written down
        tokens.append(token)
        if probabilities is not None:
            q.append(probabilities)
        unread = token[:, None]
    if not tokens:
        return None
    return Proposal(
        mx.stack(tokens, axis=1),
        mx.stack(q, axis=1) if q else None,
        mx.stack(logits, axis=1),
        counts,
        drawn=True,
        blind=True,
    )


def _check_offered(offered: Any, texts: int) -> None:
    if isinstance(offered, str) or not hasattr(offered, "__len__") or len(offered) != texts:
        raise BadValue(f"offers must return {texts} bools, one a text, or None, got {offered!r}")
    for each in offered:
        flag("offers", each)


def as_drafter(draft: Any, name: str = "draft_model") -> Drafter:
    """Return the drafter that was asked for by a model or a drafter; its argument is ``name``."""
    if draft is None:
        raise BadValue(f"{name} must be a model, or a drafter such as NGram(), got None")
    if isinstance(draft, type) or hasattr(draft, "propose"):
        members(name, draft, Drafter)
        return draft
    return DraftModel(draft, name)
