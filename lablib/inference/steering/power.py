"""Sharpen a model over whole texts: draw from p^α, by Metropolis and Hastings.

A low temperature sharpens each token on its own: it prefers what is likely *now*. p^α over whole
texts also asks what can follow: a token after which one continuation is good beats one after which
many are bad, and low temperature cannot know. No verifier is needed (Karan and Du 2025,
2510.14901). A chain proposes to write the end of its text anew, from a random place on, and accepts
in the proportion that leaves p^α as it is (Hastings 1970). In the paper the text grows block by
block; here the first text is whole. Particles do it, too: ``smc(lm, prompts, n, power=alpha)``.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from lablib.inference import arguments
from lablib.inference.sampling import random_numbers
from lablib.inference.steering import asking
from lablib.validation import integer, number

import numpy as np


@dataclass
class Chains:
    """The texts of all chains of a prompt after the last step.

    Attributes:
        tokens: the completions, a stop token included.
        logprobs: natural logarithms of the model's probability of each token.
        finished: whether a stop token ended the text.
        acceptance_rate: accepted proposals, as a share of all.
        trace: log p of each chain's text, for each step, the start included: ``(steps + 1, n)``.
    """

    tokens: list[list[int]]
    logprobs: list[list[float]]
    finished: list[bool]
    acceptance_rate: float
    trace: list[list[float]]


@dataclass
class Draft:
    """A completion, with what the acceptance must know: log p and log q of each token."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    log_q: list[float] = field(default_factory=list)

    def beginning(self, n: int) -> "Draft":
        """Return its first ``n`` tokens."""
        return Draft(self.tokens[:n], self.logprobs[:n], self.log_q[:n])


def power_sample(
    lm: Any,
    prompts: Sequence[Sequence[int]],
    n: int,
    alpha: float,
    *,
    steps: int = 10,
    proposal: float | None = None,
    max_tokens: int = 100,
    stop_tokens: Collection[int] | None = None,
    seed: int | None = None,
) -> list[Chains]:
    """Run ``n`` chains for each prompt, whose texts come to be distributed as p^alpha.

    Args:
        lm: as in ``smc``.
        prompts: token ids, a list for each prompt.
        n: how many chains. Each is a sample of its own; all take their steps together.
        alpha: the power; 1 is the model itself.
        steps: proposals for each chain. 0 leaves the start: every token drawn from its own
            p^proposal, a low temperature.
        proposal: the power at which proposals are drawn, token by token; None: alpha.
        max_tokens: the length of a completion at most.
        stop_tokens: ids that end one and belong to it; None: the model's own.
        seed: the same seed gives the same chains; None draws afresh.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work.
    """
    wish = asking.read_wish(lm, prompts, max_tokens, stop_tokens, seed)
    n, steps = arguments.check_n(n), integer("steps", steps, 0)
    alpha = number("alpha", alpha, 0.0)
    proposal = alpha if proposal is None else number("proposal", proposal, 0.0)
    owners = [prompt for prompt in wish.prompts for _ in range(n)]
    keys = asking.streams(wish.seed, 0, len(owners))
    texts = [Draft() for _ in owners]
    _write(wish, owners, texts, proposal, _Numbers(keys, 0))
    trace = [[sum(text.logprobs) for text in texts]]
    accepted = np.zeros(len(owners))
    for step in range(1, steps + 1):
        numbers = _Numbers(keys, step * (wish.max_tokens + 2))
        lengths = np.array([len(text.tokens) for text in texts])
        places = (numbers.at(wish.max_tokens) * lengths).astype(int)
        proposed = [text.beginning(place) for text, place in zip(texts, places, strict=True)]
        _write(wish, owners, proposed, proposal, numbers)
        for i, u in enumerate(numbers.at(wish.max_tokens + 1)):
            ratio = log_accept(texts[i], proposed[i], places[i], alpha)
            if u < math.exp(min(0.0, ratio)):
                texts[i] = proposed[i]
                accepted[i] += 1
        trace.append([sum(text.logprobs) for text in texts])
    return [
        Chains(
            [text.tokens for text in texts[own]],
            [text.logprobs for text in texts[own]],
            [text.tokens[-1] in wish.stops for text in texts[own]],
            float(accepted[own].mean() / steps) if steps else 0.0,
            [row[own] for row in trace],
        )
        for own in (slice(i * n, (i + 1) * n) for i in range(len(wish.prompts)))
    ]


def log_accept(old: Draft, new: Draft, place: int, alpha: float) -> float:
    """Return the logarithm of the ratio that decides: accept with the chance min(1, ratio).

    It is p(new)^α · q(old | new) over p(old)^α · q(new | old). Both texts have the same ``place``
    tokens at their start; a place is chosen among a text's own tokens, so a longer text chooses
    each of them more seldom.
    """
    gain = alpha * (sum(new.logprobs[place:]) - sum(old.logprobs[place:]))
    there = sum(new.log_q[place:]) - math.log(len(old.tokens))
    back = sum(old.log_q[place:]) - math.log(len(new.tokens))
    return gain + back - there


def _write(
    wish: asking.Wish,
    prompts: Sequence[list[int]],
    texts: Sequence[Draft],
    power: float,
    numbers: "_Numbers",
) -> None:
    """Write texts to their ends, each token from its own p^power."""
    growing = list(range(len(texts)))
    while growing:
        rows = wish.logprobs([prompts[i] + texts[i].tokens for i in growing])
        log_q = asking.log_softmax(power * rows)
        u = numbers.at([len(text.tokens) for text in texts])[growing]
        tokens = asking.draw(log_q, u)
        for i, token, row, q in zip(growing, tokens, rows, log_q, strict=True):
            texts[i].tokens.append(token)
            texts[i].logprobs.append(float(row[token]))
            texts[i].log_q.append(float(q[token]))
        growing = [i for i in growing if not wish.ends(texts[i].tokens)]


@dataclass
class _Numbers:
    """The random numbers of one step: of each token, then of the place and the acceptance."""

    keys: np.ndarray
    first: int

    def at(self, uses: Any) -> np.ndarray:
        """Return one for each chain, of the same use or of its own."""
        positions = np.broadcast_to(np.asarray(uses) + self.first, self.keys.shape)
        return random_numbers.uniforms(self.keys, positions)
