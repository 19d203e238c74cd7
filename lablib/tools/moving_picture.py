"""The README's moving picture: lesson 00's first widget, its slider going up and down.

``python -m lablib.tools.moving_picture FILE.gif`` makes it, always the same one.
"""

import io
import sys
from pathlib import Path

from lablib.course.lessons.lesson_00.widgets import StoryTeller
from lablib.course.plots.charts import COLOURS, png, style
from lablib.course.plots.strips import add_axes, canvas
from lablib.course.tasks import stories
from lablib.folders import replacing
from lablib.models import load

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

_MILLISECONDS = 1300  # for each stop of the slider: long enough to read the bars
_TIMES = 2  # it is played; then it rests, so that who reads is not disturbed


def moving_picture(path: Path) -> Path:
    """Write lesson 00's story teller as a GIF, temperatures 0 to 2 and back; return ``path``."""
    model, tokenizer = load("target")
    (story,) = stories.problems(3, 1)  # as in the lesson
    teller = StoryTeller(model, tokenizer, story, fork=" She is", tries=1)
    frames = [_frame(teller, temperature) for temperature in teller.TEMPERATURES]
    turning = [*frames, *frames[-2:0:-1]]
    # One palette for all: a frame then differs from the next only where something moved.
    palette = Image.fromarray(np.vstack([np.asarray(f) for f in frames])).quantize(96)
    plain = {"palette": palette, "dither": Image.Dither.NONE}
    first, *others = [frame.quantize(**plain) for frame in turning]
    options = {"duration": _MILLISECONDS, "loop": _TIMES - 1, "optimize": False}
    with replacing(path) as file:
        first.save(file, format="gif", save_all=True, append_images=others, **options)
    return path


def _frame(teller: StoryTeller, temperature: float) -> Image.Image:
    drawn = teller.draw(teller.compute(temperature=temperature, story=1))
    pieces = [Image.open(io.BytesIO(png(fig, 1))) for fig in (_slider(temperature), drawn)]
    return Image.fromarray(np.vstack([np.asarray(piece.convert("RGB")) for piece in pieces]))


def _slider(temperature: float) -> Figure:
    fig = canvas(0.5)
    with style():
        axes = add_axes(fig, 2.4, 0.05, 3.6, 0.4)
        axes.plot([0, 2], [0, 0], color="#BBBBBB", linewidth=5, solid_capstyle="round")
        axes.plot(temperature, 0, "o", color=COLOURS[0], markersize=15)
        axes.set(xlim=(-0.1, 2.1), ylim=(-1, 1))
        axes.axis("off")
        fig.text(2.2 / 8, 0.5, "temperature", ha="right", va="center", size=13)
        fig.text(6.3 / 8, 0.5, f"{temperature:.2f}", va="center", size=13)
    return fig


if __name__ == "__main__":
    print(moving_picture(Path(sys.argv[1])))
