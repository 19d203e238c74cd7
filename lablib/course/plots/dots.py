"""Dots with their intervals across: what was measured, a line for each, where a table had ± signs.

An interval that holds the dashed rule isn't told apart from it, which is seen and not calculated.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lablib.course.plots.chart import Chart
from lablib.course.plots.charts import axis, panel
from lablib.course.plots.pictures import COLOURS

Interval = tuple[float, float, float]  # what was measured, and the two ends of its interval
HIGH, APART = 30, 0.24  # pixels of a row; how far the dots of a row stand from each other, in rows


def dots(
    series: Mapping[str, Mapping[str, Interval]],
    xlabel: str,
    title: str = "lines: 95 % intervals",
    *,
    rows: Sequence[str] | None = None,
    colours: Sequence[str] = (COLOURS[0], COLOURS[1], COLOURS[2]),
    rule: float | None = None,
    ends: tuple[float, float] | None = None,
    side: int = 230,
) -> Chart:
    """Draw a row for each name, the first on top, with a dot and an interval for each series.

    Args:
        series: name -> row's name -> (value, low, high); a series need not have all rows.
        xlabel: what is measured, with its unit.
        title: what stands above.
        rows: their order; as they first come in ``series`` unless it is given.
        colours: of the series; their dots lie in their order, and those of a second one are rings.
        rule: what they are held against: a dashed line.
        ends: of the axis; as wide as the intervals and the rule unless they are given.
        side: pixels for the names.
    """
    order = [*(rows or dict.fromkeys(name for each in series.values() for name in each))]
    marks: list[dict[str, Any]] = []
    if rule is not None:
        marks.append({"rule": {"x": rule}, "dash": "5 3"})
    every = [x for each in series.values() for found in each.values() for x in found]
    for k, (called, each) in enumerate(series.items()):
        for name, (value, low, high) in each.items():
            beside = [other for other, found in series.items() if name in found]
            place = (len(beside) - 1) / 2 - beside.index(called)
            at, look = APART * place - order.index(name), {"colour": colours[k]}
            what = f"{name}, {called}" if len(beside) > 1 else name
            spread = f", 95 % interval {low:.3g} to {high:.3g}" if high > low else ""
            note = f"{what}: {value:.3g}{spread}."
            marks.append({"line": [[low, at], [high, at]], "wide": 3, **look})
            ring = {"hollow": True, "fill": "#FFFFFF"} if beside.index(called) else {}
            marks.append({"dot": [value, at], "r": 6, "note": note, **look, **ring})
    every += [] if rule is None else [rule]
    room = 0.05 * (max(every) - min(every))
    x = axis(*(ends or (min(every) - room, max(every) + room)), xlabel, grid=True)
    y = axis(0.5 - len(order), 0.5, "", [(-i, name) for i, name in enumerate(order)], bare=True)
    keys = [(colours[k], name) for k, name in enumerate(series)] if len(series) > 1 else []
    return Chart([panel(title, x, y, side=side, high=HIGH * len(order))], [marks], keys)
