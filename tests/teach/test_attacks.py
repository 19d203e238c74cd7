"""What was tried against ``grade``, one test an attack: none takes a mark, or stops a class."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import unicodedata
from dataclasses import asdict
from pathlib import Path

import lablib
from lablib import __main__
from lablib.course.checks.checking import judge
from lablib.course.checks.exercises import find
from lablib.course.checks.running import Gone, TimeUp
from lablib.machine import backend
from lablib.teach import submission
from lablib.teach.apart import codec, remote, sandbox, surroundings
from lablib.teach.apart.remote import Function, Limits, Process, not_kept_out
from lablib.teach.grade import grade
from lablib.teach.handed_in import clean, read_bytes
from lablib.teach.page import feedback, file_names, page
from lablib.teach.reports import ExerciseRow, GradeReport

import psutil
import pytest
import submitted
from markdown_it import MarkdownIt

pytestmark = pytest.mark.thorough

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux' walls")
RIGHT = submitted.RIGHT


def class_of(folder, **programs):
    """Hand in a program about 00.1 from each student."""
    for student, text in programs.items():
        path = folder / student / "work.py"
        path.parent.mkdir(parents=True)
        path.write_text(f"import numpy as np\n{text}\n# %%\ncheck('00.1', best_token)\n")
    return folder


def marks(report):
    return {row.student: row.outcome for row in report.rows if row.exercise == "00.1"}


def start(school, out, *options):
    out.mkdir()
    command = [sys.executable, "-m", "lablib", "grade", school, "--csv", out / "r.csv", *options]
    return subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def watched(process, most_seconds=90.0):
    """Wait for its end; return the processor time and the most memory of it alone."""
    used, held, until = 0.0, 0, time.monotonic() + most_seconds
    judge = psutil.Process(process.pid)
    while process.poll() is None:
        assert time.monotonic() < until, "the class is stopped"
        try:
            used = sum(judge.cpu_times()[:2])
            held = max(held, judge.memory_info().rss)
        except psutil.Error:
            break
        time.sleep(0.02)
    return used, held


@pytest.mark.parametrize("name", submitted.COSTLY)
def test_a_costly_answer_costs_its_author_alone(name, tmp_path):
    school = class_of(tmp_path / "school", ada=RIGHT, mal=submitted.COSTLY[name], zoe=RIGHT)
    process = start(school, tmp_path / "out")
    try:
        used, held = watched(process)
    finally:
        process.kill()
        process.communicate()
    assert used < 3
    assert held < 300 * 2**20
    rows = (tmp_path / "out" / "r.csv").read_text("utf-8-sig").splitlines()
    found = {row.split(",")[0]: row.split(",")[3] for row in rows[1:] if ",00.1," in row}
    assert found["ada"] == found["zoe"] == "✓"
    assert found["mal"] in "✗!"


PREDICTS = f"{RIGHT}check('00.1', best_token)\n"
HUGE = {
    "lines.py": PREDICTS + "predict('06.q1', (\n" * 2_000_000,
    "boxes.ipynb": f'{{"nbformat":4,"cells":[{"[]," * 12_000_000}[]]}}',
}


@pytest.mark.parametrize("name", HUGE)
def test_the_judge_itself_reads_no_file_for_its_predictions(name, tmp_path):
    school = class_of(tmp_path / "school", ada=f"{RIGHT}\npredict('06.q1', 30)")
    (school / "mal").mkdir()
    (school / "mal" / name).write_text(HUGE[name])
    process = start(school, tmp_path / "out", "--html", str(tmp_path / "out" / "r.html"))
    try:
        used, held = watched(process)
    finally:
        process.kill()
        process.communicate()
    assert used < 3
    assert held < 300 * 2**20
    assert "1 × 30" in (tmp_path / "out" / "r.html").read_text("utf-8")


def test_long_text_is_cleaned_in_linear_time():
    began = time.process_time()
    assert len(clean("A" * 8_000_000)) <= 2000
    clean("/lablib-" * 1_000_000)
    assert time.process_time() - began < 0.5


def test_empty_rows_are_counted_before_they_are_made():
    for rows in (20_000_000, 10**10):
        message = b'{"array":["<f8",[%d,0],""]}' % rows
        with pytest.raises(codec.Garbled):
            codec.unpack(codec.loads(message))
    many = b"[" + b",".join([b'{"array":["<f8",[500000,0],""]}'] * 100) + b"]"
    with pytest.raises(codec.Garbled, match="cells"):
        codec.loads(many)


def test_a_message_in_other_letters_hides_no_brackets():
    """JSON may be UTF-16, too, in which letters hold the byte of a quotation mark."""
    for letters in ("utf-16", "utf-16-le", "utf-32", "utf-8-sig"):
        with pytest.raises(codec.Garbled, match="not JSON"):
            codec.loads('{"answer":["\u2222",[],[]]}'.encode(letters))


def test_colliding_keys_are_counted_before_they_are_compared():
    keys = [k * (2**61 - 1) for k in range(40_000)]
    pairs = [[{"tuple": [key]}, 0] for key in keys]
    for packed in ({"set": keys}, {"dict": pairs}, [{"frozenset": keys[:1500]}] * 20):
        with pytest.raises(codec.Garbled):
            codec.loads(json.dumps(packed).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 4_000_000, b"[" + b"[]," * 1_000_000 + b"0]", b'"' * 4_000_001,
        b'["' + b'\\"' * 2_000_000, b"9" * 4_000_000, b"[" + b'"",' * 1_000_000 + b'""]',
        b'{"fraction":["' + b"9" * 5000 + b'","1"]}', b"[" + b"0," * 500_000 + b"0]", b"x" * 2**23,
        b'{"array":["' + b"f8," * 1_000_000 + b'",[1],""]}', b'{"array":["<f8",' + b"[1]," * 9,
        b'{"array":["<f8",[' + b"1," * 60 + b'1],"AAAAAAAAAAA="]}', b'{"array":["<f8",[true],""]}',
    ],
)  # fmt: skip
def test_a_message_is_bounded_before_it_is_read(data):
    began = time.process_time()
    with pytest.raises(codec.Garbled):
        codec.unpack(codec.loads(data))
    assert time.process_time() - began < 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_answered_within_a_second_whatever_is_compared(how, tmp_path):
    many = dict.fromkeys("abcdefghijklmnopqrstuvwxyz", submitted.COSTLY["long_text"])
    school = class_of(tmp_path / "school", **many)
    process = start(school, tmp_path / "out")
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "out" / "r.csv").exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(2)
        process.send_signal(how)
        began = time.monotonic()
        process.wait(20)
        assert (
            time.monotonic() - began < 3
        )  # Python itself needs some of it to end, on a busy machine more
        assert process.returncode == 130, process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def asked(function, code, *args, folder=None, **limits):
    """Return what a student's function answers behind the walls."""
    with Process(Limits(**limits)) as process:
        told = [*process.run([(0, code)], [function])]
        assert not [each for each in told if "problem" in each], told
        process.send({"offer": function})
        answer = Function(process, process.receive(30), 60.0)(*args)
        process.send({"enough": True})
    return answer


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


@linux
def test_the_references_are_in_no_file_that_can_be_found(tmp_path):
    """Nor the repository, nor a home, nor what lies among temporary files."""
    if not_kept_out():
        pytest.skip("no user namespaces here")
    root = Path(__file__).parents[2]
    (tmp_path / "secret").write_text("x")
    paths = [root / ".git", root / "tests", root / "notebooks", Path.home() / ".ssh", tmp_path]
    paths += [Path.home() / ".bashrc", "/etc/passwd", "/var", "/home"]
    assert asked("look", LOOK, [*map(str, paths)], []) == []


@linux
def test_the_repository_is_not_there():
    """Whoever unpacks its objects with zlib has all references."""
    root = Path(__file__).parents[2] / ".git"
    if not_kept_out() or not root.exists():
        pytest.skip("no user namespaces here, or no repository")
    code = "import os\ndef f(path):\n    return sum(len(files) for _, _, files in os.walk(path))"
    assert asked("f", code, str(root)) == 0


@linux
def test_where_containers_work_nothing_is_shown_but_what_is_asked_for(tmp_path, monkeypatch):
    """A course in /usr/src/app lay open, whose environment is in there."""
    assert not {"/", "/usr", "/usr/local", "/usr/share", sys.prefix} & {*surroundings.seen()}
    (tmp_path / "app" / "venv").mkdir(parents=True)
    (tmp_path / "app" / "solved.py").write_text("42")
    shown = [*surroundings.seen(), str(tmp_path), str(tmp_path / "app" / "venv")]
    monkeypatch.setattr(remote, "seen", lambda: shown)
    code = "import os\ndef f(path):\n    return os.listdir(path)"
    found = asked("f", code, str(tmp_path / "app"), hide=(str(tmp_path / "app"),))
    assert found == (["venv"] if not not_kept_out() else found)


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
    rules = dict(sandbox._rules(surroundings.seen(), surroundings.hidden()))
    nearest = next((str(p) for p in [path, *path.parents] if str(p) in rules), None)
    assert rules.get(nearest, False) == (name in OPEN)


def test_an_installed_lablib_keeps_its_recorded_lessons_to_itself(tmp_path, monkeypatch):
    """They lie in the package, and show what ``solution`` says."""
    package = tmp_path / "site-packages" / "lablib"
    monkeypatch.setattr(lablib, "__path__", [str(package)])
    assert str(package / "notebooks") in surroundings.hidden()


def test_the_environment_is_a_list(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("SOMETHING_NEW", "secret")
    code = "import os\ndef f(x):\n    return [*os.environ.items()]"
    found = dict(asked("f", code, 0))
    assert "secret" not in found.values()
    assert {"AWS_SECRET_ACCESS_KEY", "SOMETHING_NEW"}.isdisjoint(found)
    assert found["HOME"] != os.environ.get("HOME")
    if not not_kept_out():
        code = "def f(x):\n    return open('/proc/1/environ').read()"
        assert "SECRET" not in asked("f", code, 0)


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
    try:
        for number in range(100_000):
            open(str(number), "w").close()
        found.append("files")
    except OSError:
        pass
    return found
"""


@linux
def test_nothing_is_kept_that_no_limit_counts():
    """Neither processes, started in a way of their own, nor memory that belongs to no process."""
    if not_kept_out():
        pytest.skip("no user namespaces here")
    assert asked("tried", KEEPS) == []


@linux
def test_what_is_shown_by_two_names_is_hidden_by_both(tmp_path, monkeypatch):
    """/lib was a second way to /usr/lib, on which references lay open."""
    real, link = tmp_path / "usr", tmp_path / "other"
    (real / "in").mkdir(parents=True)
    link.symlink_to(real)
    (real / "in" / "reference.py").write_text("42")
    (real / "in" / "open.py").write_text("43")
    shown = [*surroundings.seen(), str(real), str(link)]
    monkeypatch.setattr(remote, "seen", lambda: shown)
    code = "import os\ndef f(paths):\n    return [open(each).read() for each in paths]"
    places = [
        str(name / "in" / file) for name in (real, link) for file in ("reference.py", "open.py")
    ]
    found = asked("f", code, places, hide=(str(real / "in" / "reference.py"),))
    assert found == (["", "43", "", "43"] if not not_kept_out() else found)


@linux
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
    if not not_kept_out():
        assert "own" in found[1]
        assert found[1] == found[2]


@linux
def test_the_kernels_settings_are_not_to_be_written():
    """Where root grades they are root's: one of them names a program that root's kernel runs."""
    if not_kept_out():
        pytest.skip("no user namespaces here")
    code = """
import os
def f(path):
    files = [os.path.join(d, name) for d, _, names in os.walk(path) for name in names]
    return [file for file in files if os.access(file, os.W_OK)][:3]
"""
    for path in ("/proc/sys", "/proc/irq", "/sys", "/etc"):
        assert asked("f", code, path) == []


@linux
def test_no_sockets_are_made_but_pairs_of_them():
    """One of AF_VSOCK (40) leads from a virtual machine to its host; asyncio needs pairs."""
    if not_kept_out():
        pytest.skip("no user namespaces here")
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


@linux
def test_a_students_process_does_not_outlive_its_referee():
    """It could ask the kernel not to be ended with who started it, and work on for ever."""
    if not_kept_out():
        pytest.skip("no user namespaces here")
    code = """
import ctypes, time
from contextlib import suppress
def f(seconds):
    asked = ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(BaseException):
            time.sleep(seconds)
"""
    with Process(Limits()) as process:
        assert [*process.run([(0, code)], ["f"])]
        process.send({"offer": "f"})
        function = Function(process, process.receive(30), 2.0)
        inside = psutil.Process(process._process.pid).children(recursive=True)
        with pytest.raises((Gone, TimeUp)):
            function(60)
    assert inside
    assert psutil.wait_procs(inside, timeout=10)[1] == []


@linux
def test_nothing_that_slows_others_down_is_asked_of_the_kernel():
    """To flush all disks; an earlier turn at them; a halt of all processors; locks."""
    if not_kept_out():
        pytest.skip("no user namespaces here")
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
    path = Path(codec.__file__).with_name("__init__.py")
    assert asked("f", code, str(path)) == []


EARLIER = """
import os, threading
from lablib.teach.apart import sandbox
begun, said = threading.Event(), []
def tried():
    begun.wait()
    try:
        said.append(os.memfd_create("kept"))
    except PermissionError:
        pass
thread = threading.Thread(target=tried)
thread.start()
assert not sandbox.no_new_processes()
begun.set()
thread.join()
print(said)
"""


FEW = "RuntimeError: can't start new thread"
THREAD = "threading.Thread(target=time.sleep, args=(9,)).start()"
MANY = "it ran more than 64 threads; MLX keeps one for each thread that used it"
UNCOUNTED = "_thread.start_new_thread(time.sleep, (9,))"


@linux
@pytest.mark.parametrize("cpu", [1.2, math.inf])  # of grade, and of score
@pytest.mark.parametrize(("start", "due"), [(THREAD, [FEW]), (UNCOUNTED, [FEW, MANY])])
def test_threads_are_limited_where_root_grades_too(start, due, cpu):
    """The kernel does not count root's, and with small stacks no memory ends them.

    What is said of Python's own is no matter of when they are looked at.
    """
    code = "if True:\n    import _thread, threading, time\n    threading.stack_size(2**16)\n"
    code += f"    try:\n        for _ in range(200):\n            {start}\n"
    code += "    finally:\n        time.sleep(1)\n    def best_token(p): return 7\n"
    said = []
    with Process(Limits(cpu=cpu)) as process:
        try:
            for told in process.run([(0, code)], ["best_token"]):
                said += [told["text"]] if "text" in told else []
        except Gone as gone:
            said.append(str(gone))
    assert len(said) == 1
    assert said[0] in due


@linux
def test_a_process_that_is_ended_leaves_no_dead_one_behind():
    """In a container the first process may be who grades, or one that buries nobody."""
    code = "import ctypes, psutil\nfrom lablib.course.checks.running import Gone\n"
    code += "from lablib.teach.apart.remote import Limits, Process\n"
    code += "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"  # what would be the first one's is ours
    code += "try:\n    with Process(Limits(cpu=0.1)) as process:\n"
    code += "        print(*process.run([(0, 'while True: check')], []))\n"
    code += "except Gone as gone:\n    print(gone)\nprint(psutil.Process().children())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert re.fullmatch(r"it used more than 0.1 s .*\n\[\]\n", said)


SPREAD = """
if True:
    import ctypes, os, threading, time
    system = ctypes.CDLL(None)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *3 * [ctypes.c_int], ctypes.c_long]
    def spread():
        for i in range(10_000):  # a page each 3 GB, at this very place: it needs three tables
            at = system.mmap(2**40 + 3 * 2**30 * i, 4096, 3, 0x100022, -1, 0)
            ctypes.memset(at, 1, 1)
        time.sleep(3)
    threading.Thread(target=spread).start()
    system.syscall(60 if os.uname().machine == "x86_64" else 93, 0)
    def best_token(p): return 7
"""


@linux
def test_memory_is_counted_where_the_first_thread_has_ended():
    """Linux tells of it beside the others only."""
    with Process(Limits(cpu=1.2)) as process, pytest.raises(Gone, match="where its memory lies"):
        for _ in process.run([(0, SPREAD)], ["best_token"]):
            pass


@linux
def test_threads_that_were_there_before_are_refused_the_same():
    """Whoever can change a process' memory can have any of its threads do what they like."""
    if not_kept_out():
        pytest.skip("no user namespaces here")
    command = [sys.executable, "-c", EARLIER]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"


@linux
def test_page_tables_are_counted_though_no_limit_does():
    """A page here and a page there: each costs the kernel two of its own."""
    if not_kept_out():
        pytest.skip("no user namespaces here")
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
    assert asked("f", code, 100, cpu=60.0) == 100
    with pytest.raises(Gone, match="64 MB"):
        asked("f", code, 15_000, cpu=60.0)


@linux
def test_nobody_waits_for_a_file_that_a_student_has_leased():
    """Its owner may lease a file that is read only: whoever opens it waits for up to 45 seconds."""
    if not_kept_out():
        pytest.skip("no user namespaces here")
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
    path = Path(codec.__file__).with_name("__init__.py")
    assert asked("f", code, str(path)) == [1]


@linux
def test_no_file_of_the_disk_outside_is_held():
    """Such a file's mode can be changed by its owner: that of Python itself, for example."""
    if not_kept_out():
        pytest.skip("no user namespaces here")
    code = """
import os
NO_FILES = "pipe:", "socket:", "anon_inode:"
def f(folder):
    links = ["exe", "cwd", "root", *(f"fd/{name}" for name in os.listdir("/proc/self/fd"))]
    found = []
    for link in links:
        path = f"{folder}/{link}"
        if os.path.exists(path):
            is_own = os.readlink(path).startswith((*NO_FILES, os.environ["HOME"]))
            found += [link] * (not is_own and not os.statvfs(path).f_flag & os.ST_RDONLY)
    return found
"""
    assert asked("f", code, "/proc/self") == []


def test_a_link_is_refused_by_its_name(tmp_path):
    school = class_of(tmp_path / "school", other=RIGHT)
    (school / "one").mkdir()
    (school / "one" / "work.py").symlink_to("../other/work.py")
    (school / "two").symlink_to("other")
    exercises = submitted.course.__path__[0] + "/lesson_00/exercises.py"
    (school / "ref.py").symlink_to(exercises)
    report = grade(school)
    assert marks(report) == {"other": "✓"}
    refused = {row.student: row.message for row in report.rows if row.exercise == "-"}
    assert {*refused} == {"one", "two", "ref"}
    for student, target in {"one": "../other/work.py", "two": "other", "ref": exercises}.items():
        assert refused[student] == f"can't be read: it is a link, to {target}"


def test_a_link_that_takes_a_files_place_after_the_look_is_not_followed(tmp_path, monkeypatch):
    """Whoever may still write to the folder changes one for the other as often as they like."""
    (tmp_path / "other.py").write_text(RIGHT)
    (tmp_path / "work.py").symlink_to("other.py")
    monkeypatch.setattr(Path, "is_symlink", lambda path: False)
    with pytest.raises(OSError, match=r"work\.py"):
        read_bytes(tmp_path / "work.py")


def test_no_journal_is_read_that_may_have_been_handed_in(tmp_path):
    school = class_of(tmp_path / "school", mal=submitted.ZERO)
    grade(school, tmp_path / "r.csv")
    forged = (tmp_path / "r.csv.journal").read_text().replace("✗", "✓")
    (school / "r.csv.journal").write_text(forged)
    with pytest.raises(ValueError, match="resume needs a report outside of FOLDER"):
        grade(school, school / "r.csv", resume=True)
    assert marks(grade(school, school / "r.csv")) == {"mal": "✗"}


@pytest.mark.parametrize("name", ["\x1b[2J\x1b[31m", "x\n\n# Passed\n\n", "\udcff", "=1+1\r"])
def test_a_files_name_says_nothing_to_a_terminal_or_a_page(name, tmp_path):
    school = class_of(tmp_path / "school", ada=RIGHT, bob=submitted.ZERO)
    for student, text in {"eve": "{", "bob": None}.items():
        path = school / student / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        try:
            if text is None:
                path.symlink_to(f"{name}/there")
            else:
                path.with_suffix(".ipynb").write_text(text)
        except (OSError, UnicodeEncodeError):
            pytest.skip("no such names here")
    (tmp_path / "class.csv").write_text("student\nada\nbob\neve\n")
    told = tmp_path / "told"
    report = grade(school, roster=tmp_path / "class.csv", feedback=told)
    assert all(
        field.isprintable() for row in report.rows for field in asdict(row).values() if field
    )
    assert marks(report) == {"ada": "✓", "bob": "✗", "eve": "!"}
    for text in (report.csv(), page(report), str(report)):
        assert text.encode()  # no letter that can't be written
    lines = [line for path in told.glob("*.md") for line in path.read_text("utf-8").splitlines()]
    assert sum(line.startswith("#") for line in lines) == 3


@pytest.mark.parametrize(
    ("command", "folder", "place"), [("grade", ".", ""), ("score", "..", "ada")]
)
def test_nobody_stands_among_the_modules_of_students(command, folder, place, tmp_path):
    """``python -m`` looks for ``csv`` there before it looks among Python's own."""
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "work.py").write_text("# nothing of this course")
    run = [sys.executable, "-m", "lablib", command, folder]
    done = subprocess.run(run, cwd=tmp_path / place, capture_output=True, text=True)
    assert done.returncode == 2
    assert "a student's csv.py would run with your rights" in done.stderr


OWNS = "from pathlib import Path\nPath({!r}).touch()\n"


@pytest.mark.parametrize("name", ["csv", "json", "argparse", "platform", "numpy", "psutil"])
def test_no_module_of_a_student_runs_before_that_is_refused(name, tmp_path):
    school, ran = tmp_path / "school", tmp_path / "ran"
    school.mkdir()
    (school / f"{name}.py").write_text(OWNS.format(str(ran)))
    run = [sys.executable, "-m", "lablib", "grade", "."]
    done = subprocess.run(run, cwd=school, capture_output=True, text=True)
    assert (done.returncode, ran.exists()) == (2, False)
    assert "a student's csv.py would run with your rights" in done.stderr


@pytest.mark.parametrize("paths", ["", "school/ada"])
def test_a_folder_in_pythonpath_is_refused(paths, tmp_path):
    """An empty entry, as a colon at an end makes one, is where one stands."""
    (tmp_path / "school" / "ada").mkdir(parents=True)
    here = tmp_path if paths else tmp_path / "school"
    run = [sys.executable, "-P", "-m", "lablib", "grade", str(tmp_path / "school")]
    environment = {**os.environ, "PYTHONPATH": f"{paths}{os.pathsep}/nowhere"}
    done = subprocess.run(run, cwd=here, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "in PYTHONPATH" in done.stderr


def test_a_terminal_that_lacks_a_letter_shows_the_report(tmp_path):
    school = class_of(tmp_path / "school", ada=RIGHT)
    run = [sys.executable, "-m", "lablib", "grade", str(school)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 students, 1 of 3 \\u2713" in done.stdout


@pytest.mark.parametrize("command", ["grade", "score"])
def test_mlx_for_cuda_is_refused_before_anybody_is_judged(command, tmp_path, monkeypatch, capsys):
    """It takes terabytes of addresses: each student's process would end while it imports MLX."""
    monkeypatch.setattr(backend, "has_cuda_backend", lambda: True)
    assert __main__.main([command, str(tmp_path)]) == 2
    assert "got MLX for CUDA" in capsys.readouterr().err


def test_who_looks_for_no_modules_there_may_stand_there(tmp_path):
    (tmp_path / "csv.py").write_text("raise SystemExit('it runs')")
    run = [sys.executable, "-P", "-m", "lablib", "grade", "."]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_journal_that_ends_within_a_letter_is_gone_on_with(tmp_path):
    school = class_of(tmp_path / "school", ada=RIGHT, zoe=RIGHT)
    whole = grade(school, tmp_path / "r.csv").csv()
    journal = tmp_path / "r.csv.journal"
    lines = journal.read_bytes()
    journal.write_bytes(lines[: lines.rindex("✓".encode()) + 1])  # a full disk, or a kill
    assert grade(school, tmp_path / "r.csv", resume=True).csv() == whole


def test_pages_of_feedback_have_names_of_their_own(tmp_path):
    """Folders that one file's name would do for, on this system or on another."""
    same = ["A B", "A_B"], ["ada", "Ada"], ["e\u0301va", "éva"], ["x" * 255, "x" * 254 + "y"]
    students = [*(name for names in same for name in names), "../up", ".hidden", "bob", ""]
    names = file_names(students)
    assert len({unicodedata.normalize("NFKC", name).casefold() for name in names.values()}) == 12
    assert names["bob"] == "bob"
    for name in names.values():
        assert re.fullmatch(r"[\w@+-][\w.@+-]*", name)
        assert len(name.encode()) <= 200
    school = class_of(tmp_path / "school", **{"A B": RIGHT, "A_B": submitted.ZERO})
    told = tmp_path / "told"
    told.mkdir()
    (told / "A_B.md").write_text("# A\\_B: your exercises\nwhen only one of the two was there")
    grade(school, feedback=told)
    pages = [path.read_text() for path in told.glob("*.md")]
    assert sorted(page.splitlines()[:3] for page in pages) == [
        ["# A B: your exercises", "", "1 of 3 solved."],
        ["# A\\_B: your exercises", "", "0 of 3 solved."],
    ]


def test_a_page_of_feedback_is_not_written_over_on_the_way_of_another(tmp_path):
    for name in ("zoe", "writing-zoe"):
        (tmp_path / f"{name}.py").write_text("# nothing of this course")
    grade(tmp_path, feedback=tmp_path / "told")
    assert sorted(path.name for path in (tmp_path / "told").iterdir()) == [
        "writing-zoe.md",
        "zoe.md",
    ]


@pytest.mark.parametrize("after", [[[], []], [1, 2], None])
def test_what_no_honest_process_sends_is_no_accident_of_a_function(after, tmp_path):
    source = f"""
from lablib.course import check

def best_token(scores):
    check.__self__.line.send({{"after": {after}, "answer": 1}})

check("00.1", best_token)
"""
    rows = grade(class_of(tmp_path, mal=source)).rows
    assert [row.message for row in rows if row.exercise == "00.1"] == [
        "calling it: it wrote something else into its line"
    ]


@pytest.mark.parametrize(
    "begun", ["# ", "- ✓ **00.2**", "1. ", "2) ", "===", "---", "~~~", "+ ", ""]
)
def test_a_message_begins_no_heading_and_no_list(begun):
    row = ExerciseRow("mal", "x.py", "00.1", "✗", "", f"wrong ·     {begun}a · {begun}b")
    text = feedback(GradeReport([row]), "mal")
    tokens = MarkdownIt().parse(text)
    kinds = [token.type for token in tokens if token.type.endswith(("_open", "fence", "block"))]
    assert [kind for kind in kinds if kind != "paragraph_open"] == [
        "heading_open",
        "bullet_list_open",
        "list_item_open",
    ]


LENT = """
def use(lent):
    after = [[{"object": [0, {"dict": [["kept", 1]]}]}], {}]
    check.__self__.line.send({"answer": 1, "shared": [], "after": after})
    return 0
"""


def test_what_is_lent_to_be_called_keeps_no_attribute():
    """It would stay with the referee, who judges others, too."""

    def step(x):
        return x

    with pytest.raises(Gone, match="something else"):
        asked("use", LENT, step)
    assert vars(step) == {}


HIDES = """
def read(layer, tokens):
    try:
        layer.read(tokens, [])
    except TypeError:
        layer.read(tokens)
def try_drafts(layer, drafts, accepted):
    text = list(layer.log)
    layer.read(drafts)
    layer.__init__()
    read(layer, [*text, *drafts[:accepted]])
"""


def test_a_layer_notes_all_that_it_reads():
    """Where the notes were an argument of its own, whoever read could say where they go."""
    space = {}
    exec(HIDES, space)
    outcome = judge(find("10.3"), space["try_drafts"])
    assert (outcome.mark, outcome.misconception) == ("✗", "reads_the_text_again")


def test_a_drafter_has_no_second_look_at_the_same_texts():
    known = {}

    def propose(prompt, written, limit):
        text = known.setdefault(tuple(prompt), [])
        text += written[len(text) :]
        return text[len(written) :][:limit]

    assert judge(find("16.3"), propose).mark == "✗"


LEARNS = """
known = {}
def propose(prompt, written, limit):
    text = known.setdefault(tuple(prompt), [])
    text += written[len(text):]
    return text[len(written):][:limit]
for _ in range(6):
    check("16.3", propose)
first = propose
def propose(*asked):
    return first(*asked)
"""


def test_a_drafter_that_is_checked_again_meets_other_texts(tmp_path):
    (tmp_path / "mal.py").write_text(LEARNS)
    (row,) = [row for row in grade(tmp_path).rows if row.exercise == "16.3"]
    assert row.outcome == "✗"


def test_a_drafters_answers_are_known_by_name_whichever_texts_it_meets():
    exercise = find("16.3")
    for turn in range(1, submission.OFFERS + 1):
        for function in (exercise.reference, *exercise.alternatives, *exercise.wrong):
            vars(function)["turn"] = turn
            outcome = judge(exercise, function)
            del vars(function)["turn"]
            known = function.__name__ if function in exercise.wrong else None
            assert (outcome.misconception, outcome.correct) == (known, known is None)
