"""Run a student's function: on copies, within a time limit, every accident explained."""

import ast
import contextlib
import dis
import functools
import inspect
import signal
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator, MappingView
from dataclasses import dataclass
from typing import Any

from lablib.course.checks.exercises import Exercise, Wrong
from lablib.course.checks.values import copied, difference

import numpy as np

TOO_MUCH = "does every loop end, and is all this work needed?"  # asked of what is slow


class NotAttempted(Exception):
    """The function is still the starter."""


class TimeUp(BaseException):
    """The time limit passed; a ``BaseException`` so that ``except Exception`` can't swallow it."""


class Gone(BaseException):
    """The process in which the function lived has ended."""


@dataclass
class Accident(Exception):
    """An exception of a student's function, described where it was raised.

    Attributes:
        error: the exception's type.
        text: its type and message, on one line.
        line: the last line of the function that it came through, or empty.
        unwritten: whether it is the starter's own ``NotImplementedError``.
    """

    error: type
    text: str
    line: str
    unwritten: bool


def accident_of(error: BaseException, file: str | None) -> Accident:
    """Describe what a function defined in ``file`` raised."""
    try:
        said = str(error)
    except Exception:  # whoever writes an exception class may get it wrong
        said = ""
    text = f"{type(error).__name__}: {said}".rstrip(": ").splitlines()[0]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    its_own = bool(frames) and frames[-1].f_code.co_filename == file
    unwritten = isinstance(error, NotImplementedError) and its_own
    return Accident(type(error), text, line_of(error, file), unwritten)


def line_of(error: BaseException, file: str | None) -> str:
    """Return the last line of ``file`` that an exception came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    last = frames[-1] if frames else None
    return f"line {last.lineno}: {last.line}" if last and last.line else ""


class Watched:
    """A student's function that can be called like the function itself.

    Arguments are copies, unless the exercise is to work in place. An exception, a missing
    ``return``, a wrong signature or an endless loop becomes a ``Wrong`` that says so in one or two
    lines. Generators, and what else can be gone through only once, are run to their end.

    Attributes:
        calls: how often it was called.
        changed: names of the arguments that it changed.
        shared: names of the arrays among its arguments that its answer is, or is a part of.
        last: what it returned last.
        turn: how often it has been checked, this time included, where it may remember that.
    """

    def __init__(self, function: Callable[..., Any], exercise: Exercise):
        self.function, self.exercise = function, exercise
        self.calls, self.changed, self.shared, self.last = 0, [], [], None
        self.turn = getattr(function, "turn", 1)
        self.__name__ = exercise.name
        self._file = getattr(getattr(function, "__code__", None), "co_filename", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the student's function on copies of the arguments."""
        names = self._names(args, kwargs)
        given, named = (args, kwargs) if self.exercise.in_place else (copied(args), copied(kwargs))
        self.calls += 1
        try:
            result = self.function(*given, **named)
            result = run_through(result)
        except (KeyboardInterrupt, TimeUp, Gone, Wrong):
            raise
        except BaseException as error:
            accident = error if isinstance(error, Accident) else accident_of(error, self._file)
            if accident.unwritten and self.calls == 1:
                raise NotAttempted from None
            if accident.unwritten:
                raise Wrong("it still raises NotImplementedError for some inputs") from None
            text = f"it raised {accident.text}" + (f"\n{accident.line}" if accident.line else "")
            raise Wrong(text, error=accident.error) from None
        if result is None and self.calls == 1 and does_nothing(self.function):
            raise NotAttempted
        self.last = result
        if self.exercise.in_place:
            return result
        if result is None:
            raise Wrong(self.none, error=type(None))
        theirs = [*zip(names, (*args, *kwargs.values()), (*given, *named.values()), strict=True)]
        self.changed += [n for n, a, b in theirs if n not in self.changed and _differ(a, b)]
        shared = shared_places(self.function, result, [b for _, _, b in theirs])
        self.shared += [names[i] for i in shared if names[i] not in self.shared]
        return result

    @property
    def none(self) -> str:
        """Return what to say of an answer that is None."""
        forgot = "" if returns_a_value(self.function) else ": did you forget `return`?"
        return f"it returned None{forgot}"

    def where(self, error: BaseException) -> str:
        """Return the last line of the student's function that ``error`` came through."""
        return line_of(error, self._file)

    @functools.cached_property
    def _wanted(self) -> inspect.Signature:  # it is asked for at each of some thousand calls
        return inspect.signature(self.exercise.reference)

    @functools.cached_property
    def _own(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def _names(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        wanted = self._wanted
        with contextlib.suppress(ValueError):  # built-ins may have no signature
            try:
                self._own.bind(*args, **kwargs)
            except TypeError:
                yours = getattr(self.function, "__name__", type(self.function).__name__)
                raise Wrong(
                    f"it is called as {self.exercise.name}{_parameters(wanted)}, "
                    f"but yours is {yours}{_parameters(inspect.signature(self.function))}",
                    error=TypeError,
                ) from None
        positional = list(wanted.parameters)
        return [*(positional[: len(args)] + ["?"] * (len(args) - len(positional))), *kwargs]


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TimeUp`` inside the block after ``seconds``; no limit where signals can't do that.

    Python delivers signals to the main thread only, and Windows has no ``SIGALRM``.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # again, for a bare `except:` in a loop
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def returns_a_value(function: Callable[..., Any]) -> bool:
    """Return whether a function has a ``return`` with something behind it.

    One in another process says so itself, as its attribute ``returns``.
    """
    if not hasattr(function, "__code__"):
        return getattr(function, "returns", True)
    before = None
    for now in dis.get_instructions(function):
        if now.opname == "RETURN_CONST" and now.argval is not None:
            return True
        if now.opname == "RETURN_VALUE":
            nothing = before.opname == "LOAD_CONST" and before.argval is None
            if not nothing or now.is_jump_target:  # `return x if y else None` comes here from x
                return True
        before = now
    return False


def does_nothing(function: Callable[..., Any]) -> bool:
    """Return whether a ``def`` has no body yet: ``pass``, ``...``, or nothing but a docstring.

    One in another process says so itself, as its attribute ``empty``.
    """
    if not hasattr(function, "__code__"):
        return getattr(function, "empty", False)
    try:
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, ValueError, SyntaxError):  # no source, or a line out of the middle
        return False
    return isinstance(found, ast.FunctionDef) and all(
        isinstance(each, ast.Pass)
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in found.body
    )


def run_through(result: Any) -> Any:
    """Return an answer in which what can be gone through only once is a list."""
    once = Iterator | MappingView
    if isinstance(result, once):
        return list(result)
    if type(result) is tuple and any(isinstance(part, once) for part in result):
        return tuple(map(run_through, result))
    return result


def shared_places(function: Callable[..., Any], answer: Any, arguments: list[Any]) -> list[int]:
    """Return which arguments are arrays that the answer is, or is a part of.

    A function in another process says so itself, as its attribute ``shared_places``.
    """
    told = getattr(function, "shared_places", None)
    if isinstance(told, list):
        return [place for place in range(len(arguments)) if place in told]
    if not isinstance(answer, np.ndarray):
        return []
    arrays = [(i, each) for i, each in enumerate(arguments) if isinstance(each, np.ndarray)]
    return [i for i, each in arrays if np.may_share_memory(answer, each)]


def _differ(before: Any, after: Any) -> bool:
    with contextlib.suppress(ValueError):  # arrays among them are neither equal nor not
        if type(before) in (list, tuple) and type(before) is type(after) and before == after:
            return False  # at once: a judge asks this of some hundred numbers at each call
    if isinstance(before, dict) and isinstance(after, dict) and [*before] != [*after]:
        return True  # equal to Python, but whoever writes it down writes another line
    return before is not after and difference(before, after) is not None


def _parameters(signature: inspect.Signature) -> str:
    return f"({', '.join(signature.parameters)})"
