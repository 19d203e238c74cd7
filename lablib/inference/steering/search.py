"""Look for one text instead of drawing it: the likeliest, the best judged, the most alike.

- ``beam_search`` keeps the ``width`` likeliest beginnings. What it finds is likely, and not
  therefore good: the likeliest texts are short and dull ("beam search's curse", Stahlberg and
  Byrne 2019, 1908.10090).
- ``best_first`` lets a verifier judge steps, and goes on where it hopes most (as in tree of
  thoughts, Yao et al. 2023, 2305.10601).
- ``minimum_bayes_risk`` elects among samples the one that the others resemble most (Eikema and Aziz
  2020, 2005.10283). If only equal texts resemble each other, that is the majority vote.
- ``Budget`` ends the thinking: after so many tokens the answer is forced (Muennighoff et al. 2025,
  2501.19393).
"""

import math
from collections.abc import Callable, Collection, Sequence
from copy import copy as shallow_copy
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from lablib.inference.sampling import random_numbers
from lablib.inference.steering import asking
from lablib.inference.voting.vote import tally
from lablib.validation import BadType, BadValue, function, integer, number, shown, token_ids

import mlx.core as mx
import numpy as np


class Found(NamedTuple):
    """A text that a search has found.

    Attributes:
        tokens: the completion, a stop token included.
        score: what the search went by.
    """

    tokens: list[int]
    score: float


def beam_search(
    lm: Any,
    prompt: Sequence[int],
    width: int,
    *,
    length_power: float = 0.0,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
) -> list[Found]:
    """Return the ``width`` likeliest completions that a beam of that width sees, the best first.

    Args:
        lm: an ``AsyncMlxLM``, or anything that ``smc`` takes.
        prompt: token ids.
        width: how many beginnings are kept at each length, whole texts among them.
        length_power: the score is log p / length^power: 0 favours short texts, 1 takes the mean.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end one; None: the model's own.
    """
    wish = asking.read_wish(lm, [prompt], max_tokens, stop_tokens, 0)
    width = integer("width", width, 1)
    length_power = number("length_power", length_power, 0.0)
    beams = [Beam([], 0.0)]
    while True:
        growing = [beam for beam in beams if not wish.ends(beam.tokens)]
        if not growing:
            return [Found(beam.tokens, beam.score(length_power)) for beam in beams]
        rows = wish.logprobs([wish.prompts[0] + beam.tokens for beam in growing])
        longer = [beam for beam in beams if wish.ends(beam.tokens)]
        for beam, row in zip(growing, rows, strict=True):
            best = np.argsort(-row, kind="stable")[:width].tolist()
            longer += [Beam([*beam.tokens, i], beam.logprob + float(row[i])) for i in best]
        beams = sorted(longer, key=lambda beam: -beam.score(length_power))[:width]


class Beam(NamedTuple):
    """A beginning and its log-probability."""

    tokens: list[int]
    logprob: float

    def score(self, length_power: float) -> float:
        """Return log p / length^power."""
        return self.logprob / max(1, len(self.tokens)) ** length_power


def best_first(
    lm: Any,
    prompt: Sequence[int],
    verifier: Callable[[list[int]], float],
    *,
    branch: int = 4,
    step_tokens: Collection[int] = (),
    max_steps: int = 32,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
    seed: int | None = None,
) -> list[Found]:
    """Grow a tree of steps, always where the verifier hopes most; return whole texts, best first.

    Args:
        lm: as in ``beam_search``.
        prompt: token ids.
        verifier: ``f(tokens) -> float``, how much hope there is for a completion so far, or how
            good it is once it has ended; more is better.
        branch: how many steps are drawn after a text; equal ones count once.
        step_tokens: ids that end a step, such as a newline's; without any a step is one token.
        max_steps: how many texts are gone on with at most. The search ends before, when the best
            text has ended: by its verifier no other promises more.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end one; None: the model's own.
        seed: of the steps that are drawn; None draws afresh.
    """
    wish = asking.read_wish(lm, [prompt], max_tokens, stop_tokens, seed)
    function("verifier", verifier)
    branch, max_steps = integer("branch", branch, 1), integer("max_steps", max_steps, 1)
    ends = frozenset(token_ids("step_tokens", [*step_tokens], allow_empty=True))
    found = count()
    queue: list[tuple[float, int, list[int]]] = [(0.0, next(found), [])]
    for step in range(max_steps):
        if wish.ends(queue[0][2]):
            break
        _, _, text = heappop(queue)
        for longer in _steps(wish, text, branch, ends, step):
            heappush(queue, (-_number("verifier", verifier(longer)), next(found), longer))
    return [Found(text, -minus_hope) for minus_hope, _, text in sorted(queue) if wish.ends(text)]


def _steps(
    wish: asking.Wish, text: list[int], branch: int, ends: frozenset[int], step: int
) -> list[list[int]]:
    """Draw ``branch`` next steps of a text; return the different ones, by order of appearance."""
    keys = asking.streams(wish.seed, step * branch, branch)
    longer = [list(text) for _ in range(branch)]
    growing = list(range(branch))
    while growing:
        rows = wish.logprobs([wish.prompts[0] + longer[i] for i in growing])
        places = np.array([len(longer[i]) for i in growing])
        tokens = asking.draw(rows, random_numbers.uniforms(keys[growing], places))
        for i, token in zip(growing, tokens, strict=True):
            longer[i].append(token)
        goes_on = [i for i in growing if ends and longer[i][-1] not in ends]
        growing = [i for i in goes_on if not wish.ends(longer[i])]
    return [*{tuple(each): each for each in longer}.values()]


def minimum_bayes_risk(
    completions: Sequence[Any],
    utility: Callable[[Any, Any], float] | None = None,
    log_weights: Sequence[float] | None = None,
) -> list[Found]:
    """Elect the completion that is most useful if the truth is one of them, whichever.

    Args:
        completions: token ids, or answers, from ``sample_n``; equal ones count as often as they
            come.
        utility: ``f(candidate, truth) -> float``, more is better; None: 1 if they are equal, else
            0, which makes it the majority vote. ``edit_similarity`` is another.
        log_weights: of each completion, as in ``tally``; None: all count the same.

    Returns:
        The different completions with their expected utility, the best first; ties keep the order
        of first appearance.
    """
    texts = [tuple(each) if isinstance(each, list) else each for each in completions]
    if not texts:
        raise BadValue("completions must hold at least one, got none")
    votes = tally([[]] * len(texts), texts, log_weights)
    total = sum(count for _, count in votes)
    share = {answer: n / total for answer, (_, n) in zip(votes.answers, votes, strict=True)}
    utility = _same if utility is None else function("utility", utility)
    expected = {}
    for one in dict.fromkeys(texts):  # fsum rounds once, so that ties are ties
        useful = (p * _number("utility", utility(one, other)) for other, p in share.items())
        expected[one] = math.fsum(useful)
    ranked = sorted(expected, key=lambda one: -expected[one])
    return [Found(list(one) if isinstance(one, tuple) else one, expected[one]) for one in ranked]


def _same(one: Any, other: Any) -> float:
    return float(one == other)


def edit_distance(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many insertions, deletions and replacements lead from one to the other."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            kept = before + (a != b)
            before = row[j]
            row[j] = min(kept, before + 1, row[j - 1] + 1)
    return row[-1]


def edit_similarity(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return 1 less the edit distance as a share of the longer one: a utility from 0 to 1."""
    longer = max(len(one), len(other))
    return 1.0 - edit_distance(one, other) / longer if longer else 1.0


def _number(name: str, value: Any) -> float:
    """Return what a caller's function ``name`` returned, if it is a number and not NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise BadType(f"{name} must return a number, got {shown(value)}")
    if np.isnan(value):
        raise BadValue(f"{name} must not return NaN")
    return float(value)


class Budget:
    """A logits processor that forces ``answer`` once a completion has ``most`` tokens.

    A text that has written the answer's ids by itself before goes its own way.

    Args:
        most: how many tokens are free.
        answer: ids that then come one after the other, such as those of "#"; what follows is the
            model's.
    """

    def __init__(self, most: int, answer: Sequence[int]) -> None:
        self.most = integer("most", most, 0)
        self.answer = token_ids("answer", answer)
        self._start: int | None = None  # of the completion

    def copy(self) -> "Budget":
        """Return one that goes its own way from here."""
        return shallow_copy(self)

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Leave the next token of the answer alone, where it is due."""
        text = tokens.tolist()
        if self._start is None:
            self._start = len(text)
        written = text[self._start :]
        due = len(written) - self.most
        if not 0 <= due < len(self.answer) or self._is_in(written[: self.most]):
            return logits
        ids = mx.arange(logits.shape[-1])
        return mx.where(ids == self.answer[due], logits, -mx.inf)

    def _is_in(self, written: list[int]) -> bool:
        n = len(self.answer)
        return any(written[i : i + n] == self.answer for i in range(len(written) - n + 1))
