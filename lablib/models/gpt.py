"""Makes the GPT shape: LayerNorm, GELU, learned positions, biases everywhere."""

from lablib.models.config import ModelConfig
from lablib.unknown_options import checks_options
from lablib.validation import integer


@checks_options
def gpt_config(
    vocab_size: int,
    d_model: int,
    n_heads: int,
    n_layers: int,
    d_ff: int | None = None,
    *,
    max_positions: int = 1024,
    norm_eps: float = 1e-5,
    tie_word_embeddings: bool = True,
) -> ModelConfig:
    """Return the config of a GPT-2 (Radford et al. 2019, "… Unsupervised Multitask Learners").

    ``d_ff`` is 4 times ``d_model`` where it is not given, ``max_positions`` the rows of the
    position table: no token can stand beyond it. The rest is as in ``llama_config``.

    Args:
        vocab_size: V, the number of tokens.
        d_model: a multiple of ``n_heads``.
        n_heads: heads of a layer.
        n_layers: blocks.
        d_ff: the width inside the MLP.
        max_positions: the longest text.
        norm_eps: the norms' epsilon.
        tie_word_embeddings: whether the output layer is the embedding's.

    Returns:
        The configuration, for ``LanguageModel(config, seed=0)``.

    Raises:
        ValueError, TypeError: a size is out of range, or does not fit another.

    Example:
        >>> lablib.gpt_config(32, 16, 1, 2, max_positions=64).vocab_size
        32
    """
    d_ff = 4 * integer("d_model", d_model, 1) if d_ff is None else d_ff
    return ModelConfig(
        vocab_size,
        d_model,
        n_layers,
        n_heads,
        d_ff,
        max_position_embeddings=max_positions,
        rms_norm_eps=norm_eps,
        tie_word_embeddings=tie_word_embeddings,
        attention_bias=True,
        mlp_bias=True,
        norm="layer",
        mlp="gelu",
        positions="learned",
    )
