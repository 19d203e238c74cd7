"""Take tokens back from a batch: from each row another number.

In a batch mlx-lm keeps the rows flush right: a row that loses tokens at its end is moved right by
as many places, and it leaves padding behind on the left. Where that fails, all rows go back to a
snapshot and read again the tokens that stay, as in ``rewind.py``.

To take a row out copies all others, and so does to add one. So a row that leaves stays where it is
until the next forward, and one that joins before is written over it.
"""

from collections.abc import Sequence
from operator import sub
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Snapshot, ends_with, restore, snapshot
from lablib.models.interface import agree, find_out
from lablib.validation import BadValue

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache

_ROOM = 16  # places for the next tokens: with fewer mlx-lm makes a new buffer
_COMPACT_EVERY = 32  # rewinds after which padding that all rows share is given up
_PADDING = 32  # tokens of it that are kept where rows take the places of others


class BatchRewinder:
    """A model and the cache of a batch that can undo what it read since the last :meth:`settle`.

    The cache is from ``kv.merge``. One from ``kv.expand`` or ``shared.fan_out`` will do where
    nothing is taken back. ``positions[i]`` is the number of tokens in row i; the other attributes
    are those of ``Rewinder``.
    """

    def __init__(self, model: Any, cache: kv.Cache, lengths: Sequence[int]) -> None:
        self.model = model
        self.cache = cache
        self.positions = list(lengths)
        self.calls = self.tokens_read = 0
        self._reads: list[mx.array] = []  # the tokens since settle, (B, T) each
        self._before: Snapshot = []  # the state before them
        self._parted = 0  # how often rows have lost different numbers of tokens
        self._left: list[int] | None = None  # the places of the rows, if some have left

    def forward(
        self, tokens: mx.array, stays: bool = False, parents: Sequence[int] | None = None
    ) -> mx.array:
        """Read ``tokens (B, T)`` and return their logits ``(B, T, V)``; nothing is evaluated.

        If the model raises, nothing was read, unless the tokens were to stay: ``stays`` says that
        they are never taken back. A batch reads no trees: ``parents`` is None.
        """
        if self._left is not None:
            self._close_ranks()
        if stays:
            self.settle()
        elif not self._reads:
            self._before = snapshot(self.cache)
        if tokens.shape[1] > 1:
            self._unroll()
        self.calls += 1
        self.tokens_read += tokens.size
        try:
            logits = self.model(tokens, cache=self.cache)
        except BaseException:
            if self._before:
                self._undo()
            raise
        if not stays:
            self._reads.append(tokens)
        self.positions = [position + tokens.shape[1] for position in self.positions]
        return logits

    def settle(self) -> None:
        """Let everything that was read so far stay: give up the snapshot."""
        self._reads = []
        self._before = []

    def _undoable(self) -> int:
        """Return how many tokens of each row were read since ``settle``."""
        return sum(tokens.shape[1] for tokens in self._reads)

    def room(self) -> None:
        """Return None: a forward may read any number of tokens."""

    def can_give_back(self, after: int) -> bool:
        """Return False: a row that ends has left before the others read on."""
        return False

    def keep(self, lengths: Sequence[int]) -> None:
        """Take back everything beyond the first ``lengths[row]`` tokens of each row.

        Raises:
            BadValue: as ``rewind``; all that was read since ``settle`` has been taken back then.
        """
        back = list(map(sub, self.positions, lengths))
        if max(back) <= 0:  # as in most rounds
            return
        try:
            self.rewind(back)
        except BadValue:
            self._undo()
            raise

    def rewind(self, back: list[int]) -> None:
        """Take back the last ``back[row]`` tokens of each row: as if they had never been read.

        Raises:
            BadValue: a row loses more than was read since ``settle`` and some layer cannot drop
                them; rows that lose different numbers must keep one each. Nothing has been changed.
        """
        if max(back) <= 0:
            return
        self._close_ranks()
        uneven = max(back) > min(back)
        positions = list(map(sub, self.positions, back))
        if not self._roll(back):
            read = self._undoable()
            most = read - uneven
            if max(back) > most:
                raise BadValue(f"cache can be rewound by at most {most} tokens, got n={max(back)}")
            tokens = mx.concatenate(self._reads, axis=1)
            self._undo()
            self._read_again(tokens, [read - each for each in back])
        elif not uneven and self._reads:
            tokens = mx.concatenate(self._reads, axis=1)
            self._reads = [tokens[:, : tokens.shape[1] - back[0]]]
        self.positions = positions
        if uneven:
            self.settle()  # no snapshot fits rows that part
            self._parted += 1
            if self._parted % _COMPACT_EVERY == 0:
                kv.select(self.cache, range(len(back)))  # drops the padding that all rows share

    def select(self, rows: Sequence[int]) -> None:
        """Keep only these rows; everything that was read so far stays."""
        self.settle()
        places = range(len(self.positions)) if self._left is None else self._left
        self._left = [places[row] for row in rows]
        self.positions = [self.positions[row] for row in rows]

    def extend(self, other: "BatchRewinder", replace: bool = False) -> list[int]:
        """Add the rows of another batch of the model, which is used no more.

        With ``replace`` they may take the places of rows that have left.

        Returns:
            The rows in their new order, as numbers: first these, then the others.
        """
        self.settle()
        order = list(range(len(self.positions) + len(other.positions)))
        self.calls += other.calls
        self.tokens_read += other.tokens_read
        if replace and self._left is not None and self._has_places(other):
            return self._write_over(other, self._left)
        self._close_ranks()
        for layer, more in zip(self.cache, other.cache, strict=True):
            layer.extend(more)
        self.positions += other.positions
        return order

    def _has_places(self, other: "BatchRewinder") -> bool:
        """Return whether the rows of another batch fit the places of those that have left."""
        layers = kv.leaves(self.cache)
        if not all(isinstance(layer, BatchKVCache) and not layer.empty() for layer in layers):
            return False
        free = (kv.rows(self.cache) or 0) - len(self.positions)
        most = max(self.positions + other.positions)
        width = layers[0].size()
        return (
            free >= len(other.positions)
            and max(other.positions) <= width
            and width - most <= max(_PADDING, most // 4)
        )

    def _write_over(self, other: "BatchRewinder", stay: Sequence[int]) -> list[int]:
        """Write other rows over those that have left, in place; return the order of all.

        ``stay`` has the places of these rows. Places that nobody takes are given up later.
        """
        n_old, both = len(self.positions), self.positions + other.positions
        free = sorted({*range(kv.rows(self.cache) or 0)} - {*stay})
        taken = [*stay, *free[: len(other.positions)]]  # the place of each row
        order = sorted(range(len(both)), key=taken.__getitem__)
        self.positions = [both[row] for row in order]
        self._left = sorted(taken) if len(free) > len(other.positions) else None
        lengths = dict(zip(taken, both, strict=True))
        offset = mx.array([lengths.get(place, 0) for place in range(len(stay) + len(free))])
        for layer, more in zip(kv.leaves(self.cache), kv.leaves(other.cache), strict=True):
            keys, values, _, _, end = layer.state
            new_keys, new_values, _, _, new_end = more.state
            for i, n in enumerate(other.positions):
                if n:
                    place = taken[n_old + i]
                    at = slice(place, place + 1), slice(None), slice(end - n, end)
                    new = slice(i, i + 1), slice(None), slice(new_end - n, new_end)
                    keys[at], values[at] = new_keys[new], new_values[new]
            layer.state = keys, values, offset, end - offset, end
        return order

    def _close_ranks(self) -> None:
        """Give up the places of the rows that have left."""
        if self._left is not None:  # asked before, on a token's way
            kv.select(self.cache, self._left)
            self._left = None

    def _undo(self) -> None:
        """Go back to the snapshot."""
        restore(self.cache, self._before)
        read = self._undoable()
        self.positions = [position - read for position in self.positions]
        self.settle()

    def _read_again(self, tokens: mx.array, stay: Sequence[int]) -> None:
        """Read the first ``stay[row]`` tokens of each row."""
        longest = max(stay)
        if not longest:
            return
        padding = [longest - length for length in stay]
        padded = kv.leaves(self.cache) if any(padding) else []
        for layer in padded:
            layer.prepare(lengths=stay, right_padding=padding)
        self.forward(tokens[:, :longest])
        for layer in padded:
            layer.finalize()

    def _roll(self, back: list[int]) -> bool:
        """Move each row right by ``back[row]`` places in every layer, or in none."""
        layers = kv.leaves(self.cache)
        for layer in layers:
            ring = isinstance(layer, BatchRotatingKVCache) and ends_with(layer, max(back))
            if not (ring or isinstance(layer, BatchKVCache)):
                return False
        for layer in layers:
            if not isinstance(layer, BatchKVCache):
                # A full ring cannot be trimmed. It asks where each row ends, from where it stands.
                layer.prepare(lengths=[-n for n in back], right_padding=back)
                layer.finalize()
            elif max(back) == min(back):
                layer.trim(back[0])
            else:
                _move_right(layer, back)
        return True

    def _unroll(self) -> None:
        """Put rings in order of time before a block is read."""
        # mlx-lm 0.32 does it after it has made the mask: that hides one token too few of a padded
        # row.
        for layer in kv.leaves(self.cache):
            if not isinstance(layer, BatchRotatingKVCache):
                continue
            keys, values, offset, padding, width, read, end, rotated = layer.state
            if rotated:
                keys, values = mx.roll(keys, -end, 2), mx.roll(values, -end, 2)
                end = keys.shape[2]
                layer.state = keys, values, offset, padding, width, read, end, False


def _move_right(layer: BatchKVCache, back: list[int]) -> None:
    """Drop the last ``back[row]`` entries of each row; the rows stay flush right."""
    keys, values, offset, padding, end = layer.state
    right, end = mx.array(back) - min(back), end - min(back)
    # Entries whole, and no unused end: ``finalize`` took longer than the forward, on a CPU.
    places = mx.clip(mx.arange(end + _ROOM) - right[:, None, None], 0, keys.shape[2] - 1)
    at = mx.arange(len(back))[:, None, None], mx.arange(keys.shape[1])[:, None], places
    layer.state = keys[at], values[at], offset - mx.array(back), padding + right, end


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
    prompts, block, kept = [[0, 1, 1, 0], [1]], [1, 0], [2, 1]
    caches = [kv.copy(empty) for _ in prompts]
    alone = []
    for tokens, cache, length in zip(prompts, caches, kept, strict=True):
        model(mx.array([tokens]), cache=cache)
        read = model(mx.array([block]), cache=kv.copy(cache))
        after = model(mx.array([[*block[:length], 0]]), cache=kv.copy(cache))
        alone.append(mx.concatenate([read, after[:, -1:]], axis=1))
    batch = BatchRewinder(model, kv.merge(caches), [0, 0])
    read = batch.forward(mx.array([block, block]))
    batch.rewind([len(block) - length for length in kept])
    after = batch.forward(mx.array([[0], [0]]))
    return agree(mx.concatenate([read, after], axis=1), mx.concatenate(alone))
