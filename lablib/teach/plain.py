"""Values as JSON: what crosses between a student's process and the judge is data, never code.

Numbers, texts, lists, tuples, dicts, sets and arrays of numbers cross as copies of themselves. So
an object that claims to equal everything arrives as a ``Strange`` that equals nothing. What can't
be copied is *lent*: the judge's functions and objects stay where they are, and the other side gets
a stand-in that asks back. A message has a largest size; what else it costs its reader is bounded
by the reader's own limits, as one file has one reader.
"""

import base64
import functools
import json
import numbers
import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

DEPTH = 40  # boxes in boxes
LARGEST = 4 * 2**20  # bytes of one message
MOST = 2**17  # things in one box, or cells of an array
DIGITS = 4000  # of a whole number; Python's own limit for turning one into text is 4,300
_KIND = re.compile("[<>|][biuf][1248]")  # of the numbers in an array: NumPy reads other texts, too


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
    """Return a message as a line of JSON; ``ValueError`` when it is too large."""
    data = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
    if len(data) > LARGEST:
        raise ValueError(f"the answer has more than {LARGEST >> 20} MB")
    return data


def loads(line: bytes) -> Any:
    """Return the message in a line; ``Garbled`` where it holds none."""
    try:
        return json.loads(line.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise Garbled(f"not JSON: {error}") from None


def pack(value: Any, lend: Callable[[Any], Any] | None = None, depth: int = 0) -> Any:
    """Return a value as what JSON can hold.

    Args:
        value: anything.
        lend: what to send for a function or an object; its type and text when ``None``.
        depth: boxes around it.
    """
    kind = type(value)
    if value is None or kind in (bool, float, str):
        return value  # at once: texts are lists of numbers, and the rest takes longer
    if depth > DEPTH:
        return strange(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, np.generic):
        value = int(value)
        return value if value.bit_length() < 3.32 * DIGITS else {"strange": ["int", "a huge int"]}
    if isinstance(value, Collection) and not hasattr(value, "shape") and len(value) > MOST:
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


def unpack(data: Any, borrow: Callable[[str, Any], Any] | None = None) -> Any:
    """Return the value that ``pack`` made this of; ``borrow`` makes what was lent.

    Raises:
        Garbled: no honest ``pack`` makes this.
    """
    if isinstance(data, list):
        return [unpack(item, borrow) for item in data]
    if not isinstance(data, dict):
        return data
    try:
        ((tag, body),) = data.items()
        if tag in _BOXES:
            return _BOXES[tag](unpack(body, borrow))
        if tag in _LEAVES:
            return _LEAVES[tag](body)
        if borrow is not None:
            return borrow(tag, body)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise Garbled(str(error)) from None
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
    if np.prod([max(side, 1) for side in value.shape], dtype=float) > 4 * MOST:
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
        return {"generator": value.bit_generator.state}
    return None


def _unpack_array(body: Any) -> np.ndarray:
    kind, shape, text = body
    if not _KIND.fullmatch(kind) or not all(0 <= side <= 4 * MOST for side in shape):
        raise ValueError("not numbers")
    flat = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.dtype(kind))
    return flat.reshape(shape).copy()


def _unpack_generator(state: Any) -> np.random.Generator:
    generator = np.random.Generator(np.random.PCG64(0))
    generator.bit_generator.state = state
    return generator


@functools.lru_cache(256)
def _kind(name: str) -> type[Strange]:
    return type(name[:60] if name.isidentifier() else "object", (Strange,), {})


_BOXES = {"tuple": tuple, "dict": dict, "set": set, "frozenset": frozenset}
_LEAVES: dict[str, Callable[[Any], Any]] = {
    "array": _unpack_array,
    "number": lambda body: _unpack_array(body)[()],
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "fraction": lambda body: Fraction(*map(int, body)),
    "generator": _unpack_generator,
    "strange": lambda body: _kind(body[0])(body[1][:200]),
}
