"""The file of a sweep: JSON Lines, one record a unit, after a first line that says what was asked.

Whole groups of lines are added at the end and reach the disk before the next round begins. What a
kill leaves is therefore whole but for its tail, and a sweep that goes on cuts that off.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from lablib.validation import BadValue

Unit = Mapping[str, Any]
_FORMAT = 1


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


def read(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read a sweep's file, finished or not.

    Returns:
        Its first line (``sweep``, ``unit``, ``settings``), and the records, in no particular order;
        a torn last line is left out.

    Raises:
        BadValue: there is no such file, or it is no sweep's.
    """
    if not Path(path).is_file():
        raise BadValue(f"{path} is no file of a sweep: python -m lablib sweep makes one")
    first, lines = _lines(Path(path))
    return first, [json.loads(each) for each in lines[1:]]


def _lines(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    """Return what was asked, and all whole lines, the first one too."""
    content = path.read_bytes()
    lines = content[: content.rfind(b"\n") + 1].split(b"\n")[:-1]
    try:
        first = json.loads(lines[0])
        if first["format"] == _FORMAT and {"sweep", "unit", "settings"} <= first.keys():
            return first, lines
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    raise BadValue(f"{path} is no file of a sweep (its first line would say what was asked)")


class Records:
    """The file while a sweep runs.

    Args:
        path: of the file; made with its folder if it is not there.
        first: what it must begin with.
        groups: the units, as they are handed out.

    Raises:
        BadValue: the file holds another sweep.
    """

    def __init__(
        self, path: str | Path, first: Mapping[str, Any], groups: Sequence[Sequence[Unit]]
    ) -> None:
        self._path, self.finished = Path(path), set[int]()
        if not self._path.exists() or not self._path.stat().st_size:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._open("w")
            self.add([line(first)])
            return
        found, lines = _lines(self._path)
        _expect(self._path, found, first)
        records, keys = map(json.loads, lines[1:]), first["unit"]
        there = [identity({key: record[key] for key in keys}) for record in records]
        place = {identity(unit): i for i, group in enumerate(groups) for unit in group}
        if odd := [unit for unit in there if unit not in place]:
            raise BadValue(f"out {path} holds {odd[0]}, which was not asked for: give another file")
        missing = Counter(place.values())  # units of each group that are not in the file
        missing.subtract(place[unit] for unit in there)
        self.finished = {i for i, some in missing.items() if not some}
        torn = (n for n, unit in enumerate(there) if place[unit] not in self.finished)
        whole = lines[: 1 + next(torn, len(there))]  # a group that was being written is at the end
        self._file = self._open("a")
        self._file.truncate(sum(len(each) + 1 for each in whole))

    def _open(self, mode: str) -> TextIO:
        return open(self._path, mode, encoding="utf-8", newline="\n")

    def add(self, lines: Iterable[str]) -> None:
        """Write whole lines, and return when they are on the disk."""
        self._file.write("".join(f"{each}\n" for each in lines))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _expect(path: Path, found: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    """Refuse to go on with a file that something else was asked for."""
    first = json.loads(line(first))
    if found == first:
        return
    theirs, ours = ({"sweep": x["sweep"], **x["settings"]} for x in (found, first))
    name = next((k for k in {**theirs, **ours} if theirs.get(k) != ours.get(k)), "unit")
    raise BadValue(
        f"out {path} holds a sweep with {name} {line(theirs.get(name))}, and this one has "
        f"{line(ours.get(name))}: give another file, or ask for the same again"
    )
