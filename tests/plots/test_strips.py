"""Coloured texts: each token has the colour of the chance that it had."""

from lablib.course.plots.strips import LOOKS, sureness, surprise_strip

import pytest


@pytest.mark.parametrize(
    ("probability", "rank"),
    [(1.0, 0), (0.9, 0), (0.899, 1), (0.5, 1), (0.499, 2), (0.01, 2), (0.0099, 3), (0.0, 3)],
)
def test_sureness_has_three_borders(probability, rank):
    assert sureness(probability) == rank
    assert sureness(None) == -1


def test_a_strip_of_surprise_is_coloured_where_the_model_was_asked():
    strip = surprise_strip([" a", " b", " c"], [None, 0.9, 0.0])
    assert strip.now["looks"] == [-1, 0, len(LOOKS) - 1]
    told = ["“b”: the model gave it 0.900.", "“c”: the model gave it 0.000."]
    assert strip.now["notes"][1:] == told
    assert strip.dress["texts"] == [[" a", " b", " c"]]
