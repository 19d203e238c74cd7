"""Texts that grow side by side: rows, the verdicts of rounds on them, and the finished samples."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lablib.inference.keywords import Ended
from lablib.inference.sampling.options import SamplerOptions

import numpy as np

COUNTS = (
    "tokens",
    "total_drafted",
    "total_accepted",
    "total_reached",
    "rounds",
    "target_calls",
    "draft_calls",
)


@dataclass(eq=False)
class Row:
    """One text of a batch, and the tokens that were written so far.

    Attributes:
        number: its place among all rows, by which messages and ``ended`` know it.
        stream: the row's random stream, of the options' seed.
        left: how many tokens it may still get; 0: it has ended.
        stops: ids that end it.
        ended: another reason to end: called with the number and the tokens after each round.
        may_stop_early: whether the row may end before it has all its tokens.
        text: prompt and completion.
        best: the best log-probabilities at each token, as many as the options ask for.
        stopped: whether a stop token, or ``ended``, ended it.
    """

    number: int
    prompt: list[int]
    options: SamplerOptions
    stream: int
    left: int
    stops: frozenset[int]
    ended: Ended | None = None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    best: list[list[float]] = field(default_factory=list)
    stopped: bool = False

    def __post_init__(self) -> None:
        self.text = list(self.prompt)
        self.may_stop_early = bool(self.stops) or self.ended is not None

    def append(self, verdict: "Verdict") -> None:
        """Append decided tokens, of which only the last can be a stop token."""
        tokens = verdict.tokens
        self.text += tokens  # in place: the sampler's slot has this list
        self.tokens += tokens
        self.logprobs += verdict.logprobs
        most = self.options.top_logprobs
        if most:
            self.best += [[logprob for _, logprob in best[:most]] for best in verdict.top]
        self.stopped = self.tokens[-1] in self.stops
        if self.ended is not None and self.ended(self.number, self.tokens):
            self.stopped = True
        self.left = 0 if self.stopped else self.left - len(tokens)


@dataclass(slots=True)
class Verdict:
    """The decision of one round for one text; with ``trace=True`` also its evidence.

    ``p`` and ``q`` are the models' probabilities of each draft after the sampler's transforms; q is
    1 for drafts that were looked up. At temperature 0 the transforms leave one token, and p and q
    would say nothing: then they are the probabilities of the raw logits.

    Attributes:
        tokens: the accepted drafts, and the target's token after them unless a stop token came
            first. A plain token is a verdict on no drafts.
        accepted: how many drafts stay.
        reached: how many drafts were judged with everything before them accepted. Siblings in a
            tree count as one, as one of them can stay: the nodes with children that the text got
            to, the root included.
        logprobs: of each token, under the target's raw logits.
        top: the best (id, logprob) pairs at each token, if asked for.
        min_pq: Σ min(p, q) over the vocabulary at each drafted position.
        dot_pq: Σ p·q, likewise.
        coupled: the chance that shared noise keeps a draft there.
        path: the drafts of a tree that stay.
    """

    drafted: Sequence[int]
    tokens: Sequence[int]
    accepted: int
    reached: int
    logprobs: Sequence[float] = ()
    top: Sequence[tuple[tuple[int, float], ...]] = ()
    p: Sequence[float] = ()
    q: Sequence[float] = ()
    min_pq: Sequence[float] = ()
    dot_pq: Sequence[float] = ()
    coupled: Sequence[float] = ()
    path: Sequence[int] = ()

    @property
    def token(self) -> int | None:
        """The target's own token at the end; None after an accepted stop token."""
        return self.tokens[-1] if len(self.tokens) > self.accepted else None

    @property
    def kind(self) -> str | None:
        """Tell that token's kind: "correction", "bonus", "plain" (nothing drafted) or None."""
        if not self.drafted:
            return "plain"
        if self.token is None:
            return None
        return "bonus" if self.accepted == self.reached else "correction"  # nothing was refused

    def until(self, stops: frozenset[int]) -> "Verdict":
        """End at the first accepted stop token: the tokens after it were never reached."""
        for end, token in enumerate(self.tokens[: self.accepted], 1):
            if token in stops:
                return replace(
                    self,
                    accepted=end,
                    reached=end,
                    tokens=self.tokens[:end],
                    logprobs=self.logprobs[:end],
                    top=self.top[:end],
                )
        return self


class Counts(dict[str, int]):
    """The counts of rounds, by the names ``COUNTS``."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COUNTS, 0))

    def add(self, verdicts: Sequence[Verdict], target_calls: int, draft_calls: int) -> None:
        """Add a round of each text, and the forwards that it took."""
        self["target_calls"] += target_calls
        self["draft_calls"] += draft_calls
        self["rounds"] += len(verdicts)
        for verdict in verdicts:
            self["tokens"] += len(verdict.tokens)
            self["total_drafted"] += len(verdict.drafted)
            self["total_accepted"] += verdict.accepted
            self["total_reached"] += verdict.reached


def with_ratios(counts: dict[str, int]) -> dict[str, Any]:
    """Return counts with the ratios that are made of them."""
    drafted, reached, rounds = (
        counts[name] for name in ("total_drafted", "total_reached", "rounds")
    )
    accepted = counts["total_accepted"]
    return {
        **counts,
        "acceptance_rate": accepted / drafted if drafted else 0.0,
        "alpha": accepted / reached if reached else 0.0,
        "tokens_per_round": counts["tokens"] / rounds if rounds else 0.0,
    }


@dataclass(frozen=True)
class Samples:
    """Completions of one prompt or of several, in the order of their row numbers.

    ``samples[i]``, and iteration, give the tokens.

    Attributes:
        tokens: the ids of each completion, the stop token included.
        logprobs: natural log of the model's own probability of each token (raw logits).
        finished: whether a stop token, or ``ended``, ended the row (False: ``max_tokens`` did).
        stats: the counts of ``SpeculativeTokenIterator``, over all rows; ``rounds`` counts each
            row's rounds, ``target_calls`` the forwards of the batch. Empty from ``sample_many``.
        top_logprobs: of each completion ``(T, K)`` float32, the K best raw log-probabilities where
            each token was drawn, best first, if the option of this name asked for them.
    """

    tokens: list[list[int]]
    logprobs: list[list[float]]
    finished: list[bool]
    stats: dict[str, Any] = field(default_factory=dict)
    top_logprobs: list[np.ndarray] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, row: int) -> list[int]:
        return self.tokens[row]

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.tokens)

    def texts(self, tokenizer: Any) -> list[str]:
        """Return the completions as texts, without special tokens such as the one at the end."""
        return [tokenizer.decode(row, skip_special_tokens=True) for row in self.tokens]

    @property
    def lengths(self) -> list[int]:
        """Tokens in each row."""
        return [len(row) for row in self.tokens]

    @classmethod
    def of(cls, rows: Iterable[Row], stats: dict[str, Any] | None = None) -> "Samples":
        """Collect rows that have ended."""
        rows = list(rows)
        return cls(
            [row.tokens for row in rows],
            [row.logprobs for row in rows],
            [row.stopped for row in rows],
            stats or {},
            [np.array(row.best, np.float32) for row in rows if row.options.top_logprobs],
        )
