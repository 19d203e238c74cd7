"""What was tried against the walls: a class of attackers, as root and as another user; probes.

None takes a mark, reads or writes what is not its own, or stops the class.
"""

import inspect
import os
import shlex
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lablib
from lablib.__main__ import main
from lablib.course.checks.exercises import exercises
from lablib.course.checks.running import Accident, Gone, TimeUp
from lablib.teach import process as processes
from lablib.teach import walls
from lablib.teach.process import Function, Limits, Process
from lablib.teach.submission import offered

import psutil
import pytest
import submitted

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).parents[2]
NOBODY = 65534  # an ordinary user


@pytest.fixture(autouse=True, scope="module")
def stand():
    """Where tests must run a missing wall is a failure, and no reason to look away."""
    if why := walls.missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)


def asked(function, code, *args, **limits):
    """Return what a student's function answers behind the walls."""
    with Process(Limits(**{"cpu": 20.0, **limits})) as process:
        there, problems = offered(process, [(0, code)], {"f": function})
        assert problems == {}
        return Function(process, there["f"][0], ("f", 0), 60.0)(*args)


# --- a class -----------------------------------------------------------------------------------

NEIGHBOURS = """
import os
def best_token(p):
    for root, _, files in os.walk("/"):
        for file in files:
            if file in ("work.py", "exercises.py", "r.csv") or file.endswith(".ipynb"):
                text = open(os.path.join(root, file), errors="replace").read()
                if "def best_token(" in text:
                    exec(text, space := {"np": np, "check": print})
                    return space["best_token"](p)
    return 0
"""
REMOUNTS = """
import ctypes, os
def best_token(p):
    libc = ctypes.CDLL(None)
    libc.unshare(0x10020000)
    for path in (b"/", os.fsencode(os.path.dirname(np.__file__)), b"/proc", b"/home/student"):
        libc.umount2(path, 2)
        libc.mount(b"none", path, None, 32 | 4096, None)
        libc.mount(b"proc", path, b"proc", 0, None)
    for name, number in (("open_tree", 428), ("move_mount", 429), ("fsopen", 430), ("bpf", 321)):
        if libc.syscall(number, -100, b"/", 1) >= 0:
            return [p.index(max(p)), name]
    for path in ("/proc/1/exe", "/proc/self/exe", "/usr/bin/bwrap"):
        try:
            os.chmod(path, 0o4777)
        except OSError:
            pass
    return 0
"""
# Root owns the devices that a student's process sees. The mode is the one that they have.
DEVICES = """
import os
def best_token(p):
    for name in ("/dev/null", "/dev/zero", "/dev/full"):
        for change in (lambda path: os.chmod(path, 0o666), os.utime):
            try:
                change(name)
            except OSError:
                continue
            return int(np.argmax(p))
    return 0
"""
CHATS = "import os\nwhile True:\n    for number in range(20):\n        try:\n"
CHATS += "            os.write(number, b'{}\\n' * 9999)\n        except OSError:\n            pass"
MANY_FILES = "def best_token(p):\n    for i in range(10**9):\n        open(str(i), 'w').close()"
ATTACKERS = {
    **{name: submitted.CHEATS[name] for name in (
        "patched", "imported_later", "memory", "forged", "equal", "own_check", "read", "unpacked")},
    **{name: submitted.KILLERS[name] for name in (
        "exits", "kills", "forks", "forks_in_c", "hoards_slowly", "writes", "writes_elsewhere",
        "connects", "many", "wire_set", "wire_long_texts", "threads")},
    **{name: submitted.HOGS[name] for name in ("stubborn", "endless_in_c")},
    "neighbours": NEIGHBOURS, "remounts": REMOUNTS, "devices": DEVICES, "chats": CHATS,
    "many_files": MANY_FILES,
}  # fmt: skip


def hand_in(school):
    honest = {"ada": submitted.RIGHT, "zoe": "best_token = lambda p: int(np.argmax(p))\n"}
    for student, text in {**ATTACKERS, **honest}.items():
        path = school / student / "work.py"
        path.parent.mkdir(parents=True)
        path.write_text(f"import numpy as np\n{text}\n# %%\ncheck('00.1', best_token)\n")
    (school / "linked").mkdir()
    (school / "linked" / "work.py").symlink_to("../ada/work.py")
    (school / "reference.py").symlink_to(inspect.getsourcefile(exercises("00")[0].reference))


def as_user(user, command):
    """Return a command as a user runs it: for an ordinary one Python is laid open."""
    if user == "root":
        return command if os.getuid() == 0 else None
    if os.getuid():
        return command
    opened = []
    python = Path(os.path.realpath(sys.executable))
    closed = [p for p in python.parents if not p.stat().st_mode & stat.S_IXOTH]
    if closed:  # root's own home: in a namespace of one's own another one is put over it
        home, base = closed[-1], Path(sys.base_prefix)
        quoted = shlex.quote(str(base))
        opened += [f"mount --bind {quoted} /mnt", f"mount -t tmpfs -o mode=755 none {home}"]
        opened += [f"mkdir -p {quoted}", f"mount --move /mnt {quoted}"]
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
    return ["unshare", "-m", "sh", "-ec", "; ".join([*opened, f"exec {shlex.join(drop)}"])]


@pytest.fixture
def everyones():
    """A folder that another user reaches: pytest's own are closed, again with each new session."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("user", [pytest.param("root", marks=pytest.mark.slow), "an ordinary user"])
def test_a_class_of_attackers_costs_the_honest_nothing(user, everyones):
    tmp_path = everyones
    school, out = tmp_path / "school", tmp_path / "out"
    hand_in(school)
    out.mkdir()
    out.chmod(0o777)
    mine = {path: path.lstat().st_mtime_ns for path in school.rglob("*")}
    guarded = [Path(lablib.__file__), Path("/usr/bin/bwrap"), Path(sys.executable)]
    before = [(path.stat().st_mtime_ns, path.stat().st_mode) for path in guarded]
    options = ["--csv", str(out / "r.csv"), "--cpu", "0.8", "--seconds", "15"]
    grade = [sys.executable, "-P", "-B", "-m", "lablib", "grade", str(school), *options]
    command = as_user(user, grade)
    if command is None:
        pytest.skip("this is no root")
    environment = {**os.environ, "HOME": str(out)}
    began = time.monotonic()
    done = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 180
    rows = [line.split(",") for line in (out / "r.csv").read_text("utf-8-sig").splitlines()[1:]]
    marks = {row[0]: row[3] for row in rows if row[2] in ("00.1", "-")}
    assert {student for student, mark in marks.items() if mark == "✓"} == {"ada", "zoe"}
    assert {*marks} == {*ATTACKERS, "ada", "zoe", "linked", "reference"}
    assert mine == {path: path.lstat().st_mtime_ns for path in school.rglob("*")}
    assert before == [(path.stat().st_mtime_ns, path.stat().st_mode) for path in guarded]
    left = [each for each in psutil.process_iter(["cmdline"]) if str(school) in str(each.info)]
    assert psutil.wait_procs(left, timeout=5)[1] == []


# --- probes ------------------------------------------------------------------------------------


LOOK = """
import glob, os, sys
def look(paths, words):
    found = []
    for path in paths:
        if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
            found.append(path)
    roots = [root for root in os.listdir("/") if root not in ("proc", "sys", "usr", "nix")]
    for root in roots:
        for folder, _, files in os.walk("/" + root):
            if os.path.basename(folder) in (".git", ".venv", "site-packages"):
                found += [folder] * (os.path.basename(folder) == ".git")
                continue
            for file in files:
                path = os.path.join(folder, file)
                kept = file.endswith((".pack", ".ipynb")) or "/exercises" in path
                others = "-packages/" in path or "/checks/" in path
                if kept and not others and os.path.getsize(path):
                    found.append(path)
    return found
"""


def test_the_references_are_in_no_file_that_can_be_found(tmp_path):
    """Nor the repository, nor a home, nor what lies among temporary files."""
    root = ROOT
    (tmp_path / "secret").write_text("x")
    paths = [root / ".git", root / "tests", root / "notebooks", Path.home() / ".ssh", tmp_path]
    paths += [Path.home() / ".bashrc", "/etc/passwd", "/var", "/run"]
    assert asked("look", LOOK, [*map(str, paths)], []) == []


def test_the_repository_is_not_there():
    """Whoever unpacks its objects with zlib has all references."""
    root = ROOT / ".git"
    code = "import os\ndef f(path):\n    return sum(len(files) for _, _, files in os.walk(path))"
    assert asked("f", code, str(root)) == 0


PRIVATE = [  # each of them holds passwords or solutions somewhere
    "pip.conf", ".condarc", "condarc.d/work.yml", "conda-meta/state", "bin/activate", ".env",
    "etc/conda/activate.d/env_vars.sh", "local/etc/jupyter/nbgrader_config.py",
    "bin/postactivate", "share/jupyter/kernels/lab/kernel.json", "pkgs/urls.txt",
    "src/tool/.git/config", "envs/other/lib/python3.12/site-packages/lablib/notebooks/00.ipynb",
    "local/lib/python3.11/dist-packages/lablib/course/lessons/lesson_00/exercises.py",
    "lib/python3/dist-packages/lablib/notebooks/00_start_here.ipynb",
    "lib/python3.11/site-packages/lablib/course/lessons/lesson_00/exercises.py",
    "share/course/roster.csv", "solved/00_start_here.ipynb", "submitted/ann/00_start_here.ipynb",
]  # fmt: skip
OPEN = ["bin/python", "lib/python3.12/os.py", "lib64/libopenblas.so.0", "pyvenv.cfg"]


@pytest.mark.parametrize("name", [*PRIVATE, *OPEN])
def test_of_pythons_folder_is_shown_what_it_needs(name, tmp_path, monkeypatch):
    """Passwords, other lablibs and a whole course may lie in there."""
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    rules = dict(walls.rules(walls.seen(), walls.hidden()))
    nearest = next((str(p) for p in [path, *path.parents] if str(p) in rules), None)
    assert rules.get(nearest, False) == (name in OPEN)


def test_an_installed_lablib_keeps_its_recorded_lessons_to_itself(tmp_path, monkeypatch):
    """They lie in the package, and show what ``solution`` says."""
    package = tmp_path / "site-packages" / "lablib"
    monkeypatch.setattr(lablib, "__path__", [str(package)])
    assert str(package / "notebooks") in walls.hidden()


def test_the_environment_is_a_list(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("SOMETHING_NEW", "secret")
    code = "import os\ndef f(x):\n    return [*os.environ.items()]"
    found = dict(asked("f", code, 0))
    assert "secret" not in found.values()
    assert {"AWS_SECRET_ACCESS_KEY", "SOMETHING_NEW"}.isdisjoint(found)
    assert found["HOME"] != os.environ.get("HOME")
    assert asked("f", "import os\ndef f(x):\n    return os.listdir('/proc')", 0) == []


KEEPS = """
import ctypes, errno, mmap, os, platform, socket
def tried():
    found, libc = [], ctypes.CDLL(None, use_errno=True)
    machine = platform.machine()
    if machine == "x86_64":  # fork as a program of 32 bits calls it, and as one of x32 does
        for code in ("b802000000cd80c3", "b8390000400f05c3"):
            page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            page.write(bytes.fromhex(code))
            where = ctypes.addressof(ctypes.c_char.from_buffer(page))
            me, made = os.getpid(), ctypes.CFUNCTYPE(ctypes.c_int)(where)()
            if os.getpid() != me:
                os._exit(0)
            found += ["another way to fork"] * (made > 0)
    secret = libc.syscall(447, 0)
    found += ["memfd_secret"] * (secret >= 0)
    try:
        found += ["memfd"] * (os.memfd_create("kept") >= 0)
    except OSError:
        pass
    found += ["shmget"] * (libc.shmget(0, ctypes.c_size_t(2**28), 0o1600) >= 0)
    found += ["unshare"] * (libc.unshare(0x20000) >= 0)
    numbers = {  # semaphores, messages (both kinds), rings, programs, keys: of the kernel's memory
        "x86_64": {"semget": 64, "msgget": 68, "io_uring": 425, "bpf": 321, "keyctl": 250},
        "aarch64": {"semget": 190, "msgget": 186, "io_uring": 425, "bpf": 280, "keyctl": 219},
    }
    room = ctypes.create_string_buffer(256)
    given = {"semget": (0, 100, 384), "msgget": (0, 384), "io_uring": (8, room)}
    for name, number in numbers.get(machine, {}).items():
        ctypes.set_errno(0)
        made = libc.syscall(number, *given.get(name, (0, -3, 0)))
        found += [name] * (made >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS))
    sockets = []
    try:
        while len(sockets) < 2000:
            sockets += socket.socketpair()
        found.append("sockets")
    except OSError:
        del sockets
    return found
"""


def test_nothing_is_kept_that_no_limit_counts():
    """Neither processes, started in a way of their own, nor memory that belongs to no process."""
    assert asked("tried", KEEPS) == []


def test_what_is_shown_by_two_names_is_hidden_by_both(tmp_path, monkeypatch):
    """/lib was a second way to /usr/lib, on which references lay open."""
    real, link = tmp_path / "usr", tmp_path / "other"
    (real / "in").mkdir(parents=True)
    link.symlink_to(real)
    (real / "in" / "reference.py").write_text("42")
    (real / "in" / "open.py").write_text("43")
    shown = [*walls.seen(), str(real), str(link)]
    monkeypatch.setattr(walls, "seen", lambda: shown)
    code = """
def f(paths):
    found = []
    for path in paths:
        try:
            found.append(open(path).read())
        except OSError:
            found.append("")
    return found
"""
    places = [
        str(name / "in" / file) for name in (real, link) for file in ("reference.py", "open.py")
    ]
    found = asked("f", code, places, hide=(str(real / "in" / "reference.py"),))
    assert found == ["", "43", "", "43"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_threads_has_its_semaphores_in_its_own_folder(method):
    """It was wrong without them: multiprocessing.pool.ThreadPool makes one, and no process."""
    code = """
import multiprocessing, os
from multiprocessing.pool import ThreadPool
from multiprocessing.shared_memory import SharedMemory
def f(numbers, method):
    multiprocessing.set_start_method(method, force=True)
    with ThreadPool(4) as pool:
        found = pool.map(abs, numbers)
    shared = SharedMemory(create=True, size=3)
    shared.buf[:] = bytes(found)
    other = SharedMemory(shared.name)
    found = [*other.buf[:3]]
    shared.unlink()
    open("/dev/shm/own", "w").close()
    return found, os.listdir(), os.listdir("/dev/shm")
"""
    found = asked("f", code, [-1, -2, 3], method)
    assert found[0] == [1, 2, 3]
    assert "own" in found[1]
    assert found[1] == found[2]


def test_the_kernels_settings_are_not_to_be_written():
    """Where root grades they are root's: one of them names a program that root's kernel runs."""
    code = """
import os
def f(path):
    files = [os.path.join(d, name) for d, _, names in os.walk(path) for name in names]
    return [file for file in files if os.access(file, os.W_OK)][:3]
"""
    for path in ("/proc/sys", "/proc/irq", "/sys", "/etc"):
        assert asked("f", code, path) == []


def test_no_sockets_are_made_but_pairs_of_them():
    """One of AF_VSOCK (40) leads from a virtual machine to its host; asyncio needs pairs."""
    code = """
import socket
def f(kinds):
    found = [len(socket.socketpair())]
    for kind in kinds:
        try:
            socket.socket(kind, socket.SOCK_RAW if kind == 16 else socket.SOCK_STREAM).close()
            found.append(kind)
        except OSError:
            pass
    return found
"""
    assert asked("f", code, [1, 2, 10, 16, 40]) == [2]


def test_nothing_that_slows_others_down_is_asked_of_the_kernel():
    """To flush all disks; an earlier turn at them; a halt of all processors; locks."""
    code = """
import ctypes, fcntl, os, platform
def f(path):
    found, libc = [], ctypes.CDLL(None)
    numbers = {
        "x86_64": {"sync": 162, "ioprio_set": 251, "membarrier": 324},
        "aarch64": {"sync": 81, "ioprio_set": 30, "membarrier": 283},
    }
    given = {"ioprio_set": (1, 0, 2 << 13), "membarrier": (1, 0, 0)}
    for name, number in numbers.get(platform.machine(), {}).items():
        found += [name] * (libc.syscall(number, *given.get(name, (0, 0, 0))) >= 0)
    with open(path) as file:
        for lock, how in (fcntl.flock, fcntl.LOCK_SH), (fcntl.lockf, fcntl.LOCK_SH):
            try:
                lock(file, how)
                found.append(lock.__name__)
            except OSError:
                pass
        try:
            os.fsync(file)
            found.append("fsync")
        except OSError:
            pass
    return found
"""
    path = Path(processes.__file__)
    assert asked("f", code, str(path)) == []


def test_page_tables_are_counted_though_no_limit_does():
    """A page here and a page there: each costs the kernel two of its own."""
    code = """
import ctypes, time
def f(count):
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    for i in range(count):
        page = libc.mmap((1 << 40) + (i << 30), 4096, 1, 0x100022, -1, 0)
        ctypes.c_char.from_address(page).value
    time.sleep(2)
    return count
"""
    assert asked("f", code, 100) == 100
    with pytest.raises(Gone, match="64 MB"):
        asked("f", code, 15_000)


def test_nobody_waits_for_a_file_that_a_student_has_leased():
    """Its owner may lease a file that is read only: whoever opens it waits for up to 45 seconds."""
    code = """
import fcntl, os
def f(path):
    number = os.open(path, os.O_RDONLY)
    found = [fcntl.fcntl(number, fcntl.F_GETFD)]
    try:
        fcntl.fcntl(number, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except PermissionError:
        return found
"""
    path = Path(processes.__file__)
    assert asked("f", code, str(path)) == [1]


def test_a_students_process_ends_with_its_judge():
    code = """
import ctypes, time
from contextlib import suppress
def f(seconds):
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
    while True:
        with suppress(BaseException):
            time.sleep(seconds)
"""
    with Process(Limits()) as process:
        there, _ = offered(process, [(0, code)], {"f": "f"})
        inside = psutil.Process(process._process.pid).children(recursive=True)
        with pytest.raises((Gone, TimeUp)):
            Function(process, there["f"][0], ("f", 0), 2.0)(60)
    assert inside
    assert psutil.wait_procs(inside, timeout=10)[1] == []


THREADS = "import _thread, threading, time\ndef f(x):\n    threading.stack_size(2**16)\n"
THREADS += "    for _ in range(200):\n        _thread.start_new_thread(time.sleep, (9,))\n"
THREADS += "    time.sleep(2)\n    return 'ran'"


def test_threads_are_limited_where_root_grades_too():
    """The kernel does not count root's, and with small stacks no memory ends them."""
    with pytest.raises((Accident, Gone), match=r"more than 96 threads|start new thread"):
        asked("f", THREADS, 0)


def test_memory_is_limited_whatever_it_is_made_of():
    code = "def f(size):\n    return len(bytearray(size))"
    assert asked("f", code, 2**20) == 2**20
    with pytest.raises(Accident, match="MemoryError"):
        asked("f", code, 3 * 2**30)


def test_files_are_limited_by_their_sizes_and_their_number():
    code = "def f(n):\n    with open('x', 'wb') as file:\n        return file.write(bytes(n))"
    assert asked("f", code, 10**6) == 10**6
    with pytest.raises(Accident, match="File too large"):
        asked("f", code, 2**25)
    many = "def f(n):\n    for i in range(n):\n        open(str(i), 'w').close()\n"
    many += "    import time\n    time.sleep(1)"
    with pytest.raises(Gone, match="it has more than 10,000 files"):
        asked("f", many, 40_000)
    full = "def f(n):\n    for i in range(n):\n        with open(str(i), 'wb') as file:\n"
    full += "            file.write(bytes(10**7))"
    with pytest.raises(Accident, match="No space left"):
        asked("f", full, 20)


# --- where there are none ----------------------------------------------------------------------


@pytest.mark.grid(lambda command: command == "grade", rest="slow")
@pytest.mark.parametrize("command", ["grade", "score"])
def test_without_bubblewrap_it_is_said_and_what_to_do(command, tmp_path, monkeypatch, capsys):
    (tmp_path / "ada.py").write_text(f"import numpy as np\n{submitted.RIGHT}")
    monkeypatch.setattr(walls.shutil, "which", lambda name: None)
    walls.missing.cache_clear()
    try:
        assert main([command, str(tmp_path)]) == 2
        said = capsys.readouterr().err
        assert "bubblewrap is missing: install the package bubblewrap" in said
        assert "--no-walls" in said
        assert main(["grade", str(tmp_path), "--no-walls"]) == 0
    finally:
        walls.missing.cache_clear()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("lablib: without walls students' code has your rights")


def test_where_no_namespaces_can_be_made_it_is_said_and_what_to_do(tmp_path):
    """Namespaces in which no further ones may be made stand for a container that allows none."""
    (tmp_path / "ada.py").write_text("")
    grade = shlex.join([sys.executable, "-P", "-m", "lablib", "grade", str(tmp_path)])
    script = f"echo 0 > /proc/sys/user/max_user_namespaces && exec {grade}"
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert "bubblewrap can't make its walls (bwrap: " in done.stderr
    assert "in a container allow user namespaces" in done.stderr


def test_on_a_mac_a_container_is_advised(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert walls.missing.__wrapped__().endswith("this is darwin: grade in a Linux container")


def test_the_filter_is_one_program_for_both_machines(monkeypatch):
    sizes = set()
    for machine in walls.KERNELS:
        monkeypatch.setattr(walls.platform, "machine", lambda machine=machine: machine)
        sizes.add(len(walls._filter()))
    assert len(sizes) == 2
    assert max(sizes) < 8 * 4096  # instructions that the kernel takes


def test_every_reference_lies_in_a_file_that_is_hidden():
    files = {inspect.getsourcefile(each.reference) for each in exercises()}
    assert files <= {*walls.references()}
