"""Whom a part of a path names, by the class's list: a whole name, and nothing is guessed.

Which parts there are, and whose a file is by them, is said in ``owners``.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from lablib.folders import course
from lablib.teach.roster import KEPT, UNSEEN, printable

DEEP = 4  # folders within each other may be a teacher's
MOST = 5  # things are taken away before a name, and as many behind it
STRANGER = "nobody on the roster"  # who is named in a form in which others are
WORDS = r"copy\d*|late|final|solved"
_MOODLE = re.compile(r"_(\d+)_assignsubmission_")  # behind a name: the student's number there
_NOT_MOODLES = re.compile(r"[&<>\"`|':\\/]")  # in names it leaves these out
_CANVAS = re.compile(r"(.+?)(_late)?_(\d+)_\d+_")  # a name, and the student's number
_SEPARATOR = re.compile(r"[ _.-]")

Parts = tuple[str, ...]  # of a path, the last one without its end
Known = defaultdict[str, set[str]]  # whose each name is, in small letters
Beginnings = frozenset[str]  # what may stand before a name, in small letters


class Names:
    """Tells whom parts of paths name.

    Args:
        people: of each student, what the roster says, by its columns.
    """

    def __init__(self, people: Mapping[str, Mapping[str, str]]) -> None:
        self.known, self._folders = Known(set), Known(set)
        self._in_moodle, self._in_canvas = Known(set), Known(set)
        self._numbers: dict[str, str] = {}  # of students, where they have one
        for student, row in people.items():
            told = {
                heading.lower().replace(" ", "_"): printable(cell).lower()
                for heading, cell in row.items()
            }
            self._numbers[student] = told.get("id", "")
            folder = told.get("folder", "").strip("/ ")
            self._folders[_person(folder)].add(student)
            names = {student.lower(), told.get("github_username", "").lstrip("@")}
            for name in {folder} if folder else names - {*_stems()}:
                self.known[name].add(student)
                self._in_moodle[_as_moodle_writes(name)].add(student)
                self._in_canvas[_letters(name)].add(student)
        for known in (self.known, self._folders, self._in_moodle, self._in_canvas):
            known.pop("", None)
        self.named = lru_cache(None)(self._named)

    def _named(self, part: str, beginnings: Beginnings = frozenset()) -> set[str]:
        """Return whom a part of a path names, perhaps behind what may stand before names there."""
        part = shown(part).lower()
        if _person(part) in self._folders:
            return self._folders[_person(part)] | self.known.get(part, set())
        who = set[str]().union(*(self.known.get(name, ()) for name in bare(part, beginnings)))
        canvas = _CANVAS.match(part)
        if canvas:
            letters = {_letters(canvas[1]), _letters(canvas[1] + (canvas[2] or ""))}
            called = set[str]().union(*(self._in_canvas.get(each, ()) for each in letters))
            numbered = {each for each in called if self._numbers[each] == canvas[3]}
            who |= numbered or {each for each in called if not self._numbers[each]}
        for front, number in _fronts(part):
            for name in (front, f"{front} {number}"):  # Participant 123, in what is marked blindly
                who |= self._in_moodle.get(name, set())
        is_in_form = any(_fronts(part)) or any(_cut(part, beginnings))
        return who or ({STRANGER} if is_in_form else who)

    def numbered(self, part: str) -> list[tuple[str, str]]:
        """Return by which names a part that Moodle exports names somebody, and the number behind.

        It is somebody's number: whoever has another one is somebody else.
        """
        part = shown(part).lower()
        is_told = _person(part) in self._folders
        return [each for each in _fronts(part) if each[0] in self._in_moodle and not is_told]


def beginnings_of(paths: Iterable[Parts], names: Iterable[str]) -> dict[Parts, Beginnings]:
    """Return behind what two folders, or one of which all begin so, are called by names.

    At the top, and in folders that lie no deeper than a teacher's.
    """
    names = {*names}
    folders = {parts[:end] for parts in paths for end in range(1, min(DEEP + 1, len(parts)))}
    beside = Counter(folder[:-1] for folder in folders)
    behind = defaultdict[tuple[Parts, str], set[str]](set)
    for outer, beginning, rest in _begun(folders):
        if rest in names:
            behind[outer, beginning].add(rest)
    cut = ((outer, beginning) for outer, beginning, _ in _begun(folders))
    begun = Counter(each for each in cut if each in behind)
    found = defaultdict[Parts, Beginnings](frozenset)
    for (outer, beginning), rests in behind.items():
        if len(rests) > 1 or begun[outer, beginning] == beside[outer] > 1:
            found[outer] |= {beginning}
    return found


def _begun(folders: Iterable[Parts]) -> Iterator[tuple[Parts, str, str]]:
    """Yield in what each folder lies, what it may begin with, and what is behind that."""
    for *outer, last in folders:
        name = shown(last).lower()
        for cut in _SEPARATOR.finditer(name):
            yield (*outer,), name[: cut.end()], name[cut.end() :]


@lru_cache(KEPT)
def shown(part: str) -> str:
    """Return a part of a path as it is shown and compared."""
    # Blanks around a name nobody sees, and a course's platform takes them away.
    return printable(part).strip() or UNSEEN


def bare(part: str, beginnings: Beginnings = frozenset()) -> Iterator[str]:
    """Yield a part of a path, and all that is left without what is put around a name."""
    before, behind = _around()
    yield part
    is_begun = any(_cut(part, beginnings))  # lab0-late is no late work of somebody called lab0
    for shorter in _peeled(part.strip(" _-"), behind):
        yield from _cut(shorter, beginnings)
        for text in () if is_begun else _peeled(shorter, before):
            if text == shorter or not re.fullmatch(WORDS, text):  # 03_final is nobody's
                yield text


def _cut(part: str, beginnings: Beginnings) -> Iterator[str]:
    """Yield what is behind one of these in a part of a path."""
    for cut in _SEPARATOR.finditer(part):
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


def _fronts(part: str) -> Iterator[tuple[str, str]]:
    """Yield what may be a name in a part that Moodle exports, as it writes it, and the number."""
    for found in _MOODLE.finditer(part):
        yield _as_moodle_writes(part[: found.start()]), found[1]


def _as_moodle_writes(name: str) -> str:
    return _NOT_MOODLES.sub("", name.replace("_", " "))


def _letters(name: str) -> str:
    """Return a name's letters and digits, in order: Canvas writes *Ada Ng* as ``ngada``."""
    return "".join(sorted(letter for letter in name if letter.isalnum()))


def _person(part: str) -> str:
    """Return a part of a path, of what Moodle exports without what it puts behind the number."""
    found = _MOODLE.search(part)
    return part[: found.end(1)] if found else part
