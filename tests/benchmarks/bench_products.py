"""The numbers of ``lablib/models/linear.py``: a product as a whole, and by blocks of several sizes.

    python tests/benchmarks/bench_products.py

A line for each shape and number of rows: microseconds of the whole product, of blocks of about that
many multiply-adds, of what ``blocked`` chooses, and how much faster that is. The last column is the
limit: the matrix' bytes over what NumPy's matrix-vector product of 268 MB reads in a second.
"""

import time
from collections.abc import Callable

from lablib.models import linear

import mlx.core as mx
import numpy as np
from tabulate import tabulate

SHAPES = [  # (k, n) of the shipped target, of Llamas of 20M and 100M parameters, of output layers
    (192, 192), (192, 512), (512, 192), (384, 1024), (1024, 384), (576, 1536), (1536, 576),
    (576, 8192), (576, 49152),
]  # fmt: skip
ROWS = (1, 2, 5, 9, 16)
BLOCKS = (32_000, 64_000, 128_000, 256_000, 512_000)


def microseconds(work: Callable[[], mx.array], repeats: int) -> float:
    """Return the shortest of five runs: noise only ever adds."""
    mx.eval(work())
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(repeats):
            mx.eval(work())
        best = min(best, (time.perf_counter() - start) / repeats)
    return 1e6 * best


def bandwidth() -> float:
    """Return bytes a second of NumPy's matrix-vector product of 268 MB."""
    matrix, vector = np.ones((8192, 8192), np.float32), np.ones(8192, np.float32)
    seconds = []
    for _ in range(7):
        start = time.perf_counter()
        matrix @ vector
        seconds.append(time.perf_counter() - start)
    return matrix.nbytes / min(seconds)


def main() -> None:
    """Print the table."""
    memory, rows, chosen = bandwidth(), [], linear._BLOCK
    for k, n in SHAPES:
        weight = mx.random.normal((n, k), key=mx.random.key(0))
        for count in ROWS:
            x = mx.random.normal((1, count, k), key=mx.random.key(1))
            repeats = max(5, min(200, 20_000_000 // (count * k * n)))
            whole = microseconds(lambda x=x, w=weight: x @ w.T, repeats)
            times = []
            for size in (*BLOCKS, chosen):
                linear._BLOCK = size
                linear._width.cache_clear()
                if linear.blocked(x, weight) is None:
                    times.append(whole)
                    continue
                times.append(microseconds(lambda x=x, w=weight: linear.blocked(x, w), repeats))
            limit = 1e6 * weight.nbytes / memory
            rows.append((k, n, count, whole, *times, whole / times[-1], limit))
    print(f"memory: {memory / 1e9:.1f} GB/s\n")
    sizes = [f"{size // 1000}k" for size in BLOCKS]
    heads = ["k", "n", "rows", "whole", *sizes, "chosen", "faster", "limit"]
    print(
        tabulate(rows, heads, tablefmt="github", floatfmt=[*["d"] * 3, *[".0f"] * 7, ".2f", ".0f"])
    )


if __name__ == "__main__":
    main()
