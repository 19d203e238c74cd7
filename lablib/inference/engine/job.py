"""A request: one text, since it came, and what becomes of it."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from lablib.inference.arguments import Request
from lablib.inference.decoding.rows import Verdict, no_counts, with_ratios
from lablib.inference.sampling.processors import LogitsProcessor, TextProcessors, called, copies
from lablib.inference.sampling.row import Row

import mlx.core as mx


class Drafting(NamedTuple):
    """A request's own drafts; requests that want the same can share a batch."""

    draft_tokens: int
    rule: Any
    trace: bool


class Job:
    """One text that joins a batch and leaves it.

    Attributes:
        row: the text.
        drafting: what it says of drafts; None without a drafter.
        published: how many of its tokens others may look at.
        cancelled: whether nobody waits for it any more; set by any thread.
        ended: whether it gets no more tokens.
        error: why it has failed; None if it has not.
        alone: whether it shares no batch, as nobody knows who made one fail.
        evicted: how often its cache was given up for older requests; the text is then read again.
        rounds: the verdicts of its rounds, if it asked for them; ``rounds_written`` counts all.
    """

    def __init__(self, row: Row, request: Request, drafting: Drafting | None = None) -> None:
        self.row = row
        self.request = request
        self.drafting = drafting
        self.published = self.evicted = self.forwards = self.rounds_written = 0
        self.cancelled = self.ended = self.alone = False
        self.error: Exception | None = None
        self.rounds: list[Verdict] = []
        self._counts = no_counts()
        self._failures: list[Exception] = []
        if request.processors:
            kind = GuardOfCopies if any(hasattr(x, "copy") for x in request.processors) else Guard
            guard = kind(request.processors, self._failures)
            row.processors = TextProcessors([guard], row.text)
        self.arrived = time.perf_counter()
        self.began = self.first = self.last = 0.0  # to be read; its first token, its last

    def note(self, verdict: Verdict) -> None:
        """Note a round of it, unless a processor of its own has failed there."""
        self.forwards += 1
        if self._failures:
            self.fail(self._failures[0])
            return
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self.rounds_written += 1
        self.published = len(self.row.tokens)
        self.ended = self.row.left <= 0
        counts = self._counts
        counts["rounds"] += 1
        counts["tokens"] += len(verdict.tokens)
        counts["total_drafted"] += len(verdict.drafted)
        counts["total_accepted"] += verdict.accepted
        counts["total_reached"] += verdict.reached
        if self.drafting is not None and self.drafting.trace:
            self.rounds.append(verdict)

    def fail(self, error: Exception) -> None:
        """End it, for whoever waits to hear why."""
        self.error = error
        self.ended = True

    @property
    def finish_reason(self) -> str | None:
        """Return why it has ended; None if it has not."""
        if not self.ended:
            return None
        if self.error is not None:
            return "error"
        return "stop" if self.row.stopped else "closed" if self.row.left > 0 else "length"

    @property
    def stats(self) -> dict[str, Any]:
        """Return what is known of it, by the names of ``TokenIterator``."""
        now = time.perf_counter()
        began, seconds = self.began or now, self.last - self.first
        stats = {
            "prompt_tokens": len(self.row.prompt),
            "tokens": self.published,
            "queue_seconds": began - self.arrived,
            "prefill_seconds": (self.first or now) - began,
            "decode_seconds": seconds,
            "tokens_per_second": (self.published - 1) / seconds if seconds else 0.0,
            "target_calls": self.forwards,
            "evicted": self.evicted,
            "finish_reason": self.finish_reason,
        }
        if self.drafting is None:
            return stats
        ratios = with_ratios(self._counts)
        return {**ratios, **stats}


class Guard:
    """Calls a text's processors; one that raises ends its own text, and not the others'.

    After that it changes nothing; what is drawn is not looked at.
    """

    def __init__(self, processors: Sequence[LogitsProcessor], failures: list[Exception]) -> None:
        self._processors = processors
        self._failures = failures

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Return what the processors make of logits ``(1, V)``."""
        if self._failures:
            return logits
        changed = logits
        try:
            for processor in self._processors:
                changed = called(processor, tokens, changed)
            mx.eval(changed)  # what can't be computed fails here, not in the batch
        except Exception as error:  # of whatever kind: it is the caller's
            self._failures.append(error)
            return logits
        return changed


class GuardOfCopies(Guard):
    """The same for processors with a state."""

    def copy(self) -> "GuardOfCopies":
        """Return one that goes its own way from here; what has failed once has failed."""
        return GuardOfCopies(copies(self._processors), self._failures)
