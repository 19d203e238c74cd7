"""Many completions, of one prompt or of several, with a drafter's help or without: one door.

``samples`` checks its arguments, and has a decoder write the rows in parts. The prompt that n rows
share is read once, and its cache fanned out (with drafts merged: one that was fanned out can't be
taken back row by row). Rows of several prompts differ in length, and the batch caches of mlx-lm pad
the shorter ones on the left. With a drafter a round is one draft and one
verification for all, and a verdict for each: rows accept different numbers of drafts, so that
afterwards each stands somewhere else (``lablib.cache.rewind_batch``). A row's tokens depend on its
own text and random numbers only: it is the same alone, in any batch and beside any other row.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from lablib.cache import kv
from lablib.cache.rewind import Rewinder, check_rewindable
from lablib.inference import arguments
from lablib.inference.arguments import Prompt
from lablib.inference.decoding.decoder import Decoder
from lablib.inference.decoding.rows import Samples
from lablib.inference.decoding.scheduler import (
    ReadPrompts,
    ReadShared,
    SampleParts,
    can_share,
    decode_parts,
)
from lablib.inference.keywords import SampleKeywords, SpeculativeKeywords, described
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.draft_length import FixedLength
from lablib.inference.speculation.draft_model import as_drafter
from lablib.inference.speculation.rules import named
from lablib.inference.speculation.speculative_iterator import own_reader, speculative_decoder
from lablib.unknown_options import check_options
from lablib.validation import BadValue, flag, integer


@described(SpeculativeKeywords)
def samples(
    model: Any,
    prompts: Sequence[Prompt],
    n: int = 1,
    draft_model: Any = None,
    **options: Unpack[SpeculativeKeywords],
) -> SampleParts:
    """Complete prompts, ``n`` times each, in parts of ``max_batch`` rows, as they are ready.

    The cost of ``n`` samples of a prompt is one prompt, and one batched forward for each further
    token of the longest one, of the rows that are still alive. The beginning that a prompt shares
    with the one before is not read again. Rows that cannot share a batch (a quantised cache, Mamba
    1, a drafter that works in the target's cache, a text that may fill a table of positions) run
    one by one, with the same result.

    Args:
        model: ``model(tokens (B, T), cache=...) -> logits (B, T, V)``; its texts come out.
        prompts: token ids, at least one each; with ``tokenizer=`` texts or messages, too.
        n: how many completions of each prompt; those of one prompt are side by side.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        **options: those that follow; a list of values gives each row its own.

    Row i draws from the random numbers of (``seed``, i): it is the same for every number of rows
    and every ``max_batch``, and the same as a sampler's slot added with ``stream=i``.

    A row with a seed of its own draws from stream 0 of it.

    Returns:
        An iterator of :class:`Samples`; ``join()`` makes one of all, ``close()`` stops.

    Raises:
        ValueError, TypeError: an argument is out of range, at the call and not at the first
            ``next``; or, later, the model's logits are not finite.

    Example:
        >>> parts = lablib.inference.samples(model, [prompt, prompt[:4]], 2, max_tokens=3)
        >>> [len(part) for part in parts]
        [4]
    """
    check_options(samples, options)
    n = arguments.check_n(n)
    return complete(model, prompts, draft_model, each=n, **options)


def complete(
    model: Any,
    prompts: Any,
    draft_model: Any,
    *,
    n: int | None = None,
    each: int = 1,
    name: str = "model",
    max_batch: Any = None,
    progress: Any = False,
    streams: Sequence[int] | None = None,
    **options: Any,
) -> SampleParts:
    """Check the options of :func:`samples`, whose names are known; nothing is drawn yet.

    With ``n`` there is one prompt, of which so many completions are wanted; else several, ``each``
    of them so often. Row i draws from ``streams[i]`` of its seed; None: from i. Messages call the
    model ``name``.
    """
    flag("progress", progress)
    if draft_model is None:
        arguments.refuse_draft_options(options)
    drafts = options.pop("draft_tokens", 4), options.pop("rule", None)
    how: Any = {"name": name, "several": n is None, "each": each, "n": n}
    request = arguments.read_request(model, prompts, **how, **options)
    if streams is not None:
        request = replace(request, streams=streams)
    read: ReadShared | ReadPrompts
    if draft_model is not None:
        decoder, read = _with_drafts(request, model, draft_model, *drafts)
    else:
        decoder = Decoder(TextSampler(request.processors, n_known=request.n_known))
        if n is not None:
            read = ReadShared(model, request.step_size)
        else:
            together = can_share([model], request)
            read = ReadPrompts([model], request.step_size, together=together)
    rows = len(request.prompts)
    if not rows:
        raise BadValue("prompts must hold at least one prompt, got none")
    max_batch = rows if max_batch is None else integer("max_batch", max_batch, 1)
    parts = decode_parts(decoder, read, request, max_batch, progress)
    return SampleParts(request, parts)


def _with_drafts(
    request: arguments.Request, target: Any, draft_model: Any, draft_tokens: Any, rule: Any
) -> tuple[Decoder, ReadPrompts]:
    """Return a decoder whose rounds begin with drafts, and what reads the prompts for it."""
    length = FixedLength(draft_tokens)
    drafter = as_drafter(draft_model)
    rule = named(rule, drafter.trees)
    trial = Rewinder(target, kv.make(target))
    own = own_reader(drafter, trial)
    drafter.begin(trial, own, 1)  # refuses a target that does not fit
    models, tried = [target], [target]
    if own is not None:
        arguments.check_lengths(own.model, request.prompts, request.lengths, name="draft model")
        models.append(own.model)  # perhaps with other rows, and so made anew at each call
        tried.append(drafter.model)
    together = (
        drafter.batches and not drafter.trees and can_share(tried, request, length.draft_tokens)
    )
    if not together:
        check_rewindable(trial.cache)
    read = ReadPrompts(models, request.step_size, drafter, together)
    return speculative_decoder(request, target, drafter, rule, length), read


# --- shorthands --------------------------------------


@described(SampleKeywords)
def sample_n(model: Any, prompt: Prompt, n: int, **options: Unpack[SampleKeywords]) -> Samples:
    """Draw ``n`` independent completions of one prompt, which is read once.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompt: token ids ``(T,)`` or ``(1, T)``, at least one; with ``tokenizer=`` also a text or
            messages, which ``Samples.texts`` continues.
        n: how many completions.
        **options: those that follow; a list of values gives each row its own.

    Returns:
        The completions; a sequence of their tokens.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work; or logits are NaN.

    Example:
        >>> samples = lablib.sample_n(model, prompt, 4, seed=0)
        >>> samples.tokens[:2] == lablib.sample_n(model, prompt, 2, seed=0).tokens
        True
        >>> dot = lablib.sample_n(model, prompt, 4, stop=["."], tokenizer=tokenizer, max_tokens=9)
        >>> any("." in text for text in dot.texts(tokenizer))
        False
    """
    check_options(sample_n, options)
    return complete(model, prompt, None, n=arguments.check_n(n), **options).join()


@described(SampleKeywords)
def sample_batches(
    model: Any, prompt: Prompt, n: int, **options: Unpack[SampleKeywords]
) -> SampleParts:
    """Yield the samples of :func:`sample_n` in parts, as ``samples`` does.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompt: token ids, at least one.
        n: how many completions.
        **options: those that follow.

    Returns:
        An iterator of :class:`Samples`.

    Raises:
        ValueError, TypeError: an argument is out of range, at the call.

    Example:
        >>> parts = lablib.inference.sample_batches(model, prompt, 5, max_batch=2, max_tokens=3)
        >>> [len(part) for part in parts]
        [2, 2, 1]
    """
    check_options(sample_batches, options)
    return complete(model, prompt, None, n=arguments.check_n(n), **options)


@described(SpeculativeKeywords)
def speculative_sample_n(
    target: Any,
    draft_model: Any,
    prompt: Prompt,
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
        **options: those that follow.

    Returns:
        The completions; a sequence of their tokens.

    Raises:
        ValueError, TypeError: an argument is out of range; before any work.

    Example:
        >>> rows = lablib.speculative_sample_n(model, draft, prompt, 3, rule="match", seed=0)
        >>> rows.tokens == lablib.sample_n(model, prompt, 3, seed=0).tokens
        True
    """
    check_options(speculative_sample_n, options)
    drafter, n = as_drafter(draft_model), arguments.check_n(n)
    return complete(target, prompt, drafter, n=n, name="target", **options).join()


@described(SpeculativeKeywords)
def speculative_batch(
    target: Any,
    draft_model: Any,
    prompts: Sequence[Prompt],
    **options: Unpack[SpeculativeKeywords],
) -> Samples:
    """Complete several prompts at once, with the help of a drafter.

    Args:
        target: any mlx-lm model; its texts come out.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        prompts: token ids, at least one each.
        **options: those that follow.

    Returns:
        The completions, in the order of ``prompts``.

    Raises:
        ValueError, TypeError: an argument is out of range; before any work.

    Example:
        >>> rows = lablib.speculative_batch(model, draft, [prompt, prompt[:5]], max_tokens=6)
        >>> len(rows), rows.stats["rounds"] > 0
        (2, True)
    """
    check_options(speculative_batch, options, trace=" (of one text: speculative_decode has it)")
    drafter = as_drafter(draft_model)
    return complete(target, prompts, drafter, name="target", **options).join()


@described(SpeculativeKeywords)
def speculative_batches(
    target: Any,
    draft_model: Any,
    prompts: Sequence[Prompt],
    **options: Unpack[SpeculativeKeywords],
) -> SampleParts:
    """Complete several prompts with a drafter's help, in parts, as ``samples`` does.

    Args:
        target: any mlx-lm model; its texts come out.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        prompts: token ids, at least one each.
        **options: those that follow.

    Returns:
        An iterator of :class:`Samples`.

    Raises:
        ValueError, TypeError: an argument is out of range, at the call.

    Example:
        >>> parts = lablib.inference.speculative_batches(model, draft, [prompt] * 3, max_batch=2)
        >>> [len(part) for part in parts]
        [2, 1]
    """
    check_options(speculative_batches, options)
    drafter = as_drafter(draft_model)
    return complete(target, prompts, drafter, name="target", **options)
