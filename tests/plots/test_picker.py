"""A text as a control: clicks and arrow keys pick the same token."""

import runpy

from lablib.course.plots import picker as module
from lablib.course.plots.picker import TokenPicker
from lablib.course.plots.strips import SURENESS

TOKENS = [" the", " cat", "s", " the", ""]
LOOKS = [SURENESS[0], SURENESS[3], SURENESS[0], SURENESS[1], SURENESS[0]]


def shown(mark=1, **more):
    picker = TokenPicker(2, 9, "token")
    told = {"hints": ["hint"] * 5, "before": "Look:", "legend": SURENESS, "title": "p:"} | more
    picker.show(TOKENS, LOOKS, mark, **told)
    return picker


def test_every_token_is_a_button_of_its_own_name():
    picker = shown()
    assert [label.rstrip("\u200b") for label in picker.buttons.options] == [
        "the", "cat", "s", "the", "∅",
    ]  # fmt: skip
    assert len(set(picker.buttons.options)) == 5
    assert picker.buttons.index == 1
    assert picker.buttons.tooltips == ("hint",) * 5


def test_a_click_moves_the_slider_and_showing_does_not():
    picker, moved = shown(), []
    picker.observe(lambda change: moved.append(change["new"]), "value")
    picker.show(TOKENS[:4], LOOKS[:4], 3, hints=[""] * 4, before="", legend=SURENESS, title="p:")
    assert moved == []
    picker.buttons.index = 0
    assert (picker.value, moved) == (1, [1])


def test_colours_stripes_and_gaps_belong_to_their_tokens():
    above = shown(before="<Look>")._above.value
    assert "&lt;Look&gt;" in above
    style = above[: above.index("</style>")]
    assert "nth-child(2){background:repeating-linear-gradient" in style
    assert SURENESS[1].fill in style
    gaps = style[: style.index("{margin-left")].rsplit("}", 1)[-1]
    assert [n for n in range(1, 6) if f"nth-child({n})" in gaps] == [2, 4]


def test_two_pickers_do_not_colour_each_other():
    assert shown()._class != shown()._class


def test_two_kernels_on_one_page_colour_only_their_own_tokens():
    fresh = [runpy.run_path(module.__file__)["TokenPicker"](1, 2) for _ in range(2)]
    assert fresh[0]._class != fresh[1]._class
