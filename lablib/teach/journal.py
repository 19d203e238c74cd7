"""The journal of a grading: what was found in each file, a line each, for whoever resumes.

A line is taken again where the file has the same bytes, and is judged by the same references,
within the same limits, of the same lessons. A referee compares the bytes, as it reads them anyway.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from lablib.folders import replacing
from lablib.teach.apart.remote import Limits
from lablib.teach.apart.surroundings import references
from lablib.teach.handed_in import digest
from lablib.teach.submission import Finding


@dataclass(frozen=True)
class Graded:
    """What was found in one file: its exercises, or why it can't be read; forms, predictions.

    Attributes:
        path: within the graded folder.
        digest: of its bytes; empty where nobody has read them, and the next run judges it again.
        basis: what else the findings depend on (see ``basis``).
    """

    path: str
    digest: str
    basis: str
    findings: dict[str, Finding] = field(default_factory=dict)
    unreadable: str = ""
    forms: dict[str, str] = field(default_factory=dict)
    predicted: dict[str, Any] = field(default_factory=dict)


class Journal:
    """The file beside the first of the reports; without a report nothing is kept."""

    def __init__(self, reports: Sequence[Path], resume: bool) -> None:
        """Begin it, or go on with what an earlier run has left."""
        self.path = next(iter(beside(reports)), None)
        self._kept: dict[tuple[str, str], Graded] = {}
        if self.path is None:
            return
        if resume and self.path.exists():
            with open(self.path, encoding="utf-8", errors="replace", newline="\n") as file:
                for line in file:
                    self._keep(line)
        with naming(self.path), replacing(self.path) as whole, open(whole, "wb") as file:
            file.writelines(_line(each).encode("utf-8", "replace") for each in self._kept.values())

    def found(self, path: str, basis: str) -> Graded | None:
        """Return what an earlier run has found in a file, as its bytes were then."""
        return self._kept.get((path, basis))

    def add(self, graded: Graded) -> None:
        """Write a line of what is new."""
        is_kept = self.found(graded.path, graded.basis) is graded
        if self.path is None or is_kept or not graded.digest:
            return
        with (
            naming(self.path),
            open(self.path, "a", encoding="utf-8", errors="replace") as file,
        ):
            file.write(_line(graded))

    def _keep(self, line: str) -> None:
        try:
            read = json.loads(line)
            read["findings"] = {id_: Finding(**found) for id_, found in read["findings"].items()}
            graded = Graded(**read)
            self._kept[graded.path, graded.basis] = graded
        except (ValueError, TypeError, KeyError, AttributeError):  # killed while it was written
            return


def beside(reports: Sequence[Path]) -> list[Path]:
    """Return the journal beside the first of the reports, if there is one."""
    return [Path(f"{path}.journal") for path in reports[:1]]


def basis(limits: Limits, lessons: Sequence[str]) -> str:
    """Return what findings depend on beside the file: references, limits, lessons."""
    limits = replace(limits, hide=(), missing=None)
    told = f"{_references()} {limits} {lessons}"
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def write_whole(path: Path, text: str) -> None:
    """Write a file as a whole, whatever letters its names hold."""
    with naming(path), replacing(path) as file:
        file.write_bytes(text.encode("utf-8", "replace"))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have an error say which file it is about: a full disk's does not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@cache
def _references() -> str:
    return "".join(digest(Path(file)) for file in references())


def _line(graded: Graded) -> str:
    return json.dumps(asdict(graded), ensure_ascii=False) + "\n"
