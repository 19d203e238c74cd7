"""Ask a language model for the next tokens of many texts: all that steering needs of it."""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.inference import arguments
from lablib.inference.sampling import random_numbers, transforms
from lablib.models.interface import vocab_size_of
from lablib.validation import BadType, BadValue, integer, sequence, token_ids

import mlx.core as mx
import numpy as np

ASK = "batch_next_token_logprobs_sync"


@dataclass(frozen=True)
class Wish:
    """Which texts are wanted of which model: checked arguments.

    Attributes:
        lm: an ``AsyncMlxLM``, or anything with ``batch_next_token_logprobs_sync(texts) -> (N, V)``,
            natural logarithms, and a ``vocab_size``.
        prompts: token ids, a list for each prompt.
        max_tokens: the length of a completion at most.
        stops: ids that end a completion, and belong to it.
        seed: of all random numbers.
    """

    lm: Any
    prompts: list[list[int]]
    max_tokens: int
    stops: frozenset[int]
    seed: int

    def logprobs(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the log-probabilities after each text: float64 ``(N, V)``."""
        return np.array(getattr(self.lm, ASK)(texts), dtype=np.float64)

    def ends(self, tokens: Sequence[int]) -> bool:
        """Return whether a completion has ended."""
        return len(tokens) >= self.max_tokens or not self.stops.isdisjoint(tokens[-1:])


def read_wish(
    lm: Any,
    prompts: Any,
    max_tokens: Any,
    stop_tokens: Collection[int] | None,
    seed: int | None,
) -> Wish:
    """Check arguments. None stands for the model's own stop tokens, and for a fresh seed."""
    if not hasattr(lm, ASK):
        raise BadType(f"lm must have {ASK} as AsyncMlxLM has, got {type(lm).__name__}")
    model = getattr(lm, "mlx_lm_model", lm)
    size = vocab_size_of(model, "lm")
    given = sequence("prompts", prompts, "prompts")
    if not given:
        raise BadValue("prompts must hold at least one prompt, got none")
    checked = [token_ids(f"prompts[{i}]", prompt, size) for i, prompt in enumerate(given)]
    max_tokens = integer("max_tokens", max_tokens, 1)
    arguments.check_lengths(model, checked, [max_tokens] * len(checked))
    stops = arguments.check_stops(model, stop_tokens)
    seed = None if seed is None else integer("seed", seed)
    if seed is None or seed < 0:
        seed = secrets.randbits(64)
    return Wish(lm, checked, max_tokens, stops, seed)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Renormalise scores ``(N, V)``; a row of nothing but -inf stays one."""
    peak = scores.max(axis=-1, keepdims=True)
    gaps = scores - np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(gaps).sum(axis=-1, keepdims=True))
    return np.where(np.isfinite(peak), gaps - np.where(np.isfinite(peak), total, 0.0), -np.inf)


def draw(logs: np.ndarray, u: np.ndarray) -> list[int]:
    """Draw a token from each row of log-probabilities ``(N, V)`` by a number of ``u (N,)``."""
    weights = mx.array(np.exp(logs).astype(np.float32))
    return transforms.draw(weights, mx.array(u)[:, None])[:, 0].tolist()


def streams(seed: int, first: int, n: int) -> np.ndarray:
    """Return the keys of ``n`` streams of random numbers, those of the rows of ``sample_n``."""
    keys = [random_numbers.key(seed, stream) for stream in range(first, first + n)]
    return np.array(keys, dtype=np.uint64)
