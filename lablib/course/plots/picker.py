"""A control that is a text: a click on a token picks it, and so does an arrow key on its slider."""

import html
from collections.abc import Sequence
from uuid import uuid4

from lablib.course.plots.strips import HATCHED, Look

import ipywidgets as widgets

_SHAPE = (
    "{0}>div{{display:flex;flex-wrap:wrap;row-gap:4px;padding:4px}}"
    "{0} button.widget-toggle-button{{width:auto;height:auto;min-width:1.2em;margin:0;"
    "padding:4px 2px 2px;line-height:1.5;font-family:monospace;font-size:13px;color:#111;"
    "border:1px solid #fff}}"
    # Tokens are pale in both themes: a dark ring is seen on them, the outer one on a dark page.
    "{0} button.mod-active{{outline:2px solid #111;outline-offset:-1px;z-index:1;"
    "box-shadow:0 0 0 3px var(--jp-ui-font-color1,#777)}}"
    "{0} button:focus-visible{{outline:3px dashed var(--jp-brand-color1,#0072B2)}}"
    ".lablib-legend span{{color:#111;padding:3px 4px 0;margin-right:.3em;white-space:nowrap}}"
)


class TokenPicker(widgets.IntSlider):
    """A slider over the tokens of a text, 1 the first, with the text as buttons below it.

    Args:
        value: the token at the start.
        most: tokens of the longest text.
        label: its description.
    """

    def __init__(self, value: int, most: int, label: str = "") -> None:
        super().__init__(value, 1, most, description=label)
        self._above, self.buttons = widgets.HTML(), widgets.ToggleButtons(options=[])
        # One page may show two lessons, each with a kernel that would count from 0.
        self._class, self._busy = f"lablib-tokens-{uuid4().hex}", False
        self.buttons.add_class(self._class)
        self.buttons.observe(self._picked, "index")
        self.row = widgets.VBox([self, self._above, self.buttons])

    def show(
        self, tokens: Sequence[str], looks: Sequence[Look], mark: int, *, hints: Sequence[str],
        before: str, legend: Sequence[Look], title: str,
    ) -> None:  # fmt: skip
        """Show a text.

        Args:
            tokens: their texts, with the space that begins them.
            looks: one for each token.
            mark: which one is picked, from 0.
            hints: what is said where the mouse rests on each token.
            before: the prompt.
            legend: looks to name, ``title`` first.
            title: what the legend is about.
        """
        rules = [_SHAPE.format(f".{self._class}"), self._colours(looks), self._gaps(tokens)]
        names = " ".join(
            f'<span style="background:{_fill(look)}">{html.escape(look.name)}</span>'
            for look in legend
        )
        said = f'<small class="lablib-legend">{html.escape(title)} {names}</small>'
        text = f"<code>{html.escape(before)}</code>" if before else ""
        self._above.value = f"<style>{''.join(rules)}</style>{said}<div>{text}</div>"
        labels: list[str] = []
        for token in tokens:  # a button is known by its text, so no two may have the same
            label = token.strip() or ("␣" if token else "∅")
            labels.append(label + "\u200b" * sum(x.rstrip("\u200b") == label for x in labels))
        self._busy = True
        try:
            if self.buttons.options != tuple(labels):
                self.buttons.options = labels
            if self.buttons.tooltips != tuple(hints):
                self.buttons.tooltips = tuple(hints)
            self.buttons.index = mark
        finally:
            self._busy = False

    def _picked(self, change: dict) -> None:
        if not self._busy and change["new"] is not None:
            self.value = change["new"] + 1

    def _colours(self, looks: Sequence[Look]) -> str:
        """Return a style for the buttons of each look."""
        styles = []
        for look in dict.fromkeys(looks):
            own = [i for i, other in enumerate(looks, start=1) if other == look]
            styles.append(f"{self._of(own)}{{background:{_fill(look)}}}")
        return "".join(styles)

    def _gaps(self, tokens: Sequence[str]) -> str:
        """Return a style that leaves the space before a word, and puts the pieces of one close."""
        words = [i for i, token in enumerate(tokens, start=1) if i > 1 and token[:1].isspace()]
        return f"{self._of(words)}{{margin-left:.55em}}" if words else ""

    def _of(self, places: Sequence[int]) -> str:
        start = f".{self._class} button.widget-toggle-button:nth-child"
        return ",".join(f"{start}({i})" for i in places)


def _fill(look: Look) -> str:
    return f"{HATCHED if look.hatch else ''}{look.fill or '#eee'}"
