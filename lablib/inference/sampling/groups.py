"""The rows of a batch in groups: rows that use the same options are cut and drawn together.

A row's token depends on that row's options and scores only, never on its neighbours or on its place
in the batch. So a slot gets the same token alone and in any batch.
"""

from collections.abc import Callable
from typing import NamedTuple

from lablib.definitions import FastPath
from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import NEUTRAL
from lablib.models.kernels import exp

import mlx.core as mx
import numpy as np

_CANDIDATES = FastPath(
    (transforms, "cut"),
    (transforms, "draw"),
    *[(transforms, name) for name in transforms.BUILT_IN if name in NEUTRAL],
    *[(transforms.ORDER, name) for name in transforms.BUILT_IN],
)


class Group(NamedTuple):
    """Rows of a batch that use the same options."""

    parameters: transforms.Parameters
    width: int  # the most tokens that greedy or top-k leaves in a row: V without


class Groups:
    """A batch of N rows, divided by the transforms that its rows use.

    Args:
        table: the options ``(N,)`` of the rows, of type ``options.TABLE``.
        vocab_size: V.
    """

    def __init__(self, table: np.ndarray, vocab_size: int) -> None:
        names = [name for name in transforms.ORDER if name in NEUTRAL]
        is_used = [table[name] != NEUTRAL[name] for name in names]
        _, kinds = np.unique(is_used, axis=1, return_inverse=True)
        order = np.argsort(kinds, kind="stable")
        ends = np.flatnonzero(np.diff(kinds[order])) + 1
        options = np.split(table[order], ends)
        self._groups = [_group(rows, vocab_size) for rows in options]
        self._ends = ends.tolist()
        self._order = mx.array(order)  # group after group
        self._back = mx.array(np.argsort(order))

    def draw(self, scores: mx.array, peak: mx.array, u: np.ndarray) -> mx.array:
        """Draw a token from each row: ``(N, 1)`` int32.

        Args:
            scores: penalised, float32 ``(N, V)``.
            peak: the best score of each row ``(N, 1)``.
            u: float32 ``(N, 1)`` in [0, 1).
        """
        return self._each(_draw, scores, peak, mx.array(u))

    def cut(self, scores: mx.array, peak: mx.array) -> mx.array:
        """Cut each row: ``(N, V)``, relative to the best."""
        return self._each(_cut, scores, peak)

    def _each(self, function: Callable[..., mx.array], *columns: mx.array) -> mx.array:
        """Call ``function`` for each group with its rows of the columns."""
        if len(self._groups) == 1:
            return function(self._groups[0], *columns)
        divided = []
        for column in columns:
            in_order = mx.take(column, self._order, axis=0)
            divided.append(mx.split(in_order, self._ends))
        parts = [function(*part) for part in zip(self._groups, *divided, strict=True)]
        return mx.take(mx.concatenate(parts), self._back, axis=0)


def _group(options: np.ndarray, vocab_size: int) -> Group:
    n_left = np.where(options["greedy"], 1, options["top_k"])
    width = min(max(n_left, default=vocab_size), vocab_size)
    parameters = transforms.read_parameters(options)
    return Group(parameters, int(width))


def _draw(
    group: Group,
    scores: mx.array,
    peak: mx.array,
    u: mx.array,
) -> mx.array:
    ids = _candidates(group, scores)
    if ids is None:
        left = transforms.cut(scores, group.parameters, peak)
        return transforms.draw(exp(left), u)
    if group.width == 1:
        return ids
    among = transforms.gather(scores, ids)
    left = transforms.cut(among, group.parameters, peak)
    index = transforms.draw(exp(left), u)
    return transforms.gather(ids, index)


def _cut(group: Group, scores: mx.array, peak: mx.array) -> mx.array:
    ids = _candidates(group, scores)
    if ids is None:
        return transforms.cut(scores, group.parameters, peak)
    among = transforms.gather(scores, ids)
    left = transforms.cut(among, group.parameters, peak)
    return transforms.keep(scores, left, ids)


def _candidates(group: Group, scores: mx.array) -> mx.array | None:
    """Return the ids ``(n, K)`` of the tokens that top-k can leave, in order; None: all tokens.

    A fast path: the transforms, and the draw, give the same among these as among all tokens. It is
    closed where a transform is replaced or moved, and where the group uses one that was added.
    """
    if group.width == scores.shape[-1] or not _CANDIDATES.is_open():
        return None
    used = {*transforms.BUILT_IN, *group.parameters}
    names = [name for name in transforms.ORDER if name in used]
    if names != [*transforms.BUILT_IN]:
        return None
    return transforms.best_by_id(scores, group.width)
