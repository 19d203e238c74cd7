"""The referee's end of the line to a student's process: start it, ask it, give up on it.

Nothing that arrives is trusted: messages are bounded, answers are data (see ``codec``), and whoever
is late, garbled or silent is ended.
"""

import builtins
import contextlib
import functools
import inspect
import math
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.checks.exercises import Wrong
from lablib.course.checks.running import Accident, Gone, TimeUp
from lablib.teach.apart import codec, leftovers, sandbox, usage
from lablib.teach.apart.surroundings import environment, hidden, seen
from lablib.teach.apart.usage import LOOK, Meter

GRACE = 1.0  # seconds that a process may be late before it is ended

PLACE = "lablib and its packages must lie where Python's own do, as in a virtual environment"
TELLS = 10_000  # messages while statements run
TALK = 2**16  # bytes of one that is no answer
LONGEST = 500  # letters of a name or a text that is no answer
PARAMETERS = 100  # of a function


class NotStarted(OSError):
    """A student's process could not be started: nothing of the student's has run in it."""


@dataclass(frozen=True)
class Limits:
    """The limits of one notebook, and the files and folders that are hidden from it.

    Attributes:
        seconds: by the clock, for all of it.
        statement: seconds by the clock, for one statement.
        cpu: seconds of processor time for one statement, and for one exercise. Where these are
            counted, whoever works has ``usage.BUSY`` seconds more by the clock for each of them, so
            that no mark depends on who else uses the machine; whoever waits has none.
        statements: seconds of processor time for all statements together.
        memory: bytes.
        hide: paths.
        missing: what its walls may let through, as ``not_kept_out`` has told; ``None``: anything.
    """

    seconds: float = 120.0
    statement: float = 20.0
    cpu: float = math.inf
    statements: float = math.inf
    memory: int = 2 * 2**30
    hide: tuple[str, ...] = ()
    missing: tuple[str, ...] | None = None


class Process:
    """A student's process behind walls; a context manager that leaves nothing behind.

    Attributes:
        missing: what the walls do not keep out on this machine.
        meter: counts its processor time.
        wider: whether more statements may matter than were run.
        deadline: when it is ended, whatever it does (``time.monotonic``).
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.wider = False
        self.meter = Meter(limits.cpu, limits.statements)
        self.deadline = time.monotonic() + limits.seconds
        self._buffer = bytearray()
        try:
            self._start()
        except OSError as error:
            raise NotStarted(f"no process for a student's work: {error}") from None
        try:
            self.missing: list[str] = self.receive(30.0).get("missing", [])
            self._check_walls()
        except (Gone, TimeUp) as end:
            self.end()
            if time.monotonic() > self.deadline:  # others have used up its time
                raise
            why = str(end) if isinstance(end, Gone) else "it takes too long"
            why += f"; {PLACE}" if "exit code" in why else ""
            raise NotStarted(f"no process for a student's work: {why}") from None
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        self._folder = os.path.realpath(tempfile.mkdtemp(prefix=leftovers.prefix()))
        limits = self.limits
        order = {"folder": self._folder, "see": seen(), "hide": [*hidden(), *limits.hide]}
        order |= {"memory": limits.memory, "seconds": limits.seconds}
        self._process = subprocess.Popen(
            sandbox.command(order),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=self._folder,
            env=environment(self._folder),
        )

    def _check_walls(self) -> None:
        """Refuse to go on without a wall that stood when it was asked: memory may be short now."""
        known = self.missing if self.limits.missing is None else self.limits.missing
        for what in self.missing:
            if what not in known:
                raise NotStarted(f"a student's work would not be kept from {what}")

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.end(0.0 if kind else 0.2)

    def end(self, patience: float = 0.2) -> None:
        """End the process and all that it started, and remove its folder.

        Args:
            patience: seconds that it is given to end by itself.
        """
        if self._process.stdout.closed:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # an honest one ends now
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        if self._process.returncode is None and usage.end_children(self._process.pid):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)  # it buries them: whoever is process 1 may not
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, 9)  # and whatever it started
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        leftovers.discard(self._folder)

    def run(
        self,
        cells: Sequence[tuple[int, str]],
        functions: Sequence[str],
        skip: Sequence[tuple[int, int]] = (),
        wide: bool = False,
        judged: Sequence[str] = (),
        lessons: Sequence[int] = (),
    ) -> Iterator[dict[str, Any]]:
        """Have the statements run that functions need; yield what is told until it is done.

        Args:
            cells: numbers and sources of code cells.
            functions: names of what is judged.
            skip: places of statements that are left out.
            wide: run what may matter, too (see ``cells``).
            judged: exercises whose checks are left out.
            lessons: numbers of cells that are a lesson's own, not the student's.

        Raises:
            Gone: the process ended, or said what makes no sense.
            TimeUp: one statement took too long.
        """
        order = {"cells": cells, "functions": functions, "skip": skip, "wide": wide}
        self.send(order | {"judged": judged, "lessons": lessons})
        self.meter.is_stating = True
        for _ in range(TELLS):
            told = self.hear()
            if "done" in told:
                self.meter.is_stating = False
                self.wider = told.get("wider") is True
                return
            self.meter.has_begun = True
            self.meter.ration()
            yield told
        raise Gone("it does not stop talking")

    def hear(self) -> dict[str, Any]:
        """Wait for a message that is no answer: it is short, and comes within a statement's time.

        Raises:
            Gone, TimeUp: see ``receive``.
        """
        return self.receive(self.limits.statement, TALK)

    def send(self, message: Any) -> None:
        """Send one message.

        Raises:
            Gone: nobody reads it.
        """
        data = codec.dumps(message)
        data = memoryview(len(data).to_bytes(4, "big") + data)
        until = time.monotonic() + 10
        number = self._process.stdin.fileno()
        os.set_blocking(number, False)
        while data:
            if not select.select([], [number], [], max(0, until - time.monotonic()))[1]:
                raise Gone("it does not listen")
            try:
                data = data[os.write(number, data) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Gone(self._last_words()) from None

    def receive(self, seconds: float, most: int = codec.LARGEST) -> dict[str, Any]:
        """Wait for one message.

        Args:
            seconds: by the clock, and its overtime.
            most: bytes that it may have.

        Raises:
            Gone: it has ended, used up its processor time, or said what makes no sense.
            TimeUp: nothing came in time.
        """
        until = time.monotonic() + seconds
        size = int.from_bytes(self._read(4, until), "big")
        if size > most:
            raise Gone("it wrote something else into its line")
        try:
            message = codec.loads(self._read(size, until))
        except codec.Garbled:
            message = None
        if not isinstance(message, dict):
            raise Gone("it wrote something else into its line")
        return message

    def _read(self, count: int, until: float) -> bytes:
        number = self._process.stdout.fileno()
        while len(self._buffer) < count:
            self.meter.look(self._process.pid)
            left = min(until + self.meter.overtime(), self.deadline) - time.monotonic()
            if left < 0:  # for one that never stops talking, too
                raise TimeUp
            if not select.select([number], [], [], min(left, LOOK))[0]:
                continue
            more = os.read(number, 1 << 16)
            if not more:
                raise Gone(self._last_words())
            self._buffer += more
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def worked(self) -> float | None:
        """Return the seconds of processor time that it has used by now; None once it has ended."""
        return usage.worked(usage.family(self._process.pid))

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            return "it hung up"
        killed = code < 0 or code > 128
        return (
            f"its process was ended (signal {-code if code < 0 else code - 128})"
            if killed
            else (f"it ended its process (exit code {code})")
        )


class Function:
    """A student's function in its process; called like the function itself.

    Attributes:
        returns: whether it has a ``return`` with something behind it.
        empty: whether it has no body yet.
        shared_places: the places of the arguments that its last answer was, or was a part of.
        patience: seconds by the clock that its calls take at most, all together.
        turn: how often it has been offered, this time included.
        keeps: whether its process keeps what it returns, until ``changes_later`` asks.
    """

    def __init__(
        self,
        process: Process,
        told: dict[str, Any],
        seconds: float,
        turn: int = 1,
        keeps: bool = False,
    ) -> None:
        self._process, self._until = process, time.monotonic() + seconds
        self.patience, self.turn = seconds + process.meter.patience, turn
        self.keeps = keeps
        self.__name__ = words(told.get("name"))[:100]
        self.returns = bool(told.get("returns", True))
        self.empty = told.get("empty") is True
        with contextlib.suppress(ValueError, TypeError):
            self.__signature__ = _signature(told.get("parameters"))
        self.shared_places: list[int] = []
        self.gone: Gone | None = None
        process.meter.ration()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it.

        Raises:
            Accident: it raised something.
            TimeUp: all its calls together took too long.
            Wrong: a function that was given to it raised this.
            Gone: its process has ended.
        """
        lent: list[Any] = []
        call = codec.pack([list(args), kwargs], lambda value: _lend(value, lent))
        return self._ask({"call": call, "keep": self.keeps}, lent, args, kwargs)

    def changes_later(self) -> bool:
        """Return whether what it has returned is not what it was; what it returns now may change.

        Raises:
            TimeUp, Gone: as when it is called.
        """
        self.keeps = False
        return self._ask({"changed": True}, [], (), {}) is True

    def _ask(self, request: dict[str, Any], lent: list[Any], args: Any, kwargs: Any) -> Any:
        if self.gone:  # a checker may have taken the first one for a wrong answer
            raise self.gone
        left = self._until - time.monotonic()
        if left + self._process.meter.overtime() <= 0:
            raise TimeUp
        try:
            self._process.send(request | {"seconds": left + self._process.meter.patience})
            reply = self._serve(lent)
            return self._result(reply, lent, args, kwargs)
        except Gone as gone:
            self.gone = gone
            raise
        except (codec.Garbled, LookupError, TypeError, ValueError, AttributeError):
            self.gone = Gone("it wrote something else into its line")
            raise self.gone from None

    def worked(self) -> float:
        """Return the seconds of processor time that its process has used.

        Raises:
            Gone: it has ended, and nobody knows.
        """
        used = self._process.worked()
        if used is None:
            raise Gone("it ended its process")
        return used

    def _serve(self, lent: list[Any]) -> dict[str, Any]:
        """Answer what the function asks of what was lent to it; return its reply."""
        self._raised: list[BaseException] = []
        self._returned: Any = None
        while True:
            try:
                reply = self._process.receive(self._until - time.monotonic() + GRACE)
            except TimeUp:
                self.gone = Gone("it does not answer")
                raise
            if "spoilt" in reply:
                codec.restore(self._returned, codec.unpack(reply["spoilt"]))
            if "ask" not in reply:
                return reply
            self._process.send(self._obey(reply, lent))

    def _obey(self, request: dict[str, Any], lent: list[Any]) -> dict[str, Any]:
        borrow = _borrower(lent)
        try:
            thing = lent[request["ask"]]
            args, kwargs = codec.unpack(request["args"], borrow)
            if "method" not in request:
                self._returned = thing(*args, **kwargs)
                return {"value": codec.pack(self._returned)}
            name = words(request["method"])
            if name not in _methods(thing):
                raise codec.Garbled(f"no method {name}")
            for looked_at in request["looks"]:  # a checker may mind when one looks
                if looked_at in vars(thing):
                    getattr(thing, looked_at)
            codec.restore(vars(thing), codec.unpack(request["attributes"], borrow))
            value = codec.pack(getattr(thing, name)(*args, **kwargs))
            return {"value": value, "attributes": codec.pack(vars(thing))}
        except codec.Garbled:
            raise
        except Wrong as wrong:
            self._raised.append(wrong)
            return {"raises": ["Wrong", wrong.message, len(self._raised) - 1]}
        except Exception as error:
            return {"raises": [type(error).__name__, str(error), None]}

    def _result(self, reply: dict[str, Any], lent: list[Any], args: Any, kwargs: Any) -> Any:
        if "after" in reply:
            after = codec.unpack(reply["after"], _borrower(lent, restore=True))
            for old, new in zip([*args, *kwargs.values()], [*after[0], *after[1].values()],
                                strict=False):  # fmt: skip
                codec.restore(old, new)
        if "late" in reply:
            raise TimeUp
        if "refused" in reply:
            raise self._raised[reply["refused"]]
        if "accident" in reply:
            name, text, line, unwritten = reply["accident"]
            kind = getattr(builtins, words(name), Exception)
            kind = kind if isinstance(kind, type) and issubclass(kind, BaseException) else Exception
            raise Accident(kind, words(text), words(line), unwritten is True)
        if "answer" not in reply:
            raise codec.Garbled("no answer")
        told = reply["shared"]
        self.shared_places = told[:PARAMETERS] if isinstance(told, list) else []
        return codec.unpack(reply["answer"])


@functools.cache
def not_kept_out() -> list[str]:
    """Return what the walls of this machine do not keep from students' code."""
    with Process(Limits()) as process:
        return process.missing


def words(told: Any) -> str:
    """Return a text that a process sent, cut; nothing for what is none."""
    return told[:LONGEST] if isinstance(told, str) else ""


def _signature(parameters: Any) -> inspect.Signature:
    made = []
    for name, kind, optional in parameters[:PARAMETERS]:
        default = None if optional else inspect.Parameter.empty
        made.append(inspect.Parameter(words(name), inspect._ParameterKind(kind), default=default))
    return inspect.Signature(made)


def _lend(value: Any, lent: list[Any]) -> Any:
    """Keep a function or an object here, and return what tells the other side of it."""
    lent.append(value)
    if _is_object(value):
        attributes = codec.pack(vars(value))["dict"]
        return {"object": [len(lent) - 1, {"dict": attributes}, _methods(value)]}
    return {"function": len(lent) - 1}


def _is_object(value: Any) -> bool:
    """Return whether it has attributes that a student's function may set, and methods."""
    return hasattr(value, "__dict__") and not inspect.isroutine(value) and not callable(value)


def _methods(thing: Any) -> list[str]:
    if not _is_object(thing):
        return []
    named = inspect.getmembers(type(thing), inspect.isfunction)
    return [name for name, _ in named if name == "__init__" or not name.startswith("_")]


def _borrower(lent: list[Any], restore: bool = False) -> Callable[[str, Any], Any]:
    """Return what finds the judge's own function or object that the other side speaks of."""

    def borrow(tag: str, body: Any) -> Any:
        if tag == "function":
            return lent[body]
        if tag == "object":
            number, attributes = body
            thing = lent[number]
            if not _is_object(thing):  # a function's attributes outlive the exercise
                raise codec.Garbled("no object")
            if restore:
                codec.restore(vars(thing), codec.unpack(attributes, borrow))
            return thing
        raise codec.Garbled(f"unknown label {tag!r}")

    return borrow
