"""The options of a batch's rows, read once: which are cut alike, and which are penalised."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from lablib.inference.sampling import transforms
from lablib.inference.sampling.options import PENALTIES, SamplerOptions
from lablib.inference.sampling.row import Row
from lablib.inference.sampling.sums import SMALL

import mlx.core as mx
import numpy as np


class Group(NamedTuple):
    """Rows of a batch that use the same options."""

    rows: mx.array  # (n,) of the N
    parameters: transforms.Parameters
    width: int  # the most tokens that greedy or top-k leaves in a row: V without
    is_narrow: bool  # whether the transforms, and sums, among so many are those among all


class Plan(NamedTuple):
    """The options of N rows: of each text R, one behind the other."""

    groups: list[Group]
    back: mx.array  # (N,), where each row is among those of all groups
    penalized: list[int]  # the rows that are penalised
    penalties: transforms.Parameters  # of these


def plan_of(texts: Sequence[Row], n_positions: int, vocab_size: int) -> Plan:
    """Read the options of ``n_positions`` positions of each text."""
    kinds: dict[tuple[tuple[str, ...], bool], list[int]] = {} if texts else {((), False): []}
    for i, text in enumerate(texts):
        kind = tuple(name for name in transforms.ORDER if name in text.used)
        is_large = text.used.get("top_k", 0) > SMALL  # no row's sums hang on its neighbours
        kinds.setdefault((kind, is_large), []).append(i)
    groups, order = [], []
    for (kind, _), places in kinds.items():
        used = [texts[i].used for i in places]
        left = [1 if "greedy" in each else each.get("top_k", vocab_size) for each in used]
        width = int(min(max(left, default=vocab_size), vocab_size))
        rows = _rows_of(places, n_positions)
        order += rows
        names = [name for name in transforms.ORDER if name in {*transforms.BUILT_IN, *kind}]
        is_narrow = width < vocab_size and width <= SMALL and names == [*transforms.BUILT_IN]
        groups.append(Group(mx.array(rows), _parameters(kind, used, n_positions), width, is_narrow))
    penalized = [i for i, text in enumerate(texts) if text.window]
    return Plan(
        groups,
        mx.array(np.argsort(np.array(order, np.int64))),
        _rows_of(penalized, n_positions),
        _parameters(PENALTIES, [texts[i].used for i in penalized], n_positions),
    )


def _rows_of(texts: list[int], n_positions: int) -> list[int]:
    """Return the rows of texts, of ``n_positions`` each."""
    return [i * n_positions + row for i in texts for row in range(n_positions)]


def _parameters(
    names: Sequence[str], used: Sequence[dict[str, float]], n_positions: int
) -> transforms.Parameters:
    """Return options of texts: a number where all agree, otherwise an array ``(rows, 1)``."""
    parameters: transforms.Parameters = {}
    for name in names:
        neutral: Any = getattr(SamplerOptions, name, None)
        values = [each.get(name, neutral) for each in used]
        if any(value != values[0] for value in values):
            column = np.repeat(np.array(values, np.float32), n_positions)
            parameters[name] = mx.array(column[:, None])
        elif values and values[0] != neutral:
            parameters[name] = values[0]
    return parameters
