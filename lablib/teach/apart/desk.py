"""The judge's desk: work goes out to referees, and verdicts come in. Nothing is computed here.

A referee (``referee``) is a process that does what a student's work makes it do. What it may use is
bounded here, by the clock, of the processor and of memory: who uses more is ended, and the exercise
that it was at is not judged. Short lines of JSON are all that is read of it.
"""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import lablib
from lablib.teach.apart import leftovers, usage
from lablib.teach.apart.remote import Limits
from lablib.teach.apart.sandbox import PROCESSES
from lablib.teach.apart.surroundings import OURS
from lablib.teach.handed_in import LARGEST
from lablib.teach.submission import CELLS

LOOK = 0.1  # seconds between two looks at what they use, and until a signal is answered
LATE = 30.0  # seconds that a referee may be late, for its start
READS = 5.0  # seconds of processor time to read a file, and to import its lesson
STRIKES = 2  # referees that one submission may wear out
SLOW = 10  # files of one student that may take all their time; others are not judged then
LONGEST = 2**20  # bytes of one line
MEMORY = 6 * LARGEST  # bytes that a submission may have a referee hold: letters may take 4 each
EACH = PROCESSES + 16  # processes and threads that a submission may take, its referee's among them
LIBRARIES = 100 * 2**20  # bytes that it holds once all lessons are imported, whoever needs them
READING = ""  # what a referee is at when it begins
RUN = "import sys; sys.path.insert(0, sys.argv[1]); from lablib.teach.apart import referee; "
RUN += "referee.main(sys.argv[2])"

Verdict = dict[str, Any]


class Worn(Exception):
    """A referee has used up what it may, or has ended; the message says how."""


class Short(OSError):
    """This machine has no room for a student's process by now; the message says of what."""


@dataclass(kw_only=True)
class Order:
    """A submission to judge, and what is known of it by now.

    Attributes:
        path: of the file.
        name: what messages call it.
        whose: it is; all files of theirs together have a limit of time.
        lessons: numbers of the only lessons that are asked for; all when empty.
        only: ids of the only exercises that are asked for; all when empty.
        notes: what was found of an exercise: mark, misconception, message.
        struck: exercises that wore a referee out, and why.
        over: why nothing more is judged, if so.
        others: that it is over for what other files took, if so.
        spent: seconds of processor time that other referees have compared it for.
        alone: whether it waits until nothing else is judged: there was no room for its process.
        task: ``"grade"`` or ``"score"``.
        score: the capstone, its world and the student's files, if it is to be scored.
        known: the digest of the file whose verdict is known: it is not judged while it has this.
        digest: of the file, once its referee has read it; empty if it can't be read.
        forms: what equal answers have in common, by exercise (see ``alike``); told with a verdict.
        predicted: what was predicted, by question (see ``predicted``); likewise.
    """

    path: str
    name: str
    whose: str = ""
    task: str = "grade"
    score: dict[str, Any] = field(default_factory=dict)
    lessons: list[str] = field(default_factory=list)
    only: list[str] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)
    struck: dict[str, str] = field(default_factory=dict)
    over: str = ""
    others: str = ""
    spent: float = 0.0
    alone: bool = False
    known: str = ""
    digest: str = ""
    forms: dict[str, str] = field(default_factory=dict)
    predicted: dict[str, Any] = field(default_factory=dict)

    def give_up(self, seconds: float) -> None:
        """Judge nothing more, for what other files took."""
        self.over = self.others = f"their other files took more than {seconds:g} s"

    def of_others(self, verdict: Verdict) -> Verdict:
        """Return a verdict, or one about other files, which nobody keeps with this one's bytes."""
        if not self.others or "same" in verdict:
            return verdict
        self.digest = ""
        return {"unreadable": f"is not judged: {self.others}"}

    def strike(self, at: str, why: str, spent: float) -> Verdict | None:
        """Note what wore a referee out; return the verdict if no other one shall try."""
        self.spent += spent
        if at == READING or self.over:
            return {"unreadable": f"can't be read: {why}"}
        if at != CELLS:
            self.struck[at] = f"comparing its answers: {why}"
        if at == CELLS or len(self.struck) >= STRIKES or self.task != "grade":
            self.over = why
        return None


def judge(orders: Iterable[Order], limits: Limits, workers: int) -> Iterator[tuple[Order, Verdict]]:
    """Have submissions judged; yield each with its verdict, in any order.

    A verdict has what was found of each exercise, or ``unreadable`` and why, or ``same`` where the
    file has the digest that is ``known``. Whoever closes the iterator leaves no process behind.

    Args:
        orders: what to judge; each is asked for when its turn comes.
        limits: for each, of the student's process and of the referee's.
        workers: how many at the same time; fewer where a container has no room for so many.

    Raises:
        Short: there is no room for a student's process even where nothing else is judged.
    """
    workers = _at_once(workers)
    left = iter(orders)
    waiting: list[Order] = []  # once more, before those that are left
    idle: list[Referee] = []
    busy: list[Referee] = []
    took: Counter[str] = Counter()  # seconds by the clock, of a student's files
    try:
        while True:
            while len(busy) < workers:
                order = waiting.pop() if waiting else next(left, None)
                if order is None:
                    break
                if order.whose and took[order.whose] > SLOW * limits.seconds:
                    order.give_up(SLOW * limits.seconds)
                    if not order.known:  # else a referee looks whether it is the same
                        yield order, order.of_others({})
                        continue
                try:
                    busy.append(_ready(idle) or Referee(limits))
                except OSError as error:
                    if not busy:
                        raise Short(f"no process for a referee: {error}") from None
                    waiting.append(order)
                    workers = 1
                    break
                busy[-1].begin(order)
            if not busy:
                break
            _wait(busy)
            for referee in [*busy]:
                try:
                    verdict = referee.look()
                except Short:
                    busy.remove(referee)
                    referee.end()
                    if referee.order.alone:
                        raise
                    # Others' processes may have taken the room: that costs nobody a mark.
                    referee.order.alone, workers = True, 1
                    waiting.append(referee.order)
                    continue
                except Worn as worn:
                    busy.remove(referee)
                    took[referee.order.whose] += time.monotonic() - referee.began
                    referee.end()
                    verdict = referee.order.strike(referee.at, str(worn), referee.spent)
                    if verdict is None:
                        waiting.append(referee.order)
                        continue
                else:
                    if verdict is None:
                        continue
                    busy.remove(referee)
                    took[referee.order.whose] += time.monotonic() - referee.began
                    idle.append(referee)
                yield referee.order, referee.order.of_others(verdict)
    finally:
        for referee in (*idle, *busy):
            referee.end()


def _at_once(workers: int) -> int:
    """Return how many submissions there is room for, so many at most."""
    return int(max(1, min(workers, usage.room() // EACH)))


def _ready(idle: list["Referee"]) -> "Referee | None":
    """Take a referee that waits; who has died meanwhile must not cost the next file its marks."""
    while idle:
        referee = idle.pop()
        if referee.lives:
            return referee
        referee.end()
    return None


def _wait(busy: Iterable["Referee"]) -> None:
    """Wait until one of them says something, but no longer than to the next look."""
    with selectors.DefaultSelector() as ready:
        for referee in busy:
            ready.register(referee.line, selectors.EVENT_READ)
        ready.select(LOOK)


class Referee:
    """A process that judges one submission after the other.

    Attributes:
        order: what it has to judge.
        at: the exercise that it is at, ``READING`` or ``CELLS``.
        began: when it was given its order (``time.monotonic``).
        line: the number of the file that it writes to.
    """

    def __init__(self, limits: Limits) -> None:
        import psutil  # JupyterLab has it; who only infers needs none

        self._limits = limits
        root, memory = str(Path(lablib.__file__).parents[1]), str(limits.memory)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", "-c", RUN, root, memory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **OURS},  # MLX' kernels stay among the teacher's temporary files
        )
        self._watched = psutil.Process(self._process.pid)
        self.line = self._process.stdout.fileno()
        os.set_blocking(self.line, False)

    def begin(self, order: Order) -> None:
        """Give it a submission to judge."""
        self.order, self.at, self._text = order, READING, b""
        self._used: dict[str, float] = {}
        self._before, held = self._usage()
        self._held = max(held, LIBRARIES)
        self._most = MEMORY if order.task == "grade" else self._limits.memory  # models are read
        files = min(len(order.score.get("paths", [order.path])), SLOW)  # the limits are for each
        self.began = time.monotonic()
        self._deadline = self.began + files * self._limits.seconds + LATE
        limits = asdict(self._limits)
        data = json.dumps({**asdict(order), "limits": limits}) + "\n"
        with contextlib.suppress(OSError):  # it has ended, as its next look tells
            self._process.stdin.write(data.encode("ascii"))
            self._process.stdin.flush()

    def look(self) -> Verdict | None:
        """Hear what it says, and see what it uses; return its verdict once there is one.

        Raises:
            Worn: it has ended, or has used more than it may.
        """
        verdict = self._hear()
        if verdict is not None:
            return verdict
        now, held = self._usage()
        self._used[self.at] = self._used.get(self.at, 0.0) + now - self._before
        self._before = now
        reads = self.at == READING or self.order.over != ""
        most = READS if reads else self._limits.cpu
        late = not reads and self.order.spent + self.spent > STRIKES * most
        if late:
            raise Worn(f"the whole file's took more than {STRIKES * most:g} s of processor time")
        if self._used[self.at] > most:
            raise Worn(f"it took more than {most:g} s of processor time")
        if held - self._held > self._most:
            raise Worn(f"it took more than {self._most >> 20} MB of memory")
        if time.monotonic() > self._deadline:
            raise Worn(f"the notebook ran longer than {self._limits.seconds:g} s")
        return None

    @property
    def lives(self) -> bool:
        """Return whether its process has not ended: a system without memory ends who it likes."""
        return self._process.poll() is None

    @property
    def spent(self) -> float:
        """Return for how many seconds of processor time it has compared this submission."""
        return sum(used for at, used in self._used.items() if at != READING)

    def end(self) -> None:
        """End it, and with it the student's process that it asks."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        leftovers.remove(self._process.pid)

    def _hear(self) -> Verdict | None:
        try:
            more = os.read(self.line, LONGEST)
        except BlockingIOError:
            return None
        self._text += more
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            told = json.loads(line)
            if "end" in told:
                self.order.forms = told.get("forms", {})
                self.order.predicted = told.get("predicted", {})
                return told["end"]
            if "short" in told:
                raise Short(told["short"])
            if "digest" in told:
                self.order.digest = self.order.digest or told["digest"]  # of what was read first
            elif "note" in told:
                exercise, *note = told["note"]
                self.order.notes[exercise] = note
            else:
                self.at = told["at"]
        if not more:
            raise Worn(f"its referee ended (exit code {self._process.wait()})")
        if len(self._text) > LONGEST:
            raise Worn("its referee said too much")
        return None

    def _usage(self) -> tuple[float, int]:
        """Return seconds of processor time and bytes of memory that it alone has used."""
        import psutil

        try:
            times, memory = self._watched.cpu_times(), self._watched.memory_info()
        except psutil.Error:  # it has just ended
            return self._before, 0
        return times.user + times.system, memory.rss
