"""Offer the other calls of genlm-backend's ``AsyncMlxLM``: only for code that was written for it.

Nothing else here needs them: queries that their owner makes, the tree's answer as five values, keys
and values from elsewhere.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.cache import kv
from lablib.cache.dense import Pair
from lablib.cache.slab import Slab
from lablib.cache.trie import Lease, Node
from lablib.inference.async_lm.evaluator import BatchEvaluator
from lablib.inference.async_lm.plan import Prompt
from lablib.inference.async_lm.queue import QueryQueue
from lablib.machine.arrays import listed
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, sequence, shown

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import BatchKVCache, KVCache


@checks_options
@dataclass(slots=True)
class Query:
    """Name a prompt whose next-token log-probabilities somebody awaits.

    Example:
        >>> lablib.inference.Query([1, 2, 3]).prompt
        [1, 2, 3]
    """

    prompt: Sequence[int]
    future: asyncio.Future | None = None  # gets the row (V,), an error or a cancellation


class GenlmCalls:
    """Add these calls to ``AsyncMlxLM``, which brings the queue, the evaluator and the checks."""

    _queue: QueryQueue
    _evaluator: BatchEvaluator
    _checked: Callable[..., Prompt]
    _all_checked: Callable[..., list[Prompt]]

    @property
    def queries(self) -> list[Query]:
        """Return who is waiting for an answer."""
        return [Query(list(prompt), future) for prompt, future in self._queue.waiting]

    def add_query(self, query: Query) -> None:
        """Let a query wait for its batch; its future will be answered.

        Raises:
            RuntimeError: the future's event loop is closed, or another loop's queries are waiting.
        """
        if not isinstance(query, Query) or not asyncio.isfuture(query.future):
            raise BadType(f"query must be a Query with a future, got {shown(query)}")
        self._queue.ask(self._checked(query.prompt), query.future)

    def batch_evaluate_queries(self) -> None:
        """Answer all waiting queries now instead of when their batch is due."""
        self._queue.run_now()

    def reset_async_queries(self) -> None:
        """Cancel every query that has not been answered, those that are running too."""
        self._queue.cancel()

    def walk_cache(
        self, token_ids: Sequence[int]
    ) -> tuple[Node, int, mx.array | list[Pair] | None, Node, int]:
        """Return how much of a prompt the cache holds; counts as a use.

        It is ``(node, matched, past_kvs, kv_node, kv_matched)``: ``node`` and ``matched`` of
        :class:`~lablib.cache.trie.Match`, the keys and values of the ``kv_matched`` leading tokens,
        ``(2, layers, heads, kv_matched, head size)``, or a pair for each layer if their shapes
        differ, or None if there are none; ``kv_node`` is the deepest node with all of its path's.
        """
        trie = self._evaluator.trie
        prompt = self._checked(token_ids, allow_empty=True)
        match = trie.match(prompt)
        kv_node = match.node
        while kv_node.slots is None and kv_node is not trie.root:
            kv_node = kv_node.above
        past = None
        if len(match.slots):
            past = _stacked(trie.slab, match.slots)
        return match.node, match.matched, past, kv_node, len(match.slots)

    def add_to_cache(
        self,
        queries: Sequence[Query],
        prompt_cache: Sequence[Any] | None = None,
        logprobs: Sequence[mx.array] | mx.array | None = None,
    ) -> None:
        """Store results from elsewhere for the queries' prompts; their futures are left alone.

        ``prompt_cache`` is one mlx-lm cache per layer, row i of which holds the whole of prompt i:
        ``KVCache`` for one prompt or several of a length, ``BatchKVCache`` for any. ``logprobs``
        are ``(V,)`` after each prompt, normalised.

        Raises:
            BadValue: they are not of these prompts or this model; nothing has changed then.
        """
        queries = sequence("queries", queries, "Query")
        for i, query in enumerate(queries):
            if not isinstance(query, Query):
                raise BadType(f"queries[{i}] must be a Query, got {shown(query)}")
        prompts = self._all_checked([query.prompt for query in queries], "queries")
        rows: Sequence[mx.array | None] = [None] * len(prompts)
        layers: list[list[Pair]] = [[]] * len(prompts)
        if logprobs is not None:
            rows = _own_rows(logprobs, len(prompts), self._evaluator.vocab_size)
        if prompt_cache is not None:
            layers = _own_layers(self._evaluator, prompts, prompt_cache)
        mx.eval(rows, layers)  # an error comes before anything has changed
        for prompt, pairs, row in zip(prompts, layers, rows, strict=True):
            _store(self._evaluator, prompt, pairs, row)


def _stacked(slab: Slab, slots: np.ndarray) -> mx.array | list[Pair]:
    index = mx.array(slots)[None]
    pairs = [slab.read(layer, index) for layer in range(slab.n_layers)]
    shapes = {array.shape for pair in pairs for array in pair}
    if len(shapes) > 1:
        return [(keys[0], values[0]) for keys, values in pairs]
    keys, values = zip(*pairs, strict=True)
    return mx.stack([mx.concatenate(list(side)) for side in (keys, values)])


def _own_rows(
    logprobs: Sequence[mx.array] | mx.array, count: int, vocab_size: int
) -> list[mx.array]:
    """Return ``count`` rows ``(V,)`` as arrays of their own, or refuse them."""
    rows = logprobs if isinstance(logprobs, Sequence | mx.array) else [logprobs]
    shapes = [tuple(getattr(row, "shape", ())) for row in rows]
    if shapes != [(vocab_size,)] * count:
        raise BadValue(f"logprobs must be {count} of {vocab_size}, got {shapes}")
    if any(mx.isnan(row).any().item() for row in rows):
        raise BadValue("logprobs must be log-probabilities, got NaN")
    for row in rows:
        largest = float(row.max())
        if not math.isfinite(largest):
            raise BadValue(f"logprobs must be log-probabilities, got a largest of {largest}")
    return [row.astype(mx.float32) + 0 for row in rows]


def _own_layers(
    evaluator: BatchEvaluator, prompts: list[Prompt], prompt_cache: Sequence[Any]
) -> list[list[Pair]]:
    """Return for each prompt the keys and values of each layer, in the model's own types."""
    longest = max(map(len, prompts))
    if longest > evaluator.longest:
        raise BadValue(f"prompt_cache must be None: the model's own cannot be cut at {longest}")
    own = kv.make(evaluator.model)
    given = sequence("prompt_cache", prompt_cache, "layers")
    kinds = [type(layer) for layer in given]
    if kinds not in ([KVCache] * len(own), [BatchKVCache] * len(own)):
        wanted = f"{len(own)} KVCache or BatchKVCache"
        raise BadValue(f"prompt_cache must be {wanted}, got {shown(kinds)}")
    evaluator.model(mx.array([[0]]), cache=own)  # not evaluated: shapes come before numbers
    taken: list[list[Pair]] = [[] for _ in prompts]
    for number, (layer, like) in enumerate(zip(given, own, strict=True)):
        name = f"prompt_cache[{number}]"
        rows = 0 if layer.empty() else len(layer.keys)
        if rows != len(prompts):
            raise BadValue(f"{name} must have a row for each of {len(prompts)} prompts, got {rows}")
        padding: list[int] = listed(getattr(layer, "left_padding", mx.zeros(rows, mx.int32)))
        for row, (prompt, start) in enumerate(zip(prompts, padding, strict=True)):
            stop = min(start + len(prompt), layer.size())
            kind = like.keys.dtype
            keys, values = (array[row, :, start:stop].astype(kind) for array in layer.state[:2])
            shapes = [keys.shape, values.shape]
            right = [(a.shape[1], len(prompt), a.shape[3]) for a in like.state[:2]]
            if shapes != right:
                raise BadValue(f"{name} must hold {right} of prompt {row}, got {shapes}")
            if not all(mx.isfinite(part).all() for part in (keys, values)):
                raise BadValue(f"{name} must hold finite numbers, got others for prompt {row}")
            taken[row].append((keys, values))
    return taken


def _store(
    evaluator: BatchEvaluator, prompt: Prompt, pairs: list[Pair], row: mx.array | None
) -> None:
    """Copy the keys and values that the tree lacks, and the row after the prompt."""
    trie = evaluator.trie
    match = trie.match(prompt)
    stored = len(match.slots)
    if not pairs or stored == len(prompt):
        trie.insert(prompt, logprobs=row)
        return
    missing = len(prompt) - stored
    with Lease(trie, match.tip) as lease:
        trie.make_room(missing)
        slots = lease.allocate(missing)
        trie.slab.clear_rows()
        for layer, pair in enumerate(pairs):
            new = [array[:, stored:].swapaxes(0, 1) for array in pair]
            trie.slab.write(layer, mx.array(slots), *new)
        mx.eval(trie.slab.arrays)
        lease.insert(prompt, slots, stored, row)
