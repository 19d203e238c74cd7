"""A text as a strip of tokens in a matplotlib figure, for the picture that a link shows.

The letters stand as they would in the text, and each token has a box: the pieces of one word touch,
and the space that begins a token is the gap before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.plots.pictures import figure

from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

WIDTH = 8.0  # inches
LINE = 0.42  # inches from line to line
FONT = 12.0  # points
LETTER = 0.1  # inches, the width of a letter of that size
COLUMNS = 78  # letters in a line
_SMALL = 10.5  # points, for the legend
_PAD = 0.45  # letters from a word to the edge of its box


@dataclass(frozen=True)
class Look:
    """The look of one kind of tokens.

    Attributes:
        name: its entry in the legend.
        fill: colour of the box; empty for grey letters without a box.
    """

    name: str
    fill: str = ""


PLAIN = Look("")


@dataclass(frozen=True)
class Place:
    """Where a token stands: its line, the column of its first letter, and the edges of its box."""

    line: int
    column: int
    letters: str
    left: float
    right: float


def place(tokens: Sequence[str]) -> list[Place]:
    """Return the places of all tokens.

    A word that does not fit goes to the next line with all of its pieces; only one that no line
    could hold is broken.
    """
    words: list[list[str]] = []
    for token in tokens:
        if not words or token[:1].isspace():
            words.append([])
        words[-1].append(token.strip() or ("␣" if token else "∅"))
    line, column, places = 0, 1, []
    for word in words:
        if column + sum(map(len, word)) > COLUMNS and column > 1:
            line, column = line + 1, 1
        for i, letters in enumerate(word):
            if column + len(letters) > COLUMNS and column > 1:
                line, column = line + 1, 1
            left, column = column, column + len(letters)
            edges = left - _PAD * (i == 0), column + _PAD * (i == len(word) - 1)
            places.append(Place(line, left, letters, *edges))
        column += 2
    return places


def height(tokens: Sequence[str]) -> float:
    """Return the inches that the strip of these tokens needs, and its legend."""
    return LINE * (place(tokens)[-1].line + 2)


def draw_strip(
    axes: Any,
    tokens: Sequence[str],
    looks: Sequence[Look],
    *,
    legend: Sequence[Look],
) -> None:
    """Draw tokens into ``axes``, 8 inches wide and ``height(tokens)`` high.

    Args:
        axes: matplotlib axes; loses its frame.
        tokens: their texts, with the space that begins them.
        looks: one for each token.
        legend: looks to name in the line below.
    """
    places = place(tokens)
    lines = places[-1].line + 1
    for look in dict.fromkeys(look for look in looks if look.fill):
        own = [at for at, other in zip(places, looks, strict=True) if other == look]
        _boxes(axes, [box(at.line, at.left, at.right) for at in own], look)
    for boxed, colour in ((True, "black"), (False, "#555555")):
        _lines(axes, places, [bool(look.fill) == boxed for look in looks], colour)
    _legend(axes, lines, legend)
    axes.set(xlim=(0, WIDTH / LETTER), ylim=(lines + 0.5, -0.5))
    axes.set_axis_off()


def canvas(height: float) -> Figure:
    """Return a figure of so many inches for :func:`add_axes`."""
    fig = figure(WIDTH, height)
    fig.set_layout_engine("none")
    return fig


def add_axes(fig: Figure, left: float, top: float, width: float, height: float) -> Any:
    """Add axes at a place in inches, from the left and from the top; call it inside ``style()``."""
    wide, high = fig.get_size_inches()
    return fig.add_axes((left / wide, 1 - (top + height) / high, width / wide, height / high))


def _lines(axes: Any, places: Sequence[Place], chosen: list[bool], colour: str) -> None:
    """Write the chosen tokens, one piece of text for each line: many pieces take long to draw."""
    lines: dict[int, str] = {}
    for at, own in zip(places, chosen, strict=True):
        if own:
            lines[at.line] = lines.get(at.line, "").ljust(at.column) + at.letters
    for y, text in lines.items():
        _letters(axes, 0, y, text, FONT, colour)


def _legend(axes: Any, y: int, looks: Sequence[Look]) -> None:
    x, scale = 1.0, _SMALL / FONT
    for look in looks:
        _boxes(axes, [box(y, x, x + 2.2)], look)
        _letters(axes, x + 2.9, y, look.name, _SMALL, "#333333")
        x += len(look.name) * scale + 5


def _boxes(axes: Any, corners: list[list[tuple[float, float]]], look: Look) -> None:
    fill = {"facecolors": look.fill, "edgecolors": "white", "linewidths": 1.0}
    axes.add_collection(PolyCollection(corners, **fill))


def box(y: float, left: float, right: float, half: float = 0.36) -> list[tuple[float, float]]:
    """Return the corners of a box around the line at height ``y``, twice ``half`` high."""
    return [(left, y - half), (right, y - half), (right, y + half), (left, y + half)]


def _letters(axes: Any, x: float, y: float, text: str, size: float, colour: str) -> None:
    look = {"size": size, "color": colour, "family": "monospace"}
    axes.text(x, y, text, va="center_baseline", **look)
