"""What ran: the latest batches with their forwards, for drawings, and running totals."""

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ForwardRecord:
    """One call of the model; times in seconds of ``time.perf_counter``."""

    spans: tuple[tuple[int, int], ...]  # of each row, the positions it computed
    columns: int  # tokens per row, padding included
    began: float
    ended: float


@dataclass(slots=True)
class BatchRecord:
    """What became of the prompts that ran together; grows while they run."""

    prompts: int
    cached: int = 0  # answered without a forward
    forwards: list[ForwardRecord] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    ended: float | None = None
    error: str | None = None  # also if everyone who waited has gone


class Records:
    """Record the latest batches, and what all batches come to."""

    def __init__(self) -> None:
        self.batches: deque[BatchRecord] = deque(maxlen=64)
        totals = "batches prompts cached forwards token_forwards padding reused"
        self.stats = Counter(dict.fromkeys(totals.split(), 0))  # its update() adds

    @contextmanager
    def batch(self, prompts: int) -> Iterator[BatchRecord]:
        """Record a batch while it runs, and how it ends."""
        record = BatchRecord(prompts)
        self.batches.append(record)
        try:
            yield record
        except BaseException as error:
            record.error = repr(error)  # the error itself would keep its frames alive
            raise
        finally:
            record.ended = time.perf_counter()
            self.stats.update(batches=1, prompts=prompts, cached=record.cached)

    def forward(self, batch: BatchRecord, spans: Sequence[tuple[int, int]], began: float) -> None:
        """Record a forward that has just ended; ``spans`` are the positions of each row."""
        lengths = [stop - start for start, stop in spans]
        columns, tokens = max(lengths), sum(lengths)
        batch.forwards.append(ForwardRecord(tuple(spans), columns, began, time.perf_counter()))
        self.stats.update(forwards=1, token_forwards=tokens, padding=columns * len(spans) - tokens)
