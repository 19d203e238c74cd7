"""Makes the Llama shape: RMSNorm, rotary positions, SwiGLU, grouped-query heads."""

from typing import Any

from lablib.models.config import ModelConfig
from lablib.unknown_options import checks_options
from lablib.validation import integer


@checks_options
def llama_config(
    vocab_size: int,
    d_model: int,
    n_heads: int,
    n_layers: int,
    n_kv_heads: int | None = None,
    d_ff: int | None = None,
    *,
    head_dim: int | None = None,
    max_positions: int = 1024,
    rope_theta: float = 10000.0,
    norm_eps: float = 1e-5,
    tie_word_embeddings: bool = True,
) -> ModelConfig:
    """Return the config of a Llama (Touvron et al. 2023, 2302.13971), the same model as in mlx-lm.

    The arguments are fields of :class:`ModelConfig` under shorter names: ``d_model`` is the width
    of the residual stream and ``d_ff`` that inside the MLP, by default 8/3 of ``d_model`` rounded
    up to a multiple of 16. There are ``n_kv_heads`` key/value heads, a divisor of the ``n_heads``
    query heads; None means as many.

    Args:
        vocab_size: V, the number of tokens.
        d_model: a multiple of ``n_heads``, unless ``head_dim`` is given.
        n_heads: query heads of a layer.
        n_layers: blocks.
        n_kv_heads: key/value heads of a layer.
        d_ff: the width inside the MLP.
        head_dim: the size of a head; None: ``d_model / n_heads``.
        max_positions: the longest text that it is made for.
        rope_theta: the base of the rotary positions.
        norm_eps: the norms' epsilon.
        tie_word_embeddings: whether the output layer is the embedding's.

    Returns:
        The configuration, for ``LanguageModel(config, seed=0)``.

    Raises:
        ValueError, TypeError: a size is out of range, or does not fit another.

    Example:
        >>> lablib.llama_config(32, 16, 1, 2).vocab_size
        32
    """
    d_ff = -(-integer("d_model", d_model, 1) // 6) * 16 if d_ff is None else d_ff
    heads: dict[str, Any] = {"num_key_value_heads": n_kv_heads, "head_dim": head_dim}
    return ModelConfig(
        vocab_size,
        d_model,
        n_layers,
        n_heads,
        d_ff,
        max_position_embeddings=max_positions,
        rms_norm_eps=norm_eps,
        rope_theta=rope_theta,
        tie_word_embeddings=tie_word_embeddings,
        **heads,
    )
