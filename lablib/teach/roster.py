"""Whose notebook is it: by its folder, by its name, by the class's list."""

import csv
import io
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from lablib.folders import course
from lablib.validation import BadValue

KINDS = (".ipynb", ".py")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".xz", ".bz2", ".7z", ".rar")
HEADINGS = ("student", "name")  # of the column that names the students, the first there is
NOBODY = "Points Possible"  # a row of what Canvas exports
KEPT = 2**15  # names that are kept: of a large class, each may have some KB
UNSEEN = "\ufffd"  # around the number of a letter that nobody sees
# What Python calls printable and no font draws: fillers, joiners, selectors of a letter's form. And
# the sign itself.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
    f"{UNSEEN}]"
)
# What a browser, a course's platform or Jupyter puts around a name.
_DECORATION = re.compile(
    r"[ _-]*(\(\d+\)|copy\d*|\d\d_[a-z_]*[a-z]|late|final|solved)$", re.IGNORECASE
)
_HANDED_IN = r"(_late)?_\d+_(\d+|assignsubmission)_"  # Canvas and Moodle, behind a student's name


def submissions(folder: Path) -> list[Path]:
    """Return the files below a folder that are graded, in order, and links, which are refused.

    Raises:
        BadValue: a name among them is read as this shell's language writes it, and not in UTF-8.
    """
    found = sorted(path for path in _below(folder) if _is_handed_in(path))
    inside = [(path, path.relative_to(folder).parts) for path in found]
    encoding = sys.getfilesystemencoding()
    odd = [part for _, parts in inside for part in parts if not part.isascii()]
    if encoding != "utf-8" and odd:  # whose would it be?
        raise BadValue(
            f"FOLDER must be read in UTF-8, and not in {encoding}, as it holds {odd[0]!a}: "
            "set PYTHONUTF8=1"
        )
    return [path for path, parts in inside if not any(part.startswith(".") for part in parts)]


def _below(folder: Path) -> Iterator[Path]:
    """Yield all below a folder; what the system does not let be listed is passed over."""
    left = [folder]  # a list: rglob, and os.walk before 3.12, nest a call for each folder
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                yield Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    left.append(Path(entry.path))


def _is_handed_in(path: Path) -> bool:
    try:
        return _may_be_read(path)
    except OSError:  # no right to look, or a path that is too long
        return kind_of(path) in KINDS


def _may_be_read(path: Path) -> bool:
    if path.is_symlink():  # to a folder, too: what is in there is somebody's own
        return kind_of(path) in KINDS or path.is_dir()
    return kind_of(path) in KINDS and path.is_file()


def kind_of(path: Path) -> str:
    """Return the end of a file's name in small letters: Windows' programs write ``.IPYNB``, too."""
    return path.suffix.lower()


def check_report(path: Path) -> None:
    """Raise ``BadValue`` about a report that would take the place of somebody's work."""
    if kind_of(path) in KINDS:
        raise BadValue(f"the report must be no notebook and no program, got {path}")


def not_read(folder: Path, ours: Sequence[Path] = ()) -> list[str]:
    """Return what lies at the top of a folder and has nothing to grade in it, in order.

    Args:
        folder: the graded folder. Its hidden files are left out.
        ours: files and folders that were not handed in, either: a report, the roster.
    """
    graded = {path.relative_to(folder).parts[0] for path in submissions(folder)}
    known = {os.path.realpath(path) for path in ours}  # resolve() raises about a link to itself
    return [
        printable(f"{path.name}/" if path.is_dir() else path.name)
        for path in sorted(folder.iterdir())
        if path.name not in graded and path.name[0] != "." and os.path.realpath(path) not in known
    ]


def packed(folder: Path) -> list[str]:
    """Return the archives below a folder, which are not opened, in order."""
    found = [path.relative_to(folder) for path in _below(folder) if kind_of(path) in ARCHIVES]
    shown = [path for path in found if not any(part.startswith(".") for part in path.parts)]
    return sorted(printable(path.as_posix()) for path in shown)


@lru_cache(KEPT)  # each report asks it, and whose it is, of each file again
def printable(name: str) -> str:
    """Return a name as every system writes it, in one line, and without orders for a terminal.

    A letter that nobody sees is shown by its number between two signs: two names stay two.
    """
    name = unicodedata.normalize("NFC", name)
    return name if _is_seen(name) else "".join(map(_shown, name))


def _is_seen(letters: str) -> bool:
    return letters.isprintable() and not _BLANK.search(letters)


def _shown(letter: str) -> str:
    return letter if _is_seen(letter) else f"{UNSEEN}{ord(letter):x}{UNSEEN}"


def student_of(inside: Path, roster: Sequence[str] = (), common: str = "") -> str:
    """Return whose a file is.

    Args:
        inside: its path within the graded folder.
        roster: who is in the class, if that is known.
        common: what the outer folder's name begins with and nobody is called by (see ``shared``).
    """
    return _whose(inside, tuple(roster), common)[0]


def rivals(inside: Path, roster: Sequence[str], common: str = "") -> str:
    """Return in words whose a file may be, as names of two are in its path; else an empty text."""
    student, names = _whose(inside, tuple(roster), common)
    return f"{student} ({' or '.join(sorted(names))})" if names else ""


def shared(folder: Path, roster: Sequence[str]) -> str:
    """Return what all folders begin with, of which the rest is a name: ``lab0-`` of ``lab0-ada``.

    Whoever is called ``lab0`` would have handed everything in.
    """
    inside = [path.relative_to(folder).parts for path in submissions(folder)]
    names = sorted({printable(parts[0]).strip() for parts in inside if len(parts) > 1})
    known = _known(tuple(roster))
    wholes = sum(name.casefold() in known for name in names)
    ends = [found.end() for found in re.finditer(r"[\W_]", names[0])] if len(names) > 1 else []
    for end in reversed(ends):
        rests = [name[end:] for name in names if name.startswith(names[0][:end])]
        known_rests = sum(rest.casefold() in known for rest in rests)
        if len(rests) == len(names) and known_rests > max(wholes, len(names) / 2):
            return names[0][:end]
    return ""


@lru_cache(KEPT)
def _whose(inside: Path, roster: tuple[str, ...], common: str) -> tuple[str, tuple[str, ...]]:
    """Return whose a file is; and if it is nobody's for that, the names that are in its path."""
    # Blanks around a name nobody sees, and a course's platform takes them away.
    parts = [printable(part).strip() or UNSEEN for part in (*inside.parts[:-1], inside.stem)]
    if len(parts) > 1:
        parts[0] = parts[0].removeprefix(common) or parts[0]
    known = _known(roster)
    for depth, part in enumerate(map(str.casefold, parts), start=1):  # outer ones first
        if part in known:
            return known[part], ()
        named = _named(known, part, is_in_folder=1 < depth == len(parts))
        if len(named) == 1:  # ada_03_sampling-Copy1
            return known[named[0]], ()
        if named:
            return parts[depth - 1], tuple(known[word] for word in named)
    if inside.parent.parts:
        return parts[0], ()
    name = parts[-1]
    while (shorter := _DECORATION.sub("", name)) not in ("", name):
        name = shorter
    return name, ()


def _named(known: Iterable[str], part: str, is_in_folder: bool) -> list[str]:
    """Return the names in a part of a path, without those within a longer one, in order.

    There are none in a file that begins with no name and lies in a folder that is nobody's.
    """
    lesson, number = _lesson()
    part = lesson.sub(lambda found: " " * len(found[0]), part)  # somebody may be called Sampling
    places = {word: _place(word, part) for word in known if word in part}
    found = sorted((place, word) for word, place in places.items() if place >= 0)
    words = [word for _, word in found]
    # Platforms put who handed in before the file's own name, which may be of another.
    sure = [word for word in words if re.match(re.escape(word) + _HANDED_IN, part)]
    if is_in_folder and not any(number.fullmatch(part[: places[word]]) for word in words):
        return []
    return sure or [w for w in words if not any(w != e and _place(w, e) >= 0 for e in words)]


@lru_cache(1)
def _lesson() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return how lessons' files are called, and what of it may stand before a name."""
    folder = course()
    stems = [path.stem for path in folder.glob("[0-9][0-9]_*.ipynb")] if folder else []
    numbers = [stem[:2] for stem in stems]
    lesson = rf"(?<![^\W_])(?:{'|'.join(stems) or '(?!)'})(?![^\W_])"
    return re.compile(lesson), re.compile(rf"(?:(?:{'|'.join(numbers)})[ _-]+)?[ _-]*")


@lru_cache(8)
def _known(roster: tuple[str, ...]) -> dict[str, str]:
    """Return the names of a class by how they are looked for."""
    return {printable(name).casefold(): name for name in roster}


def _place(word: str, part: str) -> int:
    """Return where a name stands in a part of a path, between what are no letters; -1 if not."""
    at = part.find(word)
    while at >= 0:
        around = part[max(0, at - 1) : at] + part[at + len(word) : at + len(word) + 1]
        if not any(map(str.isalnum, around)):
            break
        at = part.find(word, at + 1)
    return at


def read_roster(path: Path) -> dict[str, dict[str, str]]:
    """Return what a CSV file says of each student, by its columns.

    Who they are stands in the column ``student`` or ``name``, else in the first one.

    Raises:
        BadValue: there is no such list in it, or it names two students alike.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        if "\0" in text:
            raise UnicodeError("letters of two bytes, with no mark that says so")
    except UnicodeError:
        raise BadValue(f"roster must be a CSV file in UTF-8, got {str(path)!r}") from None
    except (OSError, ValueError) as error:  # the last: of a name that no file has
        raise BadValue(f"roster must be a CSV file, got {str(path)!r}: {error}") from None
    first = text.lstrip().partition("\n")[0]
    comma = max(",;\t", key=first.count)  # Excel writes what the country is used to
    table = csv.reader(io.StringIO(text, newline=""), delimiter=comma)  # a name ends no line
    try:
        rows = [[cell.strip() for cell in row] for row in table]
    except csv.Error as error:  # a field that goes on and on
        raise BadValue(f"roster must be a CSV file, got {str(path)!r}: {error}") from None
    rows = [row for row in rows if any(row)]
    names = [cell.lower() for cell in rows[0]] if rows else []
    heading = next((heading for heading in HEADINGS if heading in names), None)
    at, heads = 0, []
    if heading is not None:
        at, heads, rows = names.index(heading), rows[0], rows[1:]
    found: dict[str, dict[str, str]] = {}
    seen: dict[str, list[str]] = {}
    for row in rows:
        if row[at : at + 1] == [NOBODY]:
            continue
        if heads and any(row[len(heads) :]):  # Ng, Ada, without signs around it
            raise BadValue(f"roster must have no more cells in a line than columns, got {row}")
        if len(row) > at and row[at]:
            if seen.setdefault(printable(row[at]).casefold(), row) != row:  # whose would be whose?
                raise BadValue(
                    f"roster must name nobody twice, in capitals or not, got {row[at]!r}"
                )
            found[printable(row[at])] = dict(zip(heads, row, strict=False))
    if not found:
        raise BadValue(f"roster must name at least one student, got none in {str(path)!r}")
    return found
