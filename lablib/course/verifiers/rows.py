"""Sequences as a verifier wants them: each row without its padding."""

from lablib.validation import BadValue

import mlx.core as mx
import numpy as np


def unpad(sequences: mx.array, lengths: mx.array | None) -> list[np.ndarray]:
    """Return the rows ``(n, seq_len)`` without their padding; the inverse of ``scoring.pad``."""
    rows = np.array(sequences)
    if rows.ndim != 2:
        raise BadValue(f"sequences must have shape (n, seq_len), got {rows.shape}")
    ends = np.full(len(rows), rows.shape[1]) if lengths is None else np.array(lengths)
    if ends.shape != (len(rows),):
        raise BadValue(f"lengths must have shape ({len(rows)},), got {ends.shape}")
    return [row[:end] for row, end in zip(rows, ends, strict=True)]
