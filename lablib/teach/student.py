"""A student's process: runs what a notebook's exercises need, then answers calls of its functions.

It knows no reference and gives no verdict. What it sends are lines of JSON (``plain``); the other
end is ``process``. What keeps it in are walls that stood before it began.
"""

import __future__

import ast
import asyncio
import builtins
import contextlib
import importlib.abc
import inspect
import json
import linecache
import multiprocessing.resource_tracker
import os
import random
import re
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import lablib.course
from lablib.course.checks.running import (
    TOO_MUCH,
    TimeUp,
    accident_of,
    does_nothing,
    returns_a_value,
    run_through,
    shared_places,
)
from lablib.machine import open_files
from lablib.teach import cells, plain

import numpy as np

NAMES = [*lablib.course.__all__]  # what a notebook imports from there
LONGEST = 500  # characters of an error's text
TIMED = ("time", "timeit", "capture", "prun")  # magics
LOOKS = 1000  # that are told of, at an object that was lent
OFFERS = 5  # functions that were checked of one exercise, the last ones
BUILTINS = dict(vars(builtins))
# Of the compiler: what can be imported from ``__future__``, which Jupyter remembers.
FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
LIMITS = {"FSIZE": 16 * 2**20, "CORE": 0, "NOFILE": 256, "NPROC": 64}


class Refused(Exception):
    """The judge's own function raised this; whoever called it may see it pass."""


class SpentUp(TimeUp):
    """The time of the processor is used up."""


@contextlib.contextmanager
def limited(cpu: float, seconds: float) -> Iterator[None]:
    """Raise ``SpentUp`` after so many seconds of the processor, ``TimeUp`` after such by the clock.

    Again and again, for a bare ``except:`` in a loop.
    """
    clocks = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}

    def stop(number: int, _: object) -> None:
        raise SpentUp if number == signal.SIGPROF else TimeUp

    try:
        for (number, clock), most in zip(clocks.items(), (cpu, seconds), strict=True):
            signal.signal(number, stop)
            signal.setitimer(clock, max(most, 1e-3), 0.1)
        yield
    finally:
        for number, clock in clocks.items():
            signal.setitimer(clock, 0)
            signal.signal(number, signal.SIG_IGN)


class Servant:
    """Answers the judge: runs statements, describes functions and calls them."""

    def __init__(self) -> None:
        # What a notebook prints must not get in between.
        self._in, self._out = os.fdopen(os.dup(0), "rb"), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        self.checked: dict[str, list[Any]] = {}  # functions, by exercise
        self.kept: list[Any] = []
        self.turn = threading.RLock()  # two threads may ask the judge's functions at once
        self.returned: tuple[Any, Any] | None = None  # by one of its functions, and what was told
        self.unbound: dict[str, str] = {}  # by name, what kept a statement from binding it
        module = types.ModuleType("__main__")
        module.__file__ = os.path.join(os.getcwd(), "work.py")  # for who asks where he lies
        sys.modules["__main__"] = module
        self.space = vars(module)
        self.space.update(dict.fromkeys(NAMES, _nothing), display=_nothing)
        self.space.update(check=self._check, get_ipython=lambda: _Shell(self.space))

    def send(self, message: Any) -> None:
        """Send one message."""
        data = plain.dumps(message)
        while data:
            data = data[os.write(self._out, data) :]

    def receive(self) -> Any:
        """Wait for one message; end the process when there will be none."""
        line = self._in.readline()
        return plain.loads(line) if line else os._exit(0)

    def run(self, order: dict[str, Any]) -> None:
        """Run what the exercises need of a notebook, and tell what there is to judge.

        ``order`` has ``cells``, each its number, source, and whether the student wrote it;
        ``names`` by exercise; ``cpu`` and ``seconds`` for a statement, ``spare`` for experiments.
        """
        everything, problems, said = [], {}, {}
        for number, source, own in order["cells"]:
            name = f"<cell {number}>"
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            try:
                everything += cells.statements(number, source, own)
            except Exception as error:  # SyntaxError, or what its compiler finds too deep
                problems[number] = self._problem(error)
        chosen = {id(each) for each in cells.needed(everything, order["names"].values())}
        left, flags = [each for each in everything if id(each) in chosen or each.own], 0
        with asyncio.Runner() as self.loop:
            for _ in range(3):  # a helper may stand below what uses it
                unready = []
                for each in left:
                    if id(each) not in chosen and order["spare"] <= 0:
                        continue
                    began = time.process_time()
                    try:
                        flags |= self._execute(each, flags, order)
                    except NameError as error:
                        unready.append(each)
                        said[each.place] = self._problem(error)
                    except BaseException as error:  # SystemExit too: the other statements count
                        problems[each.place] = self._problem(error)
                        self.unbound |= dict.fromkeys(each.binds, problems[each.place])
                    finally:
                        vars(builtins).update(BUILTINS)  # whatever became of them
                    if id(each) not in chosen:  # experiments have a time for all of them
                        order["spare"] -= time.process_time() - began
                if len(unready) == len(left):
                    break
                left = unready
        for each in left:  # what lacks a name to the end
            problems.setdefault(each.place, said.get(each.place, ""))
        offered = {}
        for exercise, name in order["names"].items():
            found = self.checked.get(exercise, [])[-OFFERS:]
            last = self.space.get(name)
            if last is not None and not any(last is each for each in found):
                found.append(last)
            self.checked[exercise] = found[::-1]
            offered[exercise] = [self._description(each) for each in found[::-1]]
        self.send({"offered": offered, "problems": [*problems.items()]})

    def _execute(self, each: cells.Statement, flags: int, order: dict[str, Any]) -> int:
        """Run a statement; return what it imports from ``__future__``."""
        module = ast.Module([each.node], [])
        wanted = flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(module, f"<cell {each.place}>", "exec", wanted, dont_inherit=True)
        is_import = isinstance(each.node, ast.ImportFrom | ast.Import)
        # What lablib and its libraries take is no time of the student's.
        with limited(order["cpu"] + 10.0 * is_import, order["seconds"]):
            try:
                self._do(code)
            except RuntimeError as error:
                if str(error) != "no running event loop":
                    raise
                self.loop.run(self._later(code))  # in Jupyter one always runs
        return code.co_flags & FUTURE if is_import else 0

    def _do(self, code: types.CodeType) -> None:
        if code.co_flags & inspect.CO_COROUTINE:  # it awaits something
            self.loop.run(eval(code, self.space))
        else:
            exec(code, self.space)

    async def _later(self, code: types.CodeType) -> None:
        exec(code, self.space)

    def _problem(self, error: BaseException) -> str:
        text = f"{type(error).__name__}: {_text(error)}".rstrip(": ") + self._why(error)
        if isinstance(error, TimeUp):
            text = f"no end in its time: {TOO_MUCH}"
        return text[:LONGEST]

    def _why(self, error: BaseException) -> str:
        """Return why the name is missing that an error is about: its statement raised another."""
        why = self.unbound.get(error.name, "") if type(error) is NameError else ""
        return f" ({why})" if why and "NameError" not in why else ""

    def _check(self, exercise: Any, function: Any = None, **_: Any) -> "_Nothing":
        """Note what was checked: it is judged once all has run."""
        if isinstance(exercise, str) and function is not None:
            found = self.checked.setdefault(exercise, [])
            if not any(function is each for each in found):
                found.append(function)
        return _Nothing()

    def _description(self, function: Any) -> dict[str, Any]:
        """Return what the judge wants to know about a function before it is called."""
        try:
            parameters = [
                [p.name, int(p.kind), p.default is not p.empty]
                for p in inspect.signature(function).parameters.values()
            ]
        except (ValueError, TypeError):
            parameters = None
        return {
            "name": str(getattr(function, "__name__", type(function).__name__))[:LONGEST],
            "callable": callable(function),
            "parameters": parameters,
            "returns": returns_a_value(function),
            "empty": does_nothing(function),
        }

    def answer(self, request: dict[str, Any]) -> None:
        """Call a function once, or look whether what it has returned is still the same.

        Answers that are to be kept are looked at again: here they are no copies.
        """
        if "call" not in request:
            changed = not all(_is_still(*each) for each in self.kept)
            self.kept = []
            self.send({"answer": changed, "shared": []})
            return
        exercise, number = request["of"]
        function = self.checked[exercise][number]
        vars(builtins).update(BUILTINS)
        self.has_object, self.returned = False, None
        given, named = plain.unpack(request["call"], self._borrow)
        before = plain.dumps(plain.pack([given, named], _lend))
        began = time.process_time()
        reply = self._reply(function, given, named, request)
        try:
            # A copy of an object that was lent has left its own state in the judge's.
            after = plain.pack([given, named], _lend)
            if self.has_object or plain.dumps(after) != before:
                reply["after"] = after
            self.send(reply | self._spoilt() | {"used": time.process_time() - began})
        except ValueError as error:  # too large
            self.send({"accident": ["ValueError", str(error), "", False]})

    def _reply(
        self, function: Any, given: Any, named: Any, request: dict[str, Any]
    ) -> dict[str, Any]:
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        try:
            with limited(request["cpu"], request["seconds"]):
                result = run_through(function(*given, **named))
                shared = shared_places(function, result, [*given, *named.values()])
                answer = plain.pack(result)
                self.kept += [(result, answer)] * request["keep"]
                return {"answer": answer, "shared": shared}
        except TimeUp as error:
            return {"late": "spent" if isinstance(error, SpentUp) else "clock"}
        except Refused as error:
            return {"refused": error.args[1]}
        except BaseException as error:
            accident = accident_of(error, file)
            text = accident.text[:LONGEST] + self._why(error)
            texts = [accident.error.__name__, text, accident.line[:LONGEST]]
            return {"accident": [*texts, accident.unwritten]}

    def _borrow(self, tag: str, body: Any) -> Any:
        """Return a stand-in for a function or an object of the judge's."""
        if tag == "function":
            return _Borrowed(self, body)
        self.has_object = True
        number, attributes, methods = body
        inside = {name: _method(self, number, name) for name in methods}
        kind = type("Borrowed", (_Object,), {**inside, "_number": number, "_looks": []})
        thing = kind.__new__(kind)
        vars(thing).update(plain.unpack(attributes, self._borrow))
        return thing

    def _spoilt(self) -> dict[str, Any]:
        """Return what became of what a function of the judge's returned last, if it was changed.

        In a notebook it may be a part of what that function goes on with.
        """
        if self.returned is None or _is_still(*self.returned):
            return {}
        return {"spoilt": plain.pack(self.returned[0])}

    def ask(self, request: dict[str, Any]) -> Any:
        """Send the judge a request in the middle of a call and return its reply."""
        with self.turn:
            self.send(request | self._spoilt())
            reply = self.receive()
            self.returned = None
        if "raises" in reply:
            name, text, number = reply["raises"]
            kind = BUILTINS.get(name)
            if number is None and isinstance(kind, type) and issubclass(kind, Exception):
                raise kind(text)
            raise Refused(text, number)
        return reply


class _Borrowed:
    """A function of the judge's; a copy of it is itself, as of any function."""

    def __init__(self, servant: Servant, number: int) -> None:
        self._servant, self._number = servant, number

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Borrowed":
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        packed = plain.pack([args, kwargs], _lend)
        with self._servant.turn:
            told = self._servant.ask({"ask": self._number, "args": packed})["value"]
            value = plain.unpack(told)
            self._servant.returned = value, told
        return value


class _Object:
    """An object of the judge's: its attributes are here, its methods run there.

    Attributes:
        _looks: names of attributes that were asked for since a method ran.
    """

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name[0] != "_" and name in self.__dict__:
            self._looks.append(name)
        return found


def _method(servant: Servant, number: int, name: str) -> Callable[..., Any]:
    def method(self: _Object, *args: Any, **kwargs: Any) -> Any:
        own = vars(self)
        request = {
            "ask": number,
            "method": name,
            "looks": self._looks[-LOOKS:],
            "attributes": plain.pack(own, _lend),
            "args": plain.pack([args, kwargs], _lend),
        }
        self._looks.clear()
        reply = servant.ask(request)
        plain.restore(own, plain.unpack(reply["attributes"]))
        return plain.unpack(reply["value"])

    return method


def _lend(value: Any) -> Any:
    if isinstance(value, _Borrowed):
        return {"function": value._number}
    if isinstance(value, _Object):
        return {"object": [value._number, plain.pack(vars(value), _lend)]}
    return plain.strange(value)


def _is_still(result: Any, answer: Any) -> bool:
    """Return whether what was returned would cross as it did."""
    try:
        return plain.dumps(plain.pack(result)) == plain.dumps(answer)
    except Exception:  # it has grown too large, say
        return False


class _Shell:
    """What IPython's magics call: those that time or capture run what they are given."""

    def __init__(self, space: dict[str, Any]) -> None:
        self._space = space

    def run_cell_magic(self, name: str, line: str = "", cell: str = "") -> None:
        """Run a cell that is timed, or write one to a file."""
        if name in TIMED:
            exec(cell, self._space)
        elif name in ("writefile", "file") and line.split():
            with open(line.split()[-1], "w") as file:
                file.write(cell)

    def run_line_magic(self, name: str, line: str = "") -> None:
        """Run a line that is timed, without the options before it."""
        if name in TIMED:
            with contextlib.suppress(SyntaxError):
                exec(re.sub(r"^(?:\s*-\w+(?:\s+\d+)?(?=\s))*\s*", "", line), self._space)

    def __getattr__(self, name: str) -> Any:
        return _nothing


class _Nothing:
    """Shows nothing, holds nothing, and says that all is well."""

    correct, mark, message, misconception = True, "○", "", None
    source = text = title = ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _nothing


def _nothing(*_: Any, **__: Any) -> _Nothing:
    return _Nothing()


class _NoReferences(importlib.abc.MetaPathFinder):
    """Refuses the modules that hold the references."""

    def find_spec(self, name: str, *_: Any) -> None:
        if re.fullmatch(r"lablib\.course\.lessons\.lesson_\d\d[a-z]?\.exercises\w*", name):
            raise ImportError(f"{name} is not here while notebooks are graded")


def _text(error: BaseException) -> str:
    try:
        text = (str(error).splitlines() or [""])[0]
    except Exception:
        return ""
    return text.replace("(<unknown>, line ", "(line ")  # a SyntaxError's, of a cell


def _refuse(event: str, _: Any) -> None:
    starts = ("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen")
    if event in starts:
        raise PermissionError(f"{event}: no other processes while this is graded")


def main(limits: str) -> None:
    """Do what the judge says until it hangs up; ``limits`` are those of the system, as JSON."""
    import resource

    for name, most in (LIMITS | json.loads(limits)).items():
        with contextlib.suppress(ValueError, OSError):  # macOS knows no limit of memory
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    open_files.ask_for_no_more()  # mlx_lm would, when a notebook imports it
    sys.addaudithook(_refuse)  # from Python, with a readable reason; the kernel refuses it anyway
    sys.argv = [""]
    sys.path.append(os.getcwd())  # for modules that a notebook writes
    # Semaphores and shared memory end with their process here; it would take another to see to it.
    tracker = multiprocessing.resource_tracker
    tracker.register = tracker.unregister = _nothing
    random.seed(0)
    np.random.seed(0)  # two runs say the same
    servant = Servant()
    stand_in = types.ModuleType("lablib.course.checks.checking")
    vars(stand_in).update({name: servant.space[name] for name in NAMES})
    sys.modules[stand_in.__name__] = stand_in
    sys.meta_path.insert(0, _NoReferences())
    servant.send({"ready": True})
    servant.run(servant.receive())
    while True:
        servant.answer(servant.receive())
