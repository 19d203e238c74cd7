"""The still pictures of lesson 12: numbers as dots, with their intervals across."""

from collections.abc import Mapping, Sequence
from typing import Any

from lablib.course.lessons.lesson_12 import runs
from lablib.course.lessons.lesson_12.runs import Estimate
from lablib.course.lessons.lesson_12.table import Row, points
from lablib.course.plots.chart import Chart
from lablib.course.plots.charts import WARM, axis, panel
from lablib.course.plots.pictures import COLOURS

import numpy as np

# A verdict has a colour.
LOOKS = {runs.HELD: COLOURS[2], runs.NEAR: COLOURS[0], runs.ROUNDED: COLOURS[3]}
LOOKS |= {runs.REFUTED: COLOURS[5], runs.OPEN: "#555555"}


def dot(at: Sequence[float], low: float, high: float, note: str, colour: str) -> list[Any]:
    """Return the marks of a number: its interval, across, and a dot that says the note."""
    value, place = at
    interval = {"line": [[low, place], [high, place]], "wide": 3, "colour": colour}
    return [interval, {"dot": [value, place], "r": 6, "note": note, "colour": colour}]


def intervals(
    rows: Sequence[tuple[str, Estimate]], title: str, ends: tuple[float, float], unit: float = 1
) -> Chart:
    """Draw estimates below one another, about a line at 0, each in the colour of its verdict.

    Args:
        rows: pairs of a name and an estimate.
        title: what is drawn, with its unit.
        ends: of the axis.
        unit: how many of the axis are a whole one.
    """
    marks: list[Any] = [{"rule": {"x": 0}, "dash": "5 3"}]
    for place, (name, found) in enumerate(rows):
        value, low, high = (unit * x for x in (found.value, found.low, found.high))
        note = f"{name}: {value:+.3g} ({low:+.3g} to {high:+.3g})."
        colour = LOOKS[runs.above(found)]
        inside = np.clip((value, low, high), *ends).tolist()  # few cases leave wide intervals
        marks += dot((inside[0], -place), *inside[1:], note, colour)
    names = [(-place, name) for place, (name, _) in enumerate(rows)]
    y = axis(0.5 - len(rows), 0.5, "", names, bare=True)
    x = axis(*ends, "", grid=True)
    keys = [(LOOKS[verdict], verdict) for verdict in (runs.HELD, runs.REFUTED, runs.OPEN)]
    return Chart([panel(title, x, y, high=28 * len(rows), side=150)], [marks], keys)


def pieces(record: Mapping[str, Any]) -> Chart:
    """Draw the pieces of two words about a random number, as a text is read plainly and by look-up.

    Args:
        record: of the run ``pieces``.
    """
    marks: list[Any] = [{"rule": {"x": 0}, "text": "the random number"}]
    for row, (way, colour) in enumerate((("plain", COLOURS[4]), ("look-up", COLOURS[1]))):
        for word, (begin, end) in zip(record["words"], record[way], strict=True):
            drawn = begin <= 0 < end
            note = f"{way}: “{word}” from {begin:.0f} to {end:.0f}{', drawn' * drawn}."
            bar = {"bar": [begin, end, -row - 0.35, -row + 0.35], "text": word.strip()}
            fill = colour if drawn else "#FFFFFF"
            marks.append({**bar, "fill": fill, "edge": "#555555", "note": note})
    names = [(0, "read plainly"), (-1, "by look-up")]
    x, y = axis(-400, 500, "billionths", grid=True), axis(-1.5, 0.9, "", names, bare=True)
    keys = [(COLOURS[4], "drawn, read plainly"), (COLOURS[1], "drawn, by look-up")]
    return Chart([panel("words, side by side", x, y, high=110, side=110)], [marks], keys)


def drafters(
    kinds: Sequence[str], panels: Mapping[str, Mapping[str, Sequence[np.ndarray]]]
) -> Chart:
    """Draw a dot for each text, and a bar at their mean, for each drafter and kind of text.

    Args:
        kinds: of text.
        panels: title -> drafter -> of each kind the values of its texts.
    """
    views, drawn = [], []
    looks = dict(zip(next(iter(panels.values())), (COLOURS[0], COLOURS[1]), strict=True))
    for title, series in panels.items():
        marks: list[Any] = [{"rule": {"x": 1}, "dash": "5 3"}]
        for (name, columns), shift in zip(series.items(), (0.19, -0.19), strict=True):
            for place, (kind, values) in enumerate(zip(kinds, columns, strict=True)):
                y, mean = shift - place, float(np.mean(values))
                look = {"colour": looks[name]}
                marks += [{"dot": [x, y + up], "r": 3, **look} for x, up in stacked(values)]
                bar = {"line": [[mean, y - 0.2], [mean, y + 0.2]], "wide": 3, **look}
                marks.append({**bar, "note": f"{name}, {kind}: {mean:.2f} on average."})
        names = [(-place, kind) for place, kind in enumerate(kinds)]
        up = axis(0.5 - len(kinds), 0.5, "", names, bare=True)
        views.append(panel(title, axis(0.5, 4.2, "", (1, 2, 3, 4), grid=True), up, high=190))
        drawn.append(marks)
    return Chart(views, drawn, [(colour, name) for name, colour in looks.items()])


def stacked(
    values: np.ndarray, near: float = 0.06, step: float = 0.08
) -> list[tuple[float, float]]:
    """Return each value, and how far its dot moves up or down where it would lie on others."""
    found: list[tuple[float, float]] = []
    for x in sorted(map(float, values)):
        below = sum(x - other < near for other, _ in found)
        found.append((x, step * ((below + 1) // 2) * (-1) ** below))
    return found


def whole(rows: Sequence[Row]) -> Chart:
    """Draw the table: each row in units of what is visible there, a panel for each kind.

    A bar across is how far a share that is said not to change may be off.
    """
    views, drawn = [], []
    for kind in dict.fromkeys(row.kind for row in rows):
        some = [row for row in rows if row.kind == kind]
        marks: list[Any] = [{"rule": {"x": 0}, "dash": "5 3"}]
        marks += [{"rule": {"x": x}, "dash": "2 3", "colour": WARM} for x in (-1, 1)]
        for place, row in enumerate(some):
            value, low, high = row.size
            note = f"{row.claim}: {row.here}, {row.verdict}."
            ends = () if row.within is None else (row.within, -row.within)
            for x in ends[: 1 + (low < 0)]:  # no share of texts is below 0
                bar = {"line": [[x, -place - 0.3], [x, -place + 0.3]], "wide": 3}
                marks.append({**bar, "colour": LOOKS[runs.REFUTED]})
            marks += dot((value, -place), low, high, note, LOOKS[row.verdict])
        names = [(0.17 - place, row.claim) for place, row in enumerate(some)]
        names += [(-0.23 - place, f"{row.here}, {row.n}") for place, row in enumerate(some)]
        x = axis(-6, 14, "", range(-6, 15, 2), grid=True)
        y = axis(0.5 - len(some), 0.5, "", names, bare=True)
        views.append(panel(kind, x, y, high=40 * len(some), side=350, below=True))
        drawn.append(marks)
    views[-1]["x"]["name"] = "size, in units of what is visible with as many cases"
    seen = [verdict for verdict in LOOKS if any(row.verdict == verdict for row in rows)]
    keys = [(LOOKS[verdict], verdict) for verdict in seen]
    return Chart(views, drawn, [*keys, (LOOKS[runs.REFUTED], "10 points from 0")])


def sizes(found: Sequence[tuple[str, Estimate, Estimate, Estimate, str]]) -> Chart:
    """Draw the gains of ``table.sizes`` in points, as they were in lesson 06 and as they are here.

    Below each claim stands how far its size changed, with the interval.
    """
    marks, names = [{"rule": {"x": 0}, "dash": "5 3"}], []
    models = {"lesson 06, a small model": (WARM, 0.2), "here, a real one": (COLOURS[2], -0.2)}
    for place, (claim, there, here, off, verdict) in enumerate(found):
        for (model, (colour, up)), each in zip(models.items(), (there, here), strict=True):
            value, low, high = (100 * x for x in (each.value, each.low, each.high))
            note = f"{model}: {points(each)['here']}."
            marks += dot((value, up - place), low, high, note, colour)
        changed = f"changed by {points(off)['here']}: {verdict}"
        names += [(0.17 - place, claim), (-0.23 - place, changed)]
    x, y = axis(-5, 45, "points", grid=True), axis(0.5 - len(found), 0.5, "", names, bare=True)
    keys = [(colour, model) for model, (colour, _) in models.items()]
    return Chart([panel("gains", x, y, high=52 * len(found), side=350)], [marks], keys)
