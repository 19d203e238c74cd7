"""Several texts speculate together: one draft and one verification for all, a verdict for each.

Rows accept different numbers of drafts, so after a round each stands somewhere else; the batch
caches of mlx-lm can hold that (``lablib.cache.rewind_batch``). A row's tokens depend on its own
text and random numbers only: it is the same alone, in any batch and beside any other row.
"""

from collections.abc import Collection, Sequence
from typing import Any, Unpack

from lablib.cache import kv
from lablib.cache.rewind import Rewinder, check_rewindable
from lablib.inference import arguments
from lablib.inference.decoding.batches import ReadPrompts, SampleParts, can_share, sample_parts
from lablib.inference.decoding.rows import Samples
from lablib.inference.keywords import Ended, SamplerKeywords, SpeculativeKeywords
from lablib.inference.sampling.processors import LogitsProcessor
from lablib.inference.speculation.draft_length import FixedLength
from lablib.inference.speculation.draft_model import as_drafter
from lablib.inference.speculation.rules import named
from lablib.inference.speculation.speculative_iterator import own_reader, speculative_decoder

import mlx.core as mx


def speculative_sample_n(
    target: Any,
    draft_model: Any,
    prompt: Sequence[int] | mx.array,
    n: int,
    **options: Unpack[SpeculativeKeywords],
) -> Samples:
    """Draw ``n`` completions of one prompt, as ``sample_n`` does, with the help of a drafter.

    The prompt is read once (:func:`speculative_batch` takes several). Under ``rule="match"`` row i
    is the row i of ``sample_n`` with the same seed. The other arguments are those of
    :func:`speculative_batches`.
    """
    prompts = [prompt] * arguments.check_n(n)
    return speculative_batch(target, draft_model, prompts, **options)


def speculative_batch(
    target: Any,
    draft_model: Any,
    prompts: Sequence[Sequence[int] | mx.array],
    **options: Unpack[SpeculativeKeywords],
) -> Samples:
    """Complete several prompts at once; the arguments are those of :func:`speculative_batches`."""
    return speculative_batches(target, draft_model, prompts, **options).join()


def speculative_batches(
    target: Any,
    draft_model: Any,
    prompts: Sequence[Sequence[int] | mx.array],
    *,
    max_tokens: int = 100,
    draft_tokens: int = 4,
    rule: str | None = None,
    stop_tokens: Collection[int] | None = None,
    max_batch: int | None = None,
    prefill_step_size: int = 512,
    logits_processors: Sequence[LogitsProcessor] = (),
    progress: bool = False,
    ended: Ended | None = None,
    **sampler_options: Unpack[SamplerKeywords],
) -> SampleParts:
    """Complete several prompts, and yield them in parts of ``max_batch`` as they are ready.

    Keywords mean the same as in ``sample_n`` and ``SpeculativeTokenIterator`` (``draft_tokens`` is
    a number); row i draws from stream i of the seed, and the beginning that its prompt shares with
    the one before is not read again. Rows that cannot share a batch (a quantised cache, Mamba 1, a
    drafter that works in the target's cache, a text that may fill a table of positions) run one by
    one, with the same result. A row leaves after a stop token, or after the round in which
    ``ended(i, its tokens)`` has become true.

    Raises:
        ValueError, TypeError: an argument is out of range; at the call, before any work.
    """
    request = arguments.read_request(
        speculative_batches,
        target,
        prompts,
        max_tokens=max_tokens,
        stop_tokens=stop_tokens,
        prefill_step_size=prefill_step_size,
        sampler_options=sampler_options,
        logits_processors=logits_processors,
        name="target",
        several=True,
        samples=True,
    )
    length = FixedLength(draft_tokens)
    drafter = as_drafter(draft_model)
    rule = named(rule, drafter.trees)
    trial = Rewinder(target, kv.make(target))
    own = own_reader(drafter, trial)
    drafter.begin(trial, own, 1)  # refuses a target that does not fit
    models = [target]
    if own is not None:
        arguments.check_lengths(own.model, request.prompts, max_tokens)
        models.append(own.model)
    together = (
        drafter.batches and not drafter.trees and can_share(models, request, length.draft_tokens)
    )
    if not together:
        check_rewindable(trial.cache)
    read = ReadPrompts(models, request.step_size, drafter, together)
    decoder = speculative_decoder(request, target, drafter, rule, length)
    return sample_parts(decoder, read, request, request.prompts, max_batch, progress, ended)
