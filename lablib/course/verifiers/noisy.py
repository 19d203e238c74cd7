"""Verifiers that err as much as you like: how good must a judge be for best-of-N to pay?"""

import hashlib
import math
from collections.abc import Callable
from typing import Any

from lablib.course.verifiers.rows import unpad
from lablib.inference.voting.scoring import ask
from lablib.validation import function, integer, number

import mlx.core as mx
import numpy as np


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

    def __init__(
        self, verifier: Callable[..., Any], scale: float, df: float = math.inf, seed: int = 0
    ):
        self.verifier, self.scale = function("verifier", verifier), number("scale", scale, 0.0)
        # Below 0.1 the power u^(−2/df) would overflow, for u down to 2^−53.
        self.df = math.inf if df == math.inf else number("df", df, 0.2)
        self.seed = integer("seed", seed)

    def __call__(
        self, sequences: mx.array, lengths: mx.array | None = None, prompt_length: int = 0
    ) -> np.ndarray:
        """Return ``(n,)`` scores of ``sequences (n, seq_len)``."""
        rows = unpad(sequences, lengths)
        more = {"lengths": lengths, "prompt_length": prompt_length}
        errors = [student_t(*hash_pair(row, self.seed), self.df) for row in rows]
        return ask("verifier", self.verifier, sequences, **more) + self.scale * np.array(errors)


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
