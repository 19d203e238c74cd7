"""The file of a sweep: JSON Lines, one record a unit, after a first line that says what was asked.

One process writes it at a time, under a lock that ends with that process. Whole groups of lines are
added at the end and reach the disk before the next round begins; what a full disk takes in part is
taken back. What a kill leaves is therefore whole but for its tail, and a sweep that goes on cuts
that off. A line that is damaged otherwise is set aside, and its unit is computed again.
"""

import errno
import json
import math
import os
import socket
import stat
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lablib.folders import remove_half_written, replacing
from lablib.validation import BadValue

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

Unit = Mapping[str, Any]
_FORMAT = 1
_GRACE = 2.0  # seconds in which a writer that was killed with its launcher is gone
# A network's disk may know no locks, or have nobody who keeps them.
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
_NAMED = 5  # lines that are named, of all that are damaged
# What a sweep says of each unit, and of which type.
_FIELDS: dict[str, dict[str, type]] = {
    "votes": {"truth": str, "answers": list, "logprobs": list, "tokens": int},
    "acceptance": dict.fromkeys(("drafted", "accepted", "reached", "rounds", "tokens"), int),
    "speed": {"seconds": float, "tokens": int, "host": str},
}

_LINE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_IDENTITY = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def line(value: Any) -> str:
    """Return plain values as one line of JSON, the same for the same values."""
    return _LINE.encode(value)


def identity(unit: Unit) -> str:
    """Return what a unit is, as text: by it, it is found again."""
    return _IDENTITY.encode(dict(unit))


def header(what: str, keys: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first line: what was swept, which keys name a unit, and all that was asked."""
    return {"sweep": what, "format": _FORMAT, "unit": list(keys), "settings": dict(settings)}


def check_out(path: str | Path) -> None:
    """Refuse a place that holds something else than a file: a folder, a pipe, a device.

    Raises:
        BadValue: it does.
        OSError: it can't be looked at.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:  # not yet
        return
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise BadValue(
            f"out must be a file, and {path} is {kinds.get(stat.S_IFMT(mode), 'a device')}"
        )


def read(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read a sweep's file, finished or not.

    Returns:
        Its first line (``sweep``, ``unit``, ``settings``), and the records, one a unit, in no
        particular order. A torn last line is left out, and so is a damaged one: stderr names it.

    Raises:
        BadValue: there is no such file, or it is no sweep's.
    """
    if not Path(path).is_file():
        raise BadValue(f"{path} is no file of a sweep: python -m lablib sweep makes one")
    content = _Content(Path(path))
    content.say("left out, and computed again by the sweep's own command")
    return content.first, [json.loads(each) for _, each in content.records.values()]


class _Content:
    """The contents of a file.

    Attributes:
        first: what was asked, and ``header`` the line that says it.
        records: for each unit the number of its line, from 1, and the line.
        damaged: for the number of a line that is no record, or contradicts another: it, and why.
        again: the numbers of lines that are there already.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.raw = path, path.read_bytes()
        self.header, *lines = self.raw[: self.raw.rfind(b"\n") + 1].split(b"\n")[:-1] or [b""]
        self.first = _first(path, self.header)
        self.records: dict[str, tuple[int, bytes]] = {}
        self.damaged: dict[int, tuple[bytes, str]] = {}
        self.again: list[int] = []
        found: dict[str, dict[int, bytes]] = {}
        for number, each in enumerate(lines, start=2):
            try:
                record = json.loads(each)
                unit = identity({key: record[key] for key in self.first["unit"]})
                _check_fields(self.first, record)
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                self.damaged[number] = each, f"{type(error).__name__}: {error}"
            else:
                found.setdefault(unit, {})[number] = each
        for unit, some in found.items():
            numbers = list(some)
            if len({*some.values()}) == 1:
                self.records[unit] = numbers[0], some[numbers[0]]
                self.again += numbers[1:]
            else:
                why = f"lines {_listed(numbers)} contradict each other about {unit}"
                self.damaged |= {number: (each, why) for number, each in some.items()}

    def say(self, fate: str) -> None:
        """Print what is wrong, if anything, and what becomes of damaged lines."""
        for number in sorted(self.damaged)[:_NAMED]:
            _print(f"{self._path}, line {number} is damaged ({self.damaged[number][1]}): {fate}")
        if len(self.damaged) > _NAMED:
            numbers = _listed(sorted(self.damaged)[_NAMED:])
            _print(f"{self._path}, so are lines {numbers}: {fate}")
        if self.again:
            numbers = _listed(sorted(self.again))
            _print(f"{self._path}, lines {numbers} repeat others: each unit counts once")


def check_record(first: Mapping[str, Any], unit: Unit, text: str) -> None:
    """Refuse a line that would be read as damaged, or as another unit's.

    Raises:
        BadValue: it is not what its sweep says of this unit.
        UnicodeEncodeError: it is no text that a file can hold.
    """
    text.encode()
    record = json.loads(text)
    said = identity({key: record[key] for key in unit})
    if said != identity(unit):
        raise BadValue(f"work must leave a unit's keys as they are, got {said}")
    try:
        _check_fields(first, record)
    except (ValueError, LookupError, TypeError) as error:
        raise BadValue(
            f"what must be another name than {first['sweep']!r}, or units, settings and records "
            f"as its are ({type(error).__name__}: {error})"
        ) from None


def _check_fields(first: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Raise an error where a record is not what its sweep says of a unit: then nobody made it so.

    Raises:
        TypeError, LookupError, ValueError: it lacks something, or says what can't be.
    """
    what = first["sweep"]
    for name, kind in _FIELDS.get(what, {}).items():
        value = record[name]
        if type(value) is not kind:
            raise TypeError(f"{name} must be {kind.__name__}, got {type(value).__name__}")
        if kind in (int, float) and not 0 <= value < math.inf:
            raise ValueError(f"{name} must be at least 0, and finite")
    if what == "acceptance" and not record["accepted"] <= record["reached"] <= record["drafted"]:
        raise ValueError("more drafts were accepted than reached, or reached than drafted")
    if what == "votes":
        n = max(first["settings"]["n"]) if record["temperature"] else 1
        texts = [each for each in record["answers"] if isinstance(each, str | None)]
        numbers = [
            each for each in record["logprobs"] if type(each) is float and -math.inf < each <= 0
        ]
        if not len(texts) == len(numbers) == n == len(record["answers"]) == len(record["logprobs"]):
            raise ValueError("it must hold n answers, texts or null, and n logprobs")


def _first(path: Path, header: bytes) -> dict[str, Any]:
    with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        first = json.loads(header)
        is_whole = isinstance(first["unit"], list) and isinstance(first["settings"], dict)
        if first["format"] == _FORMAT and isinstance(first["sweep"], str) and is_whole:
            return first
    raise BadValue(f"{path} is no file of a sweep (its first line would say what was asked)")


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    return ", ".join(map(str, numbers[:10])) + more


def _print(words: str) -> None:
    print(f"lablib: {words}", file=sys.stderr)


class Records:
    """The file while a sweep runs: locked, so that nobody else writes it.

    Args:
        path: of the file; made with its folder if it is not there.
        first: what it must begin with.
        groups: the units, as they are handed out.

    Raises:
        BadValue: the file holds another sweep, or another process is writing it.
    """

    def __init__(
        self, path: str | Path, first: Mapping[str, Any], groups: Sequence[Sequence[Unit]]
    ) -> None:
        check_out(path)
        self._path, self.finished = Path(path).resolve(), set[int]()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock, self._file = _locked(self._path), None
        try:
            self._hold()
            remove_half_written(self._path, alone=True)
            if not self._path.exists() or not self._path.stat().st_size:
                self._replace(line(first).encode() + b"\n")
            else:
                self._go_on(first, groups)
            self._hold()
        except BaseException:
            self.close()
            raise

    def _hold(self) -> None:
        """Open the file that is there by now, and lock it by itself: it may have other names."""
        if not self._path.exists():
            return
        before, self._file = self._file, os.open(self._path, os.O_WRONLY | os.O_APPEND)
        if before is not None:
            os.close(before)
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadValue(
                f"out {self._path} is being written by another process, perhaps by another name: "
                "wait until it ends, or end it"
            ) from None
        except OSError:  # this disk knows no such locks
            pass

    def _go_on(self, first: Mapping[str, Any], groups: Sequence[Sequence[Unit]]) -> None:
        """Keep the lines of groups that are whole, and set aside what is damaged."""
        content = _Content(self._path)
        _expect(self._path, content.first, first)
        place = {identity(unit): i for i, group in enumerate(groups) for unit in group}
        for unit, (number, _) in content.records.items():
            if unit not in place:
                odd = f"out {self._path}, line {number} holds {unit}, which was not asked for"
                raise BadValue(f"{odd}: give another file, or delete that line if it is damaged")
        missing = Counter(place.values())  # units of each group that are not in the file
        missing.subtract(place[unit] for unit in content.records)
        self.finished = {i for i, some in missing.items() if not some}
        aside = self._path.with_name(f"{self._path.name}.damaged")
        check_out(aside)
        content.say(f"set aside in {aside.name}, and computed again")
        if content.damaged:
            with open(aside, "ab", opener=_own) as file:
                file.writelines(each + b"\n" for each, _ in content.damaged.values())
        kept = [e for unit, (_, e) in content.records.items() if place[unit] in self.finished]
        self._replace(b"".join(each + b"\n" for each in (content.header, *kept)), content.raw)

    def _replace(self, wanted: bytes, there: bytes = b"") -> None:
        """Make the file hold what is wanted; a tail is cut off, as that needs no room."""
        if there and there.startswith(wanted):
            os.truncate(self._path, len(wanted))
            return
        with replacing(self._path) as beside, open(beside, "wb") as file:
            file.write(wanted)
            file.flush()
            os.fsync(file.fileno())

    def add(self, lines: Iterable[str]) -> None:
        """Write whole lines, all or none, and return when they are on the disk.

        Raises:
            OSError: there is no room; the file is as it was. Or its name is another file's by now.
        """
        left = "".join(f"{each}\n" for each in lines).encode()
        end = os.fstat(self._file).st_size
        try:
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except BaseException as error:
            os.truncate(self._file, end)  # the next line would be glued to half of one
            if isinstance(error, OSError):
                error.filename = str(self._path)
            raise
        if not self._is_there():
            raise OSError(
                f"{self._path} is another file by now, or none: it was moved, deleted or saved "
                "anew while it was written; the same command goes on with what is there"
            )

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the file, and let others write it."""
        if self._file is not None:
            os.close(self._file)
        _unlock(self._lock)


def _own(path: str, flags: int) -> int:
    """Open a file that no link leads to: in a stranger's folder it might be one of yours."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _locked(path: Path) -> BaseFileLock:
    """Return the lock of a file, which this process holds from now on; it says so in the lock."""
    place = path.with_name(f".{path.name}.lock")
    lock = FileLock(place, timeout=_GRACE, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        holder = place.read_text(encoding="utf-8").strip() or "another process"
        raise BadValue(
            f"out {path} is being written by {holder}: wait until it ends, or end it"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        place.unlink(missing_ok=True)
        return _marked(path)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    holder = f"process {os.getpid()} ({socket.gethostname()}) since {since}\n"
    try:
        place.write_text(holder, encoding="utf-8")
    except OSError as error:  # there is no room
        _unlock(lock)
        error.filename = str(place)
        raise
    return lock


def _marked(path: Path) -> BaseFileLock:
    """Return a file's marker, where its disk knows no locks; a dead process' is taken over."""
    mark = SoftFileLock(path.with_name(f".{path.name}.mark"), timeout=_GRACE)
    try:
        mark.acquire()
    except Timeout:
        held = f"process {mark.pid}, as {mark.lock_file} says"
        raise BadValue(
            f"out {path} is being written by {held}: wait until it ends, or end it; if it was "
            "killed on another machine, delete that file"
        ) from None
    return mark


def _unlock(lock: BaseFileLock) -> None:
    with suppress(OSError):
        os.unlink(lock.lock_file)  # who waits for it sees that, and makes one anew
    lock.release()


def _expect(path: Path, found: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    """Refuse to go on with a file that something else was asked for."""
    first = json.loads(line(first))
    if found == first:
        return
    theirs, ours = ({"sweep": x["sweep"], **x["settings"]} for x in (found, first))
    name = next((k for k in {**theirs, **ours} if theirs.get(k) != ours.get(k)), "unit")
    # In ASCII: somebody else's file may hold orders for the terminal.
    had, has = (_IDENTITY.encode(asked.get(name)) for asked in (theirs, ours))
    raise BadValue(
        f"out {path} holds a sweep with {ascii(name)[1:-1]} {had}, and this one has {has}: "
        "give another file, or ask for the same again"
    )
