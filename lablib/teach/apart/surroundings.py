"""The files and the environment that a student's process may see. Both are lists of needs."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import lablib
from lablib.machine import backend
from lablib.teach.apart.sandbox import SYSTEM

# Of the teacher's environment: where programs and libraries lie, the language and the time zone.
KEPT = (
    *("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ"),
)
# What Python needs of the folder that it lies in; the last two where it is a framework of macOS.
# Settings, passwords, other environments and whole courses may lie beside these.
NEEDED = ("bin", "lib", "lib32", "lib64", "pyvenv.cfg", "Python", "Resources")
ACTIVATE = "bin/*activate*"  # people add passwords to it
# Two runs see sets in the same order, on one processor, and nothing opens a window.
OURS = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "LABLIB_THREADS": "1",
    "MPLBACKEND": "Agg",
    "PYTHONHASHSEED": "0",
}


def environment(folder: str) -> dict[str, str]:
    """Return the environment of a process whose home is a folder."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    # What this process found, as nothing can be looked for, or made, in a home that is empty.
    found = backend.blas().settings()
    return {**kept, **OURS, **found, "HOME": folder, "TMPDIR": folder, "USER": "student"}


def seen() -> list[str]:
    """Return the files and folders that it can see: Python, packages, lablib and the system's."""
    packages = {path for path in sys.path if path.endswith("-packages")}
    libraries = [path for path in backend.blas().settings().values() if os.path.isabs(path)]
    ours = {*_folders(lablib.__path__), *libraries}
    python = os.path.realpath(sys.executable)
    needed = [os.path.join(base, name) for base in _bases() for name in NEEDED]
    return sorted({*SYSTEM, *needed, *packages, *ours, python})


def hidden() -> list[str]:
    """Return what it can't see in there: the references, and what else lies in a checkout."""
    checkouts = [os.path.dirname(path) for path in _folders(lablib.__path__)]
    outside = [path for path in checkouts if not path.endswith("-packages")]
    solved = [os.path.join(path, "notebooks") for path in _packages()]  # with what solution showed
    activate = [str(path) for base in _bases() for path in Path(base).glob(ACTIVATE)]
    return [*outside, *solved, *activate, *references()]


def references() -> list[str]:
    """Return the files that hold the references, and the folders of their compiled copies."""
    found = [
        file
        for folder in _packages()
        for file in Path(folder, "course", "lessons").glob("lesson_*/exercises*.py")
    ]
    both = (str(path) for file in sorted(found) for path in (file, file.parent / "__pycache__"))
    return [*dict.fromkeys(both)]


def _packages() -> set[str]:
    """Return every lablib that is installed where a student can see it, this one among them."""
    found = {os.path.join(p, "lablib") for p in sys.path if p.endswith("-packages")}
    for base in {*_bases(), "/usr", "/usr/local"}:
        found |= {str(p) for p in Path(base).glob("lib*/python*/*-packages/lablib")}
    return {*_folders(lablib.__path__), *found}


def _bases() -> set[str]:
    """Return the folders that Python's files lie in."""
    return {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}


def _folders(paths: Iterable[str]) -> list[str]:
    return [os.path.abspath(path) for path in paths]
