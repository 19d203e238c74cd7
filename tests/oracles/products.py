"""Random calls of ``cblas_sgemm``, each beside the exact result.

    python tests/oracles/products.py few_rows.so openblas.so 5000

runs so many, a third more in the one order of ``same_bits``, and says how many differ. Under
AddressSanitizer it ends at the first byte too far.
"""

import ctypes
import sys
from dataclasses import dataclass

import numpy as np

ROW_MAJOR, COLUMN_MAJOR = 101, 102
NO_TRANS, TRANS = 111, 112
LEAST = float(np.finfo(np.float32).smallest_subnormal)
SPECIAL = np.float32([0, -0.0, 1e-40, -3e-42, 1, np.inf, -np.inf, np.nan])


@dataclass
class Call:
    """Holds the arguments, whose matrices have columns beyond their own, and C before the call."""

    order: int
    trans: tuple[int, int]
    sizes: tuple[int, int, int]  # rows, columns, depth
    alpha: float
    a: np.ndarray
    b: np.ndarray
    beta: float
    c: np.ndarray


def random_call(rng: np.random.Generator, most_rows: int = 20) -> Call:
    """Draw shapes, strides, transpositions, factors and numbers; one call in five has odd ones."""
    sizes = int(rng.integers(1, most_rows)), int(rng.integers(1, 140)), int(rng.integers(1, 700))
    is_odd = rng.random() < 0.2
    order = COLUMN_MAJOR if rng.random() < 0.05 else ROW_MAJOR
    trans = (TRANS if rng.random() < 0.1 else NO_TRANS), int(rng.choice([NO_TRANS, TRANS]))
    if is_odd:  # what OpenBLAS does with these is its own affair: only products of ours
        sizes = min(sizes[0], 16), *sizes[1:]
        order, trans = ROW_MAJOR, (NO_TRANS, trans[1])
    rows, columns, depth = sizes
    shapes = [(rows, depth), (depth, columns), (rows, columns)]
    pairs = zip(shapes, (*trans, NO_TRANS), strict=True)
    shapes = [(n, m)[::-1] if t == TRANS else (n, m) for (n, m), t in pairs]
    if order == COLUMN_MAJOR:
        shapes = [shape[::-1] for shape in shapes]
    a, b, c = (_matrix(rng, shape, is_odd) for shape in shapes)
    alpha, beta = (float(rng.choice([0.0, 1.0, 1.0, -0.5, 2.25])) for _ in range(2))
    if is_odd and alpha == 0:
        alpha = 1.0
    if beta == 0:
        c[:] = np.nan  # it is not to be read
    return Call(order, trans, sizes, alpha, a, b, beta, c)


def _matrix(rng: np.random.Generator, shape: tuple[int, int], is_odd: bool) -> np.ndarray:
    wide = shape[0], shape[1] + int(rng.integers(0, 9))
    found = rng.normal(size=wide).astype(np.float32)
    if is_odd:
        where = rng.random(wide) < 0.01
        found[where] = rng.choice(SPECIAL, int(where.sum()))
    return _strided(found[:, : shape[1]], wide[1])


def _strided(m: np.ndarray, stride: int) -> np.ndarray:
    """Return a copy whose rows lie ``stride`` numbers apart; the last one ends with its memory."""
    rows, columns = m.shape
    memory = np.full(stride * (rows - 1) + columns, np.nan, np.float32)
    copy = np.lib.stride_tricks.as_strided(memory, m.shape, (4 * stride, 4))
    copy[:] = m
    return copy


def run(library: ctypes.CDLL, call: Call) -> np.ndarray:
    """Return what the library makes of C, and leave the call as it is."""
    c = _strided(call.c, call.c.strides[0] // 4)
    sizes = [ctypes.c_int(n) for n in (call.order, *call.trans, *call.sizes)]

    def matrix(m: np.ndarray) -> list:
        return [ctypes.c_void_p(m.ctypes.data), ctypes.c_int(m.strides[0] // 4)]

    library.cblas_sgemm(
        *sizes, ctypes.c_float(call.alpha), *matrix(call.a), *matrix(call.b),
        ctypes.c_float(call.beta), *matrix(c)
    )  # fmt: skip
    return c


def is_right(call: Call, found: np.ndarray) -> bool:
    """Return whether C is within 4 ulp·√k of the exact one, ulp of the sum's size in the mean."""
    a, b, c = (m.T if call.order == COLUMN_MAJOR else m for m in (call.a, call.b, call.c))
    a, b = (m.T if t == TRANS else m for m, t in zip((a, b), call.trans, strict=True))
    found = found.T if call.order == COLUMN_MAJOR else found
    with np.errstate(all="ignore"):
        a, b, c = (m.astype(np.float64) for m in (a, b, c))
        added = call.beta * c if call.beta else np.zeros(found.shape)
        product = call.alpha * (a @ b) if call.alpha else np.zeros(found.shape)
        exact = product + added
        size = abs(call.alpha) * np.sqrt(np.square(a) @ np.square(b)) + np.abs(added)
        near = 4 * np.sqrt(a.shape[1]) * (np.finfo(np.float32).eps * size + LEAST)
        is_near = np.abs(found - exact) <= near
    is_same = (found == exact) | (np.isnan(found) & np.isnan(exact))
    return bool(np.all(np.where(np.isfinite(exact), is_near, is_same)))


def load(few_rows: str, openblas: str, strict: bool = False) -> ctypes.CDLL:
    """Return the library, which hands all other products to OpenBLAS, or none if it is strict."""
    library, other = ctypes.CDLL(few_rows), ctypes.CDLL(openblas)
    library.few_rows_start(ctypes.cast(other.cblas_sgemm, ctypes.c_void_p))
    library.few_rows_strict(int(strict))
    return library


def wrong(library: ctypes.CDLL, count: int, seed: int = 0, most_rows: int = 20) -> int:
    """Return how many of so many random calls are not right."""
    rng = np.random.default_rng(seed)
    calls = (random_call(rng, most_rows) for _ in range(count))
    return sum(not is_right(call, run(library, call)) for call in calls)


if __name__ == "__main__":
    n = int(sys.argv[3])
    found = wrong(load(*sys.argv[1:3]), n)
    found += wrong(load(*sys.argv[1:3], strict=True), n // 3, most_rows=200)
    print(found, "wrong of", n + n // 3)
