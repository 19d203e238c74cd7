"""Gives the weights of a GGUF file as float32, exactly as llama.cpp's own package reads them.

What stands in the file are blocks: codes of a few bits with a scale, and often a minimum, of each
group. Float32 holds what they mean but for the last bit of a product; nothing else is rounded.
"""

from collections.abc import Iterable
from pathlib import Path

from lablib.models.gguf.header import Tensor
from lablib.validation import BadValue, shown

import numpy as np

_AT_ONCE = 2**20  # weights: the package's steps each make an array of as many


def check_kinds(tensors: Iterable[Tensor]) -> None:
    """Refuse tensors that the package ``gguf`` can't read, by name and type."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

    read: dict[str, bool] = {}
    for tensor in tensors:
        if tensor.kind not in read:
            kind = GGMLQuantizationType[tensor.kind]
            try:
                quants.dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
                read[tensor.kind] = True
            except NotImplementedError:
                read[tensor.kind] = False
        if not read[tensor.kind]:
            raise BadValue(f"{shown(tensor.name)} is of type {tensor.kind}, which is not read here")


def bytes_of(source: Path, tensor: Tensor) -> np.ndarray:
    """Return a tensor's bytes where they lie in the file."""
    return np.asarray(np.memmap(source, np.uint8, "r", tensor.begin, (tensor.size,)))


def not_finite(tensor: Tensor) -> BadValue:
    """Return what is said of a tensor some of whose numbers are not finite."""
    return BadValue(f"{shown(tensor.name)} of type {tensor.kind} holds what is not finite")


def floats(source: Path, tensor: Tensor) -> np.ndarray:
    """Return a tensor's numbers, float32, in its shape.

    Raises:
        BadValue: one of them is not finite.
    """
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

    kind = GGMLQuantizationType[tensor.kind]
    raw = bytes_of(source, tensor)
    out = np.empty(tensor.shape, np.float32)
    flat, (weights, size) = out.reshape(-1), GGML_QUANT_SIZES[kind]
    step = max(1, _AT_ONCE // weights)  # blocks: they know nothing of rows
    for first in range(0, tensor.size // size, step):
        some = raw[first * size : (first + step) * size].reshape(1, -1)
        with np.errstate(invalid="ignore", over="ignore"):  # who is not finite is refused below
            part = quants.dequantize(some, kind)[0]
        if not np.isfinite(part).all():
            raise not_finite(tensor)
        flat[first * weights : (first + step) * weights] = part
    return out
