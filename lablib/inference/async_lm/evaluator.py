"""Next-token log-probabilities of a batch of prompts, each prefix computed once and kept.

The way of a batch: look the prompts up in the tree, plan the rows that are missing, forward them a
piece at a time, hand their keys and values to the tree. Between two forwards the batch gives way to
whoever drives it, and it owns or has pinned all it needs: the cache may be read, filled by others
or replaced meanwhile.
"""

import time
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lablib.cache import kv
from lablib.cache.slab import Frame, Slab, SlabCache
from lablib.cache.trie import Match, Node, TokenTrie
from lablib.inference.async_lm.plan import LOGITS, WIDTH, Piece, Prompt, choose, plan
from lablib.models.interface import vocab_size_of
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import BatchKVCache, KVCache, RotatingKVCache

Answers = dict[Prompt, mx.array]


@dataclass(frozen=True, slots=True)
class Forward:
    """One call of the model; times in seconds of ``time.perf_counter``."""

    spans: tuple[tuple[int, int], ...]  # of each row, the positions it computed
    columns: int  # tokens per row, padding included
    began: float
    ended: float


@dataclass(slots=True)
class Batch:
    """What became of the prompts that ran together; grows while they run."""

    prompts: int
    cached: int = 0  # answered without a forward
    forwards: list[Forward] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    ended: float | None = None
    error: str | None = None  # also if everyone who waited has gone


@dataclass(frozen=True, slots=True)
class _Run:
    """One batch: the tree it began with, its record, its answers so far."""

    trie: TokenTrie
    batch: Batch
    answers: Answers


class BatchEvaluator:
    """A model and what it remembers.

    Args:
        model: ``model(tokens (B, T), cache) -> logits (B, T, V)`` with mlx-lm caches.
        step: the most tokens of one forward, padding included.
        cache_size: the most tokens the tree keeps.
        cache_bytes: the most that keys, values and log-probabilities weigh at rest; three quarters
            are for keys and values. None for no bound in bytes.

    Attributes:
        trie: the tree of what is known.
        reach: how long a prompt may be for its keys and values to be cut anywhere: no bound for
            plain attention, the window for sliding ones, 0 for a recurrent state.
        trace: the latest batches, for drawings.
        stats: running totals.
    """

    def __init__(self, model: Any, step: int, cache_size: int, cache_bytes: int | None):
        self.model, self.step = model, step
        self.cache_size, self.cache_bytes = cache_size, cache_bytes
        self.vocab_size = vocab_size_of(model)
        caches = kv.make(model)
        self.n_layers, self.reach = len(caches), min(map(_reach, caches))
        self.trace: deque[Batch] = deque(maxlen=64)
        self.stats = dict.fromkeys(
            ("batches", "prompts", "cached", "forwards", "token_forwards", "padding", "reused"), 0
        )
        self._warned = False
        if self.reach == 0:
            self._warn("has a cache that cannot be cut at a token")
        self.clear()

    def clear(self) -> None:
        """Forget everything; a batch that is running goes on with what it began with."""
        share = None if self.cache_bytes is None else self.cache_bytes // 4
        rest = None if share is None else self.cache_bytes - share
        slab = Slab(self.n_layers, self.cache_size, rest)
        self.trie = TokenTrie(self.cache_size, share, slab=slab)

    def lookup(self, prompt: Prompt) -> mx.array | None:
        """The log-probabilities after ``prompt`` if they are known; counts as a use."""
        row = self.trie.match(prompt).logprobs
        if row is not None:
            self.stats["prompts"] += 1
            self.stats["cached"] += 1
        return row

    def evaluate(
        self, prompts: list[Prompt], answers: Answers, keys: bool = False
    ) -> Iterator[None]:
        """Put the log-probabilities ``(V,)`` after each of some distinct prompts into ``answers``.

        A generator that stops before each forward. Closing it early frees what it holds; an error
        in a forward leaves the cache as it was before. With ``keys``, known log-probabilities do
        not spare a prompt the forward if its keys and values are missing.
        """
        trie, batch = self.trie, Batch(len(prompts))
        self.trace.append(batch)
        try:
            found = {prompt: trie.match(prompt) for prompt in prompts}
            asked = {
                prompt: match
                for prompt, match in found.items()
                if match.logprobs is None or (keys and len(match.slots) < len(prompt))
            }
            answers |= {p: match.logprobs for p, match in found.items() if p not in asked}
            batch.cached = len(prompts) - len(asked)
            run = _Run(trie, batch, answers)
            yield from self._sharing(run, {p: asked[p] for p in asked if len(p) <= self.reach})
            yield from self._alone(run, [p for p in asked if len(p) > self.reach])
        except BaseException as error:
            batch.error = repr(error)  # the error itself would keep its frames alive
            raise
        finally:
            batch.ended = time.perf_counter()
            self.stats["batches"] += 1
            self.stats["prompts"] += len(prompts)
            self.stats["cached"] += batch.cached
            trie.compact()

    # With the tree.

    def _sharing(self, run: "_Run", known: dict[Prompt, Match]) -> Iterator[None]:
        trie, answers = run.trie, run.answers
        pins: list[Node] = []
        loose: list[np.ndarray] = []  # slots that are nobody's yet
        try:
            for match in known.values():
                trie.pin(match.tip)
                pins.append(match.tip)
            # The slot of the last token at hand stands for all tokens up to it.
            places = {prompt: match.slots[-1:].tobytes() for prompt, match in known.items()}
            rows = plan((p, len(match.slots), places[p]) for p, match in known.items())
            trie.make_room(sum(len(row.prompt) - row.kept for row in rows))
            for row in rows:
                loose.append(trie.slab.allocate(len(row.prompt) - row.kept))
                shared = row.parent.slots[row.held : row.start] if row.parent else loose[-1][:0]
                row.slots = np.concatenate([known[row.prompt].slots, shared, loose[-1]])
                self.stats["reused"] += row.start
            while pieces := choose(rows, self.step, self.vocab_size):
                yield
                self._forward(run, pieces)
            for row in rows:
                answer = answers[row.prompt]
                pins.append(trie.insert(row.prompt, loose.pop(0), row.kept, answer, pin=True))
                for end in row.ends[:-1]:
                    trie.insert(row.prompt[:end], logprobs=answers[row.prompt[:end]])
        finally:
            for slots in loose:
                trie.slab.release(slots)
            for node in pins:
                trie.unpin(node)

    def _forward(self, run: "_Run", pieces: list[Piece]) -> None:
        """Compute one piece of each row, and the answers that end in it."""
        began = time.perf_counter()
        frame, wanted = _frame(pieces)
        slab = run.trie.slab
        caches = [SlabCache(slab, layer, frame) for layer in range(self.n_layers)]
        try:
            logits = self.model(frame.tokens, cache=caches)
            rows = _log_probabilities(logits, list(wanted.values()))
        except BaseException:
            with suppress(Exception):  # what was queued must not fail in somebody else's forward
                self._compute(run.trie, [])
            raise
        self._compute(run.trie, rows)
        run.answers.update(zip(wanted, rows, strict=True))
        self._note(run, [(row.done, stop) for row, stop in pieces], began)
        for row, stop in pieces:
            row.done = stop

    def _compute(self, trie: TokenTrie, rows: list[mx.array]) -> None:
        try:
            mx.eval(rows, trie.slab.arrays)
        except BaseException:  # nobody knows how far it came: nothing in this slab can be trusted
            if self.trie is trie:
                self.clear()
            raise

    # Without it.

    def _alone(self, run: "_Run", prompts: list[Prompt]) -> Iterator[None]:
        """Prompts whose caches cannot be cut: from their start, side by side with their equals."""
        if prompts and self.reach:
            self._warn(f"has a sliding window, and a prompt is longer than its {self.reach} tokens")
        for length in sorted({len(prompt) for prompt in prompts}):
            equals = [prompt for prompt in prompts if len(prompt) == length]
            count = max(1, min(self.step, WIDTH // length))
            for first in range(0, len(equals), count):
                group = equals[first : first + count]
                rows = yield from self._from_the_start(run, group)
                run.answers.update(zip(group, rows, strict=True))
                for prompt, row in zip(group, rows, strict=True):
                    run.trie.insert(prompt, logprobs=row)

    def _from_the_start(
        self, run: "_Run", prompts: list[Prompt]
    ) -> Generator[None, None, list[mx.array]]:
        """Log-probabilities after prompts of one length, with the model's own caches."""
        tokens, cache = mx.array(prompts), kv.make(self.model)
        count, length = tokens.shape
        done, rows = 0, []
        while done < length:
            yield
            began = time.perf_counter()
            stop = min(done + self.step // count, length)
            if stop == length and (length - 1 - done) * self.vocab_size >= LOGITS:
                stop -= 1
            logits = self.model(tokens[:, done:stop], cache=cache)
            if stop == length:
                columns = stop - done
                rows = _log_probabilities(logits, [(i + 1) * columns - 1 for i in range(count)])
            mx.eval(rows, [layer.state for layer in cache])
            self._note(run, [(done, stop)] * count, began)
            done = stop
        return rows

    # From and to elsewhere.

    def keys_and_values(self, slots: np.ndarray) -> mx.array | list[tuple[mx.array, mx.array]]:
        """What the slots hold, ``(2, layers, heads, T, head size)``, or a pair for each layer."""
        index = mx.array(slots)[None]
        pairs = [self.trie.slab.read(layer, index) for layer in range(self.n_layers)]
        if len({array.shape for pair in pairs for array in pair}) == 1:
            return mx.stack([mx.concatenate(side) for side in zip(*pairs, strict=True)])
        return [(keys[0], values[0]) for keys, values in pairs]

    def keep(
        self,
        prompts: list[Prompt],
        prompt_cache: Sequence[Any] | None,
        logprobs: Sequence[mx.array] | None,
    ) -> None:
        """Store keys and values, log-probabilities or both of some prompts, once all fits."""
        starts = None if prompt_cache is None else self._starts(prompts, prompt_cache)
        if logprobs is not None:
            shapes = [tuple(row.shape) for row in logprobs]
            if shapes != [(self.vocab_size,)] * len(prompts):
                raise BadValue(
                    f"logprobs must be {len(prompts)} of {self.vocab_size}, got {shapes}"
                )
            logprobs = [row.astype(mx.float32) + 0 for row in logprobs]
            mx.eval(logprobs)
        for number, prompt in enumerate(prompts):
            row = None if logprobs is None else logprobs[number]
            if starts is None:
                self.trie.insert(prompt, logprobs=row)
            else:
                self._adopt(prompt, prompt_cache, number, starts[number], row)
        self.trie.compact()

    def _starts(self, prompts: list[Prompt], prompt_cache: Sequence[Any]) -> list[int]:
        """Where in the caches each prompt's first token is."""
        if (longest := max(map(len, prompts))) > self.reach:
            raise BadValue(
                f"prompt_cache must be None for a model whose cache cannot be cut at {longest}"
            )
        kinds = [type(layer) for layer in prompt_cache]
        if kinds not in ([KVCache] * self.n_layers, [BatchKVCache] * self.n_layers):
            raise BadValue(
                f"prompt_cache must be {self.n_layers} KVCache or BatchKVCache, got {kinds}"
            )
        first = prompt_cache[0]
        starts = first.left_padding.tolist() if kinds[0] is BatchKVCache else [0] * len(prompts)
        rows = 0 if first.keys is None else first.keys.shape[0]
        if rows != len(prompts):
            raise BadValue(
                f"prompt_cache must have a row for each of {len(prompts)} prompts, got {rows}"
            )
        for number, (prompt, start) in enumerate(zip(prompts, starts, strict=True)):
            if first.size() - start < len(prompt):
                raise BadValue(
                    f"prompt_cache must hold all {len(prompt)} tokens of prompt {number}, "
                    f"got {first.size() - start}"
                )
        return starts

    def _adopt(
        self,
        prompt: Prompt,
        prompt_cache: Sequence[Any],
        number: int,
        start: int,
        row: mx.array | None,
    ) -> None:
        trie, slab = self.trie, self.trie.slab
        known = trie.match(prompt)
        held = len(known.slots)
        trie.pin(known.tip)
        trie.make_room(len(prompt) - held)
        slots = slab.allocate(len(prompt) - held)
        span = slice(start + held, start + len(prompt))
        for layer, cache in enumerate(prompt_cache if len(slots) else ()):
            new = (a[number, :, span].swapaxes(0, 1) for a in (cache.keys, cache.values))
            slab.write(layer, mx.array(slots), *new)
        mx.eval(slab.arrays)
        trie.insert(prompt, slots, held, row)
        trie.unpin(known.tip)

    # What happened.

    def _note(self, run: "_Run", spans: list[tuple[int, int]], began: float) -> None:
        columns = max(stop - start for start, stop in spans)
        real = sum(stop - start for start, stop in spans)
        run.batch.forwards.append(Forward(tuple(spans), columns, began, time.perf_counter()))
        self.stats["forwards"] += 1
        self.stats["token_forwards"] += real
        self.stats["padding"] += columns * len(spans) - real

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            name = type(self.model).__name__
            message = f"{name} {why}: it runs without prefix reuse, each such prompt from its start"
            warnings.warn(message, UserWarning, stacklevel=3)


def _reach(cache: Any) -> float:
    """How long a sequence may be for its cache to be no more than its keys and values."""
    if type(cache) is KVCache:
        return float("inf")
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return cache.max_size
    return 0


def _frame(pieces: list[Piece]) -> tuple[Frame, dict[Prompt, int]]:
    """One forward of the pieces, and where in ``(B · T)`` each prompt that ends in it ends."""
    columns = max(stop - row.done for row, stop in pieces)
    tokens = np.zeros((len(pieces), columns), np.int32)
    seen = np.zeros((len(pieces), max(stop for _, stop in pieces)), np.int32)
    written, source, offsets, wanted = [], [], [], {}
    for number, (row, stop) in enumerate(pieces):
        offset = stop - columns
        offsets.append(offset)
        tokens[number, row.done - offset :] = row.prompt[row.done : stop]
        seen[number, :stop] = row.slots[:stop]
        kept, here = max(row.done, row.kept), number * columns - offset
        written.append(row.slots[kept:stop])
        source.append(np.arange(here + kept, here + max(stop, kept)))
        wanted |= {row.prompt[:end]: here + end - 1 for end in row.ends if row.done < end <= stop}
    frame = Frame(
        tokens=mx.array(tokens),
        offset=offsets[0] if len(set(offsets)) == 1 else mx.array(offsets),
        seen=mx.array(seen),
        written=mx.array(np.concatenate(written)),
        source=mx.array(np.concatenate(source).astype(np.int32)),
    )
    return frame, wanted


def _log_probabilities(logits: mx.array, wanted: list[int]) -> list[mx.array]:
    """Log-softmax in float32 of the ``wanted`` rows of ``logits (B, T, V)``, flattened.

    Each is an array of its own: a view would keep the whole batch in memory.
    """
    if not wanted:
        return []
    rows = logits.flatten(0, 1)[mx.array(wanted)].astype(mx.float32)
    norms = mx.logsumexp(rows, axis=-1, keepdims=True)
    return [rows[i] - norms[i] for i in range(len(wanted))]
