"""The processes of a sweep: who they are, how they tell each other something, how they start.

MLX's distributed engine (``mx.distributed``) knows rank and size and carries bytes: ring, JACCL,
MPI or NCCL, whichever the processes were started for. Only collectives are used, as the ``send`` of
a ring reaches neighbours alone. A process that nobody started with others is rank 0 of 1.

Ranks end when their launcher does, however it ends: it holds one end of a pipe, which the system
closes with its process, and each rank waits at the other.
"""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from typing import Any

from lablib.validation import integer

import mlx.core as mx
import numpy as np

_RING = ("MLX_RANK", "MLX_HOSTFILE")  # what MLX's ring reads
_PIPE = "LABLIB_LAUNCHER"  # the rank's end of the pipe, a number
STATUS = 3  # of a process that ends because a rank, or the launcher, is lost
_START = 60  # seconds in which all ranks should be there
_LAST_WORDS = 5.0  # seconds in which the others may end by themselves when one has failed


class SweepError(RuntimeError):
    """A rank is lost, a unit failed, or the ranks do not fit together; one readable line."""


class Ranks:
    """All processes of this sweep, this one among them.

    Attributes:
        rank: this process, from 0.
        size: how many there are.
        lost: what to do when the others cannot be reached any more; may end the process.
    """

    def __init__(self) -> None:
        _end_with_launcher()
        try:
            with _in_time() if _RING[0] in os.environ else nullcontext():
                self._group = mx.distributed.init()
        except RuntimeError as error:
            raise SweepError(f"the ranks did not find each other: {error}") from None
        self.rank, self.size = self._group.rank(), self._group.size()
        self.lost = lambda: None

    def gather(self, message: Any) -> list[Any]:
        """Return the messages of all ranks, in their order; every rank must call it.

        Args:
            message: anything that JSON can hold.
        """
        if self.size == 1:
            return [message]
        mine = np.frombuffer(json.dumps(message).encode(), np.uint8)
        try:
            lengths = np.array(self._all(mx.array([len(mine)], mx.int32)))
            padded = np.zeros(lengths.max(), np.uint8)
            padded[: len(mine)] = mine
            rows = np.array(self._all(mx.array(padded))).reshape(self.size, -1)
        except RuntimeError as error:
            self.lost()  # whoever watches knows better who it was
            raise SweepError(f"the connection to another rank was lost: {error}") from None
        return [json.loads(row[:n].tobytes()) for row, n in zip(rows, lengths, strict=True)]

    def _all(self, array: mx.array) -> mx.array:
        gathered = mx.distributed.all_gather(array, group=self._group)
        mx.eval(gathered)
        return gathered


@cache
def _end_with_launcher() -> int | None:
    """Let a thread end this process when its launcher is gone; return where it waits for that."""
    pipe = int(os.environ.pop(_PIPE, -1))  # what this process starts has not got the pipe
    try:
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            return None
    except OSError:  # nobody's, or of a command between the launcher and this process
        return None

    def wait() -> None:
        os.read(pipe, 1)  # nothing is ever written: it returns at the end of the launcher
        os._exit(STATUS)

    threading.Thread(target=wait, daemon=True).start()
    return pipe


@contextmanager
def _in_time() -> Iterator[None]:
    """End this process when its launcher is gone, and with a line when a rank is a minute late.

    MLX waits for it without an end, and lets no thread of Python run meanwhile; a process does.
    """
    here = f"rank {os.environ[_RING[0]]} ({socket.gethostname()}, process {os.getpid()})"
    words = f"lablib: {here} has waited {_START} s for the other ranks\n"
    pipe = _end_with_launcher()
    pipes = () if pipe is None else (pipe,)
    script = "import os, select\n"
    script += f"gone = select.select({[*pipes]}, [], [], {_START})[0]\n"
    script += f"if os.getppid() == {os.getpid()}:\n"
    script += f" gone or os.write(2, {words.encode()!r})\n"
    script += f" os.kill({os.getpid()}, {signal.SIGKILL:d})"
    guard = subprocess.Popen(
        [sys.executable, "-ISc", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=pipes,
    )
    try:
        yield
    finally:
        guard.kill()
        guard.wait()


def start(ranks: int, command: Sequence[str], **options: Any) -> int:
    """Run a command as so many ranks on this machine, over MLX's ring, and wait for them.

    They end with this process, even if it is killed.

    ``mlx.launch -n RANKS --backend ring -- COMMAND`` does the same; but it keeps half a core busy
    while it waits, and succeeds whatever happened.

    Args:
        ranks: how many.
        command: and its arguments.
        options: of ``subprocess.Popen``.

    Returns:
        0 if all ranks ended well, or else the status of the first that did not.
    """
    ranks = integer("ranks", ranks, 1)
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(ranks)]
        ports = [stack.enter_context(door).getsockname()[1] for door in doors]
        hosts = os.path.join(folder, "hosts.json")
        with open(hosts, "w", encoding="utf-8") as file:
            json.dump([[f"127.0.0.1:{port}"] for port in ports], file)
        stack.pop_all().close()  # the ports are theirs now
        environment = dict(options.pop("env", None) or os.environ)
        for name in _RING:
            environment.pop(name, None)
        theirs, ours = os.pipe()
        for end in (theirs, ours):
            stack.callback(os.close, end)  # or the system does, when this process is killed
        environment[_PIPE] = str(theirs)
        options = options | {"pass_fds": (theirs,)}
        processes = []
        try:
            for rank in range(ranks):
                ring = dict(zip(_RING, (str(rank), hosts), strict=True)) if ranks > 1 else {}
                processes.append(subprocess.Popen(command, env=environment | ring, **options))
            return _wait(processes)
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _wait(processes: Sequence[subprocess.Popen]) -> int:
    """Return the first bad status, or 0 when all have ended well."""
    while True:
        found = [process.poll() for process in processes]
        if bad := [status for status in found if status]:
            until = time.monotonic() + _LAST_WORDS
            while time.monotonic() < until and any(p.poll() is None for p in processes):
                time.sleep(0.05)
            return bad[0]
        if None not in found:
            return 0
        time.sleep(0.05)
