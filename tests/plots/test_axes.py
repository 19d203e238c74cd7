"""An axis stays where a chart begins, and nothing may lie beyond it."""

from lablib.course.plots.chart import Chart, ChartExplorer
from lablib.course.plots.charts import axis, bars, panel, show
from lablib.course.plots.explorer import slider

import pytest
from oracles import charts


def test_every_chart_of_the_lessons_is_looked_at():
    assert charts.of_the_lessons() == set(charts.EVERY)


@pytest.mark.parametrize("kind", charts.EVERY, ids=lambda kind: kind.__name__)
def test_no_corner_of_the_controls_has_a_picture_beyond_the_axes(kind):
    explorer = charts.EVERY[kind]()
    for values in [*charts.ends(explorer), *charts.corners(explorer)]:
        assert explorer.frame(**values)[0]["panels"]


class Growing(ChartExplorer):
    """A bar whose axis ends where its first picture needs it, or where it is told to."""

    def __init__(self, most=None):
        self.most = most
        super().__init__(share=slider(2, 0, 9))

    def compute(self, share):
        return share

    def chart(self, data):
        return bars("ab", {"share": [1, data]}, "share", ymax=self.most)

    def caption(self, data):
        return f"It is {data}."


def test_a_picture_that_grows_beyond_its_first_axis_is_refused_where_it_is_seen():
    growing = Growing()
    message = r"y must be in \[0, 2\], the axis of 'share' in every picture, got 5"
    with pytest.raises(ValueError, match=message):
        growing.set(share=5)
    assert "y must be in [0, 2]" in growing._words.value
    assert growing.set(share=1) == "It is 1."
    assert Growing(most=9).set(share=9) == "It is 9."


BEYOND = [
    ({"bar": [0, 1.1, 0, 1]}, "x", 1.1),
    ({"bar": [0, 1, -0.1, 1]}, "y", -0.1),
    ({"line": [[0, 1], [1, 0.5], [2, 0.5]]}, "x", 2),
    ({"line": [[0, 1, 0.5, 1.5]]}, "y", 1.5),
    ({"area": [[0, 0], [0.5, 3]]}, "y", 3),
    ({"dot": [0.5, float("nan")]}, "y", float("nan")),
    ({"text": "a", "at": [-1, 0.5]}, "x", -1),
    ({"rule": {"x": 4}}, "x", 4),
    ({"rule": {"y": 4}}, "y", 4),
]


@pytest.mark.parametrize(("mark", "side", "value"), BEYOND)
def test_each_kind_of_mark_is_looked_at(mark, side, value):
    view = panel("title", axis(0, 1), axis(0, 1))
    with pytest.raises(ValueError, match=rf"^{side} must be in \[0, 1\], .*, got {value:g}$"):
        show(Chart([view], [[mark]]), "A mark.")


def test_marks_may_touch_the_ends_of_an_axis_and_be_rounded():
    view = panel("title", axis(0, 1), axis(0.01, 100, log=True))
    line = {"line": [[0, 0.01], [1 + 1e-9, 100.004]]}
    assert show(Chart([view], [[line]]), "A line.").frame()[1] == "A line."
    for value in (0.0, 0.0099, 101):
        with pytest.raises(ValueError, match=rf"y must be in \[0.01, 100\], .*, got {value:g}"):
            show(Chart([view], [[{"dot": [1, value]}]]), "A dot.")
