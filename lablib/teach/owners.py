"""Whose a file is: by its folder's name, by its own, by the class's list."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from lablib.folders import course
from lablib.teach.roster import UNSEEN, printable

# Columns of a roster by which folders and files may be called, too: a teacher's own and GitHub
# Classroom's; and of Canvas' numbers, which stand behind names.
COLUMNS = ("folder", "github_username")
NUMBERS = "id"
# What a browser, a course's platform or Jupyter puts around a name.
_DECORATION = re.compile(
    r"[ _-]*(\(\d+\)|copy\d*|\d\d_[a-z_]*[a-z]|late|final|solved)$", re.IGNORECASE
)
_HANDED_IN = r"(_late)?_\d+_(\d+|assignsubmission)_"  # Canvas and Moodle, behind a student's name
_CANVAS = re.compile(r"[^\W_]+(?:_late)?_(\d+)_\d+_")  # its number of a student, behind the name
# How a part of a path names somebody: as a platform does, alone, or among else.
PLATFORM, ALONE, AMONG = "platform", "alone", "among"

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
        self._numbers: Known = {}
        for student, row in people.items():
            others = [row[heading] for heading in row if heading.lower() in COLUMNS]
            numbers = [row[heading] for heading in row if heading.lower() == NUMBERS]
            for name in {printable(name).lower() for name in (student, *others)} - {""}:
                self._known.setdefault(name, []).append(student)
            for number in {*numbers} - {""}:
                self._numbers.setdefault(number, []).append(student)
        self._told: dict[Path, tuple[str, list[str]]] = {}
        self._found: dict[tuple[str, bool], tuple[set[str], str]] = {}
        paths = [*map(_parts, inside)]
        self._common = _common(paths, self._known)
        self._below: defaultdict[str, set[str]] = defaultdict(set)  # who is named in outer folders
        for parts in paths:
            self._below[parts[0]] |= self._named(parts, 1)

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
        outer = parts[0]
        if len(parts) > 1:
            parts = (outer.removeprefix(self._common) or outer, *parts[1:])
        for depth, part in enumerate(parts):  # outer ones first
            who, how = self._names(part, 0 < depth == len(parts) - 1)
            if not who:
                continue
            # Whoever is called as a folder of the teacher's has not what lies in it.
            is_shared = depth == 0 and len(self._below[outer] - who) > 1
            if how == AMONG or (how == ALONE and is_shared):
                who = who | self._named(parts, depth + 1)
            return part, sorted(who)
        return _stranger(parts), []

    def _named(self, parts: Parts, depth: int) -> set[str]:
        """Return who is named in the parts of a path from a depth on."""
        last = len(parts) - 1
        inner = [self._names(parts[i], 0 < i == last)[0] for i in range(depth, len(parts))]
        return set().union(*inner)

    def _names(self, part: str, is_in_folder: bool) -> tuple[set[str], str]:
        """Return who a part of a path names, and how."""
        key = part, is_in_folder
        if key not in self._found:
            self._found[key] = self._look(part.lower(), is_in_folder)
        return self._found[key]

    def _look(self, part: str, is_in_folder: bool) -> tuple[set[str], str]:
        """Return who is named, of names within each other by the longer one.

        Nobody is in a file that begins with no name and lies in a folder that is nobody's.
        """
        number = _CANVAS.match(part)
        digits = number[1] if number else part
        if digits in self._numbers:
            return {*self._numbers[digits]}, PLATFORM
        lesson, title = _lesson()
        if lesson.fullmatch(part):
            return set(), AMONG
        bare = lesson.sub(lambda found: " " * len(found[0]), part)  # somebody may be Sampling
        places = {word: _place(word, bare) for word in self._known if word in bare}
        words = [word for word, place in places.items() if place >= 0]
        # Platforms put who handed in before the file's own name, which may be of another.
        sure = [word for word in words if re.match(re.escape(word) + _HANDED_IN, bare)]
        if sure:
            return self._students(sure), PLATFORM
        if part in self._known:
            return self._students([part]), ALONE
        if is_in_folder and not any(title.fullmatch(bare[: places[word]]) for word in words):
            return set(), AMONG
        longest = [w for w in words if not any(w != e and _place(w, e) >= 0 for e in words)]
        return self._students(longest), AMONG

    def _students(self, words: Iterable[str]) -> set[str]:
        return {student for word in words for student in self._known[word]}


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
        if not any(map(_is_letter, around)):
            break
        at = part.find(word, at + 1)
    return at


def _is_letter(sign: str) -> bool:
    return sign.isalnum() or unicodedata.category(sign).startswith("M")  # a vowel's, say
