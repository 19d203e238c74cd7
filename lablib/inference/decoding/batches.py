"""Many completions: rows of one prompt or of several, side by side or one after the other.

Rows of one prompt share its reading: it is read once and its cache fanned out. Rows of several
prompts differ in length; the batch caches of mlx-lm pad the shorter ones on the left, and attention
skips the padding. A place that falls free is given to the next in the queue at once (continuous
batching, Yu et al., OSDI 2022, "Orca"). No text depends on its neighbours.
"""

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Unpack

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.cache.rewind_batch import BatchRewinder, can_batch
from lablib.cache.shared import fan_out
from lablib.inference import arguments
from lablib.inference.decoding.decoder import Decoder, Party, Reader
from lablib.inference.decoding.prompts import PromptReader, most_unread, read_prompt
from lablib.inference.decoding.rows import Counts, Row, Samples, Verdict, with_ratios
from lablib.inference.keywords import NoKeywords, SampleKeywords, SamplersOfEach
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.processors import LogitsProcessor
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.stop_strings import TextReader
from lablib.models.interface import position_table_of
from lablib.validation import BadType, BadValue, flag, integer, sequence, shown

import mlx.core as mx

_STEP = 32  # tokens by which rows grow; more are copied in vain whenever a row leaves or joins

# Reads the prompts of rows. Returns the target's reader, the drafter that began or None, and the
# logits after the prompts if they were read whole.
ReadRows = Callable[[Party], tuple[Reader, Any, mx.array | None]]


class SampleParts(Iterator[Samples]):
    """Samples in parts, as they are ready.

    Whoever has seen enough stops asking: later rows are never drawn.

    Attributes:
        prompts: the checked prompts, one for each completion.
        stops: the checked stop tokens.
        stop: the checked stop strings.
    """

    def __init__(self, request: arguments.Request, parts: Generator[Samples]) -> None:
        self.prompts = request.prompts
        self.stops = request.stops
        self.stop = request.stop
        self._parts = parts

    def __next__(self) -> Samples:
        return next(self._parts)

    def close(self) -> None:
        """Stop here."""
        self._parts.close()

    def join(self) -> Samples:
        """Return all parts as one."""
        joined = Samples([], [], [], stop=self.stop)
        counts = Counts()
        for part in self:
            joined.tokens.extend(part.tokens)
            joined.logprobs.extend(part.logprobs)
            joined.finished.extend(part.finished)
            joined.top_logprobs.extend(part.top_logprobs)
            for name in counts:
                counts[name] += part.stats[name]
        joined.stats.update(with_ratios(counts))
        return joined


def sample_n(
    model: Any, prompt: Sequence[int] | mx.array, n: int, **options: Unpack[SampleKeywords]
) -> Samples:
    """Draw ``n`` independent completions of one prompt, which is read once.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompt: token ids ``(T,)`` or ``(1, T)``, at least one.
        n: how many completions.
        **options: the keywords of :func:`sample_batches`: ``max_tokens=100``,
            ``stop_tokens=None``, ``stop=()``, ``max_batch=None``, ``progress=False``, ..., and the
            fields of :class:`SamplerOptions`; a list of values gives each row its own.

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
    return sample_batches(model, prompt, n, **options).join()


def sample_batches(
    model: Any,
    prompt: Sequence[int] | mx.array,
    n: int,
    *,
    max_tokens: int | Sequence[int] = 100,
    stop_tokens: Collection[int] | None = None,
    stop: str | Sequence[str] = (),
    tokenizer: Any = None,
    max_batch: int | None = None,
    prefill_step_size: int = 512,
    logits_processors: Sequence[LogitsProcessor] = (),
    progress: bool = False,
    **sampler_options: Unpack[SamplersOfEach],
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
        stop: a string, or several: a row ends at the token that completes one.
        tokenizer: reads the tokens, to find stop strings.
        max_batch: at most so many rows at a time, to bound memory; None means all.
        prefill_step_size: how many prompt tokens are read at once.
        logits_processors: as in ``TokenIterator``; each row has copies of those with a state.
        progress: show a progress bar.
        **sampler_options: the fields of :class:`SamplerOptions`, such as ``temperature=0.8``. Row i
            draws from the random numbers of (``seed``, i): it is the same for every ``n`` and
            ``max_batch``, and the same as a sampler's slot added with ``stream=i``.

    ``max_tokens`` and options of the sampler may be lists, with a value for each row. A row with a
    seed of its own draws from stream 0 of it.

    Raises:
        ValueError, TypeError: an argument is out of range, at the call and not at the first
            ``next``; or, later, the model's logits are not finite.

    Returns:
        An iterator of :class:`Samples`; ``join()`` makes one of all, ``close()`` stops.

    Example:
        >>> parts = lablib.inference.sample_batches(model, prompt, 5, max_batch=2, max_tokens=3)
        >>> [len(part) for part in parts]
        [2, 2, 1]
    """
    n = arguments.check_n(n)
    request = arguments.read_request(
        sample_batches,
        model,
        prompt,
        max_tokens=max_tokens,
        stop_tokens=stop_tokens,
        stop=stop,
        tokenizer=tokenizer,
        prefill_step_size=prefill_step_size,
        sampler_options=sampler_options,
        logits_processors=logits_processors,
        n=n,
    )
    decoder = Decoder(TextSampler(request.num_ctx, request.processors))
    read = ReadShared(model, request.step_size)
    return prompt_parts(decoder, read, request, max_batch, progress)


def sample_prompts(
    model: Any,
    prompts: Sequence[Sequence[int] | mx.array],
    *,
    max_tokens: int | Sequence[int] = 100,
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

    Keywords are those of :func:`sample_batches`; row i draws from stream i of the seed, and the
    beginning that its prompt shares with the one before is not read again.
    """
    request = arguments.read_request(
        sample_prompts,
        model,
        prompts,
        max_tokens=max_tokens,
        stop_tokens=stop_tokens,
        stop=stop,
        tokenizer=tokenizer,
        prefill_step_size=prefill_step_size,
        sampler_options=sampler_options,
        logits_processors=logits_processors,
        several=True,
    )
    together = can_share([model], request)
    read = ReadPrompts([model], request.step_size, together=together)
    decoder = Decoder(TextSampler(request.num_ctx, request.processors))
    return prompt_parts(decoder, read, request, max_batch, progress)


def sample_many(
    model: Any,
    prompts: Sequence[Sequence[int]],
    options: Sequence[SamplerOptions],
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
        prompts: token ids, at least one each.
        options: one for each prompt. Row i draws from the random numbers of (its seed, i): it is
            the row i of ``sample_n`` with these options.
        n: how many completions of each prompt.
        max_batch: at most so many rows at a time, which bounds memory.
        max_tokens: the length of a completion at most; a list has one for each prompt.
        stop_tokens: ids that end a row, which then leaves the batch; None means the model's own,
            which ``lablib.load`` gives it.
        stop: a string, or several: a row ends at the token that completes one.
        tokenizer: reads the tokens, to find stop strings.
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
    arguments.check_names(sample_many, unknown, samples=False)
    options = _checked(options, len(sequence("prompts", prompts, "prompts")))
    n = arguments.check_n(n)
    max_batch = integer("max_batch", max_batch, 1)
    request = arguments.read_request(
        sample_many,
        model,
        prompts,
        max_tokens=max_tokens,
        stop_tokens=stop_tokens,
        stop=stop,
        tokenizer=tokenizer,
        prefill_step_size=prefill_step_size,
        sampler_options={},
        logits_processors=logits_processors,
        several=True,
    )
    request = replace(request, options=options)
    rows = [
        [make_row(request, j, j * n + i, stream=i) for i in range(n)]
        for j in range(len(request.prompts))
    ]
    parties = [each[i : i + max_batch] for each in rows for i in range(0, n, max_batch)]
    decoder = Decoder(TextSampler(request.num_ctx, request.processors))
    if can_batch(model, kv.make(model)):
        read = ReadPrompts([model], request.step_size, grow_by=_STEP)
        rounds = run_parties(decoder, read, parties, max_batch)
    else:
        rounds = run_parties(decoder, ReadShared(model, request.step_size), parties)
    deque(rounds, maxlen=0)
    return [Samples.of(each, decoder.counts, request.stop) for each in rows]


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


def decode_parts(
    decoder: Decoder,
    read: "ReadShared | ReadPrompts",
    request: arguments.Request,
    max_batch: int,
    progress: bool,
) -> Generator[Samples]:
    """Yield the samples of each ``max_batch`` rows, which join together or one by one."""
    from tqdm.auto import tqdm

    n, most = len(request.prompts), sum(request.lengths)
    with tqdm(total=most, unit="token", leave=False, disable=not progress) as bar:
        for first in range(0, n, max_batch):
            decoder.counts = Counts()
            part = [make_row(request, i, i) for i in range(first, min(first + max_batch, n))]
            parties = [part] if read.together else [[row] for row in part]
            left = sum(row.left for row in part)
            for _ in run_parties(decoder, read, parties):
                still_left = sum(row.left for row in part)
                bar.update(left - still_left)
                left = still_left
            yield Samples.of(part, decoder.counts, request.stop)


def prompt_parts(
    decoder: Decoder,
    read: "ReadShared | ReadPrompts",
    request: arguments.Request,
    max_batch: int | None,
    progress: bool,
) -> SampleParts:
    """Return a completion of each of the prompts, ``max_batch`` at a time."""
    n = len(request.prompts)
    if not n:
        raise BadValue("prompts must hold at least one prompt, got none")
    max_batch = n if max_batch is None else integer("max_batch", max_batch, 1)
    flag("progress", progress)
    return SampleParts(request, decode_parts(decoder, read, request, max_batch, progress))


def make_row(request: arguments.Request, place: int, number: int, stream: int | None = None) -> Row:
    """Return a row of the request's text at a ``place``, which draws from its stream or another."""
    prompt = request.prompts[place]
    stream = request.streams[place] if stream is None else stream
    most, options = request.lengths[place], request.options[place]
    reader = TextReader(request.tokenizer, prompt, request.stop) if request.stop else None
    return Row(number, prompt, options, stream, most, request.stops, reader)


class ReadShared:
    """Reads the prompt that rows share, once and whole, and fans its cache out."""

    together = True  # the rows of a party share a batch

    def __init__(self, model: Any, step_size: int) -> None:
        self._prompt_reader = PromptReader(model, step_size)
        self._prompt: list[int] | None = None  # the one that was read last
        self._cache: kv.Cache = []
        self._logits = mx.array([])  # (1, V), after it

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
        readers: list[Any]
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


def _checked(options: Any, count: int) -> list[SamplerOptions]:
    """Return the options of each prompt."""
    options = sequence("options", options, "SamplerOptions")
    if len(options) != count:
        raise BadValue(f"options must be one for each of {count} prompts, got {len(options)}")
    for number, each in enumerate(options):
        if not isinstance(each, SamplerOptions):
            raise BadType(f"options[{number}] must be SamplerOptions, got {shown(each)}")
    return options
