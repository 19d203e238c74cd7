"""Many completions of one prompt: read it once, fan the cache out, drop the rows that finish.

The cost of ``n`` samples is one prompt, and one batched forward for each further token of the
longest one, of the rows that are still alive. The loop is ``batch.py``.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from lablib.cache import kv
from lablib.inference import arguments
from lablib.inference.samples import Row, Samples
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.voting.batch import GrowingBatch, last_logits, read_prompt
from lablib.validation import BadValue, flag, integer, sequence

import mlx.core as mx


def sample_n(model: Any, prompt: Sequence[int] | mx.array, n: int, **options: Any) -> Samples:
    """Draw ``n`` independent completions of one prompt, which is read once.

    ``options`` are the keywords of :func:`sample_batches`: ``max_tokens=100``, ``stop_tokens=()``,
    ``seed=None``, ``max_batch=None``, ``progress=False``, and those of the sampler.
    """
    return Samples.joined(sample_batches(model, prompt, n, **options))


def sample_batches(
    model: Any, prompt: Sequence[int] | mx.array, n: int, *, max_tokens: int = 100,
    stop_tokens: Collection[int] = (), max_batch: int | None = None, prefill_step_size: int = 512,
    progress: bool = False, **sampler_options: Any,
) -> Iterator[Samples]:  # fmt: skip
    """Yield what :func:`sample_n` returns in parts of ``max_batch`` rows, as they are ready.

    Whoever has seen enough stops asking: the prompt was read once, and later rows are never drawn.

    Args:
        model: ``model(tokens (B, T), cache=...) -> logits (B, T, V)``.
        prompt: token ids, at least one.
        n: how many completions.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end a row, which then leaves the batch.
        max_batch: at most so many rows at a time, to bound memory; None means all.
        prefill_step_size: how many prompt tokens are read at once.
        progress: show a progress bar.
        **sampler_options: the fields of :class:`SamplerOptions`, such as ``temperature=0.8``. Row i
            draws from the random numbers of (``seed``, i): it is the same for every ``n`` and
            ``max_batch``, and the same as a sampler's slot added with ``stream=i``.

    Raises:
        ValueError, TypeError: an argument is out of range, at the call and not at the first
            ``next``; or, later, the model's logits are not finite.
    """
    n = integer("n", n, 1)
    max_batch = n if max_batch is None else integer("max_batch", max_batch, 1)
    flag("progress", progress)
    asked = arguments.read_request(
        sample_batches, model, prompt, max_tokens=max_tokens, stop_tokens=stop_tokens,
        prefill_step_size=prefill_step_size, sampler_options=sampler_options, many=True,
    )  # fmt: skip

    def batches() -> Iterator[Samples]:
        from tqdm.auto import tqdm

        with tqdm(total=n * max_tokens, unit="token", leave=False, disable=not progress) as bar:
            cache = kv.make(model)
            logits = read_prompt(model, asked.prompt, cache, asked.step_size)
            for first in range(0, n, max_batch):
                numbers = range(first, min(first + max_batch, n))
                rows = [Row(i, asked.prompt, asked.options, i) for i in numbers]
                num_ctx = len(asked.prompt) + max_tokens
                batch = GrowingBatch(model, num_ctx, asked.stops, max_tokens, bar.update)
                fanned_out = mx.broadcast_to(logits, (len(rows), logits.shape[-1]))
                batch.join(rows, kv.expand(cache, len(rows)), fanned_out)
                batch.run()
                yield Samples.of(rows, asked.stops)

    return batches()


def complete(
    model: Any, prompts: Sequence[Sequence[int]], n: int = 1, *, seeds: Sequence[int],
    temperature: float = 1.0, max_tokens: int = 64, stop_tokens: Iterable[int] = (),
    max_rows: int = 256,
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
        rows.append([Row(j * n + i, prompt, options, i) for i in range(n)])
        by_length.setdefault(len(prompt), []).append(rows[-1])
    at_once = max(1, at_once // n)
    for length, equal in by_length.items():
        for first in range(0, len(equal), at_once):
            chunk, cache = equal[first : first + at_once], kv.make(model)
            logits = last_logits(model, mx.array([each[0].prompt for each in chunk]), cache)
            fan_out = [place for place in range(len(chunk)) for _ in range(n)]
            kv.select(cache, fan_out)
            batch = GrowingBatch(model, length + max_tokens, stops, max_tokens)
            batch.join([*chain(*chunk)], cache, logits[mx.array(fan_out)])
            batch.run()
    return [Samples.of(each, stops) for each in rows]
