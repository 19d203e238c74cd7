"""Builds the product with weights as they are stored, as an operation of MLX's.

``stored_weights.c`` is the product, ``stored_block.c`` a Llama's block around it, ``team.c`` shares
their loops among ``LABLIB_THREADS`` threads, and two files of C++ hand them to MLX. All are built
once, when a model first wants them, into the user's cache folder: with a C++ compiler, against the
headers that MLX's wheel brings, by nanobind, as MLX's own bindings are. Without these a model runs
on products of MLX's; :func:`obstacle` says what is missing.

Environment:
    LABLIB_STORED: ``off`` leaves all products to MLX.
"""

import ctypes
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

from lablib import folders
from lablib.machine import backend, few_rows

import mlx.core as mx

SOURCE = Path(__file__).with_name("stored_weights.c")
BLOCK = SOURCE.with_name("stored_block.c")  # each includes the other file of its language
TEAM = SOURCE.with_name("team.c")
OPERATION = BLOCK.with_suffix(".cpp")
_MODULE = "lablib_stored_weights"
_FUNCTIONS = (
    "stored_product",
    "stored_space",
    "block_before",
    "block_before_space",
    "block_after",
    "block_after_space",
    "block_read",
)
# Bytes times two as one instruction: what the processor must have, and the compiler be told.
_PAIRS = {"x86-64-v4": ("avx512_vnni", "-mavx512vnni")}
# Without AVX gcc 12 takes half a minute at -O3, and what it makes is no faster.
_LESS = {"x86-64": ["-O2"]}

Product = Callable[[mx.array, mx.array, mx.array, mx.array, int, int, int], mx.array]


def product() -> Product | None:
    """Return ``product(x, codes, scales, minima, columns, bits, group)``; None if it can't be had.

    ``x (..., depth)`` float32 gives ``(..., columns)``; how codes, scales and minima lie is said in
    ``stored_weights.c``. The first call ever builds it, for some ten seconds.

    Raises:
        ValueError: of the function, where arrays don't fit each other.
    """
    made = _made()[0]
    return made and made.product


def block() -> Any:
    """Return the module with ``before``, ``after`` and ``read`` of ``stored_block.cpp``, or None.

    What they compute is said in ``stored_block.c``; they raise as the product does.
    """
    return _made()[0]


def obstacle() -> str | None:
    """Return why there is no such product here; None where there is."""
    return _made()[1]


@cache
def _made() -> tuple[Any, str | None]:
    if os.environ.get("LABLIB_STORED", "").lower() == "off":
        return None, "LABLIB_STORED=off"
    if sys.platform != "linux" or mx.default_device() == mx.gpu:
        return None, "it is for CPUs, on Linux"
    try:
        return _load(library(), operation()), None
    except (OSError, ImportError) as error:
        return None, str(error)


def library() -> Path:
    """Return the path of the compiled ``stored_block.c``, built if it is not there yet.

    Raises:
        OSError: there is no compiler, or no folder to write to; or the compiler failed.
    """
    processor = few_rows.processor_of(backend.core())
    flags = flags_of(processor)
    name = f"stored-{_mark(TEAM, SOURCE, BLOCK)}-{processor}{''.join(flags)}.so"
    return folders.made_once(
        name, partial(few_rows.build, processor=processor, source=BLOCK, more=flags)
    )


def flags_of(processor: str) -> list[str]:
    """Return what else to tell the compiler, by what the processor is and this machine's has."""
    flag, option = _PAIRS.get(processor, ("", ""))
    try:
        has = flag and f" {flag} " in Path("/proc/cpuinfo").read_text()
    except OSError:
        has = False
    return _LESS.get(processor, []) + [option] * bool(has)


def operation() -> Path:
    """Return the path of the compiled ``stored_block.cpp``, as :func:`library` does.

    Raises:
        ImportError: there is no nanobind.
    """
    import nanobind

    versions = "-".join((metadata.version("mlx"), nanobind.__version__))
    python = f"{sys.implementation.cache_tag}-{platform.machine()}"
    name = f"stored-{_mark(SOURCE.with_suffix('.cpp'), OPERATION)}-mlx-{versions}-{python}.so"
    return folders.made_once(name, build_operation)


def build_operation(path: Path) -> None:
    """Compile it into the file ``path``."""
    import nanobind

    tool = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if tool is None:
        raise OSError("no C++ compiler")
    own = Path(nanobind.include_dir())
    mlx = Path(mx.__file__).parent
    headers = (
        mlx / "include",
        own,
        own.parent / "ext" / "robin_map" / "include",
        sysconfig.get_paths()["include"],
    )
    command: list[str | Path] = [
        tool,
        "-std=c++20",
        "-O2",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-strict-aliasing",
        "-DNB_DOMAIN=mlx",
        "-DNDEBUG",
        *(f"-I{each}" for each in headers),
        OPERATION,
        Path(nanobind.source_dir(), "nb_combined.cpp"),
        f"-L{mlx / 'lib'}",
        "-lmlx",
        "-o",
        path,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{tool} failed: {done.stderr.strip()[:200]}")


def _load(library: Path, operation: Path) -> Any:
    kernel = ctypes.CDLL(str(library))
    spec: Any = importlib.util.spec_from_file_location(_MODULE, operation)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    backend.follow_threads(kernel.team_threads)
    module.start([ctypes.cast(kernel[name], ctypes.c_void_p).value for name in _FUNCTIONS])
    return module


def _mark(*sources: Path) -> str:
    return hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:12]
