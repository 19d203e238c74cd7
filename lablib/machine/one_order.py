"""Adds every number up in one order while somebody wants it: ``lablib.same_bits`` switches it on.

A sum of floats hangs on its order, and fast products choose one by how many rows there are.
``few_rows.c`` then takes every float32 product, and adds from the first number to the last. MLX
does the same in its sums and softmax on Linux (one at a time), and in its products of other types.
So neither the rows beside a row nor zeros before, between or behind its numbers change a bit: what
is masked has the weight 0, so padding does nothing. ``proof`` tries all of it on the machine.
"""

import ctypes
import threading
from collections.abc import Callable

from lablib.machine import backend

import mlx.core as mx

_lock = threading.RLock()
_blocks = 0  # how many the process is in; above 0 there is one order
_differing: list[str] | None = None  # what the proof has found; None: not tried yet


def is_on() -> bool:
    """Return whether there is one order now."""
    return _blocks > 0


def begin() -> bool:
    """Switch it on until ``end``, for all threads; return whether it was off.

    Raises:
        RuntimeError: it can't be promised here; the message says why.
    """
    global _blocks
    with _lock:
        reason = obstacle()
        if reason:
            raise RuntimeError(f"the same bits can't be promised here: {reason}")
        _blocks += 1
        _switch(True)
        return _blocks == 1


def end() -> bool:
    """Undo one ``begin``, once what was begun is computed; return whether it is off now."""
    global _blocks
    mx.synchronize()
    with _lock:
        _blocks -= 1
        _switch(is_on())
        return not is_on()


def obstacle() -> str | None:
    """Return why there can't be one order on this machine; None where it is proved."""
    global _differing
    if mx.default_device() == mx.gpu:
        return "a GPU's kernels choose the order of a sum by the number of rows"
    blas = backend.blas()
    if blas.few_rows is None:
        note = blas.few_rows_note or blas.note or f"the BLAS is {blas.source}"
        return f"few_rows.c is not in use ({note})"
    with _lock:
        if not _switch(True):
            return f"{blas.few_rows} is built from an older few_rows.c"
        if _differing is None:
            _differing = proof()
        _switch(is_on())
    return f"{', '.join(_differing)} gave other bits" if _differing else None


def _switch(on: bool) -> bool:
    """Have ``few_rows.c`` take every product, or few; return whether it could."""
    strict = getattr(ctypes.CDLL(backend.blas().few_rows), "few_rows_strict", None)
    if strict is not None:
        strict(int(on))
    return strict is not None


def proof() -> list[str]:
    """Return what gives a row other bits alone than among others, or with padding before it."""
    rows, others = (mx.random.normal((n, 90), key=mx.random.key(n)) for n in (64, 75))
    padded = mx.pad(rows, [(0, 0), (7, 4)])
    hidden = mx.pad(rows, [(0, 0), (7, 4)], constant_values=-mx.inf)
    weight, square = mx.ones((90,)), others[:64]
    on_left = mx.pad(others.T, [(7, 4), (0, 0)], constant_values=3)
    pairs = {
        "products": (rows @ others.T, _alone(lambda x: x @ others.T, rows)),
        "other layouts": (rows @ mx.contiguous(others.T), rows @ others.T),
        "transposed ones": (mx.contiguous(square.T).T @ others.T, square @ others.T),
        "padded ones": (padded @ on_left, rows @ others.T),
        "sums": (mx.sum(padded, axis=-1), _alone(lambda x: mx.sum(x, axis=-1), rows)),
        "softmax": (
            mx.softmax(hidden, axis=-1, precise=True)[:, 7:-4],
            _alone(lambda x: mx.softmax(x, axis=-1, precise=True), rows),
        ),
        "norms": (
            mx.fast.rms_norm(rows, weight, 1e-5),
            _alone(lambda x: mx.fast.rms_norm(x, weight, 1e-5), rows),
        ),
    }
    return [name for name, pair in pairs.items() if not mx.array_equal(*pair)]


def _alone(work: Callable[[mx.array], mx.array], rows: mx.array) -> mx.array:
    return mx.concatenate([work(rows[i : i + 1]) for i in range(len(rows))])
