"""GGUF files of Llama models, opened as ``LanguageModel``: one file that other tools pass around.

A GGUF file holds a model's shape, its weights, often rounded to a few bits, and its tokenizer
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). MLX reads the file, once
``gguf_header`` has found that it is whole; here the names are translated, and three conventions
undone: rounded weights, rotated pairs that stand side by side, and the tokenizer as bare lists of
tokens and merges.
"""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from lablib.models.base import LanguageModel
from lablib.models.config import ModelConfig
from lablib.tools import gguf_header
from lablib.tools.saving import save
from lablib.validation import BadType, BadValue, integer, one_of, sequence

import mlx.core as mx
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_TYPES = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0"}  # of most of a file's weights
_TEXTS = ("general.name", "general.license", "tokenizer.chat_template")
_GROUP = 32  # rounded weights that share a scale
_CONTROL = 3  # the type of a token that is no text
_WHOLE = (_CONTROL, 4)  # and of those that are never cut, 4 being text of the user
_WEIGHTS = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
# All that may be said of a Llama: a key that is not here would be ignored, and the model be wrong.
_KEYS = {
    "context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size",
    "attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon",
    "attention.key_length", "attention.value_length", "rope.dimension_count", "rope.freq_base",
}  # fmt: skip
# What a tokenizer cuts out of a text before bytes are merged. ("default", which a file without the
# key means, cuts punctuation and numbers otherwise, and was written where nobody knew better.)
_CUTS = {"smollm": [pre_tokenizers.Digits(individual_digits=True)], "gpt-2": []}


def convert(source: str | Path, out: str | Path) -> Path:
    """Write the model of a GGUF file as a directory that ``lablib.load`` and mlx-lm open.

    Weights are stored in float16, whatever they were rounded to before.

    Raises:
        BadValue: there is no such file, or it is damaged, or it holds what is not known here: an
            architecture other than Llama, weights other than F32, F16, Q4_0, Q4_1 or Q8_0 or
            beyond float16, scaled rotations, or a tokenizer other than GPT-2's or SmolLM's. Nothing
            has been written.
        OSError: there is no room. ``out`` has no ``config.json``, and is no model.
    """
    source = Path(source)
    arrays, keys = _open(source)
    try:
        for key in _TEXTS:
            if not isinstance(keys.get(key, ""), str):
                raise BadType(f"{key} must be a text")
        config = _config(keys, arrays)
        tokenizer, settings = _tokenizer(keys)
        model = _model(config, {_name(name): weight for name, weight in _plain(arrays).items()})
    except KeyError as error:
        raise BadValue(f"{source} lacks {error}") from None
    except (ValueError, TypeError) as error:  # MLX names all weights that are wrong, on new lines
        line = " ".join(str(error).split())
        raise BadValue(f"{source}: {line[:150]}{'...' * (len(line) > 150)}") from None
    origin = {key: keys[key] for key in ("general.name", "general.license") if key in keys}
    with tempfile.TemporaryDirectory() as work:
        Path(work, "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
        Path(work, "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        extra = {"origin.json": origin | {"file": source.name}}
        return save(model, work, Path(out), mx.float16, extra)


def _open(source: Path) -> tuple[dict[str, mx.array], dict[str, Any]]:
    if not source.is_file():
        raise BadValue(f"source must be a GGUF file, got {str(source)!r}")
    try:
        gguf_header.check(source)
        arrays, keys = mx.load(str(source), format="gguf", return_metadata=True)
        mx.eval(arrays)
    except (RuntimeError, ValueError, TypeError) as error:
        what = "is no GGUF file, or damaged, or rounded otherwise than is known here"
        raise BadValue(f"{source} {what}: {' '.join(str(error).split())[:150]}") from None
    keys = {k: v.item() if isinstance(v, mx.array) and v.size == 1 else v for k, v in keys.items()}
    return arrays, keys


def _config(keys: dict[str, Any], arrays: dict[str, mx.array]) -> ModelConfig:
    """Return the shape of the model that the file describes; refuse what changes it otherwise."""
    one_of("general.architecture", keys["general.architecture"], ["llama"])
    if (kind := keys.get("general.file_type", 1)) not in _TYPES:
        raise BadValue(f"weights must be {', '.join(_TYPES.values())}, got file type {kind}")
    llama = {k.removeprefix("llama."): v for k, v in keys.items() if k.startswith("llama.")}
    if unknown := sorted(llama.keys() - _KEYS):
        raise BadValue(f"llama.{unknown[0]} is not known here, and may change the model")
    layers = {name.split(".")[1] for name in arrays if name.startswith("blk.")}
    one_of("llama.block_count", keys["llama.block_count"], [len(layers)])
    config = ModelConfig(
        vocab_size=len(keys["tokenizer.ggml.tokens"]),
        hidden_size=keys["llama.embedding_length"],
        num_hidden_layers=keys["llama.block_count"],
        num_attention_heads=keys["llama.attention.head_count"],
        intermediate_size=keys["llama.feed_forward_length"],
        num_key_value_heads=llama.get("attention.head_count_kv"),
        head_dim=llama.get("attention.key_length"),
        max_position_embeddings=keys["llama.context_length"],
        rms_norm_eps=keys["llama.attention.layer_norm_rms_epsilon"],
        rope_theta=llama.get("rope.freq_base", 10000.0),
        tie_word_embeddings="output.weight" not in arrays,
    )
    for name in ("attention.value_length", "rope.dimension_count"):
        one_of(f"llama.{name}", llama.get(name, config.head_dim), [config.head_dim])
    return config


def _plain(arrays: dict[str, mx.array]) -> dict[str, mx.array]:
    """Return the weights as float32: ``scale · q + bias``, in groups of 32, where rounded."""
    plain = {}
    for name, array in arrays.items():
        if name.endswith((".scales", ".biases")):
            continue
        stem = name.removesuffix(".weight")
        if f"{stem}.scales" in arrays:
            scales, biases = (
                arrays[f"{stem}.{p}"].astype(mx.float32) for p in ("scales", "biases")
            )
            bits = array.shape[-1] // scales.shape[-1]
            array = mx.dequantize(array, scales, biases, group_size=_GROUP, bits=bits)
        if not mx.issubdtype(array.dtype, mx.floating):
            raise BadValue(f"{name} must be floating point or rounded, got {array.dtype}")
        plain[name] = array.astype(mx.float32)
    return plain


def _name(name: str) -> str:
    """Translate ``blk.3.attn_q.weight`` to ``model.layers.3.self_attn.q_proj.weight``."""
    found = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.weight", name)
    if found is None or found[2] not in _WEIGHTS:
        raise BadValue(f"{name} is no weight of a plain Llama")
    layer = f"model.layers.{found[1]}." if found[1] else ""
    return f"{layer}{_WEIGHTS[found[2]]}.weight"


def _model(config: ModelConfig, weights: dict[str, mx.array]) -> LanguageModel:
    """Return the model of these weights, their rotated pairs put as halves of each head."""
    for name, weight in weights.items():
        if not mx.isfinite(weight.astype(mx.float16)).all().item():
            raise BadValue(f"{name} holds numbers that are not finite in float16")
    model = LanguageModel(config, seed=0)
    model.load_weights(list(weights.items()))
    for layer in model.layers:
        attention = layer.self_attn
        for projection, heads in (
            (attention.q_proj, attention.n_heads),
            (attention.k_proj, attention.n_kv_heads),
        ):
            pairs = projection.weight.reshape(heads, -1, 2, config.hidden_size)
            projection.weight = pairs.swapaxes(1, 2).reshape(projection.weight.shape)
    return model


def _tokenizer(keys: dict[str, Any]) -> tuple[Tokenizer, dict[str, Any]]:
    """Return the byte-level tokenizer of the file's tokens and merges, and its settings."""
    one_of("tokenizer.ggml.model", keys["tokenizer.ggml.model"], ["gpt2"])
    kind = one_of("tokenizer.ggml.pre", keys.get("tokenizer.ggml.pre", "default"), list(_CUTS))
    for key in ("add_bos_token", "add_eos_token", "add_space_prefix"):
        one_of(f"tokenizer.ggml.{key}", keys.get(f"tokenizer.ggml.{key}", False), [False])
    tokens = keys["tokenizer.ggml.tokens"]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    types = sequence("tokenizer.ggml.token_type", keys["tokenizer.ggml.token_type"], "numbers")
    if len(types) != len(tokens) or len(vocabulary) != len(tokens):
        raise BadValue("tokenizer.ggml.tokens must differ, and have a token_type each")
    merges = [tuple(merge.split(" ")) for merge in keys["tokenizer.ggml.merges"]]
    for merge in merges:
        if len(merge) != 2 or not vocabulary.keys() >= {*merge, "".join(merge)}:
            raise BadValue(f"tokenizer.ggml.merges must join tokens to a token, got {merge}")
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*_CUTS[kind], level])
    tokenizer.decoder = decoders.ByteLevel()
    whole = [(token, kind) for token, kind in zip(tokens, types, strict=True) if kind in _WHOLE]
    tokenizer.add_tokens(
        [AddedToken(token, special=kind == _CONTROL, normalized=False) for token, kind in whole]
    )
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": keys["llama.context_length"],
    }
    for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        if (number := keys.get(name := f"tokenizer.ggml.{key}_token_id")) is not None:
            settings[f"{role}_token"] = tokens[integer(name, number, 0, len(tokens) - 1)]
    if "tokenizer.chat_template" in keys:
        settings["chat_template"] = keys["tokenizer.chat_template"]
    return tokenizer, settings
