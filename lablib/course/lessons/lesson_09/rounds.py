"""Runs of lesson 09's drafters on this machine: guesses for real texts, and seconds."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from lablib.course.replay.measure import clock, measure_costs
from lablib.course.replay.rounds import Guesses, guesses_of_model, guesses_of_ngram
from lablib.inference import SamplerOptions, TokenIterator, sample_many, sample_n
from lablib.inference.completions import speculative_sample_n
from lablib.inference.speculation import (
    Drafter,
    EarlyExit,
    NGram,
    SpeculativeTokenIterator,
    first_layers,
)
from lablib.inference.speculation.costs import Costs

import numpy as np

Prompts = Mapping[str, Sequence[Sequence[int]]]


GAMMA = 4  # drafts a round


class Own(NGram):
    """A look-up by a function of one's own: ``lookup(text, n, longest) -> ids``, exercise 09.1.

    Args:
        function: a solution of the exercise.
        longest: how many last tokens it may look for.
    """

    def __init__(self, function: Callable[..., Sequence[int]], longest: int = 3) -> None:
        super().__init__(longest)
        self._function = function

    def lookup(self, text: Sequence[int], n: int, row: int = 0) -> list[int]:
        """Return what the function proposes; an error of it is its own."""
        return [int(token) for token in self._function(list(text), n, self.longest)]


def written(
    target: Any, prompts: Prompts, drafters: Mapping[str, Drafter], **options: Any
) -> tuple[dict[str, tuple[Sequence[int], list[int]]], dict[str, dict[str, list[Guesses]]]]:
    """Let the target write greedily, and note what each drafter would say at each place.

    Args:
        target: writes.
        prompts: task -> prompts, ids.
        drafters: name -> look-up, draft model or early exit.
        **options: of ``sample_many``.

    Returns:
        Task -> the first prompt and its text; task -> drafter -> its guesses for every text.
    """
    texts, guesses = {}, {}
    greedily = SamplerOptions(temperature=0.0)
    for task, asked in prompts.items():
        found = sample_many(target, asked, [greedily] * len(asked), **options)
        pairs = [(prompt, each.tokens[0]) for prompt, each in zip(asked, found, strict=True)]
        texts[task] = pairs[0]
        guesses[task] = {
            name: [_guesses(target, drafter, *pair) for pair in pairs]
            for name, drafter in drafters.items()
        }
    return texts, guesses


def _guesses(target: Any, drafter: Drafter, prompt: Sequence[int], tokens: list[int]) -> Guesses:
    if isinstance(drafter, NGram):
        return guesses_of_ngram(drafter, prompt, tokens)
    if isinstance(drafter, EarlyExit):
        return guesses_of_model(first_layers(target, drafter.n_layers), prompt, tokens)
    return guesses_of_model(drafter.model, prompt, tokens)


def race(
    target: Any, prompts: Prompts, drafters: Mapping[str, Drafter], options: Mapping[str, Any]
) -> dict[str, dict[str, list[float]]]:
    """Write the same texts plainly and with each drafter, ``GAMMA`` drafts a round, in turn.

    Args:
        target: writes.
        prompts: task -> prompts, ids.
        drafters: name -> drafter.
        options: of the iterators.

    Returns:
        Task -> way, "plain" the first -> seconds of each text, the faster of two runs. On a CPU
        they are the processor's own, to which other programs add little.

    Raises:
        AssertionError: a drafter's text is not the target's own.
    """
    now, seconds = clock(), {}
    ways = {"plain": None, **drafters}
    for task, asked in prompts.items():
        seconds[task] = {name: [math.inf] * len(asked) for name in ways}
        for _, (i, prompt) in itertools.product(range(2), enumerate(asked)):
            alone = None
            for name, drafter in ways.items():
                start = now()
                if drafter is None:
                    tokens = [each.id for each in TokenIterator(target, prompt, **options)]
                else:
                    more = {**options, "draft_tokens": GAMMA}
                    iterator = SpeculativeTokenIterator(target, drafter, prompt, **more)
                    tokens = [each.id for each in iterator]
                seconds[task][name][i] = min(seconds[task][name][i], now() - start)
                alone = alone or tokens
                assert tokens == alone, f"{name} wrote another text"
    return seconds


@dataclass(frozen=True)
class Spent:
    """What some texts took.

    Attributes:
        tokens: how many were written.
        calls: forwards of the target.
        drafts: forwards of the draft model.
        seconds: as ``race`` counts them.
    """

    tokens: int = 0
    calls: int = 0
    drafts: int = 0
    seconds: float = 0.0

    @property
    def per_call(self) -> float:
        """Return the tokens that a call of the target yields."""
        return self.tokens / self.calls

    @property
    def pace(self) -> float:
        """Return the tokens a second."""
        return self.tokens / self.seconds

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def in_turn(
    target: Any, prompts: Sequence[Sequence[int]], drafters: Mapping[str, Any], **options: Any
) -> dict[str, Spent]:
    """Write a text behind each prompt, plainly and with each drafter in turn; texts may be sampled.

    Args:
        target: writes.
        prompts: ids.
        drafters: name -> drafter or draft model.
        options: of the iterators.

    Returns:
        Way, "plain" the first -> what its texts took.
    """
    now = clock()
    ways = {"plain": None, **drafters}
    spent = dict.fromkeys(ways, Spent())
    for prompt, (name, drafter) in itertools.product(prompts, ways.items()):
        start = now()
        text: Any = (
            TokenIterator(target, prompt, **options)
            if drafter is None
            else SpeculativeTokenIterator(target, drafter, prompt, draft_tokens=GAMMA, **options)
        )
        written = len(list(text))
        calls, drafts = text.stats["target_calls"], text.stats.get("draft_calls", 0)
        spent[name] += Spent(written, calls, drafts, now() - start)
    return spent


@dataclass(frozen=True)
class Together:
    """The effect of speculation on rows that are written side by side.

    Attributes:
        rows: how many.
        plain_calls: forwards of the target without drafts.
        calls: with them.
        alpha: of the drafts.
        costs: prices of such forwards on this machine.
        measured: the speed-up by the clock.
    """

    rows: int
    plain_calls: int
    calls: int
    alpha: float
    costs: Costs
    measured: float


def together(target: Any, draft: Any, prompt: Sequence[int], rows: int, **options: Any) -> Together:
    """Draw ``rows`` answers at temperature 1 without drafts and with four, thrice; see above."""
    costs = measure_costs(target, draft, batch=rows, most=4, repeats=3, temperature=1.0)
    now, took, how = clock(), [], {"temperature": 1.0, **options}
    for _ in range(3):  # the fastest one counts
        start = now()
        alone = sample_n(target, prompt, rows, **how)
        middle = now()
        helped = speculative_sample_n(
            target, draft, prompt, rows, draft_tokens=4, rule="match", **how
        )
        took.append((middle - start, now() - middle))
    plainly, drafted = np.min(took, axis=0)
    calls = alone.stats["target_calls"], helped.stats["target_calls"]
    return Together(rows, *calls, helped.stats["alpha"], costs, plainly / drafted)
