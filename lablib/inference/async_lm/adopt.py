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

Layers = list[list[mx.array]]  # of each layer keys and values, (heads, T, head size)


def adopt(
    evaluator: BatchEvaluator,
    prompts: list[Prompt],
    prompt_cache: Sequence[Any] | None,
    logprobs: Sequence[mx.array] | mx.array | None,
) -> None:
    """Store keys and values, log-probabilities or both of some prompts, once all fits.

    Raises:
        BadValue: they are not of these prompts or this model; nothing has changed then.
    """
    trie, count, size = evaluator.trie, len(prompts), evaluator.vocab_size
    rows: list[mx.array | None] = [None] * count
    if logprobs is not None:
        shapes = [tuple(row.shape) for row in logprobs]
        if shapes != [(size,)] * count:
            raise BadValue(f"logprobs must be {count} of {size}, got {shapes}")
        rows = [row.astype(mx.float32) + 0 for row in logprobs]
    given = None if prompt_cache is None else _checked(evaluator, prompts, prompt_cache)
    mx.eval(rows, given)  # what fails, fails before anything has changed
    for number, (prompt, row) in enumerate(zip(prompts, rows, strict=True)):
        if given is None:
            trie.insert(prompt, logprobs=row)
        else:
            _insert(trie, prompt, given[number], row)


def _insert(trie: TokenTrie, prompt: Prompt, layers: Layers, row: mx.array | None) -> None:
    """Store one prompt: copy the keys and values that the tree lacks."""
    known = trie.match(prompt)
    held = len(known.slots)
    with Lease(trie) as lease:
        lease.pin(known.tip)
        trie.make_room(len(prompt) - held)
        slots = lease.allocate(len(prompt) - held)
        for layer, pair in enumerate(layers if len(slots) else ()):
            new = (array[:, held:].swapaxes(0, 1) for array in pair)
            trie.slab.write(layer, mx.array(slots), *new)
        mx.eval(trie.slab.arrays)
        lease.insert(prompt, slots, held, row)


def _checked(
    evaluator: BatchEvaluator, prompts: list[Prompt], prompt_cache: Sequence[Any]
) -> list[Layers]:
    """Return the keys and values of each prompt's own tokens, in the model's own types."""
    longest, count = max(map(len, prompts)), evaluator.n_layers
    kinds = [type(layer) for layer in prompt_cache]
    if longest > evaluator.longest:
        raise BadValue(
            f"prompt_cache must be None for a model whose cache cannot be cut at {longest}"
        )
    if kinds not in ([KVCache] * count, [BatchKVCache] * count):
        raise BadValue(f"prompt_cache must be {count} KVCache or BatchKVCache, got {kinds}")
    padding = getattr(prompt_cache[0], "left_padding", mx.zeros(len(prompts), mx.int32)).tolist()
    own = kv.make(evaluator.model)
    evaluator.model(mx.array([[0]]), cache=own)  # not evaluated: shapes are known before numbers
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
        for i, (prompt, start) in enumerate(zip(prompts, padding, strict=True)):
            if (held := layer.size() - start) < len(prompt):
                raise BadValue(
                    f"prompt_cache must hold all {len(prompt)} tokens of prompt {i}, got {held}"
                )
    pairs = list(zip(prompt_cache, own, strict=True))
    spans = [slice(start, start + len(p)) for p, start in zip(prompts, padding, strict=True)]
    return [
        [
            [a[row, :, span].astype(b.dtype) for a, b in ((x.keys, y.keys), (x.values, y.values))]
            for x, y in pairs
        ]
        for row, span in enumerate(spans)
    ]


def _heads(layer: Any) -> list[tuple[int, int]]:
    """Return the number of heads and their size, of the keys and of the values."""
    return [(array.shape[1], array.shape[3]) for array in (layer.keys, layer.values)]
