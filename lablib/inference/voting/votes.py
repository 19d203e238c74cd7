"""Count votes that are already cast: each answer's voters, the winner first."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from lablib.inference.decoding.rows import Samples
from lablib.inference.stop_strings import OnText
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, shown

import mlx.core as mx
import numpy as np

Extract = Callable[..., Hashable | None]  # of a completion's ids


class Votes(list[tuple[list[int], float]]):
    """The outcome of a vote: a list of ``(tokens, count)``, the winner first.

    ``tokens`` is the first completion that gave the answer, as a list of ints; ``count`` the votes
    for it, or its share of all weight if the votes were weighted. Ties keep the order of first
    appearance.

    Attributes:
        answers: the answer of each entry: what ``extract`` returned, or the completion as a tuple.
        rows: for each entry, which samples voted for it.
        missing: the samples without an answer, which cast no vote.
        drawn: samples in all, those without an answer included.
        samples: all that were drawn, with their log-probabilities and counts; None of
            :func:`tally`.

    Example:
        >>> votes = lablib.inference.tally([[1, 2], [3], [1, 2]])
        >>> votes[0], votes.winner, votes.rows, votes.drawn
        (([1, 2], 2), (1, 2), [[0, 2], [1]], 3)
    """

    def __init__(self, entries: Iterable, answers: Iterable, rows: Iterable, missing: Iterable):
        super().__init__(entries)
        self.answers, self.rows, self.missing = list(answers), list(rows), list(missing)
        self.drawn = len(self.missing) + sum(map(len, self.rows))
        self.samples: Samples | None = None

    @property
    def winner(self) -> Hashable | None:
        """The elected answer; None if no completion had one."""
        return self.answers[0] if self.answers else None


class AdaptiveVotes(Votes):
    """The outcome of ``vote_until``.

    Attributes:
        reason: ``"certain"`` (the leader could not lose any more), ``"confident"`` (it was unlikely
            to) or ``"exhausted"`` (all n samples were drawn).
        saved: samples that were not drawn.

    Example:
        >>> votes = lablib.vote_until(model, prompt, 9, temperature=0.0, batch=3)
        >>> votes.reason, votes.saved
        ('certain', 3)
    """

    def __init__(self, votes: Votes, reason: str, saved: int, samples: Samples):
        super().__init__(votes, votes.answers, votes.rows, votes.missing)
        self.samples = samples
        self.reason, self.saved = reason, saved


@checks_options
def tally(
    completions: Sequence[Sequence[int]],
    answers: Sequence[Hashable | None] | None = None,
    log_weights: Sequence[float] | np.ndarray | None = None,
) -> Votes:
    """Count votes that are already cast; ``majority_vote`` without the sampling.

    Weights are added as logarithms, shifted by the largest: e^−800 is 0 in floating point, and a
    vote among completions that are all that improbable would otherwise have no winner.

    ``answers`` has one for each completion, None for none; by default the completion itself. The
    logarithms of the weights, ``log_weights (n,)``, default to a count of 1 for every vote.

    Raises:
        BadValue: lengths differ, or a weight is NaN or +inf, or no vote has any weight.

    Returns:
        The votes, the winner first.

    Example:
        >>> lablib.inference.tally([[1], [2], [3]], ["a", "b", "b"]).winner
        'b'
    """
    rows, n = [[int(token) for token in row] for row in completions], len(completions)
    if answers is None:
        answers = [tuple(row) for row in rows]
    if len(answers) != n:
        raise BadValue(
            f"answers must have one entry for each of {n} completions, got {len(answers)}"
        )
    voters: dict[Hashable | None, list[int]] = {}
    for number, answer in enumerate(answers):
        voters.setdefault(answer, []).append(number)
    missing = voters.pop(None, [])
    sizes: dict[Hashable, float] = {answer: len(voted) for answer, voted in voters.items()}
    if log_weights is not None:
        sizes = _shares(voters, log_weights, n)
    ranked = sorted(voters, key=lambda answer: -sizes[answer])  # stable: ties stay in order
    entries = [(rows[voters[answer][0]], sizes[answer]) for answer in ranked]
    return Votes(entries, ranked, [voters[answer] for answer in ranked], missing)


def _shares(
    voters: dict[Hashable, list[int]], log_weights: Sequence[float] | np.ndarray, n: int
) -> dict[Hashable, float]:
    """Return each answer's share of the total weight, from logarithms."""
    try:
        logs = np.asarray(log_weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadType(f"log_weights must be numbers, got {shown(log_weights)}") from None
    if logs.shape != (n,):
        raise BadValue(f"log_weights must have shape ({n},), got {logs.shape}")
    if not (logs < math.inf).all():
        raise BadValue("log_weights must be finite or minus infinity, got NaN or +inf")
    if not voters:
        return {}
    largest = max(float(logs[rows].max()) for rows in voters.values())
    if largest == -math.inf:
        raise BadValue("log_weights must leave some vote a weight, got minus infinity for all")
    # fsum rounds once, so equal weights tie exactly in whatever order they arrived.
    sums = {a: math.fsum(np.exp(logs[rows] - largest)) for a, rows in voters.items()}
    total = math.fsum(sums.values())
    return {answer: each / total for answer, each in sums.items()}


def answers_of(samples: Samples, extract: Extract | None, first: int = 0) -> list[Hashable | None]:
    """Extract every answer, or say which completion could not be read."""
    if extract is None:
        return [tuple(row) for row in samples]
    answers = []
    for row, completion in enumerate(samples, start=first):
        # A text needs the prompt; a function of ids gets these alone.
        reads_text = isinstance(extract, OnText)
        more = (samples.prompts[row - first], samples.stop_tokens) if reads_text else ()
        try:
            answer = extract(list(completion), *more)
        except Exception as error:
            what = f"{type(error).__name__} on completion {row}: {error}"
            raise BadValue(
                f"extract must return an answer or None, but raised {what} "
                "(it gets token ids, and through lablib.on_text their text)"
            ) from error
        if not _is_value(answer):
            wanted = "a plain value that equals itself (int, str, tuple) or None"
            raise BadType(f"extract must return {wanted}, got {answer!r} for completion {row}")
        answers.append(answer)
    return answers


def _is_value(answer: Any) -> bool:
    """Tell whether equal answers form one group: arrays hash by identity, NaN is not itself."""
    try:
        return not isinstance(answer, mx.array) and hash(answer) is not None and answer == answer
    except (TypeError, ValueError):
        return False
