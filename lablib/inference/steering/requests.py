"""Ask a language model for the next tokens of many texts, and let these grow.

Steering decides which texts are written, weighed and kept; how each gets its next token is here.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from lablib.inference import arguments
from lablib.inference.sampling import random_numbers
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.processors import LogitsProcessor, TextProcessors
from lablib.inference.sampling.row import Row
from lablib.inference.sampling.text_sampler import TextSampler
from lablib.machine.arrays import listed
from lablib.models.interface import vocab_size_of
from lablib.validation import BadType, BadValue, integer, sequence, shown, token_ids

import mlx.core as mx
import numpy as np

_AS_IT_IS = SamplerOptions()
ASK = "batch_next_token_logprobs_sync"


@dataclass(frozen=True)
class Request:
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

    def begin(self, n: int, processors: Sequence[LogitsProcessor] = ()) -> list[list[Row]]:
        """Return ``n`` empty completions of each prompt; they draw as the rows of ``sample_n``."""
        keys = (random_numbers.key(self.seed, stream) for stream in range(len(self.prompts) * n))
        rows = [[self.row(prompt, next(keys)) for _ in range(n)] for prompt in self.prompts]
        if processors:
            for row in chain(*rows):
                row.processors = TextProcessors(processors, row.text)
        return rows

    def row(self, prompt: list[int], key: int, tokens: Sequence[int] = ()) -> Row:
        """Return a completion that has these tokens."""
        left = self.max_tokens - len(tokens)
        return Row(prompt, _AS_IT_IS, key, left, self.stops, tokens=[*tokens])

    def logprobs(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the log-probabilities after each text: float64 ``(N, V)``."""
        return np.array(getattr(self.lm, ASK)(texts), dtype=np.float64)

    def ends(self, tokens: Sequence[int]) -> bool:
        """Return whether a completion has ended."""
        return len(tokens) >= self.max_tokens or not self.stops.isdisjoint(tokens[-1:])

    def extend(self, rows: Sequence[Row], power: float = 1.0) -> None:
        """Append a token to each text, drawn from its own p^power, as the processors change it.

        Where they leave no token, the text ends as it is.
        """
        logprobs = self.logprobs([row.text for row in rows])
        log_q = proposals(rows, logprobs, power)
        sampler = TextSampler()
        sampler.use(rows)
        drawn, _ = sampler.draw(mx.array(log_q.astype(np.float32)))
        for row, token, p, q in zip(rows, listed(drawn), logprobs, log_q, strict=True):
            if q[token] == -np.inf:
                row.left = 0
                continue
            row.append([token], [float(p[token])])
            row.log_q.append(float(q[token]))
            if row.processors is not None:
                row.processors.end_round()

    def finish(self, rows: Sequence[Row], power: float = 1.0) -> None:
        """Let texts grow till all have ended."""
        growing = list(rows)
        while growing:
            self.extend(growing, power)
            growing = [row for row in growing if row.left]


def columns(rows: Sequence[Row]) -> tuple[list[Any], list[Any], list[bool]]:
    """Return the tokens, their log-probabilities, and whether a stop token ended each text."""
    return (
        [row.tokens for row in rows],
        [row.logprobs for row in rows],
        [row.stopped for row in rows],
    )


def proposals(rows: Sequence[Row], logprobs: np.ndarray, power: float) -> np.ndarray:
    """Return the log-probabilities ``(N, V)`` that the next tokens are drawn from.

    ``logprobs`` are the model's. A row of nothing but -inf stays one.
    """
    if power == 1 and rows[0].processors is None:
        return logprobs
    scores = np.stack([processed(*pair) for pair in zip(rows, power * logprobs, strict=True)])
    peak = np.maximum(scores.max(axis=-1, keepdims=True), -1e300)
    gaps = scores - peak
    mass = np.exp(gaps).sum(axis=-1, keepdims=True)
    return gaps - np.log(np.maximum(mass, 1e-300))


def processed(row: Row, scores: np.ndarray) -> np.ndarray:
    """Return what a text's processors make of scores ``(V,)``."""
    if row.processors is None:
        return scores
    logits = row.processors.apply(mx.array(scores[None].astype(np.float32)))
    changed = np.array(logits[0].astype(mx.float32), dtype=np.float64)
    if not changed.max() < np.inf:
        raise BadValue("a logits processor must return no NaN and no +inf")
    return changed


def read_request(
    lm: Any,
    prompts: Any,
    max_tokens: Any,
    stop_tokens: Collection[int] | None,
    seed: int | None,
) -> Request:
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
    return Request(lm, checked, max_tokens, stops, read_seed(seed))


def read_seed(seed: int | None) -> int:
    """Check a seed. None, or a negative one, stands for a fresh one, as everywhere."""
    return random_numbers.fixed(None if seed is None else integer("seed", seed))


def returned_number(name: str, value: Any) -> float:
    """Return what a caller's function ``name`` returned, if it is a number below infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise BadType(f"{name} must return a number, got {shown(value)}")
    if not value < math.inf:
        raise BadValue(f"{name} must return no NaN and no +inf, got {value}")
    return float(value)
