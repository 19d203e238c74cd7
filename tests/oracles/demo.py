"""A notebook of a few cells, with a small widget, for a real browser."""

from pathlib import Path

import nbformat

DEMO = """
from lablib.course.plots.chart import ChartExplorer
from lablib.course.plots.explorer import slider
from lablib.course.plots.charts import bars

class Powers(ChartExplorer):
    def __init__(self, low):
        super().__init__(power=slider(1, low, 3))
    def compute(self, power):
        return [x**power for x in range(4)]
    def chart(self, data):
        return bars("abcd", {"power": data}, "power", ymax=30)
    def caption(self, data):
        return f"The last bar is {data[-1]}."
"""
SHOWN = """
from lablib.course.plots.charts import show, token_strip
from lablib.course.plots.pictures import figure

two = figure()
two.subplots().bar([*"ab"], [1, 2])
show(two, "As <high> & as low.")
"""
STRIP = 'show(token_strip(["a", "b"], ["letter", "letter"]), "Two letters.")'


def write_demo(folder: Path, name: str, *last_cells: str) -> str:
    """Write a notebook whose first cell defines the widget ``Powers(low)``; returns its name."""
    cells = [nbformat.v4.new_code_cell(source) for source in (DEMO, *last_cells)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / name)
    return name
