"""One turn after the other: who waits is let in, prompts are read, every text grows by a round.

(Continuous batching, Yu et al., OSDI 2022, "Orca"; prompts in pieces, Agrawal et al. 2023,
2308.16369, "Sarathi"; caches given up and read again, Kwon et al. 2023, 2309.06180, "vLLM".)

No text depends on its neighbours. If a round fails the one whose row is to blame hears of it; the
others are read again, each alone where nobody knows who it was.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from lablib.inference.engine.job import Job
from lablib.inference.engine.lane import SPARE, Lane, Models, Reading
from lablib.inference.engine.pace import SMALL, Pace
from lablib.validation import BadValue

_BUFFER = 256  # tokens by which mlx-lm's caches grow
_LATELY = 256  # turns and first tokens that the counts look back over


class ContinuousBatch:
    """Texts that grow side by side, join and leave.

    ``ask`` and ``cancel`` may be called by any thread, all else by one.

    Args:
        models: what reads and writes.
        max_batch: how many texts are read and written at a time, at most.
        cache_bytes: of all their caches.
        clock: by whose seconds a turn reads more or less; the wall's unless it is given.
    """

    def __init__(
        self,
        models: Models,
        max_batch: int,
        cache_bytes: int,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.models = models
        self._clock = clock or time.perf_counter
        self.max_batch = max_batch
        self.cache_bytes = cache_bytes
        self.waiting: deque[Job] = deque()
        self.readings: list[Reading] = []
        self._is_oldest_first = False
        self.lanes: list[Lane] = []
        self._arrivals: deque[Job] = deque()
        self._some_cancelled = False
        self.pace = Pace(models.step_size)
        self._turns: deque[tuple[float, int]] = deque(maxlen=_LATELY)  # seconds, tokens
        self._firsts: deque[float] = deque(maxlen=_LATELY)  # seconds to a first token
        self._counts = dict.fromkeys(("finished", "cancelled", "failed", "evicted", "tokens"), 0)
        self._most_bytes = 0.0

    # Asked by others.

    def check(self, job: Job) -> None:
        """Refuse a job that could not run even alone."""
        row = job.row
        tokens = len(row.prompt) + row.most
        needed = self.models.footprint.of(tokens + SPARE + _BUFFER)
        if needed > self.cache_bytes:
            size = f"prompt ({len(row.prompt)} tokens) + max_tokens ({row.most})"
            bound = f"must fit the engine's cache_bytes, {self.cache_bytes:,}"
            raise BadValue(f"{size} {bound}: they need {needed:,.0f}")

    def ask(self, jobs: Sequence[Job]) -> None:
        """Let jobs wait for their turn."""
        self._arrivals += jobs

    def cancel(self, job: Job) -> None:
        """Let a job leave before the next round."""
        job.cancelled = self._some_cancelled = True

    @property
    def is_busy(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self._arrivals or self.waiting or self.readings or self.lanes)

    @property
    def stats(self) -> dict[str, Any]:
        """Return what happens, and what has happened; see ``lablib.Engine``."""
        turns, firsts = [*self._turns], [*self._firsts]
        seconds = sum(turn[0] for turn in turns)
        return {
            "waiting": len(self._arrivals) + len(self.waiting),
            "reading": len(self.readings),
            "running": sum(len(lane.jobs) for lane in [*self.lanes]),
            **self._counts,
            "time_to_first_token": median(firsts) if firsts else 0.0,
            "tokens_per_second": sum(turn[1] for turn in turns) / seconds if seconds else 0.0,
            "cache_bytes": int(self.bytes_held()),
            "most_cache_bytes": int(self._most_bytes),
        }

    # A turn.

    def turn(self) -> list[Job]:
        """Bring every text a round further; return the jobs of which there is news."""
        start, before = self._clock(), self._counts["tokens"]
        self.waiting += [self._arrivals.popleft() for _ in range(len(self._arrivals))]
        news = self._let_leave()
        self._admit()
        news += self._read_prompts()
        self._make_room()
        self._most_bytes = max(self._most_bytes, self.bytes_held())
        rounds = self._clock()
        for lane in [*self.lanes]:
            news += self._write(lane)
        end = self._clock()
        if self.lanes:
            self.pace.wrote(end - rounds)
        self._turns.append((end - start, self._counts["tokens"] - before))
        for job in news:
            if job.ended:
                self._count(job)
        return news

    def _count(self, job: Job) -> None:
        end = "failed" if job.error else "cancelled" if job.cancelled else "finished"
        self._counts[end] += 1

    def _let_leave(self) -> list[Job]:
        """Let those leave for whom nobody waits any more."""
        if not self._some_cancelled:
            return []
        self._some_cancelled = False
        reading = [each.job for each in self.readings]
        running = [job for lane in self.lanes for job in lane.jobs]
        gone = [job for job in (*self.waiting, *reading, *running) if job.cancelled]
        self._remove(gone)
        for job in gone:
            job.ended = True
        return gone

    def _remove(self, jobs: Sequence[Job]) -> None:
        """Take jobs out, wherever they are."""
        self.waiting = deque(job for job in self.waiting if job not in jobs)
        self.readings = [each for each in self.readings if each.job not in jobs]
        for lane in [*self.lanes]:
            if any(job in jobs for job in lane.jobs):
                self._let_go(lane, jobs)

    def _let_go(self, lane: Lane, jobs: Sequence[Job]) -> None:
        """Let those of a lane leave that have ended, and some others."""
        lane.let_leave(jobs)
        if not lane.jobs:
            self.lanes.remove(lane)

    # Room.

    def bytes_held(self) -> float:
        """Return the bytes of all caches: of lanes, padding and room to grow included, and prompts.

        While a text joins a lane, or leaves it, that lane is there twice for a moment.
        """
        of = self.models.footprint.of
        held = of(self.models.kept + _BUFFER) if self.models.kept else 0.0
        held += sum(of(len(each.job.row.text) + _BUFFER) for each in [*self.readings])
        return held + sum(self._bytes_of(lane.lengths()) for lane in [*self.lanes])

    def _bytes_of(self, lengths: Sequence[int]) -> float:
        return len(lengths) * self.models.footprint.of(max(lengths, default=0) + SPARE)

    def _admit(self) -> None:
        """Begin to read the texts of those who wait, first come first served, while there is room.

        A text gets room for its next tokens, not for all that it may have: most end before.
        """
        busy = len(self.readings) + sum(len(lane.jobs) for lane in self.lanes)
        while self.waiting and busy < self.max_batch:
            job = self.waiting[0]
            needed = self.models.footprint.of(len(job.row.text) + SPARE + _BUFFER)
            if self.bytes_held() + needed > self.cache_bytes and self.models.kept:
                self.models.forget()
            if busy and self.bytes_held() + needed > self.cache_bytes:
                break
            self.waiting.popleft()
            job.began = job.began or time.perf_counter()
            self.readings.append(self.models.reading(job))
            busy += 1

    def _make_room(self) -> None:
        """Take the caches of the youngest, until the others fit; they are read again later."""
        while self.bytes_held() > self.cache_bytes:
            if self.models.kept:
                self.models.forget()
                continue
            jobs = [job for lane in self.lanes for job in lane.jobs]
            jobs += [each.job for each in self.readings]
            if len(jobs) <= 1:
                return
            self._put_back([max(jobs, key=lambda job: job.row.number)])
            self._counts["evicted"] += 1

    def _put_back(self, jobs: Sequence[Job]) -> None:
        """Let jobs wait before all others, the oldest first."""
        self._remove(jobs)
        for job in jobs:
            job.evicted += 1
        self.waiting.extendleft(sorted(jobs, key=lambda job: -job.row.number))

    # Reading.

    def _read_prompts(self) -> list[Job]:
        """Read pieces of prompts, as long as those who write may wait; let whole ones join.

        One turn begins with the prompt that came first, the next with the one that is read soonest.
        Where nobody writes, one is read whole.
        """
        self._is_oldest_first = not self._is_oldest_first
        writing = sum(len(lane.jobs) for lane in self.lanes)
        patience = self.pace.patience(len(self.readings), writing)
        spent = 0.0
        failed: list[Job] = []
        joins: list[Lane] = []
        while self.readings and spent < patience:
            if self._is_oldest_first:
                reading = self.readings[0]
            else:
                reading = min(self.readings, key=lambda each: each.unread)
            start = self._clock()
            try:
                if not reading.readers:
                    self.models.begin(reading)
                n = self.pace.piece(reading.unread, reading.most, patience - spent)
                if spent and n < min(reading.unread, SMALL):  # in the next turn it is a larger one
                    break
                reading.read(n)
            except Exception as error:  # whatever a model raises
                self.readings.remove(reading)
                reading.job.fail(error)
                failed.append(reading.job)
                continue
            seconds = self._clock() - start
            spent += seconds
            self.pace.read(n, seconds)
            if not reading.unread:
                self.readings.remove(reading)
                self.models.keep(reading)
                joins.append(self._lane_of(reading))
                joins[-1].joining.append(reading)
                if patience == math.inf:
                    break
        for lane in dict.fromkeys(joins):
            failed += self._join(lane)
        return failed

    def _lane_of(self, reading: Reading) -> Lane:
        """Return the lane where a text costs the least padding, or a new one.

        A new one costs a forward, which reads the weights once more in each round.
        """
        new = Lane(reading.shares)
        best, least = new, self.models.footprint.weights
        length, of = len(reading.job.row.text), self.models.footprint.of
        room = self.cache_bytes - self.bytes_held()
        for lane in self.lanes:
            if not (lane.shares and reading.shares and lane.drafting == reading.job.drafting):
                continue
            lengths = lane.lengths()
            more = self._bytes_of([*lengths, length]) - self._bytes_of(lengths)
            padding = len(lengths) * of(max(length - max(lengths), 0))
            padding += of(max(max(lengths) - length, 0))
            if padding < least and more <= room:
                best, least = lane, padding
        if best is new:
            new.drafting = reading.job.drafting
            self.lanes.append(new)
        return best

    def _join(self, lane: Lane) -> list[Job]:
        """Let the texts that were read for a lane join it; return those that fail."""
        joining = [reading.job for reading in lane.joining]
        try:
            self.models.join(lane)
        except Exception as error:  # of what a model or a drafter does there
            lane.jobs = [*lane.jobs, *(job for job in joining if job not in lane.jobs)]
            return self._break_up(lane, error)
        return []

    # Writing.

    def _write(self, lane: Lane) -> list[Job]:
        """Run a round of a lane; return its jobs, and those that fail."""
        try:
            verdicts = next(lane.rounds)
        except Exception as error:  # of a model, a drafter, a tokenizer; or logits that are NaN
            return self._break_up(lane, error)
        jobs = lane.jobs
        for job, verdict in zip(jobs, verdicts, strict=True):
            job.note(verdict)
            self._counts["tokens"] += len(verdict.tokens)
            if job.rounds_written == 1:
                self._firsts.append(job.first - job.arrived)
        gone = [job for job in jobs if job.ended]
        if gone:
            self._let_go(lane, gone)
        return jobs

    def _break_up(self, lane: Lane, error: Exception) -> list[Job]:
        """End a lane whose round has failed: who is to blame fails, the others are read again."""
        self.lanes.remove(lane)
        failed = [job for job in lane.jobs if job.row is lane.blamed or len(lane.jobs) == 1]
        others = [job for job in lane.jobs if job not in failed]
        for job in failed:
            job.fail(error)
        for job in others:
            job.alone = job.alone or not failed
        self._put_back(others)
        return failed
