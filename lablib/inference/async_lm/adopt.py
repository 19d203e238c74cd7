"""Take keys, values and log-probabilities that were computed elsewhere into the tree."""

from collections.abc import Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.trie import Lease
from lablib.inference.async_lm.evaluator import BatchEvaluator
from lablib.inference.async_lm.plan import Prompt
from lablib.validation import BadValue, sequence

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache

Layers = list[list[mx.array]]  # of each layer keys and values, (heads, T, head size)


def adopt(
    evaluator: BatchEvaluator, prompts: list[Prompt], prompt_cache: Sequence[Any] | None,
    logprobs: Sequence[mx.array] | mx.array | None,
) -> None:  # fmt: skip
    """Store keys and values, log-probabilities or both of some prompts, once all of it fits."""
    count, size = len(prompts), evaluator.vocab_size
    rows: list[mx.array | None] = [None] * count
    if logprobs is not None:
        given = logprobs if isinstance(logprobs, Sequence | mx.array) else [logprobs]
        shapes = [tuple(getattr(row, "shape", ())) for row in given]
        if shapes != [(size,)] * count:
            raise BadValue(f"logprobs must be {count} of {size}, got {shapes}")
        rows = [row.astype(mx.float32) + 0 for row in logprobs]
    unknown = prompt_cache is None
    layers = [None] * count if unknown else _checked(evaluator, prompts, prompt_cache)
    mx.eval(rows, layers)  # what fails, fails before anything has changed
    trie = evaluator.trie
    for prompt, own, row in zip(prompts, layers, rows, strict=True):
        if own is None:
            trie.insert(prompt, logprobs=row)
            continue
        known = trie.match(prompt)
        held = len(known.slots)
        with Lease(trie, known.tip) as lease:
            trie.make_room(len(prompt) - held)
            slots = lease.allocate(len(prompt) - held)
            trie.slab.clear_rows()
            for layer, pair in enumerate(own if len(slots) else ()):  # copy what the tree lacks
                new = (array[:, held:].swapaxes(0, 1) for array in pair)
                trie.slab.write(layer, mx.array(slots), *new)
            mx.eval(trie.slab.arrays)
            lease.insert(prompt, slots, held, row)


def _checked(
    evaluator: BatchEvaluator, prompts: list[Prompt], prompt_cache: Sequence[Any]
) -> list[Layers]:
    """Return the keys and values of each prompt's own tokens, in the model's own types."""
    own, count, longest = kv.make(evaluator.model), len(prompts), max(map(len, prompts))
    if longest > evaluator.longest:
        raise BadValue(f"prompt_cache must be None: the model's own cannot be cut at {longest}")
    given, layers = sequence("prompt_cache", prompt_cache, "layers"), len(own)
    kinds = [type(layer) for layer in given]
    if kinds not in ([KVCache] * layers, [BatchKVCache] * layers):
        raise BadValue(f"prompt_cache must be {layers} KVCache or BatchKVCache, got {kinds}")
    padding = getattr(given[0], "left_padding", mx.zeros(count, mx.int32)).tolist()
    evaluator.model(mx.array([[0]]), cache=own)  # not evaluated: shapes are known before numbers
    taken: list[Layers] = [[] for _ in prompts]
    for number, (layer, mine) in enumerate(zip(given, own, strict=True)):
        rows = 0 if layer.keys is None else layer.keys.shape[0]
        if rows != count:
            raise BadValue(f"prompt_cache must have a row for each of {count} prompts, got {rows}")
        shapes = [(a.shape[1], a.shape[3]) for a in layer.state[:2]]
        wanted = [(a.shape[1], a.shape[3]) for a in mine.state[:2]]
        if shapes != wanted:
            kind = f"keys and values of (heads, size) {wanted} in layer {number}"
            raise BadValue(f"prompt_cache must hold {kind}, got {shapes}")
        for i, (start, size) in enumerate(zip(padding, map(len, prompts), strict=True)):
            if (held := layer.size() - start) < size:
                whole = f"all {size} tokens of prompt {i}"
                raise BadValue(f"prompt_cache must hold {whole}, got {held}")
            both = zip(layer.state[:2], mine.state[:2], strict=True)
            taken[i].append([a[i, :, start : start + size].astype(b.dtype) for a, b in both])
    return taken
