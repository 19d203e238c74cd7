"""Runs a lesson for its explorers, and keeps their films until what the lesson is made of changes.

The outputs of all other cells are those that the notebook was recorded with: a machine that builds
a site is busy, and what it measures meanwhile is worth little. An assertion about such a
measurement may fail here; a lesson goes on then, unless it is in a cell that shows an explorer.

What a lesson is made of is not guessed: the kernel says at the end which of the library's modules
it had loaded. Films are kept under the content of these, of the cells, and of the stored models.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lablib
from lablib.folders import write_whole
from lablib.teach.editions import Notebook, part_of
from lablib.tools.site.film import MIME
from lablib.validation import BadValue

_PACKAGE = Path(lablib.__file__).parent
_BEGIN = "from lablib.tools.site import film as _film\n_film.begin()"
_END = """
import json, sys
from pathlib import Path
_film.end(Path({frames!r}), Path({films!r}))
Path({modules!r}).write_text(json.dumps(sorted(
    module.__file__ for name, module in [*sys.modules.items()]
    if name.split(".")[0] == "lablib" and getattr(module, "__file__", None)
)))
"""
_SECONDS = 900  # for a cell, the drawing of all films at the end included


@dataclass(frozen=True)
class Run:
    """The films of a lesson's explorers, and the outputs that hold them.

    Attributes:
        films: of each explorer; see ``film.film``.
        outputs: of the cells that show one, by their ids.
        new: whether the lesson ran for this.
    """

    films: list[dict[str, Any]]
    outputs: dict[str, list[dict[str, Any]]]
    new: bool


def run(notebook: Notebook, path: Path, kept: Path) -> Run:
    """Return what a lesson's explorers show.

    Args:
        notebook: the lesson.
        path: where it is; it runs in this folder.
        kept: a folder for films; the data of their settings are in its folder ``frames``.

    Raises:
        ValueError: a cell of the lesson failed; the line says which and how.
    """
    (kept / "frames").mkdir(parents=True, exist_ok=True)
    told = kept / f"{path.stem}.json"
    if told.exists():
        record = json.loads(told.read_text(encoding="utf-8"))
        if record["key"] == _key(notebook, record["files"]) and _whole(record["films"], kept):
            return Run(record["films"], record["outputs"], new=False)
    films, modules = (kept / f"{path.stem}.{what}.tmp" for what in ("films", "modules"))
    words = {"frames": kept / "frames", "films": films, "modules": modules}
    outputs = _execute(notebook, path, _END.format(**{k: str(v) for k, v in words.items()}))
    files = [str(Path(file).relative_to(_PACKAGE)) for file in json.loads(modules.read_text())]
    record = {"films": json.loads(films.read_text(encoding="utf-8")), "outputs": outputs}
    key = _key(notebook, files)
    write_whole(told, json.dumps({**record, "files": files, "key": key}, ensure_ascii=False))
    for file in (films, modules):
        file.unlink()
    return Run(**record, new=True)


def _execute(notebook: Notebook, path: Path, end: str) -> dict[str, list[dict[str, Any]]]:
    """Run all but the exercises; return the outputs of the cells with an explorer."""
    import nbformat
    from nbclient import NotebookClient

    node = nbformat.from_dict(notebook)
    begin, close = map(nbformat.v4.new_code_cell, (_BEGIN, end))
    node.cells = [begin, *(cell for cell in node.cells if not any(part_of(cell))), close]
    recorded = {cell["id"] for cell in notebook["cells"] if _explores(cell)}
    at = {"metadata": {"path": str(path.parent)}}
    more = {"kernel_name": "python3", "timeout": _SECONDS, "allow_errors": True}
    more["extra_arguments"] = ["--log-level=ERROR"]  # a kernel warns of the way it is spoken to
    NotebookClient(node, resources=at, store_widget_state=False, **more).execute()
    shown = {}
    for cell in node.cells:
        outputs = json.loads(json.dumps(cell.get("outputs", [])))  # plain dictionaries
        for error in (each for each in outputs if each["output_type"] == "error"):
            if error["ename"] != "AssertionError" or cell["id"] in recorded:
                line = f"{error['ename']}: {error['evalue']}".splitlines()[0]
                raise BadValue(f"{path.name} can't be on the site: cell {cell['id']}: {line}")
        if any(MIME in output.get("data", {}) for output in outputs):
            shown[cell["id"]] = outputs
    return shown


def _explores(cell: dict[str, Any]) -> bool:
    """Return whether a cell was recorded with an explorer; ``show`` displays, and has no result."""
    return any(
        output["output_type"] == "execute_result"
        and any("widget-view" in kind for kind in output["data"])
        for output in cell.get("outputs", ())
    )


def _key(notebook: Notebook, files: list[str]) -> str:
    """Return what changes when the lesson's cells, its code or its models do."""
    digest = hashlib.sha256(json.dumps([cell["source"] for cell in notebook["cells"]]).encode())
    stored = sorted((_PACKAGE / "models" / "checkpoints").rglob("*.*"))
    for file in [*(_PACKAGE / name for name in files), *stored]:
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()


def _whole(films: list[dict[str, Any]], kept: Path) -> bool:
    """Return whether the files of all films are still there."""
    files = (film["parts"] for film in films if "parts" in film)
    return all((kept / "frames" / name).exists() for name in files)
