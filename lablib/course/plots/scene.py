"""Pictures that the page draws: data from here, shapes from a module of JavaScript.

A scene is a file in ``scenes``: a function of what never changes and of the data of now, which
returns shapes. ``painter.js`` puts them on the page and lets them move, and reads a shape's note
to whoever points at it or walks there with the arrow keys. In Jupyter they travel with a widget
(anywidget: JupyterLab, VS Code and Colab know it); the site has the same files.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lablib.course.plots.explorer import Explorer
from lablib.course.plots.marks import check_room
from lablib.course.plots.pictures import THEMES, Picture

import anywidget
import ipywidgets as widgets
import traitlets
from IPython.display import display

FOLDER = Path(__file__).parent / "scenes"
SHARED = ("painter", "cloth", "chart")  # what nearly every picture needs
PARTS = {"plane": "branches"}  # files that are a part of a scene
MIME = "application/vnd.lablib.scene+json"  # what becomes a PNG when a notebook is recorded


@cache
def scripts() -> dict[str, str]:
    """Return a script of what all scenes need, and one for each scene, which adds it to ``scenes``.

    What a file defines bears its name; its helpers are its own.
    """
    wrapped = "const {0} = (() => {{\n{1}\nreturn {0};\n}})();\n"
    files = sorted(FOLDER.glob("*.js"))
    found = {file.stem: wrapped.format(file.stem, file.read_text("utf-8")) for file in files}
    shared = "".join(found.pop(name) for name in SHARED)
    for part, whole in PARTS.items():
        found[whole] = found.pop(part) + found[whole]
    scenes = {name: f"{code}scenes.{name} = {name};\n" for name, code in found.items()}
    return {"shared": f"{shared}const scenes = {{chart}};\n", **scenes}


def script() -> str:
    """Return one script of all scenes."""
    return "".join(scripts().values())


@cache
def sheet() -> str:
    """Return the style sheet of all scenes."""
    return (FOLDER / "painter.css").read_text("utf-8")


_GLUE = """
export default {
  render({model, el}) {
    const told = name => model.get(name);
    const draw = painter(el, scenes[told('scene')], told('constants'), told('name'));
    const show = () => draw(told('data'), told('caption'));
    model.on('change:data', show);
    show();
  },
};
"""


class _View(anywidget.AnyWidget):
    """The widget that shows a scene in Jupyter.

    Attributes:
        scene: the name of its file.
        constants: what never changes.
        data: what is drawn now.
        caption: what it shows, in words.
        name: what it is.
    """

    _esm = script() + _GLUE
    _css = THEMES + sheet()
    scene = traitlets.Unicode().tag(sync=True)
    constants = traitlets.Dict().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    caption = traitlets.Unicode().tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)


class SceneExplorer(Explorer):
    """Controls, and a scene that follows them.

    Subclasses say which ``scene`` it is and what it is ``called``, and define ``constants`` before
    they call ``super().__init__``; ``draw`` returns what the scene is given, in what JSON can
    hold: the data themselves, unless a subclass says more. Where the data are
    made of ``parts``, methods that depend on some of the controls, a page without a kernel can
    hold every setting of each part, though not of all controls together. A page that has the
    ``engine`` (``lablib.tools.site``) computes the data itself: of a text that a reader writes, and
    of what was ``given`` here at any setting. Its ``name`` is one of ``page/pictures.mjs``,
    ``prompt`` is where the reader's text begins, and ``seed``, if it asks for one, the first one.
    """

    scene = "chart"
    called: str
    engine: dict[str, Any] | None = None
    parts: Mapping[str, Sequence[str]] = {}
    constants: dict[str, Any]

    def compute(self, **values: Any) -> dict[str, Any]:
        """Return the controls' values, and all parts."""
        data = dict(values)
        for name, wanted in self.parts.items():
            data |= getattr(self, name)(*(values[each] for each in wanted))
        return data

    def draw(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return what the scene is given."""
        return data

    def _viewed(self) -> widgets.Widget:
        self._stage = _View(scene=self.scene, constants=self.constants, name=self.called)
        self._words = widgets.HTML()
        return widgets.VBox([self._stage, self._words])

    def _draw(self, data: dict[str, Any]) -> None:
        self.picture = Picture("", self.caption(data))
        self._stage.caption = self.picture.caption
        self._stage.data = self.draw(data)
        live = ' aria-live="polite"' if self.controls else ""
        self._say(f'<p class="lablib-caption"{live}>{html.escape(self.picture.caption)}</p>')

    def _say(self, text: str) -> None:
        self._words.value = text

    def frame(self, **values: Any) -> tuple[dict[str, Any], str]:
        """Return what the scene is given for these values (the others stay), and its caption."""
        data = self.compute(**{**self.values, **values})
        return self.draw(data), self.caption(data)

    @property
    def told(self) -> dict[str, Any]:
        """Return what a page has to know of the scene beside its data."""
        dress = {"called": self.called, "constants": self.constants}
        return {"name": self.scene, "moves": bool(self.controls), **dress}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        data, caption = self.frame()
        told = {MIME: {**self.told, "data": data}, "text/plain": caption}
        return {**self._displayed(), **told}, {"image/png": {"alt": caption}}


@dataclass(frozen=True)
class Chart:
    """A chart that the page draws; ``scenes/chart.js`` says what its parts may be.

    Attributes:
        panels: of each panel what never changes: its title and its axes.
        marks: of each panel what is drawn on it.
        keys: of looks that need a word: colour, meaning, and if it is not filled whether it is an
            outline, or the dashes of a line.
        scene: what draws it: ``reading`` has a text above the panels.
        dress: what else the scene is told once.
        now: what else it is told of what is drawn now.
    """

    panels: list[dict[str, Any]]
    marks: list[list[dict[str, Any]]]
    keys: Sequence[tuple[Any, ...]] = ()
    scene: str = "chart"
    dress: Mapping[str, Any] = field(default_factory=dict)
    now: Mapping[str, Any] = field(default_factory=dict)


class ChartExplorer(SceneExplorer):
    """Controls, and a chart that follows them: subclasses define ``chart`` in place of ``draw``.

    Its axes, and what it is ``called``, stay as they begin: no control moves an axis, which has to
    hold every picture.
    """

    def __init__(self, **controls: widgets.Widget) -> None:
        first = self.chart(self.compute(**{name: each.value for name, each in controls.items()}))
        self.scene = first.scene
        self.called = " and ".join(each["title"] for each in first.panels) or "A text in colours"
        self.constants = {"panels": first.panels, "keys": first.keys, **first.dress}
        super().__init__(**controls)

    def chart(self, data: Any) -> Chart:
        """Return the chart of these data."""
        raise NotImplementedError

    def static(self, **values: Any) -> "Still":
        """Return the chart for these values (the others as they stand); nothing moves."""
        data = self.compute(**{**self.values, **values})
        return Still(self.chart(data), self.caption(data))

    def draw(self, data: Any) -> dict[str, Any]:
        """Return what is drawn on each panel, and those of its words that are others.

        Raises:
            ValueError: something lies beyond an axis.
        """
        chart, told = self.chart(data), []
        for fixed, panel, marks in zip(
            self.constants["panels"], chart.panels, chart.marks, strict=True
        ):
            check_room(fixed, [*fixed.get("behind", ()), *marks])
            words = {"title": panel["title"]} if panel["title"] != fixed["title"] else {}
            for side in ("x", "y"):
                if panel[side]["ticks"] != fixed[side]["ticks"]:
                    words[side] = {"ticks": panel[side]["ticks"]}
            told.append({"marks": marks, **words})
        return {"panels": told, **chart.now}


class Still(ChartExplorer):
    """A chart that no control moves.

    Args:
        chart: what is drawn.
        caption: what it shows, in words.
    """

    def __init__(self, chart: Chart, caption: str) -> None:
        self._chart, self._caption = chart, caption
        super().__init__()

    def compute(self) -> None:
        """Return nothing: all is there."""

    def chart(self, data: None) -> Chart:
        """Return the chart."""
        return self._chart

    def caption(self, data: None) -> str:
        """Return what was said of it."""
        return self._caption

    def _ipython_display_(self) -> None:
        data, metadata = self._repr_mimebundle_()
        display(data, metadata=metadata, raw=True)
