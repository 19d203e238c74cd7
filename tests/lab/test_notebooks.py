"""The lessons as files: recorded, readable, consistent with what they are made from."""

import copy
import re
from pathlib import Path

from lablib.course.checks.exercises import number_of
from lablib.teach.editions import fold

import nbformat
import pytest
from oracles.hygiene import hygiene, hygiene_of_a_page

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PAGES = sorted(FOLDER.glob("further/*.ipynb"))


def read(path):
    return nbformat.read(path, as_version=4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_is_in_order(path):
    nbformat.validate(read(path))
    assert hygiene(read(path), path) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_beside_a_lesson_is_in_order_and_leads_back(path):
    nbformat.validate(read(path))
    assert hygiene_of_a_page(read(path), path) == []
    (lesson,) = FOLDER.glob(f"{number_of(path.name)}_*.ipynb")
    assert "**Back** to [" in read(path).cells[-1].source
    assert f"(../{lesson.name})" in read(path).cells[-1].source
    assert f"(further/{path.name})" in NOTEBOOKS[0].read_text()  # lesson 00 lists it


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_answers_to_a_lessons_questions_are_folded(path):
    notebook = read(path)
    assert any("jupyter" in cell.metadata for cell in notebook.cells)
    in_order = fold(notebook) == notebook
    assert in_order, f"run python -m lablib.teach.editions notebooks/{path.name}"


def test_lessons_are_numbered_without_gaps():
    numbers = sorted({int(path.name[:2]) for path in NOTEBOOKS})  # 00a stands behind 00
    assert numbers == list(range(len(numbers)))


def first(notebook, wanted):
    return next(cell for cell in notebook.cells if wanted(cell))


def code(notebook):
    return first(notebook, lambda cell: cell.cell_type == "code")


def text(notebook):
    return first(notebook, lambda cell: cell.cell_type == "markdown")


def starter(notebook):
    return first(notebook, lambda c: c.metadata.get("lablib", {}).get("part") == "starter")


def output(kind="execute_result", **more):
    if kind == "execute_result":
        more = {"data": {}, "execution_count": 1, "metadata": {}} | more
    return nbformat.v4.new_output(kind, **more)


def widget(**data):
    return output(data={"application/vnd.jupyter.widget-view+json": {}, **data})


def says(kind="stream", **what):
    return lambda nb: code(nb).outputs.append(output(kind, **what))


def writes(source):
    return lambda nb: code(nb).update(source=source)


IGNORED = {"metadata": {"tags": ["nbval-ignore-output"]}}
CAPTION = {"text/plain": "VBox(children=())"}
MISTAKES = {
    "kernel is not python3": lambda nb: nb.metadata.update(kernelspec={"name": "julia"}),
    "holds widget state": lambda nb: nb.metadata.update(widgets={}),
    "holds execution times": lambda nb: code(nb).metadata.update(execution={}),
    "not run once from top": lambda nb: code(nb).update(execution_count=99),
    "recorded an error": says("error", ename="E", evalue="e", traceback=[]),
    "recorded a warning": says(name="stderr", text="careful"),
    "not unique": lambda nb: [cell.update(id="same") for cell in nb.cells],
    "id is not readable": lambda nb: code(nb).update(id="1a2b3c4d"),
    "longer than 24 lines": writes("1\n" * 25),
    "asserts nothing": lambda nb: nb.cells.append(nbformat.v4.new_code_cell("1", **IGNORED)),
    "does more than import": writes("import lablib\nlablib.doctor()"),
    "counter is not measure.clock": writes("s = time.perf_counter()"),
    "thread_time is not measure.clock": writes("now = time.thread_time"),
    "absolute path '/tmp/x": writes("open('/tmp/x')"),
    "absolute path '/home/a' in": says(name="stdout", text="in /home/ada/x"),
    "text has no alt": lambda nb: text(nb).update(source="![](x.png)"),
    "picture without alt": says("execute_result", data={"image/png": "x"}),
    "<img> without alt": says("execute_result", data={"text/html": '<img src="x">'}),
    "widget without a picture": lambda nb: code(nb).outputs.append(widget()),
    "widget without a caption": lambda nb: code(nb).outputs.append(widget(**CAPTION)),
    "which does not exist": lambda nb: text(nb).update(source="[next](99_no_such.ipynb)"),
    "the starter cell differs": lambda nb: starter(nb).update(source="def f(): pass"),
    "has no starter cell": lambda nb: nb.cells.remove(starter(nb)),
    "does not declare": lambda nb: starter(nb).metadata.lablib.update(exercise="98.1"),
}


@pytest.mark.parametrize("complaint", MISTAKES)
@pytest.mark.skipif(not NOTEBOOKS, reason="no lesson to spoil")
def test_a_spoiled_lesson_is_seen(complaint):
    path = NOTEBOOKS[0]
    spoiled = copy.deepcopy(read(path))
    MISTAKES[complaint](spoiled)
    assert any(complaint in line for line in hygiene(spoiled, path))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda source: source.replace("## Summary", "## The end"), "no section 'Summary'"),
        (lambda source: source.replace("## In the library", "## Summary"), "out of order"),
        (lambda source: source.replace("assert", "print"), "by hand and library agree"),
        (lambda source: source + "\n0" * 25, "longer than"),
    ],
)
@pytest.mark.skipif(len(NOTEBOOKS) < 2, reason="no lesson with all sections to spoil")
def test_a_lesson_with_spoiled_sections_is_seen(spoil, complaint):
    path = NOTEBOOKS[1]
    spoiled = read(path)
    for cell in spoiled.cells:
        cell.source = spoil(cell.source)
    assert any(complaint in line for line in hygiene(spoiled, path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_lesson_imports_what_is_hidden_while_it_is_graded(path):
    cells = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    assert not re.search(r"lesson_\d\d[a-z]?(\.| import )exercises", "\n".join(cells))
