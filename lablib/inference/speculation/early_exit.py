"""The target's own first layers as its draft model (Zhang et al. 2023, 2309.08168)."""

from collections.abc import Sequence
from copy import copy as shallow_copy
from typing import Any, Self

from lablib.cache import kv
from lablib.cache.rewind import Rewinder, check_rewindable
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.draft_model import DraftModel
from lablib.inference.speculation.drafter import Limits, Texts
from lablib.inference.speculation.proposal import Proposal
from lablib.unknown_options import checks_options
from lablib.validation import BadValue, integer

import mlx.core as mx


@checks_options
class EarlyExit(DraftModel):
    """The target's own first layers, its last norm and its output layer.

    Its keys and values are those of the target, so it works in the target's cache and takes back
    everything that it read there before the target verifies: no second cache, no prompt to read. A
    batch of texts is drafted for one by one, with ``n_layers`` layers.

    Raises:
        ValueError, TypeError: ``n_layers`` is below 1; later, not below the target's.

    Example:
        >>> _, stats = lablib.speculative_decode(model, lablib.EarlyExit(2), prompt, max_tokens=8)
        >>> stats["total_drafted"] > 0
        True
    """

    in_target_cache = True
    batches = False

    def __init__(self, n_layers: int) -> None:
        self.n_layers = integer("n_layers", n_layers, 1)
        self.model = None
        self._target = None

    def begin(self, target: Any, own: Any, texts: int) -> Self:
        """Return a drafter for one text; see :class:`Drafter`."""
        layers = len(target.model.layers)
        if self.n_layers >= layers:
            raise BadValue(f"n_layers must be below the target's {layers}, got {self.n_layers}")
        if target.model is not self._target:
            self.model = self._shorten(target.model)
            self._target = target.model
        caches = target.cache[: len(kv.make(self.model))]
        check_rewindable(caches)
        session = shallow_copy(self)
        session._reader = Rewinder(self.model, caches)
        return session

    def _shorten(self, target: Any) -> Any:
        """Return the first layers of a model, if they work without the others."""
        model = first_layers(target, self.n_layers)
        try:  # nothing is computed
            model(mx.array([[0]]), cache=kv.make(model))
        except Exception as error:  # it needs layers that are gone, in whatever way that shows
            needs = f"what a {type(model).__name__} asks for"
            raise BadValue(f"n_layers must leave {needs}, got {self.n_layers}: {error}") from error
        return model

    def propose(self, texts: Texts, limits: Limits, sampler: TextSampler) -> Proposal | None:
        """Draw tokens one after the other, and take back everything that was read for it."""
        start = len(texts[0]) - 1
        self._reader.positions = [start]
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
    inner: Any = getattr(model, "model", None)
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
