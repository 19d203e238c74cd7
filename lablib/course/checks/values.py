"""Copy, compare and show the values that a student's function gets and gives."""

import copy
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any

import numpy as np

LONGEST_TEXT = 88  # characters a shown value may take
LONGEST_ARGUMENT = 300  # and an argument, which is to be pasted
LOOKED_AT = 5000  # characters of a row in which two values may part
AS_GIVEN = 0  # digits of an argument, which is to be pasted: all of them, if they are few


def copied(value: Any, generators: bool = False) -> Any:
    """Return a copy of plain data, so that a student's function can't change ours.

    Containers and arrays are copied; models, functions and other objects are passed on as they are.
    So are random generators, which move on with each call, unless ``generators`` is true.
    """
    if type(value) in (list, tuple):
        return type(value)(copied(item, generators) for item in value)
    if isinstance(value, dict):
        return {key: copied(item, generators) for key, item in value.items()}
    if isinstance(value, np.random.Generator):
        return copy.deepcopy(value) if generators else value
    if isinstance(value, set) or _is_array(value):
        return copy.deepcopy(value)
    return value


def difference(expected: Any, got: Any, tolerance: float = 0.0) -> str | None:
    """Say how ``got`` differs from ``expected``; ``None`` when they are equal.

    Lists, tuples and arrays of the same numbers are equal; NaN equals NaN; numbers may differ by
    ``tolerance``, absolutely or relatively. Wrong types and shapes are named as such.
    """
    tuple_ = type(got) is tuple
    expected, got = _plain(expected), _plain(got)
    if _is_number(expected):
        if not _is_number(got):
            return f"returned {_kind(got)}, expected a number"
        return None if _close(expected, got, tolerance) else ""
    if isinstance(expected, np.ndarray):
        return _array_difference(expected, got, tolerance)
    if isinstance(expected, list):
        if isinstance(got, np.ndarray):
            got = list(got)
        if not isinstance(got, list):
            return f"returned {_kind(got)}, expected {_kind(expected)}"
        if len(expected) != len(got):
            return f"returned {len(got)} items, expected {len(expected)}"
        return _first_difference(range(len(expected)), expected, got, tolerance)
    if isinstance(expected, Mapping):
        if not isinstance(got, Mapping):
            return f"returned {_kind(got)}, expected {_kind(expected)}"
        if expected.keys() != got.keys():
            return f"returned the keys {as_text(list(got))}, expected {as_text(list(expected))}"
        return _first_difference(expected, expected, got, tolerance)
    if isinstance(expected, Set) and isinstance(got, Set):
        return None if expected == got else ""
    if type(expected) is not type(got):
        what = "a tuple" if tuple_ else _kind(got)
        return f"returned {what}, expected {_kind(expected)}"
    return None if expected == got else ""


def as_text(value: Any, digits: int = 4) -> str:
    """Return a short text for a value: rounded, on one line, not longer than ``LONGEST_TEXT``."""
    return _cut(_whole(value, digits), LONGEST_TEXT)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _whole(value: Any, digits: int) -> str:
    if digits == AS_GIVEN and _is_array(value) and value.ndim:
        return _array_text(value)
    if digits == AS_GIVEN and _mixes_numbers(value):
        return f"[{_joined(_item_text(item, digits) for item in value)}]"
    return _text(value if type(value) is tuple else _plain(value), digits)


def _mixes_numbers(value: Any) -> bool:
    """Tell whether a list holds whole numbers and floats: 7 and 7.0 are equal, and not alike."""
    return type(value) is list and {int, float} <= {type(item) for item in value}


def call_text(name: str, args: tuple[Any, ...]) -> str:
    """Return ``name(args)`` as a student would type it, shortened."""
    shown = (_cut(_whole(value, AS_GIVEN), LONGEST_ARGUMENT) for value in args)
    return f"{name}({', '.join(shown)})"


def pair_text(expected: Any, got: Any) -> tuple[str, str]:
    """Return two values as texts that differ too: enough digits, or cut to where they part."""
    for digits in (4, 8, 16):
        pair = as_text(expected, digits), as_text(got, digits)
        if pair[0] != pair[1]:
            return pair
    texts = isinstance(expected, str) and isinstance(got, str)  # their quotes come last
    whole = (expected, got) if texts else (_whole(expected, 16), _whole(got, 16))
    places = enumerate(zip(*whole, strict=False))
    alike = next((i for i, (a, b) in places if a != b), min(map(len, whole)))
    if alike < max(map(len, whole)):  # long ones that begin alike
        parted = [each[max(0, alike - 20) :] for each in whole]
        shown = [as_text(each) if texts else _cut(each, LONGEST_TEXT) for each in parted]
        pair = f"…{shown[0]}", f"…{shown[1]}"
    return pair


def _is_array(value: Any) -> bool:
    return hasattr(value, "tolist") and hasattr(value, "shape")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real | Decimal)


def _plain(value: Any) -> Any:
    """Return any library's array as NumPy's, a 0-d array as a number, a flat sequence as array.

    An array of anything but numbers is a list like any other.
    """
    if _is_array(value):
        if getattr(value.dtype, "kind", "f") not in "biuf":  # MLX has no other kinds
            return _plain(value.tolist())
        value = np.asarray(value.tolist()).reshape(value.shape)
        return value.item() if value.ndim == 0 else value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = list(value)
        if items and all(_is_number(item) for item in items):
            found = np.asarray(items)
            whole = all(isinstance(item, numbers.Integral) for item in items)
            return found if whole or found.dtype != object else found.astype(float)  # fractions
        return items
    if isinstance(value, str):
        return str.__str__(value)  # an enumeration's member, too, is the text that it is
    return float(value) if isinstance(value, Decimal) else value


def _close(expected: Any, got: Any, tolerance: float) -> bool:
    if expected == got or (expected != expected and got != got):
        return True
    gap = abs(expected - got)
    return math.isfinite(gap) and gap <= tolerance * max(1.0, abs(expected))


def _array_difference(expected: np.ndarray, got: Any, tolerance: float) -> str | None:
    given = got
    if isinstance(got, list):
        if not got and not len(expected):
            return None  # as a list, no rows of two numbers are just []
        try:
            got = np.asarray([_plain(item) for item in got])
        except ValueError:
            return "returned rows of different lengths"
    if not isinstance(got, np.ndarray) or got.dtype.kind not in "biuf":
        return f"returned {_kind(given)}, expected {_kind(expected)}"
    if got.ndim == expected.ndim == 1 and len(got) != len(expected):
        return f"returned {len(got)} in a row, expected {len(expected)}"
    if got.shape != expected.shape:
        return f"returned shape {got.shape}, expected {expected.shape}"
    equal = (expected == got) | ((expected != expected) & (got != got))
    size = np.maximum(1.0, np.abs(expected.astype(float)))
    with np.errstate(invalid="ignore"):  # infinities were compared above
        gap = np.abs(expected.astype(float) - got.astype(float))
        equal |= np.isfinite(gap) & (gap <= tolerance * size)
    if equal.all():
        return None
    where = tuple(int(i) for i in np.argwhere(~equal)[0])
    if expected.size <= 8:
        return ""
    pair = pair_text(expected[where], got[where])
    place = where[0] if len(where) == 1 else where
    return f"first difference at [{place}]: expected {pair[0]}, got {pair[1]}"


def _first_difference(keys: Any, expected: Any, got: Any, tolerance: float) -> str | None:
    for key in keys:
        problem = difference(expected[key], got[key], tolerance)
        if problem is not None:
            pair = pair_text(expected[key], got[key])
            problem = problem or f"expected {pair[0]}, got {pair[1]}"
            inner = problem.startswith("at [")  # then its place goes on from here
            place = as_text(key, AS_GIVEN)
            return f"at [{place}]{problem[3:] if inner else f': {problem}'}"
    return None


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            return f"an array {value.shape}"
        return "a row of 1 number" if value.size == 1 else f"{value.size} numbers"
    if _is_number(value):
        return "a number"
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _array_text(value: Any) -> str:
    """Return an array as one types it: a function that wants an array can do little with a list."""
    library = "np" if isinstance(value, np.ndarray) else "mx"
    if value.size == 0:
        return f"{library}.zeros({value.shape})"
    text = _whole(value.tolist(), AS_GIVEN)
    whole = np.asarray(_plain(value)).dtype.kind == "f" and not set(text) & set(".en")
    kind = f", {library}.float32" if library == "mx" else ", float"
    return f"{library}.array({text}{kind if whole else ''})"


def _joined(texts: Iterable[str]) -> str:
    """Return texts in a row; behind ``LOOKED_AT`` characters nobody looks."""
    shown, room = [], LOOKED_AT
    for text in texts:
        shown.append(text)
        room -= len(text) + 2
        if room < 0:
            break
    return ", ".join(shown)


def _item_text(value: Any, digits: int) -> str:
    """Return what stands in a dict: pasted, 1.0 is not 1, for JSON tells them apart."""
    if digits == AS_GIVEN and isinstance(value, float) and value.is_integer():
        return repr(float(value))
    return _whole(value, digits)


def _text(value: Any, digits: int) -> str:
    if isinstance(value, float | np.floating):
        whole = f"{float(value):.8g}"
        if digits == AS_GIVEN:  # 49999 is not 5e+04, where a case lives on the difference
            return whole if float(whole) == float(value) else f"{float(value):.4g}"
        readable = float(value).is_integer() or 10**digits <= abs(value) < 10**8
        return whole if readable else f"{float(value):.{digits}g}"  # 46080 and not 4.608e+04
    if isinstance(value, np.generic):
        return repr(value.item())
    if type(value) is tuple:  # it may be the key of a dict, and is to be pasted
        items = _joined(_whole(item, digits) for item in value)
        return f"({items}{',' * (len(value) == 1)})"
    if isinstance(value, np.ndarray) or type(value) is list:
        return f"[{_joined(_whole(item, digits) for item in value)}]"
    if isinstance(value, dict):
        items = (f"{key!r}: {_item_text(item, digits)}" for key, item in value.items())
        return f"{{{_joined(items)}}}"
    text = repr(value)
    if " at 0x" in text:  # an address is different every time
        return getattr(value, "__name__", type(value).__name__)
    return text
