"""Controls that move a picture: the base class of every widget of the course.

A widget is a class with parts that need no browser: ``compute`` (controls -> data, pure), ``draw``
(data -> what its scene is given) and ``caption`` (data -> text). The base class adds the controls,
a view that follows them, and a reset button. Most widgets are a ``ChartExplorer`` (in ``chart``),
whose ``chart`` stands for ``draw``:

    class Temperature(ChartExplorer):
        def __init__(self, logits):
            self.logits = logits
            super().__init__(temperature=slider(1.0, 0.1, 2.0, 0.1))

        def compute(self, temperature):
            return softmax(self.logits / temperature)

        def chart(self, data):
            return bars("abcd", {"p": data}, "probability", ymax=1)

        def caption(self, data):
            return f"The largest probability is {data.max():.2f}."
"""

import html
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from lablib.course.plots.access import aids
from lablib.course.plots.scene import MIME, View
from lablib.validation import BadValue, one_of

import ipywidgets as widgets


def slider(
    value: float, low: float, high: float, step: float = 1, label: str = "", live: bool = True
) -> widgets.Widget:
    """Return a slider; of whole numbers when ``value`` and ``step`` are whole.

    Args:
        value: where it starts.
        low: its left end.
        high: its right end.
        step: how far an arrow key moves it.
        label: its description; the control's name when empty.
        live: whether it answers while it is dragged; only on release when a tick is slow.
    """
    whole = isinstance(value, numbers.Integral) and isinstance(step, numbers.Integral)
    kind = widgets.IntSlider if whole else widgets.FloatSlider
    return kind(
        value=value,
        min=low,
        max=high,
        step=step,
        description=label,
        continuous_update=live,
    )


def choice(value: Any, options: list[Any], label: str = "") -> widgets.Widget:
    """Return a drop-down list."""
    return widgets.Dropdown(value=value, options=options, description=label)


def _settled(control: widgets.Widget) -> bool:
    """Say whether a control is a list of one choice, which nothing can move."""
    return isinstance(control, widgets.Dropdown) and len(control.options) == 1


def toggle(value: bool, label: str = "") -> widgets.Widget:
    """Return a tick box."""
    return widgets.Checkbox(value=value, description=label, indent=False)


class Player(widgets.IntSlider):
    """A slider through time with a play button; the browser counts, the kernel only draws.

    Args:
        value: where it starts.
        low: its left end.
        high: its right end.
        milliseconds: time for each step.
        label: its description.
    """

    def __init__(
        self, value: int, low: int, high: int, milliseconds: int = 500, label: str = ""
    ) -> None:
        at = {"value": value, "min": low, "max": high}
        super().__init__(**at, description=label)
        self.play = widgets.Play(**at, interval=milliseconds, show_repeat=False)
        self.link = widgets.jslink((self.play, "value"), (self, "value"))
        look = {"flex_flow": "row wrap", "flex": "1 1 auto", "max_width": "54em"}
        self.row = widgets.HBox([self.play, self], layout=look)


class Explorer:
    """Controls, and a scene that follows them.

    Subclasses say which ``scene`` it is and what it is ``called``, define ``constants``, call
    ``super().__init__(name=control, ...)`` last, and define ``compute`` and ``caption``;
    ``compute`` gets each control's value under the control's name. Where the data are made of
    ``parts``, methods that depend on some of the controls, a page without a kernel can hold every
    setting of each part, though not of all controls together. A page that has the ``engine``
    (``lablib.tools.site``) computes the data itself: of a text that a reader writes, and of what
    was ``given`` here at any setting. Its ``name`` is one of ``page/pictures.mjs``, ``prompt`` is
    where the reader's text begins, and ``seed``, if it asks for one, the first one.

    Attributes:
        controls: name -> control.
        box: the widget: controls, reset button, view, caption.
        view: what shows the scene; its ``data`` and ``caption`` are those of now.
        furthest: name -> where a slider ends when nothing ends it earlier.
    """

    scene = "chart"
    called: str
    constants: dict[str, Any]
    engine: dict[str, Any] | None = None
    parts: Mapping[str, Sequence[str]] = {}

    def __init__(self, **controls: widgets.Widget):
        self.controls = controls
        self.furthest = {name: each.max for name, each in controls.items() if hasattr(each, "max")}
        self._at_rest = {name for name, end in self.furthest.items() if controls[name].value == end}
        self._quiet = False
        for name, control in controls.items():
            control.description = control.description or name.replace("_", " ")
            control.observe(self._tick, "value")
        for control in controls.values():  # side by side where there is room; no label is cut
            label = 0.55 * len(control.description) + 1
            control.style.description_width = f"{label:.1f}em"
            grows = {"flex": "1 1 auto"} if hasattr(control, "max") else {}  # a longer slider
            widest = f"min(100% - 4px, {label + 32:.1f}em)"
            control.layout = {"width": f"{label + 14:.1f}em", "max_width": widest, **grows}
        reset = widgets.Button(description="Reset", tooltip="Put every control back")
        reset.layout.width = "auto"
        reset.on_click(lambda _: self.set(**self._start))
        self.view = View(scene=self.scene, constants=self.constants, name=self.called)
        self._words = widgets.HTML()
        shown = [control for control in controls.values() if not _settled(control)]
        rows = [getattr(control, "row", control) for control in shown]
        line = widgets.HBox([*rows, reset], layout={"flex_flow": "row wrap"})
        seen = widgets.VBox([self.view, self._words])
        self.box = widgets.VBox([aids(), line, seen] if controls else [seen])
        if controls:
            self.box.add_class("lablib-explorer")
        self._tick()
        self._start, self._seen = self.values, False

    def compute(self, **values: Any) -> Any:
        """Return the data: by default the controls' values, and all parts.

        They depend on the controls' values, and on what never changes.
        """
        data = dict(values)
        for name, wanted in self.parts.items():
            data |= getattr(self, name)(*(values[each] for each in wanted))
        return data

    def draw(self, data: Any) -> dict[str, Any]:
        """Return what the scene is given, in what JSON can hold: by default the data."""
        return data

    def caption(self, data: Any) -> str:
        """Say in a sentence or two, with numbers, what the picture shows: it is the alt text."""
        raise NotImplementedError

    def ends(self, **values: Any) -> dict[str, float]:
        """Return where sliders end for these values, by their names, if not at their ``furthest``.

        The picture beyond an end is that of the end.
        """
        return {}

    @property
    def values(self) -> dict[str, Any]:
        """Return the controls' values now."""
        return {name: control.value for name, control in self.controls.items()}

    def set(self, **values: Any) -> str:
        """Move controls, as a student does with the mouse, and return the new caption.

        Raises:
            ValueError: an unknown control or a value that it can't take; nothing has moved then.
        """
        self._known(values)
        before, self._quiet = self.values, True
        try:
            self._move(values)
        except BadValue:
            self._move(before)
            raise
        finally:
            self._quiet = False
        self._tick()
        return self.view.caption

    def frame(self, **values: Any) -> tuple[dict[str, Any], str]:
        """Return what the scene is given for these values (the others stay), and its caption."""
        data = self._computed(values)
        return self.draw(data), self.caption(data)

    @property
    def told(self) -> dict[str, Any]:
        """Return what a page has to know of the scene beside its data."""
        dress = {"called": self.called, "constants": self.constants}
        return {"name": self.scene, "moves": bool(self.controls), **dress}

    def _known(self, values: dict[str, Any]) -> None:
        for name in values:
            one_of("control", name, self.controls)

    def _computed(self, values: dict[str, Any]) -> Any:
        """Return the data for these values, and the others as they stand."""
        self._known(values)
        return self.compute(**{**self.values, **values})

    def _move(self, values: dict[str, Any]) -> None:
        for name in sorted(values, key=self.furthest.__contains__):  # what ends a slider goes first
            if name in self.furthest:
                self._bounded()
            control, value = self.controls[name], values[name]
            try:
                control.value = value
            except Exception as refused:  # each kind of control has its own exception
                raise BadValue(f"{name} can't be {value!r}: {refused}") from None
            if control.value != value:  # sliders clamp and round in silence
                takes = f"in [{control.min}, {control.max}] in steps of {control.step}"
                raise BadValue(f"{name} must be {takes}, got {value!r}")

    def _bounded(self) -> bool:
        """End sliders where their pictures do, and say whether one has moved.

        Who began at the end, and is there, stays at the end.
        """
        before = self.values
        lasts = {**self.furthest, **self.ends(**before)}
        quiet, self._quiet = self._quiet, True
        for name, last in lasts.items():
            control = self.controls[name]
            stays = name in self._at_rest and control.value == control.max
            for each in (getattr(control, "play", control), control):
                each.max = last  # what is beyond it moves there
            control.value = last if stays else control.value
        self._quiet = quiet
        return self.values != before

    def _tick(self, _: Any = None) -> None:
        if self._quiet:
            return
        try:
            data = self.compute(**self.values)
            self._show(self.compute(**self.values) if self._bounded() else data)
        except Exception as error:  # JupyterLab hides a callback's exception in its log: show it
            text = html.escape(f"{type(error).__name__}: {error}")
            self._words.value = f'<pre role="alert">{text}</pre>'
            raise

    def _show(self, data: Any) -> None:
        """Show the picture of these data, and its caption."""
        self.view.caption = self.caption(data)
        self.view.data = self.draw(data)
        live = ' aria-live="polite"' if self.controls else ""
        text = html.escape(self.view.caption)
        self._words.value = f'<p class="lablib-caption"{live}>{text}</p>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if not self._seen:  # where controls stand the first time is Reset's place
            self._start, self._seen = self.values, True
        data, caption = self.frame()
        told = {MIME: {**self.told, "data": data}, "text/plain": caption}
        return {**self.box._repr_mimebundle_(), **told}, {"image/png": {"alt": caption}}
