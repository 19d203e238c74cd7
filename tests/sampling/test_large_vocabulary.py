"""Vocabularies of real models: nothing that is rare is lost, wherever it stands."""

import json

from lablib.inference.sampling import menu, random_numbers, sums, transforms
from lablib.inference.sampling.options import SamplerOptions
from lablib.inference.sampling.processors import sampled_by
from lablib.inference.sampling.sampler import Sampler
from lablib.tools import audit
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles import large_draws
from oracles.large import (
    SIZES,
    first_beyond,
    law,
    log_probabilities,
    shapes,
    wanted,
)

DTYPES = (mx.float32, mx.float16, mx.bfloat16)
LARGE = [pytest.param(v, marks=[pytest.mark.thorough] if v > 40_000 else []) for v in SIZES[1:]]
HISTORY = [5, 9, 5, 11, 5, 2000]
OPTIONS = {
    "none": {},
    "temperature": {"temperature": 0.7},
    "top-p": {"top_p": 0.99},
    "top-k": {"top_k": 50, "temperature": 1.5},
    "many": {"top_k": 5000},
    "min-p": {"min_p": 0.01},
    "penalties": {"repeat_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.25},
    "all": {"repeat_penalty": 1.3, "top_k": 300, "temperature": 0.8, "top_p": 0.9, "min_p": 1e-3},
}


def batch_of(*kinds, seed=3):
    sampler = Sampler(16)
    for i, options in enumerate(kinds):
        each = SamplerOptions(**{"repeat_last_n": -1, **options}, seed=seed)
        sampler.add(i, each, HISTORY)
    return sampler.batch(range(len(kinds)))


def peak_first(size):
    return dict(shapes(size))["peak first"]


@pytest.mark.parametrize("size", [4096, 151_936, 262_144])
def test_rare_tokens_come_when_the_likely_one_has_the_first_id(size, monkeypatch):
    """All others together are at the end of the line: whatever u meets there is one of them."""
    row = peak_first(size)
    sampler = Sampler(8)
    sampler.add("a", SamplerOptions(temperature=1.0, seed=1))
    p = np.exp(log_probabilities(row))
    for share in (0.1, 0.5, 0.9):
        u = 1 - share * (1 - p[0])
        bits = np.array([int(u * 2**64)], np.uint64)
        monkeypatch.setattr(random_numbers, "_mix", lambda z, bits=bits: bits)
        (token,) = sampler.sample(["a"], mx.array(row)[None]).token.tolist()
        monkeypatch.undo()
        assert abs(token - first_beyond(p, u)) < 0.002 * size


@pytest.mark.parametrize("size", [2049, 5000, 50_257, 262_144])
def test_the_law_that_is_counted_is_the_law_that_is_drawn(size):
    rng = np.random.default_rng(0)
    for _, row in shapes(size):
        weights = np.array(transforms.exp(mx.array(row - row.max())))
        ends = np.cumsum(law(weights))
        assert abs(ends[-1] - 1) < 1e-12
        u = rng.integers(0, 2**64, 24, dtype=np.uint64)
        rows = mx.broadcast_to(mx.array(weights), (24, size))
        tokens = np.array(transforms.draw(rows, mx.array(u[:, None])))[:, 0]
        before = np.concatenate([[0], ends])[tokens]
        slack = 1e-9  # of a block's line: 2^64 numbers, not the 2^32 that are counted
        assert (before - slack <= u / 2**64).all()
        assert (u / 2**64 <= ends[tokens] + slack).all()


def check_the_law(size, name):
    """Compare what a batch of one would draw from with float64, option by option."""
    row = dict(shapes(size))[name]
    for kind, options in OPTIONS.items():
        kept = np.array(batch_of(options).cut(mx.array(row)[None])[0])[0]
        weights, expected, close = wanted(row, HISTORY, options)
        differs = ((kept > -np.inf) != expected) & (weights > 1e-37)  # which float32 has not
        assert not (differs & ~close).any(), (kind, np.flatnonzero(differs & ~close)[:9])
        p = np.where(kept > -np.inf, weights, 0)
        p /= p.sum()
        ours = np.array(transforms.exp(mx.array(kept)))
        assert np.abs(law(ours) - p).sum() / 2 < 5e-6, kind
        some = np.flatnonzero(ours)
        if len(some) <= sums.SMALL:  # as candidates, which are drawn from among themselves
            assert np.abs(law(ours[some]) - p[some]).sum() / 2 < 5e-6, kind


@pytest.mark.parametrize("name", ["peak first", "zipf"])
def test_the_law_is_that_of_float64(name):
    check_the_law(8192, name)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [49_152, 151_936, 262_144])
@pytest.mark.parametrize("name", [name for name, _ in shapes(16)])
def test_the_law_is_that_of_float64_at_full_size(size, name):
    check_the_law(size, name)


def test_the_law_of_few_tokens_is_that_of_float64_but_for_float32s_sums():
    """Up to 2,048 tokens float32 adds one after another: half an ulp of 1 for each of the tail."""
    for _, row in shapes(512):
        sums_ = np.array(mx.cumsum(transforms.exp(mx.array(row - row.max()))), np.float64)
        ours = np.diff(sums_ / sums_[-1], prepend=0.0)
        assert np.abs(ours - np.exp(log_probabilities(row))).sum() / 2 < 512 * 2**-24


def test_what_a_draw_may_lose_is_less_than_two_in_ten_million():
    """Tokens below 2^-32 of their block, and blocks below 2^-32 of all, may never come."""
    size = 262_144
    worst = 0.49 * 2.0**-31
    inside = np.zeros(size, np.float32)
    inside[:512] = worst
    inside[3] = 1
    blocks = np.zeros(size, np.float32)
    blocks[::512] = worst
    blocks[0] = 1
    for weights in (inside, blocks):
        ours = law(weights)
        p = weights / weights.sum(dtype=np.float64)
        assert np.count_nonzero(ours) == 1
        assert np.abs(ours - p).sum() / 2 < 1.2e-7
    assert not law(np.eye(1, 3000, dtype=np.float32)[0])[1:].any()  # weight 0: never


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [512, 2048, *LARGE])
def test_log_probabilities_are_those_of_float64(size, dtype):
    for name, row in shapes(size):
        logits = mx.array(row).astype(dtype)
        exact = log_probabilities(np.array(logits.astype(mx.float32)))
        error = np.abs(np.array(transforms.log_softmax(logits), np.float64) - exact)
        assert (error <= 2e-6 + 2.0**-23 * np.abs(exact)).all(), name


@pytest.mark.thorough
def test_log_probabilities_of_a_long_text_add_up():
    """1,000 tokens, at each of which another of the best 9 comes, within 1e-3."""
    for name, row in shapes(262_144):
        tokens = np.argsort(-row, kind="stable")[:9]
        ours = exact = 0.0
        for i in range(0, 1000, 50):
            rolled = np.roll(row, 37 * i)
            here = (tokens + 37 * i) % len(row)
            ours += (
                50 / 9 * np.array(transforms.log_softmax(mx.array(rolled)))[here].sum(dtype=float)
            )
            exact += 50 / 9 * log_probabilities(rolled)[here].sum()
        assert abs(ours - exact) < 1e-3, name


@pytest.mark.parametrize("size", LARGE)
def test_sums_are_those_of_float64(size):
    for name, row in shapes(size):
        x = mx.array(row - row.max())
        weights = transforms.exp(x)
        exact = np.array(weights, np.float64)
        assert abs(sums.total(weights).item() / exact.sum() - 1) < 27 * 2.0**-24
        running = np.array(sums.running(weights), np.float64)
        assert (np.abs(running - np.cumsum(exact)) < size * 2.0**-43 + running * 2.0**-24).all()
        p = np.array(sums.softmax(x), np.float64)
        assert np.abs(p - np.exp(log_probabilities(row))).sum() < 2e-6, name


@pytest.mark.parametrize("size", LARGE)
def test_the_nucleus_is_that_of_float64(size):
    row = np.random.default_rng(0).normal(size=size).astype(np.float32) * 2
    for p in (0.5, 0.9, 0.99, 0.999):
        _, expected, close = wanted(row, [], {"top_p": p})
        ours = np.array(transforms.top_p(mx.array(row), p)) > -np.inf
        assert not ((ours != expected) & ~close).any()


def test_a_row_does_not_hang_on_its_neighbours_where_sums_differ_by_size():
    rng = np.random.default_rng(4)
    rows = mx.array((rng.normal(size=(3, 9000)) * 2).astype(np.float32))
    kinds = [{"top_k": k, "top_p": p} for k, p in ((40, 0.9), (5000, 0.9), (300, 0.5))]
    together = batch_of(*kinds)
    groups = together._penalized_scores(rows, None)[0].groups
    assert sorted((each.width, each.is_narrow) for each in groups) == [(300, True), (5000, False)]
    tokens, left = together.draw(rows)[0].tolist(), np.array(together.cut(rows)[0])
    for i, options in enumerate(kinds):
        alone = batch_of(options)
        assert alone.draw(rows[i : i + 1])[0].item() == tokens[i]
        assert np.array_equal(np.array(alone.cut(rows[i : i + 1])[0])[0], left[i])


def test_candidates_are_the_same_grains_whoever_else_is_among_them():
    rng = np.random.default_rng(5)
    weights = rng.exponential(size=40).astype(np.float32) ** 4
    places = np.sort(rng.choice(2048, 40, replace=False))
    wide = np.zeros(2048, np.float32)
    wide[places] = weights
    alone, among = (np.array(sums.grains(mx.array(x)[None]))[0] for x in (weights, wide))
    assert np.array_equal(among[places], alone)
    assert alone.sum() == among.sum()


def test_few_bits_are_refused_where_they_would_lose_tokens():
    with pytest.raises(BadValue, match="u must be uint64 above 2048 tokens, got"):
        transforms.draw(mx.ones((1, 2049)), mx.zeros((1, 1)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_cannot_be_drawn_from_still_gives_a_token_of_the_vocabulary(bad):
    for size in (2049, 5000):
        weights = transforms.exp(mx.full((2, size), bad))
        u = mx.array(np.array([[2**64 - 1], [2**33]], np.uint64))
        assert all(0 <= token < size for (token,) in transforms.draw(weights, u).tolist())


def test_other_engines_samplers_and_processors_get_sums_as_exact():
    size = 60_000
    row = peak_first(size)[None]
    exact = log_probabilities(row[0])
    seen = []
    sampled_by(lambda logprobs: (seen.append(logprobs), mx.array([1]))[1])(None, mx.array(row))
    assert np.abs(np.array(seen[0], np.float64)[0] - exact).max() < 4e-6
    mixed = np.array(menu.xtc(0.5, 0.5)(None, mx.array(row)), np.float64)[0]
    assert abs(np.exp(mixed).sum() - 1) < 1e-6
    assert np.abs(np.exp(mixed) - np.exp(exact)).sum() < 2e-6  # one choice above: nothing is cut
    entropy = menu._entropy(transforms.log_softmax(mx.array(row))).item()
    assert abs(entropy + (np.exp(exact) * exact).sum()) < 2e-6


# --- a hundred thousand draws, stored: tests/oracles/large_draws.py makes them anew ---------------
STORED = json.loads(large_draws.STORED.read_text())
FALSE_ALARM = 1e-6 / len(large_draws.CELLS)


def is_drawn_from(counts, masses):
    """Whether counts of classes may come of these probabilities (bound by Agrawal, 1904.02291)."""
    return audit.bound(audit.divergence(np.array(counts), masses), len(masses) - 1) > FALSE_ALARM


@pytest.mark.parametrize(("size", "shape"), large_draws.CELLS)
def test_a_hundred_thousand_stored_draws_have_the_law_of_float64(size, shape):
    masses = large_draws.cell(size, shape)[2]
    counts = STORED[f"{size}, {shape}"]["counts"]
    assert sum(counts) == large_draws.DRAWS
    assert is_drawn_from(counts, masses)
    if shape != "zipf" and size > sums.SMALL:  # were the rare ones lost, the likeliest had all
        assert not is_drawn_from([large_draws.DRAWS] + [0] * 31, masses)
    assert not is_drawn_from(np.roll(counts, 1), masses)


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "shape"), large_draws.CELLS)
def test_the_first_of_them_come_again(size, shape):
    again = np.bincount(large_draws.draws(size, shape, large_draws.FIRST), minlength=32)
    assert np.abs(again - STORED[f"{size}, {shape}"]["first"]).sum() <= 2  # another machine's exp
