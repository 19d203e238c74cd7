"""Many completions of one prompt: read it once, fan the cache out, drop the rows that finish.

The cost of ``n`` samples is one prompt, and one batched forward for each further token of the
longest one, of the rows that are still alive. The loop is ``batch.py``.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.shared import fan_out
from lablib.inference import arguments
from lablib.inference.samples import Row, Samples
from lablib.inference.token_loop import read_up_to_last
from lablib.inference.voting.batch import GrowingBatch, last_logits
from lablib.validation import flag, integer

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
            read_up_to_last(model, asked.prompt, cache, asked.step_size)
            logits = last_logits(model, mx.array([asked.prompt[-1:]]), cache)
            more = asked.max_tokens, asked.stops
            for first in range(0, n, max_batch):
                numbers = range(first, min(first + max_batch, n))
                rows = [Row(i, asked.prompt, asked.options, i, *more) for i in numbers]
                batch = GrowingBatch(model, len(asked.prompt) + max_tokens, bar.update)
                fanned_out = mx.broadcast_to(logits, (len(rows), logits.shape[-1]))
                batch.join(rows, fan_out(model, cache, len(rows)), fanned_out)
                batch.run()
                yield Samples.of(rows)

    return batches()
