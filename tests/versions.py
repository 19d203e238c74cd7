"""Runs the engine's rooms, in their first tier, on each other Python of this machine.

The first one gets the lowest mlx and mlx-lm that pyproject.toml allows; else they are [lab]'s.

``python3 tests/versions.py`` makes an environment of its own for each, prints the last line of each
run, or its end if it fails, and fails if one fails. A run that takes long is stopped, and its line
says so. The README's command tests this Python, with the lessons and the classroom.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from standalone import ROOT, environment, pythons, run

SUITE = ["-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
# Seconds: the rest of an hour needs its time, too.
BEGINS = 2 * 60  # after which no further Python is begun
ENDS = 120  # after which a Python's suite is stopped: a slow machine tries a part of it
ROOMS = (
    "async_lm", "cache", "models", "sampling", "speculation", "speculation_greedy", "steering",
    "tokens", "voting",
)  # fmt: skip


def others(accepted: str) -> dict[str, Path]:
    """Return the Pythons of this machine by version, but for the version that runs this."""
    ask = "import platform; print(platform.python_version())"
    found = {run([each, "-c", ask], ROOT).strip(): each for each in pythons(accepted)}
    here = ".".join(map(str, sys.version_info[:2])) + "."
    return {version: each for version, each in found.items() if not version.startswith(here)}


def lowest(lines: Iterable[str]) -> list[str]:
    """Return requirements of the lowest mlx and mlx-lm that dependencies allow."""
    found = (re.match(r"(mlx\S*)>=([\d.]+),", line) for line in lines)
    return [f"{each[1]}=={each[2]}" for each in found if each]


def files() -> list[str]:
    """Return the files of the rooms in turn: who is stopped has tried some of each room."""
    rooms = (sorted((ROOT / "tests" / room).glob("test_*.py")) for room in ROOMS)
    return [str(file) for turn in zip_longest(*rooms) for file in turn if file]


def suite(python: Path, folder: Path, *more: str, instead: Sequence[str] = ()) -> tuple[int, str]:
    """Install the checkout with its tests in ``folder``, run them, return the exit code and text.

    Args:
        python: what the environment is made of.
        folder: where it is made; it must exist.
        *more: which tests; those of the engine by default.
        instead: requirements that replace what is installed.
    """
    inside = environment(python, folder / "environment")
    install = [inside, "-m", "pip", "install", "-q", "--no-compile"]
    run([*install, "--editable", f"{ROOT}[test]"], folder)
    if instead:
        run([*install, *instead], folder)
    asked = more or files()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    with subprocess.Popen(
        [inside, *SUITE, *asked], cwd=ROOT, env=clean, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as running:  # fmt: skip
        try:
            said, _ = running.communicate(timeout=ENDS)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)  # pytest tells what it has found
            said, _ = running.communicate()
            closing = said.rstrip().splitlines()[-1]
            wrong = "failed" in closing or "error" in closing or "passed" not in closing
            return int(wrong), f"{said.rstrip()} (a part: stopped after {ENDS / 60:g} minutes)"
    return running.returncode, said


def main(*more: str) -> int:
    """Print a line for each Python; return 1 if one failed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    failed, start = 0, time.monotonic()
    newest_first = reversed(others(project["requires-python"]).items())
    instead = lowest(project["dependencies"])
    for version, python in newest_first:
        if (passed := time.monotonic() - start) > BEGINS:
            print(f"Python {version}: not begun, as {passed / 60:.0f} minutes are over", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                wrong, said = suite(python, Path(folder), *more, instead=instead)
            except Exception as error:  # whatever it is, the others are tried
                wrong, said = 1, str(error)
        failed |= bool(wrong)
        lines = said.rstrip().splitlines()[-200 if wrong else -1 :]
        name = ", ".join([f"Python {version}", *instead])
        print(f"{name}:", *lines, sep="\n" if wrong else " ", flush=True)
        instead = []
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
