"""The charts of the acceptance dashboard: one token, one round, and every temperature."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lablib.course.plots.charts import COLOURS, DASHES, DPI, MARKERS
from lablib.course.plots.stage import Stage
from lablib.course.plots.strips import box, scales
from lablib.course.replay.recording import GAMMA
from lablib.course.replay.rounds import LONGEST

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D

BEST = 5
LOOKS = {"match": 0, "coupled": 2, "rejection": 1, "block": 5}  # colour and marker
HIGH = 5.75  # inches, of all charts
# Vermilion, darkened: what is written in it has to be read on white.
_P, _Q, _SHARED = COLOURS[0], "#B84F00", "#56B4E999"


@dataclass(frozen=True)
class Panel:
    """A chart, where it stands, and what it depends on.

    Attributes:
        stage: draws it.
        left: inches from the left of the picture.
        top: inches from its top.
        keys: of the data, those that it shows.
    """

    stage: Stage
    left: float
    top: float
    keys: tuple[str, ...]


def panels(grid: np.ndarray) -> tuple[Panel, ...]:
    """Return the charts of a recording at these temperatures ``(T,)``."""
    rounds = "task", "drafter", "rule", "gamma", "temperature"
    token = Stage(4, 3.2, [(1.25, 0.4, 2.6, 2.0)], _token_frame, _token)
    round_ = Stage(4, 3.2, [(0.65, 0.4, 3.1, 2.0)], _round_frame, _round)
    place = [(0.65, 0.4, 4.2, 1.5)]
    heat = Stage(6.5, 2.45, place, lambda axes: _temperatures_frame(axes, grid), _temperatures)
    return (
        Panel(token, 0, 0, ("task", "drafter", "temperature", "at")),
        Panel(round_, 4, 0, rounds),
        Panel(heat, 0, 3.3, rounds),
    )


def _token_frame(axes: Any) -> None:
    axes.set(xlim=(0, 1.02), ylim=(2 * BEST - 0.4, -0.6))
    scales(axes, (0, 0.5, 1), (), "")
    named = {"target p": (-0.4, _P), "drafter q, dashed": (-0.02, _Q)}
    for name, (x, colour) in {**named, "shared, filled": (0.63, "#333333")}.items():
        axes.text(x, -0.36, name, color=colour, size=11, transform=axes.transAxes)


def _token(data: Mapping[str, Any], axes: Any) -> None:
    """Draw p and q of the best tokens on top of each other."""
    names, p, q = zip(*data["best"], strict=True)
    _flat(axes, np.minimum(p, q), 0.28, facecolors=_SHARED)
    _flat(axes, p, 0.4, facecolors="none", edgecolors=_P, linewidths=2)
    _flat(axes, q, 0.28, facecolors="none", edgecolors=_Q, linewidths=2, linestyles="--")
    look = {"ha": "right", "va": "center", "transform": axes.get_yaxis_transform()}
    for i, name in enumerate(names):
        axes.text(-0.02, i, f"▸ {name}" if i == data["own"] else name, **look)
    choice = "" if data["temperature"] else " before the choice"
    look = {"ha": "center", "va": "top", "transform": axes.transAxes}
    axes.text(0.5, -0.14, f"probability{choice}", **look)
    share = data["overlaps"][data["at"]]
    _title(axes, f"token {data['at'] + 1}: Σ min(p, q) = {share:.2f}")


def _round_frame(axes: Any) -> None:
    axes.set(xlim=(-0.6, LONGEST + 0.6), ylim=(0, 1.02))
    scales(axes, range(LONGEST + 1), (0, 0.5, 1), "drafts kept in a round", "share of rounds")
    axes.text(0.2, -0.36, "◆ if drafts were coins", color=_Q, size=11, transform=axes.transAxes)


def _round(data: Mapping[str, Any], axes: Any) -> None:
    """Draw how many drafts a round keeps."""
    x = np.arange(data["gamma"] + 1)
    _upright(axes, x, np.zeros(len(x)), data["shares"], colors=COLOURS[4], linewidths=17)
    axes.add_line(
        Line2D(x, data["coins"], marker=MARKERS[2], ls="", color=_Q, markeredgecolor="white")
    )
    more = data["tokens_per_round"]
    _title(axes, f"1 + {more - 1:.2f} kept = {more:.2f} tokens a round")


def _temperatures_frame(axes: Any, grid: np.ndarray) -> None:
    axes.set(xlim=(grid[0] - 0.08, grid[-1] + 0.08), ylim=(0, 1.05))
    scales(axes, np.arange(grid[0], grid[-1] + 0.01, 0.5), (0, 0.5, 1), "temperature", "α")
    note = f"lines: theory\npoints: the engine\n(with γ = {GAMMA} only)"
    axes.text(1.03, 0.0, note, transform=axes.transAxes, size=10, va="bottom")


def _temperatures(data: Mapping[str, Any], axes: Any) -> None:
    """Draw α of every rule against temperature: lines are theory, points the engine."""
    grid, beside = data["grid"], {"transform": axes.transAxes, "clip_on": False}
    now = data["temperature"]
    axes.add_line(Line2D((now, now), axes.get_ylim(), color="#333333", lw=1, ls=":"))
    for place, name in enumerate(data["lines"]):
        i, chosen = LOOKS[name], name == data["rule"]
        look = {"color": COLOURS[i], "ls": DASHES[i % 4], "lw": 3.5 if chosen else 1.5}
        # A wide white edge would swallow a small cross.
        dot = {"marker": MARKERS[i], "mec": "white", "ms": 7 if chosen else 5, "mew": 0.6}
        axes.add_line(Line2D(grid, data["lines"][name], **look))
        if data["gamma"] == GAMMA:
            middle, low, high = np.array(data["points"][name]).T
            x = grid + 0.03 * (place - (len(data["lines"]) - 1) / 2)  # beside each other
            _upright(axes, x, low, high, colors=COLOURS[i], linewidths=1)
            axes.add_line(Line2D(x, middle, **dot, color=COLOURS[i], ls=""))
        y = 0.96 - 0.16 * place  # whole pixels, as a row between two would jump
        axes.add_artist(Line2D((1.03, 1.13), (y, y), **look, **dot, **beside))
        weight = "bold" if chosen else "normal"
        axes.text(1.16, y, name, weight=weight, va="center", transform=axes.transAxes)
    _title(axes, f"{data['task']}, {data['drafter']}: kept of the judged drafts")


def _title(axes: Any, text: str) -> None:
    """Write a line above the axes that is drawn anew with what moves, as a title is not."""
    axes.text(0, 1 + 0.14 * DPI / axes.bbox.height, text, transform=axes.transAxes)


def _flat(axes: Any, lengths: Sequence[float], half: float, **look: Any) -> None:
    """Draw horizontal bars at 0, 1, ... as one object: many take long."""
    corners = [box(y, 0, x, half) for y, x in enumerate(lengths)]
    axes.add_collection(PolyCollection(corners, **look), autolim=False)


def _upright(
    axes: Any, x: Sequence[float], low: Sequence[float], high: Sequence[float], **look: Any
) -> None:
    """Draw upright lines as one object."""
    ends = [[(at, a), (at, b)] for at, a, b in zip(x, low, high, strict=True)]
    axes.add_collection(LineCollection(ends, **look), autolim=False)
