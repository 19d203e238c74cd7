"""The command line, as a newcomer types it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from lablib import __main__, folders, installed
from lablib.course import lab, working_copy
from lablib.machine import backend
from lablib.tools import training
from lablib.tools.demo import demo

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments: str, options: tuple = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-m", "lablib", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_doctor_prints_a_table_and_its_status_says_whether_all_is_well() -> None:
    result = run("doctor")
    assert "GFLOP/s" in result.stdout
    assert result.returncode == (0 if "none: all is well" in result.stdout else 1)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("train", "giant"), "name must be one of"),
        (("demo", "--seed", "-1"), "seed must be at least 0"),
        (("nonsense",), "invalid choice"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(arguments, expected, capsys):
    with pytest.raises(SystemExit) as ended:
        sys.exit(__main__.main(arguments))
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err.splitlines()[-1]


def test_before_the_install_the_command_says_how_to_install() -> None:
    done = run(options=("-S",))  # as if nothing were installed
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert " has no numpy" in line
    assert line.endswith((installed.HOW, "/.venv/bin/python in place of python"))


def test_what_is_missing_later_or_too_old_is_said_likewise(monkeypatch, capsys, tmp_path) -> None:
    def forget(_):
        raise ModuleNotFoundError("No module named 'mlx'", name="mlx")

    monkeypatch.setattr(__main__, "_doctor", forget)
    assert __main__.main(["doctor"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert " has no mlx" in line
    clone = tmp_path / "lablib"
    monkeypatch.setattr(installed, "__file__", str(clone / "lablib" / "installed.py"))
    missing = ModuleNotFoundError("No module named 'mlx'", name="mlx")
    assert " has no mlx; in the clone, once: " in installed.complaint(missing)
    there = clone / ".venv" / "bin" / "python"
    there.parent.mkdir(parents=True)
    there.touch()
    assert installed.complaint(missing).endswith(f": write {there} in place of python")
    monkeypatch.setattr(sys, "executable", str(there))
    assert " has no mlx; in the clone, once: " in installed.complaint(missing)
    ours = ModuleNotFoundError("No module named 'lablib.x'", name="lablib.x")
    assert installed.complaint(ours) == installed.complaint(ValueError("x")) == ""
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    assert "older than 3.11" in installed.complaint(TypeError("not subscriptable"))


def test_demo_streams_two_stories_and_a_vote(capsys: pytest.CaptureFixture[str]) -> None:
    demo(seed=0, pace=0)
    printed = capsys.readouterr().out
    assert printed.count("The checker says: ") == 2
    assert printed.count("  right") <= 1
    counts = [int(n) for n in re.findall(r"█ (\d+)", printed)]
    assert sum(counts) == 64
    assert "\x1b" not in printed  # no colour codes in a pipe


@pytest.mark.grid(lambda end: end == signal.SIGINT)
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_lab_serves_the_first_lesson_and_leaves_no_jupyterlab_behind(end, tmp_path):
    command = [sys.executable, "-m", "lablib", "lab", "--no-browser", "--folder", str(tmp_path)]
    own = {"cwd": ROOT, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    server = subprocess.Popen(command, **own)
    try:
        printed = ""
        while not (url := re.search(r"Open (http://127\.0\.0\.1:\d+/\S+)", printed)):
            line = server.stdout.readline()
            assert line, f"the server ended: {printed}"
            printed += line
        assert folders.FIRST_LESSON in url[1]
        assert f"Your lessons: {tmp_path}" in printed
        with urllib.request.urlopen(url[1], timeout=30) as page:
            html = page.read().decode()
        assert "JupyterLab" in html
        for off in ("apputils-extension:announcements", "debugger-extension"):
            assert re.search(rf'"disabledExtensions": [^}}]*"@jupyterlab/{off}"', html), off
        assert '"mode": "single-document"' in html  # in which the list of files begins closed
        base, token = url[1].split("/doc/")[0], url[1].split("token=")[1]
        lesson = f"{base}/api/contents/{folders.FIRST_LESSON}?content=0&token={token}"
        with urllib.request.urlopen(lesson, timeout=30) as answer:
            assert answer.status == 200
    finally:
        # A terminal tells all of its processes of Ctrl-C; who kills, or closes it, one of them.
        (os.killpg if end == signal.SIGINT else os.kill)(server.pid, end)
        try:
            server.wait(30)
            with pytest.raises(ProcessLookupError):
                os.killpg(server.pid, 0)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


def test_lab_without_lessons_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "lablib" / "folders.py"))
    with pytest.raises(ValueError, match="install lablib anew"):
        working_copy.notebooks_folder()


@pytest.mark.parametrize("inside", [True, False])
def test_the_lessons_are_in_the_package_or_beside_it(inside, tmp_path, monkeypatch):
    """A wheel has them inside; a checkout, which an editable install leads to, beside."""
    package = tmp_path / "lablib"
    lessons = (package if inside else tmp_path) / "notebooks"
    lessons.mkdir(parents=True)
    (lessons / folders.FIRST_LESSON).touch()
    monkeypatch.setattr(folders, "__file__", str(package / "folders.py"))
    assert working_copy.notebooks_folder() == lessons.resolve()


@pytest.fixture
def no_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither ask the machine nor copy the lessons."""
    made = working_copy.WorkingCopy(tmp_path, made=False)
    monkeypatch.setattr(lab, "doctor", lambda: "fine")
    monkeypatch.setattr(lab, "working_copy", lambda *_, **__: made)


@pytest.mark.parametrize("wanted", [None, 8899])
def test_ports_that_are_all_taken_are_an_error(wanted, monkeypatch, no_copy):
    monkeypatch.setattr(lab, "_is_free", lambda port: False)
    with pytest.raises(ValueError, match=f"port must be free, and {wanted or '8888 to 8987'} is"):
        lab.lab(open_browser=False, port=wanted)


def test_a_port_that_another_program_takes_first_is_left_to_it(monkeypatch, no_copy):
    """Two labs that start together both see 8888 free, and one of them is later."""
    taken, begun = set(), []

    class Server:
        def __init__(self, command: list[str], env: dict[str, str]) -> None:
            begun.append(int(command[4].partition("=")[2]))
            self.late = len(begun) == 1
            taken.add(begun[-1])

        def poll(self) -> int | None:
            return 1 if self.late else None

        def wait(self) -> int:
            return 1 if self.late else 0

    monkeypatch.setattr(lab, "_is_free", lambda port: port not in taken)
    monkeypatch.setattr(lab, "_wait", lambda server, url: not server.late)
    monkeypatch.setattr(lab.subprocess, "Popen", Server)
    assert lab.lab(open_browser=False) == 0
    assert begun == [8888, 8889]


def test_the_default_command_is_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(lab, "lab", lambda **options: started.append(options) or 0)
    monkeypatch.setattr(sys, "argv", ["lablib"])
    assert __main__.main() == 0
    asked = dict.fromkeys(("port", "folder", "course"))
    assert started == [{"open_browser": True, "update": False, **asked}]


TWO = ("--threads", "2")
THREADS = [((), None, "1"), ((), "3", "3"), (TWO, None, "2"), (TWO, "3", "2")]


@pytest.mark.parametrize(("option", "variable", "threads"), THREADS)
def test_training_starts_over_once_with_the_threads_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: tuple, variable: str, threads: str
) -> None:
    """The option, else the variable, else the one thread of the shipped checkpoints."""
    started, trained = [], []
    monkeypatch.delenv("LABLIB_THREADS", raising=False)
    if variable:
        monkeypatch.setenv("LABLIB_THREADS", variable)
    monkeypatch.setattr(backend, "threads", lambda: 99)

    def start(program: str, arguments: list[str]) -> None:
        started.append((arguments[1:], os.environ["LABLIB_THREADS"]))
        monkeypatch.setattr(backend, "threads", lambda: int(threads))
        __main__.main(arguments[3:])

    monkeypatch.setattr(os, "execv", start)
    monkeypatch.setattr(training, "train", lambda *a, **o: trained.append((a, o)))
    arguments = ["train", "draft", "--out", str(tmp_path), *option]
    assert __main__.main(arguments) == 0
    once = [(["-m", "lablib", *arguments], threads)] if variable != threads else []
    assert started == once
    assert trained[0] == (("draft", tmp_path / "draft"), {"models": tmp_path})
