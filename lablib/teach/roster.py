"""What was handed in, whose it is by one expression, and who is in the class, by a list."""

import csv
import io
import os
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lablib.validation import BadValue

KINDS = (".ipynb", ".py")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".xz", ".bz2", ".7z", ".rar")
# Whose a file is, searched for in its path within the folder: the group ``student``.
PRESETS = {
    "folder": r"^(?P<student>[^/]+?)(?:/|\.[^./]*$)",  # or of a file at the top its own name
    "moodle": r"(?:^|/)(?P<student>[^/]+?)_\d+_assignsubmission_",
    "canvas": r"(?:^|/)(?P<student>[^/_]+)(?:_late|_LATE)?_\d+_\d+_[^/]*$",
    "github": r"^(?:[^/]*-submissions/)?[^/-]+-(?P<student>[^/]+)/",
}
# Of the columns, one or two, that say how students are called in reports: the first there are.
HEADINGS = (
    *(("student",), ("full name",), ("identifier",), ("name",)),
    *(("first name", n) for n in ("last name", "surname")),
)
NOBODY = "Points Possible"  # a row of what Canvas exports
UNSEEN = "\ufffd"  # around the number of a letter that nobody sees
# What Python calls printable and no font draws: fillers, joiners, selectors of a letter's form. And
# the sign itself.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
    f"{UNSEEN}]"
)
_SEPARATOR = re.compile(r"\s*sep=(.)\r?\n")  # Excel's own first line


def owner_of(student: str) -> re.Pattern[str]:
    """Return the expression that says whose a file is: a preset's, or one's own.

    Raises:
        BadValue: it is none, or has no group that is the student.
    """
    try:
        found = re.compile(PRESETS.get(student, student))
    except re.error as error:
        raise BadValue(f"student must be a regular expression, got {student!r}: {error}") from None
    if found.groups < 1:
        known = ", ".join(PRESETS)
        raise BadValue(
            f"student must have a group, (?P<student>...), or be one of {known}, got {student!r}"
        )
    return found


class Owners:
    """Tells whose files are, by their paths and the class's list.

    Who is named as any one cell of the list, in capitals or not, with blanks and signs or without,
    is whoever's row it stands in, where it is in no other row.

    Args:
        pattern: of whose a file is; what it does not match is its outer folder's.
        people: of each student what the list says, by its columns.
    """

    def __init__(self, pattern: re.Pattern[str], people: Mapping[str, Mapping[str, str]]) -> None:
        self._pattern = pattern
        cells = [
            (key, student)
            for student, row in people.items()
            for key in {k for cell in (student, *row.values()) for k in _keys(cell)}
        ]
        rows = Counter(key for key, _ in cells)
        self._known = {key: student for key, student in cells if rows[key] == 1}

    def student(self, inside: str) -> str:
        """Return whose a file is, by its path within the graded folder."""
        found = self._pattern.search(inside) or re.match(PRESETS["folder"], inside)
        groups = found.groupdict() if found else {}
        told = groups.get("student") or (found[1] if found else inside)
        name = printable(told or inside).strip() or UNSEEN
        return next((self._known[key] for key in _keys(name) if key in self._known), name)


def _keys(cell: str) -> list[str]:
    """Return how somebody may be called: as it stands, and in one word."""
    name = printable(cell).strip().lower()
    word = "".join(letter for letter in name if letter.isalnum())
    return [key for key in (name, f"{word} in one word" if word else "") if key]


def submissions(folder: Path) -> list[Path]:
    """Return the files below a folder that are graded, in order, and links, which are refused.

    Raises:
        BadValue: a name among them is read as this shell's language writes it, and not in UTF-8.
    """
    found = [path for path in _below(folder) if kind_of(path) in KINDS or path.is_symlink()]
    inside = [path.relative_to(folder).parts for path in found]
    encoding = sys.getfilesystemencoding()
    odd = [part for parts in inside for part in parts if not part.isascii()]
    if encoding != "utf-8" and odd:  # whose would it be?
        raise BadValue(
            f"FOLDER must be read in UTF-8, and not in {encoding}, as it holds {odd[0]!a}: "
            "set PYTHONUTF8=1"
        )
    return sorted(path for path in found if _is_handed_in(path, folder))


def _below(folder: Path) -> Iterator[Path]:
    """Yield all below a folder; what the system does not let be listed is passed over."""
    left = [folder]  # a list: rglob, and os.walk before 3.12, nest a call for each folder
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                yield Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    left.append(Path(entry.path))


def _is_handed_in(path: Path, folder: Path) -> bool:
    if any(part.startswith(".") for part in path.relative_to(folder).parts):
        return False
    with suppress(OSError):  # no right to look, or a path that is too long
        if path.is_symlink():  # to a folder, too: what is in there is somebody's own
            return kind_of(path) in KINDS or path.is_dir()
        return not path.is_dir()
    return kind_of(path) in KINDS


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


def read_roster(path: Path) -> dict[str, dict[str, str]]:
    """Return what a CSV file says of each student, by its columns.

    They are called as in the column ``student``, ``full name``, ``identifier`` or ``name``, as in
    ``First name`` and ``Last name`` together, or else, in a list of one column, as there.

    Raises:
        BadValue: there is no such list in it, or it names two students alike.
    """
    rows = _rows(path)
    heads = [cell.lower() for cell in rows[0]] if rows else []
    chosen = next((names for names in HEADINGS if {*names} <= {*heads}), ())
    places = [heads.index(name) for name in chosen] or [0]
    heads, rows = (rows[0], rows[1:]) if chosen else (["name"], rows)
    found: dict[str, dict[str, str]] = {}
    seen = set[str]()
    for row in rows:
        if any(row[len(heads) :]):  # Ng, Ada, without signs around it
            known = ", ".join(" and ".join(names) for names in HEADINGS)
            raise BadValue(
                f"roster must be a list of names, or have one of the columns {known} and no more "
                f"cells in a line than columns; got {row}"
            )
        name = " ".join("".join(row[at : at + 1]) for at in places).strip()
        if name in ("", NOBODY):
            continue
        if printable(name).lower() in seen:  # whose would be whose?
            raise BadValue(f"roster must name nobody twice, in capitals or not, got {name!r}")
        seen.add(printable(name).lower())
        found[printable(name)] = dict(zip(heads, row, strict=False))
    if not found:
        raise BadValue(f"roster must name at least one student, got none in {str(path)!r}")
    return found


def _rows(path: Path) -> list[list[str]]:
    """Return the lines of a CSV file that are not empty, cell by cell.

    Raises:
        BadValue: it is none.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        if "\0" in text:
            raise UnicodeError("letters of two bytes, with no mark that says so")
    except UnicodeError:
        raise BadValue(f"roster must be a CSV file in UTF-8, got {str(path)!r}") from None
    except (OSError, ValueError) as error:  # the last: of a name that no file has
        raise BadValue(f"roster must be a CSV file, got {str(path)!r}: {error}") from None
    told = _SEPARATOR.match(text)
    text = text[told.end() :] if told else text.lstrip()
    first = text.partition("\n")[0]
    # Excel writes what the country is used to, and may say so.
    comma = told[1] if told else max(",;\t", key=first.count)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=comma)  # a name ends no line
    try:
        rows = [[cell.strip() for cell in row] for row in table]
    except csv.Error as error:  # a field that goes on and on
        raise BadValue(f"roster must be a CSV file, got {str(path)!r}: {error}") from None
    return [row for row in rows if any(row)]
