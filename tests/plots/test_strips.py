"""Strips: every token stands where it would in the text, and looks as it should."""

from itertools import pairwise

from lablib.course.plots import strips
from lablib.course.plots.strips import (
    PLAIN,
    SURENESS,
    add_axes,
    canvas,
    draw_strip,
    place,
    sureness,
    surprise_strip,
)

import pytest
from oracles.drawn import boxes, texts


def test_a_strip_keeps_words_together_and_their_pieces_in_contact():
    he, is_, br, own = place(["He", " is", " br", "own"])
    assert [p.line for p in (he, is_, br, own)] == [0, 0, 0, 0]
    assert he.right < is_.left
    assert br.right == own.left
    assert own.column == br.column + 2
    assert own.letters == "own"


def test_a_strip_wraps_whole_words_and_breaks_only_what_no_line_holds():
    tokens = [" " + "x" * 20] * 4 + [" br", "own"] * 12
    places = place(tokens)
    assert max(p.column + len(p.letters) for p in places) <= strips.COLUMNS
    for first, second in pairwise(places):
        if second.letters == "own":
            assert first.line == second.line
    long = place(["y" * 30, "y" * 30, "y" * 30])
    assert [p.line for p in long] == [0, 0, 1]
    assert max(p.column + len(p.letters) for p in long) <= strips.COLUMNS


def test_a_strip_shows_spaces_and_empty_tokens():
    assert [p.letters for p in place([" ", "7", ""])] == ["␣", "7", "∅"]


@pytest.mark.parametrize(
    ("probability", "rank"),
    [(1.0, 0), (0.9, 0), (0.899, 1), (0.5, 1), (0.499, 2), (0.1, 2), (0.099, 3), (0.0, 3)],
)
def test_sureness_has_three_borders(probability, rank):
    assert sureness(probability) is SURENESS[rank]


def test_a_strip_draws_every_token_once_and_its_legend():
    tokens, looks = ["a", " b", " c", " d"], [PLAIN, SURENESS[0], SURENESS[3], SURENESS[0]]
    fig = canvas(strips.height(tokens))
    axes = add_axes(fig, 0, 0, 8, strips.height(tokens))
    draw_strip(axes, tokens, looks, legend=SURENESS, title="t")
    counts = sorted(boxes(axes).values())
    assert counts == [1, 1, 2, 3]  # two fills alone in the legend, 1 + 1, 2 + 1
    assert {" a", "    b  c  d"} <= set(texts(fig))  # grey letters, and letters in boxes


def test_a_strip_of_surprise_is_coloured_where_the_model_was_asked():
    given = surprise_strip([" a", " b"], [None, None])
    asked = surprise_strip([" a", " b"], [0.9, 0.0])
    own = sum(boxes(asked.axes[0]).values()) - sum(boxes(given.axes[0]).values())
    assert own == 2  # the others are the legend's
    assert {look.name for look in SURENESS} <= set(texts(asked))
