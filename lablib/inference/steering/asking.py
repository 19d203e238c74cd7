"""Ask a language model for the next tokens of many texts, and let these grow.

Steering decides which texts are written, weighed and kept; how each gets its next token is here.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from lablib.inference import arguments
from lablib.inference.sampling import random_numbers, transforms
from lablib.inference.sampling.processors import LogitsProcessor, copies
from lablib.models.interface import vocab_size_of
from lablib.validation import BadType, BadValue, integer, returned, sequence, shown, token_ids

import mlx.core as mx
import numpy as np

ASK = "batch_next_token_logprobs_sync"


@dataclass
class Text:
    """A completion that grows.

    Attributes:
        prompt: token ids before it.
        key: of its random numbers, one for each token.
        processors: change what its next token is drawn from.
        tokens: its ids so far.
        logprobs: log p of each, the model's own.
        log_q: the logarithm of the chance with which each was drawn.
        ended: whether it grows no more.
    """

    prompt: list[int]
    key: int
    processors: Sequence[LogitsProcessor] = ()
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    log_q: list[float] = field(default_factory=list)
    ended: bool = False

    def copy(self, key: int, n: int | None = None) -> "Text":
        """Return its first ``n`` tokens, or all, to be gone on with by other random numbers."""
        columns = self.tokens[:n], self.logprobs[:n], self.log_q[:n]
        return Text(self.prompt, key, copies(self.processors), *columns, self.ended and n is None)


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

    def begin(self, n: int, processors: Sequence[LogitsProcessor] = ()) -> list[list[Text]]:
        """Return ``n`` empty completions of each prompt; they draw as the rows of ``sample_n``."""
        keys = (random_numbers.key(self.seed, stream) for stream in range(len(self.prompts) * n))
        return [
            [Text(prompt, next(keys), copies(processors)) for _ in range(n)]
            for prompt in self.prompts
        ]

    def logprobs(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the log-probabilities after each text: float64 ``(N, V)``."""
        return np.array(getattr(self.lm, ASK)(texts), dtype=np.float64)

    def ends(self, tokens: Sequence[int]) -> bool:
        """Return whether a completion has ended."""
        return len(tokens) >= self.max_tokens or not self.stops.isdisjoint(tokens[-1:])

    def extend(self, texts: Sequence[Text], power: float = 1.0) -> None:
        """Append a token to each text, drawn from its own p^power, as the processors change it.

        Where they leave no token, the text ends as it is.
        """
        rows = self.logprobs([text.prompt + text.tokens for text in texts])
        log_q = proposals(texts, rows, power)
        keys = np.array([text.key for text in texts], np.uint64)
        u = random_numbers.uniforms(keys, np.array([len(text.tokens) for text in texts]))
        weights = mx.array(np.exp(log_q).astype(np.float32))
        drawn: Any = transforms.draw(weights, mx.array(u)[:, None])[:, 0].tolist()
        for text, token, row, q in zip(texts, drawn, rows, log_q, strict=True):
            if q[token] == -np.inf:
                text.ended = True
                continue
            text.tokens.append(token)
            text.logprobs.append(float(row[token]))
            text.log_q.append(float(q[token]))
            text.ended = self.ends(text.tokens)

    def finish(self, texts: Sequence[Text], power: float = 1.0) -> None:
        """Let texts grow till all have ended."""
        growing = list(texts)
        while growing:
            self.extend(growing, power)
            growing = [text for text in growing if not text.ended]

    def columns(self, texts: Sequence[Text]) -> tuple[list[Any], list[Any], list[bool]]:
        """Return the tokens, their log-probabilities, and whether a stop token ended each text."""
        return (
            [text.tokens for text in texts],
            [text.logprobs for text in texts],
            [not self.stops.isdisjoint(text.tokens[-1:]) for text in texts],
        )


def proposals(texts: Sequence[Text], rows: np.ndarray, power: float) -> np.ndarray:
    """Return the log-probabilities ``(N, V)`` that the next tokens are drawn from.

    ``rows`` are the model's. A row of nothing but -inf stays one.
    """
    if power == 1 and not texts[0].processors:
        return rows
    scores = np.stack([_processed(*pair) for pair in zip(texts, power * rows, strict=True)])
    peak = np.maximum(scores.max(axis=-1, keepdims=True), -1e300)
    gaps = scores - peak
    mass = np.exp(gaps).sum(axis=-1, keepdims=True)
    return gaps - np.log(np.maximum(mass, 1e-300))


def _processed(text: Text, row: np.ndarray) -> np.ndarray:
    """Return what a text's processors make of scores ``(V,)``."""
    if not text.processors:
        return row
    tokens = mx.array(text.prompt + text.tokens, mx.int32)
    logits = mx.array(row[None].astype(np.float32))
    for processor in text.processors:
        logits = returned("a logits processor", processor(tokens, logits), logits)
    scores = np.array(logits[0].astype(mx.float32), dtype=np.float64)
    if not scores.max() < np.inf:
        raise BadValue("a logits processor must return no NaN and no +inf")
    return scores


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
    return Wish(lm, checked, max_tokens, stops, read_seed(seed))


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
