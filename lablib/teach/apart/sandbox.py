"""The walls around a student's notebook; run as a script, by path, so that it loads nothing else.

``python sandbox.py ORDER`` builds what walls the platform has, then runs the runner. ``ORDER`` is
JSON with the keys ``folder`` (an empty one, the only place to write), ``see`` and ``hide`` (files
and folders; of two, the one that lies deeper counts), ``memory`` (bytes) and ``seconds`` (of
processor time).

On Linux, where user namespaces are allowed: no network, a disk that has what ``see`` names and
nothing else, read-only; other processes out of sight, and every process that the notebook started
ends with it. On macOS ``sandbox-exec`` (see ``command``) lets it read no other file of any user,
and does the first. The limits on memory, file size and processor time need neither.
"""

import contextlib
import ctypes
import json
import os
import platform
import shutil
import struct
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None

PROCESSES = 64  # threads count too
FILE_SIZE = 16 * 2**20
FOLDER_SIZE = 64 * 2**20
FILES = 10_000  # in the folder: the kernel holds more of each than its size
OPEN = 256  # files and sockets, whose buffers no limit of memory counts

# What any program needs of a system, beside its own files; what is not there is left out.
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *("/etc/localtime", "/sys/devices/system/cpu"),
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
)
# Where people's files lie on macOS, whose own files are in many places that change.
PRIVATE_ON_MACOS = ("/Users", "/Volumes", "/private/tmp", "/private/var/folders")
ROOT_SIZE = 2**20  # bytes, of names
# From <sched.h>, <sys/mount.h> and <sys/prctl.h>.
NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PROCESSES, NEW_NETWORK = (
    1 << 17,
    1 << 27,
    1 << 28,
    1 << 29,
    1 << 30,
)
READ_ONLY, NO_SETUID, NO_DEVICES, NO_PROGRAMS, BIND, RECURSIVE, PRIVATE = (
    1,
    2,
    4,
    8,
    4096,
    1 << 14,
    1 << 18,
)
DIE_WITH_PARENT, FILTER_CALLS, NO_NEW_PRIVILEGES = 1, 22, 38
MOUNT_SETATTR, ALL_BELOW = 442, 0x8000
PIVOT_ROOT, DETACH = {"x86_64": 155, "aarch64": 41}, 2

# What is refused: on each machine its name for the filter, the call that starts a process or a
# thread, the others that start a process or a program; the call that makes a socket, and fcntl.
STARTS = {
    "x86_64": (0xC000003E, 56, (57, 58, 59, 322), 41, 72),
    "aarch64": (0xC00000B7, 220, (221, 281), 198, 25),
}
# And the calls that get memory which belongs to no process: memfd_create, memfd_secret, shmget;
# unshare and setns, by a disk of one's own; semget, msgget, mq_open, io_setup, io_uring_setup, bpf,
# perf_event_open, userfaultfd, fanotify_init, inotify_init1 (and on x86_64 inotify_init). The last
# three, add_key, request_key and keyctl, lead to the teacher's keys, too.
KEEPS = {
    "x86_64": (
        *(319, 447, 29, 272, 308, 64, 68, 240, 206, 425, 321),
        *(298, 323, 300, 294, 253, 248, 249, 250),
    ),
    "aarch64": (
        *(279, 447, 194, 97, 268, 190, 186, 180, 0, 425, 280),
        *(241, 282, 262, 26, 217, 218, 219),
    ),
}
START_ANYTHING, NOT_PERMITTED, UNKNOWN_CALL = 435, 1, 38  # clone3 hides its flags from a filter
SOCKETS = (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6: others, AF_VSOCK say, no namespace keeps in
LEASE = 1024  # fcntl's F_SETLEASE: whoever opens that file waits, out there, too
X32 = 0x40000000  # from here on the calls of another kind of program, by other numbers


def command(order: dict[str, Any]) -> list[str]:
    """Return the command line that runs a notebook behind walls."""
    # -P: nothing is imported from the folder of this file; -B: the disk may be read-only.
    python = [sys.executable, "-P", "-B", __file__, json.dumps(order)]
    program = shutil.which("sandbox-exec") if sys.platform == "darwin" else None
    return [program, "-p", _profile(order), *python] if program else python


def build(order: dict[str, Any]) -> list[str]:
    """Put up the walls around this process and return what could not be kept out."""
    missing = []
    end_with_parent()
    if sys.platform == "linux":
        try:
            _namespaces(order)
        except OSError as error:
            missing = [f"the network and other files of yours (no user namespaces: {error})"]
    elif not shutil.which("sandbox-exec"):
        missing = [f"the network and other files of yours (no sandbox on {sys.platform})"]
    os.chdir(order["folder"])
    _limit(order)
    return missing


def end_with_parent() -> None:
    """Have this process end when the one that started it does, however that ends."""
    if sys.platform == "linux":
        _prctl(DIE_WITH_PARENT, 9)
    else:
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def no_new_processes() -> None:
    """Refuse to start processes or programs, for good; threads may be started.

    The kernel also refuses memory that no limit would count.
    """
    starts = ("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen")

    def refuse(event: str, _: Any) -> None:
        if event in starts:
            raise PermissionError(f"{event}: no other processes while this is graded")

    sys.addaudithook(refuse)  # from Python, with a readable reason
    machine = platform.machine()
    if sys.platform == "linux" and machine in STARTS:
        with contextlib.suppress(OSError):
            _prctl(NO_NEW_PRIVILEGES, 1)
            _filter_calls(*STARTS[machine], KEEPS[machine])


def _filter_calls(
    machine: int,
    clone: int,
    starts: tuple[int, ...],
    sockets: int,
    fcntl: int,
    keeps: tuple[int, ...],
) -> None:
    """Have the kernel refuse these calls (seccomp), whoever makes them.

    All calls by other numbers are refused: those of a program of 32 bits, say. So are sockets of
    other kinds than ``SOCKETS``, and leases.
    """
    load, equal, at_least, any_of, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000
    program = [(load, 0, 0, 4), (equal, 1, 0, machine), (give, 0, 0, refuse | NOT_PERMITTED)]
    program += [(load, 0, 0, 0), (at_least, 0, 1, X32), (give, 0, 0, refuse | NOT_PERMITTED)]
    for number in (*starts, *keeps):
        program += [(equal, 0, 1, number), (give, 0, 0, refuse | NOT_PERMITTED)]
    kinds = [(equal, len(SOCKETS) - i, 0, kind) for i, kind in enumerate(SOCKETS)]
    program += [(equal, 0, len(kinds) + 3, sockets), (load, 0, 0, 16), *kinds]
    program += [(give, 0, 0, refuse | NOT_PERMITTED), (give, 0, 0, allow)]
    program += [(equal, 0, 4, fcntl), (load, 0, 0, 24), (equal, 0, 1, LEASE)]
    program += [(give, 0, 0, refuse | NOT_PERMITTED), (give, 0, 0, allow)]
    program += [(equal, 0, 1, START_ANYTHING), (give, 0, 0, refuse | UNKNOWN_CALL)]
    program += [(equal, 1, 0, clone), (give, 0, 0, allow), (load, 0, 0, 16)]  # its flags
    program += [(any_of, 1, 0, 0x10000), (give, 0, 0, refuse | NOT_PERMITTED), (give, 0, 0, allow)]
    packed = b"".join(struct.pack("HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(packed)
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    _call("prctl", FILTER_CALLS, 2, ctypes.c_char_p(header), 0, 0)


def limit_memory(more: int) -> None:
    """Let this process have so many bytes more than it has now, where the system can count them."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # macOS can't
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _limit(order: dict[str, Any]) -> None:
    if resource is None:
        return
    limits = {
        "AS": order["memory"],
        "FSIZE": FILE_SIZE,
        "CORE": 0,
        "NOFILE": OPEN,
        "CPU": int(order["seconds"]) + 1,
    }
    for name, most in limits.items():
        with contextlib.suppress(ValueError, OSError):  # macOS knows no limit of memory
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


def _namespaces(order: dict[str, Any]) -> None:
    """Move this process where it sees no network, no other process, and can't write.

    Raises:
        OSError: the system does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    _call("unshare", NEW_USER | NEW_MOUNTS | NEW_PROCESSES | NEW_NETWORK | NEW_IPC)
    child = os.fork()  # the first process in there: with it all others end
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 255)
    # A group of its own: os.kill(0, 9) would else end who waits above, and later this process, too.
    os.setsid()
    _prctl(DIE_WITH_PARENT, 9)
    Path("/proc/self/setgroups").write_text("deny")
    # Any user but root, who would be given all rights again by starting a program.
    Path("/proc/self/uid_map").write_text(f"1000 {user} 1")
    Path("/proc/self/gid_map").write_text(f"1000 {group} 1")
    # Counted in here only, so what else this user runs does not matter.
    resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
    _new_root(order)
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    _call("capset", ctypes.byref(header), ctypes.byref(nothing))
    _prctl(NO_NEW_PRIVILEGES, 1)


def _new_root(order: dict[str, Any]) -> None:
    """Put a disk in the place of the system's that has what an order says, and nothing else."""
    folder = root = order["folder"]
    _call("mount", b"none", b"/", None, RECURSIVE | PRIVATE, None)
    _empty(root, 0, ROOT_SIZE)
    for path, seen in _rules(order["see"], order["hide"]):
        target = root + path
        if seen:
            _show(os.path.realpath(path), target)
        elif os.path.isdir(target):
            _empty(target, 0, ROOT_SIZE)
        elif os.path.exists(target):
            _call("mount", b"/dev/null", os.fsencode(target), None, BIND, None)
    os.makedirs(f"{root}{folder}", exist_ok=True)
    os.makedirs(f"{root}/proc", exist_ok=True)
    attributes = (ctypes.c_uint64 * 4)(READ_ONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    where = os.fsencode(root)
    _call("syscall", MOUNT_SETATTR, -100, where, ALL_BELOW, ctypes.byref(attributes), size)
    _empty(f"{root}{folder}", 0, FOLDER_SIZE)
    try:
        # Where root grades, root's are the kernel's settings in there, whatever rights it lacks.
        flags = READ_ONLY | NO_SETUID | NO_DEVICES | NO_PROGRAMS
        _call("mount", b"proc", os.fsencode(f"{root}/proc"), b"proc", flags, None)
    except OSError:
        _empty(f"{root}/proc", READ_ONLY, ROOT_SIZE)
    os.chdir(root)
    _call("syscall", PIVOT_ROOT.get(platform.machine(), -1), b".", b".")
    _call("umount2", b".", DETACH)  # the system's own disk, which lies over the new one now
    os.chdir("/")


def _rules(see: Iterable[str], hide: Iterable[str]) -> list[tuple[str, bool]]:
    """Return what to show and what to hide, in an order in which the deeper one counts."""
    rules = {path: True for given in see for path in (given, os.path.realpath(given))}
    rules |= {path: False for given in hide for path in (given, os.path.realpath(given))}
    return sorted(rules.items(), key=lambda rule: (rule[0].rstrip("/").count("/"), rule[0]))


def _show(path: str, target: str) -> None:
    """Mount a file or a folder, if it is there, at a place that is made if need be."""
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    elif os.path.exists(path):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target):
            Path(target).touch()
    else:
        return
    _call("mount", os.fsencode(path), os.fsencode(target), None, BIND | RECURSIVE, None)


def _empty(path: str, flags: int, size: int) -> None:
    options = f"size={size},nr_inodes={FILES},mode=777".encode()
    flags |= NO_SETUID | NO_DEVICES
    _call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", flags, options)


def _prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    _call("prctl", option, value, 0, 0, 0)


def _call(name: str, *args: Any) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*args) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _profile(order: dict[str, Any]) -> str:
    """Return what macOS' sandbox-exec is to enforce; of two rules the later one counts."""
    folder = json.dumps(os.path.realpath(order["folder"]))
    rules = [
        "(version 1) (allow default) (deny network*) (deny process-fork) (deny file-write*)",
        f'(allow file-write* (subpath {folder}) (literal "/dev/null"))',
        *(f"(deny file-read-data (subpath {json.dumps(path)}))" for path in PRIVATE_ON_MACOS),
    ]
    for path, seen in _rules(order["see"], order["hide"]):
        verb = "allow" if seen else "deny"
        rules.append(f"({verb} file-read-data (subpath {json.dumps(path)}))")
    return "".join([*rules, f"(allow file-read-data (subpath {folder}))"])


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, where the system does not see to that."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main(order: str, *found: str) -> None:
    """Build the walls, then run the runner behind them.

    ``found`` is what the walls do not keep out, once they stand. Python is started anew then: the
    file of a program that was started outside can be reached from within (``/proc/self/exe``), on
    the disk as it is out there, and whoever owns it may change its mode.
    """
    if not found:
        found = (json.dumps(build(json.loads(order))),)
        if sys.platform == "linux":
            python = [sys.executable, "-P", "-B", __file__, order, *found]
            os.execv(os.path.realpath(sys.executable), python)
    missing = json.loads(found[0])
    sys.path.insert(0, str(Path(__file__).parents[3]))  # the judge's own lablib, and no other
    from lablib.teach.apart.runner import serve

    no_new_processes()
    serve(missing)


if __name__ == "__main__":
    main(*sys.argv[1:])
