"""A verifier that never errs, and what makes a vote's weight of any verifier."""

from collections.abc import Callable
from typing import Any

from lablib.course.verifiers.rows import unpad
from lablib.inference.stop_strings import text_of
from lablib.inference.voting.scoring import ask
from lablib.validation import BadType, BadValue, function, number

import mlx.core as mx
import numpy as np
from scipy.special import log_expit


class Exact:
    """Scores 1 if ``check`` accepts the completion's text and 0 if it does not.

    ``check`` belongs to one problem, ``lambda text: sums.verify(problem, text)``. The text is
    what ``generate`` makes of the completion by the ``tokenizer``, whose end token ends it.
    """

    def __init__(self, tokenizer: Any, check: Callable[[str], bool]):
        if not hasattr(tokenizer, "decode"):
            raise BadType(f"tokenizer must have a decode method, got {type(tokenizer).__name__}")
        self.tokenizer, self.check = tokenizer, function("check", check)

    def __call__(
        self, sequences: mx.array, lengths: mx.array | None = None, prompt_length: int = 0
    ) -> np.ndarray:
        """Return ``(n,)`` scores, 1.0 or 0.0, of ``sequences (n, seq_len)``."""
        rows = [row.tolist() for row in unpad(sequences, lengths)]
        pairs = [(row[:prompt_length], row[prompt_length:]) for row in rows]
        texts = [text_of(self.tokenizer, *pair) for pair in pairs]
        return np.array([float(bool(self.check(text))) for text in texts])


def log_weight(
    verifier: Callable[..., Any], center: float = 0.0, temperature: float = 1.0
) -> Callable[..., Any]:
    """Turn a verifier into a vote's weight: ``log σ((score − center) / temperature)``.

    If the score is the log-odds that a solution is right (the learned verifier's is), this is the
    logarithm of that probability, and a weighted vote adds up probabilities. For scores around 0
    (wrong) and 1 (right) take ``center=0.5``; the lower the temperature, the harder the judgement.
    A weight never exceeds 1, so no single lucky score decides the vote as it decides best-of-N.
    """
    verifier, center = function("verifier", verifier), number("center", center)
    if (temperature := number("temperature", temperature)) <= 0.0:
        raise BadValue(f"temperature must be positive, got {temperature}")

    def weight(
        sequences: mx.array, lengths: mx.array | None = None, prompt_length: int = 0
    ) -> np.ndarray:
        more = {"lengths": lengths, "prompt_length": prompt_length}
        return log_expit((ask("verifier", verifier, sequences, **more) - center) / temperature)

    return weight
