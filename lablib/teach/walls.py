"""The walls around a student's process: bubblewrap, a list of the kernel's calls, and limits.

No network; a disk that has what is shown and nothing else, read-only; an empty home in memory; no
other process to be seen, and no ``/proc``, whose links lead outside. Never with a capability, as no
user that can make a further namespace, though root should grade. The kernel answers the calls in
``calls.txt``, in which no process is started: so limits of one process are limits of all. (What
no limit of a process counts, ``process`` looks at.)
"""

import functools
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import lablib
from lablib.machine import backend

HOME = "/home/student"
DISK, NAMES = 64 * 2**20, 2**20  # bytes of a home; of a file system that holds names alone
# What any program needs of a system, beside its own files; what is not there is left out.
SYSTEM = (
    *("/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/usr/share/zoneinfo"),
    *("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib", "/usr/local/lib64"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *("/etc/localtime", "/sys/devices/system/cpu"),
)
DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
# What Python needs of the folder that it lies in; the last two where it is a framework of macOS.
# Settings, passwords, other environments and whole courses may lie beside these.
NEEDED = ("bin", "lib", "lib32", "lib64", "pyvenv.cfg", "Python", "Resources")
# Of the teacher's environment: where programs and libraries lie, the language and the time zone.
KEPT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
# Two runs see sets in the same order, on one processor, and nothing opens a window.
OURS = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP")},
    **{"LABLIB_THREADS": "1", "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0"},
}
WALLS = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"),
    *("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--clearenv"),
)
KERNELS = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}  # their columns in calls.txt
THREAD = 0x10000  # clone's flag: no process
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050001, 0x00050026  # EPERM; ENOSYS
NEWER = 424  # from here on the C library knows another way where a call is unknown
RUN = "import sys; sys.path.insert(0, sys.argv[1]); from lablib.teach.{0} import main; "
RUN += "main(*sys.argv[2:])"


def command(module: str, *arguments: str) -> list[str]:
    """Return what runs a module of this room in a new process, of this lablib and no other."""
    root = str(Path(lablib.__file__).parents[1])
    return [sys.executable, "-P", "-B", "-c", RUN.format(module), root, *arguments]


@functools.cache
def missing() -> str:
    """Return why there are no walls on this machine, and what to do; nothing where there are."""
    if sys.platform != "linux":
        return f"bubblewrap is for Linux, and this is {sys.platform}: grade in a Linux container"
    if platform.machine() not in KERNELS:
        return f"calls.txt has no numbers for {platform.machine()}: grade on x86_64 or aarch64"
    if shutil.which("bwrap") is None:
        return "bubblewrap is missing: install the package bubblewrap (apt, dnf, pacman, apk)"
    with start([sys.executable, "-S", "-c", ""], stderr=subprocess.PIPE) as process:
        said = process.communicate()[1].decode(errors="replace").strip().splitlines()
    if process.returncode == 0:
        return ""
    return (
        f"bubblewrap can't make its walls ({said[-1] if said else process.returncode}): in a "
        "container allow user namespaces (docker run --security-opt seccomp=unconfined "
        "--security-opt systempaths=unconfined), on Ubuntu let AppArmor allow them to bwrap "
        "(sysctl kernel.apparmor_restrict_unprivileged_userns=0)"
    )


def start(program: Sequence[str], hide: Iterable[str] = (), **pipes: int) -> subprocess.Popen:
    """Start a program behind the walls; ``hide`` are further files that are not shown."""
    with tempfile.TemporaryFile() as rules:
        rules.write(_filter())
        rules.seek(0)
        walls = ["bwrap", *WALLS, "--seccomp", str(rules.fileno()), *_disk(hide)]
        for name, value in environment(HOME).items():
            walls += ["--setenv", name, value]
        return subprocess.Popen([*walls, "--", *program], pass_fds=[rules.fileno()], **pipes)


def environment(home: str) -> dict[str, str]:
    """Return the environment of a student's process, which is a list."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    # What this process found, as nothing can be looked for, or made, in a home that is empty.
    found = backend.blas().settings()
    return {**kept, **OURS, **found, "HOME": home, "TMPDIR": home, "USER": "student"}


def _disk(hide: Iterable[str]) -> list[str]:
    """Return the options that make its disk; of what is shown and hidden the deeper one counts."""
    made = ["--size", str(NAMES), "--tmpfs", "/"]
    for path, is_shown in rules(seen(), [*hidden(), *hide]):
        if is_shown:
            made += ["--ro-bind-try", os.path.realpath(path), path]
        elif os.path.isdir(path):
            made += ["--size", str(NAMES), "--tmpfs", path, "--remount-ro", path]
        elif os.path.exists(path):
            made += ["--ro-bind", "/dev/null", path]
    for device in DEVICES:
        made += ["--dev-bind", device, device]
    made += ["--symlink", HOME, "/dev/shm", "--dir", "/proc", "--dir", HOME, "--remount-ro", "/"]
    return [*made, "--size", str(DISK), "--tmpfs", HOME, "--chdir", HOME]


def rules(see: Iterable[str], hide: Iterable[str]) -> list[tuple[str, bool]]:
    """Return what to show and what to hide, in an order in which the deeper one counts.

    What is shown by two names, as ``/lib`` is often ``/usr/lib``, has the same hidden by both. And
    what is hidden, but in nothing that is shown, needs no place.
    """
    real = {given: os.path.realpath(given) for given in see if os.path.exists(given)}
    shown = {path for pair in real.items() for path in pair}
    kept_out = {path for given in hide for path in (given, os.path.realpath(given))}
    for given, other in real.items():
        kept_out |= {
            given + path[len(other) :] for path in kept_out if path.startswith(f"{other}/")
        }
    within = {path for path in kept_out if any(path.startswith(f"{each}/") for each in shown)}
    found = dict.fromkeys(shown, True) | dict.fromkeys(within | (kept_out & shown), False)
    return sorted(found.items(), key=lambda rule: (rule[0].rstrip("/").count("/"), rule[0]))


def seen() -> list[str]:
    """Return the files and folders that it can see: Python, packages, lablib and the system's."""
    packages = {path for path in sys.path if path.endswith("-packages")}
    libraries = [path for path in backend.blas().settings().values() if os.path.isabs(path)]
    needed = [os.path.join(base, name) for base in _bases() for name in NEEDED]
    ours = [*map(os.path.abspath, lablib.__path__), os.path.realpath(sys.executable)]
    return sorted({*SYSTEM, *needed, *packages, *libraries, *ours})


def hidden() -> list[str]:
    """Return what it can't see in there: the references, and what else lies in a checkout."""
    checkouts = [os.path.dirname(os.path.abspath(path)) for path in lablib.__path__]
    outside = [path for path in checkouts if not path.endswith("-packages")]
    solved = [os.path.join(path, "notebooks") for path in _packages()]  # with what solution showed
    # People add passwords to it.
    activate = [str(path) for base in _bases() for path in Path(base).glob("bin/*activate*")]
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
    return {*map(os.path.abspath, lablib.__path__), *found}


def _bases() -> set[str]:
    """Return the folders that Python's files lie in."""
    return {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}


def _filter() -> bytes:
    """Return what seccomp runs at each call: it refuses what is not in ``calls.txt``."""
    machine, column = KERNELS[platform.machine()]
    load, equal, at_least, any_of, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, refuse = (give, 0, 0, ALLOW), (give, 0, 0, REFUSE)
    program = [(load, 0, 0, 4), (equal, 1, 0, machine), refuse, (load, 0, 0, 0)]
    for line in Path(__file__).with_name("calls.txt").read_text("utf-8").splitlines():
        call, _, values = line.partition(":")
        words = call.split()
        if line[0] == "#" or words[column] == "-":
            continue
        checks = [allow]
        if values:
            may = [int(value, 0) for value in values.replace("thread", hex(THREAD)).split()]
            kind = any_of if "thread" in values else equal
            tests = [(kind, len(may) - i, 0, value) for i, value in enumerate(may)]
            checks = [(load, 0, 0, 16 + 8 * int(words[3])), *tests, refuse, allow]
        program += [(equal, 0, len(checks), int(words[column])), *checks]
    program += [(at_least, 0, 1, NEWER), (give, 0, 0, UNKNOWN), refuse]
    return b"".join(struct.pack("HBBI", *step) for step in program)
