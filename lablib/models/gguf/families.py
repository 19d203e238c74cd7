"""Translates the keys and the names of a GGUF file into those of mlx-lm's models.

Three conventions are undone: a Llama's queries and keys have the pairs that rotate side by side,
mlx-lm has them as halves of a head; Gemma's norms are stored plus one, which mlx-lm adds; and the
frequencies that Llama 3 stretches are a tensor here, numbers in a config there.
"""

import re
from collections.abc import Callable
from typing import Any

from lablib.models.config import MOST_LAYERS
from lablib.models.gguf.header import Header, Tensor
from lablib.validation import BadValue, integer, number, one_of, shown

import numpy as np

MODEL_TYPES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3_text"}
FREQUENCIES = "rope_freqs.weight"
_MOST = 2**24  # of a width, of heads, of tokens: what is asked for is compared with the tensors
_LEAST = 1e-30  # of what divides
_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_PROJECTIONS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
_HEAD_NORMS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
_GEMMA_NORMS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_LAYER = {
    "llama": _PROJECTIONS | _NORMS,
    "qwen2": _PROJECTIONS | _NORMS,
    "qwen3": _PROJECTIONS | _NORMS | _HEAD_NORMS,
    "gemma3": _PROJECTIONS | _GEMMA_NORMS | _HEAD_NORMS,
}
# Of Llama 3.1 to 3.3; a file holds what they make of the frequencies, and the factor.
_STRETCH = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
_STRETCHED_FROM = 8192


class _Keys:
    """A family's keys; those that nobody asks for may change the model, so they are refused."""

    def __init__(self, keys: dict[str, Any], family: str):
        self.family = family
        prefix = f"{family}."
        self.unread = {k.removeprefix(prefix): v for k, v in keys.items() if k.startswith(prefix)}

    def get(self, name: str, default: Any = None) -> Any:
        """Take a key's value, or the ``default``, without which it must be there."""
        value = self.unread.pop(name, default)
        if value is None:
            raise BadValue(f"{self.family}.{name} is missing")
        return value

    def integer(self, name: str, default: int | None = None, most: int = _MOST) -> int:
        """Take a count."""
        return integer(f"{self.family}.{name}", self.get(name, default), 1, most)

    def number(self, name: str, default: float | None = None) -> float:
        """Take a positive number."""
        return number(f"{self.family}.{name}", self.get(name, default), _LEAST)

    def same(self, name: str, value: int) -> None:
        """Refuse another value than this one."""
        one_of(f"{self.family}.{name}", self.integer(name, value), [value])


def config_of(header: Header, frequencies: np.ndarray | None) -> dict[str, Any]:
    """Return the config.json that mlx-lm's model of this family would have.

    ``frequencies`` is the tensor of that name, which Llama 3 has.

    Raises:
        BadValue, BadType: a key is missing, wrong, or not known here; the line names it.
    """
    family = one_of("general.architecture", header.keys.get("general.architecture"), MODEL_TYPES)
    one_of("split.count", header.keys.get("split.count", 1), [0, 1])  # the others are other files
    keys = _Keys(header.keys, family)
    width, heads = keys.integer("embedding_length"), keys.integer("attention.head_count")
    size = keys.integer("attention.key_length", max(1, width // heads))
    if size % 2:
        raise BadValue(f"{family}.attention.key_length must be even to be rotated, got {size}")
    shared = keys.integer("attention.head_count_kv", heads)
    if heads % shared:
        raise BadValue(
            f"{family}.attention.head_count_kv must divide the {heads} heads, got {shared}"
        )
    if "token_embd.weight" not in header.tensors:
        raise BadValue("token_embd.weight is missing")
    rows = header.tensors["token_embd.weight"].shape[0]
    config = {
        "model_type": MODEL_TYPES[family],
        "vocab_size": rows,
        "hidden_size": width,
        "num_hidden_layers": keys.integer("block_count", most=MOST_LAYERS),
        "intermediate_size": keys.integer("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_dim": size,
        "rms_norm_eps": keys.number("attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": keys.integer("context_length", most=2**31),
        "rope_theta": keys.number("rope.freq_base", 10_000.0),
        "tie_word_embeddings": "output.weight" not in header.tensors,
    }
    keys.same("attention.value_length", size)
    keys.same("rope.dimension_count", size)
    keys.same("vocab_size", rows)
    config["rope_scaling"] = _scaling(keys, config, frequencies)
    if family == "gemma3":
        config |= _gemma(keys, config)
    if keys.unread:
        name, value = min(keys.unread.items(), key=str)
        unknown = f"{family}.{name} = {shown(value)} is not known here"
        raise BadValue(f"{unknown}, and may change the model")
    return config


def _scaling(
    keys: _Keys, config: dict[str, Any], frequencies: np.ndarray | None
) -> dict[str, Any] | None:
    """Return how rotations are scaled."""
    name = "rope.scaling.type"
    kind = one_of(f"{keys.family}.{name}", keys.get(name, "none"), ["none", "linear"])
    if kind == "linear" and frequencies is None:
        return {"rope_type": "linear", "factor": keys.number("rope.scaling.factor")}
    if frequencies is None:
        return None
    size, factor = config["head_dim"], float(frequencies[-1])
    low, high = (_STRETCHED_FROM / each for each in _STRETCH.values())
    lengths = 2 * np.pi * config["rope_theta"] ** (np.arange(0, size, 2) / size)
    share = (_STRETCHED_FROM / lengths - 1) / (_STRETCH["high_freq_factor"] - 1)
    between = 1 / ((1 - share) / factor + share)
    stretched = np.where(lengths > low, factor, np.where(lengths < high, 1.0, between))
    if frequencies.shape != stretched.shape or not np.allclose(frequencies, stretched, rtol=1e-4):
        raise BadValue(f"{FREQUENCIES} stretches frequencies otherwise than Llama 3")
    original = {"original_max_position_embeddings": _STRETCHED_FROM}
    return {"rope_type": "llama3", "factor": factor} | _STRETCH | original


def _gemma(keys: _Keys, config: dict[str, Any]) -> dict[str, Any]:
    """Return what only Gemma 3 has: most layers see a window, with a rotation of their own."""
    period = keys.get("attention.sliding_window_pattern", 6)
    if isinstance(period, np.ndarray) and period.dtype == bool:  # of each layer, whether it does
        slides, period = period, int(np.argmin(period)) + 1
        if not np.array_equal(slides, np.arange(1, len(slides) + 1) % period != 0):
            raise BadValue("gemma3.attention.sliding_window_pattern must repeat, one layer in some")
    layers = config["num_hidden_layers"]
    # 27B, which has 62 layers, scales by its width; llama.cpp tells it by them, too.
    scalar = config["hidden_size"] / config["num_attention_heads"] if layers == 62 else None
    name = "sliding_window_pattern"
    return {
        "sliding_window": keys.integer("attention.sliding_window"),
        name: integer(f"gemma3.attention.{name}", period, 1, layers),
        "rope_local_base_freq": keys.number("rope.freq_base_swa", 10_000.0),
        "query_pre_attn_scalar": scalar or config["head_dim"],
    }


def tensor_of(parameter: str, family: str) -> str:
    """Translate ``model.layers.3.self_attn.q_proj.weight`` to ``blk.3.attn_q.weight``."""
    match = re.fullmatch(r"(?:model\.layers\.(\d+)\.)?(.+)\.(\w+)", parameter)
    layer, part, kind = match.groups() if match else ("", parameter, "")
    names = _TOP if layer is None else _LAYER[family]
    if part not in names:
        raise BadValue(f"{parameter} of mlx-lm's {MODEL_TYPES[family]} has no name in such a file")
    return f"{'' if layer is None else f'blk.{layer}.'}{names[part]}.{kind}"


def undo(family: str, config: dict[str, Any]) -> Callable[[Tensor, np.ndarray], np.ndarray]:
    """Return what makes a tensor's numbers those of mlx-lm's parameter."""
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}

    def undone(tensor: Tensor, numbers: np.ndarray) -> np.ndarray:
        if family == "gemma3" and numbers.ndim == 1:
            return numbers - 1
        part = tensor.name.split(".")[-2]
        if family == "llama" and part in heads:  # rows of a head: 0, half, 1, half + 1, …
            pairs = numbers.reshape(heads[part], -1, 2, numbers.shape[1])
            return pairs.swapaxes(1, 2).reshape(numbers.shape)
        return numbers

    return undone
