"""What speculation with trees writes, by enumerating every tree that can be drawn.

Written from the papers' definitions (SpecInfer, 2305.09781; recursive rejection sampling without
replacement, 2402.14160; traversal verification, 2505.12398), before the library had trees.

A *shape* is a nested tuple: one entry for each child of the root, each the shape of its subtree. So
``((), ((),))`` is a root with two children, the second of which has a child. A *tree* is a list of
tokens and the parent of each, ``-1`` for the root: parents first, and siblings in the order in
which they were drawn.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
from oracles.enumeration import Context, Language
from scipy.optimize import linprog
from scipy.sparse import csr_array

Shape = tuple[Any, ...]
Tree = tuple[tuple[int, ...], tuple[int, ...]]  # tokens, parents
# (p (N+1, V), q (N, V), tokens, parents) -> kept (N+1,), following (N+1, V); row 0 is the root
TreeRule = Callable[..., tuple[np.ndarray, np.ndarray]]


def draws(q: np.ndarray, k: int) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Every way to draw up to ``k`` tokens from ``q`` without replacement, in order."""
    if k == 0 or not q.sum():
        yield 1.0, ()
        return
    q = q / q.sum()
    for token in np.flatnonzero(q):
        left = q.copy()
        left[token] = 0
        for chance, rest in draws(left, k - 1):
            yield q[token] * chance, (int(token), *rest)


def best(q: np.ndarray, k: int) -> Iterator[tuple[float, tuple[int, ...]]]:
    """The ``k`` likeliest tokens, with certainty."""
    yield 1.0, tuple(int(token) for token in np.argsort(-q, kind="stable")[:k])


def trees(
    draft: Callable[[Sequence[int]], np.ndarray],
    context: Sequence[int],
    shape: Shape,
    children: Callable[..., Any] = draws,
) -> Iterator[tuple[float, Tree]]:
    """Every tree of a shape that can follow the context, with its chance; nodes depth first."""
    for chance, tokens in children(draft(context), len(shape)):
        partial = [(chance, ((), ()))]
        for token, below in zip(tokens, shape, strict=False):
            grown = []
            for so_far, (ids, parents) in partial:
                place = len(ids)
                for more, (subs, ups) in trees(draft, [*context, token], below, children):
                    moved = tuple(place if up < 0 else up + place + 1 for up in ups)
                    grown.append((so_far * more, ((*ids, token, *subs), (*parents, -1, *moved))))
            partial = grown
        yield from partial


def path_to(node: int, tokens: Sequence[int], parents: Sequence[int]) -> Context:
    """The tokens from the root to a node, the node's last; node -1 is the root."""
    path = []
    while node >= 0:
        path.append(tokens[node])
        node = parents[node]
    return tuple(reversed(path))


def spoken_by_trees(
    rule: TreeRule,
    target: Language,
    draft: Callable[[Sequence[int]], np.ndarray],
    prompt: Sequence[int],
    n: int,
    shape: Shape,
    children: Callable[..., Any] = draws,
) -> np.ndarray:
    """The distribution over the next ``n`` tokens when rounds verify trees of a shape."""
    size = target.size
    out, ends = np.zeros((size,) * n), {(): 1.0}
    while ends:
        shortest = min(ends, key=len)
        weight = ends.pop(shortest)
        if len(shortest) >= n:
            out[shortest[:n]] += weight
            continue
        base = [*prompt, *shortest]
        for chance, (tokens, parents) in trees(draft, base, shape, children):
            paths = [path_to(node, tokens, parents) for node in range(-1, len(tokens))]
            p = np.array([target.probs([*base, *path]) for path in paths])
            q = np.array([draft([*base, *paths[up + 1]]) for up in parents])
            if children is best:
                q = np.eye(size)[list(tokens)]
            kept, following = rule(p, q, tokens, parents)
            for row, path in enumerate(paths):
                for token in range(size):
                    if w := weight * chance * kept[row] * following[row, token]:
                        text = (*shortest, *path, token)
                        ends[text] = ends.get(text, 0.0) + w
    return out


def one_node(p: np.ndarray, q: np.ndarray, children: Sequence[int]) -> dict[int | None, Any]:
    """Multi-draft rejection at one node, step by step as SpecInfer's algorithm 2 says it.

    Returns:
        The chance that each child is kept; under None that none is, and what follows then.
    """
    out, still = {}, 1.0
    p, q = p.copy(), q.copy()
    for child in children:
        accept = min(1.0, p[child] / q[child]) if q[child] else 0.0
        out[child] = still * accept
        still *= 1 - accept
        rest = np.clip(p - q, 0, None)
        p = rest / rest.sum() if rest.sum() > 0 else p
        q[child] = 0
        q = q / q.sum() if q.sum() > 0 else q
    out[None] = still, p
    return out


def most_kept(p: np.ndarray, q: np.ndarray, k: int = 2) -> float:
    """How often one of ``k`` siblings can stay at most: a linear program over all sets of them."""
    sets = list(combinations(np.flatnonzero(q).tolist(), k))
    chances = np.zeros(len(sets))
    for n, tokens in enumerate(sets):
        for order in permutations(tokens):
            left = np.append(q.sum(), q.sum() - np.cumsum(q[list(order)])[:-1])
            chances[n] += np.prod(q[list(order)] / left)
    # One variable for each token of each set: how often the set is drawn, and this token stays.
    n, token = np.repeat(np.arange(len(sets)), k), np.array(sets).ravel()
    used = np.concatenate([n, len(sets) + token]), np.tile(np.arange(len(n)), 2)
    limits = csr_array((np.ones(2 * len(n)), used), shape=(len(sets) + len(p), len(n)))
    found = linprog(-np.ones(len(n)), A_ub=limits, b_ub=np.concatenate([chances, p]))
    return -found.fun
