"""A student's own copy of the lessons, so that the course can change without a conflict.

Lessons are copied on first use. Later the copy belongs to the student: an update replaces a lesson
only if nobody has typed into it, and otherwise lays the newer version beside it.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lablib.course.checks import marks, predictions
from lablib.folders import FIRST_LESSON, course, replacing, write_whole
from lablib.validation import BadValue

DEFAULT = "~/lablib-lessons"
FOR_TEACHERS = ("TEACHING.md",)  # it answers what lessons ask
BROUGHT = ".lablib.json"  # file name -> fingerprint of what was last brought under this name
COURSE = ""  # and under no name: the folder that it came from, where that is not the clone's


def notebooks_folder() -> Path:
    """Return the folder of lessons, which is only read.

    Raises:
        ValueError: it is gone.
    """
    folder = course()
    if folder is None:
        raise BadValue(f"no {FIRST_LESSON} in the package or beside it: install lablib anew")
    return folder


@dataclass
class WorkingCopy:
    """A student's folder of lessons, and what was done to it; prints as a few lines.

    Attributes:
        folder: where it is.
        made: whether it is new.
        new: files that were not there.
        newer: files that were replaced: the student had typed nothing into them.
        beside: edited files -> the newer version that was laid beside each.
        waiting: how many files of the course are newer than what was brought.
    """

    folder: Path
    made: bool
    new: list[str] = field(default_factory=list)
    newer: list[str] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)
    waiting: int = 0

    def __str__(self) -> str:
        where = f"Your lessons: {_short(self.folder)}"
        if self.made:
            lessons = sum(name.endswith(".ipynb") for name in self.new)
            return f"{where}, {lessons} copied now; {marks.FILE} there keeps what you solve."
        solved = [*_solved(self.folder / marks.FILE).values()].count("✓")
        lines = [f"{where}, as you left them; {solved} solved so far."]
        if self.new or self.newer:
            lines.append(f"Brought in: {', '.join([*self.new, *self.newer])}.")
        lines += [
            f"{name} has your work and stays; the newer one is {other}."
            for name, other in self.beside.items()
        ]
        if self.waiting:
            lines.append(f"The course has newer ones ({self.waiting}): `lab --update` brings them.")
        return "\n".join(lines)


def course_of(folder: str | Path | None) -> Path | None:
    """Return the course that a copy was made from with its name; None if it is the usual one.

    Raises:
        ValueError: it is not there any more, and another one's lessons don't belong there.
    """
    folder = Path(os.path.expanduser(folder or DEFAULT))
    try:
        named = _brought(folder / BROUGHT).get(COURSE)
    except OSError:  # whoever writes there says what is wrong with it
        return None
    if named is not None and not Path(named).is_dir():
        raise BadValue(f"course must be a folder of lessons, and {named}, {folder}'s, is gone")
    return Path(named) if named is not None else None


def working_copy(
    course: Path, folder: str | Path | None, update: bool = False, named: bool = False
) -> WorkingCopy:
    """Make a student's copy of the course's files, or find it as it is, or update it.

    Args:
        course: the folder of lessons, which is only read.
        folder: where the copy is or will be; ``lablib-lessons`` in the user's home when ``None``.
        update: bring what is new or newer. Nothing that a student typed is ever overwritten.
        named: the copy is of this course for good: it remembers it (see :func:`course_of`).

    Raises:
        ValueError: the folder is the course's own, or a copy of another, or can't be written.
    """
    folder = Path(os.path.expanduser(folder or DEFAULT)).absolute()
    if folder.resolve().is_relative_to(course.resolve()):
        raise BadValue(f"folder must be outside the course's own, got {str(folder)!r}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, os.strerror(13))
        return _bring(course, folder, update, named)
    except OSError as error:
        raise BadValue(
            f"your lessons can't be written to {_short(folder)} ({error.strerror}): "
            "name another place, python -m lablib lab --folder FOLDER"
        ) from None


def _bring(course: Path, folder: Path, update: bool, named: bool) -> WorkingCopy:
    brought = _brought(folder / BROUGHT)
    copy = WorkingCopy(folder, made=not brought)
    if named:
        if brought and COURSE not in brought:
            raise BadValue(f"folder must be a new one, {folder} has lessons of the usual course")
        brought[COURSE] = str(course.absolute())
    for source in _files(course):
        name, latest = source.relative_to(course).as_posix(), fingerprint(source)
        target, was = folder / name, brought.get(name)
        now = fingerprint(target) if target.exists() else None
        if now == latest:
            brought[name] = latest
        elif was == latest and not (update and now is None):
            continue  # it was edited, or deleted, and the course has nothing newer
        elif update or (copy.made and now is None):
            if now is None:
                copy.new.append(name)
            elif now == was:
                copy.newer.append(name)
            else:
                target = _place_beside(target, latest, was)
                copy.beside[name] = target.name
            _copy(source, target)
            brought[name] = latest
        else:
            copy.waiting += not copy.made
    if not (folder / marks.FILE).exists():
        marks.keep(folder / marks.FILE, {})
    write_whole(folder / BROUGHT, json.dumps(brought, indent=1) + "\n")
    return copy


def fingerprint(path: Path) -> str:
    """Return a hash of what people write in a file: a notebook's cells without their outputs.

    A lesson that was run and not edited is therefore as good as untouched.
    """
    raw = path.read_bytes()
    if path.suffix == ".ipynb":
        try:
            cells = json.loads(raw)["cells"]
            raw = json.dumps([[c["cell_type"], "".join(c["source"])] for c in cells]).encode()
        except (ValueError, LookupError, TypeError):
            pass  # not a notebook any more: what a student did to it counts as it is
    return hashlib.sha256(raw).hexdigest()


def _files(course: Path) -> Iterator[Path]:
    """Yield the course's files, but hidden ones, marks and what is for teachers."""
    for path in sorted(course.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(course).parts)
        if (
            path.is_file()
            and not hidden
            and path.name not in (marks.FILE, predictions.FILE, *FOR_TEACHERS)
        ):
            yield path


def _place_beside(target: Path, *versions: str | None) -> Path:
    """Return where a newer version goes: beside the edited one, over nothing that was edited too.

    ``versions`` are the fingerprints of a file in that place that may be written over.
    """
    number = ""
    while True:
        beside = target.with_name(f"{target.stem}.new{number}{target.suffix}")
        if not beside.exists() or fingerprint(beside) in versions:
            return beside
        number = str(int(number or 1) + 1)


def _brought(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _solved(path: Path) -> dict[str, str]:
    try:
        return marks.read(path)
    except (OSError, ValueError):
        return {}


def _copy(source: Path, target: Path) -> None:
    """Copy a file as a whole or not at all; the course's may be read-only, the student's is not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        shutil.copyfile(source, file)


def _short(folder: Path) -> str:
    home = Path(os.path.expanduser("~"))
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)
