"""The numbers of ``lablib/models/linear.py``: a product as a whole, and by blocks of several sizes.

    python tests/benchmarks/bench_products.py

A line for each shape and number of rows: microseconds of processor time of the whole product, of
blocks within a part of what OpenBLAS calls small, of what ``blocked`` chooses, and how much faster
that is than the whole. The weights come from memory, as in a model: there are several matrices of
each shape, 50 MB in all. The last column is the limit: the matrix' bytes over what NumPy's
matrix-vector product of 268 MB reads in a second.
"""

import time
from collections.abc import Callable

from lablib.models import linear

import mlx.core as mx
import numpy as np
from tabulate import tabulate

SHAPES = [  # (k, n) of the shipped target, of Llamas of 20M and 100M parameters, of output layers
    (192, 192), (192, 448), (448, 192), (384, 1024), (1024, 384), (576, 576), (576, 192),
    (576, 1536), (1536, 576), (576, 6144), (576, 49152),
]  # fmt: skip
ROWS = (1, 2, 3, 5, 7, 9)
PARTS = (8, 2)
TURNS = 7
BYTES = 50_000_000


def microseconds(kinds: dict[str, Callable[[mx.array, mx.array], mx.array]], pairs: list) -> list:
    """Return the median of each kind of product, in turns."""
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(TURNS + 1):  # the first one warms up
        for name in sorted(kinds, reverse=turn % 2 == 1):
            start = time.process_time()
            mx.eval([kinds[name](x, weight) for x, weight in pairs])
            taken[name].append(time.process_time() - start)
    return [1e6 * float(np.median(taken[name][1:])) / len(pairs) for name in kinds]


def within(part: int) -> Callable[[mx.array, mx.array], mx.array]:
    """Return the product by blocks of a part of the largest size."""
    result, work = linear._RESULT // part, linear._WORK // part

    def product(x: mx.array, weight: mx.array) -> mx.array:
        whole, linear._RESULT, linear._WORK = (linear._RESULT, linear._WORK), result, work
        linear._width.cache_clear()
        try:
            return linear.product(x, weight)
        finally:
            linear._RESULT, linear._WORK = whole
            linear._width.cache_clear()

    return product


def bandwidth() -> float:
    """Return bytes a second of NumPy's matrix-vector product of 268 MB."""
    matrix, vector = np.ones((8192, 8192), np.float32), np.ones(8192, np.float32)
    seconds = []
    for _ in range(7):
        start = time.process_time()
        matrix @ vector
        seconds.append(time.process_time() - start)
    return matrix.nbytes / min(seconds)


def main() -> None:
    """Print the table."""
    memory, rows = bandwidth(), []
    kinds = {"whole": lambda x, weight: x @ weight.T}
    kinds |= {f"1/{part}": within(part) for part in PARTS} | {"chosen": linear.product}
    for k, n in SHAPES:
        count = max(2, min(60, BYTES // (4 * k * n)))
        weights = [mx.random.normal((n, k), key=mx.random.key(i)) for i in range(count)]
        for size in ROWS:
            x = mx.random.normal((size, k), key=mx.random.key(count))
            mx.eval(x, weights)
            times = microseconds(kinds, [(x, weight) for weight in weights])
            limit = 1e6 * weights[0].nbytes / memory
            rows.append((k, n, size, *times, times[0] / times[-1], limit))
    print(f"memory: {memory / 1e9:.1f} GB/s\n")
    heads = ["k", "n", "rows", *kinds, "faster", "limit"]
    floats = [*["d"] * 3, *[".0f"] * len(kinds), ".2f", ".0f"]
    print(tabulate(rows, heads, tablefmt="github", floatfmt=floats))


if __name__ == "__main__":
    main()
