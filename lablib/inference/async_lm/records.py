"""Count forwards and tokens: running totals, and the latest batches, for drawings."""

from collections import Counter, deque
from dataclasses import dataclass, field

Span = tuple[int, int]  # the first position that a row computes in a forward, and the end


@dataclass(slots=True)
class BatchRecord:
    """List the forwards of a batch, and in each the rows' spans; grow while it runs."""

    forwards: list[list[Span]] = field(default_factory=list)


class Records:
    """Record the latest batches, and the sums over all batches."""

    def __init__(self) -> None:
        self.batches: deque[BatchRecord] = deque(maxlen=64)
        totals = "batches prompts cached forwards token_forwards padding reused reread"
        self.stats = Counter(dict.fromkeys(totals.split(), 0))  # its update() adds

    def batch(self, prompts: int) -> BatchRecord:
        """Begin the record of a batch."""
        self.batches.append(BatchRecord())
        self.stats.update(batches=1, prompts=prompts)
        return self.batches[-1]

    def forward(self, batch: BatchRecord, spans: list[Span]) -> None:
        """Record a forward over ``spans``, one for each row."""
        lengths = [stop - start for start, stop in spans]
        tokens = sum(lengths)
        padding = max(lengths) * len(spans) - tokens
        batch.forwards.append(spans)
        self.stats.update(forwards=1, token_forwards=tokens, padding=padding)
