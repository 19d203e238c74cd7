"""Charts: they draw what they are given, and colour is never the only signal."""

import html
import subprocess
import sys

from lablib.course.plots import pictures
from lablib.course.plots.charts import axis, bars, lines, show, token_strip
from lablib.course.plots.pictures import figure, png
from lablib.course.plots.scene import MIME

import pytest
from oracles.drawn import charted, curves, heights, read


def test_a_bar_stands_in_the_outline_of_what_it_is_held_against():
    chart = bars(["a", " b"], {"before": [1, 2], "after": [3, 4]}, "share", xlabel="token", ymax=5)
    (marks,), (view,) = charted(chart), chart.panels
    assert heights(marks) == [1, 3, 2, 4]
    assert [mark["hollow"] for mark in marks] == [True, False] * 2
    outline, inside = marks[0]["bar"], marks[1]["bar"]
    assert outline[0] < inside[0] < inside[1] < outline[1]
    assert marks[0]["note"] == "a: before 1, after 3."
    assert [name for _, name in view["x"]["ticks"]] == ["a", "␣b"]
    assert [key[1:] for key in chart.keys] == [("before", True), ("after",)]
    assert (view["title"], view["x"]["name"], view["y"]["ends"]) == ("share", "token", [0, 5])


def test_one_series_needs_no_word():
    chart = bars("ab", {"p": ([0.2, 0.8], [0.1, 0.7], [0.3, 0.9])}, "p")
    assert chart.keys == []
    lines = [(mark["line"], mark.get("colour")) for mark in charted(chart)[0] if "line" in mark]
    whiskers = [[[0, 0.1], [0, 0.3]], [[1, 0.7], [1, 0.9]]]  # each on a white one: a bar is dark
    assert lines == [(line, colour) for line in whiskers for colour in ("#FFFFFF", None)]


def test_lines_have_intervals_dashes_and_their_names():
    x = [1, 2, 4]
    series = {"theory": [0.1, 0.2, 0.3], "measured": ([0.1, 0.2, 0.4], [0, 0.1, 0.3], [1, 1, 1])}
    chart = lines(x, series, "samples", "accuracy", logx=True)
    (marks,), (view,) = charted(chart), chart.panels
    assert curves(marks) == {"theory": [0.1, 0.2, 0.3], "measured": [0.1, 0.2, 0.4]}
    assert marks[1]["line"][2] == [4, 0.4, 0.3, 1]
    assert len({mark["dash"] for mark in marks}) == len({mark["colour"] for mark in marks}) == 2
    assert view["labels"] == [*series]
    assert view["x"]["ticks"] == [(1, "1"), (2, "2"), (4, "4")]
    assert view["x"]["log"]
    assert view["y"]["ends"] == [0, 1]


def test_dots_may_have_a_curve_of_their_colour_through_them():
    measured = {"few": ([1, 2], [0, 1], [2, 3]), "many": [3, 4]}
    through = {"theory of few": ([1, 1.5, 2], [1, 1.4, 2])}
    chart = lines([1, 2], measured, "x", "y", dots=measured, through=through)
    (marks,), (view,) = charted(chart), chart.panels
    few, many, theory = marks
    assert theory["line"] == [[1, 1], [1.5, 1.4], [2, 2]]
    assert theory["colour"] == few["colour"] != many["colour"]
    assert few["wide"] == many["wide"] == 0 < theory["wide"]
    assert theory["r"] < few["r"] < many["r"]  # behind a large dot no interval is seen
    assert view["labels"] == ["few", "many", "theory of few"]


@pytest.mark.parametrize(
    ("ends", "ticks", "wanted"),
    [
        ((0, 1), None, ["0", "0.25", "0.5", "0.75", "1"]),
        ((1, 1e6), (1, 1000, 1e6, 1e7), ["1", "1,000", "1,000,000"]),
        ((0, 2), ((0, "none"), (2, "both")), ["none", "both"]),
    ],
)
def test_an_axis_names_what_lies_on_it(ends, ticks, wanted):
    assert [name for _, name in axis(*ends, ticks=ticks)["ticks"]] == wanted


def test_a_chart_is_shown_as_a_scene_that_nothing_moves():
    still = show(bars("ab", {"p": [0.2, 0.8]}, "share"), "Two bars.")
    data, _ = still._repr_mimebundle_()
    told = data[MIME]
    assert (told["name"], told["moves"], told["called"]) == ("chart", False, "share")
    assert heights(read(told["data"])[0]) == [0.2, 0.8]
    assert data["text/plain"] == "Two bars."
    assert "lablib-explorer" not in still.box._dom_classes


def test_lines_name_the_positions_that_are_asked_for():
    powers, series = [1, 2, 4, 8], {"a": [1, 2, 3, 3.5]}
    for asked, named in ((None, powers), (powers[::3], [1, 8])):
        chart = lines(powers, series, "ranks", "speed-up", logx=True, logy=True, xticks=asked)
        across, up = chart.panels[0]["x"], chart.panels[0]["y"]
        assert across["log"] is up["log"] is True
        assert [value for value, _ in across["ticks"]] == named


def test_a_token_strip_has_its_classes():
    strip = token_strip(["a ", "<b>", "\n"], ["word", "", "word"])
    assert [name for _, name in strip.dress["looks"]] == ["word"]
    assert strip.now["looks"] == [0, -1, 0]
    assert strip.now["notes"] == ["“a␣”: word.", "", "“⏎”: word."]
    assert strip.dress["texts"] == [[" a␣", " <b>", " ⏎"]]
    assert token_strip(["a", "b"], ["", ""], calls=[2]).now["calls"] == [2]
    with pytest.raises(ValueError, match="zip"):
        token_strip(["a", "b"], ["x"])


def drawn():
    """Return a figure, as a student draws it."""
    fig = figure()
    fig.subplots().bar(["a", "b"], [0.5, 0.25])
    return fig


@pytest.fixture
def shown(monkeypatch):
    """Return a function that displays a picture and gives back its outputs: data and metadata."""
    outputs = []

    def display(data, metadata=None, raw=False):
        assert raw
        outputs.append((data, metadata))

    def display_of(picture):
        outputs.clear()
        picture._ipython_display_()
        return outputs

    monkeypatch.setattr(pictures, "display", display)
    return display_of


@pytest.mark.parametrize("caption", ['Two "bars"', "1 < 2 & {3}"])
def test_a_picture_carries_its_alt_text_and_shows_its_caption_below(shown, caption):
    escaped = html.escape(caption)
    below = {"text/html": f'<p class="lablib-caption">{escaped}</p>', "text/plain": caption}
    (data, metadata), (text, _) = shown(show(drawn(), caption))
    assert set(data) == {"image/png", "text/plain", "application/vnd.jupyter.widget-view+json"}
    assert data["text/plain"] == metadata["image/png"]["alt"] == caption
    assert text == below
    (data, _), (text, _) = shown(show("<svg></svg>", caption))
    assert set(data) == {"text/html", "text/plain"}
    expected = f'<div class="lablib-picture" role="img" aria-label="{escaped}"><svg></svg></div>'
    assert data["text/html"].endswith(expected)
    assert text == below


def test_png_is_reproducible_and_of_the_stated_size():
    assert png(drawn()) == png(drawn())
    width, height = (int.from_bytes(png(drawn())[i : i + 4], "big") for i in (16, 20))
    assert (width, height) == (1400, 680)  # two pixels for each of the page
    assert figure(5, 2).get_size_inches().tolist() == [5, 2]


def test_pyplot_is_never_loaded():
    code = "import sys, lablib.course.plots.explorer; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
