"""Opens JupyterLab on a student's copy of the lessons: the ``lab`` command."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from lablib.course.working_copy import course_of, notebooks_folder, working_copy
from lablib.extras import need
from lablib.folders import FIRST_LESSON
from lablib.machine.doctor import doctor
from lablib.validation import BadValue

_START_SECONDS = 90
_PORTS = range(8888, 8988)


def lab(
    *,
    folder: str | Path | None = None,
    course: str | Path | None = None,
    update: bool = False,
    open_browser: bool = True,
    port: int | None = None,
) -> int:
    """Check the machine, start JupyterLab on lesson 00, and open or print its address.

    Args:
        folder: where the student's copy of the lessons is, or will be made; ``lablib-lessons`` in
            the home folder when ``None``. The course's own notebooks stay as they are.
        course: the folder of lessons that it is a copy of, ``student`` of an assessment say: no
            other lesson lies beside them. When ``None`` the one that this copy was made from.
        update: bring new lessons, and newer versions of those that are there, into the copy.
        open_browser: False only prints the address, as on a machine without a display.
        port: where to listen; by default the first free one from 8888.

    Returns:
        The server's exit status, once it is stopped: with Ctrl-C, by SIGTERM or by SIGHUP.

    Raises:
        ValueError: the copy can't be written, or has no course; the line says what to do.
        ImportError: JupyterLab is not installed; likewise.
    """
    need("the lessons", "jupyterlab", "ipywidgets", "matplotlib")
    own = _course(course, folder)
    copy = working_copy(own or notebooks_folder(), folder, update, named=own is not None)
    print(doctor(), copy, sep="\n\n", flush=True)
    token = secrets.token_hex(16)
    environment = _environment(token, copy.folder)
    with _ended_like_ctrl_c():
        for each in [port] if port else _PORTS:
            if not _is_free(each):
                continue
            server = subprocess.Popen(_command(copy.folder, each), env=environment)
            try:
                if _wait(server, f"http://127.0.0.1:{each}/api/status?token={token}"):
                    url = f"http://127.0.0.1:{each}/{_first(copy.folder)}?token={token}"
                    opened = open_browser and _has_display() and webbrowser.open(url)
                    word = "Opened" if opened else "Open"
                    print(f"\n  {word} {url}\n  Stop with Ctrl-C.\n", flush=True)
                elif server.poll() is not None and not _is_free(each):
                    continue  # another program was quicker to take the port
                return server.wait()
            except KeyboardInterrupt:
                server.terminate()
                return server.wait()
    tried = port or f"{_PORTS[0]} to {_PORTS[-1]}"
    raise BadValue(f"port must be free, and {tried} is taken: pass another (--port)")


def _course(course: str | Path | None, folder: str | Path | None) -> Path | None:
    """Return the course of one's own that is named, or that the copy was made from, if any."""
    if course is None:
        return course_of(folder)
    if folder is None:
        raise BadValue("folder must be named where course is (--folder FOLDER), got none")
    found = Path(os.path.expanduser(course))
    if not any(found.glob("*.ipynb")):
        raise BadValue(f"course must be a folder of lessons, got {str(course)!r}")
    return found


def _first(folder: Path) -> str:
    """Return the address of the lesson to open: lesson 00, or else the first there is.

    It opens alone, the list of files closed: a lesson needs the width, has links to its neighbours,
    and the list is one click away, where it stays if a student opens it.
    """
    lessons = sorted(path.name for path in folder.glob("*.ipynb"))
    name = FIRST_LESSON if FIRST_LESSON in lessons else next(iter(lessons), None)
    return "lab" if name is None else f"doc/tree/{quote(name)}"


def _command(folder: Path, port: int) -> list[str]:
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser"),
        f"--port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={folder}",
        "--log-level=WARN",
    ]
    # Jupyter refuses to run as root unless told; a container or a classroom server often is.
    return command + (["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else [])


def _environment(token: str, folder: Path) -> dict[str, str]:
    # The token travels in the environment: an argument could be read by every user of the machine.
    # Our labconfig switches off the debugger, which no lesson uses, and the pop-up that asks about
    # news, which would cover the lesson.
    ours = str(Path(__file__).parent / "jupyter")
    paths = [ours, *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    places = {} if os.access(os.path.expanduser("~"), os.W_OK) else _homeless(folder)
    named = {"JUPYTER_TOKEN": token, "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}
    return places | os.environ | named


def _homeless(folder: Path) -> dict[str, str]:
    """Return where Jupyter and its kernels keep their own files if the home can't be written."""
    hidden = folder / ".jupyter"
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    return {name: str(hidden / name.lower()) for name in (*names, "MPLCONFIGDIR")}


def _wait(server: subprocess.Popen, status_url: str) -> bool:
    """Return whether the server answers before it ends or the time is over."""
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(status_url, timeout=2):
                return True
        except OSError:
            time.sleep(0.2)
    return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Take SIGTERM, and SIGHUP of a closed terminal, for Ctrl-C: no JupyterLab is left behind."""
    ends = [signal.SIGTERM, signal.SIGHUP]
    before = [signal.signal(each, signal.default_int_handler) for each in ends]
    try:
        yield
    finally:
        for each, handler in zip(ends, before, strict=True):
            signal.signal(each, handler)


def _has_display() -> bool:
    if sys.platform != "linux":
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
