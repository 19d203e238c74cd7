"""The side that only reads memory: what no side can beat where every weight is read once."""

import time

import lablib  # noqa: F401
from lablib.tools.bench.turns import Answer, serve

import mlx.core as mx
import numpy as np


def _read() -> Answer:
    """Read 268 MB in a matrix-vector product: NumPy's, or MLX's on a GPU."""
    if mx.default_device() == mx.gpu:
        matrix, vector = mx.ones((8192, 8192)), mx.ones(8192)
        mx.eval(matrix, vector)
        start = time.perf_counter()
        mx.eval(matrix @ vector)
        return {"seconds": time.perf_counter() - start, "bytes": matrix.nbytes}
    matrix, vector = _numpy
    start = time.process_time()
    matrix @ vector
    return {"seconds": time.process_time() - start, "bytes": matrix.nbytes}


_numpy = np.ones((8192, 8192), np.float32), np.ones(8192, np.float32)

if __name__ == "__main__":
    serve(lambda _: {"read": lambda _: _read()})
