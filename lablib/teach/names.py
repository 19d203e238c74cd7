"""Whom a part of a path names, by the class's list: a whole name, and nothing is guessed.

Which parts there are, and whose a file is by them, is said in ``owners``.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from lablib.folders import course
from lablib.teach.roster import KEPT, UNSEEN, printable

DEEP = 4  # folders within each other may be a teacher's
MOST = 5  # things are taken away before a name, and as many behind it
STRANGER = "nobody on the roster"  # who is named in a form in which others are
WORDS = r"copy\d*|late|final|solved"
_MOODLE = re.compile(r"((.*?)_(\d+))_assignsubmission_")  # a name, and the student's number
_NOT_MOODLES = re.compile(r"[&<>\"`|':\\/]")  # in names it leaves these out
_CANVAS = re.compile(r"(.+?)_(\d+)_\d+_")  # a name, and the student's number
_ONE_IN_CAPITALS = str.maketrans("ıς", "iσ", "\u0307")  # the dot that is left of İ

Parts = tuple[str, ...]  # of a path, the last one without its end
Known = defaultdict[str, set[str]]  # whose each name is, in small letters
Beginnings = tuple[str, ...]  # what may stand before an account, in small letters


class Names:
    """Tells whom parts of paths name.

    Args:
        people: of each student, what the roster says, by its columns.
    """

    def __init__(self, people: Mapping[str, Mapping[str, str]]) -> None:
        self.known, self.accounts, self._folders = Known(set), Known(set), Known(set)
        self._in_moodle, self._in_canvas = Known(set), Known(set)  # there with the column's number
        for student, row in people.items():
            told = {
                heading.lower().replace(" ", "_"): _small(printable(cell))
                for heading, cell in row.items()
            }
            folder = told.get("folder", "").strip("/ ")
            self._folders[_exported(folder)[0]].add(student)
            account = "" if folder else told.get("github_username", "").lstrip("@")
            self.accounts[account].add(student)
            for name in {folder} if folder else {_small(student), account} - {*_stems()}:
                self.known[name].add(student)
                self._in_moodle[_as_moodle_writes(name)].add(student)
                for front in _as_canvas_writes(name):
                    self._in_canvas[f"{front} {told.get('id', '')}"].add(student)
        for known in (self.known, self.accounts, self._folders, self._in_moodle):
            known.pop("", None)
        self.named = lru_cache(None)(self._named)

    def _named(self, part: str, beginnings: Beginnings = ()) -> set[str]:
        """Return whom a part of a path names, perhaps behind the first of what may stand there."""
        name = _small(shown(part))
        person, _, number = _exported(name)
        if person in self._folders:
            return self._folders[person] | self.known.get(name, set())
        who = _whose(self.known, bare(name))
        who |= {*self.numbered(part)} or ({STRANGER} if number else set())
        begins = next(filter(name.startswith, beginnings), "")
        if begins:
            who |= self.accounts.get(name.removeprefix(begins), {STRANGER})
        return who

    def numbered(self, part: str) -> dict[str, str]:
        """Return whom a part that Moodle or Canvas exports names, and the number behind the name.

        It is somebody's number: whoever has another one is somebody else.
        """
        part = _small(shown(part))
        person, front, number = _exported(part)
        if person in self._folders:
            return {}
        called = (front, f"{front} {number}")  # Participant 123, in what is marked blindly
        found = dict.fromkeys(_whose(self._in_moodle, called), number)
        canvas = _CANVAS.match(part)
        if canvas:
            fronts = {_letters(front) for front in (canvas[1], canvas[1].removesuffix("_late"))}
            who = _whose(self._in_canvas, (f"{front} {canvas[2]}" for front in fronts))
            who = who or _whose(self._in_canvas, (f"{front} " for front in fronts))
            found |= dict.fromkeys(who, canvas[2])
        return found


def beginnings_of(paths: Iterable[Parts], names: Names) -> dict[Parts, Beginnings]:
    """Return what is before two accounts or more, or names, beside each other, of most first."""
    folders = {parts[:end] for parts in paths for end in range(1, min(DEEP + 1, len(parts)))}
    behind = Counter[tuple[Parts, str]]()
    for folder in folders:
        name = _small(shown(folder[-1]))
        for end in (0, *(cut.end() for cut in re.finditer("-", name))):
            if name[end:] in (names.accounts if end else names.known):
                behind[folder[:-1], name[:end]] += 1
    found = defaultdict[Parts, Beginnings](tuple)
    for outer, beginning in sorted(behind, key=lambda each: (-behind[each], each)):
        if behind[outer, beginning] > 1:
            found[outer] += (beginning,)
    return found


@lru_cache(KEPT)
def shown(part: str) -> str:
    """Return a part of a path as it is shown and compared."""
    # Blanks around a name nobody sees, and a course's platform takes them away.
    return printable(part).strip() or UNSEEN


def _small(name: str) -> str:
    """Return a name in small letters: of two that are one in capitals, *ı* and *ς*, the other."""
    return name.lower().translate(_ONE_IN_CAPITALS)


def bare(part: str) -> Iterator[str]:
    """Yield a part of a path, and all that is left without what is put around a name."""
    before, behind = _around()
    yield part
    for shorter in _peeled(part.strip(" _-"), behind):
        for text in _peeled(shorter, before):
            if text == shorter or not re.fullmatch(WORDS, text):  # 03_final is nobody's
                yield text


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
    before = rf"^(?:copy of|(?>{lessons}))[ _-]+"  # a lesson's whole file name, or its number alone
    behind = rf"(?:\(\d+\)|(?<=[ _-])(?:{WORDS}|{lessons}))$"
    return re.compile(before, re.IGNORECASE), re.compile(behind, re.IGNORECASE)


@lru_cache(1)
def _stems() -> list[str]:
    folder = course()
    return [path.stem for path in folder.glob("[0-9][0-9]_*.ipynb")] if folder else []


def _whose(known: Known, names: Iterable[str]) -> set[str]:
    """Return whose any of these names are."""
    return set[str]().union(*(known.get(name, ()) for name in names))


def _exported(part: str) -> tuple[str, str, str]:
    """Return of what Moodle exports all up to the number, the name, and the number; else it all."""
    found = _MOODLE.match(part)
    return (found[1], _as_moodle_writes(found[2]), found[3]) if found else (part, "", "")


def _as_moodle_writes(name: str) -> str:
    return _NOT_MOODLES.sub("", name.replace("_", " "))


def _as_canvas_writes(name: str) -> Iterator[str]:
    """Yield a name as one word, from each of its words on: *Ada Ng* is ``ngada``, too."""
    # Japan's blank and a joiner part words, too, and signs alone are none.
    words = [*filter(None, map(_letters, re.sub(f"{UNSEEN}.*?{UNSEEN}", " ", name).split()))]
    for at in range(len(words)):
        yield "".join(words[at:] + words[:at])


def _letters(name: str) -> str:
    """Return a name's letters, with the marks on them, and digits."""
    return "".join(each for each in name if each.isalnum() or unicodedata.category(each)[0] == "M")
