"""What a call of the sampler must be given, checked before it does anything."""

from collections.abc import Hashable
from typing import Any

from lablib.validation import BadType, BadValue, token_ids

import mlx.core as mx
import numpy as np


def logits(ids: tuple[Hashable, ...], logits: Any, many: bool) -> None:
    """Refuse logits that are not ``(B, V)``, or ``(B, R, V)`` with ``many``, and floating."""
    if not isinstance(logits, mx.array):
        raise BadType(f"logits must be an mlx array, got {type(logits).__name__}")
    shape = logits.shape
    if len(shape) != 2 + many or shape[0] != len(ids) or shape[-1] == 0:
        wanted = f"({len(ids)}, {'R, ' if many else ''}V)"
        raise BadValue(f"logits must have shape {wanted} for {len(ids)} ids, got {shape}")
    if not mx.issubdtype(logits.dtype, mx.floating):
        raise BadType(f"logits must be floating point, got {logits.dtype}")


def history(ids: tuple[Hashable, ...], highest: np.ndarray, vocab_size: int) -> None:
    """Refuse logits that are too short for a token ``(B,)`` in a history."""
    if highest.max() >= vocab_size:
        raise BadValue(
            f"slot {ids[highest.argmax()]!r} was given token {highest.max()} (prior_tokens or "
            f"commit), but logits have V = {vocab_size}"
        )


def drafts(
    ids: tuple[Hashable, ...], logits: Any, draft_tokens: Any
) -> tuple[mx.array, mx.array | bool]:
    """Return drafts ``(B, D)`` int32, and whose are valid ``(B, 1)``; R <= D + 1.

    Logits are ``(B, R, V)``, or ``(R, V)`` beside drafts ``(D,)``. Drafts on the device are
    not looked at, as that would mean to wait; others must be in the vocabulary.
    """
    if not isinstance(logits, mx.array) or logits.ndim not in (2, 3):
        got = getattr(logits, "shape", type(logits).__name__)
        raise BadValue(f"logits must have shape (R, V), or (B, R, V) for B ids, got {got}")
    host = not isinstance(draft_tokens, mx.array)
    tokens, many = np.array(draft_tokens) if host else draft_tokens, logits.ndim == 3
    if tokens.ndim != logits.ndim - 1 or (many and len(tokens) != len(ids)):
        wanted = f"({len(ids)}, D)" if many else "(D,)"
        raise BadValue(f"draft_tokens must have shape {wanted}, got {tuple(tokens.shape)}")
    n_rows, vocab_size = logits.shape[-2:]
    n_drafts = tokens.shape[-1]
    if not 1 <= n_rows <= n_drafts + 1:
        wanted = f"1 to {n_drafts + 1} rows (R <= D + 1) for {n_drafts} draft tokens"
        raise BadValue(f"logits must have {wanted}, got {n_rows}")
    if host:
        for name, row in zip(ids, tokens if many else tokens[None], strict=True):
            token_ids(f"draft_tokens of slot {name!r}", row, vocab_size, allow_empty=True)
    drafts = mx.array(tokens).astype(mx.int32).reshape(len(ids), n_drafts)
    if host or not n_drafts:
        return drafts, True
    return drafts, mx.all((drafts >= 0) & (drafts < vocab_size), axis=-1, keepdims=True)


def fit(ids: tuple[Hashable, ...], finite: np.ndarray) -> None:
    """Refuse rows that cannot be drawn from, by name."""
    if not finite.all():
        names = ", ".join(repr(ids[row]) for row in np.flatnonzero(~finite)[:4])
        wanted = "a row must have no NaN or +inf and some finite score"
        raise BadValue(f"logits of slot {names}: {wanted}")
