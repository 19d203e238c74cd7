"""Marks that outlast a kernel: ``progress.json`` beside the notebooks.

The file is the switch. Where the kernel's working folder has one, ``check`` keeps its marks there;
of a page in the folder ``further`` those are the lessons', which lie one up;
``lab`` puts one into a student's working copy, and ``progress(save="progress.json")`` anywhere. The
course's own folder has none, so a lesson that is recorded there depends on nothing.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from lablib.folders import write_whole
from lablib.validation import BadValue

FILE = "progress.json"
FURTHER = "further"  # the folder of pages beside the lessons
# What each mark says, and its colour, which is never the only signal.
MARKS = {
    "○": ("not attempted", "#767676"),
    "✗": ("wrong", "#D55E00"),
    "✓": ("correct", "#009E73"),
}


def keep(path: Path, marks: Mapping[str, str]) -> dict[str, str]:
    """Add marks to a file and return all that are in it now, by exercise.

    What was not attempted is left out: an untouched starter takes no earlier mark away. The file is
    replaced as a whole, and by one kernel at a time.

    Raises:
        ValueError: there is something else in the file; it is left as it is.
        OSError: it can't be written.
    """
    marks = {exercise: mark for exercise, mark in marks.items() if mark != "○"}
    if path.exists() and marks.items() <= (kept := read(path)).items():
        return kept
    from filelock import FileLock  # where no marks are kept, as in grading, nothing waits for it

    with FileLock(path.with_name(f".{path.name}.lock"), timeout=10):
        kept = dict(sorted({**read(path), **marks}.items()))
        write_whole(path, json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
    return kept


def keep_here(marks: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Keep marks in the working folder's file, if it has one.

    Returns:
        The marks that the file held or holds now, and one line about what went wrong, if anything.
    """
    path = Path(FILE)
    if not path.exists() and Path.cwd().name == FURTHER:
        path = Path("..", FILE)
    if not path.exists():
        return {}, ""
    try:
        return keep(path, marks), ""
    except (OSError, NotImplementedError) as error:  # NotImplementedError: nothing locks here
        reason = getattr(error, "strerror", None) or type(error).__name__
    except ValueError:
        return {}, f"{FILE} holds something else: your marks end with this kernel."
    way_on = 'progress(save="FILE") keeps them elsewhere.'
    trouble = f"{FILE} can't be written ({reason}): your marks end with this kernel. {way_on}"
    try:
        return read(path), trouble
    except (OSError, ValueError):
        return {}, trouble


def read(path: Path) -> dict[str, str]:
    """Return the marks in a file; none when there is no file."""
    if not path.exists():
        return {}
    try:
        marks = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        marks = None
    if not isinstance(marks, dict) or any(mark not in [*MARKS] for mark in marks.values()):
        raise BadValue(f"save must be a new file or a progress file, got {str(path)!r}")
    return marks
