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
    *("/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/usr/share/zoneinfo"),
    *("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib", "/usr/local/lib64"),
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
DIE_WITH_PARENT, NO_NEW_PRIVILEGES = 1, 38
FILTER_CALLS, OF_ALL_THREADS = 1, 1  # from <linux/seccomp.h>
MOUNT_SETATTR, ALL_BELOW = 442, 0x8000
PIVOT_ROOT, DETACH = {"x86_64": 155, "aarch64": 41}, 2

# What the kernel does for a student's process, and nothing else: each call's name, and its numbers
# on x86_64 and on aarch64. So no program starts; no memory is had that belongs to no process; no
# disk but its own is locked, or flushed; and no key, right, or priority is asked for.
ANSWERED = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68,
preadv 295 69, pwritev 296 70, lseek 8 62, open 2 -, openat 257 56, creat 85 -, close 3 57,
close_range 436 436, dup 32 23, dup2 33 -, dup3 292 24, pipe 22 -, pipe2 293 59, fcntl 72 25,
ioctl 16 29, stat 4 -, fstat 5 80, lstat 6 -, newfstatat 262 79, statx 332 291, statfs 137 43,
fstatfs 138 44, access 21 -, faccessat 269 48, faccessat2 439 439, readlink 89 -,
readlinkat 267 78, getdents 78 -, getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50,
umask 95 166, listxattr 194 11, llistxattr 195 12, truncate 76 45, ftruncate 77 46,
fallocate 285 47, rename 82 -, renameat 264 38, renameat2 316 276, mkdir 83 -, mkdirat 258 34,
rmdir 84 -, unlink 87 -, unlinkat 263 35, link 86 -, linkat 265 37, symlink 88 -,
symlinkat 266 36, chmod 90 -, fchmod 91 52, fchmodat 268 53, utimensat 280 88,
poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -,
epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, eventfd2 290 19,
socketpair 53 199, sendto 44 206, recvfrom 45 207, shutdown 48 210, getsockname 51 204,
getpeername 52 205, getsockopt 55 209,
mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, madvise 28 233, msync 26 227,
brk 12 214,
clone 56 220, exit 60 93, exit_group 231 94, futex 202 98, set_robust_list 273 99,
get_robust_list 274 100, set_tid_address 218 96, rseq 334 293, arch_prctl 158 -,
prctl 157 167, sched_yield 24 124, sched_getaffinity 204 123, sched_getparam 143 121,
sched_getscheduler 145 120, sched_get_priority_max 146 125, sched_get_priority_min 147 126,
getcpu 309 168, wait4 61 260, waitid 247 95,
rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132, kill 62 129,
tkill 200 130, tgkill 234 131, pause 34 -, alarm 37 -, setitimer 38 103, getitimer 36 102,
restart_syscall 219 128,
nanosleep 35 101, clock_nanosleep 230 115, clock_gettime 228 113, clock_getres 229 114,
gettimeofday 96 169, time 201 -, times 100 153, getrusage 98 165,
getpid 39 172, gettid 186 178, getppid 110 173, getpgid 121 155, getpgrp 111 -,
getsid 124 156, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177,
getresuid 118 148, getresgid 120 150, getgroups 115 158, getrlimit 97 163, setrlimit 160 164,
prlimit64 302 261, getpriority 140 141, uname 63 160, sysinfo 99 179, getrandom 318 278
"""
# Of each machine: its name for the filter, the call that sets one, and the column.
KERNELS = {"x86_64": (0xC000003E, 317, 0), "aarch64": (0xC00000B7, 277, 1)}
# And these with such an argument only: the place of the argument, and what it may be.
ONLY_WITH = {
    "socketpair": (0, (1,)),  # AF_UNIX
    "fcntl": (1, (0, 1, 2, 3, 4, 1030)),  # copies and flags of a file's number: no lock, no lease
    "ioctl": (1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),  # is it a terminal, flags
    "prctl": (0, (15, 16)),  # a thread's name: it can't live on when its parent ends
    "madvise": (2, (0, 1, 2, 3, 4, 8, 14, 15, 16, 18)),  # of files that others read, nothing
}
THREAD = 0x10000  # clone's flag: no process
NOT_PERMITTED, UNKNOWN_CALL = 1, 38
NEWER = 424  # from here on the C library knows another way where a call is unknown


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


def no_new_processes() -> list[str]:
    """Refuse to start processes or programs, for good; threads may be started.

    The kernel also refuses all that is not ``ANSWERED``. Return what could not be kept out.
    """
    starts = ("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen")

    def refuse(event: str, _: Any) -> None:
        if event in starts:
            raise PermissionError(f"{event}: no other processes while this is graded")

    sys.addaudithook(refuse)  # from Python, with a readable reason
    if sys.platform != "linux":
        return []
    try:
        _prctl(NO_NEW_PRIVILEGES, 1)
        _filter_calls()
    except (OSError, KeyError) as error:
        return [f"calls of the kernel that slow others down (no filter: {error})"]
    return []


def _filter_calls() -> None:
    """Have the kernel refuse what is not ``ANSWERED`` (seccomp), whoever asks.

    All calls by other numbers are refused: those of a program of 32 bits, say.

    Raises:
        KeyError: nobody wrote down the numbers of this machine.
    """
    machine, set_filter, column = KERNELS[platform.machine()]
    load, equal, at_least, any_of, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, refuse = (give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x00050000 | NOT_PERMITTED)
    program = [(load, 0, 0, 4), (equal, 1, 0, machine), refuse, (load, 0, 0, 0)]
    for call in ANSWERED.split(","):
        name, *numbers = call.split()
        if numbers[column] == "-":
            continue
        if name == "clone":
            checks = [(load, 0, 0, 16), (any_of, 1, 0, THREAD), refuse, allow]
        elif name in ONLY_WITH:
            place, values = ONLY_WITH[name]
            checks = [(equal, len(values) - i, 0, value) for i, value in enumerate(values)]
            checks = [(load, 0, 0, 16 + 8 * place), *checks, refuse, allow]
        else:
            checks = [allow]
        program += [(equal, 0, len(checks), int(numbers[column])), *checks]
    program += [(at_least, 0, 1, NEWER), (give, 0, 0, 0x00050000 | UNKNOWN_CALL), refuse]
    packed = b"".join(struct.pack("HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(packed)
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    # A thread that was there before would do for a student's code what the others can't.
    _call("syscall", set_filter, FILTER_CALLS, OF_ALL_THREADS, ctypes.c_char_p(header))


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
        code = os.waitstatus_to_exitcode(status)
        os._exit(128 - code if code < 0 else code)  # of a signal what a shell would say
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
    os.makedirs(f"{root}/dev", exist_ok=True)
    with contextlib.suppress(FileExistsError):  # temporary files may lie in there
        os.symlink(folder, f"{root}/dev/shm")  # a pool of threads makes semaphores there
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
    """Return what to show and what to hide, in an order in which the deeper one counts.

    What is shown by two names, as ``/lib`` is often ``/usr/lib``, has the same hidden by both.
    """
    real = {given: os.path.realpath(given) for given in see}
    rules = {path: True for pair in real.items() for path in pair}
    hidden = {path for given in hide for path in (given, os.path.realpath(given))}
    for shown, other in real.items():
        hidden |= {shown + path[len(other) :] for path in hidden if path.startswith(f"{other}/")}
    rules |= dict.fromkeys(hidden, False)
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

    serve([*missing, *no_new_processes()])


if __name__ == "__main__":
    main(*sys.argv[1:])
