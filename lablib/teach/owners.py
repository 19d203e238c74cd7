"""Whose a file is, by the names in its path and the class's list.

1. A part of a path (a folder, or the file without its end) names a student where the whole of it
   is their name, or the list's column ``github_username``, in capitals or not.
2. Around a name may stand what is known to be put there: a lesson's file name or number; ``copy``,
   ``late``, ``final`` or ``solved`` behind it; a browser's ``(1)``; ``Copy of`` before it. Of what
   Moodle exports the front is the name, as Moodle writes it (two numbers behind one name, in one
   folder, are two people); of Canvas the front names somebody, or a column ``ID`` has the number.
   What two folders beside each other, or all, have before names, ``lab0-``, is none of a name.
3. The outermost part that names somebody tells. Whoever else is named there, or further in, makes
   it a doubt; and so does, of a folder that is called like a student, who is named elsewhere in it.
   A doubt is in nobody's row. In such a form, Moodle's or ``lab0-``, a stranger is named, too.
4. Who has something in the list's column ``folder`` is called so, and not by name; a part that is
   the whole of it names nobody else.
5. Where nobody is named it is a stranger's, who is called as the outer folder, or, in a folder with
   students in it, as what lies there.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from lablib.folders import course
from lablib.teach.roster import UNSEEN, printable

MOST = 5  # things are taken away before a name, and as many behind it
MENTIONED = 4  # whose it may be, in a row's name
WORDS = r"copy\d*|late|final|solved"
TWIN, STRANGER = "another of that name", "nobody on the roster"
_MOODLE = re.compile(r"_(\d+)_assignsubmission_")  # behind a name: the student's number there
_NOT_MOODLES = re.compile(r"[&<>\"`|':\\/]")  # in names it leaves these out
_CANVAS = re.compile(r"(.+?)(_late)?_(\d{3,})_\d+_")  # a name, and the student's number

Parts = tuple[str, ...]  # of a path, as they are shown, the last one without its end
Known = defaultdict[str, set[str]]  # whose each name is, in small letters


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
        self._people = {student.lower() for student in people}
        self._names, self._folders, self._numbers = Known(set), Known(set), Known(set)
        self._in_moodle = Known(set)  # names as it writes them
        for student, row in people.items():
            told = {heading.lower(): printable(cell).lower() for heading, cell in row.items()}
            folder = told.get("folder", "")
            self._folders[folder].add(student)
            self._numbers[told.get("id", "")].add(student)
            names = {student.lower(), told.get("github_username", "")}
            for name in {folder} if folder else {name for name in names if not _is_around(name)}:
                self._names[name].add(student)
                self._in_moodle[_as_moodle_writes(name)].add(student)
        for known in (self._names, self._folders, self._numbers, self._in_moodle):
            known.pop("", None)
        self._named = lru_cache(None)(self._look)
        self._told = lru_cache(None)(self._tell)
        paths = [_parts(path) for path in inside]
        self._beginnings = _beginnings(paths, {*self._names})
        self._teachers = set[str]()  # folders in which students are named
        self._within = defaultdict[Parts, set[str]](set)  # who is named in what begins so
        self._twins = defaultdict[tuple[Parts, str], set[str]](set)  # numbers behind a name, there
        for parts in paths:
            depth, _, who = self._find(parts)
            self._within[parts[: depth + 1]] |= who
            self._teachers |= {*parts[: min(depth, 1)]}
            for front, number in _fronts(parts[depth]):
                self._twins[parts[:depth], front] |= {number} if front in self._in_moodle else set()

    def student(self, inside: Path) -> str:
        """Return whose a file is: a student's name, or that of a stranger's or a doubt's row."""
        return self._told(inside)[0]

    def rivals(self, inside: Path) -> str:
        """Return what nobody can tell whose it is, and between whom; else an empty text."""
        row, is_doubt = self._told(inside)
        return row if is_doubt else ""

    def _tell(self, inside: Path) -> tuple[str, bool]:
        """Return in whose row a file is, and whether that is a doubt's."""
        parts = _parts(inside)
        depth, first, who = self._find(parts)
        if len(who) == 1:
            who = who | self._within[parts[: depth + 1]]
        twins = [self._twins[parts[:depth], front] for front, _ in _fronts(parts[depth])]
        who = who | {TWIN for numbers in twins if len(numbers) > 1}
        if len(who) == 1 and who != {STRANGER}:
            return next(iter(who)), False
        row = "/".join(parts[:2]) if parts[0] in self._teachers else _stranger(parts)
        if len(who) > 1:
            names = [*sorted(first), *sorted(who - first)]
            names[MENTIONED:] = ["another"] * (len(names) > MENTIONED)
            row = f"{parts[depth]} ({' or '.join(names)})"
        while row.lower() in self._people:  # somebody may be called so
            row += "?"
        return row, len(who) > 1

    def _find(self, parts: Parts) -> tuple[int, set[str], set[str]]:
        """Return which part tells, whom it names, and who is named there and further in."""
        outer = range(min(2, len(parts) - 1))
        begin = [self._beginnings.get(parts[:depth], frozenset()) for depth in outer]
        begin += [frozenset()] * (len(parts) - len(begin))
        named = [*map(self._named, parts, begin)]
        depth = next((depth for depth, who in enumerate(named) if who), 0)
        return depth, named[depth], set().union(*named)

    def _look(self, part: str, beginnings: frozenset[str]) -> set[str]:
        """Return whom a part of a path names, behind what may stand before names there, too."""
        part = part.lower()
        if part in self._folders:
            return self._folders[part]
        names, who = {*_bare(part, beginnings)}, set[str]()
        canvas = _CANVAS.match(part)
        if canvas:
            names |= {canvas[1], canvas[1] + (canvas[2] or "")}
            who |= self._numbers.get(canvas[3], set())
        for front, number in _fronts(part):
            for name in (front, f"{front} {number}"):  # Participant 123, in what is marked blindly
                who |= self._in_moodle.get(name, set())
        who = who.union(*(self._names.get(name, ()) for name in names))
        is_in_form = any(_fronts(part)) or any(_cut(part, beginnings))
        return who or ({STRANGER} if is_in_form else who)


def _fronts(part: str) -> Iterator[tuple[str, str]]:
    """Yield what may be a name in a part that Moodle exports, as it writes it, and the number."""
    for found in _MOODLE.finditer(part):
        yield _as_moodle_writes(part[: found.start()].lower()), found[1]


def _as_moodle_writes(name: str) -> str:
    return _NOT_MOODLES.sub("", name.replace("_", " "))


def _parts(inside: Path) -> Parts:
    # Blanks around a name nobody sees, and a course's platform takes them away.
    shown = (printable(part).strip() for part in (*inside.parts[:-1], inside.stem))
    return tuple(part or UNSEEN for part in shown)


def _stranger(parts: Parts) -> str:
    """Return the outer folder's name, or the file's own without what is put around one."""
    return parts[0] if len(parts) > 1 else [*filter(None, _bare(parts[0]))][-1]


def _beginnings(paths: Iterable[Parts], names: set[str]) -> dict[Parts, frozenset[str]]:
    """Return behind what two folders, or one of which all begin so, are called by names.

    At the top, and in folders there.
    """
    folders = {parts[:end] for parts in paths for end in range(1, min(3, len(parts)))}
    beside = Counter(folder[:-1] for folder in folders)
    begun = Counter[tuple[Parts, str]]()
    named = defaultdict[tuple[Parts, str], set[str]](set)
    for folder in folders:
        name = folder[-1].lower()
        for cut in re.finditer(r"[ _.-]", name):
            key = folder[:-1], name[: cut.end()]
            begun[key] += 1
            if name[cut.end() :] in names:
                named[key].add(name[cut.end() :])
    found = defaultdict[Parts, frozenset[str]](frozenset)
    for (outer, beginning), rests in named.items():
        if len(rests) > 1 or begun[outer, beginning] == beside[outer] > 1:
            found[outer] |= {beginning}
    return found


def _bare(part: str, beginnings: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield a part of a path, and all that is left without what is put around a name."""
    before, behind = _around()
    yield part
    for shorter in _peeled(part.strip(" _-"), behind):
        yield from _cut(shorter, beginnings)
        yield from _peeled(shorter, before)


def _cut(part: str, beginnings: frozenset[str]) -> Iterator[str]:
    """Yield what is behind one of these in a part of a path."""
    for cut in re.finditer(r"[ _.-]", part):
        if part[: cut.end()] in beginnings:
            yield part[cut.end() :]


def _peeled(text: str, around: re.Pattern[str]) -> Iterator[str]:
    """Yield a text, and what is left of it without what is around it, some times."""
    yield text
    for _ in range(MOST):
        shorter = around.sub("", text, count=1).strip(" _-")
        if shorter in ("", text):
            return
        text = shorter
        yield text


def _is_around(name: str) -> bool:
    """Return whether a name is what stands around others, and so is nobody's."""
    return re.fullmatch(rf"{WORDS}|{'|'.join(_stems())}", name) is not None


@lru_cache(1)
def _around() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what stands before a name, and behind one."""
    lessons = "|".join([*_stems(), *(stem[:2] for stem in _stems())]) or "(?!)"
    before = (
        rf"^(?:copy of|(?>{lessons}))[ _-]+"  # all of a lesson's file name, or its number alone
    )
    behind = rf"(?:\(\d+\)|(?<=[ _-])(?:{WORDS}|{lessons}))$"
    return re.compile(before, re.IGNORECASE), re.compile(behind, re.IGNORECASE)


@lru_cache(1)
def _stems() -> list[str]:
    folder = course()
    return [path.stem for path in folder.glob("[0-9][0-9]_*.ipynb")] if folder else []
