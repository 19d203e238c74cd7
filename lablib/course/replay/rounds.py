"""Greedy speculation replayed: what any draft length would have done, without running a model.

A greedy text is fixed: no draft can change it. So it is enough to know, at each of its places, how
many tokens a drafter would offer there and how many of them would be right. Every draft length, and
every policy that chooses one, then goes through the text as the engine would.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.theory.estimators import bootstrap_interval
from lablib.inference.speculation import NGram
from lablib.inference.speculation.costs import Costs
from lablib.inference.speculation.draft_length import AdaptiveLength, FixedLength
from lablib.validation import BadValue, integer

import mlx.core as mx

LONGEST = 8  # drafts in a round, at most
Length = AdaptiveLength | FixedLength


@dataclass(frozen=True)
class Guesses:
    """A drafter's guesses at each place of a greedy text.

    Attributes:
        offered: how many tokens it would offer there, at most ``LONGEST``.
        right: how many of them, from the first on, are the text's.
    """

    offered: tuple[int, ...]
    right: tuple[int, ...]


def agreement(draft: Any, prompt: Sequence[int], tokens: Sequence[int]) -> tuple[bool, ...]:
    """Return where the draft's best token is the next one of ``tokens``, by one forward of it.

    ``draft(tokens (1, T)) -> logits (1, T, V)``; ``tokens`` are the ids that continue ``prompt``.
    """
    best = mx.argmax(draft(mx.array([[*prompt, *tokens]])), axis=-1)[0].tolist()
    return tuple(a == b for a, b in zip(best[len(prompt) - 1 :], tokens, strict=False))


def guesses_of_flags(agree: Sequence[bool]) -> Guesses:
    """Return the guesses of a draft model from its :func:`agreement` with the text."""
    right = [0] * (len(agree) + 1)
    for place in reversed(range(len(agree))):
        right[place] = min(1 + right[place + 1], LONGEST) if agree[place] else 0
    return Guesses((LONGEST,) * len(agree), tuple(right[:-1]))


def guesses_of_model(model: Any, prompt: Sequence[int], tokens: Sequence[int]) -> Guesses:
    """Return the guesses of a draft model for the text that continues ``prompt``."""
    return guesses_of_flags(agreement(model, prompt, tokens))


def guesses_of_ngram(drafter: NGram, prompt: Sequence[int], tokens: Sequence[int]) -> Guesses:
    """Return the guesses of prompt lookup for the text that continues ``prompt``."""
    text, lookup = [*prompt, *tokens], drafter.begin(None, None, 1).lookup
    offered, right = [], []
    for place in range(len(prompt), len(text)):
        guess = lookup(text[:place], LONGEST)
        same = [a == b for a, b in zip(guess, text[place:], strict=False)]
        offered.append(len(guess))
        right.append(same.index(False) if False in same else len(same))
    return Guesses(tuple(offered), tuple(right))


@dataclass(frozen=True)
class Step:
    """One call of the target, or several plain ones in a row.

    Attributes:
        start: the place of its first token.
        drafted: how many tokens were drafted.
        reached: how many of them were judged; past the end of the text nothing is.
        kept: how many of them stayed.
        tokens: how many tokens it wrote, the target's own included.
        calls: of the target; more than one only where nothing was drafted.
        length: γ as the policy chose it.
        alpha: the policy's estimate before this step; 0 for a fixed length.
    """

    start: int
    drafted: int
    reached: int
    kept: int
    tokens: int
    calls: int
    length: int
    alpha: float

    def cost(self, costs: Costs) -> float:
        """Return what the step takes, in seconds."""
        return self.calls * costs.of_round(self.drafted)


def replay(guesses: Guesses, length: Length) -> list[Step]:
    """Follow the engine through a greedy text, step by step.

    Args:
        guesses: of the drafter, for this text.
        length: how many tokens to draft, at most ``LONGEST``; an adaptive one must know its costs,
            and learns.
    """
    steps, place, end = [], 0, len(guesses.right)
    while place < end:
        wanted = integer("length", length.choose(), 0, LONGEST)
        alpha = getattr(length, "alpha", 0.0)
        drafted, left = min(wanted, guesses.offered[place]), end - place
        reached = kept = 0
        if drafted:
            kept = min(guesses.right[place], drafted)
            reached = min(kept + 1, drafted, left)
            length.observe(reached, kept)
            tokens, calls = min(kept + 1, left), 1
        else:
            if wanted:
                length.miss()
            tokens = calls = min(length.plain_tokens, left)
        steps.append(Step(place, drafted, reached, kept, tokens, calls, wanted, alpha))
        place += tokens
    return steps


def tokens_per_call(texts: Sequence[Guesses], draft_tokens: int) -> tuple[float, float, float]:
    """Return the tokens that a call of the target yields, and the ends of its 95 % interval.

    The interval is a bootstrap over texts: the rounds of one text resemble each other.
    """
    if not texts:
        raise BadValue("texts must hold at least one text, got none")
    runs = [replay(text, FixedLength(draft_tokens)) for text in texts]
    calls = [sum(step.calls for step in run) for run in runs]
    tokens = [len(text.right) for text in texts]
    return sum(tokens) / sum(calls), *bootstrap_interval(tokens, per=calls, resamples=400)
