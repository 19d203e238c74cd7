"""Every text of a small language, with its exact probability: what samplers must agree with.

A text ends at the stop token 0 or has ``longest`` tokens. Nothing of the library is used here.
"""

import math
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
from oracles.enumeration import Language

STOP = 0
Text = tuple[int, ...]


class TableLM(Language):
    """A ``Language`` that is asked like an ``AsyncMlxLM``; a context is computed once."""

    def __init__(self, vocab_size: int = 4, seed: int = 0, spread: float = 1.5):
        super().__init__(vocab_size, seed, spread)
        self.vocab_size = vocab_size
        self.asked = 0
        self._logs: dict[Text, np.ndarray] = {}

    def batch_next_token_logprobs_sync(self, texts: Sequence[Sequence[int]]) -> mx.array:
        self.asked += len(texts)
        return mx.array(np.stack([self._row(tuple(text)) for text in texts]), mx.float32)

    def _row(self, context: Text) -> np.ndarray:
        if context not in self._logs:
            self._logs[context] = np.log(self.probs(context))
        return self._logs[context]

    def texts(self, prompt: Sequence[int], longest: int = 5) -> dict[Text, float]:
        """Every text with its probability."""
        found: dict[Text, float] = {}

        def visit(text: Text, p: float) -> None:
            if len(text) == longest or text[-1:] == (STOP,):
                found[text] = p
                return
            for token, q in enumerate(self.probs([*prompt, *text])):
                visit((*text, token), p * q)

        visit((), 1.0)
        assert math.isclose(sum(found.values()), 1.0)
        return found


def conditioned(texts: dict[Text, float], weight: Callable[[Text], float]) -> tuple[dict, float]:
    """The distribution of the texts after weighing, and the evidence: their mean weight."""
    masses = {text: p * weight(text) for text, p in texts.items()}
    evidence = sum(masses.values())
    return {text: mass / evidence for text, mass in masses.items() if mass > 0}, evidence


def too_far(draws: Sequence[Text], exact: dict[Text, float]) -> float:
    """The chance of a chi-square as large, if the draws came from ``exact``; rare texts together.

    A text that cannot be is a chance of 0.
    """
    from scipy.stats import chi2

    counts: dict[Text, int] = {}
    for text in draws:
        counts[tuple(text)] = counts.get(tuple(text), 0) + 1
    if not counts.keys() <= exact.keys():
        return 0.0
    n, rest, got_rest, total, cells = len(draws), 0.0, 0, 0.0, 0
    for text, p in exact.items():
        if n * p < 10:
            rest, got_rest = rest + n * p, got_rest + counts.get(text, 0)
        else:
            total, cells = total + (counts.get(text, 0) - n * p) ** 2 / (n * p), cells + 1
    if rest >= 10:
        total, cells = total + (got_rest - rest) ** 2 / rest, cells + 1
    return float(chi2.sf(total, cells - 1))


def off_by(values: Sequence[float], exact: float) -> float:
    """By how many standard errors the mean of independent values misses the exact one."""
    values = np.asarray(values, np.float64)
    error = values.std(ddof=1) / math.sqrt(len(values))
    gap = abs(values.mean() - exact)
    if error == 0:
        return 0.0 if gap < 1e-12 else math.inf
    return float(gap / error)
