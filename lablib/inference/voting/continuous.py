"""Continuous batching: a slot that falls free is given to the next in the queue at once.

The rows of a prompt join between two steps: it is read alone, then its cache becomes part of the
batch (Yu et al., OSDI 2022, "Orca"). Rows differ in length; the batch caches of mlx-lm pad the
shorter ones on the left, and attention skips the padding. No text depends on its neighbours.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import can_batch
from lablib.cache.shared import fan_out
from lablib.inference.arguments import check_length, check_prompts, check_stops
from lablib.inference.samples import Row, Samples
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.token_loop import PromptReader
from lablib.inference.voting.batch import GrowingBatch, last_logits
from lablib.validation import BadType, BadValue, integer, sequence, shown

import mlx.core as mx

_STEP = 32  # tokens by which rows grow: whenever one leaves or joins, all of the batch is copied


def sample_many(
    model: Any, prompts: Sequence[Sequence[int]], options: Sequence[SamplerOptions], n: int = 1, *,
    max_batch: int = 32, max_tokens: int = 100, stop_tokens: Iterable[int] = (),
    prefill_step_size: int = 512,
) -> list[Samples]:  # fmt: skip
    """Complete a queue of ``prompts`` (token ids), ``n`` times each; ``max_batch`` rows at a time.

    The rows of a prompt join together, once there are free places for all, first come first served.
    What a prompt has in common with the one before is not read again, so those that begin alike
    belong side by side. Of a model whose rows of different length cannot share a batch, only the
    rows of one prompt do. ``schedule(lengths, max_batch)`` of ``lablib.course.theory.slots`` tells
    for n = 1 who sat where, and when.

    Args:
        model: ``model(tokens (B, T), cache=...) -> logits (B, T, V)``.
        prompts: token ids, at least one each.
        options: one for each prompt. Row i draws from the random numbers of (its seed, i): it is
            what ``sample_n`` with these options draws.
        n: how many completions of each prompt.
        max_batch: at most so many rows at a time, which bounds memory.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end a row, which then leaves the batch.
        prefill_step_size: how many prompt tokens are read at once.

    Returns:
        The samples of each prompt, in the order of ``prompts``.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work; or logits are NaN.
    """
    prompts, options = check_prompts(model, prompts), sequence("options", options, "SamplerOptions")
    stops, max_tokens = check_stops(model, stop_tokens), integer("max_tokens", max_tokens, 1)
    n, max_batch = integer("n", n, 1), integer("max_batch", max_batch, 1)
    reader = PromptReader(model, integer("prefill_step_size", prefill_step_size, 1))
    _check(options, len(prompts))
    for prompt in prompts:
        check_length(model, prompt, max_tokens)
    rows = [
        [Row(j * n + i, *pair, i, max_tokens, stops) for i in range(n)]
        for j, pair in enumerate(zip(prompts, options, strict=True))
    ]
    parties = deque(each[i : i + max_batch] for each in rows for i in range(0, n, max_batch))
    batch = GrowingBatch(model, max(map(len, prompts), default=0) + max_tokens)
    ragged = can_batch(model, kv.make(model))
    while parties or batch.rows:
        joining: list[Row] = []
        while parties and len(batch.rows) + len(joining) + len(parties[0]) <= max_batch:
            if (batch.rows or joining) and not ragged:
                break
            joining += parties.popleft()
        if joining:
            cache = _read(reader, joining, ragged)
            last = mx.array([row.prompt[-1:] for row in joining])
            batch.join(joining, cache, last_logits(model, last, cache))
        batch.step()
    return [Samples.of(each) for each in rows]


def _check(options: Sequence[Any], count: int) -> None:
    if len(options) != count:
        raise BadValue(f"options must be one for each of {count} prompts, got {len(options)}")
    for number, each in enumerate(options):
        if not isinstance(each, SamplerOptions):
            raise BadType(f"options[{number}] must be SamplerOptions, got {shown(each)}")
        if each.top_logprobs:
            raise BadValue(f"options[{number}].top_logprobs must be 0, got {each.top_logprobs}")


def _read(reader: PromptReader, rows: Sequence[Row], ragged: bool) -> kv.Cache:
    """Return a cache of the rows' prompts, all but the last tokens; all equal if not ``ragged``."""
    if not ragged:
        return fan_out(reader.model, reader.read(rows[0].prompt), len(rows))
    cache = kv.merge([reader.read(row.prompt) for row in rows])
    for layer in cache:
        layer.step = _STEP
    return cache
