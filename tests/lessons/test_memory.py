"""A classroom's machine holds many kernels: what each lesson's takes at its peak."""

import json
from pathlib import Path

from lablib.course.checks.exercises import number_of

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))
MOST = 500  # MB
# 09 times sixteen rows with each number of drafts in turns, so it keeps the caches of them all. In
# 12 the weights of the real model alone are 540 MB.
MORE = {"09": 550, "12": 1300}
# Linux hands ``ru_maxrss`` on from the process that started the kernel, but has ``VmHWM``.
PEAK = """
import json, resource
try:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps(peak / 1e6))
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lessons_kernel_stays_small(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    asked = nbformat.v4.new_code_cell(PEAK)
    notebook.cells.append(asked)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    assert json.loads(asked.outputs[0]["text"]) < MORE.get(number_of(path.name), MOST)
