"""What each lesson asks of a reader: ``python tests/oracles/lesson_table.py``.

Words of its own text, visible lines of code (exercises are counted in neither), the longest visible
cell, minutes by the rule of ``minutes.py``, sentences that claim something, and checks of them.
"""

import re
import sys
from pathlib import Path

from lablib.teach.editions import read_notebook

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles.claims import checks, sections, sentences
from oracles.minutes import FOLDER, code_lines, minutes, own_cells, words

COLUMNS = ("lesson", "words", "code lines", "longest cell", "main", "whole", "claims", "checks")


def row(path: Path) -> list:
    """Return one lesson's row."""
    notebook, lesson = read_notebook(path), path.name[:2]
    cells = [cell for cell, _ in own_cells(notebook)]
    read = sum(words(cell) for cell in cells if cell["cell_type"] == "markdown")
    code = [code_lines(cell) for cell in cells if cell["cell_type"] == "code"]
    whole, main = minutes(notebook, lesson)
    claims = sum(sentence.claims for sentence in sentences(notebook))
    return [
        lesson,
        read,
        sum(code),
        max(code),
        main,
        whole,
        claims,
        len(checks(notebook, sections(lesson))),
    ]


def main(folder: str = str(FOLDER)) -> None:
    """Print the table of a folder of lessons, with a line for all of them."""
    paths = [p for p in sorted(Path(folder).glob("*.ipynb")) if re.match(r"\d\d_", p.name)]
    rows = [row(path) for path in paths]
    columns = [*zip(*rows, strict=True)]
    together = [
        max(c) if name == "longest cell" else sum(c)
        for name, c in zip(COLUMNS[1:], columns[1:], strict=True)
    ]
    print(tabulate([*rows, ["all", *together]], COLUMNS, floatfmt=".0f"))


if __name__ == "__main__":
    main(*sys.argv[1:])
