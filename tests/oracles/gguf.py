"""GGUF files, written, rounded and read by llama.cpp's own package, and what they mean.

``tiny`` writes a random model of any family; ``logits`` is what such a file computes, in NumPy and
float64, by the names and the order of rows that stand in it. Nothing of lablib or MLX computes.
"""

import struct
from dataclasses import dataclass

import gguf
import numpy as np

KINDS = gguf.GGMLQuantizationType
FAMILIES = ("llama", "qwen2", "qwen3", "gemma3")
ROUNDED = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"]
# What the package reads and can't make: where a block has float16 factors, by bytes.
MADE_UP = {
    "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
    "IQ1_S": (0,), "IQ1_M": (), "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,),
    "IQ3_S": (0,), "IQ4_NL": (0,), "IQ4_XS": (0,), "NVFP4": (),
}  # fmt: skip
UNREAD = ["Q8_1", "Q8_K", "Q1_0", "I8", "I16", "I32", "I64", "F64"]
SPREAD = 0.06  # of made-up weights


# --- weights ----------------------------------------------------------------------------------
def blocks(kind, weights):
    """Round float32 ``(rows, columns)``: the bytes, and the float32 numbers that they mean.

    Of a kind that can't be made, the blocks are random and only the shape is looked at.
    """
    weights = np.asarray(weights, np.float32)
    raw = (
        _made_up(kind, weights.shape)
        if kind in MADE_UP
        else gguf.quants.quantize(weights, KINDS[kind])
    )
    return raw.tobytes(), gguf.quants.dequantize(raw, KINDS[kind]).reshape(weights.shape)


def _made_up(kind, shape):
    """Return random bytes whose float16 factors make numbers of the usual size."""
    weights, size = gguf.GGML_QUANT_SIZES[KINDS[kind]]
    numbers = np.random.default_rng([*shape, KINDS[kind]])
    raw = numbers.integers(0, 256, (shape[0], shape[1] // weights, size), np.uint8)
    if kind == "NVFP4":  # four scales of eight bits
        raw[..., :4] = 0x18
    if kind == "IQ1_M":  # a factor in the upper four bits of four numbers
        raw[..., 49::2] = raw[..., 49::2] & 0x0F | np.array([0, 0, 0x40, 0x20], np.uint8)
    factor = 1.0
    for _ in range(2):  # what it means with a factor of 1, then with the one that is wanted
        for at in MADE_UP[kind]:
            raw[..., at : at + 2] = np.array([factor], "<f2").view(np.uint8)
        flat = raw.reshape(shape[0], -1)
        factor = SPREAD / gguf.quants.dequantize(flat, KINDS[kind]).std()
    return flat


def plain(kind, raw, shape):
    """Return the float32 numbers that bytes mean, the way back of :func:`blocks`."""
    stored = gguf.quant_shape_to_byte_shape(shape, KINDS[kind])
    return gguf.quants.dequantize(np.frombuffer(raw, np.uint8).reshape(stored), KINDS[kind])


# --- the file ---------------------------------------------------------------------------------
class As(tuple):
    """A metadata value of a type that Python's would not tell: ``As("uint64", 3)``."""

    def __new__(cls, kind, value):
        """Keep both."""
        return super().__new__(cls, (kind, value))


_NATURAL = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}


def _typed(value, integer="uint32"):
    """Return a value and its type."""
    kind, value = value if isinstance(value, As) else (_NATURAL[type(value)], value)
    return value, gguf.GGUFValueType[(integer if kind == "uint32" else kind).upper()]


class _Writer(gguf.GGUFWriter):
    """The package's, which also writes an empty array."""

    def _pack_val(self, val, vtype, add_vtype, sub_type=None):
        if val == []:
            return struct.pack("<IIQ", vtype, sub_type, 0)
        return super()._pack_val(val, vtype, add_vtype, sub_type)


def write(path, keys, tensors):
    """Write a file of ``keys`` and ``tensors``, ``name: (kind, shape, bytes)``."""
    writer = _Writer(path, "")
    writer.kv_data[0].clear()  # it names an architecture by itself
    writer.data_alignment = keys.get("general.alignment", 32)
    for key, value in keys.items():
        value, kind = _typed(value)
        inner = None
        if kind == gguf.GGUFValueType.ARRAY:
            inner = _typed(value[0], "int32")[1] if value else gguf.GGUFValueType.STRING
            value = [_typed(each)[0] for each in value]
        writer.add_key_value(key, value, kind, inner)
    for name, (kind, shape, raw) in tensors.items():
        stored = gguf.quant_shape_to_byte_shape(shape, KINDS[kind])
        data = np.frombuffer(raw, np.uint8).reshape(stored)
        writer.add_tensor(name, data, raw_dtype=KINDS[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def read(path):
    """Return the keys of a file, and its tensors ``name: float32 array``."""
    reader = gguf.GGUFReader(path)
    keys = {name: field.contents() for name, field in reader.fields.items()}
    values = gguf.quants.dequantize
    found = {each.name: values(each.data, each.tensor_type) for each in reader.tensors}
    return keys, found


# --- a model ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Shape:
    """The sides of a model; 256 is a multiple of what every kind of block has."""

    vocab: int = 320
    width: int = 256
    heads: int = 4
    shared: int = 2
    size: int = 64
    inner: int = 256
    layers: int = 2
    tied: bool = True
    window: int = 8
    period: int = 2


SMALL = Shape(width=64, size=16, inner=192)


def tensors_of(family, shape):
    """Return the shapes of a file's tensors, by name."""
    q, kv = shape.heads * shape.size, shape.shared * shape.size
    layer = {
        "attn_q.weight": (q, shape.width), "attn_k.weight": (kv, shape.width),
        "attn_v.weight": (kv, shape.width), "attn_output.weight": (shape.width, q),
        "ffn_gate.weight": (shape.inner, shape.width), "ffn_up.weight": (shape.inner, shape.width),
        "ffn_down.weight": (shape.width, shape.inner),
        "attn_norm.weight": (shape.width,), "ffn_norm.weight": (shape.width,),
    }  # fmt: skip
    if family == "qwen2":
        layer |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    if family in ("qwen3", "gemma3"):
        layer |= {"attn_q_norm.weight": (shape.size,), "attn_k_norm.weight": (shape.size,)}
    if family == "gemma3":
        layer |= dict.fromkeys(
            ["post_attention_norm.weight", "post_ffw_norm.weight"], (shape.width,)
        )
    every = {"token_embd.weight": (shape.vocab, shape.width), "output_norm.weight": (shape.width,)}
    for i in range(shape.layers):
        every |= {f"blk.{i}.{name}": sides for name, sides in layer.items()}
    return every if shape.tied else every | {"output.weight": (shape.vocab, shape.width)}


def keys_of(family, shape):
    """Return the keys of a file, but for the tokenizer's."""
    named = {
        "context_length": 1024, "embedding_length": shape.width, "block_count": shape.layers,
        "feed_forward_length": shape.inner, "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.shared, "attention.layer_norm_rms_epsilon": 1e-5,
        "attention.key_length": shape.size, "attention.value_length": shape.size,
        "rope.dimension_count": shape.size, "rope.freq_base": 5000.0,
    }  # fmt: skip
    if family == "gemma3":
        named |= {"attention.sliding_window": shape.window}
        named |= {"attention.sliding_window_pattern": shape.period, "rope.freq_base_swa": 100.0}
    own = {f"{family}.{name}": value for name, value in named.items()}
    return {"general.architecture": family, "general.name": "a tiny one"} | own


def model(family, shape=SMALL, kind="F32", seed=0):
    """Return the tensors of a file for :func:`write`, and the numbers that they mean.

    Vectors stay float32, as usual; of the rest the logits are about 1.
    """
    numbers = np.random.default_rng(seed)
    made, meaning = {}, {}
    for name, sides in tensors_of(family, shape).items():
        if len(sides) == 1:
            center = 0.0 if name.endswith("bias") else 1.0
            own, values = "F32", numbers.normal(center, 0.2, sides)
        else:
            own, values = kind, numbers.normal(0, 0.5 * sides[-1] ** -0.5, sides)
        raw, meaning[name] = blocks(own, values)
        made[name] = own, sides, raw
    return made, meaning


def tiny(
    path, family="llama", kind="F32", shape=SMALL, *, tokenizer, keys=(), tensors=(), without=()
):
    """Write a random model, changed as asked; return its keys, and the numbers of its tensors.

    ``keys`` and ``tensors`` come on top of what there is; ``without`` names what goes.
    """
    made, meaning = model(family, shape, kind)
    all_keys = keys_of(family, shape) | tokenizer | dict(keys)
    made |= dict(tensors)
    for name in without:
        (all_keys if name in all_keys else made).pop(name)
    write(path, all_keys, made)
    return all_keys, meaning


# --- what it computes -------------------------------------------------------------------------
def rotated(x, base, interleaved, stretch=1.0):
    """Rotate heads ``(T, H, D)``: pairs (2i, 2i + 1) if interleaved, else (i, i + D/2)."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None, None] * base ** (-np.arange(half) / half) / stretch
    pair = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    a = pair[0] * np.cos(angle) - pair[1] * np.sin(angle)
    b = pair[1] * np.cos(angle) + pair[0] * np.sin(angle)
    if interleaved:
        return np.stack([a, b], -1).reshape(x.shape)
    return np.concatenate([a, b], -1)


def _softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def logits(keys, weights, ids):
    """Return the logits ``(T, V)`` of token ids, as the file's own conventions have them.

    Gemma's embeddings are scaled by the root of
    the width, rounded to bfloat16 as mlx-lm has it: 25.25 for 640.
    """
    family = keys["general.architecture"]
    gemma = family == "gemma3"

    def key(name, default=None):
        value = keys.get(f"{family}.{name}", default)
        return value[1] if isinstance(value, As) else value

    heads, shared, size = (
        key("attention.head_count"),
        key("attention.head_count_kv"),
        key("attention.key_length"),
    )

    def norm(x, name):
        mean = (x * x).mean(-1, keepdims=True)
        return x / np.sqrt(mean + key("attention.layer_norm_rms_epsilon")) * weights[name]

    def product(x, name):
        y = x @ np.asarray(weights[f"{name}.weight"], np.float64).T
        return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y

    table = np.asarray(weights["token_embd.weight"])
    x = table[ids].astype(np.float64)
    if gemma:
        root = np.float32(x.shape[1] ** 0.5).view(np.uint32)  # of bfloat16 the upper half stays
        x *= ((root + 0x7FFF + (root >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    n = len(ids)
    back = np.arange(n)[:, None] - np.arange(n)
    for i in range(key("block_count")):
        own = f"blk.{i}"
        slides = gemma and (i + 1) % key("attention.sliding_window_pattern", 6) != 0
        base = key("rope.freq_base_swa", 10_000.0) if slides else key("rope.freq_base")
        stretch = weights.get("rope_freqs.weight", 1.0)
        stretch = stretch if slides else stretch * key("rope.scaling.factor", 1.0)
        y = norm(x, f"{own}.attn_norm.weight")
        q, k, v = (
            product(y, f"{own}.attn_{part}").reshape(n, many, size)
            for part, many in (("q", heads), ("k", shared), ("v", shared))
        )
        if f"{own}.attn_q_norm.weight" in weights:
            q, k = norm(q, f"{own}.attn_q_norm.weight"), norm(k, f"{own}.attn_k_norm.weight")
        q, k = (rotated(each, base, family == "llama", stretch) for each in (q, k))
        k, v = (np.repeat(each, heads // shared, axis=1) for each in (k, v))
        seen = (back >= 0) & (back < key("attention.sliding_window") if slides else True)
        scores = np.where(seen, np.einsum("thd,shd->hts", q, k) * size**-0.5, -np.inf)
        y = np.einsum("hts,shd->thd", _softmax(scores), v).reshape(n, -1)
        y = product(y, f"{own}.attn_output")
        x = x + (norm(y, f"{own}.post_attention_norm.weight") if gemma else y)
        y = norm(x, f"{own}.ffn_norm.weight")
        gate, up = product(y, f"{own}.ffn_gate"), product(y, f"{own}.ffn_up")
        bent = np.tanh((2 / np.pi) ** 0.5 * (gate + 0.044715 * gate**3)) if gemma else None
        gate = gate * (1 + bent) / 2 if gemma else gate / (1 + np.exp(-gate))
        y = product(gate * up, f"{own}.ffn_down")
        x = x + (norm(y, f"{own}.post_ffw_norm.weight") if gemma else y)
    last = "output.weight" if "output.weight" in weights else "token_embd.weight"
    x = norm(x, "output_norm.weight")
    some = np.array_split(np.asarray(weights[last]), 16)  # a large one is not there twice
    return np.concatenate([x @ part.astype(np.float64).T for part in some], axis=1)


# --- a Llama by mlx-lm's names ----------------------------------------------------------------
_LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
_OTHER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    """``model.layers.3.mlp.up_proj.weight`` is ``blk.3.ffn_up.weight``."""
    stem = name.removesuffix(".weight")
    if stem in _OTHER:
        return f"{_OTHER[stem]}.weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{_LAYER[part]}.weight"


def halves(weight, heads):
    """Reorder the rows of queries or keys: llama.cpp's pairs side by side become halves."""
    pairs = weight.reshape(heads, -1, 2, weight.shape[1])
    return pairs.swapaxes(1, 2).reshape(weight.shape)
