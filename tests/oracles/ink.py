"""How well colours can be told from a page: the contrast of WCAG, on white and on a dark page."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from matplotlib import colors, text

LEAST = 4.5  # WCAG 2.2, success criterion 1.4.3
WHITE, DARK_PAGE = np.ones(3), np.full(3, 0x11 / 255)  # JupyterLab's
# CSS's hue-rotate(180deg), which the pictures get on a dark page after their light and dark have
# changed places.
_TURN = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])


def luminance(colours):
    """Return the relative luminance of colours (..., 3), 0 to 1, as WCAG defines it."""
    part = np.asarray(colours)
    part = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return part @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    """Return the contrast of two colours, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def on_dark(colour):
    """Return what becomes of a picture's colour on a dark page."""
    turned = np.clip(_TURN @ (1 - np.asarray(colour)), 0, 1)
    return 1 - (1 - turned) * (1 - DARK_PAGE)


def faint(words: str, colour) -> list[str]:
    """Return a line for each kind of page on which words of this colour are hard to read.

    White is for words on dark bars; they are not looked at.
    """
    ink = np.array(colors.to_rgb(colour))
    if np.allclose(ink, WHITE) or not words.strip():
        return []
    found = {"light": contrast(ink, WHITE), "dark": contrast(on_dark(ink), DARK_PAGE)}
    return [
        f"{words!r} in {colors.to_hex(ink)}: contrast {value:.1f} on a {page} page"
        for page, value in found.items()
        if value < LEAST
    ]


@contextmanager
def read_all() -> Iterator[list[str]]:
    """Yield a list that takes in what matplotlib writes too faintly from here on."""
    found: list[str] = []
    draw = text.Text.draw

    def drawn(self, *args, **more):
        if self.get_visible():
            found.extend(faint(self.get_text(), self.get_color()))
        return draw(self, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text.Text, "draw", drawn)
        yield found
