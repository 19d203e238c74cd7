"""How much memory each lesson's kernel takes at its peak, and how long it runs, one after another.

A kernel runs all cells of a copy of the lesson, then tells its own peak of resident memory: Linux's
``VmHWM``, elsewhere ``ru_maxrss`` (which Linux hands on from the process that started the kernel).

    python tests/benchmarks/bench_memory.py [11 12 ...]      prints the table
    pytest -m benchmark tests/benchmarks/bench_memory.py
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from tabulate import tabulate

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))
MOST = 500  # MB that a lesson's kernel may take: many kernels share the memory of a classroom
# 09 times sixteen rows with each number of drafts in turns, so it keeps the caches of them all. In
# 12 the weights of the real model alone are 540 MB.
MORE = {"09": 550, "12": 1300}
PEAK = """
import json, resource, sys
try:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps(peak / 1e6))
"""


def measure(path: Path) -> tuple[float, float]:
    """Return the peak of a lesson's kernel in MB, and the seconds that its cells took."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
        with client.setup_kernel():
            began = time.perf_counter()
            for number, cell in enumerate(notebook.cells):
                client.execute_cell(cell, number)
            seconds = time.perf_counter() - began
            asked = nbformat.v4.new_code_cell(PEAK)
            notebook.cells.append(asked)
            client.execute_cell(asked, len(notebook.cells) - 1)
    return json.loads(asked.outputs[0]["text"]), seconds


@pytest.mark.benchmark
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lessons_kernel_stays_small(path: Path) -> None:
    assert measure(path)[0] < MORE.get(path.name[:2], MOST)


def main(*lessons: str) -> None:
    """Print the table, for all lessons or for those whose numbers are given."""
    rows = []
    for path in NOTEBOOKS:
        if not lessons or path.name[:2] in lessons:
            rows.append((path.name[:2], *measure(path)))
            print(*rows[-1], file=sys.stderr)
    print(tabulate(rows, ["lesson", "peak MB", "seconds"], floatfmt=".0f", tablefmt="github"))


if __name__ == "__main__":
    main(*sys.argv[1:])
