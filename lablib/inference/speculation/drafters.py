"""Where proposals come from: a small model, the text itself, or the target's own first layers.

A drafter guesses the next few tokens. It may be as wrong as it likes: the target judges every guess
and the text never depends on them. What counts is how often it is right and how little it costs.

    DraftModel   a smaller model with a cache of its own (Leviathan et al. 2023, 2211.17192)
    NGram        whatever followed the last few tokens when they last occurred (prompt lookup)
    EarlyExit    the target without its last layers (Zhang et al. 2023, 2309.08168)
"""

from collections.abc import Callable, Sequence
from copy import copy as shallow_copy
from typing import Any, Protocol, runtime_checkable

from lablib.cache import kv
from lablib.cache.rewind import Rewinder, check_cache
from lablib.inference.speculation.judge import Proposal
from lablib.models.interface import vocab_size_of
from lablib.validation import BadType, BadValue, integer, token_ids

import mlx.core as mx

_CHUNK = 256  # tokens read at once when a draft model has fallen behind

Cache = list[Any]
Choose = Callable[[mx.array, Sequence[mx.array]], tuple[mx.array, mx.array | None]]


@runtime_checkable
class Drafter(Protocol):
    """What the engine asks of a drafter; positions count from the first token of the prompt.

    Attributes:
        calls: forwards of a draft model so far.
        in_target_cache: whether it reads and writes the target's cache, which must then have read
            the prompt before the first proposal.
    """

    calls: int
    in_target_cache: bool

    def begin(self, target: Any, target_cache: Cache, cache: Cache | None) -> "Drafter":
        """Return a drafter for one text, with nothing read yet.

        Args:
            target: the target model.
            target_cache: its cache; what it holds came before the prompt.
            cache: the cache to use for a draft model; None makes a new one.
        """

    def read(self, tokens: mx.array) -> None:
        """Read a chunk ``(1, T)`` of the prompt, ahead of the first proposal; nothing waits."""

    def propose(self, history: Sequence[int], n: int, choose: Choose) -> Proposal | None:
        """Guess at most ``n`` ≥ 1 tokens after ``history``; None if there is no guess."""

    def retain(self, length: int) -> None:
        """The first ``length`` tokens are right; forget whatever was read beyond them."""

    def finish(self, history: Sequence[int]) -> None:
        """Leave the cache at ``history`` without its last token."""


class DraftModel:
    """A smaller model of the same vocabulary, run token by token.

    Args:
        model: ``model(tokens (1, T), cache=...) -> logits (1, T, V)``.
    """

    calls = 0
    in_target_cache = False

    def __init__(self, model: Any) -> None:
        if not callable(model):
            hint = ": unpack it, model, tokenizer = load(...)" if isinstance(model, tuple) else ""
            raise BadType(f"draft must be a model or a drafter, got {type(model).__name__}{hint}")
        self.model = model

    def begin(self, target: Any, target_cache: Cache, cache: Cache | None) -> "DraftModel":
        """See :class:`Drafter`."""
        size, wanted = vocab_size_of(self.model), vocab_size_of(target)
        if size != wanted:
            raise BadValue(f"draft must share the target's vocabulary of {wanted}, got {size} ids")
        check_cache(self.model, cache, "draft_cache")
        if cache is None:
            cache = kv.make(self.model)
        if any(ours is theirs for ours in cache for theirs in target_cache):
            raise BadValue("draft_cache must not share layers with target_cache")
        _check_same_text(cache, target_cache)
        session = shallow_copy(self)
        session._rewinder = Rewinder(self.model, cache, "draft_cache")
        session._read = 0
        return session

    @property
    def cache(self) -> Cache:
        """The draft model's cache."""
        return self._rewinder.cache

    def read(self, tokens: mx.array) -> None:
        """See :class:`Drafter`."""
        self._forward(tokens)
        self._rewinder.settle()
        mx.async_eval([layer.state for layer in self.cache])

    def propose(self, history: Sequence[int], n: int, choose: Choose) -> Proposal | None:
        """Draw ``n`` tokens one after the other; nothing is waited for."""
        at_once = 2 if self._rewinder.room() is None else 1  # the last draft, if it was accepted
        self._catch_up(history, len(history) - at_once)
        self._rewinder.settle()
        unread = mx.array([history[self._read :]])
        tokens, logits, q = [], [], []
        for _ in range(n):
            logits.append(self._forward(unread)[:, -1])
            token, probabilities = choose(logits[-1], tokens)
            mx.async_eval(token)  # the device starts while the next step is being written down
            tokens.append(token)
            q.append(probabilities)
            unread = token[:, None]
        return Proposal(
            mx.stack(tokens, axis=1),
            None if q[0] is None else mx.stack(q, axis=1),
            mx.stack(logits, axis=1),
        )

    def retain(self, length: int) -> None:
        """See :class:`Drafter`."""
        if self._read > length:
            self._rewinder.rewind(self._read - length)
            self.calls = self._rewinder.calls
            self._read = length

    def finish(self, history: Sequence[int]) -> None:
        """See :class:`Drafter`; the last accepted draft was never read: it is now."""
        end = max(0, len(history) - 1)
        self.retain(end)
        self._catch_up(history, end)
        mx.async_eval([layer.state for layer in self.cache])

    def _catch_up(self, history: Sequence[int], end: int) -> None:
        """Read tokens of the text that were not read as drafts; a ring with sinks one by one."""
        while self._read < end:
            n = min(end - self._read, self._rewinder.room() or _CHUNK, _CHUNK)
            self._forward(mx.array([history[self._read : self._read + n]]))

    def _forward(self, tokens: mx.array) -> mx.array:
        logits = self._rewinder.forward(tokens)
        self._read += tokens.shape[1]
        self.calls = self._rewinder.calls
        return logits


def _check_same_text(cache: Cache, target_cache: Cache) -> None:
    """Refuse caches that have read different numbers of tokens, as far as they can tell."""
    held, held_by_target = kv.offset(cache), kv.offset(target_cache)
    if None in (held, held_by_target):  # a recurrent state only tells whether it has read anything
        held, held_by_target = map(_whether_it_has_read, (cache, target_cache))
    if held != held_by_target:
        raise BadValue(
            "draft_cache must have read the same tokens as target_cache, got "
            f"{held} against {held_by_target}"
        )


def _whether_it_has_read(cache: Cache) -> str:
    held = kv.offset(cache)  # keys that were all trimmed away leave their room behind
    nothing = kv.rows(cache) is None if held is None else held == 0
    return "nothing" if nothing else "some tokens"


class EarlyExit(DraftModel):
    """The target's own first layers, its last norm and its output layer.

    Its keys and values are those of the target, so it works in the target's cache and takes back
    what it read there before the target verifies: no second cache, no prompt to read.

    Args:
        n_layers: how many layers to run.
    """

    in_target_cache = True

    def __init__(self, n_layers: int) -> None:
        self.n_layers = integer("n_layers", n_layers, 1)
        self._target = None

    def begin(self, target: Any, target_cache: Cache, cache: Cache | None) -> "EarlyExit":
        """See :class:`Drafter`."""
        if cache is not None:
            raise BadValue(
                "draft_cache must be None with EarlyExit: it works in the target's cache"
            )
        layers = len(target.layers)
        if self.n_layers >= layers:
            raise BadValue(f"n_layers must be below the target's {layers}, got {self.n_layers}")
        if target is not self._target:
            model = first_layers(target, self.n_layers)
            _check_runs(model, self.n_layers)
            self._target, self.model = target, model
        session = shallow_copy(self)
        session._rewinder = Rewinder(session.model, target_cache[: self.n_layers], "target_cache")
        session._read = 0
        return session

    def read(self, tokens: mx.array) -> None:
        """The target reads the prompt into the cache they share."""

    def propose(self, history: Sequence[int], n: int, choose: Choose) -> Proposal | None:
        """See :class:`Drafter`."""
        self._read = start = len(history) - 1
        try:
            return super().propose(history, n, choose)
        finally:  # the target reads them again, and a model that raised must leave nothing behind
            self.retain(start)

    def finish(self, history: Sequence[int]) -> None:
        """The cache is the target's to finish."""


class NGram:
    """Prompt lookup: find the last tokens earlier in the text and propose what followed them there.

    Costs nothing but a dictionary and pays on text that repeats itself: edits, quotations, code.

    Args:
        longest: the longest run of last tokens to look for; longer runs are tried first.
        shortest: the shortest one.
    """

    calls = 0
    in_target_cache = False

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        self.longest = integer("longest", longest, 1)
        self.shortest = integer("shortest", shortest, 1, self.longest)

    def begin(self, target: Any, target_cache: Cache, cache: Cache | None) -> "NGram":
        """See :class:`Drafter`."""
        if cache is not None:
            raise BadValue("draft_cache must be None with NGram: it has no model")
        session = shallow_copy(self)
        session._follows, session._indexed = {}, 0
        return session

    def read(self, tokens: mx.array) -> None:
        """There is no model to read them."""

    def propose(self, history: Sequence[int], n: int, choose: Choose) -> Proposal | None:
        """See :class:`Drafter`."""
        found = self.lookup(history, n)
        return Proposal(mx.array([found], mx.int32)) if found else None

    def lookup(self, history: Sequence[int], n: int) -> list[int]:
        """The guess itself, at most ``n`` ids; empty if the last tokens are new."""
        # Where each run was last followed by something; the end of the text has no follower yet.
        for end in range(self._indexed, len(history)):
            for size in range(self.shortest, min(self.longest, end) + 1):
                self._follows[tuple(history[end - size : end])] = end
        self._indexed = len(history)
        for size in range(min(self.longest, len(history)), self.shortest - 1, -1):
            place = self._follows.get(tuple(history[-size:]))
            if place is not None:
                return list(history[place : place + n])
        return []

    def retain(self, length: int) -> None:
        """Only tokens that stay are ever indexed."""

    def finish(self, history: Sequence[int]) -> None:
        """Nothing was left behind."""


def first_layers(model: Any, n: int) -> Any:
    """The same model with its first ``n`` layers only; the weights are shared, not copied.

    Raises:
        BadValue: the layers are not where mlx-lm's models keep them, in ``model.model.layers``.
    """
    inner = getattr(model, "model", None)
    if inner is None or not isinstance(getattr(inner, "layers", None), list):
        raise BadValue(
            f"target must keep its layers in model.model.layers, a {type(model).__name__} does not"
        )
    shorter = shallow_copy(model)
    shorter.model = shallow_copy(inner)
    shorter.model.layers = inner.layers[:n]
    return shorter


def _check_runs(model: Any, n: int) -> None:
    """Refuse a model that asks for layers that are no longer there; nothing is computed."""
    try:
        model(mx.array([[0]]), cache=kv.make(model)[:n])
    except (IndexError, KeyError, AttributeError) as error:
        raise BadValue(
            f"n_layers must leave what a {type(model).__name__} asks for, got {n}: {error}"
        ) from error


def as_drafter(draft: Any, drafter: Drafter | None = None) -> Drafter:
    """The drafter that was asked for: a model as ``draft``, or a drafter in either place."""
    if draft is not None and drafter is not None:
        raise BadValue("give either draft or drafter, not both")
    chosen = draft if drafter is None else drafter
    if chosen is None:
        raise BadValue("draft must be a model, or drafter= one of NGram(), EarlyExit(n), got None")
    if isinstance(chosen, type):
        raise BadType(f"drafter must be an object, got the class {chosen.__name__} itself")
    if isinstance(chosen, Drafter):
        return chosen
    if drafter is not None:
        members = "calls, in_target_cache, begin, read, propose, retain and finish"
        raise BadType(f"drafter must have {members}, got {type(drafter).__name__}")
    return DraftModel(draft)


def check_proposal(proposal: Any, n: int, vocab_size: int) -> Proposal:
    """Refuse what a drafter may not propose: no token, more than ``n``, or ids of no token.

    Waits for the ids if they are not computed yet.
    """
    if not isinstance(proposal, Proposal):
        raise BadType(f"drafter must propose a Proposal or None, got {type(proposal).__name__}")
    tokens = proposal.tokens
    if not isinstance(tokens, mx.array):
        raise BadType(f"drafter must propose tokens as an mx.array, got {type(tokens).__name__}")
    if tokens.ndim != 2 or tokens.shape[0] != 1 or not 1 <= tokens.shape[1] <= n:
        allowed = f"(1, 1) to (1, {n})"
        raise BadValue(f"drafter must propose tokens of shape {allowed}, got {tokens.shape}")
    for name, array in (("q", proposal.q), ("logits", proposal.logits)):
        if array is not None and array.shape != (wanted := (*tokens.shape, vocab_size)):
            raise BadValue(f"drafter must propose {name} of shape {wanted}, got {array.shape}")
    token_ids("the drafter's tokens", tokens, vocab_size)
    return proposal
