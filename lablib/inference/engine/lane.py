"""Lanes: texts that share a batch, how they are read, and how they join.

A batch pads its texts to the longest. So a text whose padding, or that of its neighbours, would be
more than the weights that another forward reads begins a lane of its own. So does one that can't
share: of another way to draft, of a model whose rows of different length go wrong together.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lablib.cache import kv
from lablib.cache.rewind import Rewinder, check_rewindable
from lablib.cache.rewind_batch import can_batch
from lablib.inference import arguments
from lablib.inference.decoding.decoder import Decoder
from lablib.inference.decoding.prompts import PromptReader, most_unread, read_prompt
from lablib.inference.decoding.scheduler import side_by_side
from lablib.inference.engine.footprint import Footprint
from lablib.inference.engine.job import Drafting, Job
from lablib.inference.sampling.row import Row
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.inference.speculation.draft_length import FixedLength
from lablib.inference.speculation.draft_model import as_drafter
from lablib.inference.speculation.drafter import Drafter
from lablib.inference.speculation.speculative_iterator import (
    check_seeds,
    own_reader,
    speculative_decoder,
)
from lablib.models.interface import position_table_of

import mlx.core as mx

SPARE = 64  # tokens: a batch's room to grow, drafts and what rows that parted leave behind
_GROW_BY = 32  # tokens by which rows grow; more are copied in vain whenever a row leaves or joins
FIRST_PIECE = 64  # tokens
_WORTH = 4  # a beginning is copied, not read, if what was read last is at most so many times longer


class Reading:
    """A text that is being read: by the target, and by a draft model that stands second.

    Attributes:
        job: whose text it is.
        readers: each has read as much of it; none before it began.
        drafter: the drafter that began, where the text shares no batch.
        shares: whether it may share one.
        unread: how many tokens are left to read.
        most: the largest piece that is read next; pieces grow, until one knows what they take.
    """

    def __init__(self, job: Job, shares: bool) -> None:
        self.job = job
        self.shares = shares
        self.readers: Sequence[Rewinder] = ()
        self.drafter: Any = None
        self.unread = len(job.row.text) - 1
        self.most = FIRST_PIECE
        self._leave = 0

    def begin(self, readers: Sequence[Rewinder], drafter: Any = None) -> None:
        """Go on where the readers stand; the drafter, if there is one, is the text's own."""
        self.readers, self.drafter = readers, drafter
        self.unread -= readers[0].positions[0]
        self._leave = 0 if self.shares else most_unread(readers[0], drafter)

    def read(self, n: int) -> None:
        """Read ``n`` tokens more, and wait for it."""
        self.unread -= n
        self.most *= 2
        if n:
            leave = 0 if self.unread else self._leave
            text = self.job.row.text[: -self.unread or None]
            deque(read_prompt(self.readers, text, n, leave), maxlen=0)
            mx.eval([layer.state for reader in self.readers for layer in reader.cache])
            self.job.forwards += 1


class Lane:
    """A decoder, and the jobs whose texts it writes.

    Attributes:
        jobs: in the order of the decoder's rows.
        rounds: the decoder's; each step of it runs one.
        blamed: the row whose logits could not be drawn from, if a round has failed by that.
        shares: whether others may join.
        drafting: what its jobs say of drafts.
    """

    def __init__(self, shares: bool) -> None:
        self.jobs: list[Job] = []
        self.shares = shares
        self.drafting: Drafting | None = None
        self.joining: list[Reading] = []
        self.blamed: Row | None = None
        self.decoder: Any = None
        self.rounds: Any = None

    def begin(self, decoder: Decoder) -> None:
        """Let a decoder write the lane's texts."""
        self.decoder, self.rounds = decoder, decoder.run()

    def lengths(self) -> list[int]:
        """Return the tokens of each text, those that are joining included."""
        jobs = [*self.jobs, *(reading.job for reading in self.joining)]
        return [len(job.row.text) for job in jobs]

    def label(self, row: Row) -> str:
        """Return the place that a message names: it is asked for if logits are not finite."""
        self.blamed = row
        return f"token {len(row.tokens)}"

    def let_leave(self, jobs: Sequence[Job]) -> None:
        """Let the texts go that have ended, and these."""
        self.decoder.let_leave([job.row for job in jobs])
        self.jobs = [job for job in self.jobs if job.row in self.decoder.rows]


class Models:
    """The target and its drafter, and how texts are read by them and written.

    Raises:
        ValueError, TypeError: they don't fit each other.
    """

    def __init__(self, target: Any, draft_model: Any, step_size: int) -> None:
        self.target = target
        self.step_size = step_size
        self.drafter: Drafter | None = None
        self.models = [target]
        trial = Rewinder(target, kv.make(target))
        self._shares = can_batch(target, trial.cache)
        if draft_model is not None:
            self._add_drafter(as_drafter(draft_model), trial)
        self.footprint = Footprint(self.models)
        self.forget()

    def _add_drafter(self, drafter: Drafter, trial: Rewinder) -> None:
        self.drafter = drafter
        own = own_reader(drafter, trial)
        begun = drafter.begin(trial, own, 1)  # refuses a target that does not fit
        if own is not None:
            self.models.append(own.model)
            self._shares = self._shares and can_batch(drafter.model, own.cache)
        kind: Any = type(begun)  # perhaps of the drafter inside another
        extends = kind.select is Drafter.select or kind.extend is not Drafter.extend
        self._shares = self._shares and drafter.batches and not drafter.trees and extends
        if not self._shares:
            check_rewindable(trial.cache)

    def forget(self) -> None:
        """Forget the prompt that was read last."""
        self._prompt_readers = [PromptReader(model, self.step_size) for model in self.models]

    @property
    def kept(self) -> int:
        """Count the tokens of the prompt that was read last."""
        return len(self._prompt_readers[0].text)

    def check(self, job: Job) -> None:
        """Refuse a request whose text the draft model could not read, or others could change."""
        if self.drafter is not None and job.drafting is not None:
            check_seeds(self.drafter, job.drafting.rule, job.request.options)
        for model in self.models[1:]:
            request = job.request
            arguments.check_lengths(model, request.prompts, request.lengths, name="draft model")

    def reading(self, job: Job) -> Reading:
        """Return what will read a job's text."""
        shares = self._shares and self._fits_tables(job) and not job.alone
        return Reading(job, shares)

    def begin(self, reading: Reading) -> None:
        """Begin to read a text, after the beginning that it shares with the one read last."""
        new = [Rewinder(model, kv.make(model)) for model in self.models]
        if not reading.shares:
            reading.begin(new, self._begin(new, 1))
            return
        text = reading.job.row.text[:-1]
        kept = self._prompt_readers[0].text
        if len(kept) <= _WORTH * arguments.shared_start(kept, text):
            readers = [prompt_reader.begin(text) for prompt_reader in self._prompt_readers]
            if len({reader.positions[0] for reader in readers}) == 1:  # else one could not go back
                new = readers
        reading.begin(new)

    def keep(self, reading: Reading) -> None:
        """Keep what was read, for one that begins alike."""
        if reading.shares:
            text = reading.job.row.text[:-1]
            for prompt_reader, reader in zip(self._prompt_readers, reading.readers, strict=True):
                prompt_reader.keep(reader, text)

    def _fits_tables(self, job: Job) -> bool:
        """Return whether the text has room for the drafts of longer ones beside it."""
        drafts = 0 if job.drafting is None else job.drafting.draft_tokens
        longest = len(job.row.prompt) + job.row.most - 1 + drafts
        return all(longest <= (position_table_of(model) or longest) for model in self.models)

    def _begin(self, readers: Sequence[Any], texts: int) -> Any:
        own = readers[1] if len(readers) > 1 else None
        return None if self.drafter is None else self.drafter.begin(readers[0], own, texts)

    def join(self, lane: Lane) -> None:
        """Let the texts that were read for a lane join it."""
        readings, lane.joining = lane.joining, []
        rows = [reading.job.row for reading in readings]
        if lane.decoder is None:
            lane.begin(self._decoder(lane, readings[0].job))
        if lane.shares:
            lengths = [len(row.text) - 1 for row in rows]
            readers: list[Any] = []
            for i, model in enumerate(self.models):
                caches = [reading.readers[i].cache for reading in readings]
                readers.append(side_by_side(model, caches, lengths, _GROW_BY))
            drafter = self._begin(readers, len(rows))
        else:
            readers, drafter = [*readings[0].readers], readings[0].drafter
        lane.decoder.join(rows, readers[0], drafter)
        jobs = {id(job.row): job for job in lane.jobs}
        jobs |= {id(reading.job.row): reading.job for reading in readings}
        lane.jobs = [jobs[id(row)] for row in lane.decoder.rows]  # some may have changed places

    def _decoder(self, lane: Lane, job: Job) -> Decoder:
        """Return a decoder of texts that bring their own processors."""
        request = replace(job.request, processors=())
        if self.drafter is None or job.drafting is None:
            sampler = TextSampler(n_known=request.n_known)
            return Decoder(sampler, closable=True, label=lane.label)
        drafts, rule, trace = job.drafting
        length = FixedLength(drafts)
        return speculative_decoder(
            request, self.target, self.drafter, rule, length, trace, closable=True
        )
