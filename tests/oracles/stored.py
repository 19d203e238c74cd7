"""Random products with stored weights, beside the exact ones and the bound in the C file's head.

    python tests/oracles/stored.py stored_weights.so 5000

runs so many, and says how many differ. Under AddressSanitizer it ends at the first byte too far.
"""

import ctypes
import sys
from dataclasses import dataclass

import numpy as np

LANES = 16  # columns of a strip
SPECIAL = np.float32([0, -0.0, 1e-40, -3e-42, 1e-31, 3e38, 1])


class Arguments(ctypes.Structure):
    """``product`` in stored_weights.c."""

    _fields_ = [
        (name, ctypes.c_int) for name in ("rows", "columns", "depth", "bits", "group", "narrow")
    ] + [(name, ctypes.c_void_p) for name in ("x", "codes", "scales", "minima", "y")]


@dataclass
class Call:
    """Holds x ``(rows, depth)``, codes ``(columns, depth)``, the others ``(columns, groups)``."""

    bits: int
    x: np.ndarray
    codes: np.ndarray
    scales: np.ndarray
    minima: np.ndarray

    def group(self) -> int:
        """Neighbours that share a scale."""
        return self.x.shape[1] // self.scales.shape[1]

    def alone(self, row: int) -> "Call":
        """The same product of one row."""
        return Call(self.bits, self.x[row : row + 1], self.codes, self.scales, self.minima)


def random_call(rng: np.random.Generator, most_rows: int = 64) -> Call:
    """Draw shapes and numbers; one call in five has odd ones among its x."""
    bits, group = int(rng.choice([4, 8])), int(rng.choice([16, 32, 48, 64, 128, 256]))
    rows, columns = int(rng.integers(1, most_rows + 1)), int(rng.integers(1, 45))
    depth = group * int(rng.integers(1, 1 + 640 // group))
    codes = rng.integers(0, 2**bits, (columns, depth))
    if rng.random() < 0.1:
        codes[:] = 2**bits - 1  # the largest sums
    x = rng.normal(size=(rows, depth)).astype(np.float32)
    x *= np.float32(10.0) ** rng.integers(-3, 4, (1, depth))
    if rng.random() < 0.2:
        where = rng.random(x.shape) < 0.05
        x[where] = rng.choice(SPECIAL, int(where.sum()))
    scales, minima = (rng.normal(size=(columns, depth // group)) for _ in range(2))
    if rng.random() < 0.1:  # all are rounded the same way, and nothing cancels
        x = (rng.integers(0, 32000, x.shape) + 0.9).astype(np.float32)
        x[:, ::group] = 32767
        scales, minima = np.abs(scales), np.abs(minima)
    kept = rng.choice([np.float32, np.float16])
    return Call(bits, x, codes, scales.astype(kept), (minima * 2**bits / 2).astype(kept))


def packed(call: Call) -> list[np.ndarray]:
    """Codes, scales and minima in the order that the C file says."""
    columns, depth = call.codes.shape
    strips, each = -(-columns // LANES), 16 // call.bits
    words = np.zeros((strips, depth // (2 * each), LANES, 2), np.uint16)
    c, k = np.indices(call.codes.shape)  # each code by the words of the file's comment
    block, n, j = k // (2 * each), k % (2 * each) // 2, k % 2
    shifted = (call.codes << n * call.bits).astype(np.uint16)
    np.bitwise_or.at(words, (c // LANES, block, c % LANES, j), shifted)
    found = [words]
    for values in (call.scales, call.minima):
        strip = np.zeros((strips, values.shape[1], LANES), values.dtype)
        c = np.arange(columns)
        strip[c // LANES, :, c % LANES] = values
        found.append(strip)
    return found


def run(library: ctypes.CDLL, call: Call, name: str = "stored_product") -> np.ndarray:
    """Return what the library makes of a call; all its memory is as long as it must be."""
    (rows, depth), columns = call.x.shape, len(call.codes)
    y = np.full((rows, columns), np.nan, np.float32)
    library.stored_space.restype = ctypes.c_size_t
    space = np.empty(library.stored_space(rows, depth, call.group()), np.uint8)
    arrays = [_unaligned(each) for each in (call.x, *packed(call))] + [y]
    sizes = rows, columns, depth, call.bits, call.group(), call.scales.dtype == np.float16
    told = Arguments(*sizes, *(each.ctypes.data for each in arrays))
    getattr(library, name)(ctypes.byref(told), ctypes.c_void_p(space.ctypes.data))
    return y


def _unaligned(array: np.ndarray) -> np.ndarray:
    """Return a copy that begins where its type may, and nothing wider: behind one number."""
    room = np.zeros(array.size + 1, array.dtype)
    room[1:] = array.ravel()
    return room[1:].reshape(array.shape)


def is_right(call: Call, found: np.ndarray) -> bool:
    """Return whether all is within the bound of the C file."""
    x, group = call.x.astype(np.float64), call.group()
    scales, minima = (
        np.repeat(each.astype(np.float64), group, 1) for each in (call.scales, call.minima)
    )
    weight = scales * call.codes + minima
    most = np.abs(x).reshape(len(x), -1, group).max(-1)
    step = np.where(most < 2.0**-100, 2.0**-99, most / 32767)
    size = np.abs(scales) * call.codes + np.abs(minima)
    rounded = 0.51 * np.repeat(step, group, 1) @ np.abs(weight).T
    added = (2 * call.scales.shape[1] + 8) * 2.0**-24 * (np.abs(x) @ size.T)
    with np.errstate(over="ignore", invalid="ignore"):
        exact, bound = x @ weight.T, rounded + added + 1e-37
        # Beyond, float32 may end: in the result, or in the sum of a group's x.
        sums = np.abs(x).reshape(len(x), -1, group).sum(-1).max(-1, keepdims=True)
        fits = (np.abs(x) @ size.T < 1e38) & (sums < 3.2e38)
        return bool(np.all(~fits | (np.abs(found - exact) <= bound)))


def wrong(library: ctypes.CDLL, count: int, seed: int = 0, most_rows: int = 64) -> int:
    """Return how many of so many random calls are off, other than by definition, or not alone."""
    rng = np.random.default_rng(seed)
    bad = 0
    for _ in range(count):
        call = random_call(rng, most_rows)
        found, row = run(library, call), int(rng.integers(len(call.x)))
        same = np.array_equal(run(library, call.alone(row))[0], found[row], equal_nan=True)
        naive = np.array_equal(run(library, call, "stored_naive"), found, equal_nan=True)
        bad += not (is_right(call, found) and same and naive)
    return bad


if __name__ == "__main__":
    n = int(sys.argv[2])
    print(wrong(ctypes.CDLL(sys.argv[1]), n), "wrong of", n)
