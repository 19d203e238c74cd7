"""Saving, loading and refusing to load; every shipped model opens in mlx-lm too."""

import json
import os
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

from lablib import models
from lablib.machine import stored_weights
from lablib.models import LanguageModel, files, gpt_config, hybrid_config, llama_config, zoo
from lablib.tools.saving import save

import mlx.core as mx
import mlx.nn as nn
import mlx_lm
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.tokenizer_utils import TokenizerWrapper
from oracles.refusals import refuses
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as token_models

V = 48
CONFIGS = {
    "llama": llama_config(V, 16, 4, 2, n_kv_heads=2, tie_word_embeddings=False),
    "gpt": gpt_config(V, 16, 2, 2),
    "hybrid": hybrid_config(V, 16, 2, 3),
}
TEXT = "a cab bad ace"
LOADED = mx.float16 if mx.default_device() == mx.gpu else mx.float32  # as it is stored there


@pytest.fixture(scope="module")
def tokenizer():
    alphabet = ["<unk>", "<s>", "</s>", *(chr(97 + i) for i in range(26)), " ", "\n"]
    vocabulary = {letter: i for i, letter in enumerate(alphabet)}
    made = Tokenizer(token_models.BPE(vocabulary, [], unk_token="<unk>"))
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    made.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
    made.decoder = decoders.Fuse()
    return made


@pytest.fixture(params=CONFIGS)
def kind(request):
    return request.param


@pytest.fixture
def saved(kind, tokenizer, tmp_path):
    return save(LanguageModel(CONFIGS[kind], seed=1), tokenizer, tmp_path / kind)


@pytest.fixture
def llama(tokenizer, tmp_path):
    return save(LanguageModel(CONFIGS["llama"], seed=1), tokenizer, tmp_path / "llama")


def logits(model, tokenizer):
    return np.array(model(mx.array([tokenizer.encode(TEXT)])).astype(mx.float32))


def types(model):
    return {weight.dtype for _, weight in tree_flatten(model.parameters())}


def edit_json(path, **changes):
    keys = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in keys.items() if v is not ...}))


def refusal(path, **options):
    """The one line with which ``load`` refuses."""
    with pytest.raises((ValueError, TypeError)) as caught:
        zoo.load(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- there and back ---------------------------------------------------------------------------
def test_round_trip(kind, saved):
    original = LanguageModel(CONFIGS[kind], seed=1)
    stored = mx.load(str(saved / "model.safetensors"))
    assert {w.dtype for w in stored.values()} == {mx.float16}
    model, tokenizer = zoo.load(saved)
    assert isinstance(model, LanguageModel)
    assert model.config == original.config
    assert not model.training
    for name, weight in tree_flatten(model.parameters()):
        assert weight.dtype == LOADED
        assert mx.array_equal(weight, stored[name].astype(LOADED))
    assert isinstance(tokenizer, TokenizerWrapper)
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    assert (tokenizer.bos_token_id, tokenizer.eos_token_ids) == (1, {2})
    np.testing.assert_allclose(logits(model, tokenizer), logits(original, tokenizer), atol=0.02)


def test_mlx_lm_opens_it(kind, saved):
    if kind != "llama":
        refuses(ValueError, "trust_remote_code", mlx_lm.load, str(saved))
    theirs, tokenizer = mlx_lm.load(str(saved), trust_remote_code=kind != "llama")
    theirs.set_dtype(mx.float32)
    ours, own_tokenizer = zoo.load(str(saved), mx.float32)
    assert own_tokenizer.encode(TEXT) == tokenizer.encode(TEXT)
    assert tokenizer.eos_token_ids == own_tokenizer.eos_token_ids
    np.testing.assert_allclose(logits(ours, tokenizer), logits(theirs, tokenizer), atol=1e-4)
    home = "mlx_lm.models.llama" if kind == "llama" else "lablib.models.base"
    assert type(theirs).__module__ == home


def test_loading_makes_no_noise(saved, capfd):
    zoo.load(saved)
    assert capfd.readouterr() == ("", "")


def test_saving_what_was_loaded(saved, tmp_path):
    model, tokenizer = zoo.load(saved)
    for source in (tokenizer, saved, str(saved)):
        again, its_tokenizer = zoo.load(save(model, source, tmp_path / "again"))
        np.testing.assert_array_equal(logits(again, its_tokenizer), logits(model, tokenizer))
        assert its_tokenizer.eos_token_ids == {2}
    for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
        assert (saved / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert not list(tmp_path.glob("**/.writing-*"))


def test_saving_beside_other_files(llama, tokenizer):
    (llama / "README.md").write_text("kept")
    model = LanguageModel(CONFIGS["llama"], seed=2)
    save(model, llama, llama, dtype=None, extra={"training.json": {"loss": 1.5}})
    assert (llama / "README.md").read_text() == "kept"
    assert json.loads((llama / "training.json").read_text()) == {"loss": 1.5}
    loaded, _ = zoo.load(llama)
    found = dict(tree_flatten(loaded.parameters()))
    wanted = tree_flatten(model.parameters())
    assert len(found) == len(wanted)
    assert all(mx.array_equal(weight, found[name]) for name, weight in wanted)


@pytest.mark.skipif(mx.default_device() == mx.gpu, reason="a GPU multiplies all of them")
def test_what_a_cpu_is_slow_at_is_said_in_one_line():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zoo.load("draft")
    words = "draft has weights of float16: .* bypass the BLAS"
    with pytest.warns(RuntimeWarning, match=words) as said:
        zoo.load("draft", dtype=mx.float16)
    assert [warning.filename for warning in said] == [__file__]


def quantise(folder):
    """Make a directory of ours one of mlx-lm's Llama, with quantised weights."""
    from mlx_lm.models import llama

    keys = llama_config(V, 64, 2, 1, d_ff=128).to_dict()
    model = llama.Model(llama.ModelArgs.from_dict(keys))
    nn.quantize(model, **(layout := {"group_size": 64, "bits": 4}))
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    del keys["lablib"]
    (folder / "config.json").write_text(json.dumps(keys | {"quantization": layout}))


@pytest.fixture
def no_compiler(monkeypatch):
    """Nothing of ours multiplies by stored weights."""
    monkeypatch.setattr(stored_weights, "_made", lambda: (None, "no C++ compiler"))


@pytest.mark.skipif(mx.default_device() == mx.gpu, reason="a GPU adds up in float32")
@pytest.mark.parametrize(("dtype", "off"), [(mx.bfloat16, "7 %"), (mx.float16, "1 %")])
def test_quantised_weights_in_half_precision_are_said_to_be_wrong_not_only_slow(
    llama, dtype, off, no_compiler
):
    quantise(llama)
    words = f"slower than float32's, and .* quantised .* wrong by up to {off} at 4,096 inputs"
    with pytest.warns(RuntimeWarning, match=words):
        zoo.load(llama, dtype=dtype)


@pytest.mark.skipif(mx.default_device() == mx.gpu, reason="a GPU adds up in float32")
def test_quantised_weights_in_float32_are_said_to_be_slow_only(llama, no_compiler):
    quantise(llama)
    words = "uint32: .* slower than float32's; lablib's own can't be had here: no C.. compiler$"
    with pytest.warns(RuntimeWarning, match=words):
        zoo.load(llama)


@pytest.mark.skipif(mx.default_device() == mx.gpu, reason="a GPU adds up in float32")
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(mx.float32, 0, 1e-5), (mx.float16, 0.002, 0.02), (mx.bfloat16, 0.02, 0.14)],
)
def test_the_warning_about_quantised_products_is_true(dtype, low, high):
    """Against float64 with the same weights. Once MLX adds them up in float32, the words go."""
    keys = mx.random.split(mx.random.key(0))
    weight = mx.quantize(mx.random.normal((64, 4096), key=keys[0]), group_size=64, bits=4)
    inputs = mx.random.normal((4, 4096), key=keys[1]).astype(dtype)
    scales = [each.astype(dtype) for each in weight[1:]]
    found = mx.quantized_matmul(inputs, weight[0], *scales, group_size=64, bits=4)
    exact = [each.astype(mx.float32) for each in (*scales, inputs)]
    dense = np.array(mx.dequantize(weight[0], *exact[:2], group_size=64, bits=4), np.float64)
    wanted = np.array(exact[2], np.float64) @ dense.T
    error = np.array(found.astype(mx.float32)) - wanted
    assert low <= np.sqrt(np.mean(error**2) / np.mean(wanted**2)) <= high


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_asking_for_a_type(llama, dtype):
    assert types(zoo.load(llama, dtype=dtype)[0]) == {dtype}


def test_a_gpu_computes_in_the_stored_type(llama, monkeypatch):
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    assert types(zoo.load(llama)[0]) == {mx.float16}


def test_shipped_names(llama, monkeypatch):
    monkeypatch.setattr(zoo, "CHECKPOINTS", llama.parent)
    (llama.parent / "unfinished").mkdir()
    assert zoo.names() == ["llama"]
    assert zoo.load("llama")[0].config == CONFIGS["llama"]
    assert "shipped model ('llama')" in refusal("lama")


@pytest.mark.parametrize("name", zoo.names())
def test_a_shipped_model_opens_here_and_in_mlx_lm(name):
    ours, tokenizer = zoo.load(name, mx.float32)
    path = zoo.CHECKPOINTS / name
    stored = mx.load(str(path / "model.safetensors"))
    assert {w.dtype for w in stored.values()} == {mx.float16}
    theirs, _ = mlx_lm.load(str(path), trust_remote_code=ours.config.model_type != "llama")
    theirs.set_dtype(mx.float32)
    tokens = mx.random.randint(0, ours.vocab_size, (2, 64), key=mx.random.key(0))
    assert mx.abs(ours(tokens) - theirs(tokens)).max().item() < 1e-4
    assert tokenizer.eos_token_ids


def test_loading_keeps_the_global_random_state(llama):
    mx.random.seed(5)
    expected = mx.random.uniform(shape=(4,)).tolist()
    mx.random.seed(5)
    zoo.load(llama)
    assert mx.random.uniform(shape=(4,)).tolist() == expected


# --- other people's models --------------------------------------------------------------------
def make_foreign(folder):
    """Make a directory of ours one of mlx-lm's Qwen 3."""
    from mlx_lm.models import qwen3

    keys = json.loads((folder / "config.json").read_text()) | {"model_type": "qwen3"}
    del keys["lablib"]
    other = qwen3.Model(qwen3.ModelArgs.from_dict(keys))
    other.set_dtype(mx.float16)
    weights = dict(tree_flatten(other.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(keys))


def test_an_adapter_and_the_tokenizers_options_reach_mlx_lm(llama, tmp_path):
    from mlx_lm.tuner.utils import linear_to_lora_layers

    make_foreign(llama)
    plain, _ = zoo.load(llama)
    adapted, _ = zoo.load(llama)
    lora = {"rank": 2, "scale": 3.0, "dropout": 0.0}
    linear_to_lora_layers(adapted, 1, lora)
    weights = [(n, w) for n, w in tree_flatten(adapted.trainable_parameters()) if "lora" in n]
    weights = {name: mx.full(weight.shape, 0.1) for name, weight in weights}
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    mx.save_safetensors(str(adapter / "adapters.safetensors"), weights)
    settings = {"fine_tune_type": "lora", "num_layers": 1, "lora_parameters": lora}
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    wanted = adapted.load_weights(list(weights.items()), strict=False)
    options = {"adapter_path": adapter, "tokenizer_config": {"eos_token": "#"}}
    found, tokenizer = zoo.load(llama, **options)
    tokens = mx.array([[3, 4, 5]])
    assert mx.allclose(found(tokens), wanted(tokens), atol=1e-4).item()
    assert not mx.allclose(found(tokens), plain(tokens), atol=1e-2).item()
    assert tokenizer.eos_token == "#"


@pytest.mark.parametrize(
    ("lora", "said"),
    [
        ({"rank": 100_000}, "lacks model.layers.1.self_attn.q_proj.lora_a, which its adapter_conf"),
        ({"scale": float("nan")}, "adapter_config.json: scale must be"),
        ({"scale": "3"}, "adapter_config.json: scale must be"),
    ],
)
def test_an_adapter_that_is_not_whole_is_refused(lora, said, llama, tmp_path):
    """What it lacks mlx-lm would draw: a hundred letters, and all memory is full."""
    make_foreign(llama)
    lora = {"rank": 2, "scale": 3.0, "dropout": 0.0} | lora
    settings = {"fine_tune_type": "lora", "num_layers": 1, "lora_parameters": lora}
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings))
    mx.save_safetensors(str(tmp_path / "adapters.safetensors"), {})
    assert said in refusal(llama, adapter_path=tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"adapter_path": "no/such"}, "adapter_path must hold adapters.safetensors"),
        ({"adapter_path": 3}, "adapter_path must be a text"),
        ({"revision": "main"}, "revision is of a hub id"),
        ({"revision": ""}, "revision must be a text"),
        ({"tokenizer_config": [1]}, "tokenizer_config must be a mapping"),
        ({"tokenizer_config": {"trust_remote_code": True}}, "load runs no code of a model's"),
        ({"tokenizer_config": {"eos_token": "#"}}, "for models of mlx-lm's own classes"),
    ],
)
def test_options_of_mlx_lm_that_can_not_be_honoured_are_refused(options, said, llama):
    assert said in refusal(llama, **options)


def test_another_architecture_goes_through_mlx_lm(llama):
    from mlx_lm.models import qwen3

    make_foreign(llama)
    model, tokenizer = zoo.load(llama)
    assert isinstance(model, qwen3.Model)
    assert isinstance(tokenizer, TokenizerWrapper)
    assert types(model) == {LOADED}
    (llama / "model.safetensors").unlink()
    said = f"name: could not load {str(llama)!r} with mlx-lm: No safetens"
    assert refusal(llama).startswith(said)


def test_an_architecture_that_leaves_python_is_refused_by_name(llama):
    """mlx-lm's ``olmo`` calls ``exit(1)`` where a package of its own is missing."""
    make_foreign(llama)
    edit_json(llama / "config.json", model_type="olmo")
    assert refusal(llama).startswith(f"name: could not load {str(llama)!r} with mlx-lm: ")


def test_a_hub_id_goes_to_mlx_lm(monkeypatch):
    asked = []

    def load(name, tokenizer_config):
        assert tokenizer_config == {"trust_remote_code": False}
        asked.append(name)
        return LanguageModel(CONFIGS["llama"], seed=0), SimpleNamespace(eos_token_ids={2, None})

    monkeypatch.setattr(mlx_lm, "load", load)
    model, tokenizer = zoo.load("mlx-community/Qwen3-0.6B-4bit", dtype=mx.float16)
    assert asked == ["mlx-community/Qwen3-0.6B-4bit"]
    assert model.stop_tokens == {2}  # of a tokenizer that says None of one
    assert tokenizer.eos_token_ids == {2, None}
    assert model.model.norm.weight.dtype == mx.float16

    def offline(name, **settings):
        raise ConnectionError("no network\nwith many more lines")

    monkeypatch.setattr(mlx_lm, "load", offline)
    said = "name: could not load 'some/model' from the Hugging Face hub: no network with many more"
    assert refusal("some/model") == f"{said} lines"


@pytest.mark.parametrize("name", ["targett", "./no/such/dir", "/no/such", "a/b/c", "", "draft.txt"])
def test_an_unknown_name_never_reaches_the_hub(name, monkeypatch):
    monkeypatch.setattr(mlx_lm, "load", lambda *_, **__: pytest.fail("asked the hub"))
    message = refusal(name)
    assert message.startswith("name must be a shipped model (")
    assert "a directory such as './my_model'" in message
    assert repr(name) in message or not name


@pytest.mark.parametrize("name", ["a" * 5000, "a/" + "b" * 5000, "a\0b", Path("a" * 5000)])
def test_a_name_that_no_path_can_have(name, monkeypatch):
    monkeypatch.setattr(mlx_lm, "load", lambda *_, **__: pytest.fail("asked the hub"))
    message = refusal(name)
    assert message.startswith("name must be a shipped model (")
    assert len(message) < 400


@pytest.fixture
def code(llama, monkeypatch):
    """A model's own tokenizer code, which leaves a mark where it runs; nobody may be asked."""
    mark = llama / "it ran"
    (llama / "own.py").write_text(
        f"open({str(mark)!r}, 'w')\nfrom transformers import PreTrainedTokenizerFast as Own\n"
    )
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked on the terminal"))
    monkeypatch.setenv("HF_MODULES_CACHE", str(llama / "modules"))
    yield {"auto_map": {"AutoTokenizer": [None, "own.Own"], "AutoConfig": "own.Own"}}
    assert not mark.exists()


@pytest.mark.parametrize("foreign", [False, True])
def test_a_tokenizers_own_code_is_refused_by_name(llama, code, foreign):
    if foreign:
        edit_json(llama / "config.json", lablib=..., model_type="llama")
    edit_json(llama / "tokenizer_config.json", **code)
    file = llama / "tokenizer_config.json"
    assert refusal(llama).startswith(f"{file}: auto_map names code of the model's own")


@pytest.mark.parametrize(
    "settings",
    [{"group_size": 0, "bits": 4}, {"group_size": 32, "bits": 4, "model.norm": {"group_size": 0}}],
)
@pytest.mark.parametrize("name", ["quantization", "quantization_config"])
def test_groups_of_no_weights_are_refused(llama, name, settings):
    """MLX divides by the number, and the process would end by a signal."""
    edit_json(llama / "config.json", lablib=..., model_type="llama", **{name: settings})
    assert refusal(llama).endswith("group_size must be at least 1, got 0")


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("name", ["AutoProcessor", "AutoFeatureExtractor", "AutoImageProcessor"])
def test_a_tokenizer_that_is_none_runs_no_code_either(llama, code, name, foreign):
    """transformers takes any of its names for a tokenizer's class, and these ask for themselves."""
    if foreign:
        edit_json(llama / "config.json", lablib=..., model_type="llama")
    edit_json(llama / "tokenizer_config.json", tokenizer_class=name)
    own = {"auto_map": {name: "own.Own"}}
    for file in ("processor_config.json", "preprocessor_config.json"):
        (llama / file).write_text(json.dumps(own))
    assert "execute custom code contained in the model repository" in refusal(llama)


def test_a_configs_own_code_does_not_run(llama, code):
    """Many models on the hub name such code, for transformers; mlx-lm has its own."""
    edit_json(llama / "config.json", lablib=..., **code)
    model, _ = zoo.load(llama)
    assert type(model).__module__ == "mlx_lm.models.llama"


# --- what is refused --------------------------------------------------------------------------
TYPES = "dtype must be float32, float16, bfloat16"
ARGUMENTS = [
    (None, {}, "name must be a model's name or path, got None"),
    (np.eye(30), {}, "name must be a model's name or path, got array("),
    (np.array(["draft"]), {}, "name must be a model's name or path, got arr"),
    (..., {"dtype": np.eye(3)}, TYPES),
    (..., {"dtype": "float16"}, TYPES),
    (..., {"dtype": mx.int32}, TYPES),
]


@pytest.mark.parametrize(("name", "options", "said"), ARGUMENTS)
def test_wrong_types(name, options, said, llama):
    assert refusal(llama if name is ... else name, **options).startswith(said)


def nothing(path):
    path.unlink()


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name")
LACKING = [(name, nothing) for name in ("model.safetensors", "tokenizer.json", "config.json")]
PIPED = ("config.json", "tokenizer_config.json", "tokenizer.json")
LACKING += [pytest.param(name, a_pipe, marks=PIPES) for name in PIPED]


@pytest.mark.parametrize(("file", "make"), LACKING)
def test_a_missing_file_or_one_that_nobody_writes(llama, file, make):
    make(llama / file)
    assert refusal(llama) == f"{llama / file} is missing: a model directory needs it"


@pytest.mark.parametrize("kept", [*(slice(n) for n in (0, 5, 60, 2000, -1)), b"no safetensors" * 9])
def test_truncated_weights(llama, kept):
    path = llama / "model.safetensors"
    path.write_bytes(path.read_bytes()[kept] if isinstance(kept, slice) else kept)
    assert refusal(llama).startswith(f"{path} is corrupt or truncated: ")


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_corrupt_weights(llama, dtype, number):
    path = llama / "model.safetensors"
    weights = {name: each.astype(dtype) for name, each in mx.load(str(path)).items()}
    weights["model.norm.weight"][1] = float(number)
    mx.save_safetensors(str(path), weights)
    said = "model.norm.weight must hold finite floating-point numbers"
    assert refusal(llama) == f"{path} is corrupt: {said}"


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_the_largest_weights_are_no_corruption(llama, dtype):
    path, most = llama / "model.safetensors", mx.finfo(dtype).max
    weights = {name: each.astype(dtype) for name, each in mx.load(str(path)).items()}
    weights["model.norm.weight"][:4] = mx.array([most, -most, -0.0, 0.0])
    mx.save_safetensors(str(path), weights)
    norm = models.load(llama)[0].parameters()["model"]["norm"]["weight"]
    assert norm[:4].tolist() == mx.array([most, -most, -0.0, 0.0]).astype(dtype).tolist()


@pytest.mark.parametrize("whose", ["ours", "mlx-lm's", "an adapter's"])
def test_weights_upon_each_other(llama, whose, tmp_path):
    """Else each entry of a header would cost the memory of an array that is there once."""
    options, path = {}, llama / "model.safetensors"
    data = path.read_bytes()
    if whose != "ours":
        make_foreign(llama)
    if whose == "an adapter's":
        options, path = {"adapter_path": tmp_path}, tmp_path / "adapters.safetensors"
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    largest = max(header.values(), key=lambda entry: np.prod(entry.get("shape", [0])))
    header |= {f"copy.{i}": largest for i in range(1000)}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
    wanted = f"{path} is corrupt or truncated: its arrays lie upon each other"
    assert refusal(llama, **options) == wanted


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("many", "said"),
    [
        ({"num_hidden_layers": 10**5}, "num_hidden_layers"),
        ({"hybrid_override_pattern": "-" * 10**5}, "the length of hybrid_override_pattern"),
        ({"layer_types": ["full_attention"] * 10**5}, "the length of layer_types"),
    ],
)
def test_layers_without_end_are_refused(llama, inside, many, said):
    """mlx-lm would begin to build them."""
    make_foreign(llama)
    edit_json(llama / "config.json", **({"text_config": many} if inside else many))
    assert refusal(llama).endswith(f"{said} must be at most 1000, got 100000")


DBRX = {
    "model_type": "dbrx", "vocab_size": 40, "d_model": 8, "n_layers": 1, "n_heads": 2,
    "ffn_config": {"ffn_hidden_size": 8, "moe_num_experts": 3 * 10**5, "moe_top_k": 1},
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 1.0, "rope_theta": 1e4},
}  # fmt: skip


def test_experts_without_end_are_refused(llama, monkeypatch):
    """Fifty million of them, of 1 KB of text, took all memory."""
    monkeypatch.setattr(files, "MOST_MODULES", 2000)
    before = nn.Module.__init__
    (llama / "config.json").write_text(json.dumps(DBRX))
    assert refusal(llama).endswith("its config.json asks for more than 2,000 modules")
    assert nn.Module.__init__ is before


@pytest.mark.parametrize("name", ["extra_ids", "offset"])
def test_tokens_without_end_are_refused(llama, name):
    """Transformers would make each."""
    edit_json(llama / "tokenizer_config.json", **{name: 10**9})
    assert refusal(llama).endswith(f"{name} must be at most 1000000, got 1000000000")


def test_a_file_of_gigabytes_is_refused_unread(llama):
    with open(llama / "config.json", "ab") as file:
        file.truncate(3 * 2**30)  # it has holes, and takes no room
    assert refusal(llama) == f"{llama / 'config.json'} has more than 256 MB"


def test_weights_of_another_model(llama):
    path = llama / "model.safetensors"
    good, lost = mx.load(str(path)), ("model.norm.weight", "lm_head.weight")
    shapes = "Expected shape (16,) but received shape (3,)"
    for changes, message in (
        (dict.fromkeys(lost), "Missing 2 parameters: lm_head.weight, model.norm.weight."),
        ({"model.extra": mx.ones(3)}, "Received 1 parameters not in model: model.extra."),
        ({"model.norm.weight": mx.ones(3)}, f"{shapes} for parameter model.norm.weight"),
    ):
        weights = {n: w for n, w in (good | changes).items() if w is not None}
        mx.save_safetensors(str(path), weights)
        assert refusal(llama) == f"{path} does not fit its config.json: {message}"


def change_weights(folder, changes, file="model.safetensors"):
    """Write the weights of a directory again: None is lost, ``...`` are an FP8's bytes."""
    path = folder / "model.safetensors"
    good = mx.load(str(path))
    new = {n: w for n, w in (good | changes).items() if w is not None}
    new = {n: mx.full(good[n].shape, 60, mx.uint8) if w is ... else w for n, w in new.items()}
    path.unlink()
    mx.save_safetensors(str(folder / file), new, {"format": "mlx"})
    return good


LAYER = "model.layers.1.self_attn"
SCALES = {f"model.layers.{i}.mlp.{n}_proj.weight_scale_inv": mx.ones(1) for n in "ab" for i in "01"}
LOST = {f"model.layers.{i}.self_attn.{n}_proj.weight": None for n in "qkvo" for i in "01"}


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model.extra": mx.ones(3)}, "Received 1 parameters not in model: model.extra."),
        ({"model.norm.weight": None}, "Missing 1 parameters: model.norm.weight."),
        (
            LOST,
            "Missing 8 parameters: model.layers.0.self_attn.k_proj.weight, "
            "model.layers.0.self_attn.o_proj.weight, model.layers.0.self_attn.q_proj.weight, "
            "and 5 more",
        ),
        (
            SCALES,
            "Received 4 parameters not in model: model.layers.0.mlp.a_proj.weight_scale_inv, "
            "model.layers.0.mlp.b_proj.weight_scale_inv, "
            "model.layers.1.mlp.a_proj.weight_scale_inv, and 1 more",
        ),
    ],
)
def test_parameters_that_do_not_fit_are_named_the_first_and_how_many_more(
    llama, foreign, changes, said
):
    if foreign:
        make_foreign(llama)
    change_weights(llama, changes)
    assert refusal(llama).endswith(f": {said}")


def test_the_head_of_a_tied_model_is_named(llama):
    """mlx-lm's Gemma has no head of its own, whatever its config.json says."""
    edit_json(llama / "config.json", lablib=..., model_type="gemma", head_dim=4)
    refused = refusal(llama)
    assert "Received" in refused
    assert "not in model: lm_head.weight" in refused


@pytest.mark.parametrize("index", ["whole", "broken", None])
def test_a_missing_shard_is_named_by_its_file(llama, index):
    make_foreign(llama)
    names = change_weights(llama, LOST, "model-00001-of-00002.safetensors")
    shards = {name: f"model-0000{1 + (name in LOST)}-of-00002.safetensors" for name in names}
    text = json.dumps({"weight_map": shards}) if index == "whole" else "{"
    if index:
        (llama / "model.safetensors.index.json").write_text(text)
    lost = "model-00002-of-00002.safetensors is missing, which its index names: "
    why = (lost if index == "whole" else "") + "Missing 8 parameters: model.layers.0."
    assert f"with mlx-lm: {why}" in refusal(llama)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"model_type": ...}, "KeyError 'model_type'"),
        ({"quantization": {"bits": 4}}, "KeyError 'group_size'"),
        ({"hidden_size": ...}, "missing 1 required positional argument: 'hidden_size'"),
    ],
)
def test_a_key_that_mlx_lm_lacks_is_called_one(llama, keys, said):
    make_foreign(llama)
    edit_json(llama / "config.json", **keys)
    assert refusal(llama).endswith(said)


def test_all_lines_of_a_reason_are_heard(llama, tmp_path):
    make_foreign(llama)
    (tmp_path / "adapter_config.json").write_text(
        json.dumps({"fine_tune_type": "full", "num_layers": 1, "lora_parameters": {}})
    )
    mx.save_safetensors(str(tmp_path / "adapters.safetensors"), {"model.none": mx.ones(2)})
    said = "incompatible tensors: model.none: not an adapter parameter in the model"
    assert refusal(llama, adapter_path=tmp_path).endswith(said)
    (llama / "tokenizer.json").unlink()
    assert "(1) a `tokenizers` library serialization file" in refusal(llama)


# --- integers for floats ----------------------------------------------------------------------
@pytest.mark.parametrize("kind", [mx.uint8, mx.int8, mx.uint16, mx.uint32])
@pytest.mark.parametrize("names", [("lm_head.weight",), (f"{LAYER}.q_proj.weight", *LOST)])
def test_integers_for_a_layer_of_floats_are_refused_by_name(llama, kind, names):
    """The bytes of FP8 come as uint8, and no config.json says so: they would be numbers to 255."""
    make_foreign(llama)
    old = mx.load(str(llama / "model.safetensors"))
    change_weights(llama, {name: mx.full(old[name].shape, 60, kind) for name in names})
    refused, many = refusal(llama), len({*names})
    assert f": {many} parameters are of {str(kind)[9:]}, and the model's are floats" in refused
    assert f"{min(names)}" in refused
    assert refused.endswith("and 5 more") == (many == 8)


def test_integers_in_an_adapter_are_refused_by_name(llama, tmp_path):
    make_foreign(llama)
    (tmp_path / "adapter_config.json").write_text(
        json.dumps({"fine_tune_type": "full", "num_layers": 1, "lora_parameters": {}})
    )
    bytes_ = mx.full((16,), 60, mx.uint8)
    mx.save_safetensors(str(tmp_path / "adapters.safetensors"), {"model.norm.weight": bytes_})
    refused = refusal(llama, adapter_path=tmp_path)
    assert refused.endswith("not name): model.norm.weight")


def saved_as(folder, module, keys, changes=()):
    """Write a model of mlx-lm's as it stands."""
    keys = json.loads((folder / "config.json").read_text()) | keys
    keys.pop("lablib", None)
    weights = dict(tree_flatten(module.parameters())) | dict(changes)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(keys))
    return weights


def qwen(folder, width):
    from mlx_lm.models import qwen3

    sizes = {"hidden_size": width, "intermediate_size": width, "head_dim": width // 4}
    edit_json(folder / "config.json", model_type="qwen3", **sizes)
    return qwen3.Model(qwen3.ModelArgs.from_dict(json.loads((folder / "config.json").read_text())))


@pytest.mark.parametrize("mode", ["affine", "mxfp4", "nvfp4", "mxfp8", "bitnet"])
@pytest.mark.filterwarnings("ignore:.* has weights of:RuntimeWarning")
def test_integers_of_a_packing_that_the_config_names_load_as_before(llama, mode, no_compiler):
    from mlx_lm.models.bitlinear_layers import bitnet_quantize

    model = qwen(llama, 64)
    if mode == "bitnet":
        settings = {"quant_method": "bitnet", "modules_to_not_convert": ["lm_head"]}
        model, keys = bitnet_quantize(model, settings), {"quantization_config": settings}
    else:
        size, bits = {"affine": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}.get(mode, (32, 4))
        nn.quantize(model, group_size=size, bits=bits, mode=mode)
        keys = {"quantization": {"group_size": size, "bits": bits, "mode": mode}}
    weights = saved_as(llama, model, keys)
    wanted = mx.uint32 if mode == "affine" else mx.uint8
    assert wanted in {w.dtype for w in weights.values()}
    loaded = dict(tree_flatten(zoo.load(llama)[0].parameters()))
    for name, weight in weights.items():
        if not mx.issubdtype(weight.dtype, mx.floating):
            assert loaded[name].dtype == weight.dtype
            assert mx.array_equal(loaded[name], weight)


@pytest.mark.parametrize("made", [mx.int32, mx.uint8, mx.float32])
@pytest.mark.filterwarnings("ignore:.* has weights of:RuntimeWarning")
def test_tables_of_ids_load_as_before(llama, monkeypatch, made):
    """A model may make room for them as floats, too."""
    from mlx_lm.models import qwen3

    class Model(qwen3.Model):
        def __init__(self, args):
            super().__init__(args)
            self.table = mx.zeros((V,), made)

    make_foreign(llama)
    monkeypatch.setattr(qwen3, "Model", Model)
    kind = mx.int64 if made == mx.float32 else made
    change_weights(llama, {"table": mx.arange(V).astype(kind)})
    loaded, _ = zoo.load(llama)
    assert loaded.table.tolist() == list(range(V))
    assert loaded.table.dtype == kind


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": ...}, "the config lacks 'hidden_size'"),
        ({"hiden_size": 16}, "the config has the unknown key 'hiden_size'"),
        ({"rope_scaling": {"factor": 2}}, "the config has the unknown key 'rope_scaling'"),
        ({"hidden_size": "16"}, "hidden_size must be an int, got '16'"),
        ({"num_hidden_layers": -1}, "num_hidden_layers must be at least 1, got -1"),
        ({"norm": "batch"}, "norm must be one of 'rms', 'layer', got 'batch'"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false, got 'no'"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps must be a number, got 'small'"),
        ({"layer_types": 3}, "layer_types must be a list of names, got 3"),
        ({"layer_types": ["full_attention"]}, "layer_types must name 2 layers, got 1"),
        ({"model_type": "gpt2"}, "model_type must be one of 'llama', got 'gpt2'"),
        ({"num_key_value_heads": 3}, "num_key_value_heads must divide the 4 attention heads"),
        ({"vocab_size": 10**12}, "vocab_size must be at most 2147483647, got 1000000000000"),
        ({"vocab_size": 2**31}, "vocab_size must be at most 2147483647, got 2147483648"),
        ({"head_dim": 2**31 - 2}, "head_dim must be between 1 and 536870911, got 2147483646"),
        ({"hidden_size": 10**12}, "hidden_size must be at most 2147483647, got 1000000000000"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be at most 1000, got 100000"),
        ({"eos_token_id": "x"}, "eos_token_id must be an int, got 'x'"),
        ({"eos_token_id": -5}, "eos_token_id must be between 0 and 47, got -5"),
        ({"eos_token_id": 10**9}, "eos_token_id must be between 0 and 47, got 1000000000"),
        ({"eos_token_id": [2, V]}, "eos_token_id must be between 0 and 47, got 48"),
        ({"eos_token_id": [2, None]}, "eos_token_id must be an int, got None"),
        ({"eos_token_id": [[2]]}, "eos_token_id must be an int, got [2]"),
        ({"eos_token_id": {"a": 1}}, "eos_token_id must be an int, got {'a': 1}"),
        ({"eos_token_id": True}, "eos_token_id must be an int, got True"),
        ({"eos_token_id": 10**9, "lablib": ...}, "eos_token_id must be between 0 and 47, got 1000"),
        ({"eos_token_id": -5, "lablib": ..., "vocab_size": ...}, "eos_token_id must be at least 0"),
    ],
)
def test_a_bad_config(llama, changes, message):
    edit_json(llama / "config.json", **changes)
    assert refusal(llama).startswith(f"{llama / 'config.json'}: {message}")


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("x", "must be an int, got 'x'"),
        (-5, "must be between 0 and 47, got -5"),
        (10**9, "must be between 0 and 47, got 1000000000"),
        ([2, None], "must be an int, got None"),
        ({"a": 1}, "must be an int, got {'a': 1}"),
        (True, "must be an int, got True"),
        (1.5, "must be an int, got 1.5"),
    ],
)
def test_a_bad_end_in_what_goes_before_the_config(llama, end, message):
    """mlx-lm takes the ends of a foreign model from there."""
    edit_json(llama / "config.json", lablib=..., model_type="llama")
    file = llama / "generation_config.json"
    file.write_text(json.dumps({"eos_token_id": end}))
    assert refusal(llama).startswith(f"{file}: eos_token_id {message}")
    file.write_text(json.dumps({"eos_token_id": [2, 3]}))
    assert zoo.load(llama)[1].eos_token_ids == {2, 3}
    edit_json(llama / "config.json", vocab_size=..., text_config={"vocab_size": V})
    file.write_text(json.dumps({"eos_token_id": V}))
    assert refusal(llama).startswith(f"{file}: eos_token_id must be between 0 and 47, got 48")


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("model_max_length", "x", "must be a number, got 'x'"),
        ("model_max_length", True, "must be a number, got True"),
        ("model_max_length", [512], "must be a number, got [512]"),
        ("clean_up_tokenization_spaces", "no", "must be true or false, got 'no'"),
        ("split_special_tokens", 1, "must be true or false, got 1"),
        ("tokenizer_class", 3, "must be a text, got 3"),
        ("padding_side", ["left"], "must be a text, got ['left']"),
        ("tool_parser_type", {"a": 1}, "must be a text, got {'a': 1}"),
        ("eos_token", 2, "must be a text or an object, got 2"),
        ("bos_token", ["<s>"], "must be a text or an object, got ['<s>']"),
        ("chat_template", 3, "must be a text, a list or an object, got 3"),
        ("additional_special_tokens", "<s>", "must be a list, got '<s>'"),
        ("model_input_names", "input_ids", "must be a list, got 'input_ids'"),
        ("extra_special_tokens", "<s>", "must be a list or an object, got '<s>'"),
        ("added_tokens_decoder", ["<s>"], "must be an object, got ['<s>']"),
    ],
)
def test_a_field_of_another_type_is_named(llama, field, value, message, foreign):
    if foreign:
        edit_json(llama / "config.json", lablib=..., model_type="llama")
    file = llama / "tokenizer_config.json"
    edit_json(file, **{field: value})
    assert refusal(llama) == f"{file}: {field} {message}"


@pytest.mark.parametrize(
    "fields",
    [
        dict.fromkeys(["model_max_length", "unk_token", "chat_template", "tokenizer_class"]),
        {"model_max_length": 10**30, "max_len": 1e30, "padding_side": "left"},
        {"bos_token": {"__type": "AddedToken", "content": "<s>", "special": True}},
        {"chat_template": [{"name": "default", "template": "{{ messages }}"}]},
        {"extra_special_tokens": {"image_token": "<s>"}, "added_tokens_decoder": {}},
        {"a field of tomorrow": ["anything"]},
    ],
)
def test_fields_that_models_come_with_are_taken(llama, fields):
    edit_json(llama / "tokenizer_config.json", **fields)
    assert zoo.load(llama)[1].encode("a cab")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not readable JSON"),
        ("[1]", "must hold a JSON object"),
        ("[" * 100_000, "is not readable JSON: maximum recursion depth"),
        ('{"a":' * 100_000, "is not readable JSON: maximum recursion depth"),
    ],
)
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_broken_json(llama, name, text, message):
    (llama / name).write_text(text)
    assert refusal(llama).startswith(f"{llama / name} {message}")


def test_a_tokenizer_that_does_not_fit(llama, tokenizer, tmp_path):
    bigger = Tokenizer.from_str(tokenizer.to_str())
    bigger.add_tokens([f"word{i}" for i in range(V)])
    bigger.save(str(llama / "tokenizer.json"))
    message = refusal(llama)
    assert message.startswith(f"{llama / 'tokenizer.json'}: token ids go up to ")
    said = rf"to \d+, but vocab_size in config.json is {V}: this tokenizer belongs to another model"
    assert re.search(said, message)
    (llama / "tokenizer.json").write_text('{"model": "none"}')
    assert refusal(llama).startswith(f"{llama / 'tokenizer.json'} is not a tokenizer: ")


TEMPLATE = {"type": "TemplateProcessing", "pair": [], "special_tokens": {}}
TEMPLATE["single"] = [{"SpecialToken": {"id": "none", "type_id": 0}}]
PANICS = {  # parts of tokenizer.json by which tokenizers panics: when it reads it, or a text
    "characters": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "pieces": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "template": {"post_processor": TEMPLATE},
}


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("part", PANICS)
def test_a_tokenizer_that_panics_is_refused_when_it_is_loaded(part, foreign, llama):
    """What Rust's panic raises is no ``Exception``: nobody's ``except`` sees it."""
    if foreign:
        make_foreign(llama)
    edit_json(llama / "tokenizer.json", **PANICS[part])
    message = refusal(llama)
    assert str(llama) in message
    assert ": tokenizers gave up: " in message


@pytest.mark.parametrize(
    ("prefix", "merge"), [("x", "a é"), ("x", ["a", "é"]), ("aé", "a aéb"), ("#" * 9, "a b")]
)
def test_merges_that_would_end_the_process_are_refused(prefix, merge, llama):
    vocabulary = {"a": 0, "é": 1, "aé": 2, "aéb": 3, "b": 4, "ab": 5}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [merge]}
    edit_json(llama / "tokenizer.json", model=model | {"continuing_subword_prefix": prefix})
    message = refusal(llama)
    assert message.startswith(f"{llama / 'tokenizer.json'}: ")
    assert message.endswith(f" merges what does not begin with {prefix!r}")


def test_merges_of_a_prefix_are_read(llama):
    vocabulary = {"a": 0, "b": 1, "##b": 2, "ab": 3}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [["a", "##b"]]}
    edit_json(llama / "tokenizer.json", model=model | {"continuing_subword_prefix": "##"})
    _, tokenizer = zoo.load(llama)
    assert "ab" in tokenizer.convert_ids_to_tokens(tokenizer.encode("ab"))


def test_what_cannot_be_saved(llama, tokenizer, tmp_path):
    model, target = LanguageModel(CONFIGS["llama"], seed=0), tmp_path / "new"
    for arguments, message in (
        ((nn.Linear(2, 2), tokenizer, target), "model must be a LanguageModel, got Linear"),
        ((model, None, target), "tokenizer must be a tokenizer or a directory, got None"),
        ((model, tmp_path, target), "tokenizer.json is missing"),
        ((model, tokenizer, target, mx.int8), "dtype must be float32, float16, bfloat16"),
    ):
        refuses((ValueError, TypeError), message, save, *arguments)
        assert not target.exists()


def test_public_names():
    assert all(getattr(models, name) is not None for name in models.__all__)
    assert Path(zoo.CHECKPOINTS).parent == Path(models.__file__).parent
