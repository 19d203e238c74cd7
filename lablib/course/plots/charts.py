"""Charts that the page draws: data in, axes and marks out, readable by everyone.

Colours are the Okabe-Ito palette, which colour-blind readers can tell apart, and colour is never
the only signal: what a bar is held against is an outline, lines have dashes and their names at
their ends, a token says what it is.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from lablib.course.plots.chart import Chart, Still
from lablib.course.plots.pictures import COLOURS, Picture, png, visible

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

WARM = "#767676"  # of what something is held against
STROKES = ("", "7 3", "2 3", "8 3 2 3")  # dashes
TINTS = ("#A9D3F0", "#F3BE6B", "#A6DBC8", "#E5BBD2", "#DDDDDD")  # behind letters


def show(drawing: Chart | Figure | str, caption: str) -> Still | Picture:
    """Return a chart, a figure or HTML as what a notebook displays with its caption below it."""
    if isinstance(drawing, Chart):
        return Still(drawing, caption)
    return Picture(png(drawing) if isinstance(drawing, Figure) else drawing, caption)


def axis(
    low: float, high: float, name: str = "", ticks: Sequence[Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Return an axis of a chart.

    Args:
        low: where it begins.
        high: where it ends: it stays, whatever a control does.
        name: what it shows, with its unit.
        ticks: values, or pairs of a value and its name; some round ones unless they are given.
        more: ``log``: whether equal steps are equal factors; ``grid``: whether lines go through the
            ticks; ``bare``: whether the ticks are names.
    """
    shown = _round_ticks(low, high) if ticks is None else ticks
    pairs = [tick if isinstance(tick, tuple) else (tick, f"{tick:,.9g}") for tick in shown]
    inside = [(float(value), text) for value, text in pairs if low <= value <= high]
    return {"ends": [float(low), float(high)], "ticks": inside, "name": name, **more}


def panel(title: str, x: Any, y: Any, labels: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """Return a panel of a chart: its title, its axes, the names that stand at its lines' ends.

    ``more`` is what else it is told: its ``high`` in pixels, its ``share`` of a line.
    """
    return {"title": title, "x": x, "y": y, "labels": [*labels], **more}


def curves(
    x: Sequence[float], series: Mapping[str, Any], looks: Sequence[int] = range(8)
) -> list[dict[str, Any]]:
    """Return lines as marks of a chart: each has its name, its colour and its dashes.

    Args:
        x: shared horizontal positions.
        series: name -> heights, or name -> (heights, low, high) to draw the interval as a band.
        looks: of each, the number of its colour and dashes.
    """
    marks, alone = [], len(series) == 1  # a line alone has no dashes: those are of rules
    for i, (name, values) in zip(looks, series.items(), strict=False):
        columns = values if isinstance(values, tuple) else (values,)
        points = np.column_stack([x, *columns]).astype(float)
        line = [[float(f"{value:.5g}") for value in point] for point in points]
        look = {"colour": COLOURS[i % 8], "dash": "" if alone else STROKES[i % 4]}
        marks.append({"line": line, "label": name, **look})
    return marks


def lines(
    x: Sequence[float],
    series: Mapping[str, Any],
    xlabel: str,
    ylabel: str,
    *,
    logx: bool = False,
    logy: bool = False,
    xticks: Sequence[float] | None = None,
    dots: Collection[str] = (),
    through: Mapping[str, tuple[Sequence[float], Sequence[float]]] = MappingProxyType({}),
) -> Chart:
    """Draw lines with optional intervals, for example theory and measurement.

    Args:
        x: shared horizontal positions.
        series: name -> heights, or name -> (heights, low, high) to draw the interval as a band.
        xlabel: what x is, with its unit.
        ylabel: what the height is, with its unit.
        logx: whether x is drawn in powers of two.
        logy: whether heights are.
        xticks: positions to name; all of x, or round ones, unless they are given.
        dots: names of those that are dots, which may lie on another one's line.
        through: name -> x and heights of a curve through dots, in the colour of the first series,
            the second one, ...
    """
    heights = np.concatenate([np.ravel(values) for values in series.values()])
    low, high = float(heights.min()), float(heights.max())
    ticks = _round_ticks(low, high)
    if logy:
        ticks = 2.0 ** np.arange(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)
    if xticks is None and (logx or len(x) < 10):
        xticks = x
    across = axis(min(x), max(x), xlabel, xticks, log=logx)
    up = axis(ticks[0], ticks[-1], "", ticks, log=logy)
    marks = curves(x, series)
    for mark in marks:
        size = 6 if len(mark["line"][0]) == 2 else 4  # an interval is seen behind a small one
        mark |= {"wide": 0, "r": size} if mark["label"] in dots else {}
    for look, (name, (at, values)) in enumerate(through.items()):
        (curve,) = curves(at, {name: values}, (look,))
        marks.append(curve | {"wide": 1.5, "r": 1})
    return Chart([panel(ylabel, across, up, [*series, *through], high=240)], [marks])


def bars(
    labels: Sequence[str],
    series: Mapping[str, Any],
    ylabel: str,
    *,
    xlabel: str = "",
    ymax: float | None = None,
) -> Chart:
    """Draw a bar for each label, within an outline of what it is held against.

    Args:
        labels: for example tokens.
        series: name -> one height for each label; of two, the first is the outline, for example
            what theory says. (heights, low, high) has an interval, too.
        ylabel: what the height is, with its unit.
        xlabel: what the labels are.
        ymax: where the axis ends; the next round number, unless it is given.
    """
    most = max(float(np.max(values)) for values in series.values())
    names = axis(-0.6, len(labels) - 0.4, xlabel, [*enumerate(map(visible, labels))], bare=True)
    up = axis(0, ymax or _round_ticks(0, most)[-1])
    return Chart([panel(ylabel, names, up)], [upright(labels, series)], bar_keys(series))


def bar_keys(series: Iterable[str]) -> list[tuple[Any, ...]]:
    """Return what a chart says of the looks of such bars: nothing if there is one series."""
    *outlines, last = series
    keys = [(WARM, name, True) for name in outlines]
    return [*keys, (COLOURS[0], last)] if outlines else []


def upright(
    labels: Sequence[str], series: Mapping[str, Any], fills: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the bars of :func:`bars` as marks of a chart; ``fills``: a colour for each of them."""
    marks, last = [], len(series) - 1
    columns = {name: np.atleast_2d(np.asarray(values, float)) for name, values in series.items()}
    for i, label in enumerate(labels):
        said = ", ".join(f"{name} {each[0, i]:.3g}" for name, each in columns.items())
        for k, each in enumerate(columns.values()):
            height, *ends = (float(f"{value:.5g}") for value in each[:, i])
            wide, fill = (0.45, WARM) if k < last else (0.25, fills[i] if fills else COLOURS[0])
            bar = {"bar": [i - wide, i + wide, 0, height], "fill": fill, "hollow": k < last}
            marks.append({**bar, "note": f"{label}: {said}."})
            if ends:
                interval = {"line": [[i, y] for y in ends]}
                marks.append({**interval, "wide": 4.5, "colour": "#FFFFFF"})
                marks.append({**interval, "wide": 1.5})
    return marks


def _round_ticks(low: float, high: float) -> np.ndarray:
    """Return a few round numbers, the first no higher than ``low``, the last no lower than high."""
    return MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)


def token_strip(tokens: Sequence[str], classes: Sequence[str], calls: Sequence[int] = ()) -> Chart:
    """Return tokens beside one another, each on the colour of its class.

    Args:
        tokens: their texts; spaces and line ends are made visible.
        classes: one class for each token; an empty one has no colour.
        calls: how many tokens each call of a model wrote: a bracket below them.
    """
    kinds = [*dict.fromkeys(filter(None, classes))]  # colours go to them as they come
    pairs = zip(tokens, classes, strict=True)
    notes = [kind and f"“{visible(token)}”: {kind}." for token, kind in pairs]
    apart = [f" {visible(token)}" for token in tokens]
    about = "a bracket: one call of the model" if calls else ""
    dress = {"texts": [apart], "looks": [*zip(TINTS, kinds, strict=False)], "about": about}
    looks = [kinds.index(kind) if kind else -1 for kind in classes]
    now = {"text": 0, "looks": looks, "notes": notes, "marked": -1}
    now |= {"calls": [*calls]} if calls else {}
    return Chart([], [], (), "reading", dress, now)
