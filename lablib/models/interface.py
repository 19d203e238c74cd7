"""What any model must tell the engine: how many token ids it knows, and how many positions."""

from typing import Any

from lablib.validation import BadValue

import mlx.nn as nn


def vocab_size_of(model: Any) -> int:
    """The number of token ids of any model: the last axis of its logits.

    Looks at ``model.vocab_size``, then at ``vocab_size`` in ``model.config`` or ``model.args`` (or
    in their ``text_config``), then at the rows of the output layer or of the embedding table, which
    are as many when the weights are quantised.

    Raises:
        BadValue: none of these says it.
    """
    for place in (model, getattr(model, "config", None), getattr(model, "args", None)):
        inner = _get(place, "text_config")
        for source in (place, inner):
            size = _get(source, "vocab_size")
            if isinstance(size, int) and not isinstance(size, bool) and size > 0:
                return size
    if isinstance(model, nn.Module):
        rows = {path: m.weight.shape[0] for path, m in model.named_modules() if _is_table(m)}
        for ending in ("lm_head", "embed_tokens", "embeddings", "wte", "word_embeddings"):
            for path, size in rows.items():
                if path.split(".")[-1] == ending:
                    return size
    raise BadValue(
        f"model must say how many token ids it has: give the {type(model).__name__} a vocab_size"
    )


def position_table_of(model: Any) -> int | None:
    """How many positions one of our models has a table of; None where positions are computed."""
    learned = getattr(getattr(model, "config", None), "positions", None) == "learned"
    return model.max_positions if learned else None


def _get(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, dict) else getattr(source, name, None)


def _is_table(module: nn.Module) -> bool:
    return "weight" in module and module.weight.ndim == 2
