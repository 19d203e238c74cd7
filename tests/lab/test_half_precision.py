"""Every lesson, and what it claims, holds in half precision, as models compute on a GPU or a Mac.

On a CPU the zoo computes in float32. Here each kernel is told otherwise before its first cell, by a
start-up file of IPython, not by an option of the library.
"""

from pathlib import Path

from lablib.course.checks.exercises import number_of

import nbformat
import pytest
from nbclient import NotebookClient
from oracles.claims import call, sections

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
STARTUP = """
import lablib
import mlx.core as mx
from lablib.models import zoo

zoo.load.__wrapped__.__defaults__ = (mx.{dtype},)
"""
PROOF = """
from mlx.utils import tree_flatten

loaded = lablib.load("target")[0]
assert {{weight.dtype for _, weight in tree_flatten(loaded.parameters())}} == {{mx.{dtype}}}
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_runs_in_half_precision(path, dtype, tmp_path, monkeypatch):
    startup = tmp_path / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "half.py").write_text(STARTUP.format(dtype=dtype))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    lesson, cells = number_of(path.name), []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.id in sections(lesson):
            cells.append(nbformat.v4.new_code_cell(call(lesson, cell.id), id=f"{cell.id}-claims"))
    proof = nbformat.v4.new_code_cell(PROOF.format(dtype=dtype), id="proof")
    notebook.cells = [*cells, proof]
    # Half precision bypasses BLAS on a CPU: 3 to 9 times slower.
    where = {"metadata": {"path": path.parent}}
    NotebookClient(notebook, timeout=900, allow_errors=True, resources=where).execute()
    errors = [
        f"{cell.id}: {output.ename}: {output.evalue}"
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]
    assert errors == []
