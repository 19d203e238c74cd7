"""Marks that several scenes share: bars of probabilities across; and the room that marks have."""

from collections.abc import Sequence
from typing import Any

from lablib.course.plots.pictures import COLOURS
from lablib.validation import BadValue

LIGHT, DARK, REST = COLOURS[4], COLOURS[0], "#999999"


def ranked(rows: int, title: str = "", end: float = 1.12, **more: Any) -> dict[str, Any]:
    """Return a panel of ``chart`` with so many bars across, from 0 to 1.

    Args:
        rows: how many bars.
        title: what stands above them.
        end: where the axis ends: what stands at a whole bar's end needs room.
        more: what else the panel is told, such as its ``share`` of a line.
    """
    ticks = [[value, f"{value:g}"] for value in (0, 0.5, 1)]
    x = {"ends": [0, end], "ticks": ticks, "name": "probability", "grid": True}
    y = {"ends": [0.5 - rows, 0.5], "bare": True}
    return {"title": title, "x": x, "y": y, "high": 21 * rows, "side": 78, **more}


def bars_across(
    names: Sequence[str],
    chances: Sequence[float],
    colours: Sequence[str],
    says: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the marks of such a panel, the first bar on top, and its names.

    Args:
        names: of the bars.
        chances: how long they are.
        colours: of the bars.
        says: what stands at their ends; their chances, unless it is given.
    """
    marks, ends = [], says or [number(chance) for chance in chances]
    rows = zip(names, chances, colours, ends, strict=True)
    for row, (name, chance, colour, end) in enumerate(rows):
        note = f"“{name}” has probability {number(chance)}."
        bar = [0, float(chance), -row - 0.38, -row + 0.38]
        marks.append({"bar": bar, "fill": colour, "note": note})
        marks.append({"text": end, "at": [float(chance) + 0.012, -row - 0.2]})
    return {"marks": marks, "y": {"ticks": [[-row, name] for row, name in enumerate(names)]}}


def number(chance: float) -> str:
    """Return a probability with two places, a small one with three."""
    if 0 < chance < 0.0005:
        return "<0.001"
    return f"{chance:.2f}" if chance == 0 or chance >= 0.0995 else f"{chance:.3f}"


def check_room(view: dict[str, Any], marks: Sequence[dict[str, Any]]) -> None:
    """Refuse marks beyond the axes of their panel: a page would draw them where an axis ends.

    Raises:
        ValueError: naming the axis, the value and where the axis ends.
    """
    for side in ("x", "y"):
        low, high = view[side]["ends"]
        if view[side].get("log"):
            spare = (high / low) ** 0.001  # numbers are rounded; nobody sees a thousandth
            least, most = low / spare, high * spare
        else:
            spare = 0.001 * (high - low)
            least, most = low - spare, high + spare
        for mark in marks:
            for value in _along(mark, side):
                if not least <= value <= most:
                    where = f"[{low:g}, {high:g}], the axis of {view['title']!r} in every picture"
                    raise BadValue(f"{side} must be in {where}, got {value:g}")


def _along(mark: dict[str, Any], side: str) -> list[float]:
    """Return the places of a mark along an axis; it may have none."""
    points = [mark[name] for name in ("dot", "at") if name in mark]
    points += [*mark.get("line", ()), *mark.get("area", ())]
    rule, bar = mark.get("rule", {}), mark.get("bar", ())
    own = [rule[side]] if side in rule else []
    if side == "x":
        return [*own, *bar[:2], *(point[0] for point in points)]
    return [*own, *bar[2:], *(height for point in points for height in point[1:])]
