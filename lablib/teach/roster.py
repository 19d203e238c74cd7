"""What was handed in, whose it is by one expression, and who is in the class, by a list."""

import csv
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lablib.validation import BadValue

KINDS = (".ipynb", ".py")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".xz", ".bz2", ".7z", ".rar")
# Whose a file is, searched for in its path within the folder: the group ``student``.
PRESETS = {
    "folder": r"^(?P<student>[^/]+?)(?:/|\.[^./]*$)",  # or of a file at the top its own name
    "moodle": r"(?:^|/)(?P<student>[^/]+?)_\d+_assignsubmission_",
    # The outermost part that looks so counts: what is within was named by who handed it in.
    "canvas": r"^(?:[^/]*/)*?(?P<student>[^/_]+)(?:_late|_LATE)?_\d+_\d+_",
    "github": r"^(?:[^/-]+-submissions/)?[^/-]+-(?P<student>[^/]+)/",
}


def owners(student: str, people: Mapping[str, str]) -> Callable[[str], tuple[str, str]]:
    """Return what tells whose a file is, by its path within the folder, and how that begins.

    Files whose paths begin alike were handed in by one, whatever name they claim.

    Args:
        student: a preset's name, or a regular expression with a group ``student``; what it does not
            match is its outer folder's.
        people: ids by names; who is called as either, in capitals or not, is of that name.

    Raises:
        BadValue: it is no expression, or has no such group.
    """
    try:
        pattern = re.compile(PRESETS.get(student, student))
    except re.error as error:
        raise BadValue(f"student must be a regular expression, got {student!r}: {error}") from None
    if "student" not in pattern.groupindex:
        raise BadValue(
            f"student must have a group, (?P<student>...), or be one of {', '.join(PRESETS)}, "
            f"got {student!r}"
        )
    known = {key.lower(): name for name, id_ in people.items() for key in (id_, name)}

    def whose(inside: str) -> tuple[str, str]:
        found = pattern.search(inside) or re.match(PRESETS["folder"], inside)
        name = printable((found and found["student"]) or inside).strip()
        return known.get(name.lower(), name), inside[: found.end("student") if found else None]

    return whose


def read_roster(path: Path) -> dict[str, str]:
    """Return ids by names, from a CSV file with the columns ``id`` and ``name``.

    Raises:
        BadValue: there is no such list in it, or it has an id or a name twice.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = [*csv.DictReader(file)]
    except (OSError, ValueError, csv.Error) as error:
        raise BadValue(f"roster must be a CSV file in UTF-8, got {str(path)!r}: {error}") from None
    if not rows or not {"id", "name"} <= {*rows[0]}:
        raise BadValue(f"roster must have columns id and name, and a student, got {str(path)!r}")
    pairs = [[printable(row[key] or "").strip() for key in ("name", "id")] for row in rows]
    keys = [key for pair in pairs for key in {part.lower() for part in pair}]
    twice = [key for key in keys if not key or keys.count(key) > 1]
    if twice:  # whose would be whose?
        raise BadValue(f"roster must have each id and name, and each once, got {twice[0]!r}")
    return dict(pairs)


def submissions(folder: Path) -> list[Path]:
    """Return the files below a folder that are graded, in order, and links, which are refused."""
    found = (path for path in _below(folder) if kind_of(path) in KINDS or os.path.islink(path))
    return sorted(path for path in found if kind_of(path) in KINDS or os.path.isdir(path))


def _below(folder: Path) -> Iterator[Path]:
    """Yield all below a folder but what is hidden, or what the system does not let be listed."""
    left = [folder]  # a list: rglob, and os.walk before 3.12, nest a call for each folder
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.name[0] == ".":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    left.append(Path(entry.path))
                else:
                    yield Path(entry.path)


def kind_of(path: Path) -> str:
    """Return the end of a file's name in small letters: Windows' programs write ``.IPYNB``, too."""
    return path.suffix.lower()


def not_read(folder: Path, ours: Sequence[Path] = ()) -> list[str]:
    """Return what at the top of a folder holds nothing to grade, and all archives, in order.

    Args:
        folder: the graded folder.
        ours: files and folders that were not handed in, either: a report, the roster.
    """
    graded = {path.relative_to(folder).parts[0] for path in submissions(folder)}
    known = {os.path.realpath(path) for path in ours}
    top = (path for path in folder.iterdir() if path.name[0] != "." and path.name not in graded)
    found = {*top, *(path for path in _below(folder) if kind_of(path) in ARCHIVES)}
    return sorted(
        printable(path.relative_to(folder).as_posix())
        for path in found
        if os.path.realpath(path) not in known
    )


def printable(name: str) -> str:
    """Return a name in one line and without orders for a terminal: numbers for such letters."""
    name = unicodedata.normalize("NFC", name)
    return "".join(each if each.isprintable() else f"\ufffd{ord(each):x}\ufffd" for each in name)
