"""The judge's end of the line to a student's process: start it, ask it, watch it, give up on it.

Nothing that arrives is trusted: a message has a largest size before it is read, answers are data
(see ``plain``), and whoever is late, garbled, silent or too large is ended, with all that it was
asked for. Ten times a second it is looked at: a limit of a process counts neither its page tables,
nor the threads of root's, nor files in memory that hold nothing.
"""

import builtins
import contextlib
import inspect
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lablib.course.checks.exercises import Wrong
from lablib.course.checks.running import TOO_MUCH, Accident, Gone, TimeUp
from lablib.teach import plain, walls

LOOK = 0.1  # seconds between two looks at what it uses
GRACE = 1.0  # seconds that it may be late before it is ended
BEGIN = 10.0  # seconds of the processor for Python and lablib
STATEMENTS = 5  # rations of the processor's time for a student's own experiments
RATIONS = 30  # rations for all of it
TABLES, THREADS, FILES = 64 * 2**20, 96, 10_000  # bytes of page tables; MLX has threads of its own
LONGEST = 500  # letters of a name or a text that is no answer
PARAMETERS = 100  # of a function
SPENT = "it used more than"  # how it is said; its process may live on
GARBLED = "it wrote something else into its line"


class NotStarted(OSError):
    """A student's process could not be started: nothing of the student's has run in it."""


@dataclass(frozen=True)
class Limits:
    """The limits of one notebook."""

    seconds: float = 120.0  # by the clock, for all of it
    cpu: float = 3.0  # seconds of processor time for a statement, an exercise: 15.4 takes 1 to 2
    memory: int = 2 * 2**30  # bytes
    hide: Sequence[str] = ()  # paths that it can't see
    has_walls: bool = True


class Process:
    """A student's process; a context manager that leaves nothing behind."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.deadline = time.monotonic() + limits.seconds
        self._buffer, self._next_look = b"", 0.0
        self._home = "" if limits.has_walls else tempfile.mkdtemp(prefix="lablib-")
        most = {"AS": limits.memory, "CPU": int(BEGIN + RATIONS * limits.cpu) + 1}
        program = walls.command("student", json.dumps(most))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        try:
            if limits.has_walls:
                self._process = walls.start(program, limits.hide, **pipes)
            else:
                own = {"cwd": self._home, "env": walls.environment(self._home)}
                self._process = subprocess.Popen(program, start_new_session=True, **own, **pipes)
            os.set_blocking(self._process.stdin.fileno(), False)
            self.receive(30.0)
        except (OSError, Gone, TimeUp) as error:
            self.end()
            raise NotStarted(f"no process for a student's work: {error or 'it is late'}") from None

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process and all that it started: with bubblewrap's own ends what is within."""
        if process := getattr(self, "_process", None):
            end_family(process.pid)
            process.wait()
            process.stdin.close()
            process.stdout.close()
        if self._home:
            shutil.rmtree(self._home, ignore_errors=True)

    def send(self, message: Any) -> None:
        """Send one message; ``Gone`` where nobody reads it."""
        data = memoryview(plain.dumps(message))
        until, number = time.monotonic() + 10, self._process.stdin.fileno()
        while data:
            if not select.select([], [number], [], max(0, until - time.monotonic()))[1]:
                raise Gone("it does not listen")
            try:
                data = data[os.write(number, data) :]
            except OSError:
                raise Gone(self._last_words()) from None

    def receive(self, seconds: float, most: int = plain.LARGEST, cpu: float = 1e9) -> dict:
        """Wait for one message: so many seconds, such bytes, such seconds of the processor.

        Raises:
            Gone: it has ended, used more than it may, or said what makes no sense.
            TimeUp: nothing came in time.
        """
        until, number = time.monotonic() + seconds, self._process.stdout.fileno()
        before = None
        while b"\n" not in self._buffer:
            if len(self._buffer) > most:
                raise Gone(GARBLED)
            if time.monotonic() > self._next_look:
                used = self._look()
                before = used if before is None else before
                if used - before > cpu:
                    raise Gone(used_up(cpu))
                self._next_look = time.monotonic() + LOOK
            left = min(until, self.deadline) - time.monotonic()
            if left < 0:
                raise TimeUp
            if select.select([number], [], [], min(left, LOOK))[0]:
                more = os.read(number, 1 << 16)
                if not more:
                    raise Gone(self._last_words())
                self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message = plain.loads(line) if len(line) <= most else None
        except plain.Garbled:
            message = None
        if not isinstance(message, dict):
            raise Gone(GARBLED)
        return message

    def _look(self) -> float:
        """Return the seconds of the processor that it has used; ``Gone`` where it uses too much."""
        used, members = 0.0, _family(self._process.pid)
        for each in members:
            told = _told_of(each)
            used += told["cpu"]
            for name, most, said in (
                ("VmPTE", TABLES >> 10, f"used more than {TABLES >> 20} MB for its page tables"),
                ("VmRSS", self.limits.memory >> 10, "used more memory than it may"),
                ("Threads", THREADS, f"ran more than {THREADS} threads"),
            ):
                if told[name] > most:
                    raise Gone(f"it {said}")
        if self.limits.has_walls:
            with contextlib.suppress(OSError):  # it is not built yet, or has just ended
                home = os.statvfs(f"/proc/{members[-1]}/root{walls.HOME}")
                if home.f_files - home.f_ffree > FILES:
                    raise Gone(f"it has more than {FILES:,} files")
        return used

    def worked(self) -> float:
        """Return the seconds of processor time that it has used; ``Gone`` where nobody knows."""
        members = _family(self._process.pid)
        used = sum(_told_of(each)["cpu"] for each in members)
        if self._process.poll() is not None or len(members) < (3 if self.limits.has_walls else 1):
            raise Gone("it ended its process")
        return used

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            return "it hung up"
        if code < 0 or code > 128:
            return f"its process was ended (signal {-code if code < 0 else code - 128})"
        return f"it ended its process (exit code {code})"


def end_family(pid: int) -> None:
    """End a process and all below it."""
    for each in _family(pid)[::-1]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def _family(pid: int) -> list[int]:
    """Return a process and all below it, outer ones first."""
    import psutil  # JupyterLab has it; who only infers needs none

    with contextlib.suppress(psutil.Error):
        return [pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))]
    return [pid]


def _told_of(pid: int) -> dict[str, Any]:
    """Return what a process uses: of memory and threads as Linux tells, of each thread the most."""
    import psutil

    found: dict[str, Any] = {"cpu": 0.0, "VmPTE": 0, "VmRSS": 0, "Threads": 0}
    with contextlib.suppress(psutil.Error):
        found["cpu"] = sum(psutil.Process(pid).cpu_times()[:2])
    for status in Path(f"/proc/{pid}/task").glob("*/status"):  # the first may tell nothing
        with contextlib.suppress(OSError):
            for name, value in re.findall(
                r"^(Vm\w+|Threads):\s*(\d+)", status.read_text("latin-1"), re.M
            ):
                found[name] = max(found.get(name, 0), int(value))
    return found


class Function:
    """A student's function in its process; called like the function itself.

    What ``judge`` asks a function on this side stands in its attributes, as the process told it.
    """

    def __init__(
        self, process: Process, told: dict, of: tuple[str, int], seconds: float, keeps: bool = False
    ) -> None:
        self._process, self._of, self._until = process, [*of], time.monotonic() + seconds
        self._cpu = process.limits.cpu
        self.patience, self.turn, self.keeps = seconds + 5 * GRACE, of[1] + 1, keeps
        self.__name__ = words(told.get("name"))[:100]
        self.returns = bool(told.get("returns", True))
        self.empty = told.get("empty") is True
        with contextlib.suppress(ValueError, TypeError):
            self.__signature__ = _signature(told.get("parameters"))
        self.shared_places: list[int] = []
        self.gone: Gone | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it; raises ``Accident``, ``TimeUp``, ``Gone``, or ``Wrong`` of what it was given."""
        lent: list[Any] = []
        call = plain.pack([list(args), kwargs], lambda value: _lend(value, lent))
        return self._ask({"call": call, "keep": self.keeps}, lent, args, kwargs)

    def changes_later(self) -> bool:
        """Return whether what it has returned is not what it was; what it returns next may be."""
        self.keeps = False
        return self._ask({"changed": True}, [], (), {}) is True

    def _ask(self, request: dict[str, Any], lent: list[Any], args: Any, kwargs: Any) -> Any:
        if self.gone:  # a checker may have taken the first one for a wrong answer
            raise self.gone
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeUp
        try:
            self._process.send(request | {"of": self._of, "cpu": self._cpu, "seconds": left})
            return self._result(self._serve(lent), lent, args, kwargs)
        except Gone as gone:
            self.gone = gone
            raise
        except TimeUp:
            self.gone = Gone("it does not answer")
            raise
        except (plain.Garbled, LookupError, TypeError, ValueError, AttributeError):
            self.gone = Gone(GARBLED)
            raise self.gone from None

    def worked(self) -> float:
        """Return the seconds of processor time that its process has used."""
        return self._process.worked()

    def _serve(self, lent: list[Any]) -> dict[str, Any]:
        """Answer what the function asks of what was lent to it; return its reply."""
        self._raised: list[BaseException] = []
        self._returned: Any = None
        while True:
            left = self._until - time.monotonic() + GRACE
            reply = self._process.receive(left, cpu=self._process.limits.cpu + GRACE)
            if "spoilt" in reply:
                plain.restore(self._returned, plain.unpack(reply["spoilt"]))
            if "ask" not in reply:
                return reply
            self._process.send(self._obey(reply, lent))

    def _obey(self, request: dict[str, Any], lent: list[Any]) -> dict[str, Any]:
        borrow = _borrower(lent)
        try:
            thing = lent[request["ask"]]
            args, kwargs = plain.unpack(request["args"], borrow)
            if "method" not in request:
                self._returned = thing(*args, **kwargs)
                return {"value": plain.pack(self._returned)}
            name = words(request["method"])
            if name not in _methods(thing):
                raise plain.Garbled(f"no method {name}")
            for looked_at in request["looks"]:  # a checker may mind when one looks
                if looked_at in vars(thing):
                    getattr(thing, looked_at)
            plain.restore(vars(thing), plain.unpack(request["attributes"], borrow))
            value = plain.pack(getattr(thing, name)(*args, **kwargs))
            return {"value": value, "attributes": plain.pack(vars(thing))}
        except plain.Garbled:
            raise
        except Wrong as wrong:
            self._raised.append(wrong)
            return {"raises": ["Wrong", wrong.message, len(self._raised) - 1]}
        except Exception as error:
            return {"raises": [type(error).__name__, str(error), None]}

    def _result(self, reply: dict[str, Any], lent: list[Any], args: Any, kwargs: Any) -> Any:
        self._cpu -= max(float(reply.get("used", 0)), 0.0)  # all calls of an exercise together
        if "after" in reply:
            after = plain.unpack(reply["after"], _borrower(lent, restore=True))
            left = [*after[0], *after[1].values()]
            for old, new in zip([*args, *kwargs.values()], left, strict=False):
                plain.restore(old, new)
        if reply.get("late") == "spent":
            raise Gone(used_up(self._process.limits.cpu))
        if "late" in reply:
            self._until = 0.0
            raise TimeUp
        if "refused" in reply:
            raise self._raised[reply["refused"]]
        if "accident" in reply:
            name, text, line, unwritten = reply["accident"]
            kind = getattr(builtins, words(name), Exception)
            kind = kind if isinstance(kind, type) and issubclass(kind, BaseException) else Exception
            raise Accident(kind, words(text), words(line), unwritten is True)
        if "answer" not in reply:
            raise plain.Garbled("no answer")
        told = reply["shared"]
        self.shared_places = told[:PARAMETERS] if isinstance(told, list) else []
        return plain.unpack(reply["answer"])


def used_up(cpu: float) -> str:
    """Return what is said of whoever used more than so many seconds of the processor."""
    return f"{SPENT} {cpu:.3g} s of processor time: {TOO_MUCH}"


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
        return {"object": [len(lent) - 1, plain.pack(vars(value)), _methods(value)]}
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
        number, attributes = body
        thing = lent[number]
        if tag != "object" or not _is_object(thing):  # a function's attributes outlive the exercise
            raise plain.Garbled("no object")
        if restore:
            plain.restore(vars(thing), plain.unpack(attributes, borrow))
        return thing

    return borrow
