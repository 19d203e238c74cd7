"""The runner behind the walls: it runs the notebook's statements, and its functions on demand.

It knows no reference and gives no verdict. Its ``check`` tells the judge which function is offered
and then answers the judge's calls until the judge has seen enough. The judge's end is ``remote``.
"""

import asyncio
import builtins
import contextlib
import contextvars
import importlib.abc
import inspect
import linecache
import multiprocessing.resource_tracker
import os
import random
import re
import sys
import threading
import types
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import lablib.course
from lablib.course.checks.running import (
    TimeUp,
    accident_of,
    does_nothing,
    returns_a_value,
    run_through,
    shared_places,
    time_limit,
)
from lablib.teach.apart import cells, codec

import numpy as np

NAMES = [*lablib.course.__all__]  # what a notebook imports from there
LONGEST = 500  # characters of an error's text
THREADS = 48  # that Python has: libraries start some of their own, and the walls allow 64
LOOKS = 1000  # that are told of, at an object that was lent
BUILTINS = dict(vars(builtins))


class Refused(Exception):
    """The judge's own function raised this; whoever called it may see it pass."""


class Line:
    """Messages to and from the judge, each with its length before it."""

    def __init__(self) -> None:
        # What a notebook prints must not get in between.
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)

    def send(self, message: Any) -> None:
        """Send one message."""
        data = codec.dumps(message)
        data = len(data).to_bytes(4, "big") + data
        while data:
            data = data[os.write(self._out, data) :]

    def receive(self) -> Any:
        """Wait for one message; end the process when there will be none."""
        size = int.from_bytes(self._read(4), "big")
        return codec.loads(self._read(size))

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = os.read(self._in, count - len(data))
            if not more:
                os._exit(0)
            data += more
        return data


def _limit_threads() -> None:
    """Refuse a thread too many where it is started: that is no matter of when somebody looks."""
    start = threading.Thread.start

    def one_of_few(self: threading.Thread) -> None:
        if threading.active_count() > THREADS:
            raise RuntimeError("can't start new thread")
        start(self)

    threading.Thread.start = one_of_few


def _offer_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Let who asks for a loop where there is none have this one: in Jupyter one always runs."""

    def or_this(get: Callable[[], asyncio.AbstractEventLoop]) -> Callable[[], Any]:
        def found() -> asyncio.AbstractEventLoop:
            try:
                return get()
            except RuntimeError:
                return loop

        return found

    for name in ("get_running_loop", "get_event_loop"):
        found = or_this(getattr(asyncio, name))
        for module in (asyncio, asyncio.events):
            setattr(module, name, found)


class Servant:
    """Answers the judge: runs statements, describes functions and calls them."""

    def __init__(self) -> None:
        self.line = Line()
        _limit_threads()
        self.busy = False
        self.turn = threading.RLock()  # two threads may ask the judge's functions at once
        self.loop = asyncio.Runner()  # one for all: a task of an earlier cell's may be awaited
        _offer_loop(self.loop.get_loop())
        self.checked: list[Any] = []  # what a check has had judged
        self.has_object = False  # whether an object of the judge's was lent for the present call
        self.returned: tuple[Any, Any] | None = None  # by one of its functions, and what was told
        self.unbound: dict[str, str] = {}  # by name, what kept a statement from binding it
        module = types.ModuleType("__main__")
        module.__file__ = os.path.join(os.getcwd(), "work.py")  # for who asks where he lies
        sys.modules["__main__"] = module
        self.space = vars(module)
        self.space.update(
            dict.fromkeys(NAMES, _nothing), check=self.check, display=_nothing, get_ipython=_nothing
        )

    def run(self, order: dict[str, Any]) -> None:
        """Run what the exercises need of a notebook, but what the judge said to skip.

        Args:
            order: ``cells``, pairs of number and source; ``functions``, names of what is judged;
                ``skip``, places of statements; ``wide``, see ``cells.needed``; ``judged``, ids of
                exercises whose checks are left out; ``lessons``, numbers of cells that are not the
                student's own.
        """
        everything, future = [], 0
        lessons = {*order.get("lessons", ())}
        for number, source in order["cells"]:
            name = f"<cell {number}>"
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            try:
                everything += cells.statements(
                    number, source, name, future, own=number not in lessons
                )
            except Exception as error:  # SyntaxError, or what its compiler finds too deep
                self._problem((number, 0), error)
            if everything:
                future |= everything[-1].code.co_flags & cells.FUTURE
        skip = {tuple(place) for place in order["skip"]}
        judged = order.get("judged", [])
        everything = [each for each in everything if cells.checked(each.node) not in judged]
        chosen = cells.needed(everything, order["functions"])
        wider = cells.needed(everything, order["functions"], wide=True)
        waiting = [s for s in (wider if order["wide"] else chosen) if s.place not in skip]
        for statement in waiting:
            if cells.is_of_lablib(statement.node):  # what that takes is no time of the student's
                with contextlib.suppress(Exception):
                    exec(statement.code, {})
        while waiting:  # a helper may stand below what uses it
            unready = [(s, e) for s in waiting if isinstance(e := self._try(s), NameError)]
            if len(unready) == len(waiting):
                for statement, error in unready:
                    self._problem(statement.place, error, statement.binds)
                break
            waiting = [statement for statement, _ in unready]
        self.line.send({"done": True, "wider": len(wider) > len(chosen)})

    def _try(self, statement: cells.Statement) -> BaseException | None:
        """Run a statement; return a NameError, and report any other accident."""
        self.line.send({"at": list(statement.place)})
        try:
            if statement.code.co_flags & inspect.CO_COROUTINE:  # it awaits something
                self._await(eval(statement.code, self.space))
            else:
                exec(statement.code, self.space)
            if asyncio.all_tasks(self.loop.get_loop()):  # in Jupyter they go on between cells
                self._await(asyncio.sleep(0))
        except NameError as error:
            return error
        except BaseException as error:  # SystemExit too: the other statements still count
            self._problem(statement.place, error, statement.binds)
        finally:
            vars(builtins).update(BUILTINS)  # whatever became of them
        return None

    def _await(self, work: Coroutine[Any, Any, Any]) -> None:
        """Wait for work in the loop that all statements share; it sees what is set by now."""
        self.loop.run(work, context=contextvars.copy_context())

    def _problem(
        self, place: tuple[int, int], error: BaseException, binds: Iterable[str] = ()
    ) -> None:
        text = f"{type(error).__name__}: {_text(error)}".rstrip(": ") + self._why(error)
        self.unbound |= dict.fromkeys(binds, text[:LONGEST])
        self.line.send({"problem": list(place), "text": text[:LONGEST]})

    def _why(self, error: BaseException) -> str:
        """Return why the name is missing that an error is about: its statement raised another."""
        if type(error) is not NameError:
            return ""
        why = self.unbound.get(error.name) or self.unbound.get("*")
        return f" ({why})" if why else ""

    def check(self, exercise: Any, function: Any = None, **_: Any) -> "_Nothing":
        """Offer a function to the judge, and answer its calls until it is content."""
        if not self.busy and isinstance(exercise, str):
            self.busy = True
            try:
                self.line.send({"check": exercise, **self.description(function)})
                if self.serve(function):
                    self.checked.append(function)
            finally:
                self.busy = False
        return _Nothing()

    def offer(self, name: str, again: bool) -> None:
        """Offer the function of this name, if there is one; one that was checked only again."""
        function = self.space.get(name)
        known = any(function is each for each in self.checked)
        if function is None or (known and not again):
            self.line.send({"missing": name})
        else:
            self.line.send(self.description(function))
            self.serve(function)

    def description(self, function: Any) -> dict[str, Any]:
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

    def serve(self, function: Callable[..., Any]) -> bool:
        """Call a function as often as the judge wants; return whether it was called.

        Answers that are to be kept are looked at again where the judge asks: here they are no
        copies.
        """
        called, self.kept = False, []
        while "enough" not in (request := self.line.receive()):
            if "call" not in request:
                changed = not all(_is_still(*each) for each in self.kept)
                self.line.send({"answer": changed, "shared": []})
                continue
            called = True
            vars(builtins).update(BUILTINS)
            self.has_object, self.returned = False, None
            given, named = codec.unpack(request["call"], self._borrow)
            before = codec.dumps(codec.pack([given, named], _lend))
            reply = self._answer(function, given, named, request)
            after = codec.pack([given, named], _lend)
            try:
                # A copy of an object that was lent has left its own state in the judge's.
                if self.has_object or codec.dumps(after) != before:
                    reply["after"] = after
                self.line.send(reply | self._spoilt())
            except ValueError as error:  # too large
                self.line.send({"accident": ["ValueError", str(error), "", False]})
        return called

    def _answer(
        self, function: Any, given: Any, named: Any, request: dict[str, Any]
    ) -> dict[str, Any]:
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        try:
            with time_limit(request["seconds"]):
                result = run_through(function(*given, **named))
                shared = shared_places(function, result, [*given, *named.values()])
                answer = codec.pack(result)
                self.kept += [(result, answer)] * request["keep"]
                return {"answer": answer, "shared": shared}
        except TimeUp:
            return {"late": True}
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
        vars(thing).update(codec.unpack(attributes, self._borrow))
        return thing

    def _spoilt(self) -> dict[str, Any]:
        """Return what became of what a function of the judge's returned last, if it was changed.

        In a notebook it may be a part of what that function goes on with.
        """
        if self.returned is None or _is_still(*self.returned):
            return {}
        return {"spoilt": codec.pack(self.returned[0])}

    def ask(self, request: dict[str, Any]) -> Any:
        """Send the judge a request in the middle of a call and return its reply."""
        with self.turn:
            self.line.send(request | self._spoilt())
            reply = self.line.receive()
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
        servant, packed = self._servant, codec.pack([args, kwargs], _lend)
        with servant.turn:
            told = servant.ask({"ask": self._number, "args": packed})["value"]
            value = codec.unpack(told)
            servant.returned = value, told
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
        with servant.turn:
            request = {
                "ask": number,
                "method": name,
                "looks": self._looks[-LOOKS:],
                "attributes": codec.pack(own, _lend),
                "args": codec.pack([args, kwargs], _lend),
            }
            self._looks.clear()
            reply = servant.ask(request)
            codec.restore(own, codec.unpack(reply["attributes"]))
        return codec.unpack(reply["value"])

    return method


def _lend(value: Any) -> Any:
    if isinstance(value, _Borrowed):
        return {"function": value._number}
    if isinstance(value, _Object):
        return {"object": [value._number, codec.pack(vars(value), _lend)]}
    return codec.strange(value)


def _is_still(result: Any, answer: Any) -> bool:
    """Return whether what was returned would cross as it did."""
    try:
        return codec.dumps(codec.pack(result)) == codec.dumps(answer)
    except Exception:  # it has grown too large, say
        return False


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
        if re.fullmatch(r"lablib\.course\.lessons\.lesson_\d\d\.exercises\w*", name):
            raise ImportError(f"{name} is not here while notebooks are graded")


def _text(error: BaseException) -> str:
    try:
        text = (str(error).splitlines() or [""])[0]
    except Exception:
        return ""
    return text.replace("(<unknown>, line ", "(line ")  # a SyntaxError's, of a cell


def serve(missing: Sequence[str]) -> None:
    """Do what the judge says until it hangs up; ``missing`` are the walls that aren't there."""
    sys.argv = [""]
    sys.path.append(os.getcwd())  # for modules that a notebook writes
    # Semaphores and shared memory end with their process here; it would take another to see to it.
    multiprocessing.resource_tracker.register = multiprocessing.resource_tracker.unregister = (
        _nothing
    )
    random.seed(0)
    np.random.seed(0)  # two runs say the same
    servant = Servant()
    stand_in = types.ModuleType("lablib.course.checks.checking")
    vars(stand_in).update({name: servant.space[name] for name in NAMES})
    sys.modules[stand_in.__name__] = stand_in
    sys.meta_path.insert(0, _NoReferences())
    servant.line.send({"missing": list(missing)})
    while True:
        order = servant.line.receive()
        if "cells" in order:
            servant.run(order)
        elif "offer" in order:
            servant.offer(order["offer"], order.get("again", True))
