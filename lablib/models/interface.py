"""Asks any model for its vocabulary and its context, and finds out by trial the rest."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any
from weakref import finalize

from lablib.validation import BadValue

import mlx.core as mx
import mlx.nn as nn

_OUTPUTS = ("lm_head", "embed_tokens", "embeddings", "wte", "word_embeddings")
POSITIONS = ("embed_positions", "wpe")  # ours; GPT-2's and GPT-BigCode's in mlx-lm
_TRIED: dict[tuple[int, Hashable], bool] = {}  # by the id of a living model
_HINTS: dict[type, str] = {
    tuple: ": unpack it, model, tokenizer = load(...)",
    str: ": load it first",
}


def instead_of_model(given: Any) -> str:
    """Return the type of what was given instead of a model, and how it becomes one."""
    return f"{type(given).__name__}{_HINTS.get(type(given), '')}"


def vocab_size_of(model: Any, name: str = "model") -> int:
    """Return the number of token ids of any model: the last axis of its logits.

    Looks at ``vocab_size`` in the model, its ``config``, its ``args`` (or their ``text_config``),
    then at the rows of the output layer or the embedding table, as many when they are quantised.

    Raises:
        BadValue: none of these says it; the caller calls the model by its ``name``.
    """
    for settings in (model, getattr(model, "config", None), getattr(model, "args", None)):
        for source in (settings, _get(settings, "text_config")):
            size = _get(source, "vocab_size")
            if isinstance(size, int) and not isinstance(size, bool) and size > 0:
                return size
    rows: dict[str, int] = {}
    modules = model.named_modules() if isinstance(model, nn.Module) else []
    for path, module in modules:
        if "weight" in module and module.weight.ndim == 2:
            layer = path.split(".")[-1]
            rows.setdefault(layer, module.weight.shape[0])
    for layer in _OUTPUTS:
        if layer in rows:
            return rows[layer]
    cure = f"give the {type(model).__name__} a vocab_size"
    raise BadValue(f"{name} must say how many token ids it has: {cure}")


def position_table_of(model: Any) -> int | None:
    """Return the rows of a model's table of positions; None where positions are computed."""
    for part in (model, getattr(model, "model", None), getattr(model, "transformer", None)):
        for name in POSITIONS:
            table = getattr(part, name, None)
            if isinstance(table, nn.Module):
                return table.weight.shape[0]
    return None


def context_of(model: Any) -> int | None:
    """Return how many tokens a model can read; None if it has no limit or doesn't say.

    It is ``model.max_positions``, else the rows of the table of positions: MLX reads garbage, often
    NaN, beyond it. The length that mlx-lm's rotating models were trained on is no limit.
    """
    limit = getattr(model, "max_positions", None)
    return position_table_of(model) if limit is None else limit


def knows(tokenizer: Any, token: int) -> bool:
    """Return whether a tokenizer has a token of this id; one that cannot say has all."""
    names = "convert_ids_to_tokens", "id_to_token"  # Hugging Face's, and its backend's
    name_of = next((getattr(tokenizer, name) for name in names if hasattr(tokenizer, name)), None)
    with suppress(IndexError, KeyError, OverflowError, ValueError):  # as SentencePiece's do
        return name_of is None or name_of(token) is not None
    return False


def count_known(tokenizer: Any, rows: int) -> int | None:
    """Return how many of a model's ``rows`` count: those up to the tokenizer's last id.

    None: all. Many models have more rows than their tokenizer has tokens, for speed.
    """
    n = rows
    while n and not knows(tokenizer, n - 1):
        n -= 1
    return n if 0 < n < rows else None


def agree(got: mx.array, wanted: mx.array) -> bool:
    """Return whether logits are equal but for rounding, which is a share of their span."""
    share = 1e-3 if got.dtype == mx.float32 else 3e-2
    wanted = wanted.astype(mx.float32)
    off = mx.max(mx.abs(got.astype(mx.float32) - wanted))
    span = mx.max(wanted) - mx.min(wanted)
    return bool(off <= share * span + 1e-6)


def find_out(model: Any, question: Hashable, trial: Callable[[], bool]) -> bool:
    """Return whether ``trial()`` succeeds; it runs once a question while the model lives."""
    key = id(model), question
    if key in _TRIED:
        return _TRIED[key]
    try:
        result = trial()
    except Exception:  # a model may fail in any way here; alone its errors are its own
        result = False
    with suppress(TypeError):  # without weak references it is tried every time
        finalize(model, _TRIED.pop, key, None)
        _TRIED[key] = result
    return result


def _get(source: Any, name: str) -> Any:
    """Return what a module, settings or a dict say of ``name``; a module is a dict, too."""
    result = getattr(source, name, None)
    return source.get(name) if result is None and isinstance(source, dict) else result
