"""A drawing in two coats: what stays is drawn once, and only what moves is drawn for each picture.

Matplotlib spends most of a small chart's time on its frame: axes, rules, numbers, names. A control
that is dragged should not wait for them. So the frame is drawn once and its pixels are kept; each
picture starts with these and gets its bars, lines and words on top. Matplotlib calls this blitting.
"""

from collections.abc import Callable, Sequence
from typing import Any

from lablib.course.plots.charts import snapshot, style
from lablib.course.plots.strips import add_axes, canvas

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_BEHIND = -10  # what stays lies below all that moves, in either way of drawing


class Stage:
    """A drawing of fixed size, made of axes at fixed places.

    Args:
        width: of the picture, in inches.
        height: of the picture, in inches.
        places: of each axes: inches from the left and from the top, width and height.
        frame: called with all axes; draws what stays.
        paint: called with data and all axes; draws what moves, each time from nothing. It may only
            add artists. Where the frame holds anything, their limits are the frame's to set; a
            title moves, so it is a text.
    """

    def __init__(
        self, width: float, height: float, places: Sequence[tuple[float, float, float, float]],
        frame: Callable[..., None], paint: Callable[..., None],
    ) -> None:  # fmt: skip
        self.width, self.height, self.places = width, height, tuple(places)
        self._frame, self._paint = frame, paint
        self._kept: tuple[list[Any], FigureCanvasAgg, Any] | None = None

    def draw(self, fig: Figure, left: float, top: float, data: Any) -> None:
        """Draw everything into a figure, so many inches from its left and its top."""
        with style():
            self._paint(data, *self._framed(fig, left, top))

    def png(self, data: Any) -> bytes:
        """Return the drawing as PNG: the same pixels as ``draw`` gives, sooner."""
        with style():
            if self._kept is None:
                self._kept = self._begin()
            axes, agg, ground = self._kept
            agg.restore_region(ground)
            still = {*(artist for each in axes for artist in each.get_children())}
            try:
                self._paint(data, *axes)
                for each in axes:
                    new = [artist for artist in each.get_children() if artist not in still]
                    for artist in sorted(new, key=lambda artist: artist.zorder):
                        each.draw_artist(artist)
            finally:
                for each in axes:
                    for artist in each.get_children():
                        if artist not in still:
                            artist.remove()
            return snapshot(agg)

    def _begin(self) -> tuple[list[Any], FigureCanvasAgg, Any]:
        """Return the axes, the canvas that they are drawn on, and its pixels so far."""
        fig = canvas(self.height, self.width)
        axes, agg = self._framed(fig, 0, 0), FigureCanvasAgg(fig)
        agg.draw()
        return axes, agg, agg.copy_from_bbox(fig.bbox)

    def _framed(self, fig: Figure, left: float, top: float) -> list[Any]:
        axes = [add_axes(fig, left + x, top + y, *size) for x, y, *size in self.places]
        self._frame(*axes)
        for each in axes:
            for artist in each.get_children():
                artist.set_zorder(artist.get_zorder() + _BEHIND)
        return axes
