"""Take keys, values and log-probabilities that were computed elsewhere into the tree."""

from collections.abc import Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.trie import Lease, TokenTrie
from lablib.inference.async_lm.evaluator import BatchEvaluator
from lablib.inference.async_lm.plan import Prompt
from lablib.validation import BadValue

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache

Layers = list[tuple[mx.array, mx.array]]  # keys and values (B, heads, T, head size) of each layer


def adopt(
    evaluator: BatchEvaluator,
    prompts: list[Prompt],
    prompt_cache: Sequence[Any] | None,
    logprobs: Sequence[mx.array] | mx.array | None,
) -> None:
    """Store keys and values, log-probabilities or both of some prompts, once all fits.

    Raises:
        BadValue: the caches or the log-probabilities are not those of these prompts and this
            model; nothing has changed then.
    """
    trie, rows = evaluator.trie, [None] * len(prompts)
    if prompt_cache is not None:
        layers, starts = _checked_cache(evaluator, prompts, prompt_cache)
    if logprobs is not None:
        rows = _checked_rows(logprobs, len(prompts), evaluator.vocab_size)
    for number, (prompt, row) in enumerate(zip(prompts, rows, strict=True)):
        if prompt_cache is None:
            trie.insert(prompt, logprobs=row)
        else:
            own = [[a[number, :, starts[number] :] for a in pair] for pair in layers]
            _insert(trie, prompt, own, row)
    trie.compact()


def _insert(trie: TokenTrie, prompt: Prompt, layers: list[list[mx.array]], row: Any) -> None:
    """Copy what the tree lacks of one prompt, from keys and values ``(heads, T, head size)``."""
    known = trie.match(prompt)
    held = len(known.slots)
    with Lease(trie) as lease:
        lease.pin(known.tip)
        trie.make_room(len(prompt) - held)
        slots = lease.allocate(len(prompt) - held)
        for layer, pair in enumerate(layers if len(slots) else ()):
            new = (a[:, held : len(prompt)].swapaxes(0, 1) for a in pair)
            trie.slab.write(layer, mx.array(slots), *new)
        mx.eval(trie.slab.arrays)
        lease.insert(prompt, slots, held, row)


def _checked_rows(logprobs: Any, count: int, vocab_size: int) -> list[mx.array]:
    """Return float32 copies of ``count`` rows ``(V,)``."""
    shapes = [tuple(row.shape) for row in logprobs]
    if shapes != [(vocab_size,)] * count:
        raise BadValue(f"logprobs must be {count} of {vocab_size}, got {shapes}")
    rows = [row.astype(mx.float32) + 0 for row in logprobs]
    mx.eval(rows)
    return rows


def _checked_cache(
    evaluator: BatchEvaluator, prompts: list[Prompt], prompt_cache: Sequence[Any]
) -> tuple[Layers, list[int]]:
    """Return the layers' arrays, in the model's own types, and where each prompt starts in them."""
    longest = max(map(len, prompts))
    if longest > evaluator.longest:
        raise BadValue(
            f"prompt_cache must be None for a model whose cache cannot be cut at {longest}"
        )
    count, kinds = evaluator.n_layers, [type(layer) for layer in prompt_cache]
    if kinds not in ([KVCache] * count, [BatchKVCache] * count):
        raise BadValue(f"prompt_cache must be {count} KVCache or BatchKVCache, got {kinds}")
    starts = [0] * len(prompts)
    if kinds[0] is BatchKVCache:
        starts = prompt_cache[0].left_padding.tolist()
    own, layers = kv.make(evaluator.model), []
    evaluator.model(mx.array([[0]]), cache=own)  # never evaluated: shapes are known before numbers
    for number, (layer, mine) in enumerate(zip(prompt_cache, own, strict=True)):
        rows = 0 if layer.keys is None else layer.keys.shape[0]
        if rows != len(prompts):
            raise BadValue(
                f"prompt_cache must have a row for each of {len(prompts)} prompts, got {rows}"
            )
        if _heads(layer) != _heads(mine):
            raise BadValue(
                f"prompt_cache must hold keys and values of (heads, size) {_heads(mine)} in layer "
                f"{number}, got {_heads(layer)}"
            )
        for i, (prompt, start) in enumerate(zip(prompts, starts, strict=True)):
            if layer.size() - start < len(prompt):
                raise BadValue(
                    f"prompt_cache must hold all {len(prompt)} tokens of prompt {i}, "
                    f"got {layer.size() - start}"
                )
        pair = layer.keys.astype(mine.keys.dtype), layer.values.astype(mine.values.dtype)
        layers.append(pair)
    mx.eval(layers)  # what fails, fails before anything has changed
    return layers, starts


def _heads(layer: Any) -> list[tuple[int, int]]:
    """Return the number of heads and their size, of the keys and of the values."""
    return [(array.shape[1], array.shape[3]) for array in (layer.keys, layer.values)]
