"""A stage draws the same as matplotlib does from nothing, whatever it drew before."""

import io

from lablib.course.plots.charts import png, style
from lablib.course.plots.explorer import Explorer, slider
from lablib.course.plots.stage import Stage
from lablib.course.plots.strips import canvas, scales

import numpy as np
import pytest
from matplotlib.lines import Line2D
from PIL import Image

PLACES = (0.6, 0.4, 1.2, 1.0), (2.4, 0.4, 1.2, 1.0)


def frame(left, right):
    left.set(xlim=(0, 4), ylim=(0, 1))
    scales(left, range(5), (0, 1), "x", "y")
    right.set_axis_off()


def paint(data, left, right):
    left.vlines(range(len(data)), 0, data, lw=9)
    left.add_line(Line2D((0, 4), (data[0], data[-1]), color="black", ls="--"))
    right.set(xlim=(0, len(data)))  # nothing stays there, so its limits may move
    for x, value in enumerate(data):
        if value < 0:
            raise ArithmeticError(value)
        right.text(x, 0.5, f"{value:.1f}")


def pixels(content):
    return np.asarray(Image.open(io.BytesIO(content)))


def whole(data, left=0.0, top=0.0):
    """Return the drawing as one figure, drawn once."""
    fig = canvas(2.0 + top, 4.0 + left)
    Stage(4, 2, PLACES, frame, paint).draw(fig, left, top, data)
    return pixels(png(fig))


def test_every_picture_is_the_one_drawn_from_nothing():
    stage = Stage(4, 2, PLACES, frame, paint)
    for data in ([0.2, 1.0, 0.4, 0.9, 0.1], [0.7], [1.0, 1.0, 0.0], [0.2, 1.0, 0.4, 0.9, 0.1]):
        live = pixels(stage.png(data))
        assert np.array_equal(live, whole(data)), data
    assert np.array_equal(live, whole(data, 3, 1)[100:, 300:])  # at another place, too
    assert not np.array_equal(live, pixels(stage.png([0.2])))


def test_a_painter_that_fails_leaves_nothing_behind():
    stage = Stage(4, 2, PLACES, frame, paint)
    stage.png([0.5])
    with pytest.raises(ArithmeticError):
        stage.png([0.9, -1.0])
    assert np.array_equal(pixels(stage.png([0.3, 0.6])), whole([0.3, 0.6]))


def test_the_frame_is_drawn_once_and_in_the_course_s_style():
    calls = []

    def counted(*axes):
        calls.append("frame")
        frame(*axes)

    stage = Stage(4, 2, PLACES, counted, paint)
    assert calls == []  # nothing is drawn before it is asked for
    first = stage.png([0.5])
    with style():
        assert stage.png([0.5]) == first
    assert calls == ["frame"]


def test_an_explorer_shows_what_a_stage_draws():
    class Staged(Explorer):
        def __init__(self):
            self.stage = Stage(4, 2, PLACES, frame, paint)
            super().__init__(high=slider(0.5, 0.0, 1.0, 0.1))

        def compute(self, high):
            return [high]

        def draw(self, data):
            fig = canvas(2, 4)
            self.stage.draw(fig, 0, 0, data)
            return fig

        def live(self, data):
            return self.stage.png(data)

        def caption(self, data):
            return f"It is {data[0]:.1f} high."

    widget = Staged()
    assert widget.set(high=0.8) == "It is 0.8 high."
    assert "image/png" in widget.picture.bundle()[0]
    assert np.array_equal(pixels(widget.picture.content), pixels(widget.static().content))
