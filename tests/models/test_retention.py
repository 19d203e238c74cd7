"""Retention: the parallel form, the recurrence and NumPy's float64 say the same."""

from lablib.models import retention
from lablib.models.retention import CHUNK, fadings, log_decay, retain, retain_one

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import models as oracle

H, D = 3, 8


def draw(seed, rows, length):
    random = np.random.default_rng(seed)
    return [random.normal(size=(rows, H, length, D)) / D**0.5 for _ in range(3)]


def mlx(*arrays):
    return [mx.array(a.astype(np.float32)) for a in arrays]


def numpy_retention(q, k, v, mask=None, state=None):
    outputs, states = np.zeros_like(v), np.zeros((len(q), H, D, D))
    for row in range(len(q)):
        for head, decay in enumerate(oracle.decays(H)):
            at = row, head
            outputs[at], states[at] = oracle.retention(
                q[at], k[at], v[at], decay,
                None if mask is None else mask[row], None if state is None else state[at],
            )  # fmt: skip
    return outputs, states


def close(a, b, tolerance=1e-5):
    np.testing.assert_allclose(np.array(a), b, atol=tolerance, rtol=0)


@pytest.mark.parametrize("length", [1, 2, 17, CHUNK, CHUNK + 1, 2 * CHUNK + 40])
def test_parallel_form_equals_the_recurrence(length):
    q, k, v = draw(length, 2, length)
    before = np.random.default_rng(1).normal(size=(2, H, D, D))
    for state in (None, before):
        expected, last = numpy_retention(q, k, v, state=state)
        start = None if state is None else mlx(state)[0]
        out, end = retain(*mlx(q, k, v), start, fadings(H, length))
        close(out, expected)
        close(end, last)


def test_one_step_at_a_time():
    q, k, v = draw(0, 2, 20)
    expected, last = numpy_retention(q, k, v)
    state, decay = None, mx.exp(log_decay(H))[:, None, None]
    for t in range(20):
        step = [a[:, :, t : t + 1] for a in mlx(q, k, v)]
        out, state = retain_one(*step, state, decay)
        close(out, expected[:, :, t : t + 1])
    close(state, last)


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.booleans(), min_size=12, max_size=12), min_size=1, max_size=4),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
)
def test_padding_leaves_no_trace(mask, chunk, seed):
    """Wherever the padding is and however the text is cut, only real tokens fade and add."""
    mask = np.array(mask)
    q, k, v = draw(seed, len(mask), 12)
    expected, last = numpy_retention(q, k, v, mask)
    original, retention.CHUNK = retention.CHUNK, chunk
    try:
        out, state = retain(*mlx(q, k, v), None, fadings(H, 12, mx.array(mask)))
    finally:
        retention.CHUNK = original
    close(state, last)
    real = np.broadcast_to(mask[:, None, :, None], expected.shape)
    close(np.array(out)[real], expected[real])


@pytest.mark.thorough  # a test of tests
def test_a_planted_bug_is_caught(monkeypatch):
    """A state that fades once too often in each chunk differs."""
    wrong = retention.fadings

    def late(*args):
        decay = mx.exp(log_decay(H))[:, None, None]
        return [retention.Fading(f.within, f.carry * decay, f.rest, f.keep) for f in wrong(*args)]

    q, k, v = draw(3, 1, CHUNK + 8)
    expected, _ = numpy_retention(q, k, v)
    with pytest.raises(AssertionError):
        close(retain(*mlx(q, k, v), None, late(H, CHUNK + 8))[0], expected)


def test_memory_spans_grow_from_head_to_head():
    for heads in (1, 2, 5):
        spans = 1 / (1 - np.exp(np.array(log_decay(heads), dtype=np.float64)))
        np.testing.assert_allclose(spans, 2 ** np.linspace(3, 8, heads), rtol=1e-4)
