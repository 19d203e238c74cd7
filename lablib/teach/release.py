"""The editions of lessons that a teacher hands out and keeps, all from one source.

*Student*: starters, and no output that answers a question or shows a solution. *Solved*: the
references in their places. *Teacher*: solved, with what goes wrong in each exercise. A sheet of the
board exercises is made of the same cells. A folder is read and checked as a whole before the first
file is written.
"""

import inspect
import json
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lablib.course.checks.exercises import NUMBER, find
from lablib.folders import course, write_whole
from lablib.teach.assignments import nbgrader_source, otter_source
from lablib.teach.editions import (
    Cell,
    Notebook,
    code_cells,
    edition,
    part_of,
    read_notebook,
    unfold,
    unrun,
    write_notebook,
)
from lablib.teach.sheet import SECTION, boards, sheet_page
from lablib.validation import BadValue

_IMPORT = re.compile(r"^(from lablib\.course import )(\([\w\s,]*\)|.*)$", re.MULTILINE)
CLOSED = "from lablib.course import assessment\n\nassessment()  # solutions are for afterwards"


def student_edition(notebook: Notebook, assessment: bool = False) -> Notebook:
    """Return the edition to work in: starters, questions open, the exercises' cells not yet run.

    With ``assessment`` there are no cells that show a solution, and ``solution`` is closed. It is
    an agreement, not a lock: who has lablib can read its sources.
    """
    notebook = edition(notebook, solved=False)
    for cell, answers in code_cells(notebook):
        if answers or any(part_of(cell)):
            unrun(cell)
    if assessment:
        notebook["cells"] = list(_without_solutions(notebook["cells"]))
    return notebook


def solved_edition(notebook: Notebook) -> Notebook:
    """Return the edition with every exercise solved, nothing run."""
    notebook = edition(notebook, solved=True)
    for cell, _ in code_cells(notebook):
        unrun(cell)
    return notebook


def teacher_edition(notebook: Notebook) -> Notebook:
    """Return the solved edition with a cell of notes below each exercise.

    The lesson's own outputs stay, unfolded.
    """
    notebook = edition(notebook, solved=True)
    for cell, _ in code_cells(notebook):
        if any(part_of(cell)):
            unrun(cell)
        unfold(cell)
    last = {part_of(cell)[0]: number for number, cell in enumerate(notebook["cells"])}
    last.pop(None, None)
    for exercise, number in sorted(last.items(), key=lambda item: -item[1]):
        notebook["cells"].insert(number + 1, _notes(exercise))
    return notebook


def _notes(id_: str) -> Cell:
    """Return the cell that tells a teacher of an exercise's wrong answers, and shows them."""
    exercise = find(id_)
    code = "\n\n\n".join(textwrap.dedent(inspect.getsource(f)).rstrip() for f in exercise.wrong)
    lines = [
        f"#### For the teacher · {exercise.id} {exercise.title}",
        f"{exercise.difficulty} · {exercise.minutes} minutes · points: {exercise.stars}\n",
        "**Wrong answers**, by the names that `grade` calls them, and what students are told:\n",
        *(f"- `{name}`: {text}" for name, text in exercise.misconceptions.items()),
        f"\n<details><summary>The wrong answers as code</summary>\n\n```python\n{code}\n```\n",
        "</details>",
    ]
    name = f"exercise-{id_.replace('.', '-')}-teacher"
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": "\n".join(lines)}


def solve(notebook: str | Path, out: str | Path) -> Path:
    """Write the solved edition of one notebook to a file, and return its path."""
    notebook, out = Path(notebook), Path(out)
    if out.exists() and out.samefile(notebook):
        raise BadValue(f"out must be another file than the notebook, got {str(out)!r}")
    return write_notebook(solved_edition(read_notebook(notebook)), out)


def release(
    out: str | Path,
    sources: Sequence[str | Path],
    *,
    assessment: bool = False,
    nbgrader: bool = False,
    otter: bool = False,
    sheet: bool = False,
) -> list[Path]:
    """Write the editions of notebooks below a folder, and return the folders that were written.

    Files that the lessons link to, a glossary say, go along.

    Args:
        out: gets the folders ``student``, ``solved`` and ``teacher``; or, of what else is asked
            for, ``source``, ``otter`` and ``sheet``. What an earlier release left there
            under the same names is replaced.
        sources: numbers of lessons, notebooks, or folders of notebooks.
        assessment: the student edition shows no solutions.
        nbgrader: write what ``nbgrader generate_assignment`` reads instead, an assignment for each
            lesson; there are no solutions to look at in it either.
        otter: write what ``otter assign`` reads, likewise.
        sheet: write the board exercises of all these lessons to print instead: ``student.html``
            without answers, ``teacher.html`` with them (the rule stands in ``sheet``).

    Raises:
        ValueError: a source is not there, is no notebook, has no board exercises, or would be
            written over.
    """
    asked = {"nbgrader": nbgrader, "otter": otter, "sheet": sheet}
    kinds = {kind for kind, wanted in asked.items() if wanted}
    out, paths = Path(out), list(_notebooks(sources))
    written: dict[str, Notebook | Path | str] = {}
    lessons, asks = [], False
    for path in paths:
        try:
            notebook = read_notebook(path)
            json.dumps(notebook, ensure_ascii=False).encode()  # half of a letter can't be written
            lessons.append(notebook)
            asks |= sheet and boards(notebook) != []
            for name, made in _editions(path, notebook, assessment, kinds):
                written[name] = made
                for linked in _linked(notebook, path.parent):
                    written.setdefault(f"{Path(name).parent}/{linked}", path.parent / linked)
        except Exception as error:  # whatever a file may hold
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            raise BadValue(f"source must be a notebook, got {str(path)!r}: {why}") from None
    if sheet:
        if not asks:
            names = ", ".join(path.name for path in paths)
            raise BadValue(f"source must ask something in a section {SECTION!r}, got {names}")
        written["sheet/student.html"] = sheet_page(lessons, answers=False)
        written["sheet/teacher.html"] = sheet_page(lessons, answers=True)
    if clash := {(out / name).resolve() for name in written} & {*map(Path.resolve, paths)}:
        raise BadValue(f"out must not hold the sources, got {str(out)!r} with {min(clash)}")
    for name, made in written.items():
        _write(out / name, made)
    return sorted({out / Path(name).parts[0] for name in written})


def _write(target: Path, made: Notebook | Path | str) -> None:
    """Write a notebook, a copy of a file, or a text."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(made, Path):
        shutil.copyfile(made, target)
    elif isinstance(made, str):
        write_whole(target, made)
    else:
        write_notebook(made, target)


def _editions(
    path: Path, notebook: Notebook, assessment: bool, kinds: set[str]
) -> Iterator[tuple[str, Notebook]]:
    if "nbgrader" in kinds:
        made = nbgrader_source(student_edition(notebook, True))
        yield f"source/{path.stem}/{path.name}", made
    if "otter" in kinds:
        yield f"otter/{path.name}", otter_source(student_edition(notebook, True))
    if not kinds:
        yield f"student/{path.name}", student_edition(notebook, assessment)
        yield f"solved/{path.name}", solved_edition(notebook)
        yield f"teacher/{path.name}", teacher_edition(notebook)


def _notebooks(sources: Sequence[str | Path]) -> Iterator[Path]:
    """Yield the notebooks that are named, and those in folders that are."""
    seen: dict[str, Path] = {}
    for source in map(_numbered, map(Path, sources)):
        found = sorted(source.glob("*.ipynb")) if source.is_dir() else [source]
        if not found or not found[0].exists():
            raise BadValue(
                f"source must be a lesson's number, a notebook or a folder of them, got "
                f"{str(source)!r}"
            )
        for path in found:
            if (other := seen.setdefault(path.name, path)) is not path:
                raise BadValue(f"sources must have names of their own, got {other} and {path}")
            yield path


def _numbered(source: Path) -> Path:
    """Return the course's lesson of this number; what is no such number stays as it is."""
    folder = course()
    if source.exists() or folder is None or not re.fullmatch(rf"\d|{NUMBER}", str(source)):
        return source
    return next(folder.glob(f"{str(source).zfill(2)}_*.ipynb"), source)


def _linked(notebook: Notebook, folder: Path) -> Iterator[str]:
    """Yield the files beside a notebook that its texts link to, other lessons left out."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            for name in re.findall(r"\]\(([\w.-]+)[)#]", cell["source"]):
                if not name.endswith(".ipynb") and (folder / name).is_file():
                    yield name


def _without_solutions(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield the cells but those that show a solution, and close ``solution`` where it came from."""
    for cell in cells:
        if part_of(cell)[1] == "solution":
            continue
        if cell["cell_type"] == "code" and "solution" in _imported(cell["source"]):
            yield cell | {"source": _IMPORT.sub(_without_solution, cell["source"])}
            closed = {"source": CLOSED, "metadata": {}, "outputs": [], "execution_count": None}
            yield {"cell_type": "code", "id": "assessment", **closed}
        else:
            yield cell


def _imported(source: str) -> list[str]:
    """Return the names that a cell imports from ``lablib.course``."""
    found = _IMPORT.search(source)
    return re.findall(r"\w+", found[2]) if found else []


def _without_solution(found: re.Match[str]) -> str:
    return found[1] + ", ".join(name for name in _imported(found[0]) if name != "solution")
