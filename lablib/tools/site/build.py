"""Builds the site, lesson by lesson, and says what it took."""

import importlib.util
import io
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import lablib
from lablib.course.plots import scene as scenes
from lablib.folders import course, own
from lablib.teach.editions import read_notebook, write_notebook
from lablib.teach.release import student_edition
from lablib.tools.site import contents, play
from lablib.tools.site.pages import FRAMES, page
from lablib.tools.site.run import run
from lablib.tools.site.theme import configuration
from lablib.validation import BadValue, NotInstalled

_NEEDS = "sphinx", "myst_nb", "furo"


def build(
    out: Path, lessons: Iterable[Path] = (), *, repository: str = "", branch: str = "main",
    address: str = "", kept: Path | None = None, say: Callable[[str], None] = print,
) -> list[str]:  # fmt: skip
    """Build the site.

    Args:
        out: its folder: new, empty, or one that this has written.
        lessons: notebooks; all of them if none are named.
        repository: the address of a public git repository of them, for links that open a lesson
            on Binder and, if it is on GitHub, on Colab.
        branch: the branch of it.
        address: where the site will be, as ``https://…/``: what previews links takes a picture by
            its whole address only.
        kept: a folder for what the lessons showed, so that only changed ones run; the user's
            cache if None.
        say: gets a line for each lesson, and one at the end.

    Returns:
        Sphinx's warnings.

    Raises:
        ImportError: Sphinx and its parts are not installed.
        ValueError: a lesson does not run, ``repository`` or ``address`` is no address, or ``out``
            holds something else.
    """
    began = time.monotonic()
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise NotInstalled(f"a site needs {', '.join(missing)}: pip install 'lablib[site]'")
    links = contents.Links(repository, branch)
    address = contents.checked("address", address)
    if (folder := course()) is None:
        raise BadValue("no lessons in the package or beside it: install lablib anew")
    _room(out)
    paths = [Path(path).resolve() for path in lessons] or sorted(folder.glob("*.ipynb"))
    kept = kept or next(own()) / "site"
    with tempfile.TemporaryDirectory() as parts:
        source, static = Path(parts, "source"), Path(parts, "static")
        for path in paths:
            start = time.monotonic()
            notebook = read_notebook(path)
            ran = run(notebook, path, kept)
            shown = page(notebook, ran, kept / "frames", links.launch(path))
            write_notebook(shown, source / path.name)
            student = student_edition(notebook, assessment=True)
            write_notebook(student, static / "notebooks" / path.name)
            took = f"ran in {time.monotonic() - start:.0f} s" if ran.new else "as it was"
            say(f"{path.stem}: {len(ran.films)} explorers, {took}")
        play.write(static / "play")
        contents.write(source, paths, folder)
        (static / "scenes").mkdir()
        for name, script in scenes.scripts().items():
            (static / "scenes" / f"{name}.js").write_text(script, "utf-8")
        (static / "scenes.css").write_text(scenes.sheet(), "utf-8")
        warnings = _sphinx(source, out, static, Path(parts, "doctrees"), address)
    used = _take_frames(out, kept / "frames")
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    say(f"{out}: {used} pictures, {size / 1e6:.0f} MB, in {time.monotonic() - began:.0f} s")
    return warnings


def _room(out: Path) -> None:
    """Empty a folder that an earlier build has filled; refuse one that holds something else."""
    if out.exists() and any(out.iterdir()):
        if not (out / "objects.inv").exists():
            raise BadValue(f"OUT must be a new folder or one with a site, got {str(out)!r}")
        shutil.rmtree(out)


def _sphinx(source: Path, out: Path, static: Path, doctrees: Path, address: str) -> list[str]:
    from sphinx.application import Sphinx

    said = io.StringIO()
    conf = configuration(static, lablib.__version__, address)
    app = Sphinx(source, None, out, doctrees, "html", conf, status=None, warning=said)
    app.build()
    for rest in (".buildinfo", ".doctrees"):  # Sphinx's own notes
        (out / rest).unlink(missing_ok=True)
    return re.sub(r"\x1b\[[\d;]*m", "", said.getvalue()).replace(f"{source}/", "").splitlines()


def _take_frames(out: Path, frames: Path) -> int:
    """Copy the pictures that pages name; return how many they are."""
    name = re.compile(r"\b[0-9a-f]{20}\.(?:webp|js)\b")
    used = {found for file in out.glob("*.html") for found in name.findall(file.read_text("utf-8"))}
    (out / FRAMES).mkdir(parents=True, exist_ok=True)
    for file in used:
        shutil.copy(frames / file, out / FRAMES / file)
    return len(used)
