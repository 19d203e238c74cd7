"""Values as JSON: what crosses between a student's process and the judge is data, never code.

Numbers, texts, lists, tuples, dicts, sets and arrays of numbers cross as copies of themselves. So
an object that claims to equal everything arrives as a ``Strange`` that equals nothing, and nothing
that a student's process sends is unpickled. What can't be copied is *lent*: the judge's functions
and objects stay where they are, and the other side gets a stand-in that asks back.

What arrives is bounded before it is read (``loads``): bytes, things, and boxes in boxes; and before
anything is made of it (``unpack``): digits, cells of arrays, and what a set may cost. So both take
a time that is linear in the message's size.
"""

import base64
import functools
import json
import math
import numbers
import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

# A text ends or the message does: a lone quotation mark is not looked for twice.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_KIND = re.compile("[<>|][biuf][1248]")  # of the numbers in an array
_NO_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")

DEPTH = 40  # boxes in boxes
LARGEST = 4 * 2**20  # bytes of one message
MOST = 2**17  # things in one message
CELLS = 2**19  # of all arrays in one message; one without cells counts its rows
SIDES = 32  # of an array
TRIALS = 2**22  # looks that all sets and dicts of one message may cost, whatever their hashes
LARGE = 2**63
DIGITS = 4000  # of a whole number; Python's own limit for turning one into text is 4,300


class Garbled(ValueError):
    """A message that no honest process sends."""


class Strange:
    """The stand-in for a value that is no plain data: its type's name and its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def dumps(message: Any) -> bytes:
    """Return a message as bytes; ``ValueError`` when it is too large."""
    data = json.dumps(message, separators=(",", ":")).encode("ascii")
    _bounded(data)
    return data


def loads(data: bytes) -> Any:
    """Return the message in these bytes.

    Raises:
        Garbled: they hold none, or one that no honest process sends.
    """
    _bounded(data)
    try:  # letters of several bytes could hide brackets from what was counted
        message = json.loads(data.decode("ascii"), parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"not JSON: {error}") from None
    _Account().things(message)
    return message


def _bounded(data: bytes) -> None:
    """Raise ``Garbled`` about a message that would make too much of few bytes."""
    if len(data) > LARGEST:
        raise Garbled(f"the answer has more than {LARGEST >> 20} MB")
    if data.count(b'"') > 4 * MOST:
        raise Garbled("an answer of so many texts is too large")
    outside = _TEXT.sub(b"", data)
    if sum(map(outside.count, (b"[", b"{", b","))) > 2 * MOST:
        raise Garbled("an answer of so many things is too large")
    brackets = np.frombuffer(outside.translate(None, delete=_NO_BRACKETS), np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    if np.cumsum(steps).max(initial=0) > 4 * DEPTH:  # a dict is three boxes, with its pairs
        raise Garbled("too many boxes in boxes")


class _Account:
    """The cost of one whole message for its receiver."""

    def __init__(self) -> None:
        self._cells, self._trials = 0, 0

    def things(self, data: Any) -> int:
        """Count the things in parsed JSON.

        Raises:
            Garbled: unpacking it would take more time or memory than its size lets expect.
        """
        if isinstance(data, list):
            return 1 + sum(map(self.things, data))
        if not isinstance(data, dict):
            return 1
        count = 1
        for tag, body in data.items():
            inside = self.things(body)
            count += inside
            if tag in ("array", "number"):
                self._array(body)
            elif tag in ("set", "frozenset", "dict") and isinstance(body, list):
                self._hashed(len(body), inside)
        return count

    def _array(self, body: Any) -> None:
        """Count its cells; of an array that has none its rows, which are made one by one."""
        shape = body[1] if isinstance(body, list) and len(body) == 3 else None
        sides = shape if isinstance(shape, list) else [-1]
        if len(sides) > SIDES or not all(type(n) is int and 0 <= n <= CELLS for n in sides):
            raise Garbled("no shape of an array")
        self._cells += cells(sides)
        if self._cells > CELLS:
            raise Garbled(f"arrays of more than {CELLS:,} cells")

    def _hashed(self, items: int, things: int) -> None:
        """Count what it costs at worst: each item is compared with all before it."""
        self._trials += items * things
        if self._trials > TRIALS:
            raise Garbled("sets or dicts that are too large")


def cells(shape: Sequence[int]) -> int:
    """Return how many cells an array has, a side of none counted as one."""
    return math.prod(max(side, 1) for side in shape)


def pack(value: Any, lend: Callable[[Any], Any] | None = None, depth: int = 0) -> Any:
    """Return a value as what JSON can hold.

    Args:
        value: anything.
        lend: what to send for a function or an object; its type and text when ``None``.
        depth: boxes around it.
    """
    kind = type(value)
    if value is None or kind in (bool, float, str) or (kind is int and -LARGE < value < LARGE):
        return value  # at once: texts are lists of whole numbers, and the rest takes longer
    if depth > DEPTH:
        return strange(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, np.generic):
        value = int(value)
        return value if value.bit_length() < 3.32 * DIGITS else {"strange": ["int", "a huge int"]}
    if isinstance(value, Collection) and not hasattr(value, "shape"):
        hashed = isinstance(value, Set | Mapping)
        if len(value) > (math.isqrt(TRIALS) // 3 if hashed else MOST):  # a pair is three things
            raise ValueError(f"an answer of {len(value):,} things is too large")
    if kind in (list, tuple):
        items = [pack(item, lend, depth + 1) for item in value]
        return items if kind is list else {"tuple": items}
    packed = _pack_array(value)
    if packed is None:
        packed = _pack_other(value, lend, depth)
    return packed if packed is not None else lend(value) if lend else strange(value)


def strange(value: Any) -> dict[str, list[str]]:
    """Return a description of a value that does not cross."""
    try:
        text = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
    except Exception as error:
        text = f"<its repr raised {type(error).__name__}>"
    return {"strange": [type(value).__name__, text[:200]]}


def unpack(data: Any, borrow: Callable[[str, Any], Any] | None = None, depth: int = 0) -> Any:
    """Return the value that ``pack`` made this of.

    Args:
        data: parsed JSON.
        borrow: makes the stand-in of what was lent, from its tag and what was sent.
        depth: boxes around it.

    Raises:
        Garbled: no honest ``pack`` makes this.
    """
    if depth > DEPTH + 1:
        raise Garbled("too many boxes in boxes")
    if isinstance(data, list):
        return [unpack(item, borrow, depth + 1) for item in data]
    if not isinstance(data, dict):
        return data
    if len(data) != 1:
        raise Garbled("a box with more than one label")
    ((tag, body),) = data.items()
    try:
        if tag in _BOXES:
            return _BOXES[tag](unpack(body, borrow, depth + 1))
        if tag in _LEAVES:
            return _LEAVES[tag](body)
        if borrow is not None:
            return borrow(tag, body)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise Garbled(f"{tag}: {error}") from None
    raise Garbled(f"unknown label {tag!r}")


def restore(old: Any, new: Any) -> Any:
    """Make ``old`` what the other side left of it, in place where it can be; return the result."""
    if type(old) is not type(new):
        return new
    if isinstance(old, np.ndarray):
        if old.shape != new.shape or old.dtype != new.dtype or not old.flags.writeable:
            return new
        old[...] = new
    elif isinstance(old, list):
        pairs = zip(old, new, strict=False)
        old[:] = [*(restore(*pair) for pair in pairs), *new[len(old) :]]
    elif isinstance(old, tuple):
        return tuple(map(restore, old, new)) if len(old) == len(new) else new
    elif isinstance(old, dict):
        items = {key: restore(old.get(key), value) for key, value in new.items()}
        old.clear()
        old.update(items)
    elif isinstance(old, set):
        old.intersection_update(new)
        old.update(new)
    elif isinstance(old, np.random.Generator):
        old.bit_generator.state = new.bit_generator.state
    else:
        return new
    return old


def _pack_array(value: Any) -> Any:
    """Return an array or a NumPy number packed; other libraries' arrays arrive as NumPy's."""
    if not (hasattr(value, "tolist") and hasattr(value, "shape")) or isinstance(value, type):
        return None
    if not isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value.tolist()).reshape(value.shape)
    if cells(value.shape) > CELLS:
        raise ValueError(f"an array of the shape {value.shape} is too large")
    if value.dtype.kind in "fc" and value.dtype.itemsize > 8:  # its tolist may keep what it is
        value = value.astype(float if value.dtype.kind == "f" else complex)
    if value.dtype.kind not in "biuf":
        return pack(value.tolist())
    tag = "array" if isinstance(value, np.ndarray) else "number"
    text = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
    return {tag: [value.dtype.str, list(value.shape), text]}


def _pack_other(value: Any, lend: Callable[[Any], Any] | None, depth: int) -> Any:
    def inside(items: Any) -> list[Any]:
        return [pack(item, lend, depth + 1) for item in items]

    if isinstance(value, Fraction):
        return {"fraction": [str(value.numerator), str(value.denominator)]}
    if isinstance(value, numbers.Real | Decimal):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {"dict": [inside(pair) for pair in value.items()]}
    if isinstance(value, Set):
        return {"set" if isinstance(value, set) else "frozenset": inside(value)}
    if isinstance(value, bytes | bytearray):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Sequence):
        return inside(value)
    if isinstance(value, np.random.Generator):
        return {"generator": _numbers(value.bit_generator.state, str)}
    return None


def _numbers(state: Any, kind: type) -> Any:
    """Return a generator's state with its whole numbers, of 128 bits, as texts, or back."""
    if isinstance(state, dict):
        return {key: _numbers(value, kind) for key, value in state.items()}
    return state if state == "PCG64" else kind(state)


def _whole(text: str) -> int:
    """Return the whole number in a text: of many digits it takes a time that is not linear."""
    if len(text) > DIGITS + 1:
        raise Garbled("too many digits")
    return int(text)


def _unpack_array(body: Any) -> np.ndarray:
    kind, shape, text = body
    if not _KIND.fullmatch(kind):  # NumPy would read other texts as Python's
        raise ValueError("not numbers")
    flat = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.dtype(kind))
    return flat.reshape(shape).copy()


def _unpack_generator(body: Any) -> np.random.Generator:
    generator = np.random.Generator(np.random.PCG64(0))
    generator.bit_generator.state = _numbers(body, _whole)
    return generator


def _unpack_strange(body: Any) -> Strange:
    name, text = body
    return _kind(name[:60] if name.isidentifier() else "object")(text[:200])


@functools.lru_cache(256)
def _kind(name: str) -> type[Strange]:
    return type(name, (Strange,), {})


_BOXES: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "dict": dict,
    "set": set,
    "frozenset": frozenset,
}
_LEAVES: dict[str, Callable[[Any], Any]] = {
    "array": _unpack_array,
    "number": lambda body: _unpack_array(body)[()],
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "fraction": lambda body: Fraction(*map(_whole, body)),
    "generator": _unpack_generator,
    "strange": _unpack_strange,
}
