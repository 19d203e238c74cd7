"""The faster ways of a model stand for its definitions, and give way to one that was replaced."""

import contextlib

import lablib
from lablib import models

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

V = 40
CONFIGS = {
    "llama": models.llama_config(V, 32, 4, 2, n_kv_heads=2),
    "gpt": models.gpt_config(V, 32, 4, 2, max_positions=64),
    "hybrid": models.hybrid_config(V, 32, 4, 4, attention_every=2),
}
SHAPES = [(1, 1), (1, 5), (3, 1), (3, 5), (2, 20)]

OF_ALL = [
    (models.base.Block, "__call__"),
    (models.base.Attention, "__call__"),
    (models.base.Attention, "read"),
    (models.base.MLP, "__call__"),
    (nn.Linear, "__call__"),
    (models.kernels, "attention"),
    (models.kernels, "split_heads"),
    (models.kernels, "join_heads"),
]
OF_LLAMA = [
    (models.base.RMSNorm, "__call__"),
    (models.kernels.Rotation, "__call__"),
    (models.kernels, "Rotation"),
    (models.kernels, "rms_norm"),
    (models.kernels, "turned"),
    (models.kernels, "swiglu"),
]
CASES = [(kind, *definition) for kind in CONFIGS for definition in OF_ALL]
CASES += [(kind, *definition) for kind in ("llama", "hybrid") for definition in OF_LLAMA]
CASES += [("hybrid", models.retention.Retention, "__call__")]
if mx.default_device() == mx.gpu:  # it has MLX's own kernel for rotations
    CASES = [case for case in CASES if case[1:] != (models.kernels, "turned")]


class Noticed(Exception):
    """Raised by what stands in a definition's place."""


def notice(*_: object, **__: object) -> None:
    raise Noticed


def tokens(*shape: int, below: int = V) -> mx.array:
    return mx.array(np.random.default_rng(sum(shape)).integers(0, below, shape))


def named(case: object) -> str:
    return getattr(case, "__name__", str(case)).split(".")[-1]


@pytest.mark.parametrize("by_definition", [False, True])
@pytest.mark.parametrize(("kind", "owner", "name"), CASES, ids=named)
def test_a_replaced_definition_runs(kind, owner, name, by_definition, monkeypatch) -> None:
    model = models.LanguageModel(CONFIGS[kind], seed=1)
    for shape in SHAPES:
        mx.eval(model(tokens(*shape)))  # compiled functions are kept from here on
    monkeypatch.setattr(owner, name, notice)
    with lablib.by_definition() if by_definition else contextlib.nullcontext():
        for shape in SHAPES:
            with pytest.raises(Noticed):
                model(tokens(*shape))


@pytest.mark.parametrize(
    ("name", "shape"), [("retain_one", (1, 1)), ("retain", (1, 5)), ("fadings", (3, 5))]
)
def test_both_forms_of_retention_are_definitions(name, shape, monkeypatch) -> None:
    model = models.LanguageModel(CONFIGS["hybrid"], seed=1)
    monkeypatch.setattr(models.retention, name, notice)
    with pytest.raises(Noticed):
        model(tokens(*shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_it_runs_in_place_of_the_definition_also_on_a_cache_and_until_it_is_put_back(
    shape, monkeypatch
) -> None:
    model, text = models.LanguageModel(CONFIGS["llama"], seed=1), tokens(*shape)

    def logits() -> np.ndarray:
        cache = model.make_cache()
        model(tokens(shape[0], 7), cache)
        return np.array(model(text, cache))

    before, honest = logits(), models.base.MLP.__call__
    with monkeypatch.context() as patch:
        patch.setattr(models.base.MLP, "__call__", lambda mlp, x: 3 * honest(mlp, x))
        replaced = logits()
        with lablib.by_definition():
            np.testing.assert_allclose(logits(), replaced, atol=1e-4)
    assert np.abs(replaced - before).max() > 1e-3
    np.testing.assert_array_equal(logits(), before)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["target", "draft", "hybrid"])
def test_the_faster_ways_give_the_same_logits(name, shape) -> None:
    model, _ = models.zoo.load(name, dtype=mx.float32)

    def logits() -> np.ndarray:
        cache = model.make_cache()
        model(tokens(shape[0], 24, below=model.vocab_size), cache)
        return np.array(model(tokens(*shape, below=model.vocab_size), cache))

    quick = logits()
    with lablib.by_definition():
        np.testing.assert_allclose(logits(), quick, atol=1e-4)
