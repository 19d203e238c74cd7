"""From a row of logits to scores that can be sampled: pure functions ``scores -> scores``.

The order is part of the contract, because the same settings in another order keep other tokens:

    penalties -> top-k -> temperature -> softmax -> top-p -> min-p -> renormalise

Scores are float32 of shape ``(..., V)`` whose softmax is the distribution; a token that was cut has
score ``-inf``, so renormalising is the next softmax. Every parameter is a number, or an array
``(..., 1)`` with one value for each row. Of two tokens the one with the better score comes first
and, if the scores are equal, the one with the smaller id: no result depends on how a sort happened
to leave its ties.
"""

from collections.abc import Sequence
from functools import lru_cache

from lablib.inference.sampling.options import SamplerOptions

import mlx.core as mx

Parameter = float | mx.array

_MAGNITUDE = 0x7FFFFFFF


def apply(scores: mx.array, options: SamplerOptions, window: Sequence[int] = ()) -> mx.array:
    """All transforms in order, for rows that share options and history.

    Args:
        scores: logits ``(..., V)``.
        options: at temperature 0 only the best token is kept.
        window: the latest tokens, oldest first; the last ``repeat_last_n`` count (all if -1).
    """
    scores = scores.astype(mx.float32)
    window = list(window)[-options.repeat_last_n :] if options.repeat_last_n > 0 else window
    if options.penalizes and window:
        rows = scores.reshape(-1, scores.shape[-1])
        tokens = mx.broadcast_to(mx.array(window), (len(rows), len(window)))
        repeat = options.repeat_penalty if options.repeat_penalty > 0 else None
        penalties = (repeat, options.presence_penalty, options.frequency_penalty)
        scores = penalize(rows, tokens, *penalties).reshape(scores.shape)
    if options.temperature == 0:
        return top_k(scores, 1)
    scores = top_k(scores, options.top_k)
    scores = temperature(scores, options.temperature)
    if 0 < options.top_p < 1:
        scores = top_p(scores, options.top_p)
    if options.min_p > 0:
        scores = min_p(scores, options.min_p)
    return scores


def best(scores: mx.array, n: int) -> tuple[mx.array, mx.array]:
    """The ``n`` best tokens of each row, best first.

    A score and its id are packed into one int64, so that one partition orders both: the bits of a
    float, read as an integer, rise with a positive float and fall with a negative one. A partition
    costs a tenth of a sort, and only its ``n`` survivors are sorted.

    Args:
        scores: float32 ``(..., V)``.
        n: between 1 and ``V``.

    Returns:
        Their scores ``(..., n)`` and ids ``(..., n)`` int32.
    """
    vocab_size = scores.shape[-1]
    bits = (0.0 - scores).view(mx.int32)  # negated, so that the best comes first; -0 becomes 0
    bits = bits ^ ((bits >> 31) & _MAGNITUDE)
    keys = (bits.astype(mx.int64) << 32) | _token_ids(vocab_size)
    if n < vocab_size:
        keys = mx.partition(keys, n - 1, axis=-1)[..., :n]
    ids = mx.sort(keys, axis=-1).astype(mx.int32)  # the low word
    return mx.take_along_axis(scores, ids, axis=-1), ids


@lru_cache(maxsize=8)
def _token_ids(vocab_size: int) -> mx.array:
    ids = mx.arange(vocab_size, dtype=mx.int64)
    mx.eval(ids)  # so that any thread may use it
    return ids


def keep(scores: mx.array, ids: mx.array, kept: mx.array) -> mx.array:
    """Cut every token of ``scores`` ``(..., V)`` but ``ids``, which get the scores ``kept``."""
    return mx.put_along_axis(mx.full(scores.shape, -mx.inf), ids, kept, axis=-1)


def penalize(
    scores: mx.array,
    tokens: mx.array,
    repeat: Parameter | None = None,
    presence: Parameter | None = None,
    frequency: Parameter | None = None,
    *,
    valid: mx.array | None = None,
    starts: mx.array | None = None,
) -> mx.array:
    """Make the latest tokens less likely (``repeat``: Keskar et al. 2019, arXiv 1909.05858).

    ``repeat`` divides a positive score and multiplies a negative one; then ``presence`` is
    subtracted; both once for each distinct token. ``frequency`` is subtracted once for each
    occurrence. None changes nothing.

    Args:
        scores: ``(B, V)``.
        tokens: the window ``(B, W)``, in any order.
        repeat: above 0.
        presence: any number.
        frequency: any number.
        valid: ``(B, W)``, False where ``tokens`` is only padding; None: it is all real.
        starts: ``(P, 1)``, if only P rows have a window: where they start in the flattened scores;
            ``tokens`` and the parameters then have P rows.
    """
    some = None
    if valid is not None:  # padding repeats a real token: that writes the same score once more
        some = mx.any(valid, axis=-1, keepdims=True)
        first = mx.argmax(valid, axis=-1, keepdims=True)
        tokens = mx.where(valid, tokens, mx.take_along_axis(tokens, first, axis=-1))
        tokens = mx.where(some, tokens, 0)
    places, flat = tokens, scores
    if starts is not None:  # as one long row
        places, flat = (tokens + starts).reshape(1, -1), scores.reshape(1, -1)
    old = new = mx.take_along_axis(flat, places, axis=-1).reshape(tokens.shape)
    if repeat is not None:
        new = mx.where(new > 0, new / repeat, new * repeat)
    if presence is not None:
        new = new - presence
    if frequency is not None:
        new = new - frequency * _counts(tokens, valid, scores.shape[-1])
    if some is not None:
        new = mx.where(some, new, old)
    return mx.put_along_axis(flat, places, new.reshape(places.shape), axis=-1).reshape(scores.shape)


def _counts(tokens: mx.array, valid: mx.array | None, vocab_size: int) -> mx.array:
    """How often each of ``tokens`` ``(B, W)`` occurs in its row."""
    one = mx.array(1.0) if valid is None else valid.astype(mx.float32)
    counts = mx.zeros((len(tokens), vocab_size))
    counts = counts.at[mx.arange(len(tokens))[:, None], tokens].add(one)
    return mx.take_along_axis(counts, tokens, axis=-1)


def temperature(scores: mx.array, t: Parameter) -> mx.array:
    """Sharpen (``t`` < 1) or flatten (``t`` > 1) the distribution: ``p ** (1 / t)``.

    Scores become relative to the best, which a softmax does not see and which loses fewer digits.
    """
    return (scores - mx.max(scores, axis=-1, keepdims=True)) / t


def top_k(scores: mx.array, k: int) -> mx.array:
    """Keep the ``k`` best tokens of each row; all of them if ``k`` is not in ``(0, V)``."""
    if not 0 < k < scores.shape[-1]:
        return scores
    values, ids = best(scores, k)
    return keep(scores, ids, values)


def top_p(scores: mx.array, p: Parameter) -> mx.array:
    """Keep a token while the mass *before* it, best first, is below ``p``.

    The nucleus of Holtzman et al. 2019 (arXiv 1904.09751). The best token always stays, and so does
    the one that crosses ``p``.
    """
    values, ids = best(scores, scores.shape[-1])
    weights = mx.exp(values - values[..., :1])
    kept = in_nucleus(weights, p, mx.cumsum(weights, axis=-1)[..., -1:])
    return keep(scores, ids, mx.where(kept, values, -mx.inf))


def in_nucleus(weights: mx.array, p: Parameter, mass: mx.array) -> mx.array:
    """Which of the weights ``(..., n)``, best first, have less than ``p`` of the mass before them.

    The whole mass ``(..., 1)`` is told, as ``weights`` may be the best of a longer row.
    """
    return mx.cumsum(weights, axis=-1, inclusive=False) < p * mass


def min_p(scores: mx.array, m: Parameter) -> mx.array:
    """Drop what is less likely than ``m`` times the best token (Nguyen et al. 2024, 2407.01082).

    A ratio of probabilities is a difference of scores: no need of a sort, nor of a softmax.
    """
    gap = scores - mx.max(scores, axis=-1, keepdims=True)
    return mx.where(gap >= mx.log(mx.array(m, mx.float32)), scores, -mx.inf)
