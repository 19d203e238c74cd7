"""The GPT shape: LayerNorm, GELU, learned positions, biases everywhere."""

from lablib.models.config import ModelConfig
from lablib.validation import integer


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
    """The config of a GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask…").

    Args:
        vocab_size: number of token ids.
        d_model: width of the residual stream.
        n_heads: heads of attention.
        n_layers: number of blocks.
        d_ff: width inside the MLP; None means four times ``d_model``.
        max_positions: rows of the position table: no token can stand beyond it.
        norm_eps: epsilon of the norms.
        tie_word_embeddings: whether the output layer is the embedding table.
    """
    return ModelConfig(
        vocab_size=vocab_size,
        hidden_size=d_model,
        num_hidden_layers=n_layers,
        num_attention_heads=n_heads,
        intermediate_size=4 * integer("d_model", d_model, 1) if d_ff is None else d_ff,
        max_position_embeddings=max_positions,
        rms_norm_eps=norm_eps,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=tie_word_embeddings,
        norm="layer",
        mlp="gelu",
        positions="learned",
    )
