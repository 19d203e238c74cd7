"""Many samples, one answer: best-of-N, the majority vote, and votes that stop early.

All of them stand on ``sample_batches``: the prompt is read once, the log-probabilities come from
decoding, and row i is the same for any n and any batch size, so that more samples extend a vote and
never replace it. A ``draft_model`` gives samples of the same distribution in fewer forwards.

Self-consistency (Wang et al. 2022, 2203.11171) is ``majority_vote`` with an ``extract``: chains
that differ but reach the same answer vote together.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import closing
from typing import Any, Literal, NamedTuple, Unpack, overload

from lablib.inference.arguments import check_n, refuse_top_logprobs
from lablib.inference.decoding import batches
from lablib.inference.decoding.parties import SampleParts
from lablib.inference.decoding.rows import Samples
from lablib.inference.keywords import RoundsKeywords, VoteKeywords
from lablib.inference.speculation import batched
from lablib.inference.voting import scoring
from lablib.inference.voting.scoring import Scorer, check_scorer
from lablib.inference.voting.stopping import StopRule
from lablib.unknown_options import told
from lablib.validation import BadType, BadValue, flag, function, integer, shown

import mlx.core as mx
import numpy as np

Extract = Callable[[list[int]], Hashable | None]


class Candidate(NamedTuple):
    """One of best-of-N's sequences with its score.

    Example:
        >>> first, second = lablib.best_of_n(model, prompt, 2, return_all=True, seed=0)
        >>> first.tokens.shape[0], first.score < 0
        (1, True)
    """

    tokens: mx.array  # (1, total_len) int32: prompt and completion, without padding
    score: float


class Votes(list):
    """The outcome of a vote: a list of ``(tokens, count)``, the winner first.

    ``tokens`` is the first completion that gave the answer, as a list of ints; ``count`` the votes
    for it, or its share of all weight if the votes were weighted. Ties keep the order of first
    appearance.

    Attributes:
        answers: the answer of each entry: what ``extract`` returned, or the completion as a tuple.
        rows: for each entry, which samples voted for it.
        missing: the samples without an answer, which cast no vote.
        drawn: samples in all, those without an answer included.

    Example:
        >>> votes = lablib.inference.tally([[1, 2], [3], [1, 2]])
        >>> votes[0], votes.winner, votes.rows, votes.drawn
        (([1, 2], 2), (1, 2), [[0, 2], [1]], 3)
    """

    def __init__(self, entries: Iterable, answers: Iterable, rows: Iterable, missing: Iterable):
        super().__init__(entries)
        self.answers, self.rows, self.missing = list(answers), list(rows), list(missing)
        self.drawn = len(self.missing) + sum(map(len, self.rows))

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

    def __init__(self, votes: Votes, reason: str, saved: int):
        super().__init__(votes, votes.answers, votes.rows, votes.missing)
        self.reason, self.saved = reason, saved


@overload
def best_of_n(
    model: Any,
    prompt: Any,
    n: int = 4,
    max_tokens: int | Sequence[int] = 100,
    temperature: float | Sequence[float] = 0.8,
    score_fn: Scorer = "log_prob",
    *,
    return_all: Literal[False] = False,
    draft_model: Any = None,
    **options: Unpack[VoteKeywords],
) -> mx.array: ...


@overload
def best_of_n(
    model: Any,
    prompt: Any,
    n: int = 4,
    max_tokens: int | Sequence[int] = 100,
    temperature: float | Sequence[float] = 0.8,
    score_fn: Scorer = "log_prob",
    *,
    return_all: Literal[True],
    draft_model: Any = None,
    **options: Unpack[VoteKeywords],
) -> list[Candidate]: ...


def best_of_n(
    model: Any,
    prompt: Any,
    n: int = 4,
    max_tokens: int | Sequence[int] = 100,
    temperature: float | Sequence[float] = 0.8,
    score_fn: Scorer = "log_prob",
    *,
    return_all: bool = False,
    draft_model: Any = None,
    **options: Unpack[VoteKeywords],
) -> mx.array | list[Candidate]:
    """Sample ``n`` completions and return the one with the highest score, the first among equals.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompt: token ids ``(T,)`` or ``(1, T)``.
        n: completions to draw.
        max_tokens: most tokens of each completion.
        temperature: of the sampler; scores use the raw log-probabilities whatever it is.
        score_fn: ``"log_prob"``, ``"length_normalized"`` or a callable that takes sequences
            ``(n, seq_len)``, prompt included, and returns ``(n,)``; see ``scoring.score``.
        return_all: return every candidate instead, in the order drawn.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        **options: every other keyword of ``sample_batches``: ``stop_tokens`` (ids that end a
            completion and belong to it), ``seed``, ``max_batch``, ``progress`` and the sampler's
            options; with a draft model those of ``speculative_batches``: ``rule``,
            ``draft_tokens``, ...

    Returns:
        The best sequence ``(1, total_len)``, int32, prompt included and without padding; with
        ``return_all`` a list of ``Candidate(tokens, score)``.

    Raises:
        ValueError, TypeError: an argument is out of range, or ``score_fn`` returned NaN, None or
            another shape than one number for each completion.

    Example:
        >>> best = lablib.best_of_n(model, prompt, 3, score_fn="length_normalized", seed=0)
        >>> all_of_them = lablib.best_of_n(model, prompt, 3, return_all=True, seed=0)
        >>> best.shape[0], len(all_of_them)
        (1, 3)
    """
    check_scorer("score_fn", score_fn)
    flag("return_all", return_all)
    settings = {**options, "max_tokens": max_tokens, "temperature": temperature}
    parts = _sample(model, draft_model, prompt, n, settings, score_fn)
    samples = parts.join()
    scores = _scores("score_fn", score_fn, parts, samples)
    sequences = [mx.array([[*parts.prompts[0], *row]], dtype=mx.int32) for row in samples.tokens]
    if return_all:
        return [Candidate(*pair) for pair in zip(sequences, scores.tolist(), strict=True)]
    return sequences[int(np.argmax(scores))]


def majority_vote(
    model: Any,
    prompt: Any,
    n: int = 5,
    max_tokens: int | Sequence[int] = 50,
    temperature: float | Sequence[float] = 0.8,
    *,
    extract: Extract | None = None,
    weight: Scorer | None = None,
    draft_model: Any = None,
    **options: Unpack[VoteKeywords],
) -> Votes:
    """Sample ``n`` completions and count how many give each answer.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompt: token ids ``(T,)`` or ``(1, T)``.
        n: completions to draw.
        max_tokens: most tokens of each completion.
        temperature: of the sampler.
        extract: takes a completion, a list of ints, and returns its answer, anything hashable, or
            None if it has none (``on_text`` makes one from a function of text). None: the whole
            completion is the answer.
        weight: weighs each vote: the *logarithm* of the weight, as ``"log_prob"``,
            ``"length_normalized"`` or a callable like ``score_fn`` of ``best_of_n``
            (``verifiers.log_weight`` makes one from a verifier). Minus infinity casts no vote.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        **options: as in ``best_of_n``.

    Returns:
        ``[(tokens, count), …]``, see ``Votes``; empty if no completion has an answer.

    Raises:
        ValueError, TypeError: an argument is out of range, or ``extract`` or ``weight`` failed; the
            message names the completion.

    Example:
        >>> answer = lablib.on_text(tokenizer, lambda text: text.rpartition("#")[2].strip())
        >>> votes = lablib.majority_vote(model, prompt, 8, extract=answer, seed=0)
        >>> sum(count for _, count in votes) == votes.drawn - len(votes.missing)
        True
    """
    if extract is not None:
        function("extract", extract)
    if weight is not None:
        check_scorer("weight", weight)
    settings = {**options, "max_tokens": max_tokens, "temperature": temperature}
    parts = _sample(model, draft_model, prompt, n, settings, weight)
    samples = parts.join()
    log_weights = None if weight is None else _scores("weight", weight, parts, samples)
    votes = tally(samples.tokens, _answers(samples.tokens, extract), log_weights)
    if extract is None and 1 < votes.drawn == len(votes):
        why = "each of them is an answer of its own: extract= says which part of it is voted on"
        warnings.warn(f"no two of {votes.drawn} completions agree, as {why}", stacklevel=2)
    return votes


def vote_until(
    model: Any,
    prompt: Any,
    n: int = 32,
    max_tokens: int | Sequence[int] = 50,
    temperature: float | Sequence[float] = 0.8,
    *,
    batch: int = 4,
    confidence: float | None = None,
    stop_rule: str = "overtake",
    at_least: int = StopRule.at_least,
    extract: Extract | None = None,
    draft_model: Any = None,
    **options: Unpack[RoundsKeywords],
) -> AdaptiveVotes:
    """Vote in rounds of ``batch`` samples and stop when the rest, up to ``n``, would not matter.

    Without ``confidence`` the winner is the one ``majority_vote`` elects with the same seed and n:
    the vote stops when no answer can overtake the leader. With it, the vote also stops when that is
    improbable enough (stochastic curtailment, Lan, Simon & Halperin 1982; of votes
    adaptive-consistency, Aggarwal et al. 2023, 2305.11860). Every sample drawn counts.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompt: token ids ``(T,)`` or ``(1, T)``.
        n: completions to draw at most.
        max_tokens: most tokens of each completion.
        temperature: of the sampler.
        batch: samples of a round; they decode together, so that it also bounds memory and there is
            no ``max_batch``.
        confidence: stop when the leader is safe with this probability, between 0.5 and 1; None:
            when it cannot lose.
        stop_rule: what that is the probability of, "overtake", "beta" or "dirichlet"; see
            ``StopRule``.
        at_least: samples before ``confidence`` is asked for, at least 1.
        extract: as in ``majority_vote``; there is no ``weight``.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        **options: as in ``best_of_n``.

    Returns:
        The votes, with the reason to stop.

    Raises:
        ValueError, TypeError: an argument is out of range, or ``extract`` failed.

    Example:
        >>> answer = lablib.on_text(tokenizer, lambda text: text.rpartition("#")[2].strip())
        >>> votes = lablib.vote_until(model, prompt, 32, extract=answer, confidence=0.9, seed=0)
        >>> votes.drawn + votes.saved
        32
    """
    stop, batch = StopRule(confidence, stop_rule, at_least), integer("batch", batch, 1)
    if extract is not None:
        function("extract", extract)
    if "max_batch" in options:
        raise BadType("max_batch is not an option of vote_until: its batch bounds memory")
    if "weight" in options:
        raise BadType("weight is not an option of vote_until: its rules count votes, not weights")
    settings = {**options, "max_tokens": max_tokens, "temperature": temperature, "max_batch": batch}
    completions: list[list[int]] = []
    answers: list[Hashable | None] = []
    reason: str | None = None
    with closing(_sample(model, draft_model, prompt, n, settings)) as parts:
        for samples in parts:
            answers += _answers(samples.tokens, extract, first=len(completions))
            completions += samples.tokens
            counts = Counter(answer for answer in answers if answer is not None)
            reason = stop.reason(list(counts.values()), len(completions), n)
            if reason:
                break
    saved = n - len(completions)
    if not saved or reason is None:
        reason = "exhausted"
    return AdaptiveVotes(tally(completions, answers), reason, saved)


def _sample(
    model: Any,
    draft_model: Any,
    prompt: Any,
    n: int,
    options: dict[str, Any],
    scorer: Scorer | None = None,
) -> SampleParts:
    """Sample in parts of ``max_batch``, with or without a draft model."""
    if not callable(scorer):  # a function may look at them
        refuse_top_logprobs(options, "sample_n")
    if draft_model is None:
        return batches.sample_batches(model, prompt, n, **options)
    return batched.speculative_batches(model, draft_model, [prompt] * check_n(n), **options)


def _scores(name: str, scorer: Scorer, parts: SampleParts, samples: Samples) -> np.ndarray:
    """Score the samples of one prompt by the argument ``name``."""
    pad_token = min(parts.stops, default=0)
    return scoring.score(scorer, parts.prompts[0], samples, pad_token=pad_token, name=name)


@told
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
        answers = _answers(rows, None)
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


def _answers(
    completions: Sequence[list[int]], extract: Extract | None, first: int = 0
) -> list[Hashable | None]:
    """Extract every answer, or say which completion could not be read."""
    if extract is None:
        return [tuple(row) for row in completions]
    answers = []
    for row, completion in enumerate(completions, start=first):
        try:
            answer = extract(list(completion))
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
