"""Whose a file is: by its folder's name, by its own, by the class's list."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from lablib.folders import course
from lablib.teach.roster import UNSEEN, printable

# Columns of a roster by which folders and files may be called, too: a teacher's own, GitHub
# Classroom's, Canvas'.
COLUMNS = ("folder", "github_username", "id")
# What a browser, a course's platform or Jupyter puts around a name.
_DECORATION = re.compile(
    r"[ _-]*(\(\d+\)|copy\d*|\d\d_[a-z_]*[a-z]|late|final|solved)$", re.IGNORECASE
)
_HANDED_IN = r"(_late)?_\d+_(\d+|assignsubmission)_"  # Canvas and Moodle, behind a student's name
_CANVAS = re.compile(r"[^\W_]+(?:_late)?_(\d+)_\d+_")  # its number of a student, behind the name

Parts = tuple[str, ...]  # of a path, as they are shown, the last one without its end
Known = dict[str, list[str]]  # whose each name is, in small letters


def student_of(inside: Path) -> str:
    """Return whose a file is where nobody says who is in the class, by its path in the folder."""
    return _stranger(_parts(inside))


class Owners:
    """Tells whose files are, by a roster.

    Args:
        people: of each student, what the roster says, by its columns.
        inside: the paths of all files within the graded folder.
    """

    def __init__(self, people: Mapping[str, Mapping[str, str]], inside: Iterable[Path]) -> None:
        self._known: Known = {}
        for student, row in people.items():
            others = [row[heading] for heading in row if heading.lower() in COLUMNS]
            for name in {printable(name).lower() for name in (student, *others)} - {""}:
                self._known.setdefault(name, []).append(student)
        self._common = _common([*map(_parts, inside)], self._known)
        self._told: dict[Path, tuple[str, list[str]]] = {}

    def student(self, inside: Path) -> str:
        """Return whose a file is."""
        part, students = self._whose(inside)
        return students[0] if len(students) == 1 else part

    def rivals(self, inside: Path) -> str:
        """Return in words between whom nobody can tell whose a file is; else an empty text."""
        part, students = self._whose(inside)
        return f"{part} ({' or '.join(sorted(students))})" if len(students) > 1 else ""

    def _whose(self, inside: Path) -> tuple[str, list[str]]:
        """Return the part of a path that tells whose it is, and whose; several: nobody can tell."""
        if inside not in self._told:
            self._told[inside] = self._tell(_parts(inside))
        return self._told[inside]

    def _tell(self, parts: Parts) -> tuple[str, list[str]]:
        if len(parts) > 1:
            parts = (parts[0].removeprefix(self._common) or parts[0], *parts[1:])
        for depth, part in enumerate(parts, start=1):  # outer ones first
            names, is_sure = self._names(part.lower(), is_in_folder=1 < depth == len(parts))
            if names and not is_sure:  # whoever is called Lab has not all that lies in Lab 1
                names += [each.lower() for each in parts[depth:] if each.lower() in self._known]
            if names:
                return part, sorted({student for name in names for student in self._known[name]})
        return _stranger(parts), []

    def _names(self, part: str, is_in_folder: bool) -> tuple[list[str], bool]:
        """Return the names that a part of a path tells, without those within a longer one.

        And whether it is no more than a name, or a platform has put the name there. There are none
        in a file that begins with no name and lies in a folder that is nobody's.
        """
        if part in self._known:
            return [part], True
        number = _CANVAS.match(part)
        if number and number[1] in self._known:
            return [number[1]], True
        lesson, title = _lesson()
        part = lesson.sub(lambda found: " " * len(found[0]), part)  # somebody may be Sampling
        places = {word: _place(word, part) for word in self._known if word in part}
        words = [word for word, place in places.items() if place >= 0]
        if is_in_folder and not any(title.fullmatch(part[: places[word]]) for word in words):
            return [], False
        # Platforms put who handed in before the file's own name, which may be of another.
        sure = [word for word in words if re.match(re.escape(word) + _HANDED_IN, part)]
        longest = [w for w in words if not any(w != e and _place(w, e) >= 0 for e in words)]
        return sure or longest, bool(sure)


def _common(paths: Sequence[Parts], known: Known) -> str:
    """Return what all folders begin with, of which the rest is a name: ``lab0-`` of ``lab0-ada``.

    Whoever is called ``lab0`` would have handed everything in.
    """
    names = sorted({parts[0] for parts in paths if len(parts) > 1})
    wholes = sum(name.lower() in known for name in names)
    ends = [found.end() for found in re.finditer(r"[\W_]", names[0])] if len(names) > 1 else []
    for end in reversed(ends):
        rests = [name[end:] for name in names if name.startswith(names[0][:end])]
        known_rests = sum(rest.lower() in known for rest in rests)
        if len(rests) == len(names) and known_rests > max(wholes, len(names) / 2):
            return names[0][:end]
    return ""


@lru_cache(1)
def _lesson() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return how lessons' files are called, and what of it may stand before a name."""
    folder = course()
    stems = [path.stem for path in folder.glob("[0-9][0-9]_*.ipynb")] if folder else []
    numbers = [stem[:2] for stem in stems]
    lesson = rf"(?<![^\W_])(?:{'|'.join(stems) or '(?!)'})(?![^\W_])"
    return re.compile(lesson), re.compile(rf"(?:(?:{'|'.join(numbers)})[ _-]+)?[ _-]*")


def _parts(inside: Path) -> Parts:
    # Blanks around a name nobody sees, and a course's platform takes them away.
    shown = (printable(part).strip() for part in (*inside.parts[:-1], inside.stem))
    return tuple(part or UNSEEN for part in shown)


def _stranger(parts: Parts) -> str:
    """Return the outer folder's name, or the file's own without what is put around one."""
    name, shorter = "", parts[0]
    while shorter not in ("", name):
        name = shorter
        shorter = _DECORATION.sub("", name) if len(parts) == 1 else name
    return name


def _place(word: str, part: str) -> int:
    """Return where a name stands in a part of a path, between what are no letters; -1 if not."""
    at = part.find(word)
    while at >= 0:
        around = part[max(0, at - 1) : at] + part[at + len(word) : at + len(word) + 1]
        if not any(map(str.isalnum, around)):
            break
        at = part.find(word, at + 1)
    return at
