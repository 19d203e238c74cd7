"""Verifiers: judges of a finished solution, exact or as noisy as you like.

A verifier is a scorer: ``verifier(sequences (n, seq_len), lengths, prompt_length) -> (n,)``, where
more is better. So it can rank (``best_of_n(score_fn=...)``) and, through ``log_weight``, weigh
votes. The exact one never errs and is what a real task lacks; ``Noisy`` makes it err in a way that
can be dialled; the learned one comes from ``lablib.models.verifier.load_verifier``.
"""

import hashlib
import math
from collections.abc import Callable
from typing import Any

from lablib.inference.voting.scoring import ask
from lablib.validation import BadType, BadValue, function, integer, number

import mlx.core as mx
import numpy as np

Verifier = Callable[..., Any]


class Exact:
    """Scores 1 if ``check`` accepts the completion's text and 0 if it does not.

    ``check`` belongs to one problem, ``lambda text: sums.verify(problem, text)``. The ``tokenizer``
    leaves special tokens out of the text.
    """

    def __init__(self, tokenizer: Any, check: Callable[[str], bool]):
        if not hasattr(tokenizer, "decode"):
            raise BadType(f"tokenizer must have a decode method, got {type(tokenizer).__name__}")
        self.tokenizer, self.check = tokenizer, function("check", check)

    def __call__(
        self, sequences: mx.array, lengths: mx.array | None = None, prompt_length: int = 0
    ) -> np.ndarray:
        """Return ``(n,)`` scores, 1.0 or 0.0, of ``sequences (n, seq_len)``."""
        completions = [row[prompt_length:].tolist() for row in _rows(sequences, lengths)]
        texts = [self.tokenizer.decode(row, skip_special_tokens=True) for row in completions]
        return np.array([float(bool(self.check(text))) for text in texts])


class Noisy:
    """Another verifier's score plus an error that belongs to the solution.

    A real verifier errs the same way every time it reads the same text, so the error is a function
    of the tokens and ``seed``, not a fresh draw: equal solutions score equally, whatever the batch,
    and another seed is another verifier of the same quality.

    The error is ``scale`` (0 or more) times Student's t with ``df`` degrees of freedom, at least
    0.2: above x its probability falls like x^−df. ``df=inf`` is the Gaussian: the best of many
    samples is then good. With a heavy tail (``df=2``, say) the best of many is soon the one with
    the luckiest error: over-optimisation (Gao et al. 2022, 2210.10760).
    """

    def __init__(self, verifier: Verifier, scale: float, df: float = math.inf, seed: int = 0):
        self.verifier, self.scale = function("verifier", verifier), number("scale", scale, 0.0)
        # Below 0.1 the power u^(−2/df) would overflow, for u down to 2^−53.
        self.df = math.inf if df == math.inf else number("df", df, 0.2)
        self.seed = integer("seed", seed)

    def __call__(
        self, sequences: mx.array, lengths: mx.array | None = None, prompt_length: int = 0
    ) -> np.ndarray:
        """Return ``(n,)`` scores of ``sequences (n, seq_len)``."""
        rows = _rows(sequences, lengths)
        more = {"lengths": lengths, "prompt_length": prompt_length}
        errors = [student_t(*hash_pair(row, self.seed), self.df) for row in rows]
        return ask("verifier", self.verifier, sequences, **more) + self.scale * np.array(errors)


def log_weight(verifier: Verifier, center: float = 0.0, temperature: float = 1.0) -> Verifier:
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
        return log_sigmoid((ask("verifier", verifier, sequences, **more) - center) / temperature)

    return weight


def log_sigmoid(x: Any) -> np.ndarray:
    """Return ``log(1 / (1 + e^−x))``, elementwise, without overflow at either end."""
    return -np.logaddexp(0.0, -np.asarray(x, dtype=np.float64))


def hash_pair(tokens: np.ndarray, seed: int) -> tuple[float, float]:
    """Return two numbers in (0, 1), as if uniform, that belong to ``tokens (T,)`` and ``seed``."""
    data = f"{seed}:".encode() + np.asarray(tokens, dtype="<i4").tobytes()
    digest = hashlib.blake2b(data, digest_size=16).digest()
    u, v = (int.from_bytes(half, "little") >> 12 for half in (digest[:8], digest[8:]))
    return (u + 0.5) / 2**52, (v + 0.5) / 2**52


def student_t(u: float, v: float, df: float) -> float:
    """Turn two uniform numbers into one of Student's t; ``df=inf`` is the Gaussian.

    Bailey's polar form (1994, "Polar generation of random variates with the t-distribution"),
    which tends to Box and Muller's as ``df`` grows: ``√(df (u^(−2/df) − 1)) cos 2πv``.
    """
    squared = -2.0 * math.log(u) if df == math.inf else df * math.expm1(-2.0 / df * math.log(u))
    return math.sqrt(squared) * math.cos(2.0 * math.pi * v)


def _rows(sequences: mx.array, lengths: mx.array | None) -> list[np.ndarray]:
    """Return the rows without their padding."""
    rows = np.array(sequences)
    if rows.ndim != 2:
        raise BadValue(f"sequences must have shape (n, seq_len), got {rows.shape}")
    ends = np.full(len(rows), rows.shape[1]) if lengths is None else np.array(lengths)
    if ends.shape != (len(rows),):
        raise BadValue(f"lengths must have shape ({len(rows)},), got {ends.shape}")
    return [row[:end] for row, end in zip(rows, ends, strict=True)]
