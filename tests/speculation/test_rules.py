"""The acceptance rules, exactly: enumerated in float64, for every drafter and sampler option."""

from itertools import pairwise

from lablib.course.theory import closed_forms as theory
from lablib.inference.sampling import transforms
from lablib.inference.speculation import costs, rules

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.enumeration import Language, joint, spoken

OPTIONS = [
    {},
    {"temperature": 0.0},
    {"temperature": 0.6, "top_p": 0.8},
    {"top_k": 2},
    {"temperature": 1.5, "min_p": 0.2},
    {"repeat_penalty": 1.7, "presence_penalty": 0.4, "frequency_penalty": 0.3},
    {"temperature": 0.8, "top_k": 3, "frequency_penalty": 1.0, "repeat_last_n": 2},
]


def exact(rule):
    """The library's rule on float64 NumPy arrays."""

    def run(p, q, drafts):
        with mx.stream(mx.cpu):
            arrays = (mx.array(x, dtype=mx.float64) for x in (p, q))
            outcome = rule(*arrays, mx.array(drafts))
            return np.array(outcome.kept), np.array(outcome.following)

    return run


def neural(size, **options):
    return Language(size, seed=77, **options).probs


def looked_up(size):
    return lambda context: np.eye(size)[(3 * len(context) + sum(context)) % size]


@pytest.mark.grid(lambda rule, drafter, options: not options or drafter == "neural")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("drafter", ["neural", "greedy", "other options", "lookup"])
@pytest.mark.parametrize("rule", rules.RULE)
def test_every_rule_writes_the_targets_distribution(rule, drafter, options):
    size, gamma, prompt = 4, 2, (1, 0)
    target = Language(size, seed=5, **options)
    draft = {
        "neural": neural(size, **options),
        "greedy": neural(size, **{**options, "temperature": 0.0}),
        "other options": neural(size, temperature=2.0),
        "lookup": looked_up(size),
    }[drafter]
    got = spoken(exact(rules.RULE[rule]), target, draft, prompt, 3, gamma)
    assert np.abs(got - joint(target, prompt, 3)).max() < 1e-9


@pytest.mark.grid(lambda rule, size, gamma: size**gamma < 32)
@pytest.mark.parametrize(("size", "gamma"), [(2, 1), (2, 5), (3, 3), (3, 4), (6, 1), (6, 2)])
@pytest.mark.parametrize("rule", rules.RULE)
def test_other_vocabularies_and_lengths(rule, size, gamma):
    target = Language(size, seed=size + gamma)
    got = spoken(exact(rules.RULE[rule]), target, neural(size), (0,), 3, gamma)
    assert np.abs(got - joint(target, (0,), 3)).max() < 1e-9


def residual_from_p(p, q, drafts):
    """The planted bug: after a rejection, draw from p as if nothing had been drafted."""
    right = rules.rejection(p, q, drafts)
    return rules.Outcome(right.kept, p)


def accept_everything(p, q, drafts):
    outcome = rules.rejection(p, q, drafts)
    last = (mx.arange(outcome.kept.shape[-1]) == outcome.kept.shape[-1] - 1).astype(p.dtype)
    return rules.Outcome(mx.broadcast_to(last, outcome.kept.shape), outcome.following)


def forgotten_correction(p, q, drafts):
    """After a rejection, keep the rejected draft: it was the more likely one after all."""
    right = rules.match(p, q, drafts)
    hot = rules.one_hot(drafts, p.shape[-1], p.dtype)
    return rules.Outcome(right.kept, mx.concatenate([hot, p[..., -1:, :]], axis=-2))


@pytest.mark.parametrize("broken", [residual_from_p, accept_everything, forgotten_correction])
def test_broken_rules_are_found_out(broken):
    target = Language(4, seed=5)
    got = spoken(exact(broken), target, neural(4), (1,), 3, 2)
    assert abs(got.sum() - 1) < 1e-9
    assert np.abs(got - joint(target, (1,), 3)).max() > 1e-3


# In the order of how much they keep; a rule that was added need not keep as much.
FOUR = ("match", "coupled", "rejection", "block")
THEORY = {
    "match": theory.acceptance_match,
    "coupled": theory.acceptance_coupled,
    "rejection": theory.acceptance_rejection,
}


def random_case(seed, size, gamma):
    rng = np.random.default_rng(seed)
    p, q = (rng.gamma(0.4, size=(n, size)) + 1e-12 for n in (gamma + 1, gamma))
    return p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 4))
def test_stronger_rules_keep_more(seed, size, gamma):
    """Expected tokens in the order of the rules; and the first draft is kept as theory says."""
    p, q = random_case(seed, size, gamma)
    blocks = np.array(np.meshgrid(*[range(size)] * gamma, indexing="ij")).reshape(gamma, -1).T
    chance = np.prod([q[i, blocks[:, i]] for i in range(gamma)], axis=0)
    many = [np.broadcast_to(x, (len(blocks), *x.shape)) for x in (p, q)]
    kept = {}
    for name in FOUR:
        distribution = chance @ exact(rules.RULE[name])(*many, blocks)[0]
        assert abs(distribution.sum() - 1) < 1e-9
        kept[name] = distribution @ np.arange(gamma + 1)
        if name in THEORY:
            assert abs(1 - distribution[0] - THEORY[name](p[0], q[0])) < 1e-9
    assert all(kept[a] <= kept[b] + 1e-9 for a, b in pairwise(FOUR))


def test_independent_positions_multiply():
    """With one α at every position, rejection yields ``(1 − α^(γ+1)) / (1 − α)`` tokens."""
    p, q = random_case(3, 5, 1)
    gamma = 6
    alpha = theory.acceptance_rejection(p[0], q[0])
    blocks = np.array(np.meshgrid(*[range(5)] * gamma, indexing="ij")).reshape(gamma, -1).T
    chance = np.prod(q[0][blocks], axis=1)
    many = [np.broadcast_to(x[0], (len(blocks), n, 5)) for x, n in ((p, gamma + 1), (q, gamma))]
    kept = chance @ exact(rules.rejection)(*many, blocks)[0]
    assert abs(1 + kept @ np.arange(gamma + 1) - costs.expected_tokens(alpha, gamma)) < 1e-9


@pytest.mark.parametrize("rule", rules.RULE)
def test_a_position_without_a_draft_gives_the_bonus(rule):
    """A row of zeros in q is no draft: the round is the shorter round, position for position."""
    p, q = random_case(1, 5, 3)
    drafts = np.array([1, 4, 2])
    q[1:] = 0
    kept, following = exact(rules.RULE[rule])(p, q, drafts)
    short_kept, short_following = exact(rules.RULE[rule])(p[:2], q[:1], drafts[:1])
    assert np.allclose(kept, [*short_kept, 0, 0], atol=1e-12)
    assert np.allclose(following[:2], short_following, atol=1e-12)
    assert np.allclose(following[1], p[1])


@pytest.mark.parametrize("rule", FOUR)
def test_equal_models_keep_everything_even_in_float32(rule):
    p, _ = random_case(2, 300, 8)
    drafts = p[:-1].argmax(-1)
    outcome = rules.RULE[rule](*(mx.array(x, mx.float32) for x in (p, p[:-1])), mx.array(drafts))
    kept = np.array(outcome.kept)
    assert np.isfinite(np.array(outcome.following)).all()
    assert (kept >= 0).all()
    if rule != "match":
        assert kept[-1] > 1 - 1e-5


@pytest.mark.parametrize("rule", rules.RULE)
def test_rows_of_a_batch_do_not_touch_each_other(rule):
    cases = [random_case(seed, 6, 3) for seed in range(5)]
    drafts = np.array([[0, 1, 2], [5, 5, 5], [1, 0, 3], [2, 2, 4], [3, 1, 0]])
    p, q = (np.stack(x) for x in zip(*cases, strict=True))
    kept, following = exact(rules.RULE[rule])(p, q, drafts)
    for i in range(5):
        alone = exact(rules.RULE[rule])(p[i], q[i], drafts[i])
        assert np.allclose(kept[i], alone[0], atol=1e-14)
        assert np.allclose(following[i], alone[1], atol=1e-14)


def test_a_draw_inverts_the_cumulative_sum():
    weights = mx.array([[0.0, 0.2, 0.0, 0.3, 0.0]])
    drawn = [transforms.draw(weights, mx.array([[u]])).item() for u in (0.0, 0.39, 0.41, 0.9999999)]
    assert drawn == [1, 1, 3, 3]


def test_a_draw_follows_the_weights():
    """A chi-square test with 15 degrees of freedom; 61 is exceeded by chance once in 10⁶."""
    rng = np.random.default_rng(4)
    weights = rng.gamma(1.0, size=16)
    n = 100_000
    u = mx.array(rng.random(n, np.float32))
    drawn = transforms.draw(mx.broadcast_to(mx.array(weights, mx.float32), (n, 16)), u[:, None])[
        :, 0
    ]
    counts = np.bincount(np.array(drawn), minlength=16)
    expected = n * weights / weights.sum()
    assert ((counts - expected) ** 2 / expected).sum() < 61
    wrong = np.roll(expected, 1)
    assert ((counts - wrong) ** 2 / wrong).sum() > 61


def test_overlap_is_what_theory_says():
    p, q = random_case(9, 7, 3)
    shared, product, coupled = rules.overlap(mx.array(p, mx.float32), mx.array(q, mx.float32))
    for i in range(3):
        assert abs(shared[i].item() - theory.acceptance_rejection(p[i], q[i])) < 1e-6
        assert abs(product[i].item() - theory.acceptance_match(p[i], q[i])) < 1e-6
        assert abs(coupled[i].item() - theory.acceptance_coupled(p[i], q[i])) < 1e-6
