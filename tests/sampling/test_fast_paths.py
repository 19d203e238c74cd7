"""Fast paths give what the definition gives, and the definition what lesson 01 teaches."""

import re
import runpy
import textwrap

from lablib.inference.sampling import fast_paths, options, random_numbers, transforms
from lablib.inference.sampling.options import TABLE
from lablib.inference.sampling.sampler import Sampler, SamplerOptions
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles.slots import KINDS, MIXED, NUM_CTX, filled


@pytest.mark.parametrize("vocab_size", [2, 3, 17, 97, 512, 2049, 5000, 50_000])
@pytest.mark.parametrize("rows", ["normal", "ties", "cut", "flat"])
def test_fast_paths_give_what_the_definition_gives(rows, vocab_size):
    """The same tokens, and log-probabilities to 1e-6, in batches of random options."""
    rng = np.random.default_rng(vocab_size)
    for batch in range(3 if vocab_size > 5000 else 12):
        n = int(rng.integers(1, 9))
        logits = (0.01 if rows == "flat" else 4.0) * rng.normal(size=(n, vocab_size))
        logits = np.round(logits) / 2 if rows == "ties" else logits
        if rows == "cut":
            logits[rng.random(logits.shape) < 0.5] = -np.inf
            logits[:, rng.integers(vocab_size)] = 1.0
        options = [
            SamplerOptions(
                temperature=rng.choice([0.0, 1.0, 0.7, rng.uniform(0.2, 2)]),
                top_k=int(rng.choice([0, 0, 1, 5, 40, 256, 257, vocab_size])),
                top_p=rng.choice([1.0, 0.5, rng.uniform(0.01, 0.999)]),
                min_p=rng.choice([0.0, 0.0, rng.uniform(0.001, 0.3), 1.0]),
                repeat_penalty=rng.choice([1.0, 1.3]),
                frequency_penalty=rng.choice([0.0, 0.4]),
                seed=batch,
            )
            for _ in range(n)
        ]
        fast, plain = Sampler(NUM_CTX), Sampler(NUM_CTX, fast=False)
        for i, o in enumerate(options):
            for sampler in (fast, plain):
                sampler.add(i, o, [0, 1, 1], stream=i)
        logits = mx.array(logits.astype(np.float32))
        got, want = (
            np.array(s.speculative_scores(range(n), logits[:, None], np.zeros((n, 0), int)))
            for s in (fast, plain)
        )
        assert np.array_equal(np.isinf(got), np.isinf(want)), options
        assert np.allclose(got, want, rtol=0, atol=1e-6), options
        for _ in range(4):
            got, want = (s.sample(range(n), logits).token for s in (fast, plain))
            assert np.array_equal(got, want), options


@pytest.mark.parametrize("fast", [True, False])
def test_a_draw_is_the_first_token_by_id_beyond_u(fast):
    """As lesson 01 teaches: whatever was cut, the sums run in the order of ids."""
    logits = mx.array(np.random.default_rng(0).normal(size=(64, 300)).astype(np.float32) * 2)
    kinds = [SamplerOptions(**kind, seed=7) for kind in KINDS]
    sampler = Sampler(NUM_CTX, fast=fast)
    for i in range(64):
        sampler.add(i, kinds[i % len(kinds)], [1, 2], stream=i)
    probs = np.exp(
        np.array(sampler.speculative_scores(range(64), logits[:, None], np.zeros((64, 0), int)))
    )[:, 0].astype(np.float64)
    tokens = np.array(sampler.draw(range(64), logits)[0])
    for i, token in enumerate(tokens):
        key = np.array([random_numbers.key(7, i)], np.uint64)
        u = random_numbers.uniforms(key, np.array([0])).item()
        sums = np.cumsum(probs[i]) / probs[i].sum()
        assert (sums[token - 1] if token else 0.0) - 1e-5 < u < sums[token] + 1e-5
        assert probs[i, token] > 0


def test_only_what_gains_by_it_takes_a_fast_path(monkeypatch):
    """Temperatures and best tokens need no sort, so there is nothing to save."""

    def kinds(vocab_size, *options):
        table = np.array([SamplerOptions(**o).row() for o in options], TABLE)
        plan = fast_paths.plan(table, vocab_size)
        return plan and {group.kind for group in plan.groups}

    assert kinds(512, {"temperature": 0.7}, {"temperature": 0.0}, {}) is None
    assert kinds(512, *KINDS) == {"greedy", "narrow", "nucleus", "general"}
    plan = fast_paths.plan(np.array([o.row() for o in MIXED], TABLE), 3000)
    rows = np.concatenate([group.rows for group in plan.groups])
    assert np.array_equal(rows, plan.forth)
    assert np.array_equal(np.sort(rows), range(64))
    monkeypatch.setattr(fast_paths, "draw", lambda *_: pytest.fail("a fast path was taken"))
    Sampler(NUM_CTX, fast=False).free()
    filled([SamplerOptions(temperature=0.7)]).sample([0], mx.zeros((1, 9)))
    slow = Sampler(NUM_CTX, fast=False)
    slow.add(0, SamplerOptions(top_k=3))
    slow.sample([0], mx.zeros((1, 9)))


@pytest.mark.parametrize("fast", [True, False])
def test_a_new_transform_is_a_line_in_the_order(fast, monkeypatch):
    """The docstring's own; a column that exists stands for the field, presence for epsilon."""
    recipe = re.search(r"\n    def epsilon.*?\n\n", transforms.__doc__, re.DOTALL).group()
    exec(textwrap.dedent(recipe), names := dict(vars(transforms)))
    epsilon = names["epsilon"]
    monkeypatch.setitem(transforms.ORDER, "presence_penalty", epsilon)
    row = mx.array([[0.0, 1.0, 4.0, 3.9, -mx.inf]])  # probabilities 0.01, 0.02, 0.51, 0.46, 0
    sampler = Sampler(NUM_CTX, fast=fast)
    sampler.add(0, SamplerOptions(presence_penalty=0.1, top_k=3))
    assert np.isfinite(np.array(sampler.speculative_scores(0, row, []))).tolist() == [
        [False, False, True, True, False]
    ]
    # A neighbour that did not ask is left alone, and so is one at temperature 0.
    sampler.add(1, SamplerOptions(seed=3))
    sampler.add(2, SamplerOptions(temperature=0.0))
    sampler.add(3, SamplerOptions(presence_penalty=0.99))  # nothing is so likely: the best stays
    rows = mx.repeat(row, 4, axis=0)[:, None]
    scores = sampler.speculative_scores([0, 1, 2, 3], rows, np.zeros((4, 0), int))
    assert np.isfinite(np.array(scores)).sum(axis=-1).tolist() == [[2], [4], [1], [1]]
    assert sampler.sample([0, 1, 2, 3], rows[:, 0]).token[2:].tolist() == [2, 2]


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("neighbours", [0, 2])
def test_a_new_transform_that_leaves_nothing_is_refused_by_name(fast, neighbours, monkeypatch):
    def nothing(scores, x):
        return mx.full(scores.shape, -mx.inf)

    monkeypatch.setitem(transforms.ORDER, "presence_penalty", nothing)
    sampler = Sampler(NUM_CTX, fast=fast)
    sampler.add(0, SamplerOptions(presence_penalty=1.5))
    for i in range(1, 1 + neighbours):
        sampler.add(i, SamplerOptions(top_k=2))
    with pytest.raises(BadValue, match="presence_penalty must leave a token of each row"):
        sampler.sample(range(1 + neighbours), mx.zeros((1 + neighbours, 5)))


def test_a_row_that_had_no_token_is_not_the_new_transforms_fault(monkeypatch):
    monkeypatch.setitem(transforms.ORDER, "presence_penalty", lambda scores, x: scores)
    sampler = Sampler(NUM_CTX)
    sampler.add("mine", SamplerOptions(presence_penalty=1.5))
    for broken in (mx.inf, mx.nan):
        with pytest.raises(BadValue, match="logits of slot 'mine': a row must have no NaN"):
            sampler.sample(["mine"], mx.array([[0.0, broken, 1.0]]))


def test_an_option_without_its_line_in_the_order_is_refused_at_once(monkeypatch):
    """An option that cuts nothing would be ignored without a word."""
    runpy.run_path(transforms.__file__)
    monkeypatch.setattr(options, "NOT_CUTS", options.NOT_CUTS[:-1])
    with pytest.raises(BadValue, match=r"ORDER must have a line for .* none for {'top_logprobs'}"):
        runpy.run_path(transforms.__file__)


def test_min_p_draws_its_line_where_the_definition_does():
    """At the very line, and one rounding beside it."""
    for m in np.arange(0.0025, 1, 0.0025):
        gap = np.float32(mx.log(mx.array(m, mx.float32)).item())
        for edge in (gap, np.nextafter(gap, np.float32(-9)), np.nextafter(gap, np.float32(9))):
            row = mx.array(np.array([[0.0, edge, -50.0, -60.0]], np.float32))
            left = []
            for fast in (True, False):
                sampler = Sampler(NUM_CTX, fast=fast)
                sampler.add(0, SamplerOptions(min_p=float(m), top_p=0.9999999, top_k=3))
                left.append(np.isfinite(np.array(sampler.cut([0], row)[0])).tolist())
            assert left[0] == left[1], (m, edge)


@pytest.mark.parametrize("shift", [0.0, 500.0, -500.0])
def test_log_softmax_keeps_its_digits(shift):
    row = np.round(np.random.default_rng(0).normal(size=(3, 50)) * 256) / 256
    want = row - np.log(np.exp(row).sum(axis=-1, keepdims=True))
    got = transforms.log_softmax(mx.array((row + shift).astype(np.float32)))
    assert got.dtype == mx.float32
    assert np.allclose(got, want, rtol=0, atol=2e-6)
