"""Describes a model by the keys of its ``config.json``, checked once."""

import dataclasses
from typing import Any

from lablib.validation import BadType, BadValue, integer, number, one_of

# The names transformers gives these kinds of layer: it reads config.json along with the tokenizer.
ATTENTION, RETENTION = "full_attention", "linear_attention"

# Keys that other tools read or write in a config.json and that do not change the model.
_DESCRIPTIVE = {
    "architectures",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "hidden_act",
    "lablib",
    "model_file",
    "model_type",
    "pad_token_id",
    "torch_dtype",
    "transformers_version",
}


_FILLED_IN: Any = None  # may be None, or left out: ``__post_init__`` puts a value in its place
MOST_LAYERS = 1_000  # each is built; the deepest known model has some 130
_MOST = {"num_hidden_layers": MOST_LAYERS}  # all else is a side of an array: 31 bits


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Describes the shape and kind of a ``LanguageModel``, every value checked.

    The fields are mlx-lm's Llama keys, and the last three choose the kind of block. Build one with
    ``gpt_config``, ``llama_config`` or ``hybrid_config``.
    """

    vocab_size: int  # token ids V, the last axis of the logits
    hidden_size: int  # width of the residual stream
    num_hidden_layers: int  # blocks
    num_attention_heads: int  # query heads; also the heads of a retention layer
    intermediate_size: int  # width inside the MLP
    # Key/value heads, a divisor of the query heads (grouped-query attention, Ainslie et al. 2023,
    # 2305.13245); None means one for each query head.
    num_key_value_heads: int = _FILLED_IN
    head_dim: int = _FILLED_IN  # width of a head; None means hidden_size // num_attention_heads
    max_position_embeddings: int = 1024  # context in tokens; a hard limit with learned positions
    rms_norm_eps: float = 1e-5  # epsilon of every norm
    rope_theta: float = 10000.0  # base of the rotary angles (Su et al. 2021, 2104.09864)
    attention_bias: bool = False  # whether the projections around attention have biases
    mlp_bias: bool = False  # whether the projections of the MLP have biases
    tie_word_embeddings: bool = True  # whether the output layer is the embedding table
    layer_types: tuple[str, ...] = _FILLED_IN  # ATTENTION or RETENTION each; None: all attention
    norm: str = "rms"  # or "layer"
    mlp: str = "swiglu"  # or "gelu"
    positions: str = "rope"  # or "learned"

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.default is _FILLED_IN:
                continue  # looked at below
            name, value = field.name, getattr(self, field.name)
            if field.type is int:
                integer(name, integer(name, value, 1), maximum=_MOST.get(name, 2**31 - 1))
            elif field.type is float:
                vars(self)[name] = number(name, value)  # MLX takes no whole number of 71 bits
                if value <= 0:
                    raise BadValue(f"{name} must be positive, got {value}")
            elif field.type is bool and not isinstance(value, bool):
                raise BadType(f"{name} must be true or false, got {value!r}")
        one_of("norm", self.norm, ("rms", "layer"))
        one_of("mlp", self.mlp, ("swiglu", "gelu"))
        one_of("positions", self.positions, ("rope", "learned"))
        # A frozen dataclass is filled in this way: a field of None has its value from here on.
        vars(self).update(self._heads(), layer_types=self._layers())

    def _heads(self) -> dict[str, int]:
        n, n_kv, head_dim = self.num_attention_heads, self.num_key_value_heads, self.head_dim
        n_kv = n if n_kv is None else integer("num_key_value_heads", n_kv, 1, n)
        if n % n_kv:
            raise BadValue(f"num_key_value_heads must divide the {n} attention heads, got {n_kv}")
        width = self.hidden_size
        if head_dim is None and width % n:
            raise BadValue(f"hidden_size must be a multiple of the {n} heads, got {width}")
        head_dim = width // n if head_dim is None else head_dim
        integer("head_dim", head_dim, 1, (2**31 - 1) // n)
        if head_dim % 2 and self.positions == "rope":
            raise BadValue(f"head_dim must be even to be rotated, got {head_dim}")
        return {"num_key_value_heads": n_kv, "head_dim": head_dim}

    def _layers(self) -> tuple[str, ...]:
        n, kinds = self.num_hidden_layers, self.layer_types
        if kinds is None:
            return (ATTENTION,) * n
        if not isinstance(kinds, list | tuple):
            raise BadType(f"layer_types must be a list of names, got {kinds!r}")
        for kind in kinds:
            one_of("layer_types", kind, (ATTENTION, RETENTION))
        if len(kinds) != n:
            raise BadValue(f"layer_types must name {n} layers, got {len(kinds)}")
        if self.positions == "learned" and ATTENTION not in kinds:
            raise BadValue("positions='learned' needs an attention layer, whose cache counts them")
        return tuple(kinds)

    @property
    def model_type(self) -> str:
        """``"llama"`` if mlx-lm's own Llama is the same model, else ``"lablib"``."""
        kind = self.norm, self.mlp, self.positions, set(self.layer_types)
        return "llama" if kind == ("rms", "swiglu", "rope", {ATTENTION}) else "lablib"

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of ``config.json``, for mlx-lm and transformers as well as for lablib."""
        keys: dict[str, Any] = {"model_type": self.model_type, "lablib": 1}
        if self.model_type == "llama":
            keys["architectures"] = ["LlamaForCausalLM"]
        return keys | dataclasses.asdict(self) | {"layer_types": list(self.layer_types)}

    @classmethod
    def from_dict(cls, keys: dict[str, Any]) -> "ModelConfig":
        """Return the config that ``to_dict`` wrote.

        Raises:
            BadValue, BadType: a key is missing, unknown, out of range or of the wrong type.
        """
        fields = {field.name: field for field in dataclasses.fields(cls)}
        required = {n for n, field in fields.items() if field.default is dataclasses.MISSING}
        missing = sorted(required - keys.keys())
        if missing:
            raise BadValue(f"the config lacks {', '.join(map(repr, missing))}")
        unknown = sorted(keys.keys() - fields.keys() - _DESCRIPTIVE)
        if unknown:
            raise BadValue(f"the config has the unknown key {', '.join(map(repr, unknown))}")
        config = cls(**{name: value for name, value in keys.items() if name in fields})
        one_of("model_type", keys.get("model_type", config.model_type), [config.model_type])
        return config
