"""What is only faster: the same tokens as ``transforms.cut`` and ``transforms.draw`` give.

``Sampler(num_ctx, fast=False)`` does without this file. With it, the rows of a batch fall into
groups, and some need not look at every token in order:

    greedy    temperature 0: an argmax
    narrow    top-k of at most 256: a partition finds the k best, the rest happens among those
    nucleus   top-p alone: sort the best 256 only, if they turn out to hold it
    plain     min-p alone: the best score is known to be 0
    general   everything else: the definition

A row's group and every number computed in it depend on that row's options and scores only, never on
its neighbours or on its place. So a slot gets the same token alone and in any batch.
"""

from collections.abc import Iterator
from typing import NamedTuple

from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import columns
from lablib.inference.sampling.transforms import Parameter

import mlx.core as mx
import numpy as np

_NARROW = 256  # candidates in the small groups
_SECOND = 4096  # candidates for a nucleus that 256 did not hold
_LARGE = 2048  # vocabularies up to this size are sorted at once: a check would cost more
_KNOWN = {"greedy", "top_k", "peak", "temperature", "top_p", "min_p"}


class Group(NamedTuple):
    """Rows of a batch that are drawn in one way; a stage that none of them needs is None.

    Attributes:
        kind: which way.
        rows: their places in the batch.
        asked: parameters by option, from ``options.columns``.
        width: how many candidates; more than any row's top-k only where it is off.
        top_k: None if it is the width.
        temperature: as in ``asked``.
        top_p: as in ``asked``.
        log_min_p: how far below the best a score may be.
    """

    kind: str
    rows: np.ndarray
    asked: dict[str, Parameter]
    width: int
    top_k: mx.array | None
    temperature: Parameter | None
    top_p: Parameter | None
    log_min_p: mx.array | None

    def some(self, places: np.ndarray) -> "Group":
        """Return the group of some of the rows."""
        at = _indices(places)
        stages = ("temperature", "top_p", "log_min_p")
        columns = {n: x for n in stages if isinstance(x := getattr(self, n), mx.array) and x.ndim}
        return self._replace(rows=self.rows[places], **{n: x[at] for n, x in columns.items()})


class Candidates(NamedTuple):
    """What is left to draw from.

    Attributes:
        rows: which rows of the batch.
        scores: relative to the best, ``(n, K)``; None: there is one candidate.
        weights: their exponentials.
        ids: whose these are, ascending; None: all tokens.
    """

    rows: np.ndarray
    scores: mx.array | None
    weights: mx.array | None
    ids: mx.array | None


class Plan(NamedTuple):
    """The groups of a batch, and its rows group after group (None: there is one)."""

    groups: list[Group]
    forth: mx.array | None


def plan(table: np.ndarray, vocab_size: int) -> Plan | None:
    """Divide a batch into groups; None where the definition is as fast.

    Args:
        table: ``(N,)`` of type ``options.TABLE``, a row for each row of the batch.
        vocab_size: V.
    """
    top_k, top_p = table["top_k"], table["top_p"]
    new = (set(transforms.ORDER) - _KNOWN) & set(columns(table))  # transforms without a fast path
    kinds = np.select(
        [
            (top_k > min(_NARROW, vocab_size - 1)) & (top_k < vocab_size) | bool(new),
            table["greedy"] > 0,
            top_k < vocab_size,
            top_p < 1,
        ],
        ["general", "greedy", "narrow", "nucleus"],
        "plain",
    )
    only_plain = set(kinds) <= {"plain", "greedy"} and (kinds == "plain").any()
    if only_plain and not table["min_p"].any():
        return None
    groups = [_group(table, kind, vocab_size, kinds == kind) for kind in np.unique(kinds).tolist()]
    rows = [group.rows for group in groups]
    return Plan(groups, _indices(np.concatenate(rows)) if len(rows) > 1 else None)


def _group(table: np.ndarray, kind: str, vocab_size: int, members: np.ndarray) -> Group:
    asked = columns(table[members])
    top_k, min_p = asked.get("top_k"), asked.get("min_p")
    return Group(
        kind=kind,
        rows=np.flatnonzero(members),
        asked=asked,
        width=int(table["top_k"][members].max()) if kind == "narrow" else vocab_size,
        top_k=top_k if isinstance(top_k, mx.array) else None,
        temperature=asked.get("temperature"),
        top_p=asked.get("top_p"),
        log_min_p=None if min_p is None else mx.log(mx.array(min_p, mx.float32)),
    )


def draw(plan: Plan, scores: mx.array, peak: mx.array, u: np.ndarray) -> mx.array:
    """Draw a token from each row, as ``transforms.draw`` does after ``transforms.cut``.

    Args:
        plan: from ``plan``.
        scores: penalised, float32 ``(N, V)``.
        peak: the best score of each row ``(N, 1)``.
        u: float32 ``(N, 1)`` in [0, 1).

    Returns:
        Tokens ``(N, 1)`` int32, unevaluated, save for what ``_nucleus`` must look at.
    """
    rows, tokens = [], []
    for at, _, weights, ids in candidates(plan, scores, peak):
        token = ids
        if weights is not None:
            token = transforms.draw(weights, mx.array(u if len(at) == len(u) else u[at]))
            token = token if ids is None else mx.take_along_axis(ids, token, axis=-1)
        rows.append(at)
        tokens.append(token)
    return _in_order(rows, tokens)


def log_probs(plan: Plan, scores: mx.array, peak: mx.array) -> mx.array:
    """Return the log-probabilities ``(N, V)`` that ``draw`` draws from."""
    rows, logs = [], []
    for at, left, _, ids in candidates(plan, scores, peak):
        log = mx.array(0.0) if left is None else transforms.log_softmax(left)
        if ids is not None:
            log = transforms.keep(scores[: len(at)], log, ids)
        rows.append(at)
        logs.append(log)
    return _in_order(rows, logs)


def candidates(plan: Plan, scores: mx.array, peak: mx.array) -> Iterator[Candidates]:
    """Yield what is left to draw from, group after group."""
    if plan.forth is not None:
        scores, peak = mx.take(scores, plan.forth, axis=0), mx.take(peak, plan.forth, axis=0)
    start = 0
    for group in plan.groups:
        rows, part, top = group.rows, scores, peak
        if plan.forth is not None:
            part, top = (array[start : start + len(rows)] for array in (scores, peak))
            start += len(rows)
        if group.kind == "greedy":
            best = mx.argmax(part, axis=-1, keepdims=True)
            yield Candidates(rows, None, None, best.astype(mx.int32))
        elif group.kind == "narrow":
            yield _narrow(group, part, top)
        elif group.kind == "nucleus":
            yield from _nucleus(group, _warm(group, part, top))
        elif group.kind == "plain":
            left = _warm(group, part, top)
            yield Candidates(rows, *_likely(group, left, mx.exp(left), None), None)
        else:
            left = transforms.cut(part, group.asked, top)
            yield Candidates(rows, left, mx.exp(left), None)


def _narrow(group: Group, part: mx.array, peak: mx.array) -> Candidates:
    """Cut among the best ``width`` of each row: no other token can be left."""
    if group.top_k is None and group.top_p is None:  # their order does not matter
        ids = mx.sort(transforms.best_ids(part, group.width), axis=-1)
        scores = _warm(group, mx.take_along_axis(part, ids, axis=-1), peak)
        return Candidates(group.rows, *_likely(group, scores, mx.exp(scores), None), ids)
    scores, ids = transforms.best(part, group.width)
    if group.top_k is not None:
        rank = mx.arange(group.width, dtype=mx.float32)
        scores = mx.where(rank < group.top_k, scores, -mx.inf)
    scores = _warm(group, scores, peak)
    weights, inside = mx.exp(scores), None
    if group.top_p is not None:
        mass = mx.sum(weights, axis=-1, keepdims=True)
        inside = transforms.in_nucleus(weights, group.top_p, mass)
    return _by_id(group.rows, *_likely(group, scores, weights, inside), ids)


def _nucleus(group: Group, scores: mx.array) -> Iterator[Candidates]:
    """Look for each row's nucleus among its best 256, then its best 4,096, then everywhere.

    Whether it is in there must be known on the host, hence an evaluation. What a row gets does not
    depend on how far the search went: its mass is the whole row's every time.
    """
    vocab_size = scores.shape[-1]
    weights = mx.exp(scores)
    mass = mx.sum(weights, axis=-1, keepdims=True)
    for width in (_NARROW, _SECOND, vocab_size) if vocab_size > _LARGE else (vocab_size,):
        best, ids = transforms.best(scores, min(width, vocab_size))
        sorted_weights = mx.take_along_axis(weights, ids, axis=-1)
        inside = transforms.in_nucleus(sorted_weights, group.top_p, mass)
        left = _likely(group, best, sorted_weights, inside)
        if width >= vocab_size:  # nothing was left out: each has its place
            left = transforms.keep(scores, left[0], ids), transforms.keep(scores, left[1], ids, 0.0)
            yield Candidates(group.rows, *left, None)
            return
        found = _by_id(group.rows, *left, ids)
        last = inside[:, -1]  # the nucleus may go on after it
        mx.eval(last, *found[1:])
        done, rest = (np.flatnonzero(np.array(last) == is_open) for is_open in (False, True))
        if not len(rest):
            yield found
            return
        if len(done):
            at = _indices(done)
            yield Candidates(group.rows[done], *(array[at] for array in found[1:]))
        at, group = _indices(rest), group.some(rest)
        scores, weights, mass = scores[at], weights[at], mass[at]


def _warm(group: Group, scores: mx.array, peak: mx.array) -> mx.array:
    gaps = transforms.relative(scores, peak)
    return gaps if group.temperature is None else transforms.temperature(gaps, group.temperature)


def _likely(
    group: Group, scores: mx.array, weights: mx.array, inside: mx.array | None
) -> tuple[mx.array, mx.array]:
    """Cut what is not ``inside`` or, with min-p, not likely enough."""
    if group.log_min_p is not None:
        likely = scores >= group.log_min_p
        inside = likely if inside is None else inside & likely
    if inside is None:
        return scores, weights
    return mx.where(inside, scores, -mx.inf), mx.where(inside, weights, 0.0)


def _by_id(rows: np.ndarray, *arrays: mx.array) -> Candidates:
    order = mx.argsort(arrays[-1], axis=-1)
    return Candidates(rows, *(mx.take_along_axis(array, order, axis=-1) for array in arrays))


def _indices(rows: np.ndarray) -> mx.array:
    return mx.array(rows.astype(np.int32))


def _in_order(rows: list[np.ndarray], parts: list[mx.array]) -> mx.array:
    """Put rows back where they came from."""
    if len(parts) == 1:
        return parts[0]
    return mx.take(mx.concatenate(parts), _indices(np.argsort(np.concatenate(rows))), axis=0)
