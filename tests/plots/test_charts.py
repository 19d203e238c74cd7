"""Charts: they draw what they are given, and colour is never the only signal."""

import html
import subprocess
import sys

from lablib.course.plots import charts
from lablib.course.plots.charts import bars, figure, lines, png, show, token_strip

import numpy as np
import pytest


def test_bars_have_the_heights_and_differ_in_more_than_colour():
    (axes,) = bars(
        ["a", " b"], {"before": [1, 2], "after": [3, 4]}, "share", xlabel="token", ymax=5
    ).axes
    assert [[bar.get_height() for bar in group] for group in axes.containers] == [[1, 2], [3, 4]]
    looks = {(group[0].get_hatch(), group[0].get_facecolor()) for group in axes.containers}
    assert len({hatch for hatch, _ in looks}) == len({colour for _, colour in looks}) == 2
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "␣b"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["before", "after"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_ylim()) == ("token", "share", (0, 5))


def test_one_series_needs_no_legend():
    assert bars("ab", {"p": [0.2, 0.8]}, "p").axes[0].get_legend() is None


def test_lines_have_bands_dashes_and_markers():
    x = [1, 2, 4]
    series = {"theory": [0.1, 0.2, 0.3], "measured": ([0.1, 0.2, 0.4], [0, 0.1, 0.3], [1, 1, 1])}
    (axes,) = lines(x, series, "samples", "accuracy", logx=True).axes
    assert axes.lines[0].get_ydata().tolist() == [0.1, 0.2, 0.3]
    assert len({line.get_linestyle() for line in axes.lines}) == 2
    assert len({line.get_marker() for line in axes.lines}) == 2
    (band,) = axes.collections
    assert band.get_paths()[0].get_extents().ymax == 1
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4"]


def test_a_token_strip_shows_spaces_classes_and_escapes():
    strip = token_strip(["a ", "<b>", "\n"], ["word", "tag", "word"], mark=1)
    for part in ("a␣", "&lt;b&gt;", "⏎", "solid", "dashed", "outline"):
        assert part in strip
    assert strip.count("tag") == 1  # once, in the legend
    assert "<small>" not in token_strip(["a"])
    with pytest.raises(ValueError, match="zip"):
        token_strip(["a", "b"], ["x"])


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

    monkeypatch.setattr(charts, "display", display)
    return display_of


@pytest.mark.parametrize("caption", ['Two "bars"', "1 < 2 & {3}"])
def test_a_picture_carries_its_alt_text_and_shows_its_caption_below(shown, caption):
    escaped = html.escape(caption)
    below = {"text/html": f'<p class="lablib-caption">{escaped}</p>', "text/plain": caption}
    (data, metadata), (text, _) = shown(show(bars("ab", {"p": [1, 2]}, "p"), caption))
    assert set(data) == {"image/png", "text/plain", "application/vnd.jupyter.widget-view+json"}
    assert data["text/plain"] == metadata["image/png"]["alt"] == caption
    assert text == below
    (data, _), (text, _) = shown(show("<svg></svg>", caption))
    assert set(data) == {"text/html", "text/plain"}
    expected = f'<div class="lablib-picture" role="img" aria-label="{escaped}"><svg></svg></div>'
    assert data["text/html"].endswith(expected)
    assert text == below


def test_png_is_reproducible_and_of_the_stated_size():
    def draw():
        return png(bars("ab", {"p": np.array([0.5, 0.25])}, "p"))

    assert draw() == draw()
    width, height = (int.from_bytes(draw()[i : i + 4], "big") for i in (16, 20))
    assert (width, height) == (1400, 680)  # two pixels for each of the page
    assert figure(5, 2).get_size_inches().tolist() == [5, 2]


def test_pyplot_is_never_loaded():
    code = "import sys, lablib.course.plots.explorer; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
