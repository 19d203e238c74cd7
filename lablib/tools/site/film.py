"""A lesson's explorers as films: every picture that its controls can ask for, with its caption.

This runs in the kernel of a lesson that is being built into the site: :func:`begin` before its
first cell, :func:`end` after its last. An explorer that a cell shows leaves a number in the cell's
output, and its controls' values of that moment; its data are computed at the end, since a lesson
may add to what an explorer shows after it was put on the page.

A film has a frame for every setting of its controls together. Where these are more than ``GRID``,
sliders skip values: those whose numbers count nothing go first, the longest of them before others.
"""

import base64
import gzip
import hashlib
import json
import math
from bisect import bisect_left
from itertools import product
from pathlib import Path
from typing import Any

from lablib.course.plots.chart import Still
from lablib.course.plots.explorer import Explorer, Player

import ipywidgets as widgets

MIME = "application/vnd.lablib.film+json"
GRID = 2600  # settings of a film: some 200 bytes each, packed
STOPS = 65  # places of a slider at most
FEW = 5  # places that a slider keeps

_shown: list[tuple[Explorer, dict[str, Any]]] = []


def begin() -> None:
    """Have explorers leave a number where a cell shows them; a still is what was recorded."""

    def numbered(self: Explorer, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        _shown.append((self, self.values))
        return {MIME: len(_shown) - 1, "text/plain": self.view.caption}

    Still._repr_mimebundle_ = Explorer._repr_mimebundle_
    Explorer._repr_mimebundle_ = numbered


def end(frames: Path, films: Path) -> None:
    """Write what was shown: all settings into the folder ``frames``, films into a file."""
    found = [film(explorer, start, frames) for explorer, start in _shown]
    films.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")


def film(explorer: Explorer, start: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return an explorer's film; the data of all its settings are put into a file of a folder.

    Args:
        explorer: any.
        start: where its controls stand, by name.
        folder: an existing one.

    Returns:
        ``controls``: of each one ``name``, ``label``, ``kind``, ``stops`` (what it reads at each
        place), ``start`` (a place), whether it was ``thinned`` and, if others end it, ``ends`` (a
        place for each setting); ``fixed``: labels of those that can't be moved; the ``scene``, and
        its ``data`` and ``caption`` at the start; ``engine``: what the page can compute itself;
        ``parts``, if there is more than one setting: the file of all of them, in the order of
        ``itertools.product``.
    """
    controls, places = [], []
    for name, (stops, kept) in _kept(explorer, start).items():
        values, labels, kind = stops
        places.append([values[i] for i in kept])
        control = explorer.controls[name]
        thinned = len(kept) < len(values)
        told = {"name": name, "label": control.description, "kind": kind, "thinned": thinned}
        at = kept.index(_index(values, start[name]))
        told |= {"stops": [labels[i] for i in kept], "start": at}
        controls.append(told | {"pause": getattr(getattr(control, "play", None), "interval", 0)})
    settings = [dict(zip(start, values, strict=True)) for values in product(*places)]
    parts = {}
    if len(settings) > 1:
        split = _parts(explorer, start, places) if explorer.parts else _frames(explorer, settings)
        parts["parts"] = _keep_data(split, folder)
    data, caption = explorer.frame(**start)
    scene = {"scene": explorer.told, "data": data, "caption": caption, "engine": explorer.engine}
    ends = [explorer.ends(**values) for values in settings]  # known once all was drawn
    for control, values in zip(controls, places, strict=True):
        name = control["name"]
        if any(name in each for each in ends):
            lasts = (bisect_left(values, each.get(name, values[-1])) for each in ends)
            control["ends"] = [min(last, len(values) - 1) for last in lasts]
    moving = [control for control in controls if len(control["stops"]) > 1]
    fixed = [control["label"] for control in controls if control["kind"] == "fixed"]
    return {"controls": moving, "fixed": fixed, **scene, **parts}


Stops = tuple[list[Any], list[str], str]  # a control's values, what it reads at each, its kind


def _kept(explorer: Explorer, start: dict[str, Any]) -> dict[str, tuple[Stops, list[int]]]:
    """Return each control's stops, and the numbers of those that are kept: so that all fit."""
    stops = {
        name: _stops(control, explorer.furthest.get(name))
        for name, control in explorer.controls.items()
    }
    steps = {
        name: -(-len(values) // STOPS) if kind in ("slider", "film") else 1
        for name, (values, _, kind) in stops.items()
    }
    while True:
        kept = {
            name: _every(steps[name], len(values), _index(values, start[name]))
            for name, (values, _, _) in stops.items()
        }
        long = [name for name in kept if stops[name][2] == "slider" and len(kept[name]) > FEW]
        if math.prod(map(len, kept.values())) <= GRID or not long:
            return {name: (stops[name], kept[name]) for name in stops}
        smooth = [n for n in long if isinstance(explorer.controls[n], widgets.FloatSlider)]
        steps[max(smooth or long, key=lambda name: len(kept[name]))] *= 2


def _every(step: int, count: int, at: int) -> list[int]:
    """Return every so many numbers below ``count``, and one of them, the first and the last."""
    return [i for i in range(count) if (i - at) % step == 0 or i in (0, count - 1)]


def _parts(explorer: Explorer, start: dict[str, Any], places: list[list[Any]]) -> dict[str, Any]:
    """Return an explorer's parts for all settings, and all captions.

    A part is ``{of, data}``: the controls that it depends on, by their numbers among those that
    move, and its data in the order of ``itertools.product`` of their places.
    """
    names, along = list(start), dict(zip(start, places, strict=True))
    moving = [name for name in names if len(along[name]) > 1]
    parts = [
        {"of": [moving.index(name)], "data": [{name: value} for value in along[name]]}
        for name in moving
    ]
    for part, wanted in explorer.parts.items():
        data = [getattr(explorer, part)(*each) for each in product(*(along[x] for x in wanted))]
        parts.append({"of": [moving.index(x) for x in wanted if x in moving], "data": data})
    every = (dict(zip(names, values, strict=True)) for values in product(*places))
    return {"parts": parts, "captions": [explorer.frame(**values)[1] for values in every]}


def _frames(explorer: Explorer, settings: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the data of all settings, and their captions."""
    data, captions = zip(*(explorer.frame(**values) for values in settings), strict=True)
    return {"frames": data, "captions": captions}


def _keep_data(told: dict[str, Any], folder: Path) -> str:
    """Put a scene's data for all its settings into a file; return its name."""
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
    name = f"{hashlib.sha256(text).hexdigest()[:20]}.js"
    packed = base64.b64encode(gzip.compress(text, mtime=0)).decode()
    (folder / name).write_text(f'lablibFilm("{name}", "{packed}");', "utf-8")
    return name


def _stops(control: widgets.Widget, most: float | None) -> Stops:
    """Return a control's values (a slider's up to ``most``), what it reads at each, its kind."""
    if isinstance(control, widgets.Checkbox):
        return [False, True], ["off", "on"], "box"
    if isinstance(control, widgets.Dropdown):
        pairs = [each if isinstance(each, tuple) else (each, each) for each in control.options]
        return [value for _, value in pairs], [str(label) for label, _ in pairs], "list"
    if isinstance(control, widgets.IntSlider | widgets.FloatSlider):
        count = 1 + round((most - control.min) / control.step)
        values = [round(control.min + i * control.step, 9) for i in range(count)]
        kind = "film" if isinstance(control, Player) else "slider"
        return values, [f"{value:g}" for value in values], kind
    return [control.value], [str(control.value)], "fixed"


def _index(values: list[Any], value: Any) -> int:
    """Return where a value stands; of numbers the nearest one counts."""
    if isinstance(value, float):
        return min(range(len(values)), key=lambda i: abs(values[i] - value))
    return values.index(value)
