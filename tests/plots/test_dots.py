"""Dots lie where the numbers are, their intervals across, and a row has a place for each series."""

from lablib.course.plots.dots import APART, dots

from oracles.drawn import charted


def test_a_row_is_a_dot_on_its_interval_and_the_first_is_on_top():
    chart = dots({"": {"one": (0.5, 0.4, 0.7), "two": (0.1, 0.0, 0.2)}}, "share", rule=0.3)
    (marks,) = charted(chart)
    assert [mark["dot"] for mark in marks if "dot" in mark] == [[0.5, 0], [0.1, -1]]
    assert [mark["line"] for mark in marks if "line" in mark] == [
        [[0.4, 0], [0.7, 0]],
        [[0.0, -1], [0.2, -1]],
    ]
    assert [mark["rule"] for mark in marks if "rule" in mark] == [{"x": 0.3}]
    assert [name for _, name in chart.panels[0]["y"]["ticks"]] == ["one", "two"]
    assert "95 % interval 0.4 to 0.7" in marks[2]["note"]
    assert not chart.keys


def test_series_share_a_row_and_a_second_one_is_a_ring():
    made = {"made": {"a": (1, 0, 2), "b": (3, 2, 4)}, "tried": {"a": (2, 1, 3)}}
    chart = dots(made, "nats", rows=["b", "a"])
    (marks,) = charted(chart)
    found = [(*mark["dot"], mark.get("hollow", False)) for mark in marks if "dot" in mark]
    wanted = [(1, -1 + APART / 2, False), (3, 0, False), (2, -1 - APART / 2, True)]
    assert found == wanted
    assert [name for _, name in chart.keys] == ["made", "tried"]
    low, high = chart.panels[0]["x"]["ends"]
    assert low < 0
    assert high > 4
