"""Reads what stands before the weights of a GGUF file: its keys, and where each tensor lies.

The file is anybody's: every number that leads somewhere is followed only if that place is in the
file, and nothing is made that is much larger than it. As the format's description has it
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md); the package ``gguf`` takes half a
minute for a vocabulary of 262,144, number by number.
"""

import math
import mmap
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lablib.extras import need
from lablib.validation import BadValue, shown

import numpy as np

_BOOL, _STRING, _ARRAY = 7, 8, 9  # types of a value that are no plain numbers
_NUMBERS = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 10: "u8", 11: "i8"}
_NUMBERS |= {_BOOL: "?", 12: "f8"}
_SIDES = 4  # a tensor's, at most
_MOST = 2**31 - 1  # of anything: MLX counts what is longer wrongly


class Tensor(NamedTuple):
    """Tells where one tensor lies: of type ``kind``, ``shape`` as NumPy has it, in bytes."""

    name: str
    kind: str
    shape: tuple[int, ...]
    begin: int
    size: int


class Header(NamedTuple):
    """Holds the keys of a file, numbers of arrays in NumPy, and its tensors by name."""

    keys: dict[str, Any]
    tensors: dict[str, Tensor]


def read(source: Path) -> Header:
    """Return the keys and the tensors of a file.

    Raises:
        BadValue: it leads out of itself, or holds a type that is not known; the line says where.
        ImportError: the package ``gguf``, which knows the types, is not there.
    """
    need("GGUF files", "gguf", extra="gguf")
    try:
        if not source.stat().st_size:
            raise BadValue("it is empty")
        with (
            open(source, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _Reader(data).walk()
    except BadValue as error:
        raise BadValue(f"no GGUF file, or damaged: {error}") from None


class _Reader:
    """All that stands before the weights, from its first byte to its last."""

    def __init__(self, data: mmap.mmap) -> None:
        from gguf.constants import GGML_QUANT_SIZES

        self.data, self.at = data, 0
        self.blocks = {kind.value: (kind.name, *size) for kind, size in GGML_QUANT_SIZES.items()}

    def walk(self) -> Header:
        """Follow every number; leave none that points beyond the file."""
        if self.data[: self._skip(4, "the magic") + 4] != b"GGUF":
            raise BadValue("it does not begin with GGUF")
        version = self._number("<u4", "the version")
        if version not in (2, 3):
            raise BadValue(f"its version must be 2 or 3, got {version}")
        tensors = self._count("the number of tensors", 24)
        keys: dict[str, Any] = {}
        for i in range(self._count("the number of keys", 13)):
            key = self._text(f"key {i}")
            if key in keys:
                raise BadValue(f"{shown(key)} is there twice")
            keys[key] = self._value(self._number("<u4", key), shown(key))
        alignment = keys.get("general.alignment", 32)
        whole = type(alignment) is int and 8 <= alignment <= 1 << 20
        if not whole or alignment & (alignment - 1):
            raise BadValue(f"general.alignment must be a power of 2 from 8 on, got {alignment}")
        every = [self._tensor(i) for i in range(tensors)]
        start = -(-self.at // alignment) * alignment
        room = len(self.data) - start
        for each in every:
            if each.begin % alignment or each.begin + each.size > room:
                place = f"{each.size} bytes at {each.begin}"
                raise BadValue(f"{shown(each.name)}: {place} are not in the {room} of data")
        if sum(each.size for each in every) > room:
            raise BadValue(f"its tensors lie upon each other in {room} bytes of data")
        named = {each.name: each._replace(begin=start + each.begin) for each in every}
        if len(named) < tensors:
            raise BadValue("two of its tensors have one name")
        return Header(keys, named)

    def _skip(self, size: int, what: str) -> int:
        """Go on by ``size`` bytes; return where they begin."""
        if size > len(self.data) - self.at:
            raise BadValue(f"{what} needs {size} bytes at {self.at}, of {len(self.data)} in all")
        self.at += size
        return self.at - size

    def _number(self, form: str, what: str) -> Any:
        return self._numbers(form, 1, what)[0].item()

    def _numbers(self, form: str, count: int, what: str) -> np.ndarray:
        size = np.dtype(form).itemsize * count
        begin = self._skip(size, what)
        return np.frombuffer(self.data[begin : self.at], form)

    def _count(self, what: str, least: int) -> int:
        """Return how many things follow, of ``least`` bytes each."""
        count = struct.unpack_from("<Q", self.data, self._skip(8, what))[0]
        if count > _MOST or count * least > len(self.data) - self.at:
            raise BadValue(f"{what} is {count}, and {len(self.data) - self.at} bytes are left")
        return count

    def _text(self, what: str) -> str:
        begin = self._skip(self._count(f"the length of {what}", 1), what)
        try:
            return self.data[begin : self.at].decode()
        except UnicodeDecodeError as error:
            raise BadValue(f"{what} is no UTF-8: {error}") from None

    def _value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self._text(key)
        if kind != _ARRAY:
            return self._number(self._form(kind, key), key)
        kind = self._number("<u4", key)
        if kind == _STRING:
            return self._texts(self._count(f"the number of {key}", 8), key)
        form = self._form(kind, key)
        count = self._count(f"the number of {key}", np.dtype(form).itemsize)
        return self._numbers(form, count, key)

    def _texts(self, count: int, key: str) -> list[str]:
        """Return texts, of which a vocabulary has 262,144: at once, if none is damaged."""
        data, begin, length = self.data, self.at, struct.Struct("<Q").unpack_from
        texts = []
        with suppress(struct.error, UnicodeDecodeError):
            for _ in range(count):
                end = begin + 8 + length(data, begin)[0]
                texts.append(data[begin + 8 : end].decode())
                begin = end
            if begin <= len(data):
                self.at = begin
                return texts
        return [self._text(key) for _ in range(count)]  # who stumbles says where

    def _form(self, kind: int, key: str) -> str:
        if kind not in _NUMBERS:
            raise BadValue(f"{key} is of type {kind}, which is not read here")
        return f"<{_NUMBERS[kind]}"

    def _tensor(self, i: int) -> Tensor:
        """Return a tensor; it begins where the data begin, so far."""
        name = self._text(f"tensor {i}")
        sides = self._number("<u4", name)
        if not 1 <= sides <= _SIDES:
            raise BadValue(f"{shown(name)} must have 1 to {_SIDES} sides, got {sides}")
        shape = [self._number("<u8", name) for _ in range(sides)]  # the shortest stride first
        kind, offset = self._number("<u4", name), self._number("<u8", name)
        if kind not in self.blocks:
            raise BadValue(f"{shown(name)} is of type {kind}, which is not known here")
        named, weights, size = self.blocks[kind]
        count = math.prod(shape)
        if not count or max(shape) > _MOST or shape[0] % weights:
            raise BadValue(f"{shown(name)} of type {named} cannot have the shape {shape[::-1]}")
        return Tensor(name, named, tuple(shape[::-1]), offset, count // weights * size)
