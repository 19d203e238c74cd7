"""What a call of the sampler must be given, checked before it does anything."""

from collections.abc import Hashable, Iterable, Sized
from typing import Any

from lablib.validation import BadType, BadValue, token_ids

import mlx.core as mx
import numpy as np


def none(seq_ids: Any) -> bool:
    """Return whether a call is about no sequence at all, which is fine."""
    return isinstance(seq_ids, Sized) and len(seq_ids) == 0


def ids(seq_ids: Any) -> tuple[Hashable, ...]:
    """Return several ids as a tuple; one alone is refused."""
    if isinstance(seq_ids, str) or not isinstance(seq_ids, Iterable):
        raise BadType(f"seq_ids must be a sequence of ids, got {seq_ids!r}")
    return tuple(seq_ids)


def logits(ids: tuple[Hashable, ...], logits: mx.array, n_rows: int) -> None:
    """Refuse logits that are not ``(B, V)``, or ``(B, R, V)`` with ``n_rows``, and floating."""
    if not isinstance(logits, mx.array):
        raise BadType(f"logits must be an mlx array, got {type(logits).__name__}")
    shape = logits.shape
    if len(shape) != (3 if n_rows else 2) or shape[0] != len(ids) or shape[-1] == 0:
        wanted = f"({len(ids)}, {'R, ' if n_rows else ''}V)"
        raise BadValue(f"logits must have shape {wanted} for {len(ids)} ids, got {shape}")
    if not mx.issubdtype(logits.dtype, mx.floating):
        raise BadType(f"logits must be floating point, got {logits.dtype}")


def histories(ids: tuple[Hashable, ...], highest: np.ndarray, vocab_size: int) -> None:
    """Refuse logits that are too short for a token ``(B,)`` in a history."""
    if highest.max() >= vocab_size:
        raise BadValue(
            f"slot {ids[highest.argmax()]!r} was given token {highest.max()} (prior_tokens or "
            f"commit), but logits have V = {vocab_size}"
        )


def drafts(
    seq_ids: Any, logits: mx.array, draft_tokens: Any
) -> tuple[tuple[Hashable, ...], mx.array]:
    """Return ids and drafts ``(B, D)`` int32 for logits ``(R, V)`` or ``(B, R, V)``, R <= D + 1.

    Drafts that are not on the device yet must be in the vocabulary.
    """
    if not isinstance(logits, mx.array) or logits.ndim not in (2, 3):
        got = getattr(logits, "shape", type(logits).__name__)
        raise BadValue(f"logits must have shape (R, V), or (B, R, V) for B ids, got {got}")
    many = logits.ndim == 3
    names = ids(seq_ids) if many else (seq_ids,)
    host = not isinstance(draft_tokens, mx.array)
    tokens = np.array(draft_tokens) if host else draft_tokens
    if tokens.ndim != logits.ndim - 1 or (many and len(tokens) != len(names)):
        wanted = f"({len(names)}, D)" if many else "(D,)"
        raise BadValue(f"draft_tokens must have shape {wanted}, got {tuple(tokens.shape)}")
    n_rows, n_drafts = logits.shape[-2], tokens.shape[-1]
    if not 1 <= n_rows <= n_drafts + 1:
        raise BadValue(
            f"logits must have 1 to {n_drafts + 1} rows (R <= D + 1) for {n_drafts} draft tokens, "
            f"got {n_rows}"
        )
    if host:
        for name, row in zip(names, tokens if many else tokens[None], strict=True):
            token_ids(f"draft_tokens of slot {name!r}", row, logits.shape[-1], allow_empty=True)
    return names, mx.array(tokens).astype(mx.int32).reshape(len(names), n_drafts)


def fit(ids: tuple[Hashable, ...], finite: np.ndarray) -> None:
    """Refuse rows that cannot be drawn from, by name."""
    if not finite.all():
        names = ", ".join(repr(ids[row]) for row in np.flatnonzero(~finite)[:4])
        raise BadValue(
            f"logits of slot {names}: a row must have no NaN or +inf and some finite score"
        )
