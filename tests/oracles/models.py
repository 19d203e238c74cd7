"""The models spelled out in NumPy and float64, one head and one token at a time."""

import math

import numpy as np
from mlx.utils import tree_flatten


def retention(q, k, v, decay, mask=None, state=None):
    """The recurrence of one head: q, k, v (T, D) -> outputs (T, D) and the last state (D, D).

    Where ``mask`` is False a token is padding: it leaves the state alone.
    """
    state = np.zeros((q.shape[1], v.shape[1])) if state is None else state
    outputs = np.zeros_like(v)
    for t in range(len(q)):
        if mask is None or mask[t]:
            state = decay * state + np.outer(k[t], v[t])
        outputs[t] = q[t] @ state
    return outputs, state


def decays(n_heads):
    spans = np.linspace(3, 8, n_heads) if n_heads > 1 else [3]
    return [1 - 2.0**-span for span in spans]


def logits(model, tokens):
    """Logits (T, V) of one sequence through any config, without a cache."""
    config = model.config
    weights = {n: np.array(w, dtype=np.float64) for n, w in tree_flatten(model.parameters())}
    table = weights["model.embed_tokens.weight"]
    x = table[tokens]
    if config.positions == "learned":
        x = x + weights["model.embed_positions.weight"][: len(tokens)]
    for number, kind in enumerate(config.layer_types):
        names = f"model.layers.{number}."
        layer = {n.removeprefix(names): w for n, w in weights.items() if n.startswith(names)}
        mixer = _attention if kind == "full_attention" else _retention_layer
        x = x + mixer(config, layer, _norm(config, layer, "input_layernorm", x))
        x = x + _mlp(config, layer, _norm(config, layer, "post_attention_layernorm", x))
    x = _norm(config, weights, "model.norm", x)
    return x @ (table if config.tie_word_embeddings else weights["lm_head.weight"]).T


def _linear(layer, name, x):
    return x @ layer[f"{name}.weight"].T + layer.get(f"{name}.bias", 0)


def _norm(config, layer, name, x):
    if config.norm == "layer":
        x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + config.rms_norm_eps)
    return x * layer[f"{name}.weight"] + layer.get(f"{name}.bias", 0)


def _silu(x):
    return x / (1 + np.exp(-x))


def _mlp(config, layer, x):
    up = _linear(layer, "mlp.up_proj", x)
    if config.mlp == "swiglu":
        hidden = _silu(_linear(layer, "mlp.gate_proj", x)) * up
    else:
        hidden = up * (1 + np.vectorize(math.erf)(up / math.sqrt(2))) / 2
    return _linear(layer, "mlp.down_proj", hidden)


def _rotate(x, theta):
    half = x.shape[1] // 2
    angle = np.arange(len(x))[:, None] * theta ** (-np.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    turned = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
    return np.concatenate(turned, axis=1)


def _attention(config, layer, x):
    size, group = config.head_dim, config.num_attention_heads // config.num_key_value_heads
    q, k, v = (_linear(layer, f"self_attn.{n}_proj", x) for n in "qkv")
    heads = []
    for head in range(config.num_attention_heads):
        own = slice(head * size, (head + 1) * size)
        shared = slice(head // group * size, (head // group + 1) * size)
        q_h, k_h = q[:, own], k[:, shared]
        if config.positions == "rope":
            q_h, k_h = _rotate(q_h, config.rope_theta), _rotate(k_h, config.rope_theta)
        scores = np.where(np.tri(len(x)) > 0, q_h @ k_h.T / math.sqrt(size), -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(scores / scores.sum(-1, keepdims=True) @ v[:, shared])
    return _linear(layer, "self_attn.o_proj", np.concatenate(heads, axis=1))


def _retention_layer(config, layer, x):
    size = config.head_dim
    q, k, v, gate = (_linear(layer, f"retention.{n}_proj", x) for n in "qkvg")
    heads = []
    for head, decay in enumerate(decays(config.num_attention_heads)):
        own = slice(head * size, (head + 1) * size)
        out, _ = retention(q[:, own] / math.sqrt(size), k[:, own], v[:, own], decay)
        heads.append(out / np.sqrt((out * out).mean(-1, keepdims=True) + config.rms_norm_eps))
    return _linear(layer, "retention.o_proj", _silu(gate) * np.concatenate(heads, axis=1))
