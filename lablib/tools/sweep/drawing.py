"""The pictures of a sweep, from its file: what the lessons draw, with intervals over problems."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from lablib.course.replay.curves import Sampled, vote_curves
from lablib.tools.sweep.file import read
from lablib.tools.sweep.kinds import Asked
from lablib.validation import BadValue, one_of, shown

import numpy as np

Rows = list[dict[str, Any]]
_RESAMPLED = 2000  # times; the ends of an interval then move by a tenth of its half width


def draw(path: str | Path) -> Any:
    """Return a matplotlib ``Figure`` of a sweep's file, also of one that is not finished.

    Votes: the majority's accuracy against votes at each temperature, and for one temperature also
    a single sample, best-of-N by log-probability and pass@N. Acceptance: α by rule against
    temperature, or against γ where several were swept. Speed: tokens a second against n.

    Raises:
        BadValue: the file is no sweep's that can be drawn, or holds no record yet.
    """
    first, rows = read(path)
    kinds = {"votes": _votes, "acceptance": _acceptance, "speed": _speed}
    one_of("the sweep of the file", first["sweep"], kinds)
    if not rows:
        raise BadValue(f"{path} holds no record yet")
    with named(path):
        nothing = _asked(first["sweep"], first["settings"]).nothing(rows)
    if nothing:
        raise BadValue(f"{path}: {nothing}")
    with named(path):
        return kinds[first["sweep"]](first["settings"], rows)


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Say in one line of what file it was that something in it could not be drawn."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        why = shown(f"{type(error).__name__}: {error}")  # no order for a terminal, and not too long
        raise BadValue(f"{path} is no sweep's file, or damaged: {why}") from error


def _asked(what: str, settings: Mapping[str, Any]) -> Asked:
    """Return what was asked for.

    Raises what a sweep raises that is asked for these, and ``LookupError`` where one lacks.
    """
    names = (each.name for each in fields(Asked) if each.name != "what")
    asked = {name: settings[name] for name in names}
    return Asked(what, **{k: tuple(v) if isinstance(v, list) else v for k, v in asked.items()})


def _votes(settings: Mapping[str, Any], rows: Rows) -> Any:
    most = max(settings["n"])
    counts = settings["n"] if len(settings["n"]) > 1 else [2**k for k in range(most.bit_length())]
    counts = sorted(counts)
    series: dict[str, Any] = {}
    warm = sorted({row["temperature"] for row in rows} - {0})
    for t in warm or [0]:
        problems = [
            Sampled(r["truth"], r["answers"], {"log-probability": r["logprobs"]})
            for r in sorted(rows, key=lambda r: r["problem"])
            if r["temperature"] == t
        ]
        counts = counts if t else [1]
        found = vote_curves(problems, counts, confidence=None, seed=settings["seed"])
        names = ["majority"]
        if len(warm) < 2:
            names = ["single", "majority", "best: log-probability", "pass"]
        for name in names:
            curve = found[name]
            label = name if len(warm) < 2 else f"T = {t:g}"
            series[label] = (curve.accuracy, curve.low, curve.high)
    return _lines(
        counts, series, "samples of a problem, N", "accuracy", logx=True,
        title=settings["task"],
    )  # fmt: skip


def _acceptance(settings: Mapping[str, Any], rows: Rows) -> Any:
    along = "gamma" if len(settings["gammas"]) > 1 else "temperature"
    other = "temperature" if along == "gamma" else "gamma"
    x, series = sorted({row[along] for row in rows}), {}
    several = len({row[other] for row in rows}) > 1
    for rule in settings["rules"]:
        for value in sorted({row[other] for row in rows}):
            some = [row for row in rows if row["rule"] == rule and row[other] == value]
            label = f"{rule}, T = {value:g}" if several and other == "temperature" else rule
            series[label] = _over(x, some, along, lambda r: (r["accepted"], r["reached"]))
    xlabel = "drafts a round, γ" if along == "gamma" else "temperature"
    return _lines(x, series, xlabel, "α, accepted of reached", title=settings["task"])


def _speed(settings: Mapping[str, Any], rows: Rows) -> Any:
    x, series = sorted({row["n"] for row in rows}), {}
    for gamma in settings["gammas"]:
        some = [row for row in rows if row["gamma"] == gamma]
        label = f"γ = {gamma}" if gamma else "plain"
        series[label] = _over(x, some, "n", lambda row: (row["tokens"], row["seconds"]))
    return _lines(
        x, series, "completions at once, n", "tokens / s", logx=True,
        title=settings["task"],
    )  # fmt: skip


def _lines(
    x: Sequence[float],
    series: Mapping[str, Any],
    xlabel: str,
    ylabel: str,
    title: str,
    logx: bool = False,
) -> Any:
    """Draw lines; of name -> (heights, low, high) the interval is a band."""
    from lablib.course.plots import pictures

    fig = pictures.figure()
    with pictures.style():
        axes = fig.subplots()
        for i, (name, (heights, low, high)) in enumerate(series.items()):
            look = {"linestyle": pictures.DASHES[i % 4], "marker": pictures.MARKERS[i % 8]}
            axes.plot(x, heights, label=name, **look)
            axes.fill_between(x, low, high, alpha=0.2, color=pictures.COLOURS[i % 8], linewidth=0)
        if logx:
            axes.set_xscale("log", base=2)
            axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
        if len(series) > 1:  # above the axes, at the right: it never covers data
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, borderaxespad=0.2)
    return fig


def _over(
    x: Sequence[float], rows: Rows, along: str, pair: Callable[[Mapping[str, Any]], tuple]
) -> tuple[list[float], list[float], list[float]]:
    """Return a ratio of sums at each x, with the 95 % interval over problems."""
    found = [ratio([pair(row) for row in rows if row[along] == value]) for value in x]
    heights, low, high = zip(*found, strict=True)
    return list(heights), list(low), list(high)


def ratio(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the sum of the first over the sum of the second, and its 95 % interval.

    The pairs, one a problem, are drawn again with replacement (the bootstrap's percentiles).
    """
    values = np.array(pairs, dtype=float).reshape(-1, 2)
    if not values[:, 1].sum():
        return (np.nan,) * 3
    places = np.random.default_rng(0).integers(len(values), size=(_RESAMPLED, len(values)))
    above, below = values[places].sum(axis=1).T
    whole = values[:, 0].sum() / values[:, 1].sum()
    with np.errstate(invalid="ignore", divide="ignore"):  # of those drawn all may have nothing
        low, high = np.nanpercentile(above / below, [2.5, 97.5])
    return float(whole), float(low), float(high)
