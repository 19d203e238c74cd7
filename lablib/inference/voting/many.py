"""Votes on many problems, one result after the other: what is done is kept, whatever comes then.

The samples of several problems share a batch, so that a forward that reads the weights serves all
of them. Each problem draws what it would draw alone.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack, overload

from lablib.inference import completions
from lablib.inference.arguments import check_n
from lablib.inference.completions import Prompt
from lablib.inference.decoding.rows import Samples, no_counts, with_ratios
from lablib.inference.decoding.scheduler import SampleParts
from lablib.inference.keywords import VoteKeywords, described
from lablib.inference.voting import vote
from lablib.inference.voting.scoring import Scorer, check_scorer
from lablib.inference.voting.votes import Extract, Votes
from lablib.unknown_options import check_options
from lablib.validation import flag, function, sequence

import mlx.core as mx

ROWS = 64  # side by side by default: the caches of a thousand problems would fill the memory


@described(VoteKeywords)
def vote_many(
    model: Any,
    prompts: Sequence[Prompt],
    n: int = 5,
    max_tokens: int | Sequence[int] = 50,
    temperature: float | Sequence[float] = 0.8,
    *,
    extract: Extract | None = None,
    weight: Scorer | None = None,
    draft_model: Any = None,
    **options: Unpack[VoteKeywords],
) -> Iterator[Votes]:
    """Vote on many problems at once; their votes come in the order of ``prompts``.

    They come as they are ready, so that a loop has what is done when it is broken off, by Ctrl-C
    or by a failing ``extract``. With an int as ``seed`` those of prompt j are the votes of
    ``majority_vote(model, prompts[j], n)`` with this seed.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompts: token ids each; with ``tokenizer=`` also texts or messages.
        n: completions to draw of each.
        max_tokens: most tokens of each completion.
        temperature: of the sampler.
        extract: as in ``majority_vote``.
        weight: as in ``majority_vote``.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        **options: those that follow, ``max_batch`` 64 by default; a list of values gives each
            completion its own, ``n`` of the first prompt first.

    Returns:
        An iterator of votes.

    Raises:
        ValueError, TypeError: an argument is out of range, at the call; or, later, ``extract`` or
            ``weight`` failed.

    Example:
        >>> found = {}
        >>> for problem, votes in enumerate(lablib.vote_many(model, [prompt] * 3, 4, seed=0)):
        ...     found[problem] = votes
        >>> [votes.drawn for votes in found.values()]
        [4, 4, 4]
    """
    check_options(vote_many, options)
    if extract is not None:
        function("extract", extract)
    if weight is not None:
        check_scorer("weight", weight)
    settings = {**options, "max_tokens": max_tokens, "temperature": temperature}
    parts = _sample(model, draft_model, prompts, check_n(n), settings, weight)
    return (vote.count(each, extract, weight, parts) for each in _of_each(parts, n))


@overload
def best_of_n_many(
    model: Any,
    prompts: Sequence[Prompt],
    n: int = 4,
    max_tokens: int | Sequence[int] = 100,
    temperature: float | Sequence[float] = 0.8,
    score_fn: Scorer = "log_prob",
    *,
    return_all: Literal[False] = False,
    draft_model: Any = None,
    **options: Unpack[VoteKeywords],
) -> Iterator[mx.array]: ...


@overload
def best_of_n_many(
    model: Any,
    prompts: Sequence[Prompt],
    n: int = 4,
    max_tokens: int | Sequence[int] = 100,
    temperature: float | Sequence[float] = 0.8,
    score_fn: Scorer = "log_prob",
    *,
    return_all: Literal[True],
    draft_model: Any = None,
    **options: Unpack[VoteKeywords],
) -> Iterator[vote.Candidates]: ...


@described(VoteKeywords)
def best_of_n_many(
    model: Any,
    prompts: Sequence[Prompt],
    n: int = 4,
    max_tokens: int | Sequence[int] = 100,
    temperature: float | Sequence[float] = 0.8,
    score_fn: Scorer = "log_prob",
    *,
    return_all: bool = False,
    draft_model: Any = None,
    **options: Unpack[VoteKeywords],
) -> Iterator[mx.array] | Iterator[vote.Candidates]:
    """Sample ``n`` completions of each prompt and give its best; as :func:`vote_many` does.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompts: token ids each; with ``tokenizer=`` also texts or messages.
        n: completions to draw of each.
        max_tokens: most tokens of each completion.
        temperature: of the sampler.
        score_fn: as in ``best_of_n``; asked once for each prompt.
        return_all: give every candidate of each prompt instead.
        draft_model: a smaller model of the same vocabulary, or a drafter such as ``NGram()``.
        **options: those that follow, ``max_batch`` 64 by default.

    Returns:
        An iterator of what ``best_of_n`` returns.

    Raises:
        ValueError, TypeError: an argument is out of range, at the call; or, later, ``score_fn``
            failed.

    Example:
        >>> best = list(lablib.best_of_n_many(model, [prompt, prompt[:4]], 3, seed=0))
        >>> best[0].tolist() == lablib.best_of_n(model, prompt, 3, seed=0).tolist()
        True
    """
    check_options(best_of_n_many, options)
    check_scorer("score_fn", score_fn)
    flag("return_all", return_all)
    settings = {**options, "max_tokens": max_tokens, "temperature": temperature}
    parts = _sample(model, draft_model, prompts, check_n(n), settings, score_fn)
    scored = (vote.candidates(each, score_fn, parts) for each in _of_each(parts, n))
    return scored if return_all else map(vote.best, scored)


def _sample(
    model: Any, draft_model: Any, prompts: Any, n: int, options: Any, scorer: Scorer | None
) -> SampleParts:
    """Sample prompts side by side, row i of each from stream i: as it would alone."""
    vote.refuse_unseen(scorer, options)
    count = len(sequence("prompts", prompts, "prompts"))
    streams = None if isinstance(options.get("seed"), list | tuple) else [*range(n)] * count
    settings = {"max_batch": max(ROWS, n), **options}
    return completions.complete(model, prompts, draft_model, each=n, streams=streams, **settings)


def _of_each(parts: SampleParts, n: int) -> Generator[Samples]:
    """Yield the samples of one prompt after the other; their counts are of their tokens alone."""
    waiting: list[Samples] = []  # one row each
    for part in parts:
        for row in range(len(part)):
            waiting.append(_row(part, row))
            if len(waiting) == n:
                yield Samples.join(waiting)
                waiting.clear()


def _row(part: Samples, row: int) -> Samples:
    names = "tokens", "logprobs", "finished", "top_logprobs", "prompts"
    cut = {name: getattr(part, name)[row : row + 1] for name in names}
    counts = no_counts() | {"tokens": part.lengths[row]}  # forwards are of the whole batch
    return replace(part, **cut, stats=with_ratios(counts))
