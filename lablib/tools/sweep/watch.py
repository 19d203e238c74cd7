"""Who is still there: each rank tells rank 0 that it lives, and rank 0 tells each.

A collective waits for ever for a rank that hangs, and where one died it may fail at any neighbour:
it cannot say who. So a thread of each rank sends a beat now and then over a connection of its own.
An end without a farewell is a death, silence is a hang, and both end the run with that rank's name.
So does a group that takes longer than its limit: a rank whose work is stuck still sends beats.
"""

import json
import os
import secrets
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from lablib.tools.sweep.ranks import STATUS, Ranks, SweepError
from lablib.validation import number

PATIENCE = 20.0  # seconds of silence that are a hang
_LONGEST = 100  # letters that a rank says at the door
_BEAT, _FAREWELL, _END, _UP = ".", "bye", "!", "@"


class Watch:
    """Watch over the ranks while a ``with`` block lasts; every rank opens one.

    Args:
        ranks: all of them.
        patience: seconds of silence after which a rank counts as hanging.
        limit: seconds that a group may take; None lets it take its time.
        advice: what the line about a lost rank ends with.
    """

    def __init__(
        self, ranks: Ranks, patience: float = PATIENCE, limit: float | None = None,
        advice: str = "",
    ) -> None:  # fmt: skip
        self._ranks, self._patience = ranks, number("patience", patience, 0.5)
        self._limit = None if limit is None else number("limit", limit, 0.1)
        self._advice, self._leaving = advice, threading.Event()
        self._at: tuple[float, Mapping[str, Any]] | None = None  # since when, and at what
        self._peers: dict[int, _Peer] = {}
        self._up = [0] * ranks.size  # the last round whose time is up, as each rank says
        self._over = 0  # the last round whose time is up for all
        card = {"host": socket.gethostname(), "pid": os.getpid(), "parent": os.getppid()}
        self.cards = ranks.gather(card)
        if ranks.size > 1:
            self._connect()
        ranks.lost = lambda: time.sleep(self._patience + 2)  # the thread ends the process
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def name(self, rank: int) -> str:
        """Return what people call a rank: its number, its machine and its process."""
        card = self.cards[rank]
        return f"rank {rank} ({card['host']}, process {card['pid']})"

    def over(self, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return work on groups of units that says what this rank is at."""

        def watched(group: Any) -> Any:
            self._at = time.monotonic(), group[0]
            try:
                return work(group)
            finally:
                self._at = None

        return watched

    def time_is_up(self, number: int) -> bool:
        """Tell the others that this rank's time in a round is up; return whether that of all is.

        Until it is, a rank does better to go on than to wait. A rank that cannot be told says yes.
        """
        if self._up[self._ranks.rank] < number:
            self._say_up(self._ranks.rank, number)
        return self._over >= number

    def _say_up(self, rank: int, number: int) -> None:
        """Note where a rank is; rank 0 hears of all and tells them."""
        self._up[rank] = number
        if self._ranks.rank > 0:
            if 0 in self._peers:
                self._peers[0].send(f"{_UP}{number}")
            else:
                self._over = number
        elif min(self._up[r] for r in (0, *self._peers)) >= number > self._over:
            self._over = number
            for peer in self._peers.values():
                peer.send(f"{_UP}{number}")

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        self._leaving.set()
        self._thread.join()
        last = _FAREWELL
        if error is not None and not isinstance(error, SweepError):  # that one all ranks know
            last = f"{_END}{self.name(self._ranks.rank)} has ended: {error or type(error).__name__}"
        for peer in self._peers.values():
            peer.send(last)
            peer.socket.close()

    # ------------------------------------------------------------------ before the work

    def _connect(self) -> None:
        """Let every rank but the first connect to rank 0, who has told all where it listens."""
        first, door = self._ranks.rank == 0, None
        together = len({card["host"] for card in self.cards}) == 1
        token = secrets.token_hex(16)
        if first:
            door = socket.create_server(("127.0.0.1" if together else "", 0), backlog=1024)
            where = {"port": door.getsockname()[1], "token": token}
            where["addresses"] = ["127.0.0.1"] if together else _addresses()
        where = self._ranks.gather(where if first else None)[0]
        if not first:
            self._call(where)
        found = self._ranks.gather(bool(self._peers))
        if door is not None:
            with door:
                self._answer(door, token, sum(found))
            for rank in (r for r in range(1, len(found)) if r not in self._peers):
                print(
                    f"lablib: {self.name(rank)} cannot reach rank 0 at {where['addresses']}: "
                    "if it is lost, the run ends only when MLX notices",
                    file=sys.stderr,
                )
        self._ranks.gather("all are connected")

    def _call(self, where: dict[str, Any]) -> None:
        addresses = where["addresses"]
        if self.cards[0]["host"] == self.cards[self._ranks.rank]["host"]:
            addresses = ["127.0.0.1", *addresses]
        for address in addresses:
            with suppress(OSError):
                peer = _Peer(socket.create_connection((address, where["port"]), timeout=3))
                peer.send(json.dumps([where["token"], self._ranks.rank]))
                self._peers[0] = peer
                return

    def _answer(self, door: socket.socket, token: str, callers: int) -> None:
        door.settimeout(5)
        with suppress(TimeoutError):
            while len(self._peers) < callers:
                peer = _Peer(door.accept()[0])
                peer.socket.settimeout(5)
                # A stranger may say anything, and at any length.
                with suppress(OSError, ValueError, TypeError, RecursionError):
                    said, rank = json.loads(peer.socket.makefile().readline(_LONGEST))
                    if secrets.compare_digest(str(said), token):
                        self._peers[rank] = peer

    # ------------------------------------------------------------------ while others work

    def _listen(self) -> None:
        """Send beats and hear those of the others until this rank leaves."""
        beat = min(1.0, self._patience / 5)
        with selectors.DefaultSelector() as selector:
            for rank, peer in self._peers.items():
                peer.socket.setblocking(False)
                selector.register(peer.socket, selectors.EVENT_READ, rank)
            last = sent = time.monotonic()
            while not self._leaving.is_set():
                ready = [key.data for key, _ in selector.select(min(0.1, beat))]
                now = time.monotonic()
                # A process that was stopped itself, or starved, has heard nobody in that time.
                passed, last = min(now - last, 2 * beat), now
                if now - sent >= beat:
                    sent = now
                    for peer in self._peers.values():
                        peer.send(_BEAT)
                self._look_at_itself(now)
                for rank in list(self._peers):
                    if not self._hear(rank, rank in ready, passed):
                        selector.unregister(self._peers.pop(rank).socket)

    def _look_at_itself(self, now: float) -> None:
        """End the run when this rank is stuck."""
        if self._limit is not None and (at := self._at) and now - at[0] > self._limit:
            who, what = self.name(self._ranks.rank), dict(at[1])
            self._end(f"{who} has been at {what} for more than {self._limit:g} s", seen=False)

    def _hear(self, rank: int, ready: bool, passed: float) -> bool:
        """Take in what a rank says, or that it is silent; return False when it has left."""
        peer = self._peers[rank]
        peer.silent = 0.0 if ready else peer.silent + passed
        if peer.silent > self._patience:
            self._end(f"{self.name(rank)} has not answered for {peer.silent:.0f} s", hung=rank)
        if not ready:
            return True
        words = peer.receive()
        if words is None:
            self._end(f"{self.name(rank)} has died")
        for word in words:
            if word.startswith(_END):
                self._end(word[len(_END) :], seen=False)
            if word.startswith(_UP) and self._ranks.rank == 0:
                self._say_up(rank, int(word[len(_UP) :]))
            elif word.startswith(_UP):
                self._over = int(word[len(_UP) :])
        return _FAREWELL not in words

    def _end(self, why: str, *, seen: bool = True, hung: int | None = None) -> None:
        """End this process and let rank 0 end the others; the first of those left says why."""
        if self._ranks.rank == 0 or (self._ranks.rank == 1 and seen):
            print(f"\nlablib: {why}{self._advice}", file=sys.stderr, flush=True)
        for rank, peer in self._peers.items():
            if rank != hung:
                peer.send(_END + why)
        if hung is not None:
            _kill(self.cards[hung])
        os._exit(STATUS)


class _Peer:
    """A connection to another rank; speaks in lines."""

    def __init__(self, connected: socket.socket) -> None:
        # A last word that waited to be sent would be lost with the process.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket, self.silent, self._rest = connected, 0.0, b""

    def send(self, line: str) -> None:
        with suppress(OSError):  # whether it is there is for the listener to find out
            self.socket.sendall(line.encode() + b"\n")

    def receive(self) -> list[str] | None:
        """Return the lines that have come; None when it has hung up."""
        try:
            some = self.socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not some:
            return None
        *lines, self._rest = (self._rest + some).split(b"\n")
        return [line.decode() for line in lines]


def _addresses() -> list[str]:
    """Return where other machines may reach this one, the most likely first."""
    found = []
    if path := os.environ.get("MLX_HOSTFILE"):  # ring: the addresses of each rank
        with suppress(OSError, ValueError, IndexError), open(path, encoding="utf-8") as file:
            found += [host.rpartition(":")[0] for host in json.load(file)[0]]
    for variable in ("MLX_JACCL_COORDINATOR", "NCCL_HOST_IP"):  # rank 0's, with or without a port
        found += [os.environ[variable].partition(":")[0]] if variable in os.environ else []
    name = socket.gethostname()
    with suppress(OSError):
        found += [str(info[4][0]) for info in socket.getaddrinfo(name, None, socket.AF_INET)]
    return list(dict.fromkeys([*found, name]))


def _kill(card: dict[str, Any]) -> None:
    """Kill a rank that hangs, if whoever started this process started it, too.

    A launcher on this machine would wait for it. On another one the number may be somebody else's.
    """
    if (card["host"], card["parent"]) == (socket.gethostname(), os.getppid()):
        with suppress(OSError):
            os.kill(card["pid"], signal.SIGKILL)
