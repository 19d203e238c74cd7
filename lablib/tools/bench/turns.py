"""Sides of a comparison: each a process of its own that stays warm; they take turns, case by case.

On a CPU a case is timed in processor time, which the neighbours do not add to, on a GPU by the
clock. This file needs nothing but Python, so that any checkout and any environment can be a side:
it calls :func:`serve` with its cases, and whoever started it asks for them by name.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

Answer = dict[str, Any]
Run = Callable[[int], Answer | None]  # takes the number of the turn


def clock() -> Callable[[], float]:
    """Return the clock, in seconds, that is fair on MLX's device."""
    try:
        import mlx.core as mx
    except ImportError:  # llama.cpp is there without it, on a CPU
        return time.process_time

    return time.process_time if mx.default_device() == mx.cpu else time.perf_counter


def load_blas() -> None:
    """Give MLX what ``import lablib`` gives it, in a process without lablib.

    That is the BLAS that lablib has chosen, and Linux's scheduling as in
    ``lablib/machine/scheduling.py``, so that engines are compared. Call it before ``mlx.core`` is
    imported; ``LABLIB_BLAS`` and ``LABLIB_FEW_ROWS`` are paths, or "off".
    """
    path, few_rows = (os.environ.get(f"LABLIB_{name}", "off") for name in ("BLAS", "FEW_ROWS"))
    if few_rows != "off":  # in front: it is loaded first
        rest = ctypes.CDLL(path).cblas_sgemm
        few = ctypes.CDLL(few_rows, mode=ctypes.RTLD_GLOBAL)
        few.few_rows_start(ctypes.cast(rest, ctypes.c_void_p))
    if path != "off":
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    if hasattr(os, "SCHED_BATCH"):
        with suppress(OSError):  # a sandbox may forbid it
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def serve(make: Callable[[Any], Mapping[str, Run]]) -> None:
    """Be a side: make the cases from the settings that come in first, then run what is asked for.

    A case is called with the number of its turn, 0 to warm up. What it returns is sent back, with
    the ``seconds`` it took unless it says so itself; an exception is sent as ``error``. Whatever is
    printed meanwhile goes to the standard error.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us, and ends us too
    if hasattr(os, "sched_setaffinity") and os.environ.get("LABLIB_THREADS", "1") == "1":
        # A call that wakes a thread on another core takes 3 times as long, and that is by chance.
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)

        def send(answer: Any) -> None:
            print(json.dumps(answer), file=out, flush=True)

        try:
            cases = make(json.loads(sys.stdin.readline()))
            now = clock()
            send(list(cases))
        except Exception as error:
            traceback.print_exc()
            send({"error": f"{type(error).__name__}: {error}"})
            return
        for line in sys.stdin:
            name, turn = json.loads(line)
            try:
                start = now()
                answer = cases[name](turn) or {}
                answer = {"seconds": now() - start} | answer
            except Exception as error:
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"}
            send(answer)


class SideError(RuntimeError):
    """A side could not start, failed in a case, or ended."""


class Side:
    """A process that serves cases; ``with`` ends it.

    Args:
        command: starts it.
        settings: what its ``make`` gets, as JSON.
        environment: variables besides those of this process.
        folder: where it runs; None means here.
    """

    def __init__(
        self, command: Sequence[str], settings: Any = None, environment: Mapping[str, str] = {},
        folder: str | None = None,
    ) -> None:  # fmt: skip
        self._log = tempfile.TemporaryFile()  # noqa: SIM115, closed on exit
        self._process = subprocess.Popen(
            command, env=os.environ | {"PYTHONWARNINGS": "ignore"} | dict(environment),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            encoding="utf-8", cwd=folder,
        )  # fmt: skip
        self._send(settings)

    @cached_property
    def names(self) -> list[str]:
        """The cases it has, when it is ready."""
        return self._receive()

    def run(self, name: str, turn: int = 0) -> Answer:
        """Run a case once, and return its answer with the ``seconds`` that it took."""
        if name not in self.names:
            raise SideError(f"there is no case {name!r} here, only {', '.join(self.names)}")
        self._send([name, turn])
        return self._receive()

    def _send(self, message: Any) -> None:
        with suppress(BrokenPipeError):  # what it wrote before it ended says why
            print(json.dumps(message), file=self._process.stdin, flush=True)

    def _receive(self) -> Any:
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": self._last_words()}
        if isinstance(answer, dict) and "error" in answer:
            raise SideError(answer["error"])
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        said = self._log.read().decode(errors="replace").strip().split("\n")[-1]
        return f"the process ended with status {self._process.returncode}: {said}"

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


def take_turns(
    runs: Mapping[str, Callable[[int], Answer]], turns: int, done: Callable[[], Any] = lambda: None
) -> list[dict[str, Answer]]:
    """Run everything once in each turn, a different one first each time.

    Args:
        runs: by name; called with the number of the turn.
        turns: how many count; one more before them, turn 0, warms up.
        done: called after each run.

    Returns:
        For each turn that counts the answers by name.
    """
    names, found = list(runs), []
    for turn in range(turns + 1):
        first = turn % len(names)
        answers = {}
        for name in names[first:] + names[:first]:
            answers[name] = runs[name](turn)
            done()
        found.append(answers)
    return found[1:]
