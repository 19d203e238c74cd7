"""Tries the wheel as a stranger would: alone, outside the checkout, in an empty environment.

``python3 tests/standalone.py`` does so for each Python that this machine has and pip accepts, and
with JupyterLab for the oldest and the newest: a minute each. It prints a line for each, and fails
if one fails. It needs only Python 3.11 and a registry for pip.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 600  # seconds for one command
NOT_OURS = shutil.ignore_patterns(".*", "build", "runs", "*.egg-info", "__pycache__")

SHOWN = ("README.md", "docs/library.md")  # whose Python a plain install runs, to its last line
ENGINE = "import lablib; print(lablib.__version__, lablib.__file__)"


def pythons(accepted: str) -> Iterator[Path]:
    """Yield a Python of each minor version that ``accepted`` allows (">=3.11,<3.15")."""
    low, high = map(int, re.findall(r"3\.(\d+)", accepted))
    for minor in range(low, high):
        kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"), reverse=True)
        found = [shutil.which(f"python3.{minor}"), *kept, sys.executable]
        right = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, {minor}))"
        works = (
            Path(python)
            for python in filter(None, found)
            if subprocess.run([python, "-c", right], capture_output=True).returncode == 0
        )
        yield from [*works][:1]


def run(command: list[str | Path], where: Path, **more: str) -> str:
    """Run a command and return what it printed.

    Raises:
        RuntimeError: it failed; with the end of what it said.
    """
    # Nobody's settings, nobody's modules; a home, and the registry that pip knows.
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    how = {"capture_output": True, "text": True, "timeout": LIMIT}
    done = subprocess.run(command, cwd=where, env=ours | more, **how)
    if done.returncode:
        said = (done.stdout + done.stderr)[-2000:]
        began = " ".join(map(str, command[:4]))
        raise RuntimeError(f"{began} … ended with {done.returncode}\n{said}")
    return done.stdout


def environment(python: Path, folder: Path) -> Path:
    """Make an empty environment, and return its Python."""
    run([python, "-m", "venv", folder], folder.parent)
    return folder / "bin" / "python"


def build(python: Path, folder: Path) -> Path:
    """Build the sdist, and from it the wheel, of a copy of the checkout; return the wheel."""
    shutil.copytree(ROOT, folder / "source", ignore=NOT_OURS)
    inside = environment(python, folder / "builder")
    run([inside, "-m", "pip", "install", "-q", "build"], folder)
    run([inside, "-m", "build", "-o", folder / "dist", folder / "source"], folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def example(page: str) -> str:
    """Return the Python that a page shows."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    return code


def serves(python: Path, folder: Path) -> None:
    """Open the lab on a copy of the lessons, and close it."""
    command = [python, "-m", "lablib", "lab", "--no-browser", "--folder", folder / "mine"]
    server = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True, env=os.environ | {"JUPYTER_RUNTIME_DIR": str(folder / "runtime")},
    )  # fmt: skip
    late = threading.Timer(LIMIT, os.killpg, (server.pid, signal.SIGKILL))
    late.start()
    try:
        opened = any(line.startswith("  Open ") for line in iter(server.stdout.readline, ""))
    finally:
        late.cancel()
        try:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGINT)
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            raise
    if not opened or not (folder / "mine" / "00_start_here.ipynb").exists():
        raise RuntimeError("the lab did not open")


def grades(python: Path, folder: Path) -> None:
    """Hand in lesson 00 with the references in it: every mark must be right."""
    lablib = [python, "-m", "lablib"]
    handed_in = folder / "class" / "ada" / "00_start_here.ipynb"
    handed_in.parent.mkdir(parents=True)
    run([*lablib, "solve", folder / "mine" / "00_start_here.ipynb", "-o", handed_in], folder)
    report = run([*lablib, "grade", "class"], folder)
    if "3 of 3 ✓" not in report:
        raise RuntimeError(f"a solved lesson 00 was not marked as right:\n{report}")


def tried(python: Path, wheel: Path, folder: Path, lab: bool) -> str:
    """Install the wheel alone, use it, in the end with its ``lab``, and return a line about it."""
    folder.mkdir()
    version = run([python, "-c", "import platform; print(platform.python_version())"], folder)
    start = time.monotonic()
    inside = environment(python, folder / "environment")
    install = [inside, "-m", "pip", "install", "-q", "--no-compile"]
    run([*install, wheel], folder)
    ready = time.monotonic()
    for page in SHOWN:
        run([inside, "-c", example(page)], folder)
    said = run([inside, "-c", ENGINE], folder)
    if str(folder.resolve()) not in said:
        raise RuntimeError(f"this is not the installed lablib: {said}")
    run([inside, "-m", "lablib", "demo"], folder)
    engine = time.monotonic()
    line = (
        f"Python {version.strip()}: installed in {ready - start:.0f} s; demo and what the pages "
        f"show in {engine - ready:.0f} s"
    )
    if not lab:
        return line
    run([*install, f"{wheel}[lab]"], folder)
    serves(inside, folder)
    grades(inside, folder)
    return f"{line}; [lab], a graded lesson in {time.monotonic() - engine:.0f} s"


def main() -> int:
    """Print a line for each Python; return 1 if one failed."""
    # A shell that runs this in the background has it ignore Ctrl-C, which is what closes the lab.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found, failed = [*pythons(project["requires-python"])], 0
    if not found:
        print("no Python that pip accepts can make an environment here: apt install python3-venv")
        return 1
    ends = found[0], found[-1]
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(2) as pool:
        wheel = build(found[0], Path(place))
        asked = {
            python: pool.submit(tried, python, wheel, Path(place) / f"{n}", python in ends)
            for n, python in enumerate(found)
        }
        for python, answer in asked.items():
            try:
                print(answer.result(), flush=True)
            except Exception as error:  # whatever it is, the others are tried
                failed = 1
                print(f"{python}: {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
