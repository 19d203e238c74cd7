"""Takes a GGUF file's blocks apart into codes, scales and minima, as the file has them.

Eight types hold codes with ``weight = scale · code + minimum`` for groups of 32 or 16. Signed ones
get an offset, which the minimum takes back. All products have fewer than 25 binary digits, so these
are, to the last bit, the weights that the package ``gguf`` makes of a block.
"""

from collections.abc import Callable, Iterator

from lablib.models.gguf.header import Tensor
from lablib.models.gguf.weights import not_finite
from lablib.models.stored import LANES, Codes

import mlx.core as mx
import numpy as np

# All of a number of blocks, float32 but for the codes: (blocks, codes), (blocks, groups) twice.
Groups = tuple[np.ndarray, np.ndarray, np.ndarray]
_AT_ONCE = 2**19  # bytes: what is made of them stays in the processor's cache


def _nibbles(raw: np.ndarray, run: int) -> np.ndarray:
    """Return codes of four bits: of each ``run`` bytes the lower ones, then the upper ones."""
    parts = raw.reshape(len(raw), -1, 1, run)
    return np.concatenate([parts & 15, parts >> 4], axis=2).reshape(len(raw), -1)


def _halves(raw: np.ndarray) -> np.ndarray:
    return raw.view(np.float16).astype(np.float32)


def _simple(offset: int | None, five: bool = False) -> Callable[[np.ndarray], Groups]:
    """Return what reads a scale, a minimum if there is no ``offset``, fifth bits, and codes."""

    def read(blocks: np.ndarray) -> Groups:
        scales, rest = np.split(blocks, [2], axis=1)
        scales = _halves(scales)
        if offset is None:
            minima, rest = np.split(rest, [2], axis=1)
            minima = _halves(minima)
        else:
            minima = -offset * scales
        codes = rest ^ 0x80 if offset == 128 else _nibbles(rest[:, -16:], 16)
        if five:
            codes |= np.unpackbits(rest[:, :4], axis=1, bitorder="little") << 4
        return codes, scales, minima

    return read


def _k(five: bool) -> Callable[[np.ndarray], Groups]:
    """Return what reads Q4_K and Q5_K, whose scales and minima are codes of six bits themselves."""

    def read(blocks: np.ndarray) -> Groups:
        from gguf.quants import Q4_K

        both, packed, rest = np.split(blocks, [4, 16], axis=1)
        scale, minimum = np.split(_halves(both), 2, axis=1)
        scales, minima = Q4_K.get_scale_min(packed)
        codes = _nibbles(rest[:, -128:], 32)
        if five:
            bits = rest[:, None, :32] >> np.arange(8, dtype=np.uint8)[:, None] & 1
            codes |= bits.reshape(codes.shape) << 4
        return codes, scale * scales, -(minimum * minima)

    return read


def _q6_k(blocks: np.ndarray) -> Groups:
    low, high, scales, factor = np.split(blocks, [128, 192, 208], axis=1)
    upper = high.reshape(-1, 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    codes = _nibbles(low, 64)
    codes |= upper.reshape(codes.shape) << 4
    scales = _halves(factor) * scales.view(np.int8)
    return codes, scales, -32 * scales


# How many bits a code gets, and what takes blocks of a type apart.
KINDS: dict[str, tuple[int, Callable[[np.ndarray], Groups]]] = {
    "Q4_0": (4, _simple(8)),
    "Q4_1": (4, _simple(None)),
    "Q5_0": (8, _simple(16, five=True)),
    "Q5_1": (8, _simple(None, five=True)),
    "Q8_0": (8, _simple(128)),
    "Q4_K": (4, _k(five=False)),
    "Q5_K": (8, _k(five=True)),
    "Q6_K": (8, _q6_k),
}


def pieces(tensor: Tensor, rows: np.ndarray) -> Iterator[Codes]:
    """Yield codes ``(rows, depth)`` uint8, scales and minima ``(rows, groups)`` float32.

    ``rows`` are a tensor's bytes, ``(rows, bytes)``. They come in pieces of whole strips, so that
    no tensor is there twice.

    Raises:
        BadValue: a scale or a minimum is not finite.
    """
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    _, groups_of = KINDS[tensor.kind]
    size = GGML_QUANT_SIZES[GGMLQuantizationType[tensor.kind]][1]
    at_once = LANES * max(1, _AT_ONCE // (LANES * rows.shape[1]))
    for first in range(0, len(rows), at_once):
        some = rows[first : first + at_once]
        with np.errstate(invalid="ignore", over="ignore"):  # who is not finite is refused here
            groups = groups_of(some.reshape(-1, size))
        if not all(np.isfinite(factors).all() for factors in groups[1:]):
            raise not_finite(tensor)
        codes, scales, minima = (mx.array(each.reshape(len(some), -1)) for each in groups)
        yield codes, scales, minima
