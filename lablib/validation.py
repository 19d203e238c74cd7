"""Checks arguments at the public edge: one readable line names the argument.

Every public function calls these before it does any work, so that bad input changes nothing. The
errors are ordinary ``ValueError`` and ``TypeError``; in a notebook they show as one line instead of
a traceback, because the mistake is in the call and not in the library.
"""

import numbers
import re
import reprlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_SHORT = reprlib.Repr()  # a value that fills a screen would not leave one readable line
_SHORT.maxstring = _SHORT.maxother = 100
_LARGEST = sys.float_info.max


def shown(value: Any) -> str:
    """Return a value as a short piece of one line; arrays have many."""
    return re.sub(r"\s*\n\s*", " ", _SHORT.repr(value))


class _OneLine:
    """Shows an exception in one line: IPython asks it to, before it prints forty."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__mro__[2].__name__}: {self}"]


class BadValue(_OneLine, ValueError):
    """Refuses the value of an argument, in one line in a notebook."""


class BadType(_OneLine, TypeError):
    """Refuses the type of an argument, in one line in a notebook."""


class NotInstalled(_OneLine, ImportError):
    """Names the package to install, in one line in a notebook."""


def integer(name: str, value: Any, minimum: int | None = None, maximum: int | None = None) -> int:
    """Return ``value`` as an ``int`` if it is a whole number in ``[minimum, maximum]``.

    Booleans and floats are refused: ``max_tokens=True`` is a slip, never a wish.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise BadType(f"{name} must be an int, got {shown(value)}")
    value = int(value)
    if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
        raise _outside(name, value, minimum, maximum)
    if abs(value) > _LARGEST:
        raise BadValue(f"{name} must be at most {_LARGEST:g} in size, got {shown(value)}")
    return value


def number(
    name: str, value: Any, minimum: float | None = None, maximum: float | None = None
) -> float:
    """Return ``value`` as a finite ``float`` in ``[minimum, maximum]``; NaN is refused."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    if not is_real:
        raise BadType(f"{name} must be a number, got {shown(value)}")
    if not abs(value) <= _LARGEST:
        raise BadValue(f"{name} must be finite, got {shown(value)}")
    if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
        raise _outside(name, value, minimum, maximum)
    return float(value)


def _outside(name: str, value: float, minimum: float | None, maximum: float | None) -> BadValue:
    allowed = f"between {minimum} and {maximum}"
    if minimum is None or maximum is None:
        allowed = f"at least {minimum}" if maximum is None else f"at most {maximum}"
    return BadValue(f"{name} must be {allowed}, got {shown(value)}")


def one_of(name: str, value: Any, allowed: Iterable[Any]) -> Any:
    """Return ``value`` if it is among ``allowed``."""
    allowed = list(allowed)
    array = hasattr(value, "tolist") and not isinstance(value, np.generic)  # "==" gives another
    if array or value not in allowed:
        raise BadValue(f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}")
    return value


def members(name: str, value: Any, like: type) -> None:
    """Refuse a class, and an object without one of the public members of class ``like``."""
    if isinstance(value, type):
        raise BadType(f"{name} must be an object, got the class {value.__name__} itself")
    public = [each for each in vars(like) if not each.startswith("_")]
    missing = [each for each in public if not hasattr(value, each)]
    if missing:
        lacks = f"{', '.join(missing)} as a {like.__name__} does"
        raise BadType(f"{name} must have {lacks}, got {type(value).__name__}")


def function(name: str, value: Any) -> Any:
    """Return ``value`` if it can be called."""
    if not callable(value):
        raise BadType(f"{name} must be callable, got {shown(value)}")
    return value


def returned(name: str, value: Any, like: Any) -> Any:
    """Return the result of ``name``, if it is an ``mx.array`` of the shape of ``like``."""
    wanted = f"{name} must return an mx.array of shape {like.shape}"
    if not isinstance(value, type(like)):
        raise BadType(f"{wanted}, got {type(value).__name__}")
    if value.shape != like.shape:
        raise BadValue(f"{wanted}, got {value.shape}")
    return value


def flag(name: str, value: Any) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool):
        raise BadType(f"{name} must be True or False, got {shown(value)}")
    return value


def sequence(name: str, value: Any, of: str) -> list[Any]:
    """Return a list, a tuple or an array as a list ``of`` something; text and bytes are neither."""
    raw = isinstance(value, str | bytes | bytearray | memoryview)
    if hasattr(value, "tolist") and not raw:
        value = value.tolist()
    if raw or not isinstance(value, Sequence):
        raise BadType(f"{name} must be a sequence of {of}, got {type(value).__name__}")
    return list(value)


def token_ids(
    name: str, tokens: Any, vocab_size: int | None = None, allow_empty: bool = False
) -> list[int]:
    """Return a sequence of ints, or an array ``(T,)`` or ``(1, T)`` of them, as a list.

    They must lie in ``[0, vocab_size)``, if it is given: MLX's gather returns garbage beyond it.
    """
    if isinstance(tokens, str):
        raise BadType(
            f"{name} must be token ids, got the text {tokens[:40]!r}: encode it, or give tokenizer="
        )
    tokens = sequence(name, tokens, "token ids")
    beyond = _LARGEST if vocab_size is None else vocab_size
    if set(map(type, tokens)) == {int} and min(tokens) >= 0 and max(tokens) < beyond:
        return tokens  # as nearly always
    if len(tokens) == 1 and isinstance(tokens[0], list | tuple):
        tokens = tokens[0]
    if not tokens and not allow_empty:
        raise BadValue(f"{name} must hold at least one token, got none")
    for position, token in enumerate(tokens):
        is_id = isinstance(token, numbers.Integral) and not isinstance(token, bool)
        if not is_id:
            hint = ": a conversation goes into messages=" if isinstance(token, dict) else ""
            raise BadType(f"{name}[{position}] must be an int token id, got {shown(token)}{hint}")
        if token < 0 or (vocab_size is not None and token >= vocab_size):
            raise _outside(f"{name}[{position}]", token, 0, vocab_size and vocab_size - 1)
    return list(map(int, tokens))
