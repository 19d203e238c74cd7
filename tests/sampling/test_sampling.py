"""The sampler against an oracle: every transform, every combination, and the tokens drawn.

A hypothesis example holds several sequences and rows, each with its own options, history, logits;
every row is compared with the oracle, through the sampler and through the pure transforms.
``DRAWS`` draws decide a chi-square test. It raises a false alarm with a probability of at most
``ALARM`` (under 100 such tests run, so all together with at most 1e-6), and the draws are seeded:
a run that passed keeps passing. ``WRONG`` are bugs that both kinds of test must catch.
"""

import dataclasses
import math
from contextlib import contextmanager, nullcontext

from lablib.definitions import by_definition
from lablib.inference.sampling import random_numbers, transforms
from lablib.inference.sampling.sampler import Sampler, SamplerOptions

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles import sampling as oracle

PATHS = (nullcontext, by_definition)  # as everybody calls it, and without its faster path
TOLERANCE = 3e-6  # float32: exp and a sum of 300 terms alone are off by up to 1.4e-6
CLOSE = 1e-5  # a cut nearer than this to its limit may go either way in float32
NUM_CTX = 40
DRAWS = 200_000
ALARM = 1e-8


@dataclasses.dataclass(frozen=True)
class Case:
    """Some sequences, each with options, a history, drafts and R rows of logits."""

    options: tuple[dict, ...]
    histories: tuple[tuple[int, ...], ...]
    drafts: tuple[tuple[int, ...], ...]  # (B, D)
    logits: mx.array  # (B, R, V)


LOGITS = {
    "normal": lambda rng, shape: 3 * rng.normal(size=shape),
    "ties": lambda rng, shape: rng.integers(-4, 5, size=shape) / 2,
    "equal": lambda rng, shape: np.full(shape, rng.integers(-192, 193) / 64),  # as penalties
    "zeros": lambda rng, shape: rng.choice([-0.0, 0.0, 1.0], size=shape),
    "one peak": lambda rng, shape: 10.0 * (rng.random(shape) < 2 / shape[-1]) + rng.random(shape),
    "flat": lambda rng, shape: 0.01 * rng.normal(size=shape),
}
DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}


def neutral_or(neutral, values):
    return st.one_of(st.just(neutral), values)


def sixty_fourths(low, high):
    """Exact in both precisions: scores that are equal for the oracle are so in float32."""
    return [i / 64 for i in range(64 * low, 64 * high + 1)]


OPTIONS = st.fixed_dictionaries(
    {
        "temperature": st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.3, 2.0)),
        "top_k": st.one_of(st.just(0), st.integers(-1, 12), st.integers(1, 320)),
        "top_p": neutral_or(1.0, st.one_of(st.sampled_from([0.0, 0.5]), st.floats(0.01, 0.99))),
        "min_p": neutral_or(0.0, st.one_of(st.sampled_from([0.5, 1.0]), st.floats(1e-4, 1.0))),
        "repeat_last_n": st.sampled_from([-1, 0, 1, 3, 8, 64]),
        "repeat_penalty": neutral_or(1.0, st.sampled_from([-1.0, 0.0, *sixty_fourths(1, 2), 0.5])),
        "presence_penalty": neutral_or(0.0, st.sampled_from(sixty_fourths(-1, 1))),
        "frequency_penalty": neutral_or(0.0, st.sampled_from(sixty_fourths(-1, 1))),
    }
)


@st.composite
def cases(draw):
    vocab_size = draw(st.one_of(st.integers(1, 12), st.integers(1, 300)))
    n, n_drafts = draw(st.integers(1, 6)), draw(st.integers(0, 2))
    n_rows = draw(st.integers(1, n_drafts + 1))
    token = st.integers(0, vocab_size - 1)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = [draw(st.sampled_from(sorted(LOGITS))) for _ in range(n)]
    logits = np.stack([LOGITS[kind](rng, (n_rows, vocab_size)) for kind in kinds])
    if draw(st.booleans()):
        cut = rng.random(logits.shape) < 0.3
        cut[..., draw(token)] = False
        logits[cut] = -np.inf
    return Case(
        options=tuple(draw(OPTIONS) for _ in range(n)),
        histories=tuple(tuple(draw(st.lists(token, max_size=12))) for _ in range(n)),
        drafts=tuple(tuple(draw(token) for _ in range(n_drafts)) for _ in range(n)),
        logits=mx.array(logits).astype(DTYPES[draw(st.sampled_from(sorted(DTYPES)))]),
    )


def expected(row, options, history):
    """The probabilities that the oracle allows: more than one where a cut is a close call."""
    probs, margin = oracle.probabilities(row, options, history, NUM_CTX)
    allowed = [probs]
    if margin < CLOSE:
        for name in ("top_p", "min_p"):
            for shift in (-2 * CLOSE, 2 * CLOSE):
                if 0 < options[name] < 1:
                    moved = options | {name: min(max(options[name] + shift, 1e-9), 1.0)}
                    allowed.append(oracle.probabilities(row, moved, history, NUM_CTX)[0])
    return np.array(allowed)


def check(case, path=nullcontext):
    """Compare the sampler and the pure transforms with the oracle on one case."""
    n, n_rows, _ = case.logits.shape
    sampler = Sampler(NUM_CTX)
    for row in range(n):
        sampler.add(row, SamplerOptions(**case.options[row], seed=row), case.histories[row])
    drafts = np.array(case.drafts, np.int32).reshape(n, -1)
    with path():
        log_probs = sampler.speculative_scores(range(n), case.logits, drafts)
        tokens = np.array(sampler.batch(range(n)).draw(case.logits, mx.array(drafts))[0])
    probs = np.exp(np.array(log_probs, np.float64))
    logits = np.array(case.logits.astype(mx.float32), np.float64)
    for row, options in enumerate(case.options):
        for i in range(n_rows):
            seen = drafts.shape[1] - n_rows + 1 + i
            history = [*case.histories[row], *case.drafts[row][:seen]]
            allowed = expected(logits[row, i].tolist(), options, history)
            agree(allowed, probs[row, i], options, history)
            assert allowed[:, tokens[row, i]].max() > 0
        window = oracle.window(history, options["repeat_last_n"], NUM_CTX)
        pure = transforms.apply(case.logits[row, i][None], SamplerOptions(**options), window)
        agree(allowed, np.array(mx.softmax(pure, axis=-1))[0], options, history)
    return n * n_rows


def agree(allowed, probs, *case):
    error = np.abs(allowed - probs).max(axis=1).min()
    assert error <= TOLERANCE, (error, case)


FAST = settings(database=None, suppress_health_check=list(HealthCheck))


def test_every_combination_agrees_with_the_oracle():
    compared = 0

    @settings(FAST, max_examples=700, derandomize=True)
    @given(cases())
    def run(case):
        nonlocal compared
        compared += check(case, PATHS[compared % 2])

    run()
    assert compared >= 2900


@pytest.mark.slow
@settings(FAST, max_examples=6000)
@given(cases())
def test_every_combination_agrees_with_the_oracle_on_many_cases(case):
    check(case)
    check(case, by_definition)


ROW = [3.0, 2.5, 2.5, 1.75, 1.0, 1.0, 0.5, 0.0, -0.5, -1.0, -1.0, -2.0, -2.5, -3.0, -np.inf, 2.0]
HISTORY = (1, 3, 1, 9)
PENALTIES = {
    "repeat_penalty": 1.5,
    "presence_penalty": 0.25,
    "frequency_penalty": 0.5,
    "repeat_last_n": len(HISTORY),
}
DRAWN = {
    "plain": {},
    "temperature": {"temperature": 0.6},
    "top-k": {"top_k": 6},
    "top-p": {"top_p": 0.8},
    "min-p": {"min_p": 0.2},
    "repeat": {"repeat_penalty": 1.5, "repeat_last_n": len(HISTORY)},
    "frequency": {"frequency_penalty": 0.5, "repeat_last_n": len(HISTORY)},
    "penalties": PENALTIES,
    "all": {"temperature": 1.3, "top_k": 12, "top_p": 0.9, "min_p": 0.05} | PENALTIES,
}


def frequencies(options, n=DRAWS, slots=2000):
    """How often each token is drawn from ``ROW`` after ``HISTORY``."""
    sampler = Sampler(NUM_CTX)
    ids = list(range(slots))
    for i in ids:
        sampler.add(i, SamplerOptions(**options, seed=7), HISTORY, stream=i)
    logits = mx.broadcast_to(mx.array(ROW), (slots, len(ROW)))
    counts = np.zeros(len(ROW), np.int64)
    for _ in range(n // slots):
        counts += np.bincount(np.array(sampler.sample(ids, logits).token), minlength=len(ROW))
        if "repeat_last_n" in options:  # bring the window back
            for i in ids:
                sampler.commit(i, HISTORY)
    return counts.tolist()


def fixed_case(options):
    return Case((oracle.NEUTRAL | options,), (HISTORY,), ((),), mx.array(ROW)[None, None])


@pytest.mark.grid(lambda name, path: [*DRAWN].index(name) % 3 == 0, rest="slow")
@pytest.mark.grid(lambda name, path: path is nullcontext, rest="slow")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", DRAWN)
def test_frequencies_of_200_000_draws(name, path):
    probs, _ = oracle.probabilities(ROW, DRAWN[name], HISTORY)
    with path():
        assert oracle.chi_square(frequencies(DRAWN[name]), probs) > ALARM
    check(fixed_case(DRAWN[name]), path)


def nucleus_off_by_one(scores, p):
    probs, ids = nucleus(scores)
    kept = (mx.cumsum(probs, axis=-1) < p) | (mx.arange(probs.shape[-1]) == 0)
    return transforms.keep(scores, mx.where(kept, mx.log(probs), -mx.inf), ids)


def nucleus_that_counts_tokens(scores, p):
    probs, ids = nucleus(scores)
    kept = mx.arange(probs.shape[-1]) < p * probs.shape[-1]
    return transforms.keep(scores, mx.where(kept, mx.log(probs), -mx.inf), ids)


def nucleus(scores):
    """Return probabilities, best first, and whose they are."""
    values, ids = transforms.best(scores, scores.shape[-1])
    return mx.softmax(values, axis=-1), ids


def min_p_without_the_logarithm(scores, m):
    return mx.where(scores >= -mx.array(m), scores, -mx.inf)


def penalty_by_sign(scores, tokens, parameters, valid=None):
    old = mx.take_along_axis(scores, tokens, axis=-1)
    return mx.put_along_axis(scores, tokens, old / parameters["repeat_penalty"], axis=-1)


def keys_with_ties_reversed(scores, n):
    ids = mx.argsort(-scores[..., ::-1], axis=-1)[..., :n]
    return (scores.shape[-1] - 1 - ids.astype(mx.int32)).astype(mx.int64)


ORDER = transforms.ORDER
WRONG = {
    "top-p drops the token that crosses p": ("top-p", ORDER, "top_p", nucleus_off_by_one),
    "top-p counts tokens": ("top-p", ORDER, "top_p", nucleus_that_counts_tokens),
    "min-p without the logarithm": ("min-p", ORDER, "min_p", min_p_without_the_logarithm),
    "temperature ignored": ("temperature", ORDER, "temperature", lambda scores, t: scores),
    "temperature multiplies": ("temperature", ORDER, "temperature", lambda scores, t: scores * t),
    "ties go to the larger id": ("top-k", transforms, "_best_keys", keys_with_ties_reversed),
    "repeat divides negative scores": ("repeat", transforms, "penalize", penalty_by_sign),
    "frequency per distinct token": ("frequency", transforms, "_counts", lambda t, v, n: 1.0),
    "penalties of everything": ("all", transforms, "_counts", lambda t, v, n: t.shape[-1]),
}


@pytest.mark.grid(lambda bug: bug.startswith("top-p drops"), rest="slow")
@pytest.mark.thorough  # a test of tests
@pytest.mark.parametrize("bug", WRONG)
def test_a_wrong_variant_fails_both(bug, monkeypatch):
    name, where, attribute, wrong = WRONG[bug]
    patch = monkeypatch.setitem if where is ORDER else monkeypatch.setattr
    patch(where, attribute, wrong)
    probs, _ = oracle.probabilities(ROW, DRAWN[name], HISTORY)
    for path in PATHS:
        with pytest.raises(AssertionError):
            check(fixed_case(DRAWN[name]), path)
        with path():
            assert oracle.chi_square(frequencies(DRAWN[name]), probs) < ALARM


@pytest.mark.thorough  # a test of tests
def test_biased_uniforms_fail_the_frequencies(monkeypatch):
    honest = random_numbers.uniforms
    monkeypatch.setattr(random_numbers, "uniforms", lambda *n: honest(*n) ** np.float32(1.05))
    probs, _ = oracle.probabilities(ROW, {}, HISTORY)
    assert oracle.chi_square(frequencies({}), probs) < ALARM


def test_the_order_of_the_transforms():
    """Temperature 3 flattens 0.88, 0.07, 0.04: top-p after it keeps three, before it one."""
    row = mx.log(mx.array([[0.88, 0.07, 0.04, 0.01]]))
    after = transforms.top_p(transforms.temperature(row, 3.0), 0.85)
    before = transforms.temperature(transforms.top_p(row, 0.85), 3.0)
    assert (np.array(after) > -np.inf).sum() == 3
    assert (np.array(before) > -np.inf).sum() == 1
    applied = transforms.apply(row, SamplerOptions(temperature=3.0, top_p=0.85))
    assert np.array_equal(np.array(applied) > -np.inf, np.array(after) > -np.inf)


@pytest.mark.parametrize("k", [1, 2, 5, 7, 8])
def test_equal_scores_rank_by_token_id(k):
    scores = mx.array([[1.0, 2.0, -0.0, 2.0, 0.0, 1.0, 2.0, -1.0]])
    values, ids = transforms.best(scores, k)
    assert ids.tolist()[0] == [1, 3, 6, 0, 5, 2, 4, 7][:k]
    assert np.array_equal(values, mx.take_along_axis(scores, ids, axis=-1))


def test_best_orders_every_kind_of_float():
    rng = np.random.default_rng(0)
    floats = rng.integers(0, 2**32, size=(50, 400), dtype=np.uint32).view(np.float32)
    floats = np.where(np.isnan(floats), np.float32(0), floats)
    _, ids = transforms.best(mx.array(floats), 400)
    for row, order in zip(floats.tolist(), ids.tolist(), strict=True):
        assert order == oracle.ranking(row)


@pytest.mark.parametrize("vocab_size", [2048, 2049, 9000])
def test_a_nucleus_in_a_large_vocabulary(vocab_size):
    """Peaked, wide and flat rows: found among 256, among 4,096 and nowhere near."""
    rng = np.random.default_rng(1)
    scale = np.array([6.0, 2.0, 0.1])[:, None]
    logits = mx.array((scale * rng.normal(size=(3, vocab_size))).astype(np.float32))
    for p in (0.5, 0.95):
        sampler = Sampler(NUM_CTX)
        for row in range(3):
            sampler.add(row, SamplerOptions(top_p=p, min_p=1e-5, temperature=0.9, seed=row))
        log_probs = np.array(sampler.speculative_scores([0, 1, 2], logits[:, None], [[], [], []]))
        tokens = np.array(sampler.sample([0, 1, 2], logits).token)
        for row in range(3):
            options = {"top_p": p, "min_p": 1e-5, "temperature": 0.9}
            allowed, _ = oracle.probabilities(np.array(logits[row], np.float64).tolist(), options)
            probs = np.exp(log_probs[row, 0].astype(np.float64))
            # The cut may fall one token earlier or later: 32-bit sums of thousands of weights.
            assert np.abs(probs - allowed).max() <= 1.5 * max(allowed) / (
                vocab_size * p
            ) + 1e-6 or (np.abs(probs - allowed).max() <= TOLERANCE)
            assert abs((probs > 0).sum() - (np.array(allowed) > 0).sum()) <= 1
            assert probs[tokens[row]] > 0


@contextmanager
def sizes_sorted(monkeypatch):
    """Records the row lengths that are sorted and partitioned."""
    seen = {"sort": [], "partition": []}
    with monkeypatch.context() as patch:
        for name in seen:
            honest = getattr(mx, name)

            def spy(a, *args, _honest=honest, _seen=seen[name], **kwargs):
                _seen.append(a.shape[-1])
                return _honest(a, *args, **kwargs)

            patch.setattr(mx, name, spy)
        for name in ("argsort", "argpartition", "topk"):
            patch.setattr(mx, name, lambda *a, **k: pytest.fail("an unexpected kind of sort"))
        yield seen


@pytest.mark.parametrize(
    ("options", "sort", "partition"),
    [
        ({"temperature": 0}, [], []),
        ({"temperature": 0.7}, [], []),
        ({"temperature": 0.7, "min_p": 0.1} | PENALTIES, [], []),
        ({"top_k": 256, "temperature": 0.7}, [256], [5000]),
        ({"top_k": 256, "top_p": 0.9, "temperature": 0.7}, [256, 256], [5000]),
        ({"top_k": 5000}, [], []),
        ({"top_p": 0.9, "temperature": 0.5}, [256], [5000]),
        ({"top_k": 40, "top_p": 0.9}, [40, 40], [5000]),
        ({"top_k": 300}, [300], [5000]),
    ],
)
def test_no_sort_where_less_will_do(options, sort, partition, monkeypatch):
    logits = mx.array(np.random.default_rng(0).normal(size=(2, 5000)) * 6)
    sampler = Sampler(NUM_CTX)
    for row in range(2):
        sampler.add(row, SamplerOptions(**options, seed=1), HISTORY)
    with sizes_sorted(monkeypatch) as seen:
        sampler.sample([0, 1], logits)
    assert seen == {"sort": sort, "partition": partition}


def test_the_uniform_numbers_are_uniform_and_unrelated():
    """Pairs of neighbours in position, in stream, in seed and in lane, on a 16 by 16 grid."""
    n = DRAWS // 4
    keys = {
        "position": (np.full(n, random_numbers.key(1), np.uint64), np.arange(n)),
        "stream": (
            np.array([random_numbers.key(1, i) for i in range(n)], np.uint64),
            np.zeros(n, int),
        ),
        "seed": (np.array([random_numbers.key(i) for i in range(n)], np.uint64), np.zeros(n, int)),
        "lane": (
            np.array([random_numbers.key(i, 0, i % 2) for i in range(n)], np.uint64),
            np.arange(n),
        ),
    }
    for name, (key, position) in keys.items():
        u = random_numbers.uniforms(key, position)
        assert u.dtype == np.float32
        assert u.min() >= 0
        assert u.max() < 1
        cells = (u[0::2] * 16).astype(int) * 16 + (u[1::2] * 16).astype(int)
        counts = np.bincount(cells, minlength=256).tolist()
        assert oracle.chi_square(counts, [1 / 256] * 256) > ALARM, name
    one = random_numbers.uniforms(keys["seed"][0][5:6], np.array([3]))
    assert one == random_numbers.uniforms(keys["seed"][0][4:6], np.array([3, 3]))[1]


def test_the_chi_square_tail():
    """Against known quantiles: 5 % of chi-square with 2 and 10 degrees of freedom."""
    for dof, quantile in ((2, 5.991465), (10, 18.307038)):
        cells, n = dof + 1, 30_000
        shift = math.sqrt(quantile * n / cells / 2)
        counts = [n / cells + shift, n / cells - shift] + [n / cells] * (cells - 2)
        assert oracle.chi_square(counts, [1 / cells] * cells) == pytest.approx(0.05, abs=1e-6)
    assert oracle.chi_square([1, 99], [0.0, 1.0]) == 0
