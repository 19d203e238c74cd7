"""The rules for trees, exactly: enumerated in float64, for every shape, drafter and option."""

import itertools

from lablib.inference.speculation import rules, tree_rules

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.enumeration import Language, joint
from oracles.trees import best, draws, one_node, spoken_by_trees

CHAIN = (((),),)
FORK = ((), ())
SHAPES = [CHAIN, FORK, (((), ()), ()), ((), ((),)), (((),), ((), ())), ((), (), (), ())]
OPTIONS = [{}, {"temperature": 0.6, "top_p": 0.8}, {"top_k": 2}, {"temperature": 1.5, "min_p": 0.2}]
OPTIONS += [{"repeat_penalty": 1.7, "presence_penalty": 0.4, "frequency_penalty": 0.3}]


def match(p, q, drafts, parents):
    """Follow the target's own token, where a child has it: q is certain of each child."""
    return tree_rules.tree_rejection(p, np.eye(p.shape[1])[list(drafts)], drafts, parents)


RULES = tree_rules.TREE_RULE | {"match": match}


def law(rule):
    def run(p, q, drafts, parents):
        outcome = rule(p, q, drafts, parents)
        return outcome.kept, outcome.following

    return run


def off(rule, shape, options, children=draws, size=4, n=3):
    """How far what is written is from the target's own distribution, and whether it is one."""
    target, draft = (Language(size, seed, **options) for seed in (5, 77))
    got = spoken_by_trees(law(rule), target, draft.probs, (1, 0), n, shape, children)
    assert abs(got.sum() - 1) < 1e-9
    return np.abs(got - joint(target, (1, 0), n)).max()


# Each shape and way to grow under the plain options, the other options at a fork of drawn children.
@pytest.mark.grid(
    lambda rule, shape, children, options: not options or (shape, children) == (FORK, draws)
)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("children", [draws, best])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_writes_the_targets_distribution(rule, shape, children, options):
    size = 3 if len(str(shape)) > 14 and children is draws else 4
    assert off(RULES[rule], shape, options, children, size) < 1e-9


def distributions(seed, *shape):
    rng = np.random.default_rng(seed)
    rows = rng.gamma(0.4, size=shape) * (rng.random(shape) < 0.8) + 1e-12
    return rows / rows.sum(-1, keepdims=True)


@pytest.mark.parametrize("seed", range(6))
def test_all_children_in_every_order_are_judged_as_the_algorithm_says(seed):
    p, q = distributions(seed, 2, 5)
    text, chance = np.zeros(5), 0.0
    for k in range(6):
        for children in itertools.permutations(range(5), k):
            nodes = [-1] * k
            rows = np.tile(p, (k + 1, 1))
            got = tree_rules.tree_rejection(rows, np.tile(q, (k, 1)), children, nodes)
            wanted = one_node(p, q, children)
            assert np.abs(got.kept[1:] - [wanted[c] for c in children]).max(initial=0) < 1e-12
            assert abs(got.kept[0] - wanted[None][0]) < 1e-12
            if wanted[None][0] > 1e-9:
                assert np.abs(got.following[0] - wanted[None][1]).max() < 1e-9
    for weight, children in draws(q, 3):
        chance += weight
        wanted = one_node(p, q, children)
        still, rest = wanted.pop(None)
        text += weight * still * rest
        for child, kept in wanted.items():
            text[child] += weight * kept
    assert abs(chance - 1) < 1e-12
    assert np.abs(text - p).max() < 1e-12


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 4))
def test_a_chain_is_judged_as_a_chain(seed, size, gamma):
    p, q = distributions(seed, gamma + 1, size), distributions(seed + 1, gamma, size)
    drafts = np.random.default_rng(seed).integers(0, size, gamma)
    for name, rule in RULES.items():
        got = rule(p, q, drafts.tolist(), range(-1, gamma - 1))
        with mx.stream(mx.cpu):
            arrays = (mx.array(x, dtype=mx.float64) for x in (p, q))
            wanted = rules.RULE.get(name, rules.rejection)(*arrays, mx.array(drafts))
            kept, following = np.array(wanted.kept), np.array(wanted.following)
        assert np.abs(got.kept - kept).max() < 1e-9
        likely = kept > 1e-6
        assert np.abs(got.following - following)[likely].max() < 1e-6  # a residual of 1e-9, scaled


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_more_children_keep_more_and_stronger_rules_too(seed):
    """A place is passed by more of the target with each child; block keeps the longest paths."""
    p, q = distributions(seed, 3, 4), distributions(seed + 1, 3, 4)
    passed = []
    for k in range(4):
        rows = np.tile(p[0], (k + 1, 1))
        kept = [
            (w, tree_rules.tree_rejection(rows, np.tile(q[0], (k, 1)), children, [-1] * k).kept[0])
            for w, children in draws(q[0], k)
        ]
        passed.append(1 - sum(w * none for w, none in kept))
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(passed))
    assert passed[1] == pytest.approx(np.minimum(p[0], q[0]).sum())


# --- bugs that have been made -----------------------------------------------------------------


def q_is_not_renormalised(p, q, drafts, parents):
    """The drawn child is struck out of q, but what remains is not scaled up again."""
    right = tree_rules.normalised
    tree_rules.normalised = lambda rest, otherwise: (
        rest if rest is otherwise else right(rest, otherwise)
    )
    try:
        return tree_rules.tree_rejection(p, q, drafts, parents)
    finally:
        tree_rules.normalised = right


def siblings_see_the_whole_q(p, q, drafts, parents):
    """The drawn child stays in q."""
    right = tree_rules.drawn_from
    tree_rules.drawn_from = lambda q, drafts, parents: list(q)
    try:
        return tree_rules.tree_rejection(p, q, drafts, parents)
    finally:
        tree_rules.drawn_from = right


def siblings_are_judged_independently(p, q, drafts, parents):
    """Each child is kept with min(1, p/q), of the p and q that the first one had."""
    kept, following = np.zeros(len(p)), np.array(p)
    kept[0] = 1
    for n, (draft, parent) in enumerate(zip(drafts, parents, strict=True)):
        at = parent + 1
        accept = min(1, p[at][draft] / q[n][draft])
        kept[n + 1], kept[at] = kept[at] * accept, kept[at] * (1 - accept)
        rest = np.maximum(p[at] - q[n], 0)
        following[at] = rest / rest.sum()
    return rules.Outcome(kept, following)


def residual_from_p(p, q, drafts, parents):
    return rules.Outcome(tree_rules.tree_rejection(p, q, drafts, parents).kept, p)


def the_path_of_a_sibling(p, q, drafts, parents):
    """The children of the first child are judged as if they followed the second."""
    right = tree_rules.tree_rejection(p, q, drafts, parents)
    kept = right.kept.copy()
    kept[[1, -1]] = kept[[-1, 1]]
    return rules.Outcome(kept, right.following)


@pytest.mark.parametrize(
    "broken",
    [q_is_not_renormalised, siblings_see_the_whole_q, siblings_are_judged_independently,
     residual_from_p, the_path_of_a_sibling],
)  # fmt: skip
def test_broken_rules_are_found_out(broken):
    target, draft = (Language(4, seed) for seed in (5, 77))
    shape = (((),), (), ())
    got = spoken_by_trees(law(broken), target, draft.probs, (1, 0), 2, shape)
    assert np.abs(got - joint(target, (1, 0), 2)).max() > 1e-3
