"""Layers that keep their weights as they are stored, in 4 or 8 bits, and multiply by them so.

mlx-lm's quantised models, and GGUF files, hold each weight as a code, a whole number of a few bits,
and some 16 to 128 neighbours share a scale and a minimum: ``w = scale · code + minimum``. On a CPU
a token takes as long as its weights take from memory, so those of 4 bits could be read six times as
fast as float32; but MLX multiplies by them more slowly than by float32. Here is the product that
``machine/stored_weights.c`` makes, and what it needs: codes in an order that it reads through.

What the model is: the stored numbers, exactly. What is rounded is the other factor, to 16 bits of
the largest of its group: the C file derives the bound. In training and ``by_definition`` a layer
multiplies by ``weight``, all of it in float32, as everywhere else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lablib.definitions import FastPath, remember
from lablib.machine import pages, stored_weights

import mlx.core as mx
import mlx.nn as nn

LANES = 16  # rows of a weight that lie beside each other
_PAIR = 2  # neighbours of a row that do so

Codes = tuple[mx.array, mx.array, mx.array]  # (columns, depth) and scales, minima (columns, groups)


def packed(codes: mx.array, bits: int) -> mx.array:
    """Return the words of codes ``(columns, depth)``: uint16 ``(strips, blocks, LANES, 2)``.

    A word has the codes of one row, every second one, the first in its lowest bits. Rows that are
    missing in the last strip are zeros.
    """
    whole = mx.pad(codes.astype(mx.uint8), [(0, -len(codes) % LANES), (0, 0)])
    if bits == 4:  # of eight bytes 0 to 7, four: 0 and 2, 1 and 3, 4 and 6, 5 and 7
        eight = whole.view(mx.uint64)
        eight = (eight | eight >> 12) & 0x0000FFFF0000FFFF
        four = (eight | eight >> 16).astype(mx.uint32)
    else:
        four = whole.view(mx.uint32)
    # The first word's bytes are the first and the third.
    pair = four & 0xFF0000FF | four >> 8 & 0x0000FF00 | (four & 0x0000FF00) << 8
    strips = mx.contiguous(pair.reshape(-1, LANES, pair.shape[1]).swapaxes(1, 2))
    return strips.view(mx.uint16).reshape(*strips.shape, _PAIR)


def unpacked(words: mx.array, bits: int) -> mx.array:
    """Return the codes ``(..., LANES, depth)`` of strips ``(..., blocks, LANES, 2)``, in order."""
    each = 16 // bits
    parts = mx.stack([words >> (n * bits) & (2**bits - 1) for n in range(each)], axis=-2)
    return parts.swapaxes(-4, -3).flatten(-3)


def _strips(values: mx.array) -> mx.array:
    """Return what ``(columns, groups)`` is as ``(strips, groups, LANES)``."""
    padded = mx.pad(values, [(0, -values.shape[0] % LANES), (0, 0)])
    return mx.contiguous(padded.reshape(-1, LANES, values.shape[1]).swapaxes(1, 2))


def _narrow(*values: mx.array) -> Sequence[mx.array]:
    """Return float32 numbers in float16 if that changes none of them."""
    halves = [each.astype(mx.float16) for each in values]
    pairs = zip(halves, values, strict=True)
    return halves if all(mx.array_equal(half, each).item() for half, each in pairs) else values


def dequantised(codes: mx.array, scales: mx.array, minima: mx.array) -> mx.array:
    """Return the weights that codes ``(..., depth)`` stand for, with a scale for each group."""
    shape = scales.shape[-1], codes.shape[-1] // scales.shape[-1]
    groups = mx.unflatten(codes.astype(mx.float32), -1, shape)
    return (groups * scales[..., None] + minima[..., None]).flatten(-2)


def is_open() -> bool:
    """Return whether products with stored weights may be taken now."""
    return _AS_STORED.is_open() and stored_weights.product() is not None


def multiplied(x: mx.array, layer: Mapping[str, Any]) -> mx.array:
    """Return ``x (..., depth)`` times a stored weight: ``(..., columns)`` float32."""
    multiply: Any = stored_weights.product()
    scales, minima = layer["scales"], layer["minima"]
    if not scales.dtype == minima.dtype == mx.float16:
        scales, minima = scales.astype(mx.float32), minima.astype(mx.float32)
    return multiply(x.astype(mx.float32), layer["codes"], scales, minima, *layer["form"])


class Stored(nn.Module):
    """Holds a weight ``(columns, depth)`` as codes of ``bits`` 4 or 8 with a scale for each group.

    Its arrays are all that it has: whoever changes one changes what the next product reads.
    """

    def __init__(self, quantised: Iterable[Codes], bits: int) -> None:
        super().__init__()
        columns, parts = 0, []
        for codes, scales, minima in quantised:  # pieces; all but the last are whole strips
            columns += len(codes)
            group = codes.shape[1] // scales.shape[1]
            values = map(_strips, _narrow(scales.astype(mx.float32), minima.astype(mx.float32)))
            parts.append((packed(codes, bits), *values))
            mx.async_eval(parts[-1])  # while the next piece is taken apart
        self.form = columns, bits, group
        arrays = [mx.concatenate([*each]) for each in zip(*parts, strict=True)]
        mx.eval(arrays)
        self.codes, self.scales, self.minima = arrays
        self.freeze()

    @property
    def weight(self) -> mx.array:
        """Return the weight in float32, made anew."""
        columns, bits, _ = self.form
        rows = self.scales.swapaxes(1, 2), self.minima.swapaxes(1, 2)
        return dequantised(unpacked(self.codes, bits), *rows).flatten(0, 1)[:columns]

    def product(self, x: mx.array) -> mx.array:
        """Return ``x (..., depth)`` times the weight: ``(..., columns)``, in the type of ``x``."""
        if self.training or not is_open():
            return x @ self.weight.T.astype(x.dtype)
        return multiplied(x, self).astype(x.dtype)

    def _extra_repr(self) -> str:
        return "columns={}, bits={}, group={}".format(*self.form)


class StoredLinear(Stored):
    """Stands in for a ``nn.QuantizedLinear``."""

    def __init__(self, quantised: Iterable[Codes], bits: int, bias: mx.array | None = None) -> None:
        super().__init__(quantised, bits)
        if bias is not None:
            self.bias = bias

    def __call__(self, x: mx.array) -> mx.array:
        """Map ``x (..., depth)`` to ``(..., columns)``."""
        y = self.product(x)
        return y + self.bias if "bias" in self else y


class StoredEmbedding(Stored):
    """Stands in for a ``nn.QuantizedEmbedding``, an output layer included."""

    def __call__(self, ids: mx.array) -> mx.array:
        """Return the rows of ``ids``: ``(..., depth)`` float32."""
        strip, lane = ids // LANES, ids % LANES
        words = self.codes[strip, :, lane][..., None, :]
        rows = self.scales[strip, :, lane], self.minima[strip, :, lane]
        return dequantised(unpacked(words, self.form[1])[..., 0, :], *rows)

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the scores of ``x (..., depth)``: ``(..., columns)``."""
        return self.product(x)


def set_dtype(model: nn.Module, dtype: mx.Dtype) -> None:
    """Set the type of a model's numbers, but for scales and minima, which stay what they are."""
    ours = [layer for _, layer in model.named_modules() if isinstance(layer, Stored)]
    kept = [{name: layer[name] for name in ("scales", "minima")} for layer in ours]
    model.set_dtype(dtype)
    for layer, values in zip(ours, kept, strict=True):
        layer.update(values)


def keep_as_stored(model: nn.Module) -> None:
    """Put layers of ours in place of a model's quantised ones.

    Where there is no product for them (``stored_weights.obstacle``) all stay as they are; and so do
    those of experts, and of other codes than affine ones.
    """
    paths = [path for path, layer in model.named_modules() if _is_affine(layer)]
    if not paths or stored_weights.product() is None:
        return
    for path in paths:
        replace(model, path, _stored)  # one by one: no more than one is in memory twice
    pages.give_back()


def replace(model: nn.Module, path: str, make: Callable[[Any], Stored]) -> None:
    """Put what is made of the layer at a ``path`` in its place."""
    *way, name = path.split(".")
    owner: Any = model
    for each in way:
        owner = owner[int(each)] if isinstance(owner, list) else owner[each]
    made = make(owner[name])
    made.train(model.training)  # MLX's ``quantize`` forgets it
    owner[name] = made


def _is_affine(layer: nn.Module) -> bool:
    kinds = nn.QuantizedLinear, nn.QuantizedEmbedding
    return type(layer) in kinds and layer.mode == "affine"


def _stored(layer: Any) -> Stored:
    """Return a layer of ours for one of MLX's; codes get 8 bits or 4, whichever they fit in."""
    ones = mx.ones_like(layer.scales).astype(mx.float32)
    how = {"group_size": layer.group_size, "bits": layer.bits}
    codes = mx.dequantize(layer.weight, ones, mx.zeros_like(ones), **how)  # the codes themselves
    quantised = codes.astype(mx.uint8), layer.scales, layer.biases
    return made_for(layer, [quantised], 4 if layer.bits <= 4 else 8)


def made_for(layer: Any, quantised: Iterable[Codes], bits: int) -> Stored:
    """Return what multiplies by the codes where ``layer`` stood, with its bias."""
    if isinstance(layer, nn.Embedding | nn.QuantizedEmbedding):
        return StoredEmbedding(quantised, bits)
    return StoredLinear(quantised, bits, layer.get("bias"))


remember(__name__)
_AS_STORED = FastPath("stored weights")
