"""Pictures of the lesson on arrays: what is stretched, and where a product's number is from."""

from collections.abc import Mapping, Sequence
from typing import Any

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import TINTS, axis, panel
from lablib.course.plots.explorer import choice

import numpy as np

_PLAIN, _READ, _MADE, _COPY = "#F2F2F2", TINTS[0], TINTS[1], TINTS[4]


def stretched(tables: Mapping[str, np.ndarray], rows: Sequence[str]) -> Chart:
    """Draw tables, and the largest number of each row as it is stretched to their shape.

    In the middle these numbers lie, of shape ``(rows,)``; at the right they stand, ``(rows, 1)``.

    Args:
        tables: name -> ``(rows, columns)``, with as many columns as rows or more.
        rows: names of the rows.
    """
    drawn = []
    for name, table in tables.items():
        n, columns = table.shape
        largest = table.max(axis=1).tolist()
        lying, standing = [*largest, *"?" * (columns - n)], [[each] * columns for each in largest]
        fits = "fits, wrongly" if n == columns else "no fit"
        ways = [
            (f"{name} {table.shape}", table, lambda *_: _PLAIN),
            (
                f"− largest ({n},): {fits}",
                [lying] * n,
                lambda r, c, n=n: _PLAIN if c >= n else [_READ, _COPY][r > 0],
            ),
            (f"− largest[:, None] ({n}, 1)", standing, lambda r, c: _COPY if c else _READ),
        ]
        for title, numbers, colour in ways:
            fixed, marks = _table(title, np.array(numbers, object), rows, [""] * columns, colour)
            drawn.append((fixed | {"high": 22 * n, "below": title == ways[0][0]}, marks))
    keys = [(_READ, "what largest has"), (_COPY, "copies of it, as many as the table wants")]
    return Chart([fixed for fixed, _ in drawn], [marks for _, marks in drawn], keys)


class Product(ChartExplorer):
    """The product of two tables: a row of the first, a column of the second, and their number.

    Args:
        first: ``(rows, inner)``, whole numbers.
        second: ``(inner, columns)``, whole numbers.
        rows: names of the first one's rows.
        inner: names of its columns, which are the second one's rows.
        columns: names of the second one's columns.
    """

    def __init__(
        self,
        first: Sequence[Sequence[int]],
        second: Sequence[Sequence[int]],
        rows: Sequence[str],
        inner: Sequence[str],
        columns: Sequence[str],
    ) -> None:
        self.first, self.second = np.array(first), np.array(second)
        self.names = [*rows], [*inner], [*columns]
        super().__init__(row=choice(rows[0], [*rows]), column=choice(columns[0], [*columns]))

    def compute(self, row: str, column: str) -> dict[str, Any]:
        """Return the numbers that meet, and the sum of their products."""
        i, j = self.names[0].index(row), self.names[2].index(column)
        pairs = [*zip(self.first[i].tolist(), self.second[:, j].tolist(), strict=True)]
        return {"row": i, "column": j, "pairs": pairs, "sum": sum(a * b for a, b in pairs)}

    def chart(self, data: dict[str, Any]) -> Chart:
        """Draw the three tables side by side, the row and the column that meet in colour."""
        rows, inner, columns = self.names
        i, j = data["row"], data["column"]
        tables = [
            (
                f"first {self.first.shape}",
                self.first,
                rows,
                inner,
                lambda r, c: _READ if r == i else _PLAIN,
            ),
            (
                f"second {self.second.shape}",
                self.second,
                inner,
                columns,
                lambda r, c: _READ if c == j else _PLAIN,
            ),
            (
                f"first @ second {(self.first @ self.second).shape}",
                self.first @ self.second,
                rows,
                columns,
                lambda r, c: _MADE if (r, c) == (i, j) else _PLAIN,
            ),
        ]
        drawn = [_table(*table) for table in tables]
        keys = [(_READ, "a row and a column"), (_MADE, "the number that they make")]
        return Chart([fixed for fixed, _ in drawn], [marks for _, marks in drawn], keys)

    def caption(self, data: dict[str, Any]) -> str:
        """Say how the number comes about."""
        said = " + ".join(f"{a}×{b}" for a, b in data["pairs"])
        row, column = self.names[0][data["row"]], self.names[2][data["column"]]
        return f"Row {row}, column {column}: {said} = {data['sum']}."


def _table(
    title: str, numbers: np.ndarray, rows: Sequence[str], columns: Sequence[str], colour: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a panel and its marks: a table whose cells are bars with a number in them."""
    marks = [
        {
            "bar": [c - 0.47, c + 0.47, -r - 0.45, -r + 0.45],
            "fill": colour(r, c),
            "text": str(number),
            "note": f"{rows[r]}, {columns[c]}: {number}.",
        }
        for (r, c), number in np.ndenumerate(numbers)
    ]
    x = axis(-0.5, len(columns) - 0.5, "", [*enumerate(columns)], bare=True)
    y = axis(0.5 - len(rows), 0.5, "", [(-r, name) for r, name in enumerate(rows)], bare=True)
    return panel(title, x, y, high=30 * len(rows), side=52, share=len(columns) + 1), marks
