"""What every lesson's notebook keeps to, as far as it can be seen without running it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from lablib.course.checks.exercises import exercises, lessons, number_of
from lablib.teach.editions import IMPORTS, exercise_cells, part_of, read_notebook

from oracles.claims import sections

SECTIONS = (
    "You will be able to",
    "By hand",
    "In the library",
    "Predict, then run",
    "Measured against theory",
    "Exercises",
    "Summary",
)
VIEW = "application/vnd.jupyter.widget-view+json"
PICTURES = {"image/png", "image/svg+xml", "text/html"}
# What other programs move, or a GPU's work isn't in; `lablib.course.replay.measure.clock` knows.
CLOCK = re.compile(r"\btime\.(perf_counter|process_time|thread_time|monotonic)\b(?!.*# the wall's)")
ABSOLUTE = re.compile(r"(?<![\w/.:])/(home|Users|tmp|root|work|opt|var|mnt)/\w|\b[A-Z]:\\\\?\w")


def hygiene(notebook, path: Path) -> list[str]:
    """Return what is wrong with a lesson, one line each; empty when nothing is.

    Args:
        notebook: the notebook as nbformat reads it.
        path: where it lies; links are looked up beside it.
    """
    lesson = number_of(path.name)
    complaints = [*_recorded(notebook), *_cells(notebook, {*sections(lesson)}), *_texts(notebook)]
    complaints += [*_pictures(notebook), *_links(notebook, path.parent)]
    if not re.fullmatch(r"\d\d[a-z]?_[a-z0-9_]+\.ipynb", path.name):
        complaints.append("is not called NN_name.ipynb")
    if lesson != "00":
        complaints += _sections(notebook)
    return [*complaints, *_exercises(notebook, lesson, path.parent)]


def hygiene_of_a_page(notebook, path: Path) -> list[str]:
    """Return what is wrong with a page beside a lesson, one line each."""
    return [*_texts(notebook), *_pictures(notebook), *_links(notebook, path.parent)]


def _code(notebook) -> Iterator:
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def _markdown(notebook) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def _outputs(notebook) -> Iterator:
    for cell in _code(notebook):
        for output in cell.outputs:
            yield cell.id, output


def _recorded(notebook) -> Iterator[str]:
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "its kernel is not python3"
    if "widgets" in notebook.metadata:
        yield "holds widget state"
    if any("execution" in cell.metadata for cell in notebook.cells):
        yield "holds execution times"
    counts = [cell.execution_count for cell in _code(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield "was not run once from top to bottom"
    for cell_id, output in _outputs(notebook):
        if output.output_type == "error":
            yield f"{cell_id}: recorded an error"
        if output.get("name") == "stderr":
            yield f"{cell_id}: recorded a warning"


def _cells(notebook, claimed: set[str]) -> Iterator[str]:
    ids = [cell.get("id", "") for cell in notebook.cells]
    if len({*ids}) < len(ids) or not all(ids):
        yield "cell ids are missing or not unique"
    section = ""
    for cell in notebook.cells:
        if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f-]+)?", cell.get("id", "")):
            yield f"{cell.id}: the cell's id is not readable"
        if cell.cell_type == "markdown":
            section = (re.findall(r"^## (.*)", cell.source, re.M) or [section])[-1]
            continue
        limit = 15 if section.startswith("By hand") else 24
        limit = 64 if part_of(cell)[1] == "starter" else limit  # lesson 15 hands out its suspects
        if cell.source.count("\n") >= limit:
            yield f"{cell.id}: longer than {limit} lines"
        ignored = "nbval-ignore-output" in cell.metadata.get("tags", [])
        if ignored and "assert" not in cell.source and not _claimed(notebook, cell, claimed):
            yield f"{cell.id}: its output is ignored and it asserts nothing"
        if cell.id == IMPORTS and not _imports(cell.source):
            yield f"{cell.id}: does more than import, and is folded"
        if found := CLOCK.search(cell.source):
            yield f"{cell.id}: {found[0]} is not measure.clock, and no comment says why"


def _imports(source: str) -> bool:
    return all(isinstance(each, (ast.Import, ast.ImportFrom)) for each in ast.parse(source).body)


def _claimed(notebook, cell, claimed: set[str]) -> bool:
    """Return whether ``tests/claims`` has checks behind a cell, before the next section."""
    for later in notebook.cells[notebook.cells.index(cell) :]:
        if later.cell_type == "markdown" and re.search(r"^## ", later.source, re.M):
            return False
        if later.id in claimed:
            return True
    return False


def _texts(notebook) -> Iterator[str]:
    for cell in notebook.cells:
        if found := ABSOLUTE.search(cell.source):
            yield f"{cell.id}: absolute path {found[0]!r}"
    for cell_id, output in _outputs(notebook):
        texts = [output.get("text", "")]
        texts += [text for kind, text in output.get("data", {}).items() if kind.startswith("text/")]
        for text in texts:
            if found := ABSOLUTE.search(re.sub(r"base64,[\w+/=]+", "", text)):
                yield f"{cell_id}: absolute path {found[0]!r} in the output"


def _pictures(notebook) -> Iterator[str]:
    if re.search(r"!\[\s*\]\(|<img(?![^>]*alt=\"[^\"]+)", _markdown(notebook)):
        yield "an image in the text has no alt text"
    for cell_id, output in _outputs(notebook):
        data, metadata = output.get("data", {}), output.get("metadata", {})
        if "image/png" in data and not metadata.get("image/png", {}).get("alt"):
            yield f"{cell_id}: picture without alt text"
        if re.search(r"<img(?![^>]*alt=\"[^\"]+)", data.get("text/html", "")):
            yield f"{cell_id}: <img> without alt text"
        if VIEW in data and not PICTURES & {*data}:
            yield f"{cell_id}: widget without a picture for readers without a kernel"
        if VIEW in data and re.match(r"\w+\(", data.get("text/plain", "(")):
            yield f"{cell_id}: widget without a caption"


def _links(notebook, folder: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)|href=\"([^\"]+)\"", _markdown(notebook)):
        target = (target[0] or target[1]).split("#")[0]
        if target and not re.match(r"[a-z]+:", target) and not (folder / target).exists():
            yield f"link to {target}, which does not exist"


def _sections(notebook) -> Iterator[str]:
    headings = re.findall(r"^[#*\s]*(\S.*)$", _markdown(notebook), re.M)
    places = []
    for section in SECTIONS:
        where = [i for i, heading in enumerate(headings) if heading.startswith(section)]
        if not where:
            yield f"has no section {section!r}"
        places += where[:1]
    if places != sorted(places):
        yield "its sections are out of order"
    inside = False
    asserted = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^## (.*)", cell.source, re.M):
                inside = heading.startswith("In the library")
        elif inside:
            asserted |= "assert" in cell.source
    if not asserted:
        yield "no cell asserts that by hand and library agree"


def _exercises(notebook, lesson: str, folder: Path) -> Iterator[str]:
    """Yield what is wrong with the exercises of a lesson and of the pages beside it."""
    pages = sorted(folder.glob(f"further/{lesson}_*.ipynb"))
    cells = [*notebook.cells, *(cell for page in pages for cell in read_notebook(page)["cells"])]
    declared = exercises(lesson) if lesson in lessons() else []
    if not 2 <= len(declared) <= 5:
        yield f"has {len(declared)} exercises, not 2 to 5"
    there = {part_of(cell): cell for cell in cells}
    for exercise in declared:
        for wanted in exercise_cells(exercise):
            part = part_of(wanted)[1]
            cell = there.pop(part_of(wanted), None)
            if cell is None:
                yield f"exercise {exercise.id} has no {part} cell"
            elif exercise.further == (cell in notebook.cells):
                yield f"exercise {exercise.id}: its {part} cell stands on the other page"
            elif cell["source"] != wanted.source:
                yield f"exercise {exercise.id}: the {part} cell differs from its source"
            elif part == "check" and "○" not in str(cell["outputs"]):
                yield f"exercise {exercise.id}: the recorded check is not neutral"
        if lesson < "12" and (exercise.id, "used") not in there:
            yield f"exercise {exercise.id}: no cell uses what was written"
    known = {each.id for each in declared}
    for exercise_id, part in there:
        if part and (part not in ("used", "explain") or exercise_id not in known):
            yield f"a {part} cell of {exercise_id}, which this lesson does not declare"
