"""A drafter that proposes a tree: several continuations, verified by the target in one forward.

Where the draft model is not sure, a second child is worth more than a longer path. So the tree
grows best first (EAGLE-2, Li et al. 2024, 2406.16858), a level with each forward of the draft
model: a node is worth the chance that the text gets there, and the best ``draft_tokens`` stay.

The best children of a node stay with the draft's own chance of them. *Drawn* ones stay more often,
and must not be dropped for what they turned out to be: the rules count on what q gave. There the
chance to draw one more child competes, before the child is known; what comes of the child is worth
less, and competes later (as in DySpec, Xiong et al. 2024, 2410.11744).
"""

from collections.abc import Callable
from functools import partial
from heapq import nsmallest
from typing import Any, NamedTuple, Self

from lablib.cache import tree
from lablib.inference.sampling import transforms
from lablib.inference.speculation.drafters import Cache, Drafter, Limits, as_drafter
from lablib.inference.speculation.proposal import Proposal
from lablib.inference.text_sampler import TextSampler, check_finite
from lablib.validation import BadValue, flag, integer

import mlx.core as mx

# A drawn token stays more often than it is drawn, as the models agree on what they doubt: of the
# target and draft that are shipped as if its chance were this power of the draft's.
_AGREE = 0.25


class Tree(Drafter):
    """A draft model, or a drafter that has one (``Head``, ``EarlyExit``), which drafts a tree.

    ``draft_tokens`` of the engine are its nodes, ``depth`` is the longest path (None: no bound).
    ``drawn`` children keep most under ``rejection``, ``block`` and ``coupled``; under ``match``,
    and always at temperature 0, the best do. A batch of texts is drafted for one by one. Models are
    those of ``lablib.models``, with caches that keep an entry for each token.
    """

    trees, batches = True, False

    def __init__(self, draft: Any, depth: int | None = None, drawn: bool = True) -> None:
        self._inner = as_drafter(draft)
        if not hasattr(self._inner, "growth"):
            kind = type(self._inner).__name__
            raise BadValue(f"draft must have a model to draft trees with, a {kind} has none")
        self.model, self.in_target_cache = self._inner.model, self._inner.in_target_cache
        depth = None if depth is None else integer("depth", depth, 1)
        self._growth = partial(grow, depth=depth, drawn=flag("drawn", drawn))

    def begin(self, target: Any, target_cache: Cache, cache: Cache | None) -> Self:
        """Return the drafter inside for one text, where its drafts grow into a tree."""
        tree.check("target", target, target_cache)
        session = self._inner.begin(target, target_cache, cache)
        if session.cache is not None:
            tree.check("draft", session.model, session.cache)
        session.trees, session.batches, session.growth = True, False, self._growth
        return session


class Node(NamedTuple):
    """A drafted token that may be proposed; what is worth more comes first."""

    order: float  # minus its worth
    number: int  # of all that were found: parents and earlier siblings have a smaller one
    parent: int  # its number; -1 is the text
    row: int  # of the q of its siblings
    chance: float  # that the text gets to this node
    path: tuple[int, ...]  # the tokens up to this one


def grow(
    forward: Callable[..., mx.array], unread: mx.array, limits: Limits, sampler: TextSampler,
    depth: int | None, drawn: bool,
) -> Proposal:  # fmt: skip
    """Grow a tree of ``limits[0]`` nodes; each level is waited for.

    ``forward(tokens (1, T), parents=None) -> logits (1, T, V)`` gets ``unread``, then the nodes of
    each level, with the parents of all that it was given (``cache.tree.branch``).
    """
    most, drawn = limits[0], drawn and not sampler.greedy
    parents = list(range(-1, unread.shape[1] - 1))
    places = {-1: len(parents) - 1}  # of the nodes' numbers among these
    level, found, logits, laws = [Node(0, -1, -1, -1, 1, ())], [], [forward(unread)[:, -1:]], []
    for _ in range(most if depth is None else min(depth, most)):
        if laws:
            for node in level:
                places[node.number] = len(parents)
                parents.append(places[node.parent])
            tokens = mx.array([[node.path[-1] for node in level]])
            logits.append(forward(tokens, parents=parents))
        paths, row = [node.path for node in level], sum(law.shape[1] for law in laws)
        laws.append(q := sampler.after(logits[-1].astype(mx.float32), paths))
        weights = sampler.shuffled(q, paths, row) if drawn else q
        ids = transforms.best(weights[0], min(most, q.shape[-1]))[1]
        chances, fit = mx.take_along_axis(q[0], ids, axis=-1), mx.isfinite(mx.sum(q[0], axis=-1))
        mx.eval(ids, chances, fit)
        check_finite("draft", fit.tolist())
        for i, each in enumerate(zip(level, ids.tolist(), chances.tolist(), strict=True)):
            found += children(*each, drawn, len(found), row + i)
        best = nsmallest(most, found)
        # What grows on a node is worth no more than it: it must have a chance against these.
        least = -best[-1].order if len(best) == most else 0
        deep = len(paths[0]) + 1
        level = [node for node in best if len(node.path) == deep and node.chance > least]
        if not level:
            break
    place = {-1: -1} | {node.number: n for n, node in enumerate(best)}
    rows, tokens = mx.array([node.row for node in best]), [node.path[-1] for node in best]
    q, logits = (mx.concatenate(each, axis=1)[:, rows] for each in (laws, logits))
    up = [place[node.parent] for node in best]
    return Proposal(mx.array([tokens]), q if drawn else None, logits, drawn=True, parents=up)


def children(
    node: Node, tokens: list[int], chances: list[float], drawn: bool, number: int, row: int
) -> list[Node]:
    """Return what may grow on a node, in order; the first gets this ``number``."""
    found, left, worth = [], 1.0, node.chance
    for token, chance in zip(tokens, chances, strict=True):
        if chance <= 0 or left <= 0:  # cut, or none are left
            break
        own = worth * min(1.0, chance / left) ** _AGREE if drawn else node.chance * chance
        order, path = -worth if drawn else -own, (*node.path, token)
        found.append(Node(order, number + len(found), node.number, row, own, path))
        worth, left = worth - own, left - chance
    return found
