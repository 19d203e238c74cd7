"""GGUF files of Llamas, written, rounded and read byte by byte, and what they mean.

From the format's description (ggml's docs/gguf.md, version 3), the reference roundings of ggml
(blocks of 32 weights), and the order of rows that llama.cpp gives queries and keys. In NumPy and
plain Python; nothing of lablib or MLX computes here.
"""

import struct

import numpy as np

BLOCK = 32
KINDS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q8_0": 8, "Q6_K": 14, "I8": 24}
FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7}


# --- weights ----------------------------------------------------------------------------------


def blocks(kind, weights):
    """Round float32 ``(rows, columns)``: the bytes, and the float32 numbers that they mean."""
    w = np.asarray(weights, np.float32)
    if kind == "F32":
        return w.tobytes(), w
    if kind == "F16":
        return w.astype("<f2").tobytes(), w.astype(np.float16).astype(np.float32)
    x = w.reshape(-1, BLOCK)
    if kind == "Q4_0":  # the largest in size becomes -8
        largest = np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)
        scale, low, top, shift = largest / -8, 0 * largest, 15, 8
    elif kind == "Q4_1":
        low = x.min(1, keepdims=True)
        scale, top, shift = (x.max(1, keepdims=True) - low) / 15, 15, 0
    else:
        scale, low, top, shift = np.abs(x).max(1, keepdims=True) / 127, 0 * x[:, :1], 127, 0
    q = np.divide(x - low, scale, out=np.zeros_like(x), where=scale != 0)
    q = np.clip(np.rint(q) + shift, -127 if kind == "Q8_0" else 0, top)
    scale, low = scale.astype("<f2"), low.astype("<f2")
    meaning = (q - shift) * scale.astype(np.float32) + low.astype(np.float32)
    parts = [scale.view(np.uint8)] + [low.view(np.uint8)] * (kind == "Q4_1")
    if kind == "Q8_0":
        parts.append(q.astype(np.int8).view(np.uint8))
    else:  # the first half of a block in the low four bits, the second in the high
        q = q.astype(np.uint8)
        parts.append(q[:, : BLOCK // 2] | q[:, BLOCK // 2 :] << 4)
    return np.concatenate(parts, 1).tobytes(), meaning.astype(np.float32).reshape(w.shape)


def plain(kind, raw, shape):
    """Return the float32 numbers that bytes mean, the way back of :func:`blocks`."""
    if kind in ("F32", "F16"):
        return np.frombuffer(raw, "<f4" if kind == "F32" else "<f2").astype("f4").reshape(shape)
    header = 4 if kind == "Q4_1" else 2
    rows = np.frombuffer(raw, np.uint8).reshape(
        -1, header + (BLOCK if kind == "Q8_0" else BLOCK // 2)
    )
    scale = rows[:, :2].copy().view("<f2").astype("f4")
    if kind == "Q8_0":
        return (scale * rows[:, 2:].view(np.int8)).reshape(shape)
    q = np.concatenate([rows[:, header:] & 15, rows[:, header:] >> 4], 1).astype("f4")
    low = rows[:, 2:4].copy().view("<f2").astype("f4") if kind == "Q4_1" else -8 * scale
    return (scale * q + low).reshape(shape)


def six_bits(raw):
    """Return the float32 ``(N, 256)`` that blocks of Q6_K mean, ``N`` times 210 bytes.

    Four low bits each, then two high ones, then 16 scales of 8 bits, then one of 16. llama.cpp
    rounds output layers so, whatever the rest of the file is.
    """
    rows = np.frombuffer(raw, np.uint8).reshape(-1, 210)
    low, high, scales, scale = np.split(rows, [128, 192, 208], 1)
    scales = scales.view(np.int8) * scale.copy().view("<f2").astype("f4")
    quarters = []
    for half in (0, 1):
        for quarter in range(4):
            four = low[:, 64 * half + 32 * (quarter % 2) :][:, :32] >> 4 * (quarter // 2) & 15
            two = high[:, 32 * half :][:, :32] >> 2 * quarter & 3
            own = scales[:, 8 * half + 2 * quarter :][:, :2].repeat(16, 1)
            quarters.append(own * ((four | two << 4).astype("f4") - 32))
    return np.concatenate(quarters, 1)


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


_FORMATS = {
    "uint8": (0, "<B"), "int8": (1, "<b"), "uint16": (2, "<H"), "int16": (3, "<h"),
    "uint32": (4, "<I"), "int32": (5, "<i"), "float32": (6, "<f"), "bool": (7, "<?"),
    "string": (8, None), "array": (9, None),
    "uint64": (10, "<Q"), "int64": (11, "<q"), "float64": (12, "<d"),
}  # fmt: skip
_NATURAL = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}


def _string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value):
    kind, value = value if isinstance(value, As) else (_NATURAL[type(value)], value)
    number, form = _FORMATS[kind]
    if kind == "string":
        return number, _string(value)
    if kind != "array":
        return number, struct.pack(form, value)
    members = [_value(As("int32", v) if type(v) is int else v) for v in value]
    inner = members[0][0] if members else _FORMATS["string"][0]
    return number, struct.pack("<IQ", inner, len(members)) + b"".join(raw for _, raw in members)


def write(path, keys, tensors, version=3):
    """Write a file of ``keys`` and ``tensors``, ``name: (kind, shape, bytes)``."""
    alignment = keys.get("general.alignment", 32)

    def padded(raw):
        return raw + bytes(-len(raw) % alignment)

    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for key, value in keys.items():
        number, raw = _value(value)
        head += _string(key) + struct.pack("<I", number) + raw
    data = b""
    for name, (kind, shape, raw) in tensors.items():
        head += _string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += struct.pack("<IQ", KINDS[kind], len(data))
        data += padded(raw)
    path.write_bytes(padded(head) + data)
    return path


def read(path):
    """Return the keys of a file, and its tensors ``name: float32 array``."""
    raw, at = path.read_bytes(), 24
    tensors, count = struct.unpack_from("<QQ", raw, 8)
    formats = {number: form for number, form in _FORMATS.values() if form}

    def one(form):
        nonlocal at
        (value,) = struct.unpack_from(form, raw, at)
        at += struct.calcsize(form)
        return value

    def text():
        nonlocal at
        size = one("<Q")
        at += size
        return raw[at - size : at].decode()

    def value(kind):
        if kind == _FORMATS["string"][0]:
            return text()
        if kind == _FORMATS["array"][0]:
            inner, size = one("<I"), one("<Q")
            return [value(inner) for _ in range(size)]
        return one(formats[kind])

    keys = {text(): value(one("<I")) for _ in range(count)}
    infos = []
    for _ in range(tensors):
        name = text()
        shape = [one("<Q") for _ in range(one("<I"))][::-1]
        infos.append((name, shape, one("<I"), one("<Q")))
    start = at + -at % keys.get("general.alignment", 32)
    names = {number: kind for kind, number in KINDS.items()}
    bits = {"F32": 32, "F16": 16, "Q4_0": 4.5, "Q4_1": 5, "Q8_0": 8.5}
    found = {}
    for name, shape, kind, offset in infos:
        size = int(np.prod(shape) * bits[names[kind]]) // 8
        data = raw[start + offset : start + offset + size]
        found[name] = plain(names[kind], data, shape)
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
