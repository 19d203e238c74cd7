"""Continuous batching: a slot that falls free is given to the next in the queue at once.

A sequence joins between two steps: its prompt is read alone, then its cache becomes a row of the
batch (Yu et al., OSDI 2022, "Orca"). Rows differ in length; the batch caches of mlx-lm pad the
shorter ones on the left, and attention skips the padding. No text depends on its neighbours.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import can_batch
from lablib.inference.arguments import check_length, check_prompts, check_stops
from lablib.inference.samples import Row, Samples
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.voting.batch import GrowingBatch, read_prompt
from lablib.validation import BadType, BadValue, integer, sequence, shown

import mlx.core as mx


def serve(
    model: Any, prompts: Sequence[Sequence[int]], options: Sequence[SamplerOptions], *,
    slots: int = 4, max_tokens: int = 100, stop_tokens: Iterable[int] = (),
    prefill_step_size: int = 512,
) -> Samples:  # fmt: skip
    """Complete a queue of ``prompts`` (token ids), each with its own options, ``slots`` at a time.

    A model whose rows of different length cannot share a batch has one slot. The other arguments
    are those of ``sample_batches``; a stop token, or ``max_tokens``, makes a sequence leave its
    slot. ``lablib.theory.slots.schedule(samples.lengths, slots)`` tells who sat where, and when.

    Raises:
        ValueError, TypeError: an argument is out of range; before any work.
    """
    prompts, n = check_prompts(model, prompts), len(prompts)
    options = sequence("options", options, "SamplerOptions")
    stops, max_tokens = check_stops(model, stop_tokens), integer("max_tokens", max_tokens, 1)
    step_size = integer("prefill_step_size", prefill_step_size, 1)
    slots = integer("slots", slots, 1)
    if len(options) != n:
        raise BadValue(f"options must be one for each of {n} prompts, got {len(options)}")
    for number, each in enumerate(options):
        if not isinstance(each, SamplerOptions):
            raise BadType(f"options[{number}] must be SamplerOptions, got {shown(each)}")
    for prompt in prompts:
        check_length(model, prompt, max_tokens)
    if not can_batch(model, kv.make(model)):
        slots = 1
    pairs = zip(prompts, options, strict=True)
    rows = [Row(number, *pair, 0, max_tokens, stops) for number, pair in enumerate(pairs)]
    num_ctx = max(map(len, prompts), default=0) + max_tokens
    batch, waiting = GrowingBatch(model, num_ctx), list(rows)
    while waiting or batch.rows:
        free = slots - len(batch.rows)
        joining, waiting = waiting[:free], waiting[free:]
        if joining:
            caches = [kv.make(model) for _ in joining]
            pairs = zip(joining, caches, strict=True)
            logits = [read_prompt(model, row.prompt, cache, step_size) for row, cache in pairs]
            cache = kv.merge(caches) if slots > 1 else caches[0]
            batch.join(joining, cache, mx.concatenate(logits))
        batch.step()
    return Samples.of(rows)
