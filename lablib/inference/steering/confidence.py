"""Tell how sure the model was of what it wrote: to weigh votes, filter and stop them.

All of them read the raw log-probabilities that decoding has gathered: ``sample_n(...,
top_logprobs=5)`` gives each completion's ``rows (T, K)``, the K best at each of its T tokens. More
is more confident, in each. They are known from

- DeepConf (Fu et al. 2025, 2508.15260): a token's confidence is minus the mean of its K best
  log-probabilities; of a text the mean, the mean of its tail, or that of its worst window;
- self-certainty (Kang et al. 2025, 2502.18581): the divergence of the next token's distribution
  from the uniform one, with the whole vocabulary as K. It is the mean confidence but for log V;
- entropy, here with a minus. Log-probability is the scorer "length_normalized" of every vote.

    by_mean = by_confidence(mean_confidence, keep=0.1)  # the surest tenth votes
    majority_vote(model, prompt, n=64, top_logprobs=5, weight=by_mean, extract=answer)

Whether the surest texts are the right ones is a question about the model and the task, not a law.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from copy import copy as shallow_copy
from typing import Any

from lablib.inference.decoding.rows import Samples
from lablib.inference.sampling import transforms
from lablib.validation import BadValue, function, integer, number, one_of

import mlx.core as mx
import numpy as np

Measure = Callable[[np.ndarray], float]  # rows (T, K), best first -> more is more confident


def token_confidence(rows: np.ndarray) -> np.ndarray:
    """Return the confidence at each token ``(T,)``: minus the mean of its best log-probabilities.

    It is high where the runners-up are hopeless; the best token itself adds little.
    """
    return -np.asarray(rows, np.float64).mean(axis=-1)


def mean_confidence(rows: np.ndarray) -> float:
    """Return the mean over all tokens."""
    return float(token_confidence(rows).mean())


def tail_confidence(rows: np.ndarray, last: int = 16) -> float:
    """Return the mean over the ``last`` tokens, where an answer stands."""
    return float(token_confidence(rows[-last:]).mean())


def lowest_confidence(rows: np.ndarray, window: int = 8) -> float:
    """Return the mean over the worst ``window`` of tokens in a row; of a shorter text over all."""
    confidences = token_confidence(rows)
    window = min(window, len(confidences))
    return float(np.convolve(confidences, np.ones(window) / window, "valid").min())


def self_certainty(rows: np.ndarray) -> float:
    """Return the mean of KL(uniform ‖ p) over the tokens, in nats; K is the whole vocabulary."""
    return mean_confidence(_whole("self_certainty", rows)) - math.log(rows.shape[-1])


def negative_entropy(rows: np.ndarray) -> float:
    """Return minus the mean entropy of the tokens, in nats; K is the whole vocabulary."""
    rows = _whole("negative_entropy", rows)
    return float((np.exp(rows) * rows).sum(axis=-1).mean())


def agreement(answers: Sequence[Hashable | None]) -> list[float]:
    """Return for each answer the share of all that are the same; None has no company, and 0."""
    counts = Counter(answers)
    return [0.0 if each is None else counts[each] / len(answers) for each in answers]


def _whole(name: str, rows: np.ndarray) -> np.ndarray:
    rows = np.asarray(rows, np.float64)
    mass = np.exp(rows).sum(axis=-1).min(initial=1.0)
    if mass < 0.999:
        wanted = f"top_logprobs of the whole vocabulary, got {rows.shape[-1]} of mass {mass:.3f}"
        raise BadValue(f"{name} must have {wanted}")
    return rows


def by_confidence(measure: Measure, keep: float = 1.0, weigh: str = "linear") -> Callable[..., Any]:
    """Return what ``weight=`` of ``majority_vote`` takes, with ``top_logprobs=`` beside it.

    Args:
        measure: a function of ``rows (T, K)``, such as ``mean_confidence``.
        keep: the share of the completions that vote, the surest; at least one does.
        weigh: how much a vote counts: "linear": as its confidence, which must be positive; "log":
            e^confidence; "equal": all the same.
    """
    function("measure", measure)
    keep = number("keep", keep, 0.0, 1.0)
    one_of("weigh", weigh, ("linear", "log", "equal"))

    def weight(sequences: mx.array, samples: Samples) -> np.ndarray:
        if not samples.top_logprobs:
            raise BadValue("top_logprobs must be at least 1 for a vote by confidence, got 0")
        values = np.array([measure(rows) for rows in samples.top_logprobs])
        if weigh == "linear" and values.min() <= 0:
            raise BadValue(f"measure must be positive to weigh linearly, got {values.min()}")
        logs = {"linear": np.log, "log": np.asarray, "equal": np.zeros_like}[weigh](values)
        n = max(1, math.ceil(keep * len(values)))
        surest = np.argsort(-values, kind="stable")[:n]
        weights = np.full(len(values), -np.inf)
        weights[surest] = logs[surest]
        return weights

    return weight


class GiveUp:
    """A logits processor that ends a text when the model has become unsure: DeepConf's online stop.

    Once the mean confidence of the latest ``window`` tokens is below ``floor``, only the stop token
    is left. A text without an answer casts no vote, in ``majority_vote`` and in ``vote_until``. The
    floor comes from texts before, the quantile of theirs that shall live:

        first = sample_n(model, prompt, 16, top_logprobs=5)
        floor = np.quantile([*map(lowest_confidence, first.top_logprobs)], 0.9)

    Args:
        floor: of the mean confidence, in nats.
        stop_token: the id that ends a text.
        window: how many tokens in a row.
        best: K, of how many log-probabilities a token's confidence is the mean.
    """

    def __init__(self, floor: float, stop_token: int, window: int = 8, best: int = 5) -> None:
        self.floor = number("floor", floor)
        self.stop_token = integer("stop_token", stop_token, 0)
        self.window = integer("window", window, 1)
        self.best = integer("best", best, 1)
        self.latest: tuple[float, ...] = ()

    def copy(self) -> "GiveUp":
        """Return one that goes its own way from here."""
        return shallow_copy(self)

    def __call__(self, tokens: mx.array, logits: mx.array) -> mx.array:
        """Look at the next token's distribution; leave it, or the stop token alone."""
        size = logits.shape[-1]
        values, _ = transforms.best(transforms.log_softmax(logits), min(self.best, size))
        confidence = token_confidence(np.array(values))
        self.latest = (*self.latest, *confidence.tolist())[-self.window :]
        unsure = sum(self.latest) < self.floor * self.window
        if len(self.latest) < self.window or not unsure:
            return logits
        return mx.where(mx.arange(size) == self.stop_token, logits, -mx.inf)
