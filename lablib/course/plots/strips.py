"""A text as a strip of tokens, drawn into a matplotlib figure, or as HTML while it grows.

A drawn strip looks the same in JupyterLab, on GitHub and on paper. The letters stand as they would
in the text, and each token has a box: the pieces of one word touch, and the space that begins a
token is the gap before it.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.plots.charts import figure, style

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
    """How the tokens of one kind are drawn.

    Attributes:
        name: its entry in the legend.
        fill: colour of the box; empty for grey letters without a box.
        hatch: matplotlib's pattern, for readers who can't tell the colours apart.
    """

    name: str
    fill: str = ""
    hatch: str = ""


PLAIN = Look("")
# The model's probability of a token, from sure to surprised.
SURENESS = (
    Look("90 % and more", "#E3F0FA"),
    Look("50 to 90 %", "#A9D3F0"),
    Look("10 to 50 %", "#F3BE6B"),
    Look("below 10 %", "#DD7A45", "///"),
)


def sureness(probability: float) -> Look:
    """Return the look of a token that had this probability."""
    return SURENESS[sum(probability < least for least in (0.9, 0.5, 0.1))]


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


def height(tokens: Sequence[str], legend: bool = True) -> float:
    """Return the inches that the strip of these tokens needs."""
    return LINE * (place(tokens)[-1].line + 1 + legend)


def draw_strip(
    axes: Any,
    tokens: Sequence[str],
    looks: Sequence[Look],
    *,
    legend: Sequence[Look] = (),
    title: str = "",
) -> None:
    """Draw tokens into ``axes``, 8 inches wide and ``height(tokens, legend)`` high.

    Args:
        axes: matplotlib axes; loses its frame.
        tokens: their texts, with the space that begins them.
        looks: one for each token.
        legend: looks to name in the line below; none leaves that line out.
        title: what the legend is about.
    """
    places = place(tokens)
    lines = places[-1].line + 1
    for look in dict.fromkeys(look for look in looks if look.fill):
        own = [at for at, other in zip(places, looks, strict=True) if other == look]
        _boxes(axes, [box(at.line, at.left, at.right) for at in own], look)
    for boxed, colour in ((True, "black"), (False, "#555555")):
        _lines(axes, places, [bool(look.fill) == boxed for look in looks], colour)
    if legend:
        _legend(axes, lines, legend, title)
    axes.set(xlim=(0, WIDTH / LETTER), ylim=(lines + bool(legend) - 0.5, -0.5))
    axes.set_axis_off()


def surprise_strip(tokens: Sequence[str], probabilities: Sequence[float | None]) -> Figure:
    """Return tokens on the colours of the probabilities that they had; None: it was not asked."""
    looks = [PLAIN if p is None else sureness(p) for p in probabilities]
    high, more = height(tokens), {"legend": SURENESS, "title": "the model gave it"}
    fig = canvas(high)
    with style():
        draw_strip(add_axes(fig, 0, 0, WIDTH, high), tokens, looks, **more)
    return fig


def canvas(height: float, width: float = WIDTH) -> Figure:
    """Return a figure of so many inches for :func:`add_axes`."""
    fig = figure(width, height)
    fig.set_layout_engine("none")
    return fig


def add_axes(fig: Figure, left: float, top: float, width: float, height: float) -> Any:
    """Add axes at a place in inches, from the left and from the top; call it inside ``style()``.

    Nothing then jumps when a slider moves, and no time goes into a layout.
    """
    wide, high = fig.get_size_inches()
    return fig.add_axes((left / wide, 1 - (top + height) / high, width / wide, height / high))


def name_bars(axes: Any, names: Sequence[str], *, across: bool = False) -> None:
    """Write names below upright bars at 0, 1, ... or left of bars ``across``.

    They replace the axis's ticks, each of which takes as long to draw as the bar itself. An empty
    name is left out.
    """
    if across:
        axes.set_yticks([])
        look = {"ha": "right", "va": "center", "transform": axes.get_yaxis_transform()}
    else:
        axes.set_xticks([])
        look = {"ha": "center", "va": "top", "transform": axes.get_xaxis_transform()}
    for i, name in enumerate(names):
        if name:
            axes.text(*((-0.02, i) if across else (i, -0.04)), name, **look)


def _lines(axes: Any, places: Sequence[Place], chosen: list[bool], colour: str) -> None:
    """Write the chosen tokens, one piece of text for each line: many pieces take long to draw."""
    lines: dict[int, str] = {}
    for at, own in zip(places, chosen, strict=True):
        if own:
            lines[at.line] = lines.get(at.line, "").ljust(at.column) + at.letters
    for y, text in lines.items():
        _letters(axes, 0, y, text, FONT, colour)


def _legend(axes: Any, y: int, looks: Sequence[Look], title: str) -> None:
    x, scale = 1.0, _SMALL / FONT
    if title:
        _letters(axes, x, y, title, _SMALL, "#333333")
        x += len(title) * scale + 2
    for look in looks:
        _boxes(axes, [box(y, x, x + 2.2)], look)
        _letters(axes, x + 2.9, y, look.name, _SMALL, "#333333")
        x += len(look.name) * scale + 5


def _boxes(axes: Any, corners: list[list[tuple[float, float]]], look: Look) -> None:
    fill = {"facecolors": look.fill, "hatch": look.hatch, "hatchcolors": "#FFFFFF66"}
    axes.add_collection(PolyCollection(corners, edgecolors="white", linewidths=1.0, **fill))


def box(y: float, left: float, right: float, half: float = 0.36) -> list[tuple[float, float]]:
    """Return the corners of a box around the line at height ``y``, twice ``half`` high."""
    return [(left, y - half), (right, y - half), (right, y + half), (left, y + half)]


def _letters(axes: Any, x: float, y: float, text: str, size: float, colour: str) -> None:
    look = {"size": size, "color": colour, "family": "monospace"}
    axes.text(x, y, text, va="center_baseline", **look)


def scales(
    axes: Any, x: Sequence[float], y: Sequence[float], xlabel: str, ylabel: str = ""
) -> None:
    """Write numbers and names beside the axes, and a faint grid.

    In place of matplotlib's ticks, each of which takes several times as long to draw; set the
    limits first.
    """
    axes.set_xticks([])
    axes.set_yticks([])
    grid = {"color": "#DDDDDD", "lw": 0.8, "zorder": 0}
    axes.vlines(x, *axes.get_ylim(), **grid)
    axes.hlines(y, *axes.get_xlim(), **grid)
    for value in x:
        place = {"ha": "center", "va": "top", "transform": axes.get_xaxis_transform()}
        axes.text(value, -0.04, f"{value:g}", **place)
    for value in y:
        place = {"ha": "right", "va": "center", "transform": axes.get_yaxis_transform()}
        axes.text(-0.02, value, f"{value:g}", **place)
    axes.set_xlabel(xlabel, labelpad=20)
    axes.set_ylabel(ylabel, labelpad=32)


# Stripes along the top: across the letters they would make them hard to read.
HATCHED = "repeating-linear-gradient(135deg,#111 0 2px,#0000 2px 5px) 0 0/100% 4px no-repeat "
_STRIP = (
    "<style>.lablib-strip{background:#fff;color:#111;white-space:pre-wrap;overflow-wrap:anywhere}"
    ".lablib-strip span{color:#111;padding:3px 0 1px;border-bottom:3px solid #0000;"
    "box-decoration-break:clone}.lablib-strip span:hover{outline:1px solid #111}"
    ".lablib-strip .kept{border-bottom-color:#111}.lablib-strip div{line-height:1.8}"
    ".lablib-strip small span{padding:2px 4px 0}"
    + "".join(
        f".lablib-strip .l{i}{{background:{HATCHED if look.hatch else ''}{look.fill}}}"
        for i, look in enumerate(SURENESS)
    )
    + "</style>"
)


def surprise_html(
    tokens: Sequence[str],
    probabilities: Sequence[float],
    kept: Sequence[bool] | None = None,
    hints: Sequence[str] | None = None,
) -> str:
    """Return a text as HTML, coloured by its tokens; it can be made anew for each that comes.

    Args:
        tokens: their texts, with the spaces and line ends between them.
        probabilities: one for each token.
        kept: of each, whether it is a draft that was kept; it gets a bar below. None: no drafts.
        hints: what is said of each to whoever points at it, after its probability.
    """

    def box(text: str, look: Look, bar: bool = False, hint: str = "") -> str:
        kind = f"l{SURENESS.index(look)}" if look in SURENESS else ""
        kinds = f"{kind} kept" if bar else kind
        title = f' title="{html.escape(hint)}"' if hint else ""
        return f'<span class="{kinds}"{title}>{html.escape(text)}</span>'

    bars = [False] * len(tokens) if kept is None else kept
    hints = [""] * len(tokens) if hints is None else hints
    text = "".join(
        box(token, sureness(p), bar, f"{p:.1%}{hint}")
        for token, p, bar, hint in zip(tokens, probabilities, bars, hints, strict=True)
    )
    legend = " ".join(box(look.name, look) for look in SURENESS)
    if kept is not None:
        legend += " " + box("a draft that was kept", PLAIN, True)
    return (
        f'{_STRIP}<div class="lablib-strip"><div>{text}</div>'
        f"<small>probability: {legend}</small></div>"
    )
