"""Rules lose nothing in a real model's vocabulary: enumerated by the sums that are drawn from.

All tokens of a class have one probability under each model. So a few classes of 262,144 tokens can
be enumerated like a few tokens.
"""

from itertools import product

from lablib.inference.sampling import sums
from lablib.inference.speculation import rules, tree_rules

import mlx.core as mx
import numpy as np
import pytest
from oracles.large import law, log_probabilities, shares_of

CLASSES = 8
LARGE = pytest.param(262_144, marks=pytest.mark.thorough)


def models(size, gamma, kind, seed=0):
    """Return logits of target ``(γ+1, V)`` and draft ``(γ, V)``, and the class of each token."""
    rng = np.random.default_rng(seed)
    share = np.array([1, 2, 5, 20, 100, 400, 1000, size])
    ends = np.minimum(np.cumsum(share), size)
    classes = rng.permutation(np.searchsorted(ends, np.arange(size), side="right"))
    counts = np.bincount(classes, minlength=CLASSES)
    mass = rng.dirichlet(np.ones(CLASSES), gamma + 1)  # of a class: the rare ones are many
    p = np.log(mass / counts)[:, classes]
    drafted = rng.dirichlet(np.ones(CLASSES), gamma)
    if kind == "zero-tailed":
        drafted[:, -4:] = 0
    with np.errstate(divide="ignore"):
        q = np.log(drafted / counts)[:, classes]
    return p.astype(np.float32), q.astype(np.float32), classes


def by_class(probabilities, classes):
    return np.bincount(classes, probabilities, CLASSES)


def target_law(p, classes):
    return [by_class(np.exp(log_probabilities(row)), classes) for row in p]


def drafts_of(kind, q, classes):
    """Return the draft's distributions, and the law of each position by class."""
    if kind == "certain":  # looked up: a token of the most common class
        token = int(np.flatnonzero(classes == CLASSES - 1)[0])
        tokens = mx.full((len(q),), token, mx.int32)
        return rules.one_hot(tokens, q.shape[-1]), [np.eye(CLASSES)[-1]] * len(q)
    probabilities = sums.softmax(mx.array(q))
    return probabilities, [by_class(law(np.array(row)), classes) for row in probabilities]


def written(rule, p, q, kind, classes):
    """Return the law of γ+1 classes, when the drafts that a rule refuses are made good."""
    gamma = len(q)
    target, exact = sums.softmax(mx.array(p)), target_law(p, classes)
    probabilities, drafted = drafts_of(kind, q, classes)
    first = [int(np.flatnonzero(classes == c)[0]) for c in range(CLASSES)]
    joint, known = np.zeros((CLASSES,) * (gamma + 1)), {}
    for path in product(range(CLASSES), repeat=gamma):
        chance = np.prod([drafted[i][c] for i, c in enumerate(path)])
        if not chance:
            continue
        outcome = rule(target, probabilities, mx.array([first[c] for c in path], mx.int32))
        kept = shares_of(outcome.kept[None])[0]
        for n in np.flatnonzero(kept):
            row = np.array(outcome.following[int(n)])
            if row.tobytes() not in known:
                known[row.tobytes()] = by_class(law(row), classes)
            rest = known[row.tobytes()]
            for later in exact[n + 1 :]:
                rest = np.multiply.outer(rest, later)
            joint[path[:n]] += chance * kept[n] * rest
    return joint


def check_chain(size, gamma, kind, name):
    p, q, classes = models(size, gamma, kind)
    joint = written(rules.RULE[name], p, q, kind, classes)
    wanted = np.ones(())
    for row in target_law(p, classes):
        wanted = np.multiply.outer(wanted, row)
    assert np.abs(joint - wanted).sum() / 2 < 1e-6


@pytest.mark.parametrize("size", [4096, LARGE])
@pytest.mark.parametrize("kind", ["soft", "certain", "zero-tailed"])
@pytest.mark.parametrize("name", ["match", "rejection", "block", "coupled"])
def test_one_draft_of_a_large_vocabulary_biases_nothing(name, kind, size):
    check_chain(size, 1, kind, name)


@pytest.mark.grid(lambda name, kind: (name == "block") == (kind != "soft"), rest="slow")
@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["soft", "certain", "zero-tailed"])
@pytest.mark.parametrize("name", ["rejection", "block"])
def test_three_drafts_of_a_large_vocabulary_bias_nothing(name, kind):
    check_chain(262_144, 3, kind, name)


@pytest.mark.parametrize("size", [8192, LARGE])
def test_each_token_of_a_large_vocabulary_keeps_its_probability_under_rejection(size):
    """No classes: all drafts at once, as acceptance is a function of p and q of the draft."""
    rng = np.random.default_rng(1)
    logits = (rng.normal(size=(3, size)) * 3).astype(np.float32)
    logits[0, 0] = logits[2, 0] = 22
    p, q = sums.softmax(mx.array(logits[:2])), sums.softmax(mx.array(logits[2:]))
    accept = mx.minimum(p[0] / q[0], 1)
    for draft in rng.integers(0, size, 6).tolist():
        outcome = rules.rejection(p, q, mx.array([draft], mx.int32))
        assert outcome.kept[1].item() == accept[draft].item()
    kept = shares_of(mx.stack([1 - accept, accept], axis=-1))[:, 1]
    drafted, rest = law(np.array(q[0])), law(np.array(outcome.following[0]))
    ours = drafted * kept + (drafted * (1 - kept)).sum() * rest
    assert np.abs(ours - np.exp(log_probabilities(logits[0]))).sum() / 2 < 1e-6
    after = law(np.array(outcome.following[1]))
    assert np.abs(after - np.exp(log_probabilities(logits[1]))).sum() / 2 < 1e-6


@pytest.mark.parametrize("size", [4096, LARGE])
@pytest.mark.parametrize("kind", ["soft", "zero-tailed"])
@pytest.mark.parametrize("name", ["rejection", "block", "optimal"])
def test_two_siblings_of_a_large_vocabulary_bias_nothing(name, kind, size):
    p, q, classes = models(size, 2, kind)
    target = np.array(sums.softmax(mx.array(p)), np.float64)
    row = np.array(sums.softmax(mx.array(q[:1])), np.float64)[0]
    counts, each = np.bincount(classes, minlength=CLASSES), by_class(row, classes)
    places = [np.flatnonzero(classes == c)[:2] for c in range(CLASSES)]
    ours, total = np.zeros(CLASSES), each.sum()
    for one, two in product(range(CLASSES), repeat=2):
        left = each[two] - (row[places[one][0]] if one == two else 0)
        chance = each[one] / total * left / (total - row[places[one][0]])
        if (one == two and counts[one] == 1) or not chance > 0:
            continue
        drafts = [int(places[one][0]), int(places[two][int(one == two)])]
        outcome = tree_rules.tree_rule(name)(target, np.stack([row, row]), drafts, [-1, -1])
        kept = shares_of(mx.array(outcome.kept, mx.float32)[None])[0]
        following = law(outcome.following[0].astype(np.float32))
        ours += chance * kept[0] * by_class(following, classes)
        ours[[one, two]] += chance * kept[1:] if one != two else 0
        ours[one] += chance * kept[1:].sum() if one == two else 0
    assert np.abs(ours - target_law(p[:1], classes)[0]).sum() / 2 < 1e-6
