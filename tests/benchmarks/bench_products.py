"""What ``lablib/machine/few_rows.c`` gains: products of few rows with and without it.

    python tests/benchmarks/bench_products.py

A line for each shape, a weight matrix of the shipped target or of a model of 100M parameters, and
number of rows: gigabytes of weights that are read in a second of processor time, by OpenBLAS and by
few rows. The weights come from memory, as in a model: there are several matrices of each shape, 150
MB in all. The last column is the limit: NumPy's matrix-vector product of the same matrices. Set
``OPENBLAS_CORETYPE=Haswell`` for the kernels of a processor without AVX-512.
"""

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lablib.machine import backend

import numpy as np
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import products  # the calls of the tests

SHAPES = [(448, 192), (192, 448), (1024, 384), (576, 576), (1536, 576), (576, 1536)]
ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
BYTES = 150_000_000
TURNS = 5


def call(x: np.ndarray, weight: np.ndarray) -> products.Call:
    """Return the product ``x @ weight.T``."""
    sizes = len(x), len(weight), x.shape[1]
    c = np.zeros((len(x), len(weight)), np.float32)
    trans = products.NO_TRANS, products.TRANS
    return products.Call(products.ROW_MAJOR, trans, sizes, 1.0, x, weight, 0.0, c)


def speeds(runs: dict[str, Callable[[], object]], size: int) -> dict[str, float]:
    """Return the best of a few turns of each, in 10⁹ bytes a second."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(TURNS):
        for name, run in runs.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return {name: size / seconds / 1e9 for name, seconds in best.items()}


def main() -> None:
    """Print the table."""
    blas = backend.blas()
    if blas.few_rows is None:
        sys.exit(f"no few rows: {blas.few_rows_note}")
    openblas, few_rows = ctypes.CDLL(blas.path), products.load(blas.few_rows, blas.path)
    random, lines = np.random.default_rng(0), []
    for columns, depth in SHAPES:
        count = BYTES // (4 * columns * depth)
        weights = [random.normal(size=(columns, depth)).astype(np.float32) for _ in range(count)]
        vector = np.ones(depth, np.float32)
        for rows in ROWS:
            x = random.normal(size=(rows, depth)).astype(np.float32)
            calls = [call(x, weight) for weight in weights]
            runs = {
                "OpenBLAS": lambda calls=calls: [products.run(openblas, each) for each in calls],
                "few rows": lambda calls=calls: [products.run(few_rows, each) for each in calls],
                "limit": lambda weights=weights, vector=vector: [w @ vector for w in weights],
            }
            found = speeds(runs, sum(weight.nbytes for weight in weights))
            times = found["few rows"] / found["OpenBLAS"]
            lines.append(
                (columns, depth, rows, found["OpenBLAS"], found["few rows"], times, found["limit"])
            )
    print(f"{backend.core()} kernels, GB/s of weights\n")
    heads = ["columns", "depth", "rows", "OpenBLAS", "few rows", "times", "limit"]
    floats = [*["d"] * 3, ".1f", ".1f", ".2f", ".1f"]
    print(tabulate(lines, heads, tablefmt="github", floatfmt=floats))


if __name__ == "__main__":
    main()
