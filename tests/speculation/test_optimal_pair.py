"""Two siblings judged as well as can be: the linear program's optimum, and nothing bent."""

import itertools

from lablib.inference.speculation import tree_rules
from lablib.inference.speculation.optimal_pair import OptimalPair

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.enumeration import Language, joint
from oracles.trees import draws, most_kept, spoken_by_trees


def pair_of(rng, size):
    """A target and a draft of every kind: near and far, flat and peaked, with tokens one lacks."""
    p, q = rng.dirichlet(np.full(size, rng.choice([0.2, 1, 5])), 2)
    if rng.random() < 0.5:
        q = 0.8 * p + 0.2 * q
    if size > 3:
        p, q = (np.where(np.arange(size) == rng.integers(9), 0, row) for row in (p, q))
    return p / p.sum(), q / q.sum()


@pytest.mark.grid(lambda sizes: sizes == (2, 12), rest="slow")
@pytest.mark.parametrize("sizes", [(2, 12), (12, 65)], ids=str)
def test_two_siblings_keep_what_the_linear_program_keeps(sizes):
    """Of 100 pairs of each range of sizes."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        p, q = pair_of(rng, rng.integers(*sizes))
        pair, wanted = OptimalPair(p, q), most_kept(p, q)
        assert pair.most == pytest.approx(wanted, abs=1e-6)
        assert np.minimum(p, pair.chosen).sum() == pytest.approx(wanted, abs=1e-6)


def chosen(p, q):
    """How often each token is chosen, over all pairs in both orders; and what was promised."""
    pair, found = OptimalPair(p, q), np.zeros(len(p))
    for chance, (x, y) in draws(q, 2):
        second = pair.second(x, y)
        assert 0 <= second <= 1
        found[[x, y]] += chance * np.array([1 - second, second])
    return found, pair.chosen


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 9))
def test_each_token_is_chosen_as_often_as_promised(seed, size):
    found, promised = chosen(*pair_of(np.random.default_rng(seed), size))
    assert np.abs(found - promised).max() < 1e-9


EDGES = {
    "the same": ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2]),
    "all of one ratio but one": ([0.2, 0.2, 0.2, 0.4], [0.25, 0.25, 0.25, 0.25]),
    "nothing in common": ([0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]),
    "sure to 1e-13": ([0.3, 0.3, 0.4], [1 - 1e-13, 4e-14, 6e-14]),
    "sure of the wrong one": ([0, 0.5, 0.5], [1 - 1e-9, 4e-10, 6e-10]),
    "hardly drafted, and wanted": ([0.3, 0.3, 0.2, 0.2], [1e-20, 1e-20, 0.5, 0.5]),
    "tiny beside large": ([0.4, 1e-18, 0.6], [0.6, 1e-20, 0.4]),
}


@pytest.mark.parametrize(("p", "q"), EDGES.values(), ids=EDGES)
def test_edges(p, q):
    p, q = np.array(p), np.array(q)
    found, promised = chosen(p, q)
    assert np.abs(found - promised).max() < 1e-9
    assert np.minimum(p, promised).sum() == pytest.approx(most_kept(p, q), abs=1e-6)


def kept_of(rule, p, q, k):
    """The share of rounds in which one of ``k`` siblings stays."""
    share = 0
    for chance, children in draws(q, k):
        rows = np.tile(p, (len(children) + 1, 1))
        nodes = [-1] * len(children)
        share += chance * rule(rows, np.tile(q, (len(children), 1)), children, nodes).kept[1:].sum()
    return share


def test_of_three_siblings_more_stay_than_by_rejection_and_not_quite_the_most():
    rng, shares = np.random.default_rng(2), []
    for _ in range(12):
        p, q = pair_of(rng, 5)
        both = (kept_of(tree_rules.TREE_RULE[r], p, q, 3) for r in ("rejection", "optimal"))
        shares.append([*both, most_kept(p, q, 3)])
    by_rejection, by_twos, most = np.transpose(shares)
    print("of three, kept:", np.mean(shares, axis=0).round(4))
    assert (by_twos <= most + 1e-9).all()
    assert by_rejection.mean() < by_twos.mean() < most.mean()


def test_certain_siblings_stay_as_often_as_the_target_says_them():
    p, children = np.array([0.1, 0.2, 0.3, 0.4]), [3, 1, 0]
    rows, certain = np.tile(p, (4, 1)), np.eye(4)[children]
    kept, following = tree_rules.tree_optimal(rows, certain, children, [-1] * 3)
    assert np.allclose(kept, [0.3, 0.4, 0.2, 0.1])
    assert np.allclose(following[0], [0, 0, 1, 0])


def bent_by(monkeypatch, wrong, shape=((), ((),), ())):
    """Total variation of what is written from the target's own, in trees of three siblings."""
    right = OptimalPair.second
    monkeypatch.setattr(OptimalPair, "second", lambda *of: wrong(right(*of)))
    target, draft = (Language(4, seed) for seed in (5, 77))
    got = spoken_by_trees(tree_rules.tree_optimal, target, draft.probs, (1, 0), 2, shape)
    return np.abs(got - joint(target, (1, 0), 2)).sum() / 2


def test_a_choice_that_is_off_by_a_thousandth_is_found_out(monkeypatch):
    assert bent_by(monkeypatch, lambda share: share) < 1e-12
    off = bent_by(monkeypatch, lambda share: min(1, 1.0025 * share))
    print(f"a total variation of {off:.1e}")
    assert off == pytest.approx(1e-3, rel=0.2)


def test_the_first_draft_where_the_second_was_due_is_found_out(monkeypatch):
    assert bent_by(monkeypatch, lambda share: 1 - share) > 1e-3


def test_tokens_of_one_ratio_are_alike_in_any_order():
    p, q = np.array([0.1, 0.1, 0.3, 0.3, 0.2]), np.full(5, 0.2)
    for order in itertools.islice(itertools.permutations(range(5)), 0, 120, 29):
        kept = kept_of(tree_rules.tree_optimal, p[list(order)], q, 2)
        assert kept == pytest.approx(most_kept(p, q))
