"""What is checked of every lesson's outputs is found where it is wrong on purpose."""

import re

import numpy as np
import pytest
from oracles import access, browser, ink
from oracles.demo import SHOWN, STRIP, write_demo

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    "dark", [pytest.param(False, marks=pytest.mark.slow), True], ids=["light", "dark"]
)
def test_pictures_are_transparent_and_their_ink_is_readable(dark, lab, folder):
    name = write_demo(folder, "themes.ipynb", "Powers(1)", SHOWN, STRIP)
    browser.dress(lab, dark)
    with browser.Lesson(lab, name) as lesson:
        lesson.run_all()
        captions = lab.locator(".lablib-caption")
        written = ["The last bar is 3.", "As <high> & as low.", "Two letters."]
        assert captions.all_inner_texts() == written
        page = lesson.background()
        for picture in range(3):
            pixels = lesson.photograph(picture).reshape(-1, 3)
            colours, counts = np.unique(pixels, axis=0, return_counts=True)
            assert np.abs(colours[counts.argmax()] - page).max() <= 20, (picture, page)
            bright = ink.luminance(pixels / 255)
            written = pixels[bright.argmax() if dark else bright.argmin()]
            assert ink.contrast(written / 255, np.divide(page, 255)) > 7, picture
    browser.dress(lab, False)


FAINT, W = "HTML('<p style=\"color:#999\">faint words</p>')", "w = Powers(0)\n"
# Each spoils one thing that a reader without a mouse, or without sight, needs.
SPOILT = {
    r"names: - slider": "w = Powers(0)\nw.box.children = w.box.children[1:]\nw",
    r"names: - img": "HTML('<div role=\"img\">⚄</div>')",
    r"light: 'faint words' in rgb\(153, 153, 153\): contrast 2.8": FAINT,
    r"dark: 'dark words'": "HTML('<p style=\"color:#333\">dark words</p>')",
    r"widget \d, Tab: .*noUi-handle": (
        "w = Powers(0)\nw.box.add_class('hush')\n"
        "display(HTML('<style>.hush .noUi-handle{outline:0!important;box-shadow:none!important;"
        "border:1px solid!important;background:#fff!important}</style>'))\nw"
    ),
    r"widget \d, Tab: .*<button": f"{W}w.box.children[1].children[-1].tabbable = False\nw",
    r"widget \d, arrows: .*noUi-handle": f"{W}one = w.controls['power']\none.max = one.min = 1\nw",
    r"widget \d, arrows: .*<select": (
        "w = Powers(0)\nw.box.children += (widgets.Dropdown(options=[1, 2], description='one'),)\n"
        "w.box.children = w.box.children[1:]\nw"
    ),
    r"cut off at 420: .*widget-readout": f"{W}w.controls['power'].layout.min_width = '40em'\nw",
    r"cut off at 800: P": "HTML('<p style=\"white-space:nowrap\">' + 300 * 'long ' + '</p>')",
    r"axe: select-name": "HTML('<select><option>one</option></select>')",
}


@pytest.mark.slow
def test_what_is_wrong_with_outputs_is_found(lab, folder):
    right = "import ipywidgets as widgets\nfrom IPython.display import HTML\nfine = Powers(0)\nfine"
    name = write_demo(folder, "spoilt.ipynb", right, *SPOILT.values())
    with browser.Lesson(lab, name) as lesson:
        lesson.run_all()
        found = access.complaints(lesson)
        missed = [each for each in SPOILT if not any(re.match(each, line) for line in found)]
        if access.axe_script() is None:
            missed = [each for each in missed if not each.startswith("axe")]
        assert missed == []
        assert not [line for line in found if line.startswith("widget 0")]
        assert lesson.errors() == []
