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
from typing import Any, NamedTuple

from lablib.inference.sampling import random_numbers
from lablib.inference.steering import requests
from lablib.inference.voting import votes
from lablib.unknown_options import checks_options
from lablib.validation import BadType, BadValue, function, integer, number, sequence, token_ids

import mlx.core as mx
import numpy as np


class Hypothesis(NamedTuple):
    """A text that a search has found.

    Attributes:
        tokens: the completion, a stop token included.
        score: what the search went by.
    """

    tokens: list[int]
    score: float


Found = Hypothesis  # as it was called before 0.1; until 1.0


@checks_options
def beam_search(
    lm: Any,
    prompt: Sequence[int],
    width: int,
    *,
    length_power: float = 0.0,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
) -> list[Hypothesis]:
    """Return the ``width`` likeliest completions that a beam of that width sees, the best first.

    Args:
        lm: an ``AsyncMlxLM``, or anything that ``smc`` takes.
        prompt: token ids.
        width: how many beginnings are kept at each length, whole texts among them.
        length_power: the score is log p / length^power: 0 favours short texts, 1 takes the mean; 10
            at most.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end one; None: the model's own.

    Returns:
        The texts with their scores.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work.

    Example:
        >>> lm = lablib.AsyncMlxLM(model, tokenizer)
        >>> first, second = lablib.inference.beam_search(lm, prompt, 2, max_tokens=4)
        >>> first.score >= second.score
        True
    """
    request = requests.read_request(lm, [prompt], max_tokens, stop_tokens, 0)
    width = integer("width", width, 1, 1_000_000)
    length_power = number("length_power", length_power, 0.0, 10.0)

    def score(tokens: list[int], logprob: float) -> float:
        return logprob / max(1, len(tokens)) ** length_power

    beams: list[tuple[list[int], float]] = [([], 0.0)]  # with log p
    while True:
        growing = [beam for beam in beams if not request.ends(beam[0])]
        if not growing:
            return [Hypothesis(tokens, score(tokens, logprob)) for tokens, logprob in beams]
        rows = request.logprobs([request.prompts[0] + tokens for tokens, _ in growing])
        longer = [beam for beam in beams if request.ends(beam[0])]
        for (tokens, logprob), row in zip(growing, rows, strict=True):
            best = np.argsort(-row, kind="stable")[:width].tolist()
            longer += [([*tokens, i], logprob + float(row[i])) for i in best]
        beams = sorted(longer, key=lambda beam: -score(*beam))[:width]


@checks_options
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
) -> list[Hypothesis]:
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

    Returns:
        The whole texts that were found; there may be none.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work; or the verifier
            returned no number, NaN or +inf.

    Example:
        >>> lm = lablib.AsyncMlxLM(model, tokenizer)
        >>> how = {"branch": 2, "max_steps": 5, "max_tokens": 2, "seed": 0}
        >>> found = lablib.inference.best_first(lm, prompt, lambda tokens: len(tokens), **how)
        >>> found[0].score
        2.0
    """
    request = requests.read_request(lm, [prompt], max_tokens, stop_tokens, seed)
    function("verifier", verifier)
    branch, max_steps = integer("branch", branch, 1, 1_000_000), integer("max_steps", max_steps, 1)
    if not isinstance(step_tokens, Collection):
        raise BadType(f"step_tokens must be token ids, got {type(step_tokens).__name__}")
    ends = frozenset(token_ids("step_tokens", [*step_tokens], allow_empty=True))
    texts = [Hypothesis([], 0.0)]
    for step in range(max_steps):
        best = max(texts, key=lambda text: text.score)  # the first of equals
        if request.ends(best.tokens):
            break
        texts.remove(best)
        drawn = [
            request.row(request.prompts[0], random_numbers.key(request.seed, step, i), best.tokens)
            for i in range(branch)
        ]
        growing = drawn
        while growing:
            request.extend(growing)
            inside = [text for text in growing if ends and text.tokens[-1] not in ends]
            growing = [text for text in inside if text.left]
        for tokens in dict.fromkeys(tuple(text.tokens) for text in drawn):
            hope = requests.returned_number("verifier", verifier([*tokens]))
            texts.append(Hypothesis([*tokens], hope))
    whole = [text for text in texts if request.ends(text.tokens)]
    return sorted(whole, key=lambda text: -text.score)


@checks_options
def minimum_bayes_risk(
    completions: Sequence[Any],
    utility: Callable[[Any, Any], float] | None = None,
    log_weights: Sequence[float] | None = None,
) -> list[Hypothesis]:
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

    Raises:
        ValueError, TypeError: there are no completions, or the utility returned no number.

    Example:
        >>> alike = lablib.inference.steering.edit_similarity
        >>> lablib.inference.minimum_bayes_risk([[1, 2, 3], [1, 2, 4], [9], [9]], alike)[0].tokens
        [9]
    """
    given = sequence("completions", completions, "token ids or answers")
    texts = [tuple(each) if isinstance(each, list) else each for each in given]
    if not texts:
        raise BadValue("completions must hold at least one, got none")
    counted = votes.tally([[]] * len(texts), texts, log_weights)
    total = sum(count for _, count in counted)
    share = {answer: n / total for answer, (_, n) in zip(counted.answers, counted, strict=True)}
    if utility is None:
        utility = _same
    function("utility", utility)
    expected = []
    for one in dict.fromkeys(texts):
        useful = [requests.returned_number("utility", utility(one, other)) for other in share]
        products = (p * each for p, each in zip(share.values(), useful, strict=True))
        answer = list(one) if isinstance(one, tuple) else one
        expected.append(Hypothesis(answer, math.fsum(products)))  # it rounds once: ties are ties
    return sorted(expected, key=lambda text: -text.score)


def _same(one: Any, other: Any) -> float:
    return float(one == other)


def edit_similarity(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return 1 less the edit distance as a share of the longer one: a utility from 0 to 1."""
    longer = max(len(one), len(other))
    return 1.0 - edit_distance(one, other) / longer if longer else 1.0


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


@checks_options
class Budget:
    """A logits processor that forces ``answer`` once a completion has ``most`` tokens.

    A text that has written the answer's ids by itself before goes its own way.

    Args:
        most: how many tokens are free.
        answer: ids that then come one after the other, such as those of "#"; what follows is the
            model's.

    Example:
        >>> now = lablib.inference.Budget(2, tokenizer.encode("#")[-1:])
        >>> ids = lablib.sample_n(model, prompt, 1, logits_processors=[now], seed=0)[0]
        >>> tokenizer.decode(ids[2:3])
        '#'
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
        text: Any = tokens.tolist()
        if self._start is None:
            self._start = len(text)
        written, n = text[self._start :], len(self.answer)
        due = len(written) - self.most
        answered = any(written[i : i + n] == self.answer for i in range(self.most - n + 1))
        if answered or not 0 <= due < n:
            return logits
        return mx.where(mx.arange(logits.shape[-1]) == self.answer[due], logits, -mx.inf)
