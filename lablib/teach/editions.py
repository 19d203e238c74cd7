"""The cells of a lesson: read, recognised and written for every edition.

``python -m lablib.teach.editions NOTEBOOK ...`` folds the answers to a lesson's questions, once
it was recorded. The editions that a teacher hands out are made in ``release``.

Cells are found by their metadata, ``{"lablib": {"exercise": "03.2", "part": "starter"}}``, which
Jupyter keeps when a student edits the cell. A part ``used`` is a cell that uses what was written,
in one called ``explain`` a student explains it.
"""

import copy
import json
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from lablib.course.checks.exercises import Exercise, find
from lablib.folders import write_whole
from lablib.validation import BadValue

QUESTION = "**Question.**"
IMPORTS = "setup"  # the id of the cell of a lesson that imports, and does nothing else
_NOTHING = {"output_type": "display_data", "data": {}, "metadata": {}}
Notebook = dict[str, Any]  # as in the file; nbformat's nodes are such dictionaries too
Cell = dict[str, Any]


def read_notebook(path: str | Path) -> Notebook:
    """Read a notebook, each cell's source as one string.

    Plain JSON, because importing nbformat takes a second, for each notebook that is graded.
    """
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    if notebook.get("nbformat") != 4:
        raise BadValue(f"notebook must be of format 4, got {notebook.get('nbformat')!r}")
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def write_notebook(notebook: Notebook, path: Path) -> Path:
    """Write a notebook as a whole or not at all, its folder made if need be; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return path


def exercise_cells(exercise: str | Exercise) -> list[Cell]:
    """Return an exercise as nbformat's notebook cells: task, starter, check, hint, solution."""
    import nbformat

    exercise = find(exercise)
    number = exercise.id.replace(".", "-")
    heading = f"### Exercise {exercise.id} · {exercise.title}"
    effort = f"{exercise.difficulty} · {exercise.minutes} minutes"
    texts = {
        "task": f"{heading}\n{effort}\n\n{exercise.task}",
        "starter": exercise.starter,
        "check": f'check("{exercise.id}", {exercise.name})',
        "hint": f'hint("{exercise.id}")',
        "solution": f'solution("{exercise.id}")',
    }
    cells = []
    for part, text in texts.items():
        make = nbformat.v4.new_markdown_cell if part == "task" else nbformat.v4.new_code_cell
        cell = make(text, id=f"exercise-{number}-{part}")
        cell.metadata["lablib"] = {"exercise": exercise.id, "part": part}
        if part == "starter":
            cell.metadata["tags"] = ["exercise"]
        cells.append(cell)
    return cells


def part_of(cell: Cell) -> tuple[str | None, str | None]:
    """Return the exercise id and the part that a cell is, or ``(None, None)``."""
    mark = cell["metadata"].get("lablib", {})
    return mark.get("exercise"), mark.get("part")


def edition(notebook: Notebook, solved: bool) -> Notebook:
    """Return a copy with every starter cell reset to the starter, or filled with the reference."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook["cells"]:
        exercise_id, part = part_of(cell)
        if part == "starter":
            exercise = find(exercise_id)
            cell["source"] = exercise.solution if solved else exercise.starter
    return notebook


def fold(notebook: Notebook) -> Notebook:
    """Return a copy in which what follows a question is folded, until its cell is run.

    A lesson is recorded for readers of the web, so its questions are answered already. JupyterLab
    folds the outputs of cells that say so and unfolds what is run; other readers show them. It
    shows the first line of the first folded output, often the answer: an empty one comes first.
    """
    notebook = copy.deepcopy(notebook)
    for cell, answers in code_cells(notebook):
        unfold(cell)
        cell["outputs"] = [output for output in cell["outputs"] if output != _NOTHING]
        if answers and cell["outputs"]:
            cell["metadata"]["jupyter"] = {"outputs_hidden": True}
            cell["outputs"].insert(0, copy.deepcopy(_NOTHING))
    return notebook


def code_cells(notebook: Notebook) -> Iterator[tuple[Cell, bool]]:
    """Yield each code cell, and whether it answers a question: no other text is between them.

    A question's own ``predict`` shows its choices, and answers nothing.
    """
    asked = False
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            yield cell, asked and not "".join(cell["source"]).startswith("predict(")
        else:
            asked = QUESTION in "".join(cell["source"])


def answered(text: str) -> tuple[list[str], list[str]]:
    """Return the paragraphs after an experiment that answer its question, and the others.

    The answer ends where a heading or a bold word begins something new; where another question
    follows, it is the first paragraph alone, for what comes then may belong to that question.
    """
    paragraphs = text.split("\n\n")
    new = (i for i, each in enumerate(paragraphs) if re.match(r"#|\*\*", each))
    count = min(next(new, len(paragraphs)), 1 if QUESTION in text else len(paragraphs))
    return paragraphs[:count], paragraphs[count:]


def joined(outputs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield outputs, what was printed in several goes as one."""
    for name, some in groupby(outputs, key=lambda output: output.get("name")):
        if name is None:
            yield from some
        else:
            text = "".join("".join(output["text"]) for output in some)
            yield {"output_type": "stream", "name": name, "text": text}


def unfold(cell: Cell) -> None:
    """Take away what was said about showing a code cell; the lesson's imports stay folded.

    Colab folds what is a form; VS Code keeps what is folded to itself, and shows them.
    """
    cell["metadata"].pop("jupyter", None)
    if cell.get("id") == IMPORTS:
        cell["metadata"] |= {"cellView": "form", "jupyter": {"source_hidden": True}}


def unrun(cell: Cell) -> None:
    """Take a code cell's outputs away, and what was said about showing them."""
    cell["outputs"], cell["execution_count"] = [], None
    unfold(cell)


def main(*paths: str) -> None:
    """Fold the answers in recorded lessons, in place."""
    import nbformat

    for path in paths:
        folded = fold(nbformat.read(path, as_version=4))
        nbformat.write(nbformat.from_dict(folded), path)


if __name__ == "__main__":
    main(*sys.argv[1:])
