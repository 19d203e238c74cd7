"""Tells what this machine is and how fast it multiplies, and advises where something is wrong."""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lablib.machine import backend, scheduling

import numpy as np

_PACKAGES = ("mlx", "mlx-lm", "jupyterlab", "ipywidgets", "matplotlib")
_HELD = "OPENBLAS_CORETYPE"  # the variable that chooses OpenBLAS's kernels, and few rows with them
_ASK_WITHOUT = (
    "from lablib.machine import backend, doctor\nprint(backend.core(), doctor.measure_gflops())"
)
_SLOW_GFLOPS = 20.0  # per core: the reference BLAS reaches 2 to 6, any OpenBLAS 40 and more
_MINIMUM_GLIBC = (2, 35)


@dataclass(frozen=True)
class Report:
    """Holds the findings of ``doctor``.

    Attributes:
        facts: the findings by name, in reading order.
        gflops: float32 products of 1024×256 by 256×1024, in 10⁹ operations a second; None when MLX
            does not load.
        advice: a line for each problem; empty when all is well.
    """

    facts: dict[str, str]
    gflops: float | None
    advice: tuple[str, ...]

    def __str__(self) -> str:
        width = max(map(len, self.facts))
        advice = [("advice", line) for line in self.advice or ("none: all is well",)]
        lines = [*self.facts.items(), *advice]
        return "\n".join(f"{name:>{width}}  {value}" for name, value in lines)

    __repr__ = __str__


def doctor() -> Report:
    """Look at this machine: device, BLAS with a measured speed, scheduling, versions, advice.

    Takes a second or two and changes nothing. It never raises: a machine on which MLX does not even
    import is just the one that needs it.

    Returns:
        The report, which shows itself.

    Raises:
        Nothing.

    Example:
        >>> "machine" in lablib.doctor().facts
        True
    """
    facts = {
        "machine": f"{platform.system()} {platform.machine()}, {_cores()} cores, {_memory()}",
        "python": f"{platform.python_version()} at {sys.prefix}",
        "packages": ", ".join(map(_with_version, _PACKAGES)),
    }
    advice = _platform_advice()
    try:
        from lablib.machine import one_order

        import mlx.core as mx
    except ImportError as error:
        facts["mlx"] = f"does not import: {error}"
        return Report(facts, None, (*advice, "install lablib anew, in a new environment"))
    gflops = measure_gflops()
    policy = scheduling.policy()
    facts["device"] = str(mx.default_device())
    facts["blas"] = _describe_blas(gflops)
    share = measure_share() if backend.core() else None
    if share is not None:
        facts["few rows"] = _describe_few_rows(share)
    reason = one_order.obstacle()
    proved = "inside lablib.same_bits(): 1 to 64 rows, with and without padding, are equal"
    facts["same bits"] = f"not here: {reason}" if reason else proved
    if policy is not None:
        facts["scheduling"] = policy
    facts["compiler"] = shutil.which("g++") or "none: mx.compile runs uncompiled on the CPU"
    measured = [*_speed_advice(gflops), *_held_advice(gflops), *_few_rows_advice(share)]
    return Report(facts, gflops, (*advice, *measured, *_kernel_advice()))


def _describe_blas(gflops: float) -> str:
    blas, core, threads = backend.blas(), backend.core(), backend.threads()
    parts = [f"{blas.source} ({Path(blas.path).name})" if blas.path else blas.source]
    if core is not None:
        parts.append(f"{core} kernels" + f", chosen by {_HELD}" * (_HELD in os.environ))
    parts.append("1 thread" if threads == 1 else f"{threads} threads")
    parts.append(f"{gflops:.0f} GFLOP/s")
    return ", ".join(parts)


def measure_gflops(rows: int = 1024, inner: int = 256, columns: int = 1024) -> float:
    """Time a few float32 products (rows, inner) @ (inner, columns), in 10⁹ operations a second.

    Return the best and not the mean: whatever else the machine does only ever slows a product down.
    """
    import mlx.core as mx

    a = mx.random.normal((rows, inner), key=mx.random.key(0))
    b = mx.random.normal((inner, columns), key=mx.random.key(1))
    mx.eval(a, b)
    seconds = min(_timed(lambda: mx.eval(a @ b)) for _ in range(12))
    return 2 * rows * inner * columns / seconds / 1e9


def measure_share() -> float:
    """Return how fast MLX's product of one row is, as a share of NumPy's ``einsum``.

    That reads a matrix in one thread at some four fifths of the memory's speed or more; a decoded
    token reads each matrix of a model.
    """
    import mlx.core as mx

    n, k, count = 1536, 576, 20  # those of a model of 100M parameters, 70 MB: no cache holds them
    ours = [mx.random.normal((n, k), key=mx.random.key(i)) for i in range(count)]
    row = mx.ones((1, k))
    mx.eval(row, ours)
    theirs, vector = [np.array(each) for each in ours], np.ones(k, np.float32)

    def one_row() -> None:
        mx.eval([row @ each.T for each in ours])

    def matrix_vector() -> None:
        for each in theirs:  # not by a BLAS: its threads wait in a loop, and the clock counts that
            np.einsum("ij,j->i", each, vector)

    now = time.process_time  # what the neighbours do to a clock is not this machine's doing
    turns = [(_timed(matrix_vector, now), _timed(one_row, now)) for _ in range(5)]
    reading, multiplying = (min(seconds) for seconds in zip(*turns, strict=True))
    return reading / multiplying


def _describe_few_rows(share: float) -> str:
    path = backend.blas().few_rows
    with_what = Path(path).name if path else f"OpenBLAS's ({backend.blas().few_rows_note})"
    return f"{with_what}, 1 row at {share:.0%} of the speed of NumPy's einsum"


def _timed(work: Callable[[], object], now: Callable[[], float] = time.perf_counter) -> float:
    start = now()
    work()
    return now() - start


def _platform_advice() -> list[str]:
    advice = []
    if sys.platform == "win32":
        advice.append("Windows: MLX has no wheel for it; use WSL2 (Ubuntu 22.04 or later)")
    if sys.platform == "darwin" and platform.machine() != "arm64":
        advice.append("Intel Mac: MLX needs Apple silicon; use Colab or Binder (docs/install.md)")
    glibc = _glibc() if sys.platform == "linux" else None
    if glibc is not None and glibc < _MINIMUM_GLIBC:
        cure = "use Ubuntu 22.04 / Debian 12 or later, or Colab or Binder"
        number = ".".join(map(str, glibc))
        advice.append(f"glibc {number} is older than 2.35, which MLX's wheel needs: {cure}")
    return advice


def _speed_advice(gflops: float) -> list[str]:
    blas = backend.blas()
    if blas.note:
        slow = blas.source == "reference"
        return [f"slow products: {blas.note}" if slow else f"the {blas.source}'s BLAS: {blas.note}"]
    if blas.source == "reference" or gflops < _SLOW_GFLOPS:
        return [f"slow products ({gflops:.0f} GFLOP/s): is something else using the machine?"]
    return []


def _held_advice(gflops: float) -> list[str]:
    """Advise where the environment chooses slower kernels than OpenBLAS would."""
    if _HELD not in os.environ or backend.core() is None:
        return []
    free = {name: value for name, value in os.environ.items() if name != _HELD}
    command = [sys.executable, "-c", _ASK_WITHOUT]
    done = subprocess.run(command, env=free, capture_output=True, text=True, check=False)
    core, speed = done.stdout.split() or (backend.core(), 0)
    if core == backend.core():
        return []
    both = f"{gflops:.0f} GFLOP/s, where {core} kernels reach {float(speed):.0f}"
    return [f"{_HELD}={os.environ[_HELD]} is set: {both}; unset it"]


def _few_rows_advice(share: float | None) -> list[str]:
    blas = backend.blas()
    if share is None or blas.few_rows or "LABLIB_FEW_ROWS" in os.environ:
        return []
    cure = "apt install g++ brings products that read each weight once"
    return [f"{blas.few_rows_note}, and 1 row at {share:.0%} of memory's speed: {cure}"]


def _kernel_advice() -> list[str]:
    """Advise a notebook whose kernel is not of the environment of its server."""
    server = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    if "ipykernel" not in sys.modules or not server:
        return []
    if Path(server).resolve() == Path(sys.prefix).resolve():
        return []
    return [f"the kernel runs in {sys.prefix}, not in {server}: choose its kernel in the menu"]


def _glibc() -> tuple[int, int] | None:
    try:
        version = ctypes.CDLL(None).gnu_get_libc_version
    except (AttributeError, OSError):  # musl has none
        return None
    version.restype = ctypes.c_char_p
    major, minor = version().decode().split(".")[:2]
    return int(major), int(minor)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return "memory unknown"
    return f"{total / 2**30:.0f} GiB memory"


def _with_version(package: str) -> str:
    return f"{package} {backend.version(package) or 'missing'}"
