"""Builds ``few_rows.c``: products of a few rows that read each weight once.

It is built once, with the compiler that MLX wants, too (``mx.compile``), into the user's cache
folder; a wheel brings it. The vectors are as wide as those of OpenBLAS's own kernels.
"""

import ctypes
import hashlib
import platform
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

SOURCE = Path(__file__).with_name("few_rows.c")
# What OpenBLAS calls its kernels -> the processors that such kernels need.
_PROCESSORS = {
    "SkylakeX": "x86-64-v4",
    "Cooperlake": "x86-64-v4",
    "SapphireRapids": "x86-64-v4",
    "Haswell": "x86-64-v3",
    "Zen": "x86-64-v3",
}


def library(core: str | None) -> Path:
    """Return the path of the library for OpenBLAS's kernels ``core``, built if it is not there yet.

    Raises:
        OSError: there is no compiler, or no folder to write to; or the compiler failed.
    """
    from lablib import folders  # here: setup.py runs this file, without the package

    processor = processor_of(core)
    shipped = SOURCE.with_name(f"few_rows-{processor}.so")
    if shipped.is_file():
        return shipped
    mark = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    name = f"few_rows-{mark}-{processor}.so"
    return folders.made_once(name, partial(build, processor=processor))


def start(path: str, openblas: ctypes.CDLL) -> None:
    """Load the library, in front of all that is loaded later; ``openblas`` gets other products.

    Raises:
        OSError: it can't be loaded, or it is another library.
    """
    if not hasattr(ctypes.CDLL(path), "few_rows_start"):
        raise OSError(f"{path} has no symbol few_rows_start")
    products = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    products.few_rows_start(ctypes.cast(openblas.cblas_sgemm, ctypes.c_void_p))


def processors() -> list[str]:
    """Return what the library is built for on machines like this one."""
    machine = platform.machine()
    others = sorted(set(_PROCESSORS.values())) if machine == "x86_64" else []
    return [machine.replace("_", "-"), *others]


def compiler() -> str | None:
    """Return the path of a C compiler, if there is one."""
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def build(path: Path, processor: str, source: Path | None = None, more: Sequence[str] = ()) -> None:
    """Compile ``few_rows.c``, or another source, for a processor of :func:`processors`.

    Raises:
        OSError: there is no compiler, or it failed.
    """
    tool = compiler()
    if tool is None:
        raise OSError("no C compiler")
    flags = ["-march=" + processor] if processor.startswith("x86") else []
    flags += ["-shared", "-fPIC", "-pthread", f"-I{SOURCE.parent}"]
    command = [tool, "-O3", *flags, *more, str(source or SOURCE)]
    command += ["-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{tool} failed: {done.stderr.strip()[:200]}")


def processor_of(core: str | None) -> str:
    """Return the processor that OpenBLAS's kernels ``core`` are for."""
    return _PROCESSORS.get(core or "", processors()[0])
