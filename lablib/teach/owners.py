"""Whose a file is, by the names in its path and the class's list.

1. A part of a path (a folder, or the file without its end) names a student where the whole of it
   is their name, or the list's column ``github_username``, in capitals or not.
2. Around a name may stand what is known to be put there: a lesson's file name or number; ``copy``,
   ``late``, ``final`` or ``solved`` behind it; a browser's ``(1)``; ``Copy of`` before it. (A
   lesson's file name is nobody's.) Of what Moodle exports the front is the name, as Moodle writes
   it; of Canvas it is the name in one word, from any of its words on (``adang``, ``ngada``), and
   whose number a column ``ID`` has, theirs is behind it. (Two numbers behind one's name in one
   folder are two people.) Of GitHub Classroom a ``github_username`` is all that is behind
   ``lab0-``, with which two such folders beside each other begin, and more than are called by a
   whole name; of several such beginnings that of most.
3. The outermost part that names somebody tells. Whoever else is named there, or further in, makes
   it a doubt; and so does, of a folder that is called like a student, who is named elsewhere in it.
   A doubt is in nobody's row. In such a form, Moodle's or ``lab0-``, a stranger is named, too.
4. Who has something in the list's column ``folder`` is called so, and not by name; a part that is
   the whole of it names nobody by a piece of it.
5. Where nobody is named it is a stranger's, who is called as the outer folder, or, in a folder with
   students in it, as what lies there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from lablib.teach.names import DEEP, STRANGER, Names, Parts, bare, beginnings_of, shown
from lablib.teach.roster import KEPT

MENTIONED = 4  # whose it may be, in a row's name
TWIN = "another of that name"


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
        self._names = Names(people)
        self._told = lru_cache(KEPT)(self._tell)
        paths = [_parts(path) for path in inside]
        self._beginnings = beginnings_of(paths, self._names)
        self._teachers = set[Parts]()  # folders in which students are named
        self._within = defaultdict[Parts, dict[str, Parts]](dict)  # who is named in what begins so
        self._twins = defaultdict[tuple[Parts, str], set[str]](set)  # numbers behind a name, there
        for parts in paths:
            depth, _, others = self._find(parts)
            named = self._within[parts[: depth + 1]]
            for student in [*others][: MENTIONED - len(named)]:
                named.setdefault(student, others[student])
            self._teachers |= {parts[:depth]}
            for student, number in self._names.numbered(parts[depth]).items():
                self._twins[parts[:depth], student].add(number)

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
        if depth < len(parts) - 1:  # a file may be called as a folder beside it
            others = others or self._within[parts[: depth + 1]]
        numbered = self._names.numbered(parts[depth])
        twins = [TWIN] * any(len(self._twins[parts[:depth], each]) > 1 for each in numbered)
        names = [*sorted(first), *others, *twins]
        if len(names) == 1 and names != [STRANGER]:
            return names[0], ""
        if len(names) < 2:
            outer = range(min(DEEP, len(parts) - 1), 0, -1)
            depth = next((depth for depth in outer if parts[:depth] in self._teachers), 0)
            row = "/".join(map(shown, parts[: depth + 1])) if depth else _stranger(parts)
            return self._nobodys(row), ""
        names[MENTIONED:] = ["another"] * (len(names) > MENTIONED)
        row = self._nobodys(f"{shown(parts[depth])} ({' or '.join(names)})")
        by = "/".join(map(shown, next(iter(others.values()), ())))
        return row, f"{row}, by {by}" if by else row

    def _nobodys(self, row: str) -> str:
        """Return a name for a row that is no student's, though somebody may be called so."""
        while row.lower() in self._people:
            row += "?"
        return row

    def _find(self, parts: Parts) -> tuple[int, set[str], dict[str, Parts]]:
        """Return which part tells, whom it names, and who else is named further in, and where."""
        named = [
            self._names.named(part, self._beginnings.get(parts[: min(depth, DEEP)], ()))
            for depth, part in enumerate(parts[:-1])
        ]
        named.append(self._names.named(parts[-1]))
        tells = next((depth for depth, who in enumerate(named) if who), 0)
        others: dict[str, Parts] = {}
        for depth in range(tells + 1, len(parts)):
            if named[depth] and not named[depth] & named[tells]:  # else it contradicts nothing
                who = sorted(named[depth] - {STRANGER, *others})
                others |= dict.fromkeys(who, parts[: depth + 1])
        return tells, named[tells], others


def _parts(inside: Path) -> Parts:
    return (*inside.parts[:-1], inside.stem)


def _stranger(parts: Parts) -> str:
    """Return the outer folder's name, or the file's own without what is put around one."""
    outer = shown(parts[0])
    return outer if len(parts) > 1 else [*filter(None, bare(outer))][-1]
