"""Parties of rows: how their prompts are read, how they join a decoder, and how they end.

A party is one row, or several that join together. Their prompts are read first: once for all, where
it is one, or each for itself, where they differ.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder
from lablib.cache.rewind_batch import BatchRewinder, can_batch
from lablib.cache.shared import fan_out
from lablib.inference import arguments
from lablib.inference.decoding.decoder import Decoder, Reader, Rows
from lablib.inference.decoding.prompts import PromptReader, most_unread, read_prompt
from lablib.inference.decoding.rows import Samples, Verdict, no_counts
from lablib.inference.sampling.row import Row, key_of
from lablib.inference.stop_strings import TextReader
from lablib.models.interface import position_table_of

import mlx.core as mx

# Reads the prompts of rows. Returns the target's reader, the drafter that began or None, and the
# logits after the prompts if they were read whole.
ReadRows = Callable[[Rows], tuple[Reader, Any, mx.array | None]]


class SampleParts(Iterator[Samples]):
    """Samples in parts, as they are ready.

    Whoever has seen enough stops asking: later rows are never drawn.

    Attributes:
        prompts: the checked prompts, one for each completion.
        stops: the checked stop tokens.
        stop: the checked stop strings.
        tokenizer: what reads them; None if nobody gave one.
    """

    def __init__(self, request: arguments.Request, parts: Generator[Samples]) -> None:
        self.prompts = request.prompts
        self.stops = request.stops
        self.stop = request.stop
        self.tokenizer = request.tokenizer
        self._parts = parts

    def __next__(self) -> Samples:
        return next(self._parts)

    def close(self) -> None:
        """Stop here."""
        self._parts.close()

    def join(self) -> Samples:
        """Draw all parts, and return them as one."""
        return Samples.join(self)


def run_batches(
    decoder: Decoder, read: ReadRows, batches: Iterable[Rows], max_batch: int = 0
) -> Iterator[list[Verdict]]:
    """Decode batches: rows that join together, and side by side up to ``max_batch`` of them.

    With ``max_batch`` 0 a party joins when the one before has ended.
    """
    waiting = deque(batches)

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
            decoder.counts = no_counts()
            part = [make_row(request, i, i) for i in range(first, min(first + max_batch, n))]
            batches = [part] if read.together else [[row] for row in part]
            left = sum(row.left for row in part)
            for _ in run_batches(decoder, read, batches):
                if progress:
                    still_left = sum(row.left for row in part)
                    bar.update(left - still_left)
                    left = still_left
            yield Samples.of(part, decoder.counts, request.stop)


def make_row(request: arguments.Request, place: int, number: int, stream: int | None = None) -> Row:
    """Return a row of the request's text at a ``place``, which draws from its stream or another."""
    prompt = request.prompts[place]
    stream = request.streams[place] if stream is None else stream
    most, options = request.lengths[place], request.options[place]
    reader = TextReader(request.tokenizer, prompt, request.stop) if request.stop else None
    key = key_of(options, stream)
    return Row(prompt, options, key, most, request.stops, reader, number)


class ReadShared:
    """Reads the prompt that rows share, once and whole, and fans its cache out."""

    together = True  # the rows of a party share a batch

    def __init__(self, model: Any, step_size: int) -> None:
        self._prompt_reader = PromptReader(model, step_size)
        self._prompt: list[int] | None = None  # the one that was read last
        self._cache: kv.Cache = []
        self._logits = mx.array([])  # (1, V), after it

    def __call__(self, rows: Rows) -> tuple[BatchRewinder, None, mx.array]:
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

    def __call__(self, rows: Rows) -> tuple[Reader, Any, None]:
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

    def _merged(self, prompt_reader: PromptReader, rows: Rows) -> BatchRewinder:
        """Return one model's reader of all rows, all but the last tokens read."""
        caches = [prompt_reader.read(row.prompt) for row in rows]
        lengths = [len(row.prompt) - 1 for row in rows]
        reader = side_by_side(prompt_reader.model, caches, lengths, self._grow_by)
        reader.calls = prompt_reader.new_calls()
        return reader


def side_by_side(
    model: Any, caches: Sequence[kv.Cache], lengths: Sequence[int], grow_by: int | None = None
) -> BatchRewinder:
    """Return a reader of texts that a cache each has read, ``lengths`` tokens of them."""
    cache = kv.merge(caches)
    if grow_by is not None:
        for layer in cache:
            layer.step = grow_by
    return BatchRewinder(model, cache, lengths)


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
