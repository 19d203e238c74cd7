"""Pictures that no scene draws: a matplotlib ``Figure``, or HTML, readable by everyone.

Figures are built without pyplot, so nothing is shown twice and nothing leaks.
"""

import base64
import contextlib
import html
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets
import matplotlib
import numpy as np
from IPython.display import display
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

DPI = 100
SCALE = 2  # pixels of a picture for each of the page's: screens have as many
LEAST = 0.8  # of its size: a phone shows a part of a picture rather than letters too small to read
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
HATCHES = ("", "///", "...", "xxx", "---", "\\\\\\", "ooo", "+++")
DASHES = ("-", "--", ":", "-.")
MARKERS = "osD^vP*X"
STYLE = {
    "font.size": 12,
    # The page's font as near as there are files for it: macOS, Windows, Linux. What it lacks, such
    # as a check mark, is taken from the one that comes with matplotlib.
    "font.family": ["sans-serif", "DejaVu Sans"],
    "font.sans-serif": ["Helvetica Neue", "Segoe UI", "Arial", "Liberation Sans", "DejaVu Sans"],
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titley": 1.03,  # a fixed place: looking for one costs a sixth of the drawing time
    "axes.axisbelow": True,
    "hatch.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "lines.markersize": 6.0,
    "legend.frameon": False,
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in the course's style inside this block."""
    with matplotlib.rc_context(STYLE):
        yield


def figure(width: float = 7.0, height: float = 3.4) -> Figure:
    """Return an empty figure of ``width`` × ``height`` inches (use ``.subplots()`` for axes)."""
    with style():
        return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def png(fig: Figure) -> bytes:
    """Return a figure of this module as PNG; on one machine it always gives the same bytes."""
    fig.set_dpi(SCALE * DPI)
    with style():
        canvas = FigureCanvasAgg(fig)
        canvas.draw()
    fig.set_dpi(DPI)
    buffer = io.BytesIO()
    image = Image.fromarray(np.asarray(canvas.renderer.buffer_rgba()))
    image.convert("RGB").save(buffer, format="png", compress_level=2)
    return buffer.getvalue()


def svg(fig: Figure) -> str:
    """Return the figure as SVG with its text as text; the same figure gives the same string."""
    text = io.StringIO()
    with style(), matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lablib"}):
        fig.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


# Pictures are drawn in dark ink on white. On a dark page light and dark change places, hues stay,
# and black, which white has become, lets the page through.
_DARK_PAGES = ("[data-jp-theme-light=false]", ".vscode-dark", "html[theme=dark]")
THEMES = (
    ".lablib-picture{max-width:100%;mix-blend-mode:multiply}"
    ".lablib-slides{overflow-x:auto;max-width:100%}"
    ".widget-html-content:has(.lablib-slides){min-width:0}"
    f":is({','.join(_DARK_PAGES)}) .lablib-picture"
    "{filter:invert(1) hue-rotate(180deg);mix-blend-mode:screen}"
)
_THEMES = f"<style>{THEMES}</style>"


@dataclass(frozen=True)
class Picture:
    """A finished picture with a caption that says what it shows (its alt text, too).

    Attributes:
        content: PNG bytes, ``SCALE`` pixels for each of the page's, or a piece of HTML or SVG.
        caption: one or two sentences, below the picture; also what a test or a screen reader sees.
    """

    content: bytes | str
    caption: str

    def to_html(self) -> str:
        """Return the picture as HTML, with its alt text, readable on light and dark pages."""
        text = html.escape(self.caption)
        if isinstance(self.content, str):
            look = f'class="lablib-picture" role="img" aria-label="{text}"'
            return f"{_THEMES}<div {look}>{self.content}</div>"
        source = f"data:image/png;base64,{base64.b64encode(self.content).decode()}"
        width, _ = self.size
        look = f'class="lablib-picture" width="{width}" style="min-width:{LEAST * width:.0f}px"'
        image = f'<img {look} alt="{text}" src="{source}">'
        return f'{_THEMES}<div class="lablib-slides" tabindex="0">{image}</div>'

    @property
    def size(self) -> tuple[int, int]:
        """Return how wide and how high a PNG is on a page."""
        wide, high = Image.open(io.BytesIO(self.content)).size
        return wide // SCALE, high // SCALE

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return data and metadata for readers without a kernel, such as GitHub and nbconvert."""
        if isinstance(self.content, str):
            return {"text/html": self.to_html(), "text/plain": self.caption}, {}
        data = {"image/png": base64.b64encode(self.content).decode(), "text/plain": self.caption}
        width, height = self.size
        return data, {"image/png": {"alt": self.caption, "width": width, "height": height}}

    def _ipython_display_(self) -> None:
        data, metadata = self.bundle()
        if "image/png" in data:  # JupyterLab gives a PNG no alt text, so there it is a widget
            data = {**widgets.HTML(self.to_html())._repr_mimebundle_(), **data}
        display(data, metadata=metadata, raw=True)
        # The caption is an output of its own: no reader puts text below a PNG, and GitHub shows
        # only the text of an HTML figure.
        text = f'<p class="lablib-caption">{html.escape(self.caption)}</p>'
        display({"text/html": text, "text/plain": self.caption}, raw=True)


def visible(token: str) -> str:
    """Return the token with its white space made visible."""
    return token.replace(" ", "␣").replace("\n", "⏎") or "∅"
