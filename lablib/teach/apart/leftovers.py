"""Folders of students' processes, and of those whose grading was killed before it removed them.

Where there are no walls a student's code may nest folders deeper than ``shutil.rmtree`` calls
itself, or leave a million files: ``rm`` minds neither, and nobody waits for it.
"""

import os
import re
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

AGE = 3600.0  # seconds: where process ids mean something else, in a container, it may live on
_at_work: list[subprocess.Popen] = []


def prefix() -> str:
    """Return how a folder's name begins that this process will remove."""
    return f"lablib-{os.getpid()}-"


def remove(process: int) -> None:
    """Remove the folders of a process that has just been ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"lablib-{process}-????????"):
        discard(folder)


def discard(folder: str | Path) -> None:
    """Remove a folder: at once if it is empty, as those behind walls are, or else before long."""
    try:
        os.rmdir(folder)
    except OSError:
        _at_work[:] = [each for each in _at_work if each.poll() is None]
        silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        command = ["rm", "-rf", "--", str(folder)]
        with suppress(OSError):  # a system without it: the folder stays
            _at_work.append(subprocess.Popen(command, start_new_session=True, **silent))


def sweep() -> None:
    """Remove this user's folders whose process is dead, and which nobody changed for an hour."""
    for folder in Path(tempfile.gettempdir()).glob("lablib-*-*"):
        named = re.fullmatch(r"lablib-(\d+)-\w{8}", folder.name)
        try:
            about = folder.lstat()
        except OSError:  # gone meanwhile
            continue
        old = about.st_uid == os.getuid() and time.time() - about.st_mtime > AGE
        if named and old and not folder.is_symlink() and not _lives(int(named[1])):
            discard(folder)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's
        pass
    return True
