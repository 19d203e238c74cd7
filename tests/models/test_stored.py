"""Layers with stored weights: MLX's numbers, a row's bits in any company, nothing stale."""

import copy
import json
import pickle
import random

import lablib
from lablib.cache import kv
from lablib.machine import stored_weights
from lablib.models import LanguageModel, gpt_config, llama_config, stored, zoo
from lablib.tools.saving import save
from lablib.validation import BadValue

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

V = 512  # the shipped tokenizer's
needs_product = pytest.mark.skipif(
    stored_weights.product() is None, reason=str(stored_weights.obstacle())
)


def quantised(kind: type, bits: int = 4, group: int = 32) -> nn.Module:
    layer = kind(128, 45) if kind is nn.Linear else kind(45, 128)
    return layer.to_quantized(group_size=group, bits=bits).eval()


def ours(layer: nn.Module) -> stored.Stored:
    return stored._stored(layer).eval()


def x_of(*shape: int, seed: int = 0) -> mx.array:
    return mx.random.normal((*shape, 128), key=mx.random.key(seed))


def far(a: mx.array, b: mx.array) -> float:
    return mx.max(mx.abs(a - b)).item()


# --- one layer ----------------------------------------------------------------------------------
@needs_product
@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_the_weights_are_mlxs_to_the_last_bit(bits: int, group: int) -> None:
    theirs, table = quantised(nn.Linear, bits, group), quantised(nn.Embedding, bits, group)
    how = {"group_size": group, "bits": bits}
    weight = mx.dequantize(theirs.weight, theirs.scales, theirs.biases, **how)
    layer = ours(theirs)
    assert mx.array_equal(layer.weight, weight)
    assert layer.form == (45, 4 if bits <= 4 else 8, group)
    for ids in (mx.array([44]), mx.array([[0, 8], [7, 44]])):
        assert mx.array_equal(ours(table)(ids), table(ids))
    x = x_of(3, 2)
    assert far(layer(x), theirs(x)) < 1e-3
    assert far(ours(table).as_linear(x), table.as_linear(x)) < 1e-3
    with lablib.by_definition():
        exact = layer(x)
        assert far(exact, x @ weight.T + theirs.bias) < 1e-5
        mx.eval(exact)
    assert not mx.array_equal(layer(x), exact)  # it is another way


@needs_product
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 15, 16, 17, 64, 512])
def test_a_row_has_its_own_bits_among_any_number(bits: int, rows: int) -> None:
    layer, x = ours(quantised(nn.Linear, bits)), x_of(512)
    whole = layer(x)
    assert mx.array_equal(layer(x[:rows]), whole[:rows])
    assert mx.array_equal(layer(x[-rows:][None]), whole[-rows:][None])


@needs_product
def test_scales_are_float16_where_that_changes_none_of_them() -> None:
    for dtype, wanted in ((mx.float16, mx.float16), (mx.float32, mx.float32)):
        theirs = quantised(nn.Linear)
        theirs.scales = (theirs.scales + 1e-3).astype(dtype)
        theirs.biases = theirs.biases.astype(dtype)
        layer, how = ours(theirs), {"group_size": 32, "bits": 4}
        assert layer.scales.dtype == layer.minima.dtype == wanted
        scales, biases = theirs.scales.astype(mx.float32), theirs.biases.astype(mx.float32)
        exact = mx.dequantize(theirs.weight, scales, biases, **how)
        assert layer.weight.dtype == mx.float32
        assert mx.array_equal(layer.weight, exact)
        wide = copy.deepcopy(layer)
        wide.set_dtype(mx.float32)
        assert mx.array_equal(wide(x_of(5)), layer(x_of(5)))
        stored.set_dtype(layer, mx.bfloat16)
        assert layer.scales.dtype == wanted


@needs_product
def test_half_precision_is_rounded_once() -> None:
    layer, x = ours(quantised(nn.Linear)), x_of(3).astype(mx.float16)
    layer.bias = mx.zeros(45, mx.float16)
    found = layer(x)
    assert found.dtype == mx.float16
    exact = layer(x.astype(mx.float32)).astype(mx.float16)
    assert far(found.astype(mx.float32), exact.astype(mx.float32)) < 0.01


def test_a_replaced_definition_runs(monkeypatch) -> None:
    layer, x = ours(quantised(nn.Linear)), x_of(2)
    monkeypatch.setattr(stored, "dequantised", lambda codes, *_: mx.zeros(codes.shape))
    assert mx.array_equal(layer(x), mx.broadcast_to(layer.bias, (2, 45)))


# --- nothing is stale ---------------------------------------------------------------------------
@needs_product
def test_loads_copies_edits_and_frees_never_use_a_stale_weight() -> None:
    rng, alive = random.Random(0), []
    for step in range(1000):
        what = rng.choice(["make", "copy", "pickle", "codes", "scales", "swap", "free", "pending"])
        if what == "make" or not alive:
            alive.append(ours(quantised(rng.choice([nn.Linear, nn.Embedding]), rng.choice([4, 8]))))
        layer = rng.choice(alive)
        if what == "copy":
            alive.append(copy.deepcopy(layer))
        elif what == "pickle":
            state = pickle.loads(pickle.dumps({k: np.array(v) for k, v in parameters(layer)}))
            layer.update({k: mx.array(v) for k, v in state.items()})
        elif what == "codes":
            layer.codes[rng.randrange(3), rng.randrange(layer.codes.shape[1])] = rng.randrange(
                2**16
            )
        elif what == "scales":
            layer.scales += 0.125
        elif what == "swap":
            layer.update({"minima": layer.minima * rng.choice([0.5, 2])})
        elif what == "free" and len(alive) > 1:
            alive = [each for each in alive if each is not layer]
            layer = alive[0]
        elif what == "pending":  # written down before the edit: it reads what was there
            x = x_of(2, seed=step)
            before, pending = layer.weight, layer.product(x)
            mx.eval(before)
            layer.codes[:] = 0
            assert far(pending, x @ before.T) < 0.01 * scale_of(x, before)
        x = x_of(rng.choice([1, 3, 20]), seed=step)
        weight = layer.weight
        assert far(layer.product(x), x @ weight.T) < 1e-3 * scale_of(x, weight), (step, what)
        alive = alive[-12:]


def parameters(layer: nn.Module) -> list:
    return tree_flatten(layer.parameters())


def scale_of(x: mx.array, weight: mx.array) -> float:
    return mx.max(mx.abs(x) @ mx.abs(weight.T)).item() + 1e-9


def test_training_has_gradients_and_freezes_the_codes() -> None:
    layer, x = ours(quantised(nn.Linear)), x_of(2)
    layer.train()
    gradient = mx.grad(lambda x: layer(x).sum())(x)
    assert far(gradient, mx.broadcast_to(layer.weight.sum(0), x.shape)) < 1e-4
    assert layer.trainable_parameters().keys() == {"bias"}


# --- whole models -------------------------------------------------------------------------------
def model_of(kind=llama_config, seed: int = 0, **more) -> LanguageModel:
    return LanguageModel(kind(V, 64, 2, 2, d_ff=128, **more), seed=seed).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer_file):
    path = tmp_path_factory.mktemp("stored")
    save(model_of(), tokenizer_file, path)
    return path


@pytest.fixture(scope="module")
def tokenizer_file():
    return zoo.CHECKPOINTS / "target"


def logits_in_pieces(model: nn.Module, ids: mx.array, pieces: list[int]) -> mx.array:
    cache, at, found = kv.make(model), 0, []
    for n in pieces:
        found.append(model(ids[:, at : at + n], cache=cache))
        at += n
    return mx.concatenate(found, axis=1)


@needs_product
@pytest.mark.parametrize("kind", [llama_config, gpt_config])
@pytest.mark.parametrize("bits", [4, 8])
def test_a_model_of_stored_weights_says_what_its_definition_says(bits: int, kind) -> None:
    model = model_of(kind)
    zoo.quantise(model, bits)
    stored.keep_as_stored(model)
    kinds = {type(layer) for _, layer in model.named_modules()}
    assert stored.StoredLinear in kinds
    assert stored.StoredEmbedding in kinds
    assert nn.Linear not in kinds
    ids = mx.arange(24)[None] * 5 % V
    fast = model(ids)
    with lablib.by_definition():
        slow = model(ids)
        mx.eval(slow)
    assert far(fast, slow) < 1e-3 * far(slow, 0)
    assert far(fast, slow) > 0


@needs_product
def test_quantising_leaves_the_random_state() -> None:
    mx.random.seed(3)
    wanted = mx.random.uniform().item()
    mx.random.seed(3)
    zoo.quantise(model_of(), 4)
    assert mx.random.uniform().item() == wanted


@needs_product
def test_load_with_bits(folder) -> None:
    model, _ = lablib.load(folder, bits=4)
    plain, _ = lablib.load(folder)
    assert type(model.model.layers[0].mlp.down_proj) is stored.StoredLinear
    assert not model.training
    nn.quantize(plain, group_size=32, bits=4)
    ids = mx.arange(9)[None]
    assert far(model(ids), plain(ids)) < 1e-3 * far(plain(ids), 0)
    size = sum(a.nbytes for _, a in parameters(model))
    whole = sum(a.nbytes for _, a in parameters(model_of()))
    assert size < 0.25 * whole


@pytest.mark.parametrize("bits", [0, 3, "4", 16, 4.5])
def test_other_bits_are_refused(folder, bits) -> None:
    with pytest.raises(BadValue, match="bits must be one of 4, 8"):
        lablib.load(folder, bits=bits)


def test_what_is_quantised_already_is_refused(folder) -> None:
    model, _ = lablib.load(folder)
    nn.quantize(model, group_size=64, bits=8)
    with pytest.raises(BadValue, match=r"bits must be None, got 4: .* codes already"):
        zoo.quantise(model, 4)


def test_codes_are_not_saved_as_if_they_were_weights(folder, tmp_path) -> None:
    model, tokenizer = lablib.load(folder, bits=8)
    with pytest.raises(ValueError, match=r"save the one .* with dtype=.*, and without bits="):
        lablib.save(model, tokenizer, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_without_the_product_a_model_loads_as_before(folder, monkeypatch) -> None:
    monkeypatch.setattr(stored_weights, "_made", lambda: (None, "no C++ compiler"))
    with pytest.warns(RuntimeWarning, match=r"can't be had here: no C\+\+ compiler"):
        model, _ = lablib.load(folder, bits=8)
    assert type(model.model.layers[0].mlp.down_proj) is nn.QuantizedLinear


@needs_product
@pytest.mark.parametrize("bits", [4, 8])
def test_a_directory_of_mlx_lms_opens_as_stored(tmp_path, tokenizer_file, bits, recwarn) -> None:
    from mlx_lm.models import llama

    save(model_of(), tokenizer_file, tmp_path)
    keys = json.loads((tmp_path / "config.json").read_text())
    theirs = llama.Model(llama.ModelArgs.from_dict(keys))
    theirs.load_weights(list(mx.load(str(tmp_path / "model.safetensors")).items()))
    nn.quantize(theirs, group_size=32, bits=bits)
    mx.save_safetensors(str(tmp_path / "model.safetensors"), dict(parameters(theirs)))
    del keys["lablib"]
    layout = {"quantization": {"group_size": 32, "bits": bits}}
    (tmp_path / "config.json").write_text(json.dumps(keys | layout))
    model, _ = lablib.load(tmp_path)
    assert not [w for w in recwarn if "has weights of" in str(w.message)]
    theirs.set_dtype(mx.float32)
    ids = mx.arange(9)[None]
    assert far(model(ids), theirs(ids)) < 1e-3 * far(theirs(ids), 0)
    with pytest.raises(BadValue, match="codes already"):
        lablib.load(tmp_path, bits=bits)


# --- verification equals plain decoding ---------------------------------------------------------
@needs_product
@pytest.mark.parametrize("pieces", [[20, 1, 1, 1, 1], [8, 16], [7, 17], [23, 1], [1] * 24])
def test_logits_have_the_same_bits_however_a_text_is_read(pieces: list[int]) -> None:
    model = model_of()
    zoo.quantise(model, 4)
    stored.keep_as_stored(model)
    ids = mx.arange(24)[None] * 5 % V
    with lablib.same_bits():
        whole = model(ids)
        mx.eval(whole)
        found = logits_in_pieces(model, ids, pieces)
        assert mx.array_equal(found, whole)


@needs_product
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_change_no_text(temperature: float) -> None:
    target, draft = model_of(), model_of(seed=1)
    for model, bits in ((target, 4), (draft, 8)):
        zoo.quantise(model, bits)
        stored.keep_as_stored(model)
    prompt = mx.array([[3, 1, 4, 1, 5]])
    how = {"max_tokens": 40, "temperature": temperature, "seed": 5, "rule": "match"}
    with_drafts, _ = lablib.speculative_decode(target, draft, prompt, **how)
    how.pop("rule")
    (plain,) = lablib.sample_n(target, prompt, 1, **how).tokens
    assert with_drafts[0].tolist()[5:] == plain
