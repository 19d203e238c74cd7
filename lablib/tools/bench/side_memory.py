"""The side that only reads memory: what no side can beat where every weight is read once."""

import ctypes
import time
from collections.abc import Callable

import lablib  # noqa: F401
from lablib.machine import backend
from lablib.tools.bench.turns import Answer, serve

import mlx.core as mx
import numpy as np


def _read() -> Answer:
    """Read 268 MB in a plain loop; on a GPU in a matrix-vector product of MLX's."""
    if mx.default_device() == mx.gpu:
        matrix, vector = mx.ones((8192, 8192)), mx.ones(8192)
        mx.eval(matrix, vector)
        start = time.perf_counter()
        mx.eval(matrix @ vector)
        return {"seconds": time.perf_counter() - start, "bytes": matrix.nbytes}
    start = time.process_time()
    _read_once()
    return {"seconds": time.process_time() - start, "bytes": _numbers.nbytes}


def _loop() -> Callable[[], object]:
    """Return what reads ``_numbers``: the loop in few_rows.c, or NumPy's sum where that is not."""
    library = backend.blas().few_rows
    read = getattr(ctypes.CDLL(library), "few_rows_read", None) if library else None
    if read is None:
        return _numbers.sum
    read.restype, read.argtypes = ctypes.c_float, (ctypes.c_void_p, ctypes.c_size_t)
    return lambda: read(_numbers.ctypes.data, _numbers.size)


_numbers = np.ones(8192 * 8192, np.float32)  # not zeros, which would be one page
_read_once = _loop()

if __name__ == "__main__":
    serve(lambda _: {"read": lambda _: _read()})
