"""Take tokens back, on any cache.

Speculation reads drafts into the cache before it knows which of them stay. What does not stay must
leave no trace, and each kind of layer forgets in its own way:

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
from typing import Any

from lablib.cache import kv
from lablib.validation import BadValue

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, RotatingKVCache

Snapshot = list[Any]


def snapshot(cache: Sequence[Any]) -> Snapshot:
    """Return what ``restore`` needs: an offset where moving it back is enough, or a layer's copy.

    The copy shares the arrays: writing into one rebinds it in the layer and leaves the copy's.
    """
    return kv.copy([x.offset if drops([x]) else x for x in kv.leaves(cache)])


def restore(cache: Sequence[Any], taken: Snapshot) -> None:
    """Put ``cache`` back to the moment of a snapshot of it; the snapshot can be used again."""
    for layer, state in zip(kv.leaves(cache), kv.copy(taken), strict=True):
        if isinstance(state, int):
            layer.trim(layer.offset - state)
        else:
            kv.put_back([layer], [state])


def read(model: Any, tokens: mx.array, cache: kv.Cache, before: Snapshot | None) -> mx.array:
    """Return ``model(tokens, cache=cache)``; if that fails, put all layers back to ``before``.

    A failure inside a forward leaves layers at different places; with ``before=None`` they stay so.
    """
    try:
        return model(tokens, cache=cache)
    except BaseException:
        if before is not None:
            restore(cache, before)
        raise


def drops(cache: Sequence[Any]) -> bool:
    """Return whether every layer drops its last entries by moving a number, always and for free."""
    return all(isinstance(layer, kv.PLAIN) and kv.known(layer) for layer in kv.leaves(cache))


class Rewinder:
    """A model with its cache, and the way back over what was read since ``settle``.

    ``cache``, which may have read something, is changed in place; messages call it ``name``.

    Raises:
        BadValue: a layer cannot be rewound. Layers of a class that is not mlx-lm's are taken at
            their word if ``is_trimmable()`` is true, and refused otherwise; they are asked before
            each round, and from when they no longer are, ``room()`` is 1: plain decoding.
    """

    def __init__(self, model: Any, cache: kv.Cache, name: str = "cache") -> None:
        self.model, self.cache, self._name = model, cache, name
        self._layers = list(kv.leaves(cache))
        for number, layer in enumerate(self._layers):
            if isinstance(layer, BatchKVCache | BatchRotatingKVCache):
                raise BadValue(f"{name} must hold one sequence, got a batch (layer {number})")
            if not (kv.known(layer) or (hasattr(layer, "offset") and layer.is_trimmable())):
                why = "which cannot be trimmed and whose state is not known here"
                kind = f"layer {number} is a {type(layer).__name__}, {why}"
                raise BadValue(f"{name} cannot be rewound: {kind}")
        self._reads: list[tuple[mx.array, Snapshot]] = []  # tokens (1, T), and the state before
        self.plain = drops(cache)  # stepping back is always possible and free
        self._refused = False  # whether a layer gave back less than it had promised
        self.positions = [0]  # tokens read and not taken back, since this object was made
        self.calls = self.replays = 0  # all forwards, and those that read tokens again
        self.tokens_read = 0  # tokens given to all forwards

    def forward(self, tokens: mx.array, lasting: bool = False) -> mx.array:
        """Read ``tokens (1, T)`` and return their logits ``(1, T, V)``; nothing is evaluated.

        ``lasting`` tokens are known to stay: no snapshot is taken, so a ring can be written in
        place. If the model raises, nothing was read (but for a ring or a state that tokens were to
        last in: that may be left half-way).
        """
        if lasting:
            self.settle()
        before = None
        if self.plain:
            before = [layer.offset for layer in self._layers]
        elif not lasting:
            before = snapshot(self.cache)
        self.calls, self.tokens_read = self.calls + 1, self.tokens_read + tokens.shape[1]
        logits = read(self.model, tokens, self.cache, before)
        if not (lasting or self.plain):
            self._reads.append((tokens, before))
        self.positions[0] += tokens.shape[1]
        return logits

    def settle(self) -> None:
        """Let what was read so far stay: give up the snapshots."""
        self._reads.clear()

    def room(self) -> int | None:
        """Return how many tokens a forward may read and still be what reading them singly gives.

        None is any number. A ring that keeps attention sinks (mlx-lm's ``keep``) is exact for one
        token at a time once it is full: there, drafting stops before it wraps.
        """
        if self.plain:
            return None
        if self._refused or not all(kv.known(x) or x.is_trimmable() for x in self._layers):
            return 1
        sinks = (x for x in self._layers if isinstance(x, RotatingKVCache) and x.keep)
        return min((max(1, layer.max_size - layer.offset) for layer in sinks), default=None)

    def keep(self, lengths: Sequence[int]) -> None:
        """Take back what was read beyond the first ``lengths[0]`` tokens.

        Raises:
            BadValue: as ``rewind``; all that was read since ``settle`` has been taken back then.
        """
        if (n := self.positions[0] - lengths[0]) <= 0:  # as in most rounds
            return
        try:
            self.rewind(n)
        except BadValue:
            self.rewind(self._held())
            raise

    def rewind(self, n: int) -> None:
        """Take back the last ``n`` tokens: the cache is as if they had never been read.

        Raises:
            BadValue: ``n`` is more than was read since ``settle`` and some layer cannot drop them;
                nothing has been changed.
        """
        if n <= 0:
            return
        if self.plain and n <= self.positions[0]:
            self.positions[0] -= n
            for layer in self._layers:
                layer.trim(n)
            return
        dropped = self._drop(n)
        if not dropped and n > (held := self._held()):
            raise BadValue(f"{self._name} can be rewound by at most {held} tokens, got n={n}")
        self.positions[0] -= n
        left = n
        while left > 0 and self._reads:
            tokens, before = self._reads.pop()
            left -= tokens.shape[1]
        if left < 0:  # this many tokens of that read stay
            tokens = tokens[:, :-left]
            self._reads.append((tokens, before))
        if dropped:
            return
        restore(self.cache, before)
        if left < 0:
            self.replays, self.calls = self.replays + 1, self.calls + 1
            self.tokens_read += tokens.shape[1]
            self.model(tokens, cache=self.cache)

    def _held(self) -> int:
        return sum(tokens.shape[1] for tokens, _ in self._reads)

    def _drop(self, n: int) -> bool:
        """Drop the last ``n`` entries of every layer, or of none."""
        rings = [x for x in self._layers if _is_full_ring(x)]
        others = [x for x in self._layers if not _is_full_ring(x)]
        if not all(_ends_with(ring, n) for ring in rings) or (others and kv.trimmable(others) < n):
            return False
        try:
            kv.trim(others, n if others else 0)
        except BadValue:
            self._refused = True
            return False
        for ring in rings:
            keys, values, offset, keep, width, end = ring.state
            keys, values = keys[..., : end - n, :], values[..., : end - n, :]
            ring.state = keys, values, offset - n, keep, width, end - n
        return True


def _is_full_ring(layer: Any) -> bool:
    ring = isinstance(layer, RotatingKVCache) and kv.known(layer)
    return ring and layer.offset >= layer.max_size


def _ends_with(ring: RotatingKVCache, n: int) -> bool:
    """Return whether a full ring's last ``n`` entries can be dropped."""
    # It must be unrolled (newest entry last, as a read of several tokens leaves it), and what
    # remains must be a full window, or all that was ever read.
    keys, _, offset, _, width, end = ring.state
    return end == keys.shape[2] and end - n >= min(width, offset - n) >= 0
