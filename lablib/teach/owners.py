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
from lablib.teach.roster import KEPT, UNSEEN, printable

MOST = 5  # things are taken away before a name, and as many behind it
MENTIONED = 4  # whose it may be, in a row's name
WORDS = r"copy\d*|late|final|solved"
TWIN, STRANGER = "another of that name", "nobody on the roster"
_MOODLE = re.compile(r"_(\d+)_assignsubmission_")  # behind a name: the student's number there
_NOT_MOODLES = re.compile(r"[&<>\"`|':\\/]")  # in names it leaves these out
_CANVAS = re.compile(r"(.+?)(_late)?_(\d{3,})_\d+_")  # a name, and the student's number

Parts = tuple[str, ...]  # of a path, the last one without its end
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
        self._names, self._folders, self._in_moodle = Known(set), Known(set), Known(set)
        self._numbers: dict[str, str] = {}  # of students, where they have one
        for student, row in people.items():
            told = {heading.lower(): printable(cell).lower() for heading, cell in row.items()}
            self._numbers[student] = told.get("id", "") if len(told.get("id", "")) > 2 else ""
            folder = told.get("folder", "")
            self._folders[_person(folder)].add(student)
            names = {student.lower(), told.get("github_username", "")}
            for name in {folder} if folder else {name for name in names if not _is_around(name)}:
                self._names[name].add(student)
                self._in_moodle[_as_moodle_writes(name)].add(student)
        for known in (self._names, self._folders, self._in_moodle):
            known.pop("", None)
        self._numbered = {number: {each} for each, number in self._numbers.items() if number}
        self._named = lru_cache(None)(self._look)
        self._told = lru_cache(KEPT)(self._tell)
        paths = [_parts(path) for path in inside]
        self._beginnings = _beginnings(paths, {*self._names})
        self._teachers = set[str]()  # folders in which students are named
        self._within = defaultdict[Parts, dict[str, Parts]](dict)  # who is named in what begins so
        self._twins = defaultdict[tuple[Parts, str], set[str]](set)  # numbers behind a name, there
        for parts in paths:
            depth, _, others = self._find(parts)
            named = self._within[parts[: depth + 1]]
            for student, place in others.items():
                if len(named) < MENTIONED:
                    named.setdefault(student, place)
            self._teachers |= {*parts[: min(depth, 1)]}
            for front, number in _fronts(_shown(parts[depth]).lower()):
                self._twins[parts[:depth], front] |= {number} if front in self._in_moodle else set()

    def student(self, inside: Path) -> str:
        """Return whose a file is: a student's name, or that of a stranger's or a doubt's row."""
        return self._told(inside)[0]

    def rivals(self, inside: Path) -> str:
        """Return what nobody can tell whose it is, and between whom; else an empty text."""
        return self._told(inside)[1]

    def _tell(self, inside: Path) -> tuple[str, str]:
        """Return in whose row a file is; and of a doubt what is said of it."""
        parts = _parts(inside)
        depth, first, others = self._find(parts)
        if len(first) == 1:
            others = others or self._within[parts[: depth + 1]]
        names = [*sorted(first), *others]
        fronts = _fronts(_shown(parts[depth]).lower())
        if any(len(self._twins[parts[:depth], front]) > 1 for front, _ in fronts):
            names.append(TWIN)
        if len(names) == 1 and names != [STRANGER]:
            return names[0], ""
        shown = [_shown(part) for part in parts[: depth + 2]]
        if len(names) < 2:
            row = "/".join(shown[:2]) if parts[0] in self._teachers else _stranger(parts)
            return self._nobodys(row), ""
        names[MENTIONED:] = ["another"] * (len(names) > MENTIONED)
        row = self._nobodys(f"{shown[depth]} ({' or '.join(names)})")
        by = next(iter(others.values()), ())
        return row, row + f", by {'/'.join(map(_shown, by))}" * bool(by)

    def _nobodys(self, row: str) -> str:
        """Return a name for a row that is no student's, though somebody may be called so."""
        while row.lower() in self._people:
            row += "?"
        return row

    def _find(self, parts: Parts) -> tuple[int, set[str], dict[str, Parts]]:
        """Return which part tells, whom it names, and who else is named further in, and where."""
        named = []
        for depth, part in enumerate(parts):
            is_outer = depth < min(2, len(parts) - 1)
            beginnings = self._beginnings.get(parts[:depth]) if is_outer else None
            named.append(self._named(part, beginnings or frozenset()))
        depth = next((depth for depth, who in enumerate(named) if who), 0)
        others: dict[str, Parts] = {}
        for end in range(depth + 1, len(parts)):
            if not named[end] & named[depth]:  # else it contradicts nothing
                for student in sorted(named[end]):
                    others.setdefault(student, parts[: end + 1])
        return depth, named[depth], others

    def _look(self, part: str, beginnings: frozenset[str]) -> set[str]:
        """Return whom a part of a path names, behind what may stand before names there, too."""
        part = _shown(part).lower()
        if _person(part) in self._folders:
            return self._folders[_person(part)]
        who = set[str]().union(*(self._names.get(name, ()) for name in _bare(part, beginnings)))
        canvas = _CANVAS.match(part)
        if canvas:
            fronts = {canvas[1], canvas[1] + (canvas[2] or "")}
            called = set[str]().union(*(self._names.get(front, ()) for front in fronts))
            who |= {each for each in called if self._numbers[each] in ("", canvas[3])}
            who |= self._numbered.get(canvas[3], set())
        for front, number in _fronts(part):
            for name in (front, f"{front} {number}"):  # Participant 123, in what is marked blindly
                who |= self._in_moodle.get(name, set())
        is_in_form = canvas or any(_fronts(part)) or any(_cut(part, beginnings))
        return who or ({STRANGER} if is_in_form else who)


def _fronts(part: str) -> Iterator[tuple[str, str]]:
    """Yield what may be a name in a part that Moodle exports, as it writes it, and the number."""
    for found in _MOODLE.finditer(part):
        yield _as_moodle_writes(part[: found.start()]), found[1]


def _as_moodle_writes(name: str) -> str:
    return _NOT_MOODLES.sub("", name.replace("_", " "))


def _person(part: str) -> str:
    """Return a part of a path, of what Moodle exports without what it puts behind the number."""
    found = _MOODLE.search(part)
    return part[: found.end(1)] if found else part


def _parts(inside: Path) -> Parts:
    return (*inside.parts[:-1], inside.stem)


@lru_cache(KEPT)
def _shown(part: str) -> str:
    # Blanks around a name nobody sees, and a course's platform takes them away.
    return printable(part).strip() or UNSEEN


def _stranger(parts: Parts) -> str:
    """Return the outer folder's name, or the file's own without what is put around one."""
    outer = _shown(parts[0])
    return outer if len(parts) > 1 else [*filter(None, _bare(outer))][-1]


def _beginnings(paths: Iterable[Parts], names: set[str]) -> dict[Parts, frozenset[str]]:
    """Return behind what two folders, or one of which all begin so, are called by names.

    At the top, and in folders there.
    """
    folders = {parts[:end] for parts in paths for end in range(1, min(3, len(parts)))}
    beside = Counter(folder[:-1] for folder in folders)
    begun = Counter[tuple[Parts, str]]()
    named = defaultdict[tuple[Parts, str], set[str]](set)
    for folder in folders:
        name = _shown(folder[-1]).lower()
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
