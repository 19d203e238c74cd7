"""Asks Linux to let MLX's own thread wait for its turn.

MLX hands its operations to a thread of its own, one by one. Usually Linux lets a thread that wakes
up take the processor from the one that woke it: here, for an operation of 2 µs, after which it
sleeps again. Where the two share a core, a token of a small model costs 110 such switches. A thread
under SCHED_BATCH waits for its turn, and a token costs 15. Only MLX's thread is put there: Python's
threads keep their policy, and child processes inherit that. A policy that somebody has chosen for
the process is MLX's too, and stays.

Environment:
    LABLIB_SCHED: ``off`` leaves MLX's thread as it is.
"""

import os
import sys
import threading
from contextlib import suppress

_BY_US = "batch (lablib; LABLIB_SCHED=off leaves it)"


def gather_work() -> None:
    """Let MLX's thread find many operations to do whenever it wakes, and not just one.

    Elsewhere than on Linux do nothing. A Python thread that starts to compute later has a thread of
    MLX's for itself, which the next call finds.
    """
    if sys.platform != "linux" or os.environ.get("LABLIB_SCHED", "").lower() == "off":
        return
    import mlx.core as mx

    mx.eval(mx.zeros(1))  # MLX's thread starts with its first operation
    with suppress(OSError):  # a sandbox may forbid it, and a thread may end meanwhile
        for thread in _foreign_threads():
            if os.sched_getscheduler(thread) == os.SCHED_OTHER:
                os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))


def policy() -> str | None:
    """Name the policy that MLX's thread runs under, or would; None elsewhere than on Linux."""
    if sys.platform != "linux":
        return None
    names = {os.SCHED_OTHER: "other", os.SCHED_BATCH: "batch", os.SCHED_IDLE: "idle"}
    chosen = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    gather_work()
    with suppress(OSError):
        policies = map(os.sched_getscheduler, _foreign_threads())
        if chosen == os.SCHED_OTHER and os.SCHED_BATCH in policies:
            return _BY_US
    return names.get(chosen, "real time")


def _foreign_threads() -> list[int]:
    """Return the ids of the threads that Python has not started, among them MLX's."""
    ours = {thread.native_id for thread in threading.enumerate()}
    threads = map(int, os.listdir("/proc/self/task"))
    return [thread for thread in threads if thread not in ours]
