"""Many samples, one answer: best-of-N, the majority vote, and votes that stop early.

All of them stand on ``sample_n``: the prompt is read once, the rows decode together, a row that
ends leaves the batch, and the log-probabilities come from decoding. Row i is the same for any n and
any batch size, so that more samples extend a vote and never replace it. With a ``draft_model`` they
stand on ``speculative_sample_n``: samples of the same distribution, in fewer forwards.

Self-consistency (Wang et al. 2022, 2203.11171) is ``majority_vote`` with an ``extract``: chains
that differ but reach the same answer vote together.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from lablib.inference.arguments import check_prompt, check_stops
from lablib.inference.samples import Samples
from lablib.inference.speculation.many import speculative_batches, speculative_sample_n
from lablib.inference.voting.many import sample_batches, sample_n
from lablib.inference.voting.scoring import Scorer, check_scorer, score
from lablib.inference.voting.stopping import StopRule
from lablib.validation import BadType, BadValue, integer

import mlx.core as mx
import numpy as np

Extract = Callable[[list[int]], Hashable | None]


class Candidate(NamedTuple):
    """One of best-of-N's sequences with its score."""

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
    """

    def __init__(
        self,
        entries: Sequence[tuple[list[int], float]],
        answers: Sequence[Hashable],
        rows: Sequence[list[int]],
        missing: Sequence[int],
    ):
        super().__init__(entries)
        self.answers, self.rows, self.missing = list(answers), list(rows), list(missing)
        self.drawn = len(self.missing) + sum(len(voters) for voters in self.rows)

    @property
    def winner(self) -> Hashable | None:
        """The elected answer; None if no completion had one."""
        return self.answers[0] if self.answers else None


class AdaptiveVotes(Votes):
    """The outcome of ``vote_until``.

    Attributes:
        reason: why it stopped: ``"certain"`` (the leader could not lose any more), ``"confident"``
            (it was unlikely to) or ``"exhausted"`` (all n samples were drawn).
        saved: samples that were not drawn.
    """

    def __init__(self, votes: Votes, reason: str, saved: int):
        super().__init__(votes, votes.answers, votes.rows, votes.missing)
        self.reason, self.saved = reason, saved


def best_of_n(
    model: Any,
    prompt: Any,
    n: int = 4,
    max_tokens: int = 100,
    temperature: float = 0.8,
    score_fn: Scorer = "log_prob",
    *,
    return_all: bool = False,
    stop_tokens: Iterable[int] = (),
    draft_model: Any = None,
    **options: Any,
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
        stop_tokens: ids that end a completion and belong to it.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        **options: every other keyword of ``sample_n``: ``seed``, ``max_batch``, ``progress`` and
            the sampler's options; with a draft model of ``speculative_sample_n``: ``rule``,
            ``draft_tokens``, ...

    Returns:
        The best sequence ``(1, total_len)``, int32, prompt included and without padding; with
        ``return_all`` a list of ``Candidate(tokens, score)``.

    Raises:
        ValueError, TypeError: an argument is out of range, or ``score_fn`` returned NaN, None or
            another shape than one number for each completion.
    """
    prompt, n = check_prompt(model, prompt), integer("n", n, 1)
    stop_tokens = check_stops(model, stop_tokens)
    check_scorer("score_fn", score_fn)
    options |= {"max_tokens": max_tokens, "temperature": temperature, "stop_tokens": stop_tokens}
    samples = _sample(model, draft_model, prompt, n, options)
    pad_token = min(stop_tokens, default=0)
    scores = score(score_fn, prompt, samples, pad_token=pad_token, name="score_fn")

    def sequence(row: int) -> mx.array:
        return mx.array([[*prompt, *samples.tokens[row]]], dtype=mx.int32)

    if return_all:
        return [Candidate(sequence(row), float(scores[row])) for row in range(n)]
    return sequence(int(np.argmax(scores)))


def majority_vote(
    model: Any,
    prompt: Any,
    n: int = 5,
    max_tokens: int = 50,
    temperature: float = 0.8,
    *,
    extract: Extract | None = None,
    weight: Scorer | None = None,
    stop_tokens: Iterable[int] = (),
    draft_model: Any = None,
    **options: Any,
) -> Votes:
    """Sample ``n`` completions and count how many give each answer.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompt: token ids ``(T,)`` or ``(1, T)``.
        n: completions to draw.
        max_tokens: most tokens of each completion.
        temperature: of the sampler.
        extract: takes a completion, a list of ints, and returns its answer, anything hashable, or
            None if it has none. By default the whole completion is the answer. ``on_text`` makes
            one from a function of text.
        weight: weighs each vote: the *logarithm* of the weight, as ``"log_prob"``,
            ``"length_normalized"`` or a callable like best-of-N's ``score_fn``
            (``verifiers.log_weight`` makes one from a verifier). Minus infinity casts no vote.
        stop_tokens: ids that end a completion and belong to it.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        **options: every other keyword of ``sample_n``: ``seed``, ``max_batch``, ``progress`` and
            the sampler's options; with a draft model of ``speculative_sample_n``: ``rule``,
            ``draft_tokens``, ...

    Returns:
        ``[(tokens, count), …]``, see ``Votes``; empty if no completion has an answer.

    Raises:
        ValueError, TypeError: an argument is out of range, or ``extract`` or ``weight`` failed; the
            message names the completion.
    """
    prompt, n = check_prompt(model, prompt), integer("n", n, 1)
    stop_tokens = check_stops(model, stop_tokens)
    _check_extract(extract)
    if weight is not None:
        check_scorer("weight", weight)
    options |= {"max_tokens": max_tokens, "temperature": temperature, "stop_tokens": stop_tokens}
    samples = _sample(model, draft_model, prompt, n, options)
    log_weights = None
    if weight is not None:
        pad_token = min(stop_tokens, default=0)
        log_weights = score(weight, prompt, samples, pad_token=pad_token, name="weight")
    return tally(samples.tokens, _answers(samples.tokens, extract), log_weights)


def vote_until(
    model: Any,
    prompt: Any,
    n: int = 32,
    max_tokens: int = 50,
    temperature: float = 0.8,
    *,
    batch: int = 4,
    confidence: float | None = None,
    stop_rule: str = "overtake",
    at_least: int = StopRule.at_least,
    extract: Extract | None = None,
    draft_model: Any = None,
    **options: Any,
) -> AdaptiveVotes:
    """Vote in rounds of ``batch`` samples and stop when the rest would not matter.

    Without ``confidence`` the winner is the one ``majority_vote`` elects with the same seed and n:
    the vote stops when no answer can overtake the leader. With it, the vote also stops when that is
    improbable enough (adaptive-consistency, Aggarwal et al. 2023, 2305.11860). Every sample drawn
    counts.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompt: token ids ``(T,)`` or ``(1, T)``; read once, however many rounds there are.
        n: most samples to draw.
        max_tokens: most tokens of each completion.
        temperature: of the sampler.
        batch: samples in a round, decoded together; this also bounds memory.
        confidence: between 0.5 and 1, or None for the certain rule alone.
        stop_rule: what the confidence is about, "overtake", "beta" or "dirichlet": see
            ``StopRule``.
        at_least: samples to draw before ``confidence`` is asked for.
        extract: as in ``majority_vote``.
        draft_model: as in ``majority_vote``.
        **options: every other keyword of ``majority_vote``, but not ``max_batch`` and ``weight``.

    Returns:
        The votes, with ``drawn``, ``saved`` and ``reason``.
    """
    n, batch = integer("n", n, 1), integer("batch", batch, 1)
    stop = StopRule(confidence, stop_rule, at_least)
    _check_extract(extract)
    for name, why in _NOT_UNTIL.items():
        if name in options:
            raise BadType(f"{name} is not an option of vote_until: {why}")
    options |= {"max_tokens": max_tokens, "temperature": temperature, "max_batch": batch}
    if draft_model is None:
        rounds = sample_batches(model, prompt, n, **options)
    else:
        prompts = [check_prompt(model, prompt)] * n
        rounds = speculative_batches(model, draft_model, prompts, **options)
    completions: list[list[int]] = []
    answers: list[Hashable | None] = []
    reason = None
    with closing(rounds):
        for samples in rounds:
            answers += _answers(samples.tokens, extract, first=len(completions))
            completions += samples.tokens
            reason = stop.reason(_counts(answers), len(completions), n)
            if reason:
                break
    saved = n - len(completions)
    return AdaptiveVotes(tally(completions, answers), reason if saved else "exhausted", saved)


_NOT_UNTIL = {
    "max_batch": "its batch bounds memory",
    "weight": "its rules count votes; majority_vote weighs them",
}


def _sample(model: Any, draft_model: Any, prompt: list[int], n: int, options: dict) -> Samples:
    if draft_model is None:
        return sample_n(model, prompt, n, **options)
    return speculative_sample_n(model, draft_model, prompt, n, **options)


def tally(
    completions: Sequence[Sequence[int]],
    answers: Sequence[Hashable | None] | None = None,
    log_weights: Sequence[float] | None = None,
) -> Votes:
    """Count votes that are already cast; ``majority_vote`` without the sampling.

    Weights are added as logarithms, shifted by the largest: e^−800 is 0 in floating point, and a
    vote among completions that are all that improbable would otherwise have no winner.

    Args:
        completions: token ids of each completion.
        answers: the answer of each, None for none; by default the completion itself.
        log_weights: logarithm of each vote's weight, ``(n,)``; by default every vote counts 1.

    Raises:
        BadValue: lengths differ, or a weight is NaN or +inf, or no vote has any weight.
    """
    completions = [[int(token) for token in row] for row in completions]
    if answers is None:
        answers = [tuple(row) for row in completions]
    if len(answers) != len(completions):
        raise BadValue(
            f"answers must have one entry for each of {len(completions)} completions, "
            f"got {len(answers)}"
        )
    voters: dict[Hashable, list[int]] = {}
    missing = []
    for row, answer in enumerate(answers):
        if answer is None:
            missing.append(row)
        else:
            voters.setdefault(answer, []).append(row)
    sizes: dict[Hashable, float] = {answer: len(rows) for answer, rows in voters.items()}
    if log_weights is not None:
        sizes = _shares(voters, log_weights, len(completions))
    ranked = sorted(voters, key=lambda answer: -sizes[answer])  # stable: ties stay in order
    return Votes(
        [(completions[voters[answer][0]], sizes[answer]) for answer in ranked],
        ranked,
        [voters[answer] for answer in ranked],
        missing,
    )


def _shares(
    voters: dict[Hashable, list[int]], log_weights: Sequence[float], n: int
) -> dict[Hashable, float]:
    """Each answer's share of the total weight, from logarithms."""
    logs = np.asarray(log_weights, dtype=np.float64)
    if logs.shape != (n,):
        raise BadValue(f"log_weights must have shape ({n},), got {logs.shape}")
    if np.isnan(logs).any() or np.isposinf(logs).any():
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


def on_text(tokenizer: Any, function: Callable[[str], Hashable | None]) -> Extract:
    """Make an ``extract`` of token ids from one of text: ``on_text(tokenizer, sums.extract)``.

    Special tokens, such as the one that ends a completion, are not part of the text.
    """

    def extract(tokens: list[int]) -> Hashable | None:
        return function(tokenizer.decode(tokens, skip_special_tokens=True))

    return extract


def _check_extract(extract: Extract | None) -> None:
    if extract is not None and not callable(extract):
        raise BadType(f"extract must be callable or None, got {extract!r}")


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
            raise BadValue(
                f"extract must return an answer or None, but raised {type(error).__name__} on "
                f"completion {row}: {error}"
            ) from error
        if not _is_value(answer):
            raise BadType(
                f"extract must return a plain value that equals itself (int, str, tuple) or None, "
                f"got {answer!r} for completion {row}"
            )
        answers.append(answer)
    return answers


def _is_value(answer: Any) -> bool:
    """Whether equal answers land in one group: arrays hash by identity, and NaN is not itself."""
    try:
        return not isinstance(answer, mx.array) and hash(answer) is not None and answer == answer
    except (TypeError, ValueError):
        return False


def _counts(answers: Sequence[Hashable | None]) -> list[int]:
    """Votes of each answer, in order of first appearance."""
    counts: dict[Hashable, int] = {}
    for answer in answers:
        if answer is not None:
            counts[answer] = counts.get(answer, 0) + 1
    return list(counts.values())
