"""What is only faster: the same tokens as ``transforms.cut`` and ``transforms.draw`` give.

``Sampler(num_ctx, fast=False)`` does without this file. With it, the rows of a batch fall into
groups, and some need not look at every token in order:

    greedy    temperature 0: an argmax
    narrow    top-k of at most 256, or with top-p: find the k best, and do the rest among these
    nucleus   top-p alone: sort the best 256 only, if they turn out to hold it
    general   everything else: the definition

A row's group and every number computed in it depend on that row's options and scores only, never on
its neighbours or on its place. So a slot gets the same token alone and in any batch.
"""

from collections.abc import Iterator
from typing import NamedTuple

from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import NEUTRAL
from lablib.inference.sampling.transforms import Parameter, columns
from lablib.models.kernels import exp

import mlx.core as mx
import numpy as np

_NARROW = 256  # candidates that are looked at in their order
_SECOND = 4096  # candidates for a nucleus that 256 did not hold
_LARGE = 2048  # vocabularies up to this size are sorted at once: a check would cost more
_SPARSE = 12  # one candidate among more tokens than this: sort them by id; else put them in place


class Group(NamedTuple):
    """Rows of a batch that are drawn in one way."""

    kind: str
    rows: np.ndarray  # their places in the batch
    asked: dict[str, Parameter]
    width: int  # how many candidates: the largest top-k, V without


class Candidates(NamedTuple):
    """What is left to draw from."""

    rows: np.ndarray  # which rows of the batch
    scores: mx.array | None  # relative to the best, (n, K); None: there is one candidate
    weights: mx.array | None  # their exponentials
    ids: mx.array | None  # whose these are; None: all tokens
    ascending: bool = True  # whether the ids rise


class Plan(NamedTuple):
    """The groups of a batch, and its rows group after group (None: there is one)."""

    groups: list[Group]
    forth: mx.array | None


def plan(table: np.ndarray, vocab_size: int) -> Plan | None:
    """Divide a batch into groups; ``table`` has a row of type ``options.TABLE`` for each row.

    Return None where the definition is as fast: no row needs an order, and some need more than an
    argmax.
    """
    top_k, greedy = table["top_k"], table["greedy"] > 0
    has_k, has_p = top_k < vocab_size, table["top_p"] < 1
    if not ((has_k | has_p) & ~greedy).any() and not greedy.all():
        return None
    added = set(transforms.ORDER) - transforms.BUILT_IN  # transforms without a fast path
    new = np.any([table[name] != NEUTRAL[name] for name in added] or [[False]], axis=0)
    kinds = np.select(
        [new | (top_k > _NARROW) & has_k & ~has_p, greedy, has_k, has_p],
        ["general", "greedy", "narrow", "nucleus"],
        "general",
    )
    groups = []
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == kind)
        width = int(top_k[rows].max()) if kind == "narrow" else vocab_size
        groups.append(Group(kind, rows, columns(table[rows]), width))
    forth = np.concatenate([group.rows for group in groups])
    return Plan(groups, _indices(forth) if len(groups) > 1 else None)


def draw(plan: Plan, scores: mx.array, peak: mx.array, u: np.ndarray) -> mx.array:
    """Draw a token from each row, as ``transforms.draw`` does after ``transforms.cut``.

    Args:
        plan: from ``plan``.
        scores: penalised, float32 ``(N, V)``.
        peak: the best score of each row ``(N, 1)``.
        u: float32 ``(N, 1)`` in [0, 1); tokens ``(N, 1)`` int32 are returned.
    """
    rows, tokens = [], []
    for at, _, weights, ids, ascending in candidates(plan, scores, peak):
        token = ids
        if weights is not None:
            if not ascending and scores.shape[-1] > _SPARSE * ids.shape[-1]:
                order = mx.argsort(ids, axis=-1)
                weights, ids = (mx.take_along_axis(x, order, axis=-1) for x in (weights, ids))
            elif not ascending:
                weights, ids = transforms.keep(scores[: len(at)], weights, ids, 0.0), None
            place = transforms.draw(weights, mx.array(u if len(at) == len(u) else u[at]))
            token = place if ids is None else mx.take_along_axis(ids, place, axis=-1)
        rows.append(at)
        tokens.append(token)
    return _in_order(rows, tokens)


def cut(plan: Plan, scores: mx.array, peak: mx.array) -> mx.array:
    """Return what ``transforms.cut`` does: ``(N, V)``, relative to the best, -inf where cut."""
    rows, parts = [], []
    for at, left, _, ids, _ in candidates(plan, scores, peak):
        left = mx.array(0.0) if left is None else left
        rows.append(at)
        parts.append(left if ids is None else transforms.keep(scores[: len(at)], left, ids))
    return _in_order(rows, parts)


def candidates(plan: Plan, scores: mx.array, peak: mx.array) -> Iterator[Candidates]:
    """Yield what is left to draw from, group after group."""
    if plan.forth is not None:
        scores, peak = mx.take(scores, plan.forth, axis=0), mx.take(peak, plan.forth, axis=0)
    start = 0
    for group in plan.groups:
        part, top = scores, peak
        if plan.forth is not None:
            stop = start + len(group.rows)
            part, top, start = scores[start:stop], peak[start:stop], stop
        if group.kind == "greedy":
            best = mx.argmax(part, axis=-1, keepdims=True).astype(mx.int32)
            yield Candidates(group.rows, None, None, best)
        elif group.kind == "general":
            left = transforms.cut(part, group.asked, top)
            yield Candidates(group.rows, left, exp(left), None)
        elif group.kind == "narrow":
            yield _narrow(group, part, top)
        else:
            yield from _nucleus(group, _warm(group, part, top))


def _narrow(group: Group, part: mx.array, peak: mx.array) -> Candidates:
    """Cut among the best ``width`` of each row: no other token can be left."""
    if "top_p" in group.asked or isinstance(group.asked["top_k"], mx.array):
        best, ids = transforms.best(part, group.width)
        scores, weights, _ = _cut_in_order(group, _warm(group, best, peak))
        return Candidates(group.rows, scores, weights, ids, ascending=False)
    others = {name: asked for name, asked in group.asked.items() if name != "top_k"}
    ids = mx.sort(transforms.best_ids(part, group.width), axis=-1)
    scores = transforms.cut(mx.take_along_axis(part, ids, axis=-1), others, peak)
    return Candidates(group.rows, scores, exp(scores), ids)


def _nucleus(group: Group, scores: mx.array) -> Iterator[Candidates]:
    """Look for each row's nucleus among its best 256, then its best 4,096, then everywhere.

    Whether it is in there must be known on the host, hence an evaluation. What a row gets does not
    depend on how far the search went: its mass is the whole row's every time.
    """
    vocab_size, mass, widths = scores.shape[-1], None, [scores.shape[-1]]
    if vocab_size > _LARGE:
        mass = mx.sum(exp(scores), axis=-1, keepdims=True)
        widths = [_NARROW, min(_SECOND, vocab_size), vocab_size]
    for width in widths:
        best, ids = transforms.best(scores, width)
        left, weights, inside = _cut_in_order(group, best, mass)
        if width == vocab_size:
            left = transforms.keep(scores, left, ids)
            weights = transforms.keep(scores, weights, ids, 0.0)
            yield Candidates(group.rows, left, weights, None)
            return
        last = inside[:, -1]  # the nucleus may go on after it
        mx.eval(last, left, weights, ids)
        done, rest = (np.flatnonzero(np.array(last) == is_open) for is_open in (False, True))
        if len(done):
            found = (array[_indices(done)] for array in (left, weights, ids))
            yield Candidates(group.rows[done], *found, ascending=False)
        if not len(rest):
            return
        at = _indices(rest)
        scores, mass = scores[at], mass[at]
        asked = {n: x[at] if isinstance(x, mx.array) else x for n, x in group.asked.items()}
        group = group._replace(rows=group.rows[rest], asked=asked)


def _warm(group: Group, scores: mx.array, peak: mx.array) -> mx.array:
    gaps = scores - peak
    return gaps / group.asked["temperature"] if "temperature" in group.asked else gaps


def _cut_in_order(
    group: Group, scores: mx.array, mass: mx.array | None = None
) -> tuple[mx.array, mx.array, mx.array | None]:
    """Cut scores ``(n, K)`` that stand best first: every transform is a mask there.

    Returns scores, their exponentials, and what is inside the nucleus of the ``mass`` ``(n, 1)``;
    the candidates' own, if that is None.
    """
    asked, inside = group.asked, None
    if isinstance(asked.get("top_k"), mx.array):  # a number is the width: it has been cut
        rank = mx.arange(scores.shape[-1], dtype=mx.float32)
        scores = mx.where(rank < asked["top_k"], scores, -mx.inf)
    weights = exp(scores)
    if "top_p" in asked:
        mass = mx.sum(weights, axis=-1, keepdims=True) if mass is None else mass
        inside = transforms.in_nucleus(weights, asked["top_p"], mass)
    kept = inside
    if "min_p" in asked:
        likely = scores >= mx.log(mx.array(asked["min_p"]))  # the best has score 0
        kept = likely if kept is None else kept & likely
    if kept is not None:
        scores, weights = mx.where(kept, scores, -mx.inf), mx.where(kept, weights, 0.0)
    return scores, weights, inside


def _indices(rows: np.ndarray) -> mx.array:
    return mx.array(rows.astype(np.int32))


def _in_order(rows: list[np.ndarray], parts: list[mx.array]) -> mx.array:
    """Put rows back where they came from."""
    if len(parts) == 1:
        return parts[0]
    return mx.take(mx.concatenate(parts), _indices(np.argsort(np.concatenate(rows))), axis=0)
