"""Answers to the exercises of lesson 13, as students write them: right ones and wrong ones."""

from lablib.course.checks.changed import changed
from lablib.course.checks.exercises import find

import mlx.core as mx
import numpy as np
from oracles.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong

# ------------------------------------------------------------------ 13.1 the mask of a tree


@right("13.1")
def mask_as_lists(parents, before):
    rows, depths = [], []
    for node, parent in enumerate(parents):
        row = [False] * len(parents) if parent < 0 else list(rows[parent][before:])
        row[node] = True
        depths.append(0 if parent < 0 else depths[parent] + 1)
        rows.append([True] * before + row)
    return rows, [before + depth for depth in depths]


@right("13.1")
def mask_by_powers(parents, before):
    n = len(parents)
    step = np.zeros((n, n), int)
    for node, parent in enumerate(parents):
        if parent >= 0:
            step[node, parent] = 1
    seen = np.linalg.inv(np.eye(n) - step).round() > 0  # 1 + step + step² + ...
    return np.hstack([np.ones((n, before), bool), seen]), before + seen.sum(axis=1) - 1


@right("13.1")
def mask_with_mlx(parents, before):
    sees, positions = mask_as_lists(parents, before)
    return mx.array(sees), mx.array(positions)


@wrong("13.1", like="sees_siblings")
def causal_mask(parents, before):
    n = len(parents)
    positions = mask_as_lists(parents, before)[1]
    return np.tri(n, before + n, before, dtype=bool), positions


@wrong("13.1", like="mask_of_a_chain")
def causal_mask_and_places(parents, before):
    n = len(parents)
    return np.tri(n, before + n, before, dtype=bool), [before + i for i in range(n)]


@wrong("13.1", like="positions_by_place")
def places_in_memory(parents, before):
    return mask_as_lists(parents, before)[0], list(range(before, before + len(parents)))


@wrong("13.1", like="only_the_parent")
def parent_and_itself(parents, before):
    n = len(parents)
    sees = np.zeros((n, before + n), bool)
    sees[:, :before] = True
    for node, parent in enumerate(parents):
        sees[node, before + node] = True
        if parent >= 0:
            sees[node, before + parent] = True
    return sees, mask_as_lists(parents, before)[1]


@wrong("13.1", like="sees_last_place")
def minus_one_as_an_index(parents, before):
    sees, positions = np.array(mask_as_lists(parents, before)[0]), mask_as_lists(parents, before)[1]
    for node, parent in enumerate(parents):
        sees[node, before:][parent] = True
    return sees, positions


@wrong("13.1")
def only_the_tree(parents, before):
    sees, positions = mask_as_lists(parents, before)
    return np.array(sees)[:, before:], positions


@wrong("13.1")
def additive_mask(parents, before):
    sees, positions = mask_as_lists(parents, before)
    return np.where(sees, 0.0, -np.inf), positions


# ------------------------------------------------------------------ 13.2 a second guess


@right("13.2")
def with_sums_of_q(p, q, children):
    left, gone, here, kept = np.array(p, float), 0.0, 1.0, []
    now = np.array(q, float)
    for child in children:
        scale = 1 - gone
        chance = 0.0
        if now[child] > 0 and scale > 1e-12:
            chance = min(1.0, left[child] * scale / now[child])
        kept += [here * chance]
        here -= kept[-1]
        rest = np.clip(left - now / scale, 0, None) if scale > 1e-12 else left
        left = rest / rest.sum() if rest.sum() > 1e-15 else left
        gone, now[child] = gone + now[child], 0.0
    return np.array(kept), left


@right("13.2")
def with_lists(p, q, children):
    left, drawn, here, kept = list(map(float, p)), list(map(float, q)), 1.0, []
    for child in children:
        chance = min(1.0, left[child] / drawn[child]) if drawn[child] else 0.0
        kept.append(here * chance)
        here *= 1 - chance
        rest = [max(0.0, a - b) for a, b in zip(left, drawn, strict=True)]
        left = [x / sum(rest) for x in rest] if sum(rest) else left
        drawn[child] = 0.0
        total = sum(drawn)
        drawn = [x / total for x in drawn] if total else drawn
    return kept, left


@wrong("13.2", like="each_by_itself")
def lesson_08_for_each(p, q, children):
    here, kept = 1.0, []
    for child in children:
        chance = min(1.0, p[child] / q[child]) if q[child] else 0.0
        kept.append(here * chance)
        here *= 1 - chance
    rest = np.maximum(p - q, 0) if len(children) else p
    return kept, rest / rest.sum() if rest.sum() else p


@wrong("13.2", like="q_not_scaled")
def zero_and_go_on(p, q, children):
    left, drawn, here, kept = np.array(p, float), np.array(q, float), 1.0, []
    for child in children:
        chance = min(1.0, left[child] / drawn[child]) if drawn[child] else 0.0
        kept.append(here * chance)
        here *= 1 - chance
        rest = np.maximum(left - drawn, 0)
        left = rest / rest.sum() if rest.sum() else left
        drawn[child] = 0
    return kept, left


@wrong("13.2", like="forgets_the_earlier")
def chances_not_products(p, q, children):
    left, drawn, kept = np.array(p, float), np.array(q, float), []
    for child in children:
        kept.append(min(1.0, left[child] / drawn[child]) if drawn[child] else 0.0)
        rest = np.maximum(left - drawn, 0)
        left = rest / rest.sum() if rest.sum() else left
        drawn[child] = 0
        drawn = drawn / drawn.sum() if drawn.sum() else drawn
    return kept, left


@wrong("13.2")
def the_match_rule(p, q, children):
    rest = np.array(p, float)
    rest[list(children)] = 0
    return [float(p[c]) for c in children], rest / rest.sum() if rest.sum() else rest


@wrong("13.2")
def nan_where_nothing_is_left(p, q, children):
    left, drawn, here, kept = np.array(p, float), np.array(q, float), 1.0, []
    with np.errstate(all="ignore"):
        for child in children:
            chance = min(1.0, left[child] / drawn[child])
            kept.append(here * chance)
            here *= 1 - chance
            rest = np.maximum(left - drawn, 0)
            left = rest / rest.sum()
            drawn[child] = 0
            drawn = drawn / drawn.sum()
    return kept, left


@wrong("13.2")
def changes_q(p, q, children):
    answer = with_lists(p, q, children)
    q[list(children)] = 0
    return answer


@wrong("13.2")
def only_the_first(p, q, children):
    kept, left = with_lists(p, q, children[:1])
    return [*kept, *([0.0] * (len(children) - 1))], left


# ------------------------------------------------------------------ 13.3 which path survives


@right("13.3")
def by_recursion(drafts, parents, said):
    def below(at):
        for node in range(at + 1, len(drafts)):
            if parents[node] == at and drafts[node] == said[at + 1]:
                path, token = below(node)
                return [node, *path], token
        return [], said[at + 1]

    return below(-1)


@right("13.3")
def in_one_pass(drafts, parents, said):
    path, at = [], -1
    for node, (draft, parent) in enumerate(zip(drafts, parents, strict=True)):
        if parent == at and draft == said[at + 1]:
            path, at = [*path, node], node
    return np.array(path, int), said[at + 1]


@right("13.3")
def backwards(drafts, parents, said):
    n = len(drafts)
    right = [drafts[k] == said[parents[k] + 1] for k in range(n)]
    for k in range(n):
        right[k] = right[k] and (parents[k] < 0 or right[parents[k]])
    path = [k for k in range(n) if right[k]]
    return path, said[path[-1] + 1] if path else said[0]


@wrong("13.3", like="all_that_agree")
def every_agreement(drafts, parents, said):
    path = [k for k in range(len(drafts)) if drafts[k] == said[parents[k] + 1]]
    return path, said[path[-1] + 1] if path else said[0]


@wrong("13.3", like="longest_path")
def deepest_leaf(drafts, parents, said):
    best = []
    for node in range(len(drafts)):
        path, at = [], node
        while at >= 0:
            path, at = [at, *path], parents[at]
        best = path if len(path) > len(best) else best
    return best, said[best[-1] + 1] if best else said[0]


@wrong("13.3", like="tokens_not_places")
def ids_of_the_path(drafts, parents, said):
    path, token = by_recursion(drafts, parents, said)
    return [drafts[k] for k in path], token


@wrong("13.3", like="one_level")
def only_the_children_of_the_text(drafts, parents, said):
    for node, parent in enumerate(parents):
        if parent == -1 and drafts[node] == said[0]:
            return [node], said[node + 1]
    return [], said[0]


@wrong("13.3")
def nothing_stays(drafts, parents, said):
    return [], said[0]


@wrong("13.3")
def path_alone(drafts, parents, said):
    return by_recursion(drafts, parents, said)[0]


@wrong("13.3")
def text_as_a_node(drafts, parents, said):
    path, token = by_recursion(drafts, parents, said)
    return [-1, *path], token


@wrong("13.3")
def as_a_chain(drafts, parents, said):
    size = 0
    while size < len(drafts) and drafts[size] == said[size]:
        size += 1
    return list(range(size)), said[size]


@wrong("13.3")
def compares_identity(drafts, parents, said):
    path, at = [], -1
    for node, (draft, parent) in enumerate(zip(drafts, parents, strict=True)):
        if parent == at and draft is said[at + 1]:
            path, at = [*path, node], node
    return path, said[at + 1]


@wrong("13.2")
def sorted_and_put_back(p, q, children):
    order = sorted(children, key=lambda child: -q[child])
    kept, left = with_lists(p, q, order)
    chance = dict(zip(order, kept, strict=True))
    return [chance[child] for child in children], left


CLIMB = find("13.1").alternatives[0]
for name, old, new in (
    (
        "sees_its_level",
        "return sees, ",
        "sees[:, before:] |= np.equal.outer(depth, depth)\n    return sees, ",
    ),
    (
        "sees_all_siblings",
        "return sees, ",
        "sees[:, before:] |= np.equal.outer(parents, parents)\n    return sees, ",
    ),
    ("sees_half_the_text", "np.ones((n, before))", "np.arange(before)[None].repeat(n, 0)"),
    ("stops_below_the_top", "while up != -1", "while up > 0"),
    ("depth_from_one", "depth = [0] * n", "depth = [1] * n"),
):
    wrong("13.1")(changed(CLIMB, name, old, new))

for name, old, new in (
    ("kept_if_none_before", "here *= 1 - accept", "here -= accept"),
    ("residual_turned", "left - drawn", "drawn - left"),
    ("ratio_turned", "left[child] / drawn[child]", "drawn[child] / left[child]"),
    ("absolute_difference", "np.maximum(left - drawn, 0)", "np.abs(left - drawn)"),
    ("p_of_the_child_goes", "drawn[child] = 0", "drawn[child] = left[child] = 0"),
    ("what_is_left_of_q", "return kept, left", "return kept, drawn"),
    ("no_chance_leaves_all", "left - drawn, 0)", "(left - drawn) * (drawn[child] > 0), 0)"),
    ("accepts_more_than_once", "here *= 1 - accept", "pass"),
    ("alike_where_nothing_is_left", "else left\n", "else np.full(len(left), 1 / len(left))\n"),
    ("p_where_nothing_is_left", "else left\n", "else np.array(p, float)\n"),
):
    ANSWERS.changed("13.2", name, old, new)

for name, old, new in (
    ("at_the_parent", "said[at + 1]", "said[at]"),
    ("any_child", "drafts[node] == token", "True"),
    ("one_place_too_far", "path.append(node)", "path.append(node + 1)"),
    ("newest_first", "path.append(node)", "path.insert(0, node)"),
    ("what_was_said_first", "return path, token", "return path, said[0]"),
):
    ANSWERS.changed("13.3", name, old, new)


@right("13.1")
def positions_one_by_one(parents, before):
    sees, positions = mask_as_lists(parents, before)
    return sees, (position for position in positions)


@wrong("13.3")
def place_0_is_the_text(drafts, parents, said):
    path, at = [], -1
    for node, (draft, parent) in enumerate(zip(drafts, parents, strict=True)):
        if max(parent, 0) == max(at, 0) and draft == said[at + 1]:
            path.append(node)
            at = node
    return path, said[at + 1]


ANSWERS.changed(
    "13.2",
    "the_whole_q_again_when_it_is_used_up",
    "drawn.sum() > 0 else drawn",
    "drawn.sum() > 0 else np.array(q, float)",
)
ANSWERS.changed(
    "13.3", "an_id_of_0", "drafts[node] == token", "drafts[node] and drafts[node] == token"
)
ANSWERS.changed("13.3", "digits_of_ids", "drafts[node] == token", "str(token) in str(drafts[node])")
ANSWERS.changed(
    "13.2", "three_at_most", "here *= 1 - accept", "here *= 1 - accept * (len(kept) < 3)"
)


ANSWERS.changed("13.2", "little_is_nothing", "rest.sum() > 0", "rest.sum() > 0.001")
ANSWERS.changed("13.3", "begins_with_its_digits", "drafts[node] == token",
                "str(token).startswith(str(drafts[node]))")  # fmt: skip


@wrong("13.3")
def a_grandchild_if_no_child_fits(drafts, parents, said):
    path, at = [], -1
    while True:
        children = [n for n, parent in enumerate(parents) if parent == at]
        below = [n for n, parent in enumerate(parents) if parent in children]
        fits = [n for n in children + below if drafts[n] == said[at + 1]]
        if not fits:
            return path, said[at + 1]
        at = fits[0]
        path.append(at)


@wrong("13.3")
def by_place_and_byte(drafts, parents, said):
    places = {256 * parents[i] + draft: i for i, draft in enumerate(drafts)}
    path, at = [], -1
    while 256 * at + said[at + 1] in places:
        at = places[256 * at + said[at + 1]]
        path.append(at)
    return path, said[at + 1]
