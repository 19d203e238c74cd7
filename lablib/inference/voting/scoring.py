"""Scores of completions: best-of-N ranks by them, and a vote may be weighted with them.

The two scorers with a name cost nothing: the log-probabilities were gathered while decoding. A
callable gets whole sequences, so that a verifier can read the question with the answer.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lablib.inference.decoding.rows import Samples
from lablib.inference.stop_strings import OnText
from lablib.validation import BadType, BadValue, one_of, shown

import mlx.core as mx
import numpy as np

NAMES = ("log_prob", "length_normalized")
Scorer = str | Callable[..., Any]


def check_scorer(name: str, scorer: Scorer) -> None:
    """Refuse a scorer that is neither one of ``NAMES`` nor callable."""
    if isinstance(scorer, str):
        one_of(name, scorer, NAMES)
    elif not callable(scorer) or isinstance(scorer, type):  # a class would make an object
        raise BadType(f"{name} must be one of {NAMES} or a callable, got {shown(scorer)}")


def score(
    scorer: Scorer,
    prompt: Sequence[int],
    samples: Samples,
    *,
    pad_token: int = 0,
    name: str = "scorer",
    tokenizer: Any = None,
) -> np.ndarray:
    """Score every completion; nothing is sampled and no model is run (but a callable may).

    Args:
        scorer: ``"log_prob"``: the sum of the raw log-probabilities of the completion's tokens;
            it prefers short completions. ``"length_normalized"``: their mean. Or a callable
            ``f(sequences)`` that takes ``(n, seq_len)`` int32, prompt + completion padded on the
            right with ``pad_token``, and returns ``(n,)`` or ``(n, 1)`` numbers. If it accepts the
            keywords ``lengths`` (``(n,)`` int32, tokens of each row without padding),
            ``prompt_length`` (an int) or ``samples`` (these), it gets those too. If its first
            parameter is ``texts``, it takes the completions as a list of texts instead. One that
            ``lablib.on_text`` made takes them one by one.
        prompt: the token ids every completion continues.
        samples: completions with their raw log-probabilities, from ``sample_n``.
        pad_token: fills the rows up to the longest.
        name: the argument's name, for messages.
        tokenizer: reads the texts.

    Returns:
        Scores ``(n,)``, float64. Infinite ones are allowed.

    Raises:
        BadType: the callable returned None or something that is not an array of numbers, or wants
            texts and there is no tokenizer.
        BadValue: it returned another shape, or NaN.
    """
    check_scorer(name, scorer)
    if isinstance(scorer, str):
        totals = np.array([np.sum(row, dtype=np.float64) for row in samples.logprobs])
        counts = np.array(samples.lengths)
        return totals if scorer == "log_prob" else totals / np.maximum(counts, 1)
    if isinstance(scorer, OnText):
        each = partial(scorer, stop_tokens=samples.stop_tokens)
        return ask(name, lambda rows: [each(row, prompt) for row in rows], samples.tokens)
    if _first_of(scorer) == "texts":
        if tokenizer is None:
            raise BadType(f"{name} wants texts: give tokenizer=, too, to read them by")
        return ask(name, scorer, samples.texts(tokenizer))
    sequences, lengths = pad(prompt, samples.tokens, pad_token)
    extras = {"lengths": lengths, "prompt_length": len(prompt), "samples": samples}
    return ask(name, scorer, sequences, **extras)


def pad(
    prompt: Sequence[int], completions: Sequence[Sequence[int]], pad_token: int = 0
) -> tuple[mx.array, mx.array]:
    """Lay prompt + completion into rows: ``(n, seq_len)`` int32 and lengths ``(n,)`` int32."""
    sequences = [[*prompt, *completion] for completion in completions]
    lengths = np.array([len(each) for each in sequences], dtype=np.int32)
    rows = np.full((len(sequences), lengths.max(initial=0)), pad_token, dtype=np.int32)
    for row, each in zip(rows, sequences, strict=True):
        row[: len(each)] = each
    return mx.array(rows), mx.array(lengths)


def ask(name: str, scorer: Callable[..., Any], sequences: Any, **extras: Any) -> np.ndarray:
    """Return the scores of ``sequences`` by a callable, the argument ``name``: float64 ``(n,)``."""
    n = len(sequences)
    try:
        scores = _call(scorer, sequences, **extras)
    except Exception as error:  # the caller's own
        error.add_note(
            f"This is {name} on {n} sequences of token ids. It gets texts if its parameter is "
            "called texts, or through lablib.on_text."
        )
        raise
    if scores is None:
        raise BadType(f"{name} must return {n} numbers, got None: is its return missing?")
    if isinstance(scores, mx.array):
        scores = np.array(scores.astype(mx.float32))  # NumPy has no bfloat16
    try:
        array = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadType(f"{name} must return {n} numbers, got {shown(scores)}") from None
    if array.shape not in ((n,), (n, 1)):
        raise BadValue(f"{name} must return shape ({n},) or ({n}, 1), got {array.shape}")
    array = array.reshape(n)
    missing = np.isnan(array)
    if missing.any():
        raise BadValue(f"{name} must not return NaN, got it for completion {missing.argmax()}")
    return array


def _first_of(function: Callable[..., Any]) -> str:
    """Return the name of a function's first parameter, "" if it has none that is known."""
    try:
        return next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        return ""


def _call(function: Callable[..., Any], sequences: mx.array, **extras: Any) -> Any:
    """Call ``function(sequences)`` with those of ``extras`` that it accepts as keywords."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return function(sequences)
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        extras = {key: value for key, value in extras.items() if key in named}
    return function(sequences, **extras)
