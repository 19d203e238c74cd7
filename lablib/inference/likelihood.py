"""Judges a text that is there already: log-probabilities, for scores and for perplexity."""

from typing import Any

from lablib.cache import kv
from lablib.inference.arguments import Prompt, read_request
from lablib.inference.sampling.transforms import log_softmax
from lablib.unknown_options import checks_options
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np

_PIECE = 128  # tokens a forward: of 262,144 ids the logits of so many take 134 MB


@checks_options
def logprobs(model: Any, prompt: Prompt, *, tokenizer: Any = None) -> np.ndarray:
    """Return how likely each token of a text is after those before it.

    Args:
        model: any mlx-lm model or ``LanguageModel``.
        prompt: the text's token ids ``(T,)`` or ``(1, T)``, at least one; with ``tokenizer=`` also
            a text or messages. What completes it is part of it: ``[*prompt, *completion]``.
        tokenizer: reads a text.

    Returns:
        Log-probabilities in nats ``(T - 1,)``, float32, of all tokens but the first, of the raw
        logits, as ``Samples.logprobs`` has them. Perplexity (Jelinek 1977): e to minus their mean.

    Raises:
        ValueError, TypeError: an argument is out of range, before any work; or logits are NaN.

    Example:
        >>> samples = lablib.sample_n(model, prompt, 2, seed=0, max_tokens=5)
        >>> again = lablib.logprobs(model, [*prompt, *samples.tokens[0]])[len(prompt) - 1 :]
        >>> float(abs(again - samples.logprobs[0]).max()) < 1e-4
        True
    """
    ids = read_request(model, prompt, max_tokens=1, tokenizer=tokenizer).prompts[0]
    cache, parts = kv.make(model), [np.zeros(0, dtype=np.float32)]
    for start in range(0, len(ids) - 1, _PIECE):
        after = mx.array(ids[start + 1 : start + 1 + _PIECE])
        logits = model(mx.array([ids[start : start + len(after)]]), cache=cache)[0]
        each = mx.take_along_axis(log_softmax(logits), after[:, None], axis=-1)
        parts.append(np.array(each[:, 0]))
    judged = np.concatenate(parts)
    if np.isnan(judged).any():
        at = 1 + int(np.isnan(judged).argmax())
        raise BadValue(f"the model's logits before token {at} must have no NaN and no +inf")
    return judged
