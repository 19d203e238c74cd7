"""Products by blocks equal whole ones, on both sides of every threshold; quicken undoes itself."""

import lablib
from lablib.machine import backend
from lablib.models import linear, llama_config

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models import llama

pytestmark = pytest.mark.skipif(mx.default_device() == mx.gpu, reason="blocks are for OpenBLAS")


@pytest.fixture(autouse=True)
def where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers must be right on every CPU, also where nothing is gained."""
    monkeypatch.setattr(linear, "_pays", lambda: True)


ROWS, NARROWEST, RESULT, WORK = linear._ROWS, linear._NARROWEST, linear._RESULT, linear._WORK
SHAPES = [
    (192, 512), (512, 192), (576, 1536), (1536, 576), (64, 8192), (2048, 8), (700, 2 * 293),
    (64, RESULT), (64, RESULT + 8), (WORK // 600, 600), (WORK // 600 + 1, 600),
    (WORK // NARROWEST // 4, 64), (WORK // NARROWEST + 1, 64),
]  # fmt: skip


def normal(*shape: int) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(sum(shape)))


def whole(x: mx.array, weight: mx.array) -> np.ndarray:
    return np.array(x, np.float64) @ np.array(weight, np.float64).T


@pytest.mark.parametrize(("k", "n"), SHAPES)
@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 2), (5,), (1, 5), (3, 3), (1, 16), (2, 8)])
def test_blocks_give_the_whole_product(k: int, n: int, shape: tuple[int, ...]) -> None:
    x, weight = normal(*shape, k), normal(n, k)
    found = linear.blocked(x, weight)
    if found is None:
        rows = int(np.prod(shape))
        small = rows * n <= RESULT and rows * k * n <= WORK
        assert small or n == 2 * 293 or rows * k * NARROWEST > WORK
        return
    assert found.shape == (*shape, n)
    exact = whole(x, weight)
    assert np.abs(np.array(found) - exact).max() < 1e-6 * np.abs(exact).max() * k**0.5


def test_what_gains_nothing_is_left_whole() -> None:
    large = normal(4096, 512)
    assert linear.blocked(normal(ROWS, 512), large) is not None
    assert linear.blocked(normal(ROWS + 1, 512), large) is None  # worth the copy
    assert linear.blocked(normal(1, 512).astype(mx.float16), large.astype(mx.float16)) is None
    assert linear.blocked(normal(1, 4096), normal(NARROWEST - 1, 4096)) is None
    prime = 7919
    assert linear.blocked(normal(1, 512), normal(prime, 512)) is None


def test_layers_and_their_gradients() -> None:
    quick, plain = linear.Linear(512, 1024), nn.Linear(512, 1024)
    plain.update(quick.parameters())
    x = normal(4, 512)
    assert linear.blocked(x, quick.weight) is not None
    np.testing.assert_allclose(np.array(quick(x)), np.array(plain(x)), atol=1e-5)

    def gradients(layer: nn.Module) -> tuple[mx.array, mx.array]:
        def loss(weight: mx.array, x: mx.array) -> mx.array:
            layer.weight = weight
            return mx.sin(layer(x)).sum()

        return mx.grad(loss, (0, 1))(quick.weight + 0, x)

    for ours, theirs in zip(gradients(quick), gradients(plain), strict=True):
        np.testing.assert_allclose(np.array(ours), np.array(theirs), atol=2e-5)


def other(vocab_size: int = 4096) -> llama.Model:
    return llama.Model(
        llama.ModelArgs(
            model_type="llama", hidden_size=256, num_hidden_layers=2, intermediate_size=1024,
            num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5,
            vocab_size=vocab_size, tie_word_embeddings=True,
        )
    )  # fmt: skip


def kinds(model: nn.Module) -> set[type]:
    return {type(layer) for _, layer in model.named_modules()}


def test_quicken_changes_the_products_only_and_undoes_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, honest, ran = other(), linear.blocked, []

    def spy(x: mx.array, weight: mx.array) -> mx.array | None:
        ran.append(honest(x, weight))
        return ran[-1]

    monkeypatch.setattr(linear, "blocked", spy)
    before, tokens = kinds(model), mx.array([[1, 2, 3, 4, 5]])
    exact, names = model(tokens), [name for name, _ in model.named_modules()]
    with lablib.quicken(model) as held:
        assert {linear.Linear, linear.Embedding} <= kinds(model)
        assert nn.Linear not in kinds(model)
        assert [name for name, _ in model.named_modules()] == names
        close = model(tokens)
    assert mx.allclose(close, exact, atol=1e-5 * mx.abs(exact).max().item())
    assert any(product is not None for product in ran)
    assert kinds(model) == before
    assert mx.array_equal(model(tokens), exact)
    held.close()
    assert kinds(model) == before
    again = lablib.quicken(model)
    assert linear.Linear in kinds(model)
    again.close()
    assert kinds(model) == before


def test_a_subclass_of_the_callers_own_stays_as_it_is() -> None:
    class Own(nn.Linear):
        def __call__(self, x: mx.array) -> mx.array:
            return super().__call__(x) + 1

    model = nn.Sequential(nn.Linear(8, 8), Own(8, 8))
    lablib.quicken(model)
    assert [type(layer) for layer in model.layers] == [linear.Linear, Own]


def test_what_does_not_go_through_the_blas_is_refused_by_name() -> None:
    quantised = other()
    nn.quantize(quantised, group_size=64, bits=4)
    before = kinds(quantised)
    with pytest.raises(
        ValueError, match=r"must not be quantised, but .*_proj is a QuantizedLinear"
    ):
        lablib.quicken(quantised)
    assert kinds(quantised) == before
    half = other()
    half.set_dtype(mx.bfloat16)
    with pytest.raises(ValueError, match=r"must be float32, but .* is mlx.core.bfloat16"):
        lablib.quicken(half)
    assert linear.Linear not in kinds(half)
    with pytest.raises(TypeError, match=r"must be an mlx\.nn\.Module, got int"):
        lablib.quicken(3)


def test_where_the_library_knows_no_small_products_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(backend, "core", lambda: "Haswell")
    linear._pays.cache_clear()
    model = other()
    before = kinds(model)
    lablib.quicken(model)
    assert kinds(model) == before
    assert linear.blocked(normal(1, 512), normal(4096, 512)) is None
    for core in linear._CORES:
        monkeypatch.setattr(backend, "core", lambda core=core: core)
        linear._pays.cache_clear()
        assert linear.blocked(normal(1, 512), normal(4096, 512)) is not None
    linear._pays.cache_clear()


def test_a_lablib_model_can_still_be_quantised() -> None:
    model = lablib.LanguageModel(llama_config(512, 64, 1, 2), seed=0)
    layer = model.layers[0].self_attn
    nn.quantize(layer, group_size=64, bits=8)
    assert kinds(layer) - {type(layer)} == {nn.QuantizedLinear}
    assert model(mx.array([[1, 2]])).shape == (1, 2, 512)
