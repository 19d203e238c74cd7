"""GGUF files of Llama models, opened as ``LanguageModel``: one file that other tools pass around.

A GGUF file holds a model's shape, its weights, often rounded to a few bits, and its tokenizer
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). MLX reads the file; here the names are
translated, and three conventions undone: rounded weights, rotated pairs that stand side by side,
and the tokenizer as bare lists of tokens and merges.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from lablib.models import files
from lablib.models.base import LanguageModel
from lablib.models.config import ModelConfig
from lablib.validation import BadValue, one_of

import mlx.core as mx
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_TYPES = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0"}  # of most of a file's weights
_GROUP = 32  # rounded weights that share a scale
_CONTROL = 3  # the type of a token that is no text
_WEIGHTS = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
# What a tokenizer cuts out of a text before bytes are merged.
_CUTS = {
    "smollm": [pre_tokenizers.Digits(individual_digits=True)],
    "gpt-2": [],
    "default": [],
}


def convert(source: str | Path, out: str | Path) -> Path:
    """Write the model of a GGUF file as a directory that ``lablib.load`` and mlx-lm open.

    Weights are stored in float16, whatever they were rounded to before.

    Raises:
        BadValue: there is no such file, or it is damaged, or it holds what is not known here: an
            architecture other than Llama, weights other than F32, F16, Q4_0, Q4_1 or Q8_0, scaled
            rotations, or a tokenizer other than GPT-2's or SmolLM's. Nothing has been written.
    """
    source = Path(source)
    arrays, keys = _open(source)
    try:
        config = _config(keys, arrays)
        weights = {_name(name): mx.array(w) for name, w in _plain(arrays).items()}
        tokenizer, settings = _tokenizer(keys)
    except KeyError as error:
        raise BadValue(f"{source} lacks {error}") from None
    except BadValue as error:
        raise BadValue(f"{source}: {error}") from None
    for name, heads in (("q", config.num_attention_heads), ("k", config.num_key_value_heads)):
        for layer in range(config.num_hidden_layers):
            key = f"model.layers.{layer}.self_attn.{name}_proj.weight"
            weights[key] = _unpaired(weights[key], heads)
    model = LanguageModel(config, seed=0)
    try:
        model.load_weights(list(weights.items()))
    except ValueError as error:
        raise BadValue(f"{source} is of another shape than it says: {error}") from None
    origin = {key: keys[key] for key in ("general.name", "general.license") if key in keys}
    with tempfile.TemporaryDirectory() as work:
        tokenizer.save(str(Path(work, "tokenizer.json")))
        Path(work, "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
        extra = {"origin.json": origin | {"file": source.name}}
        return files.write(model, work, Path(out), mx.float16, extra)


def _open(source: Path) -> tuple[dict[str, mx.array], dict[str, Any]]:
    if not source.is_file():
        raise BadValue(f"source must be a GGUF file, got {str(source)!r}")
    try:
        arrays, keys = mx.load(str(source), format="gguf", return_metadata=True)
        mx.eval(arrays)
    except (RuntimeError, ValueError) as error:
        raise BadValue(f"{source} is no GGUF file, or damaged: {error}") from None
    keys = {k: v.item() if isinstance(v, mx.array) and v.size == 1 else v for k, v in keys.items()}
    return arrays, keys


def _config(keys: dict[str, Any], arrays: dict[str, mx.array]) -> ModelConfig:
    """Return the shape of the model that the file describes; refuse what changes it otherwise."""
    one_of("general.architecture", keys["general.architecture"], ["llama"])
    if (kind := keys.get("general.file_type", 1)) not in _TYPES:
        raise BadValue(f"weights must be {', '.join(_TYPES.values())}, got file type {kind}")
    if scaling := [key for key in keys if "rope.scaling" in key] + ["rope_freqs"] * (
        "rope_freqs.weight" in arrays
    ):
        raise BadValue(f"scaled rotations are not known here, got {scaling[0]}")
    width, heads = keys["llama.embedding_length"], keys["llama.attention.head_count"]
    return ModelConfig(
        vocab_size=len(keys["tokenizer.ggml.tokens"]),
        hidden_size=width,
        num_hidden_layers=keys["llama.block_count"],
        num_attention_heads=heads,
        intermediate_size=keys["llama.feed_forward_length"],
        num_key_value_heads=keys.get("llama.attention.head_count_kv", heads),
        head_dim=keys.get("llama.rope.dimension_count", width // heads),
        max_position_embeddings=keys["llama.context_length"],
        rms_norm_eps=keys["llama.attention.layer_norm_rms_epsilon"],
        rope_theta=keys.get("llama.rope.freq_base", 10000.0),
        tie_word_embeddings="output.weight" not in arrays,
    )


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
    parts = name.removesuffix(".weight").split(".")
    if parts[-1] not in _WEIGHTS or not name.endswith(".weight") or len(parts) not in (1, 3):
        raise BadValue(f"{name} is no weight of a Llama")
    layer = f"model.layers.{parts[1]}." if len(parts) == 3 else ""
    return f"{layer}{_WEIGHTS[parts[-1]]}.weight"


def _unpaired(weight: mx.array, heads: int) -> mx.array:
    """Put the halves of each head one behind the other; GGUF has rotated pairs side by side."""
    pairs = weight.reshape(heads, -1, 2, weight.shape[-1])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _tokenizer(keys: dict[str, Any]) -> tuple[Tokenizer, dict[str, Any]]:
    """Return the byte-level tokenizer of the file's tokens and merges, and its settings."""
    one_of("tokenizer.ggml.model", keys["tokenizer.ggml.model"], ["gpt2"])
    kind = one_of("tokenizer.ggml.pre", keys.get("tokenizer.ggml.pre", "default"), list(_CUTS))
    tokens = keys["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in keys["tokenizer.ggml.merges"]]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*_CUTS[kind], level])
    tokenizer.decoder = decoders.ByteLevel()
    types = keys["tokenizer.ggml.token_type"].tolist()
    control = [token for token, kind in zip(tokens, types, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in control])
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": keys["llama.context_length"],
    }
    for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        if (number := keys.get(f"tokenizer.ggml.{key}_token_id")) is not None:
            settings[f"{role}_token"] = tokens[number]
    if "tokenizer.chat_template" in keys:
        settings["chat_template"] = keys["tokenizer.chat_template"]
    return tokenizer, settings
