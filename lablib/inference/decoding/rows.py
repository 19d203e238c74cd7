"""Verdicts of rounds on texts, their counts, and the finished samples."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lablib.inference.sampling.row import Best, Row
from lablib.inference.stop_strings import first_stop, text_of

COUNTS = (
    "tokens",
    "total_drafted",
    "total_accepted",
    "total_reached",
    "rounds",
    "target_calls",
    "draft_calls",
)


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
    top: Sequence[Best] = ()
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


def no_counts() -> dict[str, int]:
    """Return the counts of no rounds, by the names ``COUNTS``."""
    return dict.fromkeys(COUNTS, 0)


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
        tokens: the ids of each completion, the stop token included, or the token that completes a
            stop string.
        logprobs: natural log of the model's own probability of each token (raw logits).
        finished: whether a stop token or a stop string ended the row (False: ``max_tokens`` did).
        stats: the counts of ``SpeculativeTokenIterator``, over all rows; ``rounds`` counts each
            row's rounds, ``target_calls`` the forwards of the batch. From ``sample_many`` they are
            of all prompts together.
        top_logprobs: the model's best (id, logprob) pairs at each token, if asked for.
        stop: the stop strings.
        prompts: what each completion continues; none: texts are those of the completions alone.
        stop_tokens: the ids that end a row; None stands for the end tokens of a tokenizer.

    Example:
        >>> samples = lablib.sample_n(model, prompt, 3, max_tokens=2, stop_tokens=())
        >>> len(samples), samples.lengths, samples[0] == samples.tokens[0]
        (3, [2, 2, 2], True)
    """

    tokens: list[list[int]]
    logprobs: list[list[float]]
    finished: list[bool]
    stats: dict[str, Any] = field(default_factory=dict)
    top_logprobs: list[list[Best]] = field(default_factory=list)
    stop: Sequence[str] = ()
    prompts: list[list[int]] = field(default_factory=list, repr=False)
    stop_tokens: frozenset[int] | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, row: int) -> list[int]:
        return self.tokens[row]

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.tokens)

    def texts(self, tokenizer: Any) -> list[str]:
        """Return the completions as texts, as ``generate`` does.

        They are what the tokens add to the prompt's text, without the stop token and up to a stop
        string.
        """
        prompts = self.prompts or [[]] * len(self.tokens)
        pairs = zip(prompts, self.tokens, strict=True)
        texts = [text_of(tokenizer, *pair, self.stop_tokens) for pair in pairs]
        return [text[: first_stop(text, self.stop)] for text in texts]

    @property
    def lengths(self) -> list[int]:
        """Tokens in each row."""
        return [len(row) for row in self.tokens]

    @classmethod
    def join(cls, parts: Iterable["Samples"]) -> "Samples":
        """Make one of the parts of a whole, at least one."""
        joined, counts = cls([], [], []), no_counts()
        for part in parts:
            joined.tokens.extend(part.tokens)
            joined.logprobs.extend(part.logprobs)
            joined.finished.extend(part.finished)
            joined.top_logprobs.extend(part.top_logprobs)
            joined.prompts.extend(part.prompts)
            for name in counts:
                counts[name] += part.stats[name]
        joined.stats.update(with_ratios(counts))
        return replace(joined, stop=part.stop, stop_tokens=part.stop_tokens)

    @classmethod
    def of(cls, rows: Iterable[Row], counts: dict[str, int], stop: Sequence[str] = ()) -> "Samples":
        """Collect rows that have ended, at least one."""
        rows = list(rows)
        return cls(
            [row.tokens for row in rows],
            [row.logprobs for row in rows],
            [row.stopped for row in rows],
            with_ratios(counts),
            [row.top for row in rows],
            stop,
            [row.prompt for row in rows],
            rows[0].stops,
        )
