"""Take tokens back, on any cache: of one text, or of a batch from each row another number.

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

In a batch mlx-lm keeps the rows flush right: a row that loses tokens at its end is moved right by
as many places, and what it leaves behind on the left is padding.
"""

from collections.abc import Sequence
from operator import sub
from typing import Any

from lablib.cache import kv, tree
from lablib.models.interface import agree, find_out
from lablib.validation import BadValue

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, RotatingKVCache

Snapshot = list[Any]

_ROOM = 16  # places for the next tokens: with fewer mlx-lm makes a new buffer
_COMPACT_EVERY = 32  # rewinds after which padding that all rows share is given up


def snapshot(cache: Sequence[Any]) -> Snapshot:
    """Return what ``restore`` needs: where it ends if cutting back is enough, or a layer's copy.

    The copy shares the arrays: writing into one rebinds it in the layer and leaves the copy's.
    """
    return kv.copy([x if (end := _end(x)) is None else end for x in kv.leaves(cache)])


def restore(cache: Sequence[Any], taken: Snapshot) -> None:
    """Put ``cache`` back to the moment of a snapshot of it; the snapshot can be used again."""
    for layer, state in zip(kv.leaves(cache), kv.copy(taken), strict=True):
        if isinstance(state, int):
            layer.trim(_end(layer) - state)
        else:
            kv.put_back([layer], [state])


def drops(cache: Sequence[Any]) -> bool:
    """Return whether every layer drops its last entries by moving a number, always and for free."""
    return all(isinstance(layer, kv.PLAIN) and kv.known(layer) for layer in kv.leaves(cache))


class Rewinder:
    """A model with its cache, and the way back over what was read since ``settle``.

    ``cache``, which may have read something, is changed in place; messages call it ``name``. It
    holds one text; or it is from ``kv.merge``, and row i of the batch holds ``lengths[i]`` tokens.
    Unless ``strict`` any cache is taken: one that cannot be rewound may be read, and says so late.

    Raises:
        BadValue: a layer cannot be rewound. Layers of a class that is not mlx-lm's are taken at
            their word if ``is_trimmable()`` is true, and refused otherwise; they are asked before
            each round, and from when they no longer are, ``room()`` is 1: plain decoding.
    """

    def __init__(
        self, model: Any, cache: kv.Cache, name: str = "cache", *,
        lengths: Sequence[int] | None = None, strict: bool = True,
    ) -> None:  # fmt: skip
        self.model, self.cache, self._name = model, cache, name
        self._layers, self._batch = list(kv.leaves(cache)), lengths is not None
        for number, layer in enumerate(self._layers if strict and not self._batch else []):
            if isinstance(layer, BatchKVCache | BatchRotatingKVCache):
                raise BadValue(f"{name} must hold one sequence, got a batch (layer {number})")
            if not (kv.known(layer) or (hasattr(layer, "offset") and layer.is_trimmable())):
                why = "which cannot be trimmed and whose state is not known here"
                kind = f"layer {number} is a {type(layer).__name__}, {why}"
                raise BadValue(f"{name} cannot be rewound: {kind}")
        # Where row 0 stood, tokens (B, T), and the state before them; of a batch one since settle.
        self._reads: list[tuple[int, mx.array, Snapshot]] = []
        self.plain = drops(cache)  # stepping back is always possible and free
        self._refused = False  # whether a layer gave back less than it had promised
        self._parted = 0  # how often rows have lost different numbers of tokens
        # Tokens of each row that were read and not taken back; of one text since this was made.
        self.positions = [0] if lengths is None else list(lengths)
        self.calls = self.tokens_read = 0  # all forwards, and what they were given: rows × length

    def forward(
        self, tokens: mx.array, lasting: bool = False, before: Snapshot | None = None,
        parents: Sequence[int] | None = None,
    ) -> mx.array:  # fmt: skip
        """Read ``tokens (B, T)`` and return their logits ``(B, T, V)``; nothing is evaluated.

        The tokens of a tree have ``parents``: see ``tree.branch``.

        ``lasting`` tokens are known to stay: no snapshot is taken, so a ring can be written in
        place. ``before`` is a snapshot of now, if there is one. If the model raises, nothing was
        read (but for a ring or a state that tokens were to last in: that may be left half-way).
        """
        start, length = self.positions[0], tokens.shape[1]
        while self._reads and (lasting or self._reads[-1][0] >= start):
            self._reads.pop()  # it stays; or it was taken back
        if self.plain:
            before = [layer.offset for layer in self._layers]
        elif not (lasting or before or (self._batch and self._reads)):
            before = snapshot(self.cache)
        for layer in self._layers if self._batch and length > 1 else []:
            if isinstance(layer, BatchRotatingKVCache):
                _unroll(layer)
        self.calls, self.tokens_read = self.calls + 1, self.tokens_read + tokens.size
        try:
            layers = self.cache if parents is None else tree.branch(self.cache, parents, length)
            logits = self.model(tokens, cache=layers)
        except BaseException:  # it may leave layers at different places
            if before is not None:
                restore(self.cache, before)
            raise
        if not (lasting or self.plain):
            if before is None:  # of a batch the first copy will do: they take room
                first, earlier, before = self._reads.pop()
                tokens = mx.concatenate([earlier[:, : start - first], tokens], axis=1)
                start = first
            self._reads.append((start, tokens, before))
        self.positions = [at + length for at in self.positions]
        return logits

    def follow(self, n: int, path: Sequence[int]) -> None:
        """Of the ``n`` tokens of a tree that were read last, put those of a path first."""
        tree.follow(self.cache, n, path)
        if hasattr(self.model, "follow"):  # it keeps something of what it has read
            self.model.follow(n, path)

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
        """Take back what each row has read beyond its first ``lengths[row]`` tokens.

        Raises:
            BadValue: as ``rewind``; all that was read since ``settle`` has been taken back then.
        """
        n = list(map(sub, self.positions, lengths))
        if max(n) <= 0:  # as in most rounds
            return
        try:
            self.rewind(n)
        except BadValue:
            self.rewind([self._held()] * len(n))
            raise

    def rewind(self, n: int | Sequence[int]) -> None:
        """Take back the last ``n`` tokens, in a batch ``n[row]``: as if they had never been read.

        Raises:
            BadValue: ``n`` is more than was read since ``settle`` and some layer cannot drop them;
                rows that lose different numbers must keep one each. Nothing has been changed.
        """
        back = list(n) if isinstance(n, Sequence) else [n]
        most, apart = max(back), max(back) > min(back)
        if most <= 0:
            return
        end, positions = self.positions[0], list(map(sub, self.positions, back))
        if self.plain and positions[0] >= 0:
            for layer in self._layers:
                layer.trim(most)
        elif not self._drop(back):
            if most > (held := self._held() - apart):
                raise BadValue(
                    f"{self._name} can be rewound by at most {held} tokens, got n={most}"
                )
            start = end
            while start > end - most - apart:
                start, tokens, before = self._reads.pop()
            restore(self.cache, before)
            self.positions[0] = start
            self._read_again(tokens, [end - start - each for each in back], before)
        self.positions = positions
        if apart:
            self.settle()  # no snapshot fits rows that part
            self._parted += 1
            if self._parted % _COMPACT_EVERY == 0:
                kv.select(self.cache, range(len(back)))  # drops the padding that all rows share

    def select(self, places: Sequence[int]) -> None:
        """Keep only the rows at these places; what was read so far stays."""
        self.settle()
        kv.select(self.cache, places)
        self.positions = [self.positions[place] for place in places]

    def _read_again(self, tokens: mx.array, stay: Sequence[int], before: Snapshot) -> None:
        """Read the first ``stay[row]`` tokens of each row; the state is that of ``before``."""
        if not (longest := max(stay)):
            return
        padded = self._layers if longest > min(stay) else []
        for layer in padded:
            layer.prepare(lengths=stay, right_padding=[longest - length for length in stay])
        self.forward(tokens[:, :longest], before=before)
        for layer in padded:
            layer.finalize()

    def _held(self) -> int:
        return self.positions[0] - self._reads[0][0] if self._reads else 0

    def _drop(self, back: Sequence[int]) -> bool:
        """Drop the last ``back[row]`` entries of every layer, or of none."""
        if self._batch:
            return _roll(self._layers, back)
        n = back[0]
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


def can_batch(model: Any, cache: kv.Cache) -> bool:
    """Return whether rows of different length can share a batch, given an empty cache of the model.

    A quantised cache has no batched form, a ``CacheList`` is not stepped back here, and attention
    sinks do not survive a batch. Some models cannot read rows of different length, and some
    recurrent ones (Mamba 1) read padding as text: all are tried out with a few tokens.
    """
    if any(type(layer) not in kv.MERGED or getattr(layer, "keep", 0) for layer in cache):
        return False
    question = "batches", *map(type, cache)
    return find_out(model, question, lambda: _reads_rows_as_if_alone(model, cache))


def _reads_rows_as_if_alone(model: Any, empty: kv.Cache) -> bool:
    """Return whether a row beside a longer one, rewound too, gets the logits it gets alone."""
    told, block, kept = [[0, 1, 1, 0], [1]], [1, 0], [2, 1]
    caches, alone = [kv.copy(empty) for _ in told], []
    for tokens, cache, length in zip(told, caches, kept, strict=True):
        model(mx.array([tokens]), cache=cache)
        read = model(mx.array([block]), cache=kv.copy(cache))
        after = model(mx.array([[*block[:length], 0]]), cache=kv.copy(cache))
        alone.append(mx.concatenate([read, after[:, -1:]], axis=1))
    batch = Rewinder(model, kv.merge(caches), lengths=[0, 0])
    read = batch.forward(mx.array([block, block]))
    batch.rewind([len(block) - length for length in kept])
    after = batch.forward(mx.array([[0], [0]]))
    return agree(mx.concatenate([read, after], axis=1), mx.concatenate(alone))


def _end(layer: Any) -> int | None:
    """Return where a layer ends, if moving that back is all it takes to forget."""
    if isinstance(layer, BatchKVCache):
        return layer.size()
    return layer.offset if drops([layer]) else None


def _is_full_ring(layer: Any) -> bool:
    return isinstance(layer, RotatingKVCache) and kv.known(layer) and layer.offset >= layer.max_size


def _ends_with(ring: RotatingKVCache | BatchRotatingKVCache, n: int) -> bool:
    """Return whether the last ``n`` entries of a ring can be dropped."""
    # It must be unrolled (newest entry last, as a read of several tokens leaves it), and what
    # remains must be a full window, or all that was ever read.
    if isinstance(ring, BatchRotatingKVCache):
        keys, _, _, _, width, read, end, _ = ring.state
    else:
        keys, _, read, _, width, end = ring.state
    return end == keys.shape[2] and end - n >= min(width, read - n) >= 0


def _roll(batch: Sequence[Any], n: Sequence[int]) -> bool:
    """Move each row right by ``n[row]`` places in every layer, or in none; the left is masked."""
    for layer in batch:
        ring = isinstance(layer, BatchRotatingKVCache) and _ends_with(layer, max(n))
        if not (ring or isinstance(layer, BatchKVCache)):
            return False
    for layer in batch:
        if not isinstance(layer, BatchKVCache):
            # A full ring cannot be trimmed. It asks where each row ends, from where it stands now.
            layer.prepare(lengths=[-rejected for rejected in n], right_padding=n)
            layer.finalize()
        elif max(n) == min(n):
            layer.trim(n[0])
        else:
            keys, values, offset, padding, end = layer.state
            right, end = mx.array(n) - min(n), end - min(n)
            # Entries whole, and no unused end: ``finalize`` took longer than the forward, on a CPU.
            places = mx.clip(mx.arange(end + _ROOM) - right[:, None, None], 0, keys.shape[2] - 1)
            at = mx.arange(len(n))[:, None, None], mx.arange(keys.shape[1])[:, None], places
            layer.state = keys[at], values[at], offset - mx.array(n), padding + right, end
    return True


def _unroll(layer: BatchRotatingKVCache) -> None:
    """Put a ring in order of time before a block is read."""
    # mlx-lm 0.32 does it after it has made the mask: that hides one token too few of a padded row.
    keys, values, offset, padding, width, read, end, rotated = layer.state
    if rotated:
        keys, values = mx.roll(keys, -end, axis=2), mx.roll(values, -end, axis=2)
        layer.state = keys, values, offset, padding, width, read, keys.shape[2], False
