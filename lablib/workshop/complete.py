"""Many completions of many prompts: what the measurements draw, a few thousand rows at a time."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from lablib.cache import kv
from lablib.inference import arguments
from lablib.inference.samples import Row, Samples
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.voting.batch import GrowingBatch, last_logits
from lablib.validation import BadValue, integer, sequence

import mlx.core as mx


def complete(
    model: Any, prompts: Sequence[Sequence[int]], n: int = 1, *, seeds: Sequence[int],
    temperature: float = 1.0, max_tokens: int = 64, stop_tokens: Iterable[int] = (),
    max_rows: int = 32,
) -> list[Samples]:  # fmt: skip
    """Draw ``n`` completions of each prompt: what ``sample_n`` would, prompt after prompt.

    Prompts of equal length are read together, and their rows decode together, about ``max_rows`` at
    once. Row i of prompt j draws from the random numbers of (``seeds[j]``, i), as in
    ``sample_n(..., seed=seeds[j])``.

    Returns:
        The samples of each prompt, in the order of ``prompts``.

    Raises:
        ValueError, TypeError: an argument is out of range, or the model's logits are not finite.
    """
    prompts, seeds = arguments.check_prompts(model, prompts), sequence("seeds", seeds, "seeds")
    stops, n = arguments.check_stops(model, stop_tokens), integer("n", n, 1)
    max_tokens, at_once = integer("max_tokens", max_tokens, 1), integer("max_rows", max_rows, 1)
    if len(seeds) != len(prompts):
        raise BadValue(f"seeds must be one for each of {len(prompts)} prompts, got {len(seeds)}")
    rows: list[list[Row]] = []  # of each prompt
    by_length: dict[int, list[list[Row]]] = {}
    for j, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True)):
        arguments.check_length(model, prompt, max_tokens)
        options = SamplerOptions(temperature, seed=seed)
        rows.append([Row(j * n + i, prompt, options, i, max_tokens, stops) for i in range(n)])
        by_length.setdefault(len(prompt), []).append(rows[-1])
    at_once = max(1, at_once // n)
    for length, equal in by_length.items():
        for first in range(0, len(equal), at_once):
            chunk, cache = equal[first : first + at_once], kv.make(model)
            logits = last_logits(model, mx.array([each[0].prompt for each in chunk]), cache)
            fan_out = [place for place in range(len(chunk)) for _ in range(n)]
            kv.select(cache, fan_out)
            batch = GrowingBatch(model, length + max_tokens)
            batch.join([*chain(*chunk)], cache, logits[mx.array(fan_out)])
            batch.run()
    return [Samples.of(each) for each in rows]
