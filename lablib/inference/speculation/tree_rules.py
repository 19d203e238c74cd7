"""Acceptance rules for a tree of drafts: which path stays, and the token after it.

A node is a drafted token, its *parent* the draft before it; -1 is the root, where the text ends.
The children of a node were drawn from the draft's q there one after the other, each without those
before it (Yang et al. 2024, 2402.14160); or they were certain, and q is one-hot.

These are the rules of their names in ``rules.py``, and a chain is a tree; ``optimal`` is for trees
only, as of single drafts nothing keeps more than rejection. In the ``Outcome`` entry n + 1 is the
path that ends with node n, entry 0 that without a draft. The engine plays ``match`` and ``coupled``
out: it draws the target's own token, and goes to the child that equals it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lablib.definitions import FastPath, in_use, remember
from lablib.inference.speculation.optimal_pair import OptimalPair

import numpy as np


class Outcome(NamedTuple):
    """Everything that can come out of one round, as in ``rules.py``; these numbers are NumPy's."""

    kept: np.ndarray  # (N+1,)
    following: np.ndarray  # (N+1, V)


def tree_rejection(
    p: np.ndarray, q: np.ndarray, drafts: Sequence[int], parents: Sequence[int]
) -> Outcome:
    """Judge the children of a node one after the other (SpecInfer, Miao et al. 2023, 2305.09781).

    A child is kept with probability min(1, p/q); else the next one gets the p that q left.

    Args:
        p: the target's probabilities ``(N+1, V)``: after the text, and after each node.
        q: the distributions ``(N, V)`` that the first child of each one's parent was drawn from.
        drafts: the N ids, parents first, siblings in the order in which they were drawn.
        parents: the place of each one's parent.
    """
    kept, following = np.zeros(len(p)), np.array(p)
    kept[0] = 1  # the chance to stand at a node, with all its children so far refused
    for n, now in enumerate(drawn_from(q, drafts, parents)):
        at, draft = parents[n] + 1, drafts[n]
        left = following[at]
        accept = min(1, left[draft] / now[draft]) if now[draft] > 0 else 0
        kept[n + 1], kept[at] = kept[at] * accept, kept[at] * (1 - accept)
        following[at] = normalised(np.maximum(left - now, 0), left)
    return Outcome(kept, following)


def tree_block(
    p: np.ndarray, q: np.ndarray, drafts: Sequence[int], parents: Sequence[int]
) -> Outcome:
    """Judge whole paths, the deepest first (Weng et al. 2025, 2505.12398); arguments as above.

    ``w`` is how well the path to a node is covered, as in ``rules.block``: the share of all who get
    there that stays, there or below. What a child's subtree leaves changes the node's w and p.
    """
    kept, following = np.zeros(len(p)), np.array(p)
    now = drawn_from(q, drafts, parents)

    def visit(row: int, w: float, reach: float) -> float:
        """Judge what is below a row, then itself; returns the chance that nothing stays."""
        for n in (n for n, parent in enumerate(parents) if parent + 1 == row):
            left, drawn = following[row], now[n][drafts[n]]
            reach = visit(n + 1, min(1, w * left[drafts[n]] / drawn) if drawn > 0 else 0, reach)
            rest = np.maximum(w * left - now[n], 0)
            room = rest.sum() + (1 - w)
            w = rest.sum() / room if room > 0 else 0
            following[row] = normalised(rest, left)
        kept[row] = reach * w
        return reach * (1 - w)

    visit(0, 1, 1)
    return Outcome(kept, following)


def tree_optimal(
    p: np.ndarray, q: np.ndarray, drafts: Sequence[int], parents: Sequence[int]
) -> Outcome:
    """Judge the children of a node by twos, each two as well as any rule can; arguments as above.

    Nobody keeps more of two siblings (``optimal_pair.py``). The next two get the p that these left,
    and a last odd one is judged by rejection: of three and more that isn't quite the most.
    """
    kept, following = np.zeros(len(p)), np.array(p)
    kept[0] = 1
    for row in range(len(p)):
        below = [n for n, parent in enumerate(parents) if parent + 1 == row]
        done = 0
        while done < len(below):
            first, *later = below[done:]
            left, chosen = following[row], without(q[first], [drafts[n] for n in below[:done]])
            judged = {first: 1.0}  # how often each one is chosen
            if later and _same_draws(q, drafts, first, later[0]):
                pair = OptimalPair(left, chosen)
                share = pair.second(drafts[first], drafts[later[0]])
                judged, chosen = {first: 1 - share, later[0]: share}, pair.chosen
            here, kept[row] = kept[row], 0
            for n, share in judged.items():
                token = drafts[n]
                accept = min(1, left[token] / chosen[token]) if chosen[token] > 0 else 0
                kept[n + 1] = here * share * accept
                kept[row] += here * share * (1 - accept)
            following[row] = normalised(np.maximum(left - chosen, 0), left)
            done += len(judged)
    return Outcome(kept, following)


def _same_draws(q: np.ndarray, drafts: Sequence[int], first: int, second: int) -> bool:
    """Return whether two siblings can have been drawn from one q: certain ones were not."""
    return bool(q[first][[drafts[first], drafts[second]]].all()) and np.array_equal(
        q[first], q[second]
    )


TREE_RULE = {"rejection": tree_rejection, "block": tree_block, "optimal": tree_optimal}
_TAUGHT = dict(TREE_RULE)
remember(__name__)
_OWN_TOKENS = {rule: FastPath(f"own tokens under tree_{rule}") for rule in TREE_RULE}


def tree_rule(rule: Any) -> Callable[..., Outcome]:
    """Return the function of a rule: that in ``TREE_RULE``, or of this module if replaced."""
    return in_use(TREE_RULE, rule, _TAUGHT, globals())


def tree_plays_out(rule: Any, greedy: bool) -> bool:
    """Return whether following the target's own tokens gives the rule's outcome."""
    if rule not in TREE_RULE:
        return True
    return greedy and rule in _OWN_TOKENS and _OWN_TOKENS[rule].is_open()


def path_to(node: int, parents: Sequence[int]) -> list[int]:
    """Return the nodes from the root to ``node``, which comes last; none for the root."""
    return [] if node < 0 else [*path_to(parents[node], parents), node]


def drawn_from(q: np.ndarray, drafts: Sequence[int], parents: Sequence[int]) -> list[np.ndarray]:
    """Return what each node was drawn from when its turn came: q without earlier siblings."""
    siblings = ([m for m in range(n) if parents[m] == parents[n]] for n in range(len(q)))
    return [without(row, [drafts[m] for m in each]) for row, each in zip(q, siblings, strict=True)]


def without(q: np.ndarray, tokens: Sequence[int]) -> np.ndarray:
    """Return ``q (V,)`` without some tokens, scaled to sum to 1."""
    rest = np.array(q)
    rest[list(tokens)] = 0
    return normalised(rest, rest)


def normalised(rest: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Scale ``rest (V,)`` to sum to 1; where nothing is left, return the other."""
    return rest / rest.sum() if rest.sum() > 0 else otherwise
