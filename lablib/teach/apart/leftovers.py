"""Folders of students' processes whose grading was killed before it could remove them."""

import os
import re
import shutil
import tempfile
import time
from pathlib import Path

AGE = 3600.0  # seconds: where process ids mean something else, in a container, it may live on


def prefix() -> str:
    """Return how a folder's name begins that this process will remove."""
    return f"lablib-{os.getpid()}-"


def remove(process: int) -> None:
    """Remove the folders of a process that has just been ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"lablib-{process}-????????"):
        shutil.rmtree(folder, ignore_errors=True)


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
            shutil.rmtree(folder, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's
        pass
    return True
