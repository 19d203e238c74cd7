"""A draft head at work: it drafts from the hidden states that the target leaves behind.

The target computes a hidden state for every token it reads, and turns it into logits. The head
needs the states too, so the engine runs the target through ``Watched``, which keeps them. The head
then costs one block a draft, and never reads the prompt through a model of its own.
"""

from collections.abc import Sequence
from copy import copy as shallow_copy
from functools import partial
from typing import Any, Self

from lablib.cache import kv, tree
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation import draft_model
from lablib.inference.speculation.drafter import Drafter, Limits, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.models.base import LanguageModel
from lablib.models.head import DraftHead
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue

import mlx.core as mx


class Watched:
    """A model that keeps the hidden states of the tokens it reads, from place ``first`` on.

    A place that is read again, because something was taken back in between, has its new state.
    What its cache holds at the first of them came before that place.
    """

    def __init__(self, model: LanguageModel, first: int = 0) -> None:
        self._model = model
        self._base: int | None = None  # tokens in the cache before place 0
        self._states = mx.zeros((1, 0, 0))  # (1, n, hidden), of the places from _first on
        self._first = first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, tokens: mx.array, cache: kv.Cache) -> mx.array:
        """Return the model's logits."""
        if self._base is None:
            self._base = kv.length(cache) - self._first
        start = kv.length(cache) - self._base
        states = new = self._model.hidden(tokens, cache)
        if self._states.size and start > self._first:
            states = mx.concatenate([self._states[:, : start - self._first], new], axis=1)
        else:
            self._first = start
        self._states = states
        return self._model.output(new)

    def take(self, start: int, stop: int) -> mx.array:
        """Return the states ``(1, stop - start, hidden)`` of these places, and forget them."""
        taken = self._states[:, start - self._first : stop - self._first]
        self._states, self._first = self._states[:, stop - self._first :], stop
        return taken

    def follow(self, n: int, path: Sequence[int]) -> None:
        """Of the last ``n`` states put those of a path first, and forget the others."""
        first = self._states.shape[1] - n
        index = mx.array([*range(first), *(first + node for node in path)])
        self._states = self._states[:, index]


@checks_options
class Head(Drafter):
    """A trained head of the target, such as ``Head(load_head("target-head", target))``.

    A batch of texts is drafted for one by one.

    Raises:
        TypeError: it is no head, as ``load_head`` returns one.

    Example:
        >>> head = lablib.Head(lablib.load_head("target-head", model))
        >>> lablib.generate(model, tokenizer, "Mia", draft_model=head, max_tokens=4).finish_reason
        'length'
    """

    in_target_cache = True  # the target reads the prompt first
    batches = False
    called = "head"
    growth: Any = None  # as a DraftModel's
    head: Any  # a DraftHead; of a subclass what reads the target's states as one
    _cache: kv.Cache
    _read: int  # tokens of the text that the head has read, or that it begins after
    _start: int
    _watched: Watched

    def __init__(self, head: DraftHead) -> None:
        if not isinstance(head, DraftHead):
            raise BadType(f"head must be a DraftHead, as load_head returns it, got {head!r}")
        self.head = head

    def begin(self, target: Any, own: Any, texts: int) -> Self:
        """Return a drafter for one text that watches the target; see :class:`Drafter`."""
        if target.model is not self.head.target:
            raise BadValue(f"target must be the model that the {self.called} was loaded for")
        if kv.offset(target.cache) is None:
            raise BadValue("cache must count its tokens, and a recurrent one alone does not")
        session = shallow_copy(self)
        session.calls = 0
        session._cache = self.head.make_cache()
        session._read = session._start = target.positions[0]
        session._watched = Watched(target.model, session._read)
        target.model = session._watched
        return session

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Draw tokens one after the other; nothing is waited for."""
        pairs = self.unread(texts[0])
        if pairs is None:
            return None  # the target has read nothing yet
        states, unread = pairs

        def forward(tokens: mx.array, parents: list[int] | None = None) -> mx.array:
            nonlocal states  # guessed from the last ones, and from the tokens after them
            self.calls += 1
            if parents is None:
                states = self.head(states, tokens, self._cache)[:, -1:]
                return self.head.logits(states.flatten(0, 1))[:, None]
            new = tokens.shape[1]
            before = states[:, mx.array(parents[-new:]) - unread.shape[1] + 1]
            layers = tree.branch(self._cache, parents, new)
            guessed = self.head(before, tokens, layers)
            states = mx.concatenate([states, guessed], axis=1)  # the text's last, then all nodes'
            return self.head.logits(guessed[0])[None]

        draw = self.growth or partial(draft_model.draw_in_turn, offers=self.offers)
        proposal = draw(forward, unread, limits, sampler)
        # Guessed states: the target's own will follow.
        kv.trim(self._cache, kv.length(self._cache) - self._read + self._start)
        return proposal

    def unread(self, text: Sequence[int]) -> tuple[mx.array, mx.array] | None:
        """Return the target's states that are new ``(1, n, hidden)``, and the tokens after them."""
        target_read = len(text) - 1
        if target_read == self._read:
            return None
        states = self._watched.take(self._read, target_read)
        tokens = mx.array([text[self._read + 1 :]])
        self._read = target_read
        return states, tokens
