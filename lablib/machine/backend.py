"""Picks the fast BLAS before MLX loads.

MLX's Linux wheel bundles the reference BLAS: about 2 GFLOP/s whatever the shape, so that neither
batching nor verifying a draft can pay. A library that is in the process first, with its symbols
global, answers MLX's ``cblas_sgemm`` instead. ``configure`` loads an OpenBLAS that way: conda's,
the one that ``openblas.py`` makes, or the system's. It must run before ``mlx.core`` is imported, so
``import lablib`` runs it. macOS (Accelerate, Metal) and CUDA need no library. In front of OpenBLAS
stands ``few_rows.c``, for the products that decoding consists of.

Environment:
    LABLIB_BLAS: ``off`` keeps MLX's own library; a path names the library to load.
    LABLIB_FEW_ROWS: ``off`` leaves products of few rows to OpenBLAS; a path names the library.
    MLX_ENABLE_TF32: ``1`` lets a GPU round the factors of a float32 product to ten bits, and two
        ways to the same logits agree to three digits only; so we set ``0`` unless it is set.
    LABLIB_THREADS: how many threads the BLAS uses, and products with stored weights (default 1:
        kernels that run side by side do not fight, and one is best for one-token steps in float32.
        One per core is better for training, and for stored weights where nothing else runs).
"""

import ctypes
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from lablib.machine import few_rows, openblas
from lablib.validation import BadValue, integer

_SYMBOLS = (
    "cblas_sgemm",
    "openblas_get_parallel",
    "openblas_get_num_threads",
    "openblas_set_num_threads",
)
_PTHREADS = 1  # openblas_get_parallel: 0 one thread, 1 its own threads, 2 OpenMP


@dataclass(frozen=True)
class Blas:
    """Names the library that answers MLX's CPU products, and where it came from."""

    source: str  # "conda", "system", "wheel", "LABLIB_BLAS", "native" (macOS, CUDA) or "reference"
    path: str | None = None
    note: str | None = None  # why the fast one is not in use, where it is not
    few_rows: str | None = None  # the path of the library of products of few rows
    few_rows_note: str | None = None  # why it is not in use, where it is not

    def settings(self) -> dict[str, str]:
        """Return the environment in which another process loads the same, without a search."""
        if self.source == "native":
            return {}
        return {"LABLIB_BLAS": self.path or "off", "LABLIB_FEW_ROWS": self.few_rows or "off"}


_blas: Blas | None = None
_library: ctypes.CDLL | None = None
_followers: list[Callable[[int], object]] = []  # what else computes with as many threads


def configure() -> Blas:
    """Load the fast BLAS, once; later calls return the first one's finding.

    Returns:
        The library in use. It never raises for a missing library: everything works on the reference
        BLAS, only slower. A ``LABLIB_BLAS`` path that cannot be loaded is an error.
    """
    global _blas
    if _blas is None:
        _blas = _choose()
    return _blas


def blas() -> Blas:
    """Return the finding of ``configure``."""
    return configure()


def set_threads(n: int) -> None:
    """Let the BLAS use ``n`` threads from now on, and products with stored weights.

    Raises:
        RuntimeError: this BLAS takes the number only while it loads. An OpenMP build (the wheel's)
            keeps it per thread and MLX computes on a thread of its own, so it cannot be reached
            afterwards; and macOS and CUDA are not ours to set.

    Args:
        n: how many, from 1 to four times the processor's.

    Example:
        >>> from lablib.machine.backend import threads
        >>> lablib.set_threads(threads())
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
    for follow in _followers:
        follow(n)


def threads() -> int:
    """Return the number of threads that the BLAS uses (1 where it is not ours to know)."""
    return int(_library.openblas_get_num_threads()) if _library is not None else 1


def follow_threads(follow: Callable[[int], object]) -> None:
    """Call ``follow(n)`` now, and whenever the number of threads is set."""
    _followers.append(follow)
    follow(threads())


def core() -> str | None:
    """Name the processor whose kernels OpenBLAS has chosen, "SkylakeX" or "Haswell", say."""
    name = getattr(_library, "openblas_get_corename", None)
    if name is None:
        return None
    name.restype = ctypes.c_char_p
    return name().decode()


def _choose() -> Blas:
    wanted = os.environ.get("LABLIB_BLAS", "")
    linux = sys.platform == "linux"
    if wanted.lower() == "off":
        return Blas("reference" if linux else "native", note="LABLIB_BLAS=off")
    if not linux or has_cuda_backend():
        os.environ.setdefault("MLX_ENABLE_TF32", "0")
        return Blas("native")
    if "mlx.core" in sys.modules:
        late = "mlx was imported before lablib, so the slow reference BLAS stays"
        note = f"{late}: import lablib first"
        warnings.warn(note, RuntimeWarning, stacklevel=4)
        return Blas("reference", note=note)
    return _load_wanted(wanted) if wanted else _load_best()


def _load_wanted(path: str) -> Blas:
    error = _load(Path(path))
    if error is not None:
        allowed = "'off' or the path of an OpenBLAS"
        raise BadValue(f"LABLIB_BLAS must be {allowed}, got {path!r}: {error}")
    return _with_few_rows(Blas("LABLIB_BLAS", path))


def _load_best() -> Blas:
    reasons: list[str] = []
    for source, find in _CANDIDATES:
        try:
            path = find()
            error = _load(path)
        except OSError as raised:
            error = str(raised)
        if error is None:
            return _with_few_rows(Blas(source, str(path), "; ".join(reasons) or None))
        if source != "conda":  # most people have none
            reasons.append(error)
    return Blas("reference", note="; ".join(["no OpenBLAS found", *reasons]))


# Where an OpenBLAS with the standard names may be, best first.
_CANDIDATES: tuple[tuple[str, Callable[[], Path]], ...] = (
    ("conda", lambda: Path(sys.prefix, "lib", "libopenblas.so.0").resolve(strict=True)),
    ("wheel", openblas.library),
    ("system", lambda: Path("libopenblas.so.0")),  # left to the loader's search path
)


def _load(path: Path) -> str | None:
    """Load the library at ``path``, its names not yet for others; return why not, or None."""
    global _library
    n = _threads_wanted()
    # PASSIVE lets waiting threads of OpenMP sleep: spinning ones starve a second kernel on the same
    # machine.
    settings = {
        "OPENBLAS_NUM_THREADS": str(n),
        "OMP_NUM_THREADS": str(n),
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    try:
        # A library reads its settings once, when it loads. They are ours only for so long: the
        # user's own, for other libraries and child processes, stay as they were.
        with _environment(settings):
            library = ctypes.CDLL(str(path))
    except OSError as error:
        return str(error)
    missing = [name for name in _SYMBOLS if not hasattr(library, name)]
    if missing:
        return f"it has no symbol {missing[0]}"
    library.openblas_set_num_threads(ctypes.c_int(n))
    _library = library
    return None


def _with_few_rows(blas: Blas) -> Blas:
    """Put few rows, and then the loaded BLAS, in front of MLX's own library: first come, first."""
    path, note = _start_few_rows(os.environ.get("LABLIB_FEW_ROWS", ""))
    ctypes.CDLL(blas.path, mode=ctypes.RTLD_GLOBAL)
    return replace(blas, few_rows=path, few_rows_note=note)


def _start_few_rows(wanted: str) -> tuple[str | None, str | None]:
    """Return the path of the library in use, or None and why not."""
    if wanted.lower() == "off":
        return None, "LABLIB_FEW_ROWS=off"
    try:
        path = wanted or str(few_rows.library(core()))
        assert _library is not None  # it is loaded by now
        few_rows.start(path, _library)
    except OSError as error:
        if not wanted:
            return None, str(error)
        allowed = "'off' or the path of a built few_rows.c"
        said = f"LABLIB_FEW_ROWS must be {allowed}, got {wanted!r}: {error}"
        raise BadValue(said) from None
    return path, None


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
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


def has_cuda_backend() -> bool:
    """Return whether MLX computes on a GPU of NVIDIA's here."""
    packages = "mlx-cuda-12", "mlx-cuda-13", "mlx-cuda"
    return any(version(name) for name in packages)


def version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
