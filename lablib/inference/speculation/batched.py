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
from lablib.inference.decoding.parties import ReadPrompts, SampleParts, can_share, prompt_parts
from lablib.inference.decoding.rows import Samples
from lablib.inference.keywords import SamplersOfEach, SpeculativeKeywords
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
    is the row i of ``sample_n`` with the same seed.

    Args:
        target: any mlx-lm model; its texts come out.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        prompt: token ids ``(T,)`` or ``(1, T)``.
        n: how many completions.
        **options: the keywords of :func:`speculative_batches`.

    Returns:
        The completions; a sequence of their tokens.

    Raises:
        ValueError, TypeError: an argument is out of range; before any work.

    Example:
        >>> rows = lablib.speculative_sample_n(model, draft, prompt, 3, rule="match", seed=0)
        >>> rows.tokens == lablib.sample_n(model, prompt, 3, seed=0).tokens
        True
    """
    prompts = [prompt] * arguments.check_n(n)
    return speculative_batch(target, draft_model, prompts, **options)


def speculative_batch(
    target: Any,
    draft_model: Any,
    prompts: Sequence[Sequence[int] | mx.array],
    **options: Unpack[SpeculativeKeywords],
) -> Samples:
    """Complete several prompts at once, with the help of a drafter.

    Args:
        target: any mlx-lm model; its texts come out.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        prompts: token ids, at least one each.
        **options: the keywords of :func:`speculative_batches`.

    Returns:
        The completions, in the order of ``prompts``.

    Raises:
        ValueError, TypeError: an argument is out of range; before any work.

    Example:
        >>> rows = lablib.speculative_batch(model, draft, [prompt, prompt[:5]], max_tokens=6)
        >>> len(rows), rows.stats["rounds"] > 0
        (2, True)
    """
    return speculative_batches(target, draft_model, prompts, **options).join()


def speculative_batches(
    target: Any,
    draft_model: Any,
    prompts: Sequence[Sequence[int] | mx.array],
    *,
    max_tokens: int | Sequence[int] = 100,
    draft_tokens: int = 4,
    rule: str | None = None,
    stop_tokens: Collection[int] | None = None,
    stop: str | Sequence[str] = (),
    tokenizer: Any = None,
    max_batch: int | None = None,
    prefill_step_size: int = 512,
    logits_processors: Sequence[LogitsProcessor] = (),
    progress: bool = False,
    **sampler_options: Unpack[SamplersOfEach],
) -> SampleParts:
    """Complete several prompts, and yield them in parts of ``max_batch`` as they are ready.

    Row i draws from stream i of the seed, and the beginning that its prompt shares with the one
    before is not read again. Rows that cannot share a batch (a quantised cache, Mamba 1, a drafter
    that works in the target's cache, a text that may fill a table of positions) run one by one,
    with the same result.

    Args:
        target: any mlx-lm model; its texts come out.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        prompts: token ids, at least one each.
        max_tokens: the length of a completion at most.
        draft_tokens: how many tokens to draft in a round, at least 1.
        rule: a name in ``rules.RULE``, such as "match" or "block"; None means "rejection".
        stop_tokens: ids that end a row; None means the model's own.
        stop: a string, or several: a row ends at the token that completes one.
        tokenizer: reads the tokens, to find stop strings.
        max_batch: at most so many rows at a time, to bound memory; None means all.
        prefill_step_size: how many prompt tokens are read at once.
        logits_processors: as in ``TokenIterator``, for both models.
        progress: show a progress bar.
        **sampler_options: the fields of :class:`SamplerOptions`. These and ``max_tokens`` may be
            lists, with a value for each row.

    Returns:
        An iterator of :class:`Samples`; ``join()`` makes one of all, ``close()`` stops.

    Raises:
        ValueError, TypeError: an argument is out of range; at the call, before any work.

    Example:
        >>> parts = lablib.inference.speculative_batches(model, draft, [prompt] * 3, max_batch=2)
        >>> [len(part) for part in parts]
        [2, 1]
    """
    request = arguments.read_request(
        speculative_batches,
        target,
        prompts,
        max_tokens=max_tokens,
        stop_tokens=stop_tokens,
        stop=stop,
        tokenizer=tokenizer,
        prefill_step_size=prefill_step_size,
        sampler_options=sampler_options,
        logits_processors=logits_processors,
        name="target",
        several=True,
    )
    length = FixedLength(draft_tokens)
    drafter = as_drafter(draft_model)
    rule = named(rule, drafter.trees)
    trial = Rewinder(target, kv.make(target))
    own = own_reader(drafter, trial)
    drafter.begin(trial, own, 1)  # refuses a target that does not fit
    models = [target]
    if own is not None:
        arguments.check_lengths(own.model, request.prompts, request.lengths)
        models.append(own.model)
    together = (
        drafter.batches and not drafter.trees and can_share(models, request, length.draft_tokens)
    )
    if not together:
        check_rewindable(trial.cache)
    read = ReadPrompts(models, request.step_size, drafter, together)
    decoder = speculative_decoder(request, target, drafter, rule, length)
    return prompt_parts(decoder, read, request, max_batch, progress)
