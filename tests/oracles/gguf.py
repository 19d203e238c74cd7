"""GGUF files of Llamas, written, rounded and read by llama.cpp's own package, and what they mean.

The order of rows that llama.cpp gives queries and keys is here, in NumPy; nothing of lablib or MLX
computes.
"""

import struct

import gguf
import numpy as np

KINDS = gguf.GGMLQuantizationType
FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7}


# --- weights ----------------------------------------------------------------------------------
def blocks(kind, weights):
    """Round float32 ``(rows, columns)``: the bytes, and the float32 numbers that they mean."""
    raw = gguf.quants.quantize(np.asarray(weights, np.float32), KINDS[kind])
    return raw.tobytes(), gguf.quants.dequantize(raw, KINDS[kind])


def plain(kind, raw, shape):
    """Return the float32 numbers that bytes mean, the way back of :func:`blocks`."""
    stored = gguf.quant_shape_to_byte_shape(shape, KINDS[kind])
    return gguf.quants.dequantize(np.frombuffer(raw, np.uint8).reshape(stored), KINDS[kind])


def side_by_side(weight, heads):
    """Reorder the rows of queries or keys as llama.cpp does: the halves of a head interleaved."""
    pairs = weight.reshape(heads, 2, weight.shape[0] // heads // 2, weight.shape[1])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def rotated(x, position, base, interleaved):
    """Rotate a head's vector ``(D,)``: pairs (2i, 2i + 1) if interleaved, else (i, i + D/2)."""
    half = len(x) // 2
    angle = position * base ** (-np.arange(half) / half)
    out = np.empty(len(x))
    i = np.arange(half)
    a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
    out[a] = x[a] * np.cos(angle) - x[b] * np.sin(angle)
    out[b] = x[b] * np.cos(angle) + x[a] * np.sin(angle)
    return out


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


# --- a Llama ----------------------------------------------------------------------------------

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


def random_weights(config, seed=0):
    """Return weights, by the names of Llama's parameters, such that the logits are about 1."""
    numbers = np.random.default_rng(seed)
    width, inner, size = config.hidden_size, config.intermediate_size, config.head_dim
    q, kv = config.num_attention_heads * size, config.num_key_value_heads * size
    shapes = {
        "self_attn.q_proj": (q, width), "self_attn.k_proj": (kv, width),
        "self_attn.v_proj": (kv, width), "self_attn.o_proj": (width, q),
        "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
        "input_layernorm": (width,), "post_attention_layernorm": (width,),
    }  # fmt: skip
    every = {"model.embed_tokens": (config.vocab_size, width), "model.norm": (width,)}
    for layer in range(config.num_hidden_layers):
        every |= {f"model.layers.{layer}.{part}": shape for part, shape in shapes.items()}
    if not config.tie_word_embeddings:
        every["lm_head"] = config.vocab_size, width
    made = {}
    for name, shape in every.items():
        vector = len(shape) == 1
        spread = 0.2 if vector else 0.25 * shape[-1] ** -0.5
        made[f"{name}.weight"] = numbers.normal(vector, spread, shape).astype(np.float32)
    return made


def llama(config, weights, kind="F32"):
    """Return the tensors of a file for :func:`write`, and the weights that it means.

    ``config`` has the names of Llama's config.json, ``weights`` those of its parameters, in NumPy.
    Vectors stay float32, and the embeddings have eight bits where the rest has four, as usual.
    """
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    tensors, meaning = {}, {}
    for name, weight in weights.items():
        own = "F32" if weight.ndim == 1 else kind
        if kind.startswith("Q4") and name == "model.embed_tokens.weight":
            own = "Q8_0"
        _, meaning[name] = blocks(own, weight)
        part = name.split(".")[-2]
        stored = side_by_side(weight, heads[part]) if part in heads else weight
        tensors[gguf_name(name)] = own, stored.shape, blocks(own, stored)[0]
    return tensors, meaning


def llama_keys(config, tokenizer, kind="F32"):
    """Return the metadata that goes with :func:`llama`."""
    return {
        "general.architecture": "llama",
        "general.name": "a tiny one",
        "general.file_type": FILE_TYPES[kind],
        "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size,
        "llama.block_count": config.num_hidden_layers,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.key_length": config.head_dim,
        "llama.attention.value_length": config.head_dim,
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "llama.rope.dimension_count": config.head_dim,
        "llama.rope.freq_base": config.rope_theta,
    } | tokenizer


def tiny(path, config, tokenizer, kind="F32", keys=(), tensors=(), without=()):
    """Write a random Llama, changed as asked, and return the weights that it means.

    ``keys`` and ``tensors`` come on top of what there is; ``without`` names what goes.
    """
    made, meaning = llama(config, random_weights(config), kind)
    keys = llama_keys(config, tokenizer, kind) | dict(keys)
    made |= dict(tensors)
    for name in without:
        (keys if name in keys else made).pop(name)
    write(path, keys, made)
    return meaning
