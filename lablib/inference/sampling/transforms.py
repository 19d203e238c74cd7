"""From a row of logits to scores that can be sampled, and the draw: pure functions that run.

The order is part of the contract, because the same settings in another order keep other tokens::

    penalties -> [temperature 0: argmax] -> top-k -> [less the best score]
    -> temperature -> top-p -> min-p

Scores are float32 of shape ``(N, V)`` or ``(V,)`` whose softmax is the distribution; a token that
was cut has score ``-inf``, so renormalising is the next softmax. Every parameter is a number, or an
array ``(N, 1)`` with one value for each row. A transform gets the rows that ask for it, no others.
Of two tokens the one with the better score comes first and, if the scores are equal, the one with
the smaller id: no result depends on how a sort left its ties.

To try another version of a transform, put it in its place: ``ORDER["min_p"] = mine``, or
``transforms.min_p = mine``. From then on it runs, everywhere.

To add a transform, say epsilon sampling (Hewitt et al. 2022, 2210.15191), write its function above
``ORDER``::

    def epsilon(scores: mx.array, e: Parameter) -> mx.array:
        likely = log_softmax(scores) >= mx.log(mx.array(e))
        best = scores == mx.max(scores, axis=-1, keepdims=True)
        return mx.where(likely | best, scores, -mx.inf)

Give ``ORDER`` its line, here after "temperature" (before "top_k" the scores are the penalised
logits, after "peak" relative to the best), ``SamplerOptions`` in ``options.py`` a line of its
docstring and a field at the end, ``epsilon: float = 0.0``, and its ``__post_init__`` a line that
says which values are allowed: ``number("epsilon", self.epsilon, 0.0, 1.0)``. Restart the kernel.
The default means off, so take one that nobody wants: rows with another value get the transform, no
others, with every keyword argument, in batches and under speculation, where both models are cut
alike. No other code is to be edited. (Lesson 03 prints ``ORDER`` and the options: run it again and
save it, or its test reports another output.) Three traps: scores that were cut are -inf, and make a
mean NaN; each row is on its own, ``axis=-1, keepdims=True``; and where rows differ ``e`` is an
array: ``mx.log``. To try one on a single text, ``logits_processors=`` needs no edit.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from lablib.definitions import remember
from lablib.inference.sampling.options import NOT_CUTS, SamplerOptions
from lablib.inference.sampling.sums import SMALL, UNIT, before, choose, filled, in_fours, share
from lablib.validation import BadType, BadValue, returned

import mlx.core as mx
import numpy as np

Parameter = float | mx.array
Parameters = dict[str, Parameter]  # by option
Transform = Callable[[mx.array, Parameter], mx.array]

_NARROW = 256  # the best tokens, which nearly always hold the nucleus
_WIDE = 4096  # the best tokens that are looked at next
_BLOCK = 512  # tokens: a large vocabulary is drawn from in two steps

gather = partial(mx.take_along_axis, axis=-1)
_max = partial(mx.max, axis=-1, keepdims=True)
_argmax = partial(mx.argmax, axis=-1, keepdims=True)


def apply(
    scores: mx.array,
    options: SamplerOptions,
    window: Sequence[int] = (),
) -> mx.array:
    """Apply all transforms in order, to logits ``(..., V)`` that share options and history.

    Of the ``window`` of latest tokens, oldest first, the last ``repeat_last_n`` count (all if -1).
    At temperature 0 only the best token is kept.
    """
    parameters: Parameters = {**options.used}
    rows = scores.astype(mx.float32).reshape(-1, scores.shape[-1])
    window = list(window)
    if options.repeat_last_n > 0:
        window = window[-options.repeat_last_n :]
    if options.penalizes and window:
        shape = len(rows), len(window)
        tokens = mx.broadcast_to(mx.array(window), shape)
        rows = penalize(rows, tokens, parameters)
    return cut(rows, parameters).reshape(scores.shape)


def cut(
    scores: mx.array,
    parameters: Parameters,
    peak: mx.array | None = None,
) -> mx.array:
    """Apply the transforms that have a parameter, in order.

    The scores that come out are relative to the best, which has 0: a softmax does not see it, and
    fewer digits are lost.

    Args:
        scores: penalised, float32 ``(N, V)``.
        parameters: by option; all rows use all of these options.
        peak: the best score of each row ``(N, 1)``, if it is known.
    """
    if peak is None:
        peak = _max(scores)
    parameters = parameters | {"peak": peak}
    for name in ORDER:
        if name in parameters:
            before = scores
            transform = ORDER[name]
            if transform is BUILT_IN.get(name):  # unless it was replaced in this module
                transform = globals().get(transform.__name__, transform)
            scores = transform(before, parameters[name])
            if transform is not BUILT_IN.get(name):
                _check_left(name, parameters[name], before, scores)
    return scores


def exp(x: mx.array) -> mx.array:
    """Return ``e^x``: on a CPU as a power, which takes a third of the time there (MLX 0.32.4)."""
    return mx.exp(x) if mx.default_device() == mx.gpu else mx.power(math.e, x)


def draw(weights: mx.array, u: mx.array) -> mx.array:
    """Draw a token from each row: the first, by id, whose cumulative probability exceeds ``u``.

    One random number a row, against one for each token of the Gumbel-max trick. The total is one of
    the sums and u is below 1, so that no rounding can push the threshold past the last token.

    Above 2,048 tokens such sums, and 24 bits of u, would lose the rare ones: see ``draw_exactly``.

    Args:
        weights: ``(N, K)``, proportional to the probabilities.
        u: ``(N, 1)``, float32 in [0, 1), or its 64 bits as uint64. ``uniforms`` has them.

    Returns:
        Indices ``(N, 1)`` int32.
    """
    if u.dtype == mx.uint64:
        return draw_exactly(weights, u)
    if weights.shape[-1] > SMALL:
        raise BadValue(f"u must be uint64 above {SMALL} tokens, got {u.dtype}")
    sums = mx.cumsum(weights, axis=-1)
    total = sums[..., -1:]
    if mx.default_device() != mx.cpu:  # a parallel scan can rise by an ulp where the weight is 0
        sums = mx.where(weights > 0, sums, 0.0)
        total = _max(sums)
    return _argmax(sums > u * total).astype(mx.int32)


def draw_exactly(weights: mx.array, u: mx.array) -> mx.array:
    """Draw as ``draw`` does, by 64 bits: first a block of 512 tokens, then a token in it.

    The law is that of the weights to 2e-6 in total variation (seen: 2e-7): the sum of a block is
    within 8e-7 of itself, and a token below 2^-32 of its block, or a block below 2^-32 of all, may
    never come.
    """
    if weights.shape[-1] <= SMALL:
        return choose(weights, u)[0].astype(mx.int32)
    blocks = filled(weights, _BLOCK).reshape(len(weights), -1, _BLOCK)
    block, u = choose(in_fours(blocks)[..., 0], u)
    inside = mx.take_along_axis(blocks, block[..., None], axis=1)[:, 0]
    token = _BLOCK * block + choose(inside, u)[0]
    return mx.minimum(token, weights.shape[-1] - 1).astype(mx.int32)  # a row may be all NaN


def log_softmax(logits: mx.array) -> mx.array:
    """Return log-probabilities ``(..., V)``, float32, within 2e-6 + 2^-23 of each."""
    logits = logits.astype(mx.float32)
    gaps = logits - _max(logits)  # first: beside a logit of 500, float32 keeps four decimals
    weights = exp(gaps)
    if weights.shape[-1] > SMALL:
        return gaps - mx.log(in_fours(weights))
    counted = (weights * UNIT).astype(mx.int64)  # their sum is exact
    mass = mx.sum(counted, axis=-1, keepdims=True).astype(mx.float32)
    return gaps - mx.log(mass * (1 / UNIT))


def is_finite(scores: mx.array) -> mx.array:
    """Return where scores are neither NaN nor infinite."""
    return mx.abs(scores) < mx.inf  # two operations; mx.isfinite is several


def penalize(
    scores: mx.array,
    tokens: mx.array,
    parameters: Parameters,
    valid: mx.array | None = None,
) -> mx.array:
    """Make the latest tokens less likely (repeat penalty: Keskar et al. 2019, arXiv 1909.05858).

    The repeat penalty divides a positive score and multiplies a negative one; then the presence
    penalty is subtracted; both once for each distinct token. The frequency penalty is subtracted
    once for each occurrence.

    Args:
        scores: ``(N, V)``.
        tokens: the window ``(N, W)``, in any order.
        parameters: the penalties, by option.
        valid: ``(N, W)``, False where ``tokens`` is only padding; None: it is all real.
    """
    if valid is not None:  # padding repeats a real token: that writes the same score once more
        first = _argmax(valid)
        tokens = mx.where(valid, tokens, gather(tokens, first))
    old = new = gather(scores, tokens)
    if "repeat_penalty" in parameters:
        repeat = parameters["repeat_penalty"]
        new = mx.where(new > 0, new / repeat, new * repeat)
    if "presence_penalty" in parameters:
        new = new - parameters["presence_penalty"]
    if "frequency_penalty" in parameters:
        counts = _counts(tokens, valid, scores.shape[-1])
        new = new - parameters["frequency_penalty"] * counts
    if valid is not None:
        has_token = mx.any(valid, axis=-1, keepdims=True)
        new = mx.where(has_token, new, old)
    return mx.put_along_axis(scores, tokens, new, axis=-1)


def _counts(tokens: mx.array, valid: mx.array | None, vocab_size: int) -> mx.array:
    """Return the number of times that each of ``tokens`` ``(N, W)`` occurs in its row."""
    one = mx.array(1.0) if valid is None else valid.astype(mx.float32)
    rows = mx.arange(len(tokens))[:, None]
    counts = mx.zeros((len(tokens), vocab_size))
    counts = counts.at[rows, tokens].add(one)
    return gather(counts, tokens)


def greedy(scores: mx.array, _: Parameter = 1.0) -> mx.array:
    """Keep the best token only: temperature 0."""
    best = _argmax(scores)
    ids = mx.arange(scores.shape[-1])
    return mx.where(ids == best, scores, -mx.inf)


def top_k(scores: mx.array, k: Parameter) -> mx.array:
    """Keep the ``k`` best tokens of each row; all of them if ``k`` is not in ``(0, V)``."""
    vocab_size = scores.shape[-1]
    n = np.array(k, float)
    n[n <= 0] = vocab_size
    if n.min() >= vocab_size:
        return scores
    width = min(n.max(), vocab_size)
    values, ids = best(scores, int(width))
    rank = mx.arange(values.shape[-1])
    is_kept = rank < mx.array(n)
    values = mx.where(is_kept, values, -mx.inf)
    return keep(scores, values, ids)


def temperature(scores: mx.array, t: Parameter) -> mx.array:
    """Sharpen (``t`` < 1) or flatten (``t`` > 1) the distribution: ``p ** (1 / t)``."""
    return scores / t


def top_p(scores: mx.array, p: Parameter) -> mx.array:
    """Keep a token while the mass *before* it, best first, is below ``p``.

    The nucleus of Holtzman et al. 2019 (arXiv 1904.09751). The best token always stays, and so does
    the one that crosses ``p``.
    """
    rows = scores.reshape(-1, scores.shape[-1])
    weights = exp(rows - _max(rows))
    limit = share(weights, p)
    return _nucleus(rows, weights, limit).reshape(scores.shape)


def _nucleus(
    scores: mx.array,
    weights: mx.array,
    limit: mx.array,
    width: int = _NARROW,
) -> mx.array:
    """Keep a token while the weights before it, best first, sum to less than ``limit`` ``(N, 1)``.

    The nucleus is nearly always among the 256 best: only these are sorted. In a row where the last
    of them still has less before it, 4,096 are looked at, and then all.
    """
    vocab_size = scores.shape[-1]
    if vocab_size <= max(width, SMALL):  # a look at the host would cost more
        width = vocab_size
    values, ids = best(scores, width)
    is_kept = before(gather(weights, ids), vocab_size) < limit
    values = mx.where(is_kept, values, -mx.inf)
    kept = keep(scores, values, ids)
    if width < vocab_size:
        goes_on = is_kept[:, -1]
        mx.eval(goes_on, kept)  # the host looks
        unfinished = np.flatnonzero(goes_on)
        if len(unfinished):
            rows = mx.array(unfinished)
            wider = _WIDE if width < _WIDE else vocab_size
            kept[rows] = _nucleus(scores[rows], weights[rows], limit[rows], wider)
    return kept


def min_p(scores: mx.array, m: Parameter) -> mx.array:
    """Drop what is less likely than ``m`` times the best token (Nguyen et al. 2024, 2407.01082).

    A ratio of probabilities is a difference of scores: no need of a sort, nor of a softmax.
    """
    gap = mx.log(mx.array(m, mx.float32))
    floor = _max(scores) + gap
    return mx.where(scores >= floor, scores, -mx.inf)


ORDER: dict[str, Transform] = {
    "greedy": greedy,  # temperature 0
    "top_k": top_k,
    "peak": mx.subtract,  # scores become relative to the best
    "temperature": temperature,
    "top_p": top_p,
    "min_p": min_p,
}
_OURS = ("greedy", "top_k", "peak", "temperature", "top_p", "min_p")  # leave yours out
BUILT_IN = {name: ORDER[name] for name in _OURS}  # all others are looked at when they have run
_forgotten = {*SamplerOptions.names()} - {*ORDER, *NOT_CUTS}
if _forgotten:  # it would be an option without effect
    raise BadValue(f"ORDER must have a line for each option that cuts, has none for {_forgotten}")


def _check_left(
    name: str,
    parameter: Parameter,
    before: mx.array,
    after: mx.array,
) -> None:
    """Refuse a transform that returns no scores, or leaves a row empty.

    Of a row that was empty before, the sampler tells.
    """
    returned(name, after, like=before)
    if after.dtype != before.dtype:  # a comparison, and the mx.where around it forgotten
        raise BadType(f"{name} must return {before.dtype} scores, got {after.dtype}")
    had_token = mx.isfinite(_max(before))
    has_token = mx.isfinite(_max(after))
    is_emptied = had_token & ~has_token
    if is_emptied.any().item():
        got = f"left none, or a NaN, at {parameter}"
        raise BadValue(f"{name} must leave a token of each row, {got}")


def best(scores: mx.array, n: int) -> tuple[mx.array, mx.array]:
    """Return the ``n`` best tokens of each row, best first: scores and int32 ids ``(..., n)``.

    ``scores`` are float32 ``(..., V)``, and n is between 1 and V. A partition costs a tenth of a
    sort, and only its ``n`` survivors are sorted.
    """
    keys = mx.sort(_best_keys(scores, n), axis=-1)
    ids = keys.astype(mx.int32)  # the low word
    return gather(scores, ids), ids


def best_by_id(scores: mx.array, n: int) -> mx.array:
    """Return the int32 ids ``(..., n)`` of the ``n`` best tokens of each row, in order of id."""
    if n == 1:
        return _argmax(scores).astype(mx.int32)
    ids = _best_keys(scores, n).astype(mx.int32)
    return mx.sort(ids, axis=-1)


def _best_keys(scores: mx.array, n: int) -> mx.array:
    """Return the keys ``(..., n)`` of the best tokens, in any order; the better the smaller.

    A key packs a score and an id into one int64, so that one partition orders both.
    """
    vocab_size = scores.shape[-1]
    bits = (0.0 - scores).view(mx.int32)  # -0 becomes 0
    keys = _packed(bits, _token_ids(vocab_size))
    if n == vocab_size:
        return keys
    return mx.partition(keys, n - 1, axis=-1)[..., :n]


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


def keep(scores: mx.array, kept: mx.array, ids: mx.array) -> mx.array:
    """Return ``kept`` at ``ids``, and -inf at every other token of ``scores`` ``(..., V)``."""
    nothing = mx.full(scores.shape, -mx.inf)
    return mx.put_along_axis(nothing, ids, kept, axis=-1)


remember(__name__)
