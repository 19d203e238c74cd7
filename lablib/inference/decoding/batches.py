"""Many completions: rows of one prompt or of several, side by side or one after the other.

Rows of one prompt share its reading: it is read once and its cache fanned out. Rows of several
prompts differ in length; the batch caches of mlx-lm pad the shorter ones on the left, and attention
skips the padding. A place that falls free is given to the next in the queue at once (continuous
batching, Yu et al., OSDI 2022, "Orca"). No text depends on its neighbours.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Unpack

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.cache.rewind_batch import BatchRewinder, can_batch
from lablib.cache.shared import fan_out
from lablib.inference import arguments
from lablib.inference.decoding.decoder import Decoder, Party, Reader
from lablib.inference.decoding.prompts import PromptReader, most_unread, read_prompt
from lablib.inference.decoding.rows import Counts, Row, Samples, Verdict, with_ratios
from lablib.inference.keywords import Ended, SampleKeywords, SamplerKeywords
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.processors import LogitsProcessor
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.models.interface import position_table_of
from lablib.validation import BadType, BadValue, flag, function, integer, sequence, shown

import mlx.core as mx

_STEP = 32  # tokens by which rows grow; more are copied in vain whenever a row leaves or joins

# Reads the prompts of rows. Returns the target's reader, the drafter that began or None, and the
# logits after the prompts if they were read whole.
ReadRows = Callable[[Party], tuple[Reader, Any, mx.array | None]]


class SampleParts(Iterator[Samples]):
    """Samples in parts, as they are ready.

    Whoever has seen enough stops asking: later rows are never drawn.

    Attributes:
        prompts: the checked prompts.
        stops: the checked stop tokens.
    """

    def __init__(self, request: arguments.Request, parts: Iterator[Samples]) -> None:
        self.prompts = request.prompts
        self.stops = request.stops
        self._parts = parts

    def __next__(self) -> Samples:
        return next(self._parts)

    def close(self) -> None:
        """Stop here."""
        self._parts.close()

    def join(self) -> Samples:
        """Return all parts as one."""
        joined = Samples([], [], [])
        counts = Counts()
        for part in self:
            joined.tokens.extend(part.tokens)
            joined.logprobs.extend(part.logprobs)
            joined.finished.extend(part.finished)
            for name in counts:
                counts[name] += part.stats[name]
        joined.stats.update(with_ratios(counts))
        return joined


def sample_n(
    model: Any, prompt: Sequence[int] | mx.array, n: int, **options: Unpack[SampleKeywords]
) -> Samples:
    """Draw ``n`` independent completions of one prompt, which is read once.

    ``options`` are the keywords of :func:`sample_batches`: ``max_tokens=100``,
    ``stop_tokens=None``, ``seed=None``, ``max_batch=None``, ``progress=False``, and those of the
    sampler.
    """
    return sample_batches(model, prompt, n, **options).join()


def sample_batches(
    model: Any,
    prompt: Sequence[int] | mx.array,
    n: int,
    *,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
    max_batch: int | None = None,
    prefill_step_size: int = 512,
    logits_processors: Sequence[LogitsProcessor] = (),
    progress: bool = False,
    **sampler_options: Unpack[SamplerKeywords],
) -> SampleParts:
    """Yield the samples of :func:`sample_n` in parts of ``max_batch`` rows, as they are ready.

    The cost of ``n`` samples is one prompt, and one batched forward for each further token of the
    longest one, of the rows that are still alive.

    Args:
        model: ``model(tokens (B, T), cache=...) -> logits (B, T, V)``.
        prompt: token ids, at least one.
        n: how many completions.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end a row, which then leaves the batch; None means the model's own,
            which ``lablib.load`` gives it.
        max_batch: at most so many rows at a time, to bound memory; None means all.
        prefill_step_size: how many prompt tokens are read at once.
        logits_processors: as in ``TokenIterator``; each row has copies of those with a state.
        progress: show a progress bar.
        **sampler_options: the fields of :class:`SamplerOptions`, such as ``temperature=0.8``. Row i
            draws from the random numbers of (``seed``, i): it is the same for every ``n`` and
            ``max_batch``, and the same as a sampler's slot added with ``stream=i``.

    Raises:
        ValueError, TypeError: an argument is out of range, at the call and not at the first
            ``next``; or, later, the model's logits are not finite.
    """
    n = arguments.check_n(n)
    request = arguments.read_request(
        sample_batches,
        model,
        prompt,
        max_tokens=max_tokens,
        stop_tokens=stop_tokens,
        prefill_step_size=prefill_step_size,
        sampler_options=sampler_options,
        logits_processors=logits_processors,
        samples=True,
    )
    decoder = Decoder(TextSampler(request.num_ctx, request.processors))
    read = ReadShared(model, request.step_size)
    return sample_parts(decoder, read, request, [request.prompt] * n, max_batch, progress)


def sample_prompts(
    model: Any,
    prompts: Sequence[Sequence[int] | mx.array],
    *,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
    max_batch: int | None = None,
    prefill_step_size: int = 512,
    logits_processors: Sequence[LogitsProcessor] = (),
    progress: bool = False,
    ended: Ended | None = None,
    **sampler_options: Unpack[SamplerKeywords],
) -> SampleParts:
    """Complete several prompts, and yield them in parts of ``max_batch`` as they are ready.

    Keywords are those of :func:`sample_batches`; row i draws from stream i of the seed, and the
    beginning that its prompt shares with the one before is not read again. A row leaves after a
    stop token, or once ``ended(i, its tokens)`` is true.
    """
    request = arguments.read_request(
        sample_prompts,
        model,
        prompts,
        max_tokens=max_tokens,
        stop_tokens=stop_tokens,
        prefill_step_size=prefill_step_size,
        sampler_options=sampler_options,
        logits_processors=logits_processors,
        several=True,
        samples=True,
    )
    together = can_share([model], request)
    read = ReadPrompts([model], request.step_size, together=together)
    decoder = Decoder(TextSampler(request.num_ctx, request.processors))
    return sample_parts(decoder, read, request, request.prompts, max_batch, progress, ended)


def sample_many(
    model: Any,
    prompts: Sequence[Sequence[int]],
    options: Sequence[SamplerOptions],
    n: int = 1,
    *,
    max_batch: int = 32,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
    prefill_step_size: int = 512,
    logits_processors: Sequence[LogitsProcessor] = (),
) -> list[Samples]:
    """Complete a queue of ``prompts`` (token ids), ``n`` times each; ``max_batch`` rows at a time.

    The rows of a prompt join together, once there are free places for all, first come first served.
    The beginning that a prompt shares with the one before is not read again, so those that begin
    alike belong side by side. Where a model's rows of different length cannot share a batch, only
    the rows of one prompt do. ``schedule(lengths, max_batch)`` of ``lablib.course.theory.slots``
    tells for n = 1 who sat where, and when.

    Args:
        model: ``model(tokens (B, T), cache=...) -> logits (B, T, V)``.
        prompts: token ids, at least one each.
        options: one for each prompt. Row i draws from the random numbers of (its seed, i): it is
            the row i of ``sample_n`` with these options.
        n: how many completions of each prompt.
        max_batch: at most so many rows at a time, which bounds memory.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end a row, which then leaves the batch; None means the model's own,
            which ``lablib.load`` gives it.
        prefill_step_size: how many prompt tokens are read at once.
        logits_processors: as in ``TokenIterator``; each row has copies of those with a state.

    Returns:
        The samples of each prompt, in the order of ``prompts``.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work; or logits are NaN.
    """
    prompts = arguments.check_prompts(model, prompts)
    options = sequence("options", options, "SamplerOptions")
    stops = arguments.check_stops(model, stop_tokens)
    max_tokens, n = integer("max_tokens", max_tokens, 1), arguments.check_n(n)
    max_batch = integer("max_batch", max_batch, 1)
    step_size = integer("prefill_step_size", prefill_step_size, 1)
    processors = arguments.check_processors(logits_processors)
    _check_options(options, len(prompts))
    arguments.check_lengths(model, prompts, max_tokens)
    rows = [
        [Row(j * n + i, prompt, own, i, max_tokens, stops) for i in range(n)]
        for j, (prompt, own) in enumerate(zip(prompts, options, strict=True))
    ]
    parties = [each[i : i + max_batch] for each in rows for i in range(0, n, max_batch)]
    longest = max(map(len, prompts), default=0)
    decoder = Decoder(TextSampler(longest + max_tokens, processors))
    if can_batch(model, kv.make(model)):
        read = ReadPrompts([model], step_size, grow_by=_STEP)
        rounds = run_parties(decoder, read, parties, max_batch)
    else:
        rounds = run_parties(decoder, ReadShared(model, step_size), parties)
    deque(rounds, maxlen=0)
    return [Samples.of(each) for each in rows]


# --- under the doors ---


def run_parties(
    decoder: Decoder, read: ReadRows, parties: Iterable[Party], max_batch: int = 0
) -> Iterator[list[Verdict]]:
    """Decode parties: rows that join together, and side by side up to ``max_batch`` of them.

    With ``max_batch`` 0 a party joins when the one before has ended.
    """
    waiting = deque(parties)

    def admit() -> bool:
        joining: list[Row] = []
        while waiting:
            taken = len(decoder.rows) + len(joining)
            if taken and taken + len(waiting[0]) > max_batch:
                break
            joining += waiting.popleft()
        if joining:
            target, drafter, logits = read(joining)
            decoder.join(joining, target, drafter, logits)
        return bool(joining)

    return decoder.run(admit)


def _decode(
    decoder: Decoder, read: "ReadShared | ReadPrompts", parts: Iterable[Party], total: int | None
) -> Iterator[Samples]:
    """Yield the samples of each part, whose rows join as one party, or one by one.

    ``total`` is the number of tokens that a progress bar goes up to; None: there is no bar.
    """
    from tqdm.auto import tqdm

    with tqdm(total=total, unit="token", leave=False, disable=total is None) as bar:
        for part in parts:
            decoder.counts = Counts()
            parties = [part] if read.together else [[row] for row in part]
            left = sum(row.left for row in part)
            for _ in run_parties(decoder, read, parties):
                still_left = sum(row.left for row in part)
                bar.update(left - still_left)
                left = still_left
            yield Samples.of(part, with_ratios(decoder.counts))


def sample_parts(
    decoder: Decoder,
    read: "ReadShared | ReadPrompts",
    request: arguments.Request,
    prompts: Sequence[list[int]],
    max_batch: int | None,
    progress: bool,
    ended: Ended | None = None,
) -> SampleParts:
    """Return a completion of each of the prompts, ``max_batch`` at a time."""
    n = len(prompts)
    max_batch = n if max_batch is None else integer("max_batch", max_batch, 1)
    flag("progress", progress)
    if ended is not None:
        function("ended", ended)
    options, most, stops = request.options, request.max_tokens, request.stops

    def rows(first: int) -> list[Row]:
        numbered = enumerate(prompts[first : first + max_batch], first)
        return [Row(i, prompt, options, i, most, stops, ended) for i, prompt in numbered]

    parts = map(rows, range(0, n, max_batch))
    total = n * most if progress else None
    return SampleParts(request, _decode(decoder, read, parts, total))


class ReadShared:
    """Reads the prompt that rows share, once and whole, and fans its cache out."""

    together = True  # the rows of a party share a batch

    def __init__(self, model: Any, step_size: int) -> None:
        self._prompt_reader = PromptReader(model, step_size)
        self._prompt: list[int] | None = None  # the one that was read last
        self._cache: kv.Cache = []
        self._logits: mx.array | None = None

    def __call__(self, rows: Party) -> tuple[BatchRewinder, None, mx.array]:
        """Return the rows' reader, no drafter, and the logits after the prompt."""
        prompt, model, n = rows[0].prompt, self._prompt_reader.model, len(rows)
        if prompt != self._prompt:
            self._cache = kv.copy(self._prompt_reader.read(prompt))
            self._logits = model(mx.array([prompt[-1:]]), cache=self._cache)[:, -1]
            self._prompt_reader.calls += 1
            self._prompt = prompt
        reader = BatchRewinder(model, fan_out(model, self._cache, n), [len(prompt)] * n)
        reader.calls = self._prompt_reader.new_calls()
        return reader, None, mx.broadcast_to(self._logits, (n, self._logits.shape[-1]))


class ReadPrompts:
    """Reads the prompts of rows with the target, and with a draft model that stands second.

    Args:
        models: the target, and the draft model if there is one.
        step_size: how many prompt tokens are read at once.
        drafter: the drafter, which begins anew with each party of rows.
        together: whether the rows of a party share a batch, or each is a party alone.
        grow_by: tokens by which the batch's buffers grow; None: mlx-lm's number.
    """

    def __init__(
        self,
        models: Sequence[Any],
        step_size: int,
        drafter: Any = None,
        together: bool = True,
        grow_by: int | None = None,
    ) -> None:
        self.together = together
        self._prompt_readers = [PromptReader(model, step_size) for model in models]
        self._step_size = step_size
        self._drafter = drafter
        self._grow_by = grow_by

    def __call__(self, rows: Party) -> tuple[Reader, Any, None]:
        """Return the target's reader, and the drafter that began or None."""
        if self.together:
            readers = [self._merged(prompt_reader, rows) for prompt_reader in self._prompt_readers]
        else:
            readers = [Rewinder(each.model, kv.make(each.model)) for each in self._prompt_readers]
        drafter = None
        if self._drafter is not None:  # it begins before a text that is alone is read
            own = readers[1] if len(readers) > 1 else None
            drafter = self._drafter.begin(readers[0], own, len(rows))
        if not self.together:
            leave = most_unread(readers[0], drafter)
            deque(read_prompt(readers, rows[0].prompt, self._step_size, leave), maxlen=0)
        return readers[0], drafter, None

    def _merged(self, prompt_reader: PromptReader, rows: Party) -> BatchRewinder:
        """Return one model's reader of all rows, all but the last tokens read."""
        cache = kv.merge([prompt_reader.read(row.prompt) for row in rows])
        if self._grow_by is not None:
            for layer in cache:
                layer.step = self._grow_by
        reader = BatchRewinder(prompt_reader.model, cache, [len(row.prompt) - 1 for row in rows])
        reader.calls = prompt_reader.new_calls()
        return reader


def can_share(models: Sequence[Any], request: arguments.Request, ahead: int = 0) -> bool:
    """Return whether these prompts may share a batch of each model.

    All rows of a batch read as many drafts as the longest, so that each needs room for ``ahead``.
    """
    if len(request.prompts) == 1:  # a text that is alone needs no batch
        return False
    longest = request.num_ctx - 1 + ahead
    return all(
        longest <= (position_table_of(model) or longest) and can_batch(model, kv.make(model))
        for model in models
    )


def _check_options(options: Sequence[Any], count: int) -> None:
    if len(options) != count:
        raise BadValue(f"options must be one for each of {count} prompts, got {len(options)}")
    for number, each in enumerate(options):
        if not isinstance(each, SamplerOptions):
            raise BadType(f"options[{number}] must be SamplerOptions, got {shown(each)}")
        if each.top_logprobs:
            raise BadValue(f"options[{number}].top_logprobs must be 0, got {each.top_logprobs}")
