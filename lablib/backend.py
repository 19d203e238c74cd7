"""Picks the fast BLAS before MLX loads, and tells what this machine is.

MLX's Linux wheel bundles the reference BLAS: about 2 GFLOP/s whatever the shape, so that neither
batching nor verifying a draft can pay. A library that is in the process first, with its symbols
global, answers MLX's ``cblas_sgemm`` instead. ``configure`` loads an OpenBLAS that way; it must run
before ``mlx.core`` is imported, so ``import lablib`` runs it. macOS (Accelerate, Metal) and CUDA
need none of this and are left alone.

Environment:
    LABLIB_BLAS: ``off`` keeps MLX's own library; a path names the library to load.
    LABLIB_THREADS: how many threads the BLAS uses (default 1: best for one-token steps, and kernels
        that run side by side do not fight; one per core is better for training).
"""

import ctypes
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lablib.validation import BadValue, integer

_RUNTIMES = (
    "libquadmath",
    "libgfortran",
    "libgomp",
)  # what a wheel's OpenBLAS needs, in this order
_SYMBOLS = (
    "cblas_sgemm",
    "openblas_get_parallel",
    "openblas_get_num_threads",
    "openblas_set_num_threads",
)
_PTHREADS = 1  # openblas_get_parallel: 0 one thread, 1 its own threads, 2 OpenMP


@dataclass(frozen=True)
class Blas:
    """Which library answers MLX's CPU products, and how we came by it."""

    source: str  # "conda", "system", "wheel", "LABLIB_BLAS", "native" (macOS, CUDA) or "reference"
    path: str | None = None
    note: str | None = None  # why the fast one is not in use, where it is not


_blas: Blas | None = None
_library: ctypes.CDLL | None = None


def configure() -> Blas:
    """Load the fast BLAS, once; later calls return what the first one found.

    Returns:
        What is in use. It never raises for a missing library: everything works on the reference
        BLAS, only slower. A ``LABLIB_BLAS`` path that cannot be loaded is an error.
    """
    global _blas
    if _blas is None:
        _blas = _choose()
    return _blas


def blas() -> Blas:
    """What ``configure`` found."""
    return configure()


def set_threads(n: int) -> None:
    """Let the BLAS use ``n`` threads from now on.

    Raises:
        RuntimeError: this BLAS takes the number only while it loads. An OpenMP build (the wheel's)
            keeps it per thread and MLX computes on a thread of its own, so it cannot be reached
            afterwards; and macOS and CUDA are not ours to set.
    """
    n = integer("n", n, 1, 4 * (os.cpu_count() or 1))
    if n == threads():
        return
    if _library is None or _library.openblas_get_parallel() != _PTHREADS:
        raise RuntimeError(
            f"the BLAS in use ({blas().source}) cannot change its threads while it runs: "
            f"start Python with LABLIB_THREADS={n} in the environment"
        )
    _library.openblas_set_num_threads(ctypes.c_int(n))


def threads() -> int:
    """How many threads the BLAS uses (1 where it is not ours to know)."""
    return int(_library.openblas_get_num_threads()) if _library is not None else 1


def _choose() -> Blas:
    wanted = os.environ.get("LABLIB_BLAS", "")
    if wanted.lower() == "off":
        return Blas("reference" if sys.platform == "linux" else "native", note="LABLIB_BLAS=off")
    if sys.platform != "linux" or _has_cuda_backend():
        return Blas("native")
    if "mlx.core" in sys.modules:
        note = (
            "mlx was imported before lablib, so the slow reference BLAS stays: import lablib first"
        )
        warnings.warn(note, RuntimeWarning, stacklevel=4)
        return Blas("reference", note=note)
    if wanted:
        if (error := _load(Path(wanted))) is not None:
            raise BadValue(
                f"LABLIB_BLAS must be 'off' or the path of an OpenBLAS, got {wanted!r}: {error}"
            )
        return Blas("LABLIB_BLAS", wanted)
    for source, path in _candidates():
        if _load(path) is None:
            return Blas(source, str(path))
    return Blas(
        "reference", note="no OpenBLAS found: pip install faiss-cpu, or apt install libopenblas0"
    )


def _candidates() -> list[tuple[str, Path]]:
    """Where an OpenBLAS with the standard symbol names may be, best first."""
    found = [("conda", Path(sys.prefix) / "lib" / "libopenblas.so.0")]
    spec = importlib.util.find_spec("faiss")  # finds the package without importing it
    if spec is not None and spec.origin:
        libs = Path(spec.origin).parent.parent / "faiss_cpu.libs"
        found += [("wheel", path) for path in sorted(libs.glob("libopenblas*.so*"))]
    found.append(("system", Path("libopenblas.so.0")))  # left to the loader's search path
    return [(source, path) for source, path in found if not path.is_absolute() or path.exists()]


def _load(path: Path) -> str | None:
    """Put the library at ``path`` in front of MLX's own; return why not, or None."""
    global _library
    n = _threads_wanted()
    try:
        # An OpenMP runtime reads its settings once, when it loads. They are ours only for so long:
        # what the user has set for other libraries and child processes stays as it was. PASSIVE
        # lets waiting threads sleep: spinning ones starve a second kernel on the same machine.
        with _environment(OMP_NUM_THREADS=str(n), OMP_WAIT_POLICY="PASSIVE"):
            for runtime in _RUNTIMES:
                for file in sorted(path.parent.glob(f"{runtime}-*.so*")):
                    ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
            library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        return str(error)
    if missing := [name for name in _SYMBOLS if not hasattr(library, name)]:
        return f"it has no symbol {missing[0]}"
    library.openblas_set_num_threads(ctypes.c_int(n))
    _library = library
    return None


@contextmanager
def _environment(**settings: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _threads_wanted() -> int:
    text = os.environ.get("LABLIB_THREADS", "1")
    if not text.isdecimal() or int(text) < 1:
        raise BadValue(f"LABLIB_THREADS must be a whole number of at least 1, got {text!r}")
    return int(text)


def _has_cuda_backend() -> bool:
    return any(_version(name) for name in ("mlx-cuda-12", "mlx-cuda-13", "mlx-cuda"))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
