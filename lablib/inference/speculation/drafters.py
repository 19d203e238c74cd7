"""What the engine asks of a drafter, and the drafter that runs a smaller model.

A drafter guesses the next few tokens. It may be as wrong as it likes: the target judges every guess
and the text never depends on them. What counts is how often it is right and how little it costs.
``DraftModel`` runs a small model (Leviathan et al. 2023, 2211.17192); more stand beside it.

To add one, subclass ``Drafter`` and write ``propose``. This one guesses that the last token comes
again, and again:

    class Parrot(Drafter):  # from lablib.inference import Drafter, Proposal
        def propose(self, texts, limits, sampler):
            return Proposal.of([[text[-1]] * n for text, n in zip(texts, limits)])

Give it where a draft model would stand: ``SpeculativeTokenIterator(target, Parrot(), prompt)``.
It remembers nothing, and so it is complete. What a drafter remembers of its texts is made in
``begin_batch`` (not in ``__init__``: texts would share it), one thing for each text, and thinned
out in ``select``: see ``NGram``. A mistake there raises nothing, but at temperature 0 the ``stats``
of a batch are then not the sum of its texts' own. One for the library gets a file in
``lablib/inference/speculation``, its name a place beside each ``NGram`` in the lists of exports.
"""

from collections.abc import Callable, Sequence
from copy import copy as shallow_copy
from typing import Any, Self

from lablib.cache import kv, tree
from lablib.cache.rewind import Rewinder
from lablib.inference.arguments import check_cache
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.text_sampler import TextSampler
from lablib.models.interface import vocab_size_of
from lablib.validation import BadType, BadValue, members

import mlx.core as mx

_CHUNK = 256  # tokens read at once when a draft model has fallen behind

Cache = list[Any]
Texts, Limits = Sequence[Sequence[int]], Sequence[int]


class Drafter:
    """What the engine asks of a drafter; ``propose`` is the only call that must be written."""

    calls: int = 0  # forwards of a draft model so far
    model: Any = None  # the draft model, which reads the prompts too; None without one
    cache: Cache | None = None  # that of the draft model
    in_target_cache = False  # whether it works in the target's cache; that reads the prompt first
    batches = True  # whether it can draft for several texts at once
    trees = False  # whether what it proposes may have ``parents``

    def begin(self, target: Any, target_cache: Cache, cache: Cache | None) -> Self:
        """Return a drafter for one text, with nothing read yet.

        What ``target_cache`` holds came before the prompt; ``cache`` is that of a draft model.
        Refuse here what does not fit ``target``: a batch calls it for that, then ``begin_batch``.
        """
        if cache is not None:
            raise BadValue(f"draft_cache must be None with {type(self).__name__}: it has no model")
        if self.trees:
            tree.check("target", target, target_cache)
        return self.begin_batch(None, 1)

    def begin_batch(self, reader: Any, texts: int) -> Self:
        """Return a drafter for several texts; ``reader`` is a batch of ``model``, if it has one."""
        return shallow_copy(self)

    def watch(self, target: Any) -> Any:
        """Return what the engine runs as ``target``: itself, or one that keeps what this needs."""
        return target

    def read(self, tokens: mx.array) -> None:
        """Read a chunk ``(1, T)`` of the prompt, ahead of the first proposal; nothing waits."""

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Guess how each text goes on: at most ``limits[row]`` tokens; None if there is no guess.

        Guesses may differ in length, and some be empty: ``Proposal.of`` pads them, and padding is
        never judged. Leave ``texts``, prompt and completion of each, as they are.
        ``sampler.draft(logits, drafts so far)`` draws one from logits, ``draw_in_turn`` all.
        """
        raise NotImplementedError(f"{type(self).__name__} must have a method propose")

    def keep(self, lengths: Sequence[int]) -> None:
        """Forget what was read beyond the first ``lengths[row]`` tokens of each text."""

    def select(self, places: Sequence[int]) -> None:
        """Go on with the texts at these places of the batch only."""

    def finish(self, text: Sequence[int]) -> None:
        """Leave the cache of the only text at ``text`` without its last token."""


class DraftModel(Drafter):
    """A smaller model of the same vocabulary, run token by token; messages call it ``name``."""

    growth: Any = None  # what draws a tree, from what ``draw_in_turn`` takes; None: a chain
    _reader: Any = None  # a Rewinder
    _in_batch = False

    def __init__(self, model: Any, name: str = "draft") -> None:
        if not callable(model):
            hint = ": unpack it, model, tokenizer = load(...)" if isinstance(model, tuple) else ""
            raise BadType(f"{name} must be a model or a drafter, got {type(model).__name__}{hint}")
        self.model, self._name = model, name

    def begin(self, target: Any, target_cache: Cache, cache: Cache | None) -> Self:
        """Return a drafter for one text; see :class:`Drafter`."""
        size, wanted = vocab_size_of(self.model, self._name), vocab_size_of(target)
        if size != wanted:
            shared = f"the target's vocabulary of {wanted}"
            raise BadValue(f"{self._name} must share {shared}, got {size} ids")
        check_cache(self.model, cache, "draft_cache")
        cache = kv.make(self.model) if cache is None else cache
        if any(ours is theirs for ours in cache for theirs in target_cache):
            raise BadValue("draft_cache must not share layers with cache")
        _check_same_text(cache, target_cache)
        session = shallow_copy(self)
        session._reader = Rewinder(self.model, cache, "draft_cache")
        return session

    def begin_batch(self, reader: Any, texts: int) -> Self:
        """Return a drafter for several texts; see :class:`Drafter`."""
        session = shallow_copy(self)
        session._reader, session._in_batch = reader, True
        return session

    @property
    def cache(self) -> Cache | None:
        """The draft model's cache; None before a text has begun."""
        return self._reader and self._reader.cache

    @property
    def calls(self) -> int:
        """Forwards of the draft model so far."""
        return self._reader.calls if self._reader else 0

    def read(self, tokens: mx.array) -> None:
        """Read a chunk of the prompt."""
        self._reader.forward(tokens)
        self._reader.settle()
        mx.async_eval([layer.state for layer in self.cache])

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Draw tokens one after the other; nothing is waited for."""
        reader, behind = self._reader, len(texts[0]) - self._reader.positions[0]
        if not self._in_batch and behind > 1:
            # The last draft, if it was accepted; after a tree all that was.
            at_once = (_CHUNK if self.trees else 2) if reader.room() is None else 1
            if behind > at_once:
                self._catch_up(texts[0], len(texts[0]) - at_once)
        reader.settle()
        places = reader.positions
        unread = mx.array([text[at:] for text, at in zip(texts, places, strict=True)])
        proposal = (self.growth or draw_in_turn)(reader.forward, unread, limits, sampler)
        if self._in_batch:  # one text reads its last draft if it stays; of a batch all do
            reader.forward(proposal.tokens[:, -1:])
        if self.trees:
            reader.keep([len(texts[0])])
        return proposal

    def keep(self, lengths: Sequence[int]) -> None:
        """Forget what was read beyond the first tokens of each text."""
        self._reader.keep(lengths)

    def select(self, places: Sequence[int]) -> None:
        """Go on with the texts at these places."""
        self._reader.select(places)

    def finish(self, text: Sequence[int]) -> None:
        """Leave the cache at ``text`` but its last token: the last draft, if it stayed, is read."""
        end = max(0, len(text) - 1)
        self._reader.keep([end])
        self._catch_up(text, end)
        mx.async_eval([layer.state for layer in self._reader.cache])

    def _catch_up(self, text: Sequence[int], end: int) -> None:
        """Read tokens of the text that were not read as drafts; a ring with sinks one by one."""
        reader = self._reader
        while (at := reader.positions[0]) < end:
            n = min(end - at, reader.room() or _CHUNK, _CHUNK)
            reader.forward(mx.array([text[at : at + n]]))


def draw_in_turn(
    forward: Callable[[mx.array], mx.array], unread: mx.array, limits: Limits, sampler: TextSampler
) -> Proposal:
    """Draw tokens one after the other; nothing is waited for.

    ``forward(tokens (B, T)) -> logits (B, T, V)`` gets ``unread``, then each token but the last.
    """
    tokens, logits, q = [], [], []
    for _ in range(max(limits)):
        logits.append(forward(unread)[:, -1])
        token, probabilities = sampler.draft(logits[-1], tokens)
        mx.async_eval(token)  # the device starts while the next step is being written down
        tokens.append(token)
        q.append(probabilities)
        unread = token[:, None]
    q = None if q[0] is None else mx.stack(q, axis=1)
    tokens, logits = mx.stack(tokens, axis=1), mx.stack(logits, axis=1)
    return Proposal(tokens, q, logits, limits, drawn=True)


def _check_same_text(cache: Cache, target_cache: Cache) -> None:
    """Refuse caches that have read different numbers of tokens, as far as they can tell."""
    held = [kv.offset(each) for each in (cache, target_cache)]
    if None in held:  # a recurrent state only tells whether it has read anything
        rows = kv.rows(cache), kv.rows(target_cache)
        read = [n if at is None else at for at, n in zip(held, rows, strict=True)]
        held = ["some tokens" if each else "nothing" for each in read]
    if held[0] != held[1]:
        got = f"got {held[0]} against {held[1]}"
        raise BadValue(f"draft_cache must have read the same tokens as cache, {got}")


def as_drafter(draft: Any, drafter: Drafter | None = None, name: str = "draft") -> Drafter:
    """Return the drafter that was asked for: a model as ``draft``, or a drafter in either place.

    The caller calls ``draft`` by the ``name``.
    """
    if draft is not None and drafter is not None:
        raise BadValue("give either draft or drafter, not both")
    chosen = draft if drafter is None else drafter
    if chosen is None:
        raise BadValue(f"{name} must be a model, or drafter= a drafter such as NGram(), got None")
    if drafter is None and not isinstance(draft, type) and not hasattr(draft, "propose"):
        return DraftModel(draft, name)
    members("drafter" if draft is None else name, chosen, Drafter)
    return chosen
