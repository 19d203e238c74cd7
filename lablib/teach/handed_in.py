"""A submission, whoever judges it: the cells of its file."""

import json
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LARGEST = 50 * 2**20  # bytes of a notebook
LONGEST = 2000  # letters of what is told about an exercise
_BETWEEN = re.compile(
    r"^(# ?%%(?!%)(?=[ \t\[]|$).*|# In ?\[[\d ]*\]:.*)\n", flags=re.MULTILINE
)  # the cells of a notebook that was exported as a program


def read_bytes(path: Path) -> bytes:
    """Return what is in a file that was handed in.

    Raises:
        ValueError: it is a link (to another's work, say, or to the references), no file, or large.
    """
    if path.is_symlink():
        raise ValueError(f"it is a link, to {os.readlink(path)}")
    with open(path, "rb", opener=_itself) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no file")
        if found.st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST >> 20} MB")
        return file.read()


def read_cells(path: Path) -> list[dict[str, Any]]:
    """Return the cells of a notebook, or of a ``.py`` file with ``# %%`` or ``# In[1]:`` in it.

    Raises:
        ValueError: it is neither, or a link.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None
    if path.suffix.lower() == ".py":
        return _percent_cells(re.sub("\r\n?", "\n", text))
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is no notebook, or not a whole one") from None
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
        raise ValueError("it is no notebook of format 4")
    return [*notebook["cells"]]


def unreadable(error: Exception, path: Path, name: str) -> str:
    """Return on one line why a file can't be read; ``name`` is what the file is called there."""
    kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
    lines = f"can't be read: {kind}{error}".replace(str(path), name).splitlines()
    return lines[0]


def code_of(cells: Sequence[dict[str, Any]]) -> list[tuple[int, str]]:
    """Return the sources of code cells, each with its cell's number among all cells."""
    return [
        (number, text_of(cell.get("source", "")))
        for number, cell in enumerate(cells)
        if cell.get("cell_type") == "code"
    ]


def text_of(told: str | list[str]) -> str:
    """Return a notebook's text, which may be cut into lines."""
    return told if isinstance(told, str) else "".join(told)  # join makes a list of a text's letters


def clean(text: str) -> str:
    """Return a text without what differs from run to run, or can't be written to a file."""
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text[:LONGEST])
    text = re.sub(r"\S+", _without_folder, text)  # a word at a time: the time is linear
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text.encode("utf-8", "replace").decode("utf-8")


def _without_folder(word: re.Match[str]) -> str:
    return re.sub(r"^.*/lablib-(\d+-)?\w{8}", "…", word[0])


def _percent_cells(text: str) -> list[dict[str, Any]]:
    """Return the cells of a notebook that was exported as a program."""
    cells, kind = [], "code"
    for part in _BETWEEN.split(text):
        if re.match(r"# ?%%|# In ?\[", part):
            kind = "markdown" if "[markdown]" in part or "[md]" in part else "code"
        elif part.strip():
            cells.append({"cell_type": kind, "source": part})
    return cells


def _itself(path: str, flags: int) -> int:
    """Open a file, and no link that took its place since somebody looked; wait at no pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
