"""Pictures that the page draws: data from here, shapes from a module of JavaScript.

A scene is a file in ``scenes``: a function of what never changes and of the data of now, which
returns shapes. ``paint.js`` puts them on the page and lets them move, and reads a shape's note
to whoever points at it or walks there with the arrow keys. In Jupyter they travel with a widget
(anywidget: JupyterLab, VS Code and Colab know it); the site has the same files.
"""

import html
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
def script(*names: str) -> str:
    """Return a script that defines ``painter`` and these scenes, each with helpers of its own."""
    files = {"painter": "paint", **{name: name for name in names}}
    read = {name: (FOLDER / f"{file}.js").read_text("utf-8") for name, file in files.items()}
    wrapped = "const {0} = (() => {{\n{1}\nreturn {0};\n}})();"
    return "\n".join(wrapped.format(name, code) for name, code in read.items())


@cache
def sheet() -> str:
    """Return the style sheet of all scenes."""
    return (FOLDER / "paint.css").read_text("utf-8")


def site() -> tuple[str, str]:
    """Return what a page without a kernel needs: a script with all ``scenes``, and their sheet."""
    names = sorted(path.stem for path in FOLDER.glob("*.js") if path.stem != "paint")
    return f"{script(*names)}\nconst scenes = {{{', '.join(names)}}};\n", sheet()


class _View(anywidget.AnyWidget):
    """What shows a scene in Jupyter.

    Attributes:
        constants: what never changes.
        data: what is drawn now.
        caption: what it shows, in words.
        name: what it is.
    """

    constants = traitlets.Dict().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    caption = traitlets.Unicode().tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)


_GLUE = """
export default {{
  render({{model, el}}) {{
    const draw = painter(el, {name}, model.get('constants'), model.get('name'));
    const show = () => draw(model.get('data'), model.get('caption'));
    model.on('change:data', show);
    show();
  }},
}};
"""


class SceneExplorer(Explorer):
    """Controls, and a scene that follows them.

    Subclasses say which ``scene`` it is and what it is ``called``, and define ``constants`` before
    they call ``super().__init__``; ``compute`` returns data that JSON can hold.
    """

    scene: str
    called: str
    constants: dict[str, Any]

    def _viewed(self) -> widgets.Widget:
        kind = type(
            f"{self.scene.title()}View",
            (_View,),
            {
                "_esm": script(self.scene) + _GLUE.format(name=self.scene),
                "_css": THEMES + sheet(),
            },
        )
        self._stage = kind(constants=self.constants, name=self.called)
        self._words = widgets.HTML()
        return widgets.VBox([self._stage, self._words])

    def _draw(self, data: dict[str, Any]) -> None:
        self.picture = Picture("", self.caption(data))
        self._stage.caption = self.picture.caption
        self._stage.data = data
        self._say(f'<p aria-live="polite">{html.escape(self.picture.caption)}</p>')

    def _say(self, text: str) -> None:
        self._words.value = text

    def frame(self, **values: Any) -> tuple[dict[str, Any], str]:
        """Return the data for these values (the others as they stand), and its caption."""
        data = self.compute(**{**self.values, **values})
        return data, self.caption(data)

    @property
    def told(self) -> dict[str, Any]:
        """Return what a page has to know of the scene beside its data."""
        return {"name": self.scene, "called": self.called, "constants": self.constants}

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        data, caption = self.frame()
        view = self.box._repr_mimebundle_()
        told = {MIME: {**self.told, "data": data}, "text/plain": caption}
        return {**view, **told}, {"image/png": {"alt": caption}}
