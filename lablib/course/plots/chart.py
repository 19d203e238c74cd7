"""A chart: panels with axes that stay, and marks on them, which ``scenes/chart.js`` draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lablib.course.plots.explorer import Explorer
from lablib.course.plots.marks import check_room

import ipywidgets as widgets
from IPython.display import display


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


class ChartExplorer(Explorer):
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
        data = self._computed(values)
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
