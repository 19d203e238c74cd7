"""Tell how sure the model was of what it wrote: to weigh votes, filter and stop them.

Each measure reads what decoding has gathered of a completion: ``samples.top_logprobs[i]``, the best
(id, logprob) pairs at each of its tokens, of ``sample_n(..., top_logprobs=5)``. More is surer.

- DeepConf (Fu et al. 2025, 2508.15260): a token's confidence is minus the mean of its best
  log-probabilities; of a text the mean, the mean of its tail, or that of its worst window.
- Self-certainty (Kang et al. 2025, 2502.18581): the divergence of the next token's distribution
  from the uniform one. It is the mean confidence over the whole vocabulary, but for log V.
- Entropy, here with a minus. Log-probability is the scorer "length_normalized" of every vote.

    surest = by_confidence(mean_confidence, keep=0.1)  # the surest tenth votes
    majority_vote(model, prompt, n=64, top_logprobs=5, weight=surest, extract=answer)

Whether the surest texts are the right ones is a question about the model and the task, not a law.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from copy import copy as shallow_copy
from typing import Any

from lablib.inference.decoding.rows import Best, Samples
from lablib.inference.sampling import transforms
from lablib.unknown_options import checks_options
from lablib.validation import BadValue, function, integer, number, one_of

import mlx.core as mx
import numpy as np

Measure = Callable[[Sequence[Best]], float]  # of the pairs at each token; more is surer


def logprobs_of(best: Sequence[Best]) -> np.ndarray:
    """Return the best log-probabilities at each token ``(T, K)``, without the ids."""
    return np.array(best, np.float64)[:, :, 1]


def token_confidence(best: Sequence[Best]) -> np.ndarray:
    """Return the confidence at each token ``(T,)``: minus the mean of its best log-probabilities.

    It is high where the runners-up are hopeless; the best token itself adds little.
    """
    return -logprobs_of(best).mean(axis=-1)


def mean_confidence(best: Sequence[Best]) -> float:
    """Return the mean over all tokens."""
    return float(token_confidence(best).mean())


def tail_confidence(best: Sequence[Best], last: int = 16) -> float:
    """Return the mean over the ``last`` tokens, where an answer stands."""
    return mean_confidence(best[-last:])


def lowest_confidence(best: Sequence[Best], window: int = 8) -> float:
    """Return the mean over the worst ``window`` of tokens in a row; of a shorter text over all."""
    confidences = token_confidence(best)
    window = min(window, len(confidences))
    return float(np.convolve(confidences, np.ones(window) / window, "valid").min())


def self_certainty(best: Sequence[Best]) -> float:
    """Return the mean of KL(uniform ‖ p) over the tokens, in nats, of the whole vocabulary."""
    return float(-_whole("self_certainty", best).mean() - math.log(len(best[0])))


def negative_entropy(best: Sequence[Best]) -> float:
    """Return minus the mean entropy of the tokens, in nats, of the whole vocabulary."""
    logs = _whole("negative_entropy", best)
    return float((np.exp(logs) * logs).sum(axis=-1).mean())


def agreement(answers: Sequence[Hashable | None]) -> list[float]:
    """Return for each answer the share of all that are the same; None has no company, and 0."""
    counts = Counter(answers)
    return [0.0 if each is None else counts[each] / len(answers) for each in answers]


def _whole(name: str, best: Sequence[Best]) -> np.ndarray:
    logs = logprobs_of(best)
    mass = np.exp(logs).sum(axis=-1).min()
    if mass < 0.999:
        wanted = f"top_logprobs of the whole vocabulary, got {len(best[0])} of mass {mass:.3f}"
        raise BadValue(f"{name} must have {wanted}")
    return logs


@checks_options
def by_confidence(measure: Measure, keep: float = 1.0, weigh: str = "linear") -> Callable[..., Any]:
    """Return what ``weight=`` of ``majority_vote`` takes, with ``top_logprobs=`` beside it.

    Args:
        measure: a function of the best pairs at each token, such as ``mean_confidence``.
        keep: the share of the completions that vote, the surest; at least one does.
        weigh: how much a vote counts: "linear": as its confidence, which must be positive; "log":
            e^confidence; "equal": all the same.

    Returns:
        A function of the sequences and the ``samples``.

    Raises:
        ValueError, TypeError: an argument is out of range; later, there are no ``top_logprobs``, or
            a confidence is not positive.

    Example:
        >>> surest = lablib.inference.by_confidence(lablib.inference.steering.mean_confidence, 0.5)
        >>> how = {"top_logprobs": 5, "weight": surest, "extract": len, "seed": 0}
        >>> votes = lablib.majority_vote(model, prompt, 4, **how)
        >>> votes.drawn, round(sum(share for _, share in votes), 6)
        (4, 1.0)
    """
    function("measure", measure)
    keep = number("keep", keep, 0.0, 1.0)
    one_of("weigh", weigh, ("linear", "log", "equal"))

    def weight(sequences: mx.array, samples: Samples) -> np.ndarray:
        if not all(samples.top_logprobs):
            raise BadValue("top_logprobs must be at least 1 for a vote by confidence, got 0")
        values = np.array([measure(best) for best in samples.top_logprobs])
        if weigh == "linear" and values.min() <= 0:
            raise BadValue(f"measure must be positive to weigh linearly, got {values.min()}")
        logs = np.zeros_like(values)
        if weigh != "equal":
            logs = np.log(values) if weigh == "linear" else values
        surest = np.argsort(-values, kind="stable")[: max(1, math.ceil(keep * len(values)))]
        weights = np.full(len(values), -np.inf)
        weights[surest] = logs[surest]
        return weights

    return weight


@checks_options
class GiveUp:
    """A logits processor that ends a text when the model has become unsure: DeepConf's online stop.

    Once the mean confidence of the latest ``window`` tokens is below ``floor``, only the stop token
    is left. A text without an answer casts no vote, in ``majority_vote`` and in ``vote_until``. The
    floor comes from texts before, a quantile of their ``lowest_confidence``: with that of 0.9 a
    tenth of such texts is let live.

    Args:
        floor: of the mean confidence, in nats.
        stop_token: the id that ends a text.
        window: how many tokens in a row.
        best: of how many log-probabilities a token's confidence is the mean.

    Example:
        >>> stop = lablib.inference.GiveUp(99.0, tokenizer.eos_token_id, window=2)
        >>> lablib.sample_n(model, prompt, 2, logits_processors=[stop], seed=0).lengths
        [2, 2]
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
        self.latest = (*self.latest, -float(values.mean()))[-self.window :]
        unsure = sum(self.latest) < self.floor * self.window
        if len(self.latest) < self.window or not unsure:
            return logits
        return mx.where(mx.arange(size) == self.stop_token, logits, -mx.inf)
