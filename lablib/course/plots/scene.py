"""Pictures that the page draws: data from here, shapes from a module of JavaScript.

A scene is a file in ``scenes``: a function of what never changes and of the data of now, which
returns shapes. ``paint.js`` puts them on the page and lets them move, and reads a shape's note
to whoever points at it or walks there with the arrow keys. In Jupyter they travel with a widget
(anywidget: JupyterLab, VS Code and Colab know it); the site has the same files.
"""

import html
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lablib.course.plots.charts import THEMES, Picture
from lablib.course.plots.explorer import Explorer

import anywidget
import ipywidgets as widgets
import traitlets

FOLDER = Path(__file__).parent / "scenes"
MIME = "application/vnd.lablib.scene+json"  # what becomes a PNG when a notebook is recorded


@cache
def script() -> str:
    """Return a script that defines ``painter`` and ``scenes``, each file's helpers its own."""
    wrapped = "const {0} = (() => {{\n{1}\nreturn {0};\n}})();"
    files = {"painter": "paint", "cloth": "cloth", **{name: name for name in _scenes()}}
    read = {name: (FOLDER / f"{file}.js").read_text("utf-8") for name, file in files.items()}
    parts = [wrapped.format(name, code) for name, code in read.items()]
    return "\n".join([*parts, f"const scenes = {{{', '.join(_scenes())}}};\n"])


def _scenes() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.js") if path.stem not in ("paint", "cloth"))


@cache
def sheet() -> str:
    """Return the style sheet of all scenes."""
    return (FOLDER / "paint.css").read_text("utf-8")


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
    """What shows a scene in Jupyter.

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

    scene: str
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
        self._say(f'<p aria-live="polite">{html.escape(self.picture.caption)}</p>')

    def _say(self, text: str) -> None:
        self._words.value = text

    def frame(self, **values: Any) -> tuple[dict[str, Any], str]:
        """Return what the scene is given for these values (the others stay), and its caption."""
        data = self.compute(**{**self.values, **values})
        return self.draw(data), self.caption(data)

    @property
    def told(self) -> dict[str, Any]:
        """Return what a page has to know of the scene beside its data."""
        return {"name": self.scene, "called": self.called, "constants": self.constants}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        data, caption = self.frame()
        view = self.box._repr_mimebundle_()
        told = {MIME: {**self.told, "data": data}, "text/plain": caption}
        return {**view, **told}, {"image/png": {"alt": caption}}
