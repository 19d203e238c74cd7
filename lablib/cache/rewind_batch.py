"""Take tokens back from a batch, another number of them from every row.

mlx-lm keeps the rows of a batch flush right: a row that loses tokens at its end is moved right by
as many places, and what it leaves behind on the left is padding (``prepare`` and ``finalize``, made
for prompts that were padded on the right: rejected drafts are just that). A recurrent state, or a
ring that was written token by token, is put back as it was and reads again what stays of each row.
"""

from collections.abc import Sequence
from typing import Any

from lablib.cache import kv
from lablib.models.interface import agree, find_out
from lablib.validation import BadValue

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache

_COMPACT_EVERY = 32  # rewinds after which padding that all rows share is given up


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


def merge(caches: Sequence[kv.Cache]) -> kv.Cache:
    """Return one batch of caches that hold one sequence each; the caches stay as they are."""
    return [layers[0].merge(list(layers)) for layers in zip(*caches, strict=True)]


class BatchRewinder:
    """A model with the cache of a batch, and the way back over what was read since ``settle``.

    ``cache`` is from :func:`merge` and changed in place; row i of it holds ``lengths[i]`` tokens.
    """

    def __init__(self, model: Any, cache: kv.Cache, lengths: Sequence[int]) -> None:
        self.model, self.cache = model, cache
        self.positions = list(lengths)  # tokens of each row that were read and not taken back
        self._reads: list[mx.array] = []  # tokens (B, T) of each forward since settle
        self._before: list[Any] = []  # the layers before these; None where trimming is enough
        self.calls = self.replays = 0  # all forwards, and those that read tokens again
        self.tokens_read = self._rewinds = 0  # tokens given to all forwards, rows times length

    def forward(self, tokens: mx.array) -> mx.array:
        """Read ``tokens (B, T)`` and return their logits ``(B, T, V)``."""
        if not self._reads:
            held = [None if isinstance(x, BatchKVCache) else x for x in self.cache]
            self._before = kv.copy(held)
        self._reads.append(tokens)
        self.positions = [position + tokens.shape[1] for position in self.positions]
        return self._forward(tokens)

    def settle(self) -> None:
        """Let what was read so far stay."""
        self._reads, self._before = [], []

    def keep(self, lengths: Sequence[int]) -> None:
        """Take back what each row has read beyond its first ``lengths[row]`` tokens."""
        places = zip(self.positions, lengths, strict=True)
        self.rewind([max(0, position - length) for position, length in places])

    def rewind(self, n: Sequence[int]) -> None:
        """Take back the last ``n[row]`` tokens of each row; each keeps one of those read at least.

        Raises:
            BadValue: a row would keep nothing of what was read since ``settle``.
        """
        if not any(n):
            return
        read = sum(tokens.shape[1] for tokens in self._reads)
        if max(n) >= read:
            raise BadValue(f"each row must keep one of the {read} tokens read, got n={max(n)}")
        pairs = zip(self.positions, n, strict=True)
        self.positions = [position - rejected for position, rejected in pairs]
        if all(self._can_roll(layer) for layer in self.cache):
            for layer in self.cache:
                _roll(layer, n)
        else:
            self._replay([read - rejected for rejected in n])
        self._rewinds += 1
        if self._rewinds % _COMPACT_EVERY == 0:
            kv.select(self.cache, range(len(n)))  # drops the columns that are padding in every row

    def select(self, places: Sequence[int]) -> None:
        """Keep only the rows at these places; what was read so far stays."""
        self.settle()
        kv.select(self.cache, places)
        self.positions = [self.positions[place] for place in places]

    def _can_roll(self, layer: Any) -> bool:
        if isinstance(layer, BatchRotatingKVCache):
            # A block leaves a ring unrolled and whole; single tokens overwrite its oldest ones.
            return len(self._reads) == 1 and self._reads[0].shape[1] > 1
        return isinstance(layer, BatchKVCache)

    def _replay(self, kept: list[int]) -> None:
        """Go back to the state before; read again the first ``kept[row]`` tokens of each row."""
        tokens, longest = mx.concatenate(self._reads, axis=1), max(kept)
        for layer, before in zip(self.cache, self._before, strict=True):
            if before is None:
                layer.trim(tokens.shape[1])
            else:
                kv.put_back([layer], kv.copy([before]))
        padded = self.cache if min(kept) < longest else []
        for layer in padded:
            layer.prepare(lengths=kept, right_padding=[longest - length for length in kept])
        self.replays += 1
        self._forward(tokens[:, :longest])
        for layer in padded:
            layer.finalize()

    def _forward(self, tokens: mx.array) -> mx.array:
        for layer in self.cache if tokens.shape[1] > 1 else []:
            if isinstance(layer, BatchRotatingKVCache):
                _unroll(layer)
        self.calls += 1
        self.tokens_read += tokens.size
        return self.model(tokens, cache=self.cache)


def _roll(layer: Any, n: Sequence[int]) -> None:
    """Move each row right by ``n[row]`` places; on the left that makes room, which is masked."""
    if isinstance(layer, BatchKVCache):
        layer.trim(min(n))
        layer.prepare(right_padding=[rejected - min(n) for rejected in n])
    else:
        # A ring cannot be trimmed once it is full. It asks where the text of each row ends, counted
        # from where the row stands now: that many tokens back.
        layer.prepare(lengths=[-rejected for rejected in n], right_padding=list(n))
    layer.finalize()


def _unroll(layer: BatchRotatingKVCache) -> None:
    """Put a ring in order of time before a block is read."""
    # mlx-lm 0.32 does it after it has made the mask: that hides one token too few of a padded row.
    keys, values, offset, padding, width, read, end, rotated = layer.state
    if rotated:
        keys, values = mx.roll(keys, -end, axis=2), mx.roll(values, -end, axis=2)
        layer.state = keys, values, offset, padding, width, read, keys.shape[2], False


def _reads_rows_as_if_alone(model: Any, empty: kv.Cache) -> bool:
    """Return whether a row beside a longer one, rewound too, gets the logits it gets alone."""
    told, block, kept = [[0, 1, 1, 0], [1]], [1, 0], [2, 1]
    caches, alone = [kv.copy(empty) for _ in told], []
    for tokens, cache, length in zip(told, caches, kept, strict=True):
        model(mx.array([tokens]), cache=cache)
        read = model(mx.array([block]), cache=kv.copy(cache))
        after = model(mx.array([[*block[:length], 0]]), cache=kv.copy(cache))
        alone.append(mx.concatenate([read, after[:, -1:]], axis=1))
    batch = BatchRewinder(model, merge(caches), [0, 0])
    read = batch.forward(mx.array([block, block]))
    batch.rewind([len(block) - length for length in kept])
    after = batch.forward(mx.array([[0], [0]]))
    return agree(mx.concatenate([read, after], axis=1), mx.concatenate(alone))
