"""From a row of logits to scores that can be sampled, and the draw: pure functions that run.

The order is part of the contract, because the same settings in another order keep other tokens:

    penalties -> [temperature 0: argmax] -> top-k -> temperature -> softmax -> top-p -> min-p

Scores are float32 of shape ``(..., V)`` whose softmax is the distribution; a token that was cut has
score ``-inf``, so renormalising is the next softmax. Every parameter is a number, or an array
``(..., 1)`` with one value for each row; neutral values (temperature 1, top-k and top-p inf, min-p
0) leave a row as it is, and ``cut`` sees to it for a transform that you add. Of two tokens the one
with the better score comes first and, if the scores are equal, the one with the smaller id: no
result depends on how a sort left its ties.

To add a transform, say epsilon sampling (Hewitt et al. 2022, 2210.15191), write its function,

    def epsilon(scores: mx.array, e: Parameter) -> mx.array:
        likely = log_softmax(scores) >= mx.log(mx.array(e))
        best = scores == mx.max(scores, axis=-1, keepdims=True)
        return mx.where(likely | best, scores, -mx.inf)

give ``ORDER`` its line, here after "temperature" (before "top_k" the scores are the penalised
logits, after "peak" relative to the best), ``SamplerOptions`` in ``options.py`` a field at the end,
``epsilon: float = 0.0``, and its ``__post_init__`` a line that says which values are allowed:
``number("epsilon", self.epsilon, 0.0, 1.0)``. Restart the kernel. The default means off: rows with
another value get the transform, no others, with every keyword argument, in batches and under
speculation, where both models are cut alike. No other code is to be edited. (Lesson 03 prints both:
run it again and save it, or its test reports another output.) Three traps: scores that were cut are
-inf, and make a mean NaN; each row is on its own, ``axis=-1, keepdims=True``; and where rows differ
``e`` is an array: ``mx.log``. To try one on a single text, ``logits_processors=`` needs no edit.
"""

from collections.abc import Sequence
from functools import lru_cache, partial

from lablib.inference.sampling.options import NEUTRAL, NOT_CUTS, TABLE, SamplerOptions
from lablib.models.kernels import exp
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np

Parameter = float | mx.array


def apply(scores: mx.array, options: SamplerOptions, window: Sequence[int] = ()) -> mx.array:
    """Apply all transforms in order, to logits ``(..., V)`` that share options and history.

    Of the ``window`` of latest tokens, oldest first, the last ``repeat_last_n`` count (all if -1).
    At temperature 0 only the best token is kept.
    """
    asked = columns(np.array([options.row()], TABLE))
    rows = scores.astype(mx.float32).reshape(-1, scores.shape[-1])
    window = list(window)[-options.repeat_last_n :] if options.repeat_last_n > 0 else window
    if options.penalizes and window:
        rows = penalize(rows, mx.broadcast_to(mx.array(window), (len(rows), len(window))), asked)
    return cut(rows, asked).reshape(scores.shape)


def columns(rows: np.ndarray) -> dict[str, Parameter]:
    """Return what rows ``(N,)`` of type ``TABLE`` ask for; an option that none asks for is absent.

    For each option it is a number if all rows agree, otherwise an array ``(N, 1)`` in which neutral
    values leave a row as it is.
    """
    found = {}
    for name, neutral in NEUTRAL.items() if len(rows) else ():
        values = rows[name]
        if (values != values[0]).any():
            found[name] = mx.array(values.astype(np.float32)[:, None])
        elif values[0] != neutral:
            found[name] = float(values[0])
    return found


def cut(scores: mx.array, asked: dict[str, Parameter], peak: mx.array | None = None) -> mx.array:
    """Apply what the rows ask for, in order; a stage that no row asks for is skipped.

    The scores that come out are relative to the best, which has 0: a softmax does not see it, and
    fewer digits are lost.

    Args:
        scores: penalised, float32 ``(N, V)``.
        asked: parameters by option, from ``columns``.
        peak: the best score of each row ``(N, 1)``, if it is known.
    """
    asked = asked | {"peak": mx.max(scores, axis=-1, keepdims=True) if peak is None else peak}
    for name, transform in ORDER.items():
        if name in asked:
            before, scores = scores, transform(scores, asked[name])
            if name not in BUILT_IN:
                scores = _added(name, asked[name], before, scores)
    return scores


def _added(name: str, x: Parameter, before: mx.array, after: mx.array) -> mx.array:
    """Put rows back that did not ask for an added transform; refuse it if it leaves a row empty."""
    after = mx.where(mx.array(x) == NEUTRAL[name], before, after)
    had, has = (mx.isfinite(mx.max(scores, axis=-1)) for scores in (before, after))
    if mx.any(had & ~has).item():  # of a row that had none the sampler tells
        raise BadValue(f"{name} must leave a token of each row, left none, or a NaN, at {x}")
    return after


def draw(weights: mx.array, u: mx.array) -> mx.array:
    """Draw a token from each row: the first, by id, whose cumulative probability exceeds ``u``.

    One random number a row, against one for each token of the Gumbel-max trick. The total is one of
    the sums and u is below 1, so that no rounding can push the threshold past the last token.

    Args:
        weights: ``(N, K)``, proportional to the probabilities.
        u: ``(N, 1)``, in [0, 1); places ``(N, 1)`` int32 are returned.
    """
    sums = mx.cumsum(weights, axis=-1)
    total = sums[..., -1:]
    if mx.default_device() != mx.cpu:  # a parallel scan can rise by an ulp where the weight is 0
        sums = mx.where(weights > 0, sums, 0.0)
        total = mx.max(sums, axis=-1, keepdims=True)
    return mx.argmax(sums > u * total, axis=-1, keepdims=True).astype(mx.int32)


def log_softmax(logits: mx.array) -> mx.array:
    """Return log-probabilities ``(..., V)``, float32."""
    logits = logits.astype(mx.float32)
    # The best is subtracted first: beside a logit of 500, float32 keeps four decimals.
    gaps = logits - mx.max(logits, axis=-1, keepdims=True)
    return gaps - mx.log(mx.sum(exp(gaps), axis=-1, keepdims=True))


def penalize(
    scores: mx.array, tokens: mx.array, asked: dict[str, Parameter], valid: mx.array | None = None
) -> mx.array:
    """Make the latest tokens less likely (repeat penalty: Keskar et al. 2019, arXiv 1909.05858).

    The repeat penalty divides a positive score and multiplies a negative one; then the presence
    penalty is subtracted; both once for each distinct token. The frequency penalty is subtracted
    once for each occurrence.

    Args:
        scores: ``(N, V)``.
        tokens: the window ``(N, W)``, in any order.
        asked: the penalties, by option.
        valid: ``(N, W)``, False where ``tokens`` is only padding; None: it is all real.
    """
    if valid is not None:  # padding repeats a real token: that writes the same score once more
        some, first = (f(valid, axis=-1, keepdims=True) for f in (mx.any, mx.argmax))
        tokens = mx.where(valid, tokens, mx.take_along_axis(tokens, first, axis=-1))
    old = new = mx.take_along_axis(scores, tokens, axis=-1)
    if "repeat_penalty" in asked:
        repeat = asked["repeat_penalty"]
        new = mx.where(new > 0, new / repeat, new * repeat)
    if "presence_penalty" in asked:
        new = new - asked["presence_penalty"]
    if "frequency_penalty" in asked:
        counts = _counts(tokens, valid, scores.shape[-1])
        new = new - asked["frequency_penalty"] * counts
    if valid is not None:
        new = mx.where(some, new, old)
    return mx.put_along_axis(scores, tokens, new, axis=-1)


def _counts(tokens: mx.array, valid: mx.array | None, vocab_size: int) -> mx.array:
    """Return how often each of ``tokens`` ``(N, W)`` occurs in its row."""
    one = mx.array(1.0) if valid is None else valid.astype(mx.float32)
    counts = mx.zeros((len(tokens), vocab_size))
    counts = counts.at[mx.arange(len(tokens))[:, None], tokens].add(one)
    return mx.take_along_axis(counts, tokens, axis=-1)


def greedy(scores: mx.array, on: Parameter = 1.0) -> mx.array:
    """Keep the best token only, in the rows where ``on`` is not 0."""
    is_best = mx.arange(scores.shape[-1]) == mx.argmax(scores, axis=-1, keepdims=True)
    return mx.where(is_best | (mx.array(on) == 0), scores, -mx.inf)


def top_k(scores: mx.array, k: Parameter) -> mx.array:
    """Keep the ``k`` best tokens of each row; all of them if ``k`` is not in ``(0, V)``."""
    vocab_size = scores.shape[-1]
    if isinstance(k, mx.array):
        values, ids = best(scores, vocab_size)
        rank = mx.arange(vocab_size, dtype=mx.float32)
        return keep(scores, mx.where((rank < k) | (k <= 0), values, -mx.inf), ids)
    if not 0 < k < vocab_size:
        return scores
    ids = best_ids(scores, int(k))
    return keep(scores, mx.take_along_axis(scores, ids, axis=-1), ids)


def temperature(scores: mx.array, t: Parameter) -> mx.array:
    """Sharpen (``t`` < 1) or flatten (``t`` > 1) the distribution: ``p ** (1 / t)``."""
    return scores / t


def top_p(scores: mx.array, p: Parameter) -> mx.array:
    """Keep a token while the mass *before* it, best first, is below ``p``.

    The nucleus of Holtzman et al. 2019 (arXiv 1904.09751). The best token always stays, and so does
    the one that crosses ``p``.
    """
    values, ids = best(scores, scores.shape[-1])
    weights = exp(scores - values[..., :1])
    mass = mx.sum(weights, axis=-1, keepdims=True)
    kept = in_nucleus(mx.take_along_axis(weights, ids, axis=-1), p, mass)
    return keep(scores, mx.where(kept, values, -mx.inf), ids)


def in_nucleus(weights: mx.array, p: Parameter, mass: mx.array) -> mx.array:
    """Return which of the weights ``(..., n)``, best first, have less than ``p`` before them.

    The whole mass ``(..., 1)`` is told, as ``weights`` may be the best of a longer row.
    """
    return mx.cumsum(weights, axis=-1, inclusive=False) < p * mass


def min_p(scores: mx.array, m: Parameter) -> mx.array:
    """Drop what is less likely than ``m`` times the best token (Nguyen et al. 2024, 2407.01082).

    A ratio of probabilities is a difference of scores: no need of a sort, nor of a softmax.
    """
    floor = mx.max(scores, axis=-1, keepdims=True) + mx.log(mx.array(m, mx.float32))
    return mx.where(scores >= floor, scores, -mx.inf)


ORDER = {
    "greedy": greedy,  # temperature 0
    "top_k": top_k,
    "peak": mx.subtract,  # scores become relative to the best
    "temperature": temperature,
    "top_p": top_p,
    "min_p": min_p,
}
# They have fast paths, and leave a row as it is at their neutral value. Do not add yours: rows that
# ask for it take the definition.
BUILT_IN = frozenset({"greedy", "top_k", "peak", "temperature", "top_p", "min_p"})
if _forgotten := set(TABLE.names) - {*ORDER, *NOT_CUTS}:  # it would be an option without effect
    raise BadValue(f"ORDER must have a line for each option that cuts, has none for {_forgotten}")


def best(scores: mx.array, n: int) -> tuple[mx.array, mx.array]:
    """Return the ``n`` best tokens of each row, best first: scores and int32 ids ``(..., n)``.

    ``scores`` are float32 ``(..., V)``, and n is between 1 and V. A partition costs a tenth of a
    sort, and only its ``n`` survivors are sorted.
    """
    ids = mx.sort(_keys(scores, n), axis=-1).astype(mx.int32)  # the low word
    return mx.take_along_axis(scores, ids, axis=-1), ids


def best_ids(scores: mx.array, n: int) -> mx.array:
    """Return the ids ``(..., n)`` of the ``n`` best tokens of each row, in any order."""
    return _keys(scores, n).astype(mx.int32)


def _keys(scores: mx.array, n: int) -> mx.array:
    """Pack a score and its id into one int64 ``(..., n)``, so that one partition orders both."""
    vocab_size = scores.shape[-1]
    # Negated, so that the best comes first; -0 becomes 0.
    keys = _packed((0.0 - scores).view(mx.int32), _token_ids(vocab_size))
    return mx.partition(keys, n - 1, axis=-1)[..., :n] if n < vocab_size else keys


@partial(mx.compile, shapeless=True)
def _packed(bits: mx.array, ids: mx.array) -> mx.array:
    """Pack floats, as bits whose order as integers is made theirs, with ids into one key each."""
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (bits.astype(mx.int64) << 32) | ids


@lru_cache(maxsize=8)
def _token_ids(vocab_size: int) -> mx.array:
    ids = mx.arange(vocab_size, dtype=mx.int64)
    mx.eval(ids)  # so that any thread may use it
    return ids


def keep(scores: mx.array, kept: mx.array, ids: mx.array, cut: float = -mx.inf) -> mx.array:
    """Return ``kept`` at ``ids``, and ``cut`` at every other token of ``scores`` ``(..., V)``."""
    return mx.put_along_axis(mx.full(scores.shape, cut), ids, kept, axis=-1)
