"""Many samples, one answer: best-of-N, the majority vote, and votes that stop early.

All of them stand on ``samples``: the prompt is read once, the log-probabilities come from
decoding, and row i is the same for any n and any batch size, so that more samples extend a vote and
never replace it. A ``draft_model`` gives samples of the same distribution in fewer forwards.

Self-consistency (Wang et al. 2022, 2203.11171) is ``majority_vote`` with an ``extract``: chains
that differ but reach the same answer vote together.
"""

import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from contextlib import closing
from typing import Any, Literal, NamedTuple, Unpack, overload

from lablib.inference import completions
from lablib.inference.arguments import check_n, refuse_top_logprobs
from lablib.inference.decoding.rows import Samples
from lablib.inference.decoding.scheduler import SampleParts
from lablib.inference.keywords import RoundsKeywords, VoteKeywords, described
from lablib.inference.voting import scoring, votes
from lablib.inference.voting.scoring import Scorer, check_scorer
from lablib.inference.voting.stopping import StopRule
from lablib.inference.voting.votes import AdaptiveVotes, Extract, Votes
from lablib.unknown_options import check_options
from lablib.validation import flag, function, integer

import mlx.core as mx
import numpy as np


class Candidate(NamedTuple):
    """One of best-of-N's sequences with its score.

    Example:
        >>> first, second = lablib.best_of_n(model, prompt, 2, return_all=True, seed=0)
        >>> first.tokens.shape[0], first.score < 0
        (1, True)
    """

    tokens: mx.array  # (1, total_len) int32: prompt and completion, without padding
    score: float


class Candidates(list[Candidate]):
    """All candidates of best-of-N, in the order drawn.

    Attributes:
        samples: the completions alone, with their log-probabilities and counts.

    Example:
        >>> all_of_them = lablib.best_of_n(model, prompt, 3, return_all=True, seed=0)
        >>> [len(row) for row in all_of_them.samples.logprobs] == all_of_them.samples.lengths
        True
    """

    def __init__(self, candidates: Iterable[Candidate], samples: Samples) -> None:
        super().__init__(candidates)
        self.samples = samples


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
) -> Candidates: ...


@described(VoteKeywords)
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
) -> mx.array | Candidates:
    """Sample ``n`` completions and return the one with the highest score, the first among equals.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompt: token ids ``(T,)`` or ``(1, T)``; with ``tokenizer=`` also a text or messages.
        n: completions to draw.
        max_tokens: most tokens of each completion.
        temperature: of the sampler; scores use the raw log-probabilities whatever it is.
        score_fn: ``"log_prob"``, ``"length_normalized"`` or a callable that takes sequences
            ``(n, seq_len)``, prompt included, and returns ``(n,)``; see ``scoring.score``. One
            whose parameter is called ``texts`` takes the completions as texts, which ``tokenizer=``
            reads; ``on_text`` makes one from a function of one text.
        return_all: return every candidate instead, in the order drawn.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        **options: those that follow; a list of values gives each completion its own.

    Returns:
        The best sequence ``(1, total_len)``, int32, prompt included and without padding; with
        ``return_all`` a list of ``Candidate(tokens, score)``, with ``.samples``.

    Raises:
        ValueError, TypeError: an argument is out of range, or ``score_fn`` returned NaN, None or
            another shape than one number for each completion.

    Example:
        >>> best = lablib.best_of_n(model, prompt, 3, score_fn="length_normalized", seed=0)
        >>> all_of_them = lablib.best_of_n(model, prompt, 3, return_all=True, seed=0)
        >>> best.shape[0], len(all_of_them)
        (1, 3)
    """
    check_options(best_of_n, options)
    check_scorer("score_fn", score_fn)
    flag("return_all", return_all)
    settings = {**options, "max_tokens": max_tokens, "temperature": temperature}
    parts = _sample(model, draft_model, prompt, n, settings, score_fn)
    scored = candidates(parts.join(), score_fn, parts)
    return scored if return_all else best(scored)


@described(VoteKeywords)
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
        prompt: token ids ``(T,)`` or ``(1, T)``; with ``tokenizer=`` also a text or messages.
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
        **options: those that follow; a list of values gives each completion its own.

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
    check_options(majority_vote, options)
    if extract is not None:
        function("extract", extract)
    if weight is not None:
        check_scorer("weight", weight)
    settings = {**options, "max_tokens": max_tokens, "temperature": temperature}
    parts = _sample(model, draft_model, prompt, n, settings, weight)
    counted = count(parts.join(), extract, weight, parts)
    if extract is None and 1 < counted.drawn == len(counted):
        why = "each of them is an answer of its own: extract= says which part of it is voted on"
        warnings.warn(f"no two of {counted.drawn} completions agree, as {why}", stacklevel=2)
    return counted


@described(RoundsKeywords)
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
        prompt: token ids ``(T,)`` or ``(1, T)``; with ``tokenizer=`` also a text or messages.
        n: completions to draw at most.
        max_tokens: most tokens of each completion.
        temperature: of the sampler.
        batch: samples of a round; they decode together, so that it also bounds memory and there is
            no ``max_batch``.
        confidence: stop when the leader is safe enough, too: however many rounds look, at most a
            share of 1 - ``confidence`` of the votes, below 0.5, stops on a wrong one.
        stop_rule: what is wrong, and how its risk is measured, "overtake", "beta" or "dirichlet";
            see ``StopRule``.
        at_least: samples before ``confidence`` is asked for, at least 1.
        extract: as in ``majority_vote``; there is no ``weight``.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        **options: those that follow; a list of values gives each completion its own.

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
    ours = " (its batch bounds memory)", " (its rules count votes, not weights)"
    check_options(vote_until, options, max_batch=ours[0], weight=ours[1])
    stop, batch = StopRule(confidence, stop_rule, at_least), integer("batch", batch, 1)
    if extract is not None:
        function("extract", extract)
    settings = {**options, "max_tokens": max_tokens, "temperature": temperature, "max_batch": batch}
    drawn: list[Samples] = []
    answers: list[Hashable | None] = []
    reason: str | None = None
    with closing(_sample(model, draft_model, prompt, n, settings)) as parts:
        for samples in parts:
            answers += votes.answers_of(samples, extract, first=len(answers))
            drawn.append(samples)
            counts = Counter(answer for answer in answers if answer is not None)
            reason = stop.reason(list(counts.values()), len(answers), n)
            if reason:
                break
    saved = n - len(answers)
    if not saved or reason is None:
        reason = "exhausted"
    samples = Samples.join(drawn)
    return AdaptiveVotes(votes.tally(samples.tokens, answers), reason, saved, samples)


def _sample(
    model: Any,
    draft_model: Any,
    prompt: Any,
    n: int,
    options: dict[str, Any],
    scorer: Scorer | None = None,
) -> SampleParts:
    """Sample in parts of ``max_batch``, with or without a draft model."""
    refuse_unseen(scorer, options)
    return completions.complete(model, prompt, draft_model, n=check_n(n), **options)


# --- what is made of one prompt's samples; of several prompts' in many.py -------------------------


def refuse_unseen(scorer: Scorer | None, options: dict[str, Any]) -> None:
    """Refuse the best tokens at each place where nobody looks at them: a function may."""
    if not callable(scorer):
        refuse_top_logprobs(options, "sample_n")


def candidates(samples: Samples, score_fn: Scorer, parts: SampleParts) -> Candidates:
    """Return the samples of one prompt with their scores, in the order drawn."""
    scores = _scores("score_fn", score_fn, samples, parts)
    rows = zip(samples.prompts, samples.tokens, strict=True)
    sequences = [mx.array([[*prompt, *row]], dtype=mx.int32) for prompt, row in rows]
    pairs = zip(sequences, scores.tolist(), strict=True)
    return Candidates((Candidate(*pair) for pair in pairs), samples)


def best(scored: Candidates) -> mx.array:
    """Return the sequence ``(1, total_len)`` of the highest score, the first among equals."""
    return max(scored, key=lambda each: each.score).tokens


def count(
    samples: Samples, extract: Extract | None, weight: Scorer | None, parts: SampleParts
) -> Votes:
    """Return the votes of one prompt's samples."""
    log_weights = None if weight is None else _scores("weight", weight, samples, parts)
    counted = votes.tally(samples.tokens, votes.answers_of(samples, extract), log_weights)
    counted.samples = samples
    return counted


def _scores(name: str, scorer: Scorer, samples: Samples, parts: SampleParts) -> np.ndarray:
    """Score the samples of one prompt by the argument ``name``."""
    pad_token = min(parts.stops, default=0)
    how: Any = {"pad_token": pad_token, "name": name, "tokenizer": parts.tokenizer}
    return scoring.score(scorer, samples.prompts[0], samples, **how)
