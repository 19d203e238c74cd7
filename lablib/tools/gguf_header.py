"""Check a GGUF file's header, counts and lengths before MLX maps it.

MLX reads what the file says, wherever that is: a length beyond the end, an unknown type or an
alignment of 0 end the process. So every number that leads somewhere is followed here first, as the
format's description has it (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
"""

import math
import mmap
import struct
from pathlib import Path

from lablib.validation import BadValue, shown

_STRING, _ARRAY, _ALIGNMENT = 8, 9, 4  # the types of a value; that of an alignment is uint32
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8}  # bytes of a number
# Weights of a block, and its bytes. What MLX reads beyond these is no Llama that is known here.
_BLOCKS = {
    0: (1, 4),  # F32
    1: (1, 2),  # F16
    2: (32, 18),  # Q4_0
    3: (32, 20),  # Q4_1
    8: (32, 34),  # Q8_0
    14: (256, 210),  # Q6_K
    24: (1, 1),  # I8
    25: (1, 2),  # I16
    26: (1, 4),  # I32
}
_SIDES = 4  # a tensor's, at most
_MOST = 2**31 - 1  # MLX counts what is longer wrongly


def check(source: Path) -> None:
    """Refuse a file that leads out of itself, or holds what MLX cannot read.

    Raises:
        BadValue: the line says what is wrong, and of which key or tensor.
    """
    if not source.stat().st_size:
        raise BadValue("it is empty")
    with open(source, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _Header(data).walk()


class _Header:
    """All that stands before the weights, read from its first byte to its last."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def walk(self) -> None:
        """Follow every number; leave none that points beyond the file."""
        if self.data[: self._skip(4, "the magic") + 4] != b"GGUF":
            raise BadValue("it does not begin with GGUF")
        version = self._number("I", "the version")
        if version not in (2, 3):
            raise BadValue(f"its version must be 2 or 3, got {version}")
        tensors = self._count("the number of tensors", 24)
        keys = self._count("the number of keys", 13)
        alignment = 32
        for i in range(keys):
            key = self._text(f"key {i}")
            kind = self._number("I", key)
            if key == "general.alignment":
                alignment = self._alignment(kind)
            else:
                self._value(kind, key)
        found = [self._tensor(i) for i in range(tensors)]
        start = -(-self.at // alignment) * alignment
        room = len(self.data) - start
        for name, offset, size in found:
            if offset % alignment or offset + size > room:
                raise BadValue(f"{name}: {size} bytes at {offset} are not in the {room} of data")
        if sum(size for *_, size in found) > room:
            raise BadValue(f"its tensors lie upon each other in {room} bytes of data")

    def _skip(self, size: int, what: str) -> int:
        """Go on by ``size`` bytes; return where they begin."""
        if size > len(self.data) - self.at:
            raise BadValue(f"{what} needs {size} bytes at {self.at}, of {len(self.data)} in all")
        self.at += size
        return self.at - size

    def _number(self, form: str, what: str) -> int:
        form = f"<{form}"
        return struct.unpack_from(form, self.data, self._skip(struct.calcsize(form), what))[0]

    def _count(self, what: str, least: int) -> int:
        """Return how many things follow, of ``least`` bytes each."""
        count = self._number("Q", what)
        if count > _MOST or count * least > len(self.data) - self.at:
            raise BadValue(f"{what} is {count}, and {len(self.data) - self.at} bytes are left")
        return count

    def _text(self, what: str) -> str:
        begin = self._skip(self._count(f"the length of {what}", 1), what)
        try:
            return self.data[begin : self.at].decode()
        except UnicodeDecodeError as error:
            raise BadValue(f"{what} is no UTF-8: {error}") from None

    def _alignment(self, kind: int) -> int:
        alignment = self._number("I", "general.alignment")
        if kind != _ALIGNMENT or not 8 <= alignment <= 1 << 20 or alignment & (alignment - 1):
            why = f"a uint32, a power of 2 from 8 on, got {alignment} of type {kind}"
            raise BadValue(f"general.alignment must be {why}")
        return alignment

    def _value(self, kind: int, key: str) -> None:
        key = shown(key)
        if kind == _STRING:
            self._text(key)
        elif kind == _ARRAY:
            kind = self._number("I", key)
            if kind == _STRING:
                for _ in range(self._count(f"the number of {key}", 8)):
                    self._text(f"a string of {key}")
            else:
                size = self._size(kind, key)
                self._skip(self._count(f"the number of {key}", size) * size, key)
        else:
            self._skip(self._size(kind, key), key)

    def _size(self, kind: int, key: str) -> int:
        if kind not in _SIZES:  # MLX takes a float64 for four bytes, and what follows for others
            raise BadValue(f"{key} is of type {kind}, which is not read here")
        return _SIZES[kind]

    def _tensor(self, i: int) -> tuple[str, int, int]:
        """Return the name of a tensor, where it begins, and its bytes."""
        name = shown(self._text(f"tensor {i}"))
        sides = self._number("I", name)
        if not 1 <= sides <= _SIDES:
            raise BadValue(f"{name} must have 1 to {_SIDES} sides, got {sides}")
        shape = [self._number("Q", name) for _ in range(sides)]
        kind, offset = self._number("I", name), self._number("Q", name)
        if kind not in _BLOCKS:
            raise BadValue(f"{name} is of type {kind}")
        weights, size = _BLOCKS[kind]
        count = math.prod(shape)
        if not count or max(shape) > _MOST or count % weights:
            raise BadValue(f"{name} of type {kind} cannot have the shape {shape}")
        return name, offset, count // weights * size
