"""What draws the pictures: modules of JavaScript, in a widget or on a page of the site.

A scene is a file in ``scenes``: a function of what never changes and of the data of now, which
returns shapes. ``painter.js`` puts them on the page and lets them move, and reads a shape's note
to whoever points at it or walks there with the arrow keys. In Jupyter they travel with a widget
(anywidget: JupyterLab, VS Code and Colab know it); the site has the same files.
"""

from functools import cache
from pathlib import Path

from lablib.course.plots.pictures import THEMES

import anywidget
import traitlets

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


class View(anywidget.AnyWidget):
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
