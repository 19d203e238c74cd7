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
from lablib.inference.sampling.text_sampler import TextSampler, check_finite
from lablib.inference.speculation.draft_model import as_drafter
from lablib.inference.speculation.drafter import Drafter, Limits
from lablib.inference.speculation.proposal import Proposal
from lablib.machine.arrays import listed
from lablib.unknown_options import checks_options
from lablib.validation import BadValue, flag, integer

import mlx.core as mx

# A drawn token stays more often than it is drawn, as the models agree on what they doubt: of the
# target and draft that are shipped as if its chance were this power of the draft's.
_AGREE = 0.25


@checks_options
class Tree(Drafter):
    """A draft model, or a drafter that has one (``Head``, ``EarlyExit``), which drafts a tree.

    ``draft_tokens`` of the engine are its nodes, ``depth`` is the longest path (None: no bound).
    ``drawn`` children keep most under ``optimal``, ``rejection``, ``block`` and ``coupled``; under
    ``match``, and always at temperature 0, the best do. A batch of texts is drafted for one by one.
    Models are those of ``lablib.models``, with caches that keep an entry for each token.

    Raises:
        ValueError, TypeError: ``draft`` has no model, ``depth`` is below 1.

    Example:
        >>> tree = lablib.Tree(draft, depth=3)
        >>> _, stats = lablib.speculative_decode(model, tree, prompt, draft_tokens=8, max_tokens=8)
        >>> stats["tokens_per_round"] >= 1
        True
    """

    trees, batches = True, False

    def __init__(self, draft: Any, depth: int | None = None, drawn: bool = True) -> None:
        self._inner = as_drafter(draft)
        kind = type(self._inner).__name__
        if not hasattr(self._inner, "growth"):
            raise BadValue(f"draft must have a model to draft trees with, a {kind} has none")
        if self._inner.offers is not None:
            raise BadValue(f"draft must leave what a tree offers to the tree, a {kind} has offers")
        self.model, self.in_target_cache = self._inner.model, self._inner.in_target_cache
        depth = None if depth is None else integer("depth", depth, 1)
        most = getattr(self._inner, "depth", None)  # the places of a block
        self._depth = most if depth is None else min(depth, most or depth)
        self._drawn = flag("drawn", drawn)

    def begin(self, target: Any, own: Any, texts: int) -> Self:
        """Return the drafter inside for one text, where its drafts grow into a tree."""
        tree.check("target", target.model, target.cache)
        if own is not None:
            tree.check("draft_model", own.model, own.cache)
        session: Any = self._inner.begin(target, own, texts)  # it has ``growth``: see above
        session.trees, session.batches = True, False
        session.growth = partial(grow, depth=self._depth, drawn=self._drawn)
        return session


class Node(NamedTuple):
    """A drafted token that may be proposed; nodes sort by their worth, the best first."""

    order: float  # minus its worth
    number: int  # among all that were found: parents and earlier siblings have a smaller one
    parent: int  # its number; -1 is the text
    row: int  # of the q of its siblings
    chance: float  # that the text gets to this node
    path: tuple[int, ...]  # the tokens up to this one


def grow(
    forward: Callable[..., mx.array],
    unread: mx.array,
    limits: Limits,
    sampler: TextSampler,
    depth: int | None,
    drawn: bool,
) -> Proposal:
    """Grow a tree of ``limits[0]`` nodes; each level is waited for.

    ``forward(tokens (1, T), parents=None) -> logits (1, T, V)`` gets ``unread``, then the nodes of
    each level, with the parents of all tokens that it was given (``cache.tree.branch``).
    """
    most = limits[0]
    drawn = drawn and not sampler.greedy
    parents = list(range(-1, unread.shape[1] - 1))
    index = {-1: len(parents) - 1}  # a node's number -> its index among the tokens given
    level = [Node(0, -1, -1, -1, 1, ())]
    nodes: list[Node] = []
    logits = [forward(unread)[:, -1:]]
    q: list[mx.array] = []
    for _ in range(most if depth is None else min(depth, most)):
        if q:
            for node in level:
                index[node.number] = len(parents)
                parents.append(index[node.parent])
            tokens = mx.array([[node.path[-1] for node in level]])
            logits.append(forward(tokens, parents=parents))
        row = sum(each.shape[1] for each in q)
        q.append(sampler.after(sampler.raw(logits[-1]), [node.path for node in level]))
        ids, chances = _likeliest(q[-1], level, row, most, sampler, drawn)
        for i, node in enumerate(level):
            nodes += children(node, ids[i], chances[i], drawn, len(nodes), row + i)
        best = nsmallest(most, nodes)
        level = _next_level(best, len(level[0].path) + 1, full=len(best) == most)
        if not level:
            break
    return _proposal(best, logits, q, drawn)


def _likeliest(
    q: mx.array, level: list[Node], row: int, most: int, sampler: TextSampler, drawn: bool
) -> tuple[list[list[int]], list[list[float]]]:
    """Return the first ``most`` tokens after each node, drawn or the best, and their chances."""
    weights = q
    if drawn:
        weights = sampler.shuffled(q, [node.path for node in level], row)
    _, ids = transforms.best(weights[0], min(most, q.shape[-1]))
    chances = mx.take_along_axis(q[0], ids, axis=-1)
    finite = mx.isfinite(mx.sum(q[0], axis=-1))
    mx.eval(ids, chances, finite)
    check_finite("draft", listed(finite))
    return listed(ids), listed(chances)


def _next_level(best: list[Node], deep: int, full: bool) -> list[Node]:
    """Return the nodes of depth ``deep`` on which something may still grow.

    It is worth no more than its node: that must have a chance against the ``best``, once they are
    as many as the tree may have.
    """
    least = -best[-1].order if full else 0
    return [node for node in best if len(node.path) == deep and node.chance > least]


def _proposal(best: list[Node], logits: list[mx.array], q: list[mx.array], drawn: bool) -> Proposal:
    """Return the chosen nodes, parents first, with the rows of the forwards that found them."""
    index = {-1: -1} | {node.number: n for n, node in enumerate(best)}
    rows = mx.array([node.row for node in best])
    drafts = mx.array([[node.path[-1] for node in best]])
    return Proposal(
        drafts,
        mx.concatenate(q, axis=1)[:, rows] if drawn else None,
        mx.concatenate(logits, axis=1)[:, rows],
        drawn=True,
        blind=True,  # a drawn node's place goes by those before it
        parents=[index[node.parent] for node in best],
    )


def children(
    node: Node, tokens: list[int], chances: list[float], drawn: bool, number: int, row: int
) -> list[Node]:
    """Return the nodes that may grow on a node, in order; the first gets this ``number``."""
    nodes: list[Node] = []
    left = 1.0
    worth = node.chance
    for token, chance in zip(tokens, chances, strict=True):
        if chance <= 0 or left <= 0:  # cut, or none are left
            break
        if drawn:
            own = worth * min(1.0, chance / left) ** _AGREE
            order = -worth
        else:
            own = node.chance * chance
            order = -own
        path = (*node.path, token)
        nodes.append(Node(order, number + len(nodes), node.number, row, own, path))
        worth -= own
        left -= chance
    return nodes
