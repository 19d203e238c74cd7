"""Take tokens back, on any cache of one text (of a batch: ``rewind_batch.py``).

Speculation reads drafts into the cache before it knows which of them stay. The others must leave no
trace, and each kind of layer forgets in its own way:

    keys and values     one entry for each token: drop the last ones (*trim*).
    sliding window      a ring. When several tokens are read at once mlx-lm keeps what they push out
                        until the next read: the last ones can be dropped as well. A token read
                        alone overwrites the oldest one, and that is gone.
    recurrent state     a sum over all tokens; nothing in it can be dropped.

Where dropping fails there is always one way back: put the state from *before* the read in its place
(*snapshot*) and read again the tokens that stay (*replay*). MLX arrays are values, so a snapshot is
a reference and costs nothing to take; a replay costs a forward over the kept tokens.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from lablib.cache import kv, tree
from lablib.validation import BadValue

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, RotatingKVCache

Snapshot = list[Any]

_OFFSET = attrgetter("offset")


def snapshot(cache: Sequence[Any]) -> Snapshot:
    """Return the state of each layer: where it ends if cutting back is enough, else a copy.

    The copy shares the arrays: writing into one rebinds it in the layer and leaves the copy's.
    """
    return [_state(layer) for layer in kv.leaves(cache)]


def restore(cache: Sequence[Any], taken: Snapshot) -> None:
    """Put ``cache`` back to the moment of a snapshot of it; the snapshot can be used again."""
    for layer, state in zip(kv.leaves(cache), taken, strict=True):
        if isinstance(state, int):
            layer.trim(_state(layer) - state)
        else:
            kv.put_back([layer], kv.copy([state]))


def trims_freely(cache: Sequence[Any]) -> bool:
    """Return whether every layer drops its last entries by moving a number, always and for free."""
    return all(isinstance(layer, kv.PLAIN) and kv.known(layer) for layer in kv.leaves(cache))


def check_rewindable(cache: kv.Cache, name: str = "cache") -> None:
    """Refuse a cache that cannot be rewound; messages call it ``name``.

    Layers of a class that is not mlx-lm's are taken at their word if ``is_trimmable()`` is true.
    """
    for number, layer in enumerate(kv.leaves(cache)):
        if isinstance(layer, BatchKVCache | BatchRotatingKVCache):
            raise BadValue(f"{name} must hold one sequence, got a batch (layer {number})")
        if not (kv.known(layer) or (hasattr(layer, "offset") and layer.is_trimmable())):
            why = "which cannot be trimmed and whose state is not known here"
            kind = f"layer {number} is a {type(layer).__name__}, {why}"
            raise BadValue(f"{name} cannot be rewound: {kind}")


class Rewinder:
    """A model and its cache that can undo what it read since the last :meth:`settle`.

    The cache may have read something before, ``read`` tokens of it of this text; it is changed in
    place, and messages call it ``name``.

    Attributes:
        positions: the number of the text's tokens that were read and not taken back, in a list of
            one: batches have one for each row.
        calls: forwards of the model.
        tokens_read: the tokens that forwards were given.
    """

    def __init__(self, model: Any, cache: kv.Cache, name: str = "cache", read: int = 0) -> None:
        self.model = model
        self.cache = cache
        self.positions = [read]
        self.calls = self.tokens_read = 0
        self._name = name
        self._drops = trims_freely(cache)
        self._layers = kv.leaves(cache)
        self._broke_its_word = False  # a layer gave back less than it had promised
        self._reads: list[tuple[int, mx.array, Snapshot]] = []  # position, tokens, state before

    def forward(
        self, tokens: mx.array, stays: bool = False, parents: Sequence[int] | None = None
    ) -> mx.array:
        """Read ``tokens (1, T)`` and return their logits ``(1, T, V)``; nothing is evaluated.

        If the model raises, nothing was read.

        Tokens that ``stays`` are never taken back: without a snapshot a ring is written in place.
        (If the model raises, a ring or a recurrent state may be left half-way.) The tokens of a
        tree have ``parents``: see ``tree.branch``.
        """
        start = self.positions[0]
        while self._reads and (stays or self._reads[-1][0] >= start):
            self._reads.pop()  # it stays, or it was taken back
        before: Snapshot = []
        if self._drops:
            before = [*map(_OFFSET, self._layers)]
        elif not stays:
            before = snapshot(self.cache)
        self.calls += 1
        self.tokens_read += tokens.size
        layers = self.cache
        if parents is not None:
            layers = tree.branch(self.cache, parents, tokens.shape[1])
        try:
            logits = self.model(tokens, cache=layers)
        except BaseException:  # it may leave layers at different places
            if before:
                restore(self.cache, before)
            raise
        if not stays:
            self._reads.append((start, tokens, before))
        self.positions = [start + tokens.shape[1]]
        return logits

    def follow(self, n: int, path: Sequence[int]) -> None:
        """Put the tokens of a path first among the last ``n``, which are a tree's."""
        tree.follow(self.cache, n, path)
        if hasattr(self.model, "follow"):  # it keeps states of the tokens
            self.model.follow(n, path)

    def settle(self) -> None:
        """Let everything that was read so far stay: give up the snapshots."""
        self._reads.clear()

    def room(self) -> int | None:
        """Return how many tokens a forward may read and still be what reading them singly gives.

        None is any number. A ring that keeps attention sinks (mlx-lm's ``keep``) is exact for one
        token at a time once it is full: there, drafting stops before it wraps. A foreign layer
        that cannot be trimmed any more allows one token too.
        """
        if self._drops:
            return None
        if self._broke_its_word or not all(kv.known(x) or x.is_trimmable() for x in self._layers):
            return 1
        sinks = (x for x in self._layers if isinstance(x, RotatingKVCache) and x.keep)
        return min((max(1, layer.max_size - layer.offset) for layer in sinks), default=None)

    def can_give_back(self, after: int) -> bool:
        """Return whether the last token can be taken back after ``after`` more were read singly."""
        return self._drops or kv.trimmable(self.cache, after) > 0

    def keep(self, lengths: Sequence[int]) -> None:
        """Take back everything beyond the first ``lengths[0]`` tokens.

        Raises:
            BadValue: as ``rewind``; all that was read since ``settle`` has been taken back then.
        """
        n = self.positions[0] - lengths[0]
        if n <= 0:
            return
        try:
            self.rewind(n)
        except BadValue:
            self.rewind(self._undoable())
            raise

    def rewind(self, n: int) -> None:
        """Take back the last ``n`` tokens: as if they had never been read.

        Raises:
            BadValue: ``n`` is more than was read since ``settle`` and some layer cannot drop them;
                nothing has been changed.
        """
        end = self.positions[0] - n
        if n <= 0:
            return
        if self._drop(n):  # forget the last entries
            self.positions = [end]
            return
        most = self._undoable()
        if n > most:
            raise BadValue(f"{self._name} can be rewound by at most {most} tokens, got n={n}")
        start, tokens, before = self._reads.pop()
        while start > end:
            start, tokens, before = self._reads.pop()
        restore(self.cache, before)  # go back to a snapshot
        self.positions = [start]
        if end > start:
            self.forward(tokens[:, : end - start])  # and read again the tokens that stay

    def _undoable(self) -> int:
        """Return how many tokens were read since ``settle``."""
        return self.positions[0] - self._reads[0][0] if self._reads else 0

    def _drop(self, n: int) -> bool:
        """Drop the last ``n`` entries of every layer, or of none."""
        if self._drops and self.positions[0] >= n:  # as nearly always
            written = [layer for layer in self._layers if not layer.empty()]
            if written:  # a model may leave its cache unused
                kv.trim(written, n)
            return True
        rings = [layer for layer in self._layers if _is_full_ring(layer)]
        others = [layer for layer in self._layers if not _is_full_ring(layer)]
        if not all(ends_with(ring, n) for ring in rings):
            return False
        if others and kv.trimmable(others) < n:
            return False
        try:
            kv.trim(others, n if others else 0)
        except BadValue:
            self._broke_its_word = True
            return False
        for ring in rings:
            keys, values, offset, keep, width, end = ring.state
            keys, values = keys[..., : end - n, :], values[..., : end - n, :]
            ring.state = keys, values, offset - n, keep, width, end - n
        return True


def ends_with(ring: RotatingKVCache | BatchRotatingKVCache, n: int) -> bool:
    """Return whether the last ``n`` entries of a ring can be dropped.

    The ring must be unrolled (newest entry last, as a read of several tokens leaves it), and the
    rest must be a full window, or everything that was ever read.
    """
    if isinstance(ring, BatchRotatingKVCache):
        keys, _, _, _, width, read, end, _ = ring.state
    else:
        keys, _, read, _, width, end = ring.state
    return end == keys.shape[2] and end - n >= min(width, read - n) >= 0


def _state(layer: Any) -> Any:
    """Return where a layer ends, if moving that back is all it takes to forget; else a copy."""
    if isinstance(layer, BatchKVCache):
        return layer.size()
    return layer.offset if trims_freely([layer]) else kv.copy([layer])[0]


def _is_full_ring(layer: Any) -> bool:
    return isinstance(layer, RotatingKVCache) and kv.known(layer) and layer.offset >= layer.max_size
