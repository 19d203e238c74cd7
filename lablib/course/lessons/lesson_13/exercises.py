"""Exercises of lesson 13: the mask of a tree, a second guess, and which path survives."""

from collections.abc import Iterator

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import Exercise
from lablib.course.lessons.edges import edges

import numpy as np

# ------------------------------------------------------------------ 13.1 the mask of a tree


def tree_mask(parents, before):
    """Return (sees, positions) of the tokens of a tree that is read after a text.

    parents: for each of N tokens the place of its parent, which stands earlier; -1 is the text.
    before: how many tokens the text has; all tokens of the tree see all of them.
    sees: an array (N, before + N) of True and False: the text first, then the tree.
    positions: N numbers: the position that each token would have in a text of its own path.
    """
    sees = np.zeros((len(parents), before + len(parents)), dtype=bool)
    positions = []
    for node, parent in enumerate(parents):
        sees[node, :before] = True
        if parent >= 0:
            sees[node] = sees[parent]
        sees[node, before + node] = True
        positions.append(int(sees[node].sum()) - 1)
    return sees, positions


def mask_by_climbing(parents, before):
    n = len(parents)
    sees = np.concatenate([np.ones((n, before)), np.eye(n)], axis=1) > 0
    depth = [0] * n
    for node in range(n):
        up = parents[node]
        while up != -1:
            sees[node, before + up] = True
            depth[node], up = depth[node] + 1, parents[up]
    return sees, [before + d for d in depth]


def _trees(rng: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    yield [-1, -1], 1  # two that are printed whole
    yield [-1, 0, 0], 0
    yield [-1, -1, 0, 0, 1], 2
    yield [-1, 0, 1, 2], 3  # a chain
    yield [-1, -1, -1], 1  # a star
    yield [-1, 0, 0, 2, 2, 1, 5], 4
    for n in (12, 40):
        yield [int(rng.integers(-1, node)) if node else -1 for node in range(n)], 5


def _small_trees(rng: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    yield [-1], 1
    yield [-1], 0
    yield [-1, 0, -1], 0
    yield list(range(-1, 99)), 1


TREE_MASK = Exercise(
    id="13.1",
    title="The mask of a tree",
    task=(
        "One forward reads a whole tree, if every token sees the text, its own ancestors and "
        "itself, and nothing else, and stands at the position that it would have on its path. "
        "Make the mask and the positions from the parents."
    ),
    stars=1,
    minutes=10,
    reference=tree_mask,
    alternatives=[mask_by_climbing],
    wrong={
        changed(
            mask_by_climbing,
            "sees_siblings",
            "return sees, [before + d for d in depth]",
            "return np.tri(n, before + n, before) > 0, [before + d for d in depth]",
        ): (
            "a token sees everything that stands before it, siblings and cousins too. That is the "
            "mask of a chain: on its own path they were never written."
        ),
        changed(
            mask_by_climbing,
            "mask_of_a_chain",
            "return sees, [before + d for d in depth]",
            "return np.tri(n, before + n, before) > 0, list(range(before, before + n))",
        ): (
            "this reads the tree as a chain: each token sees all before it, and stands behind it. "
            "The lesson did so for comparison, and the answers were another text's."
        ),
        changed(
            mask_by_climbing,
            "sees_its_siblings",
            "return sees, [before + d for d in depth]",
            """sees[:, before:] |= np.equal.outer(parents, parents) & (np.tri(n) > 0)
    return sees, [before + d for d in depth]""",
        ): (
            "a token sees its siblings that stand before it. They share its parent, but on its own "
            "path they were never written."
        ),
        changed(
            mask_by_climbing,
            "sees_all_above",
            "return sees, [before + d for d in depth]",
            """at = np.array(depth)
    sees[:, before:] |= at < at[:, None]
    return sees, [before + d for d in depth]""",
        ): (
            "a token sees every token of a smaller depth. Only its own ancestors are before it, "
            "not its parent's siblings."
        ),
        changed(
            mask_by_climbing,
            "only_the_parent",
            "sees[node, before + up] = True",
            "sees[node, before + up] = up == parents[node]",
        ): ("a token sees its parent, but not its parent's parent: go on up to the text."),
        changed(mask_by_climbing, "not_itself", "np.eye(n)", "np.zeros((n, n))"): (
            "a token sees itself, too: the diagonal is True."
        ),
        changed(
            mask_by_climbing,
            "sees_its_children",
            "sees[node, before + up] = True",
            "sees[up, before + node] = True",
        ): ("the mask is turned round: row i says what token i sees."),
        changed(
            mask_by_climbing,
            "forgets_the_text",
            "np.ones((n, before))",
            "np.zeros((n, before))",
        ): ("every token of the tree sees the whole text before it."),
        changed(
            mask_by_climbing,
            "positions_by_place",
            "[before + d for d in depth]",
            "list(range(before, before + n))",
        ): (
            "positions count the ancestors, not what lies before a token in memory: two siblings "
            "stand at the same position."
        ),
        changed(
            mask_by_climbing,
            "positions_of_the_tree",
            "[before + d for d in depth]",
            "depth",
        ): ("positions go on from the text: its tokens come first."),
        changed(
            mask_by_climbing,
            "positions_one_too_far",
            "[before + d for d in depth]",
            "[before + d + 1 for d in depth]",
        ): (
            "positions count from 0: after a text of `before` tokens a child of the text stands "
            "at position `before`."
        ),
        changed(
            mask_by_climbing,
            "sees_last_place",
            "up = parents[node]",
            """up = parents[node]
        sees[node, up] |= up == -1""",
        ): ("a parent of -1 is the text. As an index, -1 is the *last* token of the tree."),
    },
    cases=_trees,
    checker=edges(_small_trees),
    hints=[
        "A parent stands before its children, so its row is finished when you need it.",
        "Copy the parent's row and add the token itself; the row's sum minus 1 is the position.",
    ],
    next="How many True has the mask of a chain of n, and how many that of a star?",
)

# ------------------------------------------------------------------ 13.2 a second guess


def judge_children(p, q, children):
    """Return (kept, following): the chance that each child stays, and what follows if none does.

    p: the target's distribution at this place, an array of V.   q: the draft's, the same.
    children: ids, all different, in the order in which they were drawn from q: each from what is
        left of q without those before it. Perhaps none.
    Each child is judged by the rule of rejection, if those before it were refused: with the p that
    they have left, and the q that it was drawn from. Where a residual sums to 0 keep what there
    was; a child whose q is 0 is refused.
    """
    left, drawn, here, kept = np.array(p, float), np.array(q, float), 1.0, []
    for child in children:
        accept = min(1.0, left[child] / drawn[child]) if drawn[child] > 0 else 0.0
        kept.append(here * accept)
        here *= 1 - accept
        rest = np.maximum(left - drawn, 0)
        left = rest / rest.sum() if rest.sum() > 0 else left
        drawn[child] = 0
        drawn = drawn / drawn.sum() if drawn.sum() > 0 else drawn
    return kept, left


def judge_by_recursion(p, q, children):
    p, q = np.asarray(p, float), np.asarray(q, float)
    if len(children) == 0:
        return [], p
    first, *others = children
    accept = 0.0 if q[first] == 0 else float(np.clip(p[first] / q[first], 0, 1))
    rest = np.where(p > q, p - q, 0)
    without = np.where(np.arange(len(q)) == first, 0, q)
    following = rest / rest.sum() if rest.any() else p
    kept, end = judge_by_recursion(
        following, without / without.sum() if without.any() else without, others
    )
    return [accept] + [(1 - accept) * k for k in kept], end


def each_by_itself(p, q, children):
    here, kept = 1.0, []
    for child in children:
        accept = min(1.0, p[child] / q[child]) if q[child] > 0 else 0.0
        kept.append(here * accept)
        here *= 1 - accept
    rest = np.maximum(p - q, 0)
    return kept, rest / rest.sum() if len(children) and rest.sum() > 0 else p


def _families(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, list[int]]]:
    yield np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5]), [2]
    yield np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.2, 0.1, 0.3, 0.4]), [3, 2]
    yield np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.2, 0.1, 0.3, 0.4]), [2, 3]
    yield np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.3, 0.2, 0.1]), [1, 0, 2]
    yield np.array([0.1, 0.2, 0.3, 0.4]), np.full(4, 0.25), [0, 2, 3]  # all three may stay
    p = np.array([0, 0.0625, 0.15625, 0.21875, 0.21875, 0.34375])
    yield p, np.array([0.25, 0.25, 0.125, 0.125, 0.125, 0.125]), [1, 2, 4, 5]  # or all four
    for size, k in ((5, 2), (6, 3), (8, 4), (30, 6)):
        p, q = rng.multinomial(64, rng.dirichlet(np.ones(size), size=2)) / 64  # exact in binary
        yield p, q, rng.choice(size, size=k, replace=False, p=q).tolist()


def _odd_families(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray, list[int]]]:
    p, q = np.array([0.5, 0.5, 0.0, 0.0]), np.array([0.0, 0.25, 0.5, 0.25])
    yield p, q, []
    yield p, q, [2, 3, 1]  # all that q has
    yield np.array([0.5, 0.5]), np.array([0.5, 0.5]), [1, 0]  # nothing is left of p
    # nothing is left of what the first child left, which is neither p nor uniform
    yield np.array([0.25, 0.375, 0.375]), np.array([0.5, 0.25, 0.25]), [0, 1]
    yield np.array([0.5, 0.5]), np.array([0.50001, 0.49999]), [0, 1]  # little is left
    yield np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0]), [2]
    yield np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0]), [2, 0]  # its q is 0
    # refused as its q is 0, and it leaves a residual like any other
    yield np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.0, 0.75]), [1, 2]
    # nothing is left of q, and it does not come back
    yield np.array([0.6, 0.1, 0.3]), np.array([0.5, 0.5, 0.0]), [0, 1, 2]
    yield np.array([1.0]), np.array([1.0]), [0]


JUDGE_CHILDREN = Exercise(
    id="13.2",
    title="A second guess, and a third",
    task=(
        "Judge the children of a place, one after the other. How likely is each to stay, and what "
        "is the target's token drawn from if none does?"
    ),
    stars=2,
    minutes=12,
    reference=judge_children,
    alternatives=[judge_by_recursion],
    wrong={
        each_by_itself: (
            "you judge each child with min(1, p/q), as if it were alone. The first one has had "
            "its share of p already, and the second was drawn from another q: what is written "
            "would not follow p."
        ),
        changed(
            judge_children,
            "always_against_p",
            "left[child] / drawn[child]",
            "p[child] / drawn[child]",
        ): (
            "after a refusal p is no longer what is wanted: judge the next child against the "
            "residual."
        ),
        changed(judge_children, "residual_of_p", "left - drawn", "p - drawn"): (
            "each residual starts from what the one before it left, not from p: the second "
            "child's covers what the first has not."
        ),
        changed(judge_children, "residual_of_the_whole_q", "left - drawn", "left - q"): (
            "you take away the whole q each time. A later child was drawn from q without the "
            "earlier ones, so that is what its share of p covers."
        ),
        changed(
            judge_children,
            "q_stays",
            """drawn[child] = 0
        drawn = drawn / drawn.sum() if drawn.sum() > 0 else drawn""",
            "pass",
        ): ("a child is drawn from q without those before it: set q of a refused child to 0."),
        changed(
            judge_children,
            "q_not_scaled",
            "drawn / drawn.sum() if drawn.sum() > 0 else drawn",
            "drawn",
        ): (
            "q without the drawn child has to sum to 1 again: forget that, and every later child "
            "looks rarer than it is, and is kept too often."
        ),
        changed(judge_children, "residual_not_scaled", "rest / rest.sum() if", "rest if"): (
            "max(p − q, 0) is no distribution yet: divide it by its sum before the next child is "
            "judged with it."
        ),
        changed(judge_children, "forgets_the_earlier", "here * accept", "accept"): (
            "you return the chance that a child is accepted *once it is asked*. It is asked only "
            "if all before it were refused: multiply."
        ),
        changed(
            judge_children,
            "ratio_above_one",
            "min(1.0, left[child] / drawn[child])",
            "left[child] / drawn[child]",
        ): ("p/q may exceed 1, and a probability cannot: min(1, ...)."),
        changed(
            judge_children,
            "p_after_all",
            "return kept, left",
            "return kept, np.array(p, float)",
        ): (
            "after refusals the token is drawn from the last residual. From p, the words that were "
            "kept get a second helping."
        ),
        changed(
            judge_children,
            "p_without_the_children",
            "return kept, left",
            """rest = np.array(p, float)
    rest[list(children)] = 0
    return kept, rest / rest.sum() if rest.sum() > 0 else rest""",
        ): (
            "a refused child may still follow: rejection draws from the residual, not from p "
            "without the children. That belongs to children that were certain."
        ),
        changed(
            judge_children,
            "likeliest_first",
            "in children:",
            "in sorted(children, key=lambda child: -q[child]):",
        ): (
            "judge the children in the order in which they were drawn. Sorted by q they are no "
            "longer draws from q."
        ),
    },
    cases=_families,
    checker=edges(_odd_families),
    hints=[
        "Keep three things: what is left of p, what is left of q, and the chance to be here.",
        "After a refusal: p becomes max(p − q, 0), scaled; then q of the child 0, scaled.",
    ],
    next="Let q be one-hot at each child in turn. Which rule have you written then?",
)

# ------------------------------------------------------------------ 13.3 which path survives


def survivors(drafts, parents, said):
    """Return (path, token): the drafts that stay under match, and the target's token after them.

    drafts: N token ids.   parents: the place of each one's parent, before it; -1 is the text.
    said: N + 1 ids: what the target says after the text, then what it says after each draft.
    path: the places of the drafts that stay, from the first to the last; perhaps none.
    """
    path, at = [], -1
    while True:
        token = said[at + 1]
        for node, parent in enumerate(parents):
            if parent == at and drafts[node] == token:
                path.append(node)
                at = node
                break
        else:
            return path, token


def survivors_by_table(drafts, parents, said):
    child = {(up, token): n for n, (up, token) in enumerate(zip(parents, drafts, strict=True))}
    path = []
    while (path[-1] if path else -1, said[path[-1] + 1 if path else 0]) in child:
        at = path[-1] if path else -1
        path.append(child[at, said[at + 1]])
    return path, said[path[-1] + 1 if path else 0]


def _up(node, parents):
    return [] if node < 0 else [*_up(parents[node], parents), node]


def longest_path(drafts, parents, said):
    paths = [_up(node, parents) for node in range(-1, len(drafts))]
    best = max(paths, key=len)
    return best, said[best[-1] + 1 if best else 0]


def all_that_agree(drafts, parents, said):
    path = [n for n, up in enumerate(parents) if drafts[n] == said[up + 1]]
    return path, said[path[-1] + 1 if path else 0]


def longest_agreement(drafts, parents, said):
    def agrees(path):
        return [drafts[n] == said[parents[n] + 1] for n in path]

    paths = [_up(node, parents) for node in range(-1, len(drafts))]
    best = max(paths, key=lambda path: sum(agrees(path)))
    return best, said[best[-1] + 1 if best else 0]


def _spoken(rng: np.random.Generator) -> Iterator[tuple[list[int], list[int], list[int]]]:
    yield [5, 7, 8, 9], [-1, -1, 1, 1], [7, 3, 9, 4, 6]
    yield [5, 7, 6, 8], [-1, -1, 0, 2], [7, 6, 2, 8, 1]  # a longer path that the target refuses
    yield [4, 5, 6], [-1, 0, 1], [4, 5, 6, 2]  # a chain, all of it
    yield [4, 5, 6], [-1, 0, 1], [4, 6, 6, 2]  # 6 is no child of the first one
    yield [4, 5, 6], [-1, -1, -1], [6, 1, 2, 3]  # a star
    yield [4, 5], [-1, -1], [9, 4, 5]  # none
    yield [0], [-1], [0, 6]  # an id may be 0
    yield [1005, 5, 5], [-1, -1, 1], [5, 1, 57, 2]  # and is no row of digits
    yield [7, 1044, 300], [-1, 0, 0], [1300, 1, 2, 3]  # nor below 256, or 1000
    yield [4, 5], [-1, -1], [4, 5, 6]  # what follows the first one stands beside it
    yield [int("50000")], [-1], [int("50000"), 6]  # equal, but not the same object
    yield [3, 4, 9, 9, 2], [-1, -1, 0, 1, 3], [4, 9, 9, 2, 8, 6]  # a 9 below each
    yield [1, 2, 2, 3, 3], [-1, -1, 0, 2, 1], [2, 2, 3, 3, 5, 7]
    for n in (8, 16, 30):
        parents, drafts, said = [-1], [0], rng.integers(0, 4, size=n + 1).tolist()
        while len(parents) < n:
            up, token = int(rng.integers(-1, len(parents))), int(rng.integers(0, 4))
            if (up, token) not in set(zip(parents, drafts, strict=True)):
                parents.append(up)
                drafts.append(token)
        path = _up(int(np.argmax([len(_up(k, parents)) for k in range(n)])), parents)
        for node in path[:-1]:  # most of a long path is what the target says
            said[parents[node] + 1] = drafts[node]
        yield drafts, parents, said


def _few_spoken(rng: np.random.Generator) -> Iterator[tuple[list[int], list[int], list[int]]]:
    yield [5], [-1], [5, 6]
    yield [5], [-1], [6, 5]
    yield [], [], [3]
    yield list(range(60)), list(range(-1, 59)), list(range(61))


SURVIVORS = Exercise(
    id="13.3",
    title="Which path survives",
    task=(
        "Under `match` the target says its own token at each place, and a draft stays if it is "
        "that token. Siblings are different tokens, so one of them can stay at most. Find the "
        "drafts that stay, and the token that the target adds."
    ),
    stars=1,
    minutes=8,
    reference=survivors,
    alternatives=[survivors_by_table],
    wrong={
        longest_path: (
            "you keep the longest path of the tree, whatever the target says. A path stays as far "
            "as the target says the same."
        ),
        all_that_agree: (
            "you keep every draft that the target would say after its parent. Its parent has to "
            "stay, too."
        ),
        changed(
            survivors,
            "first_child_only",
            "parent == at and",
            "parent == at and parents.index(at) == node and",
        ): (
            "you look at the first child only. The second guess is what a tree is for: any child "
            "may be the one."
        ),
        changed(survivors, "parents_forgotten", "parent == at", "node > at"): (
            "you look for the token anywhere in the tree. It must be a child of the draft that "
            "stayed last: the same token may stand below another one."
        ),
        longest_agreement: (
            "you count how many drafts of a path the target agrees with. One refusal ends a path: "
            "what comes after it was never written."
        ),
        changed(
            survivors,
            "said_at_the_draft",
            "drafts[node] == token",
            "drafts[node] == said[node + 1]",
        ): (
            "said[n + 1] is what the target says *after* draft n. Compare a draft with what it "
            "says after the parent."
        ),
        changed(
            survivors,
            "one_level",
            """at = node
                break""",
            "return path, said[node + 1]",
        ): ("go on from the draft that stays: it may have children."),
        changed(
            survivors,
            "no_own_token",
            "return path, token",
            "return path, drafts[at] if path else token",
        ): ("after the last draft that stays the target says one more token, and that is free."),
        changed(survivors, "tokens_not_places", "path.append(node)", "path.append(drafts[node])"): (
            "path holds the places of the drafts, not their ids."
        ),
        changed(survivors, "said_at_the_end", "return path, token", "return path, said[-1]"): (
            "the token after the path is what the target says after its *last* draft, not after "
            "the last one of the tree."
        ),
        changed(survivors, "by_level", "return path, token", "return path, said[len(path)]"): (
            "said is in the order of the drafts, not of the levels: after draft n it is said[n + 1]"
            "."
        ),
    },
    cases=_spoken,
    checker=edges(_few_spoken),
    hints=[
        "Stand at the text, at = -1. said[at + 1] is what the target says there.",
        "Look for a node whose parent is `at` and whose draft is that token; go there, or stop.",
    ],
    next="Which entries of the cache stay then, and in which order?",
)
