"""A language of a few words, small enough to list every text of it."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

from lablib.validation import BadValue, integer

import mlx.core as mx
import numpy as np

Text = tuple[int, ...]
Wanted = Callable[[Text], bool]


class Chain:
    """A language in which each word depends on the word before it.

    It is asked as an ``AsyncMlxLM`` is, so particles can be drawn from it. One id more than there
    are words, ``mark``, stands before a text and never in it.

    Args:
        words: the vocabulary.
        first: ``(V,)``, the distribution of the first word.
        after: ``(V, V)``; row i is the distribution after word i.
    """

    def __init__(self, words: Sequence[str], first: Sequence[float], after: Any) -> None:
        self.words = list(words)
        self.first, self.after = np.array(first, np.float64), np.array(after, np.float64)
        rows = np.vstack([self.first, self.after])
        if rows.shape != (len(self.words) + 1, len(self.words)) or not np.allclose(rows.sum(1), 1):
            raise BadValue("first and after must hold a distribution over the words in each row")
        self.mark, self.vocab_size = len(self.words), len(self.words) + 1

    def next(self, so_far: Sequence[int]) -> np.ndarray:
        """Return the distribution ``(V,)`` of the next word."""
        return self.after[so_far[-1]] if len(so_far) else self.first

    def batch_next_token_logprobs_sync(self, texts: Sequence[Sequence[int]]) -> mx.array:
        """Return log-probabilities ``(N, V+1)`` after texts, each of which begins with ``mark``."""
        rows = np.stack([np.append(self.next(text[1:]), 0.0) for text in texts])
        with np.errstate(divide="ignore"):
            return mx.array(np.log(rows), mx.float32)

    def texts(self, n: int) -> dict[Text, float]:
        """Return every text of ``n`` words with its probability."""
        texts = product(range(len(self.words)), repeat=integer("n", n, 1))
        return {text: self._chance(text, self.next) for text in texts}

    def masked(self, n: int, wanted: Wanted) -> dict[Text, float]:
        """Return every wanted text of ``n`` words with its probability under a mask.

        The mask allows a word if the text can still become a wanted one.
        """
        goal = self.wanted(n, wanted)

        def row(so_far: Text) -> np.ndarray:
            chances = np.where(self.allowed(goal, so_far), self.next(so_far), 0)
            return chances / chances.sum()

        return {text: self._chance(text, row) for text in goal}

    def true(self, n: int, wanted: Wanted) -> tuple[dict[Text, float], float]:
        """Return the wanted texts as the model would write them had it obeyed, and their share."""
        every = self.texts(n)
        share = sum(every[text] for text in self.wanted(n, wanted))
        return {text: every[text] / share for text in self.wanted(n, wanted)}, share

    def wanted(self, n: int, wanted: Wanted) -> list[Text]:
        """Return the wanted texts of ``n`` words that the model can write."""
        return [text for text, chance in self.texts(n).items() if chance and wanted(text)]

    def allowed(self, goal: Iterable[Text], so_far: Sequence[int]) -> np.ndarray:
        """Return ``(V,)``, whether each word goes on to a text of ``goal``."""
        n, begun = len(so_far), tuple(so_far)
        found = np.zeros(len(self.words), bool)
        found[[text[n] for text in goal if text[:n] == begun]] = True
        return found

    def share(self, words: Sequence[bool], n: int) -> float:
        """Return how likely ``n`` words are all of those that ``words (V,)`` allows."""
        mass = self.first * words
        for _ in range(n - 1):
            mass = (mass @ self.after) * words
        return float(mass.sum())

    def mixed(self, dependence: float) -> "Chain":
        """Return a language between one whose words don't depend on each other, 0, and this, 1."""
        alike = np.broadcast_to(self.first, self.after.shape)
        return Chain(self.words, self.first, dependence * self.after + (1 - dependence) * alike)

    def spelled(self, text: Iterable[int]) -> str:
        """Return a text as its words' first letters."""
        return "".join(self.words[i][0] for i in text)

    def _chance(self, text: Text, row: Callable[[Text], np.ndarray]) -> float:
        return float(np.prod([row(text[:i])[word] for i, word in enumerate(text)]))


WEATHER = Chain(
    ("sun", "rain", "fog", "ice"),
    (0.5, 0.3, 0.1, 0.1),
    [
        [0.80, 0.08, 0.10, 0.02],
        [0.70, 0.10, 0.10, 0.10],
        [0.40, 0.20, 0.20, 0.20],
        [0.05, 0.05, 0.30, 0.60],
    ],
)
