"""Callers side by side, each a coroutine that asks for itself."""

import asyncio
import ctypes
import selectors
import threading
from collections.abc import Awaitable, Iterable
from typing import Any

from lablib.machine.streams import clear_with_thread


def together(callers: Iterable[Awaitable[Any]]) -> list[Any]:
    """Run coroutines side by side until all have ended; return what each returned, in order.

    They have an event loop of their own, in a thread of its own: a notebook's loop is running
    already and can't be entered again. What ends this call, the stop button say, ends the thread.

    Raises:
        RuntimeError: each of them waits, and nothing is left that could wake one.
    """
    ended: list[tuple[Any, BaseException | None]] = []
    thread = threading.Thread(target=_run, args=(callers, ended), daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(1.0)
    except BaseException:
        stop = ctypes.py_object(SystemExit)  # threads end by it in silence
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), stop)
        raise
    (answers, error), *_ = ended
    if error is not None:
        raise error
    return answers


def _run(callers: Iterable[Awaitable[Any]], ended: list[tuple[Any, BaseException | None]]) -> None:
    async def gathered() -> list[Any]:
        return await asyncio.gather(*callers)

    clear_with_thread()
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            ended.append((runner.run(gathered()), None))
    except BaseException as error:
        ended.append((None, error))


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.SelectorEventLoop(_Awake())
    loop.set_exception_handler(lambda *_: None)  # what a student's queue loses is told by the check
    return loop


class _Awake(selectors.SelectSelector):
    """Refuses to sleep without an alarm: nobody else is there to wake this loop."""

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("all who are left wait, and nobody will answer them")
        return super().select(timeout)
