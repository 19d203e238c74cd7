"""The faster forms of small operations equal MLX's own, values and gradients."""

import math

from lablib.models import kernels

import mlx.core as mx
import numpy as np
import pytest


def reference_swiglu(gate: mx.array, up: mx.array) -> mx.array:
    return gate * mx.sigmoid(gate) * up


def worst(a: mx.array, b: mx.array) -> float:
    return (mx.abs(a - b).max() / mx.maximum(mx.abs(b).max(), 1e-9)).item()


def normal(seed: int, *shape: int) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


def test_the_exponential_is_right_everywhere() -> None:
    x = np.linspace(-87, 88, 40_001, dtype=np.float32)
    got = np.array(kernels.exp(mx.array(x)), np.float64)
    assert np.abs(got / np.exp(x.astype(np.float64)) - 1).max() < 5e-6  # e in float32, 88 times
    far = np.array(kernels.exp(mx.array([-math.inf, -1e30, 0.0, math.inf, math.nan])))
    np.testing.assert_array_equal(far, [0, 0, 1, math.inf, math.nan])


def test_swiglu_and_its_gradients() -> None:
    gate, up = 8 * normal(0, 64, 48), normal(1, 64, 48)
    assert worst(kernels.swiglu(gate, up), reference_swiglu(gate, up)) < 2e-6

    def gradients(function):
        return mx.grad(lambda g, u: (function(g, u) * mx.sin(u)).sum(), (0, 1))(gate, up)

    for got, expected in zip(gradients(kernels.swiglu), gradients(reference_swiglu), strict=True):
        assert worst(got, expected) < 2e-6
    extreme = kernels.swiglu(mx.array([-1e4, 1e4, 0.0]), mx.ones((3,)))
    np.testing.assert_allclose(np.array(extreme), [0, 1e4, 0], atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("mask", ["causal", "none", "shared", "per row", "per head"])
@pytest.mark.parametrize("in_parts", [False, True])
def test_attention_and_its_gradients(monkeypatch, kv_heads: int, mask: str, in_parts: bool) -> None:
    if in_parts:
        monkeypatch.setattr(kernels, "_MOST", 0)
        monkeypatch.setattr(kernels, "_PART", 57 * 17)  # of 17, 17 and 6 queries
    heads, queries, keys, width = 6, 40, 57, 16
    q, k = 3 * normal(1, 2, heads, queries, width), normal(2, 2, kv_heads, keys, width)
    v = normal(3, 2, kv_heads, keys, width)
    shapes = {
        "shared": (queries, keys),
        "per row": (2, 1, queries, keys),
        "per head": (2, heads, queries, keys),
    }
    seen: mx.array | str | None = "causal" if mask == "causal" else None
    if mask in shapes:
        seen = normal(4, *shapes[mask]) < 0.5

    def reference(q, k, v):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25, mask=seen)

    def ours(q, k, v):
        return kernels.attention(q, k, v, 0.25, seen)

    assert queries >= kernels._MANY  # or this would compare MLX with itself
    assert worst(ours(q, k, v), reference(q, k, v)) < 1e-5

    def gradients(function):
        return mx.grad(lambda *x: (function(*x) ** 2).sum(), (0, 1, 2))(q, k, v)

    for got, expected in zip(gradients(ours), gradients(reference), strict=True):
        assert worst(got, expected) < 1e-4


def test_few_queries_go_to_mlx(monkeypatch) -> None:
    monkeypatch.setattr(kernels, "_softmax", None)
    x = normal(0, 1, 2, kernels._MANY - 1, 8)
    assert kernels.attention(x, x, x, 1.0, "causal").shape == x.shape


def test_a_query_that_sees_nothing_of_a_long_text_gets_finite_numbers() -> None:
    x = normal(0, 1, 2, 800, 8)
    assert kernels._MOST < 800 * 800
    seen = mx.arange(800) >= 790
    mask = (seen[:, None] & seen)[None, None]  # 790 tokens of left padding
    out, alone = kernels.attention(x, x, x, 1.0, mask), x[:, :, 790:]
    assert mx.isfinite(out).all().item()
    assert worst(out[:, :, 790:], kernels.attention(alone, alone, alone, 1.0, None)) < 1e-6
