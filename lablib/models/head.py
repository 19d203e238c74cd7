"""Guesses a target's next hidden state, and with it the token after the next: a draft head.

The output layer of a model turns its last hidden state into one next token. A draft head goes on
from there without the model: from the state that predicted a token, and that token, one block
guesses the state that will predict the token after it (EAGLE, Li et al. 2024, 2401.15077). The
target's own embeddings go in, its own output layer reads the result, and of that layer only the
rows of frequent tokens, as most of the time goes there (FR-Spec, Zhao et al. 2025, 2502.14856).
"""

from pathlib import Path
from typing import Any

from lablib.machine.arrays import listed
from lablib.models import zoo
from lablib.models.state_reader import StateReader, filled, stored
from lablib.unknown_options import checks_options

import mlx.core as mx
import mlx.nn as nn

KIND = "lablib-head"


class DraftHead(StateReader):
    """``head(states (B, T, hidden), tokens (B, T), cache) -> states (B, T, hidden)``.

    Each state stands before its token; the output guesses the state after it. Arguments and errors
    are those of ``StateReader``.
    """

    def __call__(
        self, states: mx.array, tokens: mx.array, cache: list[Any] | None = None
    ) -> mx.array:
        """Guess the states after ``tokens``; ``cache`` takes the pairs in."""
        return self.blocks(self.pairs(states, tokens), cache)


@checks_options
def load_head(name: str | Path, target: nn.Module) -> DraftHead:
    """Return the head for ``target`` that came with the package, or that the workshop wrote.

    Args:
        name: a shipped name, such as "target-head", or the path of a directory.
        target: the model that it was trained on, as ``load`` returns it.

    Returns:
        The head, for ``Head(...)``.

    Raises:
        BadValue: there is no such head, a file of it is damaged, or it is another model's.

    Example:
        >>> head = lablib.Head(lablib.load_head("target-head", model))
        >>> ids, stats = lablib.speculative_decode(model, head, prompt, max_tokens=8)
        >>> stats["draft_calls"] > 0
        True
    """
    path, keys, arrays = stored(name, target, KIND, "draft head", zoo.CHECKPOINTS)
    model: Any = target  # whose kind was looked at
    head = DraftHead(model, listed(arrays.pop("ids")), keys["intermediate_size"])
    return filled(head, arrays, path)
