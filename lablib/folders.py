"""Finds the course's notebooks, and folders that only this user can write to.

Files that are made once, for all environments, go into such a folder. They are written whole or not
at all.
"""

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FIRST_LESSON = "00_start_here.ipynb"


def course() -> Path | None:
    """Return the folder of lessons: the package's if it is installed, else the checkout's."""
    here = Path(__file__).resolve().parent
    folders = here / "notebooks", here.parent / "notebooks"
    return next((folder for folder in folders if (folder / FIRST_LESSON).exists()), None)


def own() -> Iterator[Path]:
    """Yield the user's folders, made if need be: in the cache, and among temporary files."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    lasting = named if os.path.isabs(named) else os.path.expanduser("~/.cache")
    passing = os.path.join(tempfile.gettempdir(), f"lablib-{os.getuid()}")
    for name in (lasting, passing):
        if not os.path.isabs(name):  # somebody without a home keeps the "~"
            continue
        cache = Path(name)
        folder = cache / "lablib"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        # In a folder that all may write to, somebody else could have put something of theirs.
        if folder.stat().st_uid == cache.stat().st_uid == os.getuid():
            yield folder


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return the path of the user's file of that name; ``make`` it if it is not there yet.

    ``make`` writes the file that it is told; it is there whole or not at all.

    Raises:
        OSError: there is no folder to write to, or it could not be made.
    """
    reasons = []
    for folder in own():
        path = folder / name
        try:
            if not path.is_file():
                with replacing(path) as file:
                    make(file)
            return path
        except OSError as error:
            reasons.append(str(error))
    raise OSError("; ".join(dict.fromkeys(reasons)) or "no folder of our own to write to")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a file to write, which then replaces ``path``: readers see the old or the new one.

    Raises:
        OSError: there is a folder, a pipe or a device, which would be gone; or it can't be written.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "Not a file, so nothing replaces it", str(path))
    remove_half_written(path)
    # Hidden: beside "zoe.md" there may be a file "writing-zoe.md", of a student with that name.
    # A process' own: two kernels keep their marks in one file.
    beside = path.with_name(f".writing-{os.getpid()}-{path.name}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def remove_half_written(path: Path, alone: bool = False) -> None:
    """Remove what writers of a file had half written when they were killed.

    ``alone`` says that nobody else writes: then whoever has a dead writer's number isn't one, and
    who was killed a moment ago may still have theirs.
    """
    half_written = re.compile(rf"\.writing-(\d+)-{re.escape(path.name)}")
    with suppress(OSError):  # a folder that may be written and not listed
        for beside in path.parent.iterdir():
            named = half_written.fullmatch(beside.name)
            if named and (alone or not _is_another_at_work(int(named[1]))):
                beside.unlink(missing_ok=True)


def _is_another_at_work(process: int) -> bool:
    try:
        os.kill(process, 0)  # asks, and does nothing
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        return True
    return process != os.getpid()


def write_whole(path: Path, text: str) -> None:
    """Write a text file, UTF-8, as a whole or not at all."""
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")
