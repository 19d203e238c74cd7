"""Whose a file is: by its folder's name, by its own, by the class's list."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from lablib.teach.roster import UNSEEN, printable

DEEP = 8  # parts of a path that are looked at for names
# What a browser, a course's platform or Jupyter puts around a name.
_DECORATION = re.compile(
    r"[ _-]*(\(\d+\)|copy\d*|(?<!\d)\d\d_[a-z_]*[a-z]|late|final|solved)$", re.IGNORECASE
)
# What Canvas and Moodle put behind a student's name: a number of the student's, one of the work's.
# Behind these stands the file's own name, in which another's may be.
_HANDED_IN = re.compile(r"^(.+?)(?:_late)?_(\d+)_(?:\d{3,}|assignsubmission)_.*$", re.DOTALL)
_NUMBER = re.compile(r"\d+")

Around = tuple[str, str]  # what stands before a name, and behind it, each number as 0
WHOLE: tuple[Around, ...] = (("", ""), ("", "_0"))


def student_of(inside: Path) -> str:
    """Return whose a file is where nobody says who is in the class, by its path in the folder."""
    return _student_of(_parts(inside))


class Owners:
    """Tells whose files are, by a roster: by the column with which most of them are somebody's.

    Args:
        people: of each student, what the roster says, by its columns.
        inside: the paths of all files within the graded folder.
    """

    def __init__(self, people: Mapping[str, Mapping[str, str]], inside: Iterable[Path]) -> None:
        paths = [*map(_parts, inside)]
        columns = [_Column(names, paths) for names in _columns(people)]
        self._column = max(columns, key=_Column.count)  # of several the first

    def student(self, inside: Path) -> str:
        """Return whose a file is."""
        parts = _parts(inside)
        part, students = self._column.whose(parts)
        return students[0] if len(students) == 1 else part or _student_of(parts)

    def rivals(self, inside: Path) -> str:
        """Return in words between whom nobody can tell whose a file is; else an empty text."""
        part, students = self._column.whose(_parts(inside))
        return f"{part} ({' or '.join(students)})" if len(students) > 1 else ""


class _Column:
    """The students' names in one column of a roster, and whose files are by them.

    Args:
        names: whose each is, in small letters.
        paths: the parts of all files' paths.
    """

    def __init__(self, names: Mapping[str, str], paths: Sequence[tuple[str, ...]]) -> None:
        self._names, self._paths = names, paths
        self._seen: dict[str, dict[str, list[Around]]] = {}
        self._told: dict[tuple[str, ...], tuple[str, list[str]]] = {}
        folders = sorted(parts[:-1] for parts in paths) or [()]
        pairs = zip(folders[0], folders[-1], strict=False)
        self._top = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])  # where they part
        self._tell(paths, 0)

    def count(self) -> int:
        """Return how many students something is of, and no more than lies where the paths part.

        A stranger may be called in part as a student is, and a student's files as all others are.
        """
        told = [(parts, self.whose(parts)[1]) for parts in self._paths]
        somebodys = [(parts[: self._top + 1], who[0]) for parts, who in told if len(who) == 1]
        return min(len({outer for outer, _ in somebodys}), len({who for _, who in somebodys}))

    def whose(self, parts: tuple[str, ...]) -> tuple[str, list[str]]:
        """Return the part of a path that tells whose it is, and whose; several if nobody can tell.

        A name that has none beside it tells at the top, and below it if it is all there is.
        """
        if parts not in self._told:
            named = [part for part in parts[: self._top + 1] if self._in(part)]
            inner = [part for part in parts[:DEEP] if self._is_name(part)]
            told = named or inner[:1]
            words = {word: [("", "")] for part in told for word in self._in(part)}
            self._told[parts] = "".join(told[:1]), self._chosen(words, [])
        return self._told[parts]

    def _is_name(self, part: str) -> bool:
        """Return whether a part of a path is a student's name, with or without a number."""
        return any(around in WHOLE for places in self._in(part).values() for around in places)

    def _tell(self, paths: Sequence[tuple[str, ...]], depth: int) -> None:
        """Tell whose files in one folder are, where names of several students stand in it.

        Else it is called as a student is, and holds everybody's work; or a file has a name for a
        title.
        """
        inner: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
        for parts in paths:
            if depth < min(len(parts), DEEP):
                inner[parts[depth]].append(parts)
        alike: defaultdict[Around, set[str]] = defaultdict(set)  # who has the same around the name
        for part in inner:
            for word, places in self._in(part).items():
                for around in places:
                    alike[around].add(self._names[word])
        students = set().union(*alike.values())
        usual = [around for around, who in alike.items() if 2 * len(who) > len(students)]
        for part, below in inner.items():
            chosen: list[str] = []
            found = self._in(part)
            if found and len(students) > 1:
                chosen = self._chosen(found, usual)
                if not chosen and all(len(parts) == depth + 1 for parts in below):
                    # Students call files as they like: there a name alone is one, usual or not.
                    chosen = self._chosen(found, [])
                self._told |= dict.fromkeys(below, (part, chosen))
            if not chosen:
                self._tell(below, depth + 1)

    def _chosen(self, found: Mapping[str, Sequence[Around]], usual: Sequence[Around]) -> list[str]:
        """Return who is named: ada in ``lab0-ada``, if ``lab0-`` stands before most names.

        Of names within each other the longer counts.
        """
        words = [
            word
            for word, places in found.items()
            if any(not any(_is_around(each, word, place) for each in usual) for place in places)
        ]
        longest = [w for w in words if not any(w != e and _places(w, e) for e in words)]
        return sorted({self._names[word] for word in longest})

    def _in(self, part: str) -> dict[str, list[Around]]:
        """Return the names in a part of a path, and what stands around each, where it does."""
        if part not in self._seen:
            text = _HANDED_IN.sub(r"\1_\2", part.lower())
            places = {word: _places(word, text) for word in self._names if word in text}
            self._seen[part] = {
                word: [
                    (_numberless(text[:at]), _numberless(text[at + len(word) :])) for at in found
                ]
                for word, found in places.items()
                if found
            }
        return self._seen[part]


def _is_around(usual: Around, word: str, place: Around) -> bool:
    """Return whether a name is, at a place, a part of what usually stands around one."""
    text = f"{place[0]}{_numberless(word)}{place[1]}"
    before, behind = usual
    is_there = len(text) > len(before) + len(behind)
    is_there = is_there and text.startswith(before) and text.endswith(behind)
    return is_there and (len(place[0]) < len(before) or len(place[1]) < len(behind))


def _numberless(text: str) -> str:
    return _NUMBER.sub("0", text)


def _columns(people: Mapping[str, Mapping[str, str]]) -> list[dict[str, str]]:
    """Return whose the names are, in small letters: in reports, and in columns without doubles.

    The last one has the letters of names alone, as Canvas' files do.
    """
    headings = dict.fromkeys(heading for row in people.values() for heading in row)
    columns = [[printable(row.get(each, "")) for row in people.values()] for each in headings]
    columns = [[*people], *columns, [re.sub(r"[\W_]", "", student) for student in people]]
    lowered = [zip(map(str.lower, column), people, strict=True) for column in columns]
    found = [[(name, student) for name, student in pairs if name] for pairs in lowered]
    return [dict(pairs) for pairs in found if len(dict(pairs)) == len(pairs)]


def _parts(inside: Path) -> tuple[str, ...]:
    """Return the parts of a path as they are shown, the last one without its end."""
    # Blanks around a name nobody sees, and a course's platform takes them away.
    shown = (printable(part).strip() for part in (*inside.parts[:-1], inside.stem))
    return tuple(part or UNSEEN for part in shown)


def _student_of(parts: Sequence[str]) -> str:
    """Return the outer folder's name, or the file's own without what is put around one."""
    name = parts[0]
    while len(parts) == 1 and (shorter := _DECORATION.sub("", name)) not in ("", name):
        name = shorter
    return name


def _places(word: str, part: str) -> list[int]:
    """Return where a name stands in a part of a path, between what are no letters."""
    found, at = [], part.find(word)
    while at >= 0:
        around = part[max(0, at - 1) : at] + part[at + len(word) : at + len(word) + 1]
        if not any(map(str.isalnum, around)):
            found.append(at)
        at = part.find(word, at + 1)
    return found
