"""A queue of prompts: a place that falls free is given to the next one at once.

(Continuous batching, Yu et al., OSDI 2022, "Orca".) No text depends on its neighbours.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Unpack

from lablib.cache import kv
from lablib.cache.rewind_batch import can_batch
from lablib.chat_messages import Message
from lablib.inference import arguments
from lablib.inference.decoding.decoder import Decoder
from lablib.inference.decoding.rows import Samples
from lablib.inference.decoding.scheduler import (
    ReadPrompts,
    ReadShared,
    make_row,
    run_batches,
)
from lablib.inference.keywords import NoKeywords
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.processors import LogitsProcessor
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.unknown_options import check_options
from lablib.validation import BadType, BadValue, integer, sequence, shown

_STEP = 32  # tokens by which rows grow; more are copied in vain whenever a row leaves or joins
_HINTS = {
    name: f" (here it is options=, a SamplerOptions({name}=...) for each prompt)"
    for name in SamplerOptions.names()
}
_HINTS["progress"] = " (samples, vote_many and best_of_n_many have it)"


def sample_many(
    model: Any,
    prompts: Sequence[str | Sequence[int] | Sequence[Message]],
    options: SamplerOptions | Sequence[SamplerOptions] | None = None,
    n: int = 1,
    *,
    max_batch: int = 32,
    max_tokens: int | Sequence[int] = 100,
    stop_tokens: Collection[int] | None = None,
    stop: str | Sequence[str] = (),
    tokenizer: Any = None,
    prefill_step_size: int = 512,
    logits_processors: Sequence[LogitsProcessor] = (),
    **unknown: Unpack[NoKeywords],
) -> list[Samples]:
    """Complete a queue of ``prompts`` (token ids), ``n`` times each; ``max_batch`` rows at a time.

    The rows of a prompt join together, once there are free places for all, first come first served.
    The beginning that a prompt shares with the one before is not read again, so those that begin
    alike belong side by side. Where a model's rows of different length cannot share a batch, only
    the rows of one prompt do. ``schedule(lengths, max_batch)`` of ``lablib.course.theory.slots``
    tells for n = 1 who sat where, and when.

    Args:
        model: ``model(tokens (B, T), cache=...) -> logits (B, T, V)``.
        prompts: token ids, at least one each; with ``tokenizer=`` texts or messages, too.
        options: one for each prompt, or one for all; None: ``SamplerOptions()``. Row i draws from
            the random numbers of (its seed, i): it is the row i of ``sample_n`` with these options.
        n: how many completions of each prompt.
        max_batch: at most so many rows at a time, which bounds memory.
        max_tokens: the length of a completion at most; a list has one for each prompt.
        stop_tokens: ids that end a row, which then leaves the batch; None means the model's own,
            which ``lablib.load`` gives it.
        stop: a string, or several: a row ends at the token that completes one.
        tokenizer: reads texts and messages, finds stop strings, and its ids alone are drawn. None:
            all rows of the model are, but of one of ``lablib.load``'s, which knows its tokenizer's
            ids.
        prefill_step_size: how many prompt tokens are read at once.
        logits_processors: as in ``TokenIterator``; each row has copies of those with a state.
        **unknown: nothing else.

    Returns:
        The samples of each prompt, in the order of ``prompts``.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work; or logits are NaN.

    Example:
        >>> options = [lablib.SamplerOptions(seed=0), lablib.SamplerOptions(temperature=0.0)]
        >>> found = lablib.sample_many(model, [prompt, prompt[:4]], options, n=2, max_tokens=5)
        >>> [len(samples) for samples in found]
        [2, 2]
    """
    check_options(sample_many, unknown, **_HINTS)
    options = _checked(options, len(sequence("prompts", prompts, "prompts")))
    n = arguments.check_n(n)
    max_batch = integer("max_batch", max_batch, 1)
    request = arguments.read_request(
        model,
        prompts,
        max_tokens=max_tokens,
        stop_tokens=stop_tokens,
        stop=stop,
        tokenizer=tokenizer,
        prefill_step_size=prefill_step_size,
        logits_processors=logits_processors,
        several=True,
    )
    request = replace(request, options=options)
    rows = [
        [make_row(request, j, j * n + i, stream=i) for i in range(n)]
        for j in range(len(request.prompts))
    ]
    batches = [each[i : i + max_batch] for each in rows for i in range(0, n, max_batch)]
    decoder = Decoder(TextSampler(request.processors, n_known=request.n_known))
    if can_batch(model, kv.make(model)):
        read = ReadPrompts([model], request.step_size, grow_by=_STEP)
        rounds = run_batches(decoder, read, batches, max_batch)
    else:
        rounds = run_batches(decoder, ReadShared(model, request.step_size), batches)
    deque(rounds, maxlen=0)
    return [Samples.of(each, decoder.counts, request.stop) for each in rows]


def _checked(options: Any, count: int) -> list[SamplerOptions]:
    """Return the options of each prompt."""
    if options is None:
        options = SamplerOptions()
    if isinstance(options, SamplerOptions):
        return [options] * count
    options = sequence("options", options, "SamplerOptions")
    if len(options) != count:
        raise BadValue(f"options must be one for each of {count} prompts, got {len(options)}")
    for number, each in enumerate(options):
        if not isinstance(each, SamplerOptions):
            raise BadType(f"options[{number}] must be SamplerOptions, got {shown(each)}")
    return options
