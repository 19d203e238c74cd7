"""The target's own first layers as its draft model (Zhang et al. 2023, 2309.08168)."""

from collections.abc import Sequence
from copy import copy as shallow_copy
from typing import Any, Self

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.inference.speculation.drafters import Cache, DraftModel, Limits, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.text_sampler import TextSampler
from lablib.validation import BadValue, integer

import mlx.core as mx


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
