"""Where proposals come from: a small model, the text itself, or the target's own first layers.

A drafter guesses the next few tokens. It may be as wrong as it likes: the target judges every guess
and the text never depends on them. What counts is how often it is right and how little it costs.

    DraftModel   a smaller model with a cache of its own (Leviathan et al. 2023, 2211.17192)
    NGram        whatever followed the last few tokens when they last occurred (prompt lookup)
    EarlyExit    the target without its last layers (Zhang et al. 2023, 2309.08168)
    Head         a trained block on the target's hidden states; see ``head.py``
    Tree         any of these that has a model, with several guesses at a place; see ``tree.py``

To add one, subclass ``Drafter`` and write ``propose``. This one guesses that the last token comes
again, and again:

    class Parrot(Drafter):  # from lablib.inference import Drafter, Proposal
        def propose(self, texts, limits, sampler):
            return Proposal.of([[text[-1]] * n for text, n in zip(texts, limits)])

It is given as ``drafter=Parrot()``. What a drafter remembers of its texts is made in
``begin_batch``, one thing for each text, and thinned out in ``select``: see ``NGram``. One of the
library's own also gets its name in the two ``__init__.py`` that list ``NGram``.
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
from lablib.validation import BadType, BadValue, integer, members

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
        size, wanted = vocab_size_of(self.model), vocab_size_of(target)
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


class EarlyExit(DraftModel):
    """The target's own first layers, its last norm and its output layer.

    Its keys and values are those of the target, so it works in the target's cache and takes back
    what it read there before the target verifies: no second cache, no prompt to read. A batch of
    texts is drafted for one by one, with ``n_layers`` layers.
    """

    in_target_cache = True
    batches = False

    def __init__(self, n_layers: int) -> None:
        self.n_layers = integer("n_layers", n_layers, 1)
        self._target = None

    def begin(self, target: Any, target_cache: Cache, cache: Cache | None) -> Self:
        """Return a drafter for one text; see :class:`Drafter`."""
        if cache is not None:
            why = "it works in the target's cache"
            raise BadValue(f"draft_cache must be None with EarlyExit: {why}")
        n, layers = self.n_layers, len(target.layers)
        if n >= layers:
            raise BadValue(f"n_layers must be below the target's {layers}, got {n}")
        if target is not self._target:
            model = first_layers(target, n)
            try:  # nothing is computed
                model(mx.array([[0]]), cache=kv.make(model))
            except Exception as error:  # it needs layers that are gone, in whatever way that shows
                what = f"what a {type(model).__name__} asks for"
                raise BadValue(f"n_layers must leave {what}, got {n}: {error}") from error
            self._target, self.model = target, model
        session = shallow_copy(self)
        caches = target_cache[: len(kv.make(session.model))]
        session._reader = Rewinder(session.model, caches, "cache")
        return session

    def read(self, tokens: mx.array) -> None:
        """Leave the prompt to the target, which reads it into the cache they share."""

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Draw tokens one after the other, and take back what was read for it."""
        self._reader.positions[0] = start = len(texts[0]) - 1
        try:
            return super().propose(texts, limits, sampler)
        finally:  # the target reads them again, and a model that raised must leave nothing behind
            self.keep([start])

    def finish(self, text: Sequence[int]) -> None:
        """Leave the cache to the target, which owns it."""


class NGram(Drafter):
    """Prompt lookup: find the last tokens earlier in the text and propose what followed them there.

    Costs nothing but a dictionary and pays on text that repeats itself: edits, quotations, code.
    Runs of ``longest`` last tokens are tried first, of ``shortest`` last.
    """

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        self.longest = integer("longest", longest, 1)
        self.shortest = integer("shortest", shortest, 1, self.longest)

    def begin_batch(self, reader: Any, texts: int) -> Self:
        """Return a drafter for several texts; see :class:`Drafter`."""
        session = shallow_copy(self)
        # Of each text: what followed each run of tokens, and how much of the text that covers.
        session._indexes = [({}, 0) for _ in range(texts)]
        return session

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Look up each text's last tokens in it."""
        asked = enumerate(zip(texts, limits, strict=True))
        return Proposal.of([self.lookup(text, n, row) for row, (text, n) in asked])

    def lookup(self, text: Sequence[int], n: int, row: int = 0) -> list[int]:
        """Return the guess itself, at most ``n`` ids; empty if the last tokens are new."""
        follows, indexed = self._indexes[row]
        # Where each run was last followed by something; the end of the text has no follower yet.
        for end in range(indexed, len(text)):
            for size in range(self.shortest, min(self.longest, end) + 1):
                follows[tuple(text[end - size : end])] = end
        self._indexes[row] = follows, len(text)
        for size in range(min(self.longest, len(text)), self.shortest - 1, -1):
            place = follows.get(tuple(text[-size:]))
            if place is not None:
                return list(text[place : place + n])
        return []

    def select(self, places: Sequence[int]) -> None:
        """Go on with the texts at these places."""
        self._indexes = [self._indexes[place] for place in places]


def first_layers(model: Any, n: int) -> Any:
    """Return a model's first ``n`` layers as a model; the weights are shared, not copied.

    Raises:
        BadValue: the layers are not where mlx-lm's models keep them, in ``model.model.layers``.
    """
    inner = getattr(model, "model", None)
    computed = isinstance(getattr(type(model), "model", None), property)
    if computed or not isinstance(getattr(inner, "layers", None), list):
        kind = type(model).__name__
        raise BadValue(f"target must keep its layers in model.model.layers, a {kind} does not")
    shorter = shallow_copy(model)
    shorter.model = shallow_copy(inner)
    shorter.model.layers = inner.layers[:n]
    caches = kv.make(shorter)[:n]  # some models make those of all layers, and some layers have none
    shorter.make_cache = lambda: kv.copy(caches)
    return shorter


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
