"""What any model must tell the engine: its vocabulary, how many tokens fit, what a trial shows."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any
from weakref import finalize

from lablib.validation import BadValue

import mlx.core as mx
import mlx.nn as nn

_OUTPUTS = ("lm_head", "embed_tokens", "embeddings", "wte", "word_embeddings")
_POSITIONS = ("embed_positions", "wpe")  # ours; GPT-2's and GPT-BigCode's in mlx-lm
_FOUND: dict[tuple[int, Hashable], bool] = {}  # by the id of a living model


def vocab_size_of(model: Any, name: str = "model") -> int:
    """Return the number of token ids of any model: the last axis of its logits.

    Looks at ``vocab_size`` in the model, its ``config``, its ``args`` (or their ``text_config``),
    then at the rows of the output layer or the embedding table, as many when they are quantised.

    Raises:
        BadValue: none of these says it; the caller calls the model by its ``name``.
    """
    for place in (model, getattr(model, "config", None), getattr(model, "args", None)):
        for source in (place, _get(place, "text_config")):
            size = _get(source, "vocab_size")
            if isinstance(size, int) and not isinstance(size, bool) and size > 0:
                return size
    rows: dict[str, int] = {}
    for path, module in model.named_modules() if isinstance(model, nn.Module) else []:
        if "weight" in module and module.weight.ndim == 2:
            rows.setdefault(path.split(".")[-1], module.weight.shape[0])
    if found := [rows[name] for name in _OUTPUTS if name in rows]:
        return found[0]
    cure = f"give the {type(model).__name__} a vocab_size"
    raise BadValue(f"{name} must say how many token ids it has: {cure}")


def position_table_of(model: Any) -> int | None:
    """Return the rows of a model's table of positions; None where positions are computed."""
    parts = model, getattr(model, "model", None), getattr(model, "transformer", None)
    tables = (getattr(part, name, None) for part in parts for name in _POSITIONS)
    return next((table.weight.shape[0] for table in tables if isinstance(table, nn.Module)), None)


def context_of(model: Any) -> int | None:
    """Return how many tokens a model can read; None if it has no limit or doesn't say.

    It is ``model.max_positions``, else the rows of the table of positions: MLX reads garbage, often
    NaN, beyond it. The length that mlx-lm's rotating models were trained on is no limit.
    """
    limit = getattr(model, "max_positions", None)
    return position_table_of(model) if limit is None else limit


def agree(got: mx.array, wanted: mx.array) -> bool:
    """Return whether logits are equal but for rounding, which is a share of what they span."""
    wanted, share = wanted.astype(mx.float32), 1e-3 if got.dtype == mx.float32 else 3e-2
    off = mx.max(mx.abs(got.astype(mx.float32) - wanted))
    return (off <= share * (mx.max(wanted) - mx.min(wanted)) + 1e-6).item()


def find_out(model: Any, question: Hashable, trial: Callable[[], bool]) -> bool:
    """Return whether ``trial()`` succeeds; it runs once a question while the model lives."""
    key = id(model), question
    if key in _FOUND:
        return _FOUND[key]
    try:
        found = trial()
    except Exception:  # a model may fail in any way here; alone its errors are its own
        found = False
    with suppress(TypeError):  # what cannot be referred to weakly is tried every time
        finalize(model, _FOUND.pop, key, None)
        _FOUND[key] = found
    return found


def _get(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, dict) else getattr(source, name, None)
