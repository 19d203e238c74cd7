"""Top-k and top-p against their definition in NumPy; a transform is noticed when replaced."""

import re
import runpy
import textwrap
from contextlib import nullcontext
from pathlib import Path

from lablib.definitions import by_definition
from lablib.inference.sampling import options, random_numbers, transforms
from lablib.inference.sampling.sampler import Sampler, SamplerOptions
from lablib.validation import BadValue

import mlx.core as mx
import numpy as np
import pytest
from oracles.slots import KINDS, NUM_CTX

PATHS = (nullcontext, by_definition)  # as everybody calls it, and without its faster path
SIZES = [2, 3, 17, 97, 512, 2048, 2049, 4096, 4097, 5000, 50_000]


def rows_of(kind, n, vocab_size):
    rng = np.random.default_rng(vocab_size)
    rows = (0.01 if kind == "flat" else 4.0) * rng.normal(size=(n, vocab_size))
    rows = np.round(rows) / 2 if kind == "ties" else rows
    if kind == "cut":
        rows[rng.random(rows.shape) < 0.5] = -np.inf
        rows[:, rng.integers(vocab_size)] = 1.0
    return rows.astype(np.float32)


def in_order(row):
    """Ids, best first; of equal scores the smaller id first."""
    return np.lexsort((np.arange(len(row)), -row))


def k_best(row, k):
    return set(in_order(row)[: int(k)].tolist()) - set(np.flatnonzero(np.isinf(row)).tolist())


def nucleus_sizes(row, p):
    """The fewest and the most tokens that a nucleus may have, as float32 adds."""
    weights = np.exp(row.astype(np.float64) - row.max())
    probs = weights[in_order(row)] / weights.sum()
    before = np.cumsum(probs) - probs
    is_some = probs > 0
    close = 2e-6 + len(row) * 2**-24  # of exp; and n float32 add up to n roundings
    return [int((is_some & (before < p + shift)).sum()) for shift in (-close, close)]


@pytest.mark.parametrize("vocab_size", SIZES)
@pytest.mark.parametrize("kind", ["normal", "ties", "cut", "flat"])
def test_top_k_keeps_the_k_best(kind, vocab_size):
    rows = rows_of(kind, 4, vocab_size)
    some = [k for k in (1, 2, 40, 256, 300, vocab_size - 1) if 0 < k < vocab_size]
    mixed = np.resize([*some, np.inf], (4, 1)).astype(np.float32)
    for k in [*some, 0, -1, vocab_size, np.inf, mixed]:
        left = transforms.top_k(mx.array(rows), mx.array(k) if k is mixed else k)
        ks = mixed[:, 0] if k is mixed else [k] * 4
        for row, kept, n in zip(rows, np.array(left), ks, strict=True):
            n = min(n, vocab_size) if n > 0 else vocab_size
            assert set(np.flatnonzero(kept > -np.inf).tolist()) == k_best(row, n)
            assert np.array_equal(kept[kept > -np.inf], row[kept > -np.inf])


@pytest.mark.parametrize("vocab_size", SIZES)
@pytest.mark.parametrize("kind", ["normal", "ties", "cut", "flat"])
def test_top_p_keeps_the_nucleus(kind, vocab_size):
    rows = rows_of(kind, 4, vocab_size)
    mixed = np.array([[0.05], [0.5], [0.9], [0.999]], np.float32)
    for p in (0.01, 0.3, 0.9, 0.99, mixed):
        left = transforms.top_p(mx.array(rows), mx.array(p) if p is mixed else p)
        ps = mixed[:, 0] if p is mixed else [p] * 4
        for row, kept, one_p in zip(rows, np.array(left), ps, strict=True):
            ids = np.flatnonzero(kept > -np.inf)
            fewest, most = nucleus_sizes(row, one_p)
            assert max(1, fewest) <= len(ids) <= max(1, most), (one_p, fewest, len(ids), most)
            assert set(ids.tolist()) == set(in_order(row)[: len(ids)].tolist())
            assert np.array_equal(kept[ids], row[ids])


@pytest.mark.parametrize("vocab_size", [4, 256, 2048, 4096, 8192, 16_384])
def test_top_p_at_the_very_line(vocab_size):
    """Equal scores have weights of 1: float32 adds and compares them exactly."""
    row = mx.zeros((1, vocab_size))
    for n in (1, 2, 255, 256, 257, 4095, 4096, 4097, vocab_size - 1):
        if n < vocab_size:
            for shift, kept in ((0.0, n), (1 / 4, n + 1), (-1 / 4, n)):
                left = np.array(transforms.top_p(row, (n + shift) / vocab_size))[0]
                assert np.array_equal(np.flatnonzero(left > -np.inf), np.arange(kept)), (n, shift)


def test_rows_of_one_batch_are_looked_at_as_far_as_each_needs(monkeypatch):
    """Peaked, wide and flat: 256 candidates, 4,096 and all, and each as if it were alone."""
    rng = np.random.default_rng(1)
    scale = np.array([[6.0], [2.0], [0.1]])
    rows = mx.array((scale * rng.normal(size=(3, 9000))).astype(np.float32))
    alone = [transforms.top_p(row, 0.9) for row in rows]  # without a batch, too
    partition, sizes = mx.partition, []
    monkeypatch.setattr(
        mx,
        "partition",
        lambda a, kth, axis: (sizes.append((len(a), kth)), partition(a, kth, axis))[1],
    )
    together = transforms.top_p(rows, 0.9)
    assert sizes == [(3, 255), (2, 4095)]
    for row, want in zip(together, alone, strict=True):
        assert np.array_equal(row, want)


@pytest.mark.parametrize("kinds", [[{"top_k": 40, "top_p": 0.9}, {}], [{"top_k": 2000}], [{}]])
def test_nothing_waits_for_the_device_but_a_large_nucleus(kinds, monkeypatch):
    sampler = Sampler(NUM_CTX)
    for i in range(4):
        sampler.add(i, SamplerOptions(**kinds[i % len(kinds)], seed=1))
    sampler.add("p", SamplerOptions(top_p=0.9, seed=1))
    rows = mx.zeros((5, 5000))
    sampler.batch(range(4)).draw(rows[:4])
    sampler.batch(["p"]).draw(rows[:1])
    sampler.batch(["p"]).draw(rows[:1, :2048])
    monkeypatch.setattr(np, "flatnonzero", lambda *_: pytest.fail("the host has looked"))
    sampler.batch(range(4)).draw(rows[:4])
    sampler.batch(["p"]).draw(rows[:1, :2048])
    with pytest.raises(pytest.fail.Exception):
        sampler.batch(["p"]).draw(rows[:1])


@pytest.mark.parametrize("vocab_size", [2, 3, 17, 97, 512, 2049, 5000, 50_000])
@pytest.mark.parametrize("kind", ["normal", "ties", "cut", "flat"])
def test_candidates_give_what_all_tokens_give(kind, vocab_size):
    """The same tokens, and log-probabilities to 1e-6, in batches of random options."""
    rng = np.random.default_rng(vocab_size)
    for batch in range(3 if vocab_size > 5000 else 12):
        n = int(rng.integers(1, 9))
        some = [
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
        logits = mx.array(rows_of(kind, n, vocab_size))
        log_probs, tokens = [], []
        for path in PATHS:
            sampler = Sampler(NUM_CTX)
            for i, each in enumerate(some):
                sampler.add(i, each, [0, 1, 1], stream=i)
            with path():
                drafts = np.zeros((n, 0), int)
                log_probs.append(
                    np.array(sampler.speculative_scores(range(n), logits[:, None], drafts))
                )
                tokens.append([sampler.sample(range(n), logits).token.tolist() for _ in range(4)])
        assert np.array_equal(*map(np.isinf, log_probs)), some
        assert np.allclose(*log_probs, rtol=0, atol=1e-6), some
        assert tokens[0] == tokens[1], some


@pytest.mark.parametrize("path", PATHS)
def test_a_draw_is_the_first_token_by_id_beyond_u(path):
    """As lesson 01 teaches: whatever was cut, the sums run in the order of ids."""
    logits = mx.array(np.random.default_rng(0).normal(size=(64, 300)).astype(np.float32) * 2)
    kinds = [SamplerOptions(**kind, seed=7) for kind in KINDS]
    sampler = Sampler(NUM_CTX)
    for i in range(64):
        sampler.add(i, kinds[i % len(kinds)], [1, 2], stream=i)
    with path():
        scores = sampler.speculative_scores(range(64), logits[:, None], np.zeros((64, 0), int))
        tokens = np.array(sampler.batch(range(64)).draw(logits)[0])
    probs = np.exp(np.array(scores))[:, 0].astype(np.float64)
    for i, token in enumerate(tokens):
        key = np.array([random_numbers.key(7, i)], np.uint64)
        u = random_numbers.uniforms(key, np.array([0])).item()
        sums = np.cumsum(probs[i]) / probs[i].sum()
        assert (sums[token - 1] if token else 0.0) - 1e-5 < u < sums[token] + 1e-5
        assert probs[i, token] > 0


class ReplacedError(Exception):
    """Raised by a function that stands where one of the library's stood."""


def replaced(*_):
    raise ReplacedError


USES = {
    "greedy": {"temperature": 0.0},
    "top_k": {"top_k": 3},
    "temperature": {"temperature": 0.7},
    "top_p": {"top_p": 0.5},
    "min_p": {"min_p": 0.1},
    "peak": {},
    "draw": {"top_k": 1},
    "penalize": {"repeat_penalty": 1.3},
}


def sample_beside_others(used, vocab_size=64):
    """Sample a row with these options, among rows that use nothing, twice."""
    sampler = Sampler(NUM_CTX)
    for i, each in enumerate([used, {}, used]):
        sampler.add(i, SamplerOptions(**each, seed=1), [1, 2])
    logits = mx.array(np.random.default_rng(0).normal(size=(3, vocab_size)).astype(np.float32))
    yield lambda: sampler.sample(range(3), logits)
    yield lambda: sampler.sample([0], logits[:1])
    yield lambda: sampler.batch([0]).cut(logits[:1])


IN_ORDER = [(transforms.ORDER, name) for name in transforms.ORDER]
IN_MODULE = [(transforms, name) for name in USES if name != "peak"]  # that one is MLX's


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("where", "name"), IN_ORDER + IN_MODULE)
def test_a_replaced_function_is_noticed(where, name, path, monkeypatch):
    calls = list(sample_beside_others(USES[name]))
    with path():
        for call in calls:
            call()
    patch = monkeypatch.setattr if where is transforms else monkeypatch.setitem
    patch(where, name, replaced)
    for call in calls[:2] if name == "draw" else calls:
        with path(), pytest.raises(ReplacedError):
            call()


def test_a_replaced_transform_sees_every_token_and_only_rows_that_use_it(monkeypatch):
    seen = []

    def bans_token_three(scores, p):
        seen.append((scores.shape, p))
        return mx.where(mx.arange(scores.shape[-1]) == 3, -mx.inf, scores)

    monkeypatch.setitem(transforms.ORDER, "top_p", bans_token_three)
    sampler = Sampler(NUM_CTX)
    for i, each in enumerate([{"top_k": 5, "top_p": 0.5}, {"top_k": 5}, {"temperature": 0.0}]):
        sampler.add(i, SamplerOptions(**each))
    row = mx.array([[0.0, 1.0, 2.0, 9.0, 4.0, 5.0, 6.0, 7.0, 8.0]])
    left, _ = sampler.batch(range(3)).cut(mx.repeat(row, 3, axis=0))
    assert seen == [((1, 9), 0.5)]
    assert (np.array(left) > -np.inf).sum(axis=1).tolist() == [4, 5, 1]
    assert left[0, 3].item() == -np.inf


def test_fast_is_no_argument_any_more():
    with pytest.raises(TypeError, match="fast"):
        Sampler(NUM_CTX, fast=False)


@pytest.mark.parametrize("path", PATHS)
def test_a_new_transform_is_a_line_in_the_order(path, monkeypatch):
    """The docstring's own; a column that exists stands for the field, presence for epsilon."""
    recipe = re.search(r"\n    def epsilon.*?\n\n", transforms.__doc__, re.DOTALL).group()
    names = dict(vars(transforms))
    exec(textwrap.dedent(recipe), names)
    epsilon = names["epsilon"]
    row = mx.array([[0.0, 1.0, 4.0, 3.9, -mx.inf]])  # probabilities 0.01, 0.02, 0.51, 0.46, 0
    sampler = Sampler(NUM_CTX)
    sampler.add(0, SamplerOptions(presence_penalty=0.1, top_k=3))
    with path():
        sampler.speculative_scores(0, row, [])  # the batch is planned without it
        monkeypatch.setitem(transforms.ORDER, "presence_penalty", epsilon)
        scores = sampler.speculative_scores(0, row, [])
        assert np.isfinite(np.array(scores)).tolist() == [[False, False, True, True, False]]
        # A neighbour that did not ask is left alone, and so is one at temperature 0.
        sampler.add(1, SamplerOptions(seed=3))
        sampler.add(2, SamplerOptions(temperature=0.0))
        sampler.add(3, SamplerOptions(presence_penalty=0.99))  # nothing is so likely: best stays
        rows = mx.repeat(row, 4, axis=0)[:, None]
        scores = sampler.speculative_scores([0, 1, 2, 3], rows, np.zeros((4, 0), int))
        assert np.isfinite(np.array(scores)).sum(axis=-1).tolist() == [[2], [4], [1], [1]]
        assert sampler.sample([0, 1, 2, 3], rows[:, 0]).token[2:].tolist() == [2, 2]


def test_a_line_of_your_own_in_the_file_is_not_built_in():
    source = Path(transforms.__file__).read_text()
    line = '    "top_p": top_p,\n'
    assert source.count(line) == 1
    names = {"__name__": transforms.__name__}
    exec(source.replace(line, '    "presence_penalty": min_p,\n' + line), names)
    assert "presence_penalty" in names["ORDER"]
    assert names["BUILT_IN"].keys() == transforms.BUILT_IN.keys() == transforms.ORDER.keys()


@pytest.mark.parametrize("name", ["presence_penalty", "min_p"])
@pytest.mark.parametrize("neighbours", [0, 2])
def test_a_transform_of_your_own_that_leaves_nothing_is_refused_by_name(
    name, neighbours, monkeypatch
):
    def nothing(scores, x):
        return mx.full(scores.shape, -mx.inf)

    monkeypatch.setitem(transforms.ORDER, name, nothing)
    sampler = Sampler(NUM_CTX)
    sampler.add(0, SamplerOptions(**{name: 0.5}))
    for i in range(1, 1 + neighbours):
        sampler.add(i, SamplerOptions(top_k=2))
    with pytest.raises(BadValue, match=f"{name} must leave a token of each row"):
        sampler.sample(range(1 + neighbours), mx.zeros((1 + neighbours, 5)))


SLIPS = {
    "no return": (lambda s, x: None, "an mx.array of shape .*, got NoneType"),
    "a list": (lambda s, x: s.tolist(), "an mx.array of shape .*, got list"),
    "another shape": (lambda s, x: s[:, :3], r"an mx.array of shape .*, got \(1, 3\)"),
    "no mx.where": (lambda s, x: s >= x, "mlx.core.float32 scores, got mlx.core.bool"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_what_is_no_scores_is_refused_by_the_transforms_name(slip, monkeypatch):
    transform, message = SLIPS[slip]
    monkeypatch.setitem(transforms.ORDER, "min_p", transform)
    sampler = Sampler(NUM_CTX)
    sampler.add(0, SamplerOptions(min_p=0.5))
    with pytest.raises((TypeError, ValueError), match=f"min_p must return {message}"):
        sampler.sample([0], mx.zeros((1, 5)))


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
            sampler = Sampler(NUM_CTX)
            sampler.add(0, SamplerOptions(min_p=float(m), top_p=0.9999999, top_k=3))
            left = []
            for path in PATHS:
                with path():
                    left.append(np.isfinite(np.array(sampler.batch([0]).cut(row)[0])).tolist())
            assert left[0] == left[1], (m, edge)
            assert left[0][0][1] == (edge >= gap)


@pytest.mark.parametrize("shift", [0.0, 500.0, -500.0])
def test_log_softmax_keeps_its_digits(shift):
    row = np.round(np.random.default_rng(0).normal(size=(3, 50)) * 256) / 256
    want = row - np.log(np.exp(row).sum(axis=-1, keepdims=True))
    got = transforms.log_softmax(mx.array((row + shift).astype(np.float32)))
    assert got.dtype == mx.float32
    assert np.allclose(got, want, rtol=0, atol=2e-6)
