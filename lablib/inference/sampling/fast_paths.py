"""The arithmetic of a batch with mixed options: every row by the cheapest way that is exact.

No Python loop runs over the rows. Options become columns with one value for each row, and the rows
are sorted into at most five routes:

    greedy    temperature 0: an argmax
    dense     temperature and min-p only: one scan over the vocabulary, no sort
    narrow    top-k of at most 256: a partition, and the rest among the best 256
    nucleus   top-p alone over a large vocabulary: the same, and a check that 256 were enough
    wide      everything else: the rows in full order

A row's route and every number computed on it depend on that row's options and scores only, never on
its neighbours or on its place. This is why a slot gets the same token alone and in any batch.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.transforms import Parameter

import mlx.core as mx
import numpy as np

_NARROW = 256  # candidates on the small routes
_SECOND = 4096  # candidates for a nucleus that 256 did not hold
_LARGE = 2048  # vocabularies up to this size are sorted: a check would cost more
_NORMAL = 1.2e-38  # the smallest normal float32: what is positive must not become 0

_COLUMNS = (  # numeric options, in the order of the table's columns
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "top_logprobs",
)
COLUMNS = len(_COLUMNS)


def encode(options: SamplerOptions) -> list[float]:
    """One row of the table of options, with everything that is switched off made neutral."""
    values = {name: float(getattr(options, name)) for name in _COLUMNS}
    if values["temperature"] > 0:
        values["temperature"] = max(values["temperature"], _NORMAL)
    values["top_p"] = max(values["top_p"], _NORMAL) if 0 < values["top_p"] < 1 else math.inf
    values["min_p"] = math.log(values["min_p"]) if values["min_p"] > 0 else -math.inf
    values["top_k"] = values["top_k"] if values["top_k"] > 0 else math.inf
    if values["repeat_penalty"] <= 0:
        values["repeat_penalty"] = 1.0
    return list(values.values())


@dataclass(frozen=True)
class Route:
    """Rows that are drawn in one way. A stage that none of them needs is None."""

    name: str
    rows: np.ndarray  # which rows of the batch
    width: int  # how many candidates
    temperature: Parameter | None
    top_k: Parameter | None
    top_p: Parameter | None
    min_p: Parameter | None  # its logarithm: what a score may fall short of the best

    def take(self, places: np.ndarray) -> "Route":
        """The route for some of its rows."""
        stages = {}
        for name in ("temperature", "top_k", "top_p", "min_p"):
            value = getattr(self, name)
            stages[name] = value[indices(places)] if isinstance(value, mx.array) else value
        return replace(self, rows=self.rows[places], **stages)


@dataclass(frozen=True)
class Routing:
    """The routes of a batch, and its rows in their order."""

    routes: tuple[Route, ...]
    forth: mx.array | None  # the rows, route after route; None: there is one route
    back: mx.array | None  # where in that order each row is


class Piece(NamedTuple):
    """Rows ready to be drawn from, or to be read as probabilities.

    Attributes:
        rows: which rows of the batch.
        gaps: how far each score is from the best, over the temperature, ``(n, V)``, or ``(n, K)``
            best first; -inf where cut. Untempered scores ``(n, V)`` if the best takes all.
        ids: ``(n, K)``, whose gaps these are; None: of every token.
        sums: cumulative weights, of the shape of ``gaps``; None: the best score takes all.
        total: ``(n, 1)``, the sum over what was kept.
    """

    rows: np.ndarray
    gaps: mx.array
    ids: mx.array | None = None
    sums: mx.array | None = None
    total: mx.array | None = None


def plan(table: np.ndarray, vocab_size: int) -> Routing:
    """Sort rows into routes.

    Args:
        table: ``(N, COLUMNS)``, a row of ``encode`` for each row of the batch.
        vocab_size: V; a top-k of V or more is off.
    """
    temperature, top_k, top_p, min_p = table[:, :4].T
    top_k = np.where(top_k < vocab_size, top_k, vocab_size)
    names = np.select(
        [
            temperature == 0,
            top_k <= min(_NARROW, vocab_size - 1),
            (top_k == vocab_size) & (top_p < 1) & (vocab_size > _LARGE),
            (top_k < vocab_size) | (top_p < 1),
        ],
        ["greedy", "narrow", "nucleus", "wide"],
        "dense",
    )
    routes = []
    for name in np.unique(names):
        rows = np.flatnonzero(names == name)
        widths = {"narrow": int(top_k[rows].max()), "wide": int(top_k[rows].max())}
        routes.append(
            Route(
                name=str(name),
                rows=rows,
                width=widths.get(name, vocab_size),
                temperature=column(temperature[rows], 1.0),
                top_k=column(top_k[rows], vocab_size),
                top_p=column(top_p[rows], math.inf),
                min_p=column(min_p[rows], -math.inf),
            )
        )
    if len(routes) == 1:
        return Routing(tuple(routes), None, None)
    order = np.concatenate([route.rows for route in routes])
    return Routing(tuple(routes), indices(order), indices(np.argsort(order)))


def indices(rows: np.ndarray) -> mx.array:
    """Row numbers for the device, int32 as token ids are: no other type comes of adding the two."""
    return mx.array(rows.astype(np.int32))


def column(values: np.ndarray, neutral: float) -> Parameter | None:
    """None if every value is neutral, one number if all agree, otherwise an array ``(N, 1)``."""
    if len(values) and (values != values[0]).any():
        return mx.array(values.astype(np.float32)[:, None])
    return None if not len(values) or values[0] == neutral else float(values[0])


def draw(routing: Routing, scores: mx.array, uniforms: np.ndarray) -> tuple[mx.array, mx.array]:
    """Draw a token from each row.

    Args:
        routing: from ``plan``.
        scores: penalised, float32 ``(N, V)``.
        uniforms: float32 ``(N,)`` in [0, 1).

    Returns:
        ``token`` ``(N,)`` int32, and ``peak`` ``(N, 1)``, the best score: not finite where a row
        has NaN, +inf or only -inf, and is not fit to draw from. Unevaluated, save for what
        ``_nucleus`` must look at.
    """
    scores, peak, sorted_peak = _sorted(routing, scores)
    tokens, rows = [], []
    for piece in _pieces(routing, scores, sorted_peak):
        rows.append(piece.rows)
        if piece.sums is None:
            tokens.append(_best(piece.gaps))
        else:
            tokens.append(_invert(piece, mx.array(uniforms[piece.rows, None])))
    return _in_order(rows, tokens).flatten(), peak


def log_probs(routing: Routing, scores: mx.array) -> tuple[mx.array, mx.array]:
    """The log-probabilities that ``draw`` draws from, ``(N, V)``, and its ``peak``."""
    scores, peak, sorted_peak = _sorted(routing, scores)
    logs, rows = [], []
    for piece in _pieces(routing, scores, sorted_peak):
        rows.append(piece.rows)
        if piece.sums is None:
            logs.append(transforms.keep(piece.gaps, _best(piece.gaps), mx.array(0.0)))
            continue
        log = piece.gaps - mx.logsumexp(piece.gaps, axis=-1, keepdims=True)
        if piece.ids is not None:
            log = transforms.keep(mx.zeros((len(log), scores.shape[-1])), piece.ids, log)
        logs.append(log)
    return _in_order(rows, logs), peak


def _invert(piece: Piece, u: mx.array) -> mx.array:
    """Invert the cumulative distribution: the first token whose sum exceeds ``u`` of the total.

    One random number a row, against one for each token of the Gumbel-max trick. The total is one of
    the sums and u is below 1, so that no rounding can push the threshold past the last token.
    """
    sums, total = piece.sums, piece.total
    if mx.default_device() != mx.cpu:  # a parallel scan can rise by an ulp where the weight is 0
        sums = mx.where(piece.gaps > -mx.inf, sums, 0.0)
        total = mx.max(sums, axis=-1, keepdims=True)
    first = _best(sums > u * total)
    return first if piece.ids is None else mx.take_along_axis(piece.ids, first, axis=-1)


def _best(scores: mx.array) -> mx.array:
    """Where the first of the largest values is, ``(n, 1)``."""
    return mx.argmax(scores, axis=-1, keepdims=True).astype(mx.int32)


def _sorted(routing: Routing, scores: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """Scores route after route; the best of each row in the old order and in that one."""
    if routing.forth is None:
        peak = mx.max(scores, axis=-1, keepdims=True)
        return scores, peak, peak
    scores = mx.take(scores, routing.forth, axis=0)
    peak = mx.max(scores, axis=-1, keepdims=True)
    return scores, mx.take(peak, routing.back, axis=0), peak


def _pieces(routing: Routing, scores: mx.array, peak: mx.array) -> Iterator[Piece]:
    start = 0
    for route in routing.routes:
        part, top, stop = scores, peak, start + len(route.rows)
        if routing.forth is not None:
            part, top = scores[start:stop], peak[start:stop]
        start = stop
        if route.name == "greedy":
            yield Piece(route.rows, part)
        elif route.name == "dense":
            yield _cut(route, _gaps(route, part, top))[0]
        elif route.name == "nucleus":
            yield from _nucleus(route, part, top)
        else:
            values, ids = transforms.best(part, route.width)
            yield _cut(route, _gaps(route, values, top), ids)[0]


def _gaps(route: Route, scores: mx.array, peak: mx.array) -> mx.array:
    """Scores relative to the best, at the temperature; in this order it loses the least digits."""
    gaps = scores - peak
    return gaps if route.temperature is None else gaps / route.temperature


def _cut(
    route: Route,
    gaps: mx.array,
    ids: mx.array | None = None,
    mass: mx.array | None = None,
) -> tuple[Piece, mx.array | None]:
    """Apply top-k, top-p and min-p; with the first two ``gaps`` stand best first.

    Sums are taken in that order and relative to the best score. They do not depend on how many
    candidates follow, so that a row is drawn alike beside rows that need more of them.

    Args:
        route: says which cuts.
        gaps: ``(n, K)``.
        ids: ``(n, K)`` whose gaps these are; None: ``(n, V)`` in order of id.
        mass: ``(n, 1)``, the sum of all weights, if the nucleus may not end among these.

    Returns:
        The piece, and with top-p which rows ``(n, 1)`` hold all of their nucleus.
    """
    if isinstance(route.top_k, mx.array):  # a number would be the width: nothing to cut
        gaps = mx.where(mx.arange(route.width, dtype=mx.float32) < route.top_k, gaps, -mx.inf)
    weights = mx.exp(gaps)
    sums = mx.cumsum(weights, axis=-1)
    total = sums[:, -1:]
    kept = covered = None
    if route.top_p is not None:
        mass = total if mass is None else mass
        kept = transforms.in_nucleus(weights, route.top_p, mass)
        covered = total >= route.top_p * mass
    if route.min_p is not None:
        likely = gaps >= route.min_p
        kept = likely if kept is None else kept & likely
    if kept is not None:
        gaps = mx.where(kept, gaps, -mx.inf)
        if ids is None:
            sums = mx.cumsum(mx.where(kept, weights, 0.0), axis=-1)
            total = sums[:, -1:]
        else:  # the first so many: no need to sum again
            total = mx.max(mx.where(kept, sums, 0.0), axis=-1, keepdims=True)
    return Piece(route.rows, gaps, ids, sums, total), covered


def _nucleus(route: Route, part: mx.array, peak: mx.array) -> Iterator[Piece]:
    """Look for each row's nucleus among its best 256, then its best 4,096, then everywhere.

    Whether it is in there must be known on the host, hence an evaluation. What a row gets does not
    depend on how far the search went: the mass is the whole row's every time.
    """
    vocab_size = part.shape[-1]
    mass = mx.exp(mx.logsumexp(_gaps(route, part, peak), axis=-1, keepdims=True))
    for width in (_NARROW, _SECOND, vocab_size):
        route = replace(route, width=min(width, vocab_size))
        values, ids = transforms.best(part, route.width)
        piece, covered = _cut(route, _gaps(route, values, peak), ids, mass)
        if route.width == vocab_size:
            yield piece
            return
        mx.eval(covered, *piece[1:])
        done, rest = (np.flatnonzero(np.array(covered) == is_in) for is_in in (True, False))
        if not len(rest):
            yield piece
            return
        if len(done):
            at = indices(done)
            yield Piece(route.take(done).rows, *(array[at] for array in piece[1:]))
        at = indices(rest)
        route, part, peak, mass = route.take(rest), part[at], peak[at], mass[at]


def _in_order(rows: list[np.ndarray], parts: list[mx.array]) -> mx.array:
    """Put rows back where they came from."""
    if len(parts) == 1:
        return parts[0]
    return mx.take(mx.concatenate(parts), indices(np.argsort(np.concatenate(rows))), axis=0)
